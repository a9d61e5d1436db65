// SPDX-License-Identifier: BSD-3-Clause
// What goes with an mbuf between a device and the datapath: an mbuf dynamic field.
// Received mbufs start at the IPoIB header (Ethernet ports: at the Ethernet header); the headers
// before it stay where they were, in the headroom.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>

#include "lib/base/result.h"
#include "lib/fabric/types.h"

namespace ipoib::fabric {

/// One field, three lives: `rx` until the packet is routed, `held` while it waits for its
/// neighbour, `tx` when it is sent.
struct PacketMeta {
  struct Rx {
    std::uint32_t src_qpn;
    std::uint16_t slid;
    std::uint16_t iface;  ///< Interface it came in by; set by the worker.
    std::uint8_t sl;
    std::uint8_t grh_offset;  ///< GRH lies this many octets before the data; 0: no GRH came.
    bool multicast;           ///< DLID was an MLID (or the DGID an MGID).
    Transport transport;      ///< kUd: by a UdQueue, else by a ReceiveQueue.
  };
  struct Held {
    std::uint16_t in_iface;  ///< Interface it came by; set by the worker that passes it up.
    std::uint16_t out_iface;
    bool to_routers;  ///< A copy of a multicast packet for the all-routers group; set likewise.
  };
  struct Tx {
    AhIndex ah;
    std::uint32_t qpn;
    // For packets handed to another lcore:
    std::uint16_t iface;  ///< Interface it leaves by.
    bool connected;  ///< By the ConnectedQueue of neighbour number `ah`, as that lcore knows it.
  };
  union {
    Rx rx;
    Held held;
    Tx tx;
  };
  /// QPN of the ConnectedQueue it came to; says something only beside rx.transport kRc or kUc.
  std::uint32_t queue;
};
static_assert(sizeof(PacketMeta) == 16);

/// Offset of the dynamic field; the one global that DPDK's dynamic fields force on us. Set once by
/// register_packet_meta() before any worker runs.
inline int packet_meta_offset = -1;

/// Registers the field. Call after rte_eal_init; repeating it is harmless.
[[nodiscard]] Status register_packet_meta();

[[nodiscard]] inline PacketMeta& meta_of(rte_mbuf* m) noexcept {
  return *RTE_MBUF_DYNFIELD(m, packet_meta_offset, PacketMeta*);
}

/// meta_of() for a loop, which reads the offset once.
class MetaOf {
 public:
  [[nodiscard]] PacketMeta& operator()(rte_mbuf* m) const noexcept {
    return *RTE_MBUF_DYNFIELD(m, offset_, PacketMeta*);
  }

 private:
  const int offset_ = packet_meta_offset;
};

}  // namespace ipoib::fabric
