// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/rc.h"

#include <gtest/gtest.h>

namespace ipoib::wire {
namespace {

TEST(Rc, PsnsWrap) {
  EXPECT_EQ(psn_diff(5, 3), 2);
  EXPECT_EQ(psn_diff(3, 5), -2);
  EXPECT_EQ(psn_diff(0, 0xff'ffff), 1);
  EXPECT_EQ(psn_diff(0xff'fffe, 1), -3);
  EXPECT_EQ(psn_diff(0x80'0000, 0), -0x80'0000) << "half of all: before";
  EXPECT_EQ(psn_diff(0x7f'ffff, 0), 0x7f'ffff);
  EXPECT_EQ(psn_add(0xff'ffff, 1), 0U);
  EXPECT_EQ(psn_add(0, kPsnMask), 0xff'ffffU) << "one back";
}

TEST(Rc, SyndromeKinds) {
  const auto kind = [](unsigned syndrome) {
    return Aeth{static_cast<std::uint8_t>(syndrome), Be24{0}}.kind();
  };
  for (unsigned s = 0; s < 0x20; ++s) EXPECT_EQ(kind(s), Aeth::Kind::kAck) << s;
  for (unsigned s = 0x20; s < 0x40; ++s) EXPECT_EQ(kind(s), Aeth::Kind::kRnrNak) << s;
  for (unsigned s = 0x40; s < 0x60; ++s) EXPECT_EQ(kind(s), Aeth::Kind::kReserved) << s;
  for (unsigned s = 0x60; s < 0x80; ++s) EXPECT_EQ(kind(s), Aeth::Kind::kNak) << s;
  for (unsigned s = 0x80; s < 0x100; ++s) EXPECT_EQ(kind(s), Aeth::Kind::kReserved) << s;
}

TEST(Rc, TimerCodes) {
  EXPECT_EQ(rnr_timer_ns(0), 655'360'000U);
  EXPECT_EQ(rnr_timer_ns(1), 10'000U);
  EXPECT_EQ(rnr_timer_ns(14), 1'280'000U);
  EXPECT_EQ(rnr_timer_ns(25), 61'440'000U);
  EXPECT_EQ(rnr_timer_ns(31), 491'520'000U);
  for (std::uint8_t code = 2; code < 32; ++code)
    EXPECT_GT(rnr_timer_ns(code), rnr_timer_ns(static_cast<std::uint8_t>(code - 1)));
  EXPECT_EQ(ack_timeout_ns(0), 0U);
  EXPECT_EQ(ack_timeout_ns(1), 8192U);
  EXPECT_EQ(ack_timeout_ns(14), 67'108'864U);
}

}  // namespace
}  // namespace ipoib::wire
