// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/forwarder_election.h"

#include "lib/route/multicast/multicast_membership.h"

namespace ipoib::route {

using table::InterfaceId;
using wire::IpAddr;

static_assert(ForwarderElection::kHandover < MulticastMembership::kListenStep &&
                  ForwarderElection::kSettleTime >=
                      MulticastMembership::kListenTime + MulticastMembership::kListenStep,
              "also if this router misses a query of the new querier");

namespace {

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

bool ForwarderElection::forwards(const ForwardedGroup& g) const {
  const Family& family = family_of(g);
  if (unknown(g)) return false;
  if ((family.always & both(g)) != 0) return true;
  if ((deaf_ & mask(g.out)) != 0) return (family.other & both(g)) != both(g);
  const auto it = contests_.find(g);
  return it != contests_.end() ? it->second.forwards : is_querier(g);
}

bool ForwarderElection::watches(const ForwardedGroup& g) const {
  if (!contested(g)) return false;
  const auto it = contests_.find(g);
  return !forwards(g) || (it != contests_.end() && it->second.handover);
}

/// Returns the contest of the group, which starts with the present decision; null: no room.
ForwarderElection::Contest* ForwarderElection::contest_of(const ForwardedGroup& g) {
  if (const auto it = contests_.find(g); it != contests_.end()) return &it->second;
  if (contests_.size() >= max_contests_) {
    ++counters_.refused;
    return nullptr;
  }
  const bool now_forwards = forwards(g);
  return &contests_.emplace(g, Contest{.forwards = now_forwards}).first->second;
}

void ForwarderElection::schedule(const ForwardedGroup& g, Contest& c,
                                 std::optional<TimePoint> due) {
  if (c.due) due_.erase({*c.due, g});
  c.due = due;
  if (due) due_.emplace(*due, g);
}

ForwarderElection::Contests::iterator ForwarderElection::erase(Contests::iterator it) {
  schedule(it->first, it->second, std::nullopt);
  return contests_.erase(it);
}

template <class Predicate>
void ForwarderElection::erase_if(Predicate predicate) {
  for (auto it = contests_.begin(); it != contests_.end();)
    it = predicate(it->first, it->second) ? erase(it) : std::next(it);
}

void ForwarderElection::set_querier(InterfaceId iface, bool v4, Forwarder forwarder,
                                    const std::vector<ForwardedGroup>& forwarded, TimePoint now) {
  Family& family = families_[v4];
  mark(family.other, iface, forwarder == Forwarder::kOther);
  mark(family.unknown, iface, forwarder == Forwarder::kUnknown);
  mark(family.always, iface, forwarder == Forwarder::kAlways);
  const bool restarts = forwarder == Forwarder::kUnknown;
  std::erase_if(family.outcomes, [&](const auto& outcome) {
    return outcome.first.first == iface || (restarts && outcome.first.second == iface);
  });
  // A new querier stays behind a router that it has heard.
  erase_if([&](const ForwardedGroup& g, const Contest& c) {
    if (g.group.is_v4() != v4) return false;
    if (restarts) return g.out == iface || g.in == iface;
    return g.out == iface && forwarder == Forwarder::kThis && !c.forwards && !c.heard;
  });
  if (forwarder != Forwarder::kOther) return;
  family.settled[iface] = now + kSettleTime;
  for (const ForwardedGroup& g : forwarded) {
    if (!contested(g)) continue;
    Contest* const c = contest_of(g);
    if (c == nullptr) continue;
    *c = {.forwards = true, .handover = true, .due = c->due};
    schedule(g, *c, now + kHandover);
  }
}

void ForwarderElection::set_deaf(InterfaceId iface, bool deaf) {
  mark(deaf_, iface, deaf);
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
  if (Contest* const c = contest_of(g)) c->forwards = outcome->second;
}

void ForwarderElection::forget(const IpAddr& group, InterfaceId out) {
  auto it = contests_.lower_bound({group, out, 0});
  while (it != contests_.end() && it->first.group == group && it->first.out == out) it = erase(it);
}

void ForwarderElection::take_over(const ForwardedGroup& g, Contest& c) {
  ++counters_.taken_over;
  schedule(g, c, std::nullopt);
  c = {.forwards = true};
  families_[g.group.is_v4()].outcomes[{g.out, g.in}] = true;
}

void ForwarderElection::stand_by(const ForwardedGroup& g, Contest& c, TimePoint heard) {
  schedule(g, c, std::nullopt);
  c = {.heard = heard};
}

void ForwarderElection::give_way(const ForwardedGroup& g, Contest& c, TimePoint now) {
  ++counters_.given_way;
  stand_by(g, c, now);
  families_[g.group.is_v4()].outcomes[{g.out, g.in}] = false;
}

bool ForwarderElection::on_packet(const ForwardedGroup& g, TimePoint now) {
  if (!watches(g) || unknown(g)) return false;
  const auto& settled = family_of(g).settled;
  const auto until = settled.find(g.out);
  const auto it = contests_.find(g);
  if (it != contests_.end() && it->second.handover) {
    it->second.used = true;
    return false;
  }
  if (until != settled.end() && now < until->second) return false;
  Contest* const c = contest_of(g);
  if (c == nullptr || (c->heard && now - *c->heard <= kReportInterval)) return false;
  if (c->unanswered++ == 0) c->unanswered_since = now;
  if (c->heard && c->unanswered < kUnansweredPackets) return false;
  const TimePoint due = c->unanswered_since + kUnanswered;
  if (now < due) {
    schedule(g, *c, due);
    return false;
  }
  take_over(g, *c);
  return true;
}

bool ForwarderElection::on_evidence(const ForwardedGroup& g, bool lower, TimePoint now) {
  if (!contested(g)) return false;
  Contest* const c = contest_of(g);
  if (c == nullptr) return false;
  if (!c->forwards) {
    stand_by(g, *c, now);
    return false;
  }
  if (c->conflict == 0 || now - c->conflict_last > kConflictPause) {
    c->conflict = 0;
    c->conflict_since = now;
  }
  ++c->conflict;
  c->conflict_last = now;
  const bool alien = c->conflict >= kAlienPackets && now - c->conflict_since >= kAlienTime;
  if (!lower && !alien && !c->handover) return false;
  give_way(g, *c, now);
  return true;
}

/// Without packets, the new querier has not heard this router, and forwards.
void ForwarderElection::end_handover(Contests::iterator it) {
  schedule(it->first, it->second, std::nullopt);
  it->second.handover = false;
  if (!it->second.used) erase(it);
}

std::set<IpAddr> ForwarderElection::tick(TimePoint now) {
  std::set<IpAddr> changed;
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto it = contests_.find(due_.begin()->second);
    changed.insert(it->first.group);
    if (it->second.handover)
      end_handover(it);
    else
      take_over(it->first, it->second);
  }
  return changed;
}

std::optional<TimePoint> ForwarderElection::next_deadline() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

}  // namespace ipoib::route
