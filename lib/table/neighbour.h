// SPDX-License-Identifier: BSD-3-Clause
// The data of a neighbour that a worker needs to send, in one cache line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "lib/fabric/fabric_types.h"
#include "lib/wire/ip.h"

namespace ipoib::fabric {
class ConnectedQueue;
}

namespace ipoib::table {

using InterfaceId = std::uint16_t;
inline constexpr InterfaceId kNoInterface = 0xffff;

/// Number of a neighbour, the same on every worker; assigned by the management lcore.
using NeighbourIndex = std::uint32_t;
inline constexpr NeighbourIndex kNoNeighbour = 0xffff'ffff;

enum class NeighbourState : std::uint8_t {
  kFree = 0,
  kIncomplete,  ///< Only the address is known: packets are punted and held.
  kValid,
  kFailed,  ///< Resolution failed: packets are dropped until management sets another state.
};

enum class NeighbourMode : std::uint8_t {
  kEthernet,
  kUd,
  kRc,
  kUc,
  /// kUd, and the worker writes whole frames, without or with the GRH of groups. Set by the worker
  /// alone, in its own table.
  kUdFrame,
  kUdGroupFrame,
  kUdPaths,  ///< kUd over several paths: each flow keeps to one.
};

[[nodiscard]] constexpr NeighbourMode mode_of(fabric::Transport transport) noexcept {
  switch (transport) {
    case fabric::Transport::kUd: break;
    case fabric::Transport::kRc: return NeighbourMode::kRc;
    case fabric::Transport::kUc: return NeighbourMode::kUc;
  }
  return NeighbourMode::kUd;
}

/// True if the worker writes whole frames.
[[nodiscard]] constexpr bool has_frames(NeighbourMode mode) noexcept {
  return mode == NeighbourMode::kUdFrame || mode == NeighbourMode::kUdGroupFrame;
}

[[nodiscard]] constexpr std::string_view to_string(NeighbourMode mode) noexcept {
  constexpr std::array<std::string_view, 7> kNames = {"ethernet", "UD", "RC", "UC",
                                                      "UD",       "UD", "UD"};
  return kNames[static_cast<std::size_t>(mode)];
}

/// Its worker writes it when a message arrives and reads it per packet. Trivially copyable:
/// msg::Down carries it by value.
struct alignas(64) Neighbour {
  /// Paths that one neighbour may have. A flow has one by its hash.
  static constexpr unsigned kMaxPaths = 4;

  wire::IpAddr addr;
  InterfaceId iface = kNoInterface;
  NeighbourState state = NeighbourState::kFree;
  NeighbourMode mode = NeighbourMode::kUd;
  std::uint16_t mtu = 0;                    ///< Largest IP packet.
  std::array<std::byte, 6> mac{};           ///< kEthernet, frames: destination of the frame.
  std::uint32_t lrh = 0;                    ///< Frames: fabric::FrameHead::lrh.
  fabric::AhIndex ah = fabric::kNoAh;       ///< kUd, kUdPaths (the first one), frames.
  std::uint32_t qpn = 0;                    ///< kUd, kUdPaths, frames: destination QPN.
  fabric::ConnectedQueue* queue = nullptr;  ///< kRc, kUc; null in the other modes.
  /// kUdGroupFrame: fabric::FrameHead::mgid_low. kUdPaths: see set_handles().
  std::uint64_t mgid_low = 0;
  /// kUd, kUdGroupFrame: a group whose packets go to the all-routers group.
  bool via_routers : 1 = false;
  /// This node has asked for it, or was about to send to it: false while only the neighbour itself,
  /// or another host in its name, has spoken.
  bool asked : 1 = false;
  std::uint8_t worker = 0;     ///< kRc, kUc: number of the worker that `queue` belongs to.
  std::uint16_t mgid_mid = 0;  ///< kUdGroupFrame: fabric::FrameHead::mgid_mid.
  /// Coarse time of the last packet sent through this entry: seconds since the process started.
  /// Writer: the worker (relaxed); reader: management lcore, for ageing and probing.
  std::uint32_t last_used_s = 0;

  /// The first eight octets of a frame that fabric::write_frame() makes.
  [[nodiscard]] std::uint64_t frame_start() const noexcept {
    std::uint64_t start;
    std::memcpy(&start, reinterpret_cast<const std::byte*>(this) + offsetof(Neighbour, mtu),
                sizeof(start));
    return start;
  }

  /// kUdPaths: the address handles of the paths, by flow hash. No device has more than 2^16 handles.
  void set_handles(const std::array<std::uint16_t, kMaxPaths>& handles) noexcept {
    mgid_low = 0;
    for (unsigned i = 0; i < kMaxPaths; ++i) mgid_low |= std::uint64_t{handles[i]} << 16 * i;
  }
  /// Takes the low bits of the hash: groups of next hops take the high ones.
  [[nodiscard]] fabric::AhIndex handle_of(std::uint32_t flow_hash) const noexcept {
    return static_cast<fabric::AhIndex>(mgid_low >> 16 * (flow_hash % kMaxPaths) & 0xffff);
  }

  [[nodiscard]] bool same_key(const wire::IpAddr& a, InterfaceId i) const noexcept {
    return iface == i && addr == a;
  }

  /// Interface, state and mode packed into 32 bits, so that one compare covers all three.
  using EgressKey = std::uint32_t;
  [[nodiscard]] EgressKey egress_key() const noexcept {
    EgressKey egress_key;
    std::memcpy(&egress_key, &iface, sizeof(egress_key));
    return egress_key;
  }
  [[nodiscard]] static EgressKey egress_key_of(InterfaceId iface, NeighbourState state,
                                               NeighbourMode mode) noexcept {
    Neighbour n;
    n.iface = iface;
    n.state = state;
    n.mode = mode;
    return n.egress_key();
  }
};
static_assert(offsetof(Neighbour, mode) + 1 ==
              offsetof(Neighbour, iface) + sizeof(Neighbour::EgressKey));
static_assert(offsetof(Neighbour, mac) == offsetof(Neighbour, mtu) + 2);
static_assert(sizeof(Neighbour) == 64 && std::is_trivially_copyable_v<Neighbour>);

}  // namespace ipoib::table
