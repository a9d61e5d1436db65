// SPDX-License-Identifier: BSD-3-Clause
// Stage ipoib_output: prepends the encapsulation header of a routed packet and sets its destination
// for the device. Source: RFC 4391 §6.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>

#include "lib/fabric/packet_meta.h"
#include "lib/fwd/burst.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ipoib.h"

namespace ipoib::fwd {

/// Returns false, without a change, if there is no headroom.
inline bool ipoib_output(rte_mbuf* m, const table::Neighbour& to, wire::EtherType type) noexcept {
  if (!prepend(m, sizeof(wire::IpoibHdr))) [[unlikely]]
    return false;
  // Type and two reserved octets.
  const wire::Be32 hdr{std::uint32_t{static_cast<std::uint16_t>(type)} << 16};
  static_assert(sizeof(hdr) == sizeof(wire::IpoibHdr));
  std::memcpy(rte_pktmbuf_mtod(m, std::byte*), &hdr, sizeof(hdr));
  fabric::PacketMeta& meta = fabric::meta_of(m);
  meta.tx.ah = to.ah;
  meta.tx.qpn = to.qpn;
  return true;
}

}  // namespace ipoib::fwd
