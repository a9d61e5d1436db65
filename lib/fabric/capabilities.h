// SPDX-License-Identifier: BSD-3-Clause
// What a device can do with packets. Each kind of device states it of itself and nobody assumes it:
// the datapath asks before it sends a chain, and operators are shown it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ipoib::fabric {

/// Which multicast packets a port receives.
enum class MulticastFilter : std::uint8_t {
  kUnknown,      ///< The device has no filter that can be set, and is taken to have none.
  kAll,          ///< All of them.
  kGroups,       ///< Those of the groups that were joined.
  kPromiscuous,  ///< All packets there are, as the device offers nothing narrower.
  kCount
};

[[nodiscard]] constexpr std::string_view to_string(MulticastFilter filter) noexcept {
  constexpr std::array<std::string_view, static_cast<std::size_t>(MulticastFilter::kCount)> kNames =
      {"not filtered", "all", "joined groups", "promiscuous"};
  return kNames[static_cast<std::size_t>(filter)];
}

/// Of a device that takes chains of any length.
inline constexpr std::uint16_t kAnySegments = 0xffff;

struct Capabilities {
  /// Mbufs of the longest chain that is sent as it is: of packets through an ethdev, of messages
  /// through the connections of an Hca. Longer chains are copied first. 1: no chains.
  std::uint16_t max_segments = 1;
  /// Received packets may come as chains.
  bool receives_chains = false;
  MulticastFilter multicast = MulticastFilter::kUnknown;
  /// It tells when it is taken away.
  bool removal_events = false;

  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

}  // namespace ipoib::fabric
