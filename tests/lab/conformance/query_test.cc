// SPDX-License-Identifier: BSD-3-Clause
// Queries of groups: Get and GetTable, and the answers to ordinary and to trusted requests.
#include <algorithm>
#include <set>

#include "lib/wire/ipoib.h"
#include "tests/lab/conformance/fixture.h"

namespace ipoib::conformance {
namespace {

class Query : public ConformanceFixture {};

sa::Request groups(wire::Method method, std::uint64_t mask, const R& record) {
  return sa::Request::of(method, wire::Attr::kMcMemberRecord, mask, record);
}
R of_mgid(const wire::Gid& mgid) {
  R r{};
  r.mgid = mgid;
  return r;
}

TEST_F(Query, GetOfAGroupHidesItsMembers) {
  const wire::Gid group = fresh();
  const R made = member(kA, create(group));
  const R found = member(kB, sa::find_group(group));
  EXPECT_EQ(found.mgid, group);
  EXPECT_EQ(found.mlid, made.mlid);
  EXPECT_EQ(found.qkey, made.qkey);
  EXPECT_TRUE(found.port_gid.is_zero());
  EXPECT_EQ(found.join(), 0);
}

TEST_F(Query, GetOfNothingOrOfMany) {
  EXPECT_EQ(status(kA, sa::find_group(fresh())), kNoRecords);
  ASSERT_EQ(status(kA, create(fresh())), kOk);
  R of_partition{};
  of_partition.pkey.set(kDefault);
  EXPECT_EQ(status(kB, groups(wire::Method::kGet, R::kPkey, of_partition)), kTooMany);
}

TEST_F(Query, TableByMgidOrMlidIsThatGroup) {
  const wire::Gid group = fresh();
  const R made = member(kA, create(group));
  ASSERT_EQ(status(kB, join(group, kB)), kOk);
  R by_mlid{};
  by_mlid.mlid = made.mlid;
  for (const auto& request : {groups(wire::Method::kGetTable, R::kMgid, of_mgid(group)),
                              groups(wire::Method::kGetTable, R::kMlid, by_mlid)}) {
    const sa::Reply reply = table(kB, request);
    ASSERT_EQ(reply.count(), 1U) << "one of two members";
    const R r = *reply.record<R>();
    EXPECT_EQ(r.mgid, group);
    EXPECT_EQ(r.mlid, made.mlid);
    EXPECT_TRUE(r.port_gid.is_zero());
    EXPECT_EQ(r.join(), 0);
  }
}

TEST_F(Query, TableOfNothingIsEmpty) {
  EXPECT_EQ(table(kA, groups(wire::Method::kGetTable, R::kMgid, of_mgid(fresh()))).count(), 0U);
}

TEST_F(Query, PartitionsAreListedApart) {
  const wire::Gid group = fresh(kOther);
  const R like = member(kOutside, sa::find_group(wire::broadcast_mgid(kOther, 2)));
  ASSERT_EQ(status(kOutside, sa::create_group(group, gid(kOutside), kFullMember, like)), kOk);
  const sa::Reply reply = table(kOutside, sa::list_groups(kOther));
  std::set<wire::Gid> found;
  for (std::size_t i = 0; i < reply.count(); ++i) found.insert(reply.record<R>(i)->mgid);
  EXPECT_EQ(found, (std::set{like.mgid, group}));
}

TEST_F(Query, TheTrustedSeeMembers) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  ASSERT_EQ(status(kB, join(group, kB, kSendOnlyNonMember)), kOk);
  const wire::SaMad answer =
      raw(kLimited, groups(wire::Method::kGetTable, R::kMgid, of_mgid(group)), kSmKey);
  ASSERT_EQ(answer.hdr.mad.status.host(), 0);
  ASSERT_EQ(answer.hdr.attr_offset.host() * 8U, sizeof(R));
  std::set<std::pair<wire::Gid, std::uint8_t>> members;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto r = *wire::read<R>(answer.data, i * sizeof(R));
    members.emplace(r.port_gid, r.join());
  }
  EXPECT_EQ(members, (std::set<std::pair<wire::Gid, std::uint8_t>>{{gid(kA), kFullMember},
                                                                   {gid(kB), kSendOnlyNonMember}}));
}

/// libumad2sim truncates every MAD to 256 octets, which leaves 3 records of the list. The only sign
/// of it is the active flag of the RMPP header, the rest of which is lost. The embedded
/// administrator's list arrives complete, in RMPP segments; so would OpenSM's on a real device.
TEST_F(Query, ListOf62GroupsIsWholeOrCutByTheSimulator) {
  std::set<wire::Gid> made{broadcast().mgid};
  while (made.size() < 62) {
    const wire::Gid group = fresh();
    ASSERT_EQ(status(kA, create(group)), kOk);
    made.insert(group);
  }
  const sa::Reply reply = table(kB, sa::list_groups(kDefault));
  std::set<wire::Gid> listed;
  for (std::size_t i = 0; i < reply.count(); ++i) listed.insert(reply.record<R>(i)->mgid);
  EXPECT_TRUE(std::ranges::includes(made, listed));
  const std::size_t fit = (subnet().longest_answer() - sizeof(wire::SaHdr)) / sizeof(R);
  EXPECT_EQ(listed.size(), std::min(made.size(), fit));
}

TEST_F(Query, ByPort) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  R asked = of_mgid(group);
  asked.port_gid = gid(kA);
  const auto request = groups(wire::Method::kGetTable, R::kMgid | R::kPortGid, asked);
  EXPECT_EQ(table(kA, request).count(), 1U);
  EXPECT_EQ(table(kB, request).count(), embedded() ? 0U : 1U)
      << "OpenSM tells anybody who is member, which only the trusted should learn";
  asked.port_gid = gid(kB);
  EXPECT_EQ(table(kB, groups(wire::Method::kGetTable, R::kMgid | R::kPortGid, asked)).count(), 0U);
}

TEST_F(Query, TheTrustedAskByState) {
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  ASSERT_EQ(status(kB, join(group, kB, kFullMember | kSendOnlyNonMember)), kOk);
  R asked = of_mgid(group);
  asked.scope_join = kFullMember;
  const wire::SaMad answer =
      raw(kLimited, groups(wire::Method::kGetTable, R::kMgid | R::kJoin, asked), kSmKey);
  EXPECT_EQ(wire::read<R>(answer.data)->port_gid, gid(kA)) << "with that state and no other";
  EXPECT_NE(wire::read<R>(answer.data, sizeof(R))->mgid, group);
}

TEST_F(Query, GroupWithoutMembersHasNoneToTell) {
  const wire::SaMad answer =
      raw(kA, groups(wire::Method::kGetTable, R::kMgid, of_mgid(broadcast().mgid)), kSmKey);
  EXPECT_EQ(answer.hdr.mad.status.host(), 0);
  EXPECT_NE(wire::read<R>(answer.data)->mgid, broadcast().mgid);
}

TEST_F(Query, PartitionsOfOthers) {
  EXPECT_EQ(status(kA, sa::find_group(wire::broadcast_mgid(kOther, 2))),
            embedded() ? kOk : kNoRecords)
      << "without a sweep there are no P_Key tables to hide groups by";
}

TEST_F(Query, SenselessValuesAreRefused) {
  R asked{};
  asked.mtu = 0x80;
  EXPECT_EQ(status(kA, groups(wire::Method::kGet, R::kMtuSel | R::kMtu, asked)), kInvalid);
}

TEST_F(Query, WrongSmKeyIsDenied) {
  const auto request = sa::request_mad(sa::find_group(broadcast().mgid), 0);
  wire::SaMad mad = request;
  mad.hdr.sm_key.set(0x1234);
  const auto answer = session().ask_raw(kA, mad);
  if (embedded()) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->hdr.mad.status.host(), 0x0700);
  } else {
    EXPECT_FALSE(answer);
  }
}

/// OpenSM does not answer, and the client has to wait for its timeout. The embedded administrator
/// refuses.
TEST_F(Query, MethodsAndAttributesNotServed) {
  const std::pair<std::uint8_t, std::uint16_t> rows[] = {{0x01, 0x7777}, {0x02, 0x0035}};
  for (const auto& [method, attr] : rows) {
    sa::Request request;
    request.method = static_cast<wire::Method>(method);
    request.attr = static_cast<wire::Attr>(attr);
    const auto answer = session().ask_raw(kA, sa::request_mad(request, 0));
    ASSERT_EQ(answer.has_value(), embedded());
    if (answer) {
      EXPECT_EQ(answer->hdr.mad.status.host(), 0x000c);
    }
  }
}

TEST_F(Query, ClassPortInfoSaysWhatIsServed) {
  const auto info = record<wire::ClassPortInfo>(kA, sa::class_port_info());
  EXPECT_EQ(info.base_version, 1);
  EXPECT_EQ(info.class_version, 2);
  EXPECT_NE(info.capability2_resp_time.host() & 1U << 17, 0U) << "SendOnlyFullMember";
}

}  // namespace
}  // namespace ipoib::conformance
