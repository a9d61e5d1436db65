// SPDX-License-Identifier: BSD-3-Clause
// UD queues of the verbs driver between two devices, by both of libibverbs' send interfaces.
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/wire/iba.h"
#include "tests/support/fake_verbs/objects.h"
#include "tests/unit/drivers/verbs/verbs_fixture.h"

namespace ipoib::verbs {
namespace {

using fake_verbs::Call;
using fake_verbs::Lost;
using fake_verbs::Message;

/// Features of the provider: ibv_wr_* and inline data.
struct Provider {
  bool extended;
  std::uint32_t max_inline;
};

class VerbsUdTest : public VerbsFixture, public testing::WithParamInterface<Provider> {
 protected:
  void SetUp() override {
    VerbsFixture::SetUp();
    for (int i : {0, 1}) {
      fake_verbs::Device& device = add_device(i);
      device.extended_qp = GetParam().extended;
      device.max_inline = GetParam().max_inline;
      (i == 0 ? a_ : b_) = make_node(device);
    }
    to_b_ = ah_to(*a_, 5);
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    VerbsFixture::TearDown();
  }
  void send(const std::vector<Bytes>& packets) {
    VerbsFixture::send(*a_, to_b_, b_->queue->qpn(), packets);
  }
  /// Addresses a packet to the other node.
  rte_mbuf* to_b(rte_mbuf* m) {
    fabric::meta_of(m).tx = {.ah = to_b_, .qpn = b_->queue->qpn(), .iface = 0, .connected = false};
    return m;
  }
  void send_group() { VerbsFixture::send(*a_, group_ah(*a_), wire::kMulticastQpn, {payload(60)}); }
  void expect_talk() {
    EXPECT_TRUE(talk(*a_, *b_));
    EXPECT_TRUE(talk(*b_, *a_));
  }
  /// Lets the driver poll the completions of its sends.
  void reap() { ASSERT_TRUE(a_->receive().empty()); }

  std::unique_ptr<Node> a_;
  std::unique_ptr<Node> b_;
  fabric::AhIndex to_b_ = fabric::kNoAh;
};

TEST_P(VerbsUdTest, P02_BurstsOfAnySizeArriveWholeAndInOrder) {
  for (std::uint16_t burst = 1; burst <= 64; ++burst) {
    std::vector<Bytes> packets;
    for (unsigned i = 0; i < burst; ++i) packets.push_back(payload(4 + (i * 97) % 2044, i));
    // Parts of 16, between which the receive buffers are refilled.
    for (std::size_t at = 0; at < packets.size(); at += 16) {
      const auto n = std::min<std::size_t>(16, packets.size() - at);
      const std::vector<Bytes> part{packets.begin() + static_cast<std::ptrdiff_t>(at),
                                    packets.begin() + static_cast<std::ptrdiff_t>(at + n)};
      send(part);
      EXPECT_EQ(take(b_->receive()), part);
      reap();
    }
  }
  EXPECT_EQ(a_->all_drops() + b_->all_drops(), 0U);
}

TEST_P(VerbsUdTest, FullBurstIsTwoChainsWithASignalEach) {
  const auto before = fabric_.send_counts();
  std::vector<Bytes> packets(48, payload(200));
  send(packets);
  EXPECT_EQ(take(b_->receive()), packets);
  const auto after = fabric_.send_counts();
  EXPECT_EQ(after.requests - before.requests, 48U);
  EXPECT_EQ(after.batches - before.batches, 2U);
  EXPECT_EQ(after.signaled - before.signaled, 2U);
  EXPECT_EQ(after.inlined, before.inlined);
  EXPECT_EQ(fabric_.outstanding_sends(a_->queue->qpn()), 48U);
  reap();
  EXPECT_EQ(fabric_.outstanding_sends(a_->queue->qpn()), 0U);
}

TEST_P(VerbsUdTest, SmallPacketsGoInline) {
  const std::uint32_t most = std::min(128U, GetParam().max_inline / 64 * 64);
  send({payload(60), payload(64), payload(65), payload(128), payload(129)});
  EXPECT_EQ(take(b_->receive()).size(), 5U);
  const std::uint64_t expected = most == 128 ? 4 : most == 64 ? 2 : 0;
  EXPECT_EQ(fabric_.send_counts().inlined, expected);
}

TEST_P(VerbsUdTest, ChainedMbufsAreOnePacket) {
  for (const std::size_t len : {50U, 120U, 700U}) {
    rte_mbuf* m = to_b(chain(payload(len), len / 5));
    ASSERT_EQ(a_->queue->tx_burst(&m, 1), 1);
    EXPECT_EQ(take(b_->receive()), std::vector<Bytes>(1, payload(len)));
  }
  // The chain has more mbufs than a work request has room for, so a copy is sent.
  rte_mbuf* m = to_b(chain(payload(900), 100));
  ASSERT_EQ(a_->queue->tx_burst(&m, 1), 1);
  EXPECT_EQ(take(b_->receive()), std::vector<Bytes>(1, payload(900)));
  EXPECT_EQ(a_->all_drops(), 0U);
  // A burst of chains needs more gather elements than one chain has.
  std::array<rte_mbuf*, 30> burst;
  for (rte_mbuf*& one : burst) one = to_b(chain(payload(800), 100));
  ASSERT_EQ(a_->queue->tx_burst(burst.data(), burst.size()), burst.size());
  EXPECT_EQ(take(b_->receive()), std::vector<Bytes>(30, payload(800)));
  reap();
}

TEST_P(VerbsUdTest, ReceivedPacketsSayWhereTheyCameFrom) {
  send({payload(60)});
  auto got = b_->receive();
  ASSERT_EQ(got.size(), 1U);
  const auto& unicast = fabric::meta_of(got[0]).rx;
  EXPECT_EQ(unicast.src_qpn, a_->queue->qpn());
  EXPECT_EQ(unicast.slid, 4);
  EXPECT_EQ(unicast.grh_offset, 0);
  EXPECT_FALSE(unicast.multicast);
  EXPECT_EQ(unicast.transport, fabric::Transport::kUd);
  rte_pktmbuf_free(got[0]);

  ASSERT_TRUE(b_->hca->attach(*b_->queue, kMgid, kMlid));
  const auto again = b_->hca->attach(*b_->queue, kMgid, kMlid);
  EXPECT_TRUE(!again && again.error().code == Errc::kExists);
  send_group();
  got = b_->receive();
  ASSERT_EQ(got.size(), 1U);
  const auto& multicast = fabric::meta_of(got[0]).rx;
  EXPECT_TRUE(multicast.multicast);
  ASSERT_EQ(multicast.grh_offset, sizeof(wire::Grh));
  wire::Grh grh;
  std::memcpy(&grh, rte_pktmbuf_mtod(got[0], const std::byte*) - sizeof(grh), sizeof(grh));
  EXPECT_EQ(grh.dgid, kMgid);
  EXPECT_EQ(grh.sgid, a_->hca->attr().gid());
  rte_pktmbuf_free(got[0]);

  EXPECT_TRUE(b_->hca->detach(*b_->queue, kMgid, kMlid));
  const auto twice = b_->hca->detach(*b_->queue, kMgid, kMlid);
  EXPECT_TRUE(!twice && twice.error().code == Errc::kNotFound);
  send_group();
  EXPECT_TRUE(b_->receive().empty());
  EXPECT_EQ(fabric_.lost(Lost::kNotAttached), 1U);
}

TEST_P(VerbsUdTest, U22_PacketsTravelAsTheirHandleSays) {
  fabric_.tap(true);
  fabric::AhAttr path;
  path.dlid = 5;
  path.sl = 3;
  path.rate = 2;  // 2.5 Gb/s, slower than the port
  path.global = true;
  path.dgid = b_->hca->attr().gid();
  path.hop_limit = 9;
  path.tclass = 4;
  path.flow_label = 0x12345;
  const auto slow = a_->hca->create_ah(path).value();
  path.rate = 16;  // 100 Gb/s, as fast as the port
  const auto fast = a_->hca->create_ah(path).value();
  VerbsFixture::send(*a_, slow, b_->queue->qpn(), {payload(60)});
  VerbsFixture::send(*a_, fast, b_->queue->qpn(), {payload(60)});
  EXPECT_EQ(take(b_->receive()).size(), 2U);
  const auto sent = fabric_.take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].static_rate, 2);
  EXPECT_EQ(sent[1].static_rate, 0);
  EXPECT_EQ(sent[0].sl, 3);
  EXPECT_TRUE(sent[0].global);
  EXPECT_EQ(sent[0].dgid, path.dgid);
  EXPECT_EQ(sent[0].hop_limit, 9);
  EXPECT_EQ(sent[0].tclass, 4);
  EXPECT_EQ(sent[0].flow_label, 0x12345U);
  EXPECT_EQ(sent[0].qkey, kQkey);
  EXPECT_EQ(sent[0].pkey, 0xffff);
}

TEST_P(VerbsUdTest, U41_AHandleMayHaveSourcePathBits) {
  fabric_.tap(true);
  fabric::AhAttr path;
  path.dlid = 5;
  path.src_path_bits = 1;
  const auto refused = a_->hca->create_ah(path);
  EXPECT_TRUE(!refused && refused.error().code == Errc::kInvalidArgument) << "the LMC is 0";
  a_->device->ports[0].attr.lid = 8;
  a_->device->ports[0].attr.lmc = 1;
  fabric_.raise(*a_->device, IBV_EVENT_LID_CHANGE);
  pass(*a_);
  const auto second = a_->hca->create_ah(path).value();
  path.src_path_bits = 0;
  const auto first = a_->hca->create_ah(path).value();
  EXPECT_NE(first, second);
  VerbsFixture::send(*a_, first, b_->queue->qpn(), {payload(60)});
  VerbsFixture::send(*a_, second, b_->queue->qpn(), {payload(60)});
  EXPECT_EQ(take(b_->receive()).size(), 2U);
  const auto sent = fabric_.take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].slid, 8);
  EXPECT_EQ(sent[1].slid, 9);
}

TEST_P(VerbsUdTest, E03_AHandleMayHaveItsOwnQkey) {
  fabric_.tap(true);
  fabric::AhAttr path;
  path.dlid = 5;
  path.qkey = 0x1234;
  const auto own = a_->hca->create_ah(path).value();
  path.qkey.reset();
  const auto of_queue = a_->hca->create_ah(path).value();
  EXPECT_NE(own, of_queue);
  VerbsFixture::send(*a_, own, b_->queue->qpn(), {payload(60)});
  VerbsFixture::send(*a_, of_queue, b_->queue->qpn(), {payload(60)});
  const auto sent = fabric_.take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].qkey, 0x1234U);
  EXPECT_EQ(sent[1].qkey, kQkey);
  EXPECT_EQ(take(b_->receive()).size(), 1U);
}

TEST_P(VerbsUdTest, ControlledQkeyIsTheQueuePairsOwn) {
  fabric_.tap(true);
  ASSERT_TRUE(a_->hca->set_qkey(*a_->queue, 0x8001'0000));
  ASSERT_TRUE(b_->hca->set_qkey(*b_->queue, 0x8001'0000));
  send({payload(60)});
  EXPECT_EQ(take(b_->receive()).size(), 1U);
  EXPECT_EQ(fabric_.take_sent().at(0).qkey, 0x8001'0000U);
  ASSERT_TRUE(b_->hca->set_qkey(*b_->queue, 5));
  send({payload(60)});
  EXPECT_TRUE(b_->receive().empty());
  EXPECT_EQ(fabric_.lost(Lost::kQkey), 1U);
}

// --- Checksums ---

Bytes udp_packet() {
  Bytes octets = payload(4 + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr) + 11);
  rte_ipv4_hdr ip{};
  ip.version_ihl = 0x45;
  ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(octets.size() - 4));
  ip.time_to_live = 3;
  ip.next_proto_id = IPPROTO_UDP;
  ip.src_addr = rte_cpu_to_be_32(0x0a00'0001);
  ip.dst_addr = rte_cpu_to_be_32(0x0a00'0002);
  rte_udp_hdr udp{};
  udp.dgram_len = rte_cpu_to_be_16(static_cast<std::uint16_t>(sizeof(udp) + 11));
  std::memcpy(&octets[4], &ip, sizeof(ip));
  std::memcpy(&octets[4 + sizeof(ip)], &udp, sizeof(udp));
  return octets;
}

TEST_P(VerbsUdTest, ChecksumsAreMadeAndVerifiedByTheDevice) {
  const auto exchange = [&](std::uint64_t flags) {
    rte_mbuf* m = packet(udp_packet(), to_b_, b_->queue->qpn());
    m->ol_flags |= flags;
    EXPECT_EQ(a_->queue->tx_burst(&m, 1), 1);
    const auto got = b_->receive();
    return got.empty() ? nullptr : got[0];
  };
  rte_mbuf* good = exchange(RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM);
  ASSERT_NE(good, nullptr);
  auto* ip = rte_pktmbuf_mtod_offset(good, rte_ipv4_hdr*, 4);
  auto* udp = reinterpret_cast<rte_udp_hdr*>(ip + 1);
  const rte_be16_t of_ip = ip->hdr_checksum;
  const rte_be16_t of_udp = udp->dgram_cksum;
  ip->hdr_checksum = udp->dgram_cksum = 0;
  EXPECT_EQ(of_ip, rte_ipv4_cksum(ip));
  EXPECT_EQ(of_udp, rte_ipv4_udptcp_cksum(ip, udp));
  EXPECT_EQ(good->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK, RTE_MBUF_F_RX_IP_CKSUM_GOOD);
  EXPECT_EQ(good->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK, RTE_MBUF_F_RX_L4_CKSUM_GOOD);
  rte_mbuf* bad = exchange(0);
  ASSERT_NE(bad, nullptr);
  EXPECT_EQ(bad->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK, RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN);
  rte_pktmbuf_free(good);
  rte_pktmbuf_free(bad);
}

TEST_P(VerbsUdTest, DeviceWithoutChecksumsIsNotAskedForThem) {
  fake_verbs::Device& device = add_device(2);
  device.extended_qp = GetParam().extended;
  device.attr.orig_attr.device_cap_flags &= ~unsigned{IBV_DEVICE_UD_IP_CSUM};
  const auto plain = make_node(device);
  rte_mbuf* m = packet(udp_packet(), ah_to(*plain, 5), b_->queue->qpn());
  m->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
  EXPECT_EQ(plain->queue->tx_burst(&m, 1), 1);
  EXPECT_EQ(take(b_->receive()), std::vector<Bytes>(1, udp_packet()));
  EXPECT_EQ(plain->all_drops(), 0U);
}

// A worker takes no lock. Its provider takes none either, if the provider has that option.
TEST_P(VerbsUdTest, QueuesAreOfOneThread) {
  EXPECT_TRUE(fabric_.lockless(a_->queue->qpn()));
  EXPECT_TRUE(talk(*a_, *b_));
}

// Queues of one thread domain write to the same registers without a lock.
TEST_P(VerbsUdTest, P14_EachWorkerHasAThreadDomainOfItsOwn) {
  fabric::UdQueue* const other = a_->hca->create_ud_queue({.worker = 1}).value();
  fabric::UdQueue* const same = a_->hca->create_ud_queue({}).value();
  ASSERT_NE(fabric_.thread_of(other->qpn()), nullptr);
  EXPECT_TRUE(fabric_.lockless(other->qpn()));
  EXPECT_NE(fabric_.thread_of(other->qpn()), fabric_.thread_of(a_->queue->qpn()));
  EXPECT_EQ(fabric_.thread_of(same->qpn()), fabric_.thread_of(a_->queue->qpn()));
}

// Each queue counts its drops for its worker; the port shows the sum, also after a queue is gone.
TEST_P(VerbsUdTest, P14_DropsOfAllQueuesAreSummed) {
  fabric::UdQueue* const other = a_->hca->create_ud_queue({.worker = 1}).value();
  for (fabric::UdQueue* const queue : {a_->queue, other, other}) {
    rte_mbuf* m = packet(payload(60), fabric::kNoAh, 1);
    EXPECT_EQ(queue->tx_burst(&m, 1), 1);
  }
  EXPECT_EQ(a_->drops(Drop::kIbTxInvalid), 3U);
  a_->hca->destroy_ud_queue(*other);
  EXPECT_EQ(a_->drops(Drop::kIbTxInvalid), 3U);
}

TEST_P(VerbsUdTest, P14_EachQueueOfAWorkerSendsAndReceives) {
  fabric::UdQueue* const other = b_->hca->create_ud_queue({.worker = 1}).value();
  ASSERT_TRUE(b_->hca->set_qkey(*other, kQkey));
  rte_mbuf* m = packet(payload(60), to_b_, other->qpn());
  ASSERT_EQ(a_->queue->tx_burst(&m, 1), 1);
  rte_mbuf* got = nullptr;
  ASSERT_EQ(other->rx_burst(&got, 1), 1);
  rte_pktmbuf_free(got);
  EXPECT_TRUE(b_->receive().empty());
  EXPECT_TRUE(talk(*a_, *b_));
}

// --- Refusals ---

TEST_P(VerbsUdTest, WhatCanNeverBeSentIsTakenAndCounted) {
  std::array<rte_mbuf*, 4> pkts = {packet(payload(60), fabric::kNoAh, 1),
                                   packet(payload(60), to_b_ + 1, 1),
                                   to_b(chain(payload(2049), 2000)), to_b(packet(payload(60)))};
  EXPECT_EQ(a_->queue->tx_burst(pkts.data(), pkts.size()), 4);
  EXPECT_EQ(a_->drops(Drop::kIbTxInvalid), 2U);
  EXPECT_EQ(a_->drops(Drop::kIbTxTooLong), 1U);
  EXPECT_EQ(a_->queue->tx_lost().packets, 3U);
  EXPECT_EQ(a_->queue->tx_lost().octets, 2 * 60U + 2049);
  EXPECT_EQ(take(b_->receive()).size(), 1U);
}

TEST_P(VerbsUdTest, RuntIsCounted) {
  Message message;
  message.slid = 9;
  message.dlid = 5;
  message.qkey = kQkey;
  message.dest_qpn = b_->queue->qpn();
  message.bytes = {std::byte{8}, std::byte{0}, std::byte{0}};
  fabric_.inject(message);
  EXPECT_TRUE(b_->receive().empty());
  EXPECT_EQ(b_->drops(Drop::kIbRunt), 1U);
}

TEST_P(VerbsUdTest, FullSendQueueTakesNoMore) {
  fabric_.hold_sends(*a_->device, true);
  std::vector<rte_mbuf*> pkts;
  for (unsigned i = 0; i < kDepth + 10; ++i)
    pkts.push_back(packet(payload(300, i), to_b_, b_->queue->qpn()));
  EXPECT_EQ(a_->queue->tx_burst(pkts.data(), static_cast<std::uint16_t>(pkts.size())), kDepth);
  EXPECT_EQ(a_->queue->tx_burst(&pkts[kDepth], 10), 0);
  // The driver does not touch memory that the device holds. The fabric compares it.
  fabric_.hold_sends(*a_->device, false);
  EXPECT_EQ(take(b_->receive()).size(), std::size_t{kDepth});
  EXPECT_EQ(a_->queue->tx_burst(&pkts[kDepth], 10), 10);
  EXPECT_EQ(take(b_->receive()).size(), 10U);
  EXPECT_EQ(a_->all_drops(), 0U);
}

// --- Errors ---

TEST_P(VerbsUdTest, FailedSendRestartsTheQueuePair) {
  fabric_.hold_sends(*a_->device, true);
  fabric_.fail_send(IBV_WC_LOC_QP_OP_ERR, 2);
  send({payload(200, 1), payload(200, 2), payload(200, 3), payload(200, 4)});
  fabric_.hold_sends(*a_->device, false);
  EXPECT_EQ(take(b_->receive()).size(), 2U);
  reap();
  EXPECT_EQ(a_->drops(Drop::kIbTxFlushed), 2U);
  EXPECT_EQ(fabric_.state_of(a_->queue->qpn()), IBV_QPS_SQE);
  const auto qpn = a_->queue->qpn();
  pass(*a_);
  EXPECT_EQ(a_->queue->qpn(), qpn);
  EXPECT_EQ(fabric_.state_of(qpn), IBV_QPS_RTS);
  EXPECT_EQ(fabric_.posted_receives(qpn), std::size_t{kDepth});
  expect_talk();
  EXPECT_EQ(a_->drops(Drop::kIbTxFlushed), 2U);
}

TEST_P(VerbsUdTest, FailedReceiveRestartsTheQueuePair) {
  ASSERT_TRUE(b_->hca->attach(*b_->queue, kMgid, kMlid));
  fabric_.fail_receive(IBV_WC_LOC_PROT_ERR, 1);
  send({payload(60, 1), payload(60, 2)});
  EXPECT_EQ(take(b_->receive()), std::vector<Bytes>(1, payload(60, 1)));
  EXPECT_TRUE(b_->receive().empty());  // The other messages are flushed.
  EXPECT_EQ(fabric_.state_of(b_->queue->qpn()), IBV_QPS_ERR);
  pass(*b_);
  EXPECT_EQ(fabric_.posted_receives(b_->queue->qpn()), std::size_t{kDepth});
  EXPECT_TRUE(talk(*a_, *b_));
  send_group();
  EXPECT_EQ(take(b_->receive()).size(), 1U);
}

// Flushed work requests of a software device can complete after the queue pair works again.
TEST_P(VerbsUdTest, LateCompletionsAreNotOfTheBuffersOfNow) {
  auto& hardware = *static_cast<VerbsUdQueue&>(*b_->queue).hardware;
  auto& completions = static_cast<fake_verbs::Cq&>(*hardware.receive_cq).entries;
  fabric_.fail_receive(IBV_WC_LOC_PROT_ERR, 1);
  send({payload(60, 1), payload(60, 2)});
  const auto late = completions;
  ASSERT_EQ(late.size(), std::size_t{kDepth});
  EXPECT_EQ(take(b_->receive()).size(), 1U);
  EXPECT_TRUE(b_->receive().empty());
  pass(*b_);
  completions = late;
  while (!completions.empty()) EXPECT_TRUE(b_->receive().empty());
  EXPECT_EQ(b_->drops(Drop::kIbQueueState), 1U) << "the one that came";
  EXPECT_EQ(fabric_.posted_receives(b_->queue->qpn()), std::size_t{kDepth});
  EXPECT_FALSE(static_cast<VerbsUdQueue&>(*b_->queue).take_failure()) << "no news";
  EXPECT_TRUE(talk(*a_, *b_));
}

TEST_P(VerbsUdTest, LatePacketThatNoWorkerTakesIsCountedAtTheNextRestart) {
  auto& hardware = *static_cast<VerbsUdQueue&>(*b_->queue).hardware;
  auto& completions = static_cast<fake_verbs::Cq&>(*hardware.receive_cq).entries;
  fabric_.fail_receive(IBV_WC_LOC_PROT_ERR, 1);
  send({payload(60, 1), payload(60, 2)});
  const auto late = completions.front();
  EXPECT_EQ(take(b_->receive()).size(), 1U);
  pass(*b_);
  fabric_.break_qp(b_->queue->qpn());
  EXPECT_TRUE(b_->receive().empty());
  completions = {late};
  pass(*b_);
  EXPECT_TRUE(b_->receive().empty());
  EXPECT_EQ(b_->drops(Drop::kIbQueueState), 1U);
  EXPECT_TRUE(talk(*a_, *b_));
}

TEST_P(VerbsUdTest, EventOfTheQueuePairRestartsIt) {
  for (bool cleans : {true, false}) {
    a_->device->cleans_cq = cleans;
    fabric_.hold_sends(*a_->device, true);
    send({payload(60), payload(400)});
    const std::uint64_t flushed = a_->drops(Drop::kIbTxFlushed);
    fabric_.break_qp(a_->queue->qpn());
    pass(*a_);
    fabric_.hold_sends(*a_->device, false);
    expect_talk();
    EXPECT_EQ(a_->drops(Drop::kIbTxFlushed) - flushed, 2U);
    EXPECT_EQ(fabric_.posted_receives(a_->queue->qpn()), std::size_t{kDepth} - 1);
  }
}

TEST_P(VerbsUdTest, RestartsAreNotEndless) {
  // This queue pair fails whenever it sends.
  unsigned restarts = 0;
  for (int i = 0; i < 100; ++i) {
    fabric_.fail_send(IBV_WC_GENERAL_ERR);
    send({payload(60)});
    reap();
    const bool failed = fabric_.state_of(a_->queue->qpn()) != IBV_QPS_RTS;
    pass(*a_, std::chrono::milliseconds(1));
    if (failed && fabric_.state_of(a_->queue->qpn()) == IBV_QPS_RTS) ++restarts;
  }
  EXPECT_GE(restarts, 2U);
  EXPECT_LE(restarts, 4U);
  EXPECT_EQ(a_->drops(Drop::kIbTxFlushed), 100U);
  fabric_.clear_failures();
  pass(*a_);
  EXPECT_TRUE(talk(*a_, *b_));
}

TEST_P(VerbsUdTest, RefusedPostLosesNoMbuf) {
  fabric_.fail(Call::kPostSend, EINVAL, 1, 3);
  send({payload(200, 1), payload(200, 2), payload(200, 3), payload(200, 4), payload(200, 5)});
  const auto arrived = take(b_->receive()).size();
  EXPECT_EQ(arrived, GetParam().extended ? 0U : 3U);
  EXPECT_EQ(a_->queue->tx_lost().packets, 5 - arrived);
  // Accepted unsignaled sends cannot be distinguished from unsent ones.
  pass(*a_);
  reap();
  EXPECT_EQ(a_->drops(Drop::kIbTxFlushed), 5U);
  EXPECT_TRUE(talk(*a_, *b_));
}

TEST_P(VerbsUdTest, RefusedReceiveIsPostedAfterTheRestart) {
  fabric_.fail(Call::kPostRecv, ENOMEM, 1, 5);
  for (int i = 0; i < 4; ++i) {
    send(std::vector<Bytes>(10, payload(60)));
    EXPECT_EQ(take(b_->receive()).size(), 10U);
    reap();
  }
  pass(*b_);
  EXPECT_EQ(fabric_.posted_receives(b_->queue->qpn()), std::size_t{kDepth});
  EXPECT_TRUE(talk(*a_, *b_));
}

TEST_P(VerbsUdTest, BrokenCompletionQueueIsReplaced) {
  fabric_.break_cq(a_->queue->qpn());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(take(a_->receive()).empty());
    pass(*a_);
  }
  expect_talk();
}

// --- Receive buffers ---

TEST_P(VerbsUdTest, ReceiveQueueIsNeverStarvedByAnEmptyPool) {
  // The test holds all mbufs except a few, which sending needs.
  std::vector<rte_mbuf*> hoard;
  while (rte_mempool_avail_count(pool()) > 8) hoard.push_back(rte_pktmbuf_alloc(pool()));
  std::size_t arrived = 0;
  for (unsigned i = 0; i < 300; ++i) {
    send({payload(60, i)});
    for (rte_mbuf* m : b_->receive()) {
      ++arrived;
      hoard.push_back(m);  // Never returned to the pool.
    }
    reap();
    EXPECT_GT(fabric_.posted_receives(b_->queue->qpn()), 0U);
  }
  EXPECT_EQ(fabric_.lost(Lost::kNoBuffer), 0U);
  EXPECT_EQ(arrived + b_->drops(Drop::kIbNoBuffer), 300U);
  EXPECT_GT(b_->drops(Drop::kIbNoBuffer), 0U);

  rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
  const std::uint64_t lost = b_->drops(Drop::kIbNoBuffer);
  EXPECT_TRUE(b_->receive().empty());  // Refills the queue.
  for (unsigned i = 0; i < 100; ++i) EXPECT_TRUE(talk(*a_, *b_));
  EXPECT_EQ(b_->drops(Drop::kIbNoBuffer), lost);
  EXPECT_GT(fabric_.posted_receives(b_->queue->qpn()), std::size_t{kDepth} / 2);
}

TEST_P(VerbsUdTest, QueueThatBeginsWithoutMbufsGetsThemLater) {
  std::vector<rte_mbuf*> hoard;
  while (rte_mbuf* m = rte_pktmbuf_alloc(pool())) hoard.push_back(m);
  const auto late = make_node(2);
  EXPECT_EQ(fabric_.posted_receives(late->queue->qpn()), 0U);
  rte_pktmbuf_free_bulk(hoard.data(), static_cast<unsigned>(hoard.size()));
  EXPECT_TRUE(late->receive().empty());
  EXPECT_TRUE(talk(*a_, *late));
}

TEST_P(VerbsUdTest, ShallowQueuesAreFilledInTime) {
  fake_verbs::Device& device = add_device(2);
  const auto shallow = make_node(device, [](VerbsHcaConfig& c) { c.rxd = c.txd = 32; });
  for (unsigned i = 0; i < 100; ++i) {
    EXPECT_TRUE(talk(*a_, *shallow));
    EXPECT_GE(fabric_.posted_receives(shallow->queue->qpn()), 16U);
  }
}

// --- Memory ---

TEST_P(VerbsUdTest, PoolThatIsMadeLaterIsRegisteredAtFirstSight) {
  // This pool has several memory chunks.
  rte_mempool* late = rte_pktmbuf_pool_create("late", 4095, 0, 0, 2176, SOCKET_ID_ANY);
  ASSERT_NE(late, nullptr);
  std::vector<rte_mbuf*> all(4095);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(late, all.data(), 4095), 0);
  const auto send_one = [&](std::size_t which) {
    rte_mbuf* m = to_b(all[which]);
    rte_mbuf_refcnt_update(m, 1);
    rte_pktmbuf_reset(m);
    const Bytes octets = payload(300);
    std::memcpy(rte_pktmbuf_append(m, 300), octets.data(), 300);
    EXPECT_EQ(a_->queue->tx_burst(&m, 1), 1);
    reap();
    return take(b_->receive()).size();
  };
  EXPECT_EQ(send_one(0), 0U);
  EXPECT_EQ(a_->drops(Drop::kIbTxInvalid), 1U);
  pass(*a_);
  for (std::size_t i = 0; i < all.size(); i += 13) ASSERT_EQ(send_one(i), 1U) << i;
  EXPECT_EQ(a_->all_drops(), 1U);
  rte_pktmbuf_free_bulk(all.data(), 4095);
  rte_mempool_free(late);
}

TEST_P(VerbsUdTest, PoolThatCannotBeRegisteredIsCountedAndSaid) {
  rte_mempool* late = rte_pktmbuf_pool_create("big", 255, 0, 0, 2176, SOCKET_ID_ANY);
  ASSERT_NE(late, nullptr);
  fabric_.fail(Call::kRegMr, ENOMEM);
  for (int i = 0; i < 3; ++i) {
    rte_mbuf* m = to_b(rte_pktmbuf_alloc(late));
    ASSERT_NE(rte_pktmbuf_append(m, 300), nullptr);
    EXPECT_EQ(a_->queue->tx_burst(&m, 1), 1);
    reap();
    pass(*a_);
  }
  EXPECT_EQ(a_->drops(Drop::kIbTxInvalid), 2U);
  EXPECT_EQ(take(b_->receive()).size(), 1U);
  EXPECT_TRUE(talk(*a_, *b_));
  rte_mempool_free(late);
}

// --- Address handles ---

TEST_P(VerbsUdTest, EqualHandlesAreOne) {
  const auto handles = fabric_.live().ahs;
  const auto same = ah_to(*a_, 5);
  EXPECT_EQ(same, to_b_);
  EXPECT_EQ(fabric_.live().ahs, handles);
  a_->hca->destroy_ah(same);
  send({payload(60)});  // The other user still has it.
  EXPECT_EQ(take(b_->receive()).size(), 1U);
}

/// A path of 40 Gb/s limits a port of 100 Gb/s, not one of 10 Gb/s.
TEST_P(VerbsUdTest, U22_HandlesFollowTheRateOfThePort) {
  fabric_.tap(true);
  const auto ah = ah_to(*a_, 5, kRate40Gbps);
  const auto rate = [&] {
    VerbsFixture::send(*a_, ah, b_->queue->qpn(), {payload(60)});
    EXPECT_EQ(take(b_->receive()).size(), 1U);
    reap();
    const auto sent = fabric_.take_sent();
    return sent.empty() ? 0xff : int{sent[0].static_rate};
  };
  const auto handles = fabric_.live().ahs;
  EXPECT_EQ(rate(), kRate40Gbps);
  set_speed(*a_, kSpeed10Gbps);
  EXPECT_EQ(rate(), 0);
  set_speed(*a_, kSpeed100Gbps);
  EXPECT_EQ(rate(), kRate40Gbps);
  pass(*a_);
  EXPECT_EQ(fabric_.live().ahs, handles) << "the former ones are destroyed";
  // A port that is down reports some speed or other, for which no handle is made.
  auto& port = a_->device->ports[0].attr;
  port.state = IBV_PORT_DOWN;
  fabric_.fail(Call::kCreateAh, ENOMEM);
  set_speed(*a_, kSpeed10Gbps);
  port.state = IBV_PORT_ACTIVE;
  set_speed(*a_, kSpeed100Gbps);
  EXPECT_EQ(rate(), kRate40Gbps);
  fabric::AhAttr other;
  other.dlid = 6;
  EXPECT_FALSE(a_->hca->create_ah(other)) << "this is the first one";
  a_->hca->destroy_ah(ah);
  pass(*a_);
  EXPECT_EQ(fabric_.live().ahs, handles - 1);
}

TEST_P(VerbsUdTest, U22_SendsKeepTheHandleThatTheyWerePostedWith) {
  const auto ah = ah_to(*a_, 5, kRate40Gbps);
  const auto handles = fabric_.live().ahs;
  fabric_.hold_sends(*a_->device, true);
  VerbsFixture::send(*a_, ah, b_->queue->qpn(), {payload(60)});
  set_speed(*a_, kSpeed10Gbps);
  pass(*a_);
  EXPECT_EQ(fabric_.live().ahs, handles + 1);
  VerbsFixture::send(*a_, ah, b_->queue->qpn(), {payload(61)});
  fabric_.hold_sends(*a_->device, false);
  EXPECT_EQ(take(b_->receive()).size(), 2U);
  reap();
  pass(*a_);
  EXPECT_EQ(fabric_.live().ahs, handles);
}

TEST_P(VerbsUdTest, U22_HandlesThatCannotBeMadeAnewAreTriedAgain) {
  fabric_.tap(true);
  set_speed(*a_, kSpeed10Gbps);
  const auto ah = ah_to(*a_, 5, kRate40Gbps);
  fabric_.fail(Call::kCreateAh, ENOMEM);
  set_speed(*a_, kSpeed100Gbps);
  expect_problem(*a_, "cannot create an address handle to LID 0x0005");
  VerbsFixture::send(*a_, ah, b_->queue->qpn(), {payload(60)});
  pass(*a_);
  EXPECT_EQ(a_->hca->problem(), "");
  VerbsFixture::send(*a_, ah, b_->queue->qpn(), {payload(60)});
  EXPECT_EQ(take(b_->receive()).size(), 2U);
  reap();
  const auto sent = fabric_.take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].static_rate, 0);
  EXPECT_EQ(sent[1].static_rate, kRate40Gbps);
}

TEST_P(VerbsUdTest, HandleOutlivesItsSends) {
  const auto handles = fabric_.live().ahs;
  fabric_.hold_sends(*a_->device, true);
  send({payload(60), payload(600)});
  a_->hca->destroy_ah(to_b_);
  pass(*a_);
  EXPECT_EQ(fabric_.live().ahs, handles);
  send({payload(60)});
  EXPECT_EQ(a_->drops(Drop::kIbTxInvalid), 1U);  // The handle is invalid now.
  // Its index is not used again yet.
  const auto other = ah_to(*a_, 6);
  EXPECT_NE(other, to_b_);
  fabric_.hold_sends(*a_->device, false);
  EXPECT_EQ(take(b_->receive()).size(), 2U);
  reap();
  pass(*a_);
  EXPECT_EQ(fabric_.live().ahs, handles);  // One less, one more.
  EXPECT_EQ(ah_to(*a_, 7), to_b_);         // Now it is used again.
  a_->hca->destroy_ah(other);
}

TEST_P(VerbsUdTest, HandleCanBeMadeAnewWhileTheOldOneIsEnding) {
  fabric_.hold_sends(*a_->device, true);
  send({payload(60)});
  a_->hca->destroy_ah(to_b_);
  const auto again = ah_to(*a_, 5);
  EXPECT_NE(again, to_b_);
  a_->hca->destroy_ah(to_b_);  // No effect: the index is unknown by now.
  VerbsFixture::send(*a_, again, b_->queue->qpn(), {payload(60)});
  fabric_.hold_sends(*a_->device, false);
  EXPECT_EQ(take(b_->receive()).size(), 2U);
  reap();
  pass(*a_);
  VerbsFixture::send(*a_, again, b_->queue->qpn(), {payload(60)});
  EXPECT_EQ(take(b_->receive()).size(), 1U);
}

TEST_P(VerbsUdTest, HandlesThatCannotBe) {
  const auto refused = [&](const fabric::AhAttr& attr) {
    const auto made = a_->hca->create_ah(attr);
    return made ? Errc::kExists : made.error().code;
  };
  fabric::AhAttr attr;
  EXPECT_EQ(refused(attr), Errc::kInvalidArgument);  // LID 0
  attr.dlid = 5;
  attr.sl = 16;
  EXPECT_EQ(refused(attr), Errc::kInvalidArgument);
  attr = {};
  attr.dlid = kMlid;
  EXPECT_EQ(refused(attr), Errc::kInvalidArgument);  // No MGID
  attr = {};
  attr.dlid = 77;
  fabric_.fail(Call::kCreateAh, ENOMEM);
  EXPECT_EQ(refused(attr), Errc::kNoResources);
  const auto later = a_->hca->create_ah(attr);
  ASSERT_TRUE(later);
  a_->hca->destroy_ah(*later);
}

TEST_P(VerbsUdTest, DestroyedQueueLeavesNothing) {
  ASSERT_TRUE(a_->hca->attach(*a_->queue, kMgid, kMlid));
  fabric_.hold_sends(*a_->device, true);
  send({payload(60), payload(900)});
  const auto before = fabric_.live();
  a_->hca->destroy_ud_queue(*a_->queue);
  const auto after = fabric_.live();
  EXPECT_EQ(before.qps - after.qps, 1U);
  EXPECT_EQ(before.cqs - after.cqs, 2U);
  EXPECT_EQ(after.attachments, 0U);
  // The worker of the port's other queues counts the packets that were in progress.
  fabric::UdQueue* const other = a_->hca->create_ud_queue({}).value();
  rte_mbuf* none = nullptr;
  EXPECT_EQ(other->rx_burst(&none, 1), 0U);
  EXPECT_EQ(a_->hca->drops().get(Drop::kIbTxFlushed), 2U);
}

/// It is lost at the queue pair, as if it came after the end, and not in a completion queue.
TEST_P(VerbsUdTest, PacketAtTheEndOfAQueueIsNotAccepted) {
  fabric_.before_destroy_qp([this] { send({payload(60)}); });
  b_->hca->destroy_ud_queue(*b_->queue);
  EXPECT_EQ(fabric_.lost(Lost::kNoQp), 1U);
  reap();
}

std::string provider_name(const testing::TestParamInfo<Provider>& provider) {
  return std::string{provider.param.extended ? "Extended" : "Plain"} + "Inline" +
         std::to_string(provider.param.max_inline);
}

INSTANTIATE_TEST_SUITE_P(Providers, VerbsUdTest,
                         testing::Values(Provider{true, 512}, Provider{false, 512},
                                         Provider{true, 100}, Provider{false, 0}),
                         provider_name);

}  // namespace
}  // namespace ipoib::verbs
