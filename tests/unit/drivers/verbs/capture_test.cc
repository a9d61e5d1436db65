// SPDX-License-Identifier: BSD-3-Clause
// Captures of the verbs driver. The stand-in knows each packet that it carried, and the rebuilt
// packets are compared with these.
#include <rte_cycles.h>
#include <rte_ring.h>

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cerrno>

#include "lib/fabric/capture_meta.h"
#include "lib/wire/frame.h"
#include "lib/wire/rc.h"
#include "tests/unit/drivers/verbs/verbs_fixture.h"

namespace ipoib::verbs {
namespace {

using fabric::CaptureDirection;
using fabric::Transport;
using fake_verbs::Message;
using wire::Opcode;

constexpr unsigned kTapRing = 64;  ///< It holds one packet less.
constexpr unsigned kTapPool = 127;

struct Captured {
  Bytes octets;
  CaptureDirection direction;
};

/// The packet that the stand-in carried, as on the wire.
Bytes on_wire(const Message& message) {
  wire::UdSpec spec{.sl = message.sl,
                    .dlid = message.dlid,
                    .slid = message.slid,
                    .pkey = message.pkey,
                    .dest_qp = message.dest_qpn,
                    .src_qp = message.src_qpn,
                    .qkey = message.qkey};
  if (message.global)
    spec.grh = wire::GrhSpec{.sgid = message.sgid,
                             .dgid = message.dgid,
                             .tclass = message.tclass,
                             .flow_label = message.flow_label,
                             .hop_limit = message.hop_limit};
  Bytes packet(wire::ud_packet_len(message.global, message.bytes.size()));
  EXPECT_EQ(wire::build_ud_packet(spec, message.bytes, packet), packet.size());
  return packet;
}

/// The headers of a packet that a reader of the file understands, with a good ICRC.
wire::IbaFrame parsed(const Bytes& packet) {
  wire::IbaFrame frame;
  EXPECT_EQ(wire::parse_iba(packet, frame), wire::FrameError::kNone);
  EXPECT_TRUE(wire::icrc_is_good(packet));
  return frame;
}

/// The test reads the ring in place of the thread that writes captures.
class VerbsCapture : public VerbsFixture {
 protected:
  void SetUp() override {
    VerbsFixture::SetUp();
    tap_.ring = rte_ring_create("tap", kTapRing, SOCKET_ID_ANY, RING_F_SC_DEQ);
    tap_.pool =
        rte_pktmbuf_pool_create("tap", kTapPool, 0, 0, RTE_PKTMBUF_HEADROOM + 4224, SOCKET_ID_ANY);
    ASSERT_TRUE(tap_.ring != nullptr && tap_.pool != nullptr);
  }
  void TearDown() override {
    (void)captured();
    EXPECT_EQ(rte_mempool_in_use_count(tap_.pool), 0U);
    a_.reset();
    b_.reset();
    VerbsFixture::TearDown();
    rte_mempool_free(tap_.pool);
    rte_ring_free(tap_.ring);
  }
  void make_nodes() {
    a_ = make_node(0);
    b_ = make_node(1);
    fabric_.tap(true);
  }
  std::vector<Captured> captured() {
    std::vector<Captured> all;
    while (rte_mbuf* const m = test::next_of(tap_.ring)) {
      const auto& meta = fabric::capture_meta_of(m);
      EXPECT_GE(meta.tsc, last_tsc_);
      EXPECT_LE(meta.tsc, rte_rdtsc());
      last_tsc_ = meta.tsc;
      const CaptureDirection direction = meta.direction;
      all.push_back({test::take(m), direction});
    }
    return all;
  }
  void expect_captured(CaptureDirection direction, const std::vector<Bytes>& wanted) {
    const auto all = captured();
    ASSERT_EQ(all.size(), wanted.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].octets, wanted[i]) << i;
      EXPECT_EQ(all[i].direction, direction);
    }
  }

  fabric::CaptureTap tap_;
  std::unique_ptr<Node> a_;
  std::unique_ptr<Node> b_;

 private:
  std::uint64_t last_tsc_ = 0;
};

TEST_F(VerbsCapture, P10_DatagramsAreRebuiltAsTheyWereOnTheWire) {
  make_nodes();
  ASSERT_TRUE(b_->hca->attach(*b_->queue, kMgid, kMlid));
  fabric::AhAttr routed;
  routed.dlid = 5;
  routed.sl = 3;
  routed.global = true;
  routed.tclass = 0x12;
  routed.flow_label = 0x5'4321;
  routed.hop_limit = 63;
  routed.dgid = b_->device->ports[0].gids[0];
  fabric::AhAttr other_key;
  other_key.dlid = 5;
  other_key.qkey = 0x1234;
  // The sender first, then the receiver.
  for (Node* const node : {a_.get(), b_.get()}) {
    node->hca->set_capture(tap_);
    for (unsigned pad = 0; pad < 4; ++pad)
      send(*a_, ah_to(*a_, 5), b_->queue->qpn(), {payload(60 + pad)});
    send(*a_, a_->hca->create_ah(routed).value(), b_->queue->qpn(), {payload(2044)});
    send(*a_, group_ah(*a_), wire::kMulticastQpn, {payload(80)});
    std::vector<Bytes> wanted;
    for (const Message& message : fabric_.take_sent()) wanted.push_back(on_wire(message));
    (void)take(b_->receive());
    expect_captured(node == a_.get() ? CaptureDirection::kSent : CaptureDirection::kReceived,
                    wanted);
    EXPECT_EQ(wanted.size(), 6U);
    node->hca->set_capture(std::nullopt);
  }
  // Packets of a handle with a Q_Key of its own, which the receiver discards.
  a_->hca->set_capture(tap_);
  send(*a_, a_->hca->create_ah(other_key).value(), b_->queue->qpn(), {payload(60)});
  expect_captured(CaptureDirection::kSent, {on_wire(fabric_.take_sent().at(0))});
  EXPECT_EQ(a_->hca->capture_lost() + b_->hca->capture_lost(), 0U);
}

TEST_F(VerbsCapture, P10_CompletionsGiveTheFieldsThatTheyHave) {
  fake_verbs::Device& device = add_device(1);
  device.ports[0].attr.lid = 8;
  device.ports[0].attr.lmc = 2;
  b_ = make_node(device);
  b_->hca->set_capture(tap_);
  Message message;
  message.slid = 0x17;
  message.dlid = 11;  // Path bits 3.
  message.sl = 9;
  message.qkey = kQkey;
  message.src_qpn = 0x4321;
  message.dest_qpn = b_->queue->qpn();
  message.bytes = payload(61);
  fabric_.inject(message);
  (void)take(b_->receive());
  expect_captured(CaptureDirection::kReceived, {on_wire(message)});

  message.immediate = 0xa1b2'c3d4;
  fabric_.inject(message);
  (void)take(b_->receive());
  const auto all = captured();
  ASSERT_EQ(all.size(), 1U);
  const wire::IbaFrame frame = parsed(all[0].octets);
  EXPECT_EQ(frame.bth.opcode, static_cast<std::uint8_t>(Opcode::kUdSendOnlyImm));
  wire::Be32 immediate;
  std::memcpy(&immediate, &all[0].octets[frame.body + sizeof(wire::Deth)], sizeof(immediate));
  EXPECT_EQ(immediate.host(), *message.immediate);
}

TEST_F(VerbsCapture, P10_GroupsAndKeysOfThePortAreFollowed) {
  make_nodes();
  b_->hca->set_capture(tap_);
  ASSERT_TRUE(b_->hca->attach(*b_->queue, kMgid, kMlid));
  const auto rebuilt = [this] {
    send(*a_, group_ah(*a_), wire::kMulticastQpn, {payload(80)});
    (void)take(b_->receive());
    expect_captured(CaptureDirection::kReceived, {on_wire(fabric_.take_sent().at(0))});
  };
  rebuilt();
  // The subnet manager gives the port another LID.
  b_->device->ports[0].attr.lid = 9;
  b_->manager->events.push_back(fabric::PortEvent::kLidChange);
  (void)pass(*b_);
  send(*a_, ah_to(*a_, 9), b_->queue->qpn(), {payload(60)});
  (void)take(b_->receive());
  expect_captured(CaptureDirection::kReceived, {on_wire(fabric_.take_sent().at(0))});
  rebuilt();
}

TEST_F(VerbsCapture, P10_MessagesAreTheirPackets) {
  make_nodes();
  for (const Transport transport : {Transport::kRc, Transport::kUc}) {
    std::array<Node*, 2> nodes{a_.get(), b_.get()};
    std::array<fabric::ReceiveQueue*, 2> receive{};
    std::array<fabric::ConnectedQueue*, 2> queues{};
    for (const std::size_t i : {0U, 1U}) {
      (void)pass(*nodes[i]);
      receive[i] = nodes[i]->hca->create_receive_queue({32, 9000}).value();
      queues[i] =
          nodes[i]->hca->create_connected_queue({transport, 0xffff, receive[i], 16}).value();
    }
    for (const std::size_t i : {0U, 1U}) {
      fabric::ReadyToReceive attr;
      attr.peer_qpn = queues[1 - i]->qpn();
      attr.path.dlid = static_cast<std::uint16_t>(5 - i);
      attr.path.sl = 2;
      ASSERT_TRUE(nodes[i]->hca->set_ready_to_receive(*queues[i], attr));
      ASSERT_TRUE(nodes[i]->hca->set_ready_to_send(*queues[i], {.max_message = 9000}));
    }
    const auto rc_or_uc = static_cast<unsigned>(transport == Transport::kUc ? 0x20 : 0);
    for (Node* const node : nodes) {
      node->hca->set_capture(tap_);
      std::vector<rte_mbuf*> pkts{chain(payload(4099), 1500), packet(payload(100))};
      ASSERT_EQ(queues[0]->tx_burst(pkts.data(), 2), 2);
      std::array<rte_mbuf*, 8> got;
      const std::uint16_t n = receive[1]->rx_burst(got.data(), 8);
      EXPECT_EQ(n, 2);
      rte_pktmbuf_free_bulk(got.data(), n);
      const auto all = captured();
      const std::array<Opcode, 4> opcodes{Opcode::kRcSendFirst, Opcode::kRcSendMiddle,
                                          Opcode::kRcSendLast, Opcode::kRcSendOnly};
      ASSERT_EQ(all.size(), opcodes.size());
      Bytes first;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const wire::IbaFrame frame = parsed(all[i].octets);
        EXPECT_EQ(frame.lrh.slid.host(), 4);
        EXPECT_EQ(frame.lrh.dlid.host(), 5);
        EXPECT_EQ(frame.lrh.sl(), 2);
        EXPECT_EQ(frame.bth.opcode, static_cast<unsigned>(opcodes[i]) | rc_or_uc);
        EXPECT_EQ(frame.bth.psn.host(), i);
        EXPECT_EQ(frame.bth.dest_qp.host(), queues[1]->qpn());
        EXPECT_EQ(frame.bth.pkey.host(), 0xffff);
        EXPECT_EQ(all[i].direction,
                  node == nodes[0] ? CaptureDirection::kSent : CaptureDirection::kReceived);
        const auto from = all[i].octets.begin() + frame.body;
        if (i < 3) first.insert(first.end(), from, from + frame.body_len);
      }
      EXPECT_EQ(first, payload(4099));
      node->hca->set_capture(std::nullopt);
    }
  }
}

TEST_F(VerbsCapture, P10_MadsOfThePortAreInTheCapture) {
  make_nodes();
  a_->hca->set_capture(tap_);
  fabric::MadPort& mads = a_->hca->mad_port();
  fabric::ReceivedMad mad;
  mad.from = {.lid = 1, .sl = 4, .pkey = 0x8001};
  mad.bytes.fill(std::byte{0x77});
  a_->manager->mads.waiting = {mad, mad};
  a_->manager->mads.waiting[1].from.lid = 4;  // From the port itself.
  EXPECT_TRUE(mads.pending());
  ASSERT_TRUE(mads.send(mad.from, mad.bytes));
  ASSERT_TRUE(mads.send({.lid = 4}, mad.bytes));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(mads.receive().has_value(), i < 2);

  const auto all = captured();
  ASSERT_EQ(all.size(), 2U);
  for (const Captured& one : all) {
    const bool sent = one.direction == CaptureDirection::kSent;
    EXPECT_EQ(sent, &one == &all[0]);
    wire::UdSpec spec{.sl = 4,
                      .dlid = 1,
                      .slid = 4,
                      .pkey = 0x8001,
                      .dest_qp = 1,
                      .src_qp = 1,
                      .qkey = wire::kGsiQkey,
                      .mig_req = false};
    if (!sent) std::swap(spec.dlid, spec.slid);
    Bytes wanted(wire::ud_packet_len(false, wire::kMadLen));
    ASSERT_NE(wire::build_ud_packet(spec, mad.bytes, wanted), 0U);
    EXPECT_EQ(one.octets, wanted);
  }
}

TEST_F(VerbsCapture, P10_FullRingAndEmptyPoolLoseTheCopyOnly) {
  make_nodes();
  b_->hca->set_capture(tap_);
  const auto feed = [this](unsigned n) {
    for (unsigned i = 0; i < n; ++i) EXPECT_TRUE(talk(*a_, *b_));
  };
  feed(70);
  EXPECT_EQ(b_->hca->capture_lost(), 70 - (kTapRing - 1));
  EXPECT_EQ(captured().size(), kTapRing - 1);
  std::vector<rte_mbuf*> taken(kTapPool);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(tap_.pool, taken.data(), kTapPool), 0);
  feed(5);
  EXPECT_EQ(b_->hca->capture_lost(), 70 - (kTapRing - 1) + 5);
  rte_pktmbuf_free_bulk(taken.data(), kTapPool);
  feed(1);
  EXPECT_EQ(captured().size(), 1U);
}

TEST_F(VerbsCapture, P10_PacketsThatTheDeviceRefusesAreNotShown) {
  fake_verbs::Device& device = add_device(0);
  device.extended_qp = false;  // So that the device takes the first packet of the chain.
  a_ = make_node(device);
  a_->hca->set_capture(tap_);
  fabric_.tap(true);
  fabric_.fail(fake_verbs::Call::kPostSend, ENOMEM, 1, 1);
  const auto ah = ah_to(*a_, 5);
  rte_mbuf* pkts[] = {packet(payload(60), ah, 9), packet(payload(61), ah, 9),
                      packet(payload(62), fabric::kNoAh, 9)};
  ASSERT_EQ(a_->queue->tx_burst(pkts, 3), 3);
  expect_captured(CaptureDirection::kSent, {on_wire(fabric_.take_sent().at(0))});
  EXPECT_EQ(a_->all_drops(), 2U);
}

TEST_F(VerbsCapture, P10_WithoutACaptureNothingIsCopied) {
  make_nodes();
  EXPECT_TRUE(talk(*a_, *b_));
  a_->hca->set_capture(tap_);
  a_->hca->set_capture(std::nullopt);
  EXPECT_TRUE(talk(*a_, *b_));
  EXPECT_EQ(rte_mempool_in_use_count(tap_.pool), 0U);
}

TEST_F(VerbsCapture, P10_EthernetLinkLayerHasGidsInPlaceOfLids) {
  CaptureView view;
  view.ethernet = true;
  view.gid = wire::Gid::of(wire::kDefaultGidPrefix, 1);
  view.groups = {{kMgid, kMlid}};
  fabric::AhAttr to;
  to.dlid = kMlid;
  to.global = true;
  to.dgid = kMgid;
  const PacketHead sent = view.head_to(to);
  EXPECT_EQ(sent.slid | sent.dlid, 0);
  EXPECT_EQ(sent.grh->hop_limit, 1);
  // The IPv6 header of RoCE version 2 is where InfiniBand has the GRH.
  wire::Grh ip{};
  ip.next_header = 17;
  ip.dgid = kMgid;
  ip.sgid = wire::Gid::of(wire::kDefaultGidPrefix, 2);
  const PacketHead received = view.head_of_datagram(0xa5a5, 0, 0, &ip, 7);
  EXPECT_EQ(received.slid | received.dlid, 0);
  EXPECT_EQ(received.dest_qp, wire::kMulticastQpn);
  Bytes packet(packet_len(received, 0));
  complete_packet(received, 0, packet);
  (void)parsed(packet);
}

}  // namespace
}  // namespace ipoib::verbs
