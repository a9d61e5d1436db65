// SPDX-License-Identifier: BSD-3-Clause
// Joins of existing groups: the broadcast group's attributes, JoinStates, and the components that
// must match.
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"
#include "tests/lab/conformance/fixture.h"

namespace ipoib::conformance {
namespace {

using wire::Selector;

class Join : public ConformanceFixture {};

wire::Gid broadcast_of(std::uint16_t pkey) {
  return wire::broadcast_mgid(pkey, 2);
}

TEST_F(Join, BroadcastGroupTellsTheAttributesOfTheLink) {
  const R a = member(kA, join(broadcast_of(kDefault), kA));
  EXPECT_EQ(a.mgid, broadcast_of(kDefault));
  EXPECT_EQ(a.port_gid, gid(kA));
  EXPECT_EQ(a.qkey.host(), 0x8001'0b1bU) << "controlled, and still given as it is";
  EXPECT_TRUE(wire::is_multicast_lid(a.mlid.host()));
  EXPECT_EQ(a.pkey.host(), kDefault);
  EXPECT_EQ(wire::selector_of(a.mtu), Selector::kExactly);
  EXPECT_EQ(wire::mtu_octets(wire::value_of(a.mtu)), 2048U);
  EXPECT_EQ(wire::selector_of(a.rate), Selector::kExactly);
  EXPECT_EQ(wire::rate_mbps(wire::value_of(a.rate)), 10000U);
  EXPECT_EQ(a.lifetime, wire::with_selector(Selector::kExactly, 18));
  EXPECT_EQ(a.tclass, 0);
  EXPECT_EQ(a.sl_flow_hop.host(), 0U);
  EXPECT_EQ(a.scope(), 2);
  EXPECT_EQ(a.join(), kFullMember);
  EXPECT_EQ(a.proxy_resv, 0);

  const R b = member(kB, join(broadcast_of(kDefault), kB));
  EXPECT_EQ(b.port_gid, gid(kB));
  EXPECT_EQ(b.mlid, a.mlid);
  EXPECT_EQ(b.qkey, a.qkey);
}

TEST_F(Join, BroadcastGroupsOfPartitionsAreApart) {
  const R all = member(kA, join(broadcast_of(kDefault), kA));
  const R lab = member(kA, join(broadcast_of(kLab), kA, kFullMember, kLab));
  EXPECT_EQ(lab.pkey.host(), kLab);
  EXPECT_NE(lab.mlid, all.mlid);
}

TEST_F(Join, LimitedMembersJoinWithTheFullMembershipBit) {
  const R lab = member(kLimited, join(broadcast_of(kLab), kLimited, kFullMember, kLab));
  EXPECT_EQ(lab.pkey.host(), kLab);
  EXPECT_EQ(lab.join(), kFullMember);
}

TEST_F(Join, PartitionsOfOthersAreClosed) {
  EXPECT_EQ(status(kOutside, join(broadcast_of(kLab), kOutside, kFullMember, kLab)),
            answer(kPortNotInPartition));
  if (!embedded()) return;
  subnet().unplug(kOutside);  // The administrator forgets the partition that the port claimed.
  subnet().plug(kOutside);
}

TEST_F(Join, PartitionNobodyHas) {
  EXPECT_EQ(status(kA, join(broadcast_of(kUnknown), kA, kFullMember, kUnknown)), kInsufficient);
}

TEST_F(Join, AgainChangesNothing) {
  const auto first = member(kA, join(broadcast_of(kDefault), kA));
  const auto again = member(kA, join(broadcast_of(kDefault), kA));
  EXPECT_TRUE(std::ranges::equal(wire::bytes_of(first), wire::bytes_of(again)));
}

TEST_F(Join, EachStateOfAGroupThatExists) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  for (const std::uint8_t state :
       {kFullMember, kNonMember, kSendOnlyNonMember, kSendOnlyFullMember}) {
    SCOPED_TRACE(int{state});
    EXPECT_EQ(member(kB, join(group, kB, state)).join(), state);
    EXPECT_EQ(status(kB, leave(group, kB, state)), kOk);
  }
}

TEST_F(Join, StatesOfAPortAddUp) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_EQ(member(kB, join(group, kB, kSendOnlyNonMember)).join(), 4);
  EXPECT_EQ(member(kB, join(group, kB, kFullMember)).join(), 5);
  EXPECT_EQ(member(kB, join(group, kB, kNonMember)).join(), 7);
  EXPECT_EQ(member(kA, join(group, kA, kFullMember)).join(), 1) << "of this port alone";
}

TEST_F(Join, NoStateIsNoJoin) {
  const wire::Gid group = fresh();
  EXPECT_EQ(status(kA, create(group, kA, 0)), kInvalid);
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_EQ(status(kB, join(group, kB, 0)), kInvalid);
}

TEST_F(Join, WhoMustBeSaid) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_EQ(status(kB, without(join(group, kB), R::kPortGid)), kInsufficient);
  EXPECT_EQ(status(kB, without(join(group, kB), R::kJoin)), kInsufficient);
  EXPECT_EQ(status(kB, without(join(group, kB), R::kMgid)), kInsufficient);
  EXPECT_EQ(status(kB, without(join(group, kB), R::kPkey)), kOk);
}

TEST_F(Join, PortGidsThatCannotBe) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  const auto as = [&](const wire::Gid& port) {
    return status(kB, sa::join_group(group, port, kDefault, kFullMember));
  };
  EXPECT_EQ(as(wire::Gid::of(0xfec0'0000'0000'0000, gid(kB).guid())), kBadGid);
  EXPECT_EQ(as(wire::Gid{}), kBadGid);
}

TEST_F(Join, PortNobodyKnows) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  const auto stranger = wire::Gid::of(wire::kDefaultGidPrefix, 0xdead);
  EXPECT_EQ(status(kB, sa::join_group(group, stranger, kDefault, kFullMember)),
            answer(kPortNotSweptYet));
}

TEST_F(Join, OnBehalfOfAnotherPort) {
  ASSERT_EQ(status(kA, join(broadcast_of(kDefault), kA)), kOk);
  ASSERT_EQ(status(kB, join(broadcast_of(kDefault), kB)), kOk);
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_EQ(status(kA, join(group, kB)), answer(kProxyJoin));
}

constexpr std::uint64_t kMtu = R::kMtuSel | R::kMtu, kRate = R::kRateSel | R::kRate,
                        kLife = R::kLifeSel | R::kLife;

/// The group has MTU 2048, 10 Gb/s, and 0 as SL, flow label, hop limit and traffic class.
TEST_F(Join, AttributesMustMatch) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  const Row<R> rows[] = {
      {"MTU exactly 2048", kMtu, [](R& r) { r.mtu = 0x84; }, kOk},
      {"MTU exactly 4096", kMtu, [](R& r) { r.mtu = 0x85; }, kInvalid},
      {"MTU exactly 1024", kMtu, [](R& r) { r.mtu = 0x83; }, kInvalid},
      {"MTU > 1024", kMtu, [](R& r) { r.mtu = 0x03; }, kOk},
      {"MTU > 2048", kMtu, [](R& r) { r.mtu = 0x04; }, kInvalid},
      {"MTU < 4096", kMtu, [](R& r) { r.mtu = 0x45; }, kOk},
      {"MTU < 2048", kMtu, [](R& r) { r.mtu = 0x44; }, kInvalid},
      {"MTU best", kMtu, [](R& r) { r.mtu = 0xc1; }, kOk},
      {"MTU best, no such value", kMtu, [](R& r) { r.mtu = 0xc0; }, kInvalid},
      {"MTU < none", kMtu, [](R& r) { r.mtu = 0x46; }, kInvalid},
      {"MTU selector without value", R::kMtuSel, [](R& r) { r.mtu = 0x80; }, kSelectorWithoutValue},
      {"MTU without selector", R::kMtu, [](R& r) { r.mtu = 0x05; }, kOk},
      {"rate exactly 10", kRate, [](R& r) { r.rate = 0x83; }, kOk},
      {"rate exactly 20", kRate, [](R& r) { r.rate = 0x86; }, kInvalid},
      {"rate > 2.5", kRate, [](R& r) { r.rate = 0x02; }, kOk},
      {"rate > 5, by code larger", kRate, [](R& r) { r.rate = 0x05; }, kOk},
      {"rate > 10", kRate, [](R& r) { r.rate = 0x03; }, kInvalid},
      {"rate < 20", kRate, [](R& r) { r.rate = 0x46; }, kOk},
      {"rate < 10", kRate, [](R& r) { r.rate = 0x43; }, kInvalid},
      {"rate best", kRate, [](R& r) { r.rate = 0xc2; }, kOk},
      {"rate best, no such value", kRate, [](R& r) { r.rate = 0xc0; }, kInvalid},
      {"lifetime, any", kLife, [](R& r) { r.lifetime = 0x80 | 3; }, kOk},
      {"other Q_Key", R::kQkey, [](R& r) { r.qkey.set(0x0b1c); }, kInvalid},
      {"limited P_Key", R::kPkey, [](R& r) { r.pkey.set(0x7fff); }, kOk},
      {"P_Key of another partition", R::kPkey, [](R& r) { r.pkey.set(kLab); }, kInvalid},
      {"unknown P_Key", R::kPkey, [](R& r) { r.pkey.set(kUnknown); }, kInvalid},
      {"SL", R::kSl, [](R& r) { r.sl_flow_hop = R::pack(3, 0, 0); }, kInvalid},
      {"flow label", R::kFlow, [](R& r) { r.sl_flow_hop = R::pack(0, 3, 0); }, kInvalid},
      {"hop limit", R::kHop, [](R& r) { r.sl_flow_hop = R::pack(0, 0, 3); }, kInvalid},
      {"traffic class", R::kTclass, [](R& r) { r.tclass = 1; }, kInvalid},
      {"other MLID, not looked at", R::kMlid, [](R& r) { r.mlid.set(0xc777); }, kOk},
      {"other scope, not looked at", R::kScope, [](R& r) { r.scope_join = 0x51; }, kOk},
  };
  for (const Row<R>& row : rows) {
    SCOPED_TRACE(row.what);
    EXPECT_EQ(status(kB, with(join(group, kB), row.mask, row.change)), answer(row.status));
    static_cast<void>(session().ask(kB, leave(group, kB)));
  }
}

}  // namespace
}  // namespace ipoib::conformance
