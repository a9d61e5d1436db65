// SPDX-License-Identifier: BSD-3-Clause
// Floods on connections that the node has accepted.
#pragma once

#include "tests/flood/flood_node.h"
#include "tests/flood/flood_rows.h"
#include "tests/flood/sim_hosts.h"

namespace ipoib::flood {

/// SENDs without an end on 4,096 connections with a path MTU of 256.
Flood half_messages(FloodNode& node, SimHosts& hosts);
/// Packets to 256 hosts that answer each packet of their connections by an RNR NAK.
Flood never_ready(FloodNode& node, SimHosts& hosts);

}  // namespace ipoib::flood
