// SPDX-License-Identifier: BSD-3-Clause
// Simulated lives of nodes, from seeds (tests/support/seeds.h). The nodes connect, disconnect,
// restart and decide late, while the wire loses, repeats and delays MADs. Then all faults end, and
// the nodes must settle.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/support/seeds.h"
#include "tests/unit/lib/cm/sim_wire.h"

namespace ipoib::cm {
namespace {

using namespace std::chrono_literals;

struct Kinds {
  static constexpr unsigned kWire = 1, kRestarts = 2, kDisconnects = 4, kDither = 8, kRefusals = 16,
                            kSlow = 32, kAll = 63;
};

class Life {
 public:
  Life(std::uint64_t seed, unsigned kinds, SimPolicy policy) : wire_{seed}, kinds_{kinds} {
    wire_.policy = policy;
    wire_.config.max_half_open = wire_.chance(0.2) ? 2 : 64;
    const std::size_t n = wire_.chance(0.05) ? 20 : 2 + wire_.pick(4);
    for (std::size_t i = 0; i < n; ++i) wire_.add_node();
  }

  void run() {
    suffer();
    heal();
    check_settled();
    end();
  }

  void suffer() {
    if (may(Kinds::kWire)) {
      wire_.faults.loss = 0.6 * static_cast<double>(wire_.pick(100)) / 100;
      wire_.faults.duplication = 0.4 * static_cast<double>(wire_.pick(100)) / 100;
      constexpr Duration kDelays[] = {10us, 5ms, 100ms, 1s};
      wire_.faults.max_delay = kDelays[wire_.pick(may(Kinds::kSlow) ? 4 : 2)];
    }
    const std::size_t steps = 40 + wire_.pick(80);
    for (std::size_t i = 0; i < steps; ++i) {
      step(*wire_.nodes[wire_.pick(wire_.nodes.size())]);
      wire_.run_for(std::chrono::milliseconds(wire_.pick(400)));
    }
  }

  /// Starts all nodes, ends all faults, and lets the nodes use their connections.
  void heal() {
    wire_.faults = {};
    for (const auto& node : wire_.nodes) {
      node->dither = {};
      node->refusals = 0;
      if (!node->alive()) node->start();
    }
    // The time is enough for the longest exchange, which is the retries of a REQ and then those of
    // the messages that it causes. It is also enough for the lost packets by which a node detects
    // that its peer has disconnected.
    for (int i = 0; i < 30; ++i) {
      for (const auto& node : wire_.nodes) node->use_connections();
      wire_.run_for(1s);
    }
  }

  void check_settled() {
    for (const auto& node : wire_.nodes) {
      if (!node->alive()) continue;
      if (node->manager().half_open() != 0) wrong(*node, "has half-open connections");
      for (const auto& [handle, c] : node->manager().connections().all())
        if (c.state != State::kEstablished)
          wrong(*node, fmt::format("has a connection in state {}", to_string(c.state)));
      if (node->manager().size() != node->links().size())
        wrong(*node, "and its manager do not agree on connections");
      if (node->manager().next_deadline()) wrong(*node, "has a timer although all is settled");
      for (const auto& [handle, link] : node->links()) check_link(*node, link);
      for (const auto& other : wire_.nodes) check_pair(*node, *other);
    }
  }

  void end() {
    const bool shut_down = wire_.chance(0.5);
    for (const auto& node : wire_.nodes) {
      if (shut_down)
        node->manager().shutdown(wire_.now);
      else
        node->disconnect_all();
    }
    wire_.run_for(5s);
    for (const auto& node : wire_.nodes)
      if (node->manager().size() != 0 || !node->links().empty() || node->manager().next_deadline())
        wrong(*node, "keeps connections after its end");
  }

  SimWire& wire() { return wire_; }

 private:
  [[nodiscard]] bool may(unsigned kind) const { return (kinds_ & kind) != 0; }
  void wrong(const SimNode& node, const std::string& what) {
    wire_.wrong(fmt::format("node {} {}", node.lid(), what));
  }

  void step(SimNode& node) {
    switch (wire_.pick(10)) {
      case 0:
        if (!may(Kinds::kRestarts)) break;
        if (node.alive())
          node.crash();
        else
          node.start();
        break;
      case 1:
        if (may(Kinds::kDisconnects)) node.disconnect_one(wire_.pick(8));
        break;
      case 2:
        // The delay is up to ten times the peer's timeout.
        if (may(Kinds::kDither))
          node.dither = std::chrono::milliseconds(wire_.pick(2) * wire_.pick(3000));
        break;
      case 3:
        if (may(Kinds::kRefusals)) node.refusals = wire_.chance(0.5) ? 0 : 0.3;
        break;
      case 4:
      case 5:
        for (const auto& other : wire_.nodes) other->use_connections();
        break;
      default:
        if (!node.alive()) node.start();
        node.want(static_cast<std::uint16_t>(1 + wire_.pick(wire_.nodes.size())));
        // Often both nodes connect at once.
        if (wire_.chance(0.5)) {
          auto& other = *wire_.nodes[wire_.pick(wire_.nodes.size())];
          other.want(node.lid());
          node.want(other.lid());
        }
    }
  }

  /// Checks that the other end has the same connection.
  void check_link(const SimNode& node, const SimNode::Link& link) {
    if (!link.up) return wrong(node, "has a connection that is neither up nor gone");
    const auto& there = wire_.node(link.peer)->links();
    const bool mirrored = std::ranges::any_of(there, [&](const auto& l) {
      return l.second.peer == node.lid() && l.second.up && l.second.active != link.active &&
             l.second.qpn == link.peer_qpn && l.second.peer_qpn == link.qpn;
    });
    if (!mirrored) wrong(node, fmt::format("has half a connection with node {}", link.peer));
  }

  void check_pair(const SimNode& node, const SimNode& other) {
    const std::size_t most = wire_.policy == SimPolicy::kOnePerPair ? 1 : 2;
    if (node.up_with(other.lid()) > most)
      wrong(node,
            fmt::format("has {} connections with node {}", node.up_with(other.lid()), other.lid()));
  }

  SimWire wire_;
  unsigned kinds_;
};

void run_seeds(unsigned kinds, SimPolicy policy, std::uint64_t count) {
  std::uint64_t established = 0, lives = 0;
  test::for_seeds(count, [&](std::uint64_t seed) {
    Life life{seed, kinds, policy};
    life.run();
    ++lives;
    for (const auto& node : life.wire().nodes)
      established += node->manager().counters().established;
    for (const auto& violation : life.wire().violations) ADD_FAILURE() << violation;
  });
  EXPECT_GE(established, lives) << "nothing happens in these lives";
}

TEST(CmSimulation, C16_AllFaultsTogetherWithOneConnectionAPair) {
  run_seeds(Kinds::kAll, SimPolicy::kOnePerPair, 2000);
}

TEST(CmSimulation, C16_AllFaultsTogetherWithOneConnectionADirection) {
  run_seeds(Kinds::kAll, SimPolicy::kOnePerDirection, 2000);
}

TEST(CmSimulation, RestartsOnAGoodWire) {
  run_seeds(Kinds::kRestarts, SimPolicy::kOnePerPair, 400);
}

TEST(CmSimulation, LossAndDisorderAlone) {
  run_seeds(Kinds::kWire | Kinds::kSlow, SimPolicy::kOnePerDirection, 400);
}

TEST(CmSimulation, ConsumersThatDitherAndRefuse) {
  run_seeds(Kinds::kDither | Kinds::kRefusals | Kinds::kDisconnects, SimPolicy::kOnePerPair, 400);
}

/// On a good wire, crossing requests end as the draft says: exactly one connection remains, and the
/// node with the larger address has requested it.
TEST(CmSimulation, RequestsThatCrossLeaveOneConnection) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimWire wire{seed};
    wire.faults.max_delay = 5ms;
    SimNode& a = wire.add_node();
    SimNode& b = wire.add_node();
    a.want(b.lid());
    b.want(a.lid());
    wire.run_for(1s);
    ASSERT_EQ(a.up_with(b.lid()), 1U) << seed;
    ASSERT_EQ(b.up_with(a.lid()), 1U) << seed;
    const SimNode& larger = wire::accepts_crossing(a.address(), b.address()) ? b : a;
    ASSERT_EQ(larger.links().size(), 1U);
    ASSERT_TRUE(larger.links().begin()->second.active) << seed;
    ASSERT_TRUE(wire.violations.empty()) << wire.violations.front();
  }
}

/// Linux keeps one connection for each direction.
TEST(CmSimulation, RequestsThatCrossLeaveOneConnectionADirection) {
  SimWire wire{1};
  wire.policy = SimPolicy::kOnePerDirection;
  SimNode& a = wire.add_node();
  SimNode& b = wire.add_node();
  a.want(b.lid());
  b.want(a.lid());
  wire.run_for(1s);
  EXPECT_EQ(a.up_with(b.lid()), 2U);
  EXPECT_EQ(b.up_with(a.lid()), 2U);
}

/// The checks detect violations that the test causes on purpose.
TEST(CmSimulation, PropertiesAreNotBlind) {
  const auto settled = [] {
    auto life = std::make_unique<Life>(7, 0U, SimPolicy::kOnePerPair);
    auto& nodes = life->wire().nodes;
    nodes[0]->want(nodes[1]->lid());
    life->heal();
    life->check_settled();
    EXPECT_TRUE(life->wire().violations.empty());
    EXPECT_EQ(nodes[0]->up_with(nodes[1]->lid()), 1U);
    return life;
  };
  auto life = settled();
  life->wire().nodes[1]->crash();
  life->wire().nodes[1]->start();
  life->check_settled();
  EXPECT_FALSE(life->wire().violations.empty()) << "a peer that has forgotten";

  life = settled();
  life->wire().nodes[1]->crash();
  life->wire().nodes[0]->manager().shutdown(life->wire().now);
  life->check_settled();
  EXPECT_FALSE(life->wire().violations.empty()) << "a DREQ that nobody answers";
}

TEST(CmSimulation, TheSameSeedGivesTheSameLife) {
  const auto life = [](std::uint64_t seed) {
    Life l{seed, Kinds::kAll, SimPolicy::kOnePerPair};
    l.run();
    return std::tuple{l.wire().now, l.wire().mads};
  };
  EXPECT_EQ(life(42), life(42));
  EXPECT_NE(life(42), life(43));
}

}  // namespace
}  // namespace ipoib::cm
