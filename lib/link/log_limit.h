// SPDX-License-Identifier: BSD-3-Clause
// Rate limit of log messages about events that other hosts can cause.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"

namespace ipoib::link {

class LogLimit {
 public:
  /// Allows `burst` messages at once and one more every `interval`.
  explicit LogLimit(Duration interval, std::uint32_t burst = 1) : limiter_{interval, burst} {}

  /// Returns the number of suppressed events since the last logged one if this event may be logged,
  /// else empty.
  [[nodiscard]] std::optional<std::uint64_t> allow(TimePoint now) {
    if (limiter_.allow(now)) return std::exchange(suppressed_, 0);
    ++suppressed_;
    return std::nullopt;
  }

 private:
  RateLimiter limiter_;
  std::uint64_t suppressed_ = 0;
};

}  // namespace ipoib::link
