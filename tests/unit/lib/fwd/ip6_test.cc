// SPDX-License-Identifier: BSD-3-Clause
// IPv6 through the worker: ip6_input, ip6_local, ip_route, ip_output.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using msg::Up;

Bytes frame6(const Bytes& ip) {
  return ethernet(mac(0xa0), mac(0x10), 0x86dd, ip);
}
Bytes frame6(const Ip6& packet) {
  return frame6(packet.bytes());
}
Bytes link6(const Bytes& ip) {
  return encapsulated(0x86dd, ip);
}
/// Returns a frame to the Ethernet address of an IPv6 group.
Bytes group_frame6(const Ip6& packet) {
  return ethernet({std::byte{0x33}, std::byte{0x33}}, mac(0x10), 0x86dd, packet.bytes());
}
Ip6 nd(std::uint8_t type, std::size_t len = 40) {
  return {.src = "fe80::10",
          .dst = "fe80::a0",
          .hop_limit = 255,
          .body = icmp6(type, len),
          .next_header = 58};
}

class Ip6Test : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
    set_neighbour(0, eth_neighbour(kEth0, "fd00:1::10", mac(0x10)));
    set_neighbour(2, ib_neighbour(kIb0, "fd00:a::2", 7, 0xabcdef));
    set_delivery(kEth0, "fe80::a0", true, 0);
    set_delivery(kIb0, "fe80::b0", true, 0);
    loop();
  }
  using WorkerFixture::feed;
  void feed(const Ip6& packet) { feed(kEth0, frame6(packet)); }
  /// Expects exactly one drop, under `reason`, and no packet sent or punted.
  void expect_dropped(const Ip6& packet, Drop reason, std::string_view what) {
    const auto before = drops(kEth0, reason);
    const auto all_before = all_drops();
    feed(packet);
    EXPECT_EQ(drops(kEth0, reason), before + 1) << what << ": " << drop_name(reason);
    EXPECT_EQ(all_drops(), all_before + 1) << what;
    EXPECT_TRUE(punted().empty()) << what;
    EXPECT_TRUE(sent_by_link(kIb0).empty()) << what;
  }
  /// Expects one message to management, and returns it.
  Punted expect_up(Up::Kind kind, const Ip6& packet, std::string_view what = {}) {
    Punted p = only_punted(what);
    EXPECT_EQ(p.message.kind, kind) << what;
    EXPECT_EQ(p.bytes, packet.bytes()) << what;
    return p;
  }
};

/// An extension header of 8 octets: its type, and octets 2 to 7.
struct Extension6 {
  std::uint8_t type;
  std::initializer_list<std::uint8_t> body = {};
};
Ip6 extended(std::initializer_list<Extension6> headers, std::uint8_t last = 17) {
  Ip6 packet{.next_header = last};
  for (auto it = std::rbegin(headers); it != std::rend(headers); ++it) {
    Bytes header(8);
    header[0] = std::byte{packet.next_header};
    std::ranges::transform(it->body, header.begin() + 2,
                           [](std::uint8_t o) { return std::byte{o}; });
    packet.body.insert(packet.body.begin(), header.begin(), header.end());
    packet.next_header = it->type;
  }
  return packet;
}
struct Next6 {
  static constexpr std::uint8_t kHop = 0, kRouting = 43, kFragment = 44, kDestination = 60;
};

TEST_F(Ip6Test, P05_ExtensionHeadersPassAsTheyCame) {
  const std::vector<Ip6> packets = {
      extended({{Next6::kHop}}),
      extended({{Next6::kDestination}}),
      extended({{135}}),
      extended({{139}}),
      extended({{140}}),
      extended({}, 50),
      extended({{Next6::kHop},
                {Next6::kDestination},
                {Next6::kRouting, {2, 1}},
                {Next6::kFragment, {0, 1}}}),
      extended({{Next6::kRouting, {4, 1}}}),
      extended({{Next6::kRouting, {253, 1}}}),
      extended({{Next6::kRouting, {254, 1}}}),
      extended({{Next6::kFragment, {0, 8}}}, 253),
      extended({{Next6::kHop}, {60}, {60}, {60}, {60}, {60}, {60}, {60}, {60}, {60}}),
      {.body = Bytes(7), .next_header = Next6::kDestination},
      {.body = Bytes(8, std::byte{200}), .next_header = Next6::kDestination},
  };
  for (const Ip6& packet : packets) {
    feed(packet);
    EXPECT_EQ(only_sent_by_link(kIb0).bytes, link6(forwarded(packet))) << &packet - packets.data();
  }
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Ip6Test, P05_ExtensionHeadersAreDroppedByType) {
  for (const std::uint8_t type : std::initializer_list<std::uint8_t>{0, 1, 3}) {
    expect_dropped(extended({{Next6::kRouting, {type, 1}}}), Drop::kIp6Extension, "routing header");
    expect_dropped(extended({{Next6::kHop}, {Next6::kFragment, {0, 1}}, {Next6::kRouting, {type}}}),
                   Drop::kIp6Extension, "routing header behind others");
  }
  expect_dropped(extended({}, 253), Drop::kIp6Extension, "for experiments");
  expect_dropped(extended({{Next6::kDestination}}, 254), Drop::kIp6Extension, "for experiments");
  Ip6 group = extended({{Next6::kRouting, {0, 1}}});
  group.dst = "ff0e::1";
  feed(kEth0, group_frame6(group));
  EXPECT_EQ(drops(kEth0, Drop::kIp6Extension), 9U);
}

TEST_F(Ip6Test, P05_U12_ForwardsBetweenEthernetAndIpoib) {
  const Ip6 there{.flow = 0xabcde};
  receive(kEth0, frame6(there));
  const Ip6 back{.src = "fd00:a::2", .dst = "fd00:1::10"};
  feed(kIb0, link6(back.bytes()));
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes, link6(forwarded(there)));
  EXPECT_EQ(sent.to.ah, 7U);
  EXPECT_EQ(sent.to.qpn, 0xabcdefU);
  EXPECT_EQ(sent_by_port(kEth0), Frames{ethernet(mac(0x10), mac(0xa0), 0x86dd, forwarded(back))});
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Ip6Test, U13_TakesPacketsWithAndWithoutGrh) {
  const Ip6 packet{.src = "fd00:a::2", .dst = "fd00:1::10"};
  receive(kIb0, link6(packet.bytes()));
  rte_mbuf* const m = mbuf(link6(packet.bytes()));
  receive(kIb0, m);
  fabric::meta_of(m).rx.grh_offset = 60;
  loop();
  EXPECT_EQ(sent_by_port(kEth0).size(), 2U);
}

TEST_F(Ip6Test, P05_CutsPaddingOff) {
  const Ip6 packet{.body = Bytes(1)};
  Bytes padded = packet.bytes();
  padded.resize(60);
  receive(kEth0, frame6(padded));
  receive(kEth0, mbuf(frame6(padded), {60, 14}));
  loop();
  const auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 2U);
  for (const SentOnLink& s : sent) EXPECT_EQ(s.bytes, link6(forwarded(packet)));
}

TEST_F(Ip6Test, P05_DropsMalformedPacketsByNamedReason) {
  expect_dropped({.version = 4}, Drop::kIpVersion, "version 4");
  expect_dropped({.payload_len = 27}, Drop::kIp6PayloadLength, "beyond the packet");
  expect_dropped({.next_header = 0, .payload_len = 0}, Drop::kIp6PayloadLength, "jumbogram");
  feed({.body = {}, .next_header = 59});
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << "nothing behind the header is fine";
}

TEST_F(Ip6Test, P05_DropsAddressesThatNoWireMayCarry) {
  const std::vector<std::tuple<const char*, const char*, Drop>> rows = {
      {"::", "fd00:a::2", Drop::kIpMartianSource},
      {"::1", "fd00:a::2", Drop::kIpMartianSource},
      {"ff02::1", "fd00:a::2", Drop::kIpMartianSource},
      {"::10.0.0.1", "fd00:a::2", Drop::kIpMartianSource},
      {"fd00:1::10", "::", Drop::kIpMartianDestination},
      {"fd00:1::10", "::1", Drop::kIpMartianDestination},
      {"fd00:1::10", "::10.0.0.1", Drop::kIpMartianDestination},
      {"fd00:1::10", "ff01::1", Drop::kIpMartianDestination},
      {"fd00:1::10", "ff00::1", Drop::kIpMartianDestination},
      {"fd00:1::10", "fe80::77", Drop::kIp6Scope},
      {"fe80::10", "fe80::77", Drop::kIp6Scope},
      {"::", "fd00:1::1", Drop::kIpMartianSource},
  };
  for (const auto& [src, dst, reason] : rows)
    expect_dropped({.src = src, .dst = dst}, reason, std::string{src} + " to " + dst);
}

/// A look-up of ::ffff:10.0.0.2 would find the IPv4 neighbour.
TEST_F(Ip6Test, P05_MappedAddressesAreNotForwarded) {
  add_route("::/0", {table::NextHopKind::kConnected, 0, kIb0, table::kNoNeighbour});
  set_neighbour(3, ib_neighbour(kIb0, "10.0.0.2", 7, 1));
  for (const bool source : {false, true}) {
    Bytes bytes = Ip6{}.bytes();
    const wire::IpAddr mapped = wire::IpAddr::v4(0x0a00'0002);
    std::memcpy(&bytes[source ? offsetof(wire::Ipv6Hdr, src) : offsetof(wire::Ipv6Hdr, dst)],
                &mapped, sizeof(mapped));
    feed(kEth0, frame6(bytes));
    EXPECT_EQ(drops(kEth0, source ? Drop::kIpMartianSource : Drop::kIpMartianDestination), 1U);
  }
  EXPECT_TRUE(sent_by_link(kIb0).empty());
}

TEST_F(Ip6Test, P05_LinkLocalSourcesDoNotLeaveTheirLink) {
  const Ip6 packet{.src = "fe80::10"};
  feed(packet);
  const Punted p = expect_up(Up::Kind::kIcmpError, packet);
  EXPECT_EQ(p.message.icmp_type, 1);
  EXPECT_EQ(p.message.icmp_code, 2);
  expect_drop(kEth0, Drop::kIp6Scope);
  EXPECT_TRUE(sent_by_link(kIb0).empty());
}

TEST_F(Ip6Test, P05_OwnAddressesGoUp) {
  for (const auto& [src, dst] : {std::pair{"fd00:1::10", "fd00:1::1"},
                                 {"fd00:1::10", "fd00:a::1"},
                                 {"fe80::10", "fd00:1::1"},
                                 {"fe80::10", "fe80::a0"}}) {
    const Ip6 packet{.src = src, .dst = dst};
    feed(packet);
    const Punted p = expect_up(Up::Kind::kLocal, packet, dst);
    EXPECT_EQ(p.message.iface, kEth0);
    EXPECT_EQ(p.rx.iface, kEth0);
    EXPECT_FALSE(p.rx.multicast);
  }
  expect_dropped({.dst = "fe80::b0"}, Drop::kIp6Scope, "link-local of another link");
  feed(kIb0, link6(Ip6{.src = "fe80::2", .dst = "fe80::b0"}.bytes()));
  EXPECT_EQ(only_punted().rx.slid, 9) << "as the device wrote it";
}

TEST_F(Ip6Test, U18_NeighbourDiscoveryGoesUpApart) {
  for (std::uint8_t type = 133; type <= 137; ++type) {
    feed(nd(type));
    expect_up(Up::Kind::kNd, nd(type), std::to_string(type));
    Ip6 options = nd(type);
    options.next_header = 0;
    options.body = behind_router_alert(options.body);
    feed(options);
    expect_up(Up::Kind::kNd, options, "behind hop-by-hop options");
  }
  for (const std::uint8_t type : std::initializer_list<std::uint8_t>{128, 132, 138}) {
    feed(nd(type));
    expect_up(Up::Kind::kLocal, nd(type), std::to_string(type));
  }
  Ip6 done = nd(132);
  done.next_header = 0;
  done.body = behind_router_alert(done.body);
  feed(done);
  expect_up(Up::Kind::kMembership, done, "listener discovery as it is sent");
  // Solicitations also arrive for an own global address, and, in duplicate address detection, from
  // the unspecified address to a group.
  Ip6 probe = nd(135);
  probe.src = "fd00:1::10", probe.dst = "fd00:1::1";
  feed(probe);
  expect_up(Up::Kind::kNd, probe);
  set_delivery(kEth0, "ff02::1:ff00:a0", true, 0);
  Ip6 duplicate = nd(135);
  duplicate.src = "::", duplicate.dst = "ff02::1:ff00:a0";
  feed(kEth0, group_frame6(duplicate));
  EXPECT_TRUE(expect_up(Up::Kind::kNd, duplicate).rx.multicast);
  EXPECT_EQ(all_drops(), 0U);
}

// Management receives messages of another node that claims one of our addresses, because it defends
// the address. All other packets from own addresses are dropped.
TEST_F(Ip6Test, P05_OwnSourcesAreMartianButForClaimsOfTheAddress) {
  set_delivery(kEth0, "fe80::a0", true, 0);
  set_delivery(kEth0, "ff02::1", true, 0);
  set_delivery(kEth0, "ff0e::123", false, 4);
  const Bytes claim = icmp6(136);
  unsigned claims = 0;
  for (const char* src : {"fd00:1::1", "fe80::a0"})
    for (const char* dst : {"ff02::1", "fe80::a0"}) {
      receive(
          kEth0,
          ethernet(mac(0xa0), mac(0x10), 0x86dd,
                   Ip6{.src = src, .dst = dst, .hop_limit = 255, .body = claim, .next_header = 58}
                       .bytes()));
      ++claims;
    }
  loop();
  const auto messages = punted();
  EXPECT_EQ(messages.size(), claims);
  for (const Punted& p : messages) EXPECT_EQ(p.message.kind, msg::Up::Kind::kNd);
  EXPECT_EQ(all_drops(), 0U);

  std::uint64_t martians = 0;
  for (const Ip6& ip :
       {Ip6{.src = "fd00:1::1"}, Ip6{.src = "fd00:a::1"},
        Ip6{.src = "fd00:1::1", .dst = "fd00:1::1"}, Ip6{.src = "fe80::a0", .dst = "fe80::a0"},
        Ip6{.src = "fd00:1::1", .dst = "ff0e::123"},
        Ip6{.src = "fd00:1::1", .hop_limit = 255, .body = claim, .next_header = 58},
        Ip6{.src = "fd00:1::1",
        .dst = "ff0e::123",
        .hop_limit = 255,
        .body = claim,
        .next_header = 58},
        Ip6{.src = "fd00:a::1",
        .dst = "ff02::1",
        .hop_limit = 255,
        .body = claim,
        .next_header = 58}}) {
    feed(ip);
    EXPECT_EQ(drops(kEth0, Drop::kIpMartianSource), ++martians) << ip.src << " to " << ip.dst;
  }
  EXPECT_TRUE(punted().empty());
  EXPECT_TRUE(sent_by_link(kIb0).empty());
}

TEST_F(Ip6Test, P05_OwnAddressesThatAreNotInUseAreMartianSources) {
  add_route("fd00:1::d/128", {table::NextHopKind::kLocalDown, 0, kEth0, table::kNoNeighbour});
  add_route("fd00:a::d/128", {table::NextHopKind::kLocalDown, 0, kIb0, table::kNoNeighbour});
  for (const char* src : {"fd00:1::d", "fd00:a::d"}) {
    expect_dropped({.src = src}, Drop::kIpMartianSource, src);
    expect_dropped({.src = src, .dst = "fd00:1::1"}, Drop::kIpMartianSource, src);
  }
  // Management decides to which host the address belongs.
  set_delivery(kEth0, "ff02::1", true, 0);
  const Ip6 claim{.src = "fd00:1::d",
                  .dst = "ff02::1",
                  .hop_limit = 255,
                  .body = icmp6(136),
                  .next_header = 58};
  feed(kEth0, group_frame6(claim));
  expect_up(Up::Kind::kNd, claim, "a claim of the address");
  // A tentative address: its interface is up.
  expect_dropped({.dst = "fd00:a::d"}, Drop::kLocalUnsupported, "tentative");
  EXPECT_TRUE(punted().empty());
  entries[kIb0].up = false;
  feed({.dst = "fd00:a::d"});
  EXPECT_EQ(only_punted().message.kind, Up::Kind::kIcmpError);
  EXPECT_EQ(drops(kEth0, Drop::kLinkDown), 1U);
}

TEST_F(Ip6Test, U18_NeighbourDiscoveryFromElsewhereIsDropped) {
  Ip6 far = nd(135);
  far.hop_limit = 254;
  expect_dropped(far, Drop::kNdInvalid, "hop limit");
  const std::vector<std::pair<std::uint8_t, std::size_t>> short_ones = {
      {133, 7}, {134, 15}, {135, 23}, {136, 23}, {137, 39}};
  for (const auto& [type, len] : short_ones) {
    expect_dropped(nd(type, len), Drop::kNdInvalid, "too short");
    feed(nd(type, len + 1));
    expect_up(Up::Kind::kNd, nd(type, len + 1));
  }
  Ip6 unspecified = nd(128);
  unspecified.src = "::";
  expect_dropped(unspecified, Drop::kIpMartianSource, "echo from nobody");
}

TEST_F(Ip6Test, U18_SegmentedNeighbourDiscoveryBecomesOneSegment) {
  const Bytes frame = frame6(nd(135));
  feed(kEth0, mbuf(frame, {14 + 40 + 2, frame.size() - 56}));
  expect_up(Up::Kind::kNd, nd(135));
}

TEST_F(Ip6Test, P05_StoppedForwardingLeavesNeighbourDiscoveryAlone) {
  settings.forwarding = false;
  feed(nd(135));
  expect_up(Up::Kind::kNd, nd(135));
  expect_dropped({}, Drop::kForwardingStopped, "transit");
  expect_dropped({.dst = "fd00:1::1"}, Drop::kForwardingStopped, "local");
  Ip6 transit = nd(135);
  transit.src = "fd00:1::10", transit.dst = "fd00:a::2";
  expect_dropped(transit, Drop::kForwardingStopped, "ND for somebody else");
}

// If other interfaces share the subnet, a host may be anywhere.
TEST_F(Ip6Test, P24_SolicitationsForAnyHostGoUpOnSharedSubnets) {
  Ip6 question = nd(135);
  question.src = "fd00:1::10";
  question.dst = "ff02::1:ff00:77";
  Ip6 probe = nd(135);  // RFC 4861 §7.3: to the host alone, at this node's MAC address
  probe.src = "fe80::10";
  probe.dst = "fd00:a::2";
  feed(kEth0, group_frame6(question));
  feed(kEth0, frame6(probe));
  for (const Punted& p : punted()) EXPECT_NE(p.message.kind, Up::Kind::kNd);
  entries[kEth0].proxy = true;
  feed(kEth0, group_frame6(question));
  expect_up(Up::Kind::kNd, question);
  feed(kEth0, frame6(probe));
  expect_up(Up::Kind::kNd, probe);
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  Ip6 other = question;  // no neighbour discovery
  other.next_header = 17;
  feed(kEth0, group_frame6(other));
  EXPECT_TRUE(punted().empty());
}

TEST_F(Ip6Test, P05_UnicastByMulticastIsNotForwarded) {
  feed(kIb0, link6(Ip6{.src = "fd00:a::2", .dst = "fd00:1::10"}.bytes()), true);
  expect_drop(kIb0, Drop::kIpBroadcast);
}

TEST_F(Ip6Test, P05_HopLimitEndsHere) {
  for (const std::uint8_t limit : std::initializer_list<std::uint8_t>{0, 1}) {
    const Ip6 packet{.hop_limit = limit};
    feed(packet);
    const Punted p = expect_up(Up::Kind::kIcmpError, packet);
    EXPECT_EQ(p.message.icmp_type, 3);
    EXPECT_EQ(p.message.icmp_code, 0);
  }
  EXPECT_EQ(drops(kEth0, Drop::kIpTtlExceeded), 2U);
  feed({.hop_limit = 2});
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
}

TEST_F(Ip6Test, P05_RoutesThatLeadNowhereAreTold) {
  using table::NextHopKind;
  add_route("fd00:c::/64", {NextHopKind::kUnreachable, 0, 0, 0});
  add_route("fd00:d::/64", {NextHopKind::kBlackhole, 0, 0, 0});
  add_route("fd00:f::/64", {NextHopKind::kProhibited, 0, 0, 0});
  feed({.dst = "fd00:e::1"});
  Punted p = only_punted();
  EXPECT_EQ(std::pair(p.message.icmp_type, p.message.icmp_code),
            std::pair(std::uint8_t{1}, std::uint8_t{0}));
  feed({.dst = "fd00:c::1"});
  p = only_punted();
  EXPECT_EQ(p.message.icmp_code, 0) << "as Linux, which knows no host there";
  EXPECT_EQ(drops(kEth0, Drop::kIpNoRoute), 2U);
  feed({.dst = "fd00:f::1"});
  p = only_punted();
  EXPECT_EQ(std::pair(p.message.icmp_type, p.message.icmp_code),
            std::pair(std::uint8_t{1}, std::uint8_t{1}));
  EXPECT_EQ(drops(kEth0, Drop::kIpProhibited), 1U);
  expect_dropped({.dst = "fd00:d::1"}, Drop::kIpBlackhole, "black hole");
}

TEST_F(Ip6Test, P05_SendersOnTheLinkAreToldOfABetterHop) {
  add_route("fd00:e::/32", {table::NextHopKind::kGateway, 0, kEth0, 5});
  set_neighbour(5, eth_neighbour(kEth0, "fe80::99", mac(0x99)));
  set_neighbour(6, eth_neighbour(kEth0, "fd00:1::11", mac(0x11)));
  const Ip6 far{.dst = "fd00:e::1", .body = Bytes(1300)};
  for (int i = 0; i < 3; ++i) feed(far);
  EXPECT_EQ(sent_by_port(kEth0).size(), 3U) << "forwarded none the less";
  Punted told = only_punted("once in a while");
  EXPECT_EQ(told.message.kind, Up::Kind::kRedirectWanted);
  EXPECT_EQ(told.message.iface, kEth0);
  EXPECT_EQ(told.message.addr, *wire::parse_ip("fe80::99"));
  Bytes quoted = far.bytes();
  quoted.resize(1280);
  EXPECT_EQ(told.bytes, quoted) << "as it came";

  const Ip6 next_to{.dst = "fd00:1::11"};
  feed(next_to);
  told = only_punted();
  EXPECT_EQ(told.message.addr, *wire::parse_ip("fd00:1::11"));
  EXPECT_EQ(told.bytes, next_to.bytes());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Ip6Test, P05_OthersAreNotToldOfABetterHop) {
  set_neighbour(6, eth_neighbour(kEth0, "fd00:1::11", mac(0x11)));
  feed({.src = "fd00:c::1", .dst = "fd00:1::11"});
  feed({.src = "fd00:a::7", .dst = "fd00:1::11"});
  EXPECT_EQ(sent_by_port(kEth0).size(), 2U);
  EXPECT_TRUE(punted().empty()) << "not on that link";
  feed({.src = "fd00:1::11"});
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_TRUE(punted().empty()) << "leaves by another link";
  send_routed(Ip6{.dst = "fd00:1::11"}.bytes(), kEth0);
  loop();
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
  EXPECT_TRUE(punted().empty()) << "was held, or is this node's own";
}

TEST_F(Ip6Test, P05_UnknownNeighboursAreWanted) {
  const Ip6 packet{.dst = "fd00:a::9"};
  feed(packet);
  const Punted p = only_punted();
  EXPECT_EQ(p.message.kind, Up::Kind::kNeighbourWanted);
  EXPECT_EQ(p.message.iface, kIb0);
  EXPECT_EQ(p.message.addr, *wire::parse_ip("fd00:a::9"));
  EXPECT_EQ(p.bytes, forwarded(packet));
  EXPECT_EQ(p.held.in_iface, kEth0);

  table::Neighbour failed = ib_neighbour(kIb0, "fd00:a::9", 0, 0);
  failed.state = table::NeighbourState::kFailed;
  set_neighbour(5, failed);
  loop();
  feed(packet);
  EXPECT_EQ(only_punted().message.icmp_code, 3);
  expect_drop(kEth0, Drop::kNeighbourFailed);
}

TEST_F(Ip6Test, P05_FlowsKeepTheirPathAndUseAll) {
  using table::NextHopKind;
  set_neighbour(10, ib_neighbour(kIb0, "fe80::1", 1, 1));
  set_neighbour(11, ib_neighbour(kIb0, "fe80::2", 2, 1));
  hops.set(500, {NextHopKind::kGateway, 0, kIb0, 10});
  hops.set(501, {NextHopKind::kGateway, 0, kIb0, 11});
  add_route("fd00:99::/64", {NextHopKind::kGroup, 1, kIb0, 500});
  std::set<fabric::AhIndex> used;
  for (std::uint32_t flow = 0; flow < 32; ++flow) {
    for (int i = 0; i < 2; ++i) receive(kEth0, frame6({.dst = "fd00:99::1", .flow = flow}));
    loop();
    const auto sent = sent_by_link(kIb0);
    ASSERT_EQ(sent.size(), 2U);
    EXPECT_EQ(sent[0].to.ah, sent[1].to.ah);
    used.insert(sent[0].to.ah);
  }
  EXPECT_EQ(used.size(), 2U);
}

TEST_F(Ip6Test, P05_HopLimitIsLookedAtBeforeTheNeighbour) {
  auto failed = ib_neighbour(kIb0, "fd00:a::4", 20, 2);
  failed.state = table::NeighbourState::kFailed;
  set_neighbour(14, failed);
  add_route("fd01:1::/32", {table::NextHopKind::kGateway, 0, kIb0, 99});
  add_route("fd01:4::/32", {table::NextHopKind::kBlackhole, 0, kIb0, table::kNoNeighbour});
  for (const std::string_view dst : {"fd00:a::2", "fd00:a::99", "fd00:a::4", "fd01:1::1"}) {
    feed({.dst = dst, .hop_limit = 1});
    const Punted p = only_punted(dst);
    EXPECT_EQ(p.message.kind, Up::Kind::kIcmpError) << dst;
    EXPECT_EQ(p.message.icmp_type, 3) << dst;
  }
  EXPECT_EQ(drops(kEth0, Drop::kIpTtlExceeded), 4U);
  expect_dropped({.dst = "fd01:1::1"}, Drop::kNeighbourGone, "no neighbour has the number");
  expect_dropped({.dst = "fd01:4::1", .hop_limit = 1}, Drop::kIpBlackhole, "not forwarded");
  feed({.dst = "fd00:a::1", .hop_limit = 1});
  EXPECT_EQ(only_punted().message.kind, Up::Kind::kLocal);
}

TEST_F(Ip6Test, U15_TooBigIsToldAndNeverCut) {
  for (const std::size_t len : {1280U, 1500U, 1980U}) {
    table::Neighbour n = ib_neighbour(kIb0, "fd00:a::2", 7, 1);
    n.mtu = static_cast<std::uint16_t>(len);
    set_neighbour(2, n);
    loop();
    feed({.body = Bytes(len - 40)});
    EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << len;
    feed({.body = Bytes(len - 39)});
    EXPECT_TRUE(sent_by_link(kIb0).empty());
    const Punted p = only_punted();
    EXPECT_EQ(p.message.icmp_type, 2);
    EXPECT_EQ(p.message.icmp_code, 0);
    EXPECT_EQ(p.message.mtu, len);
  }
  EXPECT_EQ(drops(kEth0, Drop::kIpTooBig), 3U);
}

TEST_F(Ip6Test, U15_LinksBelow1280CarryNoIpv6) {
  entries[kIb0].mtu = 1279;
  expect_dropped({}, Drop::kIp6LinkMtu, "however small the packet");
  set_neighbour(9, ib_neighbour(kIb0, "10.0.0.2", 7, 1));
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << "IPv4 does not mind";
}

TEST_F(Ip6Test, P05_LinkThatIsDownIsTold) {
  entries[kIb0].up = false;
  feed({});
  EXPECT_EQ(punted().size(), 1U);
  expect_drop(kEth0, Drop::kLinkDown);
}

TEST_F(Ip6Test, P05_InjectedPacketsKeepTheirHopLimit) {
  const Ip6 own{.src = "fd00:a::1", .hop_limit = 1};
  send_routed(own.bytes());
  send_routed(Ip4{.dst = "10.0.0.2"}.bytes());
  send_routed(own.bytes());
  send_on_interface(Ip6{.src = "fe80::b0", .dst = "fd00:a::2", .hop_limit = 255}.bytes(), kIb0);
  send_routed(Bytes(39, std::byte{0x60}));
  loop();
  const auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].bytes, link6(own.bytes()));
  EXPECT_EQ(sent[2].bytes, link6(Ip6{.src = "fe80::b0", .hop_limit = 255}.bytes()));
  EXPECT_EQ(punted().size(), 1U) << "the IPv4 neighbour is wanted";
  expect_drop(table::kNoInterface, Drop::kIpRunt);
}

}  // namespace
}  // namespace ipoib::fwd::test
