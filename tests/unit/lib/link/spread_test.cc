// SPDX-License-Identifier: BSD-3-Clause
// A link with a queue pair for each worker tells each neighbour one of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "tests/support/sim_ipoib_link.h"
#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kFirstQpn = 0x48;
constexpr unsigned kQueuePairs = 3;

class Spread : public ::testing::Test {
 protected:
  Spread() { bring_up(b); }

  static void bring_up(SimIpoibLink& link) {
    link.actions.own_queue_pairs = kQueuePairs;
    link.bring_up();
    link.run_for(3s);  // until both announcements are sent
  }
  static std::string address(unsigned n) { return "10.0.0." + std::to_string(10 + n); }
  /// A host asks for this node. Returns the QPN in the answer.
  static std::uint32_t told(SimIpoibLink& link, unsigned n) {
    const auto hw = link.add_host(0x100 + n, 0x50, static_cast<std::uint16_t>(100 + n));
    link.actions.frames.clear();
    link.receive_arp_request(hw, address(n));
    link.run_for(10ms);
    return qpn_in(link.actions.frames.at(0));
  }
  static std::uint32_t qpn_in(const SentFrame& frame) {
    return frame.arp()->sender_hw.datagram_addr().qpn;
  }

  SimIpoibLink b;
};

TEST_F(Spread, P14_EachHostIsAlwaysToldTheSameQueuePair) {
  std::map<std::uint32_t, unsigned> hosts;  // by QPN
  for (unsigned n = 0; n < 90; ++n) {
    const std::uint32_t qpn = told(b, n);
    ++hosts[qpn];
    EXPECT_EQ(told(b, n), qpn);
    const wire::LinkAddr hw{
        0, wire::Be24{0x50},
        wire::Gid::of(wire::kDefaultGidPrefix, b.sa.paths.rbegin()->first.guid())};
    EXPECT_EQ(kFirstQpn + b.link.queue_pair_for(hw), told(b, n)) << "as is shown";
  }
  ASSERT_EQ(hosts.size(), kQueuePairs);
  for (const auto& [qpn, n] : hosts) {
    EXPECT_TRUE(b.actions.has_qpn(qpn));
    EXPECT_GE(n, 15U) << "of 30 on average";
  }
}

// Strangers cannot choose GUIDs that all lead to one worker.
TEST_F(Spread, P14_SpreadIsNotTheSameOnEveryNode) {
  SimIpoibLink other{SimIpoibLink::default_config(), 2};
  bring_up(other);
  unsigned differences = 0;
  for (unsigned n = 0; n < 60; ++n) differences += told(b, n) != told(other, n);
  EXPECT_GE(differences, 20U);
}

/// Number of requests to all hosts without and with a sender.
std::pair<unsigned, unsigned> requests(SimIpoibLink& link, std::string_view absent, Duration d) {
  link.actions.frames.clear();
  static_cast<void>(link.want(ip(absent)));
  link.run_for(d);
  std::pair<unsigned, unsigned> n;
  for (const SentFrame& f : link.actions.frames) {
    if (!f.broadcast() || !f.arp()) continue;
    EXPECT_EQ(f.arp()->sender_hw.datagram_addr().qpn, kFirstQpn);
    ++(f.arp()->sender_ip == 0 ? n.first : n.second);
  }
  return n;
}

// A host that knows this node takes the address of each request that it hears. Hosts that answer
// only a sender get one, but seldom, even if strangers ask for many addresses.
TEST_F(Spread, P14_RequestsToAllSeldomNameASender) {
  EXPECT_EQ(requests(b, "10.0.0.9", 5s), (std::pair{1U, 2U}));
  std::pair<unsigned, unsigned> sum;
  for (int i = 0; i < 60; ++i) {
    const auto [without, with] = requests(b, "10.0.0." + std::to_string(100 + i), 5s);
    sum.first += without;
    sum.second += with;
  }
  EXPECT_EQ(sum.second, 2U) << "in five minutes";
  EXPECT_EQ(sum.first, 3U * 60 - 2);
}

TEST(SpreadOption, P14_RequestsNameASenderIfConfigured) {
  SimIpoibLink link{SimIpoibLink::config_with([](LinkConfig& c) { c.anonymous_requests = false; })};
  link.actions.own_queue_pairs = kQueuePairs;
  link.bring_up();
  link.run_for(3s);
  EXPECT_EQ(requests(link, "10.0.0.9", 5s), (std::pair{0U, 3U}));
}

TEST_F(Spread, P14_AnswerToNoSenderIsAnAnswer) {
  const auto hw = b.add_host(0x200, 0x50, 200);
  static_cast<void>(b.want(ip("10.0.0.9")));
  const wire::LinkAddr own{0, wire::Be24{kFirstQpn}, b.actions.attr.gid()};
  b.receive_arp(wire::ArpOp::kReply, hw, "10.0.0.9", own, "0.0.0.0");
  b.run_for(10ms);
  EXPECT_EQ(b.row("10.0.0.9").phase, NeighbourPhase::kReachable);
}

// The device could not make all of them.
TEST(SpreadOverFewer, P14_QueuePairsWithoutHardwareAreNotNamed) {
  SimIpoibLink link;
  link.actions.own_queue_pairs = kQueuePairs;
  link.actions.made_queue_pairs = 2;
  link.bring_up();
  std::set<std::uint32_t> named;
  for (unsigned n = 0; n < 40; ++n) {
    const auto hw = link.add_host(0x100 + n, 0x50, static_cast<std::uint16_t>(100 + n));
    link.actions.frames.clear();
    link.receive_arp_request(hw, "10.0.0." + std::to_string(10 + n));
    link.run_for(10ms);
    named.insert(link.actions.frames.at(0).arp()->sender_hw.datagram_addr().qpn);
  }
  EXPECT_EQ(named, (std::set{kFirstQpn, kFirstQpn + 1}));
}

TEST_F(Spread, P14_ProbeTellsTheNeighbourItsQueuePair) {
  for (unsigned n = 0; n < 20; ++n) {
    SimIpoibLink link{SimIpoibLink::default_config(), n};
    bring_up(link);
    const auto peer = ip(address(n));
    const std::uint32_t qpn = told(link, n);
    link.actions.frames.clear();
    for (int i = 0; i < 240 && link.actions.frames.empty(); ++i) {
      link.sink.used[*link.sink.index_of(peer)] = link.now;
      link.run_for(250ms);
    }
    ASSERT_FALSE(link.actions.frames.empty());
    const SentFrame& probe = link.actions.frames[0];
    EXPECT_FALSE(probe.broadcast());
    EXPECT_EQ(probe.arp()->op, wire::ArpOp::kRequest);
    EXPECT_EQ(qpn_in(probe), qpn);
  }
}

/// The number changes at run time. Hosts with another queue pair than before get a message.
class SpreadChange : public Spread {
 protected:
  static constexpr unsigned kHosts = 60;

  SpreadChange() {
    for (unsigned n = 0; n < kHosts; ++n) knows[ip(address(n))] = told(b, n);
    b.run_for(1s);
  }
  /// Runs the link, and notes which addresses its hosts learn. Returns the number of messages.
  unsigned run(Duration d) {
    unsigned messages = 0;
    b.actions.frames.clear();
    b.run_for(d);
    for (const SentFrame& f : b.actions.frames) {
      EXPECT_FALSE(f.broadcast());
      EXPECT_EQ(f.arp()->op, wire::ArpOp::kRequest);
      ++messages;
      knows.at(wire::IpAddr::v4(f.arp()->target_ip)) = qpn_in(f);
    }
    return messages;
  }
  /// Number of hosts that send to another queue pair than show neigh says.
  unsigned behind() {
    unsigned n = 0;
    for (const auto& [addr, qpn] : knows) {
      const auto hw = b.link.neighbour(addr, b.now).value().lladdr;
      n += qpn != kFirstQpn + b.link.queue_pair_for(*wire::parse_hw_addr(hw));
    }
    return n;
  }
  std::map<wire::IpAddr, std::uint32_t> knows;  ///< The QPN that each host sends to.
};

TEST_F(SpreadChange, P14_HostsThatMoveAreToldOneByOne) {
  ASSERT_EQ(behind(), 0U);
  for (const unsigned n : {1U, 3U, 2U}) {
    SCOPED_TRACE(n);
    ASSERT_TRUE(b.link.set_queues(n, b.now));
    EXPECT_EQ(b.link.queues(), n);
    const unsigned move = behind();
    EXPECT_GE(move, kHosts / 6);
    EXPECT_LT(move, kHosts);
    const unsigned soon = run(10ms);
    EXPECT_LE(soon, 6U) << "one in two milliseconds";
    EXPECT_EQ(soon + run(150ms), move) << "each once";
    EXPECT_EQ(behind(), 0U);
    EXPECT_EQ(run(100ms), 0U);
    b.run_for(2s);
  }
}

TEST_F(SpreadChange, P14_ASecondChangeReachesTheHostsOfTheFirst) {
  ASSERT_TRUE(b.link.set_queues(1, b.now));
  static_cast<void>(run(20ms));
  ASSERT_TRUE(b.link.set_queues(3, b.now));
  static_cast<void>(run(1s));
  EXPECT_EQ(behind(), 0U);
}

TEST_F(SpreadChange, P14_HostsAreToldWhenTheLinkIsUpAgain) {
  ASSERT_TRUE(b.link.set_queues(1, b.now));
  b.actions.attr.state = fabric::PortState::kDown;
  b.link.on_port_event(fabric::PortEvent::kPortDown, b.now);
  EXPECT_EQ(run(1s), 0U);
  EXPECT_GT(b.link.next_deadline().value_or(kNever), b.now) << "it waits for the port";
  b.actions.attr.state = fabric::PortState::kActive;
  b.link.on_port_event(fabric::PortEvent::kPortActive, b.now);
  b.actions.frames.clear();
  b.run_for(1s);
  for (const SentFrame& f : b.actions.frames)
    if (!f.broadcast() && f.arp()) knows.at(wire::IpAddr::v4(f.arp()->target_ip)) = qpn_in(f);
  EXPECT_EQ(behind(), 0U);
}

TEST_F(SpreadChange, P14_NumbersThatTheLinkDoesNotHaveAreRefused) {
  for (const unsigned n : {0U, kQueuePairs + 1, 127U}) {
    const auto set = b.link.set_queues(n, b.now);
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().what,
              "ib0: invalid number of queues " + std::to_string(n) + ", allowed: 1-3");
  }
  EXPECT_EQ(b.link.queues(), kQueuePairs);
  EXPECT_EQ(run(100ms), 0U);
}

/// Management measures the loads of the workers.
class SpreadByLoad : public SpreadChange {
 protected:
  /// Loads of which host `n` is a third, at the queue pair that it has.
  std::vector<QueueLoad> loads(unsigned n) {
    std::vector<QueueLoad> all(kQueuePairs);
    QueueLoad& hot = all[knows.at(ip(address(n))) - kFirstQpn];
    hot.busy = hot.received = 0.9;
    hot.senders.assign(200, 0);
    hot.senders.insert(hot.senders.end(), 100, static_cast<std::uint16_t>(100 + n));
    return all;
  }
  /// Passes these loads; the other queue pairs of the first two are busy too.
  void balance(unsigned n, double others = 0) {
    auto all = loads(n);
    for (unsigned i = 0; i < 2; ++i)
      if (all[i].busy == 0) all[i].busy = others + 0.25;
    b.link.balance(all, b.now);
  }
  wire::HwAddr hw_of(unsigned n) const {
    return *wire::parse_hw_addr(b.link.neighbour(ip(address(n)), b.now)->lladdr);
  }
};

TEST_F(SpreadByLoad, P14_AHostLeavesABusyWorkerByOneMessage) {
  const unsigned host = 7;
  const std::uint32_t before = knows.at(ip(address(host)));
  balance(host);
  EXPECT_EQ(behind(), 1U) << "show neigh says where it will send";
  EXPECT_EQ(run(100ms), 1U);
  EXPECT_EQ(behind(), 0U);
  EXPECT_NE(knows.at(ip(address(host))), before);
  EXPECT_EQ(b.link.counters().neighbours_moved, 1U);
}

TEST_F(SpreadByLoad, P14_AHostIsLeftAloneIfItsPortIsNotKnown) {
  auto all = loads(7);
  for (QueueLoad& load : all)
    for (std::uint16_t& lid : load.senders) lid = lid == 0 ? lid : 999;
  b.link.balance(all, b.now);
  // Another port has the LID too.
  static_cast<void>(b.resolve("10.0.0.200", b.add_host(0x999, 0x50, 108)));
  b.run_for(1s);
  balance(8);
  EXPECT_EQ(b.link.counters().neighbours_moved, 0U);
  EXPECT_EQ(run(100ms), 0U);
}

TEST_F(SpreadByLoad, P14_NoHostMovesWhileOthersDoOrTheLinkIsDown) {
  ASSERT_TRUE(b.link.set_queues(2, b.now));
  balance(7);
  EXPECT_EQ(b.link.counters().neighbours_moved, 0U);
  static_cast<void>(run(1s));
  b.actions.attr.state = fabric::PortState::kDown;
  b.on_port_event(fabric::PortEvent::kPortDown, 10ms);
  balance(7);
  EXPECT_EQ(b.link.counters().neighbours_moved, 0U);
}

TEST_F(SpreadByLoad, P14_OnlyQueuePairsOfTheSpreadTakePart) {
  ASSERT_TRUE(b.link.set_queues(2, b.now));
  static_cast<void>(run(1s));
  balance(7, 0.5);
  EXPECT_EQ(b.link.counters().neighbours_moved, 0U) << "only the third one is idle";
  balance(7);
  EXPECT_EQ(b.link.counters().neighbours_moved, 1U);
  EXPECT_LT(b.link.queue_pair_for(hw_of(7)), 2U);
}

TEST(SpreadOption, P14_HostsStayIfConfigured) {
  SimIpoibLink link{SimIpoibLink::config_with([](LinkConfig& c) { c.balance = false; })};
  link.actions.own_queue_pairs = kQueuePairs;
  link.bring_up();
  static_cast<void>(link.resolve("10.0.0.2", link.add_host(0x102, 0x50, 102)));
  link.run_for(1s);
  for (unsigned hot = 0; hot < kQueuePairs; ++hot) {
    std::vector<QueueLoad> all(kQueuePairs);
    all[hot] = {.busy = 0.9, .received = 0.3, .senders = std::vector<std::uint16_t>(100, 102)};
    link.link.balance(all, link.now);
  }
  EXPECT_EQ(link.link.counters().neighbours_moved, 0U);
}

/// A link with many groups, on a fabric with an SA.
class SpreadGroups : public ::testing::Test {
 protected:
  static constexpr unsigned kGroups = 90;

  void SetUp() override {
    f.add_node("10.0.0.1/24");
    device().own_queue_pairs = kQueuePairs;
    node().start();
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
    f.run_for(1s);
    own_groups = device().attached.size();
    for (unsigned n = 0; n < kGroups; ++n)
      ASSERT_TRUE(node().link->join_group(ip(group(n)), f.now));
    f.run_for(1s);
  }
  SimNode& node() { return *f.nodes.front(); }
  FakeLinkActions& device() { return *node().actions; }
  static std::string group(unsigned n) { return "239.1.2." + std::to_string(n); }
  std::map<wire::IpAddr, GroupInfo> rows() {
    std::map<wire::IpAddr, GroupInfo> all;
    for (const GroupInfo& row : node().link->groups(f.now)) all.emplace(row.group, row);
    return all;
  }
  /// Checks that each group has one queue pair, which is shown. Returns their numbers of groups.
  std::map<unsigned, unsigned> groups_of_queue_pairs() {
    std::map<unsigned, unsigned> all;
    const auto shown = rows();
    for (unsigned n = 0; n < kGroups; ++n) {
      const GroupInfo& row = shown.at(ip(group(n)));
      const auto mgid = wire::parse_gid(row.lladdr).value();
      EXPECT_EQ(device().attached.at({mgid, row.mlid}), row.queue_pair);
      ++all[row.queue_pair.value()];
    }
    return all;
  }
  void port_goes_and_returns(fabric::PortEvent lost) {
    device().attr.state = fabric::PortState::kDown;
    node().link->on_port_event(lost, f.now);
    f.run_for(1s);
    device().attr.state = fabric::PortState::kActive;
    node().link->on_port_event(fabric::PortEvent::kPortActive, f.now);
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
    f.run_for(2s);
  }

  SimFabric f{1};
  std::size_t own_groups = 0;  ///< Number of the groups that the link joins itself.
};

TEST_F(SpreadGroups, P14_EachGroupIsReceivedByOneQueuePair) {
  const auto all = groups_of_queue_pairs();
  ASSERT_EQ(all.size(), kQueuePairs);
  for (const auto& [queue_pair, n] : all) EXPECT_GE(n, 15U) << "of 30 on average";
  const auto& link = node().link->parameters();
  EXPECT_EQ(device().attached.at({link.broadcast_mgid, link.broadcast_mlid}), 0U);
}

TEST_F(SpreadGroups, P14_LeftGroupsAreDetachedFromTheirQueuePairs) {
  for (unsigned n = 0; n < kGroups; ++n) ASSERT_TRUE(node().link->leave_group(ip(group(n)), f.now));
  f.run_for(1s);
  EXPECT_EQ(device().attached.size(), own_groups);
}

// A device that returns may have less hardware than before, or more.
TEST_F(SpreadGroups, P14_GroupsFollowTheQueuePairsThatExist) {
  for (const fabric::PortEvent lost : {fabric::PortEvent::kFatal, fabric::PortEvent::kPortDown})
    for (const unsigned made : {2U, 1U, 3U}) {
      SCOPED_TRACE(made);
      device().made_queue_pairs = made;
      port_goes_and_returns(lost);
      const auto all = groups_of_queue_pairs();
      EXPECT_EQ(all.size(), made);
      EXPECT_LT(all.rbegin()->first, made);
    }
}

// The SM may give a group another MLID after a restart.
TEST_F(SpreadGroups, P14_AnotherMlidReplacesTheFormer) {
  const auto before = groups_of_queue_pairs();
  const auto former = rows();
  // The restarted one has another node's group first.
  f.restart_administrator();
  f.run_for(200s);
  EXPECT_EQ(groups_of_queue_pairs(), before);
  unsigned renumbered = 0;
  for (const auto& [addr, row] : rows()) renumbered += row.mlid != former.at(addr).mlid;
  EXPECT_GT(renumbered, 0U);
}

TEST_F(SpreadGroups, P14_GroupsMoveWithTheNumberOfQueues) {
  for (const unsigned n : {1U, 3U, 2U}) {
    SCOPED_TRACE(n);
    const auto mads = node().mads;
    ASSERT_TRUE(node().link->set_queues(n, f.now));
    f.run_for(100ms);
    const auto all = groups_of_queue_pairs();
    EXPECT_EQ(all.size(), n);
    EXPECT_LT(all.rbegin()->first, n);
    EXPECT_TRUE(device().moving.empty()) << "still attached to the former queue pair";
    EXPECT_EQ(node().mads, mads) << "the SA knows the port, not its queue pairs";
  }
}

TEST_F(SpreadGroups, P14_GroupsThatCannotMoveStay) {
  const auto before = device().attached;
  device().max_attached = device().nb_attached;
  ASSERT_TRUE(node().link->set_queues(1, f.now));
  f.run_for(100ms);
  EXPECT_EQ(device().attached, before);
  const auto failed = node().link->counters().group_moves_failed;
  EXPECT_GE(failed, kGroups / 2) << "of two thirds on average";
  unsigned with_reason = 0;
  for (const auto& [addr, row] : rows())
    with_reason += row.reason == fmt::format("has not moved to queue pair {}", device().qpn(0));
  EXPECT_EQ(with_reason, failed);
  EXPECT_GT(node().link->next_deadline().value_or(kNever), f.now + 1ms) << "no more attempts";
  f.run_for(200s);  // Memberships are confirmed meanwhile.
  EXPECT_EQ(device().attached, before);
  for (const auto& [addr, row] : rows()) EXPECT_EQ(row.state, "member") << row.reason;
  EXPECT_EQ(node().link->counters().group_moves_failed, failed) << "each move is counted once";
  device().max_attached = SIZE_MAX;
  ASSERT_TRUE(node().link->set_queues(1, f.now));
  f.run_for(100ms);
  EXPECT_EQ(groups_of_queue_pairs().size(), 1U);
  for (const auto& [addr, row] : rows()) EXPECT_EQ(row.reason, "");
}

// A group that cannot move is not heard by its former MLID, so that it gives up its place there.
TEST_F(SpreadGroups, P14_GroupsThatCannotMoveFollowAnotherMlid) {
  const auto former = rows();
  device().max_attached = device().nb_attached;
  ASSERT_TRUE(node().link->set_queues(1, f.now));
  f.run_for(100ms);
  f.restart_administrator();
  f.run_for(200s);
  unsigned renumbered = 0;
  const auto now = rows();
  static_cast<void>(groups_of_queue_pairs());
  for (const auto& [addr, row] : now) {
    EXPECT_EQ(row.state, "member") << row.reason;
    if (row.mlid == former.at(addr).mlid) continue;
    ++renumbered;
    EXPECT_EQ(row.queue_pair, 0U);
  }
  EXPECT_GT(renumbered, 0U);
}

TEST_F(Spread, P14_OwnReflectedArpIsIgnoredWhicheverQueuePairItNames) {
  b.actions.frames.clear();
  for (unsigned i = 0; i < kQueuePairs; ++i) {
    const wire::LinkAddr own{0, wire::Be24{kFirstQpn + i}, b.actions.attr.gid()};
    b.receive_arp_request(own, "10.0.0.1", "10.0.0.1");
  }
  EXPECT_EQ(b.link.counters().address_conflicts, 0U);
  const wire::LinkAddr other{0, wire::Be24{kFirstQpn + kQueuePairs}, b.actions.attr.gid()};
  b.receive_arp_request(other, "10.0.0.1", "10.0.0.1");
  EXPECT_EQ(b.link.counters().address_conflicts, 1U) << "another link of this port";
}

// The neighbour is such a node itself: its announcement names its first queue pair, and its answer
// that of this host.
TEST(SpreadPeer, P14_AnswerAfterAnAnnouncementIsTaken) {
  SimIpoibLink b;
  auto hw = b.bring_up_with_peer();
  b.run_for(5s);
  const auto peer = ip("10.0.0.2");
  hw.qpn.set(0x60);
  b.receive_arp_request(hw, "10.0.0.2", "10.0.0.2");
  EXPECT_EQ(b.sink.find(peer)->qpn, 0x60U);
  b.run_for(10ms);
  hw.qpn.set(0x61);
  b.receive_arp_request(hw, "10.0.0.2", "10.0.0.77");
  EXPECT_EQ(b.sink.find(peer)->qpn, 0x60U) << "an address flaps once a second at most";
  EXPECT_EQ(b.link.counters().contradictions, 0U) << "it is the same host";
  const std::size_t queries = b.sa.path_queries.size();
  b.receive_arp_reply(hw, "10.0.0.2");
  b.run_for(10ms);
  EXPECT_EQ(b.sink.find(peer)->qpn, 0x61U);
  EXPECT_EQ(b.sa.path_queries.size(), queries) << "the answer has come over the path";
}

}  // namespace
}  // namespace ipoib::link
