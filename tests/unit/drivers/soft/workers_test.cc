// SPDX-License-Identifier: BSD-3-Clause
// Several workers on one software HCA: each has a UD queue and a transmit queue of the cable, and
// worker 0 reads the cable's receive queues for all.
#include <rte_cycles.h>

#include <array>

#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

std::uint64_t constant_tsc() noexcept {
  return 1'000'000;
}

class SoftWorkers : public SoftFixture {
 protected:
  static SoftHcaConfig wide() {
    SoftHcaConfig c = config(0);
    c.port_id = WideCable::get().port;
    c.rx_queues = c.workers = 2;
    return c;
  }
  void SetUp() override {
    SoftFixture::SetUp();
    make(wide());
  }
  void TearDown() override {
    node_.hca.reset();
    for (std::size_t q = 0; q < 2; ++q) (void)sent(q);
    SoftFixture::TearDown();
  }
  void make(const SoftHcaConfig& config) {
    node_.hca.reset();
    node_ = make_node(config);
    other_ = node_.hca->create_ud_queue({.worker = 1, .first = node_.queue}).value();
    ASSERT_TRUE(node_.hca->set_qkey(*other_, kQkey));
  }
  static std::vector<Bytes> sent(std::size_t queue) {
    return test::take_all(WideCable::get().out[queue]);
  }
  /// Puts a frame of the peer to a queue pair on a receive queue of the cable.
  void arrive_on(std::size_t cable_queue, std::uint32_t qpn, std::size_t n = 1) {
    const Node peer = make_node(1);
    const fabric::AhIndex ah = ah_to(peer, kLid[0]);
    for (std::size_t i = 0; i < n; ++i) {
      rte_mbuf* m = packet(counting(40), ah, qpn);
      ASSERT_EQ(peer.queue->tx_burst(&m, 1), 1);
      const auto frame = on_cable(0);
      ASSERT_EQ(frame.size(), 1U);
      ASSERT_EQ(rte_ring_enqueue(WideCable::get().in[cable_queue],
                                 test::mbuf_of(Cable::get().pool, frame[0])),
                0);
    }
  }
  std::size_t received(fabric::UdQueue* queue) {
    const auto pkts = node_.receive(queue);
    for (rte_mbuf* m : pkts) rte_pktmbuf_free(m);
    return pkts.size();
  }
  [[nodiscard]] std::uint64_t drops(Drop reason) const { return node_.hca->drops().get(reason); }
  static std::uint32_t source_qpn(const Bytes& frame) {
    return wire::read<UdWords>(frame, kLocalHeadLen)->src_qp();
  }

  Node node_;
  fabric::UdQueue* other_ = nullptr;  ///< Worker 1's.
};

TEST_F(SoftWorkers, P14_EachSendsByATransmitQueueOfItsOwn) {
  const fabric::AhIndex ah = ah_to(node_, kLid[1]);
  rte_mbuf* m = packet(counting(40), ah, 9);
  ASSERT_EQ(other_->tx_burst(&m, 1), 1);
  auto frames = sent(1);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(source_qpn(frames[0]), other_->qpn());
  EXPECT_TRUE(sent(0).empty());

  m = packet(counting(40), ah, 9);
  ASSERT_EQ(node_.queue->tx_burst(&m, 1), 1);
  frames = sent(0);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(source_qpn(frames[0]), node_.queue->qpn());
  EXPECT_TRUE(sent(1).empty());
}

TEST_F(SoftWorkers, P14_OwnerSortsForAllFromEveryReceiveQueue) {
  for (std::size_t cable_queue = 0; cable_queue < 2; ++cable_queue) {
    arrive_on(cable_queue, other_->qpn());
    arrive_on(cable_queue, node_.queue->qpn());
    for (int i = 0; i < 2; ++i) node_.poll();  // it reads one receive queue at a time
    EXPECT_EQ(received(other_), 1U) << cable_queue;
    EXPECT_EQ(received(node_.queue), 1U) << cable_queue;
  }
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftWorkers, P14_WorkerThatTakesNothingLosesOnlyItsOwnPackets) {
  for (std::size_t i = 0; i < 4; ++i) {
    arrive_on(0, other_->qpn(), 100);
    for (int polls = 0; polls < 6; ++polls) node_.poll();
  }
  EXPECT_EQ(drops(Drop::kIbNoBuffer), 400U - SoftUdQueue::kRxRingSize);
  arrive_on(0, node_.queue->qpn());
  for (int polls = 0; polls < 2; ++polls) node_.poll();
  EXPECT_EQ(received(node_.queue), 1U);
  EXPECT_EQ(received(other_), SoftUdQueue::kRxRingSize);
}

TEST_F(SoftWorkers, P14_PacketsToTheOwnPortGoThroughTheOwner) {
  const fabric::AhIndex ah = ah_to(node_, kLid[0]);
  const auto send = [&](std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      rte_mbuf* m = packet(counting(40), ah, node_.queue->qpn());
      ASSERT_EQ(other_->tx_burst(&m, 1), 1);
    }
  };
  send(1);
  EXPECT_EQ(received(node_.queue), 0U);
  node_.poll();
  EXPECT_EQ(received(node_.queue), 1U);
  EXPECT_TRUE(sent(1).empty());

  send(300);
  EXPECT_EQ(drops(Drop::kIbNoBuffer), 300U - SoftUdQueue::kRxRingSize) << "the owner does not poll";
}

TEST_F(SoftWorkers, P14_MulticastOfOneWorkerGoesToOtherLinksOfThePort) {
  const fabric::AhIndex group = group_ah(node_, broadcast_mgid(), kMlid);
  const auto send = [&] {
    rte_mbuf* m = packet(counting(40), group, wire::kMulticastQpn);
    ASSERT_EQ(other_->tx_burst(&m, 1), 1);
    EXPECT_EQ(sent(1).size(), 1U);
    node_.poll();
  };
  ASSERT_TRUE(node_.hca->attach(*node_.queue, broadcast_mgid(), kMlid));
  send();
  EXPECT_EQ(received(node_.queue), 0U) << "it is of the same link";

  fabric::UdQueue* const link = node_.hca->create_ud_queue({}).value();
  ASSERT_TRUE(node_.hca->set_qkey(*link, kQkey));
  ASSERT_TRUE(node_.hca->attach(*link, broadcast_mgid(), kMlid));
  send();
  const auto pkts = node_.receive(link);
  ASSERT_EQ(pkts.size(), 1U);
  EXPECT_EQ(fabric::meta_of(pkts[0]).rx.src_qpn, other_->qpn());
  rte_pktmbuf_free(pkts[0]);
  static_cast<void>(received(node_.queue));
  EXPECT_EQ(node_.all_drops(), 0U);
}

/// The group's packets from the cable go to the worker whose queue pair is attached, and packets of
/// the link's other queue pair do not return.
TEST_F(SoftWorkers, P14_GroupsOfOneQueuePairGoToItsWorker) {
  ASSERT_TRUE(node_.hca->attach(*other_, broadcast_mgid(), kMlid));
  const Node peer = make_node(1);
  rte_mbuf* m = packet(counting(40), group_ah(peer, broadcast_mgid(), kMlid), wire::kMulticastQpn);
  ASSERT_EQ(peer.queue->tx_burst(&m, 1), 1);
  ASSERT_EQ(
      rte_ring_enqueue(WideCable::get().in[0], test::mbuf_of(Cable::get().pool, on_cable(0).at(0))),
      0);
  node_.poll();
  EXPECT_EQ(received(node_.queue), 0U);
  EXPECT_EQ(received(other_), 1U);

  // Without and with another link in the partition, whose copy goes another way.
  fabric::UdQueue* link = nullptr;
  for (const bool two_links : {false, true}) {
    if (two_links) {
      link = node_.hca->create_ud_queue({}).value();
      ASSERT_TRUE(node_.hca->set_qkey(*link, kQkey));
      ASSERT_TRUE(node_.hca->attach(*link, broadcast_mgid(), kMlid));
    }
    m = packet(counting(40), group_ah(node_, broadcast_mgid(), kMlid), wire::kMulticastQpn);
    ASSERT_EQ(node_.queue->tx_burst(&m, 1), 1);
    EXPECT_EQ(sent(0).size(), 1U);
    node_.poll();
    EXPECT_EQ(received(other_), 0U) << "it is of the same link";
  }
  EXPECT_EQ(received(link), 1U);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftWorkers, U22_EachQueuePairKeepsToTheRateByItself) {
  SoftHcaConfig c = wide();
  c.tsc = &constant_tsc;
  c.tsc_hz = 2'000'000'000;
  make(c);
  fabric::AhAttr slow;
  slow.dlid = kLid[1];
  slow.rate = 2;  // 2.5 Gb/s: a burst of 312,500 octets
  const fabric::AhIndex ah = node_.hca->create_ah(slow).value();
  const auto send = [&](fabric::UdQueue& queue, std::size_t cable_queue) {
    std::size_t n = 0;
    for (int i = 0; i < 200; ++i) {
      rte_mbuf* m = packet(counting(2040), ah, 9);
      EXPECT_EQ(queue.tx_burst(&m, 1), 1);
      n += sent(cable_queue).size();
    }
    return n;
  };
  const std::size_t first = send(*node_.queue, 0);
  EXPECT_LT(first, 200U);
  EXPECT_EQ(send(*other_, 1), first);
  EXPECT_EQ(drops(Drop::kIbRateLimited), 2 * (200 - first));
}

TEST_F(SoftWorkers, P14_DestroyedQueueDropsItsPacketsByName) {
  arrive_on(0, other_->qpn(), 3);
  node_.poll();
  node_.hca->destroy_ud_queue(*other_);
  EXPECT_EQ(drops(Drop::kIbQpn), 3U);
}

// TearDown() expects that no mbuf is lost.
TEST_F(SoftWorkers, P14_EndFreesAllThatWaits) {
  arrive_on(0, other_->qpn());
  node_.poll();
  rte_mbuf* m = packet(counting(40), ah_to(node_, kLid[0]), node_.queue->qpn());
  ASSERT_EQ(other_->tx_burst(&m, 1), 1);
  node_.hca.reset();
}

TEST_F(SoftWorkers, P14_WorkersWithoutATransmitQueueAreRefused) {
  EXPECT_EQ(node_.hca->capabilities().max_workers, 2);
  EXPECT_EQ(node_.hca->create_ud_queue({.worker = 2}).error().what,
            "soft0: queue pair for worker 2, but 2 have some");
  SoftHcaConfig c = wide();
  c.workers = 3;
  const auto refused = SoftHca::create(c);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what,
            fmt::format("soft0: 2 receive queues and 3 workers, but ethdev {} has 2 receive and 2 "
                        "transmit queues",
                        c.port_id));
}

}  // namespace
}  // namespace ipoib::soft
