// SPDX-License-Identifier: BSD-3-Clause
// Packets to groups, in IPv4 and IPv6, and packets sent on a given link regardless of the routes.
#include "lib/fwd/multicast.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/lib/fwd/multicast_fixture.h"

namespace ipoib::fwd::test {
namespace {

using msg::Up;

INSTANTIATE_TEST_SUITE_P(, Multicast, kStreams, kStreamName);

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
