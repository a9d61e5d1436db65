// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/multicast_membership.h"

#include <gtest/gtest.h>

#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"
#include "tests/support/addresses.h"

namespace ipoib::route {
namespace {

using ipoib::test::ip;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::IpAddr;
using wire::MembershipQuery;
using wire::MembershipReport;
using wire::MembershipVersion;
using wire::RecordType;

struct FakeMembershipSink final : MembershipSink {
  void send(table::InterfaceId, std::vector<std::byte> packet, TimePoint) override {
    const auto parsed = wire::parse_igmp(packet);
    ASSERT_TRUE(parsed);
    sent.push_back(std::get<MembershipQuery>(parsed->message));
  }
  void on_filter_change(table::InterfaceId, const IpAddr& group, const GroupFilter& filter,
                        TimePoint) override {
    if (filter.nothing())
      filters.erase(group);
    else
      filters[group] = filter;
  }
  void on_forwarder_change(table::InterfaceId, IpFamily, Forwarder next, TimePoint) override {
    EXPECT_NE(forwarder, next);
    forwarder = next;
    ++forwarder_changes;
  }
  Forwarder forwarder = Forwarder::kThis;
  unsigned forwarder_changes = 0;
  std::vector<MembershipQuery> sent;
  std::map<IpAddr, GroupFilter> filters;
};

class MembershipTest : public testing::Test {
 protected:
  void start(MembershipConfig config = {}) {
    m.emplace(table::InterfaceId{3}, IpFamily::kIpv4, config, sink);
    m->start(now);
    m->set_address(kRouter, now);
  }
  void run(Duration d) {
    const TimePoint end = now + d;
    while (m->next_deadline() && *m->next_deadline() <= end) {
      now = *m->next_deadline();
      m->tick(now);
    }
    now = end;
  }
  void report(RecordType type, const char* group, std::vector<IpAddr> sources = {},
              MembershipVersion version = MembershipVersion::kV3) {
    report_from(kHost, {{type, ip(group), std::move(sources)}}, version);
  }
  void report_from(const IpAddr& host, std::vector<wire::MembershipRecord> records,
                   MembershipVersion version = MembershipVersion::kV3) {
    m->on_packet(wire::make_igmp(host, MembershipReport{version, std::move(records)}), now);
  }
  void query(const IpAddr& from, const MembershipQuery& q) {
    m->on_packet(wire::make_igmp(from, q), now);
  }

  const IpAddr kRouter = ip("10.0.0.5");
  const IpAddr kHost = ip("10.0.0.77");
  const IpAddr kGroup = ip("239.1.1.1");
  const IpAddr a = ip("10.9.0.1"), b = ip("10.9.0.2"), c = ip("10.9.0.3");
  FakeMembershipSink sink;
  std::optional<MulticastMembership> m;
  TimePoint now{seconds(1'000)};
};

TEST_F(MembershipTest, GeneralQueriesComeFasterAtStartUp) {
  start();
  ASSERT_EQ(sink.sent.size(), 1U);
  EXPECT_TRUE(wire::is_any_address(sink.sent[0].group));
  EXPECT_EQ(sink.sent[0].max_response, seconds(10));
  EXPECT_EQ(sink.sent[0].robustness, 2);
  EXPECT_EQ(sink.sent[0].interval, seconds(125));
  run(milliseconds(1'500));
  EXPECT_EQ(sink.sent.size(), 4U) << "to be heard by another router";
  run(milliseconds(31'250));
  EXPECT_EQ(sink.sent.size(), 5U);
  run(milliseconds(124'999));
  EXPECT_EQ(sink.sent.size(), 5U);
  run(seconds(1));
  EXPECT_EQ(sink.sent.size(), 6U);
}

// Until then, another router that starts, or that is the querier, may forward too.
TEST_F(MembershipTest, P06_ARouterForwardsWhenItHasHeardNoQuerier) {
  start();
  EXPECT_EQ(sink.forwarder, Forwarder::kUnknown);
  run(milliseconds(1'999));
  EXPECT_EQ(sink.forwarder, Forwarder::kUnknown);
  query(ip("10.0.0.9"), {.robustness = 2, .interval = seconds(125)});
  EXPECT_EQ(sink.forwarder, Forwarder::kUnknown) << "a higher address";
  run(milliseconds(1));
  EXPECT_EQ(sink.forwarder, Forwarder::kThis);
  EXPECT_EQ(m->querier_state(now).querier, kRouter);
  EXPECT_FALSE(m->querier_state(now).other);
  query(ip("10.0.0.1"), {.robustness = 2, .interval = seconds(10)});
  EXPECT_EQ(sink.forwarder, Forwarder::kOther);
  const QuerierState state = m->querier_state(now + seconds(3));
  EXPECT_EQ(state.querier, ip("10.0.0.1"));
  EXPECT_TRUE(state.other);
  EXPECT_EQ(state.forwarder, Forwarder::kOther);
  EXPECT_EQ(state.age, seconds(3));
  run(seconds(25));  // the querier is missed
  EXPECT_EQ(sink.forwarder, Forwarder::kOther) << "until this router takes its place";
  EXPECT_EQ(m->querier_state(now).forwarder, Forwarder::kUnknown);
  run(seconds(2));
  EXPECT_EQ(sink.forwarder, Forwarder::kThis);
  m->stop(now);
  EXPECT_FALSE(m->querier_state(now).querier);
  m->start(now);
  run(milliseconds(2'500));
  EXPECT_EQ(sink.forwarder, Forwarder::kUnknown) << "before it has an address";
  query(ip("10.0.0.9"), {.robustness = 2, .interval = seconds(10)});
  EXPECT_EQ(sink.forwarder, Forwarder::kOther) << "without an address it cannot be the querier";
  run(seconds(25));
  EXPECT_EQ(sink.forwarder, Forwarder::kThis);
}

// An address that comes late, or again, does not interrupt what is forwarded.
TEST_F(MembershipTest, P06_ARouterThatForwardsGoesOnWhenItGetsAnAddress) {
  m.emplace(table::InterfaceId{3}, IpFamily::kIpv4, MembershipConfig{}, sink);
  m->start(now);
  run(milliseconds(3'999));
  EXPECT_EQ(sink.forwarder, Forwarder::kUnknown);
  run(seconds(60));
  EXPECT_EQ(sink.forwarder, Forwarder::kThis) << "no querier was heard";
  for (int i = 0; i < 3; ++i) {
    const unsigned changes = sink.forwarder_changes;
    sink.sent.clear();
    m->set_address(kRouter, now);
    EXPECT_EQ(m->querier_state(now).forwarder, Forwarder::kThis);
    run(milliseconds(1'999));
    EXPECT_EQ(sink.sent.size(), 4U) << "it still asks who else is there";
    EXPECT_EQ(sink.forwarder_changes, changes);
    m->set_address(std::nullopt, now);
    run(seconds(60));
    EXPECT_EQ(sink.forwarder_changes, changes);
  }
  m->set_address(kRouter, now);
  run(milliseconds(700));
  query(ip("10.0.0.9"), {.robustness = 2, .interval = seconds(125)});
  EXPECT_EQ(sink.forwarder, Forwarder::kThis) << "a higher address";
  query(ip("10.0.0.1"), {.robustness = 2, .interval = seconds(125)});
  EXPECT_EQ(sink.forwarder, Forwarder::kOther) << "the querier of the link";
  EXPECT_EQ(m->querier_state(now).forwarder, Forwarder::kOther);
  m->set_address(std::nullopt, now);
  m->set_address(kRouter, now);
  run(milliseconds(1'999));
  EXPECT_EQ(sink.forwarder, Forwarder::kOther) << "it has not taken the querier's place";
}

// An address that comes while the router listens does not make it forward sooner.
TEST_F(MembershipTest, P06_ARouterThatListensGoesOnListeningWhenItGetsAnAddress) {
  m.emplace(table::InterfaceId{3}, IpFamily::kIpv4, MembershipConfig{}, sink);
  m->start(now);
  run(milliseconds(3'000));
  m->set_address(kRouter, now);
  run(milliseconds(1'999));
  EXPECT_EQ(sink.forwarder, Forwarder::kUnknown);
  EXPECT_EQ(m->querier_state(now).forwarder, Forwarder::kUnknown);
  run(milliseconds(1));
  EXPECT_EQ(sink.forwarder, Forwarder::kThis);
}

TEST_F(MembershipTest, P06_ARouterThatAlwaysForwardsDoesNotListenFirst) {
  start({.forwarder = ForwarderRule::kAlways});
  EXPECT_EQ(sink.forwarder, Forwarder::kAlways);
  m.reset();
  sink.forwarder = Forwarder::kThis;
  start({.version = MembershipVersion::kV1});
  EXPECT_EQ(sink.forwarder, Forwarder::kThis) << "version 1 has no election";
}

// A router whose queries come in quick succession does not make this one ask as often.
TEST_F(MembershipTest, TheQuerierAnswersOthersAtMostTwiceASecondOrSo) {
  start();
  run(seconds(60));
  sink.sent.clear();
  for (int i = 0; i < 10'000; ++i) {
    query(ip("10.0.0.9"), {.robustness = 2, .interval = seconds(125)});
    run(milliseconds(1));
  }
  EXPECT_EQ(sink.sent.size(), 25U);
}

/// A row of the tables of RFC 3376 §6.4: the records of the initial state, the new record, the
/// filter at once and after the Last Member Query Time, and the number of queries sent.
struct Row {
  const char* name;
  std::vector<std::pair<RecordType, std::string>> before;
  RecordType type;
  std::string sources;
  std::string at_once;
  std::string later;
  unsigned queries;
};

class StateTable : public MembershipTest, public testing::WithParamInterface<Row> {
 protected:
  std::vector<IpAddr> sources(const std::string& names) {
    std::vector<IpAddr> list;
    for (const char n : names) list.push_back(n == 'a' ? a : n == 'b' ? b : c);
    return list;
  }
  /// Returns the filter as text: "I:ab" is only a and b, "E:a" is all sources except a, "" is no
  /// filter.
  std::string filter() {
    const auto it = sink.filters.find(kGroup);
    if (it == sink.filters.end()) return "";
    std::string text = it->second.exclude ? "E:" : "I:";
    for (const IpAddr& s : it->second.sources) text += s == a ? 'a' : s == b ? 'b' : 'c';
    return text;
  }
};

TEST_P(StateTable, HoldsForVersionThree) {
  const Row& row = GetParam();
  start();
  for (const auto& [type, names] : row.before) report(type, "239.1.1.1", sources(names));
  run(seconds(5));
  sink.sent.clear();
  report(row.type, "239.1.1.1", sources(row.sources));
  m->tick(now);
  EXPECT_EQ(filter(), row.at_once);
  EXPECT_EQ(sink.sent.size(), row.queries);
  run(milliseconds(2'100));
  EXPECT_EQ(filter(), row.later);
}

constexpr auto kIsIn = RecordType::kIsInclude, kIsEx = RecordType::kIsExclude,
               kToIn = RecordType::kToInclude, kToEx = RecordType::kToExclude,
               kAllow = RecordType::kAllow, kBlock = RecordType::kBlock;

INSTANTIATE_TEST_SUITE_P(
    Rfc3376, StateTable,
    testing::Values(Row{"InIsIn", {{kIsIn, "a"}}, kIsIn, "b", "I:ab", "I:ab", 0},
                    Row{"InAllow", {{kIsIn, "a"}}, kAllow, "b", "I:ab", "I:ab", 0},
                    Row{"InIsEx", {{kIsIn, "ab"}}, kIsEx, "bc", "E:c", "E:c", 0},
                    Row{"InBlock", {{kIsIn, "ab"}}, kBlock, "bc", "I:ab", "I:a", 1},
                    Row{"InToEx", {{kIsIn, "ab"}}, kToEx, "bc", "E:c", "E:bc", 1},
                    Row{"InToIn", {{kIsIn, "ab"}}, kToIn, "bc", "I:abc", "I:bc", 1},
                    Row{"ExIsIn", {{kIsEx, "a"}}, kIsIn, "a", "E:", "E:", 0},
                    Row{"ExIsEx", {{kIsEx, "ab"}}, kIsEx, "bc", "E:b", "E:b", 0},
                    Row{"ExAllow", {{kIsEx, "ab"}}, kAllow, "b", "E:a", "E:a", 0},
                    Row{"ExBlock", {{kIsEx, "a"}}, kBlock, "ab", "E:a", "E:ab", 1},
                    Row{"ExToEx", {{kIsEx, "a"}}, kToEx, "ab", "E:a", "E:ab", 1},
                    Row{"ExToIn", {{kIsEx, "a"}}, kToIn, "b", "E:a", "I:b", 1},
                    Row{"ExToInNone", {{kIsEx, ""}}, kToIn, "", "E:", "", 1}),
    [](const auto& row) { return row.param.name; });

TEST_F(MembershipTest, SourcesNobodyRepeatsTimeOutOfAnExcludeGroup) {
  start();
  report(kIsEx, "239.1.1.1");
  report(kAllow, "239.1.1.1", {a});
  run(seconds(200));
  report(kIsEx, "239.1.1.1", {a});
  EXPECT_TRUE(sink.filters[kGroup].sources.empty());
  run(seconds(61));
  EXPECT_EQ(sink.filters[kGroup].sources, std::vector{a});
  run(seconds(200));
  EXPECT_TRUE(sink.filters.empty());
  EXPECT_EQ(m->group_count(), 0U);
}

TEST_F(MembershipTest, LeaveIsAskedAboutAsOftenAsRobustnessSays) {
  start({.robustness = 3});
  run(MulticastMembership::kListenTime);
  report(kIsEx, "239.1.1.1", {}, MembershipVersion::kV2);
  sink.sent.clear();
  report(kToIn, "239.1.1.1", {}, MembershipVersion::kV2);
  run(milliseconds(2'999));
  EXPECT_EQ(sink.sent.size(), 3U);
  for (const auto& q : sink.sent) {
    EXPECT_EQ(q.group, kGroup);
    EXPECT_EQ(q.max_response, seconds(1));
    EXPECT_FALSE(q.suppress);
  }
  EXPECT_FALSE(sink.filters.empty());
  run(milliseconds(1));
  EXPECT_TRUE(sink.filters.empty());
}

TEST_F(MembershipTest, AnAnswerMakesTheNextQuerySuppress) {
  start();
  run(MulticastMembership::kListenTime);
  report(kIsEx, "239.1.1.1");
  report(kToIn, "239.1.1.1");
  m->tick(now);
  report(kIsEx, "239.1.1.1");
  sink.sent.clear();
  run(seconds(1));
  ASSERT_EQ(sink.sent.size(), 1U);
  EXPECT_TRUE(sink.sent[0].suppress);
}

TEST_F(MembershipTest, OlderHostsMakeTheGroupDeafToSources) {
  start();
  run(MulticastMembership::kListenTime);
  report(kIsEx, "239.1.1.1", {}, MembershipVersion::kV2);
  sink.sent.clear();
  report(kBlock, "239.1.1.1", {a});
  report(kToEx, "239.1.1.1", {a});
  run(seconds(5));
  EXPECT_TRUE(sink.sent.empty());
  EXPECT_EQ(sink.filters[kGroup], (GroupFilter{true, {}}));
  report(kIsEx, "239.1.1.1", {}, MembershipVersion::kV1);
  report(kToIn, "239.1.1.1", {}, MembershipVersion::kV2);
  run(seconds(5));
  EXPECT_TRUE(sink.sent.empty());
}

TEST_F(MembershipTest, RecordsForWhatIsNoForwardedGroupAreCounted) {
  start();
  report(kIsEx, "10.1.2.3");
  report(kIsEx, "224.0.0.251");
  report(kIsEx, "232.1.1.1");
  report(kIsIn, "239.1.1.1", {ip("224.1.1.1")});
  EXPECT_EQ(m->counters().not_a_group, 1U);
  EXPECT_EQ(m->counters().link_scope, 1U);
  EXPECT_EQ(m->counters().source_specific, 1U);
  EXPECT_EQ(m->counters().bad_sources, 1U);
  EXPECT_EQ(m->group_count(), 0U);
  report(kIsIn, "232.1.1.1", {a});
  EXPECT_EQ(m->group_count(), 1U);
}

TEST_F(MembershipTest, AddressesOfTheOtherFamilyAreCounted) {
  m.emplace(table::InterfaceId{3}, IpFamily::kIpv6, MembershipConfig{}, sink);
  m->on_packet(wire::make_mld(ip("fe80::77"),
                              MembershipReport{MembershipVersion::kV3,
                                               {{kIsEx, kGroup, {}}, {kIsIn, ip("ff0e::1"), {a}}}}),
               now);
  EXPECT_EQ(m->counters().not_a_group, 1U);
  EXPECT_EQ(m->counters().bad_sources, 1U);
  EXPECT_EQ(m->group_count(), 0U);
}

TEST_F(MembershipTest, GroupsAndSourcesAreBounded) {
  start({.max_groups = 2, .max_sources = 2});
  report(kIsIn, "239.1.1.1", {a, b, c});
  report(kIsEx, "239.1.1.2");
  report(kIsEx, "239.1.1.3");
  EXPECT_EQ(m->group_count(), 2U);
  EXPECT_EQ(m->counters().groups_refused, 1U);
  EXPECT_EQ(m->counters().sources_refused, 1U);
  EXPECT_EQ(sink.filters[kGroup].sources.size(), 2U);
}

// A host that reports group after group does not take the place of another host's.
TEST_F(MembershipTest, AHostHasItsShareOfTheGroups) {
  start({.max_groups = 10, .max_host_groups = 3});
  for (const char* group : {"239.1.1.1", "239.1.1.2", "239.1.1.3", "239.1.1.4", "239.1.1.5"})
    report(kIsEx, group);
  EXPECT_EQ(m->group_count(), 3U);
  EXPECT_EQ(m->counters().host_groups_refused, 2U);
  report_from(ip("10.0.0.78"), {{kIsEx, ip("239.1.1.4"), {}}});
  EXPECT_TRUE(sink.filters.contains(ip("239.1.1.4")));
  report(kIsEx, "239.1.1.4");  // The other host's: it takes none of this one's share.
  EXPECT_EQ(m->counters().host_groups_refused, 2U);
  EXPECT_EQ(m->counters().groups_refused, 0U);

  // A group without members gives its place back.
  report(kToIn, "239.1.1.1");
  run(seconds(3));
  EXPECT_EQ(m->group_count(), 3U);
  report(kIsEx, "239.1.1.5");
  EXPECT_TRUE(sink.filters.contains(ip("239.1.1.5")));
  m->stop(now);
  m->set_address(kRouter, now);
  for (const char* group : {"239.2.1.1", "239.2.1.2", "239.2.1.3"}) report(kIsEx, group);
  EXPECT_EQ(m->group_count(), 3U);
}

// One host sends 5,000 reports of 180 records each a second. The records that are applied are
// bounded, and the join of another host is taken at once.
TEST_F(MembershipTest, AFloodOfReportsCostsBoundedWorkAndDelaysNoOtherHost) {
  start();
  std::vector<wire::MembershipRecord> records;
  for (std::uint32_t i = 0; i < 180; ++i)
    records.push_back({i % 2 == 0 ? kToEx : kToIn, IpAddr::v4(0xef01'0000 + i), {}});
  constexpr unsigned kSeconds = 10;
  for (unsigned i = 0; i < 5'000 * kSeconds; ++i) {
    run(std::chrono::microseconds(200));
    report_from(kHost, records);
    if (i % 5'000 != 2'500) continue;
    const IpAddr group = IpAddr::v4(0xef02'0000 + i);
    report_from(ip("10.0.0.78"), {{kIsEx, group, {}}});
    EXPECT_TRUE(sink.filters.contains(group));
  }
  EXPECT_LE(m->counters().records, (kSeconds + 1) * (RecordBudget::kRecordsPerHost + 180));
  EXPECT_GT(m->counters().over_budget, 49'000U);
  EXPECT_EQ(m->counters().over_budget + m->counters().reports_received, 50'000U + kSeconds);

  // The host itself is heard again when it has kept quiet.
  run(seconds(2));
  report_from(kHost, {{kIsEx, ip("239.9.9.9"), {}}});
  EXPECT_TRUE(sink.filters.contains(ip("239.9.9.9")));
}

// Forged sources do not multiply the budget: together they have that of the link.
TEST_F(MembershipTest, ReportsOfManySourcesAreBoundedToo) {
  start();
  const std::vector<wire::MembershipRecord> records(180, {kIsEx, ip("239.1.1.1"), {}});
  for (std::uint32_t i = 0; i < 5'000; ++i) report_from(IpAddr::v4(0x0a01'0000 + i), records);
  EXPECT_LE(m->counters().records, RecordBudget::kRecordsPerLink / 2 + 180);
  run(seconds(1));
  EXPECT_GT(m->counters().over_budget, 4'000U);
  report_from(kHost, {{kIsEx, ip("239.9.9.9"), {}}});
  EXPECT_TRUE(sink.filters.contains(ip("239.9.9.9")));
}

// A flood of reports with forged sources goes on for minutes. A host that is a member keeps its
// group, and the querier of the link is heard.
TEST_F(MembershipTest, AFloodOfForgedSourcesEndsNoMembership) {
  start();
  report_from(kHost, {{kIsEx, kGroup, {}}});
  const IpAddr querier = ip("10.0.0.2");
  const MembershipQuery general{.group = ip("0.0.0.0"), .robustness = 2, .interval = seconds(125)};
  query(querier, general);
  ASSERT_EQ(m->other_querier(), querier);
  const std::vector<wire::MembershipRecord> records(180, {kIsEx, ip("239.1.1.9"), {}});
  std::uint32_t forged = 0x0a01'0000;
  for (unsigned i = 0; i < 600; ++i) {
    for (unsigned n = 0; n < 100; ++n) report_from(IpAddr::v4(forged++), records);
    if (i % 100 == 50) {
      const auto refused = m->counters().over_budget;
      query(querier, general);
      report_from(kHost, {{kIsEx, kGroup, {}}});
      EXPECT_EQ(m->counters().over_budget, refused);
    }
    run(seconds(1));
  }
  EXPECT_GT(m->counters().over_budget, 10'000U);
  EXPECT_TRUE(sink.filters.contains(kGroup));
  EXPECT_EQ(m->other_querier(), querier);
}

// A report that is larger than the share is applied, and its host then waits until it is paid for.
TEST_F(MembershipTest, AReportLargerThanTheShareIsTakenAsAWhole) {
  start({.max_host_groups = 4'000});
  std::vector<wire::MembershipRecord> records;
  for (std::uint32_t i = 0; i < 3'000; ++i)
    records.push_back({kIsEx, IpAddr::v4(0xef01'0000 + i), {}});
  report_from(kHost, records);
  EXPECT_EQ(m->group_count(), 3'000U);
  run(milliseconds(900));
  report_from(kHost, {{kIsEx, ip("239.9.9.9"), {}}});
  EXPECT_EQ(m->counters().over_budget, 1U);
  run(seconds(1));
  report_from(kHost, {{kIsEx, ip("239.9.9.9"), {}}});
  EXPECT_EQ(m->group_count(), 3'001U);
}

TEST_F(MembershipTest, AForgedOrGarbledPacketIsCountedByName) {
  start();
  auto p = wire::make_igmp(
      kHost, MembershipReport{MembershipVersion::kV3, {{kIsEx, ip("239.1.1.1"), {}}}});
  p.back() ^= std::byte{1};
  m->on_packet(p, now);
  m->on_packet({}, now);
  EXPECT_EQ(m->counters().faults[static_cast<std::size_t>(wire::MembershipFault::kChecksum)], 1U);
  EXPECT_EQ(m->counters().faults[static_cast<std::size_t>(wire::MembershipFault::kIpHeader)], 1U);
  EXPECT_EQ(m->group_count(), 0U);
}

TEST_F(MembershipTest, OnlyALowerAddressIsElected) {
  start();
  MembershipQuery q;
  q.robustness = 3;
  q.interval = seconds(20);
  query(ip("10.0.0.9"), q);
  query(ip("0.0.0.0"), q);
  EXPECT_TRUE(m->querier());
  query(ip("10.0.0.4"), q);
  EXPECT_FALSE(m->querier());
  EXPECT_EQ(m->membership_interval(), seconds(70));  // from the querier's values
  query(ip("10.0.0.3"), q);
  EXPECT_EQ(m->other_querier(), ip("10.0.0.3"));
  sink.sent.clear();
  run(milliseconds(64'999));
  EXPECT_TRUE(sink.sent.empty());
  run(milliseconds(1));
  EXPECT_TRUE(m->querier());
  EXPECT_EQ(sink.sent.size(), 1U);
  EXPECT_EQ(m->membership_interval(), seconds(260));
}

// One forged query does not silence this router for the two and a half days that its fields can say.
TEST_F(MembershipTest, P06_TheIntervalOfAnotherQuerierIsBounded) {
  const MembershipQuery longest{.robustness = 7, .interval = seconds(31'744)};
  for (const auto& [own, adopted] : {std::pair{125, 600}, {599, 600}, {3'000, 3'000}}) {
    m.reset();
    start({.query_interval = seconds(own)});
    run(seconds(60));
    query(ip("10.0.0.1"), longest);
    EXPECT_EQ(m->membership_interval(), 7 * seconds(adopted) + seconds(10));
    run(7 * seconds(adopted) + milliseconds(4'999));  // and half of the response interval
    EXPECT_FALSE(m->querier());
    run(milliseconds(1));
    EXPECT_TRUE(m->querier()) << own;
    EXPECT_EQ(m->membership_interval(), 2 * seconds(own) + seconds(10)) << "its own values again";
  }
  query(ip("10.0.0.1"), {.robustness = 2, .interval = seconds(576)});
  EXPECT_EQ(m->membership_interval(), seconds(1'162)) << "not longer than the bound";
}

TEST_F(MembershipTest, TheQueriersQuestionsLowerTimersUnlessSuppressed) {
  start();
  query(ip("10.0.0.1"), {.max_response = seconds(10), .robustness = 2, .interval = seconds(124)});
  report(kIsEx, "239.1.1.1");
  report(kIsIn, "239.1.1.2", {a, b});
  sink.sent.clear();
  report(kToIn, "239.1.1.1");
  MembershipQuery q{.group = kGroup, .max_response = seconds(1), .suppress = true, .robustness = 2};
  query(ip("10.0.0.1"), q);
  run(seconds(3));
  EXPECT_TRUE(sink.filters.contains(kGroup));
  q.suppress = false;
  query(ip("10.0.0.1"), q);
  q.group = ip("239.1.1.2");
  q.sources = {b};
  query(ip("10.0.0.1"), q);
  run(seconds(2));
  EXPECT_FALSE(sink.filters.contains(kGroup));
  EXPECT_EQ(sink.filters[ip("239.1.1.2")].sources, std::vector{a});
  EXPECT_TRUE(sink.sent.empty());
}

TEST_F(MembershipTest, ARouterOfVersionTwoAsksAndHearsAsSuch) {
  start({.version = MembershipVersion::kV2});
  EXPECT_EQ(sink.sent[0].version, MembershipVersion::kV2);
  report(kIsEx, "239.1.1.1");
  EXPECT_EQ(m->counters().version_mismatch, 1U);
  report(kIsEx, "239.1.1.1", {}, MembershipVersion::kV2);
  EXPECT_EQ(m->group_count(), 1U);
}

TEST_F(MembershipTest, NoAddressNoQuestionsAndStopForgetsAll) {
  start();
  report(kIsEx, "239.1.1.1");
  m->set_address(std::nullopt, now);
  sink.sent.clear();
  run(seconds(200));
  EXPECT_TRUE(sink.sent.empty());
  EXPECT_FALSE(sink.filters.empty());
  m->stop(now);
  EXPECT_TRUE(sink.filters.empty());
  EXPECT_FALSE(m->next_deadline());
}

// If thousands of groups are left at once, the rate of the queries is limited, and no group is
// removed before its query was sent.
TEST_F(MembershipTest, SpecificQueriesAreBoundedInRate) {
  start({.max_host_groups = 2'000});
  for (std::uint32_t i = 0; i < 2'000; ++i)
    report(kIsEx, to_string(IpAddr::v4(0xef01'0000 + i)).c_str());
  run(seconds(5));
  sink.sent.clear();
  for (std::uint32_t i = 0; i < 2'000; ++i)
    report(kToIn, to_string(IpAddr::v4(0xef01'0000 + i)).c_str());
  run(seconds(1));
  EXPECT_LE(sink.sent.size(), 401U);
  EXPECT_GT(m->counters().queries_delayed, 0U);
  EXPECT_EQ(m->group_count(), 2'000U);
  run(seconds(40));
  EXPECT_EQ(m->group_count(), 0U);
}

}  // namespace
}  // namespace ipoib::route
