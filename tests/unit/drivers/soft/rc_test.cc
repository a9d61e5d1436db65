// SPDX-License-Identifier: BSD-3-Clause
// RC step by step: frames that are sent, acknowledged, refused and repeated, one by one.
#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::QueueError;
using fabric::QueueState;
using wire::Aeth;

constexpr std::uint8_t kFirst = 0x00, kMiddle = 0x01, kLast = 0x02, kOnly = 0x04;

class Rc : public ConnectedFixture {
 protected:
  /// Runs one loop of a worker, and returns the frames that it sent.
  std::vector<Bytes> loop(int side) {
    peers[side].poll();
    return cut(1 - side);
  }
  /// Returns the answer of side 1 to the frame.
  std::vector<Bytes> answer(std::span<const std::byte> frame) {
    put(1, frame);
    return loop(1);
  }
  void expect_failed(int side, QueueError why) {
    EXPECT_EQ(peers[side].info().state, QueueState::kError);
    EXPECT_EQ(peers[side].info().error, why) << to_string(peers[side].info().error);
    const auto event = peers[side].hca->next_queue_event();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, fabric::QueueEvent::Kind::kError);
    EXPECT_EQ(event->qpn, peers[side].queue->qpn());
    EXPECT_FALSE(peers[side].hca->next_queue_event());
  }
};

TEST_F(Rc, C08_MessageBecomesPacketsOfThePathMtu) {
  connect({.path_mtu = 2});  // 512 octets
  struct Case {
    std::size_t len;
    std::vector<std::uint8_t> opcodes;
    std::size_t last;  // Octets of the last packet.
  };
  const Case kCases[] = {{0, {kOnly}, 0},
                         {4, {kOnly}, 4},
                         {511, {kOnly}, 511},
                         {512, {kOnly}, 512},
                         {513, {kFirst, kLast}, 1},
                         {1024, {kFirst, kLast}, 512},
                         {1500, {kFirst, kMiddle, kLast}, 476}};
  std::uint32_t psn = 0xff'fff0;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.len);
    ASSERT_TRUE(send(0, pattern(1, c.len), 100)) << "in segments of 100 octets";
    const auto frames = cut(1);
    ASSERT_EQ(frames.size(), c.opcodes.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const wire::Bth bth = bth_of(frames[i]);
      EXPECT_EQ(bth.opcode, c.opcodes[i]);
      EXPECT_EQ(bth.psn.host(), psn);
      EXPECT_EQ(bth.dest_qp.host(), peers[1].queue->qpn());
      const bool last = i + 1 == frames.size();
      EXPECT_EQ(bth.pad(), last ? -c.last & 3 : 0);
      EXPECT_EQ(bth.flags & 0xcf, wire::Bth::kMigReq);
      EXPECT_TRUE(!last || bth.ack_resv == wire::Bth::kAckReq);
      EXPECT_EQ(wire::read<wire::Lrh>(frames[i], sizeof(EthHdr))->packet_len(),
                8U + 12 + (last ? (c.last + 3) / 4 * 4 : 512) + 4);
      psn = wire::psn_add(psn, 1);
      put(1, frames[i]);
    }
    const auto acks = loop(1);
    ASSERT_EQ(acks.size(), 1U) << "one ACK stands for all of a burst";
    EXPECT_EQ(bth_of(acks[0]).psn.host(), wire::psn_add(psn, wire::kPsnMask));
    put(0, acks[0]);
    (void)loop(0);
    const auto got = receive(1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0], pattern(1, c.len));
  }
  EXPECT_EQ(mbufs_in_use(), 0U) << "what is acknowledged is freed";
}

// The connection is that of the reference, with its LIDs, QPNs, PSNs and payload.
TEST_F(Rc, C11_ReceivedMessageSaysWhereItCameFrom) {
  connect({.global = true});
  ASSERT_TRUE(send(0, pattern(1, 5000)));
  peers[0].poll();
  for (const Bytes& f : cut(1)) put(1, f);
  peers[1].poll();
  rte_mbuf* m = nullptr;
  ASSERT_EQ(peers[1].rx->rx_burst(&m, 1), 1);
  const fabric::PacketMeta& meta = fabric::meta_of(m);
  EXPECT_EQ(meta.queue, peers[1].queue->qpn());
  EXPECT_EQ(meta.rx.src_qpn, peers[0].queue->qpn());
  EXPECT_EQ(meta.rx.slid, kPeerLid[0]);
  EXPECT_EQ(meta.rx.transport, fabric::Transport::kRc);
  EXPECT_FALSE(meta.rx.multicast);
  EXPECT_EQ(m->nb_segs, 3);
  const auto* grh = reinterpret_cast<const wire::Grh*>(rte_pktmbuf_mtod(m, const std::byte*) -
                                                       meta.rx.grh_offset);
  EXPECT_EQ(grh->sgid, wire::Gid::of(wire::kDefaultGidPrefix, kPeerGuid[0]));
  rte_pktmbuf_free(m);
}

TEST_F(Rc, C11_GapIsToldOnceAndEverythingFromThereComesAgain) {
  connect({});
  for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(send(0, pattern(i, 68)));
  const auto frames = cut(1);
  ASSERT_EQ(frames.size(), 4U);
  put(1, frames[0]);
  put(1, frames[2]);
  auto naks = loop(1);
  ASSERT_EQ(naks.size(), 1U);
  EXPECT_EQ(aeth_of(naks[0]).syndrome, Aeth::kNakSequence);
  EXPECT_EQ(aeth_of(naks[0]).msn.host(), 1U);
  EXPECT_EQ(bth_of(naks[0]).psn, bth_of(frames[1]).psn);
  EXPECT_TRUE(answer(frames[3]).empty()) << "told already";
  EXPECT_EQ(peers[1].drops(Drop::kIbSequence), 2U);

  put(0, naks[0]);
  const auto again = loop(0);
  ASSERT_EQ(again.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(again[i], frames[i + 1]) << "octet for octet";
  EXPECT_EQ(peers[0].info().counters.tx_repeated, 3U);
  put(0, naks[0]);
  EXPECT_EQ(loop(0).size(), 3U) << "a NAK that comes twice is believed twice";
  for (const Bytes& f : again) put(1, f);
  EXPECT_EQ(loop(1).size(), 1U);
  EXPECT_EQ(receive(1).size(), 4U);
}

TEST_F(Rc, C11_DuplicateIsAcknowledgedAgainAndNotDelivered) {
  connect({});
  ASSERT_TRUE(send(0, pattern(1, 68)));
  const auto frames = cut(1);
  const auto first = answer(frames[0]);
  const auto second = answer(frames[0]);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first, second);
  EXPECT_EQ(receive(1).size(), 1U);
  EXPECT_EQ(peers[1].drops(Drop::kIbDuplicate), 1U);
  EXPECT_EQ(peers[1].info().counters.rx_duplicates, 1U);
}

TEST_F(Rc, C13_SilenceEndsInErrorAfterTheRetries) {
  connect({.send = {.retry_count = 3, .ack_timeout = 8}});
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(send(0, pattern(i, 3000)));
  unsigned rounds = 0;
  const std::uint64_t begin = sim_tsc;
  while (peers[0].info().state != QueueState::kError && sim_tsc < begin + kHz) {
    rounds += !cut(1).empty();
    peers[0].poll();
    sim_tsc += kStepTsc;
  }
  EXPECT_EQ(rounds, 4U) << "once, and three times again";
  const std::uint64_t took = sim_tsc - begin;
  EXPECT_GE(took, 4 * wire::ack_timeout_ns(8));
  EXPECT_LE(took, 5 * wire::ack_timeout_ns(8)) << "bounded: C-15";
  expect_failed(0, QueueError::kRetryExceeded);
  EXPECT_EQ(peers[0].info().counters.timeouts, 4U);
  EXPECT_EQ(peers[0].info().counters.tx_flushed, 5U);
  EXPECT_EQ(peers[0].drops(Drop::kIbTxFlushed), 5U);
  EXPECT_TRUE(send(0, pattern(9, 68))) << "taken, and lost";
  EXPECT_EQ(peers[0].drops(Drop::kIbTxFlushed), 6U);
  EXPECT_EQ(peers[0].queue->tx_lost().packets, 1U) << "the others were sent";
  EXPECT_EQ(peers[0].queue->tx_lost().octets, 68U);
  EXPECT_TRUE(cut(1).empty());
}

TEST_F(Rc, C11_PeerWithoutABufferIsWaitedFor) {
  connect({.receive = {.depth = 2}, .min_rnr_timer = 14});  // 1.28 ms
  std::vector<Bytes> got;
  for (std::uint32_t i = 0; i < 6; ++i) ASSERT_TRUE(send(0, pattern(i, 5000)));
  peers[0].poll();
  for (const Bytes& f : cut(1)) put(1, f);
  const auto naks = loop(1);
  ASSERT_EQ(naks.size(), 1U);
  EXPECT_EQ(aeth_of(naks[0]).syndrome, Aeth::kRnrNak | 14);
  EXPECT_EQ(aeth_of(naks[0]).msn.host(), 2U);
  EXPECT_EQ(peers[1].drops(Drop::kIbRnr), 1U) << "the first packet of the third message";
  EXPECT_EQ(peers[1].drops(Drop::kIbSequence), 11U);
  put(0, naks[0]);
  EXPECT_TRUE(loop(0).empty()) << "not before the time is over";
  for (Bytes& m : receive(1)) got.push_back(std::move(m));
  const std::uint64_t begin = sim_tsc;
  while (true) {
    const auto frames = loop(0);
    if (!frames.empty()) {
      ASSERT_EQ(frames.size(), 1U) << "one, until the peer has taken it";
      EXPECT_NE(bth_of(frames[0]).ack_resv & wire::Bth::kAckReq, 0) << "within a message, too";
      put(1, frames[0]);
      peers[1].poll();
      const auto acks = loop(1);
      ASSERT_EQ(acks.size(), 1U);
      EXPECT_EQ(aeth_of(acks[0]).kind(), Aeth::Kind::kAck);
      put(0, acks[0]);
      peers[0].poll();
      // The window grows with the packets that the peer acknowledges.
      std::size_t sent = 1;
      for (const std::size_t more : {2U, 4U, 5U}) {
        const auto others = loop(0);
        EXPECT_EQ(others.size(), more);
        sent += others.size();
        for (const Bytes& f : others) put(1, f);
        peers[1].poll();
        for (Bytes& m : receive(1)) got.push_back(std::move(m));
        for (const Bytes& f : loop(1)) put(0, f);
        peers[0].poll();
      }
      EXPECT_EQ(sent, 12U);
      break;
    }
    ASSERT_LT(sim_tsc += kStepTsc, begin + kHz);
  }
  EXPECT_GE(sim_tsc - begin, wire::rnr_timer_ns(14));
  EXPECT_TRUE(run([&] {
    for (Bytes& m : receive(1)) got.push_back(std::move(m));
    return got.size() == 6;
  }));
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(got[i], pattern(i, 5000));
  EXPECT_TRUE(run([&] { return peers[0].info().counters.tx_done == 6; }));
}

TEST_F(Rc, C13_PeerWithoutABufferForTooLongEndsInError) {
  connect({.receive = {.depth = 1}, .min_rnr_timer = 1, .send = {.rnr_retry = 2}});
  for (std::uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(send(0, pattern(i, 68)));
  EXPECT_TRUE(run([&] { return peers[0].info().state == QueueState::kError; }));
  expect_failed(0, QueueError::kRnrRetryExceeded);
  EXPECT_EQ(peers[0].info().counters.rnr_received, 3U);
  EXPECT_EQ(peers[0].info().counters.tx_done, 1U);
  EXPECT_EQ(peers[1].info().state, QueueState::kReadyToSend);
}

TEST_F(Rc, C13_RnrRetrySevenIsForEver) {
  connect({.receive = {.depth = 1}, .min_rnr_timer = 1, .send = {.rnr_retry = 7}});
  for (std::uint32_t i = 0; i < 2; ++i) ASSERT_TRUE(send(0, pattern(i, 68)));
  EXPECT_TRUE(run([&] { return peers[0].info().counters.rnr_received > 100; }));
  EXPECT_EQ(receive(1).size(), 1U);
  EXPECT_TRUE(run([&] { return peers[0].info().counters.tx_done == 2; }));
  EXPECT_EQ(receive(1).size(), 1U);
}

// ACKs that no responder sends: for unsent PSNs, or of reserved kinds.
TEST_F(Rc, C16_AckOfWhatWasNeverSentChangesNothing) {
  connect({});
  ASSERT_TRUE(send(0, pattern(1, 68)));
  const auto frames = cut(1);
  Bytes ack = answer(frames[0]).at(0);
  const std::uint32_t psn = bth_of(ack).psn.host();
  const auto with = [&](std::uint32_t p, std::uint8_t syndrome) {
    Bytes f = ack;
    f[kLocalHeadLen + sizeof(wire::Bth)] = std::byte{syndrome};
    edit(f, [&](wire::Bth& bth) { bth.psn.set(p); });
    return f;
  };
  const std::pair<std::uint32_t, std::uint8_t> kBad[] = {{psn + 1, 0x1f},
                                                         {psn + 0x10'0000, 0x1f},
                                                         {psn + 1, Aeth::kRnrNak},
                                                         {psn + 2, Aeth::kNakSequence},
                                                         {psn + 1, Aeth::kNakInvalidRequest},
                                                         {psn, 0x40},
                                                         {psn, 0x5f},
                                                         {psn, 0x64},
                                                         {psn, 0x7f},
                                                         {psn, 0x9f}};
  for (const auto& [p, syndrome] : kBad) put(0, with(p, syndrome));
  EXPECT_TRUE(loop(0).empty());
  EXPECT_EQ(peers[0].drops(Drop::kIbAck), std::size(kBad));
  EXPECT_EQ(peers[0].all_drops(), std::size(kBad));
  EXPECT_EQ(peers[0].info().state, QueueState::kReadyToSend);
  EXPECT_EQ(peers[0].info().counters.tx_done, 0U);
  put(0, ack);
  EXPECT_TRUE(loop(0).empty());
  EXPECT_EQ(peers[0].info().counters.tx_done, 1U);
  put(0, with(psn + 0xff'ff00, 0x1f));  // This ACK is late.
  EXPECT_TRUE(loop(0).empty());
  EXPECT_EQ(peers[0].all_drops(), std::size(kBad)) << "an old ACK is none";
}

TEST_F(Rc, C11_NakOfThePeerEndsTheConnectionWithItsReason) {
  const std::pair<std::uint8_t, QueueError> kNaks[] = {
      {Aeth::kNakInvalidRequest, QueueError::kRemoteInvalidRequest},
      {Aeth::kNakRemoteAccess, QueueError::kRemoteAccess},
      {Aeth::kNakRemoteOperation, QueueError::kRemoteOperation}};
  for (const auto& [syndrome, error] : kNaks) {
    clear();
    connect({});
    for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(send(0, pattern(i, 68)));
    Bytes nak = answer(cut(1)[0]).at(0);
    nak[kLocalHeadLen + sizeof(wire::Bth)] = std::byte{syndrome};
    edit(nak, [](wire::Bth& bth) { bth.psn.set(bth.psn.host() + 1); });
    put(0, nak);
    EXPECT_TRUE(loop(0).empty());
    expect_failed(0, error);
    EXPECT_EQ(peers[0].info().counters.tx_done, 1U) << "the NAK says that the first arrived";
    EXPECT_EQ(peers[0].info().counters.tx_flushed, 2U);
  }
}

// Requests that a peer must not send: it gets a NAK, and the connection ends.
TEST_F(Rc, C11_RequestThatCannotBeEndsTheConnection) {
  struct Case {
    const char* name;
    std::size_t len;
    std::size_t frame;  // Index of the changed frame.
    std::uint8_t opcode;
    Drop reason;
    QueueError error;
  };
  const Case kCases[] = {
      {"middle first", 68, 0, kMiddle, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"last first", 68, 0, kLast, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"first that is short", 68, 0, kFirst, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"first in a message", 5000, 1, kFirst, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"only in a message", 5000, 2, kOnly, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"middle that is short", 5000, 2, kMiddle, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"RDMA WRITE", 68, 0, 0x0a, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"RDMA READ", 68, 0, 0x0c, Drop::kIbMessage, QueueError::kInvalidRequest},
      {"too long", 9001, 4, kLast, Drop::kIbMessageTooLong, QueueError::kMessageTooLong}};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    clear();
    connect({.receive = {.max_message = 9000}});
    ASSERT_TRUE(send(0, pattern(1, c.len)));
    auto frames = cut(1);
    edit(frames[c.frame], [&](wire::Bth& bth) { bth.opcode = c.opcode; });
    for (std::size_t i = 0; i <= c.frame; ++i) put(1, frames[i]);
    const auto naks = loop(1);
    ASSERT_EQ(naks.size(), 1U);
    EXPECT_EQ(aeth_of(naks[0]).syndrome, Aeth::kNakInvalidRequest);
    EXPECT_EQ(bth_of(naks[0]).psn, bth_of(frames[c.frame]).psn);
    EXPECT_EQ(peers[1].drops(c.reason), 1U);
    EXPECT_EQ(peers[1].drops(Drop::kIbQueueState), c.frame) << "what had come of the message";
    expect_failed(1, c.error);
    EXPECT_TRUE(answer(frames[c.frame]).empty());
    EXPECT_EQ(peers[1].drops(Drop::kIbQueueState), c.frame + 1);
    put(0, naks[0]);
    (void)loop(0);
    expect_failed(0, QueueError::kRemoteInvalidRequest);
    EXPECT_TRUE(receive(1).empty());
  }
}

// A message of 1 MiB, and sends that the window delays.
TEST_F(Rc, C08_MessagesMayBeLongerThan65536) {
  connect({.receive = {.max_message = fabric::kMaxMessage},
           .send = {.max_message = fabric::kMaxMessage}});
  const Bytes big = pattern(1, fabric::kMaxMessage);
  ASSERT_TRUE(send(0, big));
  EXPECT_EQ(cut(1).size(), 2 * 64U) << "a turn with the message, and one of poll()";
  peers[0].poll();
  EXPECT_TRUE(run([&] { return peers[0].info().counters.tx_done == 1; }));
  const auto got = receive(1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(got[0] == big);
  rte_mbuf* m = message(pattern(2, 10));
  m->pkt_len = fabric::kMaxMessage + 1;  // Only the length field is changed.
  EXPECT_EQ(peers[0].queue->tx_burst(&m, 1), 1);
  EXPECT_EQ(peers[0].drops(Drop::kIbTxTooLong), 1U);
  EXPECT_EQ(peers[0].queue->tx_lost().packets, 1U);
}

TEST_F(Rc, C11_FullSendQueueTakesNoMore) {
  connect({.send_depth = 8});
  std::vector<rte_mbuf*> pkts;
  for (std::uint32_t i = 0; i < 12; ++i) pkts.push_back(message(pattern(i, 68)));
  EXPECT_EQ(peers[0].queue->tx_burst(pkts.data(), 12), 8);
  EXPECT_EQ(peers[0].queue->tx_burst(pkts.data() + 8, 4), 0);
  EXPECT_TRUE(run([&] { return peers[0].info().counters.tx_done == 8; }));
  EXPECT_EQ(peers[0].queue->tx_burst(pkts.data() + 8, 4), 4);
  EXPECT_TRUE(run([&] { return peers[0].info().counters.tx_done == 12; }));
  EXPECT_EQ(receive(1).size(), 12U);
}

}  // namespace
}  // namespace ipoib::soft
