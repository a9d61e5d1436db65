// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/subnet_proxy.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/link/ip/address_class.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::link {
namespace {

bool is_shared_prefix(const wire::IpPrefix& own, const std::vector<wire::IpPrefix>& others) {
  return std::any_of(others.begin(), others.end(), [&](const wire::IpPrefix& other) {
    return other.len == own.len && wire::network(other) == wire::network(own);
  });
}

}  // namespace

// --- Addresses ---

bool SubnetProxy::shares(const ProxySide& side, const wire::IpAddr& addr) const {
  if (!addr.is_v4() && (wire::is_link_local6(addr) || other_proxy_)) return false;
  const auto& own = side.own_addresses(addr);
  if (!is_neighbour_address(own, addr) || is_own_elsewhere(side, addr)) return false;
  return std::any_of(own.begin(), own.end(), [&](const wire::IpPrefix& p) {
    return wire::contains(p, addr) && std::any_of(sides_.begin(), sides_.end(), [&](const auto* s) {
             return s != &side && is_shared_prefix(p, s->own_addresses(addr));
           });
  });
}

bool SubnetProxy::is_own_elsewhere(const ProxySide& side, const wire::IpAddr& addr) const {
  if (!addr.is_v4() && (wire::is_link_local6(addr) || other_proxy_)) return false;
  return std::any_of(sides_.begin(), sides_.end(), [&](const auto* s) {
    return s != &side && is_own(s->own_addresses(addr), addr) &&
           is_on_link(side.own_addresses(addr), addr);
  });
}

bool SubnetProxy::is_loop(const ProxySide& side, const wire::HwAddr& sender, TimePoint now) {
  const auto other = std::find_if(sides_.begin(), sides_.end(), [&](const ProxySide* s) {
    return s != &side && s->is_own_hw(sender);
  });
  if (other == sides_.end()) return false;
  ++counters_.loops;
  if (const auto suppressed = loop_log_.allow(now))
    log(LogArea::kLink, LogLevel::kErr,
        "proxy {}: messages of {} come back on {}: both are one link, which needs no proxy ({} "
        "more "
        "messages before)",
        group_, (*other)->side_name(), side.side_name(), *suppressed);
  return true;
}

// --- Hosts ---

const SubnetProxy::Host* SubnetProxy::find(const wire::IpAddr& addr) const {
  const auto it = hosts_.find(addr);
  return it == hosts_.end() ? nullptr : &it->second;
}

bool SubnetProxy::is_on(const ProxySide& side, const wire::IpAddr& addr) const {
  const Host* const host = find(addr);
  return host != nullptr && host->side == &side;
}

bool SubnetProxy::has_just_left(const ProxySide& side, const wire::IpAddr& addr,
                                TimePoint now) const {
  const Host* const host = find(addr);
  return host != nullptr && host->side != &side && now - host->since < kSettled;
}

bool SubnetProxy::may_claim(const ProxySide& side, const wire::IpAddr& addr, TimePoint now) {
  const Host* const host = find(addr);
  if (host == nullptr || host->side == &side) return true;
  const NeighbourCache& there = host->side->neighbours();
  const bool stays = there.is_static(addr) || there.is_gateway(addr);
  if (!stays && now - host->since >= kSettled) return true;
  ++counters_.contradictions;
  return false;
}

bool SubnetProxy::wants(const ProxySide& side, const wire::IpAddr& addr) const {
  if (const Host* const host = find(addr)) return host->side != &side;
  return questions_.contains(addr);
}

/// Packets to a host without a route do not arrive. A host may be known here already, from before its
/// subnet was shared or while there was no room.
void SubnetProxy::heard(ProxySide& side, const wire::IpAddr& addr, TimePoint now) {
  now_ = now;
  if (!is_on(side, addr) && side.neighbours().hw_of(addr)) on_located(side, addr, now);
  const auto it = questions_.find(addr);
  if (it == questions_.end()) return;
  const std::vector<Waiting> askers = std::move(it->second.askers);
  erase_question(addr);
  ++counters_.found;
  for (const Waiting& w : askers)
    if (w.side != &side && (is_on(side, addr) || w.asker.detects_duplicates()))
      answer(*w.side, addr, w.asker, now);
}

/// The route is there before the neighbour is valid, so that its packets take it.
void SubnetProxy::on_located(ProxySide& side, const wire::IpAddr& addr, TimePoint now) {
  now_ = now;
  if (is_on(side, addr) || !shares(side, addr)) return;
  Host& host = hosts_[addr];
  unlisten(addr, host);
  const ProxySide* const old = std::exchange(host.side, &side);
  host.since = now;
  if (!side.located(addr)) {
    ++counters_.no_room;
    return forget(addr);
  }
  leave_other_sides(side, addr);
  listen(addr, now);
  if (old != nullptr) report_move(addr, *old, side, now);
}

void SubnetProxy::report_move(const wire::IpAddr& addr, const ProxySide& from, const ProxySide& to,
                              TimePoint now) {
  ++counters_.moved;
  if (const auto suppressed = move_log_.allow(now))
    log(LogArea::kLink, LogLevel::kNotice,
        "proxy {}: host {} has moved from {} to {} ({} more moves before)", group_,
        wire::to_string(addr), from.side_name(), to.side_name(), *suppressed);
  for (ProxySide* other : sides_)
    if (other != &to && other->can_ask(addr)) other->announce_for(addr, now);
}

/// Packets that wait on other sides follow the new route.
void SubnetProxy::leave_other_sides(ProxySide& side, const wire::IpAddr& addr) {
  for (ProxySide* other : sides_) {
    NeighbourCache& cache = other->neighbours();
    if (other == &side || cache.is_static(addr) || cache.is_gateway(addr)) continue;
    cache.release_held(addr);
    static_cast<void>(cache.remove(addr));
  }
}

void SubnetProxy::on_lost(ProxySide& side, const wire::IpAddr& addr) {
  if (is_on(side, addr)) forget(addr);
}

void SubnetProxy::forget(const wire::IpAddr& addr) {
  const auto it = hosts_.find(addr);
  unlisten(addr, it->second);
  ProxySide* const side = it->second.side;
  hosts_.erase(it);
  side->lost(addr);
}

/// Solicitations for the host go to its group, which only members hear on InfiniBand. If it must wait,
/// the next answer that concerns the host tries again.
void SubnetProxy::listen(const wire::IpAddr& addr, TimePoint now) {
  const auto it = hosts_.find(addr);
  if (addr.is_v4() || it == hosts_.end() || it->second.listened || !listens_.allow(now)) return;
  if (listened_.size() >= kMaxListened) {
    const wire::IpAddr oldest = listened_.front();
    unlisten(oldest, hosts_.at(oldest));
  }
  it->second.listened = true;
  listened_.push_back(addr);
  for (ProxySide* other : sides_)
    if (other != it->second.side) other->listen_for(addr, now);
}

void SubnetProxy::unlisten(const wire::IpAddr& addr, Host& host) {
  if (!std::exchange(host.listened, false)) return;
  std::erase(listened_, addr);
  for (ProxySide* other : sides_)
    if (other != host.side) other->unlisten_for(addr, now_);
}

// --- Questions ---

void SubnetProxy::erase_question(const wire::IpAddr& addr) {
  questions_.erase(addr);
  std::erase(order_, addr);
}

/// Returns the question, or a new one if there is room. `asker`: null: this node.
SubnetProxy::Question* SubnetProxy::question_of(const wire::IpAddr& addr, const wire::HwAddr* asker,
                                                TimePoint now) {
  if (const auto it = questions_.find(addr); it != questions_.end()) return &it->second;
  const auto is_asker = [&](const Waiting& w) { return asker != nullptr && w.asker.hw == *asker; };
  const auto of_asker = std::count_if(questions_.begin(), questions_.end(), [&](const auto& q) {
    return std::any_of(q.second.askers.begin(), q.second.askers.end(), is_asker);
  });
  // Hosts that look for duplicates have no address yet, and packets from elsewhere have many senders:
  // these have half of the room together.
  const bool alone = asker != nullptr && *asker != wire::HwAddr::zero(asker->kind());
  const std::size_t most = alone ? kMaxQuestions : kMaxQuestions / 2;
  if (questions_.size() >= most ||
      (alone && static_cast<std::size_t>(of_asker) >= kMaxQuestionsOfOne)) {
    ++counters_.refused;
    return nullptr;
  }
  Question& question = questions_[addr];
  question.expires = now + kQuestionLife;
  order_.push_back(addr);
  return &question;
}

void SubnetProxy::on_question(ProxySide& side, const wire::IpAddr& addr, const ProxyAsker& asker,
                              TimePoint now) {
  now_ = now;
  if (is_own_elsewhere(side, addr)) return answer(side, addr, asker, now);
  const Host* const host = find(addr);
  const bool detects = asker.detects_duplicates();
  const bool here = host != nullptr && host->side == &side;
  if (host != nullptr && !here && !detects) return answer(side, addr, asker, now);
  if (here && !detects && side.neighbours().is_reachable(addr)) return;  // It answers itself.
  Question* const question = question_of(addr, &asker.hw, now);
  if (question == nullptr) return;
  const bool waits =
      std::any_of(question->askers.begin(), question->askers.end(),
                  [&](const Waiting& w) { return w.side == &side && w.asker.hw == asker.hw; });
  if (!waits && question->askers.size() < kMaxAskers) question->askers.push_back({&side, asker});
  ask_others(side, addr, *question, &asker, now);
}

void SubnetProxy::on_request(ProxySide& side, const wire::IpAddr& addr, TimePoint now) {
  now_ = now;
  if (!shares(side, addr)) return;
  if (Question* const question = question_of(addr, nullptr, now))
    ask_others(side, addr, *question, nullptr, now);
}

/// Asks the other sides.
void SubnetProxy::ask_others(ProxySide& side, const wire::IpAddr& addr, Question& question,
                             const ProxyAsker* asker, TimePoint now) {
  const bool detects = asker != nullptr && asker->detects_duplicates();
  const auto number = std::find(sides_.begin(), sides_.end(), &side) - sides_.begin();
  const std::uint64_t bit = std::uint64_t{1} << number;
  const bool first_detection = detects && (question.detecting & bit) == 0;
  const bool due = question.asked == TimePoint::min() || now - question.asked >= kAskAgain;
  if (!due && !first_detection) return;
  if (!asks_.allow(now)) {
    ++counters_.paced;
    return;
  }
  question.asked = now;
  if (detects) question.detecting |= bit;
  ++counters_.asked;
  const auto nonce = asker != nullptr ? asker->nonce : std::nullopt;
  for (ProxySide* other : sides_)
    if (other != &side && other->can_ask(addr)) other->ask(addr, detects, nonce, now);
}

void SubnetProxy::answer(ProxySide& side, const wire::IpAddr& addr, const ProxyAsker& asker,
                         TimePoint now) {
  ++counters_.answered;
  // Its packets to the host call for others to it.
  listen(addr, now);
  if (!asker.detects_duplicates() && shares(side, asker.addr) && may_claim(side, asker.addr, now))
    static_cast<void>(side.neighbours().learn(asker.addr, asker.hw, Evidence::kOther, true, now));
  listen(asker.addr, now);
  side.answer(addr, asker, now);
}

// --- Other proxies ---

void SubnetProxy::on_other_proxy(const ProxySide& side, TimePoint now) {
  now_ = now;
  ++counters_.other_proxies;
  const bool first = !other_proxy_;
  other_proxy_ = now + kOtherProxy;
  if (!first) return;
  log(LogArea::kLink, LogLevel::kWarning,
      "proxy {}: a router advertisement on {} has the Proxy bit: another proxy connects the link, "
      "and IPv6 is not proxied for {} minutes",
      group_, side.side_name(),
      std::chrono::duration_cast<std::chrono::minutes>(kOtherProxy).count());
  std::vector<wire::IpAddr> hosts6;
  for (const auto& [addr, host] : hosts_)
    if (!addr.is_v4()) hosts6.push_back(addr);
  for (const wire::IpAddr& addr : hosts6) forget(addr);
}

// --- Time and show ---

void SubnetProxy::tick(TimePoint now) {
  now_ = now;
  if (other_proxy_ && *other_proxy_ <= now) {
    other_proxy_.reset();
    log(LogArea::kLink, LogLevel::kNotice, "proxy {}: IPv6 is proxied again", group_);
  }
  while (!order_.empty() && questions_.at(order_.front()).expires <= now) {
    ++counters_.unanswered;
    questions_.erase(order_.front());
    order_.pop_front();
  }
}

std::optional<TimePoint> SubnetProxy::next_deadline() const {
  if (order_.empty()) return other_proxy_;
  const TimePoint expires = questions_.at(order_.front()).expires;
  return other_proxy_ ? std::min(*other_proxy_, expires) : expires;
}

std::vector<std::string> SubnetProxy::side_names() const {
  std::vector<std::string> names;
  for (const ProxySide* side : sides_) names.push_back(side->side_name());
  return names;
}

std::vector<ProxiedHost> SubnetProxy::hosts(TimePoint now) const {
  std::vector<ProxiedHost> rows;
  rows.reserve(hosts_.size());
  for (const auto& [addr, host] : hosts_)
    rows.push_back({addr, host.side->side_name(), now - host.since});
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.addr < b.addr; });
  return rows;
}

}  // namespace ipoib::link
