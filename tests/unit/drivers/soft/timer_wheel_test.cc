// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/connected/timer_wheel.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace ipoib::soft {
namespace {

constexpr std::uint64_t kHz = 1'000'000'000;
constexpr std::uint64_t kTick = 1U << 16;  // The power of two below kHz / 8192.

struct Alarm : Timed {
  std::uint64_t wanted = 0;
};

TEST(TimerWheel, NeverTooEarlyAndAtMostOneTickLate) {
  std::uint64_t now = 123'456'789;
  TimerWheel wheel{kHz, now};
  std::vector<std::unique_ptr<Alarm>> alarms;
  std::mt19937_64 random{1};
  for (int i = 0; i < 500; ++i) {
    alarms.push_back(std::make_unique<Alarm>());
    alarms.back()->wanted = now + random() % (i % 2 == 0 ? kHz / 100 : kHz);  // Some exceed a turn.
    wheel.arm(*alarms.back(), alarms.back()->wanted);
  }
  std::size_t due = 0;
  while (now < 123'456'789 + 2 * kHz) {
    now += random() % (2 * kTick);
    const std::uint64_t before = now - 2 * kTick;
    wheel.expire(now, [&](Timed& node) {
      auto& alarm = static_cast<Alarm&>(node);
      EXPECT_FALSE(alarm.armed());
      EXPECT_GE(now, alarm.wanted);
      EXPECT_GE(alarm.wanted + kTick + 1, before);
      ++due;
    });
  }
  EXPECT_EQ(due, alarms.size());
}

TEST(TimerWheel, DeadlineMovesBothWays) {
  TimerWheel wheel{kHz, 0};
  Alarm alarm;
  unsigned due = 0;
  const auto count = [&](Timed&) { ++due; };
  wheel.arm(alarm, 10 * kTick);
  wheel.arm(alarm, 20 * kTick);
  wheel.expire(15 * kTick, count);
  EXPECT_EQ(due, 0U);
  wheel.arm(alarm, 17 * kTick);
  wheel.expire(19 * kTick, count);
  EXPECT_EQ(due, 1U);
  EXPECT_FALSE(alarm.armed());
}

TEST(TimerWheel, CancelledAndDisarmedDeadlinesDoNotCome) {
  TimerWheel wheel{kHz, 0};
  Alarm cancelled;
  Alarm again;
  {
    Alarm gone;
    wheel.arm(gone, kTick);
    TimerWheel::disarm(gone);
  }
  wheel.arm(cancelled, kTick);
  TimerWheel::cancel(cancelled);
  wheel.arm(again, kTick);
  unsigned due = 0;
  const auto rearm = [&](Timed& node) {
    EXPECT_EQ(&node, &again);
    if (++due < 3) wheel.arm(node, (due + 1) * 5 * kTick);
  };
  for (std::uint64_t now = 0; now < 40 * kTick; now += kTick) wheel.expire(now, rearm);
  EXPECT_EQ(due, 3U);
  wheel.arm(again, 100 * kTick);
  wheel.expire(100'000 * kTick, rearm);  // Many turns at once.
  EXPECT_EQ(due, 4U);
}

}  // namespace
}  // namespace ipoib::soft
