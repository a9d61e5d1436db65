// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/clock.h"

#include <gtest/gtest.h>

namespace ipoib {
namespace {

using namespace std::chrono_literals;

TEST(Earlier, NoneMeansNever) {
  const TimePoint soon{1s};
  const TimePoint late{2s};
  EXPECT_EQ(earlier(soon, late), soon);
  EXPECT_EQ(earlier(late, soon), soon);
  EXPECT_EQ(earlier(soon, soon), soon);
  EXPECT_EQ(earlier(std::nullopt, late), late);
  EXPECT_EQ(earlier(late, std::nullopt), late);
  EXPECT_EQ(earlier(std::nullopt, std::nullopt), std::nullopt);
  // The epoch and the times before it are valid times.
  EXPECT_EQ(earlier(TimePoint{}, soon), TimePoint{});
  EXPECT_EQ(earlier(TimePoint{-1s}, TimePoint{}), TimePoint{-1s});
}

}  // namespace
}  // namespace ipoib
