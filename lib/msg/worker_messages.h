// SPDX-License-Identifier: BSD-3-Clause
// Messages on the rings between workers and the management lcore: plain structs by value, one
// single-producer single-consumer ring per direction and worker. A full ring never blocks. If the
// up ring is full, the worker drops the packet under punt_ring_full; if the down ring is full, the
// management lcore keeps the message in its own queue and tries again.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/table/delivery.h"
#include "lib/table/neighbour.h"

struct rte_mbuf;

namespace ipoib::msg {

/// Worker -> management. The mbuf, if there is one, changes owner with the message.
struct Up {
  enum class Kind : std::uint8_t {
    kNeighbourWanted,  ///< addr (unicast or group) on iface must be resolved. mbuf starts at the IP
                       ///< header and waits; its TTL is already decremented. PacketMeta::held is
                       ///< filled except out_iface; its `onward` says which message sends it then:
                       ///< Down::kSendRouted, kSendOnInterface or kSendToRouters.
    kArp,              ///< mbuf starts at the ARP or RARP header (distinguished by opcode);
                       ///< PacketMeta::rx is filled; iface is the ingress.
    kLocal,            ///< mbuf starts at the IP header of either version, checked and trimmed to
                       ///< its total length. It is for this node, or for a group that this node
                       ///< listens to. PacketMeta::rx is filled.
    kMembership,       ///< Like kLocal: IGMP to a group, or MLD behind hop-by-hop options.
    kNd,               ///< mbuf starts at an IPv6 header and is one segment: ICMPv6 type 133 to
                       ///< 137, hop limit 255, at least the minimum length of its type. The ICMPv6
                       ///< checksum is not checked. PacketMeta::rx is filled; iface is the ingress.
    kIcmpError,        ///< mbuf starts at the IP header of the packet that could not be forwarded.
                       ///< icmp_type, icmp_code and mtu are for the error to its sender, in ICMP or
                       ///< ICMPv6 by the packet's version. The drop is already counted: the
                       ///< receiver frees the mbuf without counting it again.
    kMulticastUnknown,  ///< Packets from source to addr, a group, arrived on iface, which has
                        ///< multicast routing enabled, and no delivery names both. No mbuf; the
                        ///< worker handles and counts the packets itself.
    kRedirectWanted,    ///< A packet leaves through iface, the link on which it arrived, to addr, a
                        ///< neighbour there. Its sender is on that link and may get a redirect.
                        ///< mbuf is a copy of up to 1280 octets from the IP header on.
    kMulticastHeard,  ///< A packet from source to addr, a group, arrived on iface, and from is the
                      ///< interface that leads to its source. They are the same, and this node
                      ///< stands by there, or another router has forwarded the packet to a link
                      ///< to which this node forwards it or stands by. No mbuf; as above.
    kBroadcast,       ///< For the mirror of iface: mbuf starts at the header of an IPv4 packet to
                      ///< 255.255.255.255 or to all hosts of a network of iface.
    kLinkFrame,       ///< For the mirror of iface, a port: mbuf starts at the Ethernet header of an
                      ///< LLDP frame.
    kForLinux,  ///< A packet to a group, for the multicast router of Linux: mbuf starts at the
                ///< IP header of either version, checked and trimmed to its total length.
                ///< iface is the ingress.
  };
  Kind kind;
  std::uint8_t icmp_type;
  std::uint8_t icmp_code;
  union {
    bool lower;   ///< kMulticastHeard: the sender's link-layer address is lower than this node's.
    bool sample;  ///< kForLinux: Linux only learns of the packet, and must not forward it.
  };
  table::InterfaceId iface;  ///< kNeighbourWanted: egress; others: ingress (kNoInterface:
                             ///< management sent the packet).
  union {
    std::uint16_t mtu;        ///< kIcmpError, too big: MTU of the next hop.
    table::InterfaceId from;  ///< kMulticastHeard.
  };
  rte_mbuf* mbuf;
  wire::IpAddr addr;    ///< kNeighbourWanted, kMulticastUnknown, kMulticastHeard, kRedirectWanted.
  wire::IpAddr source;  ///< kMulticastUnknown, kMulticastHeard.
};
static_assert(std::is_trivially_copyable_v<Up> && sizeof(Up) == 48);

namespace trace {
class Session;
}

/// Management -> worker; applied between bursts.
struct Down {
  enum class Kind : std::uint8_t {
    kNeighbourSet,     ///< Install `neighbour` at `index`, replacing the entry there.
    kNeighbourRemove,  ///< Free `index`.
    kSendRouted,       ///< mbuf starts at an IP header: look up the route and send. The TTL stays.
    kDeliverySet,      ///< Install `delivery`, replacing the one with the same addr, source and in.
    kDeliveryRemove,   ///< Remove the delivery with delivery's addr, source and in.
    kSendOnInterface,  ///< mbuf starts at an IP header: send it on `iface` to its destination, a
                       ///< unicast or group neighbour there. No route lookup; the TTL stays.
    kSendToRouters,    ///< Like kSendOnInterface, but to the all-routers group of the packet's
                       ///< version.
    kSendRaw,          ///< mbuf starts at the IPoIB header with PacketMeta::tx set, or at the
                       ///< Ethernet header: send it unchanged on `iface`, whether up or not.
    kTrace,  ///< Record packets in `trace` (lib/msg/trace_records.h) from now on; null: in none.
  };
  Down() noexcept : neighbour{} {}

  Kind kind = Kind::kNeighbourSet;
  table::InterfaceId iface = 0;  ///< kSendOnInterface, kSendToRouters, kSendRaw: egress.
  /// kSendRouted, kSendOnInterface, kSendToRouters: ingress of the packet. Its drops count there,
  /// and its sender gets ICMP errors. kNoInterface: this node made the packet.
  table::InterfaceId in = table::kNoInterface;
  table::NeighbourIndex index = 0;
  rte_mbuf* mbuf = nullptr;
  union alignas(64) {
    table::Neighbour neighbour;
    table::Delivery delivery;
    trace::Session* trace;
  };
};
static_assert(std::is_trivially_copyable_v<Down> && sizeof(Down) == 128);

}  // namespace ipoib::msg
