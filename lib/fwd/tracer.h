// SPDX-License-Identifier: BSD-3-Clause
// The packet trace of one worker. While a trace runs, the worker follows the packets that match its
// filter from the receive call to the end of the loop, and each stage records its result.
// Packets keep their bursts, order and treatment.
//
// A stage asks active() once per burst, or where a packet leaves the common path; the functions
// that record are out of line. Packets are known by the addresses of their mbufs, so every function
// that frees or passes on an mbuf has a call here.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>

#include "lib/fwd/worker_config.h"
#include "lib/msg/trace_records.h"

namespace ipoib::fwd {

struct RoutedBurst;

/// Functions without a stated precondition may be called at any time, and do nothing for packets
/// that are not followed. `m` starts where the stage has it; its octets are read only by begin()
/// and entered().
class Tracer {
 public:
  explicit Tracer(const WorkerConfig& config);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Starts to record in `session`; null: stops. Shape: no packet is followed.
  void set(msg::trace::Session* session) noexcept;
  [[nodiscard]] bool armed() const noexcept { return session_ != nullptr; }
  /// True if any packet is followed.
  [[nodiscard]] bool active() const noexcept { return n_open_ != 0; }

  /// Follows the packets that match. They start at an Ethernet, IPoIB or IP header.
  enum class StartsAt : std::uint8_t { kEthernet, kIpoib, kIbarp, kIp };
  [[nodiscard]] static StartsAt link_header(const InterfaceEntry& entry) noexcept {
    if (entry.kind == InterfaceKind::kEthernet) return StartsAt::kEthernet;
    return entry.encapsulation == wire::Encapsulation::kTypeFirst ? StartsAt::kIpoib
                                                                  : StartsAt::kIbarp;
  }
  void begin(std::span<rte_mbuf* const> pkts, table::InterfaceId in, StartsAt header) noexcept {
    if (armed()) [[unlikely]]
      follow_matching(pkts, in, header);
  }
  /// Publishes the records of all packets that were followed. The worker has sent all packets.
  void end_loop() noexcept {
    if (active()) [[unlikely]]
      publish();
  }

  // Steps. Each function checks active().
  void entered(std::span<rte_mbuf* const> pkts, msg::trace::Stage stage,
               bool over_connection = false) noexcept {
    if (active()) [[unlikely]]
      add_entered(pkts, stage, over_connection);
  }
  /// `to`: destination. `neighbour`: null if there is none, or if the next hop needs none.
  void routed(const rte_mbuf* m, const wire::IpAddr& to, const table::NextHop& hop,
              const table::Neighbour* neighbour) noexcept {
    if (active()) [[unlikely]]
      add_routed(m, to, hop, neighbour);
  }
  void resolved(const RoutedBurst& pkts) noexcept {
    if (active()) [[unlikely]]
      add_resolved(pkts);
  }
  void delivered(const rte_mbuf* m, bool local, std::uint64_t out) noexcept {
    if (active()) [[unlikely]]
      add(m, msg::trace::Delivered{local, out});
  }
  /// GRO merged packets of `before`; `after` has the results.
  void merged(const RoutedBurst& before, const RoutedBurst& after) noexcept {
    if (active()) [[unlikely]]
      add_merged(before, after);
  }
  /// `pieces` of `m` leave in its place. Call discarded(m) after the last ones.
  void cut(const rte_mbuf* m, std::span<rte_mbuf* const> pieces, bool tcp,
           std::uint16_t mtu) noexcept {
    if (active()) [[unlikely]]
      add_cut(m, pieces, tcp, mtu);
  }
  /// From here on, `copy` is followed separately; both share a record.
  void copied(const rte_mbuf* m, const rte_mbuf* copy) noexcept {
    if (active()) [[unlikely]]
      follow_copy(m, copy);
  }
  /// The mbuf is freed. Copies or pieces of its packet are still followed.
  void discarded(const rte_mbuf* m) noexcept {
    if (active()) [[unlikely]]
      forget(m);
  }

  // Steps at which the packet leaves.
  void dropped(const rte_mbuf* m, Drop reason) noexcept {
    if (active()) [[unlikely]]
      add_dropped(m, reason, true);
  }
  /// Like dropped(), but the mbuf is still used: for an ICMP error, or because a copy of it failed.
  void counted_as(const rte_mbuf* m, Drop reason) noexcept {
    if (active()) [[unlikely]]
      add_dropped(m, reason, false);
  }
  void punted(const msg::Up& message) noexcept {
    if (active()) [[unlikely]]
      add_punted(message);
  }
  void consumed(std::span<rte_mbuf* const> pkts) noexcept {
    if (active()) [[unlikely]]
      add_consumed(pkts);
  }
  /// A burst is about to be passed to a device or another worker (PacketMeta::tx then names the
  /// interface of each packet). left() must follow.
  void leaving(std::span<rte_mbuf* const> pkts, bool handoff) noexcept {
    if (active()) [[unlikely]]
      note_leaving(pkts, handoff);
  }
  struct Departure {
    table::InterfaceId iface = table::kNoInterface;  ///< Unset for a handoff.
    table::NeighbourMode mode = table::NeighbourMode::kEthernet;
    bool handoff = false;
    std::uint8_t worker = 0;         ///< The destination of a handoff.
    std::uint16_t taken = 0;         ///< Packets taken, from the front.
    std::uint16_t lost = 0;          ///< Part of `taken`.
    Drop unsent = Drop::kEthTxFull;  ///< Reason of the others.
  };
  void left(const Departure& departure) noexcept {
    if (active()) [[unlikely]]
      add_left(departure);
  }

 private:
  struct Memory;

  [[gnu::cold]] void follow_matching(std::span<rte_mbuf* const> pkts, table::InterfaceId in,
                                     StartsAt header) noexcept;
  [[gnu::cold]] void publish() noexcept;
  [[gnu::cold]] void add_entered(std::span<rte_mbuf* const> pkts, msg::trace::Stage stage,
                                 bool over_connection) noexcept;
  [[gnu::cold]] void add_routed(const rte_mbuf* m, const wire::IpAddr& to,
                                const table::NextHop& hop,
                                const table::Neighbour* neighbour) noexcept;
  [[gnu::cold]] void add_resolved(const RoutedBurst& pkts) noexcept;
  [[gnu::cold]] void add_merged(const RoutedBurst& before, const RoutedBurst& after) noexcept;
  [[gnu::cold]] void add_cut(const rte_mbuf* m, std::span<rte_mbuf* const> pieces, bool tcp,
                             std::uint16_t mtu) noexcept;
  [[gnu::cold]] void follow_copy(const rte_mbuf* m, const rte_mbuf* copy) noexcept;
  [[gnu::cold]] void forget(const rte_mbuf* m) noexcept;
  [[gnu::cold]] void leave(const rte_mbuf* m, const msg::trace::Step& step) noexcept;
  [[gnu::cold]] void add(const rte_mbuf* m, const msg::trace::Step& step) noexcept;
  /// The step is made here, so that the stages that drop need no stack for it.
  [[gnu::cold]] void add_dropped(const rte_mbuf* m, Drop reason, bool leaves) noexcept;
  [[gnu::cold]] void add_punted(const msg::Up& message) noexcept;
  [[gnu::cold]] void add_consumed(std::span<rte_mbuf* const> pkts) noexcept;
  [[gnu::cold]] void note_leaving(std::span<rte_mbuf* const> pkts, bool handoff) noexcept;
  [[gnu::cold]] void add_left(const Departure& departure) noexcept;

  [[nodiscard]] msg::trace::Record* find(const rte_mbuf* m) noexcept;
  bool follow(const rte_mbuf* m, std::uint16_t record) noexcept;

  msg::trace::Session* session_ = nullptr;
  std::uint32_t n_open_ = 0;  ///< Packets that are followed.
  std::uint8_t worker_;
  std::uint64_t (*tsc_)() noexcept;
  std::unique_ptr<Memory> memory_;
};

}  // namespace ipoib::fwd
