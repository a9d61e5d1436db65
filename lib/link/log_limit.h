// SPDX-License-Identifier: BSD-3-Clause
// Keeps an event that others can cause at will from filling the log.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/clock.h"

namespace ipoib::link {

class LogLimit {
 public:
  explicit LogLimit(Duration interval) : interval_{interval} {}

  /// Whether this event may be logged: with how many were suppressed since the last that was.
  [[nodiscard]] std::optional<std::uint64_t> allow(TimePoint now) {
    if (last_ && now - *last_ < interval_) {
      ++suppressed_;
      return std::nullopt;
    }
    last_ = now;
    const auto suppressed = suppressed_;
    suppressed_ = 0;
    return suppressed;
  }

 private:
  Duration interval_;
  std::optional<TimePoint> last_;
  std::uint64_t suppressed_ = 0;
};

}  // namespace ipoib::link
