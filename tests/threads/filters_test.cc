// SPDX-License-Identifier: BSD-3-Clause
// A worker forwards packets while management replaces its filters. Each packet is decided by one of the
// two lists, at ingress and at egress by the same, and none is lost.
#include <rte_ring.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "lib/fabric/grace.h"
#include "lib/fwd/filter/filter_table.h"
#include "tests/support/worker_fixture.h"
#include "tests/threads/ring_ud_queue.h"

namespace ipoib::fwd::test {
namespace {

class FilterThreads : public WorkerFixture {
 protected:
  static constexpr unsigned kPackets = 20'000;
  static constexpr std::uint16_t kDropped =
      0x0203;  ///< Destination port of Ip4 with first_payload 0.

  void SetUp() override {
    WorkerFixture::SetUp();
    settings.redirects = false;
    settings.idle = IdlePolicy::kSleep;
    queue_.in = rte_ring_create("filters_in", 128, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    queue_.out = rte_ring_create("filters_out", 4096, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    configs[0].queues = queues_of_owner(entries, 0);
    configs[0].queues[kIb0].ud = &queue_;
    start();
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    loop();
  }
  void TearDown() override {
    settings.filters = nullptr;
    WorkerFixture::TearDown();
    rte_ring_free(queue_.in);
    rte_ring_free(queue_.out);
  }
  bool offer(bool dropped) {
    rte_mbuf* const m = mbuf(
        to_link(Ip4{.src = "10.0.0.3", .first_payload = static_cast<std::uint8_t>(dropped ? 0 : 7)}
                    .bytes()));
    fabric::meta_of(m).rx = {};
    if (rte_ring_sp_enqueue(queue_.in, m) == 0) return true;
    rte_pktmbuf_free(m);
    return false;
  }
  void collect() {
    void* m = nullptr;
    for (; rte_ring_sc_dequeue(queue_.out, &m) == 0; ++sent_)
      rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
  }
  /// One list drops when packets arrive, the other one when they leave.
  std::unique_ptr<FilterTable> made(FilterDirection direction) const {
    const FilterRule accept{.direction = direction == FilterDirection::kIn ? FilterDirection::kOut
                                                                           : FilterDirection::kIn,
                            .action = FilterAction::kAccept};
    const FilterRule drop{
        .direction = direction, .protocol = 17, .destination_ports = PortRange{kDropped, kDropped}};
    auto table = FilterTable::create(
        std::vector<NumberedRule>{{table::kNoInterface, accept}, {table::kNoInterface, drop}},
        {.interfaces = entries.size()});
    EXPECT_TRUE(table);
    return std::move(*table);
  }

  RingUdQueue queue_;
  std::uint64_t sent_ = 0;
};

TEST_F(FilterThreads, P23_EachPacketIsDecidedByOneListWhileListsAreReplaced) {
  std::unique_ptr<FilterTable> active = made(FilterDirection::kIn);
  settings.filters = active.get();
  std::thread thread{[&w = worker()] { w.run(); }};
  const fabric::Grace grace{rcu};
  std::uint64_t dropped = 0, counted = 0;
  unsigned replaced = 0;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (unsigned fed = 0; fed < kPackets && std::chrono::steady_clock::now() < limit;) {
    const bool drop = fed % 2 == 0;
    if (offer(drop)) {
      ++fed;
      dropped += drop ? 1 : 0;
    } else {
      std::this_thread::yield();
    }
    if (fed % 64 == 0) {
      auto next = made(replaced++ % 2 == 0 ? FilterDirection::kOut : FilterDirection::kIn);
      settings.filters.store(next.get(), std::memory_order_release);
      const auto old = std::exchange(active, std::move(next));
      // Unlike wait(), these are compiled here, where the thread sanitizer sees them.
      for (const auto token = grace.start(); !grace.over(token);) std::this_thread::yield();
      counted += old->packets(1);
    }
    collect();
  }
  const auto filtered = [this] { return drops(kIb0, Drop::kIpFilter); };
  while (sent_ + filtered() < kPackets && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
    collect();
  }
  worker().stop();
  thread.join();
  collect();
  EXPECT_EQ(filtered(), dropped);
  EXPECT_EQ(counted + active->packets(1), dropped);
  EXPECT_EQ(sent_, kPackets - dropped);
  EXPECT_EQ(all_drops(), dropped);
  EXPECT_GT(replaced, 100U);
}

}  // namespace
}  // namespace ipoib::fwd::test
