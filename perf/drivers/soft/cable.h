// SPDX-License-Identifier: BSD-3-Clause
// The cable between two software HCAs: two ethdevs, each of which receives the other's frames.
#pragma once

#include <cstdint>

#include "tests/support/ring_device.h"

namespace ipoib::perf {

/// A program has one Cable.
struct Cable {
  static constexpr std::uint16_t kLid[2] = {1, 2};  ///< LIDs of the HCAs at its ends.

  rte_mempool* pool;
  rte_mempool* share_pool;
  rte_ring* towards[2];
  std::uint16_t port[2];

  static Cable& get() {
    static Cable cable = make();
    return cable;
  }
  /// Frees the frames on the cable.
  void empty() const {
    for (rte_ring* ring : towards) {
      test::empty(ring);
    }
  }

 private:
  static Cable make() {
    constexpr std::uint16_t kDataRoom = 4352 + RTE_PKTMBUF_HEADROOM;
    Cable c{};
    c.pool = rte_pktmbuf_pool_create("connected", 16'383, 256, 0, kDataRoom, SOCKET_ID_ANY);
    c.share_pool = rte_pktmbuf_pool_create("shares", 4095, 256, 0, 0, SOCKET_ID_ANY);
    for (int side : {0, 1})
      c.towards[side] = rte_ring_create(side == 0 ? "to0" : "to1", 2048, SOCKET_ID_ANY,
                                        RING_F_SP_ENQ | RING_F_SC_DEQ);
    for (int side : {0, 1})
      c.port[side] = test::start_ring_port(side == 0 ? "pair0" : "pair1", c.towards[side],
                                           c.towards[1 - side], c.pool, 512);
    return c;
  }
};

}  // namespace ipoib::perf
