// SPDX-License-Identifier: BSD-3-Clause
// Attributes of a port as libibverbs reports them. The differences between devices of InfiniBand
// and of Ethernet link layer (RoCE, rdma_rxe) are here and in make_ah_attr().
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "drivers/verbs/device.h"
#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"

namespace ipoib::verbs {

/// Positions of the port's own addresses in the device's tables.
struct PortTables {
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;  ///< Ethernet: the first GID of RoCE version 2 that is link-local.
  std::uint8_t rate = 3;       ///< Rate code of the port.
  std::uint8_t lmc = 0;        ///< Number of low bits of a LID that may differ; Ethernet: 0.
  bool ethernet = false;
  unsigned netdev = 0;  ///< Ethernet: index of the network device that carries the port.
};

struct PortView {
  fabric::PortAttr attr;
  PortTables tables;
  std::vector<std::uint16_t> pkeys;  ///< The P_Key table of the port, with holes.
};

/// Queries the device. Ethernet link layer has no LIDs: the port itself, and the subnet
/// administrator of this node, have fabric::kOwnLid. kUnavailable: the device is gone, or has no
/// address yet.
[[nodiscard]] Result<PortView> query_port(const Device& device, std::uint8_t port);

/// Returns the index of a P_Key's partition in `table`, full membership first; none if absent.
[[nodiscard]] std::optional<std::uint16_t> find_pkey(std::span<const std::uint16_t> table,
                                                     std::uint16_t pkey);

/// Converts a GID to its verbs type.
[[nodiscard]] ibv_gid raw_of(const wire::Gid& gid);

/// Returns the static rate that packets need on a path with this rate code, through a port with the
/// rate `port`; 0: none, because the port is no faster.
[[nodiscard]] std::uint8_t static_rate(std::uint8_t path, std::uint8_t port);

/// Returns the verbs attributes of packets to `to`. kInvalidArgument: no packet can go there.
[[nodiscard]] Result<ibv_ah_attr> make_ah_attr(const PortTables& tables, const fabric::AhAttr& to);

}  // namespace ipoib::verbs
