// SPDX-License-Identifier: BSD-3-Clause
// Stage eth_input: sorts the packets of an Ethernet port by type and checks IPv4.
#pragma once

#include <span>

#include "lib/base/contract.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Output of the input stages. Packets start at their IP header; IPv4 packets are checked.
struct InputBursts {
  Ip4Burst ip4;
  Burst ip4_groups;
  Burst ip6;
  Burst ip6_multicast;
};

/// Checks the Shape of the stages that fill InputBursts.
inline void expects_input_shape(std::span<rte_mbuf* const> pkts, const InputBursts& out) noexcept {
  expects(pkts.size() <= kMaxBurst, "the packets are a burst");
  expects(out.ip4.n + out.ip4_groups.n + out.ip6.n + out.ip6_multicast.n == 0,
          "the output is empty");
}

/// Takes frames that start at their Ethernet header. Punts ARP; counts rx_bytes.
///
/// Shape:  pkts.size() <= kMaxBurst, out is empty; order is kept within each output.
/// Errors: kEthRunt, kEthNotForUs, kEthUnknownType (also for VLAN tags), and those of Ip4Input.
void eth_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
               std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept;

}  // namespace ipoib::fwd
