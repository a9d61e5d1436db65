// SPDX-License-Identifier: BSD-3-Clause
// Packets that workers pass up and packets that management sends: ARP, local delivery, ICMP errors,
// packets that wait for their neighbour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/mgmt/interface_table.h"
#include "lib/mgmt/worker_set.h"
#include "lib/route/icmp.h"
#include "lib/route/icmp6.h"
#include "lib/route/multicast_router.h"

struct rte_mbuf;
struct rte_mempool;

namespace ipoib::mgmt {

struct PuntCounters {
  std::uint64_t arp = 0, nd = 0, local = 0, membership = 0, neighbour_wanted = 0;
  std::uint64_t multicast_unknown = 0, redirect_wanted = 0;
  std::uint64_t answered = 0;    ///< Of the local ones: echo requests that went out as replies.
  std::uint64_t originated = 0;  ///< Packets of this node given to workers, these replies included.
  std::uint64_t icmp_sent = 0;
  std::uint64_t icmp_suppressed = 0;  ///< Errors not sent: limited, not allowed, or to this node.
  std::uint64_t no_mbuf = 0;          ///< Own packets that found no mbuf.
};

/// Where Punt takes mbufs from, and how many it may let wait.
struct PuntBuffers {
  rte_mempool* pool = nullptr;
  rte_mempool* reserve = nullptr;  ///< For short packets of this node when `pool` is empty.
  std::size_t max_held = 0;        ///< mbufs of packets that wait for their neighbours, in all.
};

/// Management lcore only.
class Punt {
 public:
  Punt(InterfaceTable& interfaces, WorkerSet& workers, const PuntBuffers& buffers)
      : interfaces_{interfaces}, workers_{workers}, buffers_{buffers} {}

  /// Who takes IGMP and MLD; outlives the last call of handle().
  void set_multicast(route::MulticastRouter& router) { multicast_ = &router; }
  /// The time of whatever is handled until the next call.
  void set_now(TimePoint now) { now_ = now; }

  /// Takes over the message's mbuf. One that names no interface is lost under kLocalFromSelf.
  void handle(const msg::Up& message);

  /// Packets on their way to one interface hold, this one with them, more mbufs than are left for
  /// others: however many wait on one, another has room.
  [[nodiscard]] bool crowded(rte_mbuf* m) const;
  /// A held packet goes on: its neighbour is known now.
  void send_routed(rte_mbuf* m);
  /// A held packet is given up. Where `unreachable`, its sender is told.
  void drop_held(rte_mbuf* m, Drop reason, bool unreachable);

  /// Sends a whole IP packet of this node on the interface, to a neighbour or group there.
  void send_on(table::InterfaceId iface, std::span<const std::byte> packet);
  /// Sends octets as they are on an interface: from the IPoIB header on, with where they go, or
  /// from the Ethernet header on.
  void send_raw(table::InterfaceId iface, fabric::AhIndex ah, std::uint32_t qpn,
                std::span<const std::byte> frame);

  [[nodiscard]] const PuntCounters& counters() const { return counters_; }
  /// mbufs of packets that wait for their neighbours.
  [[nodiscard]] std::size_t held() const { return held_; }
  /// Packets lost here that came by no interface.
  [[nodiscard]] const DropCounters& drops() const { return drops_; }

 private:
  void deliver_local(rte_mbuf* m, InterfaceSlot& in);
  std::span<std::byte> in_one_piece(rte_mbuf* m);
  bool answer4(rte_mbuf* m, std::span<std::byte> packet, InterfaceSlot& in);
  bool answer6(rte_mbuf* m, std::span<std::byte> packet, InterfaceSlot& in);
  void send_answer(rte_mbuf* m, std::span<const std::byte> answer, InterfaceSlot& in);
  void redirect(rte_mbuf* m, const wire::IpAddr& next_hop, InterfaceSlot& in);
  void redirect4(std::span<const std::byte> packet, const wire::IpAddr& next_hop,
                 InterfaceSlot& in);
  /// A packet waits no longer.
  InterfaceSlot& let_go(rte_mbuf* m);
  [[nodiscard]] bool is_own(const wire::IpAddr& addr) const;
  void tell_sender(rte_mbuf* offending, table::InterfaceId in, const route::IcmpError& error);
  void tell_sender4(std::span<const std::byte> offending, InterfaceSlot* in,
                    const route::IcmpError& error);
  void tell_sender6(std::span<const std::byte> offending, InterfaceSlot* in,
                    const route::Icmp6Error& error);
  void send_own(rte_mbuf* m, const InterfaceSlot* by);
  rte_mbuf* copy(std::span<const std::byte> octets);

  InterfaceTable& interfaces_;
  WorkerSet& workers_;
  PuntBuffers buffers_;
  std::size_t held_ = 0;          ///< mbufs; sum over all interfaces.
  std::vector<std::byte> whole_;  ///< Of in_one_piece().
  route::MulticastRouter* multicast_ = nullptr;
  route::IcmpLimiter limiter_;
  route::IcmpLimiter limiter6_;
  PuntCounters counters_;
  DropCounters drops_;
  TimePoint now_{};
};

}  // namespace ipoib::mgmt
