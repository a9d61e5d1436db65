// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <rte_ring.h>

#include <cstdint>

#include "lib/fabric/hca.h"

namespace ipoib::fwd::test {

/// A queue of which both ends are rings. That of incoming packets may be missing.
class RingUdQueue final : public fabric::UdQueue {
 public:
  RingUdQueue() : UdQueue{0x123, &receive, &send, nullptr} {}

  rte_ring* in = nullptr;
  rte_ring* out = nullptr;

 private:
  static std::uint16_t receive(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    rte_ring* const in = static_cast<RingUdQueue&>(queue).in;
    if (in == nullptr) return 0;
    return static_cast<std::uint16_t>(
        rte_ring_sc_dequeue_burst(in, reinterpret_cast<void**>(pkts), n, nullptr));
  }
  static std::uint16_t send(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    return static_cast<std::uint16_t>(rte_ring_sp_enqueue_burst(
        static_cast<RingUdQueue&>(queue).out, reinterpret_cast<void* const*>(pkts), n, nullptr));
  }
};

}  // namespace ipoib::fwd::test
