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
  elections_[v4].set(iface, forwarder);
  std::vector<IpAddr> wanted;
  for (const auto& [addr, group] : groups_)
    if (addr.is_v4() == v4 && !group.filters.empty()) wanted.push_back(addr);
  for (const IpAddr& addr : wanted) refresh(addr, now);
}

void MulticastTable::remove_interface(InterfaceId iface, TimePoint now) {
  if (iface < kMaxInterfaces) {
    routers_ &= ~bit(iface);
    for (Elections& elections : elections_) elections.set(iface, Forwarder::kThis);
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

void MulticastTable::set_filter(InterfaceId iface, const IpAddr& group, const GroupFilter& filter,
                                TimePoint now) {
  if (iface >= kMaxInterfaces) return;
  if (filter.nothing()) {
    const auto it = groups_.find(group);
    if (it == groups_.end() || it->second.filters.erase(iface) == 0) return;
  } else {
    groups_[group].filters[iface] = filter;
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

void MulticastTable::tick(TimePoint now) {
  while (!forget_.empty() && std::get<0>(*forget_.begin()) <= now) {
    const auto [when, group, source] = *forget_.begin();
    forget_.erase(forget_.begin());
    groups_[group].seen.erase(source);
    refresh_source(group, source, now);
  }
}

std::optional<TimePoint> MulticastTable::next_deadline() const {
  if (forget_.empty()) return std::nullopt;
  return std::get<0>(*forget_.begin());
}

std::vector<MulticastEntryInfo> MulticastTable::rows(TimePoint now) const {
  std::vector<MulticastEntryInfo> rows;
  rows.reserve(entries_);
  for (const auto& [addr, group] : groups_)
    for (const auto& [key, e] : group.installed)
      rows.push_back({e.delivery, e.from_static, e.learned, now - e.since});
  return rows;
}

}  // namespace ipoib::route
