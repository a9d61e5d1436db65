// SPDX-License-Identifier: BSD-3-Clause
// One multicast group of an IPoIB link as this port knows it: who needs it, what the SA said of it,
// what this port is in it. One record per MGID: the IPv6 groups ff02::5 and ff05::5 share one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/types.h"
#include "lib/link/held_packets.h"
#include "lib/link/time_order.h"
#include "lib/sa/client.h"
#include "lib/table/neighbour.h"
#include "lib/wire/mad.h"

namespace ipoib::link {

/// One bit of JoinState: joined and left alone, whatever other bits the port has in the group.
struct GroupMembership {
  enum class State : std::uint8_t { kNone, kJoining, kMember, kRefused };

  std::uint8_t bit = 0;  ///< wire::join_state.
  State state = State::kNone;
  bool asked = false;  ///< The SA may count this port.
  bool plain = false;  ///< The next join names no attributes: the group has others.
  bool wanted = false;
  wire::Gid port{};  ///< The SA counts the port under this GID; asked.
  sa::TransactionId transaction = sa::kNoTransaction;
  TimePoint began{};                 ///< Latest attempt.
  TimePoint due = TimePoint::min();  ///< Not asked before; kMember: confirmed then.
  Duration backoff = Duration::zero();

  [[nodiscard]] bool busy() const { return transaction != sa::kNoTransaction; }
  [[nodiscard]] bool member() const { return state == State::kMember; }
};

/// An IP group packets are sent to: a neighbour of the workers.
struct GroupSender {
  table::NeighbourIndex index = table::kNoNeighbour;
  table::Neighbour installed;
  HeldQueue held;
  TimePoint touched{};  ///< Creation or last use that management knows of.
};

enum class Presence : std::uint8_t { kUnknown, kPresent, kAbsent };

/// Where packets to a group go.
enum class GroupWay : std::uint8_t {
  kUnknown,  ///< Being found out.
  kDirect,
  kRouters,  ///< To the all-routers group: nobody on the link listens.
  kFlood,    ///< To the broadcast group, by configuration.
  kNone,
};

struct Group {
  wire::Gid mgid;
  bool v4 = true;
  TimePoint created{};

  // Who needs it.
  std::set<wire::IpAddr> listeners;
  std::map<wire::IpAddr, GroupSender> senders;
  std::optional<TimePoint> own_used;  ///< Latest packet of the link itself.
  bool routed = false;                ///< A multicast router receives it.
  std::size_t dependents = 0;         ///< All-routers group: groups whose packets go to it.

  // What is known of it.
  Presence presence = Presence::kUnknown;
  wire::McMemberRecord record{};  ///< Of the latest answer; kPresent.
  sa::TransactionId query = sa::kNoTransaction;
  TimePoint last_ask = TimePoint::min();
  TimePoint ask_at = kNever;  ///< Where asking had to be put off.
  Duration ask_backoff = Duration::zero();
  TimePoint negative_until = kNever;  ///< kAbsent.
  std::string reason;                 ///< Latest failure, empty when all is well.

  // What this port is in it.
  GroupMembership full{wire::join_state::kFullMember};
  GroupMembership non{wire::join_state::kNonMember};
  GroupMembership send{wire::join_state::kSendOnlyNonMember};
  std::optional<std::uint16_t> attached;  ///< MLID.

  // How packets reach it.
  GroupWay way = GroupWay::kUnknown;
  bool depends = false;  ///< Counted as dependent of the all-routers group.
  fabric::AhIndex ah = fabric::kNoAh;
  fabric::AhAttr attr;
  std::uint16_t mtu = 0;  ///< Of the group that packets go to, octets of IP; valid with `ah`.
  std::vector<std::vector<std::byte>> frames;  ///< The link's own, waiting.
  TimePoint frames_expire = kNever;

  TimePoint wake = kNever;  ///< Place in the order of timers.

  [[nodiscard]] bool sending() const {
    return !senders.empty() || own_used.has_value() || dependents > 0;
  }
  [[nodiscard]] bool needed() const { return !listeners.empty() || routed || sending(); }
  [[nodiscard]] bool busy() const {
    return query != sa::kNoTransaction || full.busy() || non.busy() || send.busy();
  }
  [[nodiscard]] bool asked() const { return full.asked || non.asked || send.asked; }
};

}  // namespace ipoib::link
