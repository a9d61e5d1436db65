// SPDX-License-Identifier: BSD-3-Clause
// The cable between two software HCAs: two ethdevs, each of which receives the other's frames.
#pragma once

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <stdexcept>

namespace ipoib::perf {

/// A program has one Cable.
struct Cable {
  static constexpr std::uint16_t kLid[2] = {1, 2};  ///< LIDs of the HCAs at its ends.

  rte_mempool* pool;
  rte_ring* towards[2];
  std::uint16_t port[2];

  static Cable& get() {
    static Cable cable = make();
    return cable;
  }
  /// Frees the frames on the cable.
  void empty() const {
    for (rte_ring* ring : towards) {
      void* frame = nullptr;
      while (rte_ring_sc_dequeue(ring, &frame) == 0)
        rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
    }
  }

 private:
  static Cable make() {
    constexpr auto kAnySocket = static_cast<unsigned>(SOCKET_ID_ANY);
    constexpr std::uint16_t kDataRoom = 4352 + RTE_PKTMBUF_HEADROOM;
    Cable c{};
    c.pool = rte_pktmbuf_pool_create("connected", 16'383, 256, 0, kDataRoom, SOCKET_ID_ANY);
    for (int side : {0, 1})
      c.towards[side] = rte_ring_create(side == 0 ? "to0" : "to1", 2048, SOCKET_ID_ANY,
                                        RING_F_SP_ENQ | RING_F_SC_DEQ);
    for (int side : {0, 1}) {
      if (c.pool == nullptr || c.towards[side] == nullptr)
        throw std::runtime_error("no memory for the cable");
      const int port = rte_eth_from_rings(side == 0 ? "pair0" : "pair1", &c.towards[side], 1,
                                          &c.towards[1 - side], 1, 0);
      c.port[side] = static_cast<std::uint16_t>(port);
      const rte_eth_conf conf{};
      if (port < 0 || rte_eth_dev_configure(c.port[side], 1, 1, &conf) != 0 ||
          rte_eth_rx_queue_setup(c.port[side], 0, 512, kAnySocket, nullptr, c.pool) != 0 ||
          rte_eth_tx_queue_setup(c.port[side], 0, 512, kAnySocket, nullptr) != 0 ||
          rte_eth_dev_start(c.port[side]) != 0)
        throw std::runtime_error("the cable does not start");
    }
    return c;
  }
};

}  // namespace ipoib::perf
