// SPDX-License-Identifier: BSD-3-Clause
// What travels over the rings between workers and the management lcore: plain structs by value,
// one single-producer single-consumer ring per direction and worker. A full ring never blocks: up,
// the worker drops the packet under punt_ring_full; down, the management lcore keeps the message
// in a queue of its own and tries again.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/table/delivery.h"
#include "lib/table/neighbour.h"

struct rte_mbuf;

namespace ipoib::msg {

/// Worker -> management. An mbuf, where there is one, changes owner with the message.
struct Up {
  enum class Kind : std::uint8_t {
    kNeighbourWanted,  ///< addr (unicast or group) on iface must be resolved; mbuf starts at the IP
                       ///< header and waits, its TTL already taken down: send it on with
                       ///< Down::kSendRouted, or kSendOn where its destination is a group or
                       ///< link-local. PacketMeta::held is filled but
                       ///< for out_iface; where its to_routers is set, kSendToRouters.
    kArp,              ///< mbuf starts at the ARP or RARP header (the opcode tells);
                       ///< PacketMeta::rx filled; iface it came by.
    kLocal,            ///< mbuf starts at the IP header of either version, checked and cut to its
                       ///< total length; for this node, or for a group it listens to.
                       ///< PacketMeta::rx filled.
    kMembership,       ///< As kLocal: IGMP to a group, or MLD behind hop-by-hop options.
    kNd,               ///< mbuf starts at an IPv6 header and is one segment: ICMPv6 type 133 to
                       ///< 137, hop limit 255, no shorter than its type; ICMPv6 checksum not
                       ///< checked. PacketMeta::rx filled; iface it came by.
    kIcmpError,        ///< mbuf starts at the IP header of the packet that could not be forwarded;
                       ///< icmp_type, icmp_code, mtu say what to tell its sender, in ICMP or
                       ///< ICMPv6 as the packet's version is. Its loss is already counted: whoever
                       ///< frees it counts nothing more.
    kMulticastUnknown,  ///< Packets from source to addr, a group, came by iface, a multicast
                        ///< router's, and no delivery names them both. No mbuf; what became of
                        ///< the packets is counted.
    kRedirectWanted,    ///< A packet goes back by iface, the link it came by, to addr, a
                        ///< neighbour there, and its sender is on that link: who may be told.
                        ///< mbuf is a copy, up to 1280 octets from the IP header on.
  };
  Kind kind;
  std::uint8_t icmp_type;
  std::uint8_t icmp_code;
  std::uint8_t reserved;
  table::InterfaceId iface;  ///< kNeighbourWanted: outgoing; others: incoming (kNoInterface: it
                             ///< was management that sent it).
  std::uint16_t mtu;         ///< kIcmpError, too big: MTU of the next hop.
  rte_mbuf* mbuf;
  wire::IpAddr addr;    ///< kNeighbourWanted, kMulticastUnknown, kRedirectWanted.
  wire::IpAddr source;  ///< kMulticastUnknown.
};
static_assert(std::is_trivially_copyable_v<Up> && sizeof(Up) == 48);

/// Management -> worker; applied between bursts.
struct Down {
  enum class Kind : std::uint8_t {
    kNeighbourSet,     ///< Install `neighbour` at `index`, replacing what was there.
    kNeighbourRemove,  ///< Free `index`.
    kSendRouted,       ///< mbuf starts at an IP header: look the route up and send. TTL stays.
    kDeliverySet,      ///< Install `delivery`, replacing the one of its addr, source and in.
    kDeliveryRemove,   ///< Forget the one of delivery's addr, source and in.
    kSendOn,           ///< mbuf starts at an IP header: send it on `iface` to its destination,
                       ///< unicast or group, a neighbour there. No route is looked up, TTL stays.
    kSendToRouters,    ///< As kSendOn, but to the all-routers group of the packet's version.
    kSendRaw,          ///< mbuf starts at the IPoIB header with PacketMeta::tx set, or at the
                       ///< Ethernet header: send on `iface` as it is, up or not.
  };
  Down() noexcept : neighbour{} {}

  Kind kind = Kind::kNeighbourSet;
  table::InterfaceId iface = 0;  ///< kSendOn, kSendToRouters, kSendRaw: it leaves by.
  /// kSendRouted, kSendOn, kSendToRouters: the packet came by it, so its loss counts there and its
  /// sender is told of errors; kNoInterface: it is this node's own.
  table::InterfaceId in = table::kNoInterface;
  table::NeighbourIndex index = 0;
  rte_mbuf* mbuf = nullptr;
  union alignas(64) {
    table::Neighbour neighbour;
    table::Delivery delivery;
  };
};
static_assert(std::is_trivially_copyable_v<Down> && sizeof(Down) == 128);

}  // namespace ipoib::msg
