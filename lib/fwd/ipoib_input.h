// SPDX-License-Identifier: BSD-3-Clause
// Stage ipoib_input: what an IPoIB link received, sorted by what it carries; IPv4 checked. Source:
// RFC 4391 §6.
#pragma once

#include <span>

#include "lib/fwd/eth_input.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPoIB header, PacketMeta::rx filled. ARP and RARP go up;
/// counts rx_bytes. The reserved half of the header is not looked at.
///
/// Shape:  as eth_input.
/// Errors: kIpoibRunt, kIpoibUnknownType, kIpoibOwnMulticast (RFC 4391 §10), and those of Ip4Input.
void ipoib_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
                 std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept;

}  // namespace ipoib::fwd
