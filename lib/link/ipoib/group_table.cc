// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/group_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/sa/queries.h"
#include "lib/wire/iba.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::link {
namespace {

constexpr Duration kLogInterval = std::chrono::seconds(1);
/// Spacing of memberships that are confirmed after an event.
constexpr Duration kRejoinSpacing = std::chrono::milliseconds(2);
/// Random delay, so that nodes that receive a report of a group do not all ask at once.
constexpr Duration kReportSpread = std::chrono::milliseconds(50);
/// After an SA lost its state, members that create groups join before those that only send to them.
constexpr Duration kSendersDelay = std::chrono::milliseconds(500);
/// The rate and the burst of queries for groups that only forwarded packets name: a host can send to
/// any number of groups.
constexpr Duration kDataInterval = std::chrono::milliseconds(2);
constexpr std::uint32_t kDataBurst = 256;
/// Such groups that are not resolved yet.
constexpr ResolutionPlaces::Sizes kPlaces{
    .all = 256, .for_others = 64, .for_neighbours = 48, .for_known = 32};
/// A group is kept for this long at least after its resolution and, if it has a way, after its last
/// packet, even if others need its room.
constexpr Duration kKept = std::chrono::seconds(3);
/// Groups that are looked at when one is needed that makes room.
constexpr unsigned kLooks = 8;
/// Time for the last leave to reach the SA.
constexpr Duration kRenameDelay = std::chrono::milliseconds(20);
constexpr Duration kHandleRetry = std::chrono::seconds(1);

/// Returns an address that maps to the MGID. The scope of an IPv6 address is not part of the MGID.
wire::IpAddr address_of(const wire::Gid& mgid) {
  if (wire::signature_of(mgid) == wire::kSignature4)
    return wire::IpAddr::v4(0xe000'0000U | (mgid.guid() & 0x0fff'ffff));
  wire::IpAddr a{mgid.bytes};
  for (std::size_t i = 2; i < 6; ++i) a.bytes[i] = std::byte{0};
  return a;
}

}  // namespace

GroupTable::GroupTable(const LinkConfig& config, LinkActions& actions, NeighbourSink& sink,
                       AddressSink& receiver, sa::Client& sa, LinkCounters& counters,
                       std::uint64_t seed)
    : config_{config},
      actions_{actions},
      sink_{sink},
      receiver_{receiver},
      sa_{sa},
      counters_{counters},
      senders_{config, actions, sink, counters},
      jitter_{seed},
      spread_{seed ^ 1},
      log_limit_{kLogInterval},
      groups_{0, KeyedHash{seed}},
      places_{seed, kPlaces},
      queries_of_data_{kDataInterval, kDataBurst} {}

GroupTable::~GroupTable() {
  for (auto& [mgid, g] : groups_) drop_requests(g);
  sa_.cancel(listing_);
}

// --- Records ---

wire::Gid GroupTable::mgid_of(const wire::IpAddr& group) const {
  return wire::mgid_of(group, config_.pkey,
                       static_cast<std::uint8_t>(broadcast_.mgid.prefix() >> 48 & 0x0f));
}

wire::Gid GroupTable::routers_of(const Group& g) const {
  return mgid_of(g.v4 ? wire::kIgmpAllRouters : wire::all_routers());
}

/// True if signature, P_Key and scope are the link's (RFC 4391 §4, §11), and packets to some IP
/// group go to this MGID. False for the broadcast group.
bool GroupTable::is_of_link(const wire::Gid& mgid) const {
  constexpr std::uint64_t kScopeAndPkey = 0xffff'0000'ffff'0000ULL;
  if (((mgid.prefix() ^ broadcast_.mgid.prefix()) & kScopeAndPkey) != 0) return false;
  if (mgid == broadcast_.mgid) return false;
  return wire::signature_of(mgid) == wire::kSignature6 ||
         (wire::signature_of(mgid) == wire::kSignature4 && mgid == mgid_of(address_of(mgid)));
}

Group* GroupTable::find(const wire::Gid& mgid) {
  const auto it = groups_.find(mgid);
  return it == groups_.end() ? nullptr : &it->second;
}

Group& GroupTable::find_or_make(const wire::Gid& mgid, TimePoint now) {
  const auto [it, made] = groups_.try_emplace(mgid);
  if (!made) return it->second;
  Group& g = it->second;
  g.mgid = mgid;
  g.v4 = wire::signature_of(mgid) == wire::kSignature4;
  g.created = now;
  if (config_.group.send_only == SendOnly::kFullMember)
    g.send.bit = wire::join_state::kSendOnlyFullMember;
  return g;
}

void GroupTable::drop_request(sa::TransactionId& id) {
  if (id == sa::kNoTransaction) return;
  sa_.cancel(std::exchange(id, sa::kNoTransaction));
  --queries_;
}

void GroupTable::drop_requests(Group& g) {
  for (auto* id : {&g.query, &g.full.transaction, &g.non.transaction, &g.send.transaction})
    drop_request(*id);
}

/// True if the table takes one more group. At its limit, the group that can give way for the longest
/// time is forgotten, unless packets still use it.
bool GroupTable::make_room(TimePoint now) {
  if (groups_.size() < 2 * config_.group.max_groups) return true;
  for (unsigned i = 0; i < kLooks; ++i) {
    const auto oldest = give_way_.due(now - kKept);
    if (!oldest) return false;
    Group& g = *find(*oldest);
    if (const auto used = senders_.last_used(g); used > now - kKept) {
      give_way_.set(g.mgid, g.gives_way, used);
      continue;
    }
    depend_on_routers(g, false, now);
    if (g.send.sa_registered) leave_former(g, g.send, now);
    erase(g);
    return true;
  }
  return false;
}

/// Only forwarded packets need the group and, except for them, the fabric may not have it.
bool GroupTable::can_give_way(const Group& g) const {
  if (!g.by_data() || g.busy() || g.full.sa_registered || g.non.sa_registered) return false;
  if (config_.group.send_only == SendOnly::kFullMember)
    return g.send.member() || g.send.state == GroupMembership::State::kRefused;
  return g.presence == Presence::kAbsent && !g.send.sa_registered;
}

void GroupTable::give_place_back(Group& g) {
  if (g.place) places_.give_back(*std::exchange(g.place, std::nullopt));
}

void GroupTable::erase(Group& g) {
  give_place_back(g);
  give_way_.set(g.mgid, g.gives_way, kNever);
  drop_requests(g);
  detach(g);
  senders_.clear(g, Drop::kLinkDown);
  timers_.set(g.mgid, g.wake, kNever);
  groups_.erase(wire::Gid{g.mgid});
}

void GroupTable::reconsider(Group& g, TimePoint at) {
  if (at < g.wake) timers_.set(g.mgid, g.wake, at);
}

void GroupTable::schedule(Group& g, TimePoint now) {
  const bool resolved = g.presence != Presence::kUnknown || g.member() ||
                        g.send.state == GroupMembership::State::kRefused;
  if (resolved || !g.by_data()) give_place_back(g);
  give_way_.set(g.mgid, g.gives_way, can_give_way(g) ? std::min(g.gives_way, now) : kNever);
  auto due = kNever;
  for (const auto* m : {&g.full, &g.non, &g.send})
    if (!m->busy() && (m->wanted || m->sa_registered)) due = std::min(due, m->due);
  if (g.sending() && g.query == sa::kNoTransaction) {
    if (g.presence == Presence::kUnknown && g.ask_at > now) due = std::min(due, g.ask_at);
    if (g.presence == Presence::kAbsent) due = std::min(due, g.negative_until);
    const bool lacks_handle = g.ah == fabric::kNoAh && g.delivery != GroupDelivery::kUnknown &&
                              g.delivery != GroupDelivery::kNone;
    if (lacks_handle) due = std::min(due, now + kHandleRetry);
  }
  // All due work has been done: a time in the past only waits for another event.
  if (due <= now) due = now + kRejoinSpacing;
  timers_.set(g.mgid, g.wake, std::min(due, senders_.due(g)));
}

// --- The link ---

void GroupTable::resume(const wire::McMemberRecord& broadcast, TimePoint now) {
  if (operational_ && broadcast.mgid != broadcast_.mgid) suspend();
  const bool first = !std::exchange(operational_, true);
  stopping_ = false;
  const auto old = std::exchange(broadcast_, broadcast);
  const auto octets = wire::mtu_octets(wire::value_of(broadcast.mtu));
  senders_.set_mtu(static_cast<std::uint16_t>(octets - sizeof(wire::IpoibHdr)));
  if (first) {
    port_ = actions_.port().gid();
    for (const auto& [addr, count] : joins_)
      find_or_make(mgid_of(addr), now).listeners.insert(addr);
    list_backoff_ = config_.group.backoff_min;
  } else if (old.qkey == broadcast.qkey && old.mtu == broadcast.mtu && old.mlid == broadcast.mlid &&
             old.rate == broadcast.rate && old.sl_flow_hop == broadcast.sl_flow_hop &&
             old.tclass == broadcast.tclass) {
    return;
  }
  rejoin(now);
  if (first && is_router()) list_at_ = now;
}

void GroupTable::rejoin(TimePoint now) {
  if (!operational_) return;
  std::vector<wire::Gid> mgids;
  for (const auto& [mgid, g] : groups_) mgids.push_back(mgid);
  std::sort(mgids.begin(), mgids.end());
  // An SA may accept one GID of the port at a time: under a new one the port joins after all
  // memberships under the old one are left.
  const bool renamed = std::exchange(port_, actions_.port().gid()) != actions_.port().gid();
  const auto first_join =
      renamed ? kRenameDelay + 2 * kRejoinSpacing * static_cast<int>(mgids.size()) : Duration{};
  auto at = now;
  for (const auto& mgid : mgids) {
    Group& g = *find(mgid);
    at += jitter_.around(kRejoinSpacing, 50);
    for (auto* m : {&g.full, &g.non, &g.send})
      if (!m->busy()) m->due = at + first_join + (m == &g.send ? kSendersDelay : Duration{});
    if (g.presence == Presence::kAbsent) g.negative_until = at;
    reconsider(g, at);
  }
  if (is_router()) list_at_ = at + jitter_.around(kReportSpread, 100);
}

/// An answer that is under way may be older than a new group.
void GroupTable::look_for_groups(TimePoint now) {
  if (!operational_ || !is_router()) return;
  sa_.cancel(std::exchange(listing_, sa::kNoTransaction));
  list_at_ = now;
}

void GroupTable::suspend() {
  operational_ = false;
  sa_.cancel(std::exchange(listing_, sa::kNoTransaction));
  list_at_ = kNever;
  std::vector<wire::Gid> forgotten;
  for (auto& [mgid, g] : groups_) {
    withdraw(g);
    if (!g.sa_registered()) forgotten.push_back(mgid);
  }
  for (const auto& mgid : forgotten) erase(*find(mgid));
}

/// Removes everything of the group except the memberships that the SA may still count.
void GroupTable::withdraw(Group& g) {
  give_place_back(g);
  give_way_.set(g.mgid, g.gives_way, kNever);
  drop_requests(g);
  detach(g);
  senders_.clear(g, Drop::kLinkDown);
  timers_.set(g.mgid, g.wake, kNever);
  Group bare;
  bare.mgid = g.mgid;
  bare.v4 = g.v4;
  bare.created = g.created;
  for (auto [from, to] :
       {std::pair{&g.full, &bare.full}, {&g.non, &bare.non}, {&g.send, &bare.send}}) {
    to->bit = from->bit;
    to->sa_registered = from->sa_registered;
    to->leave_first = from->leave_first;
    to->port = from->port;
  }
  g = std::move(bare);
}

void GroupTable::stop(TimePoint now) {
  operational_ = false;
  stopping_ = true;
  sa_.cancel(std::exchange(listing_, sa::kNoTransaction));
  list_at_ = kNever;
  std::vector<wire::Gid> mgids;
  for (auto& [mgid, g] : groups_) {
    mgids.push_back(mgid);
    drop_request(g.query);
    end_memberships(g, TimePoint::min());
    for (auto* m : {&g.full, &g.non, &g.send}) m->leave_first = m->sa_registered;
    g.listeners.clear();
    g.routed = g.depends = false;
    g.dependents = 0;
    senders_.clear(g, Drop::kLinkDown);
  }
  std::sort(mgids.begin(), mgids.end());
  for (const auto& mgid : mgids) advance(*find(mgid), now);
}

/// The port is not a member any more. Joins and leaves under way continue: one that overtakes another
/// would undo it. `due`: the earliest time of the next request.
void GroupTable::end_memberships(Group& g, TimePoint due) {
  for (auto* m : {&g.full, &g.non, &g.send}) {
    if (m->busy()) {
      if (m->member()) m->state = GroupMembership::State::kJoining;
      continue;
    }
    m->state = GroupMembership::State::kNone;
    m->due = due;
  }
  detach(g);
}

void GroupTable::abort_leaves() {
  while (!groups_.empty()) erase(groups_.begin()->second);
}

// --- Uses ---

Status GroupTable::join(const wire::IpAddr& group, TimePoint now) {
  if (!wire::is_multicast(group))
    return fail(Errc::kInvalidArgument, "{} is not a multicast group", wire::to_string(group));
  const auto it = joins_.find(group);
  if (it != joins_.end()) {
    ++it->second;
    return {};
  }
  if (joins_.size() >= config_.group.max_groups) {
    ++counters_.group_refused_local;
    return fail(Errc::kNoResources, "{}: the limit of {} joined groups is reached", config_.name,
                joins_.size());
  }
  joins_.emplace(group, 1);
  receiver_.listen(config_.id, group);
  if (!operational_) return {};
  Group& g = find_or_make(mgid_of(group), now);
  g.listeners.insert(group);
  advance(g, now);
  return {};
}

Status GroupTable::leave(const wire::IpAddr& group, TimePoint now) {
  const auto it = joins_.find(group);
  if (it == joins_.end())
    return fail(Errc::kNotFound, "{} is not joined on {}", wire::to_string(group), config_.name);
  if (--it->second > 0) return {};
  joins_.erase(it);
  receiver_.unlisten(config_.id, group);
  if (!operational_) return {};
  if (Group* g = find(mgid_of(group))) {
    g->listeners.erase(group);
    advance(*g, now);
  }
  return {};
}

/// An MGID has the low 80 bits of an IPv6 group, and 28 of an IPv4 group.
bool GroupTable::routes(const wire::Gid& mgid) const {
  if (config_.group.multicast_router) return true;
  const bool v4 = wire::signature_of(mgid) == wire::kSignature4;
  return std::ranges::any_of(routed_, [&](const auto& entry) {
    wire::IpPrefix groups = entry.first;
    if (groups.addr.is_v4() != v4) return false;
    if (v4) return wire::contains(groups, address_of(mgid));
    groups.addr.bytes[0] = mgid.bytes[0];
    groups.addr.bytes[1] = mgid.bytes[1];
    for (std::size_t i = 2; i < 6; ++i) groups.addr.bytes[i] = std::byte{0};
    return wire::contains(groups, address_of(mgid));
  });
}

void GroupTable::route(const wire::IpPrefix& groups, TimePoint now) {
  if (++routed_[groups] != 1) return;
  if (operational_) list_at_ = now;
}

void GroupTable::unroute(const wire::IpPrefix& groups, TimePoint now) {
  const auto it = routed_.find(groups);
  if (it == routed_.end() || --it->second > 0) return;
  routed_.erase(it);
  if (!is_router()) list_at_ = kNever;
  std::vector<wire::Gid> unneeded;
  for (const auto& [mgid, g] : groups_)
    if (g.routed && !routes(mgid)) unneeded.push_back(mgid);
  for (const auto& mgid : unneeded) {
    Group* g = find(mgid);
    if (g == nullptr) continue;
    g->routed = false;
    advance(*g, now);
  }
}

/// The next tick() applies the limit to groups that are sent to.
void GroupTable::limit_mtu6(std::uint16_t mtu) {
  if (!senders_.limit_mtu6(mtu)) return;
  for (auto& [mgid, g] : groups_)
    if (!g.v4 && g.sending()) reconsider(g, TimePoint::min());
}

void GroupTable::request_group(const wire::IpAddr& group, HeldPacket packet, TimePoint now) {
  Group* g = find(mgid_of(group));
  if (g == nullptr) {
    const auto place = places_.take(group, sink_.sender_of(packet));
    if (!place || !make_room(now)) {
      if (place) {
        places_.give_back(*place);
        refuse(mgid_of(group), now);
      } else {
        ++counters_.group_refused_local;
      }
      return sink_.drop(packet, place ? Drop::kNeighbourTableFull : Drop::kNeighbourPending, false);
    }
    g = &find_or_make(mgid_of(group), now);
    g->place = place;
  }
  senders_.request_group(*g, group, packet, now);
  advance(*g, now);
}

bool GroupTable::send(const wire::IpAddr& group, std::span<const std::byte> frame, TimePoint now) {
  Group* g = operational_ ? find(mgid_of(group)) : nullptr;
  if (!operational_ || (g == nullptr && !make_room(now))) {
    ++counters_.group_frames_unsent;
    if (operational_) refuse(mgid_of(group), now);
    return false;
  }
  if (g == nullptr) g = &find_or_make(mgid_of(group), now);
  senders_.send(*g, group, frame, now);
  advance(*g, now);
  g = find(mgid_of(group));
  return g != nullptr && g->frames.empty() &&
         (g->ah != fabric::kNoAh || g->delivery == GroupDelivery::kNone);
}

// --- Reports ---

void GroupTable::on_created(const wire::Gid& mgid, TimePoint now) {
  if (!operational_) return;
  ++counters_.group_reports;
  Group* g = find(mgid);
  if (is_of_link(mgid) && routes(mgid)) {
    if (g == nullptr && make_room(now)) g = &find_or_make(mgid, now);
    if (g == nullptr) {
      refuse(mgid, now);
    } else if (!std::exchange(g->routed, true) && !g->non.busy()) {
      g->non.wanted = true;
      g->non.due = now + jitter_.around(kReportSpread, 100);
    }
  }
  if (g == nullptr) return;
  if (g->presence != Presence::kPresent && g->query == sa::kNoTransaction) {
    g->presence = Presence::kUnknown;
    g->last_ask = TimePoint::min();
    g->ask_at = now + jitter_.around(kReportSpread, 100);
  }
  advance(*g, now);
}

/// The SA counts no members any more, so each membership must be granted again, including one that
/// is just being confirmed. The group may have been created again, so its users query it. The
/// report may be older than a membership, so unneeded ones are left.
void GroupTable::on_deleted(const wire::Gid& mgid, TimePoint now) {
  Group* g = operational_ ? find(mgid) : nullptr;
  if (g == nullptr) return;
  ++counters_.group_reports;
  end_memberships(*g, now + jitter_.around(kReportSpread, 100));
  g->routed = false;
  forget(*g, now);
  advance(*g, now);
}

/// Discards the known state of the group, which is out of date.
void GroupTable::forget(Group& g, TimePoint now) {
  senders_.forget_delivery(g);
  g.presence = Presence::kUnknown;
  g.record = {};
  g.last_ask = TimePoint::min();
  g.ask_at = now + jitter_.around(kReportSpread, 100);
}

// --- Steps ---

/// Advances the group from its present state to the needed one. Afterwards its timer is set, or the
/// group is erased.
void GroupTable::advance(Group& g, TimePoint now) {
  senders_.expire(g, now);
  const bool via_sa = operational_ && !is_link_group(g);
  if (operational_ || stopping_) {
    step(g, g.full, via_sa && !g.listeners.empty(), now);
    step(g, g.non, via_sa && g.routed, now);
    if (operational_)
      query_group(g, now);
    else
      step(g, g.send, false, now);
  }
  if (!g.needed() && !g.busy() && !g.sa_registered()) return erase(g);
  schedule(g, now);
}

/// Obtains the requirements of sending: the group exists, and this port is a member that may send.
void GroupTable::query_group(Group& g, TimePoint now) {
  if (g.presence == Presence::kAbsent && g.negative_until <= now) {
    g.presence = Presence::kUnknown;
    senders_.forget_unused(g, now - config_.group.negative);
  }
  if (!g.sending()) {
    depend_on_routers(g, false, now);
    step(g, g.send, false, now);
    if (g.delivery != GroupDelivery::kUnknown) senders_.forget_delivery(g);
    return;
  }
  const bool full = is_link_group(g) || g.full.member();
  const bool full_comes = g.full.wanted && g.full.state != GroupMembership::State::kRefused;
  if (full) {
    step(g, g.send, false, now);  // A FullMember sends without a second join.
  } else if (!full_comes) {
    const bool creates = config_.group.send_only == SendOnly::kFullMember;
    if (g.presence == Presence::kUnknown && !creates) ask(g, now);
    step(g, g.send, !stopping_ && (creates || g.presence == Presence::kPresent), now);
  }
  // No longer a member and not yet a send-only member: packets wait (RFC 4391 §10 B).
  if (g.delivery == GroupDelivery::kDirect && !full && !g.send.member())
    senders_.forget_delivery(g);
  set_delivery(g, now);
}

GroupDelivery GroupTable::delivery_of(Group& g, TimePoint now) {
  if (is_link_group(g) || g.full.member() || g.send.member()) return GroupDelivery::kDirect;
  // Members of a group that this port cannot join are hosts of the link: they hear the broadcast
  // group.
  if (g.presence == Presence::kPresent && g.send.exhausted()) return GroupDelivery::kFlood;
  if (g.presence != Presence::kAbsent) return GroupDelivery::kUnknown;
  const bool beyond = std::any_of(g.senders.begin(), g.senders.end(), [](const auto& s) {
    return !wire::is_link_scope_group(s.first);
  });
  if (config_.group.flood_absent && (beyond || g.senders.empty())) return GroupDelivery::kFlood;
  if (!beyond || g.mgid == routers_of(g)) return GroupDelivery::kNone;
  depend_on_routers(g, true, now);
  const Group* routers = find(routers_of(g));
  if (routers == nullptr || routers->presence == Presence::kAbsent) return GroupDelivery::kNone;
  if (routers->delivery == GroupDelivery::kFlood) return GroupDelivery::kFlood;
  return routers->delivery == GroupDelivery::kDirect ? GroupDelivery::kRouters
                                                     : GroupDelivery::kUnknown;
}

void GroupTable::set_delivery(Group& g, TimePoint now) {
  const auto delivery = delivery_of(g, now);
  if (delivery == GroupDelivery::kUnknown) return;
  const auto before = std::tuple{g.delivery, g.attr, g.mtu};
  const wire::McMemberRecord* target = nullptr;
  if (delivery == GroupDelivery::kDirect) target = is_link_group(g) ? &broadcast_ : &g.record;
  if (delivery == GroupDelivery::kRouters) target = &find(routers_of(g))->record;
  if (delivery == GroupDelivery::kFlood) target = &broadcast_;
  if (delivery == GroupDelivery::kRouters && g.delivery != delivery) ++counters_.via_all_routers;
  senders_.set_delivery(g, delivery, target);
  if (delivery == GroupDelivery::kDirect) depend_on_routers(g, false, now);
  if (g.dependents == 0 || before == std::tuple{g.delivery, g.attr, g.mtu}) return;
  for (auto& [mgid, other] : groups_)
    if (other.depends && routers_of(other) == g.mgid) reconsider(other, now);
}

void GroupTable::depend_on_routers(Group& g, bool depends, TimePoint now) {
  if (std::exchange(g.depends, depends) == depends) return;
  if (depends) {
    Group& routers = find_or_make(routers_of(g), now);
    ++routers.dependents;
    give_way_.set(routers.mgid, routers.gives_way, kNever);
    reconsider(routers, now);
  } else if (Group* const routers = find(routers_of(g))) {
    expects(routers->dependents > 0, "each dependent is counted");
    --routers->dependents;
    reconsider(*routers, now);
  }
}

// --- Time ---

void GroupTable::tick(TimePoint now) {
  if (list_at_ <= now) list_groups(now);
  while (const auto mgid = timers_.due(now)) advance(*find(*mgid), now);
}

std::optional<TimePoint> GroupTable::next_deadline() const {
  const auto next = timers_.next();
  return list_at_ == kNever ? next : earlier(next, list_at_);
}

// --- Show ---

namespace {

std::string_view state_of(const Group& g, bool listening) {
  if (g.full.member()) return "member";
  if (listening && g.full.exhausted()) return "no-resources";
  if (listening) return g.full.state == GroupMembership::State::kRefused ? "refused" : "joining";
  if (g.sending()) {
    switch (g.delivery) {
      case GroupDelivery::kDirect: return "send-only";
      case GroupDelivery::kRouters: return "all-routers";
      case GroupDelivery::kFlood: return "broadcast";
      case GroupDelivery::kNone: return "absent";
      case GroupDelivery::kUnknown: return "resolving";
    }
  }
  if (g.routed && g.non.exhausted()) return "no-resources";
  if (g.routed) return g.non.member() ? "non-member" : "joining";
  return "leaving";
}

std::uint8_t join_state_of(const Group& g) {
  std::uint8_t bits = 0;
  for (const auto* m : {&g.full, &g.non, &g.send})
    if (m->member()) bits = static_cast<std::uint8_t>(bits | m->bit);
  return bits;
}

}  // namespace

std::vector<GroupInfo> GroupTable::list(TimePoint now) const {
  std::vector<GroupInfo> rows;
  const auto add = [&](const wire::IpAddr& addr, const Group* g) {
    GroupInfo row;
    row.group = addr;
    row.iface = config_.name;
    const auto joins = joins_.find(addr);
    row.joins = joins == joins_.end() ? 0 : joins->second;
    row.state = "waiting";
    if (g != nullptr) {
      const bool link_group = is_link_group(*g);
      row.lladdr = wire::to_string(g->mgid);
      row.mlid = link_group ? broadcast_.mlid.host() : g->record.mlid.host();
      row.state = link_group ? "member" : state_of(*g, row.joins > 0);
      row.join_state = link_group ? wire::join_state::kFullMember : join_state_of(*g);
      const auto sender = g->senders.find(addr);
      row.sending = sender != g->senders.end();
      row.routed = g->routed;
      if (link_group) row.queue_pair = 0;
      if (g->attached) row.queue_pair = g->attached->queue_pair;
      row.held = row.sending ? sender->second.held.size() : 0;
      row.reason = g->reason;
      if (const unsigned place = place_of(*g);
          row.reason.empty() && to_move_.empty() && g->attached && g->attached->queue_pair != place)
        row.reason = fmt::format("has not moved to queue pair {}", actions_.qpn(place));
      row.age = now - g->created;
    }
    rows.push_back(std::move(row));
  };
  for (const auto& [addr, count] : joins_) {
    const auto it = operational_ ? groups_.find(mgid_of(addr)) : groups_.end();
    add(addr, it == groups_.end() ? nullptr : &it->second);
  }
  for (const auto& [mgid, g] : groups_) {
    for (const auto& [addr, s] : g.senders)
      if (joins_.count(addr) == 0) add(addr, &g);
    const bool shown = operational_ || stopping_;
    if (shown && g.listeners.empty() && g.senders.empty()) add(address_of(mgid), &g);
  }
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.group < b.group; });
  return rows;
}

}  // namespace ipoib::link
