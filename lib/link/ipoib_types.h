// SPDX-License-Identifier: BSD-3-Clause
// What an IPoIB link is given and what it tells: its surroundings, configuration, parameters and
// counters.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"
#include "lib/link/connection_types.h"
#include "lib/link/interface.h"
#include "lib/link/neighbour_cache.h"
#include "lib/link/rarp_agent.h"
#include "lib/sa/client.h"

namespace ipoib::link {

/// What an IPoIB link does to its queue pair and the fabric.
class LinkActions {
 public:
  virtual ~LinkActions() = default;
  [[nodiscard]] virtual const fabric::PortAttr& port() const = 0;
  [[nodiscard]] virtual std::uint32_t qpn() const = 0;
  virtual Status set_qkey(std::uint32_t qkey) = 0;
  virtual Status attach(const wire::Gid& mgid, std::uint16_t mlid) = 0;
  virtual void detach(const wire::Gid& mgid, std::uint16_t mlid) = 0;
  virtual Result<fabric::AhIndex> create_ah(const fabric::AhAttr& attr) = 0;
  virtual void destroy_ah(fabric::AhIndex ah) = 0;
  /// Sends octets that start at the IPoIB header. Losing them is allowed, as on any wire.
  virtual void send(fabric::AhIndex ah, std::uint32_t qpn, std::span<const std::byte> frame) = 0;
  virtual void state_changed(State state) = 0;
};

/// How a sender joins a group it does not listen to.
enum class SendOnly : std::uint8_t {
  kNonMember,   ///< RFC 4391 §10: only groups that exist.
  kFullMember,  ///< As Linux does: SendOnlyFullMember, which creates the group.
};

struct GroupConfig {
  SendOnly send_only = SendOnly::kNonMember;
  /// Packets to a group that is absent go to the broadcast group, which RFC 4391 §10 allows where
  /// the scope is beyond link-local but finds inefficient.
  bool flood_absent = false;
  /// All groups of the link are received (NonMember), the all-routers groups are joined.
  bool multicast_router = false;
  Duration negative = std::chrono::seconds(10);    ///< An absent group is not asked for again.
  Duration send_idle = std::chrono::seconds(300);  ///< Unused, a membership to send is left.
  Duration backoff_min = std::chrono::seconds(1);  ///< Between attempts to join.
  Duration backoff_max = std::chrono::seconds(16);
  std::size_t max_groups = 4096;  ///< Listened to, and again as many sent to or routed.
  std::size_t max_queries = 32;   ///< Requests about groups open at the SA.
};

/// Attributes of the broadcast group where this node creates it. Codes as in lib/wire/iba.h.
struct BroadcastAttributes {
  std::uint8_t mtu = 4;
  std::uint32_t qkey = 0x8001'0b1b;  ///< Controlled: high bit set (RFC 4391 §4.1).
  std::uint8_t rate = 3;
  std::uint8_t sl = 0;
  std::uint8_t tclass = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
};

/// IPv6 all-nodes group FF1x:601B:pkey::1 (RFC 4391 §5, §8).
enum class AllNodes : std::uint8_t {
  kAuto,     ///< Joined where IPv6 runs.
  kJoined,   ///< In addition to the broadcast group.
  kInstead,  ///< It is the link's group: a link without ARP.
};

/// As LinkConfig::scope: searched from link-local upward.
inline constexpr std::uint8_t kScopeAuto = 0;

struct LinkConfig {
  std::string name;
  table::InterfaceId id = 0;
  std::uint16_t pkey = wire::kDefaultPkey;
  std::uint8_t scope = 2;  ///< Of the broadcast-GID; kScopeAuto.
  /// The broadcast group is created with these where it is absent; nothing: never.
  std::optional<BroadcastAttributes> create_broadcast;
  AllNodes all_nodes = AllNodes::kAuto;
  GroupConfig group;
  std::vector<wire::IpPrefix> addresses;
  NeighbourConfig neighbour;
  ConnectionConfig connected;
  Ip6Config ip6;
  RarpConfig<wire::LinkAddr> rarp;
  Duration join_backoff_min = std::chrono::seconds(1);
  Duration join_backoff_max = std::chrono::seconds(16);
  /// The broadcast membership is confirmed with the SA this often, so that a restarted SA learns
  /// of it again; 0: never.
  Duration membership_refresh = std::chrono::seconds(60);
};

/// Parameters the broadcast group gave the link. Source: RFC 4391 §5.
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

struct LinkCounters {
  std::uint64_t joins_sent = 0, joins_failed = 0, path_queries = 0, path_failures = 0;
  std::uint64_t arp_sent = 0, arp_received = 0, arp_invalid = 0, address_conflicts = 0;
  /// Claims of other hosts' addresses that were not believed, ARP and ND.
  std::uint64_t contradictions = 0;
  /// Not sent: no path to the host that asked, or too many replies wait for theirs.
  std::uint64_t arp_unsent = 0;
  std::uint64_t nd_unsent = 0;  ///< As arp_unsent, or to a group that cannot be reached.
  NdCounters nd;
  // IP groups.
  std::uint64_t group_queries = 0;       ///< Is there such a group?
  std::uint64_t group_absent = 0;        ///< Answers no.
  std::uint64_t group_joins_sent = 0;    ///< Of any kind.
  std::uint64_t group_joins_failed = 0;  ///< Not answered, refused, unusable or not attached.
  std::uint64_t group_leaves_sent = 0;
  std::uint64_t group_leaves_failed = 0;  ///< Not answered.
  std::uint64_t group_lists_failed = 0;   ///< Multicast router: table of groups not had.
  std::uint64_t group_refused_local = 0;  ///< The table of groups is full.
  std::uint64_t subscriptions_failed = 0;
  RarpCounters rarp;
  NeighbourCounters neighbours;
  std::uint64_t group_reports = 0;        ///< Creations and deletions the SA told of.
  std::uint64_t group_frames_unsent = 0;  ///< Own packets to groups.
  std::uint64_t via_all_routers = 0;      ///< Groups whose packets go to the all-routers group.
};

/// Whether the SA itself denied what was asked, rather than being silent, busy or short of room.
[[nodiscard]] inline bool sa_says_no(const sa::Failure& failure) {
  return failure.code == Errc::kRefused &&
         failure.status >= static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid);
}

}  // namespace ipoib::link
