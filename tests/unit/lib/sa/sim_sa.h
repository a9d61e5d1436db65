// SPDX-License-Identifier: BSD-3-Clause
// One administrator and some clients in virtual time. The wire loses, repeats, delays and so
// reorders MADs. The seed determines everything.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/sa/client.h"
#include "tests/support/sim_time.h"
#include "tests/unit/lib/sa/embedded/administrator_fixture.h"

namespace ipoib::sa::test {

struct WireFaults {
  unsigned loss = 0, repeat = 0;                  ///< Per cent.
  Duration delay = std::chrono::milliseconds(5);  ///< Maximum; each MAD has its own.
  unsigned busy = 0;  ///< Requests that the administrator answers with "busy", in per cent.
};

class SimSa : public ipoib::test::SimTime {
 public:
  /// A node with its client, and the answers and notices that it received.
  struct Node {
    std::uint16_t lid = 0;
    wire::Gid gid;
    std::unique_ptr<Client> client;
    bool dead = false;
    unsigned max_outstanding = 0;
    std::vector<Outcome> outcomes;
    std::vector<wire::Notice> notices;
  };

  explicit SimSa(std::uint64_t seed, WireFaults wire_faults = {},
                 const AdministratorConfig& config = recorded_config())
      : SimTime{TimePoint{std::chrono::seconds(1)}, seed},
        faults{wire_faults},
        sa_{*Administrator::create(config)} {}

  Node& add_node(ClientConfig config = {}) {
    const auto lid = static_cast<std::uint16_t>(10 + nodes_.size());
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    node.lid = lid;
    node.gid = port_gid(0x1000U + lid);
    node.max_outstanding = config.max_outstanding;
    node.client = std::make_unique<Client>(
        [this, lid](const fabric::MadAddress&, std::span<const std::byte, wire::kMadLen> mad) {
          if (!is_rmpp(*wire::read<wire::SaHdr>(mad))) ++requests;
          put(lid, true, mad);
          return Status{};
        },
        config, random());
    node.client->set_sm(kSmLid, 0, now);
    node.client->set_report_handler(
        [&node](const wire::Notice& n, TimePoint) { node.notices.push_back(n); });
    return node;
  }
  TransactionId ask(Node& node, const Request& request) {
    return node.client->submit(
        request, [&node](const Outcome& o, TimePoint) { node.outcomes.push_back(o); }, now);
  }
  /// Sends a request past the wire, so that no fault affects it. Returns the status of the answer,
  /// or 0xffff if there is none.
  std::uint16_t tell_sa(std::uint16_t lid, const Request& request) {
    const auto mad = request_mad(request, ++tid_);
    const auto answer = sa_.answer({lid, 0, 1, wire::kDefaultPkey}, wire::bytes_of(mad), now);
    return answer ? answer->hdr.mad.status.host() : std::uint16_t{0xffff};
  }

  /// Runs until no event is left, or until `end`.
  void run(std::optional<TimePoint> end = {}) {
    while (const auto next = next_due()) {
      if (end && *next > *end) break;
      ASSERT_LT(*next, TimePoint{std::chrono::hours(1)}) << "does not come to an end";
      advance(*next);
      sa_.tick(now, [this](const fabric::MadAddress& to, auto mad) {
        put(to.lid, false, mad);
        return Status{};
      });
      for (const auto& node : nodes_) {
        node->client->tick(now);
        ASSERT_LE(node->client->outstanding(), node->max_outstanding);
      }
    }
  }

  [[nodiscard]] Administrator& sa() { return sa_; }

  WireFaults faults;
  std::uint64_t mads = 0;      ///< Number of MADs put on the wire.
  std::uint64_t requests = 0;  ///< Number of those from nodes that are no part of a table.
  /// May change a MAD on its way to a node. Returns false to drop it.
  std::function<bool(std::uint16_t lid, wire::SaMad&)> meddle;
  /// Returns true to drop a MAD of a node.
  std::function<bool(const wire::SaMad&)> lose;

 private:
  struct Packet {
    std::uint16_t lid;
    bool to_sa;
    fabric::MadBytes bytes;
  };

  bool happens(unsigned per_cent) { return random() % 100 < per_cent; }

  void put(std::uint16_t lid, bool to_sa, std::span<const std::byte, wire::kMadLen> mad) {
    ++mads;
    if (happens(faults.loss)) return;
    for (int copies = happens(faults.repeat) ? 2 : 1; copies > 0; --copies) {
      Packet packet{lid, to_sa, {}};
      std::copy(mad.begin(), mad.end(), packet.bytes.begin());
      const auto delay = random() % static_cast<std::uint64_t>(faults.delay.count());
      at(now + Duration{static_cast<Duration::rep>(delay)}, [this, packet] { deliver(packet); });
    }
  }

  void deliver(const Packet& packet) {
    Node& node = *nodes_.at(packet.lid - std::size_t{10});
    if (node.dead) return;
    auto mad = *wire::read<wire::SaMad>(packet.bytes);
    if (!packet.to_sa) {
      if (meddle && !meddle(packet.lid, mad)) return;
      fabric::ReceivedMad received{{kSmLid, 0, 1, wire::kDefaultPkey}, {}};
      EXPECT_TRUE(wire::write(std::span{received.bytes}, 0, mad));
      node.client->on_mad(received, now);
      return;
    }
    if (lose && lose(mad)) return;
    const bool request = !is_rmpp(mad.hdr) && !is_for_client(mad.hdr.mad.method) &&
                         (mad.hdr.mad.method & wire::kMethodResponse) == 0;
    auto answer = std::optional{mad};
    if (request && faults.busy != 0 && happens(faults.busy)) {
      answer->hdr.mad.method = response_of(mad.hdr.mad.method);
      answer->hdr.mad.status.set(1);
    } else {
      answer = sa_.answer({packet.lid, 0, 1, wire::kDefaultPkey}, packet.bytes, now);
    }
    if (answer) put(packet.lid, false, wire::bytes_of(*answer));
  }

  [[nodiscard]] std::optional<TimePoint> next_due() const {
    std::optional<TimePoint> next = earlier(next_event(), sa_.next_deadline());
    for (const auto& node : nodes_) next = earlier(next, node->client->next_deadline());
    return next;
  }

  Administrator sa_;
  std::uint64_t tid_ = 0x7000'0000;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace ipoib::sa::test
