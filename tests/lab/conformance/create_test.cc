// SPDX-License-Identifier: BSD-3-Clause
// Creation of groups: the required components, the attributes of the new group, and refusals.
#include <algorithm>

#include "lib/wire/ipoib.h"
#include "tests/lab/conformance/fixture.h"

namespace ipoib::conformance {
namespace {

class Create : public ConformanceFixture {};

constexpr std::uint64_t kMtu = R::kMtuSel | R::kMtu, kRate = R::kRateSel | R::kRate,
                        kLife = R::kLifeSel | R::kLife;

TEST_F(Create, AllComponentsMakeTheGroupAskedFor) {
  const wire::Gid group = fresh();
  const R like = broadcast();
  const R r = member(kA, create(group));
  EXPECT_EQ(r.mgid, group);
  EXPECT_EQ(r.port_gid, gid(kA));
  EXPECT_EQ(r.qkey, like.qkey);
  EXPECT_EQ(r.mtu, like.mtu);
  EXPECT_EQ(r.rate, like.rate);
  EXPECT_EQ(r.pkey, like.pkey);
  EXPECT_EQ(r.tclass, 0);
  EXPECT_EQ(r.sl_flow_hop.host(), 0U);
  EXPECT_EQ(r.join(), kFullMember);
  EXPECT_TRUE(wire::is_multicast_lid(r.mlid.host()));
  EXPECT_NE(r.mlid, like.mlid);
  EXPECT_EQ(member(kB, sa::find_group(group)).mlid, r.mlid);
}

/// Only groups that are not for IPoIB may have attributes that differ from the broadcast group's.
TEST_F(Create, AttributesOfItsOwnAreKept) {
  const auto own = [](R& r) {
    r.mgid = wire::Gid::of(0xff12'0000'0000'0000, 0x1111);
    r.qkey.set(0x1234);
    r.tclass = 5;
    r.sl_flow_hop = R::pack(3, 0x12345, 9);
  };
  const R r = member(kA, with(create(fresh()), 0, +own));
  EXPECT_EQ(r.qkey.host(), 0x1234U);
  EXPECT_EQ(r.tclass, 5);
  EXPECT_EQ(r.sl(), 3);
  EXPECT_EQ(r.flow_label(), 0x12345U);
  EXPECT_EQ(r.hop_limit(), 9);
}

TEST_F(Create, ComponentsThatMustBeThere) {
  const std::uint64_t needed[] = {R::kMgid, R::kPortGid, R::kQkey, R::kTclass,
                                  R::kPkey, R::kSl,      R::kFlow, R::kJoin};
  for (const std::uint64_t component : needed) {
    SCOPED_TRACE(component);
    EXPECT_EQ(status(kA, without(create(fresh()), component)), kInsufficient);
  }
  EXPECT_EQ(status(kA, without(create(fresh()), kMtu | kRate | R::kHop)), kOk);
  EXPECT_EQ(status(kA, join(fresh(), kA)), kInsufficient) << "a join of a group that is not there";
}

TEST_F(Create, OnlyKeepersCreate) {
  for (const std::uint8_t state : {kNonMember, kSendOnlyNonMember}) {
    EXPECT_EQ(status(kA, create(fresh(), kA, state)), kInvalid);
    EXPECT_EQ(status(kA, join(fresh(), kA, state)), kInvalid) << "whatever the mask";
  }
  EXPECT_EQ(member(kA, create(fresh(), kA, kSendOnlyFullMember)).join(), kSendOnlyFullMember);
  EXPECT_EQ(member(kA, create(fresh(), kA, kFullMember | kSendOnlyNonMember)).join(), 5);
}

struct Realised {
  const char* what;
  std::uint64_t mask;
  void (*change)(R&);
  std::uint8_t mtu, rate;
};

/// The subnet has MTU 2048 (code 4) and 10 Gb/s (code 3).
TEST_F(Create, SelectorsAreRealised) {
  const Realised rows[] = {
      {"MTU exactly 1024", kMtu, [](R& r) { r.mtu = 0x83; }, 3, 3},
      {"MTU exactly 256", kMtu, [](R& r) { r.mtu = 0x81; }, 1, 3},
      {"MTU > 1024", kMtu, [](R& r) { r.mtu = 0x03; }, 4, 3},
      {"MTU > 256", kMtu, [](R& r) { r.mtu = 0x01; }, 4, 3},
      {"MTU < 2048", kMtu, [](R& r) { r.mtu = 0x44; }, 3, 3},
      {"MTU < 4096", kMtu, [](R& r) { r.mtu = 0x45; }, 4, 3},
      {"MTU best", kMtu, [](R& r) { r.mtu = 0xc4; }, 4, 3},
      {"rate exactly 2.5", kRate, [](R& r) { r.rate = 0x82; }, 4, 2},
      {"rate exactly 5", kRate, [](R& r) { r.rate = 0x85; }, 4, 5},
      {"rate > 2.5", kRate, [](R& r) { r.rate = 0x02; }, 4, 3},
      {"rate < 10", kRate, [](R& r) { r.rate = 0x43; }, 4, 5},
      {"rate < 20", kRate, [](R& r) { r.rate = 0x46; }, 4, 3},
      {"rate best", kRate, [](R& r) { r.rate = 0xc3; }, 4, 3},
  };
  for (const Realised& row : rows) {
    SCOPED_TRACE(row.what);
    const R r = member(kA, with(create(fresh()), row.mask, row.change));
    EXPECT_EQ(int{r.mtu}, 0x80 | row.mtu);
    EXPECT_EQ(int{r.rate}, 0x80 | row.rate);
  }
  const R r = member(kA, without(create(fresh()), kMtu | kRate));
  EXPECT_EQ(int{r.mtu}, 0x84) << "not asked for";
  EXPECT_EQ(int{r.rate}, 0x83);
}

TEST_F(Create, LifetimeIsThatAskedFor) {
  const auto exactly = [](R& r) { r.lifetime = 0x80 | 20; };
  EXPECT_EQ(int{member(kA, with(create(fresh()), kLife, +exactly)).lifetime}, 0x80 | 20);
  const auto greater = [](R& r) { r.lifetime = 20; };
  EXPECT_EQ(int{member(kA, with(create(fresh()), kLife, +greater)).lifetime}, 0x80 | 20)
      << "whatever the selector";
  EXPECT_EQ(int{member(kA, create(fresh())).lifetime}, 0x80 | (embedded() ? 18 : 0))
      << "not asked for: OpenSM takes what stands there";
}

TEST_F(Create, GroupsThatCannotBe) {
  const Row<R> rows[] = {
      {"MTU beyond the subnet's", kMtu, [](R& r) { r.mtu = 0x85; }, kInvalid},
      {"MTU > 2048", kMtu, [](R& r) { r.mtu = 0x04; }, kInvalid},
      {"MTU < 256", kMtu, [](R& r) { r.mtu = 0x41; }, kInvalid},
      {"MTU best, value 0", kMtu, [](R& r) { r.mtu = 0xc0; }, kInvalid},
      {"no such MTU", kMtu, [](R& r) { r.mtu = 0x80; }, kInvalid},
      {"rate beyond the subnet's", kRate, [](R& r) { r.rate = 0x86; }, kInvalid},
      {"rate > 10", kRate, [](R& r) { r.rate = 0x03; }, kInvalid},
      {"rate < 2.5", kRate, [](R& r) { r.rate = 0x42; }, kInvalid},
      {"rate best, value 0", kRate, [](R& r) { r.rate = 0xc0; }, kInvalid},
      {"no such rate", kRate, [](R& r) { r.rate = 0x81; }, kInvalid},
      {"Q_Key unlike the broadcast group's", 0, [](R& r) { r.qkey.set(0x0b1c); }, kInvalid},
      {"unknown partition", 0, [](R& r) { r.pkey.set(kUnknown); }, kInvalid},
      {"partition the port is not in", 0, [](R& r) { r.pkey.set(kOther); }, kInvalid},
      {"partition other than the MGID's", 0, [](R& r) { r.pkey.set(kLab); }, kInvalid},
      {"unicast MGID", 0, [](R& r) { r.mgid = wire::Gid::of(wire::kDefaultGidPrefix, 0x77); },
       kInvalid},
      {"scope 0", 0, [](R& r) { r.mgid.bytes[1] = std::byte{0x10}; }, kInvalid},
      {"scope 15", 0, [](R& r) { r.mgid.bytes[1] = std::byte{0x1f}; }, kInvalid},
      {"traffic class unlike it", 0, [](R& r) { r.tclass = 1; }, kInvalid},
      {"SL unlike it", 0, [](R& r) { r.sl_flow_hop = R::pack(1, 0, 0); }, kInvalid},
      {"flow label unlike it", 0, [](R& r) { r.sl_flow_hop = R::pack(0, 1, 0); }, kInvalid},
      {"hop limit unlike it", 0, [](R& r) { r.sl_flow_hop = R::pack(0, 0, 1); }, kInvalid},
      {"reserved flags in the MGID", 0,
       [](R& r) { r.mgid = wire::Gid::of(0xff32'0000'0000'0000, 0x1112); }, kInvalid},
      {"reserved scope, not IPoIB", 0,
       [](R& r) { r.mgid = wire::Gid::of(0xff10'0000'0000'0000, 0x1113); }, kReservedScope},
      {"broadcast group of another partition", 0,
       [](R& r) { r.mgid = wire::broadcast_mgid(kBare, 2); }, kBroadcastOfAnother},
      {"scope without broadcast group", 0, [](R& r) { r.mgid.bytes[1] = std::byte{0x15}; },
       kInvalid},
      {"MGID only the SA may give", 0,
       [](R& r) { r.mgid = wire::Gid::of(0xff12'a01b'fe80'0000, 0x5555); }, kInvalid},
      {"signature of the SA's MGIDs, other scope", 0,
       [](R& r) { r.mgid = wire::Gid::of(0xff15'a01b'fe80'0000, 0x5555); }, kOk},
      {"scope component, not looked at", R::kScope, [](R& r) { r.scope_join = 0x51; }, kOk},
  };
  for (const Row<R>& row : rows) {
    SCOPED_TRACE(row.what);
    const sa::Request request = with(create(fresh()), row.mask, row.change);
    EXPECT_EQ(status(kA, request), answer(row.status));
  }
}

TEST_F(Create, PartitionWithoutBroadcastGroupHasNoOthers) {
  R like = broadcast();
  like.pkey.set(kBare);
  EXPECT_EQ(status(kA, sa::create_group(fresh(kBare), gid(kA), kFullMember, like)), kInvalid);
}

TEST_F(Create, GroupsWithoutIpoibSignatureNeedNoBroadcastGroup) {
  R like = broadcast();
  like.pkey.set(kBare);
  like.qkey.set(0x1234);
  const auto mgid = wire::Gid::of(0xff12'0000'0000'0000, 0x1234'5678);
  const R r = member(kA, sa::create_group(mgid, gid(kA), kFullMember, like));
  EXPECT_EQ(r.qkey.host(), 0x1234U);
  EXPECT_EQ(r.pkey.host(), kBare);
}

TEST_F(Create, AbsentBroadcastGroupIsCreatedLikeAnyOther) {
  R like = broadcast();
  like.pkey.set(kBare);
  const wire::Gid mgid = wire::broadcast_mgid(kBare, 2);
  EXPECT_EQ(status(kA, join(mgid, kA, kFullMember, kBare)), kInsufficient);
  const R r = member(kA, sa::create_group(mgid, gid(kA), kFullMember, like));
  EXPECT_EQ(r.pkey.host(), kBare);
  EXPECT_EQ(status(kB, join(mgid, kB, kFullMember, kBare)), kOk);
  EXPECT_EQ(status(kB, leave(mgid, kB, kFullMember, kBare)), kOk);
  EXPECT_EQ(status(kA, leave(mgid, kA, kFullMember, kBare)), kOk);
  EXPECT_EQ(status(kA, join(mgid, kA, kFullMember, kBare)), kInsufficient) << "it is gone";
}

TEST_F(Create, ScopeIsTheMgids) {
  const R r = member(kA, create(fresh()));
  EXPECT_EQ(r.scope(), embedded() ? 2 : 0) << "OpenSM takes what stands there";
}

TEST_F(Create, GroupOfAPartitionFollowsItsBroadcastGroup) {
  const R r = member(kA, create(fresh(kLab), kA, kFullMember, kLab));
  EXPECT_EQ(r.pkey.host(), kLab);
  EXPECT_EQ(r.qkey, broadcast(kLab).qkey);
  EXPECT_EQ(member(kLimited, join(r.mgid, kLimited, kFullMember, kLab)).mlid, r.mlid);
}

TEST_F(Create, MgidOfTheSasChoice) {
  const auto any = [](R& r) { r.mgid = {}; };
  const R first = member(kA, with(create({}), 0, +any));
  const R second = member(kA, with(create({}), 0, +any));
  EXPECT_EQ(first.mgid.prefix(), 0xff12'a01b'fe80'0000U);
  EXPECT_EQ(second.mgid.prefix(), first.mgid.prefix());
  EXPECT_NE(second.mgid, first.mgid);
  EXPECT_NE(second.mlid, first.mlid);
  EXPECT_EQ(member(kB, join(first.mgid, kB)).mlid, first.mlid);
}

TEST_F(Create, MlidOfTheCreatorsChoiceWhereFree) {
  const auto wanted = [](R& r) { r.mlid.set(0xc123); };
  EXPECT_EQ(member(kA, with(create(fresh()), R::kMlid, +wanted)).mlid.host(), 0xc123);
  const R taken = member(kA, with(create(fresh()), R::kMlid, +wanted));
  EXPECT_TRUE(wire::is_multicast_lid(taken.mlid.host()));
  EXPECT_NE(taken.mlid.host(), 0xc123);
  const auto none = [](R& r) { r.mlid.set(0x0001); };
  const R chosen = member(kA, with(create(fresh()), R::kMlid, +none));
  EXPECT_TRUE(wire::is_multicast_lid(chosen.mlid.host())) << "unicast LIDs are not given";
}

}  // namespace
}  // namespace ipoib::conformance
