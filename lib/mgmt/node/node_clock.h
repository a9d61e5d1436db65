// SPDX-License-Identifier: BSD-3-Clause
// The time of one node: TimePoint 0 is its creation, for management and workers alike.
#pragma once

#include <rte_cycles.h>

#include <chrono>
#include <cstdint>

#include "lib/base/clock.h"

namespace ipoib::mgmt {

/// Reads a counter of rte_get_tsc_hz() that never goes back.
using TscClock = std::uint64_t (*)() noexcept;

/// Converts cycles of the counter to a duration.
[[nodiscard]] inline Duration duration_of(std::uint64_t cycles) {
  const auto hz = rte_get_tsc_hz();
  return std::chrono::seconds{cycles / hz} +
         std::chrono::nanoseconds{cycles % hz * 1'000'000'000 / hz};
}

struct NodeClock {
  TscClock tsc;
  std::uint64_t epoch_tsc = tsc();

  /// Cycles since the creation of the node.
  [[nodiscard]] std::uint64_t cycles() const { return tsc() - epoch_tsc; }
  [[nodiscard]] TimePoint now() const { return TimePoint{duration_of(cycles())}; }
};

}  // namespace ipoib::mgmt
