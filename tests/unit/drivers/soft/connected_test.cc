// SPDX-License-Identifier: BSD-3-Clause
// Connected queue pairs of both transports: creation, destruction, and the checks of a frame that
// come before its connection's state.
#include <cstring>

#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::QueueState;
using fabric::Transport;

class Connected : public ConnectedFixture {
 protected:
  void SetUp() override {
    ConnectedFixture::SetUp();
    make_hcas();
    peers[0].rx = peers[0].hca->create_receive_queue({}).value();
  }
  [[nodiscard]] Errc refused(const fabric::ConnectedQueueConfig& config) const {
    const auto made = peers[0].hca->create_connected_queue(config);
    return made ? Errc::kExists : made.error().code;
  }
  /// Returns one frame of side 0 that side 1 expects.
  Bytes good_frame(const Connection& setup = {}) {
    connect(setup);
    EXPECT_TRUE(send(0, pattern(1, 68)));
    return cut(1).at(0);
  }
  void put_and_poll(int to, std::span<const std::byte> frame) {
    put(to, frame);
    peers[to].poll();
  }
};

TEST_F(Connected, C11_AttributesThatCannotBeAreRefused) {
  EXPECT_EQ(refused({}), Errc::kInvalidArgument) << "no receive queue";
  EXPECT_EQ(refused({.transport = Transport::kUd, .receive_queue = peers[0].rx}),
            Errc::kInvalidArgument);
  EXPECT_EQ(refused({.pkey = 0x8123, .receive_queue = peers[0].rx}), Errc::kInvalidArgument);
  for (const std::uint16_t depth : std::initializer_list<std::uint16_t>{0, 3, 8192})
    EXPECT_EQ(refused({.receive_queue = peers[0].rx, .send_depth = depth}), Errc::kInvalidArgument);
  for (const fabric::ReceiveQueueConfig& bad :
       {fabric::ReceiveQueueConfig{.depth = 0}, fabric::ReceiveQueueConfig{.depth = 65'537},
        fabric::ReceiveQueueConfig{.max_message = 0},
        fabric::ReceiveQueueConfig{.max_message = fabric::kMaxMessage + 1}})
    EXPECT_FALSE(peers[0].hca->create_receive_queue(bad));

  const Connection setup;
  for (int side : {0, 1}) peers[side].queue = make_queue(side, setup);
  SoftHca& hca = *peers[0].hca;
  fabric::ConnectedQueue& queue = *peers[0].queue;
  const fabric::ReadyToReceive good = receive_attr(0, setup);
  const auto bad_receive = [&](const std::function<void(fabric::ReadyToReceive&)>& change) {
    fabric::ReadyToReceive attr = good;
    change(attr);
    const Status status = hca.set_ready_to_receive(queue, attr);
    return !status && status.error().code == Errc::kInvalidArgument;
  };
  EXPECT_TRUE(bad_receive([](auto& a) { a.peer_qpn = 1; }));
  EXPECT_TRUE(bad_receive([](auto& a) { a.peer_qpn = wire::kMulticastQpn; }));
  EXPECT_TRUE(bad_receive([](auto& a) { a.path_mtu = 0; }));
  EXPECT_TRUE(bad_receive([](auto& a) { a.path_mtu = 5; })) << "the port's is 2048";
  EXPECT_TRUE(bad_receive([](auto& a) { a.rx_psn = 1U << 24; }));
  EXPECT_TRUE(bad_receive([](auto& a) { a.min_rnr_timer = 32; }));
  EXPECT_TRUE(bad_receive([](auto& a) { a.path.dlid = 0; }));
  EXPECT_TRUE(bad_receive([](auto& a) { a.path.dlid = 0xc000; }));
  EXPECT_TRUE(bad_receive([](auto& a) { a.path.sl = 16; }));
  EXPECT_FALSE(hca.set_ready_to_send(queue, {})) << "not before it can receive";
  ASSERT_TRUE(hca.set_ready_to_receive(queue, good));
  EXPECT_FALSE(hca.set_ready_to_receive(queue, good)) << "once";
  const auto bad_send = [&](const fabric::ReadyToSend& attr) {
    const Status status = hca.set_ready_to_send(queue, attr);
    return !status && status.error().code == Errc::kInvalidArgument;
  };
  EXPECT_TRUE(bad_send({.tx_psn = 1U << 24}));
  EXPECT_TRUE(bad_send({.retry_count = 8}));
  EXPECT_TRUE(bad_send({.rnr_retry = 8}));
  EXPECT_TRUE(bad_send({.ack_timeout = 32}));
  EXPECT_TRUE(bad_send({.max_message = 0}));
  EXPECT_TRUE(bad_send({.max_message = fabric::kMaxMessage + 1}));
  EXPECT_TRUE(hca.set_ready_to_send(queue, {}));
}

TEST_F(Connected, C11_FrameThatIsNotForTheConnectionIsCountedAndLost) {
  const Bytes good = good_frame();
  fabric::UdQueue* ud = peers[1].hca->create_ud_queue({}).value();
  struct Case {
    const char* name;
    Drop reason;
    std::function<void(Bytes&)> change;
  };
  const auto bth = [](const std::function<void(wire::Bth&)>& change) {
    return [change](Bytes& f) { edit(f, change); };
  };
  const std::vector<Case> cases = {
      {"unknown QPN", Drop::kIbQpn, bth([](wire::Bth& b) { b.dest_qp.set(0x77'7777); })},
      {"another use of the place", Drop::kIbQpn,
       bth([](wire::Bth& b) { b.dest_qp.set(b.dest_qp.host() ^ 0x80'0000); })},
      {"a UD queue's", Drop::kIbOpcode, bth([&](wire::Bth& b) { b.dest_qp.set(ud->qpn()); })},
      {"UC to RC", Drop::kIbOpcode, bth([](wire::Bth& b) { b.opcode = 0x24; })},
      {"RD", Drop::kIbQpn, bth([](wire::Bth& b) { b.opcode = 0x44; })},
      {"no opcode", Drop::kIbOpcode, bth([](wire::Bth& b) { b.opcode = 0x1f; })},
      {"an answer", Drop::kIbOpcode, bth([](wire::Bth& b) { b.opcode = 0x10; })},
      {"TVer", Drop::kIbVersion, bth([](wire::Bth& b) { b.flags |= 1; })},
      {"P_Key", Drop::kIbPkey, bth([](wire::Bth& b) { b.pkey.set(0x8001); })},
      {"ICRC", Drop::kIbIcrc, [](Bytes& f) { f.back() ^= std::byte{1}; }},
      {"path", Drop::kIbPath,
       [](Bytes& f) {
         f[sizeof(EthHdr) + 7] = std::byte{9};
         seal(f);
       }},
      {"pad beyond", Drop::kIbLength, [](Bytes& f) {
         f.resize(kLocalHeadLen + sizeof(wire::Bth) + wire::kIcrcLen);
         f[sizeof(EthHdr) + 5] = std::byte{6};
         edit(f, [](wire::Bth& b) { b.flags |= 0x30; });
       }}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Bytes frame = good;
    c.change(frame);
    const std::uint64_t before = peers[1].drops(c.reason);
    const std::uint64_t all = peers[1].all_drops();
    put_and_poll(1, frame);
    EXPECT_EQ(peers[1].drops(c.reason), before + 1);
    EXPECT_EQ(peers[1].all_drops(), all + 1);
    EXPECT_TRUE(cut(0).empty()) << "nothing is said of it";
  }
  put_and_poll(1, good);
  EXPECT_EQ(receive(1).size(), 1U) << "none of them did anything";
}

TEST_F(Connected, C11_AnAckThatIsCutShortIsLost) {
  const Bytes good = good_frame();
  put_and_poll(1, good);
  Bytes ack = cut(0).at(0);
  ack[sizeof(EthHdr) + 5] = std::byte{6};  // PktLen is too short for an AETH.
  seal(ack);
  put_and_poll(0, ack);
  EXPECT_EQ(peers[0].drops(Drop::kIbLength), 1U);
}

TEST_F(Connected, C16_FirstPacketBeforeReadyToSendIsTold) {
  const Connection setup;
  for (int side : {0, 1}) peers[side].queue = make_queue(side, setup);
  fabric::ReadyToSend sends;
  sends.tx_psn = setup.first_psn[0];
  ASSERT_TRUE(peers[0].hca->set_ready_to_receive(*peers[0].queue, receive_attr(0, setup)));
  ASSERT_TRUE(peers[0].hca->set_ready_to_send(*peers[0].queue, sends));
  ASSERT_TRUE(send(0, pattern(1, 68)));
  const Bytes frame = cut(1).at(0);
  put_and_poll(1, frame);
  EXPECT_EQ(peers[1].drops(Drop::kIbQueueState), 1U) << "not ready at all";

  ASSERT_TRUE(peers[1].hca->set_ready_to_receive(*peers[1].queue, receive_attr(1, setup)));
  EXPECT_TRUE(send(1, pattern(1, 68)));
  EXPECT_EQ(peers[1].drops(Drop::kIbTxFlushed), 1U) << "may not send yet";
  EXPECT_FALSE(peers[1].hca->queue_events_pending());
  put_and_poll(1, frame);
  put_and_poll(1, frame);
  EXPECT_TRUE(peers[1].hca->queue_events_pending());
  const auto event = peers[1].hca->next_queue_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, fabric::QueueEvent::Kind::kEstablished);
  EXPECT_EQ(event->qpn, peers[1].queue->qpn());
  EXPECT_FALSE(peers[1].hca->next_queue_event()) << "once";
  EXPECT_EQ(cut(0).size(), 2U) << "and acknowledged";
  EXPECT_EQ(receive(1).size(), 1U);
}

TEST_F(Connected, C16_EndedQueueGivesBackWhatItHeldAndSaysNothing) {
  for (const auto transport : {Transport::kRc, Transport::kUc}) {
    SCOPED_TRACE(to_string(transport));
    clear();
    connect({.transport = transport});
    for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(send(0, pattern(i, 9000)));
    auto frames = cut(1);
    frames.resize(3);
    for (const Bytes& f : frames) put_and_poll(1, f);  // This message is incomplete.
    (void)cut(0);
    EXPECT_GT(mbufs_in_use(), 0U);
    for (int side : {0, 1}) {
      const std::uint32_t qpn = peers[side].queue->qpn();
      peers[side].hca->set_error(*peers[side].queue);
      peers[side].poll();
      EXPECT_EQ(peers[side].info().state, QueueState::kError);
      EXPECT_EQ(peers[side].info().error, fabric::QueueError::kClosed);
      peers[side].hca->destroy_connected_queue(*peers[side].queue);
      peers[side].poll();
      EXPECT_FALSE(peers[side].hca->next_queue_event()) << "who ended it knows";
      EXPECT_NE(make_queue(side, {})->qpn(), qpn) << "the number rests";
    }
    EXPECT_EQ(mbufs_in_use(), 0U);
    EXPECT_EQ(peers[1].drops(Drop::kIbQueueState), 3U);
    for (const Bytes& f : frames) put_and_poll(1, f);
    EXPECT_EQ(peers[1].drops(Drop::kIbQpn), 3U);
    peers[1].hca->destroy_receive_queue(*peers[1].rx);
    peers[1].rx = nullptr;
  }
}

TEST_F(Connected, C15_PortWithoutThePartitionSendsNothingAndTheConnectionEnds) {
  connect({.send = {.retry_count = 1, .ack_timeout = 8}});
  ASSERT_TRUE(peers[0].hca->change_port({.pkeys = std::vector<std::uint16_t>{0x8001}}));
  ASSERT_TRUE(send(0, pattern(1, 5000)));
  EXPECT_TRUE(cut(1).empty());
  EXPECT_EQ(peers[0].drops(Drop::kIbPkey), 3U);
  EXPECT_TRUE(run([&] { return peers[0].info().state == QueueState::kError; }, 1000));
  EXPECT_EQ(peers[0].info().error, fabric::QueueError::kRetryExceeded);

  ASSERT_TRUE(peers[1].hca->change_port({.up = false}));
  ASSERT_TRUE(send(1, pattern(1, 68)));
  EXPECT_EQ(peers[1].drops(Drop::kIbPortDown), 1U);
}

TEST_F(Connected, C15_NewLidOfThePortIsUsedAtOnce) {
  connect({});
  ASSERT_TRUE(peers[0].hca->change_port({.lid = 77}));
  ASSERT_TRUE(send(0, pattern(1, 68)));
  const Bytes frame = cut(1).at(0);
  EXPECT_EQ(wire::read<wire::Lrh>(frame, sizeof(EthHdr))->slid.host(), 77);
  put_and_poll(1, frame);
  EXPECT_EQ(peers[1].drops(Drop::kIbPath), 1U) << "the connection leads to LID 3";
}

TEST_F(Connected, U22_PathRateIsKept) {
  const Connection setup;
  for (int side : {0, 1}) peers[side].queue = make_queue(side, setup);
  fabric::ReadyToReceive slow = receive_attr(0, setup);
  slow.path.rate = 2;  // 2.5 Gb/s on a port of 10 Gb/s
  ASSERT_TRUE(peers[0].hca->set_ready_to_receive(*peers[0].queue, slow));
  ASSERT_TRUE(peers[0].hca->set_ready_to_send(*peers[0].queue,
                                              {.tx_psn = setup.first_psn[0], .ack_timeout = 20}));
  ASSERT_TRUE(peers[1].hca->set_ready_to_receive(*peers[1].queue, receive_attr(1, setup)));
  const std::uint64_t begin = sim_tsc;
  std::uint32_t sent = 0;
  std::uint64_t octets = 0;
  EXPECT_TRUE(run([&] {
    while (sent < 60 && send(0, pattern(sent, 65'520))) ++sent;
    (void)receive(1);
    octets = peers[0].info().counters.tx_done * 65'520;
    return sent == 60 && octets == 60 * 65'520;
  }));
  const double gbps = static_cast<double>(octets) * 8 / static_cast<double>(sim_tsc - begin);
  EXPECT_LT(gbps, 2.5 * 1.1) << "with the burst that is allowed";
  EXPECT_GT(gbps, 2.0);
  EXPECT_EQ(peers[0].drops(Drop::kIbRateLimited), 0U) << "what is too fast waits";
}

// Two links of one HCA can have such a connection.
TEST_F(Connected, C11_ConnectionOfAPortToItself) {
  const Connection setup;
  fabric::ConnectedQueue* ends[2] = {make_queue(0, setup), make_queue(0, setup)};
  for (int i : {0, 1}) {
    fabric::ReadyToReceive attr{.peer_qpn = ends[1 - i]->qpn()};
    attr.path.dlid = kPeerLid[0];
    ASSERT_TRUE(peers[0].hca->set_ready_to_receive(*ends[i], attr));
    ASSERT_TRUE(peers[0].hca->set_ready_to_send(*ends[i], {}));
  }
  peers[0].queue = ends[0];
  ASSERT_TRUE(send(0, pattern(1, 65'520)));
  EXPECT_TRUE(run([&] { return peers[0].info().counters.tx_done == 1; }, 1000));
  const auto got = receive(0);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0], pattern(1, 65'520));
  EXPECT_EQ(peers[0].all_drops(), 0U);
}

// An empty mempool, with no mbufs to copy to, loses and leaks nothing.
TEST_F(Connected, C11_EmptyPoolHoldsUpAndLosesNothing) {
  connect({});
  ASSERT_TRUE(send(0, pattern(1, 9000)));
  (void)cut(1);
  std::vector<rte_mbuf*> hoard;
  while (rte_mbuf* m = rte_pktmbuf_alloc(pool())) hoard.push_back(m);
  run(300);  // Time-outs occur, but frames cannot be built.
  for (rte_mbuf* m : hoard) rte_pktmbuf_free(m);
  EXPECT_TRUE(run([&] { return peers[0].info().counters.tx_done == 1; }));
  EXPECT_EQ(receive(1).size(), 1U);
}

TEST_F(Connected, C12_ManyIdleConnectionsAreCheap) {
  constexpr unsigned kConnections = 5000;
  std::vector<fabric::ConnectedQueue*> queues;
  for (unsigned i = 0; i < kConnections; ++i) {
    queues.push_back(make_queue(0, {}));
    fabric::ReadyToReceive attr{.peer_qpn = 2 + i};
    attr.path.dlid = static_cast<std::uint16_t>(100 + i);
    ASSERT_TRUE(peers[0].hca->set_ready_to_receive(*queues.back(), attr));
    ASSERT_TRUE(peers[0].hca->set_ready_to_send(*queues.back(), {}));
  }
  constexpr std::size_t kEach =
      sizeof(SoftConnectedQueue) + 128 * sizeof(SendSlot) + sizeof(AhTemplate) + sizeof(RateBucket);
  static_assert(kEach <= 4096);
  EXPECT_EQ(mbufs_in_use(), 0U) << "no buffers of their own";
  for (fabric::ConnectedQueue* q : queues) peers[0].hca->destroy_connected_queue(*q);
  for (unsigned i = 0; i < 10; ++i) {  // Exceeds the size of the ring to the worker.
    peers[0].poll();
    (void)peers[0].hca->next_queue_event();
  }
  const std::uint32_t qpn = make_queue(0, {})->qpn();
  EXPECT_EQ(ConnectedTable::place(qpn), 0U) << "all places are free again, the oldest comes first";
}

TEST_F(Connected, C11_FramesOfAllConnectionsLeaveInOneBurst) {
  connect({});
  std::vector<fabric::ConnectedQueue*> queues{peers[0].queue};
  for (int i = 0; i < 2; ++i) {
    connect({});
    queues.push_back(peers[0].queue);
  }
  for (fabric::ConnectedQueue* const queue : queues) {
    rte_mbuf* m = message(pattern(1, 68));
    ASSERT_EQ(queue->tx_burst(&m, 1), 1);
  }
  EXPECT_TRUE(cut(1).empty());
  peers[0].poll();
  EXPECT_EQ(cut(1).size(), 3U);
}

// The frames of the last loop wait for the next one, in which the device is gone.
TEST_F(Connected, C16_RemovedDeviceKeepsNoFrameAndNoQueue) {
  for (const auto transport : {fabric::Transport::kRc, fabric::Transport::kUc}) {
    SCOPED_TRACE(fabric::to_string(transport));
    clear();
    connect({.transport = transport});
    std::vector<rte_mbuf*> messages;
    for (std::uint32_t i = 0; i < 64; ++i) messages.push_back(message(pattern(i, 2048)));
    ASSERT_EQ(peers[0].queue->tx_burst(messages.data(), 64), 64);
    peers[0].hca->ethdev_wire()->on_ethdev_removed();
    const std::uint64_t before = peers[0].drops(Drop::kIbPortDown);
    peers[0].poll();
    EXPECT_EQ(peers[0].drops(Drop::kIbPortDown), before + 64);
    peers[0].hca->destroy_connected_queue(*peers[0].queue);
    for (int i = 0; i < 2; ++i) peers[0].poll();
    EXPECT_FALSE(peers[0].hca->next_queue_event());
    EXPECT_EQ(mbufs_in_use(), 0U);
  }
}

// The cable is not read. Closed queues are freed all the same.
TEST_F(Connected, C16_QueuesAreClosedWhileTheCableIsFull) {
  connect({.transport = fabric::Transport::kUc, .send_depth = 4096});
  fabric::ConnectedQueue* const busy = peers[0].queue;
  std::vector<rte_mbuf*> messages;
  for (std::uint32_t i = 0; i < 2 * kCableLen; ++i) messages.push_back(message(pattern(i, 68)));
  for (std::size_t i = 0; i < messages.size(); i += 62) {
    ASSERT_EQ(busy->tx_burst(&messages[i], 62), 62);
    peers[0].poll();
  }
  connect({});  // Its message waits behind those of the first.
  rte_mbuf* m = message(pattern(1, 68));
  ASSERT_EQ(peers[0].queue->tx_burst(&m, 1), 1);
  peers[0].poll();
  const auto& closed = static_cast<const SoftConnectedQueue&>(*peers[0].queue).closed;
  peers[0].hca->destroy_connected_queue(*peers[0].queue);
  peers[0].poll();
  EXPECT_TRUE(closed.load()) << "the worker has left the queue pair";
  // When the cable is read again, the first goes on.
  EXPECT_EQ(cut(1).size(), kCableLen);
  peers[0].poll();
  EXPECT_FALSE(cut(1).empty());
}

}  // namespace
}  // namespace ipoib::soft
