// SPDX-License-Identifier: BSD-3-Clause
// RC and UC queue pairs of the verbs driver between two devices: messages, their failures, and new
// connections after a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tests/unit/drivers/verbs/verbs_connected_fixture.h"

namespace ipoib::verbs {
namespace {

using fabric::QueueError;
using fabric::QueueEvent;
using fabric::QueueState;
using fabric::Transport;
using fake_verbs::Call;
using fake_verbs::Lost;

TEST_P(VerbsConnectedTest, C15_DeviceWithoutMigrationRefusesAlternates) {
  fabric::AlternatePath alternate;
  alternate.path.dlid = 5;
  EXPECT_EQ(a_.node->hca->load_alternate(*a_.queue, alternate).error().code, Errc::kRefused);
  expect_talk();
}

TEST_P(VerbsConnectedTest, MessagesOfAnySizeArriveWholeAndInOrder) {
  for (std::uint16_t burst = 1; burst <= kSendDepth; ++burst) {
    std::vector<std::size_t> lens;
    for (unsigned i = 0; i < burst; ++i) lens.push_back(4 + (i + burst) * 677 % (kMaxMessage - 3));
    EXPECT_EQ(send(a_, lens), burst);
    const auto got = receive(b_);
    ASSERT_EQ(got.size(), lens.size());
    for (rte_mbuf* m : got) {
      const fabric::PacketMeta& meta = fabric::meta_of(m);
      EXPECT_EQ(meta.queue, b_.queue->qpn());
      EXPECT_EQ(meta.rx.transport, GetParam().transport);
      EXPECT_EQ(meta.rx.grh_offset, 0);
      rte_mbuf_sanity_check(m, 1);
    }
    EXPECT_EQ(take(got), expected(lens));
    EXPECT_TRUE(receive(a_).empty());
  }
  const auto sent = info(a_).counters;
  const auto got = info(b_).counters;
  EXPECT_EQ(sent.tx_messages, 136U);
  EXPECT_EQ(sent.tx_done, 136U);
  EXPECT_EQ(got.rx_messages, 136U);
  EXPECT_EQ(got.rx_octets, sent.tx_octets);
  EXPECT_EQ(a_.node->all_drops() + b_.node->all_drops(), 0U);
}

// Chains of merged TCP and from other ports can have more mbufs than a work request has room for.
TEST_P(VerbsConnectedTest, LongChainsArriveOctetForOctet) {
  const std::size_t len = kMaxMessage;
  const auto in_parts = [&](std::size_t part, unsigned number) {
    rte_mbuf* const m = chain(payload(len, number), part);
    EXPECT_EQ(m->nb_segs, (len + part - 1) / part);
    return m;
  };
  std::array<rte_mbuf*, 4> pkts = {in_parts(200, 0), in_parts(2000, 1), in_parts(200, 2),
                                   in_parts(100, 3)};
  EXPECT_EQ(pkts[0]->nb_segs, 45);
  EXPECT_EQ(a_.queue->tx_burst(pkts.data(), pkts.size()), pkts.size());
  EXPECT_EQ(take(receive(b_)), expected({len, len, len, len}));
  EXPECT_TRUE(receive(a_).empty());
  EXPECT_EQ(info(a_).counters.tx_octets, 4 * len);
  EXPECT_EQ(a_.node->all_drops(), 0U);
  EXPECT_EQ(a_.queue->tx_lost().packets, 0U);
}

TEST_P(VerbsConnectedTest, ChainThatCannotBeCopiedIsLostByName) {
  rte_mbuf* const m = chain(payload(kMaxMessage), 200);
  std::array<rte_mbuf*, 3> pkts = {message(60, 0), m, message(61, 1)};
  std::vector<rte_mbuf*> all;
  for (rte_mbuf* taken; (taken = rte_pktmbuf_alloc(pool())) != nullptr;) all.push_back(taken);
  EXPECT_EQ(a_.queue->tx_burst(pkts.data(), pkts.size()), pkts.size());
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  EXPECT_EQ(a_.node->drops(Drop::kIbNoBuffer), 1U);
  EXPECT_EQ(a_.node->all_drops(), 1U);
  EXPECT_EQ(a_.queue->tx_lost().packets, 1U);
  EXPECT_EQ(a_.queue->tx_lost().octets, kMaxMessage);
  EXPECT_EQ(take(receive(b_)).size(), 2U);
  EXPECT_TRUE(receive(a_).empty());
}

TEST_P(VerbsConnectedTest, QueuesAreOfOneThread) {
  EXPECT_TRUE(fabric_.lockless(a_.queue->qpn()));
}

/// Messages to send may hold 40 mbufs. A UC queue pair waits for no peer.
class VerbsBudgetTest : public VerbsConnectedTest {
 protected:
  [[nodiscard]] fabric::ReceiveQueueConfig receive_config() const override {
    fabric::ReceiveQueueConfig config = VerbsConnectedTest::receive_config();
    config.send_mbufs = 40;
    return config;
  }
  /// Sends a burst of so many messages of 3 mbufs, and returns the number of them that are kept.
  std::uint64_t keep(unsigned messages) {
    const std::uint64_t lost = a_.node->drops(Drop::kIbTxBudget);
    EXPECT_EQ(send(a_, std::vector<std::size_t>(messages, 5000)), messages);
    return messages - (a_.node->drops(Drop::kIbTxBudget) - lost);
  }
  /// Gives `a_` a further queue pair, whose peer has a LID of no port.
  void talk_to_silent_peer() {
    a_.queue = make_queue(a_);
    fabric::ReadyToReceive attr = towards(b_);
    attr.path.dlid = 0x55;
    ASSERT_TRUE(a_.node->hca->set_ready_to_receive(*a_.queue, attr));
    ASSERT_TRUE(a_.node->hca->set_ready_to_send(*a_.queue, sending()));
  }
};

TEST_P(VerbsBudgetTest, C15_SilentPeersHoldABoundedShareAndOthersGoOn) {
  fabric::ConnectedQueue* const honest = a_.queue;
  const unsigned before = mbufs_in_use();
  talk_to_silent_peer();
  fabric::ConnectedQueue* const silent = a_.queue;
  EXPECT_EQ(keep(16), 4U) << "12 mbufs: a third of three quarters, and the message that reaches it";
  EXPECT_EQ(keep(12), 0U) << "as many as the queue has room for";
  EXPECT_EQ(mbufs_in_use() - before, 12U);
  EXPECT_EQ(silent->tx_lost().packets, 24U);
  a_.queue = honest;
  for (unsigned i = 0; i < 40; ++i) {
    EXPECT_EQ(keep(2), 2U) << i;
    EXPECT_EQ(take(receive(b_)), expected({5000, 5000}));
    EXPECT_TRUE(receive(a_).empty());
  }
  // The mbufs of the silent peer are free again at its end, also for its port.
  a_.node->hca->destroy_connected_queue(*silent);
  for (unsigned i = 0; i < 3; ++i) pass(*a_.node), receive(a_);
  EXPECT_EQ(mbufs_in_use(), before);
  talk_to_silent_peer();
  EXPECT_EQ(keep(16), 4U);
}

TEST_P(VerbsBudgetTest, C15_AFailedQueueReturnsItsMbufs) {
  destroy_peer();
  EXPECT_EQ(keep(16), 4U);
  fabric_.time_passes(10);
  EXPECT_TRUE(receive(a_).empty());
  expect_failed(a_, QueueError::kRetryExceeded);
  b_.queue = make_queue(b_);
  expect_talk_again();
  EXPECT_EQ(keep(16), 4U);
  EXPECT_EQ(take(receive(b_)).size(), 4U);
}

TEST_P(VerbsBudgetTest, C15_SilentConnectionsOfOnePortLeaveRoomForOtherPorts) {
  fabric::ConnectedQueue* const honest = a_.queue;
  std::uint64_t kept = 0;
  for (unsigned silent = 0; silent < 12; ++silent) {
    talk_to_silent_peer();
    kept += keep(8);
    a_.queue = honest;
    EXPECT_EQ(keep(2), 2U) << silent;
    EXPECT_EQ(take(receive(b_)), expected({5000, 5000}));
    EXPECT_TRUE(receive(a_).empty());
  }
  EXPECT_EQ(kept, 5U) << "15 of 40 mbufs";
}

/// Each side has a second receive queue and connection, of worker 1.
class VerbsConnectedWorkers : public VerbsConnectedTest {
 protected:
  void SetUp() override {
    VerbsConnectedTest::SetUp();
    first_[0] = {nullptr, a_.receive, a_.queue};
    first_[1] = {nullptr, b_.receive, b_.queue};
    for (End* end : {&a_, &b_}) {
      end->receive =
          end->node->hca
              ->create_receive_queue({.depth = kBuffers, .max_message = kMaxMessage, .worker = 1})
              .value();
      pass(*end->node);
      end->queue = make_queue(*end);
    }
    join();
  }
  std::array<End, 2> first_;  ///< The queues of worker 0.
};

TEST_P(VerbsConnectedWorkers, P14_QueuesOfTwoWorkersAreOfTwoThreads) {
  EXPECT_TRUE(fabric_.lockless(a_.queue->qpn()));
  EXPECT_TRUE(fabric_.lockless(first_[0].queue->qpn()));
  EXPECT_NE(fabric_.thread_of(a_.queue->qpn()), fabric_.thread_of(first_[0].queue->qpn()));
}

TEST_P(VerbsConnectedWorkers, P14_EachReceivesTheMessagesOfItsConnections) {
  EXPECT_EQ(send(a_, {60, 5000}), 2);
  EXPECT_TRUE(receive(first_[1]).empty());
  EXPECT_EQ(take(receive(b_)), expected({60, 5000}));
  EXPECT_EQ(send(first_[0], {60}), 1);
  EXPECT_TRUE(receive(b_).empty());
  EXPECT_EQ(take(receive(first_[1])).size(), 1U);
}

TEST_P(VerbsConnectedWorkers, P14_DropsOfEachWorkerCountAndStay) {
  a_.node->device->cleans_cq = b_.node->device->cleans_cq = false;
  EXPECT_EQ(send(a_, {60, 61}), 2);
  EXPECT_EQ(send(first_[0], {60}), 1);
  b_.node->hca->destroy_connected_queue(*first_[1].queue);
  destroy_peer();
  EXPECT_TRUE(receive(b_).empty());
  EXPECT_EQ(b_.node->drops(Drop::kIbQpn), 2U);
  EXPECT_TRUE(receive(first_[1]).empty());
  EXPECT_EQ(b_.node->drops(Drop::kIbQpn), 3U);
  b_.node->hca->destroy_receive_queue(*b_.receive);
  EXPECT_EQ(b_.node->drops(Drop::kIbQpn), 3U);
  b_.receive = nullptr;
  for (const End* end : {&a_, &first_[0]}) EXPECT_TRUE(receive(*end).empty());
}

// Its completions have to be polled before the queue pair goes, and it does not poll.
TEST_P(VerbsConnectedWorkers, P14_WorkerThatHangsKeepsOnlyItsOwnQueuePairs) {
  const unsigned before = fabric_.live().qps;
  b_.node->hca->destroy_connected_queue(*first_[1].queue);
  destroy_peer();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(receive(b_).empty());
    pass(*b_.node);
  }
  EXPECT_EQ(fabric_.live().qps, before - 1) << "worker 0 hangs";
  EXPECT_TRUE(receive(first_[1]).empty());
  pass(*b_.node);
  EXPECT_EQ(fabric_.live().qps, before - 2);
}

TEST_P(VerbsConnectedTest, DeviceSaysWhatItSends) {
  const auto able = a_.node->hca->capabilities();
  EXPECT_EQ(able.max_segments, 30);
  EXPECT_TRUE(able.receives_chains);
  EXPECT_TRUE(able.removal_events);
  EXPECT_EQ(able.multicast, fabric::MulticastFilter::kGroups);
}

TEST_P(VerbsConnectedTest, BurstsBeyondTheSendQueueAreTakenInPart) {
  fabric_.hold_sends(*a_.node->device, true);
  EXPECT_EQ(send(a_, std::vector<std::size_t>(20, 700)), kSendDepth);
  EXPECT_EQ(send(a_, {700}), 0);
  fabric_.hold_sends(*a_.node->device, false);
  EXPECT_EQ(take(receive(b_)).size(), kSendDepth);
  EXPECT_EQ(send(a_, {700}), 1);
  EXPECT_EQ(take(receive(b_)).size(), 1U);
  EXPECT_TRUE(receive(a_).empty());
}

TEST_P(VerbsConnectedTest, ManyConnectionsShareOneReceiveQueue) {
  struct Pair {
    fabric::ConnectedQueue* a;
    fabric::ConnectedQueue* b;
  };
  std::vector<Pair> pairs;
  for (int i = 0; i < 20; ++i) {
    a_.queue = make_queue(a_);
    b_.queue = make_queue(b_);
    join();
    pairs.push_back({a_.queue, b_.queue});
  }
  EXPECT_EQ(fabric_.live().srqs, 2U);
  for (const Pair& pair : pairs) {
    a_.queue = pair.a;
    EXPECT_EQ(send(a_, {300}), 1);
  }
  const auto got = receive(b_);
  ASSERT_EQ(got.size(), pairs.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(fabric::meta_of(got[i]).queue, pairs[i].b->qpn());
    rte_pktmbuf_free(got[i]);
  }
  EXPECT_TRUE(receive(a_).empty());
}

// --- States ---

TEST_P(VerbsConnectedTest, StatesFollowOneAnother) {
  End fresh{nullptr, a_.receive, make_queue(a_)};
  VerbsHca& hca = *a_.node->hca;
  EXPECT_EQ(hca.info(*fresh.queue).state, QueueState::kInit);
  const auto code = [](const Status& status) {
    return status ? Errc::kExists : status.error().code;
  };
  EXPECT_EQ(code(hca.set_ready_to_send(*fresh.queue, sending())), Errc::kRefused);
  auto wrong = towards(b_);
  wrong.path_mtu = 5;  // Exceeds the port's MTU.
  EXPECT_EQ(code(hca.set_ready_to_receive(*fresh.queue, wrong)), Errc::kInvalidArgument);
  wrong = towards(b_);
  wrong.rx_psn = 1U << 24;
  EXPECT_EQ(code(hca.set_ready_to_receive(*fresh.queue, wrong)), Errc::kInvalidArgument);
  wrong = towards(b_);
  wrong.path.dlid = 0;
  EXPECT_EQ(code(hca.set_ready_to_receive(*fresh.queue, wrong)), Errc::kInvalidArgument);
  EXPECT_EQ(hca.info(*fresh.queue).state, QueueState::kInit);
  EXPECT_TRUE(hca.set_ready_to_receive(*fresh.queue, towards(b_)));
  EXPECT_EQ(code(hca.set_ready_to_receive(*fresh.queue, towards(b_))), Errc::kRefused);
  // The queue is not ready to send: it drops the packet instead of blocking.
  EXPECT_EQ(send(fresh, {60}), 1);
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 1U);
  EXPECT_TRUE(hca.set_ready_to_send(*fresh.queue, sending()));
  EXPECT_EQ(hca.info(*fresh.queue).peer_qpn, b_.queue->qpn());
  hca.set_error(*fresh.queue);
  EXPECT_EQ(hca.info(*fresh.queue).state, QueueState::kError);
  EXPECT_EQ(hca.info(*fresh.queue).error, QueueError::kClosed);
  EXPECT_EQ(send(fresh, {60}), 1);
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 2U);
  EXPECT_TRUE(news(a_).empty());
  hca.destroy_connected_queue(*fresh.queue);
}

TEST_P(VerbsConnectedTest, FirstMessageTellsThatThePeerIsReady) {
  for (End* end : {&a_, &b_}) end->queue = make_queue(*end);
  ASSERT_TRUE(b_.node->hca->set_ready_to_receive(*b_.queue, towards(a_)));
  ASSERT_TRUE(a_.node->hca->set_ready_to_receive(*a_.queue, towards(b_)));
  ASSERT_TRUE(a_.node->hca->set_ready_to_send(*a_.queue, sending()));
  EXPECT_EQ(send(a_, {60, 70}), 2);
  const auto heard = news(b_);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].kind, QueueEvent::Kind::kEstablished);
  EXPECT_EQ(heard[0].qpn, b_.queue->qpn());
  EXPECT_EQ(take(receive(b_)).size(), 2U);
  EXPECT_TRUE(receive(a_).empty());
}

// --- Failures ---

TEST_P(VerbsConnectedTest, MessageLongerThanThePeerTakesIsNotSent) {
  const std::size_t most = kMaxMessage;
  EXPECT_EQ(send(a_, {most + 1, most}), 2);
  EXPECT_EQ(take(receive(b_)).size(), 1U);
  EXPECT_EQ(a_.node->drops(Drop::kIbTxTooLong), 1U);
  EXPECT_EQ(a_.queue->tx_lost().packets, 1U);
  EXPECT_EQ(a_.queue->tx_lost().octets, most + 1);
  EXPECT_TRUE(receive(a_).empty());
}

TEST_P(VerbsConnectedTest, WhatAnEndedQueueTakesIsLost) {
  a_.node->hca->set_error(*a_.queue);
  EXPECT_EQ(send(a_, {200, 300}), 2);
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 2U);
  EXPECT_EQ(a_.queue->tx_lost().packets, 2U);
  EXPECT_EQ(a_.queue->tx_lost().octets, 500U);
}

TEST_P(VerbsConnectedTest, MessageLongerThanABuffer) {
  // The peer is allowed to send more than the buffers of this side hold. Buffers are whole mbufs,
  // so they hold somewhat more than 9,000 octets.
  auto attr = sending();
  attr.max_message = 20'000;
  rejoin(attr);
  EXPECT_EQ(send(a_, {12'000, 60}), 2);
  const auto got = take(receive(b_));
  EXPECT_TRUE(receive(a_).empty());
  if (reliable()) {
    EXPECT_TRUE(got.empty());
    expect_failed(b_, QueueError::kMessageTooLong);
    expect_failed(a_, QueueError::kRemoteInvalidRequest);
    EXPECT_EQ(b_.node->drops(Drop::kIbMessageTooLong), 1U);
    EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 2U);
    EXPECT_EQ(info(a_).counters.tx_flushed, 2U);
    EXPECT_EQ(info(a_).counters.tx_done, 0U);
  } else {
    EXPECT_EQ(got.size(), 1U);
    EXPECT_EQ(fabric_.lost(Lost::kTooLong), 1U);
  }
  expect_talk_again();
}

TEST_P(VerbsConnectedTest, WithoutBuffersReliableWaitsAndUnreliableLoses) {
  fill_buffers();
  EXPECT_EQ(send(a_, {61}), 1);
  fabric_.time_passes(100);
  const auto first = take(receive(b_));
  EXPECT_EQ(first.size(), kBuffers);
  const auto rest = take(receive(b_));
  EXPECT_EQ(rest.size(), reliable() ? 1U : 0U);
  EXPECT_EQ(fabric_.lost(Lost::kNoBuffer), reliable() ? 0U : 1U);
  EXPECT_TRUE(receive(a_).empty());
  EXPECT_EQ(info(a_).counters.tx_done, kBuffers + 1U);
  expect_talk();
}

class VerbsReliableTest : public VerbsConnectedTest {};

TEST_P(VerbsReliableTest, RetriesForABufferEnd) {
  rejoin(sending(3));
  fill_buffers();
  EXPECT_EQ(send(a_, {61, 62, 63}), 3);
  fabric_.time_passes(10);
  EXPECT_TRUE(receive(a_).empty());
  expect_failed(a_, QueueError::kRnrRetryExceeded);
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 3U);
  EXPECT_EQ(take(receive(b_)).size(), kBuffers);
  expect_talk_again();
}

TEST_P(VerbsConnectedTest, PeerThatIsGone) {
  destroy_peer();
  EXPECT_EQ(send(a_, {60, 61}), 2);
  fabric_.time_passes(10);
  EXPECT_TRUE(receive(a_).empty());
  if (reliable()) {
    expect_failed(a_, QueueError::kRetryExceeded);
    EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 2U);
  } else {
    EXPECT_EQ(fabric_.lost(Lost::kNoQp), 2U);
    EXPECT_EQ(info(a_).counters.tx_done, 2U);
  }
  expect_talk_again();
}

TEST_P(VerbsConnectedTest, EventOfTheQueuePairIsItsFailure) {
  fabric_.hold_sends(*a_.node->device, true);
  EXPECT_EQ(send(a_, {60, 600}), 2);
  fabric_.break_qp(a_.queue->qpn());
  fabric_.hold_sends(*a_.node->device, false);
  expect_failed(a_, QueueError::kInvalidRequest);
  EXPECT_TRUE(receive(a_).empty());
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 2U);
  // Only that queue has failed.
  EXPECT_TRUE(talk(*a_.node, *b_.node));
  expect_talk_again();
}

// The subnet manager may write another P_Key to the index that a queue pair has.
TEST_P(VerbsConnectedTest, QueueOfAPkeyThatMovesFails) {
  const auto change = [&](std::vector<std::uint16_t> pkeys) {
    a_.node->device->ports[0].pkeys = std::move(pkeys);
    fabric_.raise(*a_.node->device, IBV_EVENT_PKEY_CHANGE);
  };
  change({0xffff, 0x8001});
  EXPECT_TRUE(news(a_).empty());
  expect_talk();
  for (const std::vector<std::uint16_t>& pkeys :
       {std::vector<std::uint16_t>{0x8001, 0xffff}, {0x8001, 0, 0xffff}, {0xffff, 0x8001, 0}}) {
    change(pkeys);
    expect_failed(a_, QueueError::kInvalidRequest);
    EXPECT_EQ(send(a_, {60}), 1);
    EXPECT_TRUE(receive(a_).empty());
    expect_talk_again();
    EXPECT_TRUE(talk(*a_.node, *b_.node));
  }
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 3U);
  change({0x8001, 0x8002, 0x8003});
  expect_failed(a_, QueueError::kInvalidRequest);
  expect_problem(*a_.node, "P_Key 0xffff");
  change({0xffff});
  EXPECT_TRUE(news(a_).empty());
  expect_talk_again();
}

// A queue pair keeps the static rate of its path. Without one, it would exceed the path on a port that
// has become faster.
TEST_P(VerbsConnectedTest, U22_QueueWithoutTheRateOfItsPathEndsOnAFasterPort) {
  const auto join_with_rate = [this] {
    End& end = a_;
    end.node->hca->destroy_connected_queue(*end.queue);
    end.queue = make_queue(end);
    auto attr = towards(b_);
    attr.path.rate = kRate40Gbps;
    ASSERT_TRUE(end.node->hca->set_ready_to_receive(*end.queue, attr));
    ASSERT_TRUE(end.node->hca->set_ready_to_send(*end.queue, sending()));
  };
  join_with_rate();
  EXPECT_EQ(fabric_.attr_of(a_.queue->qpn()).ah_attr.static_rate, kRate40Gbps);
  set_speed(*a_.node, kSpeed10Gbps);
  EXPECT_TRUE(news(a_).empty());
  join_with_rate();
  EXPECT_EQ(fabric_.attr_of(a_.queue->qpn()).ah_attr.static_rate, 0);
  set_speed(*a_.node, kSpeed10Gbps);
  EXPECT_TRUE(news(a_).empty());
  set_speed(*a_.node, kSpeed100Gbps);
  expect_failed(a_, QueueError::kInvalidRequest);
  join_with_rate();
  EXPECT_EQ(fabric_.attr_of(a_.queue->qpn()).ah_attr.static_rate, kRate40Gbps);
  EXPECT_TRUE(news(a_).empty());
}

TEST_P(VerbsConnectedTest, FailedReceiveIsTheQueuesFailure) {
  fabric_.fail_receive(IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(send(a_, {60}), 1);
  EXPECT_TRUE(receive(b_).empty());
  expect_failed(b_, QueueError::kInvalidRequest);
  EXPECT_EQ(b_.node->drops(Drop::kIbMessage), 1U);
  EXPECT_TRUE(receive(a_).empty());
  if (reliable()) expect_failed(a_, QueueError::kRemoteOperation);
  expect_talk_again();
}

TEST_P(VerbsConnectedTest, RefusedPostIsTheQueuesFailure) {
  fabric_.fail(Call::kPostSend, EINVAL, 1, 2);
  EXPECT_EQ(send(a_, {200, 201, 202, 203}), 4);
  EXPECT_EQ(take(receive(b_)).size(), GetParam().extended ? 0U : 2U);
  expect_failed(a_, QueueError::kInvalidRequest);
  EXPECT_TRUE(receive(a_).empty());
  rejoin();
  EXPECT_TRUE(receive(a_).empty());
  pass(*a_.node);
  EXPECT_TRUE(receive(a_).empty());
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 4U);
  expect_talk();
}

TEST_P(VerbsConnectedTest, QueueThatIsDestroyedFreesWhatIsUnderWay) {
  for (bool cleans : {true, false}) {
    a_.node->device->cleans_cq = cleans;
    const std::uint64_t flushed = a_.node->drops(Drop::kIbTxFlushed);
    // Repetition shows that no place in the shared completion queue is lost. In every second round
    // the sends are complete and not polled yet.
    for (int i = 0; i < 50; ++i) {
      fabric_.hold_sends(*a_.node->device, i % 2 == 0);
      EXPECT_EQ(send(a_, std::vector<std::size_t>(kSendDepth, 300)), kSendDepth);
      (void)take(receive(b_));
      rejoin();
      fabric_.hold_sends(*a_.node->device, false);
      EXPECT_TRUE(receive(a_).empty());
    }
    pass(*a_.node);
    EXPECT_TRUE(receive(a_).empty());
    EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed) - flushed, 50U * kSendDepth);
    expect_talk();
  }
}

TEST_P(VerbsConnectedTest, BuffersOfAClosedQueueComeBack) {
  // Unpolled messages at the end of their queue: the provider discards their completions.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(send(a_, {60, 600, 6000}), 3);
    EXPECT_TRUE(receive(a_).empty());
    rejoin();
    for (rte_mbuf* m : receive(b_)) rte_pktmbuf_free(m);
    pass(*b_.node);
  }
  expect_talk();
  EXPECT_GT(fabric_.posted_receives(b_.queue->qpn()), kBuffers / 2U);
}

TEST_P(VerbsConnectedTest, MessagesOfAQueueThatIsNoMoreAreCounted) {
  a_.node->device->cleans_cq = b_.node->device->cleans_cq = false;
  EXPECT_EQ(send(a_, {60, 61}), 2);
  destroy_peer();
  EXPECT_TRUE(receive(b_).empty());
  EXPECT_EQ(b_.node->drops(Drop::kIbQpn), 2U);
  EXPECT_TRUE(receive(a_).empty());
}

TEST_P(VerbsConnectedTest, SharedReceiveQueueIsNeverStarvedByAnEmptyPool) {
  std::vector<rte_mbuf*> hoard;
  while (rte_mempool_avail_count(pool()) > 16) hoard.push_back(rte_pktmbuf_alloc(pool()));
  std::size_t arrived = 0;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(send(a_, {3000}), 1);
    for (rte_mbuf* m : receive(b_)) {
      ++arrived;
      for (rte_mbuf* next = nullptr; m != nullptr; m = next) {
        next = std::exchange(m->next, nullptr);
        m->nb_segs = 1;
        hoard.push_back(m);
      }
    }
    EXPECT_TRUE(receive(a_).empty());
    EXPECT_GT(fabric_.posted_receives(b_.queue->qpn()), 0U);
  }
  EXPECT_EQ(arrived + b_.node->drops(Drop::kIbNoBuffer), 200U);
  EXPECT_GT(b_.node->drops(Drop::kIbNoBuffer), 0U);
  rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
  EXPECT_TRUE(receive(b_).empty());
  const std::uint64_t lost = b_.node->drops(Drop::kIbNoBuffer);
  for (int i = 0; i < 20; ++i) expect_talk();
  EXPECT_EQ(b_.node->drops(Drop::kIbNoBuffer), lost);
}

// --- The device ---

TEST_P(VerbsConnectedTest, BrokenCompletionQueueTakesTheDeviceAnew) {
  fabric_.break_cq(a_.queue->qpn());
  EXPECT_TRUE(receive(a_).empty());
  const auto events = pass(*a_.node, Duration{0});
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0], fabric::PortEvent::kFatal);
  pass(*a_.node);
  expect_talk_again();
}

TEST_P(VerbsConnectedTest, DeviceThatGoesTakesItsQueuesAlong) {
  fabric_.hold_sends(*a_.node->device, true);
  EXPECT_EQ(send(a_, {60, 600}), 2);
  fabric_.remove(*a_.node->device);
  EXPECT_EQ(pass(*a_.node), std::vector{fabric::PortEvent::kFatal});
  EXPECT_EQ(info(a_).state, QueueState::kError);
  EXPECT_EQ(send(a_, {60}), 1);
  EXPECT_TRUE(receive(a_).empty());
  const auto none =
      a_.node->hca->create_connected_queue({GetParam().transport, 0xffff, a_.receive, kSendDepth});
  EXPECT_TRUE(!none && none.error().code == Errc::kUnavailable);

  fabric_.hold_sends(*a_.node->device, false);
  fabric_.restore(*a_.node->device);
  EXPECT_EQ(pass(*a_.node), std::vector{fabric::PortEvent::kPortActive});
  EXPECT_EQ(info(a_).state, QueueState::kError);
  expect_talk_again();
  EXPECT_EQ(a_.node->drops(Drop::kIbTxFlushed), 3U);
}

TEST_P(VerbsConnectedTest, DeviceWithoutSharedReceiveQueuesSaysSo) {
  auto setup = fake_verbs::make_setup("plain", 9, 0x77);
  setup.attr.orig_attr.max_srq = 0;
  const auto node = make_node(fabric_.add_device(std::move(setup)));
  auto* receive = node->hca->create_receive_queue({kBuffers, kMaxMessage}).value();
  expect_problem(*node, "mode = \"datagram\"");
  const auto none =
      node->hca->create_connected_queue({GetParam().transport, 0xffff, receive, kSendDepth});
  EXPECT_TRUE(!none && none.error().code == Errc::kUnavailable);
  EXPECT_TRUE(talk(*node, *b_.node));  // UD still works.
}

TEST_P(VerbsConnectedTest, BuffersThatTheDeviceCannotFillSaySo) {
  auto setup = fake_verbs::make_setup("narrow", 9, 0x77);
  setup.attr.orig_attr.max_srq_sge = 4;
  const auto node = make_node(fabric_.add_device(std::move(setup)));
  ASSERT_TRUE(node->hca->create_receive_queue({kBuffers, kMaxMessage}));
  for (const char* part : {"5 mbufs", "at most 4", "--mbuf-size", "connected-mtu"})
    expect_problem(*node, part);
}

TEST_P(VerbsConnectedTest, QueuesThatCannotBe) {
  VerbsHca& hca = *a_.node->hca;
  const auto refused = [&](const fabric::ConnectedQueueConfig& config) {
    const auto made = hca.create_connected_queue(config);
    return made ? Errc::kExists : made.error().code;
  };
  const Transport transport = GetParam().transport;
  EXPECT_EQ(refused({Transport::kUd, 0xffff, a_.receive, 16}), Errc::kInvalidArgument);
  EXPECT_EQ(refused({transport, 0xffff, nullptr, 16}), Errc::kInvalidArgument);
  EXPECT_EQ(refused({transport, 0xffff, a_.receive, 17}), Errc::kInvalidArgument);
  EXPECT_EQ(refused({transport, 0x8123, a_.receive, 16}), Errc::kInvalidArgument);
  fabric_.fail(Call::kCreateQp, ENOMEM);
  EXPECT_EQ(refused({transport, 0xffff, a_.receive, 16}), Errc::kNoResources);
  fabric_.fail(Call::kModifyQp, EIO);
  EXPECT_EQ(refused({transport, 0xffff, a_.receive, 16}), Errc::kUnavailable);
  EXPECT_FALSE(hca.create_receive_queue({0, 100}));
  EXPECT_FALSE(hca.create_receive_queue({16, fabric::kMaxMessage + 1}));
  expect_talk();
}

INSTANTIATE_TEST_SUITE_P(Ways, VerbsConnectedTest,
                         testing::Values(Way{Transport::kRc, true}, Way{Transport::kRc, false},
                                         Way{Transport::kUc, true}, Way{Transport::kUc, false}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Ways, VerbsConnectedWorkers,
                         testing::Values(Way{Transport::kRc, true}, Way{Transport::kUc, false}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Ways, VerbsBudgetTest,
                         testing::Values(Way{Transport::kRc, true}, Way{Transport::kRc, false}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Ways, VerbsReliableTest,
                         testing::Values(Way{Transport::kRc, true}, Way{Transport::kRc, false}),
                         name_of);

}  // namespace
}  // namespace ipoib::verbs
