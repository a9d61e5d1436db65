// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/paths/path_table.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

/// An unused path is kept this long: its user may return, and replies to hosts that are not
/// neighbours need it again.
constexpr Duration kLinger = std::chrono::seconds(30);
/// Delay of the query for a host that moved: all others notice at once, perhaps before the SA does.
constexpr Duration kMovedDelay = std::chrono::seconds(1);
/// The rate and the burst of queries for paths of which only other hosts have spoken. A host can
/// send from any number of made-up addresses; the burst serves the hosts of a rack that start
/// together.
constexpr Duration kUnaskedInterval = std::chrono::milliseconds(1);
constexpr std::uint32_t kUnaskedBurst = 256;
/// The rate and the burst of queries for known paths whose GIDs other ports claim.
constexpr Duration kClaimsInterval = std::chrono::milliseconds(10);
constexpr std::uint32_t kClaimsBurst = 64;
/// A path that only a claim made is kept this long after the claim or the answer. Linux repeats a
/// request after 4.1 s.
constexpr Duration kClaimLinger = std::chrono::seconds(5);
/// It is kept this long after the answer even if others need its place: the one who asked looks at it
/// every ten milliseconds.
constexpr Duration kClaimSeen = std::chrono::milliseconds(100);
constexpr std::size_t kMaxWaitingFrames = 256;
constexpr std::size_t kMaxWaitingPerPath = 8;
/// Paths to one port with a Q_Key of their own. A host can send ever new Q_Keys, and each path has
/// an address handle.
constexpr std::size_t kMaxQkeys = 16;
/// The rate and the burst of checks of all paths.
constexpr Duration kChecksInterval = std::chrono::milliseconds(1);
constexpr std::uint32_t kChecksBurst = 256;
/// Users of a path of which a check finds out if they are in use.
constexpr std::size_t kMaxCheckedUsers = 16;
/// Interval of log lines about records of the SA that are not usable, and about ways that are left.
constexpr Duration kPathLogInterval = std::chrono::seconds(10);
/// Spacing of paths that are queried again after an event.
constexpr Duration kRefreshSpacing = std::chrono::milliseconds(2);

}  // namespace

fabric::AhAttr path_attr(const wire::PathRecord& record, const fabric::PortAttr& port) {
  fabric::AhAttr attr;
  attr.dlid = record.dlid.host();
  attr.sl = record.sl();
  attr.rate = wire::value_of(record.rate);
  if (port.link_layer == fabric::LinkLayer::kInfiniBand)
    attr.src_path_bits = port.path_bits_of(record.slid.host());
  if (record.hop_limit() > 1) {
    attr.global = true;
    attr.dgid = record.dgid;
    attr.hop_limit = record.hop_limit();
    attr.tclass = record.tclass;
    attr.flow_label = record.flow_label();
  }
  return attr;
}

PathTable::PathTable(PathConfig config, LinkActions& actions, sa::Client& sa,
                     LinkCounters& counters, Listener listener, std::uint64_t seed, Prober prober)
    : config_{std::move(config)},
      actions_{actions},
      sa_{sa},
      counters_{counters},
      listener_{std::move(listener)},
      prober_{std::move(prober)},
      jitter_{seed},
      paths_{0, PathKeyHash{KeyedHash{seed}}},
      qkeys_{0, KeyedHash{seed}},
      unasked_limit_{kUnaskedInterval, kUnaskedBurst},
      checks_limit_{kChecksInterval, kChecksBurst},
      records_log_{kPathLogInterval},
      mtu_log_{kPathLogInterval},
      left_log_{kPathLogInterval},
      claims_limit_{kClaimsInterval, kClaimsBurst} {}

PathTable::~PathTable() {
  for (auto& [key, p] : paths_) sa_.cancel(p.query);
}

// --- Users ---

PathState PathTable::acquire(const wire::IpAddr& user, const wire::HwAddr& hw, TimePoint now) {
  now_ = now;
  Path* const found = find_or_make(key_of(hw));
  if (found == nullptr) return PathState::kFailed;
  Path& p = *found;
  const bool rested = p.unused();
  p.users.insert(user);
  end_claim(p);
  if (p.state == PathState::kReady) p.expires = kNever;
  // A path that was unused is queried again: its last user may have left because it changed.
  if (p.state == PathState::kPending || (p.state == PathState::kReady && rested)) query(p, now);
  schedule(p);
  return p.state;
}

void PathTable::asked_for(const wire::HwAddr& hw) {
  Path* p = find(key_of(hw));
  if (p == nullptr || p->users.empty()) return;
  p->asked = true;
  p->evicted = false;
  if (p->unasked != kNever) {
    unasked_.set(p->key, p->unasked, kNever);
    query(*p, now_);
  }
  schedule(*p);
}

void PathTable::release(const wire::IpAddr& user, const wire::HwAddr& hw) {
  Path* p = find(key_of(hw));
  if (p == nullptr || p->users.erase(user) == 0) return;
  if (p->users.empty()) p->asked = false;
  if (p->unused() && p->state == PathState::kReady) p->expires = now_ + kLinger;
  if (p->unused() && p->state == PathState::kPending) p->expires = now_;
  schedule(*p);
}

void PathTable::refresh(const wire::HwAddr& hw, TimePoint now) {
  now_ = now;
  Path* p = find(key_of(hw));
  if (p == nullptr || p->pinned || p->state != PathState::kReady) return;
  query(*p, now);
  schedule(*p);
}

void PathTable::answered(const wire::HwAddr& hw, TimePoint now) {
  now_ = now;
  Path* const p = find(key_of(hw));
  if (p == nullptr || p->checks.open() == fabric::kNoAh) return;
  p->checks.answered(now);
  schedule(*p);
}

PathState PathTable::state(const wire::HwAddr& hw) const {
  const Path* p = find(key_of(hw));
  return p == nullptr ? PathState::kFailed : p->state;
}

std::optional<PathTable::ReadyPath> PathTable::ready_path(const wire::Gid& gid) const {
  const Path* p = find(gid);
  if (p == nullptr || p->state != PathState::kReady) return std::nullopt;
  return ReadyPath{p->attr, p->mtu_code, p->lifetime};
}

bool PathTable::is_answered(const wire::Gid& gid, TimePoint since, TimePoint now) {
  now_ = now;
  Path* found = find(gid);
  if (found == nullptr) {
    found = make_claimed(gid, now);
    if (found == nullptr) {
      ++counters_.path_claims_refused;
      return false;
    }
  }
  Path& p = *found;
  if (p.pinned || p.answered_at >= since) return true;
  const bool coming =
      p.query != sa::kNoTransaction || p.unasked != kNever || p.refresh_at <= now + kQueryInterval;
  // One that failed expires when it would without the claim: the next call makes a new one.
  if (p.unused() && p.state != PathState::kFailed &&
      (p.expires == kNever || p.expires < now + kClaimLinger))
    p.expires = now + kClaimLinger;
  if (!coming && (p.state == PathState::kPending || claims_limit_.allow(now))) query(p, now);
  schedule(p);
  return false;
}

std::unordered_map<std::uint16_t, wire::Gid> PathTable::ports() const {
  std::unordered_map<std::uint16_t, wire::Gid> ports;
  std::set<std::uint16_t> shared;
  for (const auto& [key, p] : paths_) {
    if (p.state != PathState::kReady || p.attr.global) continue;
    const auto [it, added] = ports.try_emplace(p.attr.dlid, key.gid);
    if (!added && it->second != key.gid) shared.insert(p.attr.dlid);
  }
  shared.insert(0);  // The LID of no port.
  for (const std::uint16_t lid : shared) ports.erase(lid);
  return ports;
}

std::set<wire::IpAddr> PathTable::users_of(const wire::Gid& gid) const {
  const Path* const p = find(gid);
  return p == nullptr ? std::set<wire::IpAddr>{} : p->users;
}

void PathTable::describe(const wire::HwAddr& hw, table::Neighbour& out) const {
  const Path* p = find(key_of(hw));
  if (p == nullptr) return;
  const unsigned path_mtu = wire::mtu_octets(p->mtu_code);
  out.ah = p->ah;
  if (std::ranges::any_of(p->ways, [p](const Way& way) { return way.ah != p->ah; })) {
    std::array<std::uint16_t, table::Neighbour::kMaxPaths> handles;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const fabric::AhIndex ah = p->ways[i % p->ways.size()].ah;
      expects(ah <= 0xffff, "no device has more handles");
      handles[i] = static_cast<std::uint16_t>(ah);
    }
    out.mode = table::NeighbourMode::kUdPaths;
    out.set_handles(handles);
  }
  out.qpn = hw.datagram_addr().qpn;
  out.mtu = link_mtu_;
  if (path_mtu != 0)
    out.mtu = static_cast<std::uint16_t>(
        std::min<unsigned>(link_mtu_, path_mtu - unsigned{sizeof(wire::IpoibHdr)}));
}

void PathTable::describe(const wire::HwAddr& hw, NeighbourInfo& out) const {
  const Path* p = find(key_of(hw));
  if (p == nullptr) return;
  out.qpn = hw.datagram_addr().qpn;
  out.lid = p->attr.dlid;
  out.sl = p->attr.sl;
  out.rate = p->attr.rate;
  for (const Way& way : p->known)
    if (!p->checks.is_left(way.ah))
      out.paths.push_back({actions_.port().lid_with(way.attr.src_path_bits), way.attr.dlid});
}

void PathTable::send(const wire::HwAddr& to, std::span<const std::byte> frame, TimePoint now) {
  now_ = now;
  Path* const found = find_or_make(key_of(to));
  if (found == nullptr) return count_unsent(frame);
  Path& p = *found;
  const std::uint32_t qpn = to.datagram_addr().qpn;
  const bool room = frames_waiting_ < kMaxWaitingFrames && p.waiting.size() < kMaxWaitingPerPath;
  end_claim(p);
  if (p.state == PathState::kReady) {
    // The path to a host that may have moved ends soon, and is queried again.
    if (p.unused() && (p.heard == 0 || on_one_port(p.heard, p.attr.dlid)))
      p.expires = now + kLinger;
    actions_.send(own_way(p), qpn, frame);
  } else if (p.state == PathState::kFailed || !room) {
    count_unsent(frame);
    if (p.unused() && p.expires == kNever) p.expires = now;
  } else {
    p.waiting.push_back({qpn, {frame.begin(), frame.end()}});
    ++frames_waiting_;
    query(p, now);
  }
  schedule(p);
}

/// Returns the handle for a message of the link itself. While a check is open, all requests take its
/// way, so that each answer belongs to it. The others take the ways in turn.
fabric::AhIndex PathTable::own_way(Path& p) const {
  const auto preferred =
      std::ranges::find(p.ways, preferred_lid_, [](const Way& way) { return way.attr.dlid; });
  if (preferred != p.ways.end()) return preferred->ah;
  if (preferred_lid_ == 0 && p.checks.open() != fabric::kNoAh) return p.checks.open();
  return p.ways[p.turn++ % p.ways.size()].ah;
}

void PathTable::heard(const wire::HwAddr& from, std::uint16_t slid, TimePoint now) {
  Path* p = find(key_of(from));
  if (p == nullptr || slid == 0) return;
  const auto before = std::exchange(p->heard, slid);
  const bool moved = before != 0 && !on_one_port(before, slid) && !on_one_port(slid, p->attr.dlid);
  if (!moved || p->pinned || p->state != PathState::kReady) return;
  p->refresh_at = std::min(p->refresh_at, now + jitter_.around(kMovedDelay, 50));
  schedule(*p);
}

// --- The link ---

void PathTable::resume(std::optional<std::uint8_t> tclass, std::uint16_t mtu, std::uint32_t qkey,
                       TimePoint now) {
  now_ = now;
  tclass_ = tclass;
  const bool larger = std::exchange(link_mtu_, mtu) < mtu;
  const bool other_qkey = std::exchange(link_qkey_, qkey) != qkey;
  if (std::exchange(operational_, true)) {
    if (other_qkey) renew_handles(now);
    if (larger) report_small_mtus(now);
    return;
  }
  for (auto& [key, p] : paths_) {
    if (p.state != PathState::kPending) continue;
    p.refresh_at = now;
    schedule(p);
  }
}

void PathTable::pin(const PathKey& key, const fabric::AhAttr& attr, TimePoint now) {
  now_ = now;
  Path* const found = find(key);
  Path& p = found != nullptr ? *found : make(key);
  cancel_query(p);
  end_claim(p);
  p.pinned = true;
  p.expires = kNever;
  p.refresh_at = kNever;
  if (operational_)
    apply_pinned(p, attr, now);
  else
    p.attr = attr;
  schedule(p);
}

void PathTable::unpin(const PathKey& key) {
  Path* p = find(key);
  if (p == nullptr || !std::exchange(p->pinned, false)) return;
  if (p->unused())
    p->expires = now_;
  else
    p->refresh_at = now_;
  schedule(*p);
}

fabric::AhIndex PathTable::ah(const wire::Gid& gid) const {
  const Path* p = find(gid);
  return p == nullptr || p->state != PathState::kReady ? fabric::kNoAh : p->ah;
}

void PathTable::refresh_all(TimePoint now) {
  tables_again_ = TimePoint::min();
  auto at = now;
  for (auto& [key, p] : paths_) {
    if (p.pinned || p.unused() || p.state != PathState::kReady) continue;
    p.refresh_at = at = at + jitter_.around(kRefreshSpacing, 50);
    schedule(p);
  }
}

void PathTable::clear() {
  operational_ = false;
  for (auto& [key, p] : paths_) p.users.clear();
  while (!paths_.empty()) erase(paths_.begin()->second);
}

// --- Paths ---

const PathTable::Path* PathTable::find(const PathKey& key) const {
  const auto it = paths_.find(key);
  return it == paths_.end() ? nullptr : &it->second;
}

PathTable::Path* PathTable::find(const PathKey& key) {
  return const_cast<Path*>(std::as_const(*this).find(key));
}

PathTable::Path& PathTable::make(const PathKey& key) {
  if (key.qkey) qkeys_[key.gid].push_back(*key.qkey);
  return paths_.try_emplace(key, key).first->second;
}

/// Returns null if the port has too many paths that this node has asked for.
PathTable::Path* PathTable::find_or_make(const PathKey& key) {
  if (Path* const p = find(key)) return p;
  const bool own_qkey = key.qkey && key.qkey != link_qkey_;
  if (own_qkey && !make_room(key.gid)) {
    ++counters_.paths_refused;
    return nullptr;
  }
  return &make(key);
}

/// If there are too many paths to the port, ends the oldest one without users, or else the oldest
/// one that this node has not asked for. Returns false if there is none.
bool PathTable::make_room(const wire::Gid& gid) {
  const auto it = qkeys_.find(gid);
  if (it == qkeys_.end() || it->second.size() < kMaxQkeys) return true;
  std::size_t paths = 0;
  Path *unused = nullptr, *unasked = nullptr;
  for (const std::uint32_t qkey : it->second) {
    Path& p = *find({gid, qkey});
    if (qkey == link_qkey_ || p.pinned || p.evicted) continue;
    ++paths;
    if (unused == nullptr && p.users.empty()) unused = &p;
    if (unasked == nullptr && !p.asked) unasked = &p;
  }
  if (paths < kMaxQkeys) return true;
  if (unused != nullptr) {
    erase(*unused);
    return true;
  }
  if (unasked == nullptr) return false;
  // Its users learn of it at the next tick, because this may be a call of one of them.
  ++counters_.paths_refused;
  unasked->evicted = true;
  schedule(*unasked);
  return true;
}

/// Makes a path that only a claim needs. Returns null if there are too many, and none makes room.
PathTable::Path* PathTable::make_claimed(const wire::Gid& gid, TimePoint now) {
  if (claimed_ >= kMaxClaimed) {
    const auto oldest = settled_claims_.due(now - kClaimSeen);
    if (!oldest) return nullptr;
    erase(*find(*oldest));
  }
  Path& p = make(gid);
  p.claimed = true;
  ++claimed_;
  return &p;
}

/// The path is needed by more than a claim, or is about to be erased.
void PathTable::end_claim(Path& p) {
  if (std::exchange(p.claimed, false)) --claimed_;
  settled_claims_.set(p.key, p.settled, kNever);
}

void PathTable::erase(Path& p) {
  cancel_query(p);
  end_claim(p);
  drop_waiting(p);
  destroy_unused(p.known, {});
  timers_.set(p.key, p.wake, kNever);
  unasked_.set(p.key, p.unasked, kNever);
  const PathKey key = p.key;
  paths_.erase(key);
  if (!key.qkey) return;
  const auto it = qkeys_.find(key.gid);
  std::erase(it->second, *key.qkey);
  if (it->second.empty()) qkeys_.erase(it);
}

void PathTable::schedule(Path& p) {
  const TimePoint due = std::min({p.refresh_at, p.expires, p.checks.due()});
  timers_.set(p.key, p.wake, p.evicted ? now_ : due);
}

/// True for two LIDs of one port: subnet managers give all ports of a subnet one LMC.
bool PathTable::on_one_port(std::uint16_t lid, std::uint16_t other) const {
  return fabric::same_port({.lid = lid}, {.lid = other}, actions_.port().lmc);
}

void PathTable::let_linger(Path& p, TimePoint now) {
  p.expires = now + (p.claimed ? kClaimLinger : kLinger);
}

/// The path is ready with these different attributes. Users are notified before old handles are
/// destroyed.
Status PathTable::apply(Path& p, std::vector<fabric::AhAttr> attrs, std::uint8_t mtu_code,
                        TimePoint now) {
  // A handle without the Q_Key of the link costs less.
  for (fabric::AhAttr& attr : attrs)
    attr.qkey = p.key.qkey == link_qkey_ ? std::nullopt : p.key.qkey;
  auto known = make_ways(p.known, attrs);
  if (!known) return tl::make_unexpected(known.error());
  const std::vector<Way> old = std::exchange(p.known, std::move(*known));
  std::vector<fabric::AhIndex> handles;
  for (const Way& way : p.known) handles.push_back(way.ah);
  p.checks.set_paths(handles, now);
  std::vector<Way> used;
  std::ranges::copy_if(p.known, std::back_inserter(used),
                       [&p](const Way& way) { return !p.checks.is_left(way.ah); });
  std::vector<Way> ways = places_of(used);
  const bool same =
      p.state == PathState::kReady && std::ranges::equal(ways, p.ways, {}, &Way::ah, &Way::ah);
  if (same && p.mtu_code == mtu_code) {
    destroy_unused(old, p.known);
    return {};
  }
  p.ways = std::move(ways);
  p.attr = p.ways.front().attr;
  p.ah = p.ways.front().ah;
  p.mtu_code = mtu_code;
  p.state = PathState::kReady;
  p.expires = kNever;
  flush_waiting(p);
  notify(p, now);
  destroy_unused(old, p.known);
  return {};
}

/// Returns a way for each of the attributes, of which there are at most as many as places. Those that
/// stay keep their handle and their place, and the others get free places.
Result<std::vector<PathTable::Way>> PathTable::make_ways(const std::vector<Way>& old,
                                                         const std::vector<fabric::AhAttr>& attrs) {
  std::vector<Way> ways, made;
  std::set<std::size_t> free;
  for (std::size_t i = 0; i < config_.paths; ++i) free.insert(i);
  for (const Way& way : old)
    if (std::ranges::find(attrs, way.attr) != attrs.end()) free.erase(way.place);
  for (const fabric::AhAttr& attr : attrs) {
    const auto at = std::ranges::find(old, attr, &Way::attr);
    if (at != old.end()) {
      ways.push_back(*at);
      continue;
    }
    const auto ah = actions_.create_ah(attr);
    if (!ah) {
      destroy_unused(made, {});
      return tl::make_unexpected(ah.error());
    }
    made.push_back({attr, *ah, free.extract(free.begin()).value()});
    ways.push_back(made.back());
  }
  return ways;
}

/// Gives each value of the flow hash one of the used ways: each has its own place, so that only the
/// flows of lost ways move, and the others fill the free places in turn.
std::vector<PathTable::Way> PathTable::places_of(const std::vector<Way>& used) const {
  std::vector<Way> places(config_.paths);
  for (const Way& way : used) places[way.place] = way;
  std::size_t turn = 0;
  for (Way& way : places)
    if (way.ah == fabric::kNoAh) way = used[turn++ % used.size()];
  return places;
}

/// Destroys the handles of `ways` that `used` does not have.
void PathTable::destroy_unused(const std::vector<Way>& ways, const std::vector<Way>& used) {
  std::set<fabric::AhIndex> handles;
  for (const Way& way : ways) handles.insert(way.ah);
  for (const Way& way : used) handles.erase(way.ah);
  for (const fabric::AhIndex ah : handles) actions_.destroy_ah(ah);
}

std::vector<fabric::AhAttr> PathTable::Path::attrs() const {
  std::vector<fabric::AhAttr> attrs;
  for (const Way& way : known) attrs.push_back(way.attr);
  return attrs;
}

/// Judges the open check of the ways, and sends the next one.
void PathTable::check_ways(Path& p, TimePoint now) {
  if (p.checks.due() > now) return;
  const std::vector<Way> before = p.ways;
  if (p.checks.judge(now)) {
    log_left(p, before, now);
    if (const auto done = apply(p, p.attrs(), p.mtu_code, now); !done)
      on_failure(p, done.error().what, now);
    query(p, now);
  }
  if (p.checks.start(now) == fabric::kNoAh) return;
  if (!checks_limit_.allow(now)) {
    p.checks.put_off(jitter_.around(PathChecks::kTimeout / 10, 50), now);
  } else if (!send_check(p, now)) {
    p.checks.forget_misses();
    p.checks.put_off(jitter_.around(PathChecks::kInterval / 2, 50), now);
  }
}

/// Counts and logs the ways among `used` that are left now.
void PathTable::log_left(const Path& p, const std::vector<Way>& used, TimePoint now) {
  std::set<fabric::AhIndex> left;
  for (const Way& way : used) {
    if (!p.checks.is_left(way.ah) || !left.insert(way.ah).second) continue;
    ++counters_.paths_left;
    if (const auto others = left_log_.allow(now))
      log(LogArea::kLink, LogLevel::kWarning,
          "{}: the path from LID 0x{:04x} to LID 0x{:04x} of {} carries no answers and is left ({} "
          "more since the last line)",
          config_.name, actions_.port().lid_with(way.attr.src_path_bits), way.attr.dlid,
          wire::to_string(p.key.gid), *others);
  }
}

/// Sends a message of the open check to a user that is in use: the same one until no path carries its
/// answers. Returns false if a few users are not in use.
bool PathTable::send_check(Path& p, TimePoint now) {
  if (!prober_ || p.pinned || p.state != PathState::kReady) return false;
  const bool silent = std::exchange(p.silences, p.checks.silences()) != p.checks.silences();
  auto user = silent ? p.users.upper_bound(p.checked_user) : p.users.lower_bound(p.checked_user);
  const std::size_t tries = std::min(p.users.size(), kMaxCheckedUsers);
  for (std::size_t i = 0; i < tries; ++i, ++user) {
    if (user == p.users.end()) user = p.users.begin();
    p.checked_user = *user;
    if (prober_(*user, now - PathChecks::kInterval, now)) return true;
  }
  if (tries > 0) p.checked_user = user == p.users.end() ? *p.users.begin() : *user;
  return false;
}

/// The Q_Key of the link has changed, so that other paths than before need handles with a Q_Key.
void PathTable::renew_handles(TimePoint now) {
  std::vector<PathKey> keys;  // The listener may add paths.
  for (const auto& [key, p] : paths_)
    if (key.qkey && p.state == PathState::kReady) keys.push_back(key);
  for (const auto& key : keys) {
    Path* const p = find(key);
    if (p == nullptr) continue;
    if (const auto done = apply(*p, p->attrs(), p->mtu_code, now); !done) {
      on_failure(*p, done.error().what, now);
      p->refresh_at = now + kQueryInterval;
    }
    if (p->unused() && p->expires == kNever) p->expires = now + kLinger;
    schedule(*p);
  }
}

/// A path that worked stays in use, even if the SA denies it: a restarted SA has little data for a
/// while. Probes find out if the neighbour is gone.
void PathTable::on_failure(Path& p, const std::string& why, TimePoint now) {
  ++counters_.path_failures;
  log(LogArea::kLink, LogLevel::kInfo, "{}: no path to {}: {}", config_.name,
      wire::to_string(p.key.gid), why);
  if (p.ah == fabric::kNoAh) fail(p, now);
}

/// Applies the attributes of a pinned path. If that fails, a handle with other attributes is
/// useless.
void PathTable::apply_pinned(Path& p, const fabric::AhAttr& attr, TimePoint now) {
  const auto done = apply(p, {attr}, 0, now);
  p.attr = attr;
  if (done) return;
  ++counters_.path_failures;
  log(LogArea::kLink, LogLevel::kWarning, "{}: no path to {}: {}", config_.name,
      wire::to_string(p.key.gid), done.error().what);
  fail(p, now);
}

void PathTable::fail(Path& p, TimePoint now) {
  p.state = PathState::kFailed;
  p.refresh_at = kNever;
  drop_waiting(p);
  notify(p, now);
  destroy_unused(std::exchange(p.known, {}), {});
  p.ways.clear();
  p.checks = {};
  p.ah = fabric::kNoAh;
  if (p.pinned)
    // Resources may be available again.
    p.refresh_at = now + std::max(config_.negative, kQueryInterval);
  else
    p.expires = now + config_.negative;
}

void PathTable::notify(const Path& p, TimePoint now) {
  const std::vector<wire::IpAddr> users{p.users.begin(), p.users.end()};
  for (const auto& user : users) listener_(user, now);
}

void PathTable::flush_waiting(Path& p) {
  frames_waiting_ -= p.waiting.size();
  for (const auto& frame : std::exchange(p.waiting, {}))
    actions_.send(p.ah, frame.qpn, frame.bytes);
}

void PathTable::drop_waiting(Path& p) {
  frames_waiting_ -= p.waiting.size();
  for (const auto& frame : std::exchange(p.waiting, {})) count_unsent(frame.bytes);
}

void PathTable::count_unsent(std::span<const std::byte> frame) {
  const auto hdr = wire::read<wire::Be32>(frame);
  const bool nd =
      hdr && wire::encapsulated_type(config_.encapsulation, *hdr) == wire::EtherType::kIpv6;
  ++(nd ? counters_.nd_unsent : counters_.arp_unsent);
}

void PathTable::tick(TimePoint now) {
  now_ = now;
  while (const auto key = timers_.due(now)) {
    Path& p = *find(*key);
    if (p.expires <= now) {
      erase(p);
      continue;
    }
    if (!p.evicted && p.refresh_at > now) {
      check_ways(p, now);
      schedule(p);
      continue;
    }
    p.refresh_at = kNever;
    if (std::exchange(p.evicted, false)) {
      cancel_query(p);
      fail(p, now);
      if (p.unused()) {
        erase(p);
        continue;
      }
    } else if (p.pinned) {
      apply_pinned(p, p.attr, now);
    } else {
      query(p, now);
    }
    schedule(p);
  }
  query_unasked(now);
  retry_tables(now);
}

std::optional<TimePoint> PathTable::next_deadline() const {
  std::optional<TimePoint> next = timers_.next();
  if (unasked_.size() != 0) next = earlier(next, unasked_limit_.next());
  return tables_refused_ ? earlier(next, tables_again_) : next;
}

}  // namespace ipoib::link
