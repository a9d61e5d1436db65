// SPDX-License-Identifier: BSD-3-Clause
// The time of a simulation, its coming events, and its source of chance. A seed determines
// everything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "lib/base/clock.h"

namespace ipoib::test {

/// Base of simulated surroundings.
class SimTime {
 public:
  SimTime(TimePoint start, std::uint64_t seed) : now{start}, random{seed} {}

  /// Calls `what` at this time. Calls at one time are in the order of the calls of at().
  void at(TimePoint when, std::function<void()> what) { events_.emplace(when, std::move(what)); }

  [[nodiscard]] bool chance(double p) {
    return std::uniform_real_distribution<double>{0, 1}(random) < p;
  }
  /// Returns a number below `n`.
  [[nodiscard]] std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random() % n); }

  TimePoint now;
  std::mt19937_64 random;

 protected:
  [[nodiscard]] std::optional<TimePoint> next_event() const {
    if (events_.empty()) return std::nullopt;
    return events_.begin()->first;
  }
  /// Advances the time, and carries out all events until then.
  void advance(TimePoint to) {
    now = std::max(now, to);
    while (!events_.empty() && events_.begin()->first <= now)
      events_.extract(events_.begin()).mapped()();
  }
  /// Advances the time from one event or deadline to the next until `end`, and calls `tick` at
  /// each. `next_deadline` returns the next of all deadlines, if there is any.
  template <class NextDeadline, class Tick>
  void run_to(TimePoint end, NextDeadline next_deadline, Tick tick) {
    for (;;) {
      const auto next = earlier(next_event(), next_deadline());
      if (!next || *next > end) break;
      advance(*next);
      tick();
    }
    now = std::max(now, end);
  }

 private:
  std::multimap<TimePoint, std::function<void()>> events_;
};

}  // namespace ipoib::test
