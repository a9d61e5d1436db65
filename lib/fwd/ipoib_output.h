// SPDX-License-Identifier: BSD-3-Clause
// Stage ipoib_output: prepends the encapsulation header of a routed packet and sets its destination
// for the device. Source: RFC 4391 §6; draft-pelissier-ipoib-encaparp-00 §3.
#pragma once

#include <rte_mbuf.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/flow_hash.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ipoib.h"

namespace ipoib::fwd {

/// An encapsulation header, in memory order.
using IpoibHeader = std::uint32_t;
static_assert(sizeof(IpoibHeader) == sizeof(wire::IpoibHdr));

[[nodiscard]] inline IpoibHeader ipoib_header(wire::Encapsulation order,
                                              wire::EtherType type) noexcept {
  return std::bit_cast<IpoibHeader>(wire::encapsulation_header(order, type));
}

/// Returns false, without a change, if there is no headroom.
inline bool ipoib_output(rte_mbuf* m, const table::Neighbour& to, IpoibHeader header) noexcept {
  if (!prepend(m, sizeof(header))) [[unlikely]]
    return false;
  std::memcpy(rte_pktmbuf_mtod(m, std::byte*), &header, sizeof(header));
  fabric::PacketMeta& meta = fabric::meta_of(m);
  meta.tx.ah = to.ah;
  meta.tx.qpn = to.qpn;
  return true;
}

/// Chooses the path of a packet of ipoib_output() by its flow. Shape: to.mode is kUdPaths.
inline void choose_path(rte_mbuf* m, const table::Neighbour& to, wire::EtherType type,
                        std::uint64_t flow_seed) noexcept {
  expects(to.mode == table::NeighbourMode::kUdPaths, "the neighbour has several paths");
  constexpr std::size_t kAt = sizeof(IpoibHeader);
  const std::uint32_t hash = type == wire::EtherType::kIpv6 ? flow_hash6(m, flow_seed, kAt)
                                                            : flow_hash4(m, flow_seed, kAt);
  fabric::meta_of(m).tx.ah = to.handle_of(hash);
}

}  // namespace ipoib::fwd
