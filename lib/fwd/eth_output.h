// Stage eth_output: the Ethernet header of a routed packet.
#pragma once

#include <rte_ether.h>
#include <rte_mbuf.h>

#include <cstring>

#include "lib/fwd/burst.h"
#include "lib/fwd/worker_config.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// False, and nothing changed: no headroom.
inline bool eth_output(rte_mbuf* m, const table::Neighbour& to, const InterfaceEntry& entry,
                       wire::EtherType ether_type) noexcept {
  if (!prepend(m, RTE_ETHER_HDR_LEN)) [[unlikely]]
    return false;
  auto* const frame = rte_pktmbuf_mtod(m, std::byte*);
  const wire::Be16 type{static_cast<std::uint16_t>(ether_type)};
  std::memcpy(frame, to.mac.data(), RTE_ETHER_ADDR_LEN);
  std::memcpy(frame + RTE_ETHER_ADDR_LEN, entry.mac.data(), RTE_ETHER_ADDR_LEN);
  std::memcpy(frame + 2 * RTE_ETHER_ADDR_LEN, &type, sizeof(type));
  return true;
}

}  // namespace ipoib::fwd
