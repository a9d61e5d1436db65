// SPDX-License-Identifier: BSD-3-Clause
// Communication managers in virtual time on a wire that loses, repeats, delays and reorders MADs.
// The queue pairs of their connections are modelled only as far as they detect that a peer is
// absent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/cm/manager.h"
#include "lib/wire/ipoib_cm.h"
#include "tests/support/sim_time.h"

namespace ipoib::cm {

struct SimFaults {
  double loss = 0;
  double duplication = 0;
  Duration min_delay = std::chrono::microseconds(10);
  Duration max_delay = std::chrono::microseconds(10);
};

/// The nodes' policy for requests: that of the draft, or that of Linux.
enum class SimPolicy {
  /// One connection a pair; addresses settle crossing requests. Source:
  /// draft-ietf-ipoib-connected-mode-03 §3.3.
  kOnePerPair,
  kOnePerDirection,  ///< Every request is accepted; one connection for each direction.
};

class SimWire;

/// A node with a manager and a consumer that wants connections as an IPoIB link does.
class SimNode final : public Consumer {
 public:
  SimNode(SimWire& wire, std::uint16_t lid);

  /// State that a node keeps about one of its connections.
  struct Link {
    std::uint16_t peer = 0;  ///< LID.
    bool active = false;
    bool asked = true;  ///< A request or reply waits for the decision.
    bool up = false;
    bool closed = false;
    bool over = false;  ///< Closed or disconnected; waits for on_released.
    std::uint32_t qpn = 0;
    std::uint32_t peer_qpn = 0;
    unsigned lost = 0;  ///< Consecutive packets that found no queue pair.
    TimePoint since{};
  };

  void start();
  /// Loses all state. Packets to the node are lost until it starts again.
  void crash();
  [[nodiscard]] bool alive() const { return manager_ != nullptr; }
  [[nodiscard]] std::uint16_t lid() const { return lid_; }
  [[nodiscard]] Manager& manager() { return *manager_; }
  [[nodiscard]] const std::map<Handle, Link>& links() const { return links_; }
  [[nodiscard]] wire::LinkAddr address() const;
  [[nodiscard]] std::uint64_t service_id() const;

  /// Opens a connection to the peer if the node has none that it may use.
  void want(std::uint16_t peer);
  /// Sends a packet on every connection that is up. Ends connections whose packets are lost
  /// repeatedly, as a queue pair does after its last retry.
  void use_connections();
  void disconnect_one(std::size_t nth);
  void disconnect_all();
  /// Returns true if the queue pair for this packet exists and takes it.
  bool on_packet(std::uint16_t from, std::uint32_t qpn, std::uint32_t from_qpn);
  [[nodiscard]] std::size_t up_with(std::uint16_t peer) const;

  void on_request(Handle handle, const wire::CmReq& req, const fabric::MadAddress& from,
                  TimePoint now) override;
  void on_reply(Handle handle, const wire::CmRep& rep, TimePoint now) override;
  void on_established(Handle handle, TimePoint now) override;
  void on_closed(Handle handle, const Closed& closed, TimePoint now) override;
  void on_released(Handle handle, TimePoint now) override;

  Duration dither{};    ///< Delay of the consumer's answers to requests and replies.
  double refusals = 0;  ///< Fraction of requests and replies that it rejects.

 private:
  void decide(Handle handle);
  [[nodiscard]] bool give_way(Handle handle, std::uint16_t peer);
  void drop(Handle handle, Link& link);
  [[nodiscard]] std::uint32_t free_qpn();
  [[nodiscard]] std::vector<std::byte> private_data() const;
  void check_private(std::span<const std::byte> said, std::uint16_t peer, const char* where);

  SimWire& wire_;
  std::uint16_t lid_;
  std::uint32_t ud_qpn_ = 0;
  std::unique_ptr<Manager> manager_;
  std::map<Handle, Link> links_;
  std::uint32_t next_qpn_ = 0;
  std::uint64_t incarnation_ = 0;
};

class SimWire : public test::SimTime {
 public:
  explicit SimWire(std::uint64_t seed) : SimTime{TimePoint{std::chrono::seconds(1)}, seed} {}

  SimNode& add_node();
  [[nodiscard]] SimNode* node(std::uint16_t lid);
  void run_until(TimePoint end);
  void run_for(Duration d) { run_until(now + d); }
  void send(std::uint16_t from, const fabric::MadAddress& to,
            std::span<const std::byte, wire::kMadLen> octets);
  void wrong(std::string what);

  SimFaults faults;
  SimPolicy policy = SimPolicy::kOnePerPair;
  ManagerConfig config;
  std::vector<std::unique_ptr<SimNode>> nodes;
  std::vector<std::string> violations;
  std::uint64_t mads = 0;
};

}  // namespace ipoib::cm
