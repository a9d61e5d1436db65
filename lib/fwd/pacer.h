// SPDX-License-Identifier: BSD-3-Clause
// A token bucket in cycles of the time-stamp counter.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ipoib::fwd {

/// Cost of sending, in 2^-20 cycles: per packet and per octet. Both 0: no limit.
struct Pace {
  static constexpr unsigned kShift = 20;
  std::uint64_t per_packet = 0;
  std::uint64_t per_octet = 0;
  /// Cycles that can be saved up: the cost of the largest packet, and an allowance for late loops.
  std::uint64_t depth = 0;

  [[nodiscard]] bool limited() const noexcept { return (per_packet | per_octet) != 0; }
  [[nodiscard]] std::uint64_t cost(std::uint16_t octets) const noexcept {
    return per_packet + per_octet * octets;
  }
};

class Pacer {
 public:
  /// Adds the time until `tsc`; once a loop. The first call starts without credit.
  void refill(const Pace& pace, std::uint64_t tsc) noexcept {
    if (last_ == 0) last_ = tsc;
    const std::uint64_t depth = pace.depth << Pace::kShift;
    const std::uint64_t cycles = std::min(tsc - last_, pace.depth);
    credit_ = std::min(credit_ + (cycles << Pace::kShift), depth);
    last_ = tsc;
  }
  /// Pays for a packet. Returns false if the credit is too small yet.
  [[nodiscard]] bool take(const Pace& pace, std::uint16_t octets) noexcept {
    const std::uint64_t cost = pace.cost(octets);
    if (cost > credit_) return false;
    credit_ -= cost;
    return true;
  }

 private:
  std::uint64_t credit_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace ipoib::fwd
