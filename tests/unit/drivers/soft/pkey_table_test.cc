// SPDX-License-Identifier: BSD-3-Clause
// The P_Key table of a port is ordered again while packets are under way. A queue pair of the software
// HCA keeps its P_Key and no index, and table and queue pairs change in one step: no packet is lost.
#include <array>
#include <vector>

#include "tests/support/soft_fixture.h"
#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

using Table = std::vector<std::uint16_t>;

/// Tables of a full member of the default partition, in different orders.
const std::array<Table, 5> kTables{{{0x8001, 0xffff},
                                    {0xffff, 0x8001},
                                    {0x7fff, 0xffff},
                                    {0x8001, 0x8002, 0x8003, 0xffff},
                                    {0xffff}}};

using PkeyTable = SoftFixture;

TEST_F(PkeyTable, U36_DatagramsUnderWaySurviveAnOtherOrder) {
  const Node a = make_node(0), b = make_node(1);
  ASSERT_TRUE(a.hca->attach(*a.queue, broadcast_mgid(), kMlid));
  const fabric::AhIndex to_b = ah_to(a, kLid[1]), to_a = ah_to(b, kLid[0]),
                        to_group = group_ah(b, broadcast_mgid(), kMlid);
  std::size_t sent = 0, delivered = 0;
  const auto send = [&](const Node& from, fabric::AhIndex ah, std::uint32_t qpn) {
    for (unsigned i = 0; i < 4; ++i, ++sent) {
      rte_mbuf* m = packet(counting(100), ah, qpn);
      ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
    }
  };
  const auto send_all = [&] {
    send(a, to_b, b.queue->qpn());
    send(b, to_a, a.queue->qpn());
    send(b, to_group, wire::kMulticastQpn);
  };
  const auto take = [&](const Node& node) {
    for (rte_mbuf* m : node.receive()) {
      ++delivered;
      rte_pktmbuf_free(m);
    }
  };
  for (const Table& table : kTables) {
    send_all();
    a.poll(), b.poll();
    send_all();
    // Packets are in the queues of the queue pairs, and on the cable.
    ASSERT_TRUE(a.hca->change_port({.pkeys = table}));
    send_all();
    for (const Node* node : {&a, &b}) node->poll(), take(*node);
    EXPECT_EQ(delivered, sent);
  }
  EXPECT_EQ(a.all_drops() + b.all_drops(), 0U);

  ASSERT_TRUE(a.hca->change_port({.pkeys = Table{0x8001}}));
  send_all();
  for (const Node* node : {&a, &b}) node->poll(), take(*node);
  EXPECT_EQ(a.hca->drops().get(Drop::kIbPkey), 12U) << "the partition is gone";
  EXPECT_EQ(delivered + a.all_drops(), sent);
}

class PkeyTableConnected : public ConnectedFixture,
                           public testing::WithParamInterface<fabric::Transport> {};

TEST_P(PkeyTableConnected, U36_MessagesUnderWaySurviveAnOtherOrder) {
  connect({.transport = GetParam(), .receive = {.depth = 256}, .path_mtu = 2});
  std::size_t nb_sent = 0, nb_received = 0;
  for (int round = 0; round < 20; ++round)
    for (const Table& table : kTables) {
      for (int side : {0, 1}) {
        ASSERT_TRUE(send(side, pattern(static_cast<std::uint32_t>(nb_sent), 1500)));
        ++nb_sent;
      }
      if (round % 2 == 0) step();  // A part of the frames has arrived.
      ASSERT_TRUE(peers[round % 3 == 0].hca->change_port({.pkeys = table}));
      run(200);
      for (int side : {0, 1}) nb_received += receive(side).size();
      EXPECT_EQ(nb_received, nb_sent);
    }
  for (const Peer& peer : peers) {
    EXPECT_EQ(peer.all_drops(), 0U);
    EXPECT_EQ(peer.info().state, fabric::QueueState::kReadyToSend);
    EXPECT_EQ(peer.info().counters.tx_repeated, 0U);
    EXPECT_FALSE(peer.hca->next_queue_event());
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, PkeyTableConnected,
                         testing::Values(fabric::Transport::kRc, fabric::Transport::kUc),
                         [](const auto& way) { return std::string{to_string(way.param)}; });

}  // namespace
}  // namespace ipoib::soft
