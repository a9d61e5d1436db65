// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/next_hops.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::route {

using table::InterfaceId;
using table::NextHop;
using table::NextHopIndex;
using table::NextHopKind;

namespace {

/// The lightest path has this number of buckets, so that shares differ from the weights by no more
/// than a sixteenth, unless the group would need more than kMaxBuckets.
constexpr std::size_t kBucketsPerPath = 16;
constexpr std::size_t kMinBuckets = 64;
constexpr std::size_t kMaxBuckets = 1024;
static_assert(kMaxBuckets == NextHops::kMaxPaths * kBucketsPerPath);

std::size_t bucket_count(const NextHops::Paths& paths) {
  std::uint64_t sum = 0, least = paths.front().weight;
  for (const RoutePath& path : paths) {
    sum += path.weight;
    least = std::min<std::uint64_t>(least, path.weight);
  }
  return std::bit_ceil(
      std::clamp<std::size_t>(sum * kBucketsPerPath / least, kMinBuckets, kMaxBuckets));
}

std::vector<std::uint32_t> weights_of(const NextHops::Paths& paths) {
  std::vector<std::uint32_t> weights;
  for (const RoutePath& path : paths) weights.push_back(path.weight);
  return weights;
}

/// Interfaces of the paths, each once.
std::set<InterfaceId> interfaces_of(const NextHops::Paths& paths) {
  std::set<InterfaceId> interfaces;
  for (const RoutePath& path : paths) interfaces.insert(path.iface);
  return interfaces;
}

/// Slots of a group: its own, its buckets, its interfaces, and their end.
std::size_t slots_of(const NextHops::Paths& paths) {
  return 1 + bucket_count(paths) + interfaces_of(paths).size() + 1;
}

/// Slots of a broadcast: its own, its interfaces, and their end.
constexpr std::size_t broadcast_slots(std::size_t interfaces) {
  return 1 + interfaces + 1;
}

}  // namespace

NextHops::NextHops(RouteSink& sink)
    : sink_{sink}, free_{table::kNextHopNone + 1, table::kMaxNextHops - 1} {}

NextHops::~NextHops() {
  clear();
}

void NextHops::clear() {
  for (const auto& [gateway, state] : std::exchange(gateways_, {}))
    sink_.forget_gateway(gateway.first, gateway.second);
}

// --- Numbers ---

Result<NextHopIndex> NextHops::allocate(std::size_t n) {
  reclaim(false);
  auto first = free_.take(n);
  while (!first && !retired_.empty()) {
    reclaim(true);
    first = free_.take(n);
  }
  if (!first) return fail(Errc::kNoResources, "all {} next hops are in use", table::kMaxNextHops);
  return *first;
}

/// The numbers keep their next hops, because a worker may be at a packet for which it looked them
/// up.
void NextHops::retire(NextHopIndex first, std::size_t n) {
  retired_.push_back({sink_.mark_time(), first, n});
}

/// `wait`: blocks until at least the oldest is free.
void NextHops::reclaim(bool wait) {
  while (!retired_.empty() && sink_.is_past(retired_.front().moment, wait)) {
    free_.put_back(retired_.front().first, retired_.front().n);
    retired_.pop_front();
    wait = false;
  }
}

Result<NextHopIndex> NextHops::fixed(const NextHop& hop) {
  const auto key = std::pair{hop.kind, hop.iface};
  if (const auto it = fixed_.find(key); it != fixed_.end()) return it->second;
  auto index = allocate(1);
  if (!index) return index;
  sink_.set_next_hop(*index, hop);
  fixed_.emplace(key, *index);
  return *index;
}

// --- Broadcasts ---

Result<NextHopIndex> NextHops::use_broadcast(const std::set<InterfaceId>& interfaces) {
  auto index = allocate(broadcast_slots(interfaces.size()));
  if (!index) return index;
  NextHopIndex at = *index + 1;
  sink_.set_next_hop(*index, {NextHopKind::kBroadcast, 0, table::kNoInterface, at});
  for (const InterfaceId iface : interfaces)
    sink_.set_next_hop(at++, {NextHopKind::kBroadcast, 0, iface, table::kNoNeighbour});
  sink_.set_next_hop(at, NextHop{});
  return index;
}

void NextHops::release_broadcast(NextHopIndex index, std::size_t interfaces) {
  retire(index, broadcast_slots(interfaces));
}

// --- Gateways ---

NextHop NextHops::hop_of(const Gateway& gateway) const {
  return {NextHopKind::kGateway, 0, gateway.first,
          table::neighbour_of(gateways_.at(gateway).index)};
}

Result<NextHops::Gateways::iterator> NextHops::use_gateway(const Gateway& gateway) {
  if (const auto it = gateways_.find(gateway); it != gateways_.end()) {
    ++it->second.uses;
    return it;
  }
  const auto neighbour = sink_.use_gateway(gateway.first, gateway.second);
  if (!neighbour) return tl::make_unexpected(neighbour.error());
  const NextHopIndex index = table::adjacency_of(*neighbour, true);
  const bool answers = !sink_.has_failed(gateway.first, gateway.second);
  const auto it = gateways_.emplace(gateway, GatewayState{index, 1, answers}).first;
  by_index_.emplace(index, gateway);
  sink_.set_next_hop(index, hop_of(gateway));
  return it;
}

void NextHops::release_gateway(const Gateway& gateway) {
  const auto it = gateways_.find(gateway);
  if (it == gateways_.end() || --it->second.uses != 0) return;
  by_index_.erase(it->second.index);
  gateways_.erase(it);
  sink_.forget_gateway(gateway.first, gateway.second);
}

NextHop NextHops::hop_of(const RoutePath& path) const {
  if (path.via) return hop_of(Gateway{path.iface, *path.via});
  return {NextHopKind::kConnected, 0, path.iface, table::kNoNeighbour};
}

Status NextHops::use_gateways(const Paths& paths) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!paths[i].via) continue;
    if (const auto gateway = use_gateway({paths[i].iface, *paths[i].via}); !gateway) {
      release_gateways(std::span{paths}.first(i));
      return tl::make_unexpected(gateway.error());
    }
  }
  return {};
}

void NextHops::release_gateways(std::span<const RoutePath> paths) {
  for (const RoutePath& path : paths)
    if (path.via) release_gateway({path.iface, *path.via});
}

Result<NextHopIndex> NextHops::use(const Paths& paths, NextHopIndex old) {
  expects(!paths.empty() && paths.size() <= kMaxPaths, "1 <= paths.size() <= kMaxPaths");
  if (paths.size() > 1) return use_group(paths, old);
  const RoutePath& path = paths.front();
  if (!path.via) return fixed(hop_of(path));
  const auto gateway = use_gateway({path.iface, *path.via});
  if (!gateway) return tl::make_unexpected(gateway.error());
  return (*gateway)->second.index;
}

void NextHops::release(NextHopIndex index) {
  if (const auto it = by_index_.find(index); it != by_index_.end())
    release_gateway(Gateway{it->second});
  else
    release_group(index);
}

// --- Groups ---

Result<NextHopIndex> NextHops::use_group(const Paths& paths, NextHopIndex old) {
  if (const auto it = group_index_.find(paths); it != group_index_.end()) {
    ++groups_.at(it->second).uses;
    return it->second;
  }
  auto index = allocate(slots_of(paths));
  if (!index) return index;
  if (auto s = use_gateways(paths); !s) {
    free_.put_back(*index, slots_of(paths));
    return tl::make_unexpected(s.error());
  }
  for (const RoutePath& path : paths)
    if (path.via) gateways_.at({path.iface, *path.via}).groups.insert(*index);
  Group group{paths, 1, table::kNoInterface, Buckets{weights_of(paths), bucket_count(paths)}};
  take_over(group, old);
  group.buckets.deal(alive(group));
  group.iface = reverse_interface(group);
  write_buckets(*index, group);
  write_interfaces(*index, group);
  write_group(*index, group);
  groups_.emplace(*index, std::move(group));
  group_index_.emplace(paths, *index);
  return *index;
}

void NextHops::take_over(Group& group, NextHopIndex old) const {
  const auto from = groups_.find(old);
  if (from == groups_.end()) return;
  const auto same = [](const RoutePath& a) {
    return [&a](const RoutePath& b) { return a.iface == b.iface && a.via == b.via; };
  };
  std::vector<std::size_t> path_of_old;
  for (const RoutePath& path : from->second.paths)
    path_of_old.push_back(static_cast<std::size_t>(std::ranges::find_if(group.paths, same(path)) -
                                                   group.paths.begin()));
  group.buckets.take_over(from->second.buckets, path_of_old);
}

void NextHops::release_group(NextHopIndex index) {
  const auto it = groups_.find(index);
  if (it == groups_.end() || --it->second.uses != 0) return;
  const Group group = std::move(it->second);
  groups_.erase(it);
  group_index_.erase(group.paths);
  retire(index, slots_of(group.paths));
  for (const RoutePath& path : group.paths)
    if (path.via) gateways_.at({path.iface, *path.via}).groups.erase(index);
  release_gateways(group.paths);
}

void NextHops::write_group(NextHopIndex index, const Group& group) {
  const auto bits = static_cast<std::uint8_t>(std::countr_zero(group.buckets.size()));
  sink_.set_next_hop(index, {NextHopKind::kGroup, bits, group.iface, index + 1});
}

/// Each bucket is one store, so a worker sees the old or the new next hop, never a mixture.
void NextHops::write_buckets(NextHopIndex index, const Group& group) {
  for (std::size_t i = 0; i < group.buckets.size(); ++i)
    sink_.set_next_hop(index + 1 + static_cast<NextHopIndex>(i),
                       hop_of(group.paths[group.buckets.path_of(i)]));
}

/// The check of sources asks for them. They stay as long as the group.
void NextHops::write_interfaces(NextHopIndex index, const Group& group) {
  NextHopIndex at = index + 1 + static_cast<NextHopIndex>(group.buckets.size());
  for (const InterfaceId iface : interfaces_of(group.paths))
    sink_.set_next_hop(at++, {NextHopKind::kConnected, 0, iface, table::kNoNeighbour});
  sink_.set_next_hop(at, NextHop{});
}

// --- Liveness ---

bool NextHops::is_alive(const RoutePath& path) const {
  if (down_.contains(path.iface)) return false;
  if (!path.via) return true;
  const auto it = gateways_.find({path.iface, *path.via});
  return it != gateways_.end() && it->second.answers;
}

NextHops::Paths NextHops::paths_of(NextHopIndex index) const {
  if (const auto one = by_index_.find(index); one != by_index_.end())
    return {{one->second.first, one->second.second}};
  const auto group = groups_.find(index);
  return group != groups_.end() ? group->second.paths : Paths{};
}

std::vector<wire::IpAddr> NextHops::dead_gateways(NextHopIndex index) const {
  std::vector<wire::IpAddr> dead;
  for (const RoutePath& path : paths_of(index))
    if (path.via && !is_alive(path)) dead.push_back(*path.via);
  return dead;
}

std::vector<bool> NextHops::alive(const Group& group) const {
  std::vector<bool> alive;
  for (const RoutePath& path : group.paths) alive.push_back(is_alive(path));
  return alive;
}

/// The interface on which multicast from the group's destinations is accepted. The highest address
/// among the living gateways (among all, if none lives) decides, so that all routers on a link
/// decide alike. RFC 7761 §4.1.6 breaks ties by the highest address, too.
InterfaceId NextHops::reverse_interface(const Group& group) const {
  const auto rank = [this](const RoutePath& path) { return std::pair{is_alive(path), path.via}; };
  return std::ranges::max_element(group.paths, {}, rank)->iface;
}

/// Something about the paths of a group has changed.
void NextHops::refresh(NextHopIndex index) {
  Group& group = groups_.at(index);
  if (group.buckets.deal(alive(group))) write_buckets(index, group);
  const InterfaceId iface = reverse_interface(group);
  if (iface == group.iface) return;
  group.iface = iface;
  write_group(index, group);
}

void NextHops::neighbour_heard(const Gateway& neighbour, bool answers) {
  const auto it = gateways_.find(neighbour);
  if (it == gateways_.end() || it->second.answers == answers) return;
  it->second.answers = answers;
  for (const NextHopIndex index : it->second.groups) refresh(index);
}

void NextHops::interface_changed(InterfaceId iface, bool up) {
  if (up ? down_.erase(iface) == 0 : !down_.insert(iface).second) return;
  for (const auto& [index, group] : groups_)
    if (std::ranges::count(group.paths, iface, &RoutePath::iface) != 0) refresh(index);
}

}  // namespace ipoib::route
