// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/idle.h"

#include <gtest/gtest.h>

namespace ipoib::fwd {
namespace {

TEST(Idle, SleepsLongerTheLongerNothingComes) {
  EXPECT_EQ(Idle::sleep_ns(0), 0U);
  EXPECT_EQ(Idle::sleep_ns(16), 0U) << "polls on for a while";
  std::uint32_t last = 1;
  for (std::uint32_t n = 17; n < 1000; ++n) {
    EXPECT_GE(Idle::sleep_ns(n), last);
    last = Idle::sleep_ns(n);
  }
  EXPECT_EQ(last, 50'000U);
  EXPECT_EQ(Idle::sleep_ns(0xffff'ffff), 50'000U);
}

}  // namespace
}  // namespace ipoib::fwd
