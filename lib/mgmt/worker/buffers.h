// SPDX-License-Identifier: BSD-3-Clause
// The memory of all packets: a pool of mbufs on each NUMA node where a worker runs, and a reserve
// that keeps the control plane running when the pools are empty.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/mgmt/worker/placement.h"

struct rte_mempool;

namespace ipoib::mgmt {

struct MempoolDeleter {
  void operator()(rte_mempool* pool) const;
};
using Mempool = std::unique_ptr<rte_mempool, MempoolDeleter>;

class Buffers {
 public:
  /// `mbuf_size`: octets, headroom included. `reserve`: number of mbufs in the reserve. The pool of
  /// a NUMA node without memory is allocated on another one. `prefix`: first part of the pools'
  /// names, which are EAL-wide. Errors: kNoResources.
  static Result<Buffers> create(std::span<const PoolPlan> plan, unsigned mbuf_size,
                                unsigned reserve, int management_socket,
                                std::string_view prefix = "ipoib_");

  /// The pool for devices that a worker on that NUMA node polls and sends to.
  [[nodiscard]] rte_mempool* on(int socket) const;
  /// mbufs without a buffer, for frames that share the buffers of messages. Null: no worker on that
  /// NUMA node sends such frames.
  [[nodiscard]] rte_mempool* shares(int socket) const;
  /// mbufs of 2,048 octets for ARP, neighbour discovery, MADs, ICMP errors and acknowledgements.
  [[nodiscard]] rte_mempool* reserve() const { return reserve_.get(); }

  /// mbufs of all pools except the reserve.
  [[nodiscard]] unsigned size() const;
  [[nodiscard]] unsigned available() const;
  /// Octets of an mbuf for packet and headroom.
  [[nodiscard]] unsigned data_room() const;

 private:
  struct Pool {
    int socket;
    Mempool pool;
    Mempool shares;  ///< Null: none planned.
  };
  [[nodiscard]] const Pool& at(int socket) const;

  std::vector<Pool> pools_;
  Mempool reserve_;
};

}  // namespace ipoib::mgmt
