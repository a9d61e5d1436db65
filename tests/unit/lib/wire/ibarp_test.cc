// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ibarp.h"

#include <gtest/gtest.h>

#include "lib/wire/arp.h"
#include "lib/wire/nd.h"
#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

using test::Bytes;
using test::to_hex;
using test::unhex;

const Gid kIbarpGid = Gid::of(kDefaultGidPrefix, 0x0002c903000a0b01);
const IbarpAddr kIbarp{Be64{0x0002c903000a0b01}, 0, Be24{0x48}, Be32{0x80010b1b}, kIbarpGid};
constexpr std::string_view kIbarpHex =
    "0002c903000a0b01"
    "00000048"
    "80010b1b"
    "fe800000000000000002c903000a0b01";
/// The address with the first word of its GID twice.
constexpr std::string_view kIbarpTwiceHex =
    "0002c903000a0b01"
    "00000048"
    "80010b1b"
    "fe800000fe800000000000000002c903000a0b01";

LinkFormat twice_format() {
  LinkFormat format = LinkKind::kIbarp;
  format.gid_word_twice = true;
  return format;
}

TEST(Ibarp, E01_ReservedOctetsComeFirst) {
  const IbarpHdr hdr{{}, Be16{0x0800}};
  EXPECT_EQ(to_hex(bytes_of(hdr)), "00000800");
}

TEST(Ibarp, E03_AddressHas32Octets) {
  EXPECT_EQ(to_hex(bytes_of(kIbarp)), kIbarpHex);
  const HwAddr hw = kIbarp;
  EXPECT_EQ(hw.kind(), LinkKind::kIbarp);
  EXPECT_EQ(hw.ibarp_addr(), kIbarp);
  EXPECT_EQ(to_hex(hw.octets()), kIbarpHex);
  EXPECT_EQ(parse_ibarp_addr(to_string(hw)), kIbarp);
  EXPECT_FALSE(parse_ibarp_addr("00:00"));
  const DatagramAddr to = hw.datagram_addr();
  EXPECT_EQ(to.qpn, 0x48U);
  EXPECT_EQ(to.qkey, 0x80010b1bU);
  EXPECT_EQ(to.gid, kIbarpGid);
}

// The peer may use another Q_Key at one port, and each needs its own address handle.
TEST(Ibarp, E03_QkeyIsPartOfThePath) {
  IbarpAddr qkey = kIbarp, qpn = kIbarp, reserved = kIbarp;
  qkey.qkey.set(1);
  qpn.qpn.set(0x49);
  reserved.reserved = 1;
  const HwAddr hw = kIbarp;
  EXPECT_FALSE(hw.same_port(qkey));
  EXPECT_FALSE(hw.same_interface(qkey));
  EXPECT_TRUE(hw.same_port(qpn));
  EXPECT_FALSE(hw.same_interface(qpn));
  EXPECT_TRUE(hw.same_interface(reserved));
  EXPECT_FALSE(hw.same_interface(LinkAddr{0, Be24{0x48}, kIbarpGid}));
}

TEST(Ibarp, E03_PlausibleAddressesHaveAUnicastQpnAndGid) {
  EXPECT_TRUE(HwAddr{kIbarp}.is_plausible());
  EXPECT_FALSE(HwAddr::zero(LinkKind::kIbarp).is_plausible());
  IbarpAddr bad = kIbarp;
  bad.qpn.set(kMulticastQpn);
  EXPECT_FALSE(HwAddr{bad}.is_plausible());
  bad = kIbarp;
  bad.gid.bytes[0] = std::byte{0xff};
  EXPECT_FALSE(HwAddr{bad}.is_plausible());
}

TEST(Ibarp, E03_RequestByOctets) {
  const Arp request{ArpOp::kRequest, kIbarp, 0x0a000001, HwAddr::zero(LinkKind::kIbarp),
                    0x0a000002};
  const std::string head = "0020080020040001", zeros(64, '0');
  EXPECT_EQ(to_hex(build_arp(request)),
            head + std::string{kIbarpHex} + "0a000001" + zeros + "0a000002");
  const Bytes octets = build_arp(request, twice_format());
  // With the encapsulation header these are the 92 octets of the draft.
  EXPECT_EQ(sizeof(IbarpHdr) + octets.size(), 92U);
  EXPECT_EQ(to_hex(octets),
            head + std::string{kIbarpTwiceHex} + "0a000001" + zeros + "00000000" + "0a000002");
  EXPECT_EQ(parse_arp(twice_format(), octets), request);
  EXPECT_EQ(parse_arp(LinkKind::kIbarp, build_arp(request)), request);
}

// The target of a reply is the host that was looked for, as the table of the draft has it.
TEST(Ibarp, E03_ReplyKeepsTheOrderOfItsRequest) {
  IbarpAddr asker = kIbarp;
  asker.qpn.set(0x50);
  const Arp reply{ArpOp::kReply, kIbarp, 0x0a000002, asker, 0x0a000001};
  const Bytes octets = build_arp(reply);
  EXPECT_EQ(to_hex(octets), "0020080020040002" + to_hex(bytes_of(asker)) + "0a000001" +
                                std::string{kIbarpHex} + "0a000002");
  EXPECT_EQ(parse_arp(LinkKind::kIbarp, octets), reply);
  LinkFormat as_in_rfc826 = LinkKind::kIbarp;
  as_in_rfc826.reply_keeps_order = false;
  EXPECT_EQ(parse_arp(as_in_rfc826, build_arp(reply, as_in_rfc826)), reply);
  EXPECT_EQ(parse_arp(as_in_rfc826, octets)->sender_ip, 0x0a000001U);
}

TEST(Ibarp, E03_RefusesTruncatedAndForeignRecords) {
  for (const LinkFormat& format : {LinkFormat{LinkKind::kIbarp}, twice_format()}) {
    const Bytes octets = build_arp({ArpOp::kReply, kIbarp, 1, kIbarp, 2}, format);
    ASSERT_EQ(octets.size(), arp_len(format));
    for (std::size_t len = 0; len < octets.size(); ++len)
      EXPECT_FALSE(parse_arp(format, std::span{octets}.first(len))) << len;
    EXPECT_FALSE(parse_arp(LinkKind::kInfiniband, octets));
    for (std::size_t i = 0; i < 8; ++i) {
      Bytes bad = octets;
      bad[i] ^= std::byte{0x80};
      EXPECT_FALSE(parse_arp(format, bad)) << i;
    }
  }
}

TEST(Ibarp, HardwareTypeIsThatOfTheFormat) {
  LinkFormat format = LinkKind::kIbarp;
  format.arp_hardware = 0x7f01;
  const Bytes octets = build_arp({ArpOp::kRequest, kIbarp, 1, kIbarp, 2}, format);
  EXPECT_EQ(to_hex(std::span{octets}.first(2)), "7f01");
  EXPECT_TRUE(parse_arp(format, octets));
  EXPECT_FALSE(parse_arp(LinkKind::kIbarp, octets));
}

NdMessage ibarp_solicitation() {
  NdMessage m;
  m.src = IpAddr{Gid::of(kDefaultGidPrefix, 1).bytes};
  m.target = IpAddr{Gid::of(kDefaultGidPrefix, 2).bytes};
  m.dst = solicited_node(m.target);
  m.source_hw = HwAddr{kIbarp};
  return m;
}

TEST(Ibarp, E05_OptionHasFiveUnits) {
  const std::size_t at = sizeof(Ipv6Hdr) + 24;
  const Bytes once = build_nd(ibarp_solicitation());
  ASSERT_EQ(once.size(), at + 40);
  EXPECT_EQ(to_hex(std::span{once}.subspan(at)), "01050000" + std::string{kIbarpHex} + "00000000");
  const Bytes again = build_nd(ibarp_solicitation(), twice_format());
  EXPECT_EQ(to_hex(std::span{again}.subspan(at)), "01050000" + std::string{kIbarpTwiceHex});
  EXPECT_EQ(*parse_nd(LinkKind::kIbarp, once), ibarp_solicitation());
  EXPECT_EQ(*parse_nd(twice_format(), again), ibarp_solicitation());
  // Options of another dialect are of another length.
  EXPECT_EQ(parse_nd(LinkKind::kInfiniband, once).error(), NdError::kLinkAddr);
}

// Read in the other form, the octets would be the address of another host, or of no host.
TEST(Ibarp, E05_OptionOfTheOtherFormIsRefused) {
  const Bytes once = build_nd(ibarp_solicitation());
  const Bytes again = build_nd(ibarp_solicitation(), twice_format());
  EXPECT_EQ(parse_nd(twice_format(), once).error(), NdError::kLinkAddr);
  EXPECT_EQ(parse_nd(LinkKind::kIbarp, again).error(), NdError::kLinkAddr);
  // A GID that begins with two equal words differs from a repeated one in the padding.
  NdMessage m = ibarp_solicitation();
  IbarpAddr equal_words = kIbarp;
  equal_words.gid = Gid::of(0xfe80'0000'fe80'0000, 7);
  m.source_hw = HwAddr{equal_words};
  EXPECT_EQ(*parse_nd(LinkKind::kIbarp, build_nd(m)), m);
  EXPECT_EQ(*parse_nd(twice_format(), build_nd(m, twice_format())), m);
}

TEST(Ibarp, E05_RedirectFitsTheSmallestMtu) {
  const Bytes offending = [] {
    NdMessage m = ibarp_solicitation();
    m.dst = m.target;
    Bytes packet = build_nd(m);
    packet.resize(1500);
    return packet;
  }();
  const auto redirect = make_redirect(LinkKind::kIbarp, ibarp_solicitation().target, offending,
                                      ibarp_solicitation().src, HwAddr{kIbarp});
  ASSERT_TRUE(redirect);
  EXPECT_LE(redirect->size(), kMinIpv6Mtu);
  EXPECT_EQ(parse_nd(LinkKind::kIbarp, *redirect)->target_hw, HwAddr{kIbarp});
}

/// A row of the vectors.
IbarpBroadcast broadcast_of(const nlohmann::json& row) {
  IbarpBroadcast b;
  b.sl = static_cast<std::uint8_t>(test::number(row["sl"]));
  b.tclass = static_cast<std::uint8_t>(test::number(row["tclass"]));
  b.mlid = static_cast<std::uint16_t>(test::number(row["dlid"]));
  b.hop_limit = static_cast<std::uint8_t>(test::number(row["hop_limit"]));
  b.flow_label = static_cast<std::uint32_t>(test::number(row["flow_label"]));
  b.pkey = static_cast<std::uint16_t>(test::number(row["pkey"]));
  b.qkey = static_cast<std::uint32_t>(test::number(row["qkey"]));
  b.mgid = parse_gid(row["dgid"].get<std::string>()).value();
  return b;
}

TEST(Ibarp, E02_PrivateDataMatchesTheVectors) {
  const auto vectors = test::load_vectors("addressing.json");
  const auto& rows = vectors.at("sidr_ibarp_private_data");
  ASSERT_FALSE(rows.empty());
  for (const auto& row : rows) {
    const std::string hex = row["hex"];
    Bytes octets = unhex(hex);
    EXPECT_EQ(to_hex(build_ibarp_broadcast(broadcast_of(row))), hex);
    EXPECT_EQ(*parse_ibarp_broadcast(octets), broadcast_of(row));
    // The reserved fields and the rest of the private data do not count.
    octets[5] |= std::byte{0xf0};
    octets[8] = octets[9] = std::byte{0xff};
    octets.resize(136, std::byte{0xee});
    EXPECT_EQ(*parse_ibarp_broadcast(octets), broadcast_of(row));
  }
}

TEST(Ibarp, E02_BadPrivateDataHasANamedReason) {
  const Bytes good = unhex(
      "1000c000000000000000ffff00000b1b"
      "ff12401bffff000000000000ffffffff");
  ASSERT_TRUE(parse_ibarp_broadcast(good));
  struct Row {
    std::size_t at;
    std::uint8_t octet;
    IbarpError error;
  };
  for (const Row& row : {Row{0, 0x20, IbarpError::kVersion}, Row{0, 0x00, IbarpError::kVersion},
                         Row{2, 0xbf, IbarpError::kDlid}, Row{2, 0x00, IbarpError::kDlid},
                         Row{16, 0xfe, IbarpError::kDgid}}) {
    Bytes bad = good;
    bad[row.at] = static_cast<std::byte>(row.octet);
    EXPECT_EQ(parse_ibarp_broadcast(bad).error(), row.error) << row.at;
  }
  Bytes bad = good;
  bad[10] = std::byte{0x80};
  bad[11] = std::byte{0};
  EXPECT_EQ(parse_ibarp_broadcast(bad).error(), IbarpError::kPkey);
  for (std::size_t len = 0; len < good.size(); ++len)
    EXPECT_EQ(parse_ibarp_broadcast(std::span{good}.first(len)).error(), IbarpError::kTruncated);
  for (std::size_t i = 0; i < kIbarpErrorCount; ++i)
    EXPECT_NE(to_string(static_cast<IbarpError>(i)), "unknown");
}

}  // namespace
}  // namespace ipoib::wire
