// SPDX-License-Identifier: BSD-3-Clause
// Properties of resilient hashing, over random histories of paths that die and return.
#include "lib/route/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ipoib::route {
namespace {

std::vector<std::size_t> paths_of(const Buckets& buckets) {
  std::vector<std::size_t> paths;
  for (std::size_t i = 0; i < buckets.size(); ++i) paths.push_back(buckets.path_of(i));
  return paths;
}

void expect_equal_shares(const Buckets& buckets, const std::vector<bool>& alive) {
  std::vector<std::size_t> shares(alive.size());
  for (const std::size_t path : paths_of(buckets)) ++shares.at(path);
  std::size_t least = buckets.size(), most = 0;
  for (std::size_t p = 0; p < alive.size(); ++p) {
    if (!alive[p]) {
      EXPECT_EQ(shares[p], 0U) << "path " << p << " is dead";
      continue;
    }
    least = std::min(least, shares[p]);
    most = std::max(most, shares[p]);
  }
  EXPECT_LE(most, least + 1);
}

TEST(Buckets, LivingPathsHaveEqualSharesAndFlowsMoveNoMoreThanTheyMust) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const std::size_t paths = 2 + random() % 63;
    Buckets buckets{paths, 1024};
    std::vector<bool> alive(paths, true);
    expect_equal_shares(buckets, alive);
    for (int step = 0; step < 30; ++step) {
      const std::size_t p = random() % paths;
      const auto before = paths_of(buckets);
      alive[p] = !alive[p];
      const auto living = static_cast<std::size_t>(std::ranges::count(alive, true));
      buckets.deal(alive);
      const auto after = paths_of(buckets);
      if (living == 0) {
        EXPECT_EQ(after, before) << "the last one is still tried";
        continue;
      }
      expect_equal_shares(buckets, alive);
      std::size_t moved = 0;
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i] == after[i]) continue;
        ++moved;
        if (alive[p]) {
          EXPECT_TRUE(after[i] == p || living == 1) << "nobody moves but to the path that is back";
        } else {
          EXPECT_EQ(before[i], p) << "no flow on a living path moves";
        }
      }
      if (alive[p] && living > 1) {
        EXPECT_LE(moved, 1024 / living + 1);
      }
    }
  }
}

TEST(Buckets, AfterAnOutageOfOnePathFlowsAreWhereTheyWere) {
  for (const std::size_t paths : {2U, 4U, 8U, 16U}) {
    Buckets buckets{paths, 256};
    const auto before = paths_of(buckets);
    for (std::size_t p = 0; p < paths; ++p) {
      std::vector<bool> alive(paths, true);
      alive[p] = false;
      EXPECT_TRUE(buckets.deal(alive));
      alive[p] = true;
      EXPECT_TRUE(buckets.deal(alive));
      EXPECT_EQ(paths_of(buckets), before) << p << " of " << paths;
      EXPECT_FALSE(buckets.deal(alive));
    }
  }
}

}  // namespace
}  // namespace ipoib::route
