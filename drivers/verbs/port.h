// SPDX-License-Identifier: BSD-3-Clause
// What a port is, as libibverbs tells it: what devices of InfiniBand and of Ethernet link layer
// (RoCE, rdma_rxe) differ in is here and in make_ah_attr().
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "drivers/verbs/device.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"

namespace ipoib::verbs {

/// Where the port's own addresses stand in the device's tables.
struct PortTables {
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;  ///< Ethernet: the first GID of RoCE version 2 that is link-local.
  std::uint8_t rate = 3;       ///< Of the port, as code.
  bool ethernet = false;
  unsigned netdev = 0;  ///< Ethernet: index of the network device that carries the port.
};

struct PortView {
  fabric::PortAttr attr;
  PortTables tables;
  std::vector<std::uint16_t> pkeys;  ///< By index, with holes.
};

/// Asks the device. Of Ethernet link layer there are no LIDs: the port itself, and the subnet
/// administrator of this node, have fabric::kOwnLid. kUnavailable: the device is gone, or has no
/// address yet.
[[nodiscard]] Result<PortView> query_port(const Device& device, std::uint8_t port);

/// Place of the entry for a P_Key's partition, full membership first; none: not there.
[[nodiscard]] std::optional<std::uint16_t> find_pkey(std::span<const std::uint16_t> table,
                                                     std::uint16_t pkey);

/// As verbs have it.
[[nodiscard]] ibv_gid raw_of(const wire::Gid& gid);

/// How packets to `to` leave the port. kInvalidArgument: no packet can go there.
[[nodiscard]] Result<ibv_ah_attr> make_ah_attr(const PortTables& tables, const fabric::AhAttr& to);

}  // namespace ipoib::verbs
