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

struct NodeClock {
  TscClock tsc;
  std::uint64_t epoch_tsc = tsc();

  /// Cycles since the creation of the node.
  [[nodiscard]] std::uint64_t cycles() const { return tsc() - epoch_tsc; }
  [[nodiscard]] TimePoint now() const {
    const auto passed = cycles();
    const auto hz = rte_get_tsc_hz();
    return TimePoint{std::chrono::seconds{passed / hz} +
                     std::chrono::nanoseconds{passed % hz * 1'000'000'000 / hz}};
  }
};

}  // namespace ipoib::mgmt
