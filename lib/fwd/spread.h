// SPDX-License-Identifier: BSD-3-Clause
// Stage spread: while management asks for it, a worker hands packets that it has just received to
// other workers, by flow, before the stages that take most of the time.
#pragma once

#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include <array>
#include <cstdint>
#include <vector>

#include "lib/fabric/ring_ptr.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// The order in each flow stays. All packets of a flow go to one worker, and a change of the workers
/// begins with a pause: the worker reads no queue and no cable until every packet that waited in a
/// handoff ring has left, first on its way to another worker of the spread, then on the way from there
/// to the owner of its egress. The packets that arrive meanwhile wait in the device, and frames that
/// other workers pass on, in their ring. Because the pause has a limit, no worker that hangs can stop this one; then packets may overtake those that the other
/// worker still has. Where packets wait in transmit queues, the device decides which of two workers'
/// queues it serves first.
class Spread {
 public:
  /// The first workers of a node can take part.
  static constexpr unsigned kMaxWorkers = 64;

  explicit Spread(const WorkerConfig& config);

  /// Once a loop, before the queues are read. `wanted`: the workers that are to share the packets,
  /// one bit each; 0: all packets stay here. Returns false in a pause.
  [[nodiscard]] bool follow(std::uint64_t wanted, std::uint64_t tsc) noexcept {
    wanted &= reachable_;
    if (wanted == workers_) [[likely]] {
      round_ = 0;
      return true;
    }
    return change(wanted, tsc);
  }
  [[nodiscard]] bool is_on() const noexcept { return workers_ != 0; }
  /// True in a pause.
  [[nodiscard]] bool is_changing() const noexcept { return round_ != 0; }

  /// Takes a burst of received packets, with their link header, and leaves those of this worker in
  /// it, in order. Packets that are neither IPv4 nor IPv6 stay, and so do those whose order among each
  /// other counts for management: ICMPv6, IPv6 with hop-by-hop options (MLD), IGMP. Packets whose mbufs
  /// another owner reads too stay, because the ingress is written into the mbuf.
  ///
  /// Errors: kHandoffRingFull.
  void hand_on(Context& c, const Ingress& in, Burst& rx) noexcept;

 private:
  /// Rounds of a pause, one for each ring that a packet passes.
  static constexpr unsigned kRounds = 2;
  /// The longest pause is this part of a second.
  static constexpr std::uint64_t kPauses = 200;

  struct Target {
    rte_ring* ring = nullptr;  ///< Null: this worker.
    Burst burst;
  };
  /// Place of the IP header, and of the type before it.
  struct LinkHeader {
    std::uint16_t len;
    std::uint16_t type_at;
  };

  bool change(std::uint64_t wanted, std::uint64_t tsc) noexcept;
  void begin_round() noexcept;
  [[nodiscard]] bool round_is_over() noexcept;
  void use(std::uint64_t workers) noexcept;
  static LinkHeader link_header_of(const InterfaceEntry& entry) noexcept;
  [[nodiscard]] Target& target_of(const rte_mbuf* m, const LinkHeader& header) noexcept;
  static void flush(Context& c, const Ingress& in, Target& target, unsigned worker) noexcept;

  std::uint64_t workers_ = 0;    ///< The workers that share the packets.
  std::uint64_t reachable_ = 0;  ///< This worker, and all with a ring to them.
  unsigned number_;
  std::uint64_t seed_;  ///< Random, so that strangers cannot choose flows that share a worker.
  std::uint32_t n_chosen_ = 0;
  std::array<std::uint8_t, kMaxWorkers> chosen_{};  ///< The numbers of `workers_`.
  std::vector<Target> targets_;                     ///< Indexed by worker number.

  // The pause.
  unsigned round_ = 0;  ///< 0: none.
  std::uint64_t longest_pause_;
  std::uint64_t deadline_ = 0;
  std::vector<fabric::RingMark> rings_;
  std::size_t passed_ = 0;   ///< The first of `rings_` that have passed in this round.
  std::uint64_t loops_ = 0;  ///< Grace period that began when all had passed.
  rte_rcu_qsbr* rcu_;
};

}  // namespace ipoib::fwd
