// SPDX-License-Identifier: BSD-3-Clause
// The time that each turn of the management lcore's loop takes. A turn that is too long delays
// ARP, neighbour discovery, the SA and connections, so it is logged.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/fwd/histogram.h"
#include "lib/mgmt/node_info.h"

namespace ipoib::mgmt {

/// Management lcore only.
class TurnTimes {
 public:
  /// A longer turn is logged, at most once a second.
  static constexpr Duration kSlow = std::chrono::milliseconds(100);

  /// Counts a turn from its wake-up to its end.
  void add(TimePoint begin, TimePoint end);

  [[nodiscard]] ManagementInfo info() const;
  [[nodiscard]] const fwd::Histogram& histogram() const { return ns_; }

 private:
  fwd::Histogram ns_;
  std::uint64_t slow_ = 0;
  Duration longest_{};
  RateLimiter logged_{std::chrono::seconds(1), 1};
};

}  // namespace ipoib::mgmt
