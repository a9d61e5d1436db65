// SPDX-License-Identifier: BSD-3-Clause
// Metadata of an mbuf between a device and the data plane, in an mbuf dynamic field.
// Received mbufs start at the IPoIB header (Ethernet ports: at the Ethernet header); the headers
// before it remain in the headroom.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>

#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"

namespace ipoib::fabric {

/// The way of a packet that has waited for its neighbour: by the routes; or, as a copy for one
/// interface, to its destination there or to the all-routers group there, regardless of the routes.
enum class Onward : std::uint8_t { kByRoute, kOnInterface, kToRouters };

/// The field has three uses: `rx` until the packet is routed, `held` while it waits for its
/// neighbour, `tx` when it is sent.
struct PacketMeta {
  struct Rx {
    std::uint32_t src_qpn;
    std::uint16_t slid;
    std::uint16_t iface;  ///< Ingress interface; set by the worker.
    std::uint8_t sl;
    std::uint8_t grh_offset;  ///< Octets from the GRH to the data; 0: the packet had no GRH.
    bool multicast;           ///< DLID was an MLID (or the DGID an MGID).
    Transport transport;      ///< kUd: received by a UdQueue, else by a ReceiveQueue.
  };
  struct Held {
    std::uint16_t in_iface;   ///< Ingress interface; set by the worker that punts the packet.
    std::uint16_t out_iface;  ///< Egress interface; set by the management lcore.
    Onward onward;            ///< Set by the worker.
    bool few;                 ///< Few packets of its sender were held; set by the management lcore.
    bool neighbour;  ///< Its sender is a neighbour that this node needs; set by the worker.
    std::uint32_t link_sender;  ///< Digest of its sender's link-layer address; set by the worker.
  };
  struct Tx {
    AhIndex ah;
    std::uint32_t qpn;
    // Only for packets that are handed off to another lcore:
    std::uint16_t iface;  ///< Egress interface.
    bool connected;  ///< Send on the ConnectedQueue of neighbour number `ah` in that lcore's table.
  };
  union {
    Rx rx;
    Held held;
    Tx tx;
  };
  /// QPN of the ConnectedQueue that received the packet; valid only if rx.transport is kRc or kUc.
  std::uint32_t queue;
};
static_assert(sizeof(PacketMeta) == 16);

/// Offset of the dynamic field; a global because of the API of DPDK's dynamic fields.
/// register_packet_meta() sets it once, before any worker runs.
inline int packet_meta_offset = -1;

/// Registers the field. Call it after rte_eal_init; a second call is harmless.
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
