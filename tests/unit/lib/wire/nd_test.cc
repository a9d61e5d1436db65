// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/nd.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/addresses.h"
#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

using ipoib::test::ip;
using test::Bytes;

constexpr std::uint64_t kGuid = 0x0002'c903'00a1'b204;
const LinkAddr kHw{0, Be24{0x48}, Gid::of(kDefaultGidPrefix, kGuid)};

NdMessage solicitation() {
  NdMessage m;
  m.src = ip("fe80::1");
  m.dst = ip("ff02::1:ff00:2");
  m.target = ip("fe80::2");
  m.source_hw = kHw;
  return m;
}

NdMessage advertisement() {
  NdMessage m;
  m.type = Icmp6Type::kNeighbourAdvertisement;
  m.src = m.target = ip("fd00::1");
  m.dst = ip("fd00::2");
  m.router = m.solicited = m.override_it = true;
  m.target_hw = kHw;
  return m;
}

NdMessage router_advertisement() {
  NdMessage m;
  m.type = Icmp6Type::kRouterAdvertisement;
  m.src = ip("fe80::1");
  m.dst = all_nodes();
  m.hop_limit = 64;
  m.flags = 0x40;
  m.lifetime_s = 1800;
  m.reachable_ms = 30000;
  m.retransmit_ms = 1000;
  m.source_hw = kHw;
  m.mtu = 2044;
  m.prefixes = {{{ip("fd00:1::"), 64}, true, true, 2592000, 604800},
                {{ip("fd00:2::"), 48}, true, false, 1, 0}};
  return m;
}

NdMessage redirect() {
  NdMessage m;
  m.type = Icmp6Type::kRedirect;
  m.src = ip("fe80::1");
  m.dst = ip("fd00::7");
  m.target = ip("fe80::9");
  m.destination = ip("fd00:9::1");
  m.target_hw = kHw;
  m.redirected = Bytes(48, std::byte{0x5a});
  return m;
}

/// Updates the checksum of a packet that was changed.
void sum_again(Bytes& packet) {
  const auto ip6 = *read<Ipv6Hdr>(packet);
  packet[42] = packet[43] = std::byte{0};
  const Be16 sum{icmp6_checksum(ip6.src, ip6.dst, std::span{packet}.subspan(40))};
  std::memcpy(packet.data() + 42, &sum, 2);
}

NdError error_of(const Bytes& packet) {
  const auto m = parse_nd(LinkKind::kInfiniband, packet);
  return m ? NdError::kCount : m.error();
}
NdError error_of(const NdMessage& m) {
  return error_of(build_nd(m));
}

TEST(Nd, U25_SolicitationOfTheVector) {
  const auto frames = test::load_vectors("frames-generated.json").at("frames");
  for (const auto& frame : frames) {
    if (frame.at("name") != "ud-ipv6-ns") continue;
    const auto whole = test::octets(frame.at("hex"));
    const Bytes packet{whole.begin() + 72, whole.end() - 6};  // LRH GRH BTH DETH IPoIB; CRCs
    const auto m = parse_nd(LinkKind::kInfiniband, packet);
    ASSERT_TRUE(m) << to_string(m.error());
    EXPECT_EQ(m->type, Icmp6Type::kNeighbourSolicitation);
    EXPECT_EQ(to_string(m->src), "fe80::202:c903:a1:b204");
    EXPECT_EQ(to_string(m->target), "fe80::202:c903:a1:b207");
    EXPECT_EQ(m->dst, solicited_node(m->target));
    ASSERT_TRUE(m->source_hw);
    EXPECT_EQ(m->source_hw->link_addr().qpn.host(), 0x48U);
    EXPECT_EQ(m->source_hw->link_addr().flags, 0xc0);
    EXPECT_EQ(build_nd(*m), packet);
    return;
  }
  FAIL() << "vector not found";
}

TEST(Nd, U25_LinkLayerOptionOfThreeUnitsMatchesTheVectors) {
  const auto addressing = test::load_vectors("addressing.json");
  for (const auto& c : addressing.at("lladdr")) {
    auto m = solicitation();
    m.source_hw = HwAddr::read(LinkKind::kInfiniband, test::octets(c.at("hex")));
    const auto packet = build_nd(m);
    ASSERT_EQ(packet.size(), 40U + 24 + 24);
    EXPECT_EQ(test::to_hex(std::span{packet}.subspan(64)), c.at("nd_option_source"));
    EXPECT_EQ(parse_nd(LinkKind::kInfiniband, packet)->source_hw, m.source_hw);
  }
}

TEST(Nd, EthernetOptionIsOneUnit) {
  NdMessage m;
  m.src = ip("fe80::1");
  m.dst = m.target = ip("fe80::2");
  m.source_hw = MacAddr{std::byte{2}, {}, {}, {}, {}, std::byte{9}};
  const auto packet = build_nd(m);
  ASSERT_EQ(packet.size(), 40U + 24 + 8);
  EXPECT_EQ(test::to_hex(std::span{packet}.subspan(64)), "0101020000000009");
  EXPECT_EQ(*parse_nd(LinkKind::kEthernet, packet), m);
  EXPECT_EQ(parse_nd(LinkKind::kInfiniband, packet).error(), NdError::kLinkAddr);
}

TEST(Nd, U25_EveryMessageComesBackAsItWent) {
  for (const auto& m : {solicitation(), advertisement(), router_advertisement(), redirect()}) {
    const auto back = parse_nd(LinkKind::kInfiniband, build_nd(m));
    ASSERT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(*back, m);
  }
  auto dad = solicitation();
  dad.src = {};
  dad.source_hw.reset();
  dad.nonce = NdNonce{std::byte{1}, std::byte{2}, std::byte{3}};
  EXPECT_EQ(*parse_nd(LinkKind::kInfiniband, build_nd(dad)), dad);
  NdMessage rs;
  rs.type = Icmp6Type::kRouterSolicitation;
  rs.src = ip("fe80::1");
  rs.dst = all_routers();
  rs.source_hw = kHw;
  EXPECT_EQ(*parse_nd(LinkKind::kInfiniband, build_nd(rs)), rs);
}

TEST(Nd, EveryShorterBeginningIsRefused) {
  for (const auto& m : {solicitation(), advertisement(), router_advertisement(), redirect()}) {
    const auto whole = build_nd(m);
    for (std::size_t len = 0; len < whole.size(); ++len) {
      const Bytes part{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(len)};
      EXPECT_EQ(error_of(part), NdError::kTruncated) << len;
    }
    auto padded = whole;  // as short Ethernet frames are
    padded.resize(padded.size() + 17);
    EXPECT_TRUE(parse_nd(LinkKind::kInfiniband, padded));
  }
}

TEST(Nd, WrongHeadersAreNamed) {
  struct Row {
    std::size_t at;
    int value;
    NdError error;
  };
  for (const auto& [at, value, error] :
       {Row{0, 0x40, NdError::kNotNd}, Row{6, 17, NdError::kNotNd}, Row{7, 254, NdError::kHopLimit},
        Row{40, 128, NdError::kNotNd}, Row{41, 1, NdError::kCode}}) {
    auto packet = build_nd(solicitation());
    packet[at] = static_cast<std::byte>(value);
    if (at >= 40) sum_again(packet);
    EXPECT_EQ(error_of(packet), error) << at;
  }
  auto packet = build_nd(solicitation());
  packet[63] ^= std::byte{1};
  EXPECT_EQ(error_of(packet), NdError::kChecksum);
}

TEST(Nd, WrongOptionsAreNamed) {
  for (const int units : {0, 1, 2, 4, 255}) {
    auto packet = build_nd(solicitation());
    packet[65] = static_cast<std::byte>(units);
    sum_again(packet);
    const auto wanted = units == 1 || units == 2 ? NdError::kLinkAddr : NdError::kOptionLength;
    EXPECT_EQ(error_of(packet), wanted) << units;
  }
  // Seven octets behind the last option are too few for another option.
  auto packet = build_nd(solicitation());
  packet.push_back(std::byte{14});
  packet[5] = static_cast<std::byte>(packet.size() - 40);
  sum_again(packet);
  EXPECT_EQ(error_of(packet), NdError::kOptionLength);
  // The parser skips an unknown option.
  packet = build_nd(solicitation());
  packet[64] = std::byte{200};
  sum_again(packet);
  const auto m = parse_nd(LinkKind::kInfiniband, packet);
  ASSERT_TRUE(m);
  EXPECT_FALSE(m->source_hw);
}

TEST(Nd, WrongAddressesAreNamed) {
  constexpr auto kNone = NdError::kCount;
  struct Row {
    const char* what;
    NdMessage (*message)();
    void (*change)(NdMessage&);
    NdError error;
  };
  const Row rows[] = {
      {"group as target", solicitation, [](auto& m) { m.target = ip("ff02::1"); },
       NdError::kTarget},
      {"source option without source", solicitation, [](auto& m) { m.src = {}; },
       NdError::kLinkAddr},
      {"IPv4 address as target", solicitation, [](auto& m) { m.target = ip("10.0.0.1"); },
       NdError::kTarget},
      {"IPv4 address as source", solicitation, [](auto& m) { m.src = ip("10.0.0.1"); },
       NdError::kSource},
      {"loopback as source", solicitation, [](auto& m) { m.src = ip("::1"); }, NdError::kSource},
      {"of an IPv4 address", advertisement, [](auto& m) { m.target = ip("10.0.0.1"); },
       NdError::kTarget},
      {"detection", solicitation, [](auto& m) { m.src = {}, m.source_hw.reset(); }, kNone},
      {"detection by unicast", solicitation,
       [](auto& m) { m.src = {}, m.source_hw.reset(), m.dst = m.target; }, NdError::kDestination},
      {"group as source", solicitation, [](auto& m) { m.src = all_nodes(); }, NdError::kSource},
      {"solicited, to all", advertisement, [](auto& m) { m.dst = all_nodes(); },
       NdError::kDestination},
      {"to all", advertisement, [](auto& m) { m.dst = all_nodes(), m.solicited = false; }, kNone},
      {"of a group", advertisement, [](auto& m) { m.target = all_nodes(); }, NdError::kTarget},
      {"router's global source", router_advertisement, [](auto& m) { m.src = ip("fd00::1"); },
       NdError::kSource},
      {"redirect's global source", redirect, [](auto& m) { m.src = ip("fd00::1"); },
       NdError::kSource},
      {"to a global hop", redirect, [](auto& m) { m.target = ip("fd00::9"); }, NdError::kTarget},
      {"to itself", redirect, [](auto& m) { m.destination = m.target = ip("fd00::9"); }, kNone},
      {"of an IPv4 address", redirect, [](auto& m) { m.destination = m.target = ip("10.0.0.1"); },
       NdError::kDestination},
      {"of a group", redirect,
       [](auto& m) { m.target = ip("fd00::9"), m.destination = all_nodes(); },
       NdError::kDestination},
  };
  for (const Row& row : rows) {
    NdMessage m = row.message();
    row.change(m);
    EXPECT_EQ(error_of(m), row.error) << row.what;
  }
}

TEST(Nd, RedirectQuotesWhatFitsTheSmallestMtu) {
  Bytes offending(2000);
  const Ipv6Hdr hdr{Be32{Ipv6Hdr::kVersion6}, Be16{1960}, 17, 64, ip("fd00::7"), ip("fd00:9::1")};
  std::memcpy(offending.data(), &hdr, sizeof hdr);
  const auto packet =
      make_redirect(LinkKind::kInfiniband, ip("fe80::1"), offending, ip("fe80::9"), HwAddr{kHw});
  ASSERT_TRUE(packet);
  EXPECT_LE(packet->size(), 1280U);
  EXPECT_GT(packet->size(), 1272U);
  const auto m = parse_nd(LinkKind::kInfiniband, *packet);
  ASSERT_TRUE(m) << to_string(m.error());
  EXPECT_EQ(m->dst, hdr.src);
  EXPECT_EQ(m->destination, hdr.dst);
  EXPECT_EQ(m->target_hw, kHw);
  EXPECT_TRUE(std::equal(m->redirected.begin(), m->redirected.end(), offending.begin()));

  auto multicast = offending;
  std::memcpy(multicast.data() + 24, all_nodes().bytes.data(), 16);
  EXPECT_FALSE(
      make_redirect(LinkKind::kInfiniband, ip("fe80::1"), multicast, ip("fe80::9"), std::nullopt));
  EXPECT_FALSE(make_redirect(LinkKind::kInfiniband, ip("fe80::1"), std::span{offending}.first(39),
                             ip("fe80::9"), std::nullopt));
}

TEST(Icmp6, GroupsOfAnAddress) {
  EXPECT_EQ(to_string(solicited_node(ip("fd00::12:3456:789a"))), "ff02::1:ff56:789a");
  EXPECT_EQ(to_string(all_nodes()), "ff02::1");
  EXPECT_EQ(to_string(all_routers()), "ff02::2");
}

}  // namespace
}  // namespace ipoib::wire
