// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/multicast_membership.h"

#include <algorithm>
#include <utility>

#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"

namespace ipoib::route {

using wire::IpAddr;
using wire::MembershipQuery;
using wire::MembershipRecord;
using wire::MembershipReport;
using wire::MembershipVersion;
using wire::RecordType;

namespace {

constexpr TimePoint kForever = MulticastGroup::kForever;
/// Least time between two answers to queries of other routers; less than their kListenStep.
constexpr Duration kAssertInterval = MulticastMembership::kListenStep * 4 / 5;

MembershipConfig bounded(MembershipConfig c, IpFamily family) {
  if (family == IpFamily::kIpv6)
    c.version = std::max(c.mld_version.value_or(c.version), MembershipVersion::kV2);
  c.robustness = std::clamp(c.robustness, 1U, 7U);
  c.max_sources = std::min(c.max_sources, wire::kMaxQuerySources);
  return c;
}

/// Empty if the header is truncated, which the parser counts.
std::optional<IpAddr> source_of(std::span<const std::byte> packet, IpFamily family) {
  if (family == IpFamily::kIpv6) {
    const auto ip = wire::read<wire::Ipv6Hdr>(packet);
    return ip ? std::optional{ip->src} : std::nullopt;
  }
  const auto ip = wire::read<wire::Ipv4Hdr>(packet);
  return ip ? std::optional{IpAddr::v4(ip->src.host())} : std::nullopt;
}

}  // namespace

MulticastMembership::MulticastMembership(table::InterfaceId iface, IpFamily family,
                                         const MembershipConfig& config, MembershipSink& sink)
    : iface_{iface},
      family_{family},
      config_{bounded(config, family)},
      sink_{sink},
      robustness_{config_.robustness},
      query_interval_{config_.query_interval} {}

Duration MulticastMembership::membership_interval() const {
  return query_interval_ * robustness_ + config_.query_response_interval;
}

Duration MulticastMembership::last_member_time() const {
  return config_.last_member_query_interval * robustness_;
}

GroupTimes MulticastMembership::times() const {
  return {membership_interval(), config_.max_sources};
}

/// Duplicate address detection of IPv6 may take as long as kListenTime. Until then this router cannot
/// ask, and would miss a querier that is silent between its queries.
void MulticastMembership::start(TimePoint now) {
  listen(now, 2 * kListenTime, Forwarder::kUnknown);
  note_forwarder(now);
}

void MulticastMembership::set_address(const std::optional<IpAddr>& address, TimePoint now) {
  const bool had = address_.has_value();
  address_ = address;
  if (!address_) {
    general_at_.reset();
    for (auto& [group, entry] : groups_) entry.pending = {};
  } else if (!had) {
    start_queries(now);
  }
  note_forwarder(now);
}

Forwarder MulticastMembership::forwarder() const {
  if (config_.forwarder == ForwarderRule::kAlways) return Forwarder::kAlways;
  if (other_querier_) return Forwarder::kOther;
  return listen_until_ ? meanwhile_ : Forwarder::kThis;
}

/// Routers that start at the same moment, or that miss the querier at the same moment, would forward
/// side by side until they hear each other. Version 1 has no election, so that nothing is heard.
void MulticastMembership::listen(TimePoint now, Duration time, Forwarder meanwhile) {
  if (config_.version == MembershipVersion::kV1 || config_.forwarder == ForwarderRule::kAlways)
    return;
  listen_until_ = now + time;
  meanwhile_ = meanwhile;
}

void MulticastMembership::end_listening(TimePoint now) {
  if (!listen_until_ || *listen_until_ > now) return;
  listen_until_.reset();
  note_forwarder(now);
}

void MulticastMembership::note_forwarder(TimePoint now) {
  const Forwarder next = forwarder();
  if (std::exchange(noted_, next) != next) sink_.on_forwarder_change(iface_, family_, next, now);
}

/// A querier that is missed counts as there until this router takes its place: a stranger that poses
/// as the querier of one link, and falls silent, must not stop what this node forwards to others. A
/// router that forwarded without an address, because it heard no querier, goes on while it listens.
void MulticastMembership::start_queries(TimePoint now) {
  listen(now, kListenTime, forwarder());
  other_querier_.reset();
  robustness_ = config_.robustness;
  query_interval_ = config_.query_interval;
  startup_left_ = robustness_;
  send_general_query(now);
}

void MulticastMembership::stop(TimePoint now) {
  other_querier_.reset();
  listen_until_.reset();
  set_address(std::nullopt, now);
  const Groups gone = std::move(groups_);
  groups_.clear();
  started_.clear();
  due_.clear();
  for (const auto& [group, entry] : gone)
    if (!entry.reported.nothing()) sink_.on_filter_change(iface_, group, {}, now);
}

wire::ParsedMembership MulticastMembership::parse(std::span<const std::byte> packet) const {
  return family_ == IpFamily::kIpv4 ? wire::parse_igmp(packet) : wire::parse_mld(packet);
}

void MulticastMembership::on_packet(std::span<const std::byte> packet, TimePoint now) {
  tick(now);
  // Before the message is parsed, because that costs time for each record too.
  const auto from = source_of(packet, family_);
  const bool known = from && (started_.contains(*from) || from == other_querier_);
  if (from && !budget_.has_room(*from, known, now)) {
    ++counters_.over_budget;
    return;
  }
  const auto parsed = parse(packet);
  if (!parsed) {
    ++counters_.faults[static_cast<std::size_t>(parsed.error())];
    return;
  }
  if (address_ && parsed->src == *address_) return;
  budget_.take(parsed->src, parsed->message);
  if (const auto* query = std::get_if<MembershipQuery>(&parsed->message)) {
    ++counters_.queries_received;
    on_query(parsed->src, *query, now);
    return;
  }
  const auto& report = std::get<MembershipReport>(parsed->message);
  ++counters_.reports_received;
  counters_.unknown_records += report.unknown_records;
  if (report.version > config_.version) {
    ++counters_.version_mismatch;  // RFC 3376 §7.3.1: hosts fall back when they hear our queries.
    return;
  }
  for (const MembershipRecord& record : report.records)
    on_record(parsed->src, report.version, record, now);
}

void MulticastMembership::on_query(const IpAddr& from, const MembershipQuery& query,
                                   TimePoint now) {
  if (query.version != config_.version) ++counters_.version_mismatch;
  // Version 1 has no election (RFC 2236 §4). 0.0.0.0 is a snooping switch, which is not a router.
  if (query.version == MembershipVersion::kV1 || wire::is_any_address(from)) return;
  elect(from, query, now);
  if (other_querier_ == from && !query.suppress) lower_timers(query, now);
}

/// A router that starts beside this one would take itself for the querier until the next general
/// query. The query that it hears at once ends that.
void MulticastMembership::assert_role(TimePoint now) {
  if (!querier() || now < assert_after_) return;
  assert_after_ = now + kAssertInterval;
  general_at_ = now;
}

void MulticastMembership::elect(const IpAddr& from, const MembershipQuery& query, TimePoint now) {
  if (address_ && from >= *address_) return assert_role(now);
  if (other_querier_ && from > *other_querier_) return;
  other_querier_ = from;
  queried_at_ = now;
  robustness_ = query.robustness != 0 ? query.robustness : config_.robustness;
  query_interval_ = config_.query_interval;
  if (query.interval.count() != 0)
    query_interval_ = std::min<Duration>(query.interval,
                                         std::max(config_.query_interval, kLongestAdoptedInterval));
  other_until_ = now + query_interval_ * robustness_ + config_.query_response_interval / 2;
  general_at_.reset();
  listen_until_.reset();
  for (auto it = groups_.begin(); it != groups_.end(); ++it) it->second.pending = {};
  note_forwarder(now);
}

/// The querier gives up groups and sources unless a host answers, and so does this router
/// (RFC 3376 §6.6.1).
void MulticastMembership::lower_timers(const MembershipQuery& query, TimePoint now) {
  const auto it = groups_.find(query.group);
  if (it == groups_.end()) return;
  const TimePoint when = now + Duration{query.max_response} * robustness_;
  if (query.sources.empty()) it->second.state.lower_group(when);
  for (const IpAddr& s : query.sources) it->second.state.lower_source(s, when);
  update_entry(it, now);
}

/// False for an IPv4-mapped address in an MLD message, which would be taken for an IPv4 address.
bool MulticastMembership::is_own_family(const IpAddr& addr) const {
  return addr.is_v4() == (family_ == IpFamily::kIpv4);
}

bool MulticastMembership::believable(MembershipVersion version, const MembershipRecord& record) {
  if (!is_own_family(record.group) || !wire::is_multicast(record.group)) {
    ++counters_.not_a_group;
    return false;
  }
  if (wire::is_link_scope_group(record.group)) {
    ++counters_.link_scope;
    return false;
  }
  const bool all_sources = version != MembershipVersion::kV3 ||
                           record.type == RecordType::kIsExclude ||
                           record.type == RecordType::kToExclude;
  if (all_sources && wire::is_source_specific_group(record.group)) {  // RFC 4604 §2.2.2
    ++counters_.source_specific;
    return false;
  }
  return true;
}

MulticastMembership::Groups::iterator MulticastMembership::start_group(const IpAddr& group,
                                                                       const IpAddr& from) {
  if (groups_.size() >= config_.max_groups) {
    ++counters_.groups_refused;
    return groups_.end();
  }
  std::size_t& started = started_[from];
  if (started >= config_.max_host_groups) {
    ++counters_.host_groups_refused;
    return groups_.end();
  }
  ++started;
  return groups_.emplace(group, Entry{.starter = from}).first;
}

void MulticastMembership::end_group(Groups::iterator it) {
  const auto starter = started_.find(it->second.starter);
  if (--starter->second == 0) started_.erase(starter);
  groups_.erase(it);
}

void MulticastMembership::on_record(const IpAddr& from, MembershipVersion version,
                                    const MembershipRecord& record, TimePoint now) {
  if (!believable(version, record)) return;
  std::vector<IpAddr> sources;
  for (const IpAddr& s : record.sources) {
    if (!is_own_family(s) || wire::is_multicast(s) || wire::is_any_address(s))
      ++counters_.bad_sources;
    else
      sources.push_back(s);
  }
  auto it = groups_.find(record.group);
  if (it == groups_.end()) {
    const bool leaves = record.type == RecordType::kBlock ||
                        (sources.empty() && record.type != RecordType::kIsExclude &&
                         record.type != RecordType::kToExclude);
    if (leaves) return;
    it = start_group(record.group, from);
    if (it == groups_.end()) return;
  }
  ++counters_.records;
  GroupQueries queries;
  counters_.sources_refused +=
      it->second.state.apply(version, record.type, sources, times(), now, queries);
  if (querier()) ask(it->second, queries, now);
  update_entry(it, now);
}

/// Queries that are already being retransmitted also answer new doubts, so a group is queried once
/// per interval, however often hosts change their mind.
void MulticastMembership::ask(Entry& entry, const GroupQueries& queries, TimePoint now) {
  if (!queries.group && queries.sources.empty()) return;
  Pending& p = entry.pending;
  if (p.none()) p.at = now;
  if (queries.group) {
    p.group_left = robustness_;
    p.lower_group = true;
  }
  const bool by_source = config_.version == MembershipVersion::kV3;
  for (const IpAddr& s : queries.sources) {
    if (!by_source) break;
    p.sources_left[s] = robustness_;
    p.lower_sources.insert(s);
  }
  if (p.none()) p.at = kForever;
}

void MulticastMembership::update_entry(Groups::iterator it, TimePoint now) {
  const IpAddr group = it->first;
  Entry& entry = it->second;
  if (entry.pending.at <= now) send_pending(group, entry, now);
  entry.state.expire(now);
  GroupFilter filter = entry.state.filter();
  const bool changed = filter != entry.reported;
  const TimePoint next =
      entry.state.empty() ? kForever : std::min(entry.state.next_expiry(), entry.pending.at);
  if (next != entry.due) {
    if (entry.due != kForever) due_.erase({entry.due, group});
    if (next != kForever) due_.emplace(next, group);
    entry.due = next;
  }
  if (changed) entry.reported = filter;
  if (entry.state.empty()) end_group(it);
  if (changed) sink_.on_filter_change(iface_, group, filter, now);
}

void MulticastMembership::tick(TimePoint now) {
  end_listening(now);
  if (other_querier_ && other_until_ <= now) {
    if (address_)
      start_queries(now);
    else
      other_querier_.reset();
    note_forwarder(now);
  }
  if (general_at_ && *general_at_ <= now) send_general_query(now);
  while (!due_.empty() && due_.begin()->first <= now)
    update_entry(groups_.find(due_.begin()->second), now);
}

std::optional<TimePoint> MulticastMembership::next_deadline() const {
  std::optional<TimePoint> next = general_at_;
  if (other_querier_) next = earlier(next, other_until_);
  if (listen_until_) next = earlier(next, *listen_until_);
  if (!due_.empty()) next = earlier(next, due_.begin()->first);
  return next;
}

QuerierState MulticastMembership::querier_state(TimePoint now) const {
  QuerierState state{other_querier_ ? other_querier_ : address_, other_querier_.has_value(),
                     forwarder()};
  if (listen_until_ && state.forwarder == Forwarder::kOther) state.forwarder = Forwarder::kUnknown;
  if (state.querier) state.age = now - queried_at_;
  return state;
}

std::vector<MembershipInfo> MulticastMembership::groups(TimePoint now) const {
  std::vector<MembershipInfo> rows;
  rows.reserve(groups_.size());
  for (const auto& [group, entry] : groups_)
    rows.push_back({group, entry.reported, entry.state.version(now),
                    std::max(entry.state.next_expiry() - now, Duration{})});
  return rows;
}

}  // namespace ipoib::route
