// SPDX-License-Identifier: BSD-3-Clause
// Declarations for all fuzz targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

/// Called with one input at a time. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ipoib::test {

/// Prints the place of the call and aborts if the property does not hold. libFuzzer keeps the input.
inline void require(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: the property does not hold\n", file, line);
  std::abort();
}

inline std::span<const std::byte> input(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span{data, size});
}

}  // namespace ipoib::test
