// SPDX-License-Identifier: BSD-3-Clause
// Stage eth_output: prepends the Ethernet header of a routed packet.
#pragma once

#include <rte_ether.h>
#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>

#include "lib/fwd/burst.h"
#include "lib/fwd/mac_number.h"
#include "lib/fwd/worker_config.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Source and type of an Ethernet header, in memory order.
using EthTail = std::uint64_t;
static_assert(sizeof(EthTail) == RTE_ETHER_HDR_LEN - RTE_ETHER_ADDR_LEN);

[[nodiscard]] inline EthTail eth_tail(const InterfaceEntry& from, wire::EtherType type) noexcept {
  return mac_of(from.mac) | std::uint64_t{__builtin_bswap16(static_cast<std::uint16_t>(type))}
                                << 48;
}

/// Returns false, without a change, if there is no headroom.
inline bool eth_output(rte_mbuf* m, const table::Neighbour& to, EthTail tail) noexcept {
  if (!prepend(m, RTE_ETHER_HDR_LEN)) [[unlikely]]
    return false;
  auto* const frame = rte_pktmbuf_mtod(m, std::byte*);
  std::memcpy(frame, to.mac.data(), RTE_ETHER_ADDR_LEN);
  std::memcpy(frame + RTE_ETHER_ADDR_LEN, &tail, sizeof(tail));
  return true;
}

}  // namespace ipoib::fwd
