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
    Buckets buckets{std::vector<std::uint32_t>(paths, 1), 1024};
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
    Buckets buckets{std::vector<std::uint32_t>(paths, 1), 256};
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

// No path has more buckets for its weight than another would have with one more.
void expect_fair_shares(const Buckets& buckets, const std::vector<std::uint32_t>& weights,
                        const std::vector<bool>& alive) {
  std::vector<std::size_t> shares(alive.size());
  for (const std::size_t path : paths_of(buckets)) ++shares.at(path);
  for (std::size_t p = 0; p < alive.size(); ++p) {
    if (!alive[p]) {
      EXPECT_EQ(shares[p], 0U) << "path " << p << " is dead";
    }
    for (std::size_t q = 0; q < alive.size(); ++q)
      if (alive[p] && alive[q]) {
        EXPECT_LE(shares[p] * weights[q], (shares[q] + 1) * weights[p]);
      }
  }
}

TEST(Buckets, P17_SharesFollowTheWeightsAndNoMoreFlowsMoveThanMust) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const std::size_t paths = 2 + random() % 15;
    std::vector<std::uint32_t> weights;
    for (std::size_t p = 0; p < paths; ++p)
      weights.push_back(1 + static_cast<std::uint32_t>(random()) % 256);
    Buckets buckets{weights, 1024};
    std::vector<bool> alive(paths, true);
    expect_fair_shares(buckets, weights, alive);
    for (int step = 0; step < 20; ++step) {
      const std::size_t p = random() % paths;
      const auto before = paths_of(buckets);
      alive[p] = !alive[p];
      const bool none = std::ranges::count(alive, true) == 0;
      buckets.deal(alive);
      const auto after = paths_of(buckets);
      if (none) {
        EXPECT_EQ(after, before);
        continue;
      }
      expect_fair_shares(buckets, weights, alive);
      if (std::ranges::count(alive, true) == 1) continue;
      for (std::size_t i = 0; i < before.size(); ++i)
        if (before[i] != after[i]) {
          EXPECT_EQ(alive[p] ? after[i] : before[i], p) << "flows of other paths stay";
        }
    }
  }
}

TEST(Buckets, P17_AWeightIsAShare) {
  const Buckets buckets{{3, 1}, 64};
  EXPECT_EQ(std::ranges::count(paths_of(buckets), 0U), 48);
  EXPECT_EQ(std::ranges::count(paths_of(Buckets{{1, 256}, 64}), 0U), 0) << "less than one bucket";
}

// Path 1 goes, and path 3 is new: only the flows of path 1, and the share of path 3, move.
TEST(Buckets, P17_AGroupWithOtherPathsTakesTheFlowsOfTheSamePathsOver) {
  const Buckets old{{1, 1, 1}, 64};
  Buckets fewer{{1, 1}, 64};
  fewer.take_over(old, {0, 99, 1});
  fewer.deal({true, true});
  for (std::size_t i = 0; i < 64; ++i)
    if (old.path_of(i) != 1) {
      EXPECT_EQ(fewer.path_of(i), old.path_of(i) == 0 ? 0U : 1U) << i;
    }
  Buckets more{{1, 1, 1, 1, 1}, 128};  // twice as many buckets
  more.take_over(old, {0, 1, 2});
  more.deal({true, true, true, true, true});
  std::size_t moved = 0;
  for (std::size_t i = 0; i < 128; ++i) {
    if (more.path_of(i) == old.path_of(i / 2)) continue;
    ++moved;
    EXPECT_GE(more.path_of(i), 3U) << "flows move to new paths only";
  }
  EXPECT_LE(moved, 2U * 128 / 5 + 2);
}

}  // namespace
}  // namespace ipoib::route
