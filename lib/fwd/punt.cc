// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/punt.h"

#include <rte_cycles.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "lib/fabric/packet_meta.h"

namespace ipoib::fwd {
namespace {

msg::Up message(msg::Up::Kind kind, table::InterfaceId iface, rte_mbuf* m) noexcept {
  msg::Up up{};
  up.kind = kind;
  up.iface = iface;
  up.mbuf = m;
  return up;
}

/// The high half of a product depends on all bits of its factors.
std::uint64_t mix(std::uint64_t seed, const wire::IpAddr& addr) noexcept {
  std::uint64_t high, low;
  std::memcpy(&high, addr.bytes.data(), sizeof(high));
  std::memcpy(&low, addr.bytes.data() + sizeof(high), sizeof(low));
  const std::uint64_t sum = high * 0x9e37'79b9'7f4a'7c15ULL + (low ^ seed);
  return sum * 0xff51'afd7'ed55'8ccdULL;
}

}  // namespace

Punt::Punt(const WorkerConfig& config, Counter& punts, Tracer& trace)
    : ring_{config.up},
      interfaces_{config.interfaces},
      settings_{*config.settings},
      doorbell_{*config.doorbell},
      punts_{punts},
      trace_{trace},
      per_key_{config.punt.neighbour_per_key},
      multicast_again_{config.punt.multicast_again},
      redirect_again_{config.punt.redirect_again},
      interval_tsc_{rte_get_tsc_hz() * config.punt.interval_us / 1'000'000},
      keys_(std::size_t{1} << kKeyBits) {
  const auto at = [this](Kind kind) -> std::uint32_t& {
    return limit_[static_cast<std::size_t>(kind)];
  };
  at(Kind::kNeighbourWanted) = config.punt.neighbour;
  at(Kind::kArp) = config.punt.arp;
  at(Kind::kLocal) = config.punt.local;
  at(Kind::kMembership) = config.punt.membership;
  at(Kind::kNd) = config.punt.nd;
  at(Kind::kIcmpError) = config.punt.icmp_error;
  at(Kind::kMulticastUnknown) = config.punt.multicast;
  at(Kind::kRedirectWanted) = config.punt.redirect;
}

void Punt::begin_interval(std::uint64_t tsc) noexcept {
  interval_end_tsc_ = tsc + interval_tsc_;
  ++interval_;
  left_ = limit_;
}

void Punt::arp(const Ingress& in, rte_mbuf* m) noexcept {
  push_or_drop(in, message(Kind::kArp, in.iface, m));
}

/// InfiniBand devices have filled PacketMeta::rx; for other devices its content is undefined.
void Punt::fill_rx(const Ingress& in, rte_mbuf* m, bool group) const noexcept {
  auto& rx = fabric::meta_of(m).rx;
  const bool ipoib =
      in.iface < interfaces_.size() && interfaces_[in.iface].kind == InterfaceKind::kIpoib;
  if (!ipoib) {
    rx = {};
    rx.multicast = group;
  }
  rx.iface = in.iface;
}

void Punt::local(const Ingress& in, rte_mbuf* m, bool group) noexcept {
  if (in.iface == table::kNoInterface) return drop(in, m, Drop::kLocalFromSelf);
  fill_rx(in, m, group);
  push_or_drop(in, message(Kind::kLocal, in.iface, m));
}

void Punt::membership(const Ingress& in, rte_mbuf* m, bool group) noexcept {
  fill_rx(in, m, group);
  push_or_drop(in, message(Kind::kMembership, in.iface, m));
}

void Punt::nd(const Ingress& in, rte_mbuf* m, bool group) noexcept {
  fill_rx(in, m, group);
  push_or_drop(in, message(Kind::kNd, in.iface, m));
}

void Punt::neighbour_wanted(const Ingress& in, rte_mbuf* m, table::InterfaceId out_iface,
                            const wire::IpAddr& addr, bool to_routers) noexcept {
  KeyUse& use = use_of(mix(out_iface, addr), 1);
  if (use.used >= per_key_) return drop(in, m, Drop::kNeighbourPending);
  ++use.used;
  fabric::meta_of(m).held = {in.iface, table::kNoInterface, to_routers};
  msg::Up up = message(Kind::kNeighbourWanted, out_iface, m);
  up.addr = addr;
  push_or_drop(in, up);
}

void Punt::icmp_error(const Ingress& in, rte_mbuf* m, Drop reason,
                      const wire::IcmpError& error) noexcept {
  in.counters.drops.add(reason);
  trace_.counted_as(m, reason);
  // A packet without an ingress interface has this node as its sender.
  if (in.iface == table::kNoInterface) return discard(m);
  msg::Up up = message(Kind::kIcmpError, in.iface, m);
  up.icmp_type = error.type;
  up.icmp_code = error.code;
  up.mtu = static_cast<std::uint16_t>(error.value);
  if (spent(Kind::kIcmpError) || !push(up)) discard(m);
}

void Punt::multicast_unknown(const Ingress& in, const wire::IpAddr& group,
                             const wire::IpAddr& source) noexcept {
  if (spent(Kind::kMulticastUnknown)) return;
  KeyUse& use = use_of(mix(mix(in.iface, group), source), multicast_again_);
  if (use.used != 0) return;
  msg::Up up = message(Kind::kMulticastUnknown, in.iface, nullptr);
  up.addr = group;
  up.source = source;
  if (push(up)) use.used = 1;
}

bool Punt::may_redirect(const Ingress& in, const wire::IpAddr& source,
                        const wire::IpAddr& destination) noexcept {
  if (spent(Kind::kRedirectWanted) || !settings_.redirects.load(std::memory_order_relaxed))
    return false;
  // The seeds differ from those of multicast sources.
  KeyUse& use = use_of(mix(mix(~std::uint64_t{in.iface}, source), destination), redirect_again_);
  return std::exchange(use.used, 1U) == 0;
}

void Punt::redirect_wanted(const Ingress& in, rte_mbuf* copy,
                           const wire::IpAddr& next_hop) noexcept {
  msg::Up up = message(Kind::kRedirectWanted, in.iface, copy);
  up.addr = next_hop;
  if (!push(up)) discard(copy);
}

/// Returns the uses of the key in the latest `intervals`, counted from its first use.
Punt::KeyUse& Punt::use_of(std::uint64_t key, std::uint32_t intervals) noexcept {
  KeyUse& use = keys_[key >> (64 - kKeyBits)];
  if (use.key != key || interval_ - use.interval >= intervals) use = {key, interval_, 0};
  return use;
}

/// Local packets and ICMP errors, which any host may cause in any number, leave a quarter of the
/// ring free for the messages that interfaces, neighbours and groups depend on.
bool Punt::leaves_room(Kind kind) const noexcept {
  if (kind != Kind::kLocal && kind != Kind::kIcmpError) return true;
  return rte_ring_free_count(ring_) > rte_ring_get_capacity(ring_) / 4;
}

bool Punt::push(const msg::Up& message) noexcept {
  if (!leaves_room(message.kind) ||
      rte_ring_sp_enqueue_elem(ring_, const_cast<msg::Up*>(&message), sizeof(message)) != 0)
    return false;
  --left_[static_cast<std::size_t>(message.kind)];
  pushed_ = true;
  punts_.add(1);
  trace_.punted(message);
  return true;
}

void Punt::drop(const Ingress& in, rte_mbuf* m, Drop reason) noexcept {
  in.counters.drops.add(reason);
  trace_.dropped(m, reason);
  rte_pktmbuf_free(m);
}

/// Frees a packet whose drop is counted, or a copy.
void Punt::discard(rte_mbuf* m) noexcept {
  trace_.discarded(m);
  rte_pktmbuf_free(m);
}

void Punt::push_or_drop(const Ingress& in, const msg::Up& message) noexcept {
  if (spent(message.kind)) return drop(in, message.mbuf, Drop::kPuntRateLimited);
  if (!push(message)) drop(in, message.mbuf, Drop::kPuntRingFull);
}

}  // namespace ipoib::fwd
