// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/mad_share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace ipoib::soft {
namespace {

constexpr std::uint32_t kPlaces = 1024;
constexpr MadShare::Mad kSaGet{.slid = 7, .mgmt_class = 3, .method = 1};
constexpr MadShare::Mad kCm{.slid = 8, .mgmt_class = 7, .method = 3};

struct MadShareTest : testing::Test {
  /// Returns how many of `n` MADs find a place.
  template <class MadOf>
  unsigned flood(unsigned n, const MadOf& mad_of) {
    unsigned taken = 0;
    for (unsigned i = 0; i < n; ++i) taken += share.take(mad_of(i)) == Drop::kNone ? 1 : 0;
    return taken;
  }
  MadShare share{kPlaces};
};

TEST_F(MadShareTest, P16_OneSenderHoldsAThird) {
  const unsigned taken = flood(5000, [](unsigned) { return kSaGet; });
  EXPECT_EQ(taken, 342U);
  EXPECT_EQ(share.take(kSaGet), Drop::kIbMadShare);
  EXPECT_EQ(share.take({.slid = 9, .mgmt_class = 3, .method = 1}), Drop::kNone) << "same kind";
  EXPECT_EQ(share.take(kCm), Drop::kNone);
}

TEST_F(MadShareTest, P16_OneSenderOfManyKindsHoldsAThird) {
  const auto mad = [](unsigned i) {
    return MadShare::Mad{7, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i / 256)};
  };
  EXPECT_EQ(flood(5000, mad), 342U);
}

TEST_F(MadShareTest, P16_OneKindOfManySendersHoldsHalf) {
  const auto mad = [](unsigned i) {
    return MadShare::Mad{static_cast<std::uint16_t>(i + 1), 3, 1};
  };
  EXPECT_EQ(flood(5000, mad), kPlaces / 2);
  EXPECT_EQ(share.take({.slid = 1, .mgmt_class = 3, .method = 1}), Drop::kIbMadShare);
  EXPECT_EQ(share.take(kCm), Drop::kNone);
}

TEST_F(MadShareTest, P16_PlacesComeBack) {
  for (int round = 0; round < 10; ++round) {
    const unsigned taken = flood(5000, [](unsigned) { return kSaGet; });
    EXPECT_EQ(taken, 342U);
    EXPECT_EQ(share.taken(), taken);
    for (unsigned i = 0; i < taken; ++i) share.give_back(kSaGet);
    EXPECT_EQ(share.taken(), 0U);
  }
  EXPECT_EQ(share.take(kSaGet), Drop::kNone);
  share.undo(kSaGet);
  EXPECT_EQ(share.taken(), 0U);
}

/// No other sender, and no other kind, counts with those of a flood.
TEST_F(MadShareTest, P16_NoOtherSharesTheCountersOfAFlood) {
  EXPECT_EQ(flood(5000, [](unsigned) { return kSaGet; }), 342U);
  for (unsigned slid = 0; slid < 65'536; ++slid) {
    if (slid == kSaGet.slid) continue;
    const MadShare::Mad mad{static_cast<std::uint16_t>(slid), 7, 3};
    ASSERT_EQ(share.take(mad), Drop::kNone) << slid;
    share.undo(mad);
  }
  const auto of_others = [](unsigned i) {
    return MadShare::Mad{static_cast<std::uint16_t>(100 + i), 3, 1};
  };
  flood(5000, of_others);
  for (unsigned kind = 0; kind < 65'536; ++kind) {
    const MadShare::Mad mad{8, static_cast<std::uint8_t>(kind >> 8),
                            static_cast<std::uint8_t>(kind)};
    if (mad.mgmt_class == 3 && mad.method == 1) continue;
    ASSERT_EQ(share.take(mad), Drop::kNone) << kind;
    share.undo(mad);
  }
}

/// Strangers who are everyone and send everything fill the queue, and it never overflows.
TEST_F(MadShareTest, P16_AFullQueueIsAnOverflow) {
  const auto mad = [](unsigned i) {
    return MadShare::Mad{static_cast<std::uint16_t>(i), static_cast<std::uint8_t>(i >> 3),
                         static_cast<std::uint8_t>(i)};
  };
  const unsigned taken = flood(100'000, mad);
  EXPECT_EQ(share.taken(), taken);
  EXPECT_LE(taken, kPlaces);
  EXPECT_NE(share.take(kCm), Drop::kNone);
  const auto small = std::make_unique<MadShare>(1U);
  EXPECT_EQ(small->take(kCm), Drop::kNone);
  EXPECT_EQ(small->take(kSaGet), Drop::kIbMadOverflow);
}

/// The worker takes places while the management lcore gives others back.
TEST_F(MadShareTest, P16_TwoLcoresAgreeInTheEnd) {
  constexpr unsigned kMads = 200'000;
  std::atomic<unsigned> in_ring{0};
  std::thread management{[&] {
    for (unsigned got = 0; got < kMads;) {
      if (in_ring.load(std::memory_order_acquire) == 0) {
        std::this_thread::yield();
        continue;
      }
      in_ring.fetch_sub(1, std::memory_order_relaxed);
      share.give_back(kSaGet);
      ++got;
    }
  }};
  for (unsigned put = 0; put < kMads;) {
    if (share.take(kSaGet) != Drop::kNone) {
      std::this_thread::yield();
      continue;
    }
    in_ring.fetch_add(1, std::memory_order_release);
    EXPECT_LE(share.taken(), 342U);
    ++put;
  }
  management.join();
  EXPECT_EQ(share.taken(), 0U);
}

}  // namespace
}  // namespace ipoib::soft
