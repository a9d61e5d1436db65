// SPDX-License-Identifier: BSD-3-Clause
// How workers may be told to behave. No EAL, so that configuration can name these, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ipoib::fwd {

/// What an lcore does with a loop that found nothing to do.
enum class IdlePolicy : std::uint8_t {
  kPoll,   ///< Looks again at once.
  kPause,  ///< A pause instruction first: kinder to the sibling hyper-thread.
  kSleep,  ///< Sleeps up to 50 us after some empty loops: fewer cores than lcores.
};

enum class ForwardMode : std::uint8_t {
  kRoute,
  kIo,        ///< Frames cross between paired Ethernet ports as they are.
  kRxonly,    ///< What is received is counted and freed.
  kIcmpecho,  ///< Echo requests are answered, whoever they are for; all else as in rxonly.
  kAddrswap,  ///< Packets go back to where they came from: addresses and ports swapped, routed.
  // These make packets, too; what is received ends as in rxonly.
  kTxonly,   ///< As fast as is set, one flow a neighbour.
  kFlowgen,  ///< Many flows.
  kLatency,  ///< With time stamps, which are read where they come back to this process.
};

/// By ForwardMode: as people write them.
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
