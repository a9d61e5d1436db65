// SPDX-License-Identifier: BSD-3-Clause
// Subscriptions and Reports between client and administrator.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lib/sa/sa_mad.h"
#include "tests/support/vectors.h"
#include "tests/unit/lib/sa/sim_sa.h"

namespace ipoib::sa::test {
namespace {

using namespace std::chrono_literals;
using wire::Trap;

Request create_one(std::uint64_t group) {
  return create_group(ipoib_mgid(group), kB, 1, like_broadcast());
}
Request delete_one(std::uint64_t group) {
  return leave_group(ipoib_mgid(group), kB, 0xffff, 1);
}

void create_and_delete(SimSa& fabric, std::uint64_t group) {
  fabric.tell_sa(kLidB, create_one(group));
  fabric.tell_sa(kLidB, delete_one(group));
  fabric.run();
}

TEST(Reports, U31_CreateAndDeleteTrapsReachTheSubscriberOnceAndInOrder) {
  SimSa fabric{1};
  auto& node = fabric.add_node();
  auto& other = fabric.add_node();
  fabric.ask(node, subscribe(Trap::kGroupCreated));
  fabric.ask(node, subscribe(Trap::kGroupDeleted));
  fabric.run();
  ASSERT_EQ(fabric.sa().subscriptions().size(), 2U);
  create_and_delete(fabric, 7);
  ASSERT_EQ(node.notices.size(), 2U);
  EXPECT_TRUE(node.notices[0].is(Trap::kGroupCreated));
  EXPECT_TRUE(node.notices[1].is(Trap::kGroupDeleted));
  for (const auto& n : node.notices) {
    EXPECT_EQ(n.gid(), ipoib_mgid(7));
    EXPECT_EQ(n.issuer_lid.host(), kSmLid);
    EXPECT_EQ(n.issuer_gid, kSmGid);
  }
  EXPECT_TRUE(other.notices.empty());
  EXPECT_EQ(fabric.sa().reporter().counters().sent, 2U);
  EXPECT_EQ(fabric.sa().counters().reports_acknowledged, 2U);
  EXPECT_FALSE(fabric.sa().next_deadline());

  fabric.ask(node, unsubscribe(Trap::kGroupCreated));
  fabric.run();
  create_and_delete(fabric, 8);
  ASSERT_EQ(node.notices.size(), 3U);
  EXPECT_TRUE(node.notices[2].is(Trap::kGroupDeleted));
}

TEST(Reports, U31_ToldOnceAndInOrderWhateverTheWireDoes) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    SimSa fabric{seed};
    std::vector<SimSa::Node*> nodes;
    for (int i = 0; i < 4; ++i) {
      nodes.push_back(&fabric.add_node());
      fabric.ask(*nodes.back(), subscribe());  // all traps
    }
    fabric.run();
    fabric.faults = {static_cast<unsigned>(random() % 15), static_cast<unsigned>(random() % 40),
                     1ms * static_cast<int>(1 + random() % 300)};
    constexpr std::uint64_t kGroups = 20;
    fabric.tell_sa(kLidB, join_group(kBroadcast, kB, 0xffff, 1));  // trap 64
    for (std::uint64_t i = 0; i < kGroups; ++i) {
      fabric.tell_sa(kLidB, create_one(i + 1));
      fabric.run(fabric.now + 10ms);
    }
    fabric.run();
    EXPECT_EQ(fabric.sa().reporter().counters().died, 0U);
    for (const auto* node : nodes) {
      ASSERT_EQ(node->notices.size(), kGroups + 1);
      EXPECT_TRUE(node->notices[0].is(Trap::kGidInService));
      EXPECT_EQ(node->notices[0].gid(), kB);
      for (std::uint64_t i = 0; i < kGroups; ++i)
        EXPECT_EQ(node->notices[i + 1].gid(), ipoib_mgid(i + 1));
      const ClientCounters& c = node->client->counters();
      EXPECT_EQ(c.reports, kGroups + 1 + c.reports_repeated);
    }
    EXPECT_EQ(fabric.sa().counters().ended(), fabric.sa().counters().received);
  }
}

TEST(Reports, DeadSubscriberIsForgottenWithoutAStorm) {
  AdministratorConfig config = recorded_config();
  config.reports.max_outstanding = 4;
  SimSa fabric{1, {}, config};
  for (int i = 0; i < 20; ++i) fabric.ask(fabric.add_node(), subscribe(Trap::kGroupCreated));
  auto& alive = fabric.add_node();
  fabric.ask(alive, subscribe(Trap::kGroupCreated));
  fabric.run();
  fabric.meddle = [&alive](std::uint16_t lid, wire::SaMad&) { return lid == alive.lid; };
  const std::uint64_t before = fabric.mads;
  for (std::uint64_t i = 0; i < 50; ++i) fabric.tell_sa(kLidB, create_one(i + 1));
  EXPECT_EQ(fabric.sa().reporter().waiting(), 21U * 50);
  fabric.run();
  EXPECT_EQ(alive.notices.size(), 50U);
  EXPECT_EQ(fabric.sa().subscriptions().size(), 1U);
  EXPECT_EQ(fabric.sa().reporter().counters().died, 20U);
  EXPECT_EQ(fabric.sa().reporter().waiting(), 0U);
  EXPECT_LE(fabric.mads - before, 20U * 6 + 50U * 2);
}

class SubscriptionTest : public AdministratorFixture {
 protected:
  std::uint16_t inform(std::uint16_t from, void (*change)(wire::InformInfo&),
                       const Request& like = subscribe(Trap::kGroupCreated)) {
    auto info = *wire::read<wire::InformInfo>(like.data);
    change(info);
    return status(Request::of(like.method, like.attr, 0, info), from);
  }
  /// Returns the LIDs to which Reports are sent now.
  std::multiset<std::uint16_t> reports() {
    std::multiset<std::uint16_t> lids;
    sa->tick(now, [&lids](const fabric::MadAddress& to, auto mad) {
      EXPECT_EQ(wire::read<wire::SaHdr>(mad)->mad.method, 0x06);
      lids.insert(to.lid);
      return Status{};
    });
    return lids;
  }
};

TEST_F(SubscriptionTest, TwiceIsOneAndWhatIsNotThereCannotEnd) {
  EXPECT_EQ(status(subscribe(Trap::kGroupCreated), kLidB), 0);
  EXPECT_EQ(status(subscribe(Trap::kGroupCreated), kLidB), 0);
  EXPECT_EQ(sa->subscriptions().size(), 1U);
  EXPECT_EQ(status(unsubscribe(Trap::kGroupDeleted), kLidB), 0x0200);
  EXPECT_EQ(status(unsubscribe(Trap::kGroupCreated), kLidC), 0x0200) << "another port's";
  EXPECT_EQ(inform(
                kLidB, [](auto& i) { i.qpn.set(2); }, unsubscribe(Trap::kGroupCreated)),
            0x0200);
  EXPECT_EQ(status(unsubscribe(Trap::kGroupCreated), kLidB), 0);
  EXPECT_EQ(status(unsubscribe(Trap::kGroupCreated), kLidB), 0x0200);
  EXPECT_EQ(sa->subscriptions().size(), 0U);
}

TEST_F(SubscriptionTest, SenselessOnesAreRefused) {
  EXPECT_EQ(inform(kLidB, [](auto& i) { i.gid = kGroup; }), 0x0200);
  EXPECT_EQ(inform(kLidB, [](auto& i) { i.gid = port_gid(0xdead); }), 0x0200);
  EXPECT_EQ(inform(kLidB, [](auto& i) { i.qpn.set(0); }), 0x0200);
  EXPECT_EQ(inform(kLidB, [](auto& i) { i.subscribe = 2; }), 0x0200);
  EXPECT_EQ(inform(kLidB, [](auto& i) { i.lid_range_begin.set(5), i.lid_range_end.set(4); }),
            0x0200);
  Request get = subscribe();
  get.method = wire::Method::kGet;
  EXPECT_EQ(status(get, kLidB), 0x000c);
  EXPECT_EQ(sa->subscriptions().size(), 0U);
}

TEST_F(SubscriptionTest, IssuerIsChosenByGidOrLidRange) {
  struct Row {
    void (*change)(wire::InformInfo&);
    bool told;
  };
  const Row rows[] = {
      {[](auto&) {}, true},
      {[](auto& i) { i.gid = kSmGid; }, true},
      {[](auto& i) { i.gid = kB; }, false},
      {[](auto& i) { i.lid_range_begin.set(0); }, false},
      {[](auto& i) { i.lid_range_begin.set(1), i.lid_range_end.set(4); }, true},
      {[](auto& i) { i.lid_range_begin.set(2), i.lid_range_end.set(4); }, false},
      {[](auto& i) { i.type.set(3); }, true},
      {[](auto& i) { i.type.set(1); }, false},
      {[](auto& i) { i.trap_number.set(wire::kAllTraps); }, true},
      {[](auto& i) { i.producer_type.set(1); }, false},
      {[](auto& i) { i.is_generic = 0; }, false},
  };
  int number = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(number++);
    restart(recorded_config());
    status(join_group(kBroadcast, kB, 0xffff, 1), kLidB);
    EXPECT_EQ(inform(kLidC, row.change), 0);
    status(create(), kLidB);
    EXPECT_EQ(reports().count(kLidC), row.told ? 1U : 0U);
  }
}

TEST_F(SubscriptionTest, GroupsAreToldOfToTheirPartitionOnly) {
  status(subscribe(Trap::kGroupCreated), kLidB);
  status(subscribe(Trap::kGroupCreated), kLidC);
  status(join_group(ipoib_mgid(0xffff'ffff, 0x8002), kB, 0x8002, 1), kLidB);
  auto like = like_broadcast();
  like.pkey.set(0x8002);
  EXPECT_EQ(status(create_group(ipoib_mgid(5, 0x8002), kB, 1, like), kLidB), 0);
  EXPECT_EQ(reports(), (std::multiset<std::uint16_t>{kLidB}));
  status(create_group(ipoib_mgid(5), kB, 1, like_broadcast()), kLidB);
  EXPECT_EQ(reports().count(kLidC), 1U) << "everybody is in the default partition";
}

TEST_F(SubscriptionTest, PortsThatComeAndGoAreToldOfAndTheirSubscriptionsEnd) {
  status(subscribe(Trap::kGidInService), kLidC);
  status(join_group(kBroadcast, kB, 0xffff, 1), kLidB);
  EXPECT_EQ(reports(), (std::multiset<std::uint16_t>{kLidC}));
  status(subscribe(Trap::kGroupCreated), kLidB);
  EXPECT_EQ(sa->subscriptions().size(), 2U);
  status(join_group(kBroadcast, kB, 0xffff, 1), 9);  // now at another LID
  EXPECT_EQ(sa->subscriptions().size(), 1U);
  EXPECT_EQ(sa->subscriptions().all().begin()->first.lid, kLidC);

  status(subscribe(Trap::kGidOutOfService), kLidC);
  status(leave_group(kBroadcast, kB, 0xffff, 1), 9);
  status(join_group(kBroadcast, port_gid(0x9999), 0xffff, 1), 9);  // takes its LID
  EXPECT_EQ(sa->reporter().waiting(), 3U) << "64 in flight, then 65 and 64";
}

TEST_F(SubscriptionTest, AreBounded) {
  AdministratorConfig config = recorded_config();
  config.max_subscriptions = 6;
  config.max_subscriptions_per_port = 4;
  config.reports.max_waiting = 3;
  restart(config);
  for (std::uint16_t trap = 60; trap < 64; ++trap) EXPECT_EQ(status(subscribe(trap), kLidB), 0);
  EXPECT_EQ(status(subscribe(Trap::kGroupCreated), kLidB), 0x0100);
  EXPECT_EQ(status(subscribe(60), kLidB), 0) << "there already";
  EXPECT_EQ(status(subscribe(Trap::kGroupCreated), kLidC), 0);
  EXPECT_EQ(status(subscribe(Trap::kGroupDeleted), kLidC), 0);
  EXPECT_EQ(status(subscribe(), 9), 0x0100);
  for (std::uint64_t i = 0; i < 5; ++i) status(create(ipoib_mgid(i + 1)), kLidB);
  EXPECT_EQ(sa->reporter().waiting(), 3U);
  EXPECT_EQ(sa->reporter().counters().dropped, 2U);
}

/// A client that gets Reports as a real administrator sent them.
class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    client.set_sm(kSmLid, 0, now);
    client.set_report_handler([this](const wire::Notice& n, TimePoint) { notices.push_back(n); });
    const auto file = ipoib::test::load_vectors("opensm-sa.json");
    report = *wire::read<wire::SaMad>(ipoib::test::octets(file.at("reports")[0].at("report")));
  }
  bool feed(const wire::SaMad& mad, std::uint16_t lid = kSmLid) {
    fabric::ReceivedMad received{{lid, 0, 1, wire::kDefaultPkey}, {}};
    EXPECT_TRUE(wire::write(std::span{received.bytes}, 0, mad));
    return client.on_mad(received, now);
  }
  TimePoint now{1s};
  std::vector<wire::SaMad> sent;
  std::vector<wire::Notice> notices;
  wire::SaMad report;
  Client client{[this](const fabric::MadAddress& to, auto mad) {
                  EXPECT_EQ(to.lid, kSmLid);
                  sent.push_back(*wire::read<wire::SaMad>(mad));
                  return Status{};
                },
                {},
                1};
};

TEST_F(ReportTest, U31_RealReportIsAcknowledgedEachTimeAndToldOnce) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(feed(report));
  ASSERT_EQ(sent.size(), 3U);
  wire::SaMad want = report;
  want.hdr.mad.method = 0x86;
  EXPECT_EQ(ipoib::test::to_hex(wire::bytes_of(sent[2])),
            ipoib::test::to_hex(wire::bytes_of(want)));
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].gid(), ipoib_mgid(0x0101'0203));
  EXPECT_EQ(client.counters().reports_repeated, 2U);
  now += 61s;
  feed(report);
  EXPECT_EQ(notices.size(), 2U) << "not remembered for ever";
}

TEST_F(ReportTest, SameTransactionAboutSomethingElseIsNews) {
  feed(report);
  auto notice = *wire::read<wire::Notice>(report.data);
  notice.trap_number.set(67);
  ASSERT_TRUE(wire::write(std::span{report.data}, 0, notice));
  feed(report);
  EXPECT_EQ(notices.size(), 2U);
}

TEST_F(ReportTest, U31_SameTransactionOfAnotherNoticeIsNews) {
  feed(report);
  const auto changed = [&](auto change) {
    wire::SaMad other = report;
    auto notice = *wire::read<wire::Notice>(other.data);
    change(notice);
    EXPECT_TRUE(wire::write(std::span{other.data}, 0, notice));
    feed(other);
    return notices.size();
  };
  EXPECT_EQ(changed([](wire::Notice& n) { n.toggle_count.set(0x8001); }), 2U);
  EXPECT_EQ(changed([](wire::Notice& n) { n.issuer_lid.set(0x77); }), 3U);
  EXPECT_EQ(changed([](wire::Notice& n) { n.issuer_gid = ipoib_mgid(7); }), 4U);
  EXPECT_EQ(changed([](wire::Notice& n) { n.data_reserved[0] ^= std::byte{1}; }), 4U)
      << "real administrators leave garbage there";
}

TEST_F(ReportTest, U31_ReportAfterANewSubscriptionIsNews) {
  feed(report);
  client.forget_reports();
  feed(report);
  feed(report);
  EXPECT_EQ(notices.size(), 2U);
  EXPECT_EQ(client.counters().reports_repeated, 1U);
}

TEST_F(ReportTest, ForeignAndGarbledOnesAreCounted) {
  EXPECT_FALSE(feed(report, kLidB));
  EXPECT_EQ(client.counters().reports_foreign, 1U);
  EXPECT_TRUE(sent.empty());

  wire::SaMad bad = report;
  bad.hdr.mad.attr_id.set(0x38);
  EXPECT_FALSE(feed(bad));
  EXPECT_EQ(client.counters().malformed, 1U);
  EXPECT_TRUE(sent.empty());

  bad = report;
  bad.data[16] = std::byte{0xfe};  // trap 66 with a GID that is no group
  EXPECT_TRUE(feed(bad));
  EXPECT_EQ(client.counters().malformed, 2U);
  EXPECT_EQ(client.counters().reports_garbled, 1U);
  EXPECT_EQ(sent.size(), 1U) << "or the SA would say it again and forget us";

  bad = report;
  bad.data[0] = std::byte{0x03};
  EXPECT_TRUE(feed(bad));
  EXPECT_EQ(client.counters().reports_vendor, 1U);
  EXPECT_TRUE(notices.empty());
}

TEST_F(ReportTest, HandlerMayAskAndDestroyTheClient) {
  auto mortal =
      std::make_unique<Client>([](const auto&, auto) { return Status{}; }, ClientConfig{}, 1);
  mortal->set_sm(kSmLid, 0, now);
  int called = 0;
  mortal->set_report_handler([&](const wire::Notice&, TimePoint at) {
    ++called;
    mortal->submit(find_group(kGroup), {}, at);
    mortal.reset();
  });
  fabric::ReceivedMad received{{kSmLid, 0, 1, wire::kDefaultPkey}, {}};
  ASSERT_TRUE(wire::write(std::span{received.bytes}, 0, report));
  mortal->on_mad(received, now);
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace ipoib::sa::test
