// SPDX-License-Identifier: BSD-3-Clause
// Token bucket in virtual time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/clock.h"

namespace ipoib {

/// Allows `burst` events at once and one more every `interval`.
class RateLimiter {
 public:
  RateLimiter(Duration interval, std::uint32_t burst) : interval_{interval}, burst_{burst} {}

  [[nodiscard]] bool allow(TimePoint now) {
    // `credit_from_` is the time at which the bucket was last empty, and never earlier than a full
    // bucket needs.
    credit_from_ = std::max(credit_from_, now - interval_ * burst_);
    if (now - credit_from_ < interval_) return false;
    credit_from_ += interval_;
    return true;
  }
  /// The time from which on the next call of allow() returns true.
  [[nodiscard]] TimePoint next() const { return credit_from_ + interval_; }

 private:
  Duration interval_;
  std::uint32_t burst_;
  TimePoint credit_from_{Duration::min() / 2};
};

}  // namespace ipoib
