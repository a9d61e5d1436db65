// SPDX-License-Identifier: BSD-3-Clause
// Rate limit of log messages about events that other hosts can cause.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/clock.h"

namespace ipoib::link {

class LogLimit {
 public:
  explicit LogLimit(Duration interval) : interval_{interval} {}

  /// Returns the number of suppressed events since the last logged one if this event may be logged,
  /// else empty.
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
