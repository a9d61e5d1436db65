// SPDX-License-Identifier: BSD-3-Clause
// Path rates in virtual time: the packets that a handle may send, their times, and the fate of the
// other packets.
#include <map>

#include "tests/support/sim_tsc.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

using ipoib::test::sim_tsc;

constexpr std::uint8_t k2_5Gbps = 2, k10Gbps = 3, k5Gbps = 5, kNoSuchRate = 63;
constexpr std::uint32_t kQpn = 0x99;

unsigned clock_reads;
std::uint64_t read_counted() noexcept {
  ++clock_reads;
  return sim_tsc;
}

class SoftRate : public SoftFixture {
 protected:
  static constexpr std::uint64_t kHz = 2'000'000'000;
  static constexpr std::uint64_t kMs = kHz / 1000;

  SoftRate() {
    sim_tsc = 5 * kHz;
    SoftHcaConfig slow_clock = config(0);
    slow_clock.attr.rate = k10Gbps;
    slow_clock.tsc = &read_counted;
    slow_clock.tsc_hz = kHz;
    node_ = make_node(slow_clock);
  }

  fabric::AhIndex handle(std::uint16_t dlid, std::uint8_t rate) {
    fabric::AhAttr to;
    to.dlid = dlid;
    to.rate = rate;
    return node_.hca->create_ah(to).value();
  }
  /// Sends bursts of 32 until the handle's rate accepts no more. Returns the octets on the wire.
  std::uint64_t saturate(fabric::AhIndex ah, std::size_t payload) {
    std::uint64_t octets = 0;
    for (;;) {
      std::vector<rte_mbuf*> pkts;
      for (int i = 0; i < 32; ++i) pkts.push_back(packet(counting(payload), ah, kQpn));
      EXPECT_EQ(node_.queue->tx_burst(pkts.data(), 32), 32) << "what is too fast counts as taken";
      const auto frames = on_cable(1);
      for (const Bytes& frame : frames) octets += iba_len(frame);
      if (frames.size() < 32) return octets;
    }
  }
  /// Length from LRH through ICRC.
  static std::size_t iba_len(const Bytes& frame) {
    return wire::read<wire::Lrh>(frame, sizeof(EthHdr))->packet_len();
  }
  [[nodiscard]] std::uint64_t limited() const {
    return node_.hca->drops().get(Drop::kIbRateLimited);
  }

  Node node_;
};

TEST_F(SoftRate, U22_PathSlowerThanThePortIsNeverExceeded) {
  struct Case {
    std::uint8_t rate;
    std::uint64_t octets_per_ms;
    std::size_t payload;
  };
  for (const Case& c :
       {Case{k2_5Gbps, 312'500, 2048}, {k2_5Gbps, 312'500, 44}, {k5Gbps, 625'000, 1001}}) {
    SCOPED_TRACE(c.payload);
    const auto ah = handle(9, c.rate);
    std::uint64_t octets = saturate(ah, c.payload);
    EXPECT_LE(octets, c.octets_per_ms) << "a burst is one millisecond of the rate";
    EXPECT_GT(octets, c.octets_per_ms - 3000);
    // At odd moments: the limit of burst and rate holds at each of them, and is reached.
    const std::uint64_t begin = sim_tsc;
    for (int step = 1; step <= 40; ++step) {
      sim_tsc += kMs * static_cast<unsigned>(step % 7) / 8;
      octets += saturate(ah, c.payload);
      const std::uint64_t may = c.octets_per_ms + (sim_tsc - begin) * c.octets_per_ms / kMs;
      ASSERT_LE(octets, may) << step;
      ASSERT_GT(octets + 3000, may) << step;
    }
    node_.hca->destroy_ah(ah);
  }
  EXPECT_GT(limited(), 0U);
  EXPECT_EQ(node_.all_drops(), limited()) << "each packet that did not leave is counted, once";
}

TEST_F(SoftRate, U22_RestGivesNoMoreThanOneBurst) {
  const auto ah = handle(9, k2_5Gbps);
  sim_tsc += 100 * kHz;
  EXPECT_LE(saturate(ah, 2048), 312'500U);
}

TEST_F(SoftRate, U22_PathsAsFastAsThePortHaveNoLimit) {
  clock_reads = 0;
  for (const std::uint8_t rate : {std::uint8_t{0}, k10Gbps, std::uint8_t{7}, kNoSuchRate}) {
    const auto ah = handle(9, rate);
    for (int burst = 0; burst < 20; ++burst) {
      std::vector<rte_mbuf*> pkts;
      for (int i = 0; i < 64; ++i) pkts.push_back(packet(counting(2048), ah, kQpn));
      ASSERT_EQ(node_.queue->tx_burst(pkts.data(), 64), 64);
      ASSERT_EQ(on_cable(1).size(), 64U);
    }
  }
  EXPECT_EQ(node_.all_drops(), 0U);
  EXPECT_EQ(clock_reads, 0U) << "handles without a limit do not even look at the clock";
}

TEST_F(SoftRate, U22_SlowPathDoesNotHoldUpTheOthersInItsBurst) {
  const auto slow = handle(9, k2_5Gbps);
  const auto fast = handle(10, 0);
  saturate(slow, 2048);
  sim_tsc += kMs / 60;  // Time for two packets.
  const auto before = limited();
  std::vector<rte_mbuf*> pkts;
  for (int i = 0; i < 32; ++i)
    pkts.push_back(packet(counting(2048), i % 2 == 0 ? slow : fast, kQpn));
  clock_reads = 0;
  ASSERT_EQ(node_.queue->tx_burst(pkts.data(), 32), 32);
  EXPECT_EQ(clock_reads, 1U);
  std::map<std::uint16_t, unsigned> sent;
  for (const Bytes& frame : on_cable(1))
    ++sent[wire::read<wire::Lrh>(frame, sizeof(EthHdr))->dlid.host()];
  EXPECT_EQ(sent[10], 16U);
  EXPECT_EQ(sent[9], 2U);
  EXPECT_EQ(limited() - before, 14U);
}

TEST_F(SoftRate, U22_WhatTheWireDidNotTakeCostsNothing) {
  const auto ah = handle(9, k2_5Gbps);
  auto* cable = Cable::get().towards[1];
  while (rte_ring_free_count(cable) > 10) put_on_cable(1, counting(60));
  std::vector<rte_mbuf*> pkts;
  for (int i = 0; i < 64; ++i) pkts.push_back(packet(counting(2048), ah, kQpn));
  EXPECT_EQ(node_.queue->tx_burst(pkts.data(), 64), 10);
  for (int again = 0; again < 20; ++again) EXPECT_EQ(node_.queue->tx_burst(&pkts[10], 54), 0);
  EXPECT_EQ(limited(), 0U) << "54 packets that never left have used up nothing";
  for (std::size_t i = 10; i < 64; ++i) rte_pktmbuf_free(pkts[i]);
  std::uint64_t octets = 0;
  for (const Bytes& frame : on_cable(1))
    if (frame != counting(60)) octets += iba_len(frame);
  octets += saturate(ah, 2048);
  EXPECT_LE(octets, 312'500U);
  EXPECT_GT(octets, 312'500U - 3000);
}

TEST_F(SoftRate, U22_NumberUsedAgainStartsAfresh) {
  const auto slow = handle(9, k2_5Gbps);
  saturate(slow, 2048);
  node_.hca->destroy_ah(slow);
  const auto again = handle(9, k2_5Gbps);
  ASSERT_EQ(again, slow);
  EXPECT_GT(saturate(again, 2048), 300'000U);
}

}  // namespace
}  // namespace ipoib::soft
