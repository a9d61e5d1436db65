// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/hw_addr.h"

#include <gtest/gtest.h>

#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

const Gid kGid = Gid::of(kDefaultGidPrefix, 1);
const LinkAddr kLink{0, Be24{0x48}, kGid};
const MacAddr kMac{std::byte{2}, {}, {}, {}, {}, std::byte{1}};

TEST(HwAddr, KeepsTheAddressOfEitherKind) {
  const HwAddr mac = kMac;
  EXPECT_EQ(mac.kind(), LinkKind::kEthernet);
  EXPECT_EQ(mac.mac(), kMac);
  EXPECT_EQ(test::to_hex(mac.octets()), "020000000001");
  EXPECT_EQ(to_string(mac), to_string(kMac));
  const HwAddr link = kLink;
  EXPECT_EQ(link.kind(), LinkKind::kInfiniband);
  EXPECT_EQ(link.link_addr(), kLink);
  EXPECT_EQ(test::to_hex(link.octets()), test::to_hex(bytes_of(kLink)));
  EXPECT_EQ(to_string(link), to_string(kLink));
  EXPECT_NE(link, mac);
}

TEST(HwAddr, IsReadFromEnoughOctets) {
  const auto octets = bytes_of(kLink);
  EXPECT_EQ(HwAddr::read(LinkKind::kInfiniband, octets), HwAddr{kLink});
  EXPECT_FALSE(HwAddr::read(LinkKind::kInfiniband, octets.first(19)));
  // Only as many octets as the kind has count.
  EXPECT_EQ(HwAddr::read(LinkKind::kEthernet, octets),
            HwAddr::read(LinkKind::kEthernet, octets.first(6)));
  EXPECT_FALSE(HwAddr::read(LinkKind::kEthernet, octets.first(5)));
}

TEST(HwAddr, FlagsAreNoPartOfTheInterface) {
  LinkAddr flags = kLink, qpn = kLink, port = kLink;
  flags.flags = LinkAddr::kFlagRc;
  qpn.qpn = Be24{0x49};
  port.gid = Gid::of(kDefaultGidPrefix, 2);
  EXPECT_NE(HwAddr{kLink}, HwAddr{flags});
  EXPECT_TRUE(HwAddr{kLink}.same_interface(flags));
  EXPECT_FALSE(HwAddr{kLink}.same_interface(qpn));
  EXPECT_FALSE(HwAddr{kLink}.same_interface(port));
  EXPECT_TRUE(HwAddr{kLink}.same_port(qpn));
  EXPECT_FALSE(HwAddr{kLink}.same_port(port));
}

TEST(HwAddr, MacsAreComparedAsAWhole) {
  MacAddr first = kMac, last = kMac;
  first[0] = std::byte{4};
  last[5] = std::byte{2};
  EXPECT_TRUE(HwAddr{kMac}.same_interface(kMac));
  EXPECT_TRUE(HwAddr{kMac}.same_port(kMac));
  for (const MacAddr& other : {first, last}) {
    EXPECT_FALSE(HwAddr{kMac}.same_interface(other));
    EXPECT_FALSE(HwAddr{kMac}.same_port(other));
  }
  EXPECT_FALSE(
      HwAddr::zero(LinkKind::kEthernet).same_interface(HwAddr::zero(LinkKind::kInfiniband)));
}

TEST(HwAddr, PlausibleIsASingleInterface) {
  EXPECT_TRUE(HwAddr{kMac}.is_plausible());
  EXPECT_TRUE(HwAddr{kLink}.is_plausible());
  for (const char* bad : {"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01"})
    EXPECT_FALSE(HwAddr{parse_mac(bad).value()}.is_plausible()) << bad;
  for (const std::uint32_t qpn : {0U, 1U, kMulticastQpn})
    EXPECT_FALSE((HwAddr{LinkAddr{0, Be24{qpn}, kGid}}.is_plausible())) << qpn;
  for (const Gid& gid : {Gid{}, broadcast_mgid(kDefaultPkey, 2)})
    EXPECT_FALSE((HwAddr{LinkAddr{0, Be24{0x48}, gid}}.is_plausible())) << to_string(gid);
}

}  // namespace
}  // namespace ipoib::wire
