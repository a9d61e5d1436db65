// SPDX-License-Identifier: BSD-3-Clause
// Queries of a path table to the SA: their turns, the choice between a table of several paths and one
// path, and the check and use of the answers.
#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/ipoib/paths/path_table.h"
#include "lib/sa/queries.h"
#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

/// Further queries wait here, not in the SA client, so that those of its other users get through.
constexpr std::size_t kMaxQueries = 256;
/// The open ones among them, so that other queries find a place.
constexpr std::size_t kMaxUnaskedQueries = kMaxQueries / 2;
/// An SA that has answered no queries for tables is asked for one again after this time.
constexpr Duration kTablesAgain = std::chrono::minutes(10);
/// That query is put off by this time if no path is ready for it.
constexpr Duration kTablesPutOff = std::chrono::seconds(10);

/// True for answers about the path or the port: a query for one path would be answered alike.
bool says_about_path(const sa::Failure& failure) {
  if (failure.code != Errc::kRefused) return false;
  const auto status = wire::MadStatus{failure.status};
  return status == wire::MadStatus::kSaNoRecords || status == wire::MadStatus::kSaInvalidGid ||
         status == wire::MadStatus::kSaNoResources;
}

}  // namespace

/// Queries the SA unless a query is open. A new path of which only other hosts have spoken waits for
/// its turn.
void PathTable::query(Path& p, TimePoint now) {
  // A path that only a claim has made expires even if the SA is silent.
  if (!p.unused()) p.expires = kNever;
  if (p.query != sa::kNoTransaction || p.pinned || !operational_) return;
  if (p.asked || p.state != PathState::kPending) return query_now(p, now);
  if (p.unasked == kNever) unasked_.set(p.key, p.unasked, now);
}

/// Queries later if the last query was a moment ago or too many are open.
void PathTable::query_now(Path& p, TimePoint now) {
  const bool soon = p.state == PathState::kReady && now - p.queried_at < kQueryInterval;
  if (soon || queries_ >= (p.asked ? kMaxQueries : kMaxUnaskedQueries)) {
    p.refresh_at =
        soon ? p.queried_at + kQueryInterval : now + jitter_.around(kQueryInterval / 10, 50);
    return;
  }
  p.queried_at = now;
  p.refresh_at = kNever;
  p.single = !wants_table(p, now);
  p.table_failed = false;
  submit(p, now);
}

void PathTable::submit(Path& p, TimePoint now) {
  ++queries_;
  ++counters_.path_queries;
  const wire::Gid own = actions_.port().gid();
  p.query = sa_.submit(
      p.single ? sa::find_path(own, p.key.gid, config_.pkey, tclass_)
               : sa::find_paths(own, p.key.gid, config_.pkey, tclass_,
                                static_cast<std::uint8_t>(config_.paths)),
      [this, key = p.key](const sa::Outcome& outcome, TimePoint at) {
        on_answer(key, outcome, at);
      },
      now);
}

/// True if the query is for a table of several paths. While the SA refuses these, one query tries
/// again from time to time, for a path that works meanwhile.
bool PathTable::wants_table(const Path& p, TimePoint now) {
  if (config_.paths == 1) return false;
  if (!tables_refused_) return true;
  if (now < tables_again_ || p.state != PathState::kReady) return false;
  tables_again_ = now + kTablesAgain;
  return true;
}

/// Queries a path that works when the SA is to be asked for a table again.
void PathTable::retry_tables(TimePoint now) {
  if (!tables_refused_ || now < tables_again_) return;
  const auto at = std::ranges::find_if(paths_, [now](const auto& path) {
    const Path& p = path.second;
    return p.state == PathState::kReady && !p.pinned && !p.unused() &&
           p.query == sa::kNoTransaction && now - p.queried_at >= kQueryInterval;
  });
  if (at != paths_.end()) {
    Path& p = at->second;
    query(p, now);
    schedule(p);
  }
  if (tables_refused_ && tables_again_ <= now) tables_again_ = now + kTablesPutOff;
}

/// True if a query for a table has failed for a reason other than the path itself, so that a query for
/// one path follows. An SA that answers that one has no tables, or does not name them to this node.
bool PathTable::asks_for_one(Path& p, const sa::Outcome& outcome, TimePoint now) {
  if (config_.paths == 1) return false;
  if (p.single) {
    if (p.table_failed && (outcome || says_about_path(outcome.error()))) tables_fail(now);
    return false;
  }
  if (outcome) {
    tables_work(now);
    return false;
  }
  if (outcome.error().code == Errc::kUnavailable || says_about_path(outcome.error())) return false;
  p.single = p.table_failed = true;
  return true;
}

void PathTable::tables_work(TimePoint now) {
  if (!std::exchange(tables_refused_, false)) return;
  tables_again_ = TimePoint::min();
  log(LogArea::kLink, LogLevel::kNotice,
      "{}: the subnet administrator answers queries for several paths again", config_.name);
  refresh_all(now);
}

void PathTable::tables_fail(TimePoint now) {
  tables_again_ = now + kTablesAgain;
  if (std::exchange(tables_refused_, true)) return;
  log(LogArea::kLink, LogLevel::kWarning,
      "{}: the subnet administrator answers no queries for several paths; the link uses one path "
      "to each neighbour, and asks for several again in {} minutes",
      config_.name, std::chrono::duration_cast<std::chrono::minutes>(kTablesAgain).count());
}

/// Queries the paths whose turn has come.
void PathTable::query_unasked(TimePoint now) {
  while (const auto key = unasked_.first()) {
    if (!unasked_limit_.allow(now)) return;
    Path& p = *find(*key);
    unasked_.set(p.key, p.unasked, kNever);
    if (p.state == PathState::kPending && !p.pinned) query_now(p, now);
    schedule(p);
  }
}

void PathTable::cancel_query(Path& p) {
  sa_.cancel(p.query);
  if (std::exchange(p.query, sa::kNoTransaction) != sa::kNoTransaction) --queries_;
}

/// Returns the reason why a record is not usable.
Status PathTable::check(const wire::Gid& gid, const wire::PathRecord& record) const {
  if (record.dgid != gid)
    return ipoib::fail(Errc::kProtocol, "the path of the SA has destination GID {}",
                       wire::to_string(record.dgid));
  if (!wire::is_unicast_lid(record.dlid.host()))
    return ipoib::fail(Errc::kProtocol, "the path of the SA has invalid destination LID 0x{:04x}",
                       record.dlid.host());
  if (const std::uint8_t mtu = wire::value_of(record.mtu); wire::mtu_octets(mtu) == 0)
    return ipoib::fail(Errc::kProtocol, "the path of the SA has invalid MTU code {}", mtu);
  const fabric::PortAttr& port = actions_.port();
  const std::uint16_t slid = record.slid.host();
  if (port.link_layer == fabric::LinkLayer::kInfiniBand && !port.has_lid(slid))
    return ipoib::fail(Errc::kProtocol,
                       "the path of the SA has source LID 0x{:04x}, the port has LID 0x{:04x} with "
                       "LMC {}",
                       slid, port.lid, port.lmc);
  const std::uint16_t pkey = record.pkey.host();
  if (pkey != 0 && !wire::same_partition(pkey, config_.pkey))
    return ipoib::fail(Errc::kProtocol,
                       "the path of the SA has P_Key 0x{:04x}, the link has 0x{:04x}", pkey,
                       config_.pkey);
  return {};
}

/// Returns the usable records of an answer, in its order and as many as the link wants; at least one.
Result<std::vector<wire::PathRecord>> PathTable::accept(const wire::Gid& gid,
                                                        const sa::Reply& reply, TimePoint now) {
  std::vector<wire::PathRecord> records;
  std::size_t refused = 0;
  Status fault = ipoib::fail(Errc::kNotFound, "the SA has none");
  for (std::size_t i = 0; i < reply.count() && records.size() < config_.paths; ++i) {
    const auto record = reply.record<wire::PathRecord>(i);
    if (!record)
      fault = ipoib::fail(Errc::kProtocol, "the PathRecord of the SA is too short");
    else if (auto usable = check(gid, *record); usable)
      records.push_back(*record);
    else
      fault = usable;
    refused = i + 1 - records.size();
  }
  counters_.path_records_refused += refused;
  if (records.empty()) return tl::make_unexpected(fault.error());
  if (refused > 0) log_refused(gid, fault.error().what, now);
  return records;
}

/// The other records of the answer are used.
void PathTable::log_refused(const wire::Gid& gid, const std::string& why, TimePoint now) {
  if (const auto others = records_log_.allow(now))
    log(LogArea::kLink, LogLevel::kWarning,
        "{}: one of several paths to {} is not used: {} ({} more answers since the last line)",
        config_.name, wire::to_string(gid), why, *others);
}

void PathTable::on_answer(const PathKey& key, const sa::Outcome& outcome, TimePoint now) {
  now_ = now;
  Path* p = find(key);
  if (p == nullptr) return;
  p->query = sa::kNoTransaction;
  --queries_;
  if (asks_for_one(*p, outcome, now)) {
    submit(*p, now);
    return schedule(*p);
  }
  p->answered_at = now;
  if (!outcome) {
    on_failure(*p, sa::describe(outcome.error()), now);
  } else if (const auto records = accept(key.gid, *outcome, now); !records) {
    on_failure(*p, records.error().what, now);
  } else if (const auto done = take_over(*p, *records, now); !done) {
    on_failure(*p, done.error().what, now);
  }
  if (p->unused() && p->expires == kNever) let_linger(*p, now);
  if (p->claimed) settled_claims_.set(key, p->settled, now);
  schedule(*p);
}

/// The path is ready with these records, of which there is at least one. Packets fit the smallest MTU
/// and live as long as on the slowest of the ways.
Status PathTable::take_over(Path& p, const std::vector<wire::PathRecord>& records, TimePoint now) {
  std::vector<fabric::AhAttr> attrs;
  std::uint8_t mtu_code = 0xff;
  p.lifetime = 0;
  for (const wire::PathRecord& record : records) {
    const fabric::AhAttr attr = path_attr(record, actions_.port());
    if (std::ranges::find(attrs, attr) == attrs.end()) attrs.push_back(attr);
    mtu_code = std::min(mtu_code, wire::value_of(record.mtu));
    p.lifetime = std::max(p.lifetime, wire::value_of(record.lifetime));
  }
  const std::uint8_t before = p.mtu_code;
  auto done = apply(p, std::move(attrs), mtu_code, now);
  if (done && mtu_code != before) report_small_mtu(p, now);
  return done;
}

/// The MTU of a link should not be above that of a path. Longer packets to this neighbour are
/// fragmented, or refused with the path's MTU. Source: draft-ietf-ipoib-link-multicast-00 §6.1.
void PathTable::report_small_mtu(const Path& p, TimePoint now) {
  const unsigned octets = wire::mtu_octets(p.mtu_code);
  if (octets == 0 || octets - sizeof(wire::IpoibHdr) >= link_mtu_) return;
  if (const auto others = mtu_log_.allow(now))
    log(LogArea::kLink, LogLevel::kNotice,
        "{}: the path to {} carries packets of {} octets, less than the MTU {} of the link "
        "({} more paths before)",
        config_.name, wire::to_string(p.key.gid), octets - sizeof(wire::IpoibHdr), link_mtu_,
        *others);
}

/// The MTU of the link has risen.
void PathTable::report_small_mtus(TimePoint now) {
  for (const auto& [key, p] : paths_)
    if (p.state == PathState::kReady) report_small_mtu(p, now);
}

}  // namespace ipoib::link
