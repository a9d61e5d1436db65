// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/arp_agent.h"

#include "lib/base/log.h"
#include "lib/link/address_class.h"

namespace ipoib::link {
namespace {

constexpr Duration kAnnounceInterval = std::chrono::seconds(2);  // RFC 5227 §1.1
constexpr Duration kDefendInterval = std::chrono::seconds(10);   // RFC 5227 §1.1

}  // namespace

template <class Hw>
ArpAgent<Hw>::ArpAgent(const std::string& name, const std::vector<wire::IpPrefix>& addresses,
                       ArpTransport<Hw>& transport, NeighbourCache<Hw>& cache)
    : name_{name},
      addresses_{addresses},
      transport_{transport},
      cache_{cache},
      conflict_log_{kDefendInterval},
      contradiction_log_{kDefendInterval} {}

/// Returns the own address in the target's prefix, else the first one; 0 if the interface has none,
/// so that hosts learn nothing from the request.
template <class Hw>
std::uint32_t ArpAgent<Hw>::source_for(const wire::IpAddr& target) const {
  std::uint32_t first = 0;
  for (const auto& own : addresses_) {
    if (!own.addr.is_v4()) continue;
    if (wire::contains(own, target)) return own.addr.v4_host();
    if (first == 0) first = own.addr.v4_host();
  }
  return first;
}

template <class Hw>
void ArpAgent<Hw>::request(const wire::IpAddr& addr, TimePoint) {
  const auto arp = wire::make_arp<Hw>(wire::ArpOp::kRequest, transport_.own_hw(), source_for(addr),
                                      Hw{}, addr.v4_host());
  ++counters_.sent;
  transport_.broadcast_arp(wire::bytes_of(arp));
}

template <class Hw>
void ArpAgent<Hw>::probe(const wire::IpAddr& addr, const Hw& hw, TimePoint now) {
  const auto arp = wire::make_arp<Hw>(wire::ArpOp::kRequest, transport_.own_hw(), source_for(addr),
                                      hw, addr.v4_host());
  ++counters_.sent;
  transport_.unicast_arp(hw, wire::bytes_of(arp), now);
}

template <class Hw>
void ArpAgent<Hw>::announce_once(std::uint32_t own_ip) {
  const auto arp =
      wire::make_arp<Hw>(wire::ArpOp::kRequest, transport_.own_hw(), own_ip, Hw{}, own_ip);
  ++counters_.sent;
  transport_.broadcast_arp(wire::bytes_of(arp));
}

template <class Hw>
void ArpAgent<Hw>::announce_all() {
  for (const auto& own : addresses_)
    if (own.addr.is_v4()) announce_once(own.addr.v4_host());
}

template <class Hw>
void ArpAgent<Hw>::announce(TimePoint now) {
  announce_all();
  announce_again_ = now + kAnnounceInterval;
}

template <class Hw>
void ArpAgent<Hw>::tick(TimePoint now) {
  if (!announce_again_ || now < *announce_again_) return;
  announce_again_.reset();
  announce_all();
}

template <class Hw>
void ArpAgent<Hw>::on_arp(std::span<const std::byte> bytes, TimePoint now) {
  ++counters_.received;
  const auto arp = wire::parse_arp<Hw>(bytes);
  if (!arp) {
    ++counters_.invalid;
    return;
  }
  const Hw own_hw = transport_.own_hw();
  if (same_interface(arp->sender_hw, own_hw)) return;  // Reflected by the fabric.

  const auto sender = wire::IpAddr::v4(arp->sender_ip.host());
  const auto target = wire::IpAddr::v4(arp->target_ip.host());
  const auto op = static_cast<wire::ArpOp>(arp->op.host());
  const bool probing = arp->sender_ip.host() == 0 && op == wire::ArpOp::kRequest;
  const bool rarp = op == wire::ArpOp::kRarpRequest || op == wire::ArpOp::kRarpReply;
  if (rarp || !is_plausible(arp->sender_hw)) {
    ++counters_.invalid;
    return;
  }
  if (is_own(addresses_, sender)) return on_conflict(*arp, now);
  if (!probing && !is_neighbour_address(addresses_, sender)) {
    ++counters_.invalid;
    return;
  }

  const bool for_us = is_own(addresses_, target);
  if (!probing) {
    const auto evidence = op == wire::ArpOp::kReply && for_us ? Evidence::kReply : Evidence::kOther;
    // An entry is useful only for addresses that packets are sent to directly.
    const bool create = for_us && is_on_link(addresses_, sender);
    if (!cache_.learn(sender, arp->sender_hw, evidence, create, now)) on_contradiction(*arp, now);
  }
  if (op == wire::ArpOp::kRequest && for_us) {
    const auto reply = wire::make_arp<Hw>(wire::ArpOp::kReply, own_hw, arp->target_ip.host(),
                                          arp->sender_hw, arp->sender_ip.host());
    ++counters_.sent;
    transport_.unicast_arp(arp->sender_hw, wire::bytes_of(reply), now);
  }
}

/// Another host claims an own address. The claim is never learned, and one announcement per
/// interval answers it, so that two hosts that insist do not flood the link (RFC 5227 §2.4 b).
template <class Hw>
void ArpAgent<Hw>::on_conflict(const wire::Arp<Hw>& arp, TimePoint now) {
  ++counters_.conflicts;
  if (const auto suppressed = conflict_log_.allow(now))
    log(LogArea::kLink, LogLevel::kErr,
        "{}: address conflict: own address {} is also claimed by {} ({} conflicts suppressed)",
        name_, wire::to_string(wire::IpAddr::v4(arp.sender_ip.host())),
        wire::to_string(arp.sender_hw), *suppressed);
  if (defended_ && now - *defended_ < kDefendInterval) return;
  defended_ = now;
  announce_once(arp.sender_ip.host());
}

/// Two hosts claim one address.
template <class Hw>
void ArpAgent<Hw>::on_contradiction(const wire::Arp<Hw>& arp, TimePoint now) {
  ++counters_.contradictions;
  const auto suppressed = contradiction_log_.allow(now);
  if (!suppressed) return;
  log(LogArea::kLink, LogLevel::kWarning,
      "{}: address conflict: {} is claimed by {} and by another host ({} conflicts suppressed)",
      name_, wire::to_string(wire::IpAddr::v4(arp.sender_ip.host())),
      wire::to_string(arp.sender_hw), *suppressed);
}

template class ArpAgent<wire::LinkAddr>;
template class ArpAgent<wire::MacAddr>;

}  // namespace ipoib::link
