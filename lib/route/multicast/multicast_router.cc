// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/multicast_router.h"

#include <tuple>
#include <utility>

#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp.h"
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

/// Decides by the headers only, because MulticastMembership counts malformed messages.
std::optional<IpFamily> membership_family(std::span<const std::byte> packet) {
  if (packet.empty()) return std::nullopt;
  const auto version = std::to_integer<unsigned>(packet[0]) >> 4;
  if (version == 4 && packet.size() >= sizeof(wire::Ipv4Hdr)) {
    const bool igmp = packet[9] == static_cast<std::byte>(wire::IpProto::kIgmp);
    return igmp ? std::optional{IpFamily::kIpv4} : std::nullopt;
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
  return mld ? std::optional{IpFamily::kIpv6} : std::nullopt;
}

}  // namespace

MulticastRouter::MulticastRouter(const MulticastTableConfig& config, MulticastSender& sender,
                                 DeliverySink& deliveries)
    : sender_{sender}, table_{config, deliveries} {}

std::array<IpAddr, 4> MulticastRouter::router_groups() {
  return {wire::kIgmpAllRouters, wire::kIgmpV3Routers, wire::all_routers(), wire::kMldV2Routers};
}

Status MulticastRouter::add_interface(InterfaceId iface, const MembershipConfig& config,
                                      TimePoint now) {
  if (interfaces_.contains(iface))
    return fail(Errc::kExists, "interface {} is a multicast router's", iface);
  if (Status bad = table_.set_router(iface, true, now); !bad) return bad;
  interfaces_.emplace(
      std::piecewise_construct, std::tuple{iface},
      std::tuple<InterfaceId, const MembershipConfig&, MembershipSink&>{iface, config, *this});
  return {};
}

void MulticastRouter::remove_interface(InterfaceId iface, TimePoint now) {
  link_down(iface, now);
  interfaces_.erase(iface);
  table_.remove_interface(iface, now);
}

void MulticastRouter::use_addresses(Interface& interface, TimePoint now) {
  for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6}) {
    const auto& addresses = interface.addresses[index_of(family)];
    const bool some = interface.up && !addresses.empty();
    interface.families[index_of(family)].set_address(
        some ? std::optional{*addresses.begin()} : std::nullopt, now);
  }
}

void MulticastRouter::address_ready(InterfaceId iface, const IpAddr& addr, TimePoint now) {
  const auto it = interfaces_.find(iface);
  if (it == interfaces_.end() || (!addr.is_v4() && !wire::is_link_local6(addr))) return;
  it->second.addresses[index_of(family_of(addr))].insert(addr);
  use_addresses(it->second, now);
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
  for (MulticastMembership& m : it->second.families) m.stop(now);
}

void MulticastRouter::link_up(InterfaceId iface, TimePoint now) {
  const auto it = interfaces_.find(iface);
  if (it == interfaces_.end()) return;
  it->second.up = true;
  use_addresses(it->second, now);
}

bool MulticastRouter::on_packet(InterfaceId iface, std::span<const std::byte> packet,
                                TimePoint now) {
  const auto family = membership_family(packet);
  if (!family) return false;
  const auto it = interfaces_.find(iface);
  if (it != interfaces_.end() && it->second.up)
    it->second.families[index_of(*family)].on_packet(packet, now);
  return true;
}

void MulticastRouter::tick(TimePoint now) {
  for (auto& [id, interface] : interfaces_)
    for (MulticastMembership& m : interface.families) m.tick(now);
  table_.tick(now);
}

std::optional<TimePoint> MulticastRouter::next_deadline() const {
  std::optional<TimePoint> next = table_.next_deadline();
  for (const auto& [id, interface] : interfaces_)
    for (const MulticastMembership& m : interface.families) next = earlier(next, m.next_deadline());
  return next;
}

const MulticastMembership* MulticastRouter::membership(InterfaceId iface, IpFamily family) const {
  const auto it = interfaces_.find(iface);
  return it == interfaces_.end() ? nullptr : &it->second.families[index_of(family)];
}

void MulticastRouter::send(InterfaceId iface, std::vector<std::byte> packet) {
  sender_.send(iface, std::move(packet));
}

void MulticastRouter::on_filter_change(InterfaceId iface, const IpAddr& group,
                                       const GroupFilter& filter, TimePoint now) {
  table_.set_filter(iface, group, filter, now);
}

}  // namespace ipoib::route
