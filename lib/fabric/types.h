// SPDX-License-Identifier: BSD-3-Clause
// Plain values that travel between control, devices and datapath. No EAL, no verbs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/wire/gid.h"
#include "lib/wire/mad.h"

namespace ipoib::fabric {

enum class PortState : std::uint8_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

/// Transports of queue pairs. Source: IBA vol 1 §9.2.1.
enum class Transport : std::uint8_t { kUd, kRc, kUc };

[[nodiscard]] constexpr std::string_view to_string(Transport transport) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"UD", "RC", "UC"};
  return kNames[static_cast<std::size_t>(transport)];
}

/// What carries a port's packets. Ethernet: RoCE, which has no subnet manager, and addresses by
/// GID.
enum class LinkLayer : std::uint8_t { kInfiniBand, kEthernet };

/// What a port is, as the subnet manager set it up.
struct PortAttr {
  LinkLayer link_layer = LinkLayer::kInfiniBand;
  std::uint64_t guid = 0;
  std::uint64_t gid_prefix = wire::kDefaultGidPrefix;
  std::uint16_t lid = 0;
  std::uint8_t lmc = 0;
  std::uint16_t sm_lid = 0;
  std::uint8_t sm_sl = 0;
  std::uint8_t mtu = 4;   ///< Largest MTU the port carries, as code.
  std::uint8_t rate = 3;  ///< As code.
  PortState state = PortState::kActive;
  std::vector<std::uint16_t> pkeys{wire::kDefaultPkey};

  [[nodiscard]] wire::Gid gid() const { return wire::Gid::of(gid_prefix, guid); }
};

/// What a subnet manager sets of a port; what is not given stays.
struct PortChange {
  std::optional<std::uint16_t> lid{};
  std::optional<std::uint16_t> sm_lid{};  ///< 0: nowhere.
  std::optional<std::uint8_t> sm_sl{};
  std::optional<std::uint64_t> gid_prefix{};
  std::optional<std::vector<std::uint16_t>> pkeys{};
  std::optional<bool> up{};  ///< Administrative; the port is active when its cable is up too.
  bool reregister = false;   ///< All memberships and subscriptions are to be asked for again.
};

/// Where an address handle leads. Source: IBA vol 1 §11.2.2.1.
struct AhAttr {
  std::uint16_t dlid = 0;
  std::uint8_t sl = 0;
  std::uint8_t rate = 0;  ///< Path rate code; 0: as fast as the port.
  bool global = false;    ///< Send a GRH with the fields below.
  std::uint8_t tclass = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  wire::Gid dgid;

  friend bool operator==(const AhAttr&, const AhAttr&) = default;
};

/// Number of an address handle of one Hca, as sent packets name it.
using AhIndex = std::uint32_t;
inline constexpr AhIndex kNoAh = 0xffff'ffff;

/// LIDs that a port of Ethernet link layer has for its own node, which is all that knows of them:
/// its own, where the node administers the subnet for itself, and one for every other port; where
/// that is, the GID says.
inline constexpr std::uint16_t kOwnLid = 1;
inline constexpr std::uint16_t kElsewhereLid = 2;

/// Other end of a MAD on QP1.
struct MadAddress {
  std::uint16_t lid = 0;
  std::uint8_t sl = 0;
  std::uint32_t qpn = 1;
  std::uint16_t pkey = wire::kDefaultPkey;
  /// Of a request: how long its answer is waited for, ms; 0: none will come. Some transports take
  /// an answer for a request they still know, and no other.
  std::uint32_t answer_ms = 0;
  /// Of the port: sent with a GRH to it, or came with one from it. Zero: there is no GRH.
  wire::Gid gid{};
};

/// Whether both are on the same port. Those behind a router share its LID, and a link layer without
/// LIDs gives one to many ports: then GIDs tell. A packet without a GRH never left its subnet.
[[nodiscard]] constexpr bool same_port(const MadAddress& a, const MadAddress& b) noexcept {
  return a.lid == b.lid && (a.gid.is_zero() || b.gid.is_zero() || a.gid == b.gid);
}

using MadBytes = std::array<std::byte, wire::kMadLen>;

struct ReceivedMad {
  MadAddress from;
  MadBytes bytes;
  /// The transport is done with RMPP: this is all of an answer, `rest` what it has beyond 256
  /// octets, and `len` its octets in all. What `bytes` has beyond them is 0.
  bool whole = false;
  std::size_t len = wire::kMadLen;
  std::vector<std::byte> rest{};
};

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
