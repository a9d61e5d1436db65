// SPDX-License-Identifier: BSD-3-Clause
// Packets to groups, in IPv4 and IPv6, and packets sent on a given link regardless of the routes.
#include "lib/fwd/multicast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using msg::Up;

constexpr fabric::AhIndex kGroupAh = 50, kRoutersAh = 60;
constexpr std::uint32_t kMulticastQpn = 0xff'ffff;
const wire::Gid kOwnGid = wire::Gid::of(0xfe80'0000'0000'0000, 0x0002'c903'000a'0b01);

constexpr std::uint64_t bits(std::initializer_list<table::InterfaceId> ids) {
  std::uint64_t out = 0;
  for (const table::InterfaceId id : ids) out |= std::uint64_t{1} << id;
  return out;
}

/// A multicast stream; there is one of IPv4 and one of IPv6.
struct Stream {
  const char* group;
  const char* source;
  const char* routers;
  bool v6;

  [[nodiscard]] Bytes packet(std::uint8_t hops = 64, std::size_t len = 100) const {
    return packet_to(group, hops, len);
  }
  [[nodiscard]] Bytes packet_to(const char* to, std::uint8_t hops = 64,
                                std::size_t len = 100) const {
    if (v6)
      return Ip6{.src = source, .dst = to, .hop_limit = hops, .body = Bytes(len - 40)}.bytes();
    return Ip4{.src = source, .dst = to, .ttl = hops, .payload_len = len - 20}.bytes();
  }
  [[nodiscard]] std::uint16_t type() const { return v6 ? 0x86dd : 0x0800; }
};

class Multicast : public WorkerFixture, public testing::WithParamInterface<Stream> {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    entries[kIb0].set_gid(kOwnGid);
    links[0].first_group = kGroupAh;
    start();
  }
  /// Packets to the group of the stream go from one interface to the other.
  void forward(table::InterfaceId from, table::InterfaceId to) {
    set_delivery(from, s.group, false, bits({to}));
    join(to, s.group, kGroupAh);
  }
  void remove_delivery(table::InterfaceId in) {
    msg::Down remove{};
    remove.kind = msg::Down::Kind::kDeliveryRemove;
    remove.delivery = {*wire::parse_ip(s.group), {}, in, false, 0};
    send_down(remove);
    loop();
  }
  /// Adds the group's neighbour entry on an interface.
  void join(table::InterfaceId iface, const char* group, fabric::AhIndex ah,
            std::uint16_t mtu = 2044, table::NeighbourState state = table::NeighbourState::kValid) {
    table::Neighbour n = iface < kIb0 ? eth_neighbour(iface, group, group_mac(group))
                                      : ib_neighbour(iface, group, ah, kMulticastQpn);
    n.mtu = mtu;
    n.state = state;
    set_neighbour(next_++, n);
    loop();
  }
  static wire::MacAddr group_mac(const char* group) {
    return wire::group_mac(*wire::parse_ip(group));
  }
  void feed_link(const Bytes& ip, table::InterfaceId iface = kIb0) {
    feed(iface, encapsulated(s.type(), ip), true);
  }
  void feed_port(const Bytes& ip) {
    feed(kEth0, ethernet(group_mac(s.group), mac(0x10), s.type(), ip));
  }
  Bytes on_link(const Bytes& ip) const { return encapsulated(s.type(), ip); }
  Bytes on_port(table::InterfaceId iface, const Bytes& ip) const {
    return ethernet(group_mac(s.group), mac(static_cast<std::uint8_t>(0xa0 + iface)), s.type(), ip);
  }

  /// The reports for the election of forwarders have no limit from before any more.
  void next_interval() {
    for (std::uint32_t i = 0; i < configs[0].punt.heard_again; ++i)
      worker().iterate(rte_rdtsc() + ++hours_ * 3'600 * rte_get_tsc_hz());
  }
  /// This node sends a packet on ib0.
  void send_own(const Bytes& ip) {
    send_on_interface(ip, kIb0);
    loop();
  }

  const Stream& s = GetParam();
  table::NeighbourIndex next_ = 0;
  std::uint64_t hours_ = 0;  ///< The clock of the worker is ahead by these.
};

/// A rate limit with an interval that does not end, and a small budget.
class SourceLimits : public Multicast {
 protected:
  static constexpr std::uint32_t kSourcesPerInterval = 7;
  void SetUp() override {
    // NOLINTNEXTLINE(bugprone-parent-virtual-call): Multicast::SetUp() starts the worker
    WorkerFixture::SetUp();
    configs[0].punt.interval_us = 3'600'000'000;
    configs[0].punt.multicast = 2 * kSourcesPerInterval;  // One interface gets half.
    configs[0].punt.heard = 2 * kSourcesPerInterval;
    start();
  }
};

const auto kStreams = testing::Values(Stream{"239.1.2.3", "10.0.0.9", "224.0.0.2", false},
                                      Stream{"ff0e::123", "fd00:a::9", "ff02::2", true});
constexpr auto kStreamName = [](const auto& row) { return row.param.v6 ? "IPv6" : "IPv4"; };
INSTANTIATE_TEST_SUITE_P(, Multicast, kStreams, kStreamName);
INSTANTIATE_TEST_SUITE_P(, SourceLimits, kStreams, kStreamName);

TEST_P(Multicast, P06_GoesToEachInterfaceAndUp) {
  set_delivery(kIb0, s.group, true, bits({kEth0, kEth1, kIb0, kIb1}));
  join(kEth0, s.group, 0);
  join(kEth1, s.group, 0);
  join(kIb1, s.group, kGroupAh);
  join(kIb0, s.group, kGroupAh);
  feed_link(s.packet());
  EXPECT_EQ(sent_by_port(kEth0), Frames{on_port(kEth0, s.packet(63))}) << "one hop for all";
  EXPECT_EQ(sent_by_port(kEth1), Frames{on_port(kEth1, s.packet(63))});
  const SentOnLink sent = only_sent_by_link(kIb1);
  EXPECT_EQ(sent.bytes, on_link(s.packet(63)));
  EXPECT_EQ(sent.to.ah, kGroupAh);
  EXPECT_EQ(sent.to.qpn, kMulticastQpn);
  EXPECT_TRUE(sent_by_link(kIb0).empty()) << "never back";
  const Punted p = only_punted();
  EXPECT_EQ(p.message.kind, Up::Kind::kLocal);
  EXPECT_EQ(p.bytes, s.packet(64)) << "as it came";
  EXPECT_TRUE(p.rx.multicast);
  EXPECT_EQ(p.rx.slid, 9);
  EXPECT_EQ(p.rx.iface, kIb0);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_P(Multicast, U14_FromEthernetToTheGroupOfALink) {
  forward(kEth0, kIb0);
  feed_port(s.packet());
  // A frame to the router's own MAC address with a packet to the group is forwarded as well.
  feed(kEth0, ethernet(mac(0xa0), mac(0x10), s.type(), s.packet()));
  const auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[1].bytes, on_link(s.packet(63)));
  EXPECT_EQ(sent[1].to.ah, kGroupAh) << "whose address handle has a GRH";
  EXPECT_TRUE(punted().empty());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_P(Multicast, P06_SourcesOfTheirOwnComeFirst) {
  set_delivery(kIb0, s.group, false, bits({kIb1}));
  set_delivery(kIb0, s.group, false, bits({kEth0}), s.source);
  join(kEth0, s.group, 0);
  join(kIb1, s.group, kGroupAh);
  feed_link(s.packet());
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
  EXPECT_TRUE(sent_by_link(kIb1).empty());
}

/// Groups that share an MLID all arrive; the worker drops those without a listener.
TEST_P(Multicast, M06_GroupsWithoutADeliveryEndHere) {
  set_delivery(kIb1, s.group, true, 0);
  feed_link(s.packet());
  expect_drop(kIb0, Drop::kIpMulticast);
  EXPECT_TRUE(punted().empty());
}

/// Reports of IGMP versions 1 and 2 and of MLD version 1 are sent to the group itself.
TEST_P(Multicast, P06_MulticastRoutersHearMembershipOfEveryGroup) {
  const Bytes report = s.v6 ? Ip6{.src = "fe80::9",
                                  .dst = s.group,
                                  .hop_limit = 1,
                                  .body = behind_router_alert(icmp6(131)),
                                  .next_header = 0}
                                  .bytes()
                            : Ip4{.src = "0.0.0.0",
                                  .dst = s.group,
                                  .ttl = 5,
                                  .payload_len = 8,
                                  .protocol = wire::IpProto::kIgmp}
                                  .bytes();
  feed_link(report);
  expect_drop(kIb0, Drop::kIpMulticast, "no multicast router's");
  entries[kIb0].multicast_router = true;
  feed_link(report);
  forward(kIb0, kIb1);
  feed_link(report);
  const auto messages = punted();
  ASSERT_EQ(messages.size(), 2U);
  for (const auto& p : messages) {
    EXPECT_EQ(p.message.kind, Up::Kind::kMembership);
    EXPECT_EQ(p.message.iface, kIb0);
    EXPECT_EQ(p.bytes, report);
    EXPECT_TRUE(p.rx.multicast);
  }
  EXPECT_TRUE(sent_by_link(kIb1).empty()) << "of its link";
  EXPECT_EQ(all_drops(), 1U);
}

TEST_P(Multicast, P06_MembershipOfANamedSourceIsNotForwarded) {
  entries[kIb0].multicast_router = true;
  set_delivery(kIb0, s.group, false, bits({kIb1}), s.source);
  join(kIb1, s.group, kGroupAh);
  feed_link(s.packet());
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  feed_link(s.v6 ? Ip6{.src = s.source,
                       .dst = s.group,
                       .hop_limit = 5,
                       .body = behind_router_alert(icmp6(131)),
                       .next_header = 0}
                       .bytes()
                 : Ip4{.src = s.source,
                       .dst = s.group,
                       .ttl = 5,
                       .payload_len = 8,
                       .protocol = wire::IpProto::kIgmp}
                       .bytes());
  EXPECT_EQ(only_punted().message.kind, Up::Kind::kMembership);
  EXPECT_TRUE(sent_by_link(kIb1).empty());
}

TEST_P(Multicast, P06_SourcesNobodyNamedAreToldOfOnce) {
  entries[kIb0].multicast_router = true;
  entries[kEth0].multicast_router = true;
  for (int i = 0; i < 3; ++i) feed_link(s.packet());
  Punted told = only_punted();
  EXPECT_EQ(told.message.kind, Up::Kind::kMulticastUnknown);
  EXPECT_EQ(told.message.iface, kIb0);
  EXPECT_EQ(told.message.addr, *wire::parse_ip(s.group));
  EXPECT_EQ(told.message.source, *wire::parse_ip(s.source));
  EXPECT_EQ(told.message.mbuf, nullptr);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 3U) << "each counted once";

  // A delivery for any source forwards the packet and reports the interface on which it arrived.
  forward(kEth0, kIb1);
  feed_port(s.packet());
  told = only_punted();
  EXPECT_EQ(told.message.iface, kEth0);
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  EXPECT_EQ(all_drops(), 3U);
}

TEST_P(Multicast, P06_SourcesThatGoNowhereAreNotToldOf) {
  feed_link(s.packet());
  EXPECT_TRUE(punted().empty()) << "no multicast router's";
  entries[kIb0].multicast_router = true;
  feed_link(s.packet(1));
  feed_link(s.packet_to(s.v6 ? "ff02::77" : "224.0.0.77"));
  Stream near = s;
  near.source = s.v6 ? "fe80::9" : "169.254.0.9";
  feed_link(near.packet());
  EXPECT_TRUE(punted().empty()) << "last hop, or of the link";
  set_delivery(kIb0, s.group, false, 0, s.source);
  feed_link(s.packet());
  EXPECT_TRUE(punted().empty()) << "named";
  Stream other = s;
  other.source = s.v6 ? "fd00:a::8" : "10.0.0.8";
  set_delivery(kIb0, s.group, true, 0);
  feed_link(other.packet());
  EXPECT_EQ(punted()[0].message.kind, Up::Kind::kLocal) << "and nothing more";
  settings.forwarding = false;
  feed_link(other.packet());
  EXPECT_TRUE(punted().empty());
}

/// A delivery that management learned from hosts forwards only packets from the interface that
/// leads to their source.
TEST_P(Multicast, P06_StrayPacketsOfAnySourceAreNotForwarded) {
  for (const table::InterfaceId in : {kIb0, kEth0}) {
    entries[in].multicast_router = true;
    set_delivery(in, s.group, false, bits({kIb1}), "::", bits({kIb1}));
  }
  join(kIb1, s.group, kGroupAh);
  feed_port(s.packet());
  expect_drop(kEth0, Drop::kIpMulticastRpf, "the source is on ib0");
  EXPECT_TRUE(sent_by_link(kIb1).empty());
  EXPECT_TRUE(punted().empty()) << "and nobody is told of it";
  feed_link(s.packet());
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  EXPECT_EQ(all_drops(), 1U);
}

/// Two routers connect the same two links. Neither sends back a packet that the other one
/// forwarded.
TEST_P(Multicast, P06_AStreamIsNotBouncedBetweenTwoLinks) {
  set_delivery(kIb0, s.group, false, bits({kIb1}), "::", bits({kIb1}));
  set_delivery(kIb1, s.group, false, bits({kIb0}), "::", bits({kIb0}));
  join(kIb0, s.group, kGroupAh);
  join(kIb1, s.group, kGroupAh);
  feed_link(s.packet());
  feed(kIb1, only_sent_by_link(kIb1).bytes, true);
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  expect_drop(kIb1, Drop::kIpMulticastRpf);
}

TEST_P(Multicast, P06_TheWayBackIsThatOfTheRouteToTheSource) {
  using table::NextHopKind;
  struct Row {
    table::NextHop route;
    bool accepted;
  };
  Stream far = s;
  far.source = s.v6 ? "fd00:99::9" : "172.16.0.9";
  set_delivery(kIb0, s.group, false, bits({kIb1}), "::", bits({kIb1}));
  join(kIb1, s.group, kGroupAh);
  feed_link(far.packet());
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticastRpf), 1U) << "no route";
  for (const Row& row : {Row{{NextHopKind::kGateway, 0, kIb0, 7}, true},
                         Row{{NextHopKind::kGateway, 0, kIb1, 7}, false},
                         Row{{NextHopKind::kGroup, 6, kIb0, 500}, true},
                         Row{{NextHopKind::kGroup, 6, kEth0, 500}, false},
                         Row{{NextHopKind::kBlackhole, 0, kIb0, 0}, false}}) {
    add_route(s.v6 ? "fd00:99::/64" : "172.16.0.0/16", row.route);
    const auto before = drops(kIb0, Drop::kIpMulticastRpf);
    feed_link(far.packet());
    const auto kind = static_cast<int>(row.route.kind);
    EXPECT_EQ(sent_by_link(kIb1).size(), row.accepted ? 1U : 0U) << kind;
    EXPECT_EQ(drops(kIb0, Drop::kIpMulticastRpf) - before, row.accepted ? 0U : 1U) << kind;
  }
}

/// A static route names the ingress interface itself, regardless of unicast routes. This node
/// receives the groups to which it listens from any interface.
TEST_P(Multicast, P06_StaticRoutesAndThisNodeTakeStrayPackets) {
  set_delivery(kEth0, s.group, true, bits({kIb0, kIb1}), "::", bits({kIb1}));
  for (const table::InterfaceId iface : {kIb0, kIb1}) join(iface, s.group, kGroupAh);
  feed_port(s.packet());
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_TRUE(sent_by_link(kIb1).empty());
  EXPECT_EQ(punted().size(), 1U);
  set_delivery(kEth0, s.group, true, bits({kIb1}), "::", bits({kIb1}));
  feed_port(s.packet());
  EXPECT_EQ(punted().size(), 1U);
  EXPECT_EQ(all_drops(), 0U) << "it went somewhere";
}

/// The reports for the election of forwarders, without those of sources.
std::vector<Punted> heard(const std::vector<Punted>& all) {
  std::vector<Punted> rows;
  std::ranges::copy_if(all, std::back_inserter(rows),
                       [](const Punted& p) { return p.message.kind == Up::Kind::kMulticastHeard; });
  return rows;
}

/// Also if the packet is forwarded to another interface, or its source has a delivery of its own.
TEST_P(Multicast, P06_PacketsThatThisNodeStandsByForAreReported) {
  entries[kIb0].multicast_router = true;
  join(kIb1, s.group, kGroupAh);
  struct Row {
    const char* source;
    bool local;
    std::uint64_t out;
  };
  for (const Row& row : {Row{"::", false, 0}, Row{"::", true, 0}, Row{"::", false, bits({kIb1})},
                         Row{s.source, false, bits({kIb1})}}) {
    set_delivery(kIb0, s.group, row.local, row.out, row.source, row.out);
    feed_link(s.packet());
    EXPECT_TRUE(heard(punted()).empty()) << "this node does not stand by";
    sent_by_link(kIb1);
    set_delivery(kIb0, s.group, row.local, row.out, row.source, row.out, true);
    next_interval();
    for (int i = 0; i < 3; ++i) feed_link(s.packet());
    const auto reports = heard(punted());
    ASSERT_EQ(reports.size(), 1U) << "in some intervals";
    EXPECT_EQ(reports[0].message.iface, kIb0);
    EXPECT_EQ(reports[0].message.from, kIb0);
    EXPECT_EQ(reports[0].message.addr, *wire::parse_ip(s.group));
    EXPECT_EQ(reports[0].message.source, *wire::parse_ip(s.source));
    EXPECT_EQ(reports[0].message.mbuf, nullptr);
    EXPECT_EQ(sent_by_link(kIb1).size(), row.out == 0 ? 0U : 3U);
    next_interval();
    feed_link(s.packet());
    EXPECT_EQ(heard(punted()).size(), 1U) << "and again";
    sent_by_link(kIb1);
  }
  next_interval();
  feed_link(s.packet(1));
  EXPECT_TRUE(heard(punted()).empty()) << "its last hop";
}

/// Another router may forward only one of the sources, whether they have deliveries of their own or not.
TEST_P(Multicast, P06_EachSourceThatThisNodeStandsByForIsReported) {
  for (const table::InterfaceId iface : {kIb0, kIb1}) entries[iface].multicast_router = true;
  const Stream other{s.group, s.v6 ? "fd00:a::8" : "10.0.0.8", s.routers, s.v6};
  const auto reported = [&](const char* source) {
    const auto reports = heard(punted());
    return reports.size() == 1 && reports[0].message.source == *wire::parse_ip(source);
  };
  for (const bool own_delivery : {false, true}) {
    set_delivery(kIb0, s.group, false, 0, "::", 0, true);
    if (own_delivery) set_delivery(kIb0, s.group, false, bits({kIb1}), other.source, bits({kIb1}));
    for (const table::InterfaceId iface : {kIb0, kIb1}) {
      next_interval();
      for (const Stream& stream : {s, other}) {
        feed_link(stream.packet(), iface);
        const bool forwarded = own_delivery && stream.source == other.source && iface == kIb0;
        EXPECT_EQ(reported(stream.source), !forwarded) << stream.source;
      }
    }
  }
}

/// A source that a route to a prefix of groups names must be reported as before.
TEST_P(Multicast, P06_SourcesOfGroupsThatThisNodeStandsByForAreToldOf) {
  entries[kIb0].multicast_router = true;
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  feed_link(s.packet());
  const auto all = punted();
  EXPECT_TRUE(std::ranges::any_of(
      all, [](const Punted& p) { return p.message.kind == Up::Kind::kMulticastUnknown; }));
  expect_drop(kIb0, Drop::kIpMulticast);
}

/// The source is on ib0. A packet from it that arrives elsewhere was forwarded there by a router.
TEST_P(Multicast, P06_PacketsOfOtherForwardersAreReported) {
  for (const table::InterfaceId iface : {kIb0, kIb1, kEth0}) entries[iface].multicast_router = true;
  const auto feed_stray = [&](bool by_port) {
    next_interval();
    by_port ? feed_port(s.packet()) : feed_link(s.packet(), kIb1);
    const auto reports = heard(punted());
    for (const Punted& p : reports) {
      EXPECT_EQ(p.message.iface, by_port ? kEth0 : kIb1);
      EXPECT_EQ(p.message.from, kIb0);
      EXPECT_EQ(p.message.addr, *wire::parse_ip(s.group));
    }
    return reports.size();
  };
  EXPECT_EQ(feed_stray(false), 0U) << "no delivery";
  set_delivery(kIb0, s.group, false, bits({kIb1}), "::", bits({kIb1}));
  EXPECT_EQ(feed_stray(false), 1U) << "this node forwards it too";
  EXPECT_EQ(feed_stray(true), 0U) << "not there";
  set_delivery(kIb0, s.group, false, bits({kIb1}));
  EXPECT_EQ(feed_stray(false), 0U) << "a static route";
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  EXPECT_EQ(feed_stray(false), 1U) << "this node stands by";
  EXPECT_EQ(feed_stray(true), 1U);
  for (const char* const source : {"::", s.source}) {
    set_delivery(kEth0, s.group, true, bits({kIb1}), source, bits({kIb1}));
    EXPECT_EQ(feed_stray(true), 1U) << "whatever delivery the ingress has";
  }
  entries[kEth0].multicast_router = false;
  EXPECT_EQ(feed_stray(true), 0U) << "no multicast router's";
}

/// Routers of a link compare the addresses of the sender and their own.
TEST_P(Multicast, P06_ReportsSayWhetherTheOtherForwarderHasTheLowerAddress) {
  for (const table::InterfaceId iface : {kIb0, kIb1, kEth0}) entries[iface].multicast_router = true;
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  const auto lower = [&]() -> std::optional<bool> {
    loop();
    const auto reports = heard(punted());
    next_interval();
    if (reports.size() != 1) return std::nullopt;
    return reports[0].message.lower;
  };
  for (const int sender : {0x10, 0xf0, 0xa0}) {
    receive(kEth0, ethernet(group_mac(s.group), mac(static_cast<std::uint8_t>(sender)), s.type(),
                            s.packet()));
    EXPECT_EQ(lower(), sender == 0xa0 ? std::nullopt : std::optional{sender == 0x10}) << sender;
  }
  const auto gid = [](std::uint64_t last) {
    return wire::Gid::of(0xfe80'0000'0000'0000, 0x0002'c903'000a'0b00 + last);
  };
  entries[kIb1].set_gid(gid(5));
  entries[kIb1].ud_queues = ud_queues;
  const std::uint32_t own = ud_queues.front()->qpn();
  for (const auto& [sender, qpn, is_lower] :
       {std::tuple{gid(4), own + 1, true}, std::tuple{gid(6), own - 1, false},
        std::tuple{gid(5), own - 1, true}, std::tuple{gid(5), own + 0x1000, false}}) {
    receive_group(kIb1, on_link(s.packet()), sender, qpn);
    EXPECT_EQ(lower(), is_lower) << sender.guid() << " " << qpn;
  }
  receive_group(kIb1, on_link(s.packet()), gid(5), own);
  EXPECT_EQ(lower(), std::nullopt) << "own packet";
}

/// An interface takes so many groups. Up to eight that share a place in the table take turns; the secret
/// key of the table decides how many do, and more than eight are very rare.
TEST_P(Multicast, P06_ReportsOf4096SourcesAreOnTime) {
  entries[kIb0].multicast_router = true;
  set_delivery(kIb0, s.group, false, 0, "::", 0, true);
  std::set<wire::IpAddr> reported;
  std::size_t reports = 0;
  for (std::uint32_t interval = 0; interval < configs[0].punt.heard_again; ++interval) {
    worker().iterate(rte_rdtsc() + ++hours_ * 3'600 * rte_get_tsc_hz());
    for (int i = 0; i < 4'096; ++i) {
      const std::string source =
          s.v6 ? "fd00:a::1:" + std::to_string(i)
               : "10.0." + std::to_string(i / 16) + "." + std::to_string(i % 16 + 100);
      feed_link(Stream{s.group, source.c_str(), s.routers, s.v6}.packet());
      for (const Punted& p : heard(punted())) {
        reported.insert(p.message.source);
        ++reports;
      }
    }
  }
  EXPECT_GE(reported.size(), 4'096U - 16);
  EXPECT_LE(reports, 4'096U * 3 / 2) << "most of them once";
}

/// Any number of groups, and groups that share a place in the table of reports, have their limit.
TEST_P(SourceLimits, P06_ReportsOfForwardersHaveALimit) {
  entries[kIb0].multicast_router = true;
  std::size_t reports = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 1; i <= 60; ++i) {
      const std::string group = (s.v6 ? "ff0e::" : "239.1.2.") + std::to_string(i);
      set_delivery(kIb0, group, false, 0, "::", 0, true);
      feed_link(s.packet_to(group.c_str()));
      const auto all = punted();
      reports += static_cast<std::size_t>(std::ranges::count_if(
          all, [](const Punted& p) { return p.message.kind == Up::Kind::kMulticastHeard; }));
    }
  }
  EXPECT_EQ(reports, kSourcesPerInterval);
}

TEST_P(Multicast, P06_LastHopAndOwnOnly) {
  forward(kIb0, kIb1);
  feed_link(s.packet(1));
  feed_link(s.packet(0));
  EXPECT_EQ(drops(kIb0, Drop::kIpTtlExceeded), 2U);
  EXPECT_TRUE(punted().empty()) << "no error is told";
  set_delivery(kIb0, s.group, true, bits({kIb1}));
  feed_link(s.packet(1));
  EXPECT_EQ(punted().size(), 1U) << "still for this node";
  EXPECT_TRUE(sent_by_link(kIb1).empty());
  EXPECT_EQ(all_drops(), 2U);
}

TEST_P(Multicast, P06_LinkScopeStaysOnItsLink) {
  const char* const near = s.v6 ? "ff02::77" : "224.0.0.77";
  set_delivery(kIb0, near, true, bits({kIb1}));
  join(kIb1, near, kGroupAh);
  feed_link(s.packet_to(near));
  EXPECT_EQ(punted().size(), 1U);
  EXPECT_TRUE(sent_by_link(kIb1).empty());
  set_delivery(kIb0, near, false, bits({kIb1}));
  feed_link(s.packet_to(near));
  expect_drop(kIb0, Drop::kIpMulticast);
}

TEST_P(Multicast, U28_U30_AbsentGroupsAreKnownToBe) {
  set_delivery(kEth0, s.group, false, bits({kIb0}));
  join(kIb0, s.group, 0, 2044, table::NeighbourState::kFailed);
  for (int i = 0; i < 5; ++i) feed_port(s.packet());
  EXPECT_EQ(drops(kEth0, Drop::kGroupAbsent), 5U);
  EXPECT_TRUE(punted().empty()) << "nobody is asked again, nobody is told";
  EXPECT_EQ(all_drops(), 5U);
}

TEST_P(Multicast, U29_U30_UnknownGroupsAreWantedWithinLimits) {
  configs[0].punt = {};
  set_delivery(kEth0, s.group, false, bits({kIb0}));
  for (int i = 0; i < 20; ++i) feed_port(s.packet());
  const auto wanted = punted();
  ASSERT_LE(wanted.size(), 17U) << "16 an interval";
  EXPECT_EQ(wanted[0].message.kind, Up::Kind::kNeighbourWanted);
  EXPECT_EQ(wanted[0].message.iface, kIb0);
  EXPECT_EQ(wanted[0].message.addr, *wire::parse_ip(s.group));
  EXPECT_EQ(wanted[0].bytes, s.packet(63));
  EXPECT_EQ(drops(kEth0, Drop::kNeighbourPending) + wanted.size(), 20U);
  EXPECT_TRUE(sent_by_link(kIb0).empty()) << "nothing leaves before its join";

  join(kIb0, s.group, kGroupAh);
  send_own(wanted[0].bytes);
  EXPECT_EQ(only_sent_by_link(kIb0).bytes, on_link(s.packet(63))) << "no second hop";
}

TEST_P(Multicast, U37_OwnPacketsFromTheFabricAreDropped) {
  set_delivery(kIb0, s.group, true, 0);
  const Bytes frame = on_link(s.packet());
  const wire::Gid other = wire::Gid::of(0xfe80'0000'0000'0000, 0x0002'c903'000a'0b02);
  receive_group(kIb0, frame, kOwnGid, links[0].qpn());
  loop();
  expect_drop(kIb0, Drop::kIpoibOwnMulticast);
  EXPECT_TRUE(punted().empty());

  entries[kIb0].ud_queues = ud_queues;
  receive_group(kIb0, frame, kOwnGid, links[1].qpn());
  loop();
  EXPECT_EQ(drops(kIb0, Drop::kIpoibOwnMulticast), 2U) << "another worker's queue pair";
  EXPECT_TRUE(punted().empty());

  receive_group(kIb0, frame, other, links[0].qpn());
  loop();
  EXPECT_EQ(punted().size(), 1U) << "the same queue pair number on another port";
  receive_group(kIb0, frame, kOwnGid, 0x77);
  loop();
  EXPECT_EQ(punted().size(), 1U) << "another queue pair of this port";
  feed_link(s.packet());
  EXPECT_EQ(punted().size(), 1U) << "no GRH to tell by";
  entries[kIb0].set_gid(other);
  receive_group(kIb0, frame, kOwnGid, links[0].qpn());
  loop();
  EXPECT_EQ(punted().size(), 1U) << "the GID has changed";
  receive_group(kIb0, encapsulated(0x0806, Bytes(56)), other, links[0].qpn());
  loop();
  EXPECT_TRUE(punted().empty()) << "ARP requests, too";
  EXPECT_EQ(drops(kIb0, Drop::kIpoibOwnMulticast), 3U);
  EXPECT_EQ(all_drops(), 3U);
}

/// The limit holds for any number of sources.
TEST_P(SourceLimits, P06_SourcesAreToldOfWithinLimits) {
  entries[kIb0].multicast_router = true;
  std::size_t told = 0;
  for (int i = 2; i <= 21; ++i) {
    const std::string source = (s.v6 ? "fd00:a::" : "10.0.0.") + std::to_string(i);
    Stream one = s;
    one.source = source.c_str();
    feed_link(one.packet());
    told += punted().size();
  }
  EXPECT_EQ(told, kSourcesPerInterval);
  EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), 20U);
}

TEST_P(Multicast, M05_CopiesWaitForTheAllRoutersGroup) {
  entries[kIb0].copy_to_routers = true;
  join(kIb0, s.group, kGroupAh);
  send_own(s.packet());
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << "itself at once";
  const Punted wanted = only_punted();
  EXPECT_EQ(wanted.message.kind, Up::Kind::kNeighbourWanted);
  EXPECT_EQ(wanted.message.addr, *wire::parse_ip(s.routers));
  EXPECT_EQ(wanted.message.iface, kIb0);
  EXPECT_EQ(wanted.held.onward, fabric::Onward::kToRouters);
  EXPECT_EQ(wanted.bytes, s.packet());

  join(kIb0, s.routers, kRoutersAh);
  msg::Down release{};
  release.kind = msg::Down::Kind::kSendToRouters;
  release.iface = kIb0;
  release.mbuf = mbuf(s.packet());
  send_down(release);
  loop();
  const SentOnLink sent = only_sent_by_link(kIb0, "the copy alone");
  EXPECT_EQ(sent.to.ah, kRoutersAh);
  EXPECT_EQ(sent.bytes, on_link(s.packet()));
  EXPECT_EQ(all_drops(), 0U);
}

TEST_P(Multicast, M05_NoCopyWhereThePacketItselfGoesThere) {
  entries[kIb0].copy_to_routers = true;
  join(kIb0, s.routers, kRoutersAh);
  table::Neighbour n = ib_neighbour(kIb0, s.group, kGroupAh, kMulticastQpn);
  n.via_routers = true;
  set_neighbour(next_++, n);
  send_own(s.packet());
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  table::Neighbour none = ib_neighbour(kIb0, s.routers, 0, kMulticastQpn);
  none.state = table::NeighbourState::kFailed;
  n.via_routers = false;
  set_neighbour(0, none);
  set_neighbour(1, n);
  send_own(s.packet());
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  expect_drop(table::kNoInterface, Drop::kGroupAbsent, "the copy");
}

TEST_P(Multicast, M05_CopiesToTheAllRoutersGroup) {
  set_delivery(kEth0, s.group, false, bits({kIb0, kIb1}));
  for (const table::InterfaceId iface : {kIb0, kIb1}) {
    join(iface, s.group, kGroupAh);
    join(iface, s.routers, kRoutersAh);
  }
  entries[kIb0].copy_to_routers = true;
  feed_port(s.packet());
  auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].bytes, on_link(s.packet(63)));
  EXPECT_EQ(sent[1].bytes, sent[0].bytes);
  EXPECT_EQ(std::set({sent[0].to.ah, sent[1].to.ah}), std::set({kGroupAh, kRoutersAh}));
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U) << "that link is not set so";

  send_own(s.packet());
  EXPECT_EQ(sent_by_link(kIb0).size(), 2U) << "what this node sends, too";
  const char* const near = s.v6 ? "ff02::77" : "224.0.0.77";
  join(kIb0, near, 70);
  send_on_interface(s.packet_to(s.routers), kIb0);
  send_own(s.packet_to(near));
  sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 2U) << "not to itself, and link scope stays as it is";
  EXPECT_EQ(all_drops(), 0U);
}

TEST_P(Multicast, M05_U28_GroupsSentToTheRoutersAreNotCopied) {
  set_delivery(kEth0, s.group, false, bits({kIb0}));
  entries[kIb0].copy_to_routers = true;
  join(kIb0, s.group, kRoutersAh);
  join(kIb0, s.routers, kRoutersAh);
  feed_port(s.packet());
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << "it is there already";
  // Their handle allows no more frames, and one of both entries is new.
  links[0].first_by_handle = kGroupAh;
  links[0].heads_version = 1;
  loop();
  next_ = 0;
  join(kIb0, s.group, kRoutersAh);
  feed_port(s.packet());
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << "it still is";
  EXPECT_EQ(all_drops(), 0U);
}

TEST_P(Multicast, U29_EachInterfaceOfABurstHasItsOwnState) {
  const char* const second = s.v6 ? "ff0e::77" : "239.1.2.77";
  forward(kEth0, kIb0);
  set_delivery(kEth0, second, false, bits({kIb1}));
  join(kIb1, second, kGroupAh);
  join(kIb1, s.routers, kRoutersAh);
  const auto feed_both = [&] {
    receive(kEth0, ethernet(group_mac(s.group), mac(0x10), s.type(), s.packet()));
    receive(kEth0, ethernet(group_mac(second), mac(0x10), s.type(), s.packet_to(second)));
    loop();
  };
  feed_both();
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  entries[kIb1].copy_to_routers = true;
  feed_both();
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_EQ(sent_by_link(kIb1).size(), 2U) << "one for the routers";
  entries[kIb0].up = false;
  feed_both();
  expect_drop(kEth0, Drop::kLinkDown, "and no ICMP error");
  EXPECT_TRUE(punted().empty());
  EXPECT_EQ(sent_by_link(kIb1).size(), 2U);
}

TEST_P(Multicast, P06_PacketsOfSourcesThatStayAreNotForwarded) {
  forward(kIb0, kIb1);
  join(kEth0, s.group, 0);
  std::uint64_t dropped = 0;
  for (const auto& out : {bits({kIb1}), bits({kIb1, kEth0})}) {
    set_delivery(kIb0, s.group, false, out);
    Stream near = s;
    near.source = s.v6 ? "fe80::9" : "169.254.0.9";
    feed_link(near.packet());
    EXPECT_EQ(drops(kIb0, Drop::kIpMulticast), ++dropped);
    EXPECT_TRUE(sent_by_link(kIb1).empty());
    EXPECT_TRUE(sent_by_port(kEth0).empty());
  }
}

TEST_P(Multicast, P06_NeverBackToTheOnlyInterface) {
  forward(kIb0, kIb0);
  feed_link(s.packet());
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  expect_drop(kIb0, Drop::kIpMulticast);
}

TEST_P(Multicast, U15_TooBigForOneLink) {
  set_delivery(kEth0, s.group, false, bits({kIb0, kIb1}));
  join(kIb0, s.group, kGroupAh, 1280);
  join(kIb1, s.group, kGroupAh, 2044);
  feed_port(s.packet(64, 1400));
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  if (s.v6) {
    EXPECT_TRUE(sent_by_link(kIb0).empty());
    const Punted p = only_punted();
    EXPECT_EQ(p.message.icmp_type, 2);
    EXPECT_EQ(p.message.mtu, 1280);
    return;
  }
  EXPECT_EQ(sent_by_link(kIb0).size(), 2U) << "fragments";
  feed_port(
      Ip4{.src = s.source, .dst = s.group, .payload_len = 1400, .flags_offset = 0x4000}.bytes());
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  EXPECT_TRUE(punted().empty()) << "no error about a group";
  expect_drop(kEth0, Drop::kIpTooBig);
}

TEST_P(Multicast, P06_LinksThatAreDownAndMissingBuffersCount) {
  set_delivery(kEth0, s.group, false, bits({kIb0, kIb1}));
  join(kIb0, s.group, kGroupAh);
  join(kIb1, s.group, kGroupAh);
  entries[kIb0].up = false;
  feed_port(s.packet());
  EXPECT_EQ(sent_by_link(kIb1).size(), 1U);
  expect_drop(kEth0, Drop::kLinkDown);
}

TEST_P(Multicast, P06_NonsenseFromManagementChangesNothing) {
  set_delivery(kEth0, s.group, true, bits({9}));
  set_delivery(17, s.group, true, 0);
  remove_delivery(kEth0);
  EXPECT_EQ(worker().stats().bad_messages.get(), 3U);
  send_on_interface(s.packet(), 99);
  loop();
  expect_drop(table::kNoInterface, Drop::kIbTxInvalid);
  send_on_interface(Bytes(40, std::byte{0x50}), kIb0);
  send_own(Bytes(10, std::byte{0x40}));
  EXPECT_EQ(drops(table::kNoInterface, Drop::kIpVersion), 1U);
  EXPECT_EQ(drops(table::kNoInterface, Drop::kIpRunt), 1U);
}

TEST_P(Multicast, U29_RemovedDeliveriesEnd) {
  set_delivery(kIb0, s.group, true, 0);
  feed_link(s.packet());
  EXPECT_EQ(punted().size(), 1U);
  remove_delivery(kIb0);
  feed_link(s.packet());
  expect_drop(kIb0, Drop::kIpMulticast);
}

/// The delivery remembers the number of its neighbour, which another neighbour may get later.
TEST_P(Multicast, U29_PacketsNeverFollowAnEarlierNeighbour) {
  const char* const other = s.v6 ? "ff0e::777" : "239.7.7.7";
  forward(kEth0, kIb0);  // The group has number 0.
  feed_port(s.packet());
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kGroupAh);

  // Another address handle under the same number.
  set_neighbour(0, ib_neighbour(kIb0, s.group, kGroupAh + 1, kMulticastQpn));
  feed_port(s.packet());
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kGroupAh + 1);

  // Another number, and the former one belongs to another group, or to a host of another link.
  set_neighbour(7, ib_neighbour(kIb0, s.group, kGroupAh + 2, kMulticastQpn));
  set_neighbour(0, ib_neighbour(kIb0, other, kGroupAh + 3, kMulticastQpn));
  feed_port(s.packet());
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kGroupAh + 2);
  set_neighbour(9, ib_neighbour(kIb0, s.group, kGroupAh + 4, kMulticastQpn));
  set_neighbour(7, ib_neighbour(kIb1, s.group, kGroupAh + 5, kMulticastQpn));
  feed_port(s.packet());
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kGroupAh + 4);

  // No number: the packet waits for a join.
  msg::Down remove{};
  remove.kind = msg::Down::Kind::kNeighbourRemove;
  remove.index = 9;
  send_down(remove);
  feed_port(s.packet());
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  EXPECT_EQ(only_punted().message.kind, Up::Kind::kNeighbourWanted);

  // Another interface: the number belongs to the former one.
  set_neighbour(9, ib_neighbour(kIb0, s.group, kGroupAh, kMulticastQpn));
  feed_port(s.packet());
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, kGroupAh);
  set_delivery(kEth0, s.group, false, bits({kIb1}));
  feed_port(s.packet());
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  EXPECT_EQ(only_sent_by_link(kIb1).to.ah, kGroupAh + 5);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_P(Multicast, U29_StoppedForwardingHasNoCopies) {
  forward(kIb0, kIb1);
  settings.forwarding = false;
  feed_link(s.packet());
  expect_drop(kIb0, Drop::kForwardingStopped);
}

}  // namespace
}  // namespace ipoib::fwd::test
