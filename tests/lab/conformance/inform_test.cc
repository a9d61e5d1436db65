// SPDX-License-Identifier: BSD-3-Clause
// Subscriptions, and Reports of groups and ports that appear and disappear.
#include <algorithm>

#include "lib/wire/ipoib.h"
#include "tests/lab/conformance/fixture.h"

namespace ipoib::conformance {
namespace {

using wire::InformInfo;
using wire::Trap;

class Inform : public ConformanceFixture {
 protected:
  static bool told(PortId port, Trap trap, const wire::Gid& about) {
    const auto& notices = session().notices(port);
    return std::ranges::any_of(
        notices, [&](const wire::Notice& n) { return n.is(trap) && n.data_gid == about; });
  }
  /// Waits for the Report of `trap` about `about`. False if it does not come.
  static bool comes(PortId port, Trap trap, const wire::Gid& about) {
    return session().run_until([&] { return told(port, trap, about); }, std::chrono::seconds(10));
  }
  static sa::Request changed(sa::Request request, void (*change)(InformInfo&)) {
    return with(request, 0, change);
  }
};

TEST_F(Inform, SubscriptionIsAnsweredByItself) {
  const sa::Request request = sa::subscribe(Trap::kGroupCreated);
  const auto asked = *wire::read<InformInfo>(request.data);
  const auto got = record<InformInfo>(kA, request);
  EXPECT_EQ(got.subscribe, 1);
  EXPECT_EQ(got.trap_number, asked.trap_number);
  EXPECT_EQ(got.lid_range_begin, asked.lid_range_begin);
  EXPECT_EQ(got.producer_type, asked.producer_type);
  EXPECT_EQ(got.qpn.host(), 1U);
}

TEST_F(Inform, SubscribingTwiceIsSubscribing) {
  EXPECT_EQ(status(kA, sa::subscribe(Trap::kGroupCreated)), kOk);
  EXPECT_EQ(status(kA, sa::subscribe(Trap::kGroupCreated)), kOk);
  EXPECT_EQ(status(kA, sa::unsubscribe(Trap::kGroupCreated)), kOk);
  EXPECT_EQ(status(kA, sa::unsubscribe(Trap::kGroupCreated)), kInvalid) << "there was one";
}

TEST_F(Inform, EndingTakesTheSameFields) {
  ASSERT_EQ(status(kA, sa::subscribe(Trap::kGroupCreated)), kOk);
  const sa::Request end = sa::unsubscribe(Trap::kGroupCreated);
  EXPECT_EQ(status(kA, sa::unsubscribe(Trap::kGroupDeleted)), kInvalid) << "another trap";
  EXPECT_EQ(status(kB, end), kInvalid) << "another port";
  EXPECT_EQ(status(kA, changed(end, [](InformInfo& i) { i.qpn.set(0); })), kInvalid);
  EXPECT_EQ(status(kA, changed(end, [](InformInfo& i) { i.type.set(3); })), kInvalid);
  EXPECT_EQ(status(kA, changed(end, [](InformInfo& i) { i.lid_range_begin.set(1); })), kInvalid);
  EXPECT_EQ(status(kA, changed(end, [](InformInfo& i) { i.resp_time = 3; })), kInvalid);
  EXPECT_EQ(status(kA, end), kOk);
}

TEST_F(Inform, OtherResponseTimeIsAnotherSubscription) {
  const auto slow = [](InformInfo& i) { i.resp_time = 3; };
  const sa::Request request = sa::subscribe(Trap::kGroupCreated);
  EXPECT_EQ(status(kA, request), kOk);
  EXPECT_EQ(status(kA, changed(request, +slow)), kOk);
  EXPECT_EQ(status(kA, changed(sa::unsubscribe(Trap::kGroupCreated), +slow)), kOk);
  EXPECT_EQ(status(kA, sa::unsubscribe(Trap::kGroupCreated)), kOk);
}

TEST_F(Inform, OfOneIssuerByLidOrGid) {
  const auto by_lid = [](InformInfo& i) {
    i.lid_range_begin.set(subnet().administrator().lid);
    i.lid_range_end.set(subnet().administrator().lid);
  };
  const auto by_gid = [](InformInfo& i) { i.gid = subnet().administrator().gid; };
  const auto by_other = [](InformInfo& i) {
    i.lid_range_begin.set(subnet().port(kA).lid);
    i.lid_range_end.set(0);
  };
  ASSERT_EQ(status(kA, changed(sa::subscribe(Trap::kGroupCreated), +by_lid)), kOk);
  ASSERT_EQ(status(kB, changed(sa::subscribe(Trap::kGroupCreated), +by_gid)), kOk);
  ASSERT_EQ(status(kOutside, changed(sa::subscribe(Trap::kGroupCreated), +by_other)), kOk);
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  EXPECT_TRUE(comes(kB, Trap::kGroupCreated, group));
  EXPECT_TRUE(comes(kA, Trap::kGroupCreated, group));
  EXPECT_FALSE(told(kOutside, Trap::kGroupCreated, group));
}

/// LIDRangeEnd 0 means a range of one LID. OpenSM accepts it and then never finds an issuer in it.
TEST_F(Inform, RangeWithoutEnd) {
  const auto one = [](InformInfo& i) {
    i.lid_range_begin.set(subnet().administrator().lid);
    i.lid_range_end.set(0);
  };
  ASSERT_EQ(status(kA, changed(sa::subscribe(Trap::kGroupCreated), +one)), kOk);
  ASSERT_EQ(status(kB, sa::subscribe(Trap::kGroupCreated)), kOk);
  const wire::Gid first = fresh(), second = fresh();
  ASSERT_EQ(status(kA, create(first)), kOk);
  ASSERT_EQ(status(kA, create(second)), kOk);
  ASSERT_TRUE(comes(kB, Trap::kGroupCreated, second));
  EXPECT_EQ(told(kA, Trap::kGroupCreated, first), embedded());
}

TEST_F(Inform, SubscriptionsThatCannotBe) {
  const sa::Request request = sa::subscribe(Trap::kGroupCreated);
  const auto with_mgid = [](InformInfo& i) { i.gid = wire::broadcast_mgid(kDefault, 2); };
  EXPECT_EQ(status(kA, changed(request, +with_mgid)), kInvalid);
  const auto with_stranger = [](InformInfo& i) {
    i.gid = wire::Gid::of(wire::kDefaultGidPrefix, 0xdead);
  };
  EXPECT_EQ(status(kA, changed(request, +with_stranger)), kInvalid);
}

TEST_F(Inform, SubscriptionsAreListed) {
  using wire::InformInfoRecord;
  ASSERT_EQ(status(kA, join(wire::broadcast_mgid(kDefault, 2), kA)), kOk);
  InformInfoRecord of_a{};
  of_a.subscriber_gid = gid(kA);
  const auto request = sa::Request::of(wire::Method::kGetTable, wire::Attr::kInformInfoRecord,
                                       InformInfoRecord::kSubscriberGid, of_a);
  EXPECT_EQ(table(kA, request).count(), 0U);
  ASSERT_EQ(status(kA, sa::subscribe(Trap::kGroupCreated)), kOk);
  ASSERT_EQ(status(kA, sa::subscribe(Trap::kGroupDeleted)), kOk);
  const sa::Reply reply = table(kA, request);
  ASSERT_EQ(reply.count(), 2U);
  const auto newest = *reply.record<InformInfoRecord>(0),
             other = *reply.record<InformInfoRecord>(1);
  EXPECT_EQ(newest.subscriber_gid, gid(kA));
  EXPECT_EQ(newest.inform.trap_number.host(), 67);
  EXPECT_EQ(newest.inform.qpn.host(), 0U) << "not shown";
  EXPECT_EQ(other.inform.trap_number.host(), 66);
  EXPECT_EQ(other.number.host(), embedded() ? 1 : 0);
  EXPECT_EQ(table(kB, request).count(), embedded() ? 0U : 2U);
}

TEST_F(Inform, GroupsThatComeAndGoAreReported) {
  ASSERT_EQ(status(kB, sa::subscribe(Trap::kGroupCreated)), kOk);
  ASSERT_EQ(status(kB, sa::subscribe(Trap::kGroupDeleted)), kOk);
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  ASSERT_TRUE(comes(kB, Trap::kGroupCreated, group));
  EXPECT_FALSE(told(kB, Trap::kGroupDeleted, group));
  ASSERT_EQ(status(kA, leave(group, kA)), kOk);
  EXPECT_TRUE(comes(kB, Trap::kGroupDeleted, group));

  const wire::Notice& n = session().notices(kB).front();
  EXPECT_EQ(n.type(), wire::kNoticeTypeSubnet);
  EXPECT_EQ(n.producer_type.host(), wire::kProducerClassManager);
  EXPECT_EQ(n.issuer_lid.host(), subnet().administrator().lid);
  EXPECT_EQ(n.issuer_gid, subnet().administrator().gid);
}

TEST_F(Inform, OnlyWhatWasAskedForIsReported) {
  ASSERT_EQ(status(kB, sa::subscribe(Trap::kGroupDeleted)), kOk);
  const wire::Gid first = fresh(), second = fresh();
  ASSERT_EQ(status(kA, create(first)), kOk);
  ASSERT_EQ(status(kA, leave(first, kA)), kOk);
  ASSERT_TRUE(comes(kB, Trap::kGroupDeleted, first));
  EXPECT_FALSE(told(kB, Trap::kGroupCreated, first));
  EXPECT_TRUE(session().notices(kA).empty());

  ASSERT_EQ(status(kB, sa::unsubscribe(Trap::kGroupDeleted)), kOk);
  ASSERT_EQ(status(kOutside, sa::subscribe(Trap::kGroupDeleted)), kOk);
  ASSERT_EQ(status(kA, create(second)), kOk);
  ASSERT_EQ(status(kA, leave(second, kA)), kOk);
  ASSERT_TRUE(comes(kOutside, Trap::kGroupDeleted, second));
  EXPECT_FALSE(told(kB, Trap::kGroupDeleted, second)) << "no longer subscribed";
}

TEST_F(Inform, AllTrapsAreEveryTrap) {
  ASSERT_EQ(status(kB, sa::subscribe()), kOk);
  const wire::Gid group = fresh();
  ASSERT_EQ(status(kA, create(group)), kOk);
  ASSERT_TRUE(comes(kB, Trap::kGroupCreated, group));
  ASSERT_EQ(status(kA, leave(group, kA)), kOk);
  EXPECT_TRUE(comes(kB, Trap::kGroupDeleted, group));
}

/// An acknowledged Report is not retransmitted. Without acknowledgements the embedded administrator
/// would retransmit it ten times in this time. The simulator never retransmits, because that is the
/// kernel's task.
TEST_F(Inform, EachReportComesOnce) {
  ASSERT_EQ(status(kB, sa::subscribe(Trap::kGroupCreated)), kOk);
  const auto before = session().client(kB).counters();
  constexpr std::size_t kGroups = 20;
  wire::Gid last;
  for (std::size_t i = 0; i < kGroups; ++i) ASSERT_EQ(status(kA, create(last = fresh())), kOk);
  ASSERT_TRUE(comes(kB, Trap::kGroupCreated, last));
  if (embedded()) session().run_until([] { return false; }, std::chrono::seconds(10));
  const auto after = session().client(kB).counters();
  EXPECT_EQ(after.reports - before.reports, kGroups);
  EXPECT_EQ(after.reports_repeated, before.reports_repeated);
  EXPECT_EQ(session().notices(kB).size(), kGroups);
}

TEST_F(Inform, GroupsOfAPartitionAreReportedInIt) {
  const wire::Gid broadcast_lab = wire::broadcast_mgid(kLab, 2);
  ASSERT_EQ(status(kB, join(broadcast_lab, kB, kFullMember, kLab)), kOk);
  ASSERT_EQ(status(kB, sa::subscribe(Trap::kGroupCreated)), kOk);
  ASSERT_EQ(status(kOutside, sa::subscribe(Trap::kGroupCreated)), kOk);
  const wire::Gid inside = fresh(kLab), open = fresh();
  ASSERT_EQ(status(kA, create(inside, kA, kFullMember, kLab)), kOk);
  ASSERT_EQ(status(kA, create(open)), kOk);
  EXPECT_TRUE(comes(kB, Trap::kGroupCreated, inside));
  EXPECT_TRUE(comes(kB, Trap::kGroupCreated, open));
  ASSERT_TRUE(comes(kOutside, Trap::kGroupCreated, open));
  EXPECT_FALSE(told(kOutside, Trap::kGroupCreated, inside)) << "not its partition";
}

TEST_F(Inform, PortsThatGoAndComeAreReported) {
  ASSERT_EQ(status(kB, join(wire::broadcast_mgid(kDefault, 2), kB)), kOk);
  ASSERT_EQ(status(kA, sa::subscribe(Trap::kGidInService)), kOk);
  ASSERT_EQ(status(kA, sa::subscribe(Trap::kGidOutOfService)), kOk);
  subnet().unplug(kB);
  EXPECT_TRUE(comes(kA, Trap::kGidOutOfService, gid(kB)));
  subnet().plug(kB);
  EXPECT_TRUE(comes(kA, Trap::kGidInService, gid(kB)));
}

TEST_F(Inform, PortThatGoesTakesItsMembershipsAndGroups) {
  const wire::Gid group = fresh();
  R like = broadcast();
  ASSERT_EQ(status(kB, sa::create_group(group, gid(kB), kFullMember, like)), kOk);
  ASSERT_EQ(status(kA, sa::subscribe(Trap::kGroupDeleted)), kOk);
  subnet().unplug(kB);
  EXPECT_TRUE(comes(kA, Trap::kGroupDeleted, group));
  EXPECT_EQ(status(kA, sa::find_group(group)), kNoRecords);
  ASSERT_EQ(status(kA, sa::subscribe(Trap::kGidInService)), kOk);
  subnet().plug(kB);
  EXPECT_TRUE(comes(kA, Trap::kGidInService, gid(kB)));
}

}  // namespace
}  // namespace ipoib::conformance
