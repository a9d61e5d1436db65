// SPDX-License-Identifier: BSD-3-Clause
// Keys of queue pairs change while packets of their groups are in progress.
#include <rte_rcu_qsbr.h>

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

constexpr std::uint32_t kOtherQkey = kQkey + 1;

/// A frame whose headers end before an unreadable page. The first read of that page, for the ICRC,
/// calls `on_touch` and makes the page readable.
class Tripwire {
 public:
  Tripwire(const Bytes& frame, std::size_t headers, std::function<void()> on_touch)
      : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))}, on_touch_{std::move(on_touch)} {
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::byte* const begin = memory_ + page_ - headers;
    std::memcpy(begin, frame.data(), frame.size());
    mbuf_ = rte_pktmbuf_alloc(Cable::get().pool);
    auto length = static_cast<std::uint16_t>(3 * page_);
    // The shared information occupies the end of the memory, in the last page.
    auto* const info = rte_pktmbuf_ext_shinfo_init_helper(
        memory_, &length, [](void*, void*) {}, nullptr);
    rte_pktmbuf_attach_extbuf(mbuf_, memory_, RTE_BAD_IOVA, length, info);
    mbuf_->data_off = static_cast<std::uint16_t>(begin - memory_);
    mbuf_->data_len = static_cast<std::uint16_t>(frame.size());
    mbuf_->pkt_len = mbuf_->data_len;
    armed_ = this;
    struct sigaction action {};
    action.sa_sigaction = &Tripwire::touched;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~Tripwire() {
    armed_ = nullptr;
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(memory_, 3 * page_);
  }
  Tripwire(const Tripwire&) = delete;
  Tripwire& operator=(const Tripwire&) = delete;

  [[nodiscard]] rte_mbuf* arm() {
    mprotect(memory_ + page_, page_, PROT_NONE);
    return mbuf_;
  }
  [[nodiscard]] unsigned touches() const { return touches_; }

 private:
  static void touched(int signal, siginfo_t* what, void* /*context*/) {
    Tripwire* const wire = armed_;
    const auto* at = static_cast<const std::byte*>(what->si_addr);
    if (wire == nullptr || at < wire->memory_ + wire->page_ ||
        at >= wire->memory_ + 2 * wire->page_) {
      std::signal(signal, SIG_DFL);  // Another fault: it repeats and ends the program.
      return;
    }
    mprotect(wire->memory_ + wire->page_, wire->page_, PROT_READ | PROT_WRITE);
    ++wire->touches_;
    wire->on_touch_();
  }

  static inline Tripwire* armed_ = nullptr;
  std::size_t page_;
  std::function<void()> on_touch_;
  std::byte* memory_;
  rte_mbuf* mbuf_;
  unsigned touches_ = 0;
  struct sigaction before_ {};
};

class KeyFlip : public SoftFixture {
 protected:
  void start(const SoftHcaConfig& config) {
    node_ = make_node(config);
    second_ = node_.hca->create_ud_queue({}).value();
    for (fabric::UdQueue* queue : {node_.queue, second_})
      EXPECT_TRUE(node_.hca->attach(*queue, broadcast_mgid(), kMlid));
    set(second_, kQkey);
    peer_ = make_node(1);
    rte_mbuf* m = packet(counting(1000), group_ah(peer_, broadcast_mgid(), kMlid), 0xff'ffff);
    EXPECT_EQ(peer_.queue->tx_burst(&m, 1), 1);
    frame_ = on_cable(0).at(0);
  }
  void set(fabric::UdQueue* queue, std::uint32_t qkey) const {
    EXPECT_TRUE(node_.hca->set_qkey(*queue, qkey));
  }
  /// Polls the frame. `change` happens while its ICRC is computed.
  void poll_with(const std::function<void()>& change) {
    Tripwire wire{frame_, kGlobalHeadLen + sizeof(UdWords), change};
    ASSERT_EQ(rte_ring_enqueue(Cable::get().towards[0], wire.arm()), 0);
    node_.poll();
    touches_ += wire.touches();
    for (fabric::UdQueue* queue : {node_.queue, second_}) got_.push_back(take(queue));
  }
  /// Receives and frees all packets of the queue.
  std::size_t take(fabric::UdQueue* queue) const {
    const auto pkts = node_.receive(queue);
    for (rte_mbuf* m : pkts) rte_pktmbuf_free(m);
    return pkts.size();
  }

  Node node_;
  Node peer_;
  fabric::UdQueue* second_ = nullptr;
  Bytes frame_;
  std::vector<std::size_t> got_;  ///< Packets received by each queue.
  unsigned touches_ = 0;
};

using Got = std::vector<std::size_t>;

TEST_F(KeyFlip, U36_PacketThatWasLetInIsDeliveredAlthoughNobodyHasItsKeyAnyMore) {
  start(config(0));
  poll_with([&] {
    for (fabric::UdQueue* queue : {node_.queue, second_}) set(queue, kOtherQkey);
  });
  EXPECT_EQ(touches_, 1U);
  EXPECT_EQ(got_, (Got{1, 1}));
  poll_with([] {});
  EXPECT_EQ(touches_, 1U) << "the next one is not let in";
  EXPECT_EQ(got_, (Got{1, 1, 0, 0}));
  EXPECT_EQ(node_.hca->drops().get(Drop::kIbQkey), 1U);
  EXPECT_EQ(node_.all_drops(), 1U);
}

TEST_F(KeyFlip, U36_PacketGoesToWhoHadItsKeyWhenItWasChecked) {
  start(config(0));
  set(second_, kOtherQkey);
  poll_with([&] {
    set(node_.queue, kOtherQkey);
    set(second_, kQkey);
  });
  EXPECT_EQ(got_, (Got{1, 0}));
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(KeyFlip, PartitionThatGoesDuringTheChecks) {
  start(config(0));
  poll_with([&] {
    for (fabric::UdQueue* queue : {node_.queue, second_})
      static_cast<SoftUdQueue*>(queue)->set_pkey(0);
  });
  EXPECT_EQ(got_, (Got{1, 1}));
  EXPECT_EQ(node_.all_drops(), 0U);
}

// A management thread changes every attribute that decides on the receivers of a multicast packet,
// while a worker receives. Each packet ends in a queue or under a drop reason.
TEST_F(KeyFlip, U36_EveryPacketHasOneEndWhileKeysGroupsAndPortChange) {
  constexpr unsigned kRounds = 3000;
  constexpr unsigned kMaxRounds = 100 * kRounds;  // On a busy machine the worker may begin late.
  struct Free {
    void operator()(rte_rcu_qsbr* qsbr) const { std::free(qsbr); }
  };
  const std::unique_ptr<rte_rcu_qsbr, Free> qsbr{static_cast<rte_rcu_qsbr*>(
      std::aligned_alloc(RTE_CACHE_LINE_SIZE, rte_rcu_qsbr_get_memsize(1)))};
  ASSERT_EQ(rte_rcu_qsbr_init(qsbr.get(), 1), 0);
  SoftHcaConfig shared = config(0);
  shared.qsbr = qsbr.get();
  start(shared);
  rte_rcu_qsbr_thread_register(qsbr.get(), 0);
  rte_rcu_qsbr_thread_online(qsbr.get(), 0);

  std::atomic<bool> over{false}, has_received{false};
  std::thread management{[&] {
    SoftHca& hca = *node_.hca;
    for (unsigned i = 0; i < kRounds || (!has_received && i < kMaxRounds); ++i) {
      for (fabric::UdQueue* queue : {node_.queue, second_}) set(queue, kOtherQkey);
      for (fabric::UdQueue* queue : {node_.queue, second_}) set(queue, kQkey);
      EXPECT_TRUE(hca.change_port({.pkeys = std::vector<std::uint16_t>{0x8001}}));
      EXPECT_TRUE(hca.change_port({.pkeys = std::vector<std::uint16_t>{wire::kDefaultPkey}}));
      EXPECT_TRUE(hca.change_port({.up = false}));
      EXPECT_TRUE(hca.change_port({.up = true}));
      EXPECT_TRUE(hca.detach(*second_, broadcast_mgid(), kMlid));
      EXPECT_TRUE(hca.attach(*second_, broadcast_mgid(), kMlid));
    }
    over = true;
  }};
  std::uint64_t received = 0;
  std::uint64_t of_second = 0;
  std::uint64_t put = 0;
  while (!over) {
    for (int i = 0; i < 16; ++i, ++put) put_on_cable(0, frame_);
    node_.poll();
    received += take(node_.queue);
    of_second += take(second_);
    if (received > 0) has_received = true;
    rte_rcu_qsbr_quiescent(qsbr.get(), 0);
  }
  rte_rcu_qsbr_thread_offline(qsbr.get(), 0);
  management.join();
  EXPECT_GT(received + of_second, 0U);
  // A packet is in both queues, in one queue, or counted as a drop.
  EXPECT_GE(received + of_second + node_.all_drops(), put);
  EXPECT_LE(std::max(received, of_second) + node_.all_drops(), put);
}

}  // namespace
}  // namespace ipoib::soft
