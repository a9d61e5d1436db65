// SPDX-License-Identifier: BSD-3-Clause
// Capabilities of a device. Each kind of device reports its own and no other code assumes them: the
// data plane checks them before it sends a chain, and operators can display them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ipoib::fabric {

/// Multicast packets that a port receives.
enum class MulticastFilter : std::uint8_t {
  kUnknown,      ///< The device has no filter that can be set, and is assumed to have none.
  kAll,          ///< All multicast packets.
  kGroups,       ///< Packets of the joined groups.
  kPromiscuous,  ///< All packets, because the device offers no narrower filter.
  kCount
};

[[nodiscard]] constexpr std::string_view to_string(MulticastFilter filter) noexcept {
  constexpr std::array<std::string_view, static_cast<std::size_t>(MulticastFilter::kCount)> kNames =
      {"not filtered", "all", "joined groups", "promiscuous"};
  return kNames[static_cast<std::size_t>(filter)];
}

/// Capabilities::max_segments of a device that takes chains of any length.
inline constexpr std::uint16_t kAnySegments = 0xffff;

/// Capabilities::max_workers of a device that limits them no further than its queue pairs.
inline constexpr std::uint16_t kAnyWorkers = 0xffff;

struct Capabilities {
  /// Longest chain, in mbufs, that is sent without a copy: for packets through an ethdev, and for
  /// messages through the connections of an Hca. Longer chains are copied first. 1: no chains.
  std::uint16_t max_segments = 1;
  /// Received packets may be chains.
  bool receives_chains = false;
  MulticastFilter multicast = MulticastFilter::kUnknown;
  /// Workers that can have queue pairs of their own on the port.
  std::uint16_t max_workers = 1;
  /// Connected queues of type RC take an alternate path (lib/fabric/connected.h).
  bool alternate_paths = false;
  /// The longest time in which the device answers an RC packet by an ACK, a time code (4.096 us <<
  /// code, 0-31): the local CA ACK delay, as `local_ca_ack_delay` of ibv_query_device(3).
  std::uint8_t ack_delay = 15;
  /// The device reports its own removal.
  bool removal_events = false;

  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

}  // namespace ipoib::fabric
