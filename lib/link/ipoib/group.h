// SPDX-License-Identifier: BSD-3-Clause
// One multicast group of an IPoIB link: its users on this node, the SA's record, and the
// memberships of this port. One record per MGID: the IPv6 groups ff02::5 and ff05::5 share one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/fabric_types.h"
#include "lib/link/ip/held_packets.h"
#include "lib/link/ip/resolution_places.h"
#include "lib/link/time_order.h"
#include "lib/sa/client.h"
#include "lib/table/neighbour.h"
#include "lib/wire/sa_records.h"

namespace ipoib::link {

/// One bit of JoinState. It is joined and left independently of the port's other bits in the group.
struct GroupMembership {
  enum class State : std::uint8_t { kNone, kJoining, kMember, kRefused };

  std::uint8_t bit = 0;  ///< wire::join_state.
  State state = State::kNone;
  bool sa_registered = false;  ///< The SA may count this port.
  bool no_attributes = false;  ///< The next join names no attributes, because the group has others.
  bool no_room = false;        ///< The latest failure: the SA or the device had no room.
  bool wanted = false;
  /// The membership of before is left before the next join: the link was down since, or it cannot
  /// use the group.
  bool leave_first = false;
  wire::Gid port{};  ///< The GID under which the SA counts the port; valid with `sa_registered`.
  sa::TransactionId transaction = sa::kNoTransaction;
  TimePoint began{};  ///< Latest attempt.
  /// No request before this; kMember: time of the next confirmation.
  TimePoint due = TimePoint::min();
  Duration backoff = Duration::zero();

  [[nodiscard]] bool busy() const { return transaction != sa::kNoTransaction; }
  [[nodiscard]] bool member() const { return state == State::kMember; }
  [[nodiscard]] bool exhausted() const { return state == State::kRefused && no_room; }
  /// Packets alone create the group at the SA.
  [[nodiscard]] bool created_by_sending() const {
    return bit == wire::join_state::kSendOnlyFullMember;
  }
};

/// An IP group that packets are sent to; workers see it as a neighbour.
struct GroupSender {
  table::NeighbourIndex index = table::kNoNeighbour;
  table::Neighbour installed;
  HeldQueue held;
  TimePoint touched{};  ///< Creation or last use known to management.
};

/// The queue pair that receives a group's packets. It is one of the link's, so that each packet
/// arrives once, except during the moment of a change from one to another.
struct GroupAttachment {
  unsigned queue_pair = 0;
  std::uint16_t mlid = 0;

  friend bool operator==(const GroupAttachment&, const GroupAttachment&) = default;
};

enum class Presence : std::uint8_t { kUnknown, kPresent, kAbsent };

/// Delivery of packets to a group.
enum class GroupDelivery : std::uint8_t {
  kUnknown,  ///< Not known yet.
  kDirect,
  kRouters,  ///< To the all-routers group: the group is absent from the link.
  kFlood,    ///< To the broadcast group: by configuration, or without room to join the group.
  kNone,
};

/// A frame of the link itself, from the IPoIB header on.
struct GroupFrame {
  wire::IpAddr to;
  std::vector<std::byte> octets;
};

struct Group {
  wire::Gid mgid;
  bool v4 = true;
  TimePoint created{};

  // Users.
  std::set<wire::IpAddr> listeners;
  std::map<wire::IpAddr, GroupSender> senders;
  std::optional<TimePoint> own_used;  ///< Latest packet of the link itself.
  bool routed = false;                ///< A multicast router receives it.
  std::size_t dependents = 0;  ///< All-routers group: number of groups whose packets go to it.

  // State at the SA.
  Presence presence = Presence::kUnknown;
  wire::McMemberRecord record{};  ///< Record of the latest answer; valid with kPresent.
  sa::TransactionId query = sa::kNoTransaction;
  TimePoint last_ask = TimePoint::min();
  TimePoint ask_at = kNever;  ///< Time of the next query if it had to be delayed.
  Duration ask_backoff = Duration::zero();
  TimePoint negative_until = kNever;  ///< kAbsent.
  std::string reason;                 ///< Latest failure; empty when all is well.

  // Memberships of this port.
  GroupMembership full{wire::join_state::kFullMember};
  GroupMembership non{wire::join_state::kNonMember};
  GroupMembership send{wire::join_state::kSendOnlyNonMember};
  std::optional<GroupAttachment> attached;

  // Sending.
  GroupDelivery delivery = GroupDelivery::kUnknown;
  bool depends = false;  ///< Counted as a dependent of the all-routers group.
  fabric::AhIndex ah = fabric::kNoAh;
  fabric::AhAttr attr;
  std::uint16_t mtu = 0;  ///< MTU of the group that packets go to, octets of IP; valid with `ah`.
  std::vector<GroupFrame> frames;  ///< Waiting.
  TimePoint frames_expire = kNever;

  TimePoint wake = kNever;       ///< Position in the order of timers.
  TimePoint gives_way = kNever;  ///< Position in the order of groups that make room for others.
  /// One of the places for groups of which only packets say that they may exist.
  std::optional<ResolutionPlaces::Place> place;

  [[nodiscard]] bool sending() const {
    return !senders.empty() || own_used.has_value() || dependents > 0;
  }
  /// Only packets that are forwarded need it.
  [[nodiscard]] bool by_data() const {
    return listeners.empty() && !routed && dependents == 0 && !own_used;
  }
  [[nodiscard]] bool needed() const { return !listeners.empty() || routed || sending(); }
  [[nodiscard]] bool busy() const {
    return query != sa::kNoTransaction || full.busy() || non.busy() || send.busy();
  }
  [[nodiscard]] bool member() const { return full.member() || non.member() || send.member(); }
  [[nodiscard]] bool sa_registered() const {
    return full.sa_registered || non.sa_registered || send.sa_registered;
  }
};

}  // namespace ipoib::link
