// SPDX-License-Identifier: BSD-3-Clause
// Two workers with queue pairs of one software HCA send to each other through the port, while
// management publishes new tables. No packet is lost. Then they do so by connections that management
// makes and destroys meanwhile.
#include <rte_rcu_qsbr.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>

#include "tests/support/soft_fixture.h"
#include "tests/threads/worker_thread.h"

namespace ipoib::soft {
namespace {

class WorkersOfAPort : public SoftFixture {
 protected:
  static constexpr unsigned kPackets = 48;

  void SetUp() override {
    SoftFixture::SetUp();
    ASSERT_EQ(rte_rcu_qsbr_init(rcu_.get(), 2), 0);
    SoftHcaConfig c = config(0);
    c.port_id = WideCable::get().port;
    c.rx_queues = c.workers = c.readers = 2;
    c.qsbr = rcu_.get();
    node_ = make_node(c);
    queues_ = {node_.queue,
               node_.hca->create_ud_queue({.worker = 1, .first = node_.queue}).value()};
    ASSERT_TRUE(node_.hca->set_qkey(*queues_[1], kQkey));
    own_ = ah_to(node_, kLid[0]);
  }
  void TearDown() override {
    node_.hca.reset();
    SoftFixture::TearDown();
  }
  /// Sends packets to the queue pair of the other worker.
  void pass_on(unsigned from, std::span<rte_mbuf*> pkts) {
    for (rte_mbuf* m : pkts)
      fabric::meta_of(m).tx = {
          .ah = own_, .qpn = queues_[1 - from]->qpn(), .iface = 0, .connected = false};
    const auto n = static_cast<std::uint16_t>(pkts.size());
    EXPECT_EQ(queues_[from]->tx_burst(pkts.data(), n), n);
  }
  /// A loop of a worker: what it receives it sends back.
  void loop(unsigned worker) {
    node_.poll(worker);
    std::array<rte_mbuf*, 32> pkts;
    const std::uint16_t n = queues_[worker]->rx_burst(pkts.data(), pkts.size());
    for (std::uint16_t i = 0; i < n; ++i)
      EXPECT_EQ(fabric::meta_of(pkts[i]).rx.src_qpn, queues_[1 - worker]->qpn());
    if (n != 0) pass_on(worker, {pkts.data(), n});
    passed_[worker].fetch_add(n, std::memory_order_relaxed);
  }

  struct Free {
    void operator()(rte_rcu_qsbr* rcu) const { std::free(rcu); }
  };
  std::unique_ptr<rte_rcu_qsbr, Free> rcu_{static_cast<rte_rcu_qsbr*>(
      std::aligned_alloc(RTE_CACHE_LINE_SIZE, rte_rcu_qsbr_get_memsize(2)))};
  Node node_;
  std::array<fabric::UdQueue*, 2> queues_{};
  fabric::AhIndex own_ = 0;
  std::array<std::atomic<std::uint64_t>, 2> passed_{};
};

TEST_F(WorkersOfAPort, P14_PassPacketsToEachOtherWithoutLoss) {
  std::array<rte_mbuf*, kPackets> pkts;
  for (rte_mbuf*& m : pkts) m = packet(counting(100), own_, 0);
  pass_on(0, pkts);
  {
    ::ipoib::test::WorkerThread owner{rcu_.get(), ::ipoib::test::WorkerThread::kLoops,
                                      [this] { loop(0); }};
    ::ipoib::test::WorkerThread other{rcu_.get(), ::ipoib::test::WorkerThread::kLoops,
                                      [this] { loop(1); }, 1};
    while (!owner.is_over() || !other.is_over()) {
      EXPECT_TRUE(node_.hca->change_port({.pkeys = std::vector{wire::kDefaultPkey}}));
      for (unsigned i = 0; i < 2; ++i)
        if (passed_[i].load(std::memory_order_relaxed) > 10 * kPackets)
          (i == 0 ? owner : other).tell_of_change();
    }
  }
  EXPECT_EQ(node_.all_drops(), 0U);
  std::size_t left = 0;
  for (int i = 0; i < 4; ++i) {
    for (const unsigned worker : {0U, 1U}) node_.poll(worker);
    for (fabric::UdQueue* const queue : queues_)
      for (rte_mbuf* m : node_.receive(queue)) {
        EXPECT_EQ(bytes_of(m), counting(100));
        rte_pktmbuf_free(m);
        ++left;
      }
  }
  EXPECT_EQ(left, kPackets);
}

// Each worker reads a receive queue of the cable, with frames for both of them, and for a group that
// moves between their queue pairs. Nothing is lost.
TEST_F(WorkersOfAPort, P14_ReadersPassFramesWhileAGroupMoves) {
  const Node peer = make_node(1);
  const auto frame = [&peer](fabric::AhIndex ah, std::uint32_t qpn) {
    rte_mbuf* m = packet(counting(100), ah, qpn);
    EXPECT_EQ(peer.queue->tx_burst(&m, 1), 1);
    return on_cable(0).at(0);
  };
  const fabric::AhIndex unicast = ah_to(peer, kLid[0]);
  const std::array frames{frame(unicast, queues_[0]->qpn()), frame(unicast, queues_[1]->qpn()),
                          frame(group_ah(peer, broadcast_mgid(), kMlid), wire::kMulticastQpn)};
  ASSERT_TRUE(node_.hca->attach(*queues_[0], broadcast_mgid(), kMlid));
  // Packets are freed at the end: the sanitizer does not see the order that a mempool makes.
  constexpr unsigned kRounds = 200;
  struct Side {
    unsigned rounds = 0;
    std::vector<rte_mbuf*> pkts;
  };
  std::array<Side, 2> sides;
  std::atomic<std::uint64_t> sent{0}, unicasts{0};
  const auto work = [&](unsigned worker) {
    Side& side = sides[worker];
    // No ring overflows, whichever worker has no CPU.
    if (side.rounds < kRounds && sent < unicasts + 200) {
      ++side.rounds;
      sent += 2;
      for (const Bytes& octets : frames)
        EXPECT_EQ(rte_ring_sp_enqueue(WideCable::get().in[worker],
                                      test::mbuf_of(Cable::get().pool, octets)),
                  0);
    }
    node_.poll(worker);
    std::array<rte_mbuf*, 32> pkts;
    const std::uint16_t n = queues_[worker]->rx_burst(pkts.data(), pkts.size());
    side.pkts.insert(side.pkts.end(), pkts.begin(), pkts.begin() + n);
    for (std::uint16_t i = 0; i < n; ++i)
      if (!fabric::meta_of(pkts[i]).rx.multicast) ++unicasts;
  };
  std::uint64_t moves = 0;
  {
    ::ipoib::test::WorkerThread first{rcu_.get(), ::ipoib::test::WorkerThread::kLoops,
                                      [&] { work(0); }};
    ::ipoib::test::WorkerThread second{rcu_.get(), ::ipoib::test::WorkerThread::kLoops,
                                       [&] { work(1); }, 1};
    while (!first.is_over() || !second.is_over()) {
      const unsigned to = ++moves % 2;
      EXPECT_TRUE(node_.hca->attach(*queues_[to], broadcast_mgid(), kMlid));
      EXPECT_TRUE(node_.hca->detach(*queues_[1 - to], broadcast_mgid(), kMlid));
      if (unicasts < 4 * kRounds) continue;
      first.tell_of_change();
      second.tell_of_change();
    }
  }
  for (int i = 0; i < 100; ++i)
    for (const unsigned worker : {0U, 1U}) work(worker);
  EXPECT_EQ(unicasts, 4 * kRounds);
  std::size_t multicasts = 0;
  for (const Side& side : sides)
    for (rte_mbuf* m : side.pkts) {
      EXPECT_EQ(bytes_of(m), counting(100));
      multicasts += fabric::meta_of(m).rx.multicast ? 1 : 0;
      rte_pktmbuf_free(m);
    }
  EXPECT_GE(multicasts, 2 * kRounds) << "those on their way while the group moves may come twice";
  EXPECT_GT(moves, 2U);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(WorkersOfAPort, P14_ConnectionsBetweenThemComeAndGoUnderTraffic) {
  SoftHca& hca = *node_.hca;
  const std::array messages{hca.create_receive_queue({.worker = 0}).value(),
                            hca.create_receive_queue({.worker = 1}).value()};
  using Ends = std::array<fabric::ConnectedQueue*, 2>;  // of worker 0 and worker 1
  const auto connect = [&] {
    const Ends ends{hca.create_connected_queue({.receive_queue = messages[0]}).value(),
                    hca.create_connected_queue({.receive_queue = messages[1]}).value()};
    for (std::size_t i = 0; i < 2; ++i) {
      fabric::ReadyToReceive attr{.peer_qpn = ends[1 - i]->qpn()};
      attr.path.dlid = kLid[0];
      EXPECT_TRUE(hca.set_ready_to_receive(*ends[i], attr));
      EXPECT_TRUE(hca.set_ready_to_send(*ends[i], {}));
    }
    return ends;
  };
  std::atomic<fabric::ConnectedQueue*> sends{nullptr};
  std::atomic<std::uint64_t> received{0};
  const auto work = [&](unsigned worker) {
    node_.poll(worker);
    std::array<rte_mbuf*, 32> pkts;
    const std::uint16_t n = messages[worker]->rx_burst(pkts.data(), pkts.size());
    for (std::uint16_t i = 0; i < n; ++i) {
      EXPECT_EQ(bytes_of(pkts[i]), counting(3000));
      rte_pktmbuf_free(pkts[i]);
    }
    received.fetch_add(n, std::memory_order_relaxed);
    fabric::ConnectedQueue* const queue = sends.load(std::memory_order_acquire);
    if (worker != 0 || queue == nullptr || mbufs_in_use() > Cable::kMbufs / 2) return;
    rte_mbuf* m = test::mbuf_of(Cable::get().pool, counting(3000), 1024);
    if (queue->tx_burst(&m, 1) == 0) rte_pktmbuf_free(m);
  };
  std::optional<Ends> before;
  {
    ::ipoib::test::WorkerThread owner{rcu_.get(), ::ipoib::test::WorkerThread::kLoops,
                                      [&] { work(0); }};
    ::ipoib::test::WorkerThread other{rcu_.get(), ::ipoib::test::WorkerThread::kLoops,
                                      [&] { work(1); }, 1};
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (std::uint64_t seen = 0; !owner.is_over() || !other.is_over();) {
      const Ends ends = connect();
      sends.store(ends[0], std::memory_order_release);
      rte_rcu_qsbr_synchronize(rcu_.get(), RTE_QSBR_THRID_INVALID);
      for (fabric::ConnectedQueue* const end : before.value_or(Ends{}))
        if (end != nullptr) hca.destroy_connected_queue(*end);
      before = ends;
      static_cast<void>(hca.next_queue_event());
      // Each connection delivers some messages, as long as both workers run.
      while (received.load(std::memory_order_relaxed) < seen + 20 && !owner.is_over() &&
             !other.is_over() && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
      seen = received.load(std::memory_order_relaxed);
      if (seen < 1000 && std::chrono::steady_clock::now() < limit) continue;
      owner.tell_of_change();
      other.tell_of_change();
    }
  }
  EXPECT_GE(received, 1000U);
  // Only the change of connections, and a worker without a CPU, lose frames.
  const DropTotals lost = hca.drops();
  EXPECT_EQ(node_.all_drops(), lost.get(Drop::kIbQpn) + lost.get(Drop::kIbTxFlushed) +
                                   lost.get(Drop::kIbQueueState) + lost.get(Drop::kIbNoBuffer) +
                                   lost.get(Drop::kIbDuplicate) + lost.get(Drop::kIbSequence));
}

}  // namespace
}  // namespace ipoib::soft
