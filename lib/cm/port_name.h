// SPDX-License-Identifier: BSD-3-Clause
// Names of ports: the own one, and those of peers, by which their shares are counted.
#pragma once

#include <compare>
#include <cstdint>

#include "lib/fabric/fabric_types.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/gid.h"

namespace ipoib::cm {

/// Addresses of the port. REQs that name another port are refused.
struct PortIdentity {
  wire::Gid gid;          ///< REQs may also name it with the default prefix (fe80::/64).
  std::uint16_t lid = 0;  ///< 0: not known, not checked.
  std::uint8_t lmc = 0;
  bool by_gid = false;  ///< The link layer has no LIDs: the GIDs of ports distinguish them.

  [[nodiscard]] static PortIdentity of(const fabric::PortAttr& port) {
    return {.gid = port.gid(),
            .lid = port.lid,
            .lmc = port.lmc,
            .by_gid = port.link_layer == fabric::LinkLayer::kEthernet};
  }
  friend bool operator==(const PortIdentity&, const PortIdentity&) = default;
};

/// The name of a port that it cannot choose: its LID without the bits of the LMC. Ports behind
/// routers have the routers' LIDs, and a link layer without LIDs gives one LID to all ports. Their
/// names are their GIDs.
struct PortName {
  std::uint16_t lid = 0;
  wire::Gid gid{};

  /// A host of this subnet can put any GID of the subnet into the GRH of a MAD, but no other LID
  /// into its LRH.
  [[nodiscard]] static PortName of(const fabric::MadAddress& port, const PortIdentity& own) {
    const std::uint64_t prefix = port.gid.prefix();
    const bool local = prefix == own.gid.prefix() || prefix == wire::kDefaultGidPrefix;
    if (!port.gid.is_zero() && (own.by_gid || !local)) return {.lid = 0, .gid = port.gid};
    return {.lid = static_cast<std::uint16_t>(port.lid >> own.lmc), .gid = {}};
  }
  friend auto operator<=>(const PortName&, const PortName&) = default;
};

}  // namespace ipoib::cm
