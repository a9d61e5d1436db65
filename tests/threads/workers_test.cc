// SPDX-License-Identifier: BSD-3-Clause
// Two workers with queue pairs of one software HCA send to each other through the port, while
// management publishes new tables. No packet is lost.
#include <rte_rcu_qsbr.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>

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
    c.rx_queues = c.workers = 2;
    c.qsbr = rcu_.get();
    node_ = make_node(c);
    queues_ = {node_.queue, node_.hca->create_ud_queue({.worker = 1}).value()};
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
    if (worker == 0) node_.poll();
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
    node_.poll();
    for (fabric::UdQueue* const queue : queues_)
      for (rte_mbuf* m : node_.receive(queue)) {
        EXPECT_EQ(bytes_of(m), counting(100));
        rte_pktmbuf_free(m);
        ++left;
      }
  }
  EXPECT_EQ(left, kPackets);
}

}  // namespace
}  // namespace ipoib::soft
