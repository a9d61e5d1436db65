// SPDX-License-Identifier: BSD-3-Clause
// Many links on one faulty fabric, in virtual time, from many seeds.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <utility>

#include "lib/link/path_checks.h"
#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

constexpr SimFaults kFaulty{0.2, 0.1, 10us, 50ms};

/// Adds and starts `n` nodes, and waits until all links are up.
void bring_up(SimFabric& f, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) f.add_node("10.0.0." + std::to_string(i + 1) + "/24").start();
  ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5min));
}

/// Every node sends to every other one. Returns true if all were heard within the limit.
bool all_hear_all(SimFabric& f, Duration limit) {
  const auto begin = f.now;
  return f.run_until(
      [&] {
        bool all = true;
        for (const auto& a : f.nodes)
          for (const auto& b : f.nodes) {
            if (a == b) continue;
            a->send_ip(b->address());
            const auto heard = b->last_received.find(a->address());
            all = all && heard != b->last_received.end() && heard->second > begin;
          }
        return all;
      },
      limit);
}

void stop_all(SimFabric& f) {
  for (const auto& n : f.nodes) n->link->stop(f.now);
  f.run_for(3s);
  for (const auto& n : f.nodes) {
    EXPECT_EQ(n->link->state(), State::kStopped);
    f.run_for(30s);
    EXPECT_TRUE(n->nothing_left());
    EXPECT_FALSE(n->link->next_deadline());
  }
}

/// Ports have four LIDs each, and the administrator names paths between all of them.
TEST(Sim, U41_NodesReachEachOtherOverSeveralPaths) {
  SimFabric f{7, kFaulty, 2};
  f.config.paths = 4;
  bring_up(f, 3);
  ASSERT_TRUE(all_hear_all(f, 5min));
  const auto* n = f.nodes[0]->sink->find(f.nodes[1]->address());
  ASSERT_NE(n, nullptr);
  ASSERT_EQ(n->mode, table::NeighbourMode::kUdPaths);
  std::set<std::pair<int, int>> ways;
  for (unsigned hash = 0; hash < table::Neighbour::kMaxPaths; ++hash) {
    const auto& way = f.nodes[0]->actions->ahs.at(n->handle_of(hash));
    ways.emplace(way.src_path_bits, way.dlid);
  }
  EXPECT_EQ(ways, (std::set<std::pair<int, int>>{{0, 12}, {1, 13}, {2, 14}, {3, 15}}));
  stop_all(f);
}

/// Two nodes with two paths between them, of LIDs 4 and 6 and of LIDs 5 and 7.
class TwoPaths : public ::testing::Test {
 protected:
  /// Longest time until a broken path is left, and until one is used again.
  static constexpr Duration kBound = PathChecks::kInterval + 3 * PathChecks::kTimeout;

  TwoPaths() {
    f.config.paths = 2;
    bring_up(f, 2);
    EXPECT_TRUE(all_hear_all(f, 10s));
    send_for(1s);
  }
  [[nodiscard]] std::uint64_t received() const {
    return f.nodes[1]->received[f.nodes[0]->address()];
  }
  /// Node 0 sends to node 1, in many flows. Returns the share of packets that arrived.
  double send_for(Duration time) {
    const auto before = received();
    int sent = 0;
    for (Duration passed{}; passed < time; passed += 50ms, ++sent) {
      f.nodes[0]->send_ip(f.nodes[1]->address());
      f.run_for(50ms);
    }
    return static_cast<double>(received() - before) / sent;
  }
  [[nodiscard]] std::set<std::uint16_t> lids(std::size_t of = 0) const {
    const auto* n = f.nodes[of]->sink->find(f.nodes[1 - of]->address());
    std::set<std::uint16_t> lids;
    for (unsigned hash = 0; hash < table::Neighbour::kMaxPaths; ++hash)
      lids.insert(f.nodes[of]
                      ->actions->ahs
                      .at(n->mode == table::NeighbourMode::kUdPaths ? n->handle_of(hash) : n->ah)
                      .dlid);
    return lids;
  }
  [[nodiscard]] LinkCounters counters() const { return f.nodes[0]->link->counters(); }

  SimFabric f{11, {}, 1};
};

TEST_F(TwoPaths, U41_FlowsOfABrokenPathMoveAndReturn) {
  ASSERT_EQ(lids(), (std::set<std::uint16_t>{6, 7}));
  for (const auto broken : {std::uint16_t{7}, std::uint16_t{6}}) {
    const auto queries = counters().path_queries;
    const auto left = counters().paths_left;
    f.broken_lids = {broken, static_cast<std::uint16_t>(broken - 2)};
    EXPECT_LT(send_for(1s), 0.7);
    send_for(kBound - 1s);
    EXPECT_EQ(send_for(1min), 1.0);
    EXPECT_EQ(lids(), std::set<std::uint16_t>{static_cast<std::uint16_t>(13 - broken)});
    EXPECT_EQ(counters().paths_left, left + 1);
    EXPECT_GT(counters().path_queries, queries);
    EXPECT_EQ(f.nodes[0]->link->neighbours(f.now).front().paths.size(), 1U);
    f.broken_lids.clear();
    EXPECT_EQ(send_for(kBound), 1.0);
    EXPECT_EQ(lids(), (std::set<std::uint16_t>{6, 7}));
    EXPECT_EQ(send_for(5s), 1.0);
  }
  stop_all(f);
}

/// Packets arrive over both paths, but the answers of one are lost: it is left.
TEST_F(TwoPaths, U41_PathIsLeftThatIsBrokenOnTheWayBack) {
  f.broken_lids = {5};
  send_for(kBound);
  EXPECT_EQ(lids(), std::set<std::uint16_t>{6});
  f.broken_lids.clear();
  send_for(kBound);
  EXPECT_EQ(lids(), (std::set<std::uint16_t>{6, 7}));
  stop_all(f);
}

/// If all paths of a host are silent, none is left.
TEST_F(TwoPaths, U41_SilentHostKeepsItsPaths) {
  f.broken_lids = {6, 7};
  EXPECT_EQ(send_for(2s), 0.0);
  send_for(30s);
  f.broken_lids.clear();
  send_for(kBound);
  EXPECT_EQ(send_for(1min), 1.0);
  EXPECT_EQ(lids(), (std::set<std::uint16_t>{6, 7}));
  stop_all(f);
}

/// An unused neighbour is not checked.
TEST_F(TwoPaths, U41_PathsOfAnUnusedNeighbourAreNotChecked) {
  f.run_for(2min);
  const auto before = counters().arp_sent;
  f.run_for(1min);
  EXPECT_EQ(counters().arp_sent, before);
  stop_all(f);
}

TEST_F(TwoPaths, U41_ChecksAreFew) {
  const auto before = counters().arp_sent;
  send_for(1min);
  // One of two paths each five seconds, and the probes of the neighbour itself.
  EXPECT_LE(counters().arp_sent - before, 16U);
  stop_all(f);
}

TEST(Sim, TwoNodesResolveEachOtherAndGiveEverythingBack) {
  SimFabric f{1};
  bring_up(f, 2);
  EXPECT_EQ(f.broadcast_members(), 2U);
  auto& a = *f.nodes[0];
  auto& b = *f.nodes[1];
  a.send_ip(b.address());
  f.run_for(10ms);
  EXPECT_EQ(b.received[a.address()], 1U);  // the packet waited and arrives
  b.send_ip(a.address());
  f.run_for(10ms);
  EXPECT_EQ(a.received[b.address()], 1U);
  EXPECT_EQ(a.link->counters().path_queries, 1U);
  EXPECT_EQ(b.link->counters().path_queries, 1U);
  EXPECT_EQ(a.link->neighbours(f.now).at(0).lid, 3);
  stop_all(f);
  EXPECT_EQ(f.broadcast_members(), 0U);
}

TEST(Sim, U08_BringUpUnderLoss) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimFabric f{seed, kFaulty};
    bring_up(f, 3);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    ASSERT_LE(f.now - TimePoint{100s}, 30s) << "seed " << seed;
    // All attempts to ask for a path may be lost twice.
    ASSERT_TRUE(all_hear_all(f, 60s)) << "seed " << seed;
    stop_all(f);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Sim, SilentAdministratorThatComesBack) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimFabric f{seed};
    f.administrator_silent = true;
    for (const auto* addr : {"10.0.0.1/24", "10.0.0.2/24"}) f.add_node(addr).start();
    f.run_for(5min + std::chrono::milliseconds(137 * seed));
    ASSERT_FALSE(f.all_up());
    // Both asked without success, at most five MADs in 13 s each.
    ASSERT_LE(f.mads, 2U * 120);
    f.administrator_silent = false;
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 20s)) << "seed " << seed;
    ASSERT_TRUE(all_hear_all(f, 1s)) << "seed " << seed;
  }
}

TEST(Sim, RestartedAdministratorDisturbsNoTraffic) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimFabric f{seed};
    bring_up(f, 3);
    ASSERT_TRUE(all_hear_all(f, 1s));
    f.run_for(1ms);
    f.restart_administrator();
    ASSERT_EQ(f.broadcast_members(), 0U);
    auto& a = *f.nodes[0];
    auto& b = *f.nodes[1];
    const auto sent = a.sent[b.address()];
    const auto received = b.received[a.address()];
    std::uint64_t n = 0;
    for (const auto end = f.now + 5min; f.now < end; ++n) {
      a.send_ip(b.address());
      f.run_for(100ms);
    }
    EXPECT_EQ(a.sent[b.address()] - sent, n);
    EXPECT_EQ(b.received[a.address()] - received, n) << "seed " << seed;
    EXPECT_EQ(f.broadcast_members(), 3U);  // it learned all members again
    EXPECT_TRUE(f.all_up());
    ASSERT_TRUE(all_hear_all(f, 10s));
  }
}

TEST(Sim, U26_RestartedPeerHealsWithinTheProbeTime) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SimFabric f{seed};
    bring_up(f, 2);
    ASSERT_TRUE(all_hear_all(f, 1s));
    auto& a = *f.nodes[0];
    auto& b = *f.nodes[1];
    f.run_for(std::chrono::milliseconds(511 * seed));
    // The announcements of the restarted peer are lost, and it sends no other packets.
    if (seed % 2 == 0) b.set_lid(77);
    b.crash_and_restart();
    while (b.link->state() != State::kUp) f.run_for(1ms);
    f.faults.loss = 1;
    f.run_for(3s);
    f.faults.loss = 0;
    const auto begin = f.now;
    // The sum of at most 45 s reachable, a delay, three probes without an answer, and a request.
    ASSERT_TRUE(f.run_until(
        [&] {
          a.send_ip(b.address());
          const auto heard = b.last_received.find(a.address());
          return heard != b.last_received.end() && heard->second > begin;
        },
        51s))
        << "seed " << seed;
  }
}

TEST(Sim, U26_RestartedPeerThatIsHeardHealsAtOnce) {
  SimFabric f{7};
  bring_up(f, 2);
  ASSERT_TRUE(all_hear_all(f, 1s));
  f.nodes[1]->crash_and_restart();
  ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
  ASSERT_TRUE(all_hear_all(f, 100ms));
}

TEST(Sim, U21_AllTrafficCarriesTheQkeyOfTheBroadcastGroup) {
  SimFabric f{3};
  bring_up(f, 2);
  EXPECT_EQ(f.nodes[0]->actions->qkey, 0x8001'0b1bU);
  EXPECT_EQ(f.nodes[1]->actions->qkey, 0x8001'0b1bU);
  ASSERT_TRUE(all_hear_all(f, 1s));
  EXPECT_EQ(f.lost["key"], 0U);
  // The simulated fabric checks the Q_Key.
  f.nodes[1]->actions->qkey = 1;
  EXPECT_FALSE(all_hear_all(f, 5s));
  EXPECT_GT(f.lost["key"], 0U);
}

TEST(Sim, AddressConflictIsNoticedByBothAndFloodsNothing) {
  SimFabric f{5};
  bring_up(f, 1);
  auto& a = *f.nodes[0];
  auto& b = f.add_node("10.0.0.1/24");
  b.start();
  ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
  const auto before = f.broadcasts;
  f.run_for(1min);
  EXPECT_GE(a.link->counters().address_conflicts, 1U);
  EXPECT_GE(b.link->counters().address_conflicts, 1U);
  EXPECT_LE(f.broadcasts - before, 2U * 8);
  EXPECT_TRUE(a.link->neighbours(f.now).empty());
  EXPECT_TRUE(b.link->neighbours(f.now).empty());
}

TEST(Sim, ThousandUnresolvableDestinationsCauseNoStorm) {
  SimFabric f{9};
  f.config.membership_check = Duration::zero();
  bring_up(f, 2);
  auto& a = *f.nodes[0];
  a.send_ip(f.nodes[1]->address());
  f.run_for(5s);
  const auto mads = f.mads;
  const auto broadcasts = f.broadcasts;
  const auto end = f.now + 30s;
  while (f.now < end) {
    for (std::uint32_t i = 0; i < 1000; ++i) a.send_ip(wire::IpAddr::v4(0x0a00'0100 + i));
    a.send_ip(f.nodes[1]->address());
    f.run_for(200ms);
  }
  EXPECT_LE(f.broadcasts - broadcasts, 30U * 550);
  EXPECT_LE(f.mads - mads, 4U);
  EXPECT_GE(f.nodes[1]->received[a.address()], 140U);  // other nodes are served meanwhile
  stop_all(f);
}

/// Random events happen to a few nodes on a faulty fabric; after the faults end, all nodes work
/// again soon.
void run_chaos(std::uint64_t seed) {
  SimFabric f{seed, kFaulty};
  f.config.membership_refresh = 20s;
  f.config.neighbour.reachable = 5s;
  for (const auto* addr : {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"}) f.add_node(addr).start();
  auto pick = [&](std::uint64_t n) { return static_cast<std::size_t>(f.random() % n); };
  for (int i = 0; i < 150; ++i) {
    auto& node = *f.nodes[pick(3)];
    switch (pick(16)) {
      case 0: node.crash_and_restart(); break;
      case 1: f.restart_administrator(); break;
      case 2: f.administrator_silent = pick(2) == 0; break;
      case 3: node.link->stop(f.now); break;
      case 4: node.link->start(f.now); break;
      case 5: node.link->flush(); break;
      case 6: node.link->on_port_event(fabric::PortEvent::kClientReregister, f.now); break;
      case 7: static_cast<void>(node.link->remove_neighbour(f.nodes[pick(3)]->address())); break;
      case 8: {
        const auto addr = wire::IpAddr::v4(0x0a00'0000 + static_cast<std::uint32_t>(pick(6)));
        const auto index = node.link->use_gateway(addr, f.now);
        node.send_ip(addr);
        f.run_for(std::chrono::milliseconds(pick(5000)));
        EXPECT_TRUE(!index || node.sink->index_of(addr) == *index);
        if (index) node.link->forget_gateway(addr);
        break;
      }
      default: node.send_ip(wire::IpAddr::v4(0x0a00'0001 + static_cast<std::uint32_t>(pick(5))));
    }
    f.run_for(std::chrono::milliseconds(pick(800)));
  }
  f.faults = {};
  f.administrator_silent = false;
  f.run_for(3s);
  for (const auto& n : f.nodes) n->link->start(f.now);
  ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 30s));
  ASSERT_TRUE(all_hear_all(f, 40s));
  stop_all(f);
  ASSERT_EQ(f.broadcast_members(), 0U);
}

TEST(Sim, ChaosEndsWell) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    run_chaos(seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Sim, TheSameSeedGivesTheSameRun) {
  auto run = [](std::uint64_t seed) {
    SimFabric f{seed, kFaulty};
    bring_up(f, 3);
    all_hear_all(f, 30s);
    return std::tuple{f.now, f.mads, f.broadcasts, f.nodes[0]->received};
  };
  EXPECT_EQ(run(42), run(42));
  EXPECT_NE(run(42), run(43));
}

/// Two nodes that are up. The first one has three queue pairs, or one.
void bring_up_pair(SimFabric& f, unsigned queue_pairs, SimHabits habits) {
  for (const char* address : {"10.0.0.1/24", "10.0.0.2/24"}) f.add_node(address);
  f.nodes[0]->actions->own_queue_pairs = queue_pairs;
  f.nodes[1]->habits = habits;
  for (const auto& node : f.nodes) node->start();
  ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5min));
}

TEST(Sim, P14_HostThatAnswersOnlySendersIsResolved) {
  SimFabric f{1};
  bring_up_pair(f, 3, {.answers_senders_only = true});
  SimNode& a = *f.nodes[0];
  SimNode& b = *f.nodes[1];
  a.send_ip(b.address());
  f.run_for(500ms);
  EXPECT_EQ(b.received[a.address()], 0U) << "the first request has no sender";
  f.run_for(2s);
  EXPECT_EQ(b.received[a.address()], 1U);
  EXPECT_TRUE(all_hear_all(f, 1s));
}

// A link with one queue pair is for such hosts: all of its packets leave by it.
TEST(Sim, P14_HostThatChecksSourceQueuePairsHearsALinkWithOne) {
  for (const unsigned queue_pairs : {1U, 3U}) {
    SimFabric f{1};
    bring_up_pair(f, queue_pairs, {.checks_source_qpn = true});
    SimNode& a = *f.nodes[0];
    SimNode& b = *f.nodes[1];
    ASSERT_TRUE(all_hear_all(f, 5s));
    f.run_for(1s);
    const std::uint64_t before = b.received[a.address()];
    for (int i = 0; i < 30; ++i) {
      a.send_ip(b.address());
      f.run_for(1ms);
    }
    EXPECT_EQ(b.received[a.address()] - before, queue_pairs == 1 ? 30U : 10U);
    EXPECT_EQ(f.lost["source"] != 0, queue_pairs != 1);
  }
}

}  // namespace
}  // namespace ipoib::link
