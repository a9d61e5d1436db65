// SPDX-License-Identifier: BSD-3-Clause
// Management changes the keys of queue pairs and the port's P_Key table while workers send and
// receive. Each packet is delivered with keys that were valid, or counted once.
#include <rte_rcu_qsbr.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/soft_fixture.h"
#include "tests/threads/worker_thread.h"

namespace ipoib::soft {
namespace {

constexpr std::uint32_t kLoops = 2'000;
constexpr std::uint32_t kOtherQkey = kQkey + 1, kNoQkey = kQkey + 2;
constexpr std::uint16_t kFull = wire::kDefaultPkey, kLimited = 0x7fff, kNoPkey = 0x8002,
                        kOther = 0x8003;

/// Keys of the port and its queue pair, one set after the other.
struct Keys {
  std::uint32_t qkey;
  std::uint16_t pkey;  ///< The only entry of the port's table.
};
constexpr std::array<Keys, 6> kStates{{{kQkey, kFull},
                                       {kOtherQkey, kFull},
                                       {kOtherQkey, kLimited},
                                       {kQkey, kLimited},
                                       {kQkey, kNoPkey},
                                       {kOtherQkey, kNoPkey}}};

/// Returns the drop reason of a packet with the keys `packet` to a queue pair of the partition
/// kFull, or kCount if it is delivered.
Drop end_of(const Keys& packet, const Keys& port) {
  if (port.pkey == kNoPkey || !wire::pkeys_match(packet.pkey, port.pkey)) return Drop::kIbPkey;
  return packet.qkey == port.qkey ? Drop::kNone : Drop::kIbQkey;
}
bool ever_valid(const Keys& packet) {
  return std::any_of(kStates.begin(), kStates.end(),
                     [&](const Keys& port) { return end_of(packet, port) == Drop::kNone; });
}

/// A frame for each pair of keys, unicast and multicast. Its payload begins with its number.
struct Sample {
  Keys keys;
  Bytes frame;
};

class KeysUnderTraffic : public SoftFixture {
 protected:
  void SetUp() override {
    SoftFixture::SetUp();
    ASSERT_EQ(rte_rcu_qsbr_init(rcu_.get(), 2), 0);
    const auto node = [&](int side) {
      SoftHcaConfig shared = config(side);
      shared.qsbr = rcu_.get();
      return make_node(shared);
    };
    nodes_ = {node(0), node(1)};
    EXPECT_TRUE(node_.hca->attach(*node_.queue, broadcast_mgid(), kMlid));
  }

  void set(const Node& node, const Keys& keys) {
    EXPECT_TRUE(node.hca->set_qkey(*node.queue, keys.qkey));
    EXPECT_TRUE(node.hca->change_port({.pkeys = std::vector{keys.pkey}}));
  }

  void make_samples() {
    const fabric::AhIndex unicast = ah_to(peer_, kLid[0]);
    const fabric::AhIndex multicast = group_ah(peer_, broadcast_mgid(), kMlid);
    for (const bool to_group : {false, true})
      for (const std::uint32_t qkey : {kQkey, kOtherQkey, kNoQkey})
        for (const std::uint16_t pkey : {kFull, kLimited, kNoPkey}) {
          Bytes payload = counting(100);
          payload[0] = static_cast<std::byte>(samples_.size());
          rte_mbuf* m = packet(payload, to_group ? multicast : unicast,
                               to_group ? wire::kMulticastQpn : node_.queue->qpn());
          ASSERT_EQ(peer_.queue->tx_burst(&m, 1), 1);
          Bytes frame = on_cable(0).at(0);
          auto* ud = reinterpret_cast<UdWords*>(frame.data() +
                                                (to_group ? kGlobalHeadLen : kLocalHeadLen));
          ud->op_flags_pkey = wire::Be32{(ud->op_flags_pkey.host() & 0xffff'0000) | pkey};
          ud->qkey = wire::Be32{qkey};
          seal(frame);
          samples_.push_back({{qkey, pkey}, std::move(frame)});
        }
  }

  /// Puts every sample on the cable and polls. Returns the number of deliveries of each.
  std::vector<unsigned> receive_samples() {
    for (const Sample& sample : samples_) put_on_cable(0, sample.frame);
    node_.poll();
    std::vector<unsigned> delivered(samples_.size());
    for (rte_mbuf* m : node_.receive()) {
      ++delivered.at(static_cast<std::size_t>(*rte_pktmbuf_mtod(m, std::uint8_t*)));
      rte_pktmbuf_free(m);
    }
    return delivered;
  }
  static std::uint64_t lost(const Node& node, Drop reason) { return node.hca->drops().get(reason); }

  struct Free {
    void operator()(rte_rcu_qsbr* rcu) const { std::free(rcu); }
  };
  std::unique_ptr<rte_rcu_qsbr, Free> rcu_{static_cast<rte_rcu_qsbr*>(
      std::aligned_alloc(RTE_CACHE_LINE_SIZE, rte_rcu_qsbr_get_memsize(2)))};
  std::array<Node, 2> nodes_;
  Node& node_ = nodes_[0];
  Node& peer_ = nodes_[1];
  std::vector<Sample> samples_;
};

// Only the product orders the two threads, so that the sanitizer sees any missing order.
TEST_F(KeysUnderTraffic, U36_ReceivedPacketsAreDeliveredWithKeysOfTheirTimeOrCounted) {
  make_samples();
  std::uint64_t put = 0;
  std::atomic<std::uint64_t> delivered{0};
  const auto receive = [&] {
    const auto got = receive_samples();
    put += samples_.size();
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      delivered.fetch_add(got[i], std::memory_order_relaxed);
      EXPECT_LE(got[i], ever_valid(samples_[i].keys) ? 1U : 0U) << "sample " << i;
    }
  };
  ::ipoib::test::WorkerThread worker{rcu_.get(), kLoops, receive};
  for (std::size_t i = 0; !worker.is_over(); ++i) {
    set(node_, kStates[i % kStates.size()]);
    if (i > kStates.size() && delivered.load(std::memory_order_relaxed) != 0)
      worker.tell_of_change();
  }
  worker.join();
  EXPECT_GT(delivered, 0U);
  EXPECT_EQ(delivered + lost(node_, Drop::kIbPkey) + lost(node_, Drop::kIbQkey), put);
  EXPECT_EQ(node_.all_drops(), lost(node_, Drop::kIbPkey) + lost(node_, Drop::kIbQkey));
}

// A counter that is odd during a change identifies the bursts that saw the same keys from beginning
// to end. In these bursts, the keys decide the end of every packet. The order of the counter may
// hide a race.
TEST_F(KeysUnderTraffic, U36_BurstBetweenChangesIsJudgedByTheKeysOfThatMoment) {
  make_samples();
  set(node_, kStates[0]);
  std::atomic<std::uint64_t> changes{0};
  std::uint64_t exact = 0;
  const auto judge = [&] {
    const std::uint64_t before = changes.fetch_add(0, std::memory_order_acq_rel);
    const std::uint64_t pkey = lost(node_, Drop::kIbPkey), qkey = lost(node_, Drop::kIbQkey);
    const auto got = receive_samples();
    // A read-modify-write instead of a load: the burst above cannot have seen changes that the
    // other thread orders behind it.
    const std::uint64_t after = changes.fetch_add(0, std::memory_order_acq_rel);
    if (before != after || before % 2 != 0) return;
    ++exact;
    const Keys& port = kStates[before / 2 % kStates.size()];
    std::uint64_t no_pkey = 0, no_qkey = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const Drop end = end_of(samples_[i].keys, port);
      EXPECT_EQ(got[i], end == Drop::kNone ? 1U : 0U) << "sample " << i << ", change " << before;
      no_pkey += end == Drop::kIbPkey;
      no_qkey += end == Drop::kIbQkey;
    }
    EXPECT_EQ(lost(node_, Drop::kIbPkey) - pkey, no_pkey) << "change " << before;
    EXPECT_EQ(lost(node_, Drop::kIbQkey) - qkey, no_qkey) << "change " << before;
  };
  ::ipoib::test::WorkerThread worker{rcu_.get(), kLoops, judge};
  while (!worker.is_over()) {
    const auto next = changes.fetch_add(1, std::memory_order_acq_rel) / 2 + 1;
    set(node_, kStates[next % kStates.size()]);
    changes.fetch_add(1, std::memory_order_acq_rel);
    worker.tell_of_change();
    std::this_thread::yield();
  }
  worker.join();
  EXPECT_GT(exact, 0U);
}

// A table in another order has the same keys at each moment.
TEST_F(KeysUnderTraffic, U36_TableInAnotherOrderLosesNoPacket) {
  set(node_, kStates[0]);
  make_samples();
  std::uint64_t received = 0;
  const auto receive = [&] {
    const auto got = receive_samples();
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const unsigned expected = end_of(samples_[i].keys, kStates[0]) == Drop::kNone ? 1 : 0;
      EXPECT_EQ(got[i], expected) << "sample " << i;
      received += expected;
    }
  };
  ::ipoib::test::WorkerThread worker{rcu_.get(), kLoops, receive};
  for (bool first = false; !worker.is_over(); first = !first) {
    const std::vector<std::uint16_t> table =
        first ? std::vector{kFull, kOther} : std::vector{kOther, kLimited, kFull};
    EXPECT_TRUE(node_.hca->change_port({.pkeys = table}));
    worker.tell_of_change();
  }
  worker.join();
  EXPECT_GT(received, 0U);
}

// One worker for each end of the cable; the keys of both ends change. DPDK's libraries order
// accesses through the cable and the mempool, which the sanitizer does not see. A mutex between the
// workers repeats this order.
TEST_F(KeysUnderTraffic, U36_SentPacketsAreDeliveredOrCountedAtOneEnd) {
  const fabric::AhIndex ah = ah_to(node_, kLid[1]);
  std::mutex cable;
  std::uint64_t taken = 0;
  std::atomic<std::uint64_t> delivered{0};
  const auto send = [&] {
    const std::lock_guard<std::mutex> lock{cable};
    if (mbufs_in_use() > Cable::kMbufs / 2) return;  // The other worker must catch up.
    std::array<rte_mbuf*, 8> pkts;
    for (rte_mbuf*& m : pkts) m = packet(counting(100), ah, peer_.queue->qpn());
    const std::uint16_t nb_sent = node_.queue->tx_burst(pkts.data(), pkts.size());
    taken += nb_sent;
    rte_pktmbuf_free_bulk(pkts.data() + nb_sent, pkts.size() - nb_sent);
  };
  const auto receive = [&] {
    const std::lock_guard<std::mutex> lock{cable};
    peer_.poll();
    for (rte_mbuf* m : peer_.receive()) {
      EXPECT_EQ(bytes_of(m), counting(100));
      rte_pktmbuf_free(m);
      delivered.fetch_add(1, std::memory_order_relaxed);
    }
  };
  ::ipoib::test::WorkerThread sender{rcu_.get(), kLoops, send};
  ::ipoib::test::WorkerThread receiver{rcu_.get(), kLoops, receive, 1};
  for (std::size_t i = 0; !sender.is_over() || !receiver.is_over(); ++i) {
    set(node_, kStates[i % kStates.size()]);
    set(peer_, kStates[i / 3 % kStates.size()]);
    if (delivered.load(std::memory_order_relaxed) == 0) continue;
    sender.tell_of_change();
    receiver.tell_of_change();
  }
  sender.join();
  receiver.join();
  for (int i = 0; i < 16; ++i) receive();  // Frames that are still on the cable.
  EXPECT_GT(delivered, 0U);
  EXPECT_EQ(node_.all_drops(), lost(node_, Drop::kIbPkey));
  EXPECT_EQ(peer_.all_drops(), lost(peer_, Drop::kIbPkey) + lost(peer_, Drop::kIbQkey));
  EXPECT_EQ(delivered + node_.all_drops() + peer_.all_drops(), taken);
}

}  // namespace
}  // namespace ipoib::soft
