// Stage eth_input: what an Ethernet port received, sorted by what it carries.
#pragma once

#include <span>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// What the input stages hand on; packets start at their IP header, `ip` being version 4.
struct InputBursts {
  Burst ip;
  /// Came by link-layer broadcast or multicast: unless to a group, such packets are never
  /// forwarded, nor taken as unicast for this node. Source: RFC 1812 §5.3.4, RFC 1122 §3.3.6.
  Burst ip_broadcast;
  Burst ip6;
  Burst ip6_multicast;
};

/// Takes frames that start at their Ethernet header. ARP goes up; counts rx_bytes.
///
/// Shape:  pkts.size() <= kMaxBurst, out empty; order kept within each output.
/// Errors: kEthRunt, kEthNotForUs, kEthUnknownType (VLAN tags, too).
void eth_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
               std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept;

}  // namespace ipoib::fwd
