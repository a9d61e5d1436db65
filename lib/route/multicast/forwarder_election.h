// SPDX-License-Identifier: BSD-3-Clause
// The election between several multicast routers that forward groups from one link to another. It
// takes the packets that workers report, and the time, and does no I/O.
//
// Routers do not speak to each other here. Each starts with the querier of the link of the hosts as
// the forwarder, and learns from packets whether that is so. A packet of the group on the outgoing
// link, from a source that this node reaches by the incoming one, shows another forwarder there, as
// for Assert of PIM (RFC 7761 §4.6). A router that stands by takes over after packets that no other
// router put on the outgoing link. If two forward, the one with the higher link-layer address on the
// outgoing link gives way at its first packet from the other, so that one goes on.
//
// Evidence is of one source, as Assert is of (S,G): another router may forward only some sources, by
// a static route or for want of a route. Sources without a contest of their own follow the decision
// of their group.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/route/multicast/forwarder_rule.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Deliveries that a change of the decisions concerns.
enum class DecisionChange : std::uint8_t { kNone, kSource, kGroup };

struct ForwarderElectionCounters {
  std::uint64_t taken_over = 0;  ///< Times that this node began to forward what no other forwarded.
  std::uint64_t given_way = 0;   ///< Times that it stopped because another router forwards.
  std::uint64_t refused = 0;     ///< Times that there was no room for a contest.
};

/// A group that is forwarded from `in` to `out`, where hosts have requested it.
struct ForwardedGroup {
  wire::IpAddr group;
  table::InterfaceId out = table::kNoInterface;
  table::InterfaceId in = table::kNoInterface;

  friend auto operator<=>(const ForwardedGroup&, const ForwardedGroup&) = default;
};

/// Interfaces have numbers below table::kMaxMulticastInterfaces. A source of all zero stands for those
/// without a contest of their own.
class ForwarderElection {
 public:
  /// `max_contests`: bound of the groups, and of the sources of all groups, with a state of their own.
  /// Sources without room follow their group, and groups the querier.
  explicit ForwarderElection(std::size_t max_contests) : max_contests_{max_contests} {}

  /// Sets the outcome of the election of the querier. `forwarded`: with kOther, the groups that
  /// forwards() is true for, with `iface` as `out`: this router goes on with those that have packets
  /// at this moment, until it hears that the other forwards them.
  void set_querier(table::InterfaceId iface, bool v4, Forwarder forwarder,
                   const std::vector<ForwardedGroup>& forwarded, TimePoint now);
  /// The interface receives only groups that this node listens to or sends to, so that it does not
  /// hear other forwarders: to it, this node forwards unless others are the queriers of both links.
  void set_deaf(table::InterfaceId iface, bool deaf);
  [[nodiscard]] bool deaf(table::InterfaceId iface) const { return (deaf_ >> iface & 1U) != 0; }
  void remove_interface(table::InterfaceId iface);

  /// Hosts on `out` have requested a group that had no request there: it starts with the outcome of
  /// the last contest between the two interfaces.
  void start(const ForwardedGroup& g);
  /// The last request on `out` has ended.
  void forget(const wire::IpAddr& group, table::InterfaceId out);

  [[nodiscard]] bool forwards(const ForwardedGroup& g, const wire::IpAddr& source) const;
  /// True if this node needs to know about the packets that arrive on `in`.
  [[nodiscard]] bool watches(const ForwardedGroup& g, const wire::IpAddr& source) const;
  /// The sources of the group for which forwards() or watches() differs from those of the group.
  [[nodiscard]] std::set<wire::IpAddr> sources(const wire::IpAddr& group) const;
  [[nodiscard]] bool differs(const wire::IpAddr& group, const wire::IpAddr& source) const;

  /// A packet of the group arrived on `in`, the interface that leads to its source; only for sources
  /// that it watches(). Returns for which deliveries forwards() or watches() has changed.
  [[nodiscard]] DecisionChange on_packet(const ForwardedGroup& g, const wire::IpAddr& source,
                                         TimePoint now);
  /// A packet of the group, from a source that `in` leads to, arrived on `out`: another router
  /// forwards it. `lower`: its link-layer address is lower than this node's. Returns as on_packet().
  [[nodiscard]] DecisionChange on_evidence(const ForwardedGroup& g, const wire::IpAddr& source,
                                           bool lower, TimePoint now);

  /// A group, and the source for which forwards() or watches() has changed; all zero: any may have.
  using Changed = std::set<std::pair<wire::IpAddr, wire::IpAddr>>;
  /// Handles up to kChangesAtOnce deadlines that have passed; the next one remains if there are more.
  [[nodiscard]] Changed tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const ForwarderElectionCounters& counters() const { return counters_; }

  /// Packets are reported at most this long after an earlier report of the same source
  /// (fwd::PuntLimits::heard_again), so evidence answers packets for this long.
  static constexpr Duration kReportInterval = std::chrono::seconds(1);
  /// Time from the first packet that no router forwards to the take-over.
  static constexpr Duration kUnanswered = std::chrono::seconds(1);
  /// Unanswered packets in a row that a router needs to replace one that it has heard, so that a
  /// lost packet of a slow source does not look like its end.
  static constexpr unsigned kUnansweredPackets = 3;
  /// A new querier may still listen itself, and forwards after that. Until then packets do not count
  /// as unanswered.
  static constexpr Duration kSettleTime = std::chrono::milliseconds(2'500);
  /// A router that is no longer the querier goes on with groups that have packets in this time,
  /// which the new querier hears while it listens.
  static constexpr Duration kHandover = std::chrono::milliseconds(400);
  /// A router that does not give way, though it should, has sent this many packets in this time.
  static constexpr unsigned kAlienPackets = 3;
  static constexpr Duration kAlienTime = std::chrono::seconds(3);
  /// Evidence with a longer pause is of another conflict.
  static constexpr Duration kConflictPause = std::chrono::seconds(60);
  /// A source without packets for this long has no contest any more.
  static constexpr Duration kSourceLifetime = std::chrono::seconds(180);
  /// Sources of a group with contests of their own between two interfaces.
  static constexpr std::size_t kMaxSources = 256;
  static constexpr unsigned kChangesAtOnce = 64;

 private:
  struct Contest {
    bool forwards = false;
    bool handover = false;             ///< See kHandover.
    bool used = false;                 ///< There were packets in that time.
    bool probed = false;               ///< It ends unless there is a packet.
    std::optional<TimePoint> heard{};  ///< Latest evidence while this node stands by.
    unsigned unanswered = 0;           ///< Packets since, while this node stands by.
    TimePoint unanswered_since{};      ///< Time of the first of them.
    unsigned conflict = 0;             ///< Evidence while this node forwards.
    TimePoint conflict_since{}, conflict_last{};
    /// The source whose packets no other router forwarded, for which this node took over the group.
    wire::IpAddr taken_over_for{};
    TimePoint latest{};                   ///< Latest report; of sources.
    std::optional<TimePoint> decision{};  ///< When a handover ends, or the take-over.
    std::optional<TimePoint> due{};       ///< Its place in due_.
  };
  /// The contests of a group between two interfaces.
  struct GroupContests {
    std::optional<Contest> all{};  ///< For sources without one.
    std::map<wire::IpAddr, Contest> sources{};
  };
  using Contests = std::map<ForwardedGroup, GroupContests>;
  struct ContestKey {
    ForwardedGroup g;
    wire::IpAddr source;  ///< All zero: GroupContests::all.

    friend auto operator<=>(const ContestKey&, const ContestKey&) = default;
  };
  /// The state of one IP version. Bit i: interface i.
  struct Family {
    std::uint64_t other = 0;    ///< Another router is the querier.
    std::uint64_t unknown = 0;  ///< This router listens for one.
    std::uint64_t always = 0;   ///< The configuration demands that this router forwards.
    std::map<table::InterfaceId, TimePoint> settled{};  ///< See kSettleTime.
    /// Outcome of the last contest between two interfaces (out, in): this router forwards.
    std::map<std::pair<table::InterfaceId, table::InterfaceId>, bool> outcomes{};
  };

  [[nodiscard]] const Family& family_of(const ForwardedGroup& g) const {
    return families_[g.group.is_v4()];
  }
  [[nodiscard]] bool contested(const ForwardedGroup& g) const;
  [[nodiscard]] bool unknown(const ForwardedGroup& g) const;
  [[nodiscard]] bool is_querier(const ForwardedGroup& g) const;
  template <class Map>
  [[nodiscard]] static auto* find_in(Map& all, const ContestKey& key);
  [[nodiscard]] const Contest* find(const ContestKey& key) const;
  [[nodiscard]] Contest* find(const ContestKey& key);
  [[nodiscard]] const Contest* deciding(const ForwardedGroup& g, const wire::IpAddr& source) const;
  [[nodiscard]] bool differs(const ForwardedGroup& g, const wire::IpAddr& source) const;
  [[nodiscard]] Contest* contest(const ContestKey& key);
  [[nodiscard]] Contest* contest_of(ContestKey& key);
  void erase(const ContestKey& key);
  void erase(Contests::iterator it);
  template <class Predicate>
  void erase_groups(Predicate predicate);
  void forget_waiting(table::InterfaceId out, bool v4);
  void schedule(const ContestKey& key, Contest& c);
  void reset(const ContestKey& key, Contest& c, const Contest& to);
  [[nodiscard]] bool other_forwards(const ContestKey& key, TimePoint now) const;
  [[nodiscard]] DecisionChange take_over(const ContestKey& key, TimePoint now);
  [[nodiscard]] DecisionChange give_way(const ContestKey& key, Contest& c, TimePoint now);
  void stand_by(const ContestKey& key, Contest& c, TimePoint now);
  [[nodiscard]] DecisionChange end_handover(const ContestKey& key, Contest& c);
  [[nodiscard]] DecisionChange source_silent(const ContestKey& key, Contest& c, TimePoint now);
  [[nodiscard]] DecisionChange expire(const ContestKey& key, TimePoint now);

  const std::size_t max_contests_;
  std::array<Family, 2> families_{};  ///< Indexed by IPv4.
  std::uint64_t deaf_ = 0;            ///< Bit i: set_deaf(i).
  Contests contests_;
  std::size_t groups_ = 0, sources_ = 0;  ///< Numbers of contests.
  std::set<std::pair<TimePoint, ContestKey>> due_;
  ForwarderElectionCounters counters_;
};

}  // namespace ipoib::route
