// SPDX-License-Identifier: BSD-3-Clause
// Static rate limit of each address handle. Source: IBA vol 1 §9.11.
#pragma once

#include <cstdint>

#include "lib/fabric/fabric_types.h"
#include "lib/wire/iba.h"

namespace ipoib::soft {

/// Path rate in Mb/s if it limits a handle of the port, else 0: code 0, unknown codes, and rates
/// that the port does not exceed are no limit.
[[nodiscard]] constexpr unsigned limiting_mbps(std::uint8_t path_rate,
                                               std::uint8_t port_rate) noexcept {
  const unsigned path = wire::rate_mbps(path_rate);
  return path < wire::rate_mbps(port_rate) ? path : 0;
}

/// Token bucket of one address handle, kept as the time at which it is full again. Over any time T
/// it passes at most rate * (T + kBurstMs) octets: a worker that polls once in kBurstMs still
/// reaches the rate, and kBurstMs at the lowest rate, 2.5 Gb/s, is 312,500 octets, a whole burst of
/// 64 packets of the largest MTU.
struct RateBucket {
  /// Burst size, in milliseconds at the path's rate.
  static constexpr std::uint64_t kBurstMs = 1;
  /// Fractional bits of costs in cycles: an error of 0.01 % at 1,200 Gb/s.
  static constexpr unsigned kFraction = 20;

  std::uint64_t full_tsc = 0;  ///< Time at which all octets sent so far fit the path's rate.
  std::uint32_t octet_cost = 0;
  std::uint32_t fraction = 0;  ///< Fractional part of full_tsc, below 2^kFraction.

  /// `mbps` > 0. The cost of an octet is rounded up.
  [[nodiscard]] static RateBucket of(unsigned mbps, std::uint64_t tsc_hz) noexcept {
    const std::uint64_t octets_per_s = std::uint64_t{mbps} * 1'000'000 / 8;
    const std::uint64_t scaled = tsc_hz << kFraction;  // fits up to 2^44 Hz
    return {.octet_cost = static_cast<std::uint32_t>((scaled + octets_per_s - 1) / octets_per_s)};
  }

  /// Charges the packet and returns true if it may be sent now. `octets`: LRH through ICRC.
  [[nodiscard]] bool take(std::uint32_t octets, std::uint64_t now_tsc,
                          std::uint64_t burst_tsc) noexcept {
    const std::uint64_t from = full_tsc > now_tsc ? full_tsc : now_tsc;
    const std::uint64_t cost = std::uint64_t{octets} * octet_cost + fraction;
    const std::uint64_t until = from + (cost >> kFraction);
    if (until > now_tsc + burst_tsc) return false;
    full_tsc = until;
    fraction = static_cast<std::uint32_t>(cost & ((1U << kFraction) - 1));
    return true;
  }
  /// Refunds a packet that was charged but not sent. Stops at 0, because the packet may have passed
  /// before the handle got its limit.
  void give_back(std::uint32_t octets) noexcept {
    const std::uint64_t cost = (std::uint64_t{octets} * octet_cost) >> kFraction;
    full_tsc -= cost < full_tsc ? cost : full_tsc;
  }
};
static_assert(sizeof(RateBucket) == 16);

}  // namespace ipoib::soft
