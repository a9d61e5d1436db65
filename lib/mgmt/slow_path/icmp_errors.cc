// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/slow_path/icmp_errors.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>

#include "lib/base/contract.h"
#include "lib/mgmt/linux/mirror.h"
#include "lib/mgmt/slow_path/ip_mbuf.h"
#include "lib/route/icmp/icmp4.h"

namespace ipoib::mgmt {
namespace {

/// Returns a redirect if sender and next hop share a subnet with this node. `own`: its addresses.
std::optional<std::vector<std::byte>> redirect4(std::span<const std::byte> packet,
                                                const wire::IpAddr& sender,
                                                const wire::IpAddr& next_hop,
                                                const std::vector<wire::IpPrefix>& own) {
  const auto subnet = std::find_if(own.begin(), own.end(), [&](const wire::IpPrefix& p) {
    return wire::contains(p, sender) && wire::contains(p, next_hop);
  });
  return subnet == own.end() ? std::nullopt : route::icmp4_redirect(packet, next_hop, subnet->addr);
}

}  // namespace

bool IcmpErrors::is_of_linux(const wire::IpAddr& sender, const InterfaceSlot* in) const {
  return in != nullptr && in->mirror != nullptr && interfaces_.has(sender);
}

void IcmpErrors::send(rte_mbuf* offending, InterfaceSlot* in, const wire::IcmpError& error,
                      TimePoint now) {
  std::array<std::byte, wire::kMinIpv6Mtu> scratch;  // an error quotes no more
  const auto len = std::min<std::uint32_t>(rte_pktmbuf_pkt_len(offending), scratch.size());
  const auto* head =
      static_cast<const std::byte*>(rte_pktmbuf_read(offending, 0, len, scratch.data()));
  send({head, len}, source_of(offending), in, error, now);
}

void IcmpErrors::send(std::span<const std::byte> offending, const wire::IpAddr& sender,
                      InterfaceSlot* in, const wire::IcmpError& error, TimePoint now) {
  expects_management();
  if (const auto ip = wire::read<wire::Ipv4Hdr>(offending);
      ip && ip->version() == 4 && routes_->is_broadcast(wire::IpAddr::v4(ip->dst.host()))) {
    ++counters_.suppressed;
    return;
  }
  auto own = in != nullptr ? in->source_for(sender) : std::nullopt;
  for (const auto& slot : interfaces_)
    if (!own && !wire::is_link_local6(sender)) own = slot->source_for(sender);
  // Linux drops packets from addresses that it has itself.
  if (const auto to = destination_of(offending); is_of_linux(sender, in) && !wire::is_multicast(to))
    own = to;
  tell(sender, own ? route::icmp_error(offending, error, *own) : std::nullopt,
       route::budget_of(error, sender.is_v4()), in, now);
}

void IcmpErrors::redirect(rte_mbuf* m, const wire::IpAddr& next_hop, InterfaceSlot& in,
                          TimePoint now) {
  expects_management();
  const wire::IpAddr sender = source_of(m);
  // Hosts of a subnet that interfaces share find each other by ARP and neighbour discovery.
  if (next_hop == destination_of(m) && in.control->shares_subnet(next_hop)) {
    ++counters_.suppressed;
    return;
  }
  if (is_v4(m))
    tell(sender, redirect4(data_of(m), sender, next_hop, in.control->addresses()),
         route::IcmpBudget::kOther, &in, now);
  else if (!interfaces_.has(sender) && allow(sender, route::IcmpBudget::kOther, now))
    in.control->send_redirect(data_of(m), next_hop, now);
  else
    ++counters_.suppressed;
}

/// Sends a message, if there is one, about a packet of `sender`. Linux gets those about its own packets,
/// which have its mirror as ingress. Otherwise none goes to an own address: the packet is this node's
/// own, or its source is forged.
void IcmpErrors::tell(const wire::IpAddr& sender,
                      const std::optional<std::vector<std::byte>>& message,
                      route::IcmpBudget budget, InterfaceSlot* in, TimePoint now) {
  const bool to_linux = is_of_linux(sender, in);
  if (!message || (interfaces_.has(sender) && !to_linux) || !allow(sender, budget, now)) {
    ++counters_.suppressed;
    return;
  }
  if (to_linux) {
    ++(in->mirror->deliver(*message) == Drop::kNone ? counters_.sent : counters_.suppressed);
    return;
  }
  if (injector_.send_own(*message, in)) ++counters_.sent;
}

}  // namespace ipoib::mgmt
