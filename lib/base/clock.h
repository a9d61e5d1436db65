// SPDX-License-Identifier: BSD-3-Clause
// Time as a value that callers pass to state machines. State machines never read a clock, so a test
// can run an hour of timers in a millisecond.
#pragma once

#include <chrono>
#include <optional>

namespace ipoib {

/// Names the epoch (start of the process, or of the simulation); has no now() on purpose.
struct Clock {
  using rep = std::chrono::nanoseconds::rep;
  using period = std::chrono::nanoseconds::period;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<Clock, duration>;
  static constexpr bool is_steady = true;
};

using Duration = Clock::duration;
using TimePoint = Clock::time_point;

/// The earlier of two deadlines; none means never.
[[nodiscard]] constexpr std::optional<TimePoint> earlier(std::optional<TimePoint> a,
                                                         std::optional<TimePoint> b) {
  if (!a) return b;
  if (!b) return a;
  return *a < *b ? a : b;
}

}  // namespace ipoib
