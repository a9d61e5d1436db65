// SPDX-License-Identifier: BSD-3-Clause
// Static rate: how fast each address handle may send. Source: IBA vol 1 §9.11.
#pragma once

#include <cstdint>

#include "lib/fabric/types.h"
#include "lib/wire/iba.h"

namespace ipoib::soft {

/// Path rate in Mb/s where it limits a handle of the port, else 0: code 0, a code that does not
/// exist, and rates that the port does not exceed are no limit.
[[nodiscard]] constexpr unsigned limiting_mbps(std::uint8_t path_rate,
                                               std::uint8_t port_rate) noexcept {
  const unsigned path = wire::rate_mbps(path_rate);
  return path < wire::rate_mbps(port_rate) ? path : 0;
}

/// Token bucket of one address handle, kept as the time at which it is full again. Over any time T
/// it lets through at most rate * (T + kBurst) octets: a worker that comes by once in kBurst still
/// reaches the rate, and kBurst at the lowest rate, 2.5 Gb/s, is 312,500 octets, a whole burst of
/// 64 packets of the largest MTU.
struct RateBucket {
  /// In milliseconds of the path's rate.
  static constexpr std::uint64_t kBurstMs = 1;
  /// Costs are in cycles * 2^-kFraction: 0.01 % at 1,200 Gb/s.
  static constexpr unsigned kFraction = 20;

  std::uint64_t full_tsc = 0;  ///< When all that was sent will have been sent at the path's rate.
  std::uint32_t octet_cost = 0;
  std::uint32_t fraction = 0;  ///< What full_tsc leaves out, below 2^kFraction.

  /// `mbps` > 0. Octets cost at least what they take at that rate.
  [[nodiscard]] static RateBucket of(unsigned mbps, std::uint64_t tsc_hz) noexcept {
    const std::uint64_t octets_per_s = std::uint64_t{mbps} * 1'000'000 / 8;
    const std::uint64_t scaled = tsc_hz << kFraction;  // fits up to 2^44 Hz
    return {.octet_cost = static_cast<std::uint32_t>((scaled + octets_per_s - 1) / octets_per_s)};
  }

  /// True, and charged, when the packet may leave now. `octets`: LRH through ICRC.
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
  /// For a packet that was charged and did not leave. The handle may have got its limit between.
  void give_back(std::uint32_t octets) noexcept {
    const std::uint64_t cost = (std::uint64_t{octets} * octet_cost) >> kFraction;
    full_tsc -= cost < full_tsc ? cost : full_tsc;
  }
};
static_assert(sizeof(RateBucket) == 16);

}  // namespace ipoib::soft
