// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/counters.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace ipoib {
namespace {

TEST(Counter, CountsFromZeroAndWraps) {
  Counter c;
  EXPECT_EQ(c.get(), 0U);
  c.add(3);
  c.add(0);
  c.add(4);
  EXPECT_EQ(c.get(), 7U);
  c.add(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(c.get(), 6U);
}

TEST(Counter, ReaderSeesItGrowAndMissesNothing) {
  constexpr std::uint64_t kTotal = 2'000'000;
  Counter c;
  std::thread writer{[&] {
    for (std::uint64_t i = 0; i < kTotal; ++i) c.add(1);
  }};
  std::uint64_t last = 0;
  bool monotonic = true;
  while (last < kTotal) {
    const std::uint64_t now = c.get();
    monotonic = monotonic && now >= last && now <= kTotal;
    last = now;
  }
  writer.join();
  EXPECT_TRUE(monotonic);
  EXPECT_EQ(c.get(), kTotal);
}

TEST(DropCounters, EachReasonApart) {
  DropCounters drops;
  for (std::size_t i = 0; i < kDropCount; ++i) drops.add(static_cast<Drop>(i), i + 1);
  drops.add(Drop::kNoMbuf);
  for (std::size_t i = 0; i < kDropCount; ++i) {
    const auto reason = static_cast<Drop>(i);
    EXPECT_EQ(drops.get(reason), i + 1 + (reason == Drop::kNoMbuf ? 1 : 0)) << drop_name(reason);
  }
}

TEST(InterfaceCounters, OwnsItsCacheLines) {
  EXPECT_EQ(alignof(InterfaceCounters), 64U);
  EXPECT_EQ(sizeof(InterfaceCounters) % 64, 0U);
}

}  // namespace
}  // namespace ipoib
