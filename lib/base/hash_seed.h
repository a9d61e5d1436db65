// SPDX-License-Identifier: BSD-3-Clause
// Secret numbers for hash tables.
#pragma once

#include <cstdint>

namespace ipoib {

/// One step of splitmix64: neighbouring seeds give unrelated numbers.
inline std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = (state += 0x9e37'79b9'7f4a'7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return z ^ (z >> 31);
}

}  // namespace ipoib
