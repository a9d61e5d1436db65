// SPDX-License-Identifier: BSD-3-Clause
// The multicast router's side of IGMP or MLD on one link: queries groups for members, elects the
// querier, and keeps the members' requests. Bytes and the time in; packets and changes out. Source:
// RFC 3376 §6-8, RFC 3810 §7-9; older hosts and queriers: RFC 2236 §3, RFC 2710 §4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/route/multicast/forwarder_rule.h"
#include "lib/route/multicast/group_reporter.h"
#include "lib/route/multicast/multicast_group.h"
#include "lib/route/multicast/record_budget.h"
#include "lib/table/neighbour.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::route {

/// Actions of the state machine. Implementations must not call back into it.
class MembershipSink {
 public:
  virtual ~MembershipSink() = default;
  /// Sends a whole IP packet on `iface` to its destination, which is a group. The TTL stays.
  virtual void send(table::InterfaceId iface, std::vector<std::byte> packet, TimePoint now) = 0;
  /// The link's request for `group` has changed; nothing(): the group has no members any more.
  virtual void on_filter_change(table::InterfaceId iface, const wire::IpAddr& group,
                                const GroupFilter& filter, TimePoint now) = 0;
  /// MulticastMembership::forwarder() has changed. It is kThis at first.
  virtual void on_forwarder_change(table::InterfaceId iface, IpFamily family, Forwarder forwarder,
                                   TimePoint now) = 0;
};

/// Names and defaults of RFC 3376 §8 and RFC 3810 §9. All routers of a link must agree on
/// `version`.
struct MembershipConfig {
  wire::MembershipVersion version = wire::MembershipVersion::kV3;  ///< Version of queries.
  /// Version of MLD queries if it is not `version`.
  std::optional<wire::MembershipVersion> mld_version{};
  unsigned robustness = 2;  ///< 1-7: the number of losses in a row that are survived, plus one.
  Duration query_interval = std::chrono::seconds(125);
  Duration query_response_interval = std::chrono::seconds(10);
  Duration last_member_query_interval = std::chrono::seconds(1);
  std::size_t max_groups = 4'096;
  /// Groups that one host may start, at least 1: its share of max_groups, so that it leaves room for
  /// those of others. Groups that others started count as theirs.
  std::size_t max_host_groups = 256;
  std::size_t max_sources = wire::kMaxQuerySources;  ///< Per group, at most kMaxQuerySources.
  ForwarderRule forwarder = ForwarderRule::kQuerier;
};

struct MembershipCounters {
  std::uint64_t queries_sent = 0;
  std::uint64_t queries_received = 0;
  std::uint64_t reports_received = 0;
  std::uint64_t records = 0;          ///< Records that were applied.
  std::uint64_t not_a_group = 0;      ///< Records for addresses that map to no group.
  std::uint64_t link_scope = 0;       ///< Records for groups that no router forwards.
  std::uint64_t source_specific = 0;  ///< Records for all sources of a source-specific group.
  std::uint64_t bad_sources = 0;      ///< Sources that are not a unicast address.
  std::uint64_t unknown_records = 0;
  std::uint64_t version_mismatch = 0;     ///< Messages of a version that this link must not speak.
  std::uint64_t groups_refused = 0;       ///< max_groups reached.
  std::uint64_t host_groups_refused = 0;  ///< max_host_groups reached by the host that reports.
  std::uint64_t over_budget = 0;          ///< Messages beyond the RecordBudget, which are not read.
  std::uint64_t sources_refused = 0;      ///< max_sources reached.
  std::uint64_t queries_delayed = 0;      ///< Specific queries beyond the rate: sent later.
  std::array<std::uint64_t, wire::kMembershipFaultCount> faults{};  ///< See kMembershipFaultNames.
};

/// One row: the request of the link's members for a group.
struct MembershipInfo {
  wire::IpAddr group;
  GroupFilter filter;
  wire::MembershipVersion version;  ///< Compatibility mode.
  Duration expires;                 ///< Time until the next timer of the group.
};

class MulticastMembership {
 public:
  /// `sink` must outlive this object. Sends nothing before it has an address.
  MulticastMembership(table::InterfaceId iface, IpFamily family, const MembershipConfig& config,
                      MembershipSink& sink);

  /// The link is up. If no address follows, this router hears other queriers, but does not ask.
  void start(TimePoint now);
  /// Sets the own address for queries: IPv4 any, IPv6 link-local. The first address starts the role
  /// of querier with the start-up queries; a changed address keeps the role. None: no queries;
  /// known members stay until they time out.
  void set_address(const std::optional<wire::IpAddr>& address, TimePoint now);
  /// Forgets every member, reports that to the sink, and sends nothing until set_address().
  void stop(TimePoint now);

  /// Handles a packet, from its IP header on, that arrived on this link. Own packets are ignored.
  void on_packet(std::span<const std::byte> packet, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] bool querier() const { return address_ && !other_querier_; }
  /// The router that forwards to the link, by the election of the querier.
  [[nodiscard]] Forwarder forwarder() const;
  /// Address of the other router, if that is the querier.
  [[nodiscard]] std::optional<wire::IpAddr> other_querier() const { return other_querier_; }
  [[nodiscard]] QuerierState querier_state(TimePoint now) const;
  [[nodiscard]] std::vector<MembershipInfo> groups(TimePoint now) const;
  [[nodiscard]] std::size_t group_count() const { return groups_.size(); }
  [[nodiscard]] const MembershipCounters& counters() const { return counters_; }

  /// Longest time for which a member that vanishes in silence is remembered.
  [[nodiscard]] Duration membership_interval() const;

  /// A router that takes itself for the querier forwards only when it has heard no other for this
  /// time, in which it asks once every kListenStep, so that one loss does not hide the other.
  static constexpr Duration kListenTime = std::chrono::seconds(2);
  static constexpr Duration kListenStep = std::chrono::milliseconds(500);

 private:
  /// Queries about one group that must still be sent.
  struct Pending {
    unsigned group_left = 0;
    std::map<wire::IpAddr, unsigned> sources_left{};
    /// Timers that are lowered when the next query is sent.
    bool lower_group = false;
    std::set<wire::IpAddr> lower_sources{};
    TimePoint at = MulticastGroup::kForever;

    [[nodiscard]] bool none() const { return group_left == 0 && sources_left.empty(); }
  };
  struct Entry {
    wire::IpAddr starter{};  ///< Host of the first report, whose share the group takes.
    MulticastGroup state{};
    Pending pending{};
    GroupFilter reported{};                    ///< Filter last reported to the sink.
    TimePoint due = MulticastGroup::kForever;  ///< Its place in due_.
  };
  using Groups = std::map<wire::IpAddr, Entry>;

  [[nodiscard]] wire::ParsedMembership parse(std::span<const std::byte> packet) const;
  void on_query(const wire::IpAddr& from, const wire::MembershipQuery& query, TimePoint now);
  void elect(const wire::IpAddr& from, const wire::MembershipQuery& query, TimePoint now);
  void assert_role(TimePoint now);
  void listen(TimePoint now, Duration time, Forwarder meanwhile);
  void end_listening(TimePoint now);
  void note_forwarder(TimePoint now);
  void lower_timers(const wire::MembershipQuery& query, TimePoint now);
  void on_record(const wire::IpAddr& from, wire::MembershipVersion version,
                 const wire::MembershipRecord& record, TimePoint now);
  /// Returns the end if there is no room for another group of the host.
  [[nodiscard]] Groups::iterator start_group(const wire::IpAddr& group, const wire::IpAddr& from);
  void end_group(Groups::iterator it);
  [[nodiscard]] bool is_own_family(const wire::IpAddr& addr) const;
  [[nodiscard]] bool believable(wire::MembershipVersion version,
                                const wire::MembershipRecord& record);
  void ask(Entry& entry, const GroupQueries& queries, TimePoint now);
  void send_pending(const wire::IpAddr& group, Entry& entry, TimePoint now);
  void send_group_query(const wire::IpAddr& group, Entry& entry, TimePoint now);
  void send_source_queries(const wire::IpAddr& group, Entry& entry, TimePoint now);
  void send_general_query(TimePoint now);
  void start_queries(TimePoint now);
  void send(wire::MembershipQuery query, TimePoint now);
  /// Sends due queries, reports changes, reschedules the entry, and drops it when it is empty.
  void update_entry(Groups::iterator it, TimePoint now);

  [[nodiscard]] GroupTimes times() const;
  [[nodiscard]] Duration last_member_time() const;

  const table::InterfaceId iface_;
  const IpFamily family_;
  const MembershipConfig config_;
  MembershipSink& sink_;
  std::optional<wire::IpAddr> address_;

  // The querier's robustness and interval: own values, or those of the other querier.
  unsigned robustness_;
  Duration query_interval_;
  std::optional<wire::IpAddr> other_querier_;
  TimePoint other_until_{};
  TimePoint queried_at_{};  ///< Latest general query of this router, or query of the other.
  TimePoint assert_after_ = TimePoint::min();  ///< See assert_role().
  std::optional<TimePoint> listen_until_;      ///< See kListenTime.
  Forwarder meanwhile_ = Forwarder::kUnknown;  ///< forwarder() until then.
  Forwarder noted_ = Forwarder::kThis;         ///< forwarder() as the sink knows it.
  unsigned startup_left_ = 0;
  std::optional<TimePoint> general_at_;

  Groups groups_;
  std::map<wire::IpAddr, std::size_t> started_;  ///< Groups of each starter, at least 1.
  RecordBudget budget_;
  std::set<std::pair<TimePoint, wire::IpAddr>> due_;
  RateLimiter query_rate_{std::chrono::milliseconds(5), 200};
  MembershipCounters counters_;
};

}  // namespace ipoib::route
