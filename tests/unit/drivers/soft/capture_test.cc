// SPDX-License-Identifier: BSD-3-Clause
#include <rte_cycles.h>

#include <optional>

#include "drivers/soft/capture_copy.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::CaptureDirection;

/// The test reads the ring in place of the lcore that writes captures.
class SoftCapture : public SoftFixture {
 protected:
  void SetUp() override {
    SoftFixture::SetUp();
    tap_.ring = rte_ring_create("tap", 64, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
    tap_.pool =
        rte_pktmbuf_pool_create("tap", 127, 0, 0, RTE_PKTMBUF_HEADROOM + 600, SOCKET_ID_ANY);
    ASSERT_TRUE(tap_.ring != nullptr && tap_.pool != nullptr);
  }
  void TearDown() override {
    SoftFixture::TearDown();
    (void)captured();
    EXPECT_EQ(rte_mempool_in_use_count(tap_.pool), 0U);
    rte_mempool_free(tap_.pool);
    rte_ring_free(tap_.ring);
  }
  struct Captured {
    Bytes octets;
    CaptureDirection direction;
    std::uint64_t tsc;
  };
  std::vector<Captured> captured() {
    std::vector<Captured> frames;
    while (rte_mbuf* const m = test::next_of(tap_.ring)) {
      const auto& meta = fabric::capture_meta_of(m);
      frames.push_back({bytes_of(m), meta.direction, meta.tsc});
      rte_pktmbuf_free(m);
    }
    return frames;
  }
  static void free_received(const Node& node) {
    for (rte_mbuf* m : node.receive()) rte_pktmbuf_free(m);
  }
  CaptureTap tap_;
};

TEST_F(SoftCapture, P10_EveryFrameOfTheWireIsCopiedFromLrhThroughIcrc) {
  const Node from = make_node(0);
  const Node to = make_node(1);
  from.hca->set_capture(tap_);
  const std::uint64_t start = rte_rdtsc();
  // One packet of a queue pair, short enough to be padded, and one MAD.
  rte_mbuf* m = packet(counting(3), ah_to(from, kLid[1]), to.queue->qpn());
  ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
  ASSERT_TRUE(from.hca->mad_port().send({.lid = kLid[1]}, fabric::MadBytes{}));
  from.poll();
  const auto sent = on_cable(1);
  ASSERT_EQ(sent.size(), 2U);
  // A frame for this port, one with a bad ICRC, and one that is not InfiniBand.
  const Bytes good = vector_frame("ud-arp-reply");
  Bytes bad = vector_frame("ud-ipv4-pad3");
  bad.back() ^= std::byte{1};
  Bytes ip = good;
  ip[12] = std::byte{0x08};
  for (const Bytes& frame : {good, bad, ip}) put_on_cable(0, frame);
  from.poll();
  free_received(from);

  const auto frames = captured();
  ASSERT_EQ(frames.size(), 4U);
  const Bytes wanted[] = {iba_of(sent[0]), iba_of(sent[1]), iba_of(good), iba_of(bad)};
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(test::to_hex(frames[i].octets), test::to_hex(wanted[i])) << i;
    EXPECT_EQ(frames[i].direction, i < 2 ? CaptureDirection::kSent : CaptureDirection::kReceived);
    EXPECT_GE(frames[i].tsc, i == 0 ? start : frames[i - 1].tsc);
  }
  EXPECT_LE(frames.back().tsc, rte_rdtsc());

  from.hca->set_capture(std::nullopt);
  put_on_cable(0, good);
  from.poll();
  free_received(from);
  EXPECT_TRUE(captured().empty());
  EXPECT_EQ(from.hca->capture_lost(), 0U);
}

TEST_F(SoftCapture, FramesThatLieAboutTheirLengthAreShownAsTheyCame) {
  const Node node = make_node(0);
  node.hca->set_capture(tap_);
  const Bytes whole = vector_frame("ud-arp-reply");
  for (std::size_t len = 0; len < whole.size(); ++len) {
    put_on_cable(0, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(len)));
    node.poll();
    const auto frames = captured();
    if (len <= sizeof(EthHdr)) {
      EXPECT_TRUE(frames.empty()) << len;
      continue;
    }
    ASSERT_EQ(frames.size(), 1U) << len;
    EXPECT_EQ(frames[0].octets.size(), len - sizeof(EthHdr));
  }
  EXPECT_EQ(node.hca->capture_lost(), 0U);
}

TEST_F(SoftCapture, UnsentPacketsAreNotShown) {
  const Node node = make_node(0);
  node.hca->set_capture(tap_);
  auto* cable = Cable::get().towards[1];
  while (rte_ring_free_count(cable) > 1) put_on_cable(1, counting(60));
  const auto ah = ah_to(node, 9);
  rte_mbuf* pkts[] = {packet(counting(8), ah, 5), packet(counting(9), ah, 5)};
  ASSERT_EQ(node.queue->tx_burst(pkts, 2), 1);
  rte_pktmbuf_free(pkts[1]);
  EXPECT_EQ(captured().size(), 1U);
}

TEST_F(SoftCapture, WhatStaysInsideThePortIsNotOnTheWire) {
  const Node node = make_node(0);
  node.hca->set_capture(tap_);
  rte_mbuf* m = packet(counting(8), ah_to(node, kLid[0]), node.queue->qpn());
  ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
  free_received(node);
  EXPECT_TRUE(captured().empty());
}

TEST_F(SoftCapture, FullRingAndEmptyPoolLoseTheCopyOnly) {
  const Node node = make_node(0);
  node.hca->set_capture(tap_);
  std::size_t delivered = 0;
  const auto feed = [&](unsigned n) {
    for (unsigned i = 0; i < n; ++i) {
      put_on_cable(0, vector_frame("ud-arp-reply"));
      node.poll();
      for (rte_mbuf* m : node.receive()) {
        rte_pktmbuf_free(m);
        ++delivered;
      }
    }
  };
  feed(70);  // The ring holds 63.
  EXPECT_EQ(node.hca->capture_lost(), 7U);
  EXPECT_EQ(captured().size(), 63U);
  std::vector<rte_mbuf*> taken(127);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(tap_.pool, taken.data(), 127), 0);
  feed(5);
  EXPECT_EQ(node.hca->capture_lost(), 12U);
  rte_pktmbuf_free_bulk(taken.data(), 127);
  EXPECT_EQ(delivered, 75U) << "the frames themselves are not touched";
}

TEST_F(SoftCapture, LongFramesMaySpanSegments) {
  const Node node = make_node(0);
  node.hca->set_capture(tap_);
  rte_mbuf* m = packet(counting(2048), ah_to(node, 9), 5);
  ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
  const auto frames = captured();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].octets, iba_of(on_cable(1).at(0)));
}

}  // namespace
}  // namespace ipoib::soft
