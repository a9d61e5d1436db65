// SPDX-License-Identifier: BSD-3-Clause
// The host's side of IGMP or MLD on one link: reports the groups that this node itself receives, so
// that multicast routers forward them here and snooping switches do not prune this port.
// Source: RFC 3376 §5, §7.2; RFC 3810 §6, §8.2; RFC 2236 §3; RFC 2710 §4; RFC 4541 §2.1.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/route/multicast/multicast_group.h"
#include "lib/route/multicast/multicast_sender.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::route {

enum class IpFamily : std::uint8_t { kIpv4, kIpv6 };

/// Longest query interval that is adopted from another querier, unless the own one is longer. Queries
/// can be forged, and their QQIC says up to 31,744 s. All routers of a link must have one interval, so
/// a longer one is a stranger's, or a mistake. Source: RFC 3376 §4.1.7, §8, §8.2; RFC 3810 §9.2.
inline constexpr Duration kLongestAdoptedInterval = std::chrono::seconds(600);

struct ReporterCounters {
  std::uint64_t reports_sent = 0;     ///< Packets with reports of any version.
  std::uint64_t leaves_sent = 0;      ///< IGMPv2 Leave Group and MLDv1 Done.
  std::uint64_t queries_ignored = 0;  ///< Beyond the limits of their rate.
  std::uint64_t queries_heard = 0;    ///< Also this node's own ones.
};

/// Groups of this node on one link in one family. Nothing is sent while the link is down. Filters
/// exclude no sources.
class GroupReporter {
 public:
  /// `sender` must outlive this object. Equal seeds give equal delays.
  GroupReporter(table::InterfaceId iface, IpFamily family, std::uint64_t seed,
                MulticastSender& sender);

  /// Sets this node's own request for `group`; nothing(): it leaves the group. The report follows
  /// at the next tick(), together with those of other groups. Groups that no host reports are
  /// ignored.
  void set_filter(const wire::IpAddr& group, const GroupFilter& filter, TimePoint now);
  /// Sets the source of reports; none: 0.0.0.0 or :: (RFC 3376 §4.2.13, RFC 3590 §4). All groups
  /// are reported again with the first address, because routers ignore MLD from ::.
  void set_address(const std::optional<wire::IpAddr>& address, TimePoint now);
  /// All groups are reported again when the link comes up, and queriers are forgotten.
  void set_up(bool up, TimePoint now);

  /// Queries may be forged: each is answered after a tenth of a second at least, and those beyond 100
  /// a second, or 10 general ones, are ignored.
  void on_query(const wire::MembershipQuery& query, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// The oldest version of the link's queriers: the compatibility mode of this host.
  [[nodiscard]] wire::MembershipVersion version(TimePoint now) const;
  [[nodiscard]] const ReporterCounters& counters() const { return counters_; }

  /// False for all-systems and all-nodes, and for IPv6 scopes 0 and 1.
  /// Source: RFC 3376 §6, RFC 3810 §6.
  [[nodiscard]] static bool is_reported(const wire::IpAddr& group);

 private:
  using Sources = std::vector<wire::IpAddr>;
  struct Entry {
    GroupFilter filter{};
    // Changes that must still be sent so many times.
    unsigned mode_left = 0;
    std::map<wire::IpAddr, unsigned> sources_left{};
    // The answer to queries about the group.
    std::optional<TimePoint> answer_at{};
    std::set<wire::IpAddr> asked{};  ///< Sources in question; none: the whole group.

    [[nodiscard]] bool changed() const { return mode_left != 0 || !sources_left.empty(); }
  };
  using Groups = std::map<wire::IpAddr, Entry>;

  void note_querier(const wire::MembershipQuery& query, TimePoint now);
  void follow_version(TimePoint now);
  void cancel_all();
  void report_all_again(TimePoint now);
  void answer_later(const wire::IpAddr& group, Entry& entry, const wire::MembershipQuery& query,
                    TimePoint now);
  void schedule(const wire::IpAddr& group, Entry& entry, std::optional<TimePoint> when);
  void send_changes(TimePoint now);
  void add_changes(const wire::IpAddr& group, Entry& entry,
                   std::vector<wire::MembershipRecord>& records) const;
  void send_old_change(const wire::IpAddr& group, Entry& entry);
  void send_state();
  void answer(const wire::IpAddr& group, Entry& entry);
  void send_records(std::vector<wire::MembershipRecord> records);
  void send_old_report(const wire::IpAddr& group, bool leave);
  void send_packet(const wire::MembershipReport& report);
  [[nodiscard]] Duration up_to(Duration max);
  /// Returns the delay of an answer, at random.
  [[nodiscard]] Duration delay(Duration max_response);

  const table::InterfaceId iface_;
  const IpFamily family_;
  MulticastSender& sender_;
  std::mt19937_64 random_;
  std::optional<wire::IpAddr> address_;
  bool up_ = false;

  Groups groups_;
  std::optional<TimePoint> change_at_;   ///< Time of the next report of changes.
  std::optional<TimePoint> general_at_;  ///< Time of the answer to a general query.
  std::set<std::pair<TimePoint, wire::IpAddr>> answers_;  ///< Entry::answer_at of all groups.

  // The link's queriers.
  unsigned robustness_ = 2;
  Duration query_interval_ = std::chrono::seconds(125);
  wire::MembershipVersion version_ =
      wire::MembershipVersion::kV3;  ///< version() of the last event.
  TimePoint v1_until_ = TimePoint::min();
  TimePoint v2_until_ = TimePoint::min();
  RateLimiter queries_{std::chrono::milliseconds(10), 100};
  RateLimiter general_queries_{std::chrono::milliseconds(100), 10};
  ReporterCounters counters_;
};

}  // namespace ipoib::route
