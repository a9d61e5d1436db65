// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/doorbell.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <thread>

namespace ipoib {
namespace {

struct DoorbellTest : testing::Test {
  DoorbellTest() { bell.eventfd = ::eventfd(0, EFD_NONBLOCK); }
  ~DoorbellTest() override { close(bell.eventfd); }
  /// Number of rings since the previous call.
  std::uint64_t rung() const {
    eventfd_t count = 0;
    return eventfd_read(bell.eventfd, &count) == 0 ? count : 0;
  }
  Doorbell bell;
};

TEST_F(DoorbellTest, RingsOnlyForASleeperAndOnce) {
  bell.ring();
  EXPECT_EQ(rung(), 0U) << "nobody sleeps";
  bell.arm();
  bell.ring();
  bell.ring();
  EXPECT_EQ(rung(), 1U);
  bell.arm();
  bell.disarm();
  bell.ring();
  EXPECT_EQ(rung(), 0U);
}

TEST_F(DoorbellTest, NothingPushedIsSleptOn) {
  constexpr std::uint64_t kItems = 20'000;
  std::atomic<std::uint64_t> pushed{0};  // takes the place of a ring
  std::atomic<bool> over{false};
  std::thread ringer{[&] {
    for (std::uint64_t i = 0; i < kItems; ++i) {
      pushed.store(i + 1, std::memory_order_relaxed);
      bell.ring();
      while (i % 64 == 63 && pushed.load(std::memory_order_relaxed) == i + 1 &&
             bell.waiting.load(std::memory_order_relaxed) == 0 && !over.load())
        std::this_thread::yield();  // waits until the sleeper arms the bell again
    }
    pushed.store(kItems + 1, std::memory_order_relaxed);
    bell.ring();
  }};
  bool slept_on = false;
  for (std::uint64_t seen = 0; seen != kItems + 1 && !slept_on;) {
    bell.arm();
    if (const auto now = pushed.load(std::memory_order_relaxed); now != seen) {
      seen = now;
    } else {
      pollfd fd{bell.eventfd, POLLIN, 0};
      slept_on = ::poll(&fd, 1, 10'000) == 0;
      static_cast<void>(rung());
    }
    bell.disarm();
  }
  over = true;
  ringer.join();
  EXPECT_FALSE(slept_on) << "ten seconds without a ring, with something pushed";
}

}  // namespace
}  // namespace ipoib
