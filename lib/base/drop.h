// SPDX-License-Identifier: BSD-3-Clause
// All reasons for which a packet is dropped: every lost packet is counted under exactly one of
// these names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ipoib {

enum class Drop : std::uint8_t {
  // InfiniBand receive, in the order of the checks (software HCA).
  kIbRunt,     ///< Shorter than its headers.
  kIbVersion,  ///< LRH LVer, GRH IPVer/NxtHdr or BTH TVer.
  kIbLength,   ///< LRH.PktLen, GRH.PayLen or Pad contradict the octets received.
  kIbNotIba,   ///< LNH 0 or 1, or a frame that is not EtherType 0x88B5.
  kIbLid,      ///< DLID is not ours and not an attached MLID.
  kIbGid,      ///< The GRH names a GID that is not ours, or a required GRH is missing.
  kIbMgid,     ///< MLID known, MGID not attached.
  kIbOpcode,   ///< BTH opcode not of the queue pair's transport.
  kIbQpn,      ///< No such queue pair.
  kIbPkey,
  kIbQkey,
  kIbIcrc,
  kIbNoBuffer,     ///< Receive buffer, mempool or staging queue exhausted.
  kIbMadOverflow,  ///< Management lcore did not keep up with MADs.
  kIbMadShare,     ///< Its sender, or its kind of MAD, has more than its share of that queue.
  kIbTxFull,       ///< The wire did not take the packet.
  kIbTxTooLong,    ///< Larger than the port's MTU, or more mbufs than its device sends.
  kIbTxInvalid,    ///< Unknown address handle or queue.
  kIbRateLimited,  ///< Exceeds the rate of the path.
  kIbPortDown,     ///< Received or sent while the port was not active.
  // Connected queue pairs. Received packets, except for the last two.
  kIbPath,            ///< Source LID or GID is not the connection's peer.
  kIbQueueState,      ///< The connection is not ready yet, or has failed.
  kIbDuplicate,       ///< RC: duplicate PSN.
  kIbSequence,        ///< Behind a missing packet; UC: part of a message that lost a packet.
  kIbMessage,         ///< Opcode or length is invalid at this place of a message.
  kIbMessageTooLong,  ///< Message longer than a receive buffer.
  kIbRnr,             ///< RC: no receive buffer; a RNR NAK asks the peer to wait and retransmit.
  kIbUnfinished,      ///< Part of a message that took too long; its buffers go to other messages.
  kIbAck,             ///< ACK for an unsent PSN, or unknown AETH code.
  kIbTxFlushed,       ///< Sent through a connection that was not ready, or failed before the ACK.
  kIbTxBudget,        ///< Sent while messages without an ACK hold all the mbufs of their budget.
  // Encapsulation.
  kIpoibRunt,
  kIpoibUnknownType,
  kIpoibOwnMulticast,  ///< Our own packet, reflected by the fabric.
  kEthRunt,
  kEthUnknownType,
  kEthNotForUs,
  kEthTxFull,
  // IP; reasons without a version in their name apply to both versions.
  kIpRunt,
  kIpVersion,
  kIpHeaderLength,
  kIpTotalLength,
  kIpChecksum,
  kIpSourceCheck,    ///< The routes say that the source is elsewhere (source-check).
  kIpFilter,         ///< A filter rule, or a fragment that hides its ports from the rules.
  kIpMartianSource,  ///< Source is multicast, broadcast, loopback, zero or an address of this node.
  kIpMartianDestination,  ///< Destination must not be forwarded (loopback, class E, link-local …).
  kIpMulticast,           ///< Multicast without a route.
  kIpMulticastRpf,        ///< Multicast that did not arrive on the interface towards its source.
  kIpBroadcast,           ///< Directed or limited broadcast, not forwarded.
  kIpBroadcastLimit,      ///< Directed broadcasts beyond the limit of a worker.
  kIpBroadcastRpf,        ///< To all subnets, and not from the interface towards its source.
  kIpSourceRoute,         ///< IPv4 source route, which this router does not follow.
  kIpOption,              ///< An IPv4 option that routers drop.
  kIpNoRoute,
  kIpBlackhole,
  kIpProhibited,   ///< A route says so; the sender gets an ICMP error.
  kIpTtlExceeded,  ///< TTL or hop limit.
  kIpTooBig,       ///< Larger than the next hop's MTU and must not be fragmented.
  kIpFragmentFailed,
  kIpFragmentInvalid,  ///< To this node: overlaps another fragment, or its place or length is wrong.
  kIpFragmentTimeout,  ///< To this node: the rest of its packet did not arrive in time.
  kIpFragmentLimit,  ///< To this node: its sender, or all of them, have too many unfinished packets.
  kIp6PayloadLength,  ///< Payload length beyond the packet, or none (jumbogram).
  kIp6Extension,      ///< An IPv6 extension header that routers drop.
  kIp6Scope,          ///< Link-local source or destination, which must not leave its link.
  kIp6LinkMtu,        ///< The egress link carries less than the 1280 octets of IPv6.
  kIp6Unsupported,    ///< IPv6 does not run on the egress interface.
  kNdInvalid,         ///< Neighbour discovery that is not from this link, or is too short.
  kLocalUnsupported,  ///< Addressed to this node, and no protocol here handles it.
  kLocalFromSelf,     ///< Sent by this node to itself, which is not supported.
  // The mirror of an interface in Linux.
  kLinuxDown,      ///< For Linux, and its interface is disabled or gone.
  kLinuxNoMemory,  ///< For Linux, which has no memory.
  kLinuxRefused,   ///< Sent by Linux: ARP, ND, IGMP, MLD, or no valid IP packet.
  kLinuxCopy,      ///< Sent by Linux: a copy of a packet to a group, which workers forward.
  // Neighbours.
  kNeighbourPending,  ///< Unresolved; too many packets wait, or addresses are asked for.
  kNeighbourFailed,   ///< Resolution failed recently (negative cache).
  kNeighbourHeldTooLong,
  kNeighbourTableFull,
  kNeighbourGone,  ///< Entry removed while the packet was in flight.
  kGroupAbsent,    ///< The link has no such multicast group (negative cache).
  // Inside the node.
  kForwardingStopped,
  kNoForwardPeer,  ///< io mode, and the interface has no peer.
  kLinkDown,
  kInterfaceDown,    ///< Received on an interface that was taken down (`link down`).
  kPuntRingFull,     ///< Ring to the management lcore full.
  kPuntRateLimited,  ///< Limit of a kind of punts, or of echo replies to groups.
  kArpForOthers,     ///< ARP among other hosts, of which this node has no use.
  kHandoffRingFull,  ///< Ring to another worker full.
  kNoMbuf,
  kTxSegments,  ///< More mbufs than the egress device sends, even after a copy.
  kNone,        ///< No drop. The number of reasons, too.
};

inline constexpr std::size_t kDropCount = static_cast<std::size_t>(Drop::kNone);

inline constexpr std::array<std::string_view, kDropCount> kDropNames = {"ib_runt",
                                                                        "ib_version",
                                                                        "ib_length",
                                                                        "ib_not_iba",
                                                                        "ib_lid",
                                                                        "ib_gid",
                                                                        "ib_mgid",
                                                                        "ib_opcode",
                                                                        "ib_qpn",
                                                                        "ib_pkey",
                                                                        "ib_qkey",
                                                                        "ib_icrc",
                                                                        "ib_no_buffer",
                                                                        "ib_mad_overflow",
                                                                        "ib_mad_share",
                                                                        "ib_tx_full",
                                                                        "ib_tx_too_long",
                                                                        "ib_tx_invalid",
                                                                        "ib_rate_limited",
                                                                        "ib_port_down",
                                                                        "ib_path",
                                                                        "ib_queue_state",
                                                                        "ib_duplicate",
                                                                        "ib_sequence",
                                                                        "ib_message",
                                                                        "ib_message_too_long",
                                                                        "ib_rnr",
                                                                        "ib_unfinished",
                                                                        "ib_ack",
                                                                        "ib_tx_flushed",
                                                                        "ib_tx_budget",
                                                                        "ipoib_runt",
                                                                        "ipoib_unknown_type",
                                                                        "ipoib_own_multicast",
                                                                        "eth_runt",
                                                                        "eth_unknown_type",
                                                                        "eth_not_for_us",
                                                                        "eth_tx_full",
                                                                        "ip_runt",
                                                                        "ip_version",
                                                                        "ip_header_length",
                                                                        "ip_total_length",
                                                                        "ip_checksum",
                                                                        "ip_source_check",
                                                                        "ip_filter",
                                                                        "ip_martian_source",
                                                                        "ip_martian_destination",
                                                                        "ip_multicast",
                                                                        "ip_multicast_rpf",
                                                                        "ip_broadcast",
                                                                        "ip_broadcast_limit",
                                                                        "ip_broadcast_rpf",
                                                                        "ip_source_route",
                                                                        "ip_option",
                                                                        "ip_no_route",
                                                                        "ip_blackhole",
                                                                        "ip_prohibited",
                                                                        "ip_ttl_exceeded",
                                                                        "ip_too_big",
                                                                        "ip_fragment_failed",
                                                                        "ip_fragment_invalid",
                                                                        "ip_fragment_timeout",
                                                                        "ip_fragment_limit",
                                                                        "ip6_payload_length",
                                                                        "ip6_extension",
                                                                        "ip6_scope",
                                                                        "ip6_link_mtu",
                                                                        "ip6_unsupported",
                                                                        "nd_invalid",
                                                                        "local_unsupported",
                                                                        "local_from_self",
                                                                        "linux_down",
                                                                        "linux_no_memory",
                                                                        "linux_refused",
                                                                        "linux_copy",
                                                                        "neighbour_pending",
                                                                        "neighbour_failed",
                                                                        "neighbour_held_too_long",
                                                                        "neighbour_table_full",
                                                                        "neighbour_gone",
                                                                        "group_absent",
                                                                        "forwarding_stopped",
                                                                        "no_forward_peer",
                                                                        "link_down",
                                                                        "interface_down",
                                                                        "punt_ring_full",
                                                                        "punt_rate_limited",
                                                                        "arp_for_others",
                                                                        "handoff_ring_full",
                                                                        "no_mbuf",
                                                                        "tx_segments"};
static_assert(!kDropNames.back().empty());

[[nodiscard]] constexpr std::string_view drop_name(Drop reason) {
  return kDropNames[static_cast<std::size_t>(reason)];
}

}  // namespace ipoib
