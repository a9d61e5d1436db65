// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/arp.h"

#include <gtest/gtest.h>

#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

using test::Bytes;
using test::to_hex;

void expect_arp_checks(const HwAddr& sender) {
  const LinkKind kind = sender.kind();
  const Arp good{ArpOp::kRequest, sender, 0x0a000001, HwAddr::zero(kind), 0x0a000002};
  const Bytes octets = build_arp(good);
  ASSERT_EQ(octets.size(), arp_len(kind));
  const auto parsed = parse_arp(kind, octets);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, good);
  EXPECT_EQ(parsed->sender_hw, sender);
  EXPECT_EQ(parsed->target_hw, HwAddr::zero(kind));
  EXPECT_EQ(parsed->sender_ip, 0x0a000001U);
  EXPECT_EQ(parsed->target_ip, 0x0a000002U);

  for (std::size_t len = 0; len < octets.size(); ++len)
    EXPECT_FALSE(parse_arp(kind, std::span{octets}.first(len))) << len;
  // Each of the eight fixed octets, in turn, has a wrong value. Only the op field has more than one
  // valid value, 1 to 4.
  for (std::size_t i = 0; i < 8; ++i) {
    Bytes bad = octets;
    bad[i] ^= std::byte{0x80};
    EXPECT_FALSE(parse_arp(kind, bad)) << i;
  }
  for (const std::uint16_t op : std::initializer_list<std::uint16_t>{0, 1, 2, 3, 4, 5, 8, 9}) {
    Arp arp = good;
    arp.op = ArpOp{op};
    EXPECT_EQ(parse_arp(kind, build_arp(arp)).has_value(), op >= 1 && op <= 4) << op;
    EXPECT_EQ(arp.is_rarp(), op == 3 || op == 4) << op;
  }
}

TEST(Arp, InfinibandChecks) {
  expect_arp_checks(LinkAddr{0x80, Be24{0x48}, Gid::of(kDefaultGidPrefix, 1)});
}

TEST(Arp, EthernetChecks) {
  expect_arp_checks(parse_mac("02:00:00:00:00:01").value());
}

TEST(Arp, EthernetRecordByOctets) {
  const Arp arp{ArpOp::kReply, parse_mac("02:00:00:00:00:01").value(), 0x0a000001,
                parse_mac("02:00:00:00:00:02").value(), 0x0a000002};
  EXPECT_EQ(to_hex(build_arp(arp)),
            "0001080006040002"
            "0200000000010a000001"
            "0200000000020a000002");
}

TEST(Arp, HardwareTypeTellsTheLinksApart) {
  // The buffer is long enough for both kinds; each parser accepts only its own.
  for (const LinkKind kind : {LinkKind::kInfiniband, LinkKind::kEthernet}) {
    const HwAddr hw = HwAddr::zero(kind);
    Bytes octets = build_arp({ArpOp::kReply, hw, 1, hw, 2});
    octets.resize(64);
    EXPECT_EQ(parse_arp(LinkKind::kInfiniband, octets).has_value(), kind == LinkKind::kInfiniband);
    EXPECT_EQ(parse_arp(LinkKind::kEthernet, octets).has_value(), kind == LinkKind::kEthernet);
  }
}

}  // namespace
}  // namespace ipoib::wire
