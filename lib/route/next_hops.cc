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

/// Minimum number of buckets per path, so that shares differ by no more than a sixteenth.
constexpr std::size_t kBucketsPerPath = 16;
constexpr std::size_t kMinBuckets = 64;

std::size_t bucket_count(std::size_t paths) {
  return std::bit_ceil(std::max(kMinBuckets, paths * kBucketsPerPath));
}

/// Interfaces of the gateways, each once.
std::set<InterfaceId> interfaces_of(const std::vector<NextHops::Gateway>& via) {
  std::set<InterfaceId> interfaces;
  for (const NextHops::Gateway& gateway : via) interfaces.insert(gateway.first);
  return interfaces;
}

/// Slots of a group: its own, its buckets, its interfaces, and their end.
std::size_t slots_of(const std::vector<NextHops::Gateway>& via) {
  return 1 + bucket_count(via.size()) + interfaces_of(via).size() + 1;
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

Result<NextHopIndex> NextHops::use(const std::vector<Gateway>& via) {
  expects(!via.empty() && via.size() <= kMaxPaths, "1 <= via.size() <= kMaxPaths");
  if (via.size() > 1) return use_group(via);
  const auto gateway = use_gateway(via.front());
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

Result<NextHopIndex> NextHops::use_group(const std::vector<Gateway>& via) {
  if (const auto it = group_index_.find(via); it != group_index_.end()) {
    ++groups_.at(it->second).uses;
    return it->second;
  }
  Group group{via, 1, table::kNoInterface, Buckets{via.size(), bucket_count(via.size())}};
  auto index = allocate(slots_of(via));
  if (!index) return index;
  for (std::size_t i = 0; i < via.size(); ++i) {
    const auto gateway = use_gateway(via[i]);
    if (gateway) continue;
    for (std::size_t used = 0; used < i; ++used) release_gateway(via[used]);
    free_.put_back(*index, slots_of(via));
    return tl::make_unexpected(gateway.error());
  }
  for (const Gateway& gateway : via) gateways_.at(gateway).groups.insert(*index);
  group.buckets.deal(alive(group));
  group.iface = reverse_interface(group);
  write_buckets(*index, group);
  write_interfaces(*index, group);
  write_group(*index, group);
  groups_.emplace(*index, std::move(group));
  group_index_.emplace(via, *index);
  return *index;
}

void NextHops::release_group(NextHopIndex index) {
  const auto it = groups_.find(index);
  if (it == groups_.end() || --it->second.uses != 0) return;
  const Group group = std::move(it->second);
  groups_.erase(it);
  group_index_.erase(group.via);
  retire(index, slots_of(group.via));
  for (const Gateway& gateway : group.via) {
    gateways_.at(gateway).groups.erase(index);
    release_gateway(gateway);
  }
}

void NextHops::write_group(NextHopIndex index, const Group& group) {
  const auto bits = static_cast<std::uint8_t>(std::countr_zero(group.buckets.size()));
  sink_.set_next_hop(index, {NextHopKind::kGroup, bits, group.iface, index + 1});
}

/// Each bucket is one store, so a worker sees the old or the new next hop, never a mixture.
void NextHops::write_buckets(NextHopIndex index, const Group& group) {
  for (std::size_t i = 0; i < group.buckets.size(); ++i)
    sink_.set_next_hop(index + 1 + static_cast<NextHopIndex>(i),
                       hop_of(group.via[group.buckets.path_of(i)]));
}

/// The check of sources asks for them. They stay as long as the group.
void NextHops::write_interfaces(NextHopIndex index, const Group& group) {
  NextHopIndex at = index + 1 + static_cast<NextHopIndex>(group.buckets.size());
  for (const InterfaceId iface : interfaces_of(group.via))
    sink_.set_next_hop(at++, {NextHopKind::kConnected, 0, iface, table::kNoNeighbour});
  sink_.set_next_hop(at, NextHop{});
}

// --- Liveness ---

bool NextHops::is_alive(const Gateway& gateway) const {
  const auto it = gateways_.find(gateway);
  return it != gateways_.end() && it->second.answers && !down_.contains(gateway.first);
}

std::vector<wire::IpAddr> NextHops::dead_gateways(NextHopIndex index) const {
  std::vector<Gateway> via;
  if (const auto one = by_index_.find(index); one != by_index_.end()) via = {one->second};
  if (const auto group = groups_.find(index); group != groups_.end()) via = group->second.via;
  std::vector<wire::IpAddr> dead;
  for (const Gateway& gateway : via)
    if (!is_alive(gateway)) dead.push_back(gateway.second);
  return dead;
}

std::vector<bool> NextHops::alive(const Group& group) const {
  std::vector<bool> alive;
  for (const Gateway& gateway : group.via) alive.push_back(is_alive(gateway));
  return alive;
}

/// The interface on which multicast from the group's destinations is accepted. The highest address
/// among the living gateways (among all, if none lives) decides, so that all routers on a link
/// decide alike. RFC 7761 §4.1.6 breaks ties by the highest address, too.
InterfaceId NextHops::reverse_interface(const Group& group) const {
  const auto rank = [this](const Gateway& g) { return std::pair{is_alive(g), g.second}; };
  return std::ranges::max_element(group.via, {}, rank)->first;
}

void NextHops::gateway_changed(const GatewayState& gateway) {
  for (const NextHopIndex index : gateway.groups) {
    Group& group = groups_.at(index);
    if (group.buckets.deal(alive(group))) write_buckets(index, group);
    const InterfaceId iface = reverse_interface(group);
    if (iface == group.iface) continue;
    group.iface = iface;
    write_group(index, group);
  }
}

void NextHops::neighbour_heard(const Gateway& neighbour, bool answers) {
  const auto it = gateways_.find(neighbour);
  if (it == gateways_.end() || it->second.answers == answers) return;
  it->second.answers = answers;
  gateway_changed(it->second);
}

void NextHops::interface_changed(InterfaceId iface, bool up) {
  if (up ? down_.erase(iface) == 0 : !down_.insert(iface).second) return;
  for (const auto& [gateway, state] : gateways_)
    if (gateway.first == iface) gateway_changed(state);
}

}  // namespace ipoib::route
