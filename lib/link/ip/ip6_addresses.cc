// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/ip6_addresses.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::link {

std::string_view to_string(AddressState state) {
  switch (state) {
    case AddressState::kTentative: return "tentative";
    case AddressState::kReady: return "ready";
    case AddressState::kDuplicate: return "duplicate";
  }
  return "unknown";
}

Ip6Addresses::Ip6Addresses(const std::string& name, const Ip6Config& config, AddressOwner& owner,
                           std::uint64_t seed)
    : name_{name}, config_{config}, owner_{owner}, random_{seed} {}

Duration Ip6Addresses::random_below(Duration limit) {
  if (limit <= Duration::zero()) return Duration::zero();
  return Duration{std::uniform_int_distribution<Duration::rep>{0, limit.count() - 1}(random_)};
}

auto Ip6Addresses::find(const wire::IpAddr& addr) -> Address* {
  const auto it = std::find_if(addresses_.begin(), addresses_.end(),
                               [&](const auto& a) { return a.prefix.addr == addr; });
  return it == addresses_.end() ? nullptr : &*it;
}

void Ip6Addresses::start(const std::vector<wire::IpPrefix>& addresses, TimePoint now) {
  stop(now);
  for (const auto& prefix : addresses) {
    if (find(prefix.addr) != nullptr) continue;
    addresses_.push_back({prefix, AddressState::kTentative, 0, {}, {}, {}});
  }
  for (auto& a : addresses_) begin(a, now);
}

void Ip6Addresses::stop(TimePoint now) {
  for (const auto& a : addresses_) end(a, now);
  addresses_.clear();
  prefixes_.clear();
}

void Ip6Addresses::end(const Address& a, TimePoint now) {
  if (a.state == AddressState::kReady) owner_.on_address_removed(a.prefix, now);
  if (a.state != AddressState::kDuplicate) owner_.end(a.prefix, now);
}

void Ip6Addresses::add(const wire::IpPrefix& address, TimePoint now) {
  addresses_.push_back({address, AddressState::kTentative, 0, {}, {}, {}});
  begin(addresses_.back(), now);
}

void Ip6Addresses::remove(const wire::IpAddr& addr, TimePoint now) {
  undetected_.erase(addr);
  const auto it = std::find_if(addresses_.begin(), addresses_.end(),
                               [&](const auto& a) { return a.prefix.addr == addr; });
  if (it == addresses_.end()) return;
  const Address removed = std::move(*it);
  addresses_.erase(it);
  list_prefixes();
  end(removed, now);
}

void Ip6Addresses::set_detection(const wire::IpAddr& addr, bool on) {
  if (on)
    undetected_.erase(addr);
  else
    undetected_.insert(addr);
}

void Ip6Addresses::set_state(Address& a, AddressState state) {
  a.state = state;
  list_prefixes();
}

void Ip6Addresses::list_prefixes() {
  prefixes_.clear();
  for (const auto& one : addresses_)
    if (one.state != AddressState::kDuplicate) prefixes_.push_back(one.prefix);
}

void Ip6Addresses::retry(TimePoint now) {
  for (auto& a : addresses_)
    if (a.state == AddressState::kDuplicate) begin(a, now);
}

/// The random delay keeps nodes that start together from soliciting together (RFC 4862 §5.4.2).
void Ip6Addresses::begin(Address& a, TimePoint now) {
  set_state(a, AddressState::kTentative);
  a.probes_sent = 0;
  new_nonce(a);
  owner_.begin(a.prefix, now);
  if (solicitations_for(a) == 0) return step(a, now);
  a.due = now + random_below(config_.dad_delay);
}

unsigned Ip6Addresses::solicitations_for(const Address& a) const {
  return undetected_.contains(a.prefix.addr) ? 0 : config_.dad_transmits;
}

void Ip6Addresses::new_nonce(Address& a) {
  for (auto& octet : a.nonce) octet = static_cast<std::byte>(random_());
}

/// Sends a solicitation, or takes the address into use if all of them remained unanswered.
void Ip6Addresses::step(Address& a, TimePoint now) {
  if (a.state == AddressState::kDuplicate) return begin(a, now);
  if (a.probes_sent < solicitations_for(a)) {
    // The minimum keeps a tick finite under any configuration.
    a.due = now + std::max<Duration>(config_.retransmit, std::chrono::milliseconds(1));
    // Silence is significant only if the solicitation was heard; one that waits keeps its nonce.
    if (a.probes_sent > 0) new_nonce(a);
    if (owner_.ask(a.prefix.addr, a.nonce, now)) ++a.probes_sent;
    return;
  }
  set_state(a, AddressState::kReady);
  a.due.reset();
  a.claimed_by.clear();
  owner_.ready(a.prefix, now);
}

std::optional<AddressState> Ip6Addresses::state(const wire::IpAddr& addr) const {
  for (const auto& a : addresses_)
    if (a.prefix.addr == addr && a.state != AddressState::kDuplicate) return a.state;
  return std::nullopt;
}

std::vector<wire::IpPrefix> Ip6Addresses::ready() const {
  std::vector<wire::IpPrefix> all;
  for (const auto& a : addresses_)
    if (a.state == AddressState::kReady) all.push_back(a.prefix);
  return all;
}

std::optional<wire::IpAddr> Ip6Addresses::link_local() const {
  for (const auto& a : addresses_)
    if (a.state == AddressState::kReady && wire::is_link_local6(a.prefix.addr))
      return a.prefix.addr;
  return std::nullopt;
}

std::optional<wire::IpAddr> Ip6Addresses::source_for(const wire::IpAddr& target) const {
  for (const auto& a : addresses_)
    if (a.state == AddressState::kReady && wire::contains(a.prefix, target)) return a.prefix.addr;
  if (const auto local = link_local()) return local;
  for (const auto& a : addresses_) {
    const bool of_several = wire::is_host(a.prefix) && undetected_.contains(a.prefix.addr);
    if (a.state == AddressState::kReady && !of_several) return a.prefix.addr;
  }
  return std::nullopt;
}

bool Ip6Addresses::on_claim(const wire::IpAddr& addr, const std::optional<wire::NdNonce>& nonce,
                            const std::string& by, TimePoint now) {
  Address* a = find(addr);
  if (a == nullptr || a->state != AddressState::kTentative) return false;
  if (nonce && *nonce == a->nonce) return false;
  set_state(*a, AddressState::kDuplicate);
  a->claimed_by = by;
  a->due = now + config_.dad_retry / 4 * 3 + random_below(config_.dad_retry / 2) +
           std::chrono::milliseconds(1);
  log(LogArea::kLink, LogLevel::kErr, "{}: duplicate address {}, in use by {}: not assigned", name_,
      wire::to_string(addr), by);
  owner_.end(a->prefix, now);
  owner_.duplicate(a->prefix);
  return true;
}

void Ip6Addresses::tick(TimePoint now) {
  for (auto& a : addresses_)
    if (a.due && *a.due <= now) step(a, now);
}

std::optional<TimePoint> Ip6Addresses::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& a : addresses_) next = earlier(next, a.due);
  return next;
}

std::vector<AddressInfo> Ip6Addresses::list() const {
  std::vector<AddressInfo> rows;
  rows.reserve(addresses_.size());
  for (const auto& a : addresses_) {
    AddressInfo row{a.prefix, a.state, {}};
    if (a.state == AddressState::kTentative) row.reason = "duplicate address detection";
    if (a.state == AddressState::kDuplicate) row.reason = "also claimed by " + a.claimed_by;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ipoib::link
