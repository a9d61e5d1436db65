// SPDX-License-Identifier: BSD-3-Clause
// Stage ipoib_input: sorts the packets of an IPoIB link by type and checks IPv4. Source: RFC 4391
// §6; draft-pelissier-ipoib-encaparp-00 §3.
#pragma once

#include <span>

#include "lib/fwd/eth_input.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPoIB header, with PacketMeta::rx filled. Punts ARP and RARP;
/// counts rx_bytes. The reserved half of the header is not checked. The order
/// of its halves is chosen per burst.
///
/// Shape:  like eth_input.
/// Errors: kIpoibRunt, kIpoibUnknownType, kIpoibOwnMulticast (RFC 4391 §10), and those of Ip4Input.
void ipoib_input(Context& c, const Ingress& in, const InterfaceEntry& entry,
                 std::span<rte_mbuf* const> pkts, InputBursts& out) noexcept;

}  // namespace ipoib::fwd
