// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/id_source.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "lib/base/hash_seed.h"

namespace ipoib {
namespace {

std::vector<std::uint64_t> first_of(IdSource ids, std::size_t n) {
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < n; ++i) numbers.push_back(ids.next());
  return numbers;
}

TEST(IdSource, SeedsMakeOneSequenceEach) {
  EXPECT_EQ(first_of(IdSource{7}, 100), first_of(IdSource{7}, 100));
  EXPECT_NE(first_of(IdSource{7}, 1), first_of(IdSource{8}, 1));
}

/// Differences of successive numbers tell nothing: none appears twice, and each bit of them changes
/// about every second time.
TEST(IdSource, NumbersDoNotFollowFromEachOther) {
  constexpr std::size_t kNumbers = 4096;
  const auto numbers = first_of(IdSource{secret_seed()}, kNumbers);
  std::set<std::uint64_t> steps;
  std::array<std::uint64_t, 64> changes{};
  for (std::size_t i = 1; i < kNumbers; ++i) {
    EXPECT_TRUE(steps.insert(numbers[i] - numbers[i - 1]).second);
    for (unsigned bit = 0; bit < 64; ++bit)
      changes[bit] += (numbers[i] ^ numbers[i - 1]) >> bit & 1;
  }
  for (const std::uint64_t n : changes) {
    EXPECT_GE(n, kNumbers / 2 - 6 * 32);  // six sigma
    EXPECT_LE(n, kNumbers / 2 + 6 * 32);
  }
}

TEST(IdSource, UsedIdsAndZeroAreNotReturned) {
  IdSource ids{3};
  std::set<std::uint8_t> used;
  for (int i = 0; i < 255; ++i) {
    const auto id =
        ids.next_unused<std::uint8_t>([&](std::uint8_t n) { return used.count(n) != 0; });
    EXPECT_NE(id, 0);
    EXPECT_TRUE(used.insert(id).second);
  }
}

TEST(IdSource, SecretSeedsDiffer) {
  EXPECT_NE(secret_seed(), secret_seed());
}

}  // namespace
}  // namespace ipoib
