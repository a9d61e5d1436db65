// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/forwarder_election.h"

#include <algorithm>
#include <iterator>

#include "lib/route/multicast/multicast_membership.h"

namespace ipoib::route {

using table::InterfaceId;
using wire::IpAddr;

static_assert(ForwarderElection::kHandover < MulticastMembership::kListenStep &&
                  ForwarderElection::kSettleTime >=
                      MulticastMembership::kListenTime + MulticastMembership::kListenStep,
              "also if this router misses a query of the new querier");

namespace {

constexpr IpAddr kAllSources{};

constexpr std::uint64_t mask(InterfaceId iface) {
  return std::uint64_t{1} << iface;
}

constexpr std::uint64_t both(const ForwardedGroup& g) {
  return mask(g.in) | mask(g.out);
}

constexpr void mark(std::uint64_t& bits, InterfaceId iface, bool on) {
  bits = on ? bits | mask(iface) : bits & ~mask(iface);
}

}  // namespace

bool ForwarderElection::unknown(const ForwardedGroup& g) const {
  return (family_of(g).unknown & both(g)) != 0;
}

bool ForwarderElection::is_querier(const ForwardedGroup& g) const {
  return (family_of(g).other & mask(g.out)) == 0;
}

/// False if the packets that this node hears do not matter.
bool ForwarderElection::contested(const ForwardedGroup& g) const {
  return (family_of(g).always & both(g)) == 0 && (deaf_ & mask(g.out)) == 0;
}

/// Returns the contest of a source or, if that is all zero, of a group; null: there is none.
template <class Map>
auto* ForwarderElection::find_in(Map& all, const ContestKey& key) {
  const auto it = all.find(key.g);
  using Found = decltype(&it->second.sources.begin()->second);
  if (it == all.end()) return Found{};
  auto& group = it->second;
  if (key.source == kAllSources) return group.all ? &*group.all : Found{};
  const auto own = group.sources.find(key.source);
  return own != group.sources.end() ? &own->second : Found{};
}

const ForwarderElection::Contest* ForwarderElection::find(const ContestKey& key) const {
  return find_in(contests_, key);
}

ForwarderElection::Contest* ForwarderElection::find(const ContestKey& key) {
  return find_in(contests_, key);
}

/// Returns the contest that the packets of the source follow; null: they follow the querier.
const ForwarderElection::Contest* ForwarderElection::deciding(const ForwardedGroup& g,
                                                              const IpAddr& source) const {
  const Contest* const own = find({g, source});
  return own != nullptr || source == kAllSources ? own : find({g, kAllSources});
}

bool ForwarderElection::forwards(const ForwardedGroup& g, const IpAddr& source) const {
  const Family& family = family_of(g);
  if (unknown(g)) return false;
  if ((family.always & both(g)) != 0) return true;
  if ((deaf_ & mask(g.out)) != 0) return (family.other & both(g)) != both(g);
  const Contest* const c = deciding(g, source);
  return c != nullptr ? c->forwards : is_querier(g);
}

bool ForwarderElection::watches(const ForwardedGroup& g, const IpAddr& source) const {
  if (!contested(g)) return false;
  const Contest* const c = deciding(g, source);
  return !forwards(g, source) || (c != nullptr && (c->handover || c->probed));
}

bool ForwarderElection::differs(const ForwardedGroup& g, const IpAddr& source) const {
  return forwards(g, source) != forwards(g, kAllSources) ||
         watches(g, source) != watches(g, kAllSources);
}

std::set<IpAddr> ForwarderElection::sources(const IpAddr& group) const {
  std::set<IpAddr> result;
  for (auto it = contests_.lower_bound({group, 0, 0});
       it != contests_.end() && it->first.group == group; ++it)
    for (const auto& [source, c] : it->second.sources)
      if (differs(it->first, source)) result.insert(source);
  return result;
}

bool ForwarderElection::differs(const IpAddr& group, const IpAddr& source) const {
  for (auto it = contests_.lower_bound({group, 0, 0});
       it != contests_.end() && it->first.group == group; ++it)
    if (it->second.sources.contains(source) && differs(it->first, source)) return true;
  return false;
}

/// Returns the contest, which starts with the present decision; null: no room.
ForwarderElection::Contest* ForwarderElection::contest(const ContestKey& key) {
  if (Contest* const c = find(key)) return c;
  const Contest fresh{.forwards = forwards(key.g, key.source)};
  if (key.source == kAllSources) {
    if (groups_ >= max_contests_) return nullptr;
    ++groups_;
    return &contests_[key.g].all.emplace(fresh);
  }
  const auto group = contests_.find(key.g);
  const bool full = group != contests_.end() && group->second.sources.size() >= kMaxSources;
  if (full || sources_ >= max_contests_) return nullptr;
  ++sources_;
  return &contests_[key.g].sources.emplace(key.source, fresh).first->second;
}

/// Returns the contest of the source or, without room for it, that of its group, and sets `key` to
/// the one; null: no room.
ForwarderElection::Contest* ForwarderElection::contest_of(ContestKey& key) {
  if (Contest* const c = contest(key)) return c;
  key.source = kAllSources;
  Contest* const c = contest(key);
  if (c == nullptr) ++counters_.refused;
  return c;
}

void ForwarderElection::schedule(const ContestKey& key, Contest& c) {
  std::optional<TimePoint> due = c.decision;
  // A report postpones the end of a source when that is due.
  if (!due && key.source != kAllSources) due = c.due ? *c.due : c.latest + kSourceLifetime;
  if (c.due == due) return;
  if (c.due) due_.erase({*c.due, key});
  c.due = due;
  if (due) due_.emplace(*due, key);
}

void ForwarderElection::reset(const ContestKey& key, Contest& c, const Contest& to) {
  const auto due = c.due;
  const TimePoint latest = c.latest;
  c = to;
  c.due = due;
  c.latest = latest;
  schedule(key, c);
}

void ForwarderElection::erase(const ContestKey& key) {
  const auto group = contests_.find(key.g);
  if (group == contests_.end()) return;
  GroupContests& contests = group->second;
  if (key.source == kAllSources && contests.all) {
    if (contests.all->due) due_.erase({*contests.all->due, key});
    contests.all.reset();
    --groups_;
  } else if (const auto own = contests.sources.find(key.source); own != contests.sources.end()) {
    if (own->second.due) due_.erase({*own->second.due, key});
    contests.sources.erase(own);
    --sources_;
  }
  if (!contests.all && contests.sources.empty()) contests_.erase(group);
}

/// Erases all contests of the group.
void ForwarderElection::erase(Contests::iterator it) {
  const auto& group = it->second;
  const auto unschedule = [&](const IpAddr& source, const Contest& c) {
    if (c.due) due_.erase({*c.due, {it->first, source}});
  };
  if (group.all) unschedule(kAllSources, *group.all);
  for (const auto& [source, c] : group.sources) unschedule(source, c);
  groups_ -= group.all ? 1 : 0;
  sources_ -= group.sources.size();
  contests_.erase(it);
}

template <class Predicate>
void ForwarderElection::erase_groups(Predicate predicate) {
  for (auto it = contests_.begin(); it != contests_.end();) {
    const auto group = it++;
    if (predicate(group->first)) erase(group);
  }
}

/// Ends the contests of groups to the interface in which no other router was heard.
void ForwarderElection::forget_waiting(InterfaceId out, bool v4) {
  std::vector<ContestKey> waiting;
  const auto note = [&](const ContestKey& key, const Contest& c) {
    if (!c.forwards && !c.heard) waiting.push_back(key);
  };
  for (const auto& [g, contests] : contests_) {
    if (g.out != out || g.group.is_v4() != v4) continue;
    if (contests.all) note({g, kAllSources}, *contests.all);
    for (const auto& [source, c] : contests.sources) note({g, source}, c);
  }
  for (const ContestKey& key : waiting) erase(key);
}

void ForwarderElection::set_querier(InterfaceId iface, bool v4, Forwarder forwarder,
                                    const std::vector<ForwardedGroup>& forwarded, TimePoint now) {
  Family& family = families_[v4];
  mark(family.other, iface, forwarder == Forwarder::kOther);
  mark(family.unknown, iface, forwarder == Forwarder::kUnknown);
  mark(family.always, iface, forwarder == Forwarder::kAlways);
  const bool restarts = forwarder == Forwarder::kUnknown || forwarder == Forwarder::kAlways;
  std::erase_if(family.outcomes, [&](const auto& outcome) {
    return outcome.first.first == iface || (restarts && outcome.first.second == iface);
  });
  if (restarts)
    erase_groups([&](const ForwardedGroup& g) {
      return g.group.is_v4() == v4 && (g.out == iface || g.in == iface);
    });
  // A new querier stays behind a router that it has heard.
  if (forwarder == Forwarder::kThis) forget_waiting(iface, v4);
  if (forwarder != Forwarder::kOther) return;
  family.settled[iface] = now + kSettleTime;
  for (const ForwardedGroup& g : forwarded) {
    const ContestKey key{g, kAllSources};
    if (!contested(g)) continue;
    if (Contest* const c = contest(key))
      reset(key, *c, {.forwards = true, .handover = true, .decision = now + kHandover});
    else
      ++counters_.refused;
  }
}

void ForwarderElection::set_deaf(InterfaceId iface, bool deaf) {
  mark(deaf_, iface, deaf);
  if (!deaf) return;
  erase_groups([&](const ForwardedGroup& g) { return g.out == iface; });
  for (Family& family : families_)
    std::erase_if(family.outcomes, [&](const auto& o) { return o.first.first == iface; });
}

void ForwarderElection::remove_interface(InterfaceId iface) {
  for (const bool v4 : {false, true}) {
    set_querier(iface, v4, Forwarder::kUnknown, {}, {});
    set_querier(iface, v4, Forwarder::kThis, {}, {});
    families_[v4].settled.erase(iface);
  }
  set_deaf(iface, false);
}

void ForwarderElection::start(const ForwardedGroup& g) {
  const Family& family = family_of(g);
  const auto outcome = family.outcomes.find({g.out, g.in});
  if (outcome == family.outcomes.end() || outcome->second == is_querier(g)) return;
  if (Contest* const c = contest({g, kAllSources}))
    c->forwards = outcome->second;
  else
    ++counters_.refused;
}

void ForwarderElection::forget(const IpAddr& group, InterfaceId out) {
  auto it = contests_.lower_bound({group, out, 0});
  while (it != contests_.end() && it->first.group == group && it->first.out == out) erase(it++);
}

/// True if another router forwards other sources of the group now.
bool ForwarderElection::other_forwards(const ContestKey& key, TimePoint now) const {
  const auto group = contests_.find(key.g);
  return group != contests_.end() &&
         std::ranges::any_of(group->second.sources, [&](const auto& entry) {
           const auto& [source, c] = entry;
           return source != key.source && c.heard && now - *c.heard <= 2 * kReportInterval;
         });
}

/// Takes over the whole group, unless another router forwards other sources of it.
DecisionChange ForwarderElection::take_over(const ContestKey& key, TimePoint now) {
  ++counters_.taken_over;
  const bool alone = key.source != kAllSources && other_forwards(key, now);
  reset(key, *find(key), {.forwards = true});
  if (alone) return DecisionChange::kSource;
  families_[key.g.group.is_v4()].outcomes[{key.g.out, key.g.in}] = true;
  const ContestKey group{key.g, kAllSources};
  if (forwards(key.g, kAllSources)) return DecisionChange::kGroup;
  Contest* const all = contest(group);
  if (all == nullptr) return DecisionChange::kSource;
  reset(group, *all, {.forwards = true, .taken_over_for = key.source});
  return DecisionChange::kGroup;
}

void ForwarderElection::stand_by(const ContestKey& key, Contest& c, TimePoint now) {
  c.latest = now;
  reset(key, c, {.heard = now});
}

/// The group follows the source for which it was taken over a moment ago: the other router has taken it
/// over, too. Sources that were taken over beside it have contests.
DecisionChange ForwarderElection::give_way(const ContestKey& key, Contest& c, TimePoint now) {
  ++counters_.given_way;
  stand_by(key, c, now);
  const ContestKey group{key.g, kAllSources};
  if (key.source != kAllSources) {
    Contest* const all = find(group);
    if (all == nullptr || all->taken_over_for != key.source) return DecisionChange::kSource;
    stand_by(group, *all, now);
  }
  families_[key.g.group.is_v4()].outcomes[{key.g.out, key.g.in}] = false;
  return DecisionChange::kGroup;
}

DecisionChange ForwarderElection::on_packet(const ForwardedGroup& g, const IpAddr& source,
                                            TimePoint now) {
  if (!watches(g, source) || unknown(g)) return DecisionChange::kNone;
  ContestKey key{g, find({g, source}) != nullptr ? source : kAllSources};
  if (Contest* const deciding = find(key); deciding != nullptr && deciding->handover) {
    deciding->used = true;
    return DecisionChange::kNone;
  }
  const auto& settled = family_of(g).settled;
  const auto until = settled.find(g.out);
  if (until != settled.end() && now < until->second) return DecisionChange::kNone;
  key.source = source;
  Contest* const c = contest_of(key);
  if (c == nullptr) return DecisionChange::kNone;
  c->latest = now;
  schedule(key, *c);
  if (c->probed) {
    c->probed = false;
    return DecisionChange::kSource;
  }
  if (c->heard && now - *c->heard <= kReportInterval) return DecisionChange::kNone;
  if (c->unanswered++ == 0) c->unanswered_since = now;
  if (c->heard && c->unanswered < kUnansweredPackets) return DecisionChange::kNone;
  const TimePoint decision = c->unanswered_since + kUnanswered;
  if (now >= decision) return take_over(key, now);
  c->decision = decision;
  schedule(key, *c);
  return DecisionChange::kNone;
}

DecisionChange ForwarderElection::on_evidence(const ForwardedGroup& g, const IpAddr& source,
                                              bool lower, TimePoint now) {
  if (!contested(g)) return DecisionChange::kNone;
  const ContestKey group{g, kAllSources};
  // While this router listens, it hears the one that has the group.
  if (unknown(g))
    if (Contest* const all = contest(group)) stand_by(group, *all, now);
  DecisionChange change = DecisionChange::kNone;
  if (const Contest* const c = deciding(g, source); c != nullptr && c->handover)
    change = give_way(group, *find(group), now);
  ContestKey key{g, source};
  Contest* const c = contest_of(key);
  if (c == nullptr) return change;
  if (!c->forwards) {
    stand_by(key, *c, now);
    return change;
  }
  c->latest = now;
  schedule(key, *c);
  if (c->conflict == 0 || now - c->conflict_last > kConflictPause) {
    c->conflict = 0;
    c->conflict_since = now;
  }
  ++c->conflict;
  c->conflict_last = now;
  const bool alien = c->conflict >= kAlienPackets && now - c->conflict_since >= kAlienTime;
  return lower || alien ? give_way(key, *c, now) : DecisionChange::kNone;
}

/// Without packets, the new querier has not heard this router, and forwards.
DecisionChange ForwarderElection::end_handover(const ContestKey& key, Contest& c) {
  if (c.used)
    reset(key, c, {.forwards = true});
  else
    erase(key);
  return DecisionChange::kGroup;
}

/// Packets that this node forwards are not reported, so a source that only has a contest because this
/// node forwards it needs a report before its contest ends.
DecisionChange ForwarderElection::source_silent(const ContestKey& key, Contest& c, TimePoint now) {
  const bool differs = c.forwards != forwards(key.g, kAllSources);
  if (c.forwards && differs && !c.probed) {
    c.latest = now;
    reset(key, c, {.forwards = true, .probed = true});
  } else {
    if (Contest* const all = find({key.g, kAllSources});
        all != nullptr && all->taken_over_for == key.source)
      all->taken_over_for = {};
    erase(key);
  }
  return differs ? DecisionChange::kSource : DecisionChange::kNone;
}

/// Handles the deadline of a contest, which is the first in due_.
DecisionChange ForwarderElection::expire(const ContestKey& key, TimePoint now) {
  Contest& c = *find(key);
  due_.erase(due_.begin());
  c.due.reset();
  if (c.handover) return end_handover(key, c);
  if (c.decision) return take_over(key, now);
  if (c.latest + kSourceLifetime <= now) return source_silent(key, c, now);
  schedule(key, c);
  return DecisionChange::kNone;
}

ForwarderElection::Changed ForwarderElection::tick(TimePoint now) {
  Changed changed;
  for (unsigned i = 0; i < kChangesAtOnce && !due_.empty() && due_.begin()->first <= now; ++i) {
    const ContestKey key = due_.begin()->second;
    const DecisionChange change = expire(key, now);
    if (change == DecisionChange::kNone) continue;
    const bool group = change == DecisionChange::kGroup;
    changed.emplace(key.g.group, group ? kAllSources : key.source);
  }
  return changed;
}

std::optional<TimePoint> ForwarderElection::next_deadline() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

}  // namespace ipoib::route
