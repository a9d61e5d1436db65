// SPDX-License-Identifier: BSD-3-Clause
// Modes of workers that users can set. No EAL, so that configuration code can include them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ipoib::fwd {

/// Behaviour of an lcore after a loop that found no work.
enum class IdlePolicy : std::uint8_t {
  kPoll,   ///< Polls again at once.
  kPause,  ///< Pauses first (one instruction), which leaves cycles to the sibling hyper-thread.
  kSleep,  ///< Sleeps up to 50 us after some empty loops; for hosts with fewer cores than lcores.
};

enum class ForwardMode : std::uint8_t {
  kRoute,
  kIo,        ///< Frames cross between paired Ethernet ports unchanged.
  kRxonly,    ///< Received packets are counted and freed.
  kIcmpecho,  ///< Echo requests to any address are answered; other packets end as in rxonly.
  kAddrswap,  ///< Packets go back to their senders: addresses and ports swapped, routed.
  // The following modes also make packets; received packets end as in rxonly.
  kTxonly,   ///< At the configured rate, one flow per neighbour.
  kFlowgen,  ///< At the configured rate, many flows.
  kLatency,  ///< Packets have time stamps, which are read when they return to this process.
};

/// Check of the source of a unicast packet against the routes.
enum class SourceCheck : std::uint8_t {
  kOff,
  kLoose,   ///< Some route leads to the source.
  kStrict,  ///< The route to the source leaves by the interface where the packet arrived.
};

/// Packets from other interfaces that an interface lets out as broadcasts. Each includes those before
/// it. Source: RFC 2644.
enum class DirectedBroadcast : std::uint8_t {
  kOff,
  kSubnet,      ///< Packets to the broadcast addresses of its prefixes.
  kAllSubnets,  ///< Packets to all subnets of the classful nets of its prefixes.
};

/// User-visible names, indexed by ForwardMode.
inline constexpr std::array<std::string_view, 8> kForwardModeNames = {
    "route", "io", "rxonly", "icmpecho", "addrswap", "txonly", "flowgen", "latency"};

[[nodiscard]] constexpr std::string_view mode_name(ForwardMode mode) {
  return kForwardModeNames[static_cast<std::size_t>(mode)];
}
[[nodiscard]] constexpr std::optional<ForwardMode> mode_named(std::string_view name) {
  for (std::size_t i = 0; i < kForwardModeNames.size(); ++i)
    if (kForwardModeNames[i] == name) return static_cast<ForwardMode>(i);
  return std::nullopt;
}

[[nodiscard]] constexpr bool makes_packets(ForwardMode mode) {
  return mode >= ForwardMode::kTxonly;
}

}  // namespace ipoib::fwd
