// SPDX-License-Identifier: BSD-3-Clause
// The queues of connected mode as a worker sees them.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lib/fabric/connected.h"
#include "tests/support/mbufs.h"
#include "tests/support/packets.h"

namespace ipoib::fwd::test {

class FakeReceiveQueue final : public fabric::ReceiveQueue {
 public:
  FakeReceiveQueue() : ReceiveQueue{&receive} {}

  std::deque<rte_mbuf*> incoming;

 private:
  static std::uint16_t receive(ReceiveQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    auto& incoming = static_cast<FakeReceiveQueue&>(queue).incoming;
    std::uint16_t taken = 0;
    for (; taken < n && !incoming.empty(); incoming.pop_front()) pkts[taken++] = incoming.front();
    return taken;
  }
};

class FakeConnectedQueue final : public fabric::ConnectedQueue {
 public:
  explicit FakeConnectedQueue(std::uint32_t qpn)
      : ConnectedQueue{qpn, fabric::Transport::kRc, &send} {}

  std::size_t room = 1000;              ///< Packets that it still accepts.
  std::uint32_t longest = 0xffff'ffff;  ///< Octets; it accepts longer packets and loses them.
  std::vector<std::uint16_t> bursts;
  Frames sent;

 private:
  static std::uint16_t send(ConnectedQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    auto& self = static_cast<FakeConnectedQueue&>(queue);
    self.bursts.push_back(n);
    std::uint16_t taken = 0;
    for (; taken < n && self.room != 0; ++taken, --self.room) {
      if (pkts[taken]->pkt_len > self.longest) {
        self.tx_lost_.add(pkts[taken]->pkt_len);
        rte_pktmbuf_free(pkts[taken]);
        continue;
      }
      self.sent.push_back(ipoib::test::take(pkts[taken]));
    }
    return taken;
  }
};

}  // namespace ipoib::fwd::test
