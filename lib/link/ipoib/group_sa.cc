// SPDX-License-Identifier: BSD-3-Clause
// SA requests of a link's groups, and their answers.
#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/group_record.h"
#include "lib/link/ipoib/group_table.h"
#include "lib/link/ipoib/port_sharing.h"
#include "lib/sa/queries.h"
#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

/// Minimum interval of queries for one group.
constexpr Duration kAskInterval = std::chrono::seconds(1);
/// Delay of the next attempt while too many requests are open.
constexpr Duration kTurn = std::chrono::milliseconds(100);

/// Groups that packets alone may have created, and that stay at the SA for another user of the port.
/// Each takes one of the MLIDs of the fabric.
constexpr std::size_t kMaxWithheldCreations = 256;

constexpr std::uint16_t kInvalid = static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid);

/// An SA may lack an MLID for a new group, or memory for a member.
Error error_of(const sa::Failure& failure) {
  const bool exhausted =
      failure.code == Errc::kRefused &&
      failure.status == static_cast<std::uint16_t>(wire::MadStatus::kSaNoResources);
  if (!exhausted) return {Errc::kRefused, sa::describe(failure)};
  return {Errc::kNoResources,
          sa::describe(failure) + ": it has no room for the group, its MLID or the member"};
}

}  // namespace

/// True if one more request may be open; otherwise sets `due` to the time of the next attempt.
bool GroupTable::may_ask(TimePoint& due, TimePoint now) {
  if (queries_ < config_.group.max_queries) return true;
  due = now + jitter_.around(kTurn, 50);
  return false;
}

// --- Queries for groups ---

void GroupTable::ask(Group& g, TimePoint now) {
  if (g.query != sa::kNoTransaction || (g.ask_at != kNever && g.ask_at > now)) return;
  if (g.last_ask != TimePoint::min() && now - g.last_ask < kAskInterval) {
    g.ask_at = g.last_ask + kAskInterval;
    return;
  }
  if (!may_ask(g.ask_at, now)) return;
  if (g.by_data() && !queries_of_data_.allow(now)) {
    g.ask_at = now + jitter_.around(kTurn, 50);
    return;
  }
  g.ask_at = kNever;
  g.last_ask = now;
  ++queries_;
  ++counters_.group_queries;
  g.query = sa_.submit(
      sa::find_group(g.mgid),
      [this, mgid = g.mgid](const sa::Outcome& outcome, TimePoint at) {
        Group* found = find(mgid);
        if (found == nullptr) return;
        found->query = sa::kNoTransaction;
        --queries_;
        on_found(*found, outcome, at);
        advance(*found, at);
      },
      now);
}

void GroupTable::on_found(Group& g, const sa::Outcome& outcome, TimePoint now) {
  if (!outcome && !sa_says_no(outcome.error())) {
    report(g, sa::describe(outcome.error()), now);
    g.ask_backoff =
        std::clamp(g.ask_backoff * 2, config_.group.backoff_min, config_.group.backoff_max);
    g.ask_at = std::max(now, g.last_ask + jitter_.around(g.ask_backoff, kSpread));
    return;
  }
  g.ask_backoff = Duration::zero();
  // The query is older than the membership, whose record is the later one.
  if (g.member()) {
    g.presence = Presence::kPresent;
    return;
  }
  g.presence = Presence::kUnknown;
  if (!outcome) return become_absent(g, config_.group.negative, now);
  const auto record = accept(g, *outcome);
  if (!record) {
    report(g, record.error().what, now);
    return become_absent(g, config_.group.negative, now);
  }
  g.record = *record;
  g.presence = Presence::kPresent;
  for (const auto& [addr, sender] : g.senders) places_.remember(addr, now);
}

void GroupTable::become_absent(Group& g, Duration how_long, TimePoint now) {
  ++counters_.group_absent;
  g.presence = Presence::kAbsent;
  g.record = {};
  g.negative_until = now + jitter_.around(how_long, kSpread);
}

/// Returns the record of an answer if the link can use it. All traffic of the link carries the
/// Q_Key of the broadcast group (RFC 4391 §9.1.2).
Result<wire::McMemberRecord> GroupTable::accept(const Group& g, const sa::Reply& reply) const {
  auto r = read_group(reply, g.mgid, config_.pkey, actions_.port().mtu);
  if (r && r->qkey != broadcast_.qkey)
    return fail(Errc::kUnavailable, "the group has Q_Key 0x{:08x}, the link has 0x{:08x}",
                r->qkey.host(), broadcast_.qkey.host());
  return r;
}

// --- Memberships ---

/// Like may_ask(). Packets to ever new groups create groups at a limited rate.
bool GroupTable::may_join(const Group& g, GroupMembership& m, TimePoint now) {
  if (!may_ask(m.due, now)) return false;
  if (!m.created_by_sending() || m.member() || !g.by_data() || queries_of_data_.allow(now))
    return true;
  m.due = now + jitter_.around(kTurn, 50);
  return false;
}

void GroupTable::step(Group& g, GroupMembership& m, bool wanted, TimePoint now) {
  const bool gone = m.state == GroupMembership::State::kNone;
  if (wanted && !m.wanted && gone) m.due = TimePoint::min();
  m.wanted = wanted;
  if (m.busy()) return;
  if (m.sa_registered && m.port != actions_.port().gid()) leave_former(g, m, now);
  const bool leaves = !wanted || m.leave_first;
  if (leaves && m.sa_registered) withhold_leave(m);
  if (leaves && m.sa_registered) {
    const bool due = !gone || m.due <= now;  // After a failed leave, only at the retry time.
    if (due && may_ask(m.due, now)) request_leave(g, m, now);
  } else if (wanted) {
    if (m.due <= now && may_join(g, m, now)) request_join(g, m, now);
  } else {
    m.state = GroupMembership::State::kNone;
    m.due = TimePoint::min();
    detach_unless_member(g);
  }
}

/// Another user of the port may need the membership, which the SA would end for both of them.
bool GroupTable::withhold_leave(GroupMembership& m) {
  if (!shares_membership(config_, actions_, m.bit)) return false;
  if (m.created_by_sending() && withheld_creations_++ >= kMaxWithheldCreations) return false;
  m.sa_registered = false;
  ++counters_.group_leaves_withheld;
  return true;
}

/// The SA counts the port as a member under a former GID. That membership ends at the SA only: this
/// port stays attached until it joins again. An SA that refuses has forgotten the GID.
void GroupTable::leave_former(Group& g, GroupMembership& m, TimePoint now) {
  if (withhold_leave(m)) return;
  m.sa_registered = false;
  ++counters_.group_leaves_sent;
  sa_.submit(
      sa::leave_group(g.mgid, m.port, config_.pkey, m.bit), [](const auto&, TimePoint) {}, now);
}

void GroupTable::request_join(Group& g, GroupMembership& m, TimePoint now) {
  const bool may_create = m.bit == wire::join_state::kFullMember || m.created_by_sending();
  const auto port = actions_.port().gid();
  ++queries_;
  ++counters_.group_joins_sent;
  m.sa_registered = true;
  m.leave_first = false;
  m.port = port;
  m.began = now;
  if (m.state == GroupMembership::State::kNone) m.state = GroupMembership::State::kJoining;
  m.transaction = sa_.submit(
      may_create && !m.no_attributes ? sa::create_group(g.mgid, port, m.bit, broadcast_)
                                     : sa::join_group(g.mgid, port, config_.pkey, m.bit),
      [this, mgid = g.mgid, which = &m](const sa::Outcome& outcome, TimePoint at) {
        Group* found = find(mgid);
        if (found == nullptr) return;
        which->transaction = sa::kNoTransaction;
        --queries_;
        on_joined(*found, *which, outcome, at);
        advance(*found, at);
      },
      now);
}

void GroupTable::on_joined(Group& g, GroupMembership& m, const sa::Outcome& outcome,
                           TimePoint now) {
  if (!outcome) return on_refused(g, m, outcome.error(), now);
  if (m.leave_first) {  // The link was down since.
    m.due = TimePoint::min();
    return;
  }
  const auto record = accept(g, *outcome);
  if (!record) {
    m.leave_first = record.error().code == Errc::kUnavailable;
    fail_join(g, m, record.error(), !m.leave_first, now);
    return detach_unless_member(g);
  }
  g.record = *record;
  g.presence = Presence::kPresent;
  m.state = GroupMembership::State::kMember;
  if (!stopping_ && (g.full.member() || g.non.member())) {
    if (const auto attached = attach(g); !attached && !is_heard(g))
      return fail_join(g, m, attached.error(), false, now);
  }
  m.backoff = Duration::zero();
  const auto interval = confirmation_interval(config_, actions_, groups_.size());
  m.due = m.port != actions_.port().gid() ? now
          : interval                      ? now + jitter_.around(*interval, kSpread)
                                          : kNever;
  g.reason.clear();
}

/// An SA that is silent or busy may recover soon: a member stays one. An SA that refuses may have
/// granted another copy of the request, so there may be a membership to leave.
void GroupTable::on_refused(Group& g, GroupMembership& m, const sa::Failure& failure,
                            TimePoint now) {
  if (!sa_says_no(failure)) {
    fail_join(g, m, error_of(failure), true, now);
    if (m.exhausted() && m.created_by_sending() && !g.member())
      become_absent(g, config_.group.negative, now);
    return;
  }
  fail_join(g, m, error_of(failure), false, now);
  if (m.bit == wire::join_state::kNonMember) {
    g.routed = false;  // The group does not exist; the next list or report shows its creation.
  } else if (m.bit == wire::join_state::kSendOnlyNonMember) {
    if (!g.member()) become_absent(g, config_.group.negative, now);
  } else {
    // The group may exist with other attributes, or may have been deleted since.
    m.no_attributes = !m.no_attributes && failure.status == kInvalid;
  }
  detach_unless_member(g);
}

/// `stays`: a member stays one.
void GroupTable::fail_join(Group& g, GroupMembership& m, const Error& why, bool stays,
                           TimePoint now) {
  ++counters_.group_joins_failed;
  if (!stays || !m.member()) m.state = GroupMembership::State::kRefused;
  m.no_room = why.code == Errc::kNoResources;
  back_off(m, now);
  report(g, why.what, now);
}

/// Sets the time of the next attempt after a failed one.
void GroupTable::back_off(GroupMembership& m, TimePoint now) {
  m.backoff = std::clamp(m.backoff * 2, config_.group.backoff_min, config_.group.backoff_max);
  m.due = std::max(now, m.began + jitter_.around(m.backoff, kSpread));
}

void GroupTable::request_leave(Group& g, GroupMembership& m, TimePoint now) {
  ++queries_;
  ++counters_.group_leaves_sent;
  m.began = now;
  m.state = GroupMembership::State::kNone;
  detach_unless_member(g);
  m.transaction = sa_.submit(
      sa::leave_group(g.mgid, m.port, config_.pkey, m.bit),
      [this, mgid = g.mgid, which = &m](const sa::Outcome& outcome, TimePoint at) {
        Group* found = find(mgid);
        if (found == nullptr) return;
        which->transaction = sa::kNoTransaction;
        --queries_;
        on_left(*found, *which, outcome, at);
        advance(*found, at);
      },
      now);
}

/// An SA that is silent or busy may still count this port: the leave is repeated. An SA that refuses
/// has no membership to end: it lost it, or its answer to an earlier copy was lost.
void GroupTable::on_left(Group& g, GroupMembership& m, const sa::Outcome& outcome, TimePoint now) {
  m.sa_registered = !outcome && !sa_says_no(outcome.error());
  if (!m.sa_registered) {
    if (!m.wanted) m.backoff = Duration::zero();
    return;
  }
  back_off(m, now);
  ++counters_.group_leaves_failed;
  report(g, "leave: " + sa::describe(outcome.error()), now);
}

// --- The HCA ---

/// Attaches the group to its queue pair. If that fails, a group that is_heard() stays as it is.
Status GroupTable::attach(Group& g) {
  const GroupAttachment wanted{place_of(g), g.record.mlid.host()};
  if (g.attached == wanted) return {};
  // Devices know an attachment by MGID and queue pair, regardless of the MLID. Another queue pair
  // is attached before the former one is detached, so that no packet is lost; some arrive twice.
  if (g.attached && g.attached->queue_pair == wanted.queue_pair) detach(g);
  auto attached = actions_.attach(wanted.queue_pair, g.mgid, wanted.mlid);
  if (!attached && g.attached && !is_heard(g)) {
    detach(g);  // It may occupy the place in the device that is missing.
    attached = actions_.attach(wanted.queue_pair, g.mgid, wanted.mlid);
  }
  if (!attached) return attached;
  detach(g);
  g.attached = wanted;
  return {};
}

bool GroupTable::is_heard(const Group& g) const {
  return g.attached && g.attached->mlid == g.record.mlid.host() &&
         actions_.qpn(g.attached->queue_pair) != 0;
}

template <class... Args>
void GroupTable::log_failure(const wire::Gid& mgid, TimePoint now, fmt::format_string<Args...> why,
                             Args&&... args) {
  if (const auto suppressed = log_limit_.allow(now))
    log(LogArea::kLink, LogLevel::kWarning, "{}: group {}: {} ({} failures suppressed)",
        config_.name, wire::to_string(mgid), fmt::format(why, std::forward<Args>(args)...),
        *suppressed);
}

void GroupTable::begin_to_move() {
  to_move_.clear();
  for (const auto& [mgid, g] : groups_)
    if (g.attached && g.attached->queue_pair != place_of(g)) to_move_.push_back(mgid);
}

bool GroupTable::move(std::size_t max, TimePoint now) {
  for (; max > 0 && !to_move_.empty(); --max) {
    Group* const g = find(to_move_.back());
    to_move_.pop_back();
    if (g == nullptr || !g->attached) continue;
    if (const auto attached = attach(*g); !attached) {
      ++counters_.group_moves_failed;
      log_failure(g->mgid, now, "{}", attached.error().what);
    }
  }
  return !to_move_.empty();
}

void GroupTable::detach(Group& g) {
  if (!g.attached) return;
  actions_.detach(g.attached->queue_pair, g.mgid, g.attached->mlid);
  g.attached.reset();
}

/// Packets of the group arrive for full members and for members that only receive.
void GroupTable::detach_unless_member(Group& g) {
  if (!g.full.member() && !g.non.member()) detach(g);
}

void GroupTable::report(Group& g, const std::string& why, TimePoint now) {
  g.reason = why;
  log_failure(g.mgid, now, "{}", why);
}

/// The table has no room for the group.
void GroupTable::refuse(const wire::Gid& mgid, TimePoint now) {
  ++counters_.group_refused_local;
  log_failure(mgid, now, "all {} places of the link are in use (max-groups = {})", groups_.size(),
              config_.group.max_groups);
}

// --- Multicast router ---

/// Lists all groups of the partition: once, then reports keep the list up to date. It is repeated
/// periodically because a report may be lost.
void GroupTable::list_groups(TimePoint now) {
  list_at_ = kNever;
  if (listing_ != sa::kNoTransaction) return;
  listing_ = sa_.submit(
      sa::list_groups(config_.pkey),
      [this](const sa::Outcome& outcome, TimePoint at) {
        listing_ = sa::kNoTransaction;
        on_listed(outcome, at);
      },
      now);
}

void GroupTable::on_listed(const sa::Outcome& outcome, TimePoint now) {
  if (!outcome) {
    ++counters_.group_lists_failed;
    if (const auto suppressed = log_limit_.allow(now))
      log(LogArea::kLink, LogLevel::kWarning, "{}: cannot query the groups: {}", config_.name,
          sa::describe(outcome.error()));
    list_at_ = now + jitter_.around(list_backoff_, kSpread);
    list_backoff_ = std::min(list_backoff_ * 2, config_.group.backoff_max);
    return;
  }
  list_backoff_ = config_.group.backoff_min;
  if (is_router() && config_.membership_refresh > Duration::zero())
    list_at_ = now + jitter_.around(config_.membership_refresh, kSpread);
  for (std::size_t i = 0; i < outcome->count(); ++i) {
    const auto r = outcome->record<wire::McMemberRecord>(i);
    if (!r || !is_of_link(r->mgid) || !routes(r->mgid)) continue;
    if (find(r->mgid) == nullptr && !make_room(now)) {
      refuse(r->mgid, now);
      continue;
    }
    Group& g = find_or_make(r->mgid, now);
    if (!std::exchange(g.routed, true)) advance(g, now);
  }
}

}  // namespace ipoib::link
