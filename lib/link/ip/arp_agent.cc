// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/arp_agent.h"

#include "lib/link/ip/address_class.h"
#include "lib/link/ip/subnet_proxy.h"

namespace ipoib::link {
namespace {

constexpr Duration kAnnounceInterval = std::chrono::seconds(2);  // RFC 5227 §1.1

/// True if another gateway sent the request for a host: see subnet_proxy.h.
bool is_marked(const wire::Arp& arp) {
  return arp.op == wire::ArpOp::kRequest && arp.target_hw.same_interface(arp.sender_hw);
}

}  // namespace

ArpAgent::ArpAgent(const std::string& name, const std::vector<wire::IpPrefix>& addresses,
                   Medium& medium, NeighbourCache& cache)
    : addresses_{addresses}, medium_{medium}, cache_{cache}, conflicts_{name} {}

/// Returns the own address in the target's prefix, else the first one; 0 if the interface has none,
/// so that hosts learn nothing from the request.
std::uint32_t ArpAgent::source_for(const wire::IpAddr& target) const {
  std::uint32_t first = 0;
  for (const auto& own : addresses_) {
    if (!own.addr.is_v4()) continue;
    if (wire::contains(own, target)) return own.addr.v4_host();
    if (first == 0) first = own.addr.v4_host();
  }
  return first;
}

void ArpAgent::broadcast_request(std::uint32_t sender_ip, std::uint32_t target_ip, bool marked) {
  const auto own_hw = medium_.own_hw();
  ++counters_.sent;
  medium_.broadcast(
      wire::EtherType::kArp,
      wire::build_arp({wire::ArpOp::kRequest, own_hw, sender_ip,
                       marked ? own_hw : wire::HwAddr::zero(own_hw.kind()), target_ip},
                      medium_.format()));
}

void ArpAgent::unicast(wire::ArpOp op, std::uint32_t sender_ip, const wire::HwAddr& to,
                       std::uint32_t target_ip, TimePoint now) {
  ++counters_.sent;
  medium_.send(
      to, wire::EtherType::kArp,
      wire::build_arp({op, medium_.own_hw_for(to), sender_ip, to, target_ip}, medium_.format()),
      now);
}

/// A host that knows this one takes the address of each request that it hears. If hosts get different
/// addresses, requests have no sender therefore (the form of a probe, RFC 5227 §1.1). A host that
/// answers only a sender gets one now and then: more often, an address that does not exist would
/// give all hosts the same.
void ArpAgent::request(const wire::IpAddr& addr, unsigned attempt, TimePoint now) {
  const bool anonymous = medium_.asks_anonymously() && (attempt == 0 || !named_.allow(now));
  broadcast_request(anonymous ? 0 : source_for(addr), addr.v4_host(), proxy_ != nullptr);
}

void ArpAgent::probe(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) {
  unicast(wire::ArpOp::kRequest, source_for(addr), hw, addr.v4_host(), now);
}

void ArpAgent::announce(TimePoint now) {
  for (const auto& own : addresses_)
    if (own.addr.is_v4()) announce(own.addr, now);
}

void ArpAgent::announce(const wire::IpAddr& own, TimePoint now) {
  if (is_shared(own)) return;
  announce_once(own);
  again_.add(own, now + kAnnounceInterval);
}

void ArpAgent::tick(TimePoint now) {
  for (const wire::IpAddr& own : again_.take(now)) announce_once(own);
}

void ArpAgent::on_arp(const std::optional<wire::Arp>& arp, TimePoint now) {
  ++counters_.received;
  if (!arp) {
    ++counters_.invalid;
    return;
  }
  if (medium_.is_own(arp->sender_hw)) return;  // Reflected by the fabric.

  const auto sender = wire::IpAddr::v4(arp->sender_ip);
  const auto target = wire::IpAddr::v4(arp->target_ip);
  const bool probing = arp->sender_ip == 0 && arp->op == wire::ArpOp::kRequest;
  if (!arp->sender_hw.is_plausible()) {
    ++counters_.invalid;
    return;
  }
  if (is_own(addresses_, sender)) return on_conflict(*arp, now);
  if (proxy_ != nullptr && proxy_ignores(*arp, now)) return;
  if (!probing && !is_neighbour_address(addresses_, sender)) {
    ++counters_.invalid;
    return;
  }

  const bool for_us = is_own(addresses_, target);
  if (!probing) {
    // Requests without a sender are answered to none.
    const bool to_us = for_us || (arp->target_ip == 0 && medium_.is_own(arp->target_hw));
    const bool answers = arp->op == wire::ArpOp::kReply && to_us;
    const auto evidence = answers ? Evidence::kReply : Evidence::kOther;
    // An entry is useful only for addresses that packets are sent to directly.
    const bool wanted = proxy_ != nullptr && proxy_->wants(*side_, sender);
    const bool create = (for_us || wanted) && is_on_link(addresses_, sender);
    if (!cache_.learn(sender, arp->sender_hw, evidence, create, now)) {
      ++counters_.contradictions;
      conflicts_.on_contradiction(sender, arp->sender_hw, now);
    } else if (proxy_ != nullptr) {
      proxy_->heard(*side_, sender, now);
    }
  }
  if (arp->op != wire::ArpOp::kRequest) return;
  if (!for_us) {
    if (proxy_ != nullptr && sender != target) proxy_asked(*arp, now);
    return;
  }
  if (!is_shared(target) || shared_->answers(target, sender, arp->sender_hw, now))
    unicast(wire::ArpOp::kReply, arp->target_ip, arp->sender_hw, arp->sender_ip, now);
}

/// True for messages that came back on another side, for claims of addresses of this node or of hosts
/// that are on other sides, and for the announcements of other gateways.
bool ArpAgent::proxy_ignores(const wire::Arp& arp, TimePoint now) {
  if (proxy_->is_loop(*side_, arp.sender_hw, now)) return true;
  const auto sender = wire::IpAddr::v4(arp.sender_ip);
  if (is_marked(arp) && arp.sender_ip == arp.target_ip) {
    proxy_->on_marked();
    return true;
  }
  if (proxy_->is_own_elsewhere(*side_, sender)) {
    ++counters_.conflicts;
    if (conflicts_.on_conflict(sender, arp.sender_hw, now)) announce_for(sender);
    return true;
  }
  if (!proxy_->shares(*side_, sender) || proxy_->may_claim(*side_, sender, now)) return false;
  conflicts_.on_contradiction(sender, arp.sender_hw, now);
  return true;
}

/// A request for an address that is not this node's here.
void ArpAgent::proxy_asked(const wire::Arp& arp, TimePoint now) {
  const auto target = wire::IpAddr::v4(arp.target_ip);
  if (!proxy_->shares(*side_, target) && !proxy_->is_own_elsewhere(*side_, target)) return;
  if (is_marked(arp)) return proxy_->on_marked();
  proxy_->on_question(*side_, target, {arp.sender_hw, wire::IpAddr::v4(arp.sender_ip)}, now);
}

void ArpAgent::answer_for(const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now) {
  unicast(wire::ArpOp::kReply, addr.v4_host(), asker.hw, asker.addr.v4_host(), now);
}

/// Another host claims an own address. The claim is never learned.
void ArpAgent::on_conflict(const wire::Arp& arp, TimePoint now) {
  const auto own = wire::IpAddr::v4(arp.sender_ip);
  const bool shared = is_shared(own);
  if (shared && shared_->claimed(own, arp.sender_hw, now)) return;
  ++counters_.conflicts;
  if (conflicts_.on_conflict(own, arp.sender_hw, now) && !shared) announce_once(own);
}

}  // namespace ipoib::link
