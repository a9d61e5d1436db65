// SPDX-License-Identifier: BSD-3-Clause
// Packets to the broadcast addresses of own prefixes, and of their classful nets.
#include "lib/fwd/copies/directed_broadcast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tests/unit/lib/fwd/ip4_route_fixture.h"

namespace ipoib::fwd::test {
namespace {

using table::kNoNeighbour;
using table::NextHopKind;

// A worker forwards a broadcast to a prefix of another interface only where that is configured, and
// takes it for a packet to a neighbour that management maps to all hosts of the link.
TEST_F(Ip4Route, U03_DirectedBroadcastLeavesWhereThatIsConfigured) {
  const Ip4 packet{.dst = "10.0.255.255"};
  feed(packet);
  expect_drop(kEth0, Drop::kIpBroadcast);
  entries[kIb0].directed_broadcast = DirectedBroadcast::kSubnet;
  feed(packet);
  Punted p = only_punted();
  EXPECT_EQ(p.message.kind, msg::Up::Kind::kNeighbourWanted);
  EXPECT_EQ(p.message.iface, kIb0);
  EXPECT_EQ(p.message.addr, wire::IpAddr::v4(addr("10.0.255.255")));
  set_neighbour(4, ib_neighbour(kIb0, "10.0.255.255", 3, 0xff'ffff));
  send_on_interface(p.bytes, kIb0);
  feed(packet);
  const auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 2U) << "the one that waited, and the next";
  EXPECT_EQ(sent[0].bytes, to_link(forwarded(packet)));
  EXPECT_EQ(sent[1].bytes, to_link(forwarded(packet)));
  EXPECT_EQ(sent[1].to.qpn, 0xff'ffffU);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcast), 1U);
}

TEST_F(Ip4Route, U03_DirectedBroadcastNeverReturnsToItsLink) {
  for (auto& entry : entries) entry.directed_broadcast = DirectedBroadcast::kSubnet;
  add_route("192.168.1.255/32", {NextHopKind::kBroadcast, 0, kEth0, kNoNeighbour});
  set_neighbour(4, ib_neighbour(kIb0, "10.0.255.255", 3, 0xff'ffff));
  set_neighbour(5, eth_neighbour(kEth0, "192.168.1.255", kBroadcastMac));
  feed({.dst = "192.168.1.255"});
  expect_drop(kEth0, Drop::kIpBroadcast);
  feed({.dst = "10.0.255.255", .ttl = 1});
  EXPECT_EQ(drops(kEth0, Drop::kIpTtlExceeded), 1U);
  send_routed(Ip4{.dst = "10.0.255.255"}.bytes(), table::kNoInterface);
  loop();
  EXPECT_TRUE(sent_by_link(kIb0).empty()) << "an answer to a forged source";
  add_route("10.0.0.0/32", {NextHopKind::kBroadcast, 0, table::kNoInterface, kNoNeighbour});
  feed({.dst = "10.0.0.0"});
  EXPECT_TRUE(sent_by_link(kIb0).empty()) << "the obsolete form";
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcast), 2U);
  punted();
}

/// All hosts of a link receive each of them.
TEST_F(Ip4Route, U03_DirectedBroadcastsHaveALimit) {
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
  entries[kIb0].directed_broadcast = DirectedBroadcast::kSubnet;
  set_neighbour(4, ib_neighbour(kIb0, "10.0.255.255", 3, 0xff'ffff));
  constexpr std::uint64_t kLimit = BroadcastLimit::kPerSource;
  std::uint64_t tsc = rte_rdtsc();
  const auto give = [&](const Ip4& packet) {
    receive(kEth0, to_eth0(packet.bytes()));
    worker().iterate(tsc);
  };
  const auto sent_of = [&](std::uint64_t n) {
    std::uint64_t sent = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      give({.dst = "10.0.255.255"});
      sent += sent_by_link(kIb0).size();
    }
    return sent;
  };
  for (std::uint64_t i = 0; i < 2 * kLimit; ++i) give({.dst = "10.0.255.255", .ttl = 1});
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcastLimit), 0U) << "they do not leave";
  EXPECT_EQ(sent_of(kLimit + 20), kLimit);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcastLimit), 20U);
  tsc += rte_get_tsc_hz();
  EXPECT_EQ(sent_of(kLimit + 1), kLimit) << "in the next second";
  const Ip4 unicast{};
  give(unicast);
  EXPECT_EQ(only_sent_by_link(kIb0).bytes, to_link(forwarded(unicast)))
      << "others are not concerned";
}

// A source that sends without end leaves room for others, and one interface for another.
TEST_F(Ip4Route, U03_DirectedBroadcastsHaveALimitPerInterfaceAndSource) {
  entries[kIb0].directed_broadcast = entries[kEth0].directed_broadcast = DirectedBroadcast::kSubnet;
  set_neighbour(4, ib_neighbour(kIb0, "10.0.255.255", 3, 0xff'ffff));
  set_neighbour(5, eth_neighbour(kEth0, "192.168.1.255", kBroadcastMac));
  add_route("192.168.1.255/32", {NextHopKind::kBroadcast, 0, kEth0, kNoNeighbour});
  std::uint64_t tsc = rte_rdtsc();
  const auto sent_to_link = [&](const std::string& source, std::uint64_t n) {
    std::uint64_t sent = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      receive(kEth0, to_eth0(Ip4{.src = source.c_str(), .dst = "10.0.255.255"}.bytes()));
      worker().iterate(tsc);
      sent += sent_by_link(kIb0).size();
    }
    return sent;
  };
  EXPECT_EQ(sent_to_link("192.168.1.99", 1'000), BroadcastLimit::kPerSource);
  std::uint64_t others = 0;
  for (int i = 1; i <= 60; ++i) others += sent_to_link(fmt::format("172.16.0.{}", i), 1);
  EXPECT_GE(others, 50U) << "a few may share the part of the first";
  for (int i = 1; i <= 200; ++i) others += sent_to_link(fmt::format("172.17.0.{}", i), 1);
  EXPECT_EQ(others + BroadcastLimit::kPerSource, BroadcastLimit::kStrangers) << "of the interface";
  receive(kIb0, to_link(Ip4{.src = "10.0.0.9", .dst = "192.168.1.255"}.bytes()));
  worker().iterate(tsc);
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U) << "the other interface";
}

/// Broadcasts to ib0, from a port and from another link.
class Ip4Broadcasts : public Ip4Route {
 protected:
  void SetUp() override {
    Ip4Route::SetUp();
    entries[kIb0].directed_broadcast = DirectedBroadcast::kSubnet;
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(4, ib_neighbour(kIb0, "10.0.255.255", 3, 0xff'ffff));
  }
  /// Broadcasts that leave, of so many from consecutive sources.
  std::uint64_t sent_of(table::InterfaceId in, std::string_view first, std::uint32_t sources) {
    std::uint64_t sent = 0;
    for (std::uint32_t i = 0; i < sources; ++i) {
      const std::string source = wire::to_string(wire::IpAddr::v4(addr(first) + i));
      const Bytes packet = Ip4{.src = source.c_str(), .dst = "10.0.255.255"}.bytes();
      receive(in, in == kEth0 ? to_eth0(packet) : to_link(packet));
      worker().iterate(tsc_);
      sent += sent_by_link(kIb0).size();
    }
    return sent;
  }

 private:
  std::uint64_t tsc_ = rte_rdtsc();
};

// A host that forges its source, in the name of ever other ones, leaves room for hosts that are
// neighbours, and for those behind other interfaces.
TEST_F(Ip4Broadcasts, U03_ForgedSourcesLeaveRoomForOthers) {
  EXPECT_EQ(sent_of(kEth0, "172.16.0.1", 2'000), BroadcastLimit::kStrangers);
  const std::uint64_t forged = drops(kEth0, Drop::kIpBroadcastLimit);
  EXPECT_EQ(forged, 2'000 - BroadcastLimit::kStrangers);
  std::uint64_t known = 0;
  for (int i = 0; i < 10; ++i) known += sent_of(kEth0, "192.168.1.10", 1);
  EXPECT_EQ(known, 10U) << "a neighbour of the same port";
  // All and those from ib1 are 85 + 2 x 33 then, and end at 150.
  EXPECT_EQ(sent_of(kIb1, "172.18.0.1", 2'000), 33U) << "half of what eth0 has left to strangers";
}

/// Packets come from eth0, and the default route leads to ib0.
class NetBroadcasts : public Ip4Route {
 protected:
  void SetUp() override {
    Ip4Route::SetUp();
    add_route("0.0.0.0/0", {NextHopKind::kGateway, 0, kIb0, 9});
    add_route("172.16.0.0/16", {NextHopKind::kConnected, 0, kEth0, kNoNeighbour});
    set_neighbour(1, eth_neighbour(kEth1, kAll, kBroadcastMac));
    set_neighbour(2, ib_neighbour(kIb0, kAll, 3, 0xff'ffff));
    set_neighbour(3, ib_neighbour(kIb1, kAll, 4, 0xff'ffff));
    set_neighbour(9, ib_neighbour(kIb0, "10.0.0.254", 42, 99));
  }
  /// The interfaces that have a subnet of 10.0.0.0/8 and let broadcasts to all subnets out.
  void let_out(std::initializer_list<table::InterfaceId> interfaces) {
    const table::NextHopIndex first = slots_;
    for (const auto iface : interfaces)
      hops.set(slots_++, {NextHopKind::kBroadcast, 0, iface, kNoNeighbour});
    hops.set(slots_++, {});
    add_route("10.255.255.255/32", {NextHopKind::kBroadcast, 0, table::kNoInterface, first});
  }
  struct Sent {
    std::size_t eth0, eth1, ib0, ib1;
    friend bool operator==(const Sent&, const Sent&) = default;
  };
  Sent sent() {
    return {sent_by_port(kEth0).size(), sent_by_port(kEth1).size(), sent_by_link(kIb0).size(),
            sent_by_link(kIb1).size()};
  }
  static constexpr const char* kAll = "10.255.255.255";
  static constexpr Sent kNothing{0, 0, 0, 0};

 private:
  table::NextHopIndex slots_ = 1'000;
};

TEST_F(NetBroadcasts, U03_EachInterfaceThatLetsThemOutGetsOneCopy) {
  let_out({kEth0, kEth1, kIb0, kIb1});
  const Ip4 packet{.dst = kAll, .payload_len = 200};
  feed(packet);
  const auto eth1 = sent_by_port(kEth1);
  ASSERT_EQ(eth1.size(), 1U);
  EXPECT_EQ(eth1[0], ethernet(kBroadcastMac, mac(0xa1), 0x0800, forwarded(packet)));
  for (const auto& [link, ah] : {std::pair{kIb0, 3U}, std::pair{kIb1, 4U}}) {
    const SentOnLink copy = only_sent_by_link(link);
    EXPECT_EQ(copy.bytes, to_link(forwarded(packet)));
    EXPECT_EQ(copy.to.ah, ah);
    EXPECT_EQ(copy.to.qpn, 0xff'ffffU);
  }
  EXPECT_TRUE(sent_by_port(kEth0).empty()) << "the ingress";
  let_out({kEth1, kIb1});
  feed(packet);
  EXPECT_EQ(sent(), (Sent{0, 1, 0, 1})) << "set while the worker runs";
  EXPECT_EQ(all_drops(), 0U);
  EXPECT_EQ(worker().stats().copies.get(), 3U);
}

TEST_F(NetBroadcasts, U03_NeverReturnToTheirLink) {
  let_out({kEth1, kIb0, kIb1});
  feed(kIb0, to_link(Ip4{.src = "10.0.0.9", .dst = kAll}.bytes()));
  EXPECT_EQ(sent(), (Sent{0, 1, 0, 1}));
  feed(kIb1, to_link(Ip4{.src = "10.1.0.9", .dst = kAll}.bytes()));
  EXPECT_EQ(sent(), (Sent{0, 1, 1, 0}));
  EXPECT_EQ(all_drops(), 0U);
  let_out({kIb0});
  feed(kIb0, to_link(Ip4{.src = "10.0.0.9", .dst = kAll}.bytes()));
  EXPECT_EQ(sent(), kNothing);
  expect_drop(kIb0, Drop::kIpBroadcast, "only its own link lets them out");
}

/// Another router between two of the links has broadcast it already.
TEST_F(NetBroadcasts, U03_OnlyThoseFromTheReversePathAreForwarded) {
  let_out({kEth1, kIb0, kIb1});
  feed({.src = "10.1.0.9", .dst = kAll});
  feed(kIb1, to_link(Ip4{.src = "10.0.0.9", .dst = kAll}.bytes()));
  feed({.src = "10.0.0.1", .dst = kAll});
  feed({.src = kAll, .dst = kAll});
  EXPECT_EQ(sent(), kNothing);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcastRpf), 2U) << "of ib1's network, and a broadcast address";
  EXPECT_EQ(drops(kIb1, Drop::kIpBroadcastRpf), 1U);
  EXPECT_EQ(drops(kEth0, Drop::kIpMartianSource), 1U) << "of this node";
  feed(kIb0, to_link(Ip4{.src = "203.0.113.9", .dst = kAll}.bytes()));
  EXPECT_EQ(sent(), (Sent{0, 1, 0, 1})) << "the default route leads to its source";
}

/// A host that takes the address for a broadcast address sends it to all of its link, where all have
/// it then. Source: RFC 1812 §5.3.4.
TEST_F(NetBroadcasts, U03_BroadcastsOfTheLinkLayerAreNotForwarded) {
  let_out({kEth1, kIb0, kIb1});
  const Ip4 packet{.src = "172.16.0.9", .dst = kAll};
  feed(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0800, packet.bytes()));
  feed(kIb0, to_link(Ip4{.src = "10.0.0.9", .dst = kAll}.bytes()), true);
  EXPECT_EQ(sent(), kNothing);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcast), 1U);
  EXPECT_EQ(drops(kIb0, Drop::kIpBroadcast), 1U);
}

TEST_F(NetBroadcasts, U03_ExpireWithoutAnError) {
  let_out({kEth1, kIb0, kIb1});
  for (const std::uint8_t ttl : {std::uint8_t{0}, std::uint8_t{1}}) feed({.dst = kAll, .ttl = ttl});
  EXPECT_EQ(sent(), kNothing);
  EXPECT_EQ(drops(kEth0, Drop::kIpTtlExceeded), 2U);
  EXPECT_TRUE(punted().empty());
  send_routed(Ip4{.dst = kAll}.bytes());
  loop();
  EXPECT_EQ(sent(), kNothing) << "an answer of this node to a forged source";
  EXPECT_EQ(all_drops(), 3U);
}

TEST_F(NetBroadcasts, U03_AnInterfaceThatCannotSendCostsTheOthersNothing) {
  let_out({kEth1, kIb0, kIb1});
  entries[kIb0].set_up(false, 0);
  feed({.dst = kAll});
  EXPECT_EQ(sent(), (Sent{0, 1, 0, 1}));
  expect_drop(kEth0, Drop::kLinkDown);
  entries[kIb0].set_up(true, 2044);
  msg::Down remove{};
  remove.kind = msg::Down::Kind::kNeighbourRemove;
  remove.index = 2;
  send_down(remove);
  const Ip4 packet{.dst = kAll};
  feed(packet);
  EXPECT_EQ(sent(), (Sent{0, 1, 0, 1}));
  const Punted wanted = only_punted("management maps the address to all hosts");
  EXPECT_EQ(wanted.message.kind, msg::Up::Kind::kNeighbourWanted);
  EXPECT_EQ(wanted.message.iface, kIb0);
  EXPECT_EQ(wanted.message.addr, wire::IpAddr::v4(addr(kAll)));
  EXPECT_EQ(wanted.bytes, forwarded(packet));
  EXPECT_EQ(wanted.held.onward, fabric::Onward::kOnInterface);
  set_neighbour(2, ib_neighbour(kIb0, kAll, 3, 0xff'ffff));
  send_on_interface(wanted.bytes, kIb0);
  loop();
  EXPECT_EQ(sent(), (Sent{0, 0, 1, 0})) << "the copy that waited";
  EXPECT_EQ(all_drops(), 1U);
}

// Each interface has the limit of all directed broadcasts. One that is used up costs others nothing.
TEST_F(NetBroadcasts, U03_HaveTheLimitOfDirectedBroadcasts) {
  let_out({kEth1, kIb0, kIb1});
  entries[kIb0].directed_broadcast = DirectedBroadcast::kSubnet;
  add_route("10.0.255.255/32", {NextHopKind::kBroadcast, 0, kIb0, kNoNeighbour});
  set_neighbour(4, ib_neighbour(kIb0, "10.0.255.255", 3, 0xff'ffff));
  const std::uint64_t tsc = rte_rdtsc();
  const auto give = [&](const char* dst) {
    receive(kEth0, to_eth0(Ip4{.src = "172.16.0.9", .dst = dst}.bytes()));
    worker().iterate(tsc);
    return sent();
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(give("10.0.255.255"), (Sent{0, 0, 1, 0}));
  constexpr int kLimit = BroadcastLimit::kPerSource;
  for (int i = 0; i < kLimit - 5; ++i) ASSERT_EQ(give(kAll), (Sent{0, 1, 1, 1}));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(give(kAll), (Sent{0, 1, 0, 1}));
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcastLimit), 5U) << "on ib0";
  EXPECT_EQ(give("10.0.255.255"), kNothing);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcastLimit), 6U);
  EXPECT_EQ(give(kAll), kNothing);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcastLimit), 9U) << "each copy";
  EXPECT_EQ(all_drops(), 9U);
}

}  // namespace
}  // namespace ipoib::fwd::test
