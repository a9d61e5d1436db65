// SPDX-License-Identifier: BSD-3-Clause
// Limits on the shared mbufs that connected queue pairs may hold, and their return: peers that
// never acknowledge, messages that never end, an empty mempool.
#include <utility>

#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::QueueError;
using fabric::QueueState;

constexpr std::uint64_t kMs = kHz / 1000;
/// Timeout of an ACK with the code that the tests use: 4.096 us << 8.
constexpr std::uint64_t kAckTimeoutTsc = 4096 << 8;

class Budget : public ConnectedFixture {
 protected:
  /// Creates two HCAs, in each of which messages may hold `message_mbufs`.
  void start(std::uint32_t message_mbufs, rte_mempool* control_pool = nullptr) {
    for (int side : {0, 1}) {
      SoftHcaConfig small = config(side);
      small.message_mbufs = message_mbufs;
      small.control_pool = control_pool;
      peers[side].hca = SoftHca::create(small).value();
    }
  }
  /// Adds a connection, which the fixture's send() and receive() use.
  fabric::ConnectedQueue* more(const Connection& setup = {}) {
    connect(setup);
    ends_.emplace_back(peers[0].queue, peers[1].queue);
    return peers[0].queue;
  }
  /// Adds a queue pair of side 0 whose peer has a LID of no port here, so that it never answers.
  void add_silent(std::uint16_t lid) {
    const Connection setup{.send = {.retry_count = 7, .ack_timeout = 8}};
    fabric::ConnectedQueue& queue = *make_queue(0, setup);
    ends_.emplace_back(&queue, peers[1].queue);
    fabric::ReadyToReceive towards = receive_attr(0, setup);
    towards.path.dlid = lid;
    ASSERT_TRUE(peers[0].hca->set_ready_to_receive(queue, towards));
    ASSERT_TRUE(peers[0].hca->set_ready_to_send(queue, setup.send));
  }
  /// Selects connection `i` for send() and receive().
  void use(std::size_t i) { std::tie(peers[0].queue, peers[1].queue) = ends_.at(i); }
  [[nodiscard]] fabric::ConnectedQueueInfo info(int side, std::size_t i) const {
    return peers[side].hca->info(*(side == 0 ? ends_.at(i).first : ends_.at(i).second));
  }
  /// Delivers to side 1 the first packet of a message of three on connection `i`, and no other.
  void begin(std::size_t i) {
    use(i);
    ASSERT_TRUE(send(0, pattern(1, 5000)));
    const auto frames = cut(1);
    ASSERT_EQ(frames.size(), 3U);
    put(1, frames[0]);
    peers[1].poll();
  }
  /// Takes every mbuf of the pool, like packets that cannot be freed.
  void drain_pool() {
    while (rte_mbuf* m = rte_pktmbuf_alloc(pool())) hoard_.push_back(m);
  }
  void fill_pool() {
    for (rte_mbuf* m : hoard_) rte_pktmbuf_free(m);
    hoard_.clear();
  }
  void TearDown() override {
    fill_pool();
    ConnectedFixture::TearDown();
  }

  std::vector<std::pair<fabric::ConnectedQueue*, fabric::ConnectedQueue*>> ends_;
  std::vector<rte_mbuf*> hoard_;
};

// The connections to two ports of three are silent.
TEST_F(Budget, C15_SilentPeersHoldABoundedShareAndOthersGoOn) {
  constexpr std::uint32_t kMax = 300;  // Half of the budget of messages.
  start(2 * kMax);
  more();
  add_silent(7);
  add_silent(8);
  const unsigned before = mbufs_in_use();
  for (std::size_t gone : {1U, 2U}) {
    use(gone);
    for (std::uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(send(0, pattern(i, 9000)));
    (void)cut(1);
  }
  const unsigned held = mbufs_in_use() - before;
  EXPECT_LE(held, kMax * 5 / 12) << "a third of three quarters, and a third of the rest of these";
  EXPECT_GE(held, kMax / 3);
  const std::uint64_t refused = peers[0].drops(Drop::kIbTxBudget);
  EXPECT_EQ(refused * 5 + held, 200U * 5) << "messages of five mbufs: kept, or counted";
  const fabric::TxLost lost[] = {ends_[1].first->tx_lost(), ends_[2].first->tx_lost()};
  EXPECT_EQ(lost[0].packets + lost[1].packets, refused) << "which nobody else counts as sent";
  EXPECT_EQ(lost[0].octets + lost[1].octets, refused * 9000);

  use(0);
  for (std::uint32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(send(0, pattern(i, 9000)));
    ASSERT_TRUE(run([&] { return info(0, 0).counters.tx_done == i + 1; }, 1000));
    EXPECT_EQ(receive(1).size(), 1U);
  }
  EXPECT_EQ(peers[0].drops(Drop::kIbTxBudget), refused);

  EXPECT_TRUE(run([&] {
    return info(0, 1).state == QueueState::kError && info(0, 2).state == QueueState::kError;
  }));
  EXPECT_EQ(mbufs_in_use(), before) << "all is given back";
  for (std::size_t gone : {1U, 2U})
    EXPECT_EQ(info(0, gone).counters.tx_flushed, info(0, gone).counters.tx_messages);
}

// One port has the largest number of connections, each with a message of the longest length.
TEST_F(Budget, C15_SilentConnectionsOfOnePortLeaveRoomForOtherPorts) {
  constexpr std::uint32_t kSilent = 256, kMax = 8192;
  start(2 * kMax);
  more();
  const unsigned before = mbufs_in_use();
  for (std::size_t i = 1; i <= kSilent; ++i) {
    add_silent(7);
    use(i);
    ASSERT_TRUE(send(0, pattern(1, 65'520)));
    (void)cut(1);
  }
  EXPECT_LE(mbufs_in_use() - before, kMax * 3 / 8);
  const std::uint64_t refused = peers[0].drops(Drop::kIbTxBudget);
  EXPECT_GT(refused, kSilent / 2);
  use(0);
  constexpr std::uint32_t kMessages = 16;
  for (std::uint32_t i = 0; i < kMessages; ++i) ASSERT_TRUE(send(0, pattern(i, 65'520)));
  EXPECT_EQ(peers[0].drops(Drop::kIbTxBudget), refused);
  std::size_t received = 0;
  EXPECT_TRUE(run([&] { return (received += receive(1).size()) == kMessages; }, 10'000));
}

TEST_F(Budget, C15_BudgetIsWholeAgainWhenMessagesAreDone) {
  start(2 * 48);
  for (const auto transport : {fabric::Transport::kRc, fabric::Transport::kUc}) {
    SCOPED_TRACE(to_string(transport));
    more({.transport = transport});
    const std::size_t last = ends_.size() - 1;
    for (std::uint32_t i = 0; i < 100; ++i) {
      for (int n = 0; n < 3; ++n) ASSERT_TRUE(send(0, pattern(i, 9000)));  // Its limit: 15 mbufs.
      ASSERT_TRUE(run([&] { return info(0, last).counters.tx_done == 3 * (i + 1); }, 10'000));
      (void)receive(1);
    }
  }
  EXPECT_EQ(peers[0].all_drops(), 0U);
}

TEST_F(Budget, C15_DryPoolStopsNoAckAndTheConnectionFailsInTime) {
  rte_mempool* reserve =
      rte_pktmbuf_pool_create("control", 63, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
  ASSERT_NE(reserve, nullptr);
  start(1000, reserve);
  constexpr std::uint8_t kRetries = 3;
  more({.send = {.retry_count = kRetries, .ack_timeout = 8}});
  ASSERT_TRUE(send(1, pattern(1, 68)));
  const auto towards_0 = cut(0);
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(send(0, pattern(i, 9000)));
  (void)cut(1);
  put(0, towards_0.at(0));
  drain_pool();
  const std::uint64_t begin = sim_tsc;

  peers[0].poll();
  const auto acks = cut(1);
  ASSERT_EQ(acks.size(), 1U) << "what has arrived is acknowledged";
  EXPECT_EQ(bth_of(acks[0]).opcode, static_cast<std::uint8_t>(wire::Opcode::kRcAck));
  ASSERT_TRUE(peers[0].hca->mad_port().send({.lid = kPeerLid[1]}, fabric::MadBytes{}));
  peers[0].poll();
  EXPECT_EQ(cut(1).size(), 1U) << "and MADs go";

  EXPECT_TRUE(run([&] { return info(0, 0).state == QueueState::kError; }, 10'000));
  EXPECT_EQ(info(0, 0).error, QueueError::kRetryExceeded);
  EXPECT_GE(sim_tsc - begin, kRetries * kAckTimeoutTsc);
  EXPECT_LE(sim_tsc - begin, (kRetries + 2) * kAckTimeoutTsc);
  EXPECT_EQ(info(0, 0).counters.tx_flushed, 10U);
  EXPECT_EQ(receive(0).size(), 1U);
  fill_pool();
  EXPECT_EQ(mbufs_in_use(), 0U) << "every mbuf is back";
  clear();
  EXPECT_EQ(rte_mempool_in_use_count(reserve), 0U);
  rte_mempool_free(reserve);
}

// Messages that were never sent for lack of mbufs do not wait without end either.
TEST_F(Budget, C15_MessageThatCouldNeverBeSentFailsInTime) {
  more({.send = {.retry_count = 3, .ack_timeout = 8}});
  rte_mbuf* m = message(pattern(1, 2048));
  drain_pool();
  ASSERT_EQ(peers[0].queue->tx_burst(&m, 1), 1);
  const std::uint64_t begin = sim_tsc;
  EXPECT_TRUE(run([&] { return info(0, 0).state == QueueState::kError; }, 10'000));
  EXPECT_LE(sim_tsc - begin, 5 * kAckTimeoutTsc);
  EXPECT_EQ(peers[0].drops(Drop::kIbTxFlushed), 1U);
}

TEST_F(Budget, C15_WireThatTakesNothingFailsTheConnectionInTime) {
  more({.send = {.retry_count = 3, .ack_timeout = 8}});
  for (unsigned i = 0; i < kCableLen + UdDatapath::kBurst; ++i)
    if (!send(0, pattern(1, 2048))) break;
  const auto stuck = [&] {  // The cable accepts no frames.
    peers[0].poll();
    sim_tsc += kStepTsc;
    return info(0, 0).state == QueueState::kError;
  };
  bool failed = false;
  for (int i = 0; i < 10'000 && !failed; ++i) failed = stuck();
  EXPECT_TRUE(failed);
  EXPECT_EQ(info(0, 0).error, QueueError::kRetryExceeded);
}

TEST_F(Budget, C15_HalfMessageHasATimeLimit) {
  for (const auto transport : {fabric::Transport::kRc, fabric::Transport::kUc}) {
    SCOPED_TRACE(to_string(transport));
    const std::uint64_t before = mbufs_in_use();
    const std::uint64_t lost = peers[1].hca ? peers[1].drops(Drop::kIbUnfinished) : 0;
    more({.transport = transport, .send = {.ack_timeout = 0}});
    const std::size_t last = ends_.size() - 1;
    begin(last);
    EXPECT_GT(mbufs_in_use(), before);
    sim_tsc += 990 * kMs;
    peers[1].poll();
    EXPECT_EQ(peers[1].drops(Drop::kIbUnfinished), lost);
    sim_tsc += 20 * kMs;
    peers[1].poll();
    EXPECT_EQ(peers[1].drops(Drop::kIbUnfinished), lost + 1) << "a packet of it was there";
    if (transport == fabric::Transport::kUc) {
      ASSERT_TRUE(send(0, pattern(2, 5000)));
      EXPECT_TRUE(run([&] { return info(1, last).counters.rx_messages == 1; }, 1000));
      const auto got = receive(1);
      ASSERT_EQ(got.size(), 1U);
      EXPECT_EQ(got[0], pattern(2, 5000)) << "the next message is not touched";
      continue;
    }
    EXPECT_EQ(info(1, last).state, QueueState::kError);
    EXPECT_EQ(info(1, last).error, QueueError::kUnfinishedMessage);
    run(2);
    EXPECT_EQ(info(0, last).error, QueueError::kRemoteOperation) << "the peer is told";
    EXPECT_EQ(mbufs_in_use(), before);
  }
}

// Later messages wait until the oldest stalled one makes room.
TEST_F(Budget, C15_OldestHalfMessageMakesRoom) {
  constexpr std::uint32_t kOfAMessage = 32;  // 65,536 octets in packets of 2,048.
  start(2 * 2 * kOfAMessage);
  for (int i = 0; i < 4; ++i) more({.send = {.ack_timeout = 0}});
  begin(0);
  sim_tsc += 3 * kMs;
  begin(1);
  sim_tsc += 3 * kMs;
  begin(2);
  EXPECT_EQ(peers[1].drops(Drop::kIbRnr), 1U) << "no room for a third";
  EXPECT_EQ(peers[1].drops(Drop::kIbUnfinished), 0U) << "and nobody is slow";
  EXPECT_EQ(info(1, 2).counters.rnr_sent, 1U);

  sim_tsc += 5 * kMs;  // The first is 11 ms old, the second 8 ms.
  begin(3);
  EXPECT_EQ(peers[1].drops(Drop::kIbUnfinished), 1U);
  EXPECT_EQ(info(1, 0).error, QueueError::kUnfinishedMessage);
  EXPECT_EQ(info(1, 1).state, QueueState::kReadyToSend);
  EXPECT_EQ(info(1, 3).state, QueueState::kReadyToSend);
  EXPECT_EQ(peers[1].drops(Drop::kIbRnr), 1U) << "it has the room of the first";
}

TEST_F(Budget, C15_OldestHalfMessageMakesRoomForABuffer) {
  for (int i = 0; i < 3; ++i) more({.receive = {.depth = 2}, .send = {.ack_timeout = 0}});
  begin(0);
  begin(1);
  sim_tsc += 11 * kMs;
  use(2);
  ASSERT_TRUE(send(0, pattern(1, 68)));  // One packet.
  EXPECT_TRUE(run([&] { return info(1, 2).counters.rx_messages == 1; }, 100));
  EXPECT_EQ(receive(1).size(), 1U);
  EXPECT_EQ(peers[1].drops(Drop::kIbUnfinished), 1U);
  EXPECT_EQ(info(1, 0).error, QueueError::kUnfinishedMessage);
  EXPECT_EQ(info(1, 1).state, QueueState::kReadyToSend);
}

// A peer chooses the path MTU, which does not change the number of mbufs that a message takes here.
TEST_F(Budget, C11_ShortPacketsShareAnMbuf) {
  for (const auto transport : {fabric::Transport::kRc, fabric::Transport::kUc}) {
    SCOPED_TRACE(to_string(transport));
    clear();
    ends_.clear();
    more({.transport = transport, .path_mtu = 1});
    for (const std::size_t len : {257U, 4096U, 20'001U, 65'536U}) {
      ASSERT_TRUE(send(0, pattern(1, len)));
      rte_mbuf* m = nullptr;
      ASSERT_TRUE(run([&] { return peers[1].rx->rx_burst(&m, 1) == 1; }, 10'000));
      EXPECT_EQ(bytes_of(m), pattern(1, len));
      EXPECT_LE(m->nb_segs, len / 2048 + 1) << "mbufs have room for 2,560 octets and some";
      rte_mbuf_sanity_check(m, 1);
      std::uint64_t octets = 0;
      for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next)
        octets += segment->data_len;
      EXPECT_EQ(octets, m->pkt_len);
      rte_pktmbuf_free(m);
    }
  }
}

// Half a message is counted by its packets, even if they share an mbuf.
TEST_F(Budget, C11_ShortPacketsOfALostMessageAreCountedEach) {
  more({.path_mtu = 1});
  ASSERT_TRUE(send(0, pattern(1, 2560)));
  auto frames = cut(1);
  ASSERT_EQ(frames.size(), 10U);
  frames.resize(7);
  for (const Bytes& f : frames) put(1, f);
  peers[1].poll();
  peers[1].hca->set_error(*peers[1].queue);
  peers[1].poll();
  EXPECT_EQ(peers[1].drops(Drop::kIbQueueState), 7U);
}

TEST_F(Budget, C15_ReserveThatHoldsNoMadIsRefused) {
  rte_mempool* tiny =
      rte_pktmbuf_pool_create("tiny", 7, 0, 0, 64 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
  ASSERT_NE(tiny, nullptr);
  SoftHcaConfig bad = config(0);
  bad.control_pool = tiny;
  const auto hca = SoftHca::create(bad);
  ASSERT_FALSE(hca);
  EXPECT_EQ(hca.error().code, Errc::kInvalidArgument);
  EXPECT_NE(hca.error().what.find("mempool tiny"), std::string::npos);
  rte_mempool_free(tiny);
}

}  // namespace
}  // namespace ipoib::soft
