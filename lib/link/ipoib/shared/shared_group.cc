// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/shared/shared_group.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/ipoib/shared/rendezvous.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {
namespace {

constexpr unsigned kAdvertSpread = 10;
constexpr unsigned kRepetitions = 2;
/// A change of members looks at each host, so members that come and go cannot ask for it more often.
constexpr Duration kReviewInterval = std::chrono::milliseconds(100);
/// A Linux host ignores a second answer within a second (its locktime).
constexpr Duration kAgain = std::chrono::milliseconds(1200);
constexpr Duration kRemindInterval = std::chrono::seconds(10);
constexpr Duration kInformSpacing = Duration{std::chrono::seconds(1)} / SharedGroup::kInformRate;
/// Limit of messages at once, after a time in which nothing ran.
constexpr int kInformAtOnce = 16;

std::uint16_t hundredths(Duration d) {
  return static_cast<std::uint16_t>(d / std::chrono::milliseconds(10));
}

std::vector<wire::IpAddr> in_order(std::vector<wire::IpAddr> addresses) {
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

}  // namespace

std::string_view to_string(SharedRefusal reason) {
  switch (reason) {
    case SharedRefusal::kMalformed: return "malformed";
    case SharedRefusal::kNoGid: return "no_gid";
    case SharedRefusal::kAddresses: return "addresses";
    case SharedRefusal::kInterval: return "interval";
    case SharedRefusal::kStranger: return "stranger";
    case SharedRefusal::kLeft: return "left";
    case SharedRefusal::kFull: return "full";
    case SharedRefusal::kCount: break;
  }
  return "unknown";
}

SharedGroup::SharedGroup(const std::string& name, const SharedConfig& config,
                         std::vector<wire::IpAddr> addresses, SharedGroupActions& actions,
                         std::uint64_t seed, std::size_t max_hosts)
    : name_{name},
      config_{config},
      addresses_{in_order(std::move(addresses))},
      actions_{actions},
      jitter_{seed},
      hosts_{max_hosts, seed ^ 1} {}

// --- Life ---

void SharedGroup::up(TimePoint now) {
  if (state_ != State::kDown) return;
  state_ = State::kListening;
  own_ = actions_.gid();
  member_from_.reset();
  due_ = now;
}

void SharedGroup::down() {
  state_ = State::kDown;
  others_.clear();
  alive_.clear();
  lost_.clear();
  review_due_.reset();
  to_inform_.clear();
  again_.clear();
  reminders_.clear();
  hosts_.for_each([](SharedHost& host) {
    host.server.reset();
    host.waits = InformReason::kNone;
  });
}

void SharedGroup::leave(TimePoint now) {
  if (state_ == State::kMember) leave_group(now);
  down();
}

void SharedGroup::leave_group(TimePoint now) {
  if (actions_.advertise(wire::kVrrpLeaves, now)) ++counters_.adverts_sent;
}

void SharedGroup::set_serving(bool serving, TimePoint now) {
  if (std::exchange(serving_, serving) == serving || state_ == State::kDown) return;
  if (serving && state_ == State::kListening) member_from_.reset();
  due_ = now;
}

/// True if others can serve the hosts of this node, which is to serve none.
bool SharedGroup::retires() const {
  return !serving_ && std::any_of(others_.begin(), others_.end(),
                                  [](const auto& other) { return !other.second.left; });
}

/// The others may not know hosts that asked before they started.
void SharedGroup::retire(TimePoint now) {
  leave_group(now);
  state_ = State::kListening;
  member_from_.reset();
  due_ = now;
  changed(now);
  hosts_.for_each([&](SharedHost& host) {
    if (host.server != own_.guid()) return;
    host.server = server_of(host.key.port);
    host.moved_by = own_.guid();
    host.moved = now;
    enqueue(host, InformReason::kHandedOver);
  });
  log(LogArea::kLink, LogLevel::kNotice, "{}: leaves {} to the other nodes of group {}", name_,
      wire::to_string(addresses_.front()), config_.vrid);
}

/// Becomes a member when it has heard the others for long enough.
void SharedGroup::listen_on(TimePoint now) {
  if (!actions_.hears() || retires()) {
    member_from_.reset();
    due_ = now + config_.interval / 4;
    return;
  }
  if (!member_from_) member_from_ = now + lifetime();
  due_ = *member_from_;
  if (now < due_) return;
  state_ = State::kMember;
  repetitions_ = kRepetitions;
  log(LogArea::kLink, LogLevel::kNotice,
      "{}: shares {} with {} other nodes as a member of group {}", name_,
      wire::to_string(addresses_.front()), alive_.size(), config_.vrid);
  changed(now);
}

void SharedGroup::advertise(TimePoint now) {
  ++(actions_.advertise(kPriority, now) ? counters_.adverts_sent : counters_.adverts_unsent);
  if (repetitions_ > 0) {
    --repetitions_;
    due_ = now + config_.interval / 8;
    return;
  }
  due_ = now + jitter_.around(config_.interval, kAdvertSpread);
}

// --- Members ---

void SharedGroup::log_member(const wire::Gid& gid, std::string_view event, TimePoint now) {
  if (const auto suppressed = log_limit_.allow(now))
    log(LogArea::kLink, LogLevel::kNotice,
        "{}: the node with GID {} {}; group {} of {} has {} members ({} messages suppressed)",
        name_, wire::to_string(gid), event, config_.vrid, wire::to_string(addresses_.front()),
        alive_.size(), *suppressed);
}

void SharedGroup::changed(TimePoint now) {
  alive_.clear();
  if (state_ == State::kMember) alive_.push_back(own_.guid());
  for (const auto& [guid, member] : others_)
    if (!member.left) alive_.push_back(guid);
  review_due_ = std::max(now, reviewed_ + kReviewInterval);
}

void SharedGroup::on_advertisement(const wire::VrrpAdvertisement& advertisement,
                                   const wire::Gid& from, std::uint32_t qpn, TimePoint now) {
  const std::uint64_t guid = from.guid();
  if (state_ == State::kDown || guid == own_.guid()) return;
  ++counters_.adverts_received;
  const wire::LinkAddr sender{0, wire::Be24{qpn}, from};
  if (from.is_zero() || !wire::HwAddr{sender}.is_plausible()) return refuse(SharedRefusal::kNoGid);
  const auto& allowed = config_.members;
  if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), guid) == allowed.end())
    return refuse(SharedRefusal::kStranger);
  if (in_order(advertisement.addresses) != addresses_) return refuse(SharedRefusal::kAddresses);
  if (advertisement.interval_cs != hundredths(config_.interval))
    return refuse(SharedRefusal::kInterval);

  const auto known = others_.find(guid);
  const bool leaves = advertisement.priority == wire::kVrrpLeaves;
  if (known != others_.end() && known->second.left) {
    if (!leaves) refuse(SharedRefusal::kLeft);
    return;
  }
  if (leaves) {
    if (known == others_.end()) return;
    known->second.left = true;
    known->second.heard = now;
    known->second.until = now + lifetime();
    lose(known->second, now);
    return log_member(from, "has left", now);
  }
  if (known == others_.end() && others_.size() + 1 >= kMaxSharedMembers)
    return refuse(SharedRefusal::kFull);
  if (known != others_.end()) {
    known->second = {from, qpn, false, known->second.since, now, now + lifetime()};
    return;
  }
  others_[guid] = {from, qpn, false, now, now, now + lifetime()};
  changed(now);
  log_member(from, "has joined", now);
}

void SharedGroup::on_out_of_service(const wire::Gid& gid, TimePoint now) {
  const auto it = others_.find(gid.guid());
  if (it == others_.end() || it->second.gid != gid || it->second.left) return;
  lose(others_.extract(it).mapped(), now);
  log_member(gid, "is out of service", now);
}

void SharedGroup::lose(const Member& member, TimePoint now) {
  lost_.push_back(member);
  changed(now);
}

void SharedGroup::expire(TimePoint now) {
  const bool silent = std::any_of(others_.begin(), others_.end(), [now](const auto& other) {
    return other.second.until <= now && !other.second.left;
  });
  if (silent && state_ == State::kMember && !actions_.hears()) {
    // This node does not hear the others, which serve their hosts. They take over its own.
    leave(now);
    return up(now);
  }
  for (auto it = others_.begin(); it != others_.end();) {
    const Member member = it->second;
    if (member.until > now) {
      ++it;
      continue;
    }
    it = others_.erase(it);
    if (member.left) continue;
    lose(member, now);
    log_member(member.gid, "is not heard any more", now);
  }
}

// --- Hosts ---

std::optional<std::uint64_t> SharedGroup::server_of(const wire::Gid& host) const {
  return rendezvous_winner(host.guid(), alive_);
}

bool SharedGroup::answers(const wire::IpAddr& shared, const wire::IpAddr& host,
                          const std::optional<wire::HwAddr>& hw, std::uint32_t source,
                          TimePoint now) {
  if (state_ == State::kDown) {
    ++counters_.early;
    return false;
  }
  // A probe of duplicate address detection does not name its host: one member answers these.
  const wire::Gid port = hw ? hw->datagram_addr().gid : wire::Gid{};
  const auto server = server_of(port);
  const bool named = hw && !(host.is_v4() ? host.v4_host() == 0 : host == wire::IpAddr{});
  if (named) {
    SharedHost& known = hosts_.heard({port, host, shared}, *hw, source);
    // Others may not have heard the request of a host that this node serves: it may be unicast.
    if (known.server != own_.guid() || known.heard == TimePoint{}) known.heard = now;
    known.server = server;
  }
  if (state_ == State::kListening) {
    ++counters_.early;
    return false;
  }
  const bool here = server == own_.guid();
  ++(here ? counters_.answered : counters_.left);
  return here;
}

bool SharedGroup::claimed(const std::optional<wire::HwAddr>& hw, TimePoint now) {
  const auto it = hw ? others_.find(hw->datagram_addr().gid.guid()) : others_.end();
  if (it != others_.end() && it->second.gid == hw->datagram_addr().gid) return true;
  ++counters_.claims;
  // The reminders of one claim end long before those of the next one.
  const Duration interval =
      std::max(kRemindInterval, 10 * static_cast<int>(hosts_.size()) * kInformSpacing);
  if (reminded_ && now - *reminded_ < interval) return false;
  reminded_ = now;
  enqueue_own();
  return false;
}

void SharedGroup::announce(TimePoint now) {
  if (state_ != State::kMember) return;
  if (actions_.gid() != own_) {  // The others know this node by another name: it joins again.
    down();
    return up(now);
  }
  enqueue_own();
}

bool SharedGroup::is_alive(std::uint64_t guid) const {
  return std::find(alive_.begin(), alive_.end(), guid) != alive_.end();
}

/// True if the member was one when the host last asked. Precondition: it is alive.
bool SharedGroup::knows(std::uint64_t member, const SharedHost& host) const {
  return (member == own_.guid() ? *member_from_ : others_.at(member).since) <= host.heard;
}

/// The first of the members that know the host; 0: none does. This node may have heard it before it was
/// a member, and alone it is the one to inform it.
std::uint64_t SharedGroup::informer_of(const SharedHost& host) const {
  if (alive_.size() == 1) return alive_.front();
  const std::uint64_t port = host.key.port.guid();
  std::uint64_t first = 0;
  for (const std::uint64_t member : alive_)
    if (knows(member, host) &&
        (first == 0 || rendezvous_weight(port, member) > rendezvous_weight(port, first)))
      first = member;
  return first;
}

/// Finds the hosts that a change of members has moved.
void SharedGroup::review(TimePoint now) {
  const auto lost = std::exchange(lost_, {});
  hosts_.for_each([&](SharedHost& host) { follow(host, lost, now); });
}

/// `lost`: the members that are gone since the last review().
void SharedGroup::follow(SharedHost& host, const std::vector<Member>& lost, TimePoint now) {
  const auto next = server_of(host.key.port);
  const auto before = std::exchange(host.server, next);
  if (state_ != State::kMember) return;
  const bool lives = before && is_alive(*before);
  const bool was_informed = std::none_of(lost.begin(), lost.end(), [&](const Member& gone) {
    // The latest advertisement may be from before the move, and the messages took a moment.
    return gone.gid.guid() == host.moved_by && gone.heard < host.moved + config_.interval;
  });
  if (!before || (before == next && was_informed)) return;
  host.moved_by = lives && before != next && knows(*before, host) ? *before : informer_of(host);
  host.moved = now;
  if (host.moved_by != own_.guid()) return;
  enqueue(host, lives && was_informed ? InformReason::kHandedOver : InformReason::kTakenOver);
}

/// Hosts that have moved come before reminders, of which a stranger can cause many.
void SharedGroup::enqueue(SharedHost& host, InformReason reason) {
  const auto before = std::exchange(host.waits, reason);
  if (before != InformReason::kNone && (before != InformReason::kReminded || reason == before))
    return;
  (reason == InformReason::kReminded ? reminders_ : to_inform_).push_back(host.key);
}

void SharedGroup::enqueue_own() {
  if (state_ != State::kMember) return;
  hosts_.for_each([this](SharedHost& host) {
    if (host.server == own_.guid() && host.waits == InformReason::kNone)
      enqueue(host, InformReason::kReminded);
  });
}

void SharedGroup::inform_some(TimePoint now) {
  // Time in which there was nothing to do is no credit.
  inform_due_ = std::max(inform_due_, now - kInformSpacing * (kInformAtOnce - 1));
  while (inform_due_ <= now) {
    if (!to_inform_.empty()) {
      const SharedHostKey key = to_inform_.front();
      to_inform_.pop_front();
      inform(key, now);
    } else if (!again_.empty() && again_.front().first <= now) {
      const SharedHostKey key = again_.front().second;
      again_.pop_front();
      const SharedHost* const host = hosts_.find(key);
      if (host != nullptr && send_to(*host, now)) ++counters_.reminded;
    } else if (!reminders_.empty()) {
      const SharedHostKey key = reminders_.front();
      reminders_.pop_front();
      // A host that has moved since was informed, or waits in the other queue.
      const SharedHost* const host = hosts_.find(key);
      if (host == nullptr || host->waits != InformReason::kReminded) continue;
      inform(key, now);
    } else {
      return;
    }
    inform_due_ += kInformSpacing;
  }
}

/// Informs the host of its server. Returns false if it has none.
bool SharedGroup::send_to(const SharedHost& host, TimePoint now) {
  const auto server = server_of(host.key.port);
  if (!server) return false;
  if (server == own_.guid()) {
    actions_.inform(host, nullptr, now);
    return true;
  }
  const Member& other = others_.at(*server);
  const wire::LinkAddr addr{0, wire::Be24{other.qpn}, other.gid};
  actions_.inform(host, &addr, now);
  return true;
}

void SharedGroup::inform(const SharedHostKey& key, TimePoint now) {
  SharedHost* const host = hosts_.find(key);
  const auto reason =
      host != nullptr ? std::exchange(host->waits, InformReason::kNone) : InformReason::kNone;
  if (reason == InformReason::kNone || !send_to(*host, now)) {
    ++counters_.skipped;
    return;
  }
  switch (reason) {
    case InformReason::kTakenOver:
      ++counters_.taken_over;
      again_.emplace_back(now + kAgain, key);
      return;
    case InformReason::kHandedOver: ++counters_.handed_over; return;
    case InformReason::kReminded:
    case InformReason::kNone: ++counters_.reminded; return;
  }
}

// --- Time ---

void SharedGroup::tick(TimePoint now) {
  if (state_ == State::kDown) return;
  if (state_ == State::kMember && actions_.gid() != own_) announce(now);
  expire(now);
  if (state_ == State::kMember && retires()) retire(now);
  if (state_ == State::kListening && due_ <= now) listen_on(now);
  if (state_ == State::kMember && due_ <= now) advertise(now);
  if (review_due_ && *review_due_ <= now) {
    review_due_.reset();
    reviewed_ = now;
    review(now);
  }
  inform_some(now);
}

std::optional<TimePoint> SharedGroup::next_deadline() const {
  if (state_ == State::kDown) return std::nullopt;
  std::optional<TimePoint> next = earlier(due_, review_due_);
  for (const auto& [guid, member] : others_) next = earlier(next, member.until);
  if (!to_inform_.empty() || !reminders_.empty()) next = earlier(next, inform_due_);
  if (!again_.empty()) next = earlier(next, std::max(again_.front().first, inform_due_));
  return next;
}

SharedGroupInfo SharedGroup::info(TimePoint now) const {
  SharedGroupInfo info;
  info.iface = name_;
  info.addresses = addresses_;
  info.vrid = config_.vrid;
  info.state = state_ == State::kMember      ? "member"
               : state_ == State::kListening ? (retires() ? "retired" : "listening")
                                             : "down";
  std::map<std::uint64_t, std::size_t> served;
  hosts_.for_each([&](const SharedHost& host) {
    if (host.server) ++served[*host.server];
  });
  if (state_ == State::kMember)
    info.members.push_back({own_, {}, true, "member", {}, served[own_.guid()]});
  for (const auto& [guid, member] : others_)
    info.members.push_back(
        {member.gid,
         wire::to_string(wire::HwAddr{wire::LinkAddr{0, wire::Be24{member.qpn}, member.gid}}),
         false, member.left ? "left" : "member", now - member.heard, served[guid]});
  info.hosts = hosts_.size();
  info.to_inform = to_inform_.size() + again_.size() + reminders_.size();
  info.counters = counters_;
  info.counters.forgotten = hosts_.forgotten();
  return info;
}

}  // namespace ipoib::link
