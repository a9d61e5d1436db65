// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/number_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace ipoib::route {
namespace {

TEST(NumberRanges, SinglesComeFromTheLowEndAndRunsFromTheHighEnd) {
  NumberRanges free{1, 99};
  EXPECT_EQ(free.take(1), 1U);
  EXPECT_EQ(free.take(10), 90U);
  EXPECT_EQ(free.take(1), 2U);
  EXPECT_EQ(free.take(10), 80U);
  EXPECT_FALSE(free.take(78));
  EXPECT_EQ(free.take(77), 3U);
  EXPECT_FALSE(free.take(1));
}

TEST(NumberRanges, NeighbouringRunsBecomeOneAgain) {
  NumberRanges free{0, 30};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(free.take(10));
  free.put_back(0, 10);
  free.put_back(20, 10);
  EXPECT_FALSE(free.take(11));
  free.put_back(10, 10);
  EXPECT_EQ(free.take(30), 0U);
}

TEST(NumberRanges, NoNumberIsGivenTwiceAndNoneIsLost) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random{seed};
    NumberRanges free{1, 1000};
    std::vector<bool> used(1001, false);
    std::vector<std::pair<std::uint32_t, std::size_t>> taken;
    for (int step = 0; step < 2000; ++step) {
      const std::size_t n = random() % 3 == 0 ? 64 : 1;
      if (random() % 2 == 0) {
        const auto first = free.take(n);
        if (!first) continue;
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_FALSE(used.at(*first + i));
          used[*first + i] = true;
        }
        taken.emplace_back(*first, n);
      } else if (!taken.empty()) {
        const std::size_t which = random() % taken.size();
        const auto [first, len] = taken[which];
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
        for (std::size_t i = 0; i < len; ++i) used[first + i] = false;
        free.put_back(first, len);
      }
    }
    for (const auto& [first, len] : taken) free.put_back(first, len);
    EXPECT_EQ(free.take(1000), 1U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ipoib::route
