// SPDX-License-Identifier: BSD-3-Clause
// Secret numbers, for hash tables and identifiers.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace ipoib {

/// One step of splitmix64: neighbouring seeds give unrelated numbers.
inline std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = (state += 0x9e37'79b9'7f4a'7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return z ^ (z >> 31);
}

/// Returns random bits of the kernel. Throws std::system_error if it has none.
inline std::uint64_t secret_seed() {
  std::uint64_t seed;
  if (getentropy(&seed, sizeof(seed)) != 0)
    throw std::system_error{errno, std::generic_category(), "getentropy"};
  return seed;
}

}  // namespace ipoib
