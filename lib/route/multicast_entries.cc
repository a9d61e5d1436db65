// How multicast_table.h makes deliveries of what it knows of a group.
#include <algorithm>
#include <utility>
#include <vector>

#include "lib/route/multicast_table.h"
#include "lib/wire/membership.h"

namespace ipoib::route {

using table::InterfaceId;
using wire::IpAddr;

namespace {

constexpr IpAddr kAnySource{};

bool same(const table::Delivery& a, const table::Delivery& b) {
  return a.local == b.local && a.out == b.out;
}

}  // namespace

std::set<IpAddr> MulticastTable::named_sources(const IpAddr& addr, const Group& group) const {
  std::set<IpAddr> named;
  for (const auto& [iface, wish] : group.wishes)
    named.insert(wish.sources.begin(), wish.sources.end());
  for (const auto& [source, until] : group.seen) named.insert(source);
  for (const StaticMulticastRoute& route : static_)
    if (route.source != kAnySource && wire::contains(route.groups, addr))
      named.insert(route.source);
  return named;
}

/// What becomes of packets from `source`, kAnySource: those that nobody named, that come by `in`.
MulticastTable::Installed MulticastTable::entry_for(const IpAddr& addr, const Group& group,
                                                    InterfaceId in, const IpAddr& source) const {
  Installed e{{addr, source, in, group.listeners.contains(in), 0}};
  if (in >= kMaxInterfaces || !wire::is_multicast(addr) || wire::is_link_scope_group(addr))
    return e;
  const bool any = source == kAnySource;
  for (const StaticMulticastRoute& route : static_) {
    const bool source_fits = route.source == kAnySource || route.source == source;
    const bool expanded = route.groups.len == (addr.is_v4() ? 32 : 128) || !any;
    if (route.in != in || !source_fits || !expanded || !wire::contains(route.groups, addr))
      continue;
    for (const InterfaceId i : route.out) e.delivery.out |= std::uint64_t{1} << i;
    e.from_static = true;
  }
  if (is_router(in)) {
    const InterfaceId toward = any ? table::kNoInterface : reverse_path_(source);
    const bool accepted = toward == table::kNoInterface || toward == in;
    for (const auto& [iface, wish] : group.wishes) {
      if (!accepted || iface == in || !is_router(iface)) continue;
      if (any ? !wish.exclude : !wish.wants(source)) continue;
      e.delivery.out |= std::uint64_t{1} << iface;
      e.learned = true;
    }
  }
  return e;
}

/// Entries for named sources only where they differ from the entry for all others.
MulticastTable::Entries MulticastTable::wanted(const IpAddr& addr, const Group& group) const {
  std::set<InterfaceId> incoming;
  for (const auto& [iface, n] : group.listeners) incoming.insert(iface);
  for (const StaticMulticastRoute& route : static_)
    if (wire::contains(route.groups, addr)) incoming.insert(route.in);
  if (!group.wishes.empty())
    for (InterfaceId i = 0; i < kMaxInterfaces; ++i)
      if (is_router(i)) incoming.insert(i);
  const std::set<IpAddr> sources = named_sources(addr, group);
  Entries entries;
  for (const InterfaceId in : incoming) {
    const Installed rest = entry_for(addr, group, in, kAnySource);
    if (rest.delivery.local || rest.delivery.out != 0) entries.emplace(Key{in, kAnySource}, rest);
    for (const IpAddr& source : sources) {
      const Installed e = entry_for(addr, group, in, source);
      if (!same(e.delivery, rest.delivery)) entries.emplace(Key{in, source}, e);
    }
  }
  return entries;
}

void MulticastTable::install(const IpAddr& addr, Group& group, const Entries& wanted,
                             TimePoint now) {
  for (auto it = group.installed.begin(); it != group.installed.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    sink_.remove(it->first.first, addr, it->first.second);
    it = group.installed.erase(it);
    --entries_;
  }
  for (const auto& [key, entry] : wanted) {
    const auto old = group.installed.find(key);
    if (old == group.installed.end() && entries_ >= config_.max_entries) {
      if (refused_.insert(addr).second) ++counters_.entries_refused;
      continue;
    }
    const bool changed =
        old == group.installed.end() || !same(old->second.delivery, entry.delivery);
    const TimePoint since = old == group.installed.end() ? now : old->second.since;
    if (old == group.installed.end()) ++entries_;
    Installed& kept = group.installed[key] = entry;
    kept.since = since;
    if (changed) sink_.set(kept.delivery);
  }
}

void MulticastTable::refresh(const IpAddr& addr, TimePoint now) {
  const std::size_t before = entries_;
  Group& group = groups_[addr];
  refused_.erase(addr);
  install(addr, group, wanted(addr, group), now);
  if (group.idle()) groups_.erase(addr);
  if (entries_ >= before || refused_.empty()) return;
  for (const IpAddr& waiting : std::exchange(refused_, {})) {  // There is room again.
    Group& other = groups_[waiting];
    install(waiting, other, wanted(waiting, other), now);
  }
}

void MulticastTable::refresh_all(TimePoint now) {
  std::set<IpAddr> all;
  for (const auto& [addr, group] : groups_) all.insert(addr);
  for (const StaticMulticastRoute& route : static_)
    if (route.groups.len == (route.groups.addr.is_v4() ? 32 : 128)) all.insert(route.groups.addr);
  for (const IpAddr& addr : all) refresh(addr, now);
}

}  // namespace ipoib::route
