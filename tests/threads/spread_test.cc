// SPDX-License-Identifier: BSD-3-Clause
// Three workers share the packets of one while management changes which of them do. Each packet
// leaves once.
#include <rte_ring.h>

#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/worker_fixture.h"
#include "tests/threads/ring_ud_queue.h"

namespace ipoib::fwd::test {
namespace {

class SpreadThreads : public WorkerFixture {
 protected:
  static constexpr unsigned kPackets = 20'000;

  void SetUp() override {
    WorkerFixture::SetUp();
    settings.redirects = false;
    settings.idle = IdlePolicy::kSleep;
    configs.resize(3);
    in_ = rte_ring_create("spread_in", 128, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    for (unsigned i = 0; i < 3; ++i) {
      configs[i].queues = queues_of_owner(entries, i);
      configs[i].queues[kIb0].ud = &queues_[i];
      const std::string name = "spread_out" + std::to_string(i);
      queues_[i].out =
          rte_ring_create(name.c_str(), 4096, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    }
    queues_[0].in = in_;
    start();
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    loop();
  }
  void TearDown() override {
    WorkerFixture::TearDown();
    rte_ring_free(in_);
    for (const RingUdQueue& queue : queues_) rte_ring_free(queue.out);
  }
  bool offer(std::uint8_t flow) {
    rte_mbuf* const m = mbuf(to_link(Ip4{.src = "10.0.0.3", .first_payload = flow}.bytes()));
    fabric::meta_of(m).rx = {};
    if (rte_ring_sp_enqueue(in_, m) == 0) return true;
    rte_pktmbuf_free(m);
    return false;
  }
  void collect() {
    for (const RingUdQueue& queue : queues_) {
      void* m = nullptr;
      for (; rte_ring_sc_dequeue(queue.out, &m) == 0; ++sent_)
        rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
    }
  }

  std::array<RingUdQueue, 3> queues_;
  rte_ring* in_ = nullptr;
  std::uint64_t sent_ = 0;
};

TEST_F(SpreadThreads, P14_EachPacketLeavesOnceWhileTheWorkersChange) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i) threads.emplace_back([&w = worker(i)] { w.run(); });
  std::mt19937 random{1};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (unsigned fed = 0; fed < kPackets && std::chrono::steady_clock::now() < limit;) {
    if (offer(static_cast<std::uint8_t>(random())))
      ++fed;
    else
      std::this_thread::yield();
    if (fed % 256 == 0) worker().spread_over(random() % 8);
    collect();
  }
  while (sent_ + all_drops() < kPackets && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
    collect();
  }
  for (std::size_t i = 0; i < 3; ++i) worker(i).stop();
  for (std::thread& thread : threads) thread.join();
  collect();
  EXPECT_EQ(sent_ + all_drops(), kPackets);
  EXPECT_GT(sent_, kPackets / 2);
  EXPECT_GT(worker().stats().handed_on.get(), kPackets / 10);
}

}  // namespace
}  // namespace ipoib::fwd::test
