// SPDX-License-Identifier: BSD-3-Clause
// What every fuzz target needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

/// Called with one input at a time; returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ipoib::test {

/// A property that must hold for every input: libFuzzer keeps the input for which it does not.
inline void require(bool holds) {
  if (!holds) std::abort();
}

inline std::span<const std::byte> input(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span{data, size});
}

}  // namespace ipoib::test
