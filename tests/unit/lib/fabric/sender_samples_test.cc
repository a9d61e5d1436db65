// SPDX-License-Identifier: BSD-3-Clause
// The sample of the ports whose packets a queue pair receives.
#include "lib/fabric/sender_samples.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/support/mbufs.h"

namespace ipoib::fabric {
namespace {

class SenderSamplesTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBurst = 64;

  SenderSamplesTest() {
    for (rte_mbuf*& m : burst) m = test::mbuf_of(pool(), {});
    for (rte_mbuf* m : burst) meta_of(m).rx = {};
  }
  ~SenderSamplesTest() override { rte_pktmbuf_free_bulk(burst.data(), kBurst); }
  static rte_mempool* pool() {
    static rte_mempool* const made =
        rte_pktmbuf_pool_create("sender_samples", 127, 0, 0, 512, SOCKET_ID_ANY);
    return made;
  }
  /// A burst of `n` packets from one port.
  void receive(std::uint16_t lid, std::size_t n) {
    for (rte_mbuf* m : burst) meta_of(m).rx.slid = lid;
    senders->count(std::span{burst}.first(n));
  }
  /// Shares of the ports in the sample.
  std::map<std::uint16_t, double> end_period() {
    const auto [packets, lids] = senders->end_period();
    received = packets;
    sampled = lids.size();
    std::map<std::uint16_t, double> shares;
    for (const std::uint16_t lid : lids) shares[lid] += 1.0 / static_cast<double>(lids.size());
    return shares;
  }

  std::array<rte_mbuf*, kBurst> burst{};
  std::unique_ptr<SenderSamples> senders = std::make_unique<SenderSamples>();
  std::size_t sampled = 0;
  std::uint64_t received = 0;
};

TEST_F(SenderSamplesTest, P14_AllPlacesOfABurstAreSampled) {
  std::map<std::uint16_t, unsigned> times;
  for (int i = 0; i < 20; ++i) {
    for (std::size_t j = 0; j < kBurst; ++j)
      meta_of(burst[j]).rx.slid = static_cast<std::uint16_t>(j + 1);
    for (int j = 0; j < 4000; ++j) senders->count(burst);
    for (const std::uint16_t lid : senders->end_period().lids) ++times[lid];
  }
  ASSERT_EQ(times.size(), kBurst);
  for (const auto& [lid, n] : times) {
    EXPECT_GE(n, 240U) << "of about 310";
    EXPECT_LE(n, 380U);
  }
}

// The number of packets counts, and not that of bursts.
TEST_F(SenderSamplesTest, P14_LargeBurstsAreSampledMoreOften) {
  for (int i = 0; i < 5000; ++i) {
    receive(1, 31);
    receive(2, 1);
  }
  EXPECT_NEAR(end_period()[1], 31.0 / 32, 0.02);
  EXPECT_GE(sampled, 400U) << "one in 256 of 160,000";
}

TEST_F(SenderSamplesTest, P14_PortsThatSendInTurnHaveEqualShares) {
  for (const unsigned ports : {2U, 4U, 8U}) {
    SCOPED_TRACE(ports);
    for (unsigned i = 0; i < 300'000; ++i) receive(static_cast<std::uint16_t>(1 + i % ports), 1);
    const auto shares = end_period();
    ASSERT_EQ(shares.size(), ports);
    for (const auto& [lid, share] : shares) EXPECT_NEAR(share, 1.0 / ports, 0.06) << lid;
  }
}

// More packets are sampled than are kept.
TEST_F(SenderSamplesTest, P14_AllPartsOfAPeriodHaveEqualShares) {
  for (std::uint16_t part = 1; part <= 4; ++part)
    for (int i = 0; i < 20'000; ++i) receive(part, 64);
  const auto shares = end_period();
  EXPECT_EQ(sampled, SenderSamples::kSize);
  ASSERT_EQ(shares.size(), 4U);
  for (const auto& [lid, share] : shares) EXPECT_NEAR(share, 0.25, 0.06);
}

TEST_F(SenderSamplesTest, P14_APeriodHasItsOwnPacketsOnly) {
  EXPECT_TRUE(end_period().empty());
  for (int i = 0; i < 10'000; ++i) receive(1, 64);
  EXPECT_EQ(end_period().size(), 1U);
  EXPECT_EQ(received, 640'000U);
  EXPECT_TRUE(end_period().empty()) << "nothing was received";
  EXPECT_EQ(received, 0U);
  for (int i = 0; i < 100; ++i) receive(2, 64);
  const auto few = end_period();
  ASSERT_EQ(few.size(), 1U) << "not mixed with the former ones";
  EXPECT_EQ(few.begin()->first, 2);
  EXPECT_EQ(received, 6'400U);
}

TEST_F(SenderSamplesTest, P14_MulticastHasNoSender) {
  for (rte_mbuf* m : burst) meta_of(m).rx.multicast = true;
  for (int i = 0; i < 100; ++i) receive(7, 64);
  const auto shares = end_period();
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares.begin()->first, 0);
}

}  // namespace
}  // namespace ipoib::fabric
