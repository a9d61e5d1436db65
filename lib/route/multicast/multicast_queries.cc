// SPDX-License-Identifier: BSD-3-Clause
// The queries of multicast_membership.h: general, to groups, and to groups and sources.
#include <utility>

#include "lib/route/multicast/multicast_membership.h"
#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"

namespace ipoib::route {

using wire::IpAddr;
using wire::MembershipQuery;
using wire::MembershipVersion;

namespace {

std::chrono::milliseconds in_ms(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d);
}

}  // namespace

void MulticastMembership::send(MembershipQuery query, TimePoint now) {
  query.version = config_.version;
  query.robustness = static_cast<std::uint8_t>(robustness_);
  query.interval = std::chrono::duration_cast<std::chrono::seconds>(query_interval_);
  ++counters_.queries_sent;
  sink_.send(iface_,
             family_ == IpFamily::kIpv4 ? wire::make_igmp(*address_, query)
                                        : wire::make_mld(*address_, query),
             now);
}

/// Start-up queries are sent four times as often. Source: RFC 3376 §8.6, §8.7.
/// The queries of kListenTime are sent in addition.
void MulticastMembership::send_general_query(TimePoint now) {
  MembershipQuery query;
  query.max_response = in_ms(config_.query_response_interval);
  send(std::move(query), now);
  queried_at_ = now;
  if (listen_until_ && now + kListenStep < *listen_until_) {
    general_at_ = now + kListenStep;
    return;
  }
  if (startup_left_ > 0) --startup_left_;
  general_at_ = now + (startup_left_ > 0 ? query_interval_ / 4 : query_interval_);
}

/// Sends the due queries of the group, or delays them when the rate limit of all groups is reached.
void MulticastMembership::send_pending(const IpAddr& group, Entry& entry, TimePoint now) {
  Pending& p = entry.pending;
  if (!query_rate_.allow(now)) {
    ++counters_.queries_delayed;
    p.at = now + std::chrono::milliseconds(100);
    return;
  }
  // A query for the whole group with the S flag does not replace those for sources.
  send_group_query(group, entry, now);
  send_source_queries(group, entry, now);
  p.at = p.none() ? MulticastGroup::kForever : now + config_.last_member_query_interval;
}

/// Source: RFC 3376 §6.6.3.1.
void MulticastMembership::send_group_query(const IpAddr& group, Entry& entry, TimePoint now) {
  Pending& p = entry.pending;
  if (p.group_left == 0) return;
  const TimePoint until = now + last_member_time();
  if (std::exchange(p.lower_group, false)) entry.state.lower_group(until);
  --p.group_left;
  MembershipQuery query;
  query.group = group;
  query.max_response = in_ms(config_.last_member_query_interval);
  query.suppress = entry.state.group_later(until);
  send(std::move(query), now);
}

/// Two queries: one about sources that hosts requested meanwhile, with the S flag, and one about
/// those still in doubt. Source: RFC 3376 §6.6.3.2.
void MulticastMembership::send_source_queries(const IpAddr& group, Entry& entry, TimePoint now) {
  Pending& p = entry.pending;
  const TimePoint until = now + last_member_time();
  for (const IpAddr& s : std::exchange(p.lower_sources, {})) entry.state.lower_source(s, until);
  MembershipQuery doubted;
  MembershipQuery confirmed;
  for (auto it = p.sources_left.begin(); it != p.sources_left.end();) {
    if (entry.state.wanted(it->first))
      (entry.state.source_later(it->first, until) ? confirmed : doubted)
          .sources.push_back(it->first);
    it = --it->second == 0 ? p.sources_left.erase(it) : std::next(it);
  }
  confirmed.suppress = true;
  for (MembershipQuery* query : {&confirmed, &doubted}) {
    if (query->sources.empty()) continue;
    query->group = group;
    query->max_response = in_ms(config_.last_member_query_interval);
    send(std::move(*query), now);
  }
}

}  // namespace ipoib::route
