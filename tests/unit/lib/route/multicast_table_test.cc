// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/multicast_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/addresses.h"
#include "tests/unit/lib/route/sim_multicast.h"

namespace ipoib::route {
namespace {

using ipoib::test::ip;
using std::chrono::milliseconds;
using std::chrono::seconds;
using table::InterfaceId;
using wire::IpAddr;

class MulticastTableTest : public testing::Test {
 protected:
  void make(MulticastTableConfig config = {}) {
    t.emplace(config, sink);
    for (InterfaceId i = 0; i < 3; ++i) ASSERT_TRUE(t->set_router(i, true, now));
  }
  void SetUp() override { make(); }
  std::uint64_t out(InterfaceId in, const IpAddr& source, const char* group = "239.1.1.1") {
    return sink.lookup(in, ip(group), source).out;
  }
  Status add(const char* groups, const IpAddr& source, InterfaceId in,
             std::vector<InterfaceId> to) {
    return t->add_static({*wire::parse_prefix(groups), source, in, std::move(to)}, now);
  }

  const IpAddr kGroup = ip("239.1.1.1");
  const IpAddr kAny{};
  const IpAddr a = ip("10.9.0.1"), b = ip("10.9.0.2");
  test::FakeDeliverySink sink;
  std::optional<MulticastTable> t;
  TimePoint now{seconds(1'000)};
};

TEST_F(MulticastTableTest, MembersAreServedFromEveryOtherRouterInterface) {
  t->set_filter(1, kGroup, {true, {}}, now);
  EXPECT_EQ(out(0, a), 0b010U);
  EXPECT_EQ(out(1, a), 0U);
  EXPECT_EQ(out(2, a), 0b010U);
  EXPECT_EQ(sink.entries.size(), 2U);
  EXPECT_EQ(out(5, a), 0U);  // not an interface of the multicast router
  ASSERT_TRUE(t->set_router(2, false, now));
  EXPECT_EQ(sink.entries.size(), 1U);
  t->set_filter(1, kGroup, {}, now);
  EXPECT_TRUE(sink.entries.empty());
}

TEST_F(MulticastTableTest, SourceFiltersBecomeEntriesBySource) {
  t->set_filter(1, kGroup, {true, {a}}, now);
  t->set_filter(2, kGroup, {false, {a}}, now);
  EXPECT_EQ(out(0, a), 0b100U);
  EXPECT_EQ(out(0, b), 0b010U);
  EXPECT_EQ(out(1, a), 0b100U);
  EXPECT_EQ(out(1, b), 0U);
  EXPECT_EQ(out(2, a), 0U);
  EXPECT_EQ(out(2, b), 0b010U);
}

// Two routers on the same two links would otherwise send packets of any source in circles.
TEST_F(MulticastTableTest, WhatHostsWantIsTakenFromTheWayBackToTheSourceOnly) {
  const auto checked = [&](InterfaceId in, const IpAddr& source) {
    return sink.lookup(in, kGroup, source).from_reverse_path;
  };
  t->set_filter(1, kGroup, {true, {}}, now);
  t->set_filter(2, kGroup, {false, {a}}, now);
  EXPECT_EQ(checked(0, b), 0b010U);
  EXPECT_EQ(checked(0, a), 0b110U);
  t->packet_seen(kGroup, b, now);
  EXPECT_EQ(checked(2, b), 0b010U);

  ASSERT_TRUE(add("239.1.1.1/32", kAny, 0, {1, 7}));
  EXPECT_EQ(out(0, a), 0b1000'0110U);
  EXPECT_EQ(checked(0, a), 0b100U) << "a static route names its incoming interface itself";
  EXPECT_EQ(checked(2, b), 0b010U);
  ASSERT_TRUE(t->remove_static({*wire::parse_prefix("239.1.1.1/32"), kAny, 0, {}}, now));
  EXPECT_EQ(checked(0, a), 0b110U);
}

TEST_F(MulticastTableTest, SourcesThatAreSeenNeedNoEntriesOfTheirOwn) {
  t->set_filter(1, kGroup, {true, {}}, now);
  t->packet_seen(kGroup, a, now);
  EXPECT_EQ(sink.entries.size(), 2U);
  EXPECT_EQ(out(0, a), 0b010U);
  ASSERT_TRUE(t->next_deadline());
  t->tick(*t->next_deadline());
  EXPECT_FALSE(t->next_deadline());
}

TEST_F(MulticastTableTest, LinkScopeAndLinkLocalAddressesStayLocal) {
  t->set_filter(1, ip("224.0.0.9"), {true, {}}, now);
  EXPECT_TRUE(sink.entries.empty());
  ASSERT_TRUE(t->listen(0, ip("224.0.0.1"), now));
  ASSERT_TRUE(t->listen(0, ip("fe80::1"), now));
  EXPECT_EQ(t->listen(0, ip("10.0.0.1"), now).error().code, Errc::kInvalidArgument);
  EXPECT_TRUE(sink.lookup(0, ip("fe80::1"), ip("fe80::2")).local);
  EXPECT_TRUE(sink.lookup(0, ip("224.0.0.1"), a).local);
  EXPECT_FALSE(sink.lookup(1, ip("224.0.0.1"), a).local);
}

TEST_F(MulticastTableTest, ListenersAreCountedAndKeptBesideForwarding) {
  ASSERT_TRUE(t->listen(0, kGroup, now));
  ASSERT_TRUE(t->listen(0, kGroup, now));
  t->set_filter(1, kGroup, {true, {a}}, now);
  EXPECT_TRUE(sink.lookup(0, kGroup, a).local);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_EQ(out(0, b), 0b010U);
  t->unlisten(0, kGroup, now);
  EXPECT_TRUE(sink.lookup(0, kGroup, b).local);
  t->unlisten(0, kGroup, now);
  t->unlisten(0, kGroup, now);
  EXPECT_FALSE(sink.lookup(0, kGroup, b).local);
  t->set_filter(1, kGroup, {}, now);
  EXPECT_TRUE(sink.entries.empty());
}

TEST_F(MulticastTableTest, StaticRoutesForwardWithoutMembers) {
  ASSERT_TRUE(add("239.1.1.1/32", kAny, 7, {8, 63}));
  EXPECT_EQ(out(7, a), 1ULL << 8 | 1ULL << 63);
  ASSERT_TRUE(add("239.1.1.1/32", a, 7, {9}));
  EXPECT_EQ(out(7, a), 1ULL << 8 | 1ULL << 9 | 1ULL << 63);
  const auto rows = t->rows(now + seconds(5));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_TRUE(rows[0].from_static);
  EXPECT_FALSE(rows[0].learned);
  EXPECT_EQ(rows[0].age, seconds(5));
  ASSERT_TRUE(t->remove_static({*wire::parse_prefix("239.1.1.1/32"), kAny, 7, {}}, now));
  EXPECT_EQ(out(7, b), 0U);
  ASSERT_TRUE(t->remove_static({*wire::parse_prefix("239.1.1.1/32"), a, 7, {}}, now));
  EXPECT_TRUE(sink.entries.empty());
}

TEST_F(MulticastTableTest, PrefixesOfGroupsForwardWhatIsSeen) {
  ASSERT_TRUE(add("239.0.0.0/8", kAny, 7, {8}));
  EXPECT_TRUE(sink.entries.empty());
  t->packet_seen(kGroup, a, now);
  t->packet_seen(ip("224.0.0.5"), a, now);
  EXPECT_EQ(out(7, a), 1U << 8);
  EXPECT_EQ(sink.entries.size(), 1U);
  t->tick(now + seconds(211));
  EXPECT_TRUE(sink.entries.empty());
}

/// Groups to which this node itself listens are forwarded, too.
TEST_F(MulticastTableTest, P06_PrefixesOfGroupsForwardWhatThisNodeListensTo) {
  ASSERT_TRUE(add("239.0.0.0/8", kAny, 0, {2}));
  ASSERT_TRUE(t->listen(0, kGroup, now));
  EXPECT_TRUE(sink.lookup(0, kGroup, a).local);
  EXPECT_EQ(out(0, a), 0b100U);
  ASSERT_TRUE(t->listen(1, ip("239.1.1.2"), now));
  EXPECT_EQ(out(1, a, "239.1.1.2"), 0U);
  t->unlisten(0, kGroup, now);
  EXPECT_EQ(out(0, a), 0U);  // forwarded again after packet_seen()
}

/// A new source of a group changes only its own entry, however many sources the group has.
TEST_F(MulticastTableTest, P06_ASourceSeenLeavesTheOthersAlone) {
  ASSERT_TRUE(add("239.0.0.0/8", kAny, 7, {8}));
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    sink.writes = 0;
    t->packet_seen(kGroup, IpAddr::v4(0x0a09'0001 + i), now + seconds(i < 500 ? 0 : 1));
    ASSERT_EQ(sink.writes, 1U);
  }
  EXPECT_EQ(sink.entries.size(), 1'000U);
  sink.writes = 0;
  t->tick(now + seconds(210));
  EXPECT_EQ(sink.writes, 500U);
  EXPECT_EQ(sink.entries.size(), 500U);
  t->tick(now + seconds(211));
  EXPECT_TRUE(sink.entries.empty());
  EXPECT_EQ(t->entries(), 0U);
}

TEST_F(MulticastTableTest, P06_AGroupThatTheQuerierDoesNotForwardIsTakenOver) {
  t->set_filter(1, kGroup, {true, {}}, now);
  t->set_forwarder(1, true, Forwarder::kUnknown, now);
  EXPECT_EQ(out(0, a), 0U);
  t->set_forwarder(1, true, Forwarder::kOther, now);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_TRUE(sink.lookup(0, kGroup, a).stands_by);
  ASSERT_EQ(t->rows(now).size(), 2U);
  EXPECT_EQ(t->rows(now)[0].left_to_other, 0b010U);
  t->packet_heard({kGroup, a, 0, 0}, now);
  t->tick(now + seconds(60));
  EXPECT_EQ(out(0, a), 0U) << "the new querier may listen itself";
  now += ForwarderElection::kSettleTime;
  t->packet_heard({kGroup, a, 0, 0}, now);
  EXPECT_EQ(out(0, a), 0U);
  ASSERT_EQ(t->next_deadline(), now + ForwarderElection::kUnanswered);
  t->tick(now + ForwarderElection::kUnanswered);
  EXPECT_EQ(out(0, a), 0b010U);
  EXPECT_FALSE(sink.lookup(0, kGroup, a).stands_by);
  EXPECT_EQ(out(2, a), 0U) << "from there, no packets came";
  t->set_filter(1, ip("239.1.1.2"), {true, {}}, now);
  EXPECT_EQ(out(0, a, "239.1.1.2"), 0b010U) << "the outcome is inherited";
  EXPECT_EQ(t->election_counters().taken_over, 1U);
}

TEST_F(MulticastTableTest, P06_OnlyRequestedSourcesAreTakenOver) {
  t->set_forwarder(1, true, Forwarder::kOther, now);
  t->set_filter(1, kGroup, {false, {a}}, now);
  EXPECT_FALSE(sink.lookup(0, kGroup, b).stands_by);
  now += seconds(10);
  t->packet_heard({kGroup, b, 0, 0}, now);
  t->tick(now + seconds(10));
  EXPECT_EQ(out(0, a), 0U);
  t->packet_heard({kGroup, a, 0, 0}, now);
  t->tick(now + seconds(10));
  EXPECT_EQ(out(0, a), 0b010U);
  t->packet_heard({kGroup, b, 1, 0, true}, now + seconds(10));
  EXPECT_EQ(out(0, a), 0b010U) << "another source is no evidence";
  t->packet_heard({kGroup, a, 1, 0, true}, now + seconds(10));
  EXPECT_EQ(out(0, a), 0U);
}

TEST_F(MulticastTableTest, P06_ARouterThatAlwaysForwardsHearsNoOther) {
  t->set_forwarder(1, true, Forwarder::kOther, now);
  t->set_forwarder(0, true, Forwarder::kAlways, now);
  t->set_filter(1, kGroup, {true, {}}, now);
  EXPECT_EQ(out(0, a), 0b010U);
  for (int i = 0; i < 100; ++i) t->packet_heard({kGroup, a, 1, 0, true}, now += seconds(1));
  EXPECT_EQ(out(0, a), 0b010U);
  EXPECT_EQ(out(2, a), 0U) << "not between other interfaces";
}

// It would take over what another router forwards. The queriers of both links decide, for each group.
TEST_F(MulticastTableTest, P06_AnInterfaceThatHearsNoOtherFollowsTheQueriers) {
  t->set_filter(1, kGroup, {true, {}}, now);
  t->set_deaf(1, true, now);
  t->set_forwarder(1, true, Forwarder::kOther, now);
  EXPECT_EQ(out(0, a), 0b010U) << "this node is the querier of one link";
  t->set_forwarder(0, true, Forwarder::kOther, now);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_FALSE(sink.lookup(0, kGroup, a).stands_by);
  t->packet_heard({kGroup, a, 0, 0}, now += seconds(10));
  t->tick(now + seconds(10));
  EXPECT_EQ(out(0, a), 0U);
  t->set_deaf(1, false, now);
  EXPECT_TRUE(sink.lookup(0, kGroup, a).stands_by);
}

TEST_F(MulticastTableTest, P06_StaticRoutesHaveNoElection) {
  ASSERT_TRUE(add("239.1.1.1/32", kAny, 0, {1}));
  t->set_forwarder(1, true, Forwarder::kOther, now);
  t->set_filter(1, kGroup, {true, {}}, now);
  for (int i = 0; i < 100; ++i) t->packet_heard({kGroup, a, 1, 0, true}, now += seconds(1));
  EXPECT_EQ(out(0, a), 0b010U);
  EXPECT_FALSE(sink.lookup(0, kGroup, a).stands_by);
}

// Another router forwards one of two sources, or a host on both links sends to the wrong one.
TEST_F(MulticastTableTest, P06_EvidenceOfOneSourceLeavesTheOthersAlone) {
  t->set_filter(1, kGroup, {true, {}}, now);
  t->packet_heard({kGroup, a, 1, 0, true}, now);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_TRUE(sink.lookup(0, kGroup, a).stands_by);
  EXPECT_EQ(out(0, b), 0b010U);
  EXPECT_FALSE(sink.lookup(0, kGroup, b).stands_by);
  t->set_filter(1, ip("239.1.1.2"), {true, {}}, now);
  EXPECT_EQ(out(0, a, "239.1.1.2"), 0b010U) << "it may forward no other group";
  for (int i = 0; i < 1'000; ++i) {
    now += milliseconds(300);
    t->packet_heard({kGroup, a, 0, 0}, now);
    t->packet_heard({kGroup, a, 1, 0, true}, now);
    t->tick(now);
    ASSERT_EQ(out(0, a), 0U);
    ASSERT_EQ(out(0, b), 0b010U);
  }
  t->tick(now + ForwarderElection::kSourceLifetime);
  EXPECT_EQ(out(0, a), 0b010U) << "it has ended";
  EXPECT_EQ(sink.entries.size(), 4U);
  EXPECT_FALSE(t->next_deadline());
}

TEST_F(MulticastTableTest, P06_ASourceThatNoOtherForwardsIsTakenOverAlone) {
  t->set_forwarder(1, true, Forwarder::kOther, now);
  t->set_filter(1, kGroup, {true, {}}, now);
  now += seconds(10);
  for (int i = 0; i < 100; ++i) {
    now += milliseconds(300);
    t->packet_heard({kGroup, a, 1, 0, true}, now);
    for (const IpAddr& source : {a, b})
      if (sink.lookup(0, kGroup, source).stands_by) t->packet_heard({kGroup, source, 0, 0}, now);
    t->tick(now);
    ASSERT_EQ(out(0, a), 0U);
    ASSERT_EQ(out(0, b), i < 4 ? 0U : 0b010U) << i;
  }
  EXPECT_EQ(t->election_counters().taken_over, 1U);
  // The node does not know whether a source that it forwards is silent, and looks for a packet.
  const auto pass = [&](Duration time) {
    for (const TimePoint end = now + time; t->next_deadline() && *t->next_deadline() <= end;)
      t->tick(now = *t->next_deadline());
  };
  for (int i = 0; i < 3; ++i) {
    while (!sink.lookup(0, kGroup, b).stands_by) pass(ForwarderElection::kSourceLifetime);
    EXPECT_EQ(out(0, b), 0b010U);
    t->packet_heard({kGroup, b, 0, 0}, now);
    EXPECT_FALSE(sink.lookup(0, kGroup, b).stands_by);
  }
  pass(3 * ForwarderElection::kSourceLifetime);
  EXPECT_EQ(out(0, b), 0U);
  EXPECT_EQ(sink.entries.size(), 2U);
  EXPECT_FALSE(t->next_deadline());
}

// Beyond the limit, the sources of a group share one contest.
TEST_F(MulticastTableTest, P06_ForgedSourcesHaveFewEntriesAndEnd) {
  t->set_filter(1, kGroup, {true, {}}, now);
  for (std::uint32_t i = 0; i < 10'000; ++i)
    t->packet_heard({kGroup, IpAddr::v4(0x0a10'0000 + i), 1, 0, true}, now);
  EXPECT_LE(sink.entries.size(), ForwarderElection::kMaxSources + 2);
  EXPECT_EQ(t->election_counters().refused, 0U);
  t->packet_heard({kGroup, a, 0, 0}, now += seconds(2));
  for (int i = 0; i < 3; ++i) t->packet_heard({kGroup, a, 0, 0}, now += seconds(1));
  EXPECT_EQ(out(0, a), 0b010U) << "no router forwards the group";
  while (t->next_deadline()) t->tick(now = std::max(now, *t->next_deadline()));
  EXPECT_EQ(sink.entries.size(), 2U);
  t->packet_heard({kGroup, a, 1, 0, true}, now);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_EQ(out(0, b), 0b010U);
}

TEST_F(MulticastTableTest, P06_ElectionsAreBoundedAndEndWithTheGroup) {
  make({.max_contests = 2});
  const char* const groups[] = {"239.1.1.1", "239.1.1.2", "239.1.1.3", "239.1.1.4", "239.1.1.5"};
  for (const char* group : groups) t->set_filter(1, ip(group), {true, {}}, now);
  for (const char* group : groups) t->packet_heard({ip(group), a, 1, 0, true}, now);
  for (const int i : {0, 1}) EXPECT_EQ(out(0, b, groups[i]), 0b010U) << "a source has a contest";
  for (const int i : {2, 3}) EXPECT_EQ(out(0, b, groups[i]), 0U) << "its group has one";
  for (const int i : {0, 1, 2, 3}) EXPECT_EQ(out(0, a, groups[i]), 0U);
  EXPECT_EQ(out(0, a, groups[4]), 0b010U) << "as the querier";
  EXPECT_EQ(t->election_counters().refused, 1U);
  t->set_filter(1, ip(groups[0]), {}, now);
  t->packet_heard({ip(groups[4]), a, 1, 0, true}, now);
  EXPECT_EQ(out(0, a, groups[4]), 0U);
  EXPECT_EQ(out(0, b, groups[4]), 0b010U);
  t->packet_heard({ip("239.1.1.9"), a, 1, 0, true}, now);
  t->packet_heard({kGroup, a, 9, 0, true}, now);
  t->packet_heard({kGroup, a, 1, table::kNoInterface, true}, now);
  EXPECT_EQ(t->election_counters().refused, 1U);
  t->remove_interface(1, now);
  EXPECT_TRUE(sink.entries.empty());
  EXPECT_FALSE(t->next_deadline());
}

TEST_F(MulticastTableTest, P06_NothingIsTakenOverOnALinkThatHearsNoOther) {
  for (const bool always : {false, true}) {
    make();
    sink.entries.clear();
    t->set_forwarder(1, true, Forwarder::kOther, now);
    t->set_filter(1, kGroup, {true, {}}, now);
    now += seconds(10);
    t->packet_heard({kGroup, a, 0, 0}, now);
    if (always)
      t->set_forwarder(1, true, Forwarder::kAlways, now);
    else
      t->set_deaf(1, true, now);
    t->tick(now + seconds(10));
    EXPECT_EQ(t->election_counters().taken_over, 0U);
    EXPECT_FALSE(t->next_deadline());
    t->set_deaf(1, false, now);
    t->set_forwarder(1, true, Forwarder::kOther, now);
    t->set_filter(1, ip("239.1.1.2"), {true, {}}, now);
    EXPECT_EQ(out(0, a, "239.1.1.2"), 0U) << "no outcome";
  }
}

// The handovers of all groups of a link end at the same moment.
TEST_F(MulticastTableTest, P16_ATurnEndsFewContests) {
  for (std::uint32_t i = 0; i < 1'000; ++i)
    t->set_filter(1, IpAddr::v4(0xef01'0000 + i), {true, {}}, now);
  t->set_forwarder(1, true, Forwarder::kOther, now);
  now += ForwarderElection::kHandover;
  unsigned turns = 0;
  for (; t->next_deadline() && *t->next_deadline() <= now; ++turns) {
    sink.writes = 0;
    t->tick(now);
    ASSERT_LE(sink.writes, 2 * ForwarderElection::kChangesAtOnce);
  }
  EXPECT_GE(turns, 2'000U / ForwarderElection::kChangesAtOnce);
  for (std::uint32_t i = 0; i < 1'000; ++i)
    EXPECT_EQ(sink.lookup(0, IpAddr::v4(0xef01'0000 + i), a).out, 0U);
}

TEST_F(MulticastTableTest, WrongStaticRoutesAreRefused) {
  const auto code = [](const Status& s) { return s ? Errc::kTimedOut : s.error().code; };
  EXPECT_EQ(code(add("10.0.0.0/8", kAny, 0, {1})), Errc::kInvalidArgument);
  EXPECT_EQ(code(add("0.0.0.0/0", kAny, 0, {1})), Errc::kInvalidArgument);
  EXPECT_EQ(code(add("224.0.0.5/32", kAny, 0, {1})), Errc::kInvalidArgument);
  EXPECT_EQ(code(add("239.1.1.1/32", ip("fd00::1"), 0, {1})), Errc::kInvalidArgument);
  EXPECT_EQ(code(add("239.1.1.1/32", kAny, 0, {})), Errc::kInvalidArgument);
  EXPECT_EQ(code(add("239.1.1.1/32", kAny, 1, {0, 1})), Errc::kInvalidArgument);
  EXPECT_EQ(code(add("239.1.1.1/32", kAny, 0, {64})), Errc::kInvalidArgument);
  EXPECT_EQ(t->set_router(64, true, now).error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(add("239.1.1.1/32", kAny, 0, {1}));
  EXPECT_EQ(code(add("239.1.1.1/32", kAny, 0, {2})), Errc::kExists);
  EXPECT_EQ(code(t->remove_static({*wire::parse_prefix("239.1.1.2/32"), kAny, 0, {}}, now)),
            Errc::kNotFound);
}

TEST_F(MulticastTableTest, EntriesAreBoundedAndComeWhenThereIsRoom) {
  make({.max_entries = 2, .max_seen = 1});
  t->set_filter(1, kGroup, {true, {}}, now);
  t->set_filter(1, ip("239.1.1.2"), {true, {}}, now);
  EXPECT_EQ(sink.entries.size(), 2U);
  EXPECT_EQ(t->counters().entries_refused, 1U);
  t->set_filter(1, kGroup, {}, now);
  EXPECT_EQ(sink.entries.size(), 2U);
  EXPECT_EQ(out(0, a, "239.1.1.2"), 0b010U);
  t->packet_seen(kGroup, a, now);
  t->packet_seen(kGroup, b, now);
  EXPECT_EQ(t->counters().seen_refused, 1U);
}

// A link that goes down gives the room of its groups to those that wait, one group at a time.
TEST_F(MulticastTableTest, P16_ManyGroupsThatWaitTakeTheRoomAsItComes) {
  make({.max_entries = 1'000});
  const auto group = [](std::uint32_t i) { return IpAddr::v4(0xef01'0000 + i); };
  for (std::uint32_t i = 0; i < 3'000; ++i) t->set_filter(1, group(i), {true, {}}, now);
  EXPECT_EQ(sink.entries.size(), 1'000U);
  const auto before = t->counters().entries_refused;
  EXPECT_EQ(before, 2'500U) << "a group has an entry for each of two interfaces";
  t->set_filter(1, group(0), {}, now);
  EXPECT_EQ(sink.entries.size(), 1'000U);
  EXPECT_EQ(t->counters().entries_refused, before) << "only groups with room were looked at";
  for (std::uint32_t i = 1; i < 2'500; ++i) t->set_filter(1, group(i), {}, now);
  EXPECT_EQ(sink.entries.size(), 1'000U) << "those of the groups that are left";
}

TEST_F(MulticastTableTest, AnInterfaceThatGoesTakesAllWithIt) {
  ASSERT_TRUE(add("239.1.1.1/32", kAny, 0, {1}));
  ASSERT_TRUE(t->listen(1, ip("224.0.0.1"), now));
  t->set_filter(1, kGroup, {true, {}}, now);
  t->remove_interface(1, now);
  EXPECT_TRUE(sink.entries.empty());
  EXPECT_TRUE(t->static_routes().empty());
  EXPECT_EQ(t->entries(), 0U);
}

// Entries of the multicast router of Linux.

class LinuxEntries : public MulticastTableTest {
 protected:
  void SetUp() override { t.emplace(MulticastTableConfig{}, sink); }
  void set(const IpAddr& source, InterfaceId in, std::uint64_t to, bool elsewhere = false) {
    ASSERT_TRUE(t->set_linux({kGroup, source, in, to, elsewhere}, now));
  }
  table::Delivery at(InterfaceId in, const IpAddr& source) {
    return sink.lookup(in, kGroup, source);
  }
};

TEST_F(LinuxEntries, P17_AreDeliveriesOfTheirInterface) {
  set(a, 0, 0b111);
  EXPECT_EQ(out(0, a), 0b110U) << "never back";
  EXPECT_EQ(out(0, b), 0U);
  EXPECT_EQ(out(1, a), 0U);
  EXPECT_EQ(at(0, a).for_linux, table::ForLinux::kSample);
  EXPECT_EQ(at(0, a).from_reverse_path, 0U) << "the daemon knows the way";
  set(a, 0, 0b010, true);
  EXPECT_EQ(out(0, a), 0b010U);
  EXPECT_EQ(at(0, a).for_linux, table::ForLinux::kAll);
  set(a, 1, 0b100);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_EQ(out(1, a), 0b100U);
  EXPECT_EQ(sink.entries.size(), 1U) << "nothing is left where it was";
  t->remove_linux(kGroup, a, now);
  EXPECT_TRUE(sink.entries.empty());
  EXPECT_EQ(t->linux_routes(), 0U);
  t->remove_linux(kGroup, a, now);
}

TEST_F(LinuxEntries, P17_PrunedEntryStays) {
  set(a, 0, 0);
  EXPECT_EQ(sink.entries.size(), 1U) << "its packets are not unknown to Linux";
  EXPECT_EQ(at(0, a).for_linux, table::ForLinux::kSample);
}

/// Otherwise packets by the shared tree would be forwarded beside those by the shortest path.
TEST_F(LinuxEntries, P17_SourceWithItsOwnEntryDoesNotUseTheSharedOne) {
  set(kAny, 0, 0b100, true);
  EXPECT_EQ(out(0, a), 0b100U);
  set(a, 1, 0b100);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_EQ(at(0, a).for_linux, table::ForLinux::kNone);
  EXPECT_EQ(out(1, a), 0b100U);
  EXPECT_EQ(out(0, b), 0b100U);
  // Registers arrive on no interface of the node.
  set(a, table::kNoInterface, 0b100);
  EXPECT_EQ(out(0, a), 0U);
  EXPECT_EQ(out(1, a), 0U);
  t->remove_linux(kGroup, a, now);
  EXPECT_EQ(out(0, a), 0b100U);
  t->remove_linux(kGroup, kAny, now);
  EXPECT_TRUE(sink.entries.empty());
}

TEST_F(LinuxEntries, P17_StaticRoutesArePreferred) {
  set(a, 0, 0b100);
  ASSERT_TRUE(add("239.1.0.0/16", kAny, 0, {1}));
  EXPECT_EQ(out(0, a), 0b010U);
  EXPECT_EQ(at(0, a).for_linux, table::ForLinux::kNone);
  const auto rows = t->rows(now);
  ASSERT_FALSE(rows.empty());
  EXPECT_TRUE(rows[0].from_static);
  EXPECT_FALSE(rows[0].from_linux);
  ASSERT_TRUE(t->remove_static({*wire::parse_prefix("239.1.0.0/16"), kAny, 0, {1}}, now));
  EXPECT_EQ(out(0, a), 0b100U);
  EXPECT_TRUE(t->rows(now)[0].from_linux);
}

TEST_F(LinuxEntries, P17_ImpossibleOnesAreRefused) {
  EXPECT_FALSE(t->set_linux({ip("224.0.0.5"), a, 0, 0b10, false}, now));
  EXPECT_FALSE(t->set_linux({ip("10.0.0.1"), a, 0, 0b10, false}, now));
  EXPECT_FALSE(t->set_linux({kGroup, ip("fd00::1"), 0, 0b10, false}, now));
  EXPECT_FALSE(t->set_linux({kGroup, ip("239.0.0.1"), 0, 0b10, false}, now));
  EXPECT_EQ(t->linux_routes(), 0U);
  EXPECT_TRUE(sink.entries.empty());
}

TEST_F(LinuxEntries, P17_SamplesTakeTurns) {
  set(a, 0, 0b010);
  set(b, 0, 0b100);
  set(kAny, 0, 0b100, true);  // all packets go to Linux
  std::size_t writes = sink.writes;
  t->sample_linux(1);
  t->sample_linux(1);
  t->sample_linux(1);
  EXPECT_EQ(sink.writes, writes + 2);
  writes = sink.writes;
  t->sample_linux(100);
  EXPECT_EQ(sink.writes, writes + 2);
  t->remove_linux(kGroup, a, now);
  t->remove_linux(kGroup, b, now);
  t->remove_linux(kGroup, kAny, now);
  t->sample_linux(100);
}

TEST_F(LinuxEntries, P17_TableHasItsLimit) {
  t.emplace(MulticastTableConfig{.max_entries = 1}, sink);
  set(a, 0, 0b010);
  set(b, 0, 0b010);
  EXPECT_EQ(t->entries(), 1U);
  EXPECT_EQ(t->counters().entries_refused, 1U);
  t->remove_linux(kGroup, a, now);
  EXPECT_EQ(out(0, b), 0b010U) << "it uses the room";
}

}  // namespace
}  // namespace ipoib::route
