// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of links that share a simulated fabric with the embedded administrator.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "lib/link/ipoib/group_senders.h"
#include "lib/sa/queries.h"
#include "lib/wire/nd.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/link/sim_groups.h"

namespace ipoib::link {
namespace {

using Groups = SimGroups;

TEST_F(Groups, U32_JoinCreatesTheGroupLikeTheBroadcastGroupAndAttachesOnceJoined) {
  bring_up(1);
  join(0, kGlobal);
  EXPECT_EQ(node(0).actions->attached.size(), 2U);  // not attached before the SA accepted the join
  EXPECT_EQ(node(0).addresses->listening.size(), 2U);
  EXPECT_EQ(row(0, kGlobal).state, "joining");
  f.run_for(10ms);
  const auto* g = f.group(kGlobal);
  const auto* broadcast = f.group("255.255.255.255");
  ASSERT_NE(g, nullptr);
  ASSERT_NE(broadcast, nullptr);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kFull);
  EXPECT_EQ(g->record.pkey, broadcast->record.pkey);
  EXPECT_EQ(g->record.qkey, broadcast->record.qkey);
  EXPECT_EQ(g->record.mtu, broadcast->record.mtu);
  EXPECT_EQ(g->record.rate, broadcast->record.rate);
  EXPECT_EQ(g->record.tclass, broadcast->record.tclass);
  EXPECT_EQ(g->record.sl_flow_hop, broadcast->record.sl_flow_hop);
  EXPECT_EQ(node(0).actions->attached.count({g->record.mgid, g->record.mlid.host()}), 1U);
  const auto r = row(0, kGlobal);
  EXPECT_EQ(r.state, "member");
  EXPECT_EQ(r.join_state, kFull);
  EXPECT_EQ(r.mlid, g->record.mlid.host());
  EXPECT_EQ(r.joins, 1U);
}

TEST_F(Groups, U33_LastLeaveIsToldToTheSaAndDetaches) {
  bring_up(1);
  join(0, kGlobal);
  join(0, kGlobal, 10ms);
  leave(0, kGlobal, 10ms);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kFull);
  leave(0, kGlobal, 10ms);
  EXPECT_EQ(f.group(kGlobal), nullptr);
  EXPECT_EQ(node(0).actions->attached.size(), 2U);
  EXPECT_EQ(node(0).addresses->listening.size(), 1U);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 1U);
  EXPECT_FALSE(node(0).link->leave_group(ip(kGlobal), f.now));
  EXPECT_FALSE(node(0).link->join_group(ip("10.0.0.7"), f.now));
}

TEST_F(Groups, U33_ShutdownLeavesEveryMembership) {
  f.config.group.multicast_router = true;
  bring_up(2);
  join(0, kGlobal);
  join(1, "ff05::7", 100ms);
  send(0, "ff05::7");
  send(1, kGlobal, 100ms);
  EXPECT_EQ(heard(0, kGlobal), 1U);
  EXPECT_EQ(heard(1, "ff05::7"), 1U);
  stop_all();
  EXPECT_EQ(f.members(), 0U);
  for (const auto& [port, subscriber] : f.administrator().subscriptions().all())
    EXPECT_TRUE(subscriber.wanted.empty());
}

TEST_F(Groups, U33_EachMembershipIsLeftOnceAtStop) {
  f.config.ip6.enabled = true;
  bring_up(2);
  join(0, kGlobal, 5s);
  leave(0, kGlobal);
  node(0).link->stop(f.now);  // the leave is still under way
  stop_all();
  for (const auto& n : f.nodes) {
    const auto c = n->link->counters();
    EXPECT_GE(c.group_leaves_sent, 3U);  // ff02::1, solicited-node, 224.0.0.1
    EXPECT_EQ(c.group_leaves_sent, c.group_joins_sent - c.group_joins_failed);
  }
  EXPECT_EQ(f.members(), 0U);
}

TEST_F(Groups, U27_SendOnlyNonMemberJoinBeforeFirstPacket) {
  bring_up(2);
  join(1, kGlobal, 10ms);
  f.administrator_silent = true;
  send(0, kGlobal, 100ms);
  EXPECT_EQ(node(0).sent[ip(kGlobal)], 0U);  // U-29: held until the port is a member
  EXPECT_EQ(row(0, kGlobal).held, 1U);
  f.administrator_silent = false;
  f.run_for(2s);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kSendOnly);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  const auto* n = node(0).sink->find(ip(kGlobal));
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->qpn, wire::kMulticastQpn);
  EXPECT_EQ(n->mtu, 2044);
  const auto& ah = node(0).actions->ahs.at(n->ah);
  EXPECT_TRUE(ah.global);  // U-14
  EXPECT_EQ(ah.dgid, f.group(kGlobal)->record.mgid);
  EXPECT_EQ(ah.dlid, f.group(kGlobal)->record.mlid.host());
  EXPECT_EQ(node(0).actions->attached.size(), 2U);  // a sender is not attached
}

TEST_F(Groups, U14_MulticastHasAGrhWithTheGroupsValues) {
  wire::McMemberRecord r{};
  r.mgid = wire::mgid_of(ip("ff0e::5"), 0x8001, 14);
  r.mlid.set(0xc00d);
  r.rate = wire::with_selector(wire::Selector::kExactly, 7);
  r.tclass = 3;
  r.sl_flow_hop = wire::McMemberRecord::pack(6, 0x54321, 64);
  const auto attr = group_ah(r);
  EXPECT_TRUE(attr.global);
  EXPECT_EQ(attr.dgid, r.mgid);
  EXPECT_EQ(attr.dlid, 0xc00d);
  EXPECT_EQ(attr.rate, 7);  // U-22
  EXPECT_EQ(attr.sl, 6);
  EXPECT_EQ(attr.tclass, 3);
  EXPECT_EQ(attr.flow_label, 0x54321U);
  EXPECT_EQ(attr.hop_limit, 64);
}

TEST_F(Groups, U04_GroupsHaveTheScopeOfTheBroadcastGroup) {
  f.config.scope = 5;
  f.config.create_broadcast = BroadcastAttributes{};
  bring_up(2);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 10ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  for (const auto& n : f.nodes)
    for (const auto& [group, users] : n->actions->attached)
      EXPECT_EQ(std::to_integer<int>(group.first.bytes[1]) & 0xf, 5);
}

/// The FullMember leave and the SendOnlyNonMember join are under way.
TEST_F(Groups, U29_NothingIsSentBetweenListeningAndSendingOnly) {
  bring_up(2);
  join(0, kGlobal);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 10ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  leave(0, kGlobal);
  send(0, kGlobal);
  EXPECT_EQ(node(0).sent[ip(kGlobal)], 1U);
  EXPECT_EQ(row(0, kGlobal).held, 1U);
  f.run_for(10ms);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kSendOnly);
  EXPECT_EQ(row(0, kGlobal).held, 0U);
  EXPECT_EQ(heard(1, kGlobal), 2U);
  stop_all();
}

TEST_F(Groups, U28_AbsentGroupIsDroppedAndNothingIsFlooded) {
  bring_up(2);
  const auto broadcasts = f.broadcasts;
  for (const auto* group : {kGlobal, kLocal, "ff05::9"}) {
    send(0, group, 50ms);
    const auto* n = node(0).sink->find(ip(group));
    ASSERT_NE(n, nullptr) << group;
    EXPECT_EQ(n->state, table::NeighbourState::kFailed);
    EXPECT_EQ(row(0, group).state, "absent");
  }
  EXPECT_EQ(node(0).sink->drops[Drop::kGroupAbsent], 3U);
  EXPECT_EQ(f.broadcasts, broadcasts);
  EXPECT_EQ(node(0).sink->unreachables, 0U);
  EXPECT_EQ(f.group(kGlobal), nullptr);
}

TEST_F(Groups, U28_AbsentGroupBeyondTheLinkGoesToAllRouters) {
  bring_up(2);
  join(1, "224.0.0.2", 10ms);
  send(0, kGlobal);
  send(0, kLocal, 50ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  EXPECT_EQ(row(0, kGlobal).state, "all-routers");
  ASSERT_NE(node(0).sink->find(ip(kGlobal)), nullptr);
  EXPECT_TRUE(node(0).sink->find(ip(kGlobal))->via_routers) << "no copy need follow";
  EXPECT_EQ(f.join_state("224.0.0.2", node(0)), kSendOnly);
  // Routers do not receive link-local groups.
  EXPECT_EQ(row(0, kLocal).state, "absent");
  EXPECT_EQ(heard(1, kLocal), 0U);
  // The router leaves its group.
  leave(1, "224.0.0.2", 200ms);
  send(0, kGlobal);
  EXPECT_EQ(node(0).group_refused[ip(kGlobal)], 1U);
}

TEST_F(Groups, U28_PacketsToAllRoutersAreNoLongerThanThatGroupTakes) {
  bring_up(2);
  const auto mgid = wire::mgid_of(ip("224.0.0.2"), f.config.pkey, 2);
  auto small = f.group("255.255.255.255")->record;
  small.mtu = 3;  // 1,024 octets
  ask(1, sa::create_group(mgid, node(1).actions->attr.gid(), kFull, small), 10ms);
  send(0, kGlobal, 50ms);
  ASSERT_EQ(row(0, kGlobal).state, "all-routers");
  ASSERT_NE(node(0).sink->find(ip(kGlobal)), nullptr);
  EXPECT_EQ(node(0).sink->find(ip(kGlobal))->mtu, 1020);
  // The group is created again with the MTU of the link, so packets to it may be longer again.
  ask(1, sa::leave_group(mgid, node(1).actions->attr.gid(), f.config.pkey, kFull), 10ms);
  join(1, "224.0.0.2");
  ASSERT_TRUE(f.run_until(
      [&] {
        send(0, kGlobal);
        return node(0).sink->find(ip(kGlobal))->mtu == 2044;
      },
      20s));
  EXPECT_EQ(row(0, kGlobal).state, "all-routers");
}

TEST_F(Groups, U28_FloodingToTheBroadcastGroupIsASetting) {
  f.config.group.flood_absent = true;
  bring_up(2);
  send(0, kGlobal, 50ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  EXPECT_EQ(row(0, kGlobal).state, "broadcast");
}

/// Hosts that want packets of link-local scope have joined their group, so none need the detour.
TEST_F(Groups, U28_GroupsOfTheLinkAreNeverFlooded) {
  f.config.group.flood_absent = true;
  bring_up(2);
  for (const char* group : {kLocal, "224.0.0.2", "ff02::5"}) {
    send(0, group, 50ms);
    EXPECT_EQ(heard(1, group), 0U) << group;
    EXPECT_EQ(row(0, group).state, "absent") << group;
  }
  EXPECT_EQ(node(0).sink->drops[Drop::kGroupAbsent], 3U);
  // One record serves both scopes (RFC 4391 §4): only packets of the wider one are flooded.
  send(0, "ff05::5", 50ms);
  EXPECT_EQ(heard(1, "ff05::5"), 1U);
  send(0, "ff02::5", 50ms);
  EXPECT_EQ(heard(1, "ff02::5"), 0U);
}

TEST_F(Groups, U27_LinuxsHabitCreatesTheGroupAsSendOnlyFullMember) {
  f.config.group.send_only = SendOnly::kFullMember;
  bring_up(2);
  send(0, kLocal, 50ms);
  EXPECT_EQ(f.join_state(kLocal, node(0)), kSendOnlyFull);
  EXPECT_EQ(node(0).sent[ip(kLocal)], 1U);
  EXPECT_EQ(node(0).actions->attached.size(), 2U);
  EXPECT_EQ(node(0).link->counters().group_queries, 0U) << "the join creates it if it is absent";
}

TEST_F(Groups, U29_FullMemberSendsWithoutASecondJoin) {
  bring_up(2);
  join(0, kGlobal);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 50ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kFull);
  EXPECT_EQ(node(0).link->counters().group_queries, 0U);
  // The node stops listening and continues to send: each leave clears only its own JoinState bit.
  leave(0, kGlobal);
  send(0, kGlobal, 2s);
  send(0, kGlobal, 50ms);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kSendOnly);
  EXPECT_GE(heard(1, kGlobal), 2U);
}

TEST_F(Groups, U30_PresenceAndAbsenceAreCached) {
  bring_up(2);
  join(1, kGlobal, 10ms);
  f.reports = false;
  for (int i = 0; i < 50; ++i) {
    send(0, kGlobal);
    send(0, kLocal, 100ms);
  }
  EXPECT_EQ(heard(1, kGlobal), 50U);
  EXPECT_EQ(node(0).link->counters().group_queries, 2U);
  EXPECT_EQ(node(0).link->counters().group_joins_sent, 2U);
  // A negative answer expires: without a report, the node finds the group all the same.
  join(1, kLocal);
  ASSERT_TRUE(f.run_until(
      [&] {
        send(0, kLocal);
        return heard(1, kLocal) > 0;
      },
      15s));
}

TEST_F(Groups, U30_UnusedSendMembershipIsLeft) {
  bring_up(2);
  join(1, kGlobal, 10ms);
  for (int i = 0; i < 10; ++i) {
    send(0, kGlobal, 60s);
  }
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kSendOnly);
  f.run_for(301s);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), 0U);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 1U);
  EXPECT_EQ(node(0).actions->ahs.size(), 1U);
}

TEST_F(Groups, U33_JoinRefusedOnceAndGrantedOnceIsLeft) {
  bring_up(3);
  join(1, kGlobal, 10ms);
  f.reports = false;
  f.faults.min_delay = f.faults.max_delay = 10ms;
  send(0, kGlobal, 10ms);  // the query's answer takes 20 ms, the join after it arrives at 30 ms
  leave(1, kGlobal, 11ms);
  join(2, kGlobal, 1ms);
  const auto mgid = wire::mgid_of(ip(kGlobal), f.config.pkey, 2);
  ask(0, sa::join_group(mgid, node(0).actions->attr.gid(), f.config.pkey, kSendOnly), 15ms);
  EXPECT_EQ(node(0).link->counters().group_joins_failed, 0U);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kSendOnly) << "the second copy";
  f.run_for(30ms);
  EXPECT_EQ(node(0).link->counters().group_joins_failed, 1U) << "the first";
  EXPECT_EQ(f.join_state(kGlobal, node(0)), 0U);
}

TEST_F(Groups, U31_GroupCreatedAfterTheSenderStartedIsTakenAtOnce) {
  bring_up(3);
  join(2, "224.0.0.2", 10ms);
  send(0, kGlobal);
  send(0, kLocal, 50ms);
  EXPECT_EQ(row(0, kGlobal).state, "all-routers");
  join(1, kGlobal);
  join(1, kLocal, 150ms);
  send(0, kGlobal);
  send(0, kLocal, 10ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  EXPECT_EQ(heard(1, kLocal), 1U);
  EXPECT_EQ(heard(2, kGlobal), 1U);                   // only the first packet
  EXPECT_EQ(f.join_state("224.0.0.2", node(0)), 0U);  // no longer needed
}

// A router's MTU limits IPv6 packets to groups, those that are sent to already and later ones, and
// not those of IPv4.

TEST_F(Groups, M03_M09_MtuOfARouterLimitsIpv6Groups) {
  f.config.ip6.enabled = f.config.ip6.accept_ra = true;
  bring_up(2);
  f.run_for(3s);
  for (const char* group : {"ff1e::1", "ff1e::2", kGlobal}) join(1, group, 20ms);
  send(0, "ff1e::1");
  send(0, kGlobal, 50ms);
  ASSERT_TRUE(node(0).sink->valid(ip("ff1e::1")));
  EXPECT_EQ(node(0).sink->find(ip("ff1e::1"))->mtu, 2044);
  wire::NdMessage m;
  m.type = wire::Icmp6Type::kRouterAdvertisement;
  m.src = ip("fe80::99");
  m.dst = wire::all_nodes();
  m.lifetime_s = 60;
  m.mtu = 1500;
  node(0).link->on_nd(wire::build_nd(m, wire::LinkFormat{wire::LinkKind::kInfiniband}), 0, f.now);
  f.run_for(50ms);
  ASSERT_EQ(node(0).link->mtu6(), 1500);
  send(0, "ff1e::2", 50ms);
  EXPECT_EQ(node(0).sink->find(ip("ff1e::1"))->mtu, 1500);
  EXPECT_EQ(node(0).sink->find(ip("ff1e::2"))->mtu, 1500);
  EXPECT_EQ(node(0).sink->find(ip(kGlobal))->mtu, 2044);
  // The limit ends with the lifetime of the router.
  f.run_for(70s);
  ASSERT_EQ(node(0).link->mtu6(), 2044);
  send(0, "ff1e::1", 50ms);
  EXPECT_EQ(node(0).sink->find(ip("ff1e::1"))->mtu, 2044);
}

// All senders hear of the group at the same moment. Their queries are spread over 100 ms.

TEST_F(Groups, U31_SendersDoNotAskAllAtOnceForACreatedGroup) {
  constexpr std::size_t kNodes = 21;
  bring_up(kNodes);
  for (std::size_t i = 1; i < kNodes; ++i) send(i, kGlobal);
  f.run_for(1s);
  const auto asked = [&] {
    std::uint64_t n = 0;
    for (const auto& each : f.nodes) n += each->link->counters().group_queries;
    return n;
  };
  const std::uint64_t before = asked();
  join(0, kGlobal, 10ms);
  EXPECT_LT(asked() - before, kNodes / 2);
  f.run_for(200ms);
  EXPECT_EQ(asked() - before, kNodes - 1);
}

TEST_F(Groups, U31_DeletedGroupIsForgotten) {
  bring_up(2);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 50ms);
  ASSERT_TRUE(node(0).sink->valid(ip(kGlobal)));
  leave(1, kGlobal, 1500ms);
  EXPECT_FALSE(node(0).sink->valid(ip(kGlobal)));
  EXPECT_EQ(node(0).actions->ahs.size(), 1U);
}

TEST_F(Groups, U31_MembershipThatIsBeingConfirmedEndsWithItsGroup) {
  f.config.membership_refresh = 10s;
  bring_up(2);
  join(0, kGlobal);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 50ms);
  f.administrator_silent = true;  // it does not confirm the membership
  f.run_for(12s);
  ASSERT_EQ(row(0, kGlobal).state, "member");
  const auto mgid = f.group(kGlobal)->record.mgid;
  node(0).link->on_report(wire::make_notice(wire::Trap::kGroupDeleted, mgid, 1, {}), f.now);
  send(0, kGlobal, 50ms);
  EXPECT_FALSE(node(0).sink->valid(ip(kGlobal)));
}

TEST_F(Groups, U31_FullMembersCreateADeletedGroupAgain) {
  bring_up(2);
  join(0, kGlobal);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 50ms);
  const auto mgid = f.group(kGlobal)->record.mgid;
  f.restart_administrator();
  for (const auto& n : f.nodes)
    n->link->on_report(wire::make_notice(wire::Trap::kGroupDeleted, mgid, 1, {}), f.now);
  ASSERT_TRUE(f.run_until([&] { return f.join_state(kGlobal, node(0)) == kFull; }, 30s));
  ASSERT_TRUE(f.run_until([&] { return f.join_state(kGlobal, node(1)) == kFull; }, 30s));
  send(0, kGlobal, 50ms);
  EXPECT_EQ(heard(1, kGlobal), 2U);
}

TEST_F(Groups, U33_MembershipToSendThatALateReportDeniesIsLeft) {
  bring_up(2);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 10ms);
  ASSERT_EQ(f.join_state(kGlobal, node(0)), kSendOnly);
  const auto mgid = f.group(kGlobal)->record.mgid;
  node(0).link->on_report(wire::make_notice(wire::Trap::kGroupDeleted, mgid, 1, {}), f.now);
  join(0, kGlobal, 2s);  // as a listener it no longer needs a membership to send
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kFull);
  stop_all();
}

TEST_F(Groups, U34_MulticastRouterReceivesAllGroupsOfItsLink) {
  bring_up(2);
  join(0, kGlobal, 10ms);
  f.config.group.multicast_router = true;
  bring_up(3);
  f.run_for(500ms);
  EXPECT_EQ(f.join_state(kGlobal, node(2)), kNon);
  EXPECT_EQ(row(2, kGlobal).state, "non-member");
  // Reports announce later groups.
  join(1, "239.9.9.9");
  join(1, "ff05::1:3", 150ms);
  EXPECT_EQ(f.join_state("ff05::1:3", node(2)), kNon);
  EXPECT_EQ(f.join_state("239.9.9.9", node(2)), kNon);
  send(1, kGlobal, 50ms);
  EXPECT_EQ(heard(2, kGlobal), 1U);
  EXPECT_EQ(heard(0, kGlobal), 1U);
  // A NonMember does not keep the group alive.
  leave(1, "239.9.9.9", 1s);
  EXPECT_EQ(f.group("239.9.9.9"), nullptr);
  EXPECT_EQ(row(2, "239.9.9.9").state, "");
}

// A static multicast route needs the groups of its prefix, those that exist and later ones, and no
// others.

TEST_F(Groups, U34_TheGroupsOfARouteAreReceivedWhileItExists) {
  bring_up(3);
  join(0, kGlobal);
  join(0, "239.8.8.8");
  join(0, "ff1e::8", 50ms);
  node(2).link->route_groups({ip(kGlobal), 32}, f.now);
  node(2).link->route_groups({ip("239.9.0.0"), 16}, f.now);
  node(2).link->route_groups({ip("ff1e::"), 16}, f.now);
  f.run_for(500ms);
  EXPECT_EQ(f.join_state(kGlobal, node(2)), kNon);
  EXPECT_EQ(f.join_state("ff1e::8", node(2)), kNon);
  EXPECT_EQ(f.join_state("239.8.8.8", node(2)), 0U);
  send(1, kGlobal, 50ms);
  EXPECT_EQ(heard(2, kGlobal), 1U);
  join(1, "239.9.9.9", 500ms);
  EXPECT_EQ(f.join_state("239.9.9.9", node(2)), kNon);
  node(2).link->unroute_groups({ip("239.9.0.0"), 16}, f.now);
  node(2).link->unroute_groups({ip(kGlobal), 32}, f.now);
  f.run_for(500ms);
  EXPECT_EQ(f.join_state("239.9.9.9", node(2)), 0U);
  EXPECT_EQ(f.join_state(kGlobal, node(2)), 0U);
  EXPECT_EQ(f.join_state("ff1e::8", node(2)), kNon);
  stop_all();
  EXPECT_EQ(f.members(), 0U);
}

TEST_F(Groups, U34_ARouteOfBeforeTheLinkIsUpIsServed) {
  bring_up(1);
  join(0, kGlobal, 10ms);
  SimNode& added = f.add_node("10.0.0.2/24");
  added.link->route_groups({ip(kGlobal), 32}, f.now);
  added.start();
  f.run_for(5s);
  EXPECT_EQ(f.join_state(kGlobal, node(1)), kNon);
}

// A group that is created between the list of groups and the subscription to reports is in neither.

TEST_F(Groups, U34_MulticastRouterFindsGroupsThatAreCreatedWhileItSubscribes) {
  bring_up(2);
  f.config.group.multicast_router = true;
  f.add_node("10.0.0.3/24").start();
  ASSERT_TRUE(f.run_until([&] { return node(2).link->state() == State::kUp; }, 5s));
  f.run_for(1ms);
  join(1, kGlobal, 200ms);
  EXPECT_EQ(f.join_state(kGlobal, node(2)), kNon);
  stop_all();
}

// Every port may create a group with the link's signature, P_Key and scope.

TEST_F(Groups, U34_MulticastRouterIgnoresMgidsOfNoAddress) {
  f.config.group.multicast_router = true;
  bring_up(2);
  f.run_for(500ms);
  const std::size_t before = node(0).link->groups(f.now).size();
  for (const auto& [octet, right] :
       {std::pair{6U, false}, {11U, false}, {12U, false}, {15U, true}}) {
    SCOPED_TRACE(octet);
    wire::Gid mgid = wire::mgid_of(ip(kGlobal), 0xffff, 2);
    mgid.bytes[octet] |= std::byte{0x10};
    bool created = false;
    node(1).client->submit(
        sa::create_group(mgid, node(1).actions->attr.gid(), wire::join_state::kFullMember,
                         f.group("255.255.255.255")->record),
        [&](const auto& answer, TimePoint) { created = answer.has_value(); }, f.now);
    f.run_for(500ms);
    EXPECT_TRUE(created);
    EXPECT_EQ(node(0).link->groups(f.now).size(), before + (right ? 1 : 0));
  }
}

TEST_F(Groups, U33_GroupLeftWhileThePartitionIsGoneIsLeftWhenItIsBack) {
  bring_up(1);
  join(0, kGlobal);
  join(0, kLocal, 100ms);
  const auto pkey = [&](std::uint16_t value) {
    node(0).actions->attr.pkeys = {value};
    node(0).link->on_port_event(fabric::PortEvent::kPkeyChange, f.now);
  };
  pkey(0x8001);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 3U);
  leave(0, kGlobal, 1s);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kFull);  // the SA does not know of the leave
  pkey(0xffff);
  f.run_for(1s);
  EXPECT_EQ(f.group(kGlobal), nullptr);
  EXPECT_EQ(f.join_state(kLocal, node(0)), kFull);
  // A link that stops without its partition leaves no membership behind.
  pkey(0x8001);
  stop_all();
  EXPECT_EQ(f.members(), 0U);
}

TEST_F(Groups, U34_ListAskedForAgainFindsWhatReportsMissed) {
  f.config.membership_refresh = 20s;
  f.config.group.multicast_router = true;
  bring_up(2);
  f.run_for(1s);
  f.reports = false;
  join(0, kGlobal, 1s);
  EXPECT_EQ(f.join_state(kGlobal, node(1)), 0U);
  f.run_for(24s);
  EXPECT_EQ(f.join_state(kGlobal, node(1)), kNon);
  send(0, kGlobal, 10ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
}

TEST_F(Groups, M04_RouterCreatesTheAllRoutersGroupsAtSetUp) {
  f.config.group.multicast_router = true;
  bring_up(1);
  f.run_for(100ms);
  EXPECT_EQ(f.join_state("224.0.0.2", node(0)) & kFull, kFull);
  EXPECT_EQ(f.join_state("ff02::2", node(0)) & kFull, kFull);
}

TEST_F(Groups, M01_AllNodesGroupIsJoinedBesideTheBroadcastGroup) {
  f.config.all_nodes = AllNodes::kJoined;
  bring_up(1);
  f.run_for(10ms);
  EXPECT_EQ(f.join_state("ff02::1", node(0)), kFull);
  EXPECT_EQ(f.join_state("255.255.255.255", node(0)), kFull);
  stop_all();
  EXPECT_EQ(f.members(), 0U);
}

TEST_F(Groups, U35_RefusedJoinIsCountedToldAndTriedAgain) {
  bring_up(1);
  f.administrator_silent = true;
  const std::string log = logged([&] { join(0, kGlobal, 3min); });
  EXPECT_NE(log.find("group ff12:401b:ffff::f01:203: "), std::string::npos) << log;
  EXPECT_LE(std::ranges::count(log, '\n'), 180) << "one line a second";
  const auto c = node(0).link->counters();
  EXPECT_GE(c.group_joins_failed, 5U);
  EXPECT_LE(c.group_joins_sent, 30U);
  EXPECT_FALSE(row(0, kGlobal).reason.empty());
  EXPECT_EQ(row(0, kGlobal).state, "refused");
  EXPECT_EQ(node(0).addresses->listening.size(), 2U);
  f.administrator_silent = false;
  f.run_for(40s);
  EXPECT_EQ(row(0, kGlobal).state, "member");
  EXPECT_TRUE(row(0, kGlobal).reason.empty());
}

TEST_F(Groups, U35_GroupOfOtherAttributesIsJoinedAsItIsAndCreatedOnceGone) {
  bring_up(2);
  auto other = f.group("255.255.255.255")->record;
  other.mtu = 3;  // an administrator may accept joins without checking other attributes
  const auto mgid = wire::mgid_of(ip(kGlobal), f.config.pkey, 2);
  ask(1, sa::create_group(mgid, node(1).actions->attr.gid(), kFull, other), 10ms);
  join(0, kGlobal, 10ms);
  EXPECT_EQ(row(0, kGlobal).state, "refused");
  f.run_for(2s);
  EXPECT_EQ(row(0, kGlobal).state, "member") << "without naming attributes";
  leave(0, kGlobal, 10ms);

  join(0, kGlobal, 10ms);
  EXPECT_EQ(row(0, kGlobal).state, "refused");
  ask(1, sa::leave_group(mgid, node(1).actions->attr.gid(), f.config.pkey, kFull), 10ms);
  f.run_for(8s);
  EXPECT_EQ(row(0, kGlobal).state, "member") << "created";
  EXPECT_EQ(wire::value_of(f.group(kGlobal)->record.mtu), 4);
}

TEST_F(Groups, RestartedAdministratorLearnsOfEveryMembershipAgain) {
  f.config.membership_refresh = 20s;
  bring_up(2);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 10ms);
  f.restart_administrator();
  f.run_for(5s);
  EXPECT_EQ(f.join_state(kGlobal, node(1)), kFull);
  send(0, kGlobal, 2s);
  send(0, kGlobal, 1s);
  EXPECT_EQ(f.join_state(kGlobal, node(0)), kSendOnly);
  EXPECT_GE(heard(1, kGlobal), 2U);
}

TEST_F(Groups, ClientReregisterConfirmsAllWithoutAStormOrALoss) {
  bring_up(2);
  for (int i = 0; i < 200; ++i) join(1, ("239.2.0." + std::to_string(i)).c_str());
  f.run_for(5s);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(f.join_state(("239.2.0." + std::to_string(i)).c_str(), node(1)), kFull);
  f.restart_administrator();
  const auto mads = f.mads;
  for (const auto& n : f.nodes) n->link->on_port_event(fabric::PortEvent::kClientReregister, f.now);
  f.run_for(1ms);
  EXPECT_LE(f.mads - mads, 4U);
  f.run_for(10s);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(f.join_state(("239.2.0." + std::to_string(i)).c_str(), node(1)), kFull) << i;
  EXPECT_LE(f.mads - mads, 700U);  // including the reports of 200 new groups
  EXPECT_EQ(node(1).actions->attached.size(), 202U);
}

TEST_F(Groups, LossOfAFifthEndsWell) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SimFabric g{seed, {0.2, 0.1, 10us, 50ms}};
    g.config.membership_refresh = 10s;
    g.config.group.multicast_router = seed % 2 == 0;
    for (const auto* addr : {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"}) g.add_node(addr).start();
    auto pick = [&](std::uint64_t n) { return static_cast<std::size_t>(g.random() % n); };
    const char* groups[] = {kGlobal, kLocal, "ff05::5", "ff02::5", "224.0.0.2"};
    for (int i = 0; i < 150; ++i) {
      auto& n = *g.nodes[pick(3)];
      const auto group = ip(groups[pick(5)]);
      switch (pick(14)) {
        case 0: static_cast<void>(n.link->join_group(group, g.now)); break;
        case 1: static_cast<void>(n.link->leave_group(group, g.now)); break;
        case 2: g.restart_administrator(); break;
        case 3: g.administrator_silent = pick(2) == 0; break;
        case 4: n.link->on_port_event(fabric::PortEvent::kClientReregister, g.now); break;
        case 5: n.link->stop(g.now); break;
        case 6: n.link->start(g.now); break;
        case 7:
          n.actions->attr.pkeys = {pick(2) == 0 ? std::uint16_t{0xffff} : std::uint16_t{0x8001}};
          n.link->on_port_event(fabric::PortEvent::kPkeyChange, g.now);
          break;
        case 8: n.link->flush(); break;
        case 9: n.link->on_port_event(fabric::PortEvent::kFatal, g.now); break;
        default: n.send_ip(group);
      }
      g.run_for(std::chrono::milliseconds(pick(800)));
    }
    g.faults = {};
    g.administrator_silent = false;
    // A link that stopped before a silent administrator has left memberships behind.
    g.restart_administrator();
    for (const auto& n : g.nodes) {
      n->actions->attr.pkeys = {0xffff};
      g.run_for(3s);
      n->link->start(g.now);
      n->link->on_port_event(fabric::PortEvent::kPkeyChange, g.now);
      ASSERT_TRUE(n->link->join_group(ip("239.5.5.5"), g.now));
    }
    ASSERT_TRUE(g.run_until([&] { return g.all_up(); }, 60s)) << "seed " << seed;
    const auto all_hear = [&] {
      bool all = true;
      for (const auto& n : g.nodes) {
        n->send_ip(ip("239.5.5.5"));
        all = all && (g.join_state("239.5.5.5", *n) & kFull) != 0 &&
              n->group_received[ip("239.5.5.5")] > 0;
      }
      return all;
    };
    ASSERT_TRUE(g.run_until(all_hear, 60s)) << "seed " << seed;
    for (const auto& n : g.nodes) n->link->stop(g.now);
    g.run_for(60s);
    for (const auto& n : g.nodes) {
      EXPECT_TRUE(n->nothing_left()) << "seed " << seed;
      EXPECT_FALSE(n->link->next_deadline()) << "seed " << seed;
    }
    ASSERT_EQ(g.members(), 0U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ipoib::link
