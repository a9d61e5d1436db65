// SPDX-License-Identifier: BSD-3-Clause
// The stages behind the input write headers into the first mbuf of a packet and change the lengths
// and links of all its mbufs. An Ethernet port may deliver mbufs that another owner reads too, for
// example copies of one packet from a bonding or ring device: such a packet is copied first.
// Receive queues of HCAs deliver mbufs of their own.
#pragma once

#include <rte_mbuf.h>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Returns the packet, or a copy in its place if another owner has the data of the first mbuf, or
/// any mbuf itself. Later mbufs may share their data, which no stage writes. Shape: the packet is
/// not empty.
///
/// Errors: null, and the packet is dropped with kNoMbuf.
[[nodiscard]] rte_mbuf* unshare(Context& c, rte_mbuf* m, DropBin& bin) noexcept;

}  // namespace ipoib::fwd
