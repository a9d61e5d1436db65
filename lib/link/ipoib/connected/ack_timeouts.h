// SPDX-License-Identifier: BSD-3-Clause
// ACK timeouts of RC queue pairs, as codes: 4.096 us << code. They follow from the packet lifetime of
// the path, but all attempts of a queue pair end before TCP's time-out. A device waits at least for the
// timeout, as the software HCA does, and at most four times as long (iba-wire.md §6).
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/clock.h"
#include "lib/link/interface_config.h"
#include "lib/wire/rc.h"

namespace ipoib::link {

/// Bound of the packet lifetimes of records: 2.1 s.
inline constexpr std::uint8_t kLongestLifetime = 19;
/// The shortest time-out that follows from a path: 1 ms. One with packet lifetime 0 to a peer that says
/// ACK delay 0 would have 16 us, in which a process that shares its core need not answer. Linux has no
/// such bound; its software device says delay 15, some hardware 0.
inline constexpr std::uint8_t kShortestAckTimeout = 8;
/// TCP's shortest retransmission time-out.
inline constexpr std::uint64_t kTcpTimeoutNs = 200'000'000;

/// Timeout of the path: twice its packet lifetime, and the time in which the other end sends an ACK.
/// The larger of the two, or its double if they are within a factor of two, as Linux adds them.
/// Source: iba-wire.md §5.5.
[[nodiscard]] constexpr std::uint8_t path_ack_timeout(std::uint8_t lifetime,
                                                      std::uint8_t ack_delay) noexcept {
  const int both_ways = std::min(lifetime, kLongestLifetime) + 1;
  const int delay = std::min(ack_delay, kLongestAckTimeout);
  const int larger = std::max(both_ways, delay);
  const int sum = larger - std::min(both_ways, delay) <= 1 ? larger + 1 : larger;
  return static_cast<std::uint8_t>(std::min<int>(sum, kLongestAckTimeout));
}

/// The longest timeout with which all attempts end before TCP repeats a packet, on a device that waits
/// no longer than that. Source: draft-ietf-ipoib-connected-mode-03 §7.1.
[[nodiscard]] constexpr std::uint8_t short_ack_timeout(std::uint8_t retry_count) noexcept {
  std::uint8_t code = 1;
  while (code < kLongestAckTimeout &&
         (retry_count + 1U) * wire::ack_timeout_ns(static_cast<std::uint8_t>(code + 1)) <
             kTcpTimeoutNs)
    ++code;
  return code;
}

static_assert(kShortestAckTimeout <= short_ack_timeout(7), "it fits all retries");

/// Timeout in REQ and LAP, for the peer's packets on a path with this packet lifetime. `ack_delay`:
/// that of the own device. Source: iba-wire.md §5.5.
[[nodiscard]] constexpr std::uint8_t announced_ack_timeout(const ConnectionConfig& config,
                                                           std::uint8_t lifetime,
                                                           std::uint8_t ack_delay) noexcept {
  if (config.ack_timeout != kAckTimeoutAuto) return config.ack_timeout;
  return path_ack_timeout(lifetime, ack_delay);
}

/// The longest timeout of the own queue pairs.
[[nodiscard]] constexpr std::uint8_t longest_own_ack_timeout(
    const ConnectionConfig& config) noexcept {
  if (config.ack_timeout != kAckTimeoutAuto) return config.ack_timeout;
  return short_ack_timeout(config.retry_count);
}

/// Timeout of an own queue pair. `path`: that of its path, which a REQ or LAP of the peer names, or
/// path_ack_timeout() with the ACK delay of the peer's REP.
[[nodiscard]] constexpr std::uint8_t own_ack_timeout(const ConnectionConfig& config,
                                                     std::uint8_t path) noexcept {
  if (config.ack_timeout != kAckTimeoutAuto) return config.ack_timeout;
  return std::clamp(path, kShortestAckTimeout, longest_own_ack_timeout(config));
}

/// Time after which a queue pair of any device has failed if no ACK arrives.
[[nodiscard]] constexpr Duration longest_silence(const ConnectionConfig& config) noexcept {
  return Duration{4 * (config.retry_count + 1U) *
                  wire::ack_timeout_ns(longest_own_ack_timeout(config))};
}

}  // namespace ipoib::link
