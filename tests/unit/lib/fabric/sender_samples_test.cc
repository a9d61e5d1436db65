// SPDX-License-Identifier: BSD-3-Clause
// The sample of the ports whose packets a queue pair receives.
#include "lib/fabric/sender_samples.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/mbufs.h"

namespace ipoib::fabric {
namespace {

class SenderSamplesTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBurst = 32;

  SenderSamplesTest() {
    for (rte_mbuf*& m : burst) m = test::mbuf_of(pool(), {});
    for (std::size_t i = 0; i < kBurst; ++i) {
      meta(i) = {};
      meta(i).slid = static_cast<std::uint16_t>(i + 1);
    }
  }
  ~SenderSamplesTest() override { rte_pktmbuf_free_bulk(burst.data(), kBurst); }
  static rte_mempool* pool() {
    static rte_mempool* const made =
        rte_pktmbuf_pool_create("sender_samples", 63, 0, 0, 512, SOCKET_ID_ANY);
    return made;
  }
  PacketMeta::Rx& meta(std::size_t i) { return meta_of(burst[i]).rx; }
  void count(std::size_t samples) {
    for (std::size_t i = 0; i < samples * SenderSamples::kEvery; ++i) senders.count_burst(burst);
  }

  std::array<rte_mbuf*, kBurst> burst{};
  SenderSamples senders;
  std::uint64_t from = 0;
};

TEST_F(SenderSamplesTest, P14_EachPlaceOfABurstIsChosen) {
  std::map<std::uint16_t, unsigned> times;
  for (int i = 0; i < 20; ++i) {
    count(160);
    const auto lids = senders.since(from);
    EXPECT_EQ(lids.size(), 160U);
    for (const std::uint16_t lid : lids) ++times[lid];
  }
  ASSERT_EQ(times.size(), kBurst);
  for (const auto& [lid, n] : times) {
    EXPECT_GE(n, 60U) << "of 100 on average";
    EXPECT_LE(n, 140U);
  }
}

TEST_F(SenderSamplesTest, P14_OnlyTheLatestAreKept) {
  for (std::size_t i = 0; i < kBurst; ++i) meta(i).slid = 1;
  count(SenderSamples::kSize);
  for (std::size_t i = 0; i < kBurst; ++i) meta(i).slid = 2;
  count(10);
  const auto lids = senders.since(from);
  ASSERT_EQ(lids.size(), SenderSamples::kSize);
  EXPECT_EQ(std::ranges::count(lids, 2), 10);
  EXPECT_EQ(lids.back(), 2);
  EXPECT_TRUE(senders.since(from).empty());
  count(3);
  EXPECT_EQ(senders.since(from).size(), 3U);
}

TEST_F(SenderSamplesTest, P14_MulticastHasNoSender) {
  for (std::size_t i = 0; i < kBurst; ++i) meta(i).multicast = true;
  count(5);
  EXPECT_EQ(senders.since(from), (std::vector<std::uint16_t>(5, 0)));
}

}  // namespace
}  // namespace ipoib::fabric
