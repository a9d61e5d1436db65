// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp_limiter.h"

#include <gtest/gtest.h>

namespace ipoib::route {
namespace {

using wire::IpAddr;

const IpAddr kHost4 = *wire::parse_ip("192.168.1.2");
const IpAddr kHost6 = *wire::parse_ip("fd00::2");

TEST(IcmpLimiter, BoundsErrorsInAllAndPerHost) {
  IcmpLimiter limiter;
  const TimePoint start{std::chrono::seconds(1)};
  int one_host = 0;
  for (int i = 0; i < 1000; ++i) one_host += limiter.allow(kHost4, start) ? 1 : 0;
  EXPECT_EQ(one_host, 10);
  int all = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i)
    all += limiter.allow(IpAddr::v4(i * 7919), start) ? 1 : 0;
  EXPECT_EQ(all, 90) << "the burst of all less what the one host took";
  EXPECT_TRUE(limiter.allow(kHost4, start + std::chrono::milliseconds(10)));
}

TEST(IcmpLimiter, P05_LimitsOneNodeAndAll) {
  IcmpLimiter limiter;
  TimePoint now{std::chrono::seconds(10)};
  int allowed = 0;
  for (int i = 0; i < 50; ++i) allowed += limiter.allow(kHost6, now) ? 1 : 0;
  EXPECT_EQ(allowed, 10);
  IpAddr a = kHost6;
  for (int i = 0; i < 1000; ++i) {
    a.bytes[15] = static_cast<std::byte>(i);
    a.bytes[14] = static_cast<std::byte>(i >> 8);
    allowed += limiter.allow(a, now) ? 1 : 0;
  }
  EXPECT_EQ(allowed, 100);
  now += std::chrono::milliseconds(10);
  EXPECT_TRUE(limiter.allow(kHost6, now));
}

}  // namespace
}  // namespace ipoib::route
