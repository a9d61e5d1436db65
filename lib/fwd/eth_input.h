// Stage eth_input: what an Ethernet port received, sorted by what it carries; IPv4 checked.
#pragma once

#include <span>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// What the input stages hand on; packets start at their IP header, those of version 4 are checked.
struct InputBursts {
  Ip4Burst ip4;
  Burst ip4_groups;
  Burst ip6;
  Burst ip6_multicast;
};

/// Takes frames that start at their Ethernet header. ARP goes up; counts rx_bytes.
///
/// Shape:  pkts.size() <= kMaxBurst, out empty; order kept within each output.
/// Errors: kEthRunt, kEthNotForUs, kEthUnknownType (VLAN tags, too), and those of Ip4Input.
void eth_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
               std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept;

}  // namespace ipoib::fwd
