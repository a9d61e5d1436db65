// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/keyed_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace ipoib {
namespace {

/// The values are those of other implementations: CPython with PYTHONHASHSEED=0, and the input of
/// the vectors of Rust's library.
TEST(KeyedHash, IsSipHash13) {
  std::array<std::uint8_t, 16> octets;
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ((KeyedHash{0, 0}(octets)), 0x8972'1884'33a5'c5b7U);
  EXPECT_EQ((KeyedHash{0x0706'0504'0302'0100, 0x0f0e'0d0c'0b0a'0908}(octets)),
            0xcc4f'dd1a'7d90'8b66U);
}

TEST(KeyedHash, P16_TheSeedDecidesOnTheOrderOfBuckets) {
  const auto order = [](std::uint64_t seed) {
    std::unordered_set<std::uint64_t, KeyedHash> set{0, KeyedHash{seed}};
    for (std::uint64_t i = 0; i < 100; ++i) set.insert(i);
    return std::vector(set.begin(), set.end());
  };
  EXPECT_EQ(order(1), order(1)) << "simulations repeat";
  EXPECT_NE(order(1), order(2));
}

}  // namespace
}  // namespace ipoib
