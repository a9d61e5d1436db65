// SPDX-License-Identifier: BSD-3-Clause
// Rings between two threads: messages between a worker and management in both directions, and
// packets that one worker hands over to another, also when a thread stops while messages are under
// way.
//
// Mbufs go back to the thread that allocated them, because the sanitizer does not see
// inside of the mempool's library.
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/mgmt/worker/worker_channel.h"
#include "tests/support/mbufs.h"
#include "tests/support/worker_fixture.h"
#include "tests/threads/worker_thread.h"

namespace ipoib::fwd::test {
namespace {

/// Carries mbufs back to the thread that frees them.
class WayBack {
 public:
  explicit WayBack(const char* name)
      : ring_{rte_ring_create(name, 2048, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ)} {}
  ~WayBack() {
    free_all();
    rte_ring_free(ring_);
  }
  WayBack(const WayBack&) = delete;
  WayBack& operator=(const WayBack&) = delete;

  /// It has room for all mbufs of a WorkerFixture.
  void put(rte_mbuf* m) { EXPECT_EQ(rte_ring_sp_enqueue(ring_, m), 0); }
  void free_all() { ipoib::test::empty(ring_); }

 private:
  rte_ring* ring_;
};

class Rings : public WorkerFixture {
 protected:
  using WorkerThread = ::ipoib::test::WorkerThread;

  /// Receives as many ARP packets as a worker may punt, and some more.
  void punt() {
    back_.free_all();
    for (unsigned i = 0; i < 4; ++i) receive(kEth0, ethernet(mac(0xa0), mac(0x10), 0x0806, arp_));
    received_ += 4;
    worker().iterate();
  }
  /// Management takes what there is.
  void take_punted() {
    std::array<msg::Up, 32> messages;
    const unsigned n = rte_ring_sc_dequeue_burst_elem(up[0], messages.data(), sizeof(msg::Up),
                                                      messages.size(), nullptr);
    for (unsigned i = 0; i < n; ++i) {
      EXPECT_EQ(messages[i].kind, msg::Up::Kind::kArp);
      EXPECT_EQ(messages[i].iface, kEth0);
      EXPECT_EQ(messages[i].mbuf->pkt_len, arp_.size());
      EXPECT_EQ(std::to_integer<int>(*rte_pktmbuf_mtod(messages[i].mbuf, std::byte*)), 0x5a);
      back_.put(messages[i].mbuf);
    }
    punted_ += n;
  }

  /// Starts worker 0 with eth0 and worker 1 with ib0.
  void start_two() {
    configs.resize(2);
    entries[kIb0].owner = 1;
    start();
    set_neighbour(7, ib_neighbour(kIb0, "10.0.0.2", 3, 0x77));
    add_route("172.16.0.0/16", {table::NextHopKind::kGateway, 0, kIb0, 7});
    loop();
  }
  void hand_over() {
    back_.free_all();
    for (unsigned i = 0; i < 4; ++i)
      receive(kEth0, to_eth0(Ip4{.dst = "172.16.0.9", .id = next_id_++}.bytes()));
    received_ += 4;
    worker(0).iterate();
  }
  /// The packets come in the order in which they were sent; some may be lost on the way.
  void take_over() {
    links[0].room = 1000;
    links[0].tx_bursts.clear();
    worker(1).iterate();
    for (rte_mbuf* m : links[0].sent) {
      const auto* const ip = rte_pktmbuf_mtod_offset(m, const wire::Ipv4Hdr*, 4);
      EXPECT_LT(static_cast<std::int16_t>(last_id_ - ip->id.host()), 0);
      last_id_ = ip->id.host();
      back_.put(m);
    }
    sent_ += links[0].sent.size();
    links[0].sent.clear();
  }

  /// Each packet arrived or is counted.
  void expect_all_accounted(std::uint64_t arrived) {
    EXPECT_GE(received_, 4U * WorkerThread::kLoops);
    EXPECT_GT(arrived, 0U);
    EXPECT_EQ(arrived + all_drops(), received_);
  }
  void TearDown() override {
    back_.free_all();
    WorkerFixture::TearDown();
  }

  const Bytes arp_ = Bytes(28, std::byte{0x5a});
  WayBack back_{"way_back"};
  std::uint64_t received_ = 0, punted_ = 0, sent_ = 0;
  std::uint16_t next_id_ = 1, last_id_ = 0;
};

TEST_F(Rings, WorkerPuntsWhileManagementTakes) {
  start();
  WorkerThread worker{rcu, WorkerThread::kLoops, [this] { punt(); }};
  worker.tell_of_change();
  while (!worker.is_over()) take_punted();
  worker.join();
  for (std::uint64_t before = ~std::uint64_t{0}; before != punted_;) {
    before = punted_;
    take_punted();
  }
  expect_all_accounted(punted_);
}

// Management takes nothing any more while the worker goes on; the ring is full when both are done.
TEST_F(Rings, ManagementStopsWhileWorkerPunts) {
  start();
  WorkerThread worker{rcu, WorkerThread::kLoops, [this] { punt(); }};
  while (punted_ < 100) take_punted();
  worker.tell_of_change();
  worker.join();
  back_.free_all();
  punted_ += punted().size();
  EXPECT_GT(all_drops(), 0U);
  expect_all_accounted(punted_);
}

TEST_F(Rings, WorkersHandOver) {
  start_two();
  WorkerThread second{rcu, WorkerThread::kLoops, [this] { take_over(); }, 1};
  WorkerThread first{rcu, WorkerThread::kLoops, [this] { hand_over(); }};
  first.tell_of_change();
  first.join();
  second.tell_of_change();
  second.join();
  take_over();
  expect_all_accounted(sent_);
}

// The worker that takes ends first; the other's packets are counted, and those under way are left.
TEST_F(Rings, WorkerStopsWhileAnotherHandsOver) {
  start_two();
  WorkerThread first{rcu, WorkerThread::kLoops, [this] { hand_over(); }};
  {
    WorkerThread second{rcu, 20, [this] { take_over(); }, 1};
    second.tell_of_change();
  }
  first.tell_of_change();
  first.join();
  back_.free_all();
  take_over();
  take_over();
  EXPECT_GT(all_drops(), 0U);
  expect_all_accounted(sent_);
}

class Channel : public WorkerFixture {
 protected:
  using WorkerThread = ::ipoib::test::WorkerThread;

  void SetUp() override {
    WorkerFixture::SetUp();
    channel_ = std::move(*mgmt::WorkerChannel::create(0, SOCKET_ID_ANY, "threads_"));
  }
  void TearDown() override {
    channel_.reset();
    WorkerFixture::TearDown();
  }

  /// The worker's side: answers each message that it takes, or counts the answer as lost.
  void echo() {
    std::array<msg::Down, 32> messages;
    const unsigned n = rte_ring_sc_dequeue_burst_elem(channel_->down(), messages.data(),
                                                      sizeof(msg::Down), messages.size(), nullptr);
    for (unsigned i = 0; i < n; ++i) {
      EXPECT_EQ(messages[i].index, taken_++);
      msg::Up answer{};
      answer.mbuf = messages[i].mbuf;
      std::memcpy(answer.addr.bytes.data(), &messages[i].index, sizeof(messages[i].index));
      if (rte_ring_sp_enqueue_elem(channel_->up(), &answer, sizeof(answer)) == 0) continue;
      ++untold_;
      if (answer.mbuf != nullptr) kept_.push_back(answer.mbuf);
    }
  }
  void send(rte_mbuf* m = nullptr) {
    msg::Down message{};
    message.kind = msg::Down::Kind::kSendRouted;
    message.index = static_cast<table::NeighbourIndex>(channel_->sent());
    message.mbuf = m;
    channel_->send(message);
  }
  void hear() {
    std::array<msg::Up, 32> messages;
    const std::size_t n = channel_->receive(messages);
    for (std::size_t i = 0; i < n; ++i) {
      table::NeighbourIndex index = 0;
      std::memcpy(&index, messages[i].addr.bytes.data(), sizeof(index));
      EXPECT_GE(index, heard_next_);
      heard_next_ = index + 1;
    }
    heard_ += n;
  }

  std::unique_ptr<mgmt::WorkerChannel> channel_;
  std::uint64_t taken_ = 0, untold_ = 0, heard_ = 0;
  table::NeighbourIndex heard_next_ = 0;
  std::vector<rte_mbuf*> kept_;
};

// None is lost on the way down, through a backlog too; on the way up it is counted.
TEST_F(Channel, CarriesMessagesBothWays) {
  WorkerThread worker{rcu, WorkerThread::kLoops, [this] { echo(); }};
  while (!worker.is_over()) {
    for (unsigned i = 0; i < 64 && channel_->waiting() < 256; ++i) send();
    channel_->flush();
    hear();
    worker.tell_of_change();
  }
  worker.join();
  for (std::uint64_t before = ~std::uint64_t{0}; before != taken_ + heard_;) {
    before = taken_ + heard_;
    channel_->flush();
    echo();
    hear();
  }
  EXPECT_EQ(taken_, channel_->sent());
  EXPECT_EQ(heard_ + untold_, taken_);
  EXPECT_FALSE(channel_->has_messages());
}

// Packets are in the backlog and in both rings when the worker ends: drain() frees them.
TEST_F(Channel, WorkerStopsWhilePacketsAreUnderWay) {
  WorkerThread worker{rcu, 10, [this] { echo(); }};
  for (unsigned i = 0; i < 1500; ++i) {
    send(mbuf(Bytes(20)));
    worker.tell_of_change();
  }
  worker.join();
  channel_->drain();
  EXPECT_FALSE(channel_->has_messages());
  EXPECT_EQ(channel_->waiting(), 0U);
  for (rte_mbuf* m : kept_) rte_pktmbuf_free(m);
}

}  // namespace
}  // namespace ipoib::fwd::test
