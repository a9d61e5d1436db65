// IPv4 fragmentation. Source: RFC 791 §3.2.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/fwd/burst.h"

namespace ipoib::fwd {

/// Copies a checked packet, longer than `mtu`, into fragments of at most `mtu` octets, and of what
/// one mbuf holds, checksums set. Options without the copied flag go into the first one only. `m`
/// stays as it is, the caller's. False, and nothing in `out`: no mbufs, more than kMaxBurst
/// fragments, an MTU or mbufs that hold no header and 8 octets, or a fragment that reaches beyond
/// 65,535 octets.
bool ip4_fragment(rte_mbuf* m, std::uint16_t mtu, rte_mempool* pool, Burst& out) noexcept;

}  // namespace ipoib::fwd
