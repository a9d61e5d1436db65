// SPDX-License-Identifier: BSD-3-Clause
// Floods of ARP, neighbour discovery, IP packets and IGMP.
#pragma once

#include "tests/flood/flood_rows.h"

namespace ipoib::flood {

/// ARP requests for the node's address, on Ethernet, of senders with any MAC and IPv4 address.
Flood arp_of_strangers(FloodNode& node, SimHosts& hosts);
/// Such requests with any IPv4 address and one MAC address.
Flood arp_of_one(FloodNode& node, SimHosts& hosts);
/// ARP requests for the node's address, on the cable, of forty ports that repeat what neighbours
/// would say: with their IPv4 and link-layer addresses.
Flood arp_in_names(FloodNode& node, SimHosts& hosts);
/// Neighbour solicitations for the node's address, on Ethernet, of any link-local address.
Flood solicitations_of_strangers(FloodNode& node, SimHosts& hosts);
/// Packets of `senders` Ethernet hosts to absent addresses on each of the links, IPv4 and IPv6 by
/// turns. `macs`: number of MAC addresses that they are sent from.
Flood scan(FloodNode& node, SimHosts& hosts, unsigned links, unsigned senders, unsigned macs = 1);
Flood ping_of_one(FloodNode& node, SimHosts& hosts);
Flood ping_of_many(FloodNode& node, SimHosts& hosts);
Flood udp_of_one(FloodNode& node, SimHosts& hosts);
Flood udp_of_many(FloodNode& node, SimHosts& hosts);
Flood ttl_of_many(FloodNode& node, SimHosts& hosts);
Flood igmp_of_one(FloodNode& node, SimHosts& hosts);

}  // namespace ipoib::flood
