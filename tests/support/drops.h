// SPDX-License-Identifier: BSD-3-Clause
// Sums of drop counters.
#pragma once

#include <cstdint>
#include <numeric>

#include "lib/base/counters.h"

namespace ipoib::test {

/// Returns the sum over all reasons.
inline std::uint64_t sum_of(const DropCounters& drops) {
  std::uint64_t sum = 0;
  for (const Counter& counter : drops.by_reason) sum += counter.get();
  return sum;
}

inline std::uint64_t sum_of(const DropTotals& drops) {
  return std::accumulate(drops.by_reason.begin(), drops.by_reason.end(), std::uint64_t{0});
}

}  // namespace ipoib::test
