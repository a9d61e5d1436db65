// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp.h"

#include <gtest/gtest.h>

#include <vector>

namespace ipoib::route {
namespace {

using wire::IpAddr;

const IpAddr kOwn4 = *wire::parse_ip("192.168.1.1"), kOwn6 = *wire::parse_ip("fd00::1");

/// Returns a UDP packet from a host to this node.
std::vector<std::byte> udp(const IpAddr& own) {
  std::vector<std::byte> packet(own.is_v4() ? 28 : 48);
  if (own.is_v4()) {
    const wire::Ipv4Hdr ip{0x45,
                           0,
                           wire::Be16{28},
                           {},
                           {},
                           64,
                           17,
                           {},
                           wire::Be32{0xc0a8'0102},
                           wire::Be32{own.v4_host()}};
    EXPECT_TRUE(wire::write(packet, 0, ip));
  } else {
    EXPECT_TRUE(wire::write(packet, 0,
                            wire::Ipv6Hdr{wire::Be32{wire::Ipv6Hdr::kVersion6}, wire::Be16{8}, 17,
                                          64, *wire::parse_ip("fd00::2"), own}));
  }
  return packet;
}

TEST(Icmp, EachVersionHasItsErrors) {
  const auto error4 = icmp_error(udp(kOwn4), {3, 1, 0}, kOwn4);
  ASSERT_TRUE(error4);
  EXPECT_EQ((*error4)[0], std::byte{0x45});
  EXPECT_EQ((*error4)[20], std::byte{3});
  const auto error6 = icmp_error(udp(kOwn6), {1, 3, 0}, kOwn6);
  ASSERT_TRUE(error6);
  EXPECT_EQ((*error6)[0], std::byte{0x60});
  EXPECT_EQ((*error6)[40], std::byte{1});
  EXPECT_FALSE(icmp_error(udp(kOwn4), {3, 1, 0}, kOwn6));
  EXPECT_FALSE(icmp_error(udp(kOwn6), {1, 3, 0}, kOwn4));
}

TEST(Icmp, EachVersionHasItsAnswers) {
  auto packet4 = udp(kOwn4), packet6 = udp(kOwn6);
  EXPECT_EQ(answer_local(packet4, kOwn4), (LocalAnswer{LocalVerdict::kError, {3, 3, 0}}));
  EXPECT_EQ(answer_local(packet6, kOwn6), (LocalAnswer{LocalVerdict::kError, {1, 4, 0}}));
}

}  // namespace
}  // namespace ipoib::route
