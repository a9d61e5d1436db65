// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/multicast_table.h"

#include <algorithm>
#include <utility>

#include "lib/wire/igmp_mld.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::route {

using table::InterfaceId;
using wire::IpAddr;

namespace {

constexpr IpAddr kAnySource{};

constexpr std::uint64_t bit(InterfaceId iface) {
  return std::uint64_t{1} << iface;
}

bool same_key(const StaticMulticastRoute& a, const StaticMulticastRoute& b) {
  return a.groups == b.groups && a.source == b.source && a.in == b.in;
}

}  // namespace

Status MulticastTable::set_router(InterfaceId iface, bool router, TimePoint now) {
  if (iface >= kMaxInterfaces)
    return fail(Errc::kInvalidArgument,
                "interface {}: only the first {} interfaces can forward multicast", iface,
                kMaxInterfaces);
  const std::uint64_t before =
      std::exchange(routers_, router ? routers_ | bit(iface) : routers_ & ~bit(iface));
  if (before != routers_) refresh_all(now);
  return {};
}

void MulticastTable::set_forwarder(InterfaceId iface, bool v4, Forwarder forwarder, TimePoint now) {
  if (iface >= kMaxInterfaces) return;
  std::vector<ForwardedGroup> forwarded;
  if (forwarder == Forwarder::kOther) forwarded = forwarded_to(iface, v4);
  election_.set_querier(iface, v4, forwarder, forwarded, now);
  refresh_requested(v4, now);
}

void MulticastTable::set_deaf(InterfaceId iface, bool deaf, TimePoint now) {
  if (iface >= kMaxInterfaces || election_.deaf(iface) == deaf) return;
  election_.set_deaf(iface, deaf);
  for (const bool v4 : {false, true}) refresh_requested(v4, now);
}

void MulticastTable::refresh_requested(bool v4, TimePoint now) {
  std::vector<IpAddr> wanted;
  for (const auto& [addr, group] : groups_)
    if (addr.is_v4() == v4 && !group.filters.empty()) wanted.push_back(addr);
  for (const IpAddr& addr : wanted) refresh(addr, now);
}

std::vector<ForwardedGroup> MulticastTable::forwarded_to(InterfaceId iface, bool v4) const {
  std::vector<ForwardedGroup> forwarded;
  for (const auto& [addr, group] : groups_) {
    if (addr.is_v4() != v4 || !group.filters.contains(iface)) continue;
    for (InterfaceId in = 0; in < kMaxInterfaces; ++in)
      if (const ForwardedGroup g{addr, iface, in};
          in != iface && is_router(in) && election_.forwards(g, kAnySource))
        forwarded.push_back(g);
  }
  return forwarded;
}

void MulticastTable::remove_interface(InterfaceId iface, TimePoint now) {
  if (iface < kMaxInterfaces) {
    routers_ &= ~bit(iface);
    election_.remove_interface(iface);
  }
  for (StaticMulticastRoute& route : static_) std::erase(route.out, iface);
  std::erase_if(static_, [iface](const auto& r) { return r.in == iface || r.out.empty(); });
  for (auto& [addr, group] : groups_) {
    group.listeners.erase(iface);
    group.filters.erase(iface);
  }
  refresh_all(now);
}

Status MulticastTable::listen(InterfaceId iface, const IpAddr& addr, TimePoint now) {
  if (!wire::is_multicast(addr) && !wire::is_link_local6(addr))
    return fail(Errc::kInvalidArgument, "{} is neither a group nor a link-local address",
                to_string(addr));
  ++groups_[addr].listeners[iface];
  refresh(addr, now);
  return {};
}

void MulticastTable::unlisten(InterfaceId iface, const IpAddr& addr, TimePoint now) {
  const auto it = groups_.find(addr);
  if (it == groups_.end()) return;
  const auto listener = it->second.listeners.find(iface);
  if (listener == it->second.listeners.end() || --listener->second > 0) return;
  it->second.listeners.erase(listener);
  refresh(addr, now);
}

Status MulticastTable::check(const StaticMulticastRoute& route) const {
  const IpAddr& group = route.groups.addr;
  if (!wire::is_multicast(route.groups) || route.groups.len > wire::host_len(group))
    return fail(Errc::kInvalidArgument, "{} is not a multicast prefix", to_string(route.groups));
  if (wire::is_host(route.groups) && wire::is_link_scope_group(group))
    return fail(Errc::kInvalidArgument, "{} has link scope and is never forwarded",
                to_string(group));
  if (route.source != kAnySource &&
      (wire::is_multicast(route.source) || wire::is_any_address(route.source) ||
       route.source.is_v4() != group.is_v4()))
    return fail(Errc::kInvalidArgument, "{} cannot be a source of {}", to_string(route.source),
                to_string(route.groups));
  if (route.out.empty())
    return fail(Errc::kInvalidArgument, "{}: no outgoing interface", to_string(route.groups));
  if (std::ranges::find(route.out, route.in) != route.out.end())
    return fail(Errc::kInvalidArgument, "{}: interface {} is both incoming and outgoing",
                to_string(route.groups), route.in);
  const InterfaceId highest = std::max(route.in, *std::ranges::max_element(route.out));
  if (highest >= kMaxInterfaces)
    return fail(Errc::kInvalidArgument,
                "interface {}: only the first {} interfaces can forward multicast", highest,
                kMaxInterfaces);
  return {};
}

Status MulticastTable::add_static(const StaticMulticastRoute& route, TimePoint now) {
  if (Status bad = check(route); !bad) return bad;
  StaticMulticastRoute kept = route;
  kept.groups.addr = wire::network(route.groups);
  if (std::ranges::any_of(static_, [&](const auto& r) { return same_key(r, kept); }))
    return fail(Errc::kExists, "a multicast route for {} from interface {} already exists",
                to_string(kept.groups), kept.in);
  if (static_.size() >= config_.max_routes)
    return fail(Errc::kNoResources, "the limit of {} multicast routes is reached",
                config_.max_routes);
  static_.push_back(kept);
  if (wire::is_host(kept.groups))
    refresh(kept.groups.addr, now);
  else
    refresh_all(now);
  return {};
}

Status MulticastTable::remove_static(const StaticMulticastRoute& route, TimePoint now) {
  StaticMulticastRoute named = route;
  named.groups.addr = wire::network(route.groups);
  if (std::erase_if(static_, [&](const auto& r) { return same_key(r, named); }) == 0)
    return fail(Errc::kNotFound, "no multicast route for {} from interface {}",
                to_string(named.groups), named.in);
  refresh_all(now);
  return {};
}

Status MulticastTable::set_linux(const LinuxMulticastRoute& route, TimePoint now) {
  if (!wire::is_multicast(route.group) || wire::is_link_scope_group(route.group))
    return fail(Errc::kInvalidArgument, "{} is no group that routers forward",
                to_string(route.group));
  const bool any = route.source == kAnySource;
  if (!any && (wire::is_multicast(route.source) || wire::is_any_address(route.source) ||
               route.source.is_v4() != route.group.is_v4()))
    return fail(Errc::kInvalidArgument, "{} cannot be a source of {}", to_string(route.source),
                to_string(route.group));
  LinuxMulticastRoute kept = route;
  if (kept.in < kMaxInterfaces) kept.out &= ~bit(kept.in);
  Group& group = groups_[route.group];
  LinuxMulticastRoute& entry = group.of_linux[route.source];
  const bool is_new = linux_routes_.insert({route.group, route.source}).second;
  const LinuxMulticastRoute before = std::exchange(entry, kept);
  if (!is_new && before == kept) return {};
  if (!is_new) count_linux_in(group, before.in, false);
  count_linux_in(group, kept.in, true);
  any ? refresh(route.group, now) : refresh_source(route.group, route.source, now, before.in);
  return {};
}

void MulticastTable::count_linux_in(Group& group, InterfaceId in, bool more) {
  if (in == table::kNoInterface) return;
  const auto it = group.linux_in.try_emplace(in, 0).first;
  if (more)
    ++it->second;
  else if (--it->second == 0)
    group.linux_in.erase(it);
}

void MulticastTable::remove_linux(const IpAddr& group, const IpAddr& source, TimePoint now) {
  if (linux_routes_.erase({group, source}) == 0) return;
  Group& of = groups_[group];
  const LinuxMulticastRoute before = of.of_linux[source];
  of.of_linux.erase(source);
  count_linux_in(of, before.in, false);
  source == kAnySource ? refresh(group, now) : refresh_source(group, source, now, before.in);
}

void MulticastTable::sample_linux(std::size_t n) {
  auto it = linux_routes_.upper_bound(sampled_);
  for (std::size_t left = std::min(n, linux_routes_.size()); left > 0; --left, ++it) {
    if (it == linux_routes_.end()) it = linux_routes_.begin();
    sampled_ = *it;
    const auto& [addr, source] = *it;
    const Group& group = groups_[addr];
    const auto installed = group.installed.find({group.of_linux.at(source).in, source});
    if (installed != group.installed.end() &&
        installed->second.delivery.for_linux == table::ForLinux::kSample)
      sink_.set(installed->second.delivery);
  }
}

void MulticastTable::set_filter(InterfaceId iface, const IpAddr& group, const GroupFilter& filter,
                                TimePoint now) {
  if (iface >= kMaxInterfaces) return;
  if (filter.nothing()) {
    const auto it = groups_.find(group);
    if (it == groups_.end() || it->second.filters.erase(iface) == 0) return;
    election_.forget(group, iface);
  } else if (groups_[group].filters.insert_or_assign(iface, filter).second) {
    for (InterfaceId in = 0; in < kMaxInterfaces; ++in)
      if (in != iface && is_router(in)) election_.start({group, iface, in});
  }
  refresh(group, now);
}

void MulticastTable::packet_seen(const IpAddr& group, const IpAddr& source, TimePoint now) {
  if (!wire::is_multicast(group) || wire::is_link_scope_group(group) ||
      wire::is_multicast(source) || wire::is_any_address(source))
    return;
  const auto it = groups_.find(group);
  const bool renewed = it != groups_.end() && it->second.seen.contains(source);
  if (!renewed && forget_.size() >= config_.max_seen) {
    ++counters_.seen_refused;
    return;
  }
  TimePoint& until = groups_[group].seen[source];
  if (renewed) forget_.erase({until, group, source});
  until = now + config_.seen_lifetime;
  forget_.emplace(until, group, source);
  if (!renewed) refresh_source(group, source, now);
}

void MulticastTable::packet_heard(const HeardPacket& packet, TimePoint now) {
  const auto it = groups_.find(packet.group);
  if (it == groups_.end() || packet.in >= kMaxInterfaces || packet.from >= kMaxInterfaces ||
      !is_router(packet.in) || !is_router(packet.from))
    return;
  DecisionChange change = DecisionChange::kNone;
  for (const auto& [iface, filter] : it->second.filters) {
    if (!is_router(iface) || !filter.matches(packet.source)) continue;
    const ForwardedGroup g{packet.group, iface, packet.from};
    if (packet.in == packet.from && iface != packet.in)
      change = std::max(change, election_.on_packet(g, packet.source, now));
    else if (packet.in != packet.from && iface == packet.in)
      change = std::max(change, election_.on_evidence(g, packet.source, packet.lower, now));
  }
  if (change == DecisionChange::kGroup) refresh(packet.group, now);
  if (change == DecisionChange::kSource) refresh_source(packet.group, packet.source, now);
}

void MulticastTable::tick(TimePoint now) {
  for (const auto& [group, source] : election_.tick(now))
    source == kAnySource ? refresh(group, now) : refresh_source(group, source, now);
  while (!forget_.empty() && std::get<0>(*forget_.begin()) <= now) {
    const auto [when, group, source] = *forget_.begin();
    forget_.erase(forget_.begin());
    groups_[group].seen.erase(source);
    refresh_source(group, source, now);
  }
}

std::optional<TimePoint> MulticastTable::next_deadline() const {
  const auto next = election_.next_deadline();
  return forget_.empty() ? next : earlier(std::get<0>(*forget_.begin()), next);
}

std::vector<MulticastEntryInfo> MulticastTable::rows(TimePoint now) const {
  std::vector<MulticastEntryInfo> rows;
  rows.reserve(entries_);
  for (const auto& [addr, group] : groups_)
    for (const auto& [key, e] : group.installed)
      rows.push_back(
          {e.delivery, e.from_static, e.from_linux, e.learned, e.left_to_other, now - e.since});
  return rows;
}

}  // namespace ipoib::route
