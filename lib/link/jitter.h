// SPDX-License-Identifier: BSD-3-Clause
// Randomness of timers: nodes that started together must not ask together for ever.
#pragma once

#include <cstdint>
#include <random>

#include "lib/base/clock.h"

namespace ipoib::link {

class Jitter {
 public:
  /// The same seed gives the same run.
  explicit Jitter(std::uint64_t seed) : random_{seed} {}

  /// `d` give or take up to `percent` of it.
  [[nodiscard]] Duration around(Duration d, unsigned percent) {
    const auto spread = d.count() / 100 * static_cast<Duration::rep>(percent);
    if (spread <= 0) return d;
    return d + Duration{std::uniform_int_distribution<Duration::rep>{-spread, spread}(random_)};
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace ipoib::link
