// SPDX-License-Identifier: BSD-3-Clause
// Membership of the hosts of one link in one group, as a multicast router keeps it: filter mode,
// sources and their timers. Source: RFC 3376 §6.2-6.4, §7.3.2; RFC 3810 §7.2-7.4, §8.3.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::route {

/// Sources of a group that a link wants.
struct GroupFilter {
  /// true: all sources except `sources`; false: only `sources`.
  bool exclude = false;
  std::vector<wire::IpAddr> sources{};  ///< Ascending.

  [[nodiscard]] bool nothing() const { return !exclude && sources.empty(); }
  [[nodiscard]] bool matches(const wire::IpAddr& source) const;
  friend bool operator==(const GroupFilter&, const GroupFilter&) = default;
};

/// Times and bounds of the link, from its querier.
struct GroupTimes {
  Duration membership{};  ///< Group Membership Interval, Older Host Present Interval.
  std::size_t max_sources = wire::kMaxQuerySources;
};

/// Queries that a record calls for. The querier sends them, other routers ignore them.
struct GroupQueries {
  bool group = false;
  std::vector<wire::IpAddr> sources{};
};

class MulticastGroup {
 public:
  /// Applies one record. `queries`: queries that the querier must send before it gives anything up.
  /// Returns the number of sources for which there was no room.
  std::size_t apply(wire::MembershipVersion version, wire::RecordType type,
                    const std::vector<wire::IpAddr>& sources, const GroupTimes& times,
                    TimePoint now, GroupQueries& queries);

  /// Lowers the group's timer to `when` if it is later.
  void lower_group(TimePoint when);
  /// Lowers the source's timer to `when`. False: it is not later, or the source is not wanted.
  bool lower_source(const wire::IpAddr& source, TimePoint when);

  /// True if the timer is later than `when`; false without a timer.
  [[nodiscard]] bool group_later(TimePoint when) const { return exclude_ && timer_ > when; }
  [[nodiscard]] bool source_later(const wire::IpAddr& source, TimePoint when) const;
  [[nodiscard]] bool wanted(const wire::IpAddr& source) const;

  /// Removes state that has timed out.
  void expire(TimePoint now);
  /// The earliest timer; kForever if there is none.
  [[nodiscard]] TimePoint next_expiry() const;

  [[nodiscard]] GroupFilter filter() const;
  /// True if nothing is wanted any more.
  [[nodiscard]] bool empty() const { return !exclude_ && sources_.empty(); }
  /// The oldest version that its hosts speak: the group's compatibility mode.
  [[nodiscard]] wire::MembershipVersion version(TimePoint now) const;
  [[nodiscard]] std::size_t source_count() const { return sources_.size(); }

  static constexpr TimePoint kForever = TimePoint::max();

 private:
  /// Timer of an excluded source: zero.
  static constexpr TimePoint kZero = TimePoint::min();
  using Sources = std::vector<wire::IpAddr>;

  void set(const wire::IpAddr& source, TimePoint expires);
  void to_exclude(const Sources& sources, bool change, TimePoint now, GroupQueries& queries);
  void to_include(const Sources& sources, TimePoint now, GroupQueries& queries);
  void allow(const Sources& sources, TimePoint now);
  void block(const Sources& sources, GroupQueries& queries);

  bool exclude_ = false;
  TimePoint timer_ = kZero;  ///< Group timer; meaningful while exclude_.
  std::map<wire::IpAddr, TimePoint> sources_;
  TimePoint v1_until_ = kZero;
  TimePoint v2_until_ = kZero;
  // State of the call in progress.
  GroupTimes times_;
  std::size_t refused_ = 0;
};

}  // namespace ipoib::route
