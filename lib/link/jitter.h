// SPDX-License-Identifier: BSD-3-Clause
// Random variation of timers, so that nodes that started together do not send together for ever.
#pragma once

#include <cstdint>
#include <random>

#include "lib/base/clock.h"

namespace ipoib::link {

/// The usual deviation of retries and refreshes, in per cent in both directions.
inline constexpr unsigned kSpread = 20;

class Jitter {
 public:
  /// Equal seeds give equal runs.
  explicit Jitter(std::uint64_t seed) : random_{seed} {}

  /// Returns `d` with a random deviation of up to `percent` in both directions.
  [[nodiscard]] Duration around(Duration d, unsigned percent) {
    const auto spread = d.count() / 100 * static_cast<Duration::rep>(percent);
    if (spread <= 0) return d;
    return d + Duration{std::uniform_int_distribution<Duration::rep>{-spread, spread}(random_)};
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace ipoib::link
