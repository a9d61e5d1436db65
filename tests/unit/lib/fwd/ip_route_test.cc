// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip_route.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/lib/fwd/ip4_route_fixture.h"

namespace ipoib::fwd::test {
namespace {

using table::kNoNeighbour;
using table::Neighbour;
using table::NeighbourState;
using table::NextHopKind;

TEST_F(Ip4Route, P05_PassesLocalPacketsUp) {
  // A local packet is delivered with any TTL, and cut to its total length.
  const Ip4 packet{.dst = "10.0.0.1", .ttl = 1};
  Bytes frame = to_eth0(packet.bytes());
  frame.resize(frame.size() + 7);
  feed(kEth0, frame);
  const Punted p = only_punted();
  EXPECT_EQ(p.message.kind, msg::Up::Kind::kLocal);
  EXPECT_EQ(p.message.iface, kEth0);
  EXPECT_EQ(p.bytes, packet.bytes());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Ip4Route, P05_NoRouteIsCountedAndToldToTheSender) {
  const Ip4 packet{.dst = "172.16.0.1"};
  feed(packet);
  expect_drop(kEth0, Drop::kIpNoRoute);
  expect_error(packet, 3, 0);
}

TEST_F(Ip4Route, P05_DefaultRouteLeadsToItsGateway) {
  add_route("0.0.0.0/0", {NextHopKind::kGateway, 0, kIb0, 5});
  set_neighbour(5, ib_neighbour(kIb0, "10.0.0.254", 42, 99));
  const Ip4 packet{.dst = "8.8.8.8"};
  feed(packet);
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes, to_link(forwarded(packet)));
  EXPECT_EQ(sent.to.ah, 42U);
  EXPECT_EQ(sent.to.qpn, 99U);
}

TEST_F(Ip4Route, BlackholeIsSilentUnreachableIsNot) {
  add_route("172.16.0.0/16", {NextHopKind::kBlackhole});
  feed({.dst = "172.16.0.1"});
  expect_drop(kEth0, Drop::kIpBlackhole);
  EXPECT_TRUE(punted().empty());

  add_route("172.17.0.0/16", {NextHopKind::kUnreachable});
  const Ip4 packet{.dst = "172.17.0.1"};
  feed(packet);
  EXPECT_EQ(drops(kEth0, Drop::kIpNoRoute), 1U);
  expect_error(packet, 3, 1);
}

TEST_F(Ip4Route, P11_AProhibitedRouteIsAnsweredAsSuch) {
  add_route("172.16.0.0/16", {NextHopKind::kProhibited});
  const Ip4 packet{.dst = "172.16.0.1"};
  feed(packet);
  EXPECT_EQ(drops(kEth0, Drop::kIpProhibited), 1U);
  expect_error(packet, 3, 13);
}

TEST_F(Ip4Route, P05_TtlExceeded) {
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 1, 1));
  for (const std::uint8_t ttl : {std::uint8_t{0}, std::uint8_t{1}}) {
    const Ip4 packet{.ttl = ttl};
    feed(packet);
    expect_error(packet, 11, 0);
  }
  EXPECT_EQ(drops(kEth0, Drop::kIpTtlExceeded), 2U);
  EXPECT_EQ(all_drops(), 2U);
  feed({.ttl = 2});
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
}

TEST_F(Ip4Route, TtlIsLookedAtBeforeTheNeighbour) {
  const Ip4 packet{.ttl = 1};
  feed(packet);  // there is no neighbour 10.0.0.2
  expect_drop(kEth0, Drop::kIpTtlExceeded);
  expect_error(packet, 11, 0);
}

TEST_F(Ip4Route, UnknownNeighbourIsWantedWithThePacket) {
  const Ip4 packet;
  feed(packet);
  expect_wanted(packet, "10.0.0.2");
}

TEST_F(Ip4Route, NeighbourGoesThroughItsStates) {
  const Ip4 packet;
  Neighbour neighbour = ib_neighbour(kIb0, "10.0.0.2", 7, 8);
  neighbour.state = NeighbourState::kIncomplete;
  set_neighbour(3, neighbour);
  feed(packet);
  expect_wanted(packet, "10.0.0.2");

  neighbour.state = NeighbourState::kValid;
  set_neighbour(3, neighbour);
  feed(packet);
  ASSERT_EQ(sent_by_link(kIb0).size(), 1U);

  neighbour.ah = 70;  // the path of the neighbour has changed
  set_neighbour(3, neighbour);
  feed(packet);
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, 70U);

  msg::Down remove{};
  remove.kind = msg::Down::Kind::kNeighbourRemove;
  remove.index = 3;
  send_down(remove);
  feed(packet);
  expect_wanted(packet, "10.0.0.2");

  neighbour.state = NeighbourState::kFailed;
  set_neighbour(3, neighbour);
  feed(packet);
  expect_drop(kEth0, Drop::kNeighbourFailed);
  expect_error(packet, 3, 1, true);
}

TEST_F(Ip4Route, UnresolvedGatewayIsWantedByItsOwnAddress) {
  add_route("172.16.0.0/12", {NextHopKind::kGateway, 0, kIb0, 5});
  const Ip4 packet{.dst = "172.16.0.1"};
  feed(packet);
  expect_drop(kEth0, Drop::kNeighbourGone);  // neighbour 5 does not exist
  EXPECT_TRUE(punted().empty());

  Neighbour gateway = ib_neighbour(kIb0, "10.0.0.254", 1, 1);
  gateway.state = NeighbourState::kIncomplete;
  set_neighbour(5, gateway);
  feed(packet);
  const Punted p = only_punted();
  EXPECT_EQ(p.message.kind, msg::Up::Kind::kNeighbourWanted);
  EXPECT_EQ(p.message.addr, wire::IpAddr::v4(addr("10.0.0.254")));

  gateway.state = NeighbourState::kFailed;
  set_neighbour(5, gateway);
  feed(packet);
  EXPECT_EQ(drops(kEth0, Drop::kNeighbourFailed), 1U);
  expect_error(packet, 3, 1, true);
}

TEST_F(Ip4Route, LinkThatIsDownTakesNothing) {
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 1, 1));
  entries[kIb0].up = false;
  const Ip4 known{.dst = "10.0.0.2"}, unknown{.dst = "10.0.0.3"};
  feed(known);
  expect_error(known, 3, 1, true);
  feed(unknown);
  expect_error(unknown, 3, 1, true);
  EXPECT_EQ(drops(kEth0, Drop::kLinkDown), 2U);
  EXPECT_EQ(all_drops(), 2U);

  entries[kIb0].up = true;
  feed(known);
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
}

TEST_F(Ip4Route, RouteToAnInterfaceThatIsNotThereHarmsNobody) {
  add_route("172.16.0.0/16", {NextHopKind::kConnected, 0, 1000, kNoNeighbour});
  add_route("172.17.0.0/16", {NextHopKind::kGateway, 0, kIb0, kNoNeighbour});
  add_route("172.18.0.0/16", {NextHopKind::kGroup, 8, kIb0, table::kMaxNextHops});
  feed({.dst = "172.16.0.1"});
  feed({.dst = "172.17.0.1"});
  feed({.dst = "172.18.0.1"});
  EXPECT_EQ(drops(kEth0, Drop::kIpNoRoute), 2U);
  EXPECT_EQ(drops(kEth0, Drop::kNeighbourGone), 1U);
  EXPECT_EQ(all_drops(), 3U);
}

class IpRouteBurst : public Ip4Route {
 protected:
  using Outcome = std::multiset<std::string>;

  void SetUp() override {
    Ip4Route::SetUp();
    set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(1, ib_neighbour(kIb0, "10.0.0.3", 8, 0x123456));
    set_neighbour(2, ib_neighbour(kIb1, "10.1.0.2", 9, 1));
    set_neighbour(3, eth_neighbour(kEth1, "192.168.2.10", mac(0x20)));
    auto failed = ib_neighbour(kIb0, "10.0.0.4", 10, 2);
    failed.state = NeighbourState::kFailed;
    set_neighbour(4, failed);
    auto narrow = ib_neighbour(kIb0, "10.0.0.5", 11, 3);
    narrow.mtu = 100;
    set_neighbour(5, narrow);
    add_route("172.16.0.0/16", {NextHopKind::kGateway, 0, kIb0, 1});
    add_route("172.17.0.0/16", {NextHopKind::kGateway, 0, kEth1, 3});
    add_route("172.18.0.0/16", {NextHopKind::kGateway, 0, kIb0, 4});
    add_route("172.19.0.0/16", {NextHopKind::kBlackhole, 0, kIb0, kNoNeighbour});
    set_neighbours6();
    loop();
  }
  /// Neighbours and routes of IPv6 of all these kinds, and a group of paths.
  void set_neighbours6() {
    set_neighbour(10, ib_neighbour(kIb0, "fd00:a::2", 17, 0xabcdef));
    set_neighbour(11, ib_neighbour(kIb0, "fd00:a::3", 18, 0x123456));
    set_neighbour(12, ib_neighbour(kIb1, "fd00:b::2", 19, 1));
    set_neighbour(13, eth_neighbour(kEth1, "fe80::20", mac(0x20)));
    auto failed = ib_neighbour(kIb0, "fd00:a::4", 20, 2);
    failed.state = NeighbourState::kFailed;
    set_neighbour(14, failed);
    auto narrow = ib_neighbour(kIb0, "fd00:a::5", 21, 3);
    narrow.mtu = 1280;
    set_neighbour(15, narrow);
    narrow = ib_neighbour(kIb0, "fd00:a::6", 22, 4);
    narrow.mtu = 1279;
    set_neighbour(16, narrow);
    add_route("fd01:1::/32", {NextHopKind::kGateway, 0, kIb0, 10});
    add_route("fd01:2::/32", {NextHopKind::kGateway, 0, kEth1, 13});
    add_route("fd01:3::/32", {NextHopKind::kGateway, 0, kIb0, 14});
    add_route("fd01:4::/32", {NextHopKind::kBlackhole, 0, kIb0, kNoNeighbour});
    hops.set(500, {NextHopKind::kGateway, 0, kIb0, 11});
    hops.set(501, {NextHopKind::kConnected, 0, kIb0, kNoNeighbour});
    add_route("fd01:5::/32", {NextHopKind::kGroup, 1, kIb0, 500});
    set_neighbour(17, ib_neighbour(kIb0, "fd01:5::7", 23, 5));
  }

  /// Expects that packets fare in a burst of three as they do alone.
  void expect_own_ways(const std::vector<Bytes>& frames) {
    std::vector<Outcome> alone;
    for (const Bytes& frame : frames) alone.push_back(outcome({frame}));
    EXPECT_EQ(alone[0].size(), 1U);
    for (std::size_t i = 0; i < frames.size(); ++i)
      for (std::size_t k = 0; k < frames.size(); ++k) {
        Outcome expected = alone[i];
        for (const std::size_t also : {k, i})
          expected.insert(alone[also].begin(), alone[also].end());
        EXPECT_EQ(outcome({frames[i], frames[k], frames[i]}), expected) << i << ' ' << k;
      }
  }

  /// Returns, as text, the packets sent and the drops counted for frames that arrive in one burst.
  Outcome outcome(const std::vector<Bytes>& frames) {
    const auto before = all_drops_by_name();
    for (const Bytes& frame : frames) receive(kEth0, frame);
    loop();
    Outcome all;
    for (const table::InterfaceId i : {kEth0, kEth1})
      for (const Bytes& frame : sent_by_port(i)) all.insert(fmt::format("{}: {}", i, text(frame)));
    for (const table::InterfaceId i : {kIb0, kIb1})
      for (const SentOnLink& sent : sent_by_link(i))
        all.insert(fmt::format("{}: {} {} {}", i, sent.to.ah, sent.to.qpn, text(sent.bytes)));
    punted();  // not counted, because punts are rate-limited
    for (const auto& [name, n] : all_drops_by_name())
      if (name != drop_name(Drop::kNeighbourPending))
        for (auto i = before.at(name); i < n; ++i) all.insert("lost: " + name);
    return all;
  }

 private:
  static std::string text(const Bytes& bytes) {
    std::string hex;
    for (const std::byte b : bytes) hex += fmt::format("{:02x}", std::to_integer<unsigned>(b));
    return hex;
  }
  std::map<std::string, std::uint64_t> all_drops_by_name() {
    std::map<std::string, std::uint64_t> all;
    for (std::size_t r = 0; r < kDropCount; ++r)
      for (std::size_t i = 0; i < entries.size(); ++i)
        all[std::string{drop_name(static_cast<Drop>(r))}] +=
            drops(static_cast<table::InterfaceId>(i), static_cast<Drop>(r));
    return all;
  }
};

/// The egress of a packet does not depend on the packets before it, even if they share its
/// interface.
TEST_F(IpRouteBurst, P05_EachPacketGoesItsOwnWay) {
  const std::vector<Ip4> packets = {{.dst = "10.0.0.2"},
                                    {.dst = "10.0.0.3"},
                                    {.dst = "10.1.0.2"},
                                    {.dst = "192.168.2.10"},
                                    {.dst = "10.0.0.4"},
                                    {.dst = "10.0.0.5"},
                                    {.dst = "10.0.0.5", .payload_len = 200},
                                    {.dst = "10.0.0.99"},
                                    {.dst = "172.16.1.1"},
                                    {.dst = "172.17.1.1"},
                                    {.dst = "172.18.1.1"},
                                    {.dst = "172.19.1.1"},
                                    {.dst = "10.0.0.2", .ttl = 1},
                                    {.dst = "10.0.0.1"}};
  std::vector<Bytes> frames;
  for (const Ip4& packet : packets) frames.push_back(to_eth0(packet.bytes()));
  expect_own_ways(frames);
}

TEST_F(IpRouteBurst, P05_EachIpv6PacketGoesItsOwnWay) {
  const std::vector<Ip6> packets = {{.dst = "fd00:a::2"},
                                    {.dst = "fd00:a::3"},
                                    {.dst = "fd00:b::2"},
                                    {.dst = "fd00:a::4"},
                                    {.dst = "fd00:a::5"},
                                    {.dst = "fd00:a::5", .body = Bytes(1241)},
                                    {.dst = "fd00:a::6"},
                                    {.dst = "fd00:a::99"},
                                    {.dst = "fd01:1::1"},
                                    {.dst = "fd01:2::1"},
                                    {.dst = "fd01:3::1"},
                                    {.dst = "fd01:4::1"},
                                    {.dst = "fd01:5::7", .flow = 1},
                                    {.dst = "fd01:5::7", .flow = 2},
                                    {.dst = "fd01:5::7", .flow = 3},
                                    {.dst = "fd01:5::7", .flow = 4},
                                    {.dst = "fd00:a::2", .hop_limit = 1},
                                    {.dst = "fd00:a::1"}};
  std::vector<Bytes> frames;
  for (const Ip6& packet : packets)
    frames.push_back(ethernet(mac(0xa0), mac(0x10), 0x86dd, packet.bytes()));
  std::set<bool> by_gateway;
  for (std::size_t i = 12; i < 16; ++i) {
    const Outcome one = outcome({frames[i]});
    ASSERT_EQ(one.size(), 1U);
    by_gateway.insert(one.begin()->starts_with(fmt::format("{}: 18 ", kIb0)));
  }
  EXPECT_EQ(by_gateway.size(), 2U) << "both members of the group are used";
  expect_own_ways(frames);
}

TEST_F(IpRouteBurst, DownInterfaceTakesNoneOfABurst) {
  entries[kIb0].up = false;
  const Bytes known = to_eth0(Ip4{.dst = "10.0.0.2"}.bytes());
  const Bytes other = to_eth0(Ip4{.dst = "10.1.0.2"}.bytes());
  EXPECT_EQ(outcome({known, known, other, known}).size(), 4U);
  EXPECT_EQ(drops(kEth0, Drop::kLinkDown), 3U);
}

class Ip4RouteGroup : public Ip4Route {
 protected:
  void SetUp() override {
    Ip4Route::SetUp();
    for (std::uint32_t i = 0; i < 4; ++i) {
      hops.set(100 + i, {NextHopKind::kGateway, 0, kIb0, i});
      Neighbour n = ib_neighbour(kIb0, "10.0.0.2", i, 1);
      n.addr = wire::IpAddr::v4(addr("10.0.0.10") + i);
      set_neighbour(i, n);
    }
    add_route("172.16.0.0/12", {NextHopKind::kGroup, 2, kIb0, 100});
  }
  /// Returns the address handle with which the packet was sent.
  std::uint32_t path_of(const Bytes& packet) {
    receive(kEth0, to_eth0(packet));
    loop();
    const auto sent = sent_by_link(kIb0);
    EXPECT_EQ(sent.size(), 1U);
    return sent.empty() ? 99 : sent[0].to.ah;
  }
  static Bytes with_ports(const Ip4& packet, std::uint16_t src, std::uint16_t dst) {
    Bytes bytes = packet.bytes();
    const std::array<wire::Be16, 2> ports = {wire::Be16{src}, wire::Be16{dst}};
    std::memcpy(&bytes[bytes.size() - packet.payload_len], &ports, sizeof(ports));
    return bytes;
  }
};

TEST_F(Ip4RouteGroup, P05_FlowKeepsItsPathAndFlowsUseAll) {
  std::map<std::uint32_t, int> uses;
  for (std::uint16_t port = 1000; port < 1400; ++port) {
    const Bytes packet = with_ports({.dst = "172.16.0.1"}, port, 80);
    const std::uint32_t path = path_of(packet);
    EXPECT_EQ(path_of(packet), path) << "same flow, same path";
    ++uses[path];
  }
  ASSERT_EQ(uses.size(), 4U);
  for (const auto& [path, n] : uses) {
    EXPECT_GT(n, 60) << path;
    EXPECT_LT(n, 140) << path;
  }
}

TEST_F(Ip4RouteGroup, FragmentsOfAPacketTakeOnePath) {
  const Ip4 first{.dst = "172.16.0.1", .flags_offset = 0x2000};
  const Ip4 last{.dst = "172.16.0.1", .flags_offset = 100};
  const auto path = path_of(with_ports(first, 1000, 80));
  for (std::uint16_t port = 0; port < 50; ++port) {
    EXPECT_EQ(path_of(with_ports(first, port, 80)), path);
    EXPECT_EQ(path_of(with_ports(last, port, 81)), path);
  }
}

TEST_F(Ip4RouteGroup, PacketWithoutPortsHasAPath) {
  EXPECT_LT(path_of(Ip4{.dst = "172.16.0.1", .payload_len = 3}.bytes()), 4U);
  EXPECT_LT(path_of(Ip4{.dst = "172.16.0.1", .protocol = wire::IpProto::kIcmp}.bytes()), 4U);
}

/// RFC 1812 §5.2.7.2: sender and next hop are on the link on which the packet arrived.
TEST_F(Ip4Route, SendersOnTheLinkAreToldOfABetterHop) {
  add_route("172.16.0.0/16", {NextHopKind::kGateway, 0, kEth0, 5});
  set_neighbour(5, eth_neighbour(kEth0, "192.168.1.99", mac(0x99)));
  set_neighbour(6, eth_neighbour(kEth0, "192.168.1.11", mac(0x11)));
  const Ip4 far{.dst = "172.16.0.1", .payload_len = 700};
  for (int i = 0; i < 3; ++i) feed(far);
  EXPECT_EQ(sent_by_port(kEth0).size(), 3U) << "forwarded none the less";
  Punted told = only_punted("once in a while");
  EXPECT_EQ(told.message.kind, msg::Up::Kind::kRedirectWanted);
  EXPECT_EQ(told.message.iface, kEth0);
  EXPECT_EQ(told.message.addr, *wire::parse_ip("192.168.1.99"));
  Bytes quoted = far.bytes();
  quoted.resize(576);
  EXPECT_EQ(told.bytes, quoted) << "as it came, its checksum right";

  feed({.dst = "192.168.1.11"});
  told = only_punted();
  EXPECT_EQ(told.message.addr, *wire::parse_ip("192.168.1.11"));
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Ip4Route, OthersAreNotToldOfABetterHop) {
  set_neighbour(6, eth_neighbour(kEth0, "192.168.1.11", mac(0x11)));
  for (const char* src : {"172.16.0.9", "10.0.0.7"})
    receive(kEth0, to_eth0(Ip4{.src = src, .dst = "192.168.1.11"}.bytes()));
  loop();
  EXPECT_EQ(sent_by_port(kEth0).size(), 2U);
  EXPECT_TRUE(punted().empty()) << "the sender is not on that link";
  send_routed(Ip4{.dst = "192.168.1.11"}.bytes(), kEth0);
  loop();
  EXPECT_TRUE(punted().empty()) << "was held, or is this node's own";
  settings.redirects = false;
  feed({.dst = "192.168.1.11"});
  EXPECT_TRUE(punted().empty()) << "switched off";
  EXPECT_EQ(all_drops(), 0U);
}

// RFC 8950: the EtherType is that of the packet, the link-layer address that of the gateway.
TEST_F(Ip4Route, P17_AnIpv6GatewayCarriesIpv4) {
  add_route("172.16.0.0/16", {NextHopKind::kGateway, 0, kIb0, 5});
  add_route("172.17.0.0/16", {NextHopKind::kGateway, 0, kEth1, 6});
  add_route("172.18.0.0/16", {NextHopKind::kGateway, 0, kEth0, 7});
  set_neighbour(5, ib_neighbour(kIb0, "fe80::2", 42, 99));
  set_neighbour(6, eth_neighbour(kEth1, "fe80::3", mac(0x93)));
  set_neighbour(7, eth_neighbour(kEth0, "fe80::4", mac(0x94)));
  const Ip4 to_link0{.dst = "172.16.0.1"}, to_eth1{.dst = "172.17.0.1"};
  feed(to_link0);
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes, to_link(forwarded(to_link0)));
  EXPECT_EQ(sent.to.qpn, 99U);
  feed(to_eth1);
  EXPECT_EQ(sent_by_port(kEth1),
            std::vector<Bytes>{ethernet(mac(0x93), mac(0xa1), 0x0800, forwarded(to_eth1))});

  feed({.dst = "172.18.0.1"});
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
  EXPECT_TRUE(punted().empty()) << "no redirect can name it";

  Neighbour unknown = ib_neighbour(kIb0, "fe80::2", 0, 0);
  unknown.state = NeighbourState::kIncomplete;
  set_neighbour(5, unknown);
  feed(to_link0);
  expect_wanted(to_link0, "fe80::2");
  unknown.state = NeighbourState::kFailed;
  set_neighbour(5, unknown);
  feed(to_link0);
  expect_error(to_link0, 3, 1, true);
}

// Each destination is a neighbour, also in a group of paths.
TEST_F(Ip4Route, P17_ARouteToTheLinkMakesDestinationsNeighbours) {
  add_route("172.16.0.0/16", {NextHopKind::kConnected, 0, kIb0, kNoNeighbour});
  for (table::NextHopIndex i = 100; i < 102; ++i)
    hops.set(i, {NextHopKind::kConnected, 0, kIb0, kNoNeighbour});
  hops.set(102, {NextHopKind::kConnected, 0, kIb0, kNoNeighbour});
  hops.set(103, {});
  add_route("172.17.0.0/16", {NextHopKind::kGroup, 1, kIb0, 100});
  set_neighbour(8, ib_neighbour(kIb0, "172.16.0.1", 41, 98));
  set_neighbour(9, ib_neighbour(kIb0, "172.17.0.1", 42, 99));
  for (const auto& [dst, qpn] : {std::pair{"172.16.0.1", 98U}, std::pair{"172.17.0.1", 99U}}) {
    feed({.dst = dst});
    EXPECT_EQ(only_sent_by_link(kIb0).to.qpn, qpn) << dst;
  }
  for (const char* dst : {"172.16.0.2", "172.17.0.2"}) {
    const Ip4 packet{.dst = dst};
    feed(packet);
    expect_wanted(packet, dst);
  }
}

class Ip4RouteNeighbours : public WorkerFixture {
 protected:
  void start_with_neighbour() {
    start();
    set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    loop();
  }
};

TEST_F(Ip4RouteNeighbours, WithoutAPrefixAreFound) {
  neighbours_have_prefixes = false;
  start_with_neighbour();
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.qpn, 0xabcdefU);
  EXPECT_EQ(all_drops(), 0U);
}

// Management publishes the prefix when it has sent the message, so a worker may see it first.
TEST_F(Ip4RouteNeighbours, MayHaveTheirPrefixFirst) {
  start();
  const auto via = prefixes->lookup(0x0a00'0002);
  ASSERT_TRUE(table::add_neighbour(*prefixes, hops, 0x0a00'0002, via, 5));
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  const Punted wanted = only_punted();
  EXPECT_EQ(wanted.message.kind, msg::Up::Kind::kNeighbourWanted);
  EXPECT_EQ(wanted.message.addr, *wire::parse_ip("10.0.0.2"));
  EXPECT_EQ(wanted.message.iface, kIb0);

  set_neighbour(5, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.qpn, 0xabcdefU);
}

TEST_F(Ip4RouteNeighbours, AreNamedByRoutesThroughThem) {
  start_with_neighbour();
  const auto number = table::adjacency_of(0, true);
  hops.set(number, {NextHopKind::kGateway, 0, kIb0, 0});
  ASSERT_TRUE(prefixes->add(*wire::parse_prefix("172.16.0.0/12"), number));
  feed(kEth0, to_eth0(Ip4{.dst = "172.16.1.1"}.bytes()));
  EXPECT_EQ(only_sent_by_link(kIb0).to.qpn, 0xabcdefU);

  msg::Down gone{};
  gone.kind = msg::Down::Kind::kNeighbourRemove;
  gone.index = 0;
  send_down(gone);
  feed(kEth0, to_eth0(Ip4{.dst = "172.16.1.1"}.bytes()));
  expect_drop(kEth0, Drop::kNeighbourGone);
}

}  // namespace
}  // namespace ipoib::fwd::test
