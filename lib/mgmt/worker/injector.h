// SPDX-License-Identifier: BSD-3-Clause
// Packets that management sends through the worker that owns the interface: those of this node, and
// those that have waited for their neighbour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/counters.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/mgmt/worker/worker_set.h"

struct rte_mbuf;
struct rte_mempool;

namespace ipoib::mgmt {

/// Pools for packets of this node.
struct InjectBuffers {
  rte_mempool* pool = nullptr;
  rte_mempool* reserve = nullptr;  ///< For short packets when `pool` is empty.
};

/// Management lcore only.
class Injector {
 public:
  Injector(InterfaceTable& interfaces, WorkerSet& workers, const InjectBuffers& buffers)
      : interfaces_{interfaces}, workers_{workers}, buffers_{buffers} {}

  /// Sends a whole IP packet of this node on the interface, to a neighbour or group there.
  void send_on_interface(table::InterfaceId iface, std::span<const std::byte> packet);
  /// Sends octets unchanged on an interface: on a link from the IPoIB header on, to `ah` and `qpn`;
  /// on a port from the Ethernet header on.
  void send_raw(table::InterfaceId iface, fabric::AhIndex ah, std::uint32_t qpn,
                std::span<const std::byte> frame);
  /// Sends an IP packet of this node by its route, or on the interface `by` if it is to a group or
  /// a link-local address. `by`: ingress of the packet that it answers; null: none.
  void send_own(rte_mbuf* m, const InterfaceSlot* by);
  /// Sends a copy of the packet like that. Returns false if there are no mbufs, which it counts.
  bool send_own(std::span<const std::byte> packet, InterfaceSlot* by);
  /// Sends a packet that Linux sent on the mirror of `by`: there, or by its route. An ICMP error about
  /// it has `by` as its ingress.
  void send_of_linux(std::span<const std::byte> packet, InterfaceSlot& by, bool on_interface);
  /// Counts a frame of Linux that is not sent.
  void drop_of_linux(InterfaceSlot& by, Drop reason) {
    ++originated_;
    by.drops.add(reason);
  }
  /// Sends a packet that has waited for its neighbour.
  void send_held(rte_mbuf* m);

  /// Packets of this node, echo replies included: given to workers, or dropped for lack of mbufs.
  [[nodiscard]] std::uint64_t originated() const { return originated_; }
  /// Packets without an mbuf that belong to no interface. Others are among the drops of their
  /// interface: the one of their egress, or of the packet that they answer.
  [[nodiscard]] const DropCounters& drops() const { return drops_; }

 private:
  void give_to_worker(rte_mbuf* m, const InterfaceSlot* by);
  rte_mbuf* copy(std::span<const std::byte> octets, DropCounters& drops);

  InterfaceTable& interfaces_;
  WorkerSet& workers_;
  InjectBuffers buffers_;
  std::uint64_t originated_ = 0;
  DropCounters drops_;
};

}  // namespace ipoib::mgmt
