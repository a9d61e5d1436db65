// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/membership.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/lib/sa/embedded/administrator_fixture.h"

namespace ipoib::sa::test {
namespace {

using namespace std::chrono_literals;
using wire::Selector;

class MembershipTest : public AdministratorFixture {
 protected:
  using R = wire::McMemberRecord;
  [[nodiscard]] std::size_t group_count() const { return sa->groups().size(); }
};

TEST_F(MembershipTest, U08_BroadcastGroupsComeFromTheConfiguration) {
  AdministratorConfig config = recorded_config();
  config.partitions = {{0x7fff}, {0x0001}, {0x8005, false}};
  config.scope = 5;
  config.mtu = 5;
  config.rate = 7;
  config.sl = 3;
  config.qkey = 0x8001'0b1b;
  restart(config);
  EXPECT_EQ(group_count(), 2U);
  for (const std::uint16_t pkey : {std::uint16_t{0xffff}, std::uint16_t{0x8001}}) {
    const R r = member(join_group(ipoib_mgid(0xffff'ffff, pkey, 5), kB, pkey, 1), kLidB);
    EXPECT_EQ(r.pkey.host(), pkey);
    EXPECT_EQ(r.qkey.host(), 0x8001'0b1bU);
    EXPECT_EQ(r.mtu, 0x85);
    EXPECT_EQ(r.rate, 0x87);
    EXPECT_EQ(r.sl(), 3);
    EXPECT_EQ(r.scope(), 5);
    EXPECT_EQ(r.join(), 1);
  }
}

TEST_F(MembershipTest, U10_AbsentBroadcastGroupIsCreatedByAFullRequestOnly) {
  AdministratorConfig config = recorded_config();
  config.partitions = {{0xffff, false}};
  restart(config);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kInsufficient);
  EXPECT_EQ(status(create(kGroup), kLidB), kInvalid) << "broadcast group comes first";
  R like = like_broadcast();
  like.qkey.set(0x8000'1234);
  EXPECT_EQ(member(create_group(kBroadcast, kB, 1, like), kLidB).qkey.host(), 0x8000'1234U);
  EXPECT_EQ(status(create(kGroup), kLidB), kInvalid) << "its Q_Key is not the broadcast group's";
  EXPECT_EQ(status(create_group(kGroup, kB, 1, like), kLidB), kOk);
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(status(leave_group(kBroadcast, kB, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(group_count(), 0U) << "not configured, so it went with its last member";
}

TEST_F(MembershipTest, WhatACreateMustBring) {
  const std::uint64_t needed =
      R::kMgid | R::kPortGid | R::kJoin | R::kQkey | R::kTclass | R::kPkey | R::kFlow | R::kSl;
  for (std::uint64_t bit = 1; bit <= R::kProxy; bit <<= 1) {
    SCOPED_TRACE(bit);
    Request request = create();
    request.comp_mask &= ~bit;
    EXPECT_EQ(status(request, kLidB), (needed & bit) != 0 ? kInsufficient : kOk);
    status(leave_group(kGroup, kB, 0xffff, 1), kLidB);
    EXPECT_EQ(group_count(), 2U);
  }
}

TEST_F(MembershipTest, JoinStatesThatCreate) {
  for (std::uint8_t state = 0; state < 16; ++state) {
    SCOPED_TRACE(int{state});
    const bool creates = (state & 9) != 0;
    EXPECT_EQ(status(create(kGroup, kB, state), kLidB), creates ? kOk : kInvalid);
    EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, state), kLidB), creates ? kOk : kInvalid);
    EXPECT_EQ(group_count(), 2U);
  }
  // The administrator checks the state before the mask.
  EXPECT_EQ(status(join_group(kGroup, kB, 0xffff, 4), kLidB), kInvalid);
}

TEST_F(MembershipTest, StatesAreCountedPerPortAndAnsweredTogether) {
  EXPECT_EQ(member(create(), kLidB).join(), 1);
  EXPECT_EQ(member(join_group(kGroup, kB, 0xffff, 4), kLidB).join(), 5);
  EXPECT_EQ(member(join_group(kGroup, kC, 0xffff, 2), kLidC).join(), 2);
  EXPECT_EQ(member(join_group(kGroup, kB, 0xffff, 1), kLidB).join(), 5) << "again: the same";
  EXPECT_EQ(member(leave_group(kGroup, kB, 0xffff, 4), kLidB).join(), 1);
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 4), kLidB), kInvalid);
  EXPECT_EQ(status(join_group(kGroup, kC, 0xffff, 0), kLidC), kInvalid);
}

TEST_F(MembershipTest, U33_LastKeeperEndsTheGroupForAll) {
  const R first = member(create(), kLidB);
  EXPECT_EQ(member(join_group(kGroup, kC, 0xffff, 4), kLidC).mlid, first.mlid);
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(status(find_group(kGroup), kLidB), kNoRecords);
  EXPECT_EQ(status(leave_group(kGroup, kC, 0xffff, 4), kLidC), kInvalid);
  EXPECT_EQ(member(create(ipoib_mgid(7)), kLidB).mlid, first.mlid) << "its MLID is free again";
}

TEST_F(MembershipTest, AttributesOfAJoinMustMatch) {
  status(create(), kLidB);
  struct Row {
    const char* what;
    std::uint64_t mask;
    void (*change)(R&);
    std::uint16_t status;
  };
  const auto mtu = R::kMtuSel | R::kMtu, rate = R::kRateSel | R::kRate;
  const auto life = R::kLifeSel | R::kLife;
  const Row rows[] = {
      {"MTU exactly 2048", mtu, [](R& r) { r.mtu = 0x84; }, kOk},
      {"MTU exactly 4096", mtu, [](R& r) { r.mtu = 0x85; }, kInvalid},
      {"MTU > 1024", mtu, [](R& r) { r.mtu = 0x03; }, kOk},
      {"MTU > 2048", mtu, [](R& r) { r.mtu = 0x04; }, kInvalid},
      {"MTU < 4096", mtu, [](R& r) { r.mtu = 0x45; }, kOk},
      {"MTU < 2048", mtu, [](R& r) { r.mtu = 0x44; }, kInvalid},
      {"MTU best", mtu, [](R& r) { r.mtu = 0xc1; }, kOk},
      {"MTU best of none", mtu, [](R& r) { r.mtu = 0xc0; }, kInvalid},
      {"MTU without selector", R::kMtu, [](R& r) { r.mtu = 0x05; }, kOk},
      {"rate exactly 10", rate, [](R& r) { r.rate = 0x83; }, kOk},
      {"rate exactly 20", rate, [](R& r) { r.rate = 0x86; }, kInvalid},
      {"rate > 5, by code larger", rate, [](R& r) { r.rate = 0x05; }, kOk},
      {"rate < 10", rate, [](R& r) { r.rate = 0x43; }, kInvalid},
      {"lifetime, any", life, [](R& r) { r.lifetime = 0x80 | 3; }, kOk},
      {"Q_Key", R::kQkey, [](R& r) { r.qkey.set(0x0b1b); }, kOk},
      {"other Q_Key", R::kQkey, [](R& r) { r.qkey.set(0x0b1c); }, kInvalid},
      {"limited P_Key", R::kPkey, [](R& r) { r.pkey.set(0x7fff); }, kOk},
      {"other P_Key", R::kPkey, [](R& r) { r.pkey.set(0x8002); }, kInvalid},
      {"unknown P_Key", R::kPkey, [](R& r) { r.pkey.set(0x8003); }, kInvalid},
      {"SL", R::kSl, [](R& r) { r.sl_flow_hop = R::pack(3, 0, 0); }, kInvalid},
      {"flow label", R::kFlow, [](R& r) { r.sl_flow_hop = R::pack(0, 3, 0); }, kInvalid},
      {"hop limit", R::kHop, [](R& r) { r.sl_flow_hop = R::pack(0, 0, 3); }, kInvalid},
      {"traffic class", R::kTclass, [](R& r) { r.tclass = 1; }, kInvalid},
      {"MLID, any", R::kMlid, [](R& r) { r.mlid.set(0xc123); }, kOk},
      {"scope, any", R::kScope, [](R& r) { r.scope_join = 0x51; }, kOk},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    EXPECT_EQ(status(changed(join_group(kGroup, kC, 0xffff, 1), row.mask, row.change), kLidC),
              row.status);
    const bool member = sa->groups().at(kGroup).members.count(kC) != 0;
    EXPECT_EQ(member, row.status == kOk);
    status(leave_group(kGroup, kC, 0xffff, 1), kLidC);
  }
}

TEST_F(MembershipTest, AttributesANewGroupGets) {
  struct Row {
    const char* what;
    std::uint64_t mask;
    void (*change)(R&);
    std::uint8_t mtu, rate, lifetime;
  };
  const auto mtu = R::kMtuSel | R::kMtu, rate = R::kRateSel | R::kRate;
  const auto life = R::kLifeSel | R::kLife;
  const Row rows[] = {
      {"as the broadcast group", 0, [](R&) {}, 4, 3, 18},
      {"smaller MTU", mtu, [](R& r) { r.mtu = 0x83; }, 3, 3, 18},
      {"any MTU but the largest", mtu, [](R& r) { r.mtu = 0x44; }, 3, 3, 18},
      {"slower", rate, [](R& r) { r.rate = 0x43; }, 4, 5, 18},
      {"best of both", mtu | rate, [](R& r) { r.mtu = r.rate = 0xc2; }, 4, 3, 18},
      {"longer lifetime", life, [](R& r) { r.lifetime = 0x14; }, 4, 3, 20},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const R r = member(changed(create(), row.mask, row.change), kLidB);
    EXPECT_EQ(r.mtu, 0x80 | row.mtu);
    EXPECT_EQ(r.rate, 0x80 | row.rate);
    EXPECT_EQ(r.lifetime, 0x80 | row.lifetime);
    EXPECT_EQ(r.scope(), 2);
    status(leave_group(kGroup, kB, 0xffff, 1), kLidB);
  }
}

TEST_F(MembershipTest, CreatesThatCannotBe) {
  struct Row {
    const char* what;
    std::uint64_t mask;
    void (*change)(R&);
  };
  const auto mtu = R::kMtuSel | R::kMtu, rate = R::kRateSel | R::kRate;
  const Row rows[] = {
      {"MTU beyond the subnet's", mtu, [](R& r) { r.mtu = 0x85; }},
      {"rate beyond the subnet's", rate, [](R& r) { r.rate = 0x86; }},
      {"no such MTU", mtu, [](R& r) { r.mtu = 0x80; }},
      {"no such rate", rate, [](R& r) { r.rate = 0x81; }},
      {"Q_Key unlike the broadcast group's", 0, [](R& r) { r.qkey.set(1); }},
      {"partition the fabric does not have", 0, [](R& r) { r.pkey.set(0x8003); }},
      {"MGID of another partition", 0, [](R& r) { r.mgid = ipoib_mgid(7, 0x8002); }},
      {"MGID of a scope without broadcast group", 0,
       [](R& r) { r.mgid = ipoib_mgid(7, 0xffff, 5); }},
      {"unicast MGID", 0, [](R& r) { r.mgid = kB; }},
      {"scope 0", 0, [](R& r) { r.mgid = ipoib_mgid(7, 0xffff, 0); }},
      {"scope 15", 0, [](R& r) { r.mgid = ipoib_mgid(7, 0xffff, 15); }},
      {"SL unlike it", 0, [](R& r) { r.sl_flow_hop = R::pack(2, 0, 0); }},
      {"hop limit unlike it", 0, [](R& r) { r.sl_flow_hop = R::pack(0, 0, 2); }},
      {"reserved flags", 0, [](R& r) { r.mgid = wire::Gid::of(0xff22'0000'0000'0000, 5); }},
      {"MGID only the SA may give", 0,
       [](R& r) { r.mgid = wire::Gid::of(0xff12'a01b'fe80'0000, 5); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    EXPECT_EQ(status(changed(create(), row.mask, row.change), kLidB), kInvalid);
    EXPECT_EQ(group_count(), 2U);
    EXPECT_EQ(sa->ports().size(), 1U) << "nothing is learned from what is refused";
  }
}

TEST_F(MembershipTest, GroupWithoutMgidIsGivenOne) {
  const auto any = [](R& r) { r.mgid = {}; };
  const R first = member(changed(create(), 0, any), kLidB);
  EXPECT_EQ(first.mgid, wire::Gid::of(0xff12'a01b'fe80'0000, 0));
  const R second = member(changed(create(), 0, any), kLidB);
  EXPECT_NE(second.mgid, first.mgid);
  EXPECT_NE(second.mlid, first.mlid);
  const R third = member(changed(create(), R::kScope,
                                 [](R& r) {
                                   r.mgid = {};
                                   r.scope_join = 0x81;
                                 }),
                         kLidB);
  EXPECT_EQ(third.mgid.prefix() >> 32, 0xff18'a01bU);
  EXPECT_EQ(status(leave_group(first.mgid, kB, 0xffff, 1), kLidB), kOk);
}

TEST_F(MembershipTest, WantedMlidIsGivenWhereFree) {
  const auto wanted = [](R& r) { r.mlid.set(0xc123); };
  EXPECT_EQ(member(changed(create(), R::kMlid, wanted), kLidB).mlid.host(), 0xc123);
  EXPECT_EQ(member(changed(create(ipoib_mgid(7)), R::kMlid, wanted), kLidB).mlid.host(), 0xc002);
}

TEST_F(MembershipTest, BoundsAreNoResources) {
  AdministratorConfig config = recorded_config();
  config.max_groups = 3;
  config.max_members = 3;
  config.max_ports = 3;
  restart(config);
  EXPECT_EQ(status(create(), kLidB), kOk);
  EXPECT_EQ(status(create(ipoib_mgid(7)), kLidB), kNoResources);
  EXPECT_EQ(status(join_group(kGroup, kC, 0xffff, 1), kLidC), kOk);
  EXPECT_EQ(status(join_group(kBroadcast, port_gid(9), 0xffff, 1), 9), kNoResources) << "ports";
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidC), kOk);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kNoResources) << "members";
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 4), kLidC), kOk) << "a member already";
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(sa->counters().refused.at(kNoResources), 3U);
}

TEST_F(MembershipTest, P15_ForgedQueriesLeaveHalfOfTheTableToPortsThatJoin) {
  AdministratorConfig config = recorded_config();
  config.max_ports = 6;
  restart(config);
  for (std::uint16_t i = 100; i < 110; ++i) {
    status(find_member(kBroadcast, port_gid(i)), i);
    status(find_path(port_gid(i + 10U), kSmGid, 0xffff), static_cast<std::uint16_t>(i + 10));
  }
  EXPECT_EQ(sa->ports().size(), 3U);
  for (std::uint16_t i = 3; i < 6; ++i)
    EXPECT_EQ(status(join_group(kBroadcast, port_gid(i), 0xffff, 1), i), kOk);
  EXPECT_EQ(status(join_group(kBroadcast, port_gid(6), 0xffff, 1), 6), kNoResources);
}

TEST_F(MembershipTest, P15_ForgedQueryHoldsUntilThePortJoins) {
  status(find_member(kBroadcast, kB), 9);
  EXPECT_EQ(sa->ports().at(kB).lid, 9);
  status(find_member(kBroadcast, port_gid(7)), kLidC);
  EXPECT_EQ(sa->ports().at(port_gid(7)).lid, kLidC);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(sa->ports().at(kB).lid, kLidB);
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidC), kOk);
  EXPECT_EQ(sa->ports().at(kC).lid, kLidC);
  EXPECT_EQ(sa->ports().count(port_gid(7)), 0U);
  status(find_member(kBroadcast, kB), 9);
  EXPECT_EQ(sa->ports().at(kB).lid, kLidB) << "a query moves no port";
}

TEST_F(MembershipTest, ForeignPortGidsAreRefused) {
  EXPECT_EQ(status(join_group(kBroadcast, wire::Gid::of(0xfec0ULL << 48, 3), 0xffff, 1), kLidB),
            kBadGid);
  EXPECT_EQ(status(join_group(kBroadcast, wire::Gid{}, 0xffff, 1), kLidB), kBadGid);
  EXPECT_EQ(status(join_group(kBroadcast, port_gid(0), 0xffff, 1), kLidB), kBadGid);
  EXPECT_EQ(status(join_group(kBroadcast, kSmGid, 0xffff, 1), kLidB), kInvalid)
      << "the administrator's own port speaks from its own LID";
  EXPECT_EQ(status(join_group(kBroadcast, kSmGid, 0xffff, 1), kSmLid), kOk);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kSmLid), kInvalid);
}

TEST_F(MembershipTest, PortThatMovesKeepsItsMemberships) {
  status(join_group(kBroadcast, kB, 0xffff, 1), kLidB);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), 9), kOk);
  EXPECT_EQ(sa->ports().at(kB).lid, 9);
  EXPECT_EQ(sa->groups().at(kBroadcast).members.size(), 1U);
  EXPECT_EQ(status(leave_group(kBroadcast, kB, 0xffff, 1), kLidB), kBusy) << "sent before it moved";
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 2), kLidB), kBusy);
  EXPECT_EQ(status(leave_group(kBroadcast, kB, 0xffff, 1), 9), kOk);
  now += 2s;
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kOk) << "it is back";
}

TEST_F(MembershipTest, PortThatMovedMayLeaveFirst) {
  status(join_group(kBroadcast, kB, 0xffff, 1), kLidB);
  status(join_group(kBroadcast, kC, 0xffff, 1), kLidC);
  EXPECT_EQ(status(leave_group(kBroadcast, kB, 0xffff, 1), kLidC), kInvalid) << "another's LID";
  EXPECT_EQ(status(leave_group(kBroadcast, kB, 0xffff, 1), 9), kOk);
  EXPECT_EQ(sa->ports().at(kB).lid, 9);
  EXPECT_EQ(sa->groups().at(kBroadcast).members.count(kB), 0U);
}

TEST_F(MembershipTest, SilentPortLosesItsLidAndMemberships) {
  status(create(), kLidB);
  now += 89s;
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidB), kInvalid);
  now += 1s;
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(sa->ports().count(kB), 0U);
  EXPECT_EQ(sa->groups().count(kGroup), 0U);
}

TEST_F(MembershipTest, SuccessorMayJoinTheGroupThatEndsWithItsPredecessor) {
  status(create(), kLidB);
  now += 90s;
  EXPECT_EQ(status(join_group(kGroup, kC, 0xffff, 4), kLidB), kOk);
  EXPECT_EQ(sa->groups().count(kGroup), 0U) << "only the port that is gone kept it";
}

TEST_F(MembershipTest, NodeThatLeftEverythingMayComeBackUnderAnotherName) {
  status(create(), kLidB);
  status(leave_group(kGroup, kB, 0xffff, 1), kLidB);
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidB), kOk);
  EXPECT_EQ(sa->ports().count(kB), 0U);
}

TEST_F(MembershipTest, LeavesThatAreRefused) {
  status(create(), kLidB);
  status(join_group(kBroadcast, kC, 0xffff, 1), kLidC);
  Request no_state = leave_group(kGroup, kB, 0xffff, 1);
  no_state.comp_mask &= ~R::kJoin;
  EXPECT_EQ(status(no_state, kLidB), kInsufficient);
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 0), kLidB), kInvalid);
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 2), kLidB), kInvalid);
  EXPECT_EQ(status(leave_group(kGroup, kC, 0xffff, 1), kLidC), kInvalid) << "no member";
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 3), kLidB), kInvalid) << "more than there is";
  const auto no_mtu =
      changed(leave_group(kGroup, kB, 0xffff, 1), R::kMtuSel | R::kMtu, [](R& r) { r.mtu = 0x80; });
  EXPECT_EQ(status(no_mtu, kLidB), kInvalid);
  EXPECT_EQ(status(leave_group(kGroup, wire::Gid::of(1, 1), 0xffff, 1), kLidB), kBadGid);
  EXPECT_EQ(status(leave_group(ipoib_mgid(7), kB, 0xffff, 1), kLidB), kInvalid);
  EXPECT_EQ(status(leave_group(kGroup, kB, 0xffff, 1), kLidC), kInvalid) << "not one's own";
  EXPECT_EQ(sa->groups().at(kGroup).members.size(), 1U);
  EXPECT_EQ(status_of(ask(leave_group(kGroup, kB, 0xffff, 1), kLidC, 1)), kOk) << "but trusted";
}

TEST_F(MembershipTest, U27_GroupIsFoundByItsMgidOrNot) {
  EXPECT_EQ(status(find_group(kGroup), kLidC), kNoRecords);
  const R created = member(create(), kLidB);
  const R got = member(find_group(kGroup), kLidC);
  EXPECT_EQ(got.mlid, created.mlid);
  EXPECT_EQ(got.qkey, created.qkey);
  EXPECT_TRUE(got.port_gid.is_zero());
  EXPECT_EQ(got.join(), 0);
  EXPECT_EQ(member(join_group(kGroup, kC, 0xffff, 4), kLidC).mlid, created.mlid);
  Request all{wire::Method::kGet, wire::Attr::kMcMemberRecord, 0, {}};
  EXPECT_EQ(status(all, kLidC), kTooMany);
}

TEST_F(MembershipTest, U40_TablesTellStrangersOfGroupsAndTheTrustedOfMembers) {
  status(create(), kLidB);
  status(join_group(kGroup, kC, 0xffff, 4), kLidC);
  const Reply groups = table(list_groups(0xffff), kLidC);
  ASSERT_EQ(groups.count(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(groups.record<R>(i)->port_gid.is_zero());
    EXPECT_EQ(groups.record<R>(i)->join(), 0);
  }
  const Reply members = table(list_groups(0xffff), kLidC, 1);
  ASSERT_EQ(members.count(), 2U) << "the broadcast group has none";
  EXPECT_EQ(members.record<R>(0)->port_gid, kB);
  EXPECT_EQ(members.record<R>(0)->join(), 1);
  EXPECT_EQ(members.record<R>(1)->port_gid, kC);
  EXPECT_EQ(members.record<R>(1)->join(), 4);
  const auto full_members = [](R& r) { r.scope_join = 1; };
  const Reply full = table(changed(list_groups(0xffff), R::kJoin, full_members), kLidC, 1);
  ASSERT_EQ(full.count(), 1U);
  EXPECT_EQ(full.record<R>()->port_gid, kB);
  EXPECT_EQ(table(list_groups(0x8007), kLidC).count(), 0U);
}

TEST_F(MembershipTest, StrangersCannotFindOutWhoIsMember) {
  status(create(), kLidB);
  status(join_group(kBroadcast, kC, 0xffff, 1), kLidC);
  const auto groups_of = [](const wire::Gid& port) {
    R r{};
    r.port_gid = port;
    return Request::of(wire::Method::kGetTable, wire::Attr::kMcMemberRecord, R::kPortGid, r);
  };
  EXPECT_EQ(table(groups_of(kB), kLidC).count(), 0U);
  EXPECT_EQ(table(groups_of(kB), kLidC, 1).count(), 1U);
  const Reply own = table(groups_of(kB), kLidB);
  ASSERT_EQ(own.count(), 1U);
  EXPECT_EQ(own.record<R>()->mgid, kGroup);
  EXPECT_TRUE(own.record<R>()->port_gid.is_zero());
}

TEST_F(MembershipTest, TableThatDoesNotFitIsRefusedWhole) {
  AdministratorConfig config = recorded_config();
  config.max_answer_octets = 3 * sizeof(R);
  restart(config);
  status(create(), kLidB);
  const Request all{wire::Method::kGetTable, wire::Attr::kMcMemberRecord, 0, {}};
  EXPECT_EQ(table(all, kLidB).count(), 3U);
  status(create(ipoib_mgid(7)), kLidB);
  EXPECT_EQ(status(all, kLidB), kNoResources);
  EXPECT_EQ(table(list_groups(0x8002), kLidB).count(), 1U);
}

TEST_F(MembershipTest, LookUpsCompareWithSelectors) {
  const auto by = [](std::uint64_t mask, void (*change)(R&)) {
    const Request all{wire::Method::kGetTable, wire::Attr::kMcMemberRecord, 0, {}};
    return changed(all, mask, change);
  };
  const auto mtu = R::kMtuSel | R::kMtu;
  status(changed(create(), mtu, [](R& r) { r.mtu = 0x83; }), kLidB);
  EXPECT_EQ(table(by(mtu, [](R& r) { r.mtu = 0x44; }), kLidB).count(), 1U);
  EXPECT_EQ(table(by(mtu, [](R& r) { r.mtu = 0x03; }), kLidB).count(), 2U);
  EXPECT_EQ(table(by(R::kMlid, [](R& r) { r.mlid.set(0xc001); }), kLidB).count(), 1U);
  EXPECT_EQ(table(by(R::kLifeSel | R::kLife, [](R& r) { r.lifetime = 0x80 | 17; }), kLidB).count(),
            3U)
      << "the lifetime is not looked at";
  EXPECT_EQ(table(by(R::kScope, [](R& r) { r.scope_join = 0x20; }), kLidB).count(), 3U);
  EXPECT_EQ(table(by(R::kScope, [](R& r) { r.scope_join = 0x50; }), kLidB).count(), 0U);
  EXPECT_EQ(status(by(mtu, [](R& r) { r.mtu = 0x86; }), kLidB), kInvalid);
}

/// Other administrators may know a group, so this one assumes that every group exists.
TEST_F(MembershipTest, AnyGroupIsThereWherePortsAreAddressedByGid) {
  AdministratorConfig config = by_gid_config();
  config.sl = 3;
  config.rate = 7;
  restart(config);
  const std::size_t configured = group_count();
  const R found = member(find_group(kGroup), kSmLid);
  EXPECT_EQ(found.mgid, kGroup);
  EXPECT_EQ(found.qkey.host(), 0x0b1bU);
  EXPECT_EQ(found.pkey.host(), 0xffff);
  EXPECT_EQ(found.mtu, 0x84);
  EXPECT_EQ(found.rate, 0x87);
  EXPECT_EQ(found.sl(), 3);
  EXPECT_TRUE(wire::is_multicast_lid(found.mlid.host()));
  EXPECT_EQ(group_count(), configured) << "to look for it makes no group";

  using namespace wire::join_state;
  for (const std::uint8_t state :
       {kFullMember, kNonMember, kSendOnlyNonMember, kSendOnlyFullMember}) {
    SCOPED_TRACE(int{state});
    for (const wire::Gid& mgid :
         {kGroup, wire::Gid::of(0xff12'601b'ffff'0000, 1), ipoib_mgid(0x0101'0203, 0x8002)}) {
      const std::uint16_t pkey = mgid == kGroup || mgid.prefix() >> 32 == 0xff12'601b
                                     ? std::uint16_t{0xffff}
                                     : std::uint16_t{0x8002};
      const R r = member(join_group(mgid, kSmGid, pkey, state), kSmLid);
      EXPECT_EQ(r.join(), state);
      EXPECT_EQ(r.qkey.host(), 0x0b1bU);
      EXPECT_EQ(r.pkey.host(), pkey);
      EXPECT_EQ(r.sl(), 3);
      EXPECT_EQ(r.scope(), 2);
      EXPECT_EQ(group_count(), configured + 1);
      EXPECT_EQ(status(leave_group(mgid, kSmGid, pkey, state), kSmLid), kOk);
      EXPECT_EQ(group_count(), configured) << "it goes with its last member";
    }
  }
  // The send-only membership remains after the full membership has ended.
  EXPECT_EQ(status(create(kGroup, kSmGid), kSmLid), kInvalid) << "attributes must be the same";
  EXPECT_EQ(status(join_group(kGroup, kSmGid, 0xffff, 1), kSmLid), kOk);
  EXPECT_EQ(member(join_group(kGroup, kSmGid, 0xffff, 4), kSmLid).join(), 5);
  EXPECT_EQ(status(leave_group(kGroup, kSmGid, 0xffff, 1), kSmLid), kOk);
  EXPECT_EQ(sa->groups().at(kGroup).members.at(kSmGid), 4);
}

TEST_F(MembershipTest, NotJustAnyGroupIsThereWherePortsAreAddressedByGid) {
  AdministratorConfig config = by_gid_config();
  config.partitions = {{0xffff}, {0x8002, false}};
  restart(config);
  const auto join = [this](const wire::Gid& mgid, std::uint16_t pkey) {
    return status(join_group(mgid, kSmGid, pkey, 4), kSmLid);
  };
  // The refused groups have a partition or scope without a broadcast group, a P_Key that differs
  // from the MGID's, or an MGID that is not IPoIB's.
  EXPECT_EQ(join(ipoib_mgid(5, 0x8002), 0x8002), kInvalid);
  EXPECT_EQ(join(ipoib_mgid(5, 0xffff, 5), 0xffff), kInvalid);
  EXPECT_EQ(join(ipoib_mgid(5), 0x8002), kInvalid);
  EXPECT_EQ(join(wire::Gid::of(0xff12'0000'0000'0000, 5), 0xffff), kInvalid);
  EXPECT_EQ(status(find_group(ipoib_mgid(5, 0x8002)), kSmLid), kNoRecords);
  EXPECT_EQ(status(find_group(ipoib_mgid(0xffff'ffff, 0x8002)), kSmLid), kNoRecords);
  EXPECT_EQ(status(join_group(ipoib_mgid(0xffff'ffff, 0x8002), kSmGid, 0x8002, 1), kSmLid),
            kInsufficient);
  const Request other_mtu = changed(join_group(kGroup, kSmGid, 0xffff, 1), R::kMtuSel | R::kMtu,
                                    [](R& r) { r.mtu = 0x85; });
  EXPECT_EQ(status(other_mtu, kSmLid), kInvalid);
  EXPECT_EQ(group_count(), 1U);
  // If ports are addressed by LID, a group exists only after a port has created it.
  restart(recorded_config());
  EXPECT_EQ(join(kGroup, 0xffff), kInvalid);
  EXPECT_EQ(status(find_group(kGroup), kSmLid), kNoRecords);
}

}  // namespace
}  // namespace ipoib::sa::test
