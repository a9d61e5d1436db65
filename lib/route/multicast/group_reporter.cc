// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/group_reporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/wire/icmpv6.h"
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

/// Longest time until a change is reported again. Source: RFC 3376 §8.11, RFC 3810 §9.11.
constexpr Duration kUnsolicitedInterval = std::chrono::seconds(1);
/// Answers to queries of version 1, which name no time. Source: RFC 3376 §8.3.
constexpr Duration kResponseInterval = std::chrono::seconds(10);
/// Shortest delay of an answer, for queries that demand none.
constexpr Duration kMinDelay = std::chrono::milliseconds(100);
/// Octets of the records in one packet, so that IPv4 packets fit 576 octets and IPv6 packets 1,280.
constexpr std::size_t kMaxRecords4 = 536;
constexpr std::size_t kMaxRecords6 = 1'200;

std::size_t size_of(const MembershipRecord& record, IpFamily family) {
  return family == IpFamily::kIpv4
             ? sizeof(wire::MembershipRecordHdr<wire::Be32>) + 4 * record.sources.size()
             : sizeof(wire::MembershipRecordHdr<IpAddr>) + sizeof(IpAddr) * record.sources.size();
}

/// Adds a record, in parts if it has too many sources for one packet. Source: RFC 3376 §4.2.16.
void add_record(std::vector<MembershipRecord>& records, RecordType type, const IpAddr& group,
                const std::vector<IpAddr>& sources) {
  std::size_t first = 0;
  do {
    const std::size_t n = std::min(sources.size() - first, wire::kMaxQuerySources);
    const auto begin = sources.begin() + static_cast<std::ptrdiff_t>(first);
    records.push_back({type, group, {begin, begin + static_cast<std::ptrdiff_t>(n)}});
    first += n;
  } while (first < sources.size());
}

}  // namespace

GroupReporter::GroupReporter(table::InterfaceId iface, IpFamily family, std::uint64_t seed,
                             MulticastSender& sender)
    : iface_{iface}, family_{family}, sender_{sender}, random_{seed} {}

bool GroupReporter::is_reported(const IpAddr& group) {
  if (!wire::is_multicast(group)) return false;
  if (group.is_v4()) return group != wire::kIgmpAllSystems;
  return group != wire::all_nodes() && (group.bytes[1] & std::byte{0x0f}) >= std::byte{2};
}

Duration GroupReporter::up_to(Duration max) {
  return Duration{std::uniform_int_distribution<Duration::rep>{
      0, std::max<Duration::rep>(max.count(), 0)}(random_)};
}

Duration GroupReporter::delay(Duration max_response) {
  return std::max<Duration>(up_to(max_response), kMinDelay);
}

// --- This node's groups ---

/// Source: RFC 3376 §5.1.
void GroupReporter::set_filter(const IpAddr& group, const GroupFilter& filter, TimePoint now) {
  if (!is_reported(group) || group.is_v4() != (family_ == IpFamily::kIpv4)) return;
  auto it = groups_.find(group);
  if (it == groups_.end()) {
    if (filter.nothing()) return;
    it = groups_.emplace(group, Entry{}).first;
  }
  Entry& entry = it->second;
  const GroupFilter old = std::exchange(entry.filter, filter);
  if (old == filter) return;
  if (old.exclude != filter.exclude) {
    entry.mode_left = robustness_;
  } else {
    Sources changed;
    std::ranges::set_symmetric_difference(old.sources, filter.sources, std::back_inserter(changed));
    for (const IpAddr& s : changed) entry.sources_left[s] = robustness_;
  }
  if (up_) {
    change_at_ = now;
  } else if (filter.nothing()) {
    groups_.erase(it);
  }
}

void GroupReporter::set_address(const std::optional<IpAddr>& address, TimePoint now) {
  const bool first = address && !address_;
  address_ = address;
  if (first && up_) report_all_again(now);
}

void GroupReporter::set_up(bool up, TimePoint now) {
  if (std::exchange(up_, up) == up) return;
  v1_until_ = v2_until_ = TimePoint::min();
  version_ = MembershipVersion::kV3;
  cancel_all();
  if (up) report_all_again(now);
}

/// Drops everything that is to be sent, and the groups that this node has left.
void GroupReporter::cancel_all() {
  change_at_.reset();
  general_at_.reset();
  answers_.clear();
  for (auto it = groups_.begin(); it != groups_.end();) {
    it->second = Entry{std::move(it->second.filter)};
    it = it->second.filter.nothing() ? groups_.erase(it) : std::next(it);
  }
}

void GroupReporter::report_all_again(TimePoint now) {
  for (auto& [group, entry] : groups_) {
    if (entry.filter.exclude) entry.mode_left = robustness_;
    for (const IpAddr& s : entry.filter.sources) entry.sources_left[s] = robustness_;
  }
  if (!groups_.empty()) change_at_ = now;
}

// --- Queries ---

MembershipVersion GroupReporter::version(TimePoint now) const {
  if (v1_until_ > now) return MembershipVersion::kV1;
  return v2_until_ > now ? MembershipVersion::kV2 : MembershipVersion::kV3;
}

/// Older Version Querier Present Timeout. Source: RFC 3376 §7.2.1, §8.12; RFC 3810 §8.2.1, §9.12.
void GroupReporter::note_querier(const MembershipQuery& query, TimePoint now) {
  const TimePoint until = now + query_interval_ * robustness_ + Duration{query.max_response};
  switch (query.version) {
    case MembershipVersion::kV1: v1_until_ = until; break;
    case MembershipVersion::kV2: v2_until_ = until; break;
    case MembershipVersion::kV3:
      if (query.robustness != 0) robustness_ = query.robustness;
      if (query.interval.count() != 0)
        query_interval_ = std::min<Duration>(query.interval, kLongestAdoptedInterval);
      break;
  }
}

/// A change of mode cancels all that is pending. Changes of before are reported in the new mode.
void GroupReporter::follow_version(TimePoint now) {
  const MembershipVersion version = this->version(now);
  if (std::exchange(version_, version) == version) return;
  const bool changing = change_at_.has_value();
  cancel_all();
  if (changing) report_all_again(now);
}

void GroupReporter::on_query(const MembershipQuery& query, TimePoint now) {
  tick(now);
  ++counters_.queries_heard;
  if (!up_) return;
  const bool general = wire::is_any_address(query.group);
  if (!queries_.allow(now) || (general && !general_queries_.allow(now))) {
    ++counters_.queries_ignored;
    return;
  }
  note_querier(query, now);
  follow_version(now);
  if (!general) {
    const auto it = groups_.find(query.group);
    if (it != groups_.end() && !it->second.filter.nothing())
      answer_later(query.group, it->second, query, now);
  } else if (version_ != MembershipVersion::kV3) {
    for (auto& [group, entry] : groups_) answer_later(group, entry, query, now);
  } else if (!groups_.empty()) {
    const TimePoint when = now + delay(query.max_response);
    general_at_ = general_at_ ? std::min(*general_at_, when) : when;
  }
}

void GroupReporter::schedule(const IpAddr& group, Entry& entry, std::optional<TimePoint> when) {
  if (entry.answer_at) answers_.erase({*entry.answer_at, group});
  if (when) answers_.emplace(*when, group);
  entry.answer_at = when;
}

/// Source: RFC 3376 §5.2 and, for older versions, RFC 2236 §3.
void GroupReporter::answer_later(const IpAddr& group, Entry& entry, const MembershipQuery& query,
                                 TimePoint now) {
  const Duration max =
      version_ == MembershipVersion::kV1 ? kResponseInterval : Duration{query.max_response};
  TimePoint when = now + delay(max);
  if (general_at_ && *general_at_ <= when) return;
  const Sources sources = version_ == MembershipVersion::kV3 ? query.sources : Sources{};
  const bool whole = sources.empty() || (entry.answer_at && entry.asked.empty()) ||
                     entry.asked.size() + sources.size() > wire::kMaxQuerySources;
  if (whole)
    entry.asked.clear();
  else
    entry.asked.insert(sources.begin(), sources.end());
  if (entry.answer_at) when = std::min(*entry.answer_at, when);
  schedule(group, entry, when);
}

// --- Reports ---

void GroupReporter::tick(TimePoint now) {
  if (!up_) return;
  follow_version(now);
  if (change_at_ && *change_at_ <= now) send_changes(now);
  if (general_at_ && *general_at_ <= now) send_state();
  while (!answers_.empty() && answers_.begin()->first <= now) {
    const auto it = groups_.find(answers_.begin()->second);
    answer(it->first, it->second);
  }
}

std::optional<TimePoint> GroupReporter::next_deadline() const {
  const auto next = earlier(change_at_, general_at_);
  return answers_.empty() ? next : earlier(next, answers_.begin()->first);
}

void GroupReporter::send_changes(TimePoint now) {
  std::vector<MembershipRecord> records;
  bool more = false;
  for (auto it = groups_.begin(); it != groups_.end();) {
    Entry& entry = it->second;
    if (entry.changed()) {
      if (version_ == MembershipVersion::kV3)
        add_changes(it->first, entry, records);
      else
        send_old_change(it->first, entry);
    }
    more = more || entry.changed();
    if (entry.filter.nothing()) schedule(it->first, entry, std::nullopt);
    it = entry.filter.nothing() && !entry.changed() ? groups_.erase(it) : std::next(it);
  }
  send_records(std::move(records));
  change_at_.reset();
  // At least one tick lies between two reports.
  if (more) change_at_ = now + std::chrono::milliseconds(1) + up_to(kUnsolicitedInterval);
}

/// Source: RFC 3376 §5.1.
void GroupReporter::add_changes(const IpAddr& group, Entry& entry,
                                std::vector<MembershipRecord>& records) const {
  Sources allowed, blocked;
  for (auto it = entry.sources_left.begin(); it != entry.sources_left.end();) {
    const bool wanted = std::ranges::binary_search(entry.filter.sources, it->first);
    (wanted ? allowed : blocked).push_back(it->first);
    it = --it->second == 0 ? entry.sources_left.erase(it) : std::next(it);
  }
  if (entry.mode_left != 0) {
    --entry.mode_left;
    add_record(records, entry.filter.exclude ? RecordType::kToExclude : RecordType::kToInclude,
               group, entry.filter.sources);
    return;
  }
  if (!allowed.empty()) add_record(records, RecordType::kAllow, group, allowed);
  if (!blocked.empty()) add_record(records, RecordType::kBlock, group, blocked);
}

/// Older versions report groups without sources. A leave is sent once (RFC 2236 §3), and version 1
/// has none.
void GroupReporter::send_old_change(const IpAddr& group, Entry& entry) {
  if (entry.filter.nothing()) {
    entry.mode_left = 0;
    entry.sources_left.clear();
    if (version_ != MembershipVersion::kV1) send_old_report(group, true);
    return;
  }
  if (entry.mode_left != 0) --entry.mode_left;
  for (auto it = entry.sources_left.begin(); it != entry.sources_left.end();)
    it = --it->second == 0 ? entry.sources_left.erase(it) : std::next(it);
  send_old_report(group, false);
}

/// The answer to a general query, which answers all others too.
void GroupReporter::send_state() {
  general_at_.reset();
  std::vector<MembershipRecord> records;
  for (auto& [group, entry] : groups_) {
    schedule(group, entry, std::nullopt);
    entry.asked.clear();
    if (entry.filter.nothing()) continue;
    add_record(records, entry.filter.exclude ? RecordType::kIsExclude : RecordType::kIsInclude,
               group, entry.filter.sources);
  }
  send_records(std::move(records));
}

void GroupReporter::answer(const IpAddr& group, Entry& entry) {
  const std::set<IpAddr> asked = std::exchange(entry.asked, {});
  schedule(group, entry, std::nullopt);
  if (entry.filter.nothing()) return;
  if (version_ != MembershipVersion::kV3) return send_old_report(group, false);
  std::vector<MembershipRecord> records;
  if (asked.empty()) {
    add_record(records, entry.filter.exclude ? RecordType::kIsExclude : RecordType::kIsInclude,
               group, entry.filter.sources);
  } else {
    Sources wanted;
    std::ranges::copy_if(asked, std::back_inserter(wanted),
                         [&](const IpAddr& s) { return entry.filter.matches(s); });
    if (!wanted.empty()) add_record(records, RecordType::kIsInclude, group, wanted);
  }
  send_records(std::move(records));
}

void GroupReporter::send_records(std::vector<MembershipRecord> records) {
  const std::size_t max = family_ == IpFamily::kIpv4 ? kMaxRecords4 : kMaxRecords6;
  MembershipReport report;
  std::size_t size = 0;
  for (MembershipRecord& record : records) {
    const std::size_t more = size_of(record, family_);
    if (!report.records.empty() && size + more > max) {
      send_packet(std::exchange(report, {}));
      size = 0;
    }
    size += more;
    report.records.push_back(std::move(record));
  }
  if (!report.records.empty()) send_packet(report);
}

void GroupReporter::send_old_report(const IpAddr& group, bool leave) {
  send_packet({version_, {{leave ? RecordType::kToInclude : RecordType::kIsExclude, group, {}}}});
}

void GroupReporter::send_packet(const MembershipReport& report) {
  const bool leave = report.version != MembershipVersion::kV3 &&
                     report.records.front().type == RecordType::kToInclude;
  ++(leave ? counters_.leaves_sent : counters_.reports_sent);
  if (family_ == IpFamily::kIpv4)
    sender_.send(iface_, wire::make_igmp(address_.value_or(IpAddr::v4(0)), report));
  else
    sender_.send(iface_, wire::make_mld(address_.value_or(IpAddr{}), report));
}

}  // namespace ipoib::route
