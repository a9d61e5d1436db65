// SPDX-License-Identifier: BSD-3-Clause
// What the hosts of one link want of one group, as a multicast router keeps it: filter mode,
// sources and their timers. Source: RFC 3376 §6.2-6.4, §7.3.2; RFC 3810 §7.2-7.4, §8.3.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/membership.h"

namespace ipoib::route {

/// What a link wants of a group.
struct GroupWish {
  /// true: all sources but `sources`; false: none but `sources`.
  bool exclude = false;
  std::vector<wire::IpAddr> sources{};  ///< Ascending.

  [[nodiscard]] bool nothing() const { return !exclude && sources.empty(); }
  [[nodiscard]] bool wants(const wire::IpAddr& source) const;
  friend bool operator==(const GroupWish&, const GroupWish&) = default;
};

/// Times and bounds of the link, from its querier.
struct GroupTimes {
  Duration membership{};  ///< Group Membership Interval, Older Host Present Interval.
  std::size_t max_sources = wire::kMaxQuerySources;
};

/// Asks that a record leads to: put into queries by the querier, dropped by others.
struct GroupAsks {
  bool group = false;
  std::vector<wire::IpAddr> sources{};
};

class MulticastGroup {
 public:
  /// Takes one record; `asks` is what the querier must ask before anything is given up. Returns how
  /// many sources there was no room for.
  std::size_t apply(wire::MembershipVersion version, wire::RecordType type,
                    const std::vector<wire::IpAddr>& sources, const GroupTimes& times,
                    TimePoint now, GroupAsks& asks);

  /// Lowers the group's timer to `when`, where it is later.
  void lower_group(TimePoint when);
  /// Lowers the source's timer, if it is wanted. False: it was no later than `when`.
  bool lower_source(const wire::IpAddr& source, TimePoint when);

  /// Whether the timer is later than `when`; what has no timer is not.
  [[nodiscard]] bool group_later(TimePoint when) const { return exclude_ && timer_ > when; }
  [[nodiscard]] bool source_later(const wire::IpAddr& source, TimePoint when) const;
  [[nodiscard]] bool wanted(const wire::IpAddr& source) const;

  /// Lets what has timed out go.
  void expire(TimePoint now);
  /// The earliest timer, kForever where there is none.
  [[nodiscard]] TimePoint next_expiry() const;

  [[nodiscard]] GroupWish wish() const;
  /// Nothing is wanted any more.
  [[nodiscard]] bool empty() const { return !exclude_ && sources_.empty(); }
  /// The oldest version that its hosts speak: the group's compatibility mode.
  [[nodiscard]] wire::MembershipVersion version(TimePoint now) const;
  [[nodiscard]] std::size_t source_count() const { return sources_.size(); }

  static constexpr TimePoint kForever = TimePoint::max();

 private:
  /// Timer of a source that is excluded: zero.
  static constexpr TimePoint kZero = TimePoint::min();
  using Sources = std::vector<wire::IpAddr>;

  void set(const wire::IpAddr& source, TimePoint expires);
  void to_exclude(const Sources& sources, bool change, TimePoint now, GroupAsks& asks);
  void to_include(const Sources& sources, TimePoint now, GroupAsks& asks);
  void allow(const Sources& sources, TimePoint now);
  void block(const Sources& sources, GroupAsks& asks);

  bool exclude_ = false;
  TimePoint timer_ = kZero;  ///< Group timer; meaningful while exclude_.
  std::map<wire::IpAddr, TimePoint> sources_;
  TimePoint v1_until_ = kZero;
  TimePoint v2_until_ = kZero;
  // Of the call in progress.
  GroupTimes times_;
  std::size_t refused_ = 0;
};

}  // namespace ipoib::route
