// SPDX-License-Identifier: BSD-3-Clause
// Leaves of groups: the answer, the port whose membership ends, and the group afterwards.
#include "tests/lab/conformance/fixture.h"

namespace ipoib::conformance {
namespace {

class Leave : public ConformanceFixture {};

TEST_F(Leave, IsAnsweredByTheRequestWithTheStateLeft) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  const R joined = member(kB, join(group, kB, kFullMember | kSendOnlyNonMember));
  ASSERT_NE(joined.mlid.host(), 0);

  const wire::SaMad half = raw(kB, leave(group, kB, kSendOnlyNonMember));
  EXPECT_EQ(half.hdr.mad.method, static_cast<std::uint8_t>(wire::Method::kDeleteResp));
  EXPECT_EQ(half.hdr.mad.status.host(), 0);
  const R left = *wire::read<R>(half.data);
  EXPECT_EQ(left.mgid, group);
  EXPECT_EQ(left.port_gid, gid(kB));
  EXPECT_EQ(left.join(), kFullMember);
  EXPECT_EQ(left.mlid.host(), 0) << "not the group's record";
  EXPECT_EQ(left.qkey.host(), 0U);

  const wire::SaMad whole = raw(kB, leave(group, kB));
  EXPECT_EQ(whole.hdr.mad.status.host(), 0);
  EXPECT_EQ(wire::read<R>(whole.data)->join(), 0);
}

TEST_F(Leave, NobodyLeavesWhatHeIsNotIn) {
  const wire::Gid group = fresh();
  EXPECT_EQ(status(kB, leave(group, kB)), kInvalid) << "no such group";
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_EQ(status(kB, leave(group, kB)), kInvalid) << "no member";
  EXPECT_EQ(status(kB, join(group, kB, kSendOnlyNonMember)), kOk);
  EXPECT_EQ(status(kB, leave(group, kB, kFullMember)), kInvalid) << "no full member";
  EXPECT_EQ(status(kB, leave(group, kB, 0)), kInvalid);
  EXPECT_EQ(status(kB, leave(group, kB, kSendOnlyNonMember)), kOk);
  EXPECT_EQ(status(kB, leave(group, kB, kSendOnlyNonMember)), kInvalid) << "twice";
}

TEST_F(Leave, MoreStatesThanThereAre) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_EQ(status(kB, join(group, kB, kSendOnlyNonMember)), kOk);
  EXPECT_EQ(status(kB, leave(group, kB, kSendOnlyNonMember | kFullMember)), kInvalid);
  EXPECT_EQ(status(kB, leave(group, kB, kSendOnlyNonMember)), kOk) << "nothing was taken away";
}

TEST_F(Leave, WhoMustBeSaid) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_EQ(status(kA, without(leave(group, kA), R::kMgid)), kInsufficient);
  EXPECT_EQ(status(kA, without(leave(group, kA), R::kPortGid)), kInsufficient);
  EXPECT_EQ(status(kA, without(leave(group, kA), R::kJoin)), kInsufficient);
  EXPECT_EQ(status(kA, without(leave(group, kA), R::kPkey)), kOk);
}

TEST_F(Leave, PortGidsThatCannotBe) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  const auto as = [&](const wire::Gid& port) {
    return status(kA, sa::leave_group(group, port, kDefault, kFullMember));
  };
  EXPECT_EQ(as(wire::Gid::of(0xfec0'0000'0000'0000, gid(kA).guid())), kBadGid);
  EXPECT_EQ(as(wire::Gid::of(wire::kDefaultGidPrefix, 0xdead)), kInvalid);
  EXPECT_EQ(status(kA, leave(group, kA)), kOk) << "still a member";
}

TEST_F(Leave, MembershipOfAnotherPort) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  ASSERT_EQ(status(kB, join(broadcast().mgid, kB)), kOk);
  EXPECT_EQ(status(kB, leave(group, kA)), kInvalid);
  EXPECT_EQ(status(kB, sa::find_group(group)), kOk);
  const auto trusted = raw(kB, leave(group, kA), kSmKey).hdr.mad.status.host();
  EXPECT_EQ(static_cast<MadStatus>(trusted), answer(kTrustedLeave));
}

TEST_F(Leave, AttributesAreNotLookedAt) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  const auto senseless = [](R& r) { r.mtu = 0x80; };
  EXPECT_EQ(status(kA, with(leave(group, kA), R::kMtuSel | R::kMtu, +senseless)), kInvalid)
      << "but an MTU has to be one";
  const auto other = [](R& r) {
    r.qkey.set(1);
    r.mtu = 0x81;
    r.tclass = 9;
  };
  const std::uint64_t all = R::kQkey | R::kMtuSel | R::kMtu | R::kTclass;
  EXPECT_EQ(status(kA, with(leave(group, kA, kFullMember, kLab), all, +other)), kOk)
      << "nor the P_Key";
}

TEST_F(Leave, LastFullMemberEndsTheGroupForAll) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  ASSERT_EQ(status(kB, join(group, kB)), kOk);
  ASSERT_EQ(status(kOutside, join(group, kOutside, kSendOnlyNonMember)), kOk);
  ASSERT_EQ(status(kLimited, join(group, kLimited, kNonMember)), kOk);
  EXPECT_EQ(status(kA, leave(group, kA)), kOk);
  EXPECT_EQ(status(kA, sa::find_group(group)), kOk) << "another is still there";
  EXPECT_EQ(status(kB, leave(group, kB)), kOk);
  EXPECT_EQ(status(kA, sa::find_group(group)), kNoRecords);
  EXPECT_EQ(status(kOutside, leave(group, kOutside, kSendOnlyNonMember)), kInvalid);
  EXPECT_EQ(status(kLimited, leave(group, kLimited, kNonMember)), kInvalid);
}

TEST_F(Leave, SendOnlyFullMemberKeepsAGroup) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  ASSERT_EQ(status(kB, join(group, kB, kSendOnlyFullMember)), kOk);
  EXPECT_EQ(status(kA, leave(group, kA)), kOk);
  EXPECT_EQ(status(kA, sa::find_group(group)), kOk);
  EXPECT_EQ(status(kB, leave(group, kB, kSendOnlyFullMember)), kOk);
  EXPECT_EQ(status(kA, sa::find_group(group)), kNoRecords);
}

TEST_F(Leave, FullMemberThatStaysAsSenderEndsTheGroup) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group, kA, kFullMember | kSendOnlyNonMember)), kOk);
  EXPECT_EQ(status(kA, leave(group, kA, kFullMember)), kOk);
  EXPECT_EQ(status(kA, sa::find_group(group)), kNoRecords);
}

TEST_F(Leave, BroadcastGroupStaysWithoutMembers) {
  const wire::Gid group = broadcast().mgid;
  ASSERT_EQ(status(kA, join(group, kA)), kOk);
  EXPECT_EQ(status(kA, leave(group, kA)), kOk);
  EXPECT_EQ(status(kA, sa::find_group(group)), kOk);
}

TEST_F(Leave, GroupMadeAnewIsAnother) {
  const wire::Gid group = fresh();
  const auto slow = [](R& r) { r.mtu = 0x83; };
  EXPECT_EQ(int{member(kA, create(group)).mtu}, 0x84);
  EXPECT_EQ(status(kA, leave(group, kA)), kOk);
  EXPECT_EQ(int{member(kA, with(create(group), 0, +slow)).mtu}, 0x83);
}

}  // namespace
}  // namespace ipoib::conformance
