// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp_limiter.h"

#include <gtest/gtest.h>

namespace ipoib::route {
namespace {

using wire::IpAddr;

const IpAddr kHost4 = *wire::parse_ip("192.168.1.2");
const IpAddr kHost6 = *wire::parse_ip("fd00::2");

TEST(IcmpLimiter, BoundsErrorsInAllAndPerHost) {
  IcmpLimiter limiter{1};
  const TimePoint start{std::chrono::seconds(1)};
  int one_host = 0;
  for (int i = 0; i < 1000; ++i)
    one_host += limiter.allow(kHost4, IcmpBudget::kOther, start) ? 1 : 0;
  EXPECT_EQ(one_host, 10);
  int all = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i)
    all += limiter.allow(IpAddr::v4(i * 7919), IcmpBudget::kOther, start) ? 1 : 0;
  EXPECT_EQ(all, 90) << "the burst of all less what the one host took";
  EXPECT_TRUE(limiter.allow(kHost4, IcmpBudget::kOther, start + std::chrono::milliseconds(10)));
}

TEST(IcmpLimiter, P05_LimitsOneNodeAndAll) {
  IcmpLimiter limiter{1};
  TimePoint now{std::chrono::seconds(10)};
  int allowed = 0;
  for (int i = 0; i < 50; ++i) allowed += limiter.allow(kHost6, IcmpBudget::kOther, now) ? 1 : 0;
  EXPECT_EQ(allowed, 10);
  IpAddr a = kHost6;
  for (int i = 0; i < 1000; ++i) {
    a.bytes[15] = static_cast<std::byte>(i);
    a.bytes[14] = static_cast<std::byte>(i >> 8);
    allowed += limiter.allow(a, IcmpBudget::kOther, now) ? 1 : 0;
  }
  EXPECT_EQ(allowed, 100);
  now += std::chrono::milliseconds(10);
  EXPECT_TRUE(limiter.allow(kHost6, IcmpBudget::kOther, now));
}

// A flood of packets with TTL 1 from random sources uses up the rate of most errors, but path MTU
// discovery goes on: "too big" has its own, of the whole node and of the host.
TEST(IcmpLimiter, P05_OtherErrorsLeaveTheBudgetOfTooBig) {
  IcmpLimiter limiter{1};
  const TimePoint now{std::chrono::seconds(10)};
  while (limiter.allow(kHost4, IcmpBudget::kOther, now)) {
  }
  for (std::uint32_t i = 0; i < 100'000; ++i)
    static_cast<void>(limiter.allow(IpAddr::v4(i * 7919), IcmpBudget::kOther, now));
  EXPECT_TRUE(limiter.allow(kHost4, IcmpBudget::kTooBig, now));
  int too_big = 1;
  for (int i = 0; i < 1000; ++i) too_big += limiter.allow(kHost4, IcmpBudget::kTooBig, now) ? 1 : 0;
  EXPECT_EQ(too_big, 10) << "it is limited too";
}

TEST(IcmpLimiter, TooBigIsKnownByTheVersionOfThePacket) {
  EXPECT_EQ(budget_of(wire::unreachable4(wire::IcmpUnreachable::kFragmentationNeeded, 1500), true),
            IcmpBudget::kTooBig);
  EXPECT_EQ(budget_of(wire::packet_too_big(1500), false), IcmpBudget::kTooBig);
  for (const auto& error : {wire::kTtlExceeded, wire::unreachable4(wire::IcmpUnreachable::kHost)})
    EXPECT_EQ(budget_of(error, true), IcmpBudget::kOther);
  for (const auto& error :
       {wire::kHopLimitExceeded, wire::unreachable6(wire::Icmp6Unreachable::kPort)})
    EXPECT_EQ(budget_of(error, false), IcmpBudget::kOther);
}

}  // namespace
}  // namespace ipoib::route
