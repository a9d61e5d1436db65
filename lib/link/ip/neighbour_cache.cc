// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/neighbour_cache.h"

#include <algorithm>
#include <utility>

namespace ipoib::link {
namespace {

/// Workers stamp uses in whole seconds: a stamp may be this much older than the use.
constexpr Duration kStampGrain = std::chrono::seconds(1);
/// An entry used this recently is in use, and not evicted.
constexpr Duration kInUse = std::chrono::seconds(2);
/// Interval of checks whether a stale entry is used again.
Duration look_interval(const NeighbourConfig& config) {
  return std::max<Duration>(config.probe_delay * 5, std::chrono::milliseconds(100));
}

/// Minimum time between two changes of an entry's link-layer address.
constexpr Duration kSettled = std::chrono::seconds(1);

constexpr unsigned kReachableSpread = 50;
constexpr unsigned kRetransmitSpread = 10;

/// True if both are the same for a worker; the worker's own stamp is not compared.
bool same_install(const table::Neighbour& a, const table::Neighbour& b) {
  return a.state == b.state && a.mode == b.mode && a.mtu == b.mtu && a.mac == b.mac &&
         a.ah == b.ah && a.mgid_low == b.mgid_low && a.qpn == b.qpn && a.queue == b.queue &&
         a.asked == b.asked;
}

}  // namespace

NeighbourCache::NeighbourCache(const NeighbourConfig& config, table::InterfaceId iface,
                               NeighbourSink& sink, Solicitor& solicitor, NeighbourPaths& paths,
                               std::uint64_t seed)
    : config_{config},
      iface_{iface},
      sink_{sink},
      solicitor_{solicitor},
      paths_{paths},
      jitter_{seed},
      held_{sink, config_},
      places_{seed},
      entries_{0, KeyedHash{seed}} {}

// --- Entries ---

auto NeighbourCache::find(const wire::IpAddr& addr) -> Entry* {
  const auto it = entries_.find(addr);
  return it == entries_.end() ? nullptr : &it->second;
}

auto NeighbourCache::create(const wire::IpAddr& addr, bool unasked, TimePoint now)
    -> Result<Entry*> {
  Family& f = family(addr);
  if (!make_room(f, unasked, now)) {
    ++counters_.refused;
    return ipoib::fail(Errc::kNoResources, "the limit of {} neighbours of the interface is reached",
                       config_.max_entries);
  }
  // No entry is evicted for lack of a number: the number of an evicted entry is free only later.
  const auto index = sink_.allocate_index();
  if (!index) {
    ++counters_.refused;
    return tl::make_unexpected(index.error());
  }

  Entry& e = entries_[addr];
  e.addr = addr;
  e.index = *index;
  e.is_unasked = unasked;
  e.touched = now;
  ++f.size;
  e.confirmed = now;
  install(e, table::NeighbourState::kIncomplete);
  schedule(e);
  return &e;
}

/// Makes sure that there is a place for one more entry of the family.
bool NeighbourCache::make_room(Family& f, bool unasked, TimePoint now) {
  const std::size_t share = (config_.max_entries + 1) / 2;
  if (unasked && unasked_.size() >= share) evict_unasked();
  if (entries_.size() < config_.max_entries || evict_unasked()) return true;
  if (unasked) return false;
  Family& other = families_[&f == &families_[0] ? 1 : 0];
  return evict_quiet(2 * f.size >= config_.max_entries ? f : other, now);
}

/// Forgets the oldest entry that only other hosts have spoken of. Those that workers have sent to
/// are found here, and become like others.
bool NeighbourCache::evict_unasked() {
  while (const auto addr = unasked_.first()) {
    Entry& e = *find(*addr);
    if (used_since(e, e.touched)) {
      ask_for(e);
      e.touched = last_use(e);
      schedule(e);
      continue;
    }
    forget(e, Drop::kNeighbourGone);
    ++counters_.evicted;
    return true;
  }
  return false;
}

/// Forgets the least recently used entry of the family. The order has the last known use of each
/// entry, which may be out of date but is never too late. So the first entry whose position is
/// confirmed is the one. The check moves other entries back, at most once per use and entry.
bool NeighbourCache::evict_quiet(Family& f, TimePoint now) {
  while (const auto addr = f.quiet.first()) {
    Entry& e = *find(*addr);
    const auto use = last_use(e);
    if (use > e.quiet) {
      e.touched = use;
      schedule(e);
      continue;
    }
    if (use + kInUse > now) return false;
    forget(e, Drop::kNeighbourGone);
    ++counters_.evicted;
    return true;
  }
  return false;
}

void NeighbourCache::forget(Entry& e, Drop reason) {
  sink_.remove(e.index);  // Before the path: workers must not use a destroyed handle.
  leave_path(e);
  forget_hw(e);
  give_place_back(e);
  if (e.answered) places_.remember(e.addr, e.confirmed);
  const auto packets = held_.take(e.held);
  timers_.set(e.addr, e.wake, kNever);
  Family& f = family(e.addr);
  (e.is_unasked ? unasked_ : f.quiet).set(e.addr, e.quiet, kNever);
  --f.size;
  entries_.erase(wire::IpAddr{e.addr});
  drop_all(packets, reason, false);
}

void NeighbourCache::give_place_back(Entry& e) {
  if (e.place) places_.give_back(*std::exchange(e.place, std::nullopt));
}

/// Makes the entry idle: without data, until it is wanted.
void NeighbourCache::to_sleep(Entry& e) {
  give_place_back(e);
  e.phase = NeighbourPhase::kIncomplete;
  e.attempts = 0;
  e.phase_due = kNever;
  install(e, table::NeighbourState::kIncomplete);
  leave_path(e);
  if (!e.is_static) forget_hw(e);
  schedule(e);
}

void NeighbourCache::schedule(Entry& e) {
  const auto oldest = e.held.empty() ? kNever : e.held.front().expires;
  timers_.set(e.addr, e.wake, std::min(e.phase_due, oldest));
  if (e.is_unasked)
    unasked_.set(e.addr, e.quiet, e.touched);
  else
    family(e.addr).quiet.set(e.addr, e.quiet, e.kept() || e.busy() ? kNever : e.touched);
}

/// This node needs the entry from here on, so its path is queried before those that only other hosts
/// have spoken of. The caller calls schedule().
void NeighbourCache::ask_for(Entry& e) {
  if (!std::exchange(e.is_unasked, false)) return;
  unasked_.set(e.addr, e.quiet, kNever);
  install(e, e.installed.state);
  if (e.has_path) paths_.asked_for(*e.hw);
}

/// Returns the entry of an address that this node needs. The caller calls schedule().
auto NeighbourCache::find_or_create(const wire::IpAddr& addr, TimePoint now) -> Result<Entry*> {
  Entry* const e = find(addr);
  if (e == nullptr) return create(addr, false, now);
  ask_for(*e);
  return e;
}

void NeighbourCache::install(Entry& e, table::NeighbourState state) {
  table::Neighbour n;
  n.addr = e.addr;
  n.iface = iface_;
  n.state = state;
  n.mode = paths_.mode();
  n.asked = !e.is_unasked;
  if (state == table::NeighbourState::kValid) paths_.describe(*e.hw, n);
  if (mtu6_ != 0 && !e.addr.is_v4()) n.mtu = std::min(n.mtu, mtu6_);
  if (e.installed.iface == iface_ && same_install(n, e.installed)) return;
  e.installed = n;
  sink_.install(e.index, n);
}

TimePoint NeighbourCache::last_use(const Entry& e) const {
  return std::max(e.touched, sink_.last_used(e.index));
}

bool NeighbourCache::used_since(const Entry& e, TimePoint when) const {
  return e.gateways > 0 || e.wanted > when || sink_.last_used(e.index) + kStampGrain > when;
}

void NeighbourCache::drop_all(const HeldQueue& packets, Drop reason, bool unreachable) {
  for (const auto& h : packets) sink_.drop(h.packet, reason, unreachable);
}

// --- Demand ---

void NeighbourCache::request_neighbour(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) {
  Entry* e = find(addr);
  if (e == nullptr) {
    const auto place = places_.take(addr, sink_.sender_of(packet));
    if (!place) return sink_.drop(packet, Drop::kNeighbourPending, false);
    const auto created = create(addr, false, now);
    if (!created) {
      places_.give_back(*place);
      return sink_.drop(packet, Drop::kNeighbourTableFull, false);
    }
    e = *created;
    e->place = place;
  }
  ask_for(*e);
  e->touched = e->wanted = now;
  if (e->valid() || e->phase == NeighbourPhase::kFailed) {
    const bool valid = e->valid();
    schedule(*e);
    // The packet was punted before the worker had the entry.
    if (valid) return sink_.release(packet);
    return sink_.drop(packet, Drop::kNeighbourFailed, true);
  }
  // The address is asked for even if the packet cannot wait: the next one will not have to.
  held_.hold(e->held, packet, e->place ? e->place->share : HeldShare::kAll, now);
  schedule(*e);
  if (e->phase == NeighbourPhase::kIncomplete && e->attempts == 0) resolve(*e, now);
}

Result<table::NeighbourIndex> NeighbourCache::use_gateway(const wire::IpAddr& addr, TimePoint now) {
  const auto found = find_or_create(addr, now);
  if (!found) return tl::make_unexpected(found.error());
  Entry* const e = *found;
  ++e->gateways;
  request_gateway(*e);
  schedule(*e);
  return e->index;
}

void NeighbourCache::forget_gateway(const wire::IpAddr& addr) {
  Entry* e = find(addr);
  if (e == nullptr || e->gateways == 0) return;
  --e->gateways;
  const bool asleep = e->phase == NeighbourPhase::kIncomplete && !e->busy();
  if (!e->kept() && asleep) return forget(*e, Drop::kNeighbourGone);
  schedule(*e);
}

Status NeighbourCache::add_static(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) {
  const auto found = find_or_create(addr, now);
  if (!found) return tl::make_unexpected(found.error());
  Entry* const e = *found;
  e->is_static = true;
  move(*e, hw, Evidence::kOther, now);
  return {};
}

Status NeighbourCache::add_mapped(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) {
  if (find(addr) != nullptr) return {};
  const auto created = create(addr, false, now);
  if (!created) return tl::make_unexpected(created.error());
  (*created)->is_mapped = true;
  move(**created, hw, Evidence::kOther, now);
  return {};
}

/// Forgets the entry, or only its data if routes go through it.
void NeighbourCache::reset(Entry& e, Drop reason) {
  e.is_static = false;
  if (e.gateways == 0) return forget(e, reason);
  const auto packets = held_.take(e.held);
  to_sleep(e);
  drop_all(packets, reason, false);
}

Status NeighbourCache::remove(const wire::IpAddr& addr) {
  Entry* e = find(addr);
  if (e == nullptr) return ipoib::fail(Errc::kNotFound, "no neighbour {}", wire::to_string(addr));
  reset(*e, Drop::kNeighbourGone);
  if (Entry* kept = find(addr)) request_gateway(*kept);
  return {};
}

/// Requests a gateway at the next tick if it had failed and nothing else requests it. While the
/// solicitor cannot ask, the request waits for request_gateways().
void NeighbourCache::request_gateway(Entry& e) {
  const bool idle = e.phase == NeighbourPhase::kIncomplete && e.phase_due == kNever;
  if (e.gateways == 0 || !e.failed || !idle || !solicitor_.can_ask(e.addr)) return;
  e.phase_due = TimePoint{};
  schedule(e);
}

void NeighbourCache::request_gateways() {
  for (auto& [addr, e] : entries_) {
    if (e.gateways == 0) continue;
    if (e.phase == NeighbourPhase::kFailed) to_sleep(e);
    request_gateway(e);
  }
}

void NeighbourCache::reset_all(Drop reason, const std::function<bool(const Entry&)>& which) {
  std::vector<wire::IpAddr> addrs;
  for (const auto& [addr, e] : entries_)
    if (which(e)) addrs.push_back(addr);
  std::sort(addrs.begin(), addrs.end());
  for (const auto& addr : addrs)
    if (Entry* e = find(addr)) reset(*e, reason);
}

// --- Phases ---

/// Starts to resolve the address, or the path to a configured one.
void NeighbourCache::resolve(Entry& e, TimePoint now) {
  if (e.is_static) return use_path(e, now);
  e.phase = NeighbourPhase::kIncomplete;
  e.attempts = 1;
  e.phase_due = now + jitter_.around(config_.retransmit, kRetransmitSpread);
  schedule(e);
  solicitor_.request(e.addr, 0, now);
}

/// The address is known: the entry becomes valid, waits for the path or fails.
void NeighbourCache::use_path(Entry& e, TimePoint now) {
  give_place_back(e);
  e.has_path = true;
  const PathState state = paths_.acquire(e.addr, *e.hw, now);
  if (!e.is_unasked) paths_.asked_for(*e.hw);
  switch (state) {
    case PathState::kReady: return become_valid(e, now);
    case PathState::kFailed: return fail(e, now);
    case PathState::kPending: break;
  }
  e.phase = NeighbourPhase::kPath;
  e.attempts = 0;
  e.phase_due = kNever;  // on_path() follows for every outcome, also if the SA is silent.
  install(e, table::NeighbourState::kIncomplete);
  schedule(e);
}

void NeighbourCache::become_valid(Entry& e, TimePoint now) {
  const auto packets = held_.take(e.held);
  install(e, table::NeighbourState::kValid);
  e.failed = false;
  e.attempts = 0;
  e.confirmed = now;
  if (e.is_static || e.is_mapped) {
    e.phase = NeighbourPhase::kStatic;
    e.phase_due = e.is_mapped ? now + config_.idle : kNever;
    schedule(e);
  } else if (e.evidence == Evidence::kReply) {
    confirm(e, now);
  } else {
    become_stale(e, now);
    if (!packets.empty()) e.phase_due = now + config_.probe_delay;
    schedule(e);
  }
  for (const auto& h : packets) sink_.release(h.packet);
}

void NeighbourCache::confirm(Entry& e, TimePoint now) {
  e.answered = e.answered || !e.is_unasked;
  e.phase = NeighbourPhase::kReachable;
  e.attempts = 0;
  e.confirmed = now;
  e.phase_due = now + jitter_.around(config_.reachable, kReachableSpread);
  schedule(e);
}

/// If the entry was used since the last confirmation, a probe follows soon.
void NeighbourCache::become_stale(Entry& e, TimePoint now) {
  const bool used = used_since(e, e.confirmed);
  e.phase = NeighbourPhase::kStale;
  e.attempts = 0;
  e.looked = used ? e.confirmed : now;
  e.phase_due =
      now + jitter_.around(used ? config_.probe_delay : look_interval(config_), kRetransmitSpread);
  schedule(e);
}

void NeighbourCache::fail(Entry& e, TimePoint now) {
  give_place_back(e);
  const auto packets = held_.take(e.held);
  e.phase = NeighbourPhase::kFailed;
  e.failed = true;
  e.attempts = 0;
  e.phase_due = now + config_.negative;
  install(e, table::NeighbourState::kFailed);
  leave_path(e);
  if (!e.is_static) forget_hw(e);
  schedule(e);
  const auto addr = e.addr;
  drop_all(packets, Drop::kNeighbourFailed, true);
  solicitor_.failed(addr);
}

void NeighbourCache::leave_path(Entry& e) {
  if (std::exchange(e.has_path, false)) paths_.release(e.addr, *e.hw);
}

void NeighbourCache::forget_hw(Entry& e) {
  if (!e.hw) return;
  e.hw.reset();
  if (watch_ != nullptr && !e.is_mapped) watch_->neighbour_lost(e.addr);
}

/// Sets a new link-layer address. The old path is released once no installed entry uses it.
void NeighbourCache::move(Entry& e, const wire::HwAddr& hw, Evidence evidence, TimePoint now) {
  const auto old = std::exchange(e.hw, hw);
  const bool stays = e.has_path && old->same_port(hw);
  const bool leaves = e.has_path && !stays;
  const auto addr = e.addr;
  if (watch_ != nullptr && !e.is_mapped) watch_->neighbour_located(addr, now);
  e.evidence = evidence;
  // Same port, other queue pair.
  if (stays) paths_.moved(addr, *old, hw, now);
  if (stays && !e.valid()) {
    schedule(e);  // The path is being queried already.
  } else if (stays) {
    // The neighbour may have restarted, so the path is queried again, except if it just answered.
    if (evidence != Evidence::kReply) paths_.refresh(hw, now);
    become_valid(e, now);
  } else {
    use_path(e, now);
  }
  if (leaves) paths_.release(addr, *old);
}

/// Calls move(), but changes a known address at most once per kSettled. An answer may name another
/// interface at the same port at any time: a host with several gives each of its peers one of them,
/// and its announcements to all name the first. Returns false if another host contradicts.
bool NeighbourCache::move_if_settled(Entry& e, const wire::HwAddr& hw, Evidence evidence,
                                     TimePoint now) {
  if (e.hw) {
    const bool settled = e.moved == TimePoint::min() || now - e.moved >= kSettled;
    const bool same_host = e.hw->same_port(hw);
    if (!settled && !(same_host && evidence == Evidence::kReply)) return same_host;
    e.moved = now;
  }
  move(e, hw, evidence, now);
  return true;
}

/// The flags of the same interface may have changed: passes them to the paths.
void NeighbourCache::on_flags_change(Entry& e, const wire::HwAddr& hw, TimePoint now) {
  if (e.hw == hw) return;
  e.hw = hw;
  if (e.has_path) static_cast<void>(paths_.acquire(e.addr, hw, now));
}

bool NeighbourCache::learn(const wire::IpAddr& addr, const wire::HwAddr& hw, Evidence evidence,
                           bool create_it, TimePoint now) {
  Entry* e = find(addr);
  if (e == nullptr) {
    if (!create_it) return true;
    const auto created = create(addr, true, now);
    if (!created) return true;  // The message is still answered; no packet waits for this entry.
    e = *created;
  }
  const bool same = e->hw && e->hw->same_interface(hw);
  if (same && evidence == Evidence::kReply) paths_.answered(*e->hw, now);
  if (e->is_static || e->is_mapped) return true;
  if (!same) return move_if_settled(*e, hw, evidence, now);
  on_flags_change(*e, hw, now);
  if (evidence != Evidence::kReply) return true;
  e->evidence = evidence;
  if (e->valid()) confirm(*e, now);
  return true;
}

bool NeighbourCache::advertised(const wire::IpAddr& addr, const std::optional<wire::HwAddr>& hw,
                                bool solicited, bool override_it, TimePoint now) {
  Entry* e = find(addr);
  if (e == nullptr) return true;
  if (solicited && e->hw && (!hw || e->hw->same_interface(*hw))) paths_.answered(*e->hw, now);
  if (e->is_static || e->is_mapped) return true;
  const auto evidence = solicited ? Evidence::kReply : Evidence::kOther;
  if (!e->hw) {
    if (hw) move(*e, *hw, evidence, now);
    return true;
  }
  if (hw && !e->hw->same_interface(*hw)) {
    if (override_it) return move_if_settled(*e, *hw, evidence, now);
    if (e->phase == NeighbourPhase::kReachable) become_stale(*e, now);
    return true;
  }
  if (hw) on_flags_change(*e, *hw, now);
  if (!solicited) return true;
  e->evidence = evidence;
  if (e->valid()) confirm(*e, now);
  return true;
}

bool NeighbourCache::is_static(const wire::IpAddr& addr) const {
  const auto it = entries_.find(addr);
  return it != entries_.end() && it->second.is_static;
}

std::optional<wire::HwAddr> NeighbourCache::hw_of(const wire::IpAddr& addr) const {
  const auto it = entries_.find(addr);
  return it == entries_.end() ? std::nullopt : it->second.hw;
}

TimePoint NeighbourCache::last_used(const wire::IpAddr& addr) const {
  const auto it = entries_.find(addr);
  return it == entries_.end() ? TimePoint::min() : sink_.last_used(it->second.index);
}

bool NeighbourCache::has_failed(const wire::IpAddr& addr) const {
  const auto it = entries_.find(addr);
  return it != entries_.end() && it->second.failed;
}

bool NeighbourCache::is_gateway(const wire::IpAddr& addr) const {
  const auto it = entries_.find(addr);
  return it != entries_.end() && it->second.gateways > 0;
}

bool NeighbourCache::is_reachable(const wire::IpAddr& addr) const {
  const auto it = entries_.find(addr);
  return it != entries_.end() && it->second.phase == NeighbourPhase::kReachable;
}

void NeighbourCache::release_held(const wire::IpAddr& addr) {
  Entry* const e = find(addr);
  if (e == nullptr) return;
  const auto packets = held_.take(e->held);
  schedule(*e);
  for (const auto& h : packets) sink_.release(h.packet);
}

void NeighbourCache::limit_mtu6(std::uint16_t mtu) {
  if (mtu6_ == mtu) return;
  mtu6_ = mtu;
  unlimited6_.clear();
  for (const auto& [addr, e] : entries_)
    if (!addr.is_v4() && e.valid()) unlimited6_.push_back(addr);
  apply_limit();
}

void NeighbourCache::apply_limit() {
  for (unsigned i = 0; i < kLimitsPerTurn && !unlimited6_.empty(); ++i) {
    Entry* e = find(unlimited6_.back());
    unlimited6_.pop_back();
    if (e != nullptr && e->valid()) install(*e, table::NeighbourState::kValid);
  }
}

void NeighbourCache::on_path(const wire::IpAddr& addr, TimePoint now) {
  Entry* e = find(addr);
  if (e == nullptr || !e->has_path) return;
  const auto state = paths_.state(*e->hw);
  if (state == PathState::kFailed) return fail(*e, now);
  if (state != PathState::kReady) return;
  if (!e->valid()) return become_valid(*e, now);
  install(*e, table::NeighbourState::kValid);
  // If the path changed while probing, it is probed once before the next broadcast request.
  if (e->phase == NeighbourPhase::kProbe) solicitor_.probe(addr, *e->hw, now);
}

bool NeighbourCache::probe(const wire::IpAddr& addr, TimePoint since, TimePoint now) {
  const Entry* const e = find(addr);
  if (e == nullptr || !e->valid() || !used_since(*e, since)) return false;
  solicitor_.probe(addr, *e->hw, now);
  return true;
}

void NeighbourCache::reinstall() {
  for (auto& [addr, e] : entries_)
    if (e.valid()) install(e, table::NeighbourState::kValid);
}

// --- Time ---

void NeighbourCache::tick(TimePoint now) {
  apply_limit();
  while (const auto addr = timers_.due(now)) {
    Entry& e = *find(*addr);
    const auto expired = held_.take_expired(e.held, now);
    if (e.phase_due <= now)
      on_due(e, now);
    else
      schedule(e);
    drop_all(expired, Drop::kNeighbourHeldTooLong, true);
  }
}

void NeighbourCache::on_due(Entry& e, TimePoint now) {
  switch (e.phase) {
    case NeighbourPhase::kIncomplete: return e.attempts == 0 ? resolve(e, now) : ask_again(e, now);
    case NeighbourPhase::kReachable: return become_stale(e, now);
    case NeighbourPhase::kStale: return check_use(e, now);
    case NeighbourPhase::kProbe: return probe_again(e, now);
    case NeighbourPhase::kFailed: return try_again(e);
    case NeighbourPhase::kStatic:
      if (e.is_mapped) return check_mapped(e, now);
      break;
    case NeighbourPhase::kPath: break;
  }
  e.phase_due = kNever;
  schedule(e);
}

/// The negative-cache time of a failed entry has expired. Routes avoid a failed gateway, so no
/// packet will ever punt for it: it is resolved from here, so that it is used again once it
/// answers.
void NeighbourCache::try_again(Entry& e) {
  if (!e.kept()) return forget(e, Drop::kNeighbourGone);
  to_sleep(e);
  request_gateway(e);
}

void NeighbourCache::ask_again(Entry& e, TimePoint now) {
  if (e.attempts >= config_.max_requests) return fail(e, now);
  const auto attempt = e.attempts++;
  e.phase_due = now + jitter_.around(config_.retransmit, kRetransmitSpread);
  schedule(e);
  solicitor_.request(e.addr, attempt, now);
}

/// Stale: probes a used entry, and forgets one that is unused for long.
void NeighbourCache::check_use(Entry& e, TimePoint now) {
  if (used_since(e, e.looked)) {
    ask_for(e);
    e.phase = NeighbourPhase::kProbe;
    e.attempts = 0;
    return probe_again(e, now);
  }
  const auto use = last_use(e);
  if (now - use >= config_.idle) return forget(e, Drop::kNeighbourGone);
  e.touched = use;
  e.looked = now;
  e.phase_due = now + std::min(look_interval(config_), use + config_.idle - now);
  schedule(e);
}

/// Mapped: forgets an entry that is unused for long.
void NeighbourCache::check_mapped(Entry& e, TimePoint now) {
  const auto use = last_use(e);
  if (now - use >= config_.idle) return forget(e, Drop::kNeighbourGone);
  e.touched = use;
  e.phase_due = use + config_.idle;
  schedule(e);
}

/// Asks the neighbour by unicast first. After max_probes it queries the path again and asks all
/// hosts.
void NeighbourCache::probe_again(Entry& e, TimePoint now) {
  const auto attempt = e.attempts++;
  if (attempt >= config_.max_probes + config_.max_requests) return fail(e, now);
  e.phase_due = now + jitter_.around(config_.retransmit, kRetransmitSpread);
  schedule(e);
  if (attempt < config_.max_probes) return solicitor_.probe(e.addr, *e.hw, now);
  if (attempt == config_.max_probes) paths_.refresh(*e.hw, now);
  solicitor_.request(e.addr, attempt - config_.max_probes, now);
}

// --- Show ---

std::vector<wire::IpAddr> NeighbourCache::addresses() const {
  std::vector<wire::IpAddr> list;
  list.reserve(entries_.size());
  for (const auto& [addr, e] : entries_) list.push_back(addr);
  std::sort(list.begin(), list.end());
  return list;
}

std::optional<NeighbourInfo> NeighbourCache::info(const wire::IpAddr& addr, TimePoint now) const {
  const auto it = entries_.find(addr);
  if (it == entries_.end()) return std::nullopt;
  const Entry& e = it->second;
  NeighbourInfo row;
  row.addr = e.addr;
  row.phase = e.phase;
  row.index = e.index;
  row.held = e.held.size();
  row.age = now - e.confirmed;
  if (e.hw) row.lladdr = wire::to_string(*e.hw);
  if (e.valid()) {
    row.mtu = e.installed.mtu;
    row.mode = e.installed.mode;
    paths_.describe(*e.hw, row);
  }
  return row;
}

NeighbourPhases NeighbourCache::phases() const {
  NeighbourPhases n{};
  for (const auto& [addr, e] : entries_) ++n[static_cast<std::size_t>(e.phase)];
  return n;
}

}  // namespace ipoib::link
