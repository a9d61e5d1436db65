// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/idle.h"

#include <rte_pause.h>

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

namespace ipoib::fwd {
namespace {

/// Number of empty loops spent polling: a burst is often followed by another.
constexpr std::uint32_t kPollLoops = 16;
constexpr std::uint32_t kMinSleepNs = 1'000;
constexpr std::uint32_t kMaxSleepNs = 50'000;

}  // namespace

std::uint32_t Idle::sleep_ns(std::uint32_t empty_loops) noexcept {
  if (empty_loops <= kPollLoops) return 0;
  // The time doubles every fourth loop.
  const std::uint32_t doublings = std::min((empty_loops - kPollLoops) / 4, 16U);
  return std::min(kMinSleepNs << doublings, kMaxSleepNs);
}

void Idle::rest(IdlePolicy policy) noexcept {
  empty_loops_ += empty_loops_ < 0xffff'ffff ? 1 : 0;
  const std::uint32_t ns = policy == IdlePolicy::kSleep ? sleep_ns(empty_loops_) : 0;
  if (ns == 0) {
    rte_pause();
    return;
  }
  const timespec time{0, static_cast<long>(ns)};
  nanosleep(&time, nullptr);
}

void allow_short_sleeps() noexcept {
  // If the kernel refuses, sleeps become longer; there is no other effect.
  prctl(PR_SET_TIMERSLACK, 1'000UL, 0UL, 0UL, 0UL);
}

}  // namespace ipoib::fwd
