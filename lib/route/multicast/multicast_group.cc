// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/multicast_group.h"

#include <algorithm>
#include <set>

namespace ipoib::route {

using wire::IpAddr;
using wire::MembershipVersion;
using wire::RecordType;

bool GroupFilter::matches(const IpAddr& source) const {
  return std::ranges::binary_search(sources, source) != exclude;
}

std::size_t MulticastGroup::apply(MembershipVersion version, RecordType type,
                                  const std::vector<IpAddr>& sources, const GroupTimes& times,
                                  TimePoint now, GroupQueries& queries) {
  times_ = times;
  refused_ = 0;
  const bool joins = type == RecordType::kIsExclude || type == RecordType::kToExclude;
  if (joins && version == MembershipVersion::kV1) v1_until_ = now + times.membership;
  if (joins && version == MembershipVersion::kV2) v2_until_ = now + times.membership;
  // RFC 3376 §7.3.2: requests that hosts of older versions cannot overrule are ignored.
  const MembershipVersion mode = this->version(now);
  const bool all_sources = mode != MembershipVersion::kV3;
  switch (type) {
    case RecordType::kIsInclude:
    case RecordType::kAllow: allow(sources, now); break;
    case RecordType::kIsExclude: to_exclude(sources, false, now, queries); break;
    case RecordType::kToExclude:
      to_exclude(all_sources ? Sources{} : sources, true, now, queries);
      break;
    case RecordType::kToInclude:
      if (mode != MembershipVersion::kV1) to_include(sources, now, queries);
      break;
    case RecordType::kBlock:
      if (!all_sources) block(sources, queries);
      break;
  }
  return refused_;
}

void MulticastGroup::set(const IpAddr& source, TimePoint expires) {
  const auto it = sources_.find(source);
  if (it != sources_.end())
    it->second = expires;
  else if (sources_.size() < times_.max_sources)
    sources_.emplace(source, expires);
  else
    ++refused_;
}

// The comments name the row of the tables in RFC 3376 §6.4: A, X wanted; Y excluded; B reported.

void MulticastGroup::allow(const Sources& sources, TimePoint now) {
  for (const IpAddr& s : sources) set(s, now + times_.membership);
}

/// IS_EX and TO_EX.
void MulticastGroup::to_exclude(const Sources& sources, bool change, TimePoint now,
                                GroupQueries& queries) {
  const std::set<IpAddr> reported{sources.begin(), sources.end()};
  std::erase_if(sources_, [&](const auto& s) { return !reported.contains(s.first); });
  const bool was_exclude = exclude_;
  const TimePoint old_timer = timer_;
  exclude_ = true;
  timer_ = now + times_.membership;
  for (const IpAddr& s : reported) {
    // INCLUDE (A): B-A are excluded at once. EXCLUDE (X,Y): B-X-Y are wanted until they time out.
    if (!sources_.contains(s)) set(s, !was_exclude ? kZero : change ? old_timer : timer_);
    if (change && wanted(s)) queries.sources.push_back(s);  // A*B, B-Y
  }
}

/// TO_IN.
void MulticastGroup::to_include(const Sources& sources, TimePoint now, GroupQueries& queries) {
  const std::set<IpAddr> reported{sources.begin(), sources.end()};
  for (const auto& [s, expires] : sources_)
    if (expires != kZero && !reported.contains(s)) queries.sources.push_back(s);  // A-B, X-B
  queries.group = exclude_;
  allow(sources, now);
}

void MulticastGroup::block(const Sources& sources, GroupQueries& queries) {
  for (const IpAddr& s : sources) {
    if (exclude_ && !sources_.contains(s)) set(s, timer_);  // B-X-Y
    if (wanted(s)) queries.sources.push_back(s);            // A*B, B-Y
  }
}

void MulticastGroup::lower_group(TimePoint when) {
  timer_ = std::min(timer_, when);
}

bool MulticastGroup::lower_source(const IpAddr& source, TimePoint when) {
  if (!source_later(source, when)) return false;
  sources_[source] = when;
  return true;
}

bool MulticastGroup::source_later(const IpAddr& source, TimePoint when) const {
  const auto it = sources_.find(source);
  return it != sources_.end() && it->second > when;
}

bool MulticastGroup::wanted(const IpAddr& source) const {
  const auto it = sources_.find(source);
  return it != sources_.end() && it->second != kZero;
}

void MulticastGroup::expire(TimePoint now) {
  for (auto it = sources_.begin(); it != sources_.end();) {
    if (it->second == kZero || it->second > now)
      ++it;
    else if (exclude_ && timer_ > now)
      it++->second = kZero;  // Not wanted any more: from X to Y.
    else
      it = sources_.erase(it);
  }
  if (!exclude_ || timer_ > now) return;
  exclude_ = false;  // INCLUDE mode with the sources that hosts still name.
  std::erase_if(sources_, [](const auto& s) { return s.second == kZero; });
}

TimePoint MulticastGroup::next_expiry() const {
  TimePoint next = exclude_ ? timer_ : kForever;
  for (const auto& [s, expires] : sources_)
    if (expires != kZero) next = std::min(next, expires);
  return next;
}

GroupFilter MulticastGroup::filter() const {
  GroupFilter filter{exclude_};
  for (const auto& [s, expires] : sources_)
    if ((expires == kZero) == exclude_) filter.sources.push_back(s);
  return filter;
}

MembershipVersion MulticastGroup::version(TimePoint now) const {
  if (v1_until_ > now) return MembershipVersion::kV1;
  return v2_until_ > now ? MembershipVersion::kV2 : MembershipVersion::kV3;
}

}  // namespace ipoib::route
