// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/multicast_router.h"

#include <algorithm>
#include <utility>

#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp.h"
#include "lib/wire/ip_prefix.h"
#include "lib/wire/mld.h"

namespace ipoib::route {

using table::InterfaceId;
using wire::IpAddr;

namespace {

constexpr std::size_t index_of(IpFamily family) {
  return static_cast<std::size_t>(family);
}

constexpr IpFamily family_of(const IpAddr& addr) {
  return addr.is_v4() ? IpFamily::kIpv4 : IpFamily::kIpv6;
}

struct MembershipKind {
  IpFamily family;
  bool is_query;
};

/// Decides by the headers only, because MulticastMembership counts malformed messages.
std::optional<MembershipKind> membership_message(std::span<const std::byte> packet) {
  if (packet.empty()) return std::nullopt;
  const auto version = std::to_integer<unsigned>(packet[0]) >> 4;
  if (version == 4 && packet.size() >= sizeof(wire::Ipv4Hdr)) {
    if (packet[9] != static_cast<std::byte>(wire::IpProto::kIgmp)) return std::nullopt;
    const std::size_t len = 4 * (std::to_integer<std::size_t>(packet[0]) & 0x0f);
    const auto type = static_cast<std::byte>(wire::IgmpType::kQuery);
    return MembershipKind{IpFamily::kIpv4, len < packet.size() && packet[len] == type};
  }
  if (version != 6 || packet.size() <= sizeof(wire::Ipv6Hdr)) return std::nullopt;
  std::byte next = packet[6];
  auto payload = packet.subspan(sizeof(wire::Ipv6Hdr));
  if (next == std::byte{0}) {
    const auto options = wire::parse_hop_by_hop(payload);
    if (!options || options->len >= payload.size()) return std::nullopt;
    next = std::byte{options->next_header};
    payload = payload.subspan(options->len);
  }
  const auto type = std::to_integer<unsigned>(payload[0]);
  const bool mld = next == static_cast<std::byte>(wire::IpProto::kIcmpv6) &&
                   ((type >= 130 && type <= 132) || type == 143);
  if (!mld) return std::nullopt;
  return MembershipKind{IpFamily::kIpv6, type == 130};
}

}  // namespace

MulticastRouter::MulticastRouter(const MulticastTableConfig& config, MulticastSender& sender,
                                 DeliverySink& deliveries, std::uint64_t seed)
    : sender_{sender}, seed_{seed}, table_{config, deliveries} {}

MulticastRouter::Interface& MulticastRouter::interface_of(InterfaceId iface) {
  return interfaces_.try_emplace(iface, iface, seed_ + std::uint64_t{2} * iface, sender_)
      .first->second;
}

std::array<IpAddr, 4> MulticastRouter::router_groups() {
  return {wire::kIgmpAllRouters, wire::kIgmpV3Routers, wire::all_routers(), wire::kMldV2Routers};
}

Status MulticastRouter::add_interface(InterfaceId iface, const MembershipConfig& config,
                                      TimePoint now) {
  if (membership(iface, IpFamily::kIpv4) != nullptr)
    return fail(Errc::kExists, "interface {} is a multicast router's", iface);
  if (Status bad = table_.set_router(iface, true, now); !bad) return bad;
  interface_of(iface).families = std::make_unique<std::array<MulticastMembership, 2>>(
      std::array{MulticastMembership{iface, IpFamily::kIpv4, config, *this},
                 MulticastMembership{iface, IpFamily::kIpv6, config, *this}});
  interface_of(iface).up = false;
  link_up(iface, now);
  return {};
}

void MulticastRouter::remove_interface(InterfaceId iface, TimePoint now) {
  link_down(iface, now);
  interfaces_.erase(iface);
  const std::vector<StaticMulticastRoute> routes = table_.static_routes();
  table_.remove_interface(iface, now);
  for (const StaticMulticastRoute& route : routes)
    if (route.in != iface && wire::is_host(route.groups)) report(route.in, route.groups.addr, now);
}

void MulticastRouter::use_addresses(Interface& interface, TimePoint now) {
  for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6}) {
    const std::size_t i = index_of(family);
    const auto& addresses = interface.addresses[i];
    const auto lowest = addresses.empty() ? std::nullopt : std::optional{*addresses.begin()};
    interface.reporters[i].set_address(lowest, now);
    if (interface.families)
      (*interface.families)[i].set_address(interface.up ? lowest : std::nullopt, now);
  }
}

void MulticastRouter::address_ready(InterfaceId iface, const IpAddr& addr, TimePoint now) {
  if (!addr.is_v4() && !wire::is_link_local6(addr)) return;
  Interface& interface = interface_of(iface);
  interface.addresses[index_of(family_of(addr))].insert(addr);
  use_addresses(interface, now);
}

void MulticastRouter::address_removed(InterfaceId iface, const IpAddr& addr, TimePoint now) {
  const auto it = interfaces_.find(iface);
  if (it == interfaces_.end()) return;
  it->second.addresses[index_of(family_of(addr))].erase(addr);
  use_addresses(it->second, now);
}

void MulticastRouter::link_down(InterfaceId iface, TimePoint now) {
  const auto it = interfaces_.find(iface);
  if (it == interfaces_.end()) return;
  it->second.up = false;
  for (GroupReporter& r : it->second.reporters) r.set_up(false, now);
  if (it->second.families)
    for (MulticastMembership& m : *it->second.families) m.stop(now);
}

void MulticastRouter::link_up(InterfaceId iface, TimePoint now) {
  Interface& interface = interface_of(iface);
  if (!std::exchange(interface.up, true) && interface.families)
    for (MulticastMembership& m : *interface.families) m.start(now);
  use_addresses(interface, now);
  for (GroupReporter& r : interface.reporters) r.set_up(true, now);
}

Status MulticastRouter::listen(InterfaceId iface, const IpAddr& addr, TimePoint now) {
  if (Status bad = table_.listen(iface, addr, now); !bad) return bad;
  if (wire::is_multicast(addr) && ++interface_of(iface).listeners[addr] == 1)
    report(iface, addr, now);
  return {};
}

void MulticastRouter::unlisten(InterfaceId iface, const IpAddr& addr, TimePoint now) {
  table_.unlisten(iface, addr, now);
  if (!interfaces_.contains(iface)) return;
  auto& listeners = interface_of(iface).listeners;
  const auto it = listeners.find(addr);
  if (it == listeners.end() || --it->second > 0) return;
  listeners.erase(it);
  report(iface, addr, now);
}

Status MulticastRouter::add_static(const StaticMulticastRoute& route, TimePoint now) {
  if (Status bad = table_.add_static(route, now); !bad) return bad;
  if (wire::is_host(route.groups)) report(route.in, route.groups.addr, now);
  return {};
}

Status MulticastRouter::remove_static(const StaticMulticastRoute& route, TimePoint now) {
  if (Status bad = table_.remove_static(route, now); !bad) return bad;
  if (wire::is_host(route.groups)) report(route.in, route.groups.addr, now);
  return {};
}

/// Reports what this node receives of the group: all sources, or those of its static routes.
void MulticastRouter::report(InterfaceId iface, const IpAddr& group, TimePoint now) {
  Interface& interface = interface_of(iface);
  GroupFilter filter{interface.listeners.contains(group), {}};
  std::set<IpAddr> sources;
  for (const StaticMulticastRoute& route : table_.static_routes()) {
    if (route.in != iface || !wire::is_host(route.groups) || route.groups.addr != group) continue;
    filter.exclude = filter.exclude || route.source == IpAddr{};
    sources.insert(route.source);
  }
  if (!filter.exclude) filter.sources.assign(sources.begin(), sources.end());
  interface.reporters[index_of(family_of(group))].set_filter(group, filter, now);
}

/// The host's part answers the queries of this node too, because snooping switches learn from the
/// answers (RFC 4541 §2.1.1).
void MulticastRouter::answer_query(InterfaceId iface, IpFamily family,
                                   std::span<const std::byte> packet, TimePoint now) {
  const auto parsed =
      family == IpFamily::kIpv4 ? wire::parse_igmp(packet) : wire::parse_mld(packet);
  const auto* query = parsed ? std::get_if<wire::MembershipQuery>(&parsed->message) : nullptr;
  if (query != nullptr) interface_of(iface).reporters[index_of(family)].on_query(*query, now);
}

void MulticastRouter::set_networks(InterfaceId iface, const std::vector<wire::IpPrefix>& networks) {
  auto& kept = interface_of(iface).networks;
  kept.clear();
  for (const wire::IpPrefix& p : networks)
    if (p.addr.is_v4() && !wire::is_host(p)) kept.push_back(p);
}

/// True for an IPv4 source that is not on the link. MLD has link-local sources only, which the
/// parser checks.
bool MulticastRouter::is_foreign(const Interface& interface, std::span<const std::byte> packet) {
  const auto ip = wire::read<wire::Ipv4Hdr>(packet);
  if (!ip || ip->src.host() == 0 || interface.networks.empty()) return false;
  return std::ranges::none_of(interface.networks, [&](const wire::IpPrefix& network) {
    return wire::contains(network, IpAddr::v4(ip->src.host()));
  });
}

std::uint64_t MulticastRouter::foreign_messages(InterfaceId iface) const {
  const auto it = interfaces_.find(iface);
  return it == interfaces_.end() ? 0 : it->second.foreign;
}

bool MulticastRouter::on_packet(InterfaceId iface, std::span<const std::byte> packet,
                                TimePoint now) {
  const auto message = membership_message(packet);
  if (!message) return false;
  const auto it = interfaces_.find(iface);
  if (it == interfaces_.end() || !it->second.up) return true;
  if (message->family == IpFamily::kIpv4 && is_foreign(it->second, packet)) {
    ++it->second.foreign;
    return true;
  }
  if (message->is_query) answer_query(iface, message->family, packet, now);
  if (it->second.families) (*it->second.families)[index_of(message->family)].on_packet(packet, now);
  return true;
}

void MulticastRouter::tick(TimePoint now) {
  for (auto& [id, interface] : interfaces_) {
    for (GroupReporter& r : interface.reporters) r.tick(now);
    if (interface.families)
      for (MulticastMembership& m : *interface.families) m.tick(now);
  }
  table_.tick(now);
}

std::optional<TimePoint> MulticastRouter::next_deadline() const {
  std::optional<TimePoint> next = table_.next_deadline();
  for (const auto& [id, interface] : interfaces_) {
    for (const GroupReporter& r : interface.reporters) next = earlier(next, r.next_deadline());
    if (interface.families)
      for (const MulticastMembership& m : *interface.families)
        next = earlier(next, m.next_deadline());
  }
  return next;
}

const MulticastMembership* MulticastRouter::membership(InterfaceId iface, IpFamily family) const {
  const auto it = interfaces_.find(iface);
  if (it == interfaces_.end() || !it->second.families) return nullptr;
  return &(*it->second.families)[index_of(family)];
}

const GroupReporter* MulticastRouter::reporter(InterfaceId iface, IpFamily family) const {
  const auto it = interfaces_.find(iface);
  return it == interfaces_.end() ? nullptr : &it->second.reporters[index_of(family)];
}

/// A query of this node.
void MulticastRouter::send(InterfaceId iface, std::vector<std::byte> packet, TimePoint now) {
  if (const auto message = membership_message(packet))
    answer_query(iface, message->family, packet, now);
  sender_.send(iface, std::move(packet));
}

void MulticastRouter::on_forwarder_change(InterfaceId iface, IpFamily family, Forwarder forwarder,
                                          TimePoint now) {
  table_.set_forwarder(iface, family == IpFamily::kIpv4, forwarder, now);
}

void MulticastRouter::on_filter_change(InterfaceId iface, const IpAddr& group,
                                       const GroupFilter& filter, TimePoint now) {
  table_.set_filter(iface, group, filter, now);
}

}  // namespace ipoib::route
