// SPDX-License-Identifier: BSD-3-Clause
// Part of multicast_table.h that computes the deliveries of a group.
#include <algorithm>
#include <utility>
#include <vector>

#include "lib/route/multicast/multicast_table.h"
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

bool same(const table::Delivery& a, const table::Delivery& b) {
  return a.local == b.local && a.out == b.out && a.from_reverse_path == b.from_reverse_path &&
         a.stands_by == b.stands_by && a.for_linux == b.for_linux;
}

}  // namespace

std::set<IpAddr> MulticastTable::named_sources(const IpAddr& addr, const Group& group) const {
  std::set<IpAddr> named = election_.sources(addr);
  for (const auto& [iface, filter] : group.filters)
    named.insert(filter.sources.begin(), filter.sources.end());
  for (const auto& [source, until] : group.seen) named.insert(source);
  for (const auto& [source, route] : group.of_linux)
    if (source != kAnySource) named.insert(source);
  for (const StaticMulticastRoute& route : static_)
    if (route.source != kAnySource && wire::contains(route.groups, addr))
      named.insert(route.source);
  return named;
}

bool MulticastTable::is_named(const IpAddr& addr, const Group& group, const IpAddr& source) const {
  return group.seen.contains(source) || group.of_linux.contains(source) ||
         election_.differs(addr, source) ||
         std::ranges::any_of(
             group.filters,
             [&](const auto& w) { return std::ranges::binary_search(w.second.sources, source); }) ||
         std::ranges::any_of(static_, [&](const auto& route) {
           return route.source == source && wire::contains(route.groups, addr);
         });
}

/// Entry for packets from `source` that arrive on `in`. kAnySource: sources without an entry of
/// their own.
MulticastTable::Installed MulticastTable::entry_for(const IpAddr& addr, const Group& group,
                                                    InterfaceId in, const IpAddr& source) const {
  Installed e{{addr, source, in, group.listeners.contains(in)}};
  if (in >= kMaxInterfaces || !wire::is_multicast(addr) || wire::is_link_scope_group(addr))
    return e;
  const bool any = source == kAnySource;
  for (const StaticMulticastRoute& route : static_) {
    const bool source_fits = route.source == kAnySource || route.source == source;
    // A group that this node listens to has an entry for any source. If that has no egress, workers
    // report no sources (lib/fwd/multicast.cc), so routes to prefixes are expanded here.
    const bool expanded = route.groups.len == wire::host_len(addr) || !any || e.delivery.local;
    if (route.in != in || !source_fits || !expanded || !wire::contains(route.groups, addr))
      continue;
    for (const InterfaceId i : route.out) e.delivery.out |= bit(i);
    e.from_static = true;
  }
  auto of_linux = group.of_linux.find(source);
  if (of_linux == group.of_linux.end()) of_linux = group.of_linux.find(kAnySource);
  if (!e.from_static && of_linux != group.of_linux.end() && of_linux->second.in == in) {
    e.delivery.out |= of_linux->second.out;
    e.delivery.for_linux =
        of_linux->second.elsewhere ? table::ForLinux::kAll : table::ForLinux::kSample;
    e.from_linux = true;
  }
  if (is_router(in)) {
    for (const auto& [iface, filter] : group.filters) {
      if (iface == in || !is_router(iface)) continue;
      if (any ? !filter.exclude : !filter.matches(source)) continue;
      e.learned = true;
      // An egress of a static route has no reverse-path check, and no election.
      if ((e.delivery.out & bit(iface)) != 0) continue;
      const ForwardedGroup g{addr, iface, in};
      if (election_.watches(g, source)) e.delivery.stands_by = true;
      if (!election_.forwards(g, source)) {
        e.left_to_other |= bit(iface);
        continue;
      }
      e.delivery.from_reverse_path |= bit(iface);
      e.delivery.out |= bit(iface);
    }
  }
  return e;
}

/// Interfaces that packets to the group may arrive on.
std::set<InterfaceId> MulticastTable::incoming_of(const IpAddr& addr, const Group& group) const {
  std::set<InterfaceId> incoming;
  for (const auto& [iface, n] : group.listeners) incoming.insert(iface);
  for (const StaticMulticastRoute& route : static_)
    if (wire::contains(route.groups, addr)) incoming.insert(route.in);
  for (const auto& [iface, n] : group.linux_in) incoming.insert(iface);
  if (!group.filters.empty())
    for (InterfaceId i = 0; i < kMaxInterfaces; ++i)
      if (is_router(i)) incoming.insert(i);
  return incoming;
}

/// Named sources have entries only if they differ from the entry for all others.
MulticastTable::Entries MulticastTable::wanted(const IpAddr& addr, const Group& group) const {
  const std::set<IpAddr> sources = named_sources(addr, group);
  Entries entries;
  for (const InterfaceId in : incoming_of(addr, group)) {
    const Installed rest = entry_for(addr, group, in, kAnySource);
    if (rest.delivery.local || rest.delivery.out != 0 || rest.delivery.stands_by ||
        rest.delivery.for_linux != table::ForLinux::kNone)
      entries.emplace(Key{in, kAnySource}, rest);
    for (const IpAddr& source : sources) {
      const Installed e = entry_for(addr, group, in, source);
      if (!same(e.delivery, rest.delivery)) entries.emplace(Key{in, source}, e);
    }
  }
  return entries;
}

void MulticastTable::put(const IpAddr& addr, Group& group, const Key& key, const Installed& entry,
                         TimePoint now) {
  const auto old = group.installed.find(key);
  const bool is_new = old == group.installed.end();
  if (is_new && entries_ >= config_.max_entries) {
    if (refused_.insert(addr).second) ++counters_.entries_refused;
    return;
  }
  const bool changed = is_new || !same(old->second.delivery, entry.delivery);
  const TimePoint since = is_new ? now : old->second.since;
  if (is_new) ++entries_;
  Installed& kept = group.installed[key] = entry;
  kept.since = since;
  if (changed) sink_.set(kept.delivery);
}

MulticastTable::Entries::iterator MulticastTable::take_out(const IpAddr& addr, Group& group,
                                                           Entries::iterator it) {
  sink_.remove(it->first.first, addr, it->first.second);
  --entries_;
  return group.installed.erase(it);
}

void MulticastTable::install(const IpAddr& addr, Group& group, const Entries& wanted,
                             TimePoint now) {
  for (auto it = group.installed.begin(); it != group.installed.end();)
    it = wanted.contains(it->first) ? std::next(it) : take_out(addr, group, it);
  for (const auto& [key, entry] : wanted) put(addr, group, key, entry, now);
}

void MulticastTable::refresh(const IpAddr& addr, TimePoint now) {
  const std::size_t before = entries_;
  Group& group = groups_[addr];
  refused_.erase(addr);
  install(addr, group, wanted(addr, group), now);
  drop_idle(addr, group);
  use_room(before, now);
}

/// Like refresh(), when only `source` was named or forgotten, or its decisions have changed. A group
/// may have thousands of sources. `also`: an interface on which its packets were expected before.
void MulticastTable::refresh_source(const IpAddr& addr, const IpAddr& source, TimePoint now,
                                    InterfaceId also) {
  const std::size_t before = entries_;
  Group& group = groups_[addr];
  const bool named = is_named(addr, group, source);
  std::set<InterfaceId> incoming = incoming_of(addr, group);
  if (also != table::kNoInterface) incoming.insert(also);
  for (const InterfaceId in : incoming) {
    const Installed rest = entry_for(addr, group, in, kAnySource);
    const Installed e = entry_for(addr, group, in, source);
    const auto old = group.installed.find({in, source});
    if (named && !same(e.delivery, rest.delivery))
      put(addr, group, {in, source}, e, now);
    else if (old != group.installed.end())
      take_out(addr, group, old);
  }
  drop_idle(addr, group);
  use_room(before, now);
}

void MulticastTable::drop_idle(const IpAddr& addr, const Group& group) {
  if (!group.idle()) return;
  refused_.erase(addr);
  groups_.erase(addr);
}

/// Installs entries that had no room, if there are fewer entries than before: those of as many groups
/// as there is room for, since many groups may wait.
void MulticastTable::use_room(std::size_t before, TimePoint now) {
  if (entries_ >= before) return;
  while (entries_ < config_.max_entries && !refused_.empty()) {
    const IpAddr waiting = refused_.extract(refused_.begin()).value();
    Group& other = groups_[waiting];
    install(waiting, other, wanted(waiting, other), now);
  }
}

void MulticastTable::refresh_all(TimePoint now) {
  std::set<IpAddr> all;
  for (const auto& [addr, group] : groups_) all.insert(addr);
  for (const StaticMulticastRoute& route : static_)
    if (wire::is_host(route.groups)) all.insert(route.groups.addr);
  for (const IpAddr& addr : all) refresh(addr, now);
}

}  // namespace ipoib::route
