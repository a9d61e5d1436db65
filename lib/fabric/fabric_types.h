// SPDX-License-Identifier: BSD-3-Clause
// Plain values that control plane, devices and data plane exchange. No EAL, no verbs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/wire/gid.h"

namespace ipoib::fabric {

enum class PortState : std::uint8_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

/// Transports of queue pairs. Source: IBA vol 1 §9.2.1.
enum class Transport : std::uint8_t { kUd, kRc, kUc };

[[nodiscard]] constexpr std::string_view to_string(Transport transport) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"UD", "RC", "UC"};
  return kNames[static_cast<std::size_t>(transport)];
}

/// Link layer of a port. Ethernet: RoCE, which has no subnet manager and addresses by GID.
enum class LinkLayer : std::uint8_t { kInfiniBand, kEthernet };

/// Attributes of a port, as the subnet manager set them.
struct PortAttr {
  LinkLayer link_layer = LinkLayer::kInfiniBand;
  std::uint64_t guid = 0;
  std::uint64_t gid_prefix = wire::kDefaultGidPrefix;
  std::uint16_t lid = 0;
  std::uint8_t lmc = 0;
  std::uint16_t sm_lid = 0;
  std::uint8_t sm_sl = 0;
  std::uint8_t mtu = 4;   ///< Code of the largest MTU that the port carries.
  std::uint8_t rate = 3;  ///< Rate code.
  PortState state = PortState::kActive;
  std::vector<std::uint16_t> pkeys{wire::kDefaultPkey};

  [[nodiscard]] wire::Gid gid() const { return wire::Gid::of(gid_prefix, guid); }
  /// True for each of the 2^LMC LIDs of the port.
  [[nodiscard]] constexpr bool has_lid(std::uint16_t other) const noexcept {
    return other >> lmc == lid >> lmc;
  }
  /// The path bits of one of the port's LIDs: its low LMC bits. Source: IBA vol 1 §4.1.3.
  [[nodiscard]] constexpr std::uint8_t path_bits_of(std::uint16_t own) const noexcept {
    return static_cast<std::uint8_t>(own & ((1U << lmc) - 1));
  }
  /// The LID with these path bits. Bits beyond the LMC are ignored.
  [[nodiscard]] constexpr std::uint16_t lid_with(std::uint8_t path_bits) const noexcept {
    return static_cast<std::uint16_t>(lid | path_bits_of(path_bits));
  }
};

/// LIDs of the two ports of a path.
struct LidPair {
  std::uint16_t slid = 0;
  std::uint16_t dlid = 0;
};

/// Names and values of a device's counters.
using NamedCounters = std::vector<std::pair<std::string_view, std::uint64_t>>;

/// Attributes of a port that a subnet manager sets; absent attributes stay unchanged.
struct PortChange {
  std::optional<std::uint16_t> lid{};
  std::optional<std::uint16_t> sm_lid{};  ///< 0: no subnet manager.
  std::optional<std::uint8_t> sm_sl{};
  std::optional<std::uint64_t> gid_prefix{};
  std::optional<std::vector<std::uint16_t>> pkeys{};
  std::optional<bool> up{};  ///< Administrative; the port is active when its cable is up too.
  bool reregister = false;   ///< All memberships and subscriptions must be requested again.
};

/// Destination and path of an address handle. Source: IBA vol 1 §11.2.2.1.
struct AhAttr {
  std::uint16_t dlid = 0;
  std::uint8_t sl = 0;
  std::uint8_t rate = 0;  ///< Path rate code; 0: rate of the port.
  /// Low bits of the source LID, within the port's LMC; not for groups. A handle with some may cost
  /// more per packet.
  std::uint8_t src_path_bits = 0;
  bool global = false;  ///< Send a GRH with the fields below.
  std::uint8_t tclass = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  wire::Gid dgid;
  /// Q_Key of the packets; empty: that of the queue that sends them. A handle with a Q_Key may cost
  /// more per packet.
  std::optional<std::uint32_t> qkey{};

  friend bool operator==(const AhAttr&, const AhAttr&) = default;
};

/// Number of an address handle of one Hca. Packets to send carry it.
using AhIndex = std::uint32_t;
inline constexpr AhIndex kNoAh = 0xffff'ffff;

/// LIDs for a port with Ethernet link layer, used only inside the node: kOwnLid is the port itself,
/// if the node administers the subnet for itself; kElsewhereLid is every other port, which its
/// GID identifies.
inline constexpr std::uint16_t kOwnLid = 1;
inline constexpr std::uint16_t kElsewhereLid = 2;

enum class PortEvent : std::uint8_t {
  kPortActive,
  kPortDown,
  kLidChange,
  kPkeyChange,
  kSmChange,
  kClientReregister,
  kGidChange,
  kFatal
};

[[nodiscard]] constexpr std::string_view to_string(PortEvent event) noexcept {
  constexpr std::array<std::string_view, 8> kNames = {
      "port active", "port down",         "LID change", "P_Key change",
      "SM change",   "client reregister", "GID change", "fatal"};
  return kNames[static_cast<std::size_t>(event)];
}

}  // namespace ipoib::fabric
