// SPDX-License-Identifier: BSD-3-Clause
// The reports of a host in virtual time, with a querier of each version.
#include "lib/route/multicast/group_reporter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

constexpr auto kV1 = MembershipVersion::kV1, kV2 = MembershipVersion::kV2,
               kV3 = MembershipVersion::kV3;
constexpr const char* kNames[] = {"?", "is_in", "is_ex", "to_in", "to_ex", "allow", "block"};

/// Returns a report as text: "v3 to_ex 239.1.1.1; allow 232.1.1.1 10.9.0.1".
std::string text_of(const MembershipReport& report) {
  std::string text = "v" + std::to_string(static_cast<unsigned>(report.version));
  const char* separator = " ";
  for (const auto& record : report.records) {
    text += separator + std::string{kNames[static_cast<unsigned>(record.type)]} + " " +
            to_string(record.group);
    for (const IpAddr& s : record.sources) text += " " + to_string(s);
    separator = "; ";
  }
  return text;
}

struct Sent {
  TimePoint at;
  std::string text;
  IpAddr dst;
};

class ReporterTest : public testing::Test, public MulticastSender {
 protected:
  void start(IpFamily family = IpFamily::kIpv4, const char* address = "10.0.0.5") {
    family_ = family;
    r.emplace(table::InterfaceId{3}, family, 1, *this);
    if (*address != '\0') r->set_address(ip(address), now);
    r->set_up(true, now);
  }
  void send(table::InterfaceId iface, std::vector<std::byte> packet) override {
    EXPECT_EQ(iface, 3U);
    packets.push_back(packet);
    // Routers ignore MLD from ::, so the parser does.
    if (family_ == IpFamily::kIpv6 && wire::read<wire::Ipv6Hdr>(packet)->src == IpAddr{}) return;
    const auto parsed =
        family_ == IpFamily::kIpv4 ? wire::parse_igmp(packet) : wire::parse_mld(packet);
    ASSERT_TRUE(parsed);
    const auto& report = std::get<MembershipReport>(parsed->message);
    sent.push_back({now, text_of(report), parsed->dst});
  }
  void run(Duration d) {
    const TimePoint end = now + d;
    while (r->next_deadline() && *r->next_deadline() <= end) {
      now = std::max(now, *r->next_deadline());
      r->tick(now);
    }
    now = end;
  }
  void join(const char* group) { r->set_filter(ip(group), {true, {}}, now); }
  void want(const char* group, std::vector<IpAddr> sources) {
    r->set_filter(ip(group), {false, std::move(sources)}, now);
  }
  void leave(const char* group) { r->set_filter(ip(group), {}, now); }
  void query(MembershipVersion version, const char* group = "", std::vector<IpAddr> sources = {},
             milliseconds response = seconds(10)) {
    MembershipQuery q;
    q.version = version;
    if (*group != '\0') q.group = ip(group);
    q.max_response = response;
    q.sources = std::move(sources);
    q.robustness = 2;
    q.interval = seconds(125);
    r->on_query(q, now);
  }
  /// Returns the texts of the reports since the last call.
  std::vector<std::string> take() {
    std::vector<std::string> texts;
    for (const Sent& s : sent) texts.push_back(s.text);
    sent.clear();
    return texts;
  }
  using Texts = std::vector<std::string>;

  const IpAddr a = ip("10.9.0.1"), b = ip("10.9.0.2"), c = ip("10.9.0.3");
  IpFamily family_ = IpFamily::kIpv4;
  std::optional<GroupReporter> r;
  TimePoint now{seconds(1'000)};
  std::vector<Sent> sent;
  std::vector<std::vector<std::byte>> packets;
};

TEST_F(ReporterTest, P06_AJoinAndALeaveAreReportedRobustnessTimes) {
  start();
  join("239.1.1.1");
  run(seconds(0));
  ASSERT_EQ(sent.size(), 1U) << "the first report goes at once";
  EXPECT_EQ(sent[0].dst, wire::kIgmpV3Routers);
  run(milliseconds(1'001));
  EXPECT_EQ(take(), (Texts{"v3 to_ex 239.1.1.1", "v3 to_ex 239.1.1.1"}));
  run(seconds(600));
  EXPECT_EQ(take(), Texts{});
  leave("239.1.1.1");
  run(seconds(600));
  EXPECT_EQ(take(), (Texts{"v3 to_in 239.1.1.1", "v3 to_in 239.1.1.1"}));
  query(kV3);
  run(seconds(20));
  EXPECT_EQ(take(), Texts{}) << "a host without groups is silent";
  EXPECT_EQ(r->counters().reports_sent, 4U);
  EXPECT_EQ(r->counters().queries_heard, 1U);
}

// Each host of a link can send queries that demand an answer at once.
TEST_F(ReporterTest, P16_ForgedQueriesAreAnsweredAtALimitedRate) {
  for (const MembershipVersion version : {kV3, MembershipVersion::kV2}) {
    start();
    for (int i = 0; i < 4; ++i) join(("239.1.1." + std::to_string(i)).c_str());
    run(seconds(10));
    take();
    for (int i = 0; i < 10'000; ++i) {
      query(version, i % 2 == 0 ? "" : "239.1.1.1", {}, milliseconds(0));
      run(milliseconds(1));
    }
    const std::size_t texts = take().size();
    EXPECT_GE(texts, 40U);
    EXPECT_LE(texts, 10 * 10 * 4 + 10 * 10 + 100) << "ten seconds, four groups";
    EXPECT_GT(r->counters().queries_ignored, 8'000U);
    query(version, "239.1.1.2");
    run(seconds(11));
    EXPECT_FALSE(take().empty());
  }
}

TEST_F(ReporterTest, P06_SeveralGroupsShareAPacket) {
  start();
  join("239.1.1.1");
  join("239.1.1.2");
  run(seconds(0));
  EXPECT_EQ(take(), (Texts{"v3 to_ex 239.1.1.1; to_ex 239.1.1.2"}));
}

TEST_F(ReporterTest, P06_ManyGroupsFitPacketsOf576And1280Octets) {
  for (const bool v4 : {true, false}) {
    start(v4 ? IpFamily::kIpv4 : IpFamily::kIpv6, v4 ? "10.0.0.5" : "fe80::5");
    packets.clear();
    for (std::uint32_t i = 0; i < 500; ++i) {
      IpAddr group = v4 ? IpAddr::v4(0xef01'0000U + i) : ip("ff1e::1:0");
      if (!v4) {
        group.bytes[14] = static_cast<std::byte>(i >> 8);
        group.bytes[15] = static_cast<std::byte>(i);
      }
      r->set_filter(group, {true, {}}, now);
    }
    run(seconds(0));
    EXPECT_GT(packets.size(), 5U);
    EXPECT_LT(packets.size(), 12U);
    for (const auto& packet : packets) EXPECT_LE(packet.size(), v4 ? 576U : 1'280U);
  }
}

// RFC 3376 §6, RFC 3810 §6: all-systems, all-nodes and scopes 0 and 1 are never reported.
TEST_F(ReporterTest, P06_GroupsThatEveryNodeReceivesAreNotReported) {
  start();
  for (const char* group : {"224.0.0.1", "10.0.0.1", "ff1e::1"}) join(group);
  run(seconds(5));
  EXPECT_TRUE(packets.empty());
  start(IpFamily::kIpv6, "fe80::5");
  for (const char* group : {"ff02::1", "ff01::2", "ff11::7", "ff00::7", "239.1.1.1"}) join(group);
  run(seconds(5));
  EXPECT_TRUE(packets.empty());
  join("ff02::1:ff00:5");
  run(seconds(0));
  EXPECT_EQ(take(), Texts{"v3 to_ex ff02::1:ff00:5"});
}

// MLD: from the link-local address, hop limit 1, router alert in a hop-by-hop header. The parser
// checks these.
TEST_F(ReporterTest, P06_ListenersReportBeforeAndAfterTheyHaveAnAddress) {
  start(IpFamily::kIpv6, "");
  join("ff02::1:ff00:5");
  run(seconds(5));
  ASSERT_EQ(packets.size(), 2U) << "RFC 3590: from ::, so that switches pass solicitations";
  EXPECT_TRUE(sent.empty());
  r->set_address(ip("fe80::5"), now);
  run(seconds(5));
  EXPECT_EQ(take(), (Texts{"v3 to_ex ff02::1:ff00:5", "v3 to_ex ff02::1:ff00:5"}));
  r->set_address(ip("fe80::6"), now);
  run(seconds(5));
  EXPECT_EQ(take(), Texts{}) << "another address alone is no reason";
}

TEST_F(ReporterTest, P06_AnIpv4HostWithoutAddressReportsFromZero) {
  start(IpFamily::kIpv4, "");
  join("239.1.1.1");
  run(seconds(0));
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(wire::read<wire::Ipv4Hdr>(packets[0])->src.host(), 0U);
}

TEST_F(ReporterTest, P06_AnswersAreDelayedWithinTheResponseTime) {
  std::set<Duration> delays;
  for (int i = 0; i < 20; ++i) {
    start();
    r.emplace(table::InterfaceId{3}, IpFamily::kIpv4, static_cast<std::uint64_t>(i), *this);
    r->set_up(true, now);
    join("239.1.1.1");
    join("239.1.1.2");
    run(seconds(5));
    sent.clear();
    query(kV3);
    const TimePoint asked = now;
    run(seconds(10));
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].text, "v3 is_ex 239.1.1.1; is_ex 239.1.1.2");
    delays.insert(sent[0].at - asked);
  }
  EXPECT_GT(delays.size(), 15U);
  EXPECT_GT(*delays.rbegin() - *delays.begin(), seconds(5));
}

// RFC 3376 §5.2, cases 1 to 5.
TEST_F(ReporterTest, P06_PendingAnswersAreMerged) {
  start();
  join("239.1.1.1");
  want("232.1.1.1", {a, b});
  run(seconds(5));
  sent.clear();
  query(kV3, "239.1.1.1", {}, seconds(1));
  query(kV3, "239.1.1.1", {}, seconds(1));
  run(seconds(2));
  EXPECT_EQ(take(), Texts{"v3 is_ex 239.1.1.1"});
  query(kV3, "239.1.1.1", {c}, seconds(1));
  query(kV3, "239.1.1.1", {a}, seconds(1));
  run(seconds(2));
  EXPECT_EQ(take(), Texts{"v3 is_in 239.1.1.1 10.9.0.1 10.9.0.3"});
  query(kV3, "239.1.1.1", {c}, seconds(1));
  query(kV3, "239.1.1.1", {}, seconds(1));
  run(seconds(2));
  EXPECT_EQ(take(), Texts{"v3 is_ex 239.1.1.1"});
  query(kV3, "232.1.1.1", {b, c}, seconds(1));
  run(seconds(2));
  EXPECT_EQ(take(), Texts{"v3 is_in 232.1.1.1 10.9.0.2"});
  query(kV3, "232.1.1.1", {c}, seconds(1));
  query(kV3, "239.9.9.9", {}, seconds(1));
  run(seconds(2));
  EXPECT_EQ(take(), Texts{}) << "about sources and groups that this host does not want";
  query(kV3);
  query(kV3);
  run(seconds(11));
  EXPECT_EQ(take(), Texts{"v3 is_in 232.1.1.1 10.9.0.1 10.9.0.2; is_ex 239.1.1.1"});
}

// RFC 3376 §5.1: the rows of the table of state changes.
TEST_F(ReporterTest, P06_ChangesOfSourcesAreReportedAsDifferences) {
  start();
  want("232.1.1.1", {a, b});
  run(seconds(5));
  EXPECT_EQ(take(), (Texts{"v3 allow 232.1.1.1 10.9.0.1 10.9.0.2",
                           "v3 allow 232.1.1.1 10.9.0.1 10.9.0.2"}));
  want("232.1.1.1", {b, c});
  run(seconds(0));
  EXPECT_EQ(take(), Texts{"v3 allow 232.1.1.1 10.9.0.3; block 232.1.1.1 10.9.0.1"});
  r->set_filter(ip("232.1.1.1"), {true, {}}, now);
  run(seconds(0));
  EXPECT_EQ(take(), Texts{"v3 to_ex 232.1.1.1"});
  run(seconds(5));
  EXPECT_EQ(take(), Texts{"v3 to_ex 232.1.1.1"});
  want("232.1.1.1", {a});
  run(seconds(5));
  EXPECT_EQ(take(), (Texts{"v3 to_in 232.1.1.1 10.9.0.1", "v3 to_in 232.1.1.1 10.9.0.1"}));
  want("232.1.1.1", {});
  run(seconds(5));
  EXPECT_EQ(take(), (Texts{"v3 block 232.1.1.1 10.9.0.1", "v3 block 232.1.1.1 10.9.0.1"}));
  EXPECT_FALSE(r->next_deadline());
}

// RFC 3376 §7.2: the older mode lasts while the older querier is heard.
TEST_F(ReporterTest, P06_AQuerierOfVersionTwoGetsReportsAndLeavesOfVersionTwo) {
  start();
  join("239.1.1.1");
  run(seconds(5));
  sent.clear();
  query(kV2);
  EXPECT_EQ(r->version(now), kV2);
  run(seconds(10));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].dst, ip("239.1.1.1")) << "to the group itself";
  EXPECT_EQ(take(), Texts{"v2 is_ex 239.1.1.1"});
  join("239.1.1.2");
  run(seconds(5));
  EXPECT_EQ(take(), (Texts{"v2 is_ex 239.1.1.2", "v2 is_ex 239.1.1.2"}));
  query(kV2, "239.1.1.2", {}, seconds(1));
  run(seconds(1));
  EXPECT_EQ(take(), Texts{"v2 is_ex 239.1.1.2"});
  leave("239.1.1.2");
  run(seconds(0));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].dst, wire::kIgmpAllRouters);
  run(seconds(5));
  EXPECT_EQ(take(), Texts{"v2 to_in 239.1.1.2"}) << "once";
  EXPECT_EQ(r->counters().leaves_sent, 1U);
  // 2 x 125 s and the response time of the last query of version 2, which was 1 s.
  query(kV3);
  run(seconds(10));
  EXPECT_EQ(take(), Texts{"v2 is_ex 239.1.1.1"}) << "the older querier may still be there";
  run(seconds(260));
  EXPECT_EQ(r->version(now), kV3);
  query(kV3);
  run(seconds(10));
  EXPECT_EQ(take(), Texts{"v3 is_ex 239.1.1.1"});
}

// A forged query of version 3 does not keep this host at an older version for days.
TEST_F(ReporterTest, P16_TheIntervalOfAQuerierIsBounded) {
  start();
  r->on_query({.version = kV3, .robustness = 7, .interval = seconds(31'744)}, now);
  run(seconds(1));
  query(kV2, "239.7.7.7", {}, seconds(1));
  run(7 * seconds(600));
  EXPECT_EQ(r->version(now), kV2);
  run(seconds(1));
  EXPECT_EQ(r->version(now), kV3);
}

TEST_F(ReporterTest, P06_AQuerierOfVersionOneGetsReportsOfVersionOneAndNoLeaves) {
  start();
  join("239.1.1.1");
  run(seconds(5));
  sent.clear();
  query(kV1);
  EXPECT_EQ(r->version(now), kV1);
  run(seconds(10));
  EXPECT_EQ(take(), Texts{"v1 is_ex 239.1.1.1"});
  leave("239.1.1.1");
  run(seconds(5));
  EXPECT_EQ(take(), Texts{});
  query(kV2);
  EXPECT_EQ(r->version(now), kV1) << "the oldest one counts";
}

TEST_F(ReporterTest, P06_AJoinWhileTheVersionChangesIsReportedInTheNewOne) {
  start();
  join("239.1.1.1");
  query(kV2, "239.7.7.7");
  run(seconds(2));
  EXPECT_EQ(take(), (Texts{"v3 to_ex 239.1.1.1", "v2 is_ex 239.1.1.1", "v2 is_ex 239.1.1.1"}));
}

TEST_F(ReporterTest, P06_AListenerSpeaksMldVersionOne) {
  start(IpFamily::kIpv6, "fe80::5");
  join("ff02::1:ff00:5");
  run(seconds(5));
  sent.clear();
  query(kV2);
  run(seconds(10));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].dst, ip("ff02::1:ff00:5"));
  EXPECT_EQ(take(), Texts{"v2 is_ex ff02::1:ff00:5"});
  leave("ff02::1:ff00:5");
  run(seconds(5));
  EXPECT_EQ(take(), Texts{"v2 to_in ff02::1:ff00:5"});
}

TEST_F(ReporterTest, P06_NothingIsSentWhileTheLinkIsDown) {
  start();
  r->set_up(false, now);
  join("239.1.1.1");
  join("239.1.1.2");
  leave("239.1.1.2");
  query(kV3);
  run(seconds(60));
  EXPECT_TRUE(packets.empty());
  r->set_up(true, now);
  run(seconds(5));
  EXPECT_EQ(take(), (Texts{"v3 to_ex 239.1.1.1", "v3 to_ex 239.1.1.1"}));
  query(kV3);
  r->set_up(false, now);
  run(seconds(60));
  EXPECT_EQ(take(), Texts{});
}

TEST_F(ReporterTest, P06_TheQueriersRobustnessIsTaken) {
  start();
  MembershipQuery q;
  q.robustness = 4;
  q.interval = seconds(20);
  r->on_query(q, now);
  join("239.1.1.1");
  run(seconds(5));
  EXPECT_EQ(sent.size(), 4U);
}

// A forged query must not make the host remember any number of sources.
TEST_F(ReporterTest, P16_QueriesAboutManySourcesAreAnsweredForTheGroup) {
  start();
  join("239.1.1.1");
  run(seconds(5));
  sent.clear();
  for (std::uint32_t i = 0; i < 100; ++i)
    query(kV3, "239.1.1.1", {IpAddr::v4(0x0a09'0000U + i)}, seconds(1));
  run(seconds(2));
  EXPECT_LE(sent.size(), 1U);
  EXPECT_EQ(take(), Texts{"v3 is_ex 239.1.1.1"});
}

}  // namespace
}  // namespace ipoib::route
