// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/rate_limiter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ipoib {
namespace {

using namespace std::chrono_literals;

int allowed(RateLimiter& limiter, TimePoint now, int events) {
  int n = 0;
  for (int i = 0; i < events; ++i) n += limiter.allow(now) ? 1 : 0;
  return n;
}

TEST(RateLimiter, BurstThenOneEveryInterval) {
  RateLimiter limiter{100ms, 5};
  TimePoint now{1h};
  EXPECT_EQ(allowed(limiter, now, 20), 5);
  EXPECT_EQ(allowed(limiter, now + 99ms, 20), 0);
  EXPECT_EQ(allowed(limiter, now + 100ms, 20), 1);
  EXPECT_EQ(allowed(limiter, now + 350ms, 20), 2);
  EXPECT_EQ(allowed(limiter, now + 400ms, 20), 1);
  // Even the longest silence allows no more events than the burst.
  EXPECT_EQ(allowed(limiter, now + 24h, 20), 5);
}

TEST(RateLimiter, StartsFullAtAnyTime) {
  for (const TimePoint start : {TimePoint{}, TimePoint{1ns}, TimePoint{-1h}, TimePoint{87600h}}) {
    RateLimiter limiter{1s, 3};
    EXPECT_EQ(allowed(limiter, start, 10), 3) << start.time_since_epoch().count();
  }
}

TEST(RateLimiter, NoBurstLetsNothingThrough) {
  RateLimiter limiter{1ms, 0};
  EXPECT_EQ(allowed(limiter, TimePoint{1h}, 10), 0);
  EXPECT_EQ(allowed(limiter, TimePoint{2h}, 10), 0);
}

TEST(RateLimiter, NoWindowHoldsMoreThanItsShare) {
  constexpr Duration kInterval = 10ms;
  constexpr int kBurst = 4;
  RateLimiter limiter{kInterval, kBurst};
  std::mt19937 random{1};
  std::vector<TimePoint> passed;
  TimePoint now{};
  for (int i = 0; i < 5000; ++i) {
    now += std::chrono::microseconds{random() % 8000};
    if (limiter.allow(now)) passed.push_back(now);
  }
  // Events come more than twice as often as the limiter allows, so only the limiter holds them
  // back.
  const auto fair = static_cast<std::size_t>(now.time_since_epoch() / kInterval);
  EXPECT_GE(passed.size() + 1, fair);
  for (std::size_t first = 0; first < passed.size(); ++first)
    for (std::size_t last = first; last < std::min(first + 50, passed.size()); ++last)
      ASSERT_LE(static_cast<std::int64_t>(last - first + 1),
                kBurst + (passed[last] - passed[first]) / kInterval + 1);
}

}  // namespace
}  // namespace ipoib
