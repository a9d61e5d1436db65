// SPDX-License-Identifier: BSD-3-Clause
// State, counters and rows of an interface, for display: plain values. Their users need none of the
// state machines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cm/cm_info.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fabric/queue_info.h"
#include "lib/table/neighbour.h"
#include "lib/wire/gid.h"
#include "lib/wire/ibarp.h"
#include "lib/wire/ip.h"
#include "lib/wire/nd.h"

namespace ipoib::link {

enum class State : std::uint8_t { kDown, kWaiting, kJoining, kUp, kStopping, kStopped };
[[nodiscard]] std::string_view to_string(State state);

enum class NeighbourPhase : std::uint8_t {
  kIncomplete,  ///< ARP or ND request sent, or idle.
  kPath,        ///< Address known, PathRecord query sent.
  kReachable,
  kStale,   ///< Confirmation due; packets flow.
  kProbe,   ///< Unicast probe sent; packets still flow.
  kFailed,  ///< Negative cache.
  kStatic,
};
[[nodiscard]] std::string_view to_string(NeighbourPhase phase);
/// Number of neighbours in each phase.
using NeighbourPhases = std::array<std::size_t, 7>;
static_assert(NeighbourPhases{}.size() == static_cast<std::size_t>(NeighbourPhase::kStatic) + 1);

/// One row of `show neigh`.
struct NeighbourInfo {
  wire::IpAddr addr;
  std::string iface;
  std::string lladdr;  ///< Empty while unknown.
  NeighbourPhase phase = NeighbourPhase::kIncomplete;
  table::NeighbourIndex index = table::kNoNeighbour;
  std::uint32_t qpn = 0;                 ///< IPoIB.
  std::uint16_t lid = 0;                 ///< IPoIB: destination of the first path.
  std::vector<fabric::LidPair> paths{};  ///< IPoIB: datagrams of a flow keep to one.
  std::uint8_t sl = 0;
  std::uint8_t rate = 0;           ///< Code; IPoIB.
  std::optional<unsigned> worker;  ///< IPoIB: the worker that serves the neighbour.
  std::uint16_t mtu = 0;
  table::NeighbourMode mode = table::NeighbourMode::kUd;  ///< The current way to send.
  std::size_t held = 0;                                   ///< Packets waiting.
  Duration age{};                                         ///< Since the last confirmation.
};

/// One row of `show group`: an IP multicast group on an interface.
struct GroupInfo {
  wire::IpAddr group;
  std::string iface;
  std::string lladdr;           ///< MGID or MAC.
  std::uint16_t mlid = 0;       ///< IPoIB; 0: none.
  unsigned joins = 0;           ///< Number of joins by this node; 0: it only sends.
  std::string_view state;       ///< "member", "joining", "absent" …; static storage.
  std::uint8_t join_state = 0;  ///< IPoIB: membership bits of this port (wire::join_state).
  bool sending = false;         ///< Packets were sent to it recently.
  bool routed = false;          ///< Received as a multicast router.
  std::optional<unsigned> queue_pair{};  ///< IPoIB: the link's queue pair that receives it.
  std::optional<unsigned> worker{};      ///< IPoIB: the worker that receives it.
  std::size_t held = 0;                  ///< Packets waiting.
  std::string reason{};                  ///< Latest failure; empty when all is well.
  Duration age{};                        ///< Time since this node first used the group.
};

enum class AddressState : std::uint8_t { kTentative, kReady, kDuplicate };
[[nodiscard]] std::string_view to_string(AddressState state);

/// One address of this node, for display.
struct AddressInfo {
  wire::IpPrefix address;
  AddressState state = AddressState::kTentative;
  std::string reason;  ///< The reason why it is not ready; empty when it is.
};

/// The reason why a connection ended or was not set up.
enum class ConnectionEnd : std::uint8_t {
  kRejected,  ///< The peer rejected it.
  kTimedOut,  ///< The peer did not answer.
  kPeer,      ///< The peer closed it.
  kStale,     ///< The peer has forgotten it.
  kIdle,
  kUnwanted,   ///< Its neighbours are gone.
  kReplaced,   ///< A newer connection with the same peer replaced it.
  kMoved,      ///< The path to the peer leads to another port than that of the connection.
  kDropped,    ///< The peer never became ready, and another connection needed its place.
  kDisplaced,  ///< It was unused, or one of many of its port, and another one needed its place.
  kFailed,     ///< The queue pair failed: see fabric::QueueError.
  kClosed,     ///< The operator closed it, or the link went down.
  kRefused,    ///< This side refused: the peer's answer is invalid, or resources are missing.
  kCount
};
[[nodiscard]] std::string_view to_string(ConnectionEnd end);

struct ConnectionCounters {
  std::uint64_t asked = 0;     ///< REQs of this side.
  std::uint64_t incoming = 0;  ///< REQs of peers.
  std::uint64_t established = 0;
  std::uint64_t crossed = 0;  ///< REQs that crossed a REQ of this side.
  std::uint64_t limited = 0;  ///< Not requested, or refused: max_connections is reached.
  // Refused REQs, except for crossing ones and those beyond the limit.
  /// No valid UD QPN, an MTU that carries nothing, or this link's own address.
  std::uint64_t bad_private_data = 0;
  std::uint64_t bad_transport = 0;  ///< A transport that this link does not offer.
  std::uint64_t elsewhere = 0;   ///< REQs from another port than that of the peer that they name.
  std::uint64_t no_path = 0;     ///< REQs that name a peer to which the SA knows no path; dropped.
  std::uint64_t no_queue = 0;    ///< The HCA provided no queue.
  std::uint64_t further = 0;     ///< PairPolicy::kFirst: there is a connection already.
  std::uint64_t alternates = 0;  ///< Alternate paths loaded.
  std::uint64_t migrations = 0;  ///< Connections that changed to their alternate path.
  std::array<std::uint64_t, static_cast<std::size_t>(ConnectionEnd::kCount)> ended{};

  [[nodiscard]] std::uint64_t ended_by(ConnectionEnd end) const {
    return ended[static_cast<std::size_t>(end)];
  }
};

/// One row of `show connection`.
struct ConnectionInfo {
  cm::Handle handle = cm::kNoHandle;
  std::string iface;  ///< Set by the owner of the link.
  std::string peer;   ///< Link-layer address.
  std::vector<wire::IpAddr> neighbours;
  fabric::Transport transport = fabric::Transport::kRc;
  bool active = false;   ///< This side requested it.
  bool sending = false;  ///< Packets to the peer use it.
  std::string_view state;
  unsigned worker = 0;  ///< It sends and receives all packets of the connection.
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  std::uint32_t mtu = 0;  ///< Largest IP packet; 0 until known.
  Duration age{};
  Duration idle{};  ///< Time since a packet was last seen on it.
  fabric::ConnectedQueueInfo queue{};
};

/// Parameters of the link from the broadcast group. Source: RFC 4391 §5.
struct LinkParameters {
  wire::Gid broadcast_mgid;
  std::uint16_t broadcast_mlid = 0;
  std::uint32_t qkey = 0;
  std::uint8_t mtu_code = 0;
  std::uint8_t rate = 0;
  std::uint8_t sl = 0;
  std::uint8_t tclass = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
};

struct ArpCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t invalid = 0;
  std::uint64_t conflicts = 0;
  /// Claims of an address that another host claimed less than a second before; ignored.
  std::uint64_t contradictions = 0;
};

struct NdCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t invalid = 0;                                ///< Total of `errors`.
  std::array<std::uint64_t, wire::kNdErrorCount> errors{};  ///< Indexed by wire::NdError.
  std::uint64_t conflicts = 0;       ///< Other hosts that claim an address of this node.
  std::uint64_t contradictions = 0;  ///< See ArpCounters::contradictions.
  std::uint64_t unsent = 0;          ///< No usable source, or unknown destination address.
  std::uint64_t redirects = 0;
  /// Not from the router in use, not accepted by configuration, or more than 100 per second.
  std::uint64_t redirects_ignored = 0;
  /// MTUs of other routers that differ from the own one and were not taken.
  std::uint64_t mtus_ignored = 0;
};

struct RarpCounters {
  std::uint64_t requests = 0;  ///< Received.
  std::uint64_t answered = 0;
  std::uint64_t asked = 0;    ///< Requests for the own address.
  std::uint64_t invalid = 0;  ///< Unexpected replies, or replies with an unusable address.
};

/// A host in a subnet that several interfaces share, and the interface where it is.
struct ProxiedHost {
  wire::IpAddr addr;
  std::string iface;
  Duration age{};  ///< Since it was found there.
};

/// Proxy ARP and neighbour discovery of interfaces that share their subnets.
struct ProxyCounters {
  std::uint64_t answered = 0;    ///< Answers for hosts, and for own addresses, of other sides.
  std::uint64_t asked = 0;       ///< Questions passed on to the other sides.
  std::uint64_t found = 0;       ///< Questions that a host of any side answered.
  std::uint64_t unanswered = 0;  ///< Questions without an answer.
  std::uint64_t paced = 0;       ///< Not passed on, because too many were in a short time.
  std::uint64_t refused = 0;     ///< No room: too many wait, of all hosts or of one.
  std::uint64_t no_room = 0;     ///< Hosts without a place in the tables of routes.
  std::uint64_t moved = 0;       ///< Hosts that changed to another side.
  /// Claims of a host of another side that were ignored: it moved just before, or is static or the
  /// gateway of a route.
  std::uint64_t contradictions = 0;
  std::uint64_t of_gateways = 0;    ///< Messages of other gateways for hosts, which are ignored.
  std::uint64_t loops = 0;          ///< Messages of this node that came back on another side.
  std::uint64_t other_proxies = 0;  ///< Router advertisements with the Proxy bit.
};

struct NeighbourCounters {
  std::uint64_t evicted = 0;  ///< Unused entries that made room in a full table.
  std::uint64_t refused = 0;  ///< Entries not created: all are in use, or no number is free.
};

/// Service ID resolution of links of the draft of 2001.
struct SidrCounters {
  std::uint64_t asked = 0;  ///< Questions, retransmits not counted.
  std::uint64_t answered = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t refused = 0;                                   ///< Answers with another status.
  std::uint64_t invalid = 0;                                   ///< Total of `errors`.
  std::array<std::uint64_t, wire::kIbarpErrorCount> errors{};  ///< Indexed by wire::IbarpError.
  std::uint64_t served = 0;                                    ///< Answers to others.
};

struct LinkCounters {
  SidrCounters sidr;
  std::uint64_t joins_sent = 0, joins_failed = 0, path_queries = 0, path_failures = 0;
  std::uint64_t path_records_refused = 0;  ///< Unusable ones in answers of the SA.
  std::uint64_t paths_left = 0;            ///< One of several carried no answers any more.
  std::uint64_t memberships_forgotten =
      0;  ///< The SA had lost the membership of the broadcast group.
  /// A port had too many paths with Q_Keys of their own: the new one was refused, or one that only
  /// another host had spoken of was ended.
  std::uint64_t paths_refused = 0;
  /// A request for a connection named a GID without a path, and PathTable::kMaxClaimed such paths were
  /// being resolved. Counted each time that the request is looked at.
  std::uint64_t path_claims_refused = 0;
  std::uint64_t arp_sent = 0, arp_received = 0, arp_invalid = 0, address_conflicts = 0;
  /// Claims of other hosts' addresses that were not accepted, ARP and ND.
  std::uint64_t contradictions = 0;
  // Frames not sent: no path to the destination, or too many frames wait for a path.
  std::uint64_t arp_unsent = 0;
  std::uint64_t nd_unsent = 0;  ///< `nd.unsent` counts other reasons.
  NdCounters nd;
  // IP groups.
  std::uint64_t group_queries = 0;       ///< Queries whether a group exists.
  std::uint64_t group_absent = 0;        ///< Answers that it does not.
  std::uint64_t group_joins_sent = 0;    ///< Joins of all kinds.
  std::uint64_t group_joins_failed = 0;  ///< Not answered, refused, unusable or not attached.
  std::uint64_t group_moves_failed = 0;  ///< The new queue pair could not be attached.
  std::uint64_t group_leaves_sent = 0;
  std::uint64_t group_leaves_failed = 0;  ///< Not answered.
  /// Not sent, because another user of the port may need the membership.
  std::uint64_t group_leaves_withheld = 0;
  std::uint64_t group_lists_failed = 0;   ///< Multicast router: failed queries of all groups.
  std::uint64_t group_refused_local = 0;  ///< The table has no place for one more group.
  std::uint64_t subscriptions_failed = 0;
  std::uint64_t neighbours_moved = 0;  ///< To the queue pairs of idler workers.
  RarpCounters rarp;
  NeighbourCounters neighbours;
  std::uint64_t group_reports = 0;        ///< Creations and deletions that the SA reported.
  std::uint64_t group_frames_unsent = 0;  ///< Own packets to groups.
  std::uint64_t via_all_routers = 0;  ///< Groups whose packets are sent to the all-routers group.
};

struct IpCounters {
  ArpCounters arp;
  NdCounters nd;
  RarpCounters rarp;
  NeighbourCounters neighbours;
};

}  // namespace ipoib::link
