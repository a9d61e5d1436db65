// SPDX-License-Identifier: BSD-3-Clause
// Clients and the embedded administrator in virtual time, over a wire that loses, repeats, delays
// and so reorders MADs. The message of a failure contains the seed, which repeats the run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/lib/sa/embedded/administrator_fixture.h"

namespace ipoib::sa::test {
namespace {

using namespace std::chrono_literals;

struct Faults {
  unsigned loss = 0, repeat = 0, busy = 0;  ///< Per cent.
  Duration delay = 20ms;                    ///< Maximum; each MAD has its own.
};

/// A node with its client and its requests.
struct Node {
  wire::Gid gid;
  std::uint16_t lid = 0;
  std::unique_ptr<Client> client;
  std::vector<unsigned> called;  ///< Number of calls of the handler, by request.
  std::uint64_t refused = 0, timed_out = 0, succeeded = 0;
};

class LossyFabric {
 public:
  LossyFabric(std::uint64_t seed, std::size_t nodes, const Faults& faults, ClientConfig config)
      : random_{seed},
        faults_{faults},
        config_{config},
        sa_{*Administrator::create(recorded_config())} {
    for (std::size_t i = 0; i < nodes; ++i) {
      const auto lid = static_cast<std::uint16_t>(10 + i);
      auto node = std::make_unique<Node>();
      node->gid = port_gid(0x1000 + i);
      node->lid = lid;
      node->client = std::make_unique<Client>(
          [this, lid](const fabric::MadAddress&, std::span<const std::byte, wire::kMadLen> mad) {
            if (!is_rmpp(*wire::read<wire::SaHdr>(mad))) ++sent_;
            put(lid, true, mad);
            return Status{};
          },
          config, seed + i);
      node->client->set_sm(kSmLid, 0, now_);
      nodes_.push_back(std::move(node));
    }
  }

  /// Submits `n` requests at once, spread over the nodes.
  void ask(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      Node& node = *nodes_[random_() % nodes_.size()];
      const std::size_t number = node.called.size();
      node.called.push_back(0);
      node.client->submit(
          any_request(node),
          [&node, number](const Outcome& o, TimePoint) {
            ++node.called[number];
            if (o) ++node.succeeded;
            if (!o && o.error().code == Errc::kRefused) ++node.refused;
            if (!o && o.error().code == Errc::kTimedOut) ++node.timed_out;
          },
          now_);
    }
  }

  /// Runs until no event is left.
  void run() {
    while (const auto next = next_event()) {
      ASSERT_LT(*next, TimePoint{1h}) << "does not come to an end";
      now_ = std::max(now_, *next);
      while (!wire_.empty() && wire_.begin()->first <= now_) {
        const Packet packet = wire_.begin()->second;
        wire_.erase(wire_.begin());
        deliver(packet);
      }
      sa_.tick(now_, [this](const auto& to, auto mad) { return from_sa(to, mad); });
      for (const auto& node : nodes_) {
        node->client->tick(now_);
        ASSERT_LE(node->client->outstanding(), config_.max_outstanding);
      }
    }
  }

  [[nodiscard]] const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  [[nodiscard]] const Administrator& sa() const { return sa_; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  void silence(bool silent) { silent_ = silent; }

 private:
  struct Packet {
    std::uint16_t node_lid;
    bool to_sa;
    fabric::MadBytes bytes;
  };

  bool chance(unsigned per_cent) { return random_() % 100 < per_cent; }

  void put(std::uint16_t node_lid, bool to_sa, std::span<const std::byte, wire::kMadLen> mad) {
    if (chance(faults_.loss)) return;
    for (int copies = chance(faults_.repeat) ? 2 : 1; copies > 0; --copies) {
      Packet packet{node_lid, to_sa, {}};
      std::copy(mad.begin(), mad.end(), packet.bytes.begin());
      const auto delay = random_() % static_cast<std::uint64_t>(faults_.delay.count());
      wire_.emplace(now_ + Duration{static_cast<Duration::rep>(delay)}, packet);
    }
  }

  /// Carries a MAD that the administrator sends by itself, not as an answer.
  Status from_sa(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
    put(to.lid, false, mad);
    return {};
  }

  void deliver(const Packet& packet) {
    if (!packet.to_sa) {
      nodes_[packet.node_lid - 10U]->client->on_mad({{kSmLid, 0, 1, 0xffff}, packet.bytes}, now_);
      return;
    }
    if (silent_) return;
    std::optional<wire::SaMad> answer;
    const auto hdr = *wire::read<wire::SaHdr>(packet.bytes);
    const bool request = !is_rmpp(hdr) && !is_for_client(hdr.mad.method) &&
                         (hdr.mad.method & wire::kMethodResponse) == 0;
    if (request && chance(faults_.busy)) {
      answer = wire::read<wire::SaMad>(packet.bytes);
      answer->hdr.mad.method = response_of(answer->hdr.mad.method);
      answer->hdr.mad.status.set(1);
    } else {
      answer = sa_.answer({packet.node_lid, 0, 1, 0xffff}, packet.bytes, now_);
    }
    if (answer) put(packet.node_lid, false, wire::bytes_of(*answer));
  }

  Request any_request(const Node& node) {
    const wire::Gid mgid = ipoib_mgid(random_() % 5);
    const auto state = static_cast<std::uint8_t>(1U << (random_() % 4));
    switch (random_() % 7) {
      case 0: return join_group(kBroadcast, node.gid, 0xffff, 1);
      case 1: return create_group(mgid, node.gid, state, like_broadcast());
      case 2: return leave_group(mgid, node.gid, 0xffff, state);
      case 3: return find_group(mgid);
      case 4: return list_groups(0x8002);
      case 5: return class_port_info();
      default: return find_path(node.gid, nodes_[random_() % nodes_.size()]->gid, 0xffff);
    }
  }

  [[nodiscard]] std::optional<TimePoint> next_event() const {
    std::optional<TimePoint> next;
    if (!wire_.empty()) next = wire_.begin()->first;
    for (const auto& node : nodes_) next = earlier(next, node->client->next_deadline());
    return earlier(next, sa_.next_deadline());
  }

  std::mt19937_64 random_;
  Faults faults_;
  ClientConfig config_;
  Administrator sa_;
  TimePoint now_{1s};
  std::multimap<TimePoint, Packet> wire_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::uint64_t sent_ = 0;
  bool silent_ = false;
};

/// Every request has ended exactly once, and the counters agree with the outcomes.
void expect_all_ended_once(const LossyFabric& fabric) {
  for (const auto& node : fabric.nodes()) {
    for (const unsigned times : node->called) ASSERT_EQ(times, 1U);
    const ClientCounters& c = node->client->counters();
    EXPECT_EQ(c.answered, node->succeeded);
    EXPECT_EQ(c.refused, node->refused);
    EXPECT_EQ(c.timed_out, node->timed_out);
    EXPECT_EQ(c.answered + c.refused + c.timed_out, node->called.size());
    EXPECT_EQ(c.malformed + c.send_failed + c.overflowed, 0U);
    EXPECT_EQ(node->client->outstanding() + node->client->waiting(), 0U);
  }
}

TEST(Exchange, EveryRequestEndsOnceWhateverTheWireDoes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    const Faults faults{static_cast<unsigned>(random() % 60), static_cast<unsigned>(random() % 40),
                        static_cast<unsigned>(random() % 20),
                        1ms * static_cast<int>(1 + random() % 3000)};
    const ClientConfig config{.max_outstanding = 1 + static_cast<unsigned>(random() % 8)};
    LossyFabric fabric{seed, 5, faults, config};
    fabric.ask(100);
    fabric.run();
    if (HasFatalFailure()) return;
    expect_all_ended_once(fabric);
    EXPECT_LE(fabric.sent(), 100U * (1 + config.retries));
    // The administrator has also ended everything that it received.
    const AdministratorCounters& c = fabric.sa().counters();
    EXPECT_EQ(c.ended(), c.received);
    EXPECT_EQ(fabric.sa().tables().size(), 0U);
  }
}

TEST(Exchange, GoodWireNeedsOneMadARequest) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LossyFabric fabric{seed, 5, {}, {}};
    fabric.ask(500);
    fabric.run();
    expect_all_ended_once(fabric);
    EXPECT_EQ(fabric.sent(), 500U);
    for (const auto& node : fabric.nodes()) EXPECT_EQ(node->timed_out, 0U);
  }
}

TEST(Exchange, SilentAdministratorMeetsNoStorm) {
  LossyFabric fabric{1, 20, {}, {.max_outstanding = 4}};
  fabric.silence(true);
  fabric.ask(1000);
  fabric.run();
  expect_all_ended_once(fabric);
  EXPECT_EQ(fabric.sent(), 5000U);
  for (const auto& node : fabric.nodes()) EXPECT_EQ(node->timed_out, node->called.size());
}

TEST(Exchange, SameSeedIsTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    LossyFabric fabric{seed, 5, {30, 20, 5, 800ms}, {.max_outstanding = 3}};
    fabric.ask(200);
    fabric.run();
    return std::pair{fabric.sent(), fabric.sa().counters().received};
  };
  EXPECT_EQ(run(42), run(42));
  EXPECT_NE(run(42), run(43));
}

}  // namespace
}  // namespace ipoib::sa::test
