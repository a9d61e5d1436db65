// SPDX-License-Identifier: BSD-3-Clause
// Connected queue pairs of several workers on one software HCA. Worker 0 reads the cable, and passes
// frames to the workers of their queue pairs.
#include <algorithm>
#include <array>
#include <set>

#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

constexpr unsigned kWorkers = 3;

class ConnectedWorkers : public ConnectedFixture {
 protected:
  /// Gives each side a connected queue of that worker, which send() and receive() use.
  void start(unsigned worker, fabric::Transport transport = fabric::Transport::kRc) {
    clear();
    make_hcas(kWorkers);
    connect({.transport = transport, .receive = {.worker = worker}});
  }
  /// Replaces the queues of both sides by new ones of that worker. The old ones stay.
  void add(unsigned worker) {
    for (Peer& peer : peers) peer.rx = nullptr;
    connect({.receive = {.worker = worker}});
  }
  void expect_exchange(std::uint32_t n, std::size_t len) {
    for (std::uint32_t i = 0; i < n; ++i)
      for (int side : {0, 1}) ASSERT_TRUE(send(side, pattern(i, len + i)));
    std::array<std::vector<Bytes>, 2> got;
    ASSERT_TRUE(run([&] {
      for (int side : {0, 1})
        for (Bytes& m : receive(side)) got[static_cast<std::size_t>(side)].push_back(std::move(m));
      return std::ranges::all_of(got, [n](const auto& messages) { return messages.size() == n; }) &&
             peers[0].info().counters.tx_done == n && peers[1].info().counters.tx_done == n;
    }));
    for (const auto& messages : got)
      for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(messages[i], pattern(i, len + i)) << i;
  }
};

TEST_F(ConnectedWorkers, P14_EachWorkerHasConnections) {
  for (const auto transport : {fabric::Transport::kRc, fabric::Transport::kUc})
    for (unsigned worker = 0; worker < kWorkers; ++worker) {
      SCOPED_TRACE(worker);
      start(worker, transport);
      expect_exchange(20, 100);
      for (const Peer& peer : peers) EXPECT_EQ(peer.all_drops(), 0U);
    }
}

TEST_F(ConnectedWorkers, P14_LongMessagesOfAWorker) {
  start(2);
  expect_exchange(12, 65'000);
  EXPECT_EQ(peers[0].all_drops() + peers[1].all_drops(), 0U);
}

TEST_F(ConnectedWorkers, P14_OnlyTheWorkerOfAConnectionReceivesIt) {
  start(1);
  ASSERT_TRUE(send(0, pattern(2, 500)));
  rte_mbuf* const frame = sent_frame(0);
  ASSERT_NE(frame, nullptr);
  put(1, test::take(frame));
  for (const unsigned other : {0U, 2U, 0U}) peers[1].poll(other);
  EXPECT_TRUE(receive(1).empty()) << "worker 1 has not looped";
  peers[1].poll(1);
  EXPECT_EQ(receive(1).size(), 1U);
}

TEST_F(ConnectedWorkers, P14_MessagesArriveOnceAndInOrderInSpiteOfFaults) {
  constexpr std::uint32_t kMessages = 32;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    start(static_cast<unsigned>(seed % kWorkers));
    random.seed(seed);
    faults = {.loss = 0.01, .repetition = 0.01, .reordering = 0.01};
    for (std::uint32_t i = 0; i < kMessages; ++i) ASSERT_TRUE(send(0, pattern(i, 3000)));
    std::vector<Bytes> got;
    ASSERT_TRUE(run([&] {
      for (Bytes& m : receive(1)) got.push_back(std::move(m));
      return peers[0].info().counters.tx_done == kMessages;
    }));
    ASSERT_EQ(got.size(), kMessages);
    for (std::uint32_t i = 0; i < kMessages; ++i) ASSERT_EQ(got[i], pattern(i, 3000)) << i;
    faults = {};
  }
}

// Its frames fill its ring and are counted. The connection of another worker does not notice.
TEST_F(ConnectedWorkers, P14_WorkerThatHangsLosesOnlyItsOwnFrames) {
  start(1);
  const Peer hung = {nullptr, peers[1].rx, peers[1].queue};
  ASSERT_TRUE(send(0, pattern(1, 500)));
  rte_mbuf* const frame = sent_frame(0);
  ASSERT_NE(frame, nullptr);
  const Bytes octets = test::take(frame);
  add(2);
  constexpr unsigned kRing = SoftHcaConfig::kRingPlaces - 1, kMore = 100;
  for (unsigned i = 0; i < kRing + kMore; ++i) {
    put(1, octets);
    peers[1].poll(0);
  }
  EXPECT_EQ(peers[1].drops(Drop::kIbNoBuffer), kMore);
  const auto poll_others = [this] {
    for (const unsigned worker : {0U, 2U}) peers[1].poll(worker);
  };
  ASSERT_TRUE(send(0, pattern(2, 500)));
  while (rte_mbuf* const m = sent_frame(0)) put(1, test::take(m));
  poll_others();
  EXPECT_EQ(receive(1).size(), 1U);

  // It takes them as soon as it loops again. They repeat one message.
  for (unsigned i = 0; i < 2 * kRing; ++i) peers[1].poll(1);
  rte_mbuf* m = nullptr;
  ASSERT_EQ(hung.rx->rx_burst(&m, 1), 1);
  EXPECT_EQ(test::take(m), pattern(1, 500));
  EXPECT_EQ(hung.rx->rx_burst(&m, 1), 0);
}

// The ring between a worker and the owner is in the way of frames to the own port.
TEST_F(ConnectedWorkers, P14_ConnectionBetweenWorkersOfOnePort) {
  for (const auto& [from, to] : {std::pair{1U, 2U}, {0U, 2U}, {2U, 0U}, {1U, 1U}}) {
    SCOPED_TRACE(testing::Message() << from << " to " << to);
    clear();
    make_hcas(kWorkers);
    SoftHca& hca = *peers[0].hca;
    std::array<fabric::ReceiveQueue*, 2> rx{};
    std::array<fabric::ConnectedQueue*, 2> queues{};
    for (std::size_t end = 0; end < 2; ++end) {
      rx[end] = hca.create_receive_queue({.worker = end == 0 ? from : to}).value();
      queues[end] = hca.create_connected_queue({.receive_queue = rx[end]}).value();
    }
    for (std::size_t end = 0; end < 2; ++end) {
      fabric::ReadyToReceive attr{.peer_qpn = queues[1 - end]->qpn()};
      attr.path.dlid = kPeerLid[0];
      ASSERT_TRUE(hca.set_ready_to_receive(*queues[end], attr));
      ASSERT_TRUE(hca.set_ready_to_send(*queues[end], {}));
    }
    rte_mbuf* m = message(pattern(3, 5000));
    ASSERT_EQ(queues[0]->tx_burst(&m, 1), 1);
    m = nullptr;
    ASSERT_TRUE(run([&] { return rx[1]->rx_burst(&m, 1) == 1; }, 100));
    EXPECT_EQ(test::take(m), pattern(3, 5000));
    EXPECT_TRUE(run([&] { return hca.info(*queues[0]).counters.tx_done == 1; }, 100));
    EXPECT_EQ(peers[0].all_drops(), 0U);
  }
}

TEST_F(ConnectedWorkers, P14_EventsOfEveryWorkerReachManagement) {
  start(1);
  fabric::ConnectedQueue* const first = peers[0].queue;
  add(2);
  std::set<std::uint32_t> failing{first->qpn(), peers[0].queue->qpn()};
  for (fabric::ConnectedQueue* const queue : {first, peers[0].queue}) {
    rte_mbuf* m = message(pattern(1, 100));
    ASSERT_EQ(queue->tx_burst(&m, 1), 1);
  }
  // No frame arrives, and the retries end.
  for (int i = 0; i < 100'000 && !failing.empty(); ++i) {
    peers[0].poll();
    while (rte_mbuf* const frame = sent_frame(0)) rte_pktmbuf_free(frame);
    sim_tsc += kStepTsc;
    if (!peers[0].hca->queue_events_pending()) continue;
    const auto event = peers[0].hca->next_queue_event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, fabric::QueueEvent::Kind::kError);
    EXPECT_EQ(failing.erase(event->qpn), 1U);
  }
  EXPECT_TRUE(failing.empty());
}

TEST_F(ConnectedWorkers, P14_WorkerThatHangsDelaysTheReleaseOfItsOwnQueuesOnly) {
  start(1);
  fabric::ConnectedQueue& first = *peers[0].queue;
  add(2);
  SoftHca& hca = *peers[0].hca;
  ASSERT_EQ(hca.address_handles(), 2U);
  hca.destroy_connected_queue(first);
  hca.destroy_connected_queue(*peers[0].queue);
  peers[0].poll(2);
  (void)hca.next_queue_event();
  EXPECT_EQ(hca.address_handles(), 1U);
  peers[0].poll(1);
  (void)hca.next_queue_event();
  EXPECT_EQ(hca.address_handles(), 0U);
}

// The next queue at the same place belongs to another worker. Frames to the old queue pair are
// dropped there, and the place's first worker drops those that it still had in its ring.
TEST_F(ConnectedWorkers, P14_PlaceOfAnotherWorkersQueueIsUsedAgain) {
  start(1);
  ASSERT_TRUE(send(0, pattern(1, 500)));
  rte_mbuf* const frame = sent_frame(0);
  ASSERT_NE(frame, nullptr);
  const Bytes to_old = test::take(frame);
  put(1, to_old);
  peers[1].poll(0);  // It is in the ring of worker 1.
  const std::uint32_t old_qpn = peers[1].queue->qpn();
  SoftHca& hca = *peers[1].hca;
  hca.destroy_connected_queue(*peers[1].queue);
  peers[1].poll(1);
  (void)hca.next_queue_event();
  EXPECT_EQ(peers[1].drops(Drop::kIbQpn), 1U);

  fabric::ReceiveQueue* const rx = hca.create_receive_queue({.worker = 2}).value();
  fabric::ConnectedQueue* const next = hca.create_connected_queue({.receive_queue = rx}).value();
  ASSERT_EQ(next->qpn() % ConnectedTable::kCapacity, old_qpn % ConnectedTable::kCapacity);
  ASSERT_NE(next->qpn(), old_qpn);
  put(1, to_old);
  for (int i = 0; i < 3; ++i) peers[1].poll();
  EXPECT_EQ(peers[1].drops(Drop::kIbQpn), 2U);
  EXPECT_EQ(peers[1].all_drops(), 2U);
}

TEST_F(ConnectedWorkers, P14_ReceiveQueueOfAWorkerWithoutQueuesIsRefused) {
  make_hcas(kWorkers);
  const auto refused = peers[0].hca->create_receive_queue({.worker = kWorkers});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(refused.error().what, "soft0: receive queue for worker 3, but 3 have queue pairs");
}

}  // namespace
}  // namespace ipoib::soft
