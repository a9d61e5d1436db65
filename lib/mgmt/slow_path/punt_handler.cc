// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/slow_path/punt_handler.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"
#include "lib/fwd/worker_config.h"
#include "lib/mgmt/linux/mirror.h"
#include "lib/mgmt/slow_path/ip_mbuf.h"
#include "lib/route/icmp/icmp4.h"
#include "lib/route/icmp/icmp6.h"
#include "lib/wire/frame.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/vrrp.h"

namespace ipoib::mgmt {
namespace {

/// Code of time exceeded of both versions of ICMP. Source: RFC 792, RFC 4443 §3.3.
constexpr std::uint8_t kReassemblyTimeExceeded = 1;

/// Sets TTL or hop limit. `packet`: from its checked IP header on.
void set_hops(std::span<std::byte> packet, std::uint8_t hops) {
  auto v4 = wire::read<wire::Ipv4Hdr>(packet);
  if (!v4) return;
  if (v4->version() == 6) {
    packet[offsetof(wire::Ipv6Hdr, hop_limit)] = std::byte{hops};
    return;
  }
  const std::size_t len = std::min(v4->header_len(), packet.size());
  v4->ttl = hops;
  v4->checksum = {};
  std::memcpy(packet.data(), &*v4, sizeof *v4);
  v4->checksum = wire::Be16{wire::internet_checksum(packet.first(len))};
  std::memcpy(packet.data(), &*v4, sizeof *v4);
}

constexpr fwd::PuntLimits kLimits;
static_assert((kLimits.heard_again + 1) * std::chrono::microseconds{kLimits.interval_us} <=
                  route::ForwarderElection::kReportInterval,
              "evidence answers all packets until it is reported again");

}  // namespace

void PuntHandler::handle(const msg::Up& message) {
  expects_management();
  rte_mbuf* m = message.mbuf;
  InterfaceSlot* slot = interfaces_.find(message.iface);
  if (slot == nullptr) {
    if (m != nullptr) drops_.add(Drop::kLocalFromSelf);
    return rte_pktmbuf_free(m);
  }
  switch (message.kind) {
    case msg::Up::Kind::kNeighbourWanted:
      ++counters_.neighbour_wanted;
      take_in(m, message.iface, *slot);
      slot->control->on_neighbour_wanted(message.addr, reinterpret_cast<link::HeldPacket>(m), now_);
      return;  // held now
    case msg::Up::Kind::kArp: {
      ++counters_.arp;
      const auto& rx = fabric::meta_of(m).rx;
      slot->control->on_arp(data_of(m), rx.slid, rx.src_qpn, now_);
      break;
    }
    case msg::Up::Kind::kNd:
      ++counters_.nd;
      slot->control->on_nd(data_of(m), fabric::meta_of(m).rx.slid, now_);
      break;
    case msg::Up::Kind::kLocal:
    case msg::Up::Kind::kMembership: deliver_local(m, *slot); return;
    case msg::Up::Kind::kBroadcast:
    case msg::Up::Kind::kLinkFrame: give_linux(message, *slot); break;
    case msg::Up::Kind::kIcmpError:
      errors_.send(m, slot, {message.icmp_type, message.icmp_code, message.mtu}, now_);
      break;
    case msg::Up::Kind::kRedirectWanted:
      ++counters_.redirect_wanted;
      errors_.redirect(m, message.addr, *slot, now_);
      break;
    case msg::Up::Kind::kMulticastUnknown:
      ++counters_.multicast_unknown;
      multicast_->table().packet_seen(message.addr, message.source, now_);
      return;  // no mbuf
    case msg::Up::Kind::kMulticastHeard:
      ++counters_.multicast_heard;
      multicast_->table().packet_heard(
          {message.addr, message.source, message.iface, message.from, message.lower}, now_);
      return;  // no mbuf
    case msg::Up::Kind::kForLinux: deliver_to_router_of_linux(m, message.sample, *slot); return;
  }
  rte_pktmbuf_free(m);
}

/// Returns the packet's octets in place if they are in one segment without other references; else a
/// copy of them, valid until the next call.
std::span<std::byte> PuntHandler::in_one_piece(rte_mbuf* m) {
  if (fabric::is_sole_mbuf(m)) return data_of(m);
  whole_.resize(rte_pktmbuf_pkt_len(m));
  const auto len = static_cast<std::uint32_t>(whole_.size());
  const void* const from = rte_pktmbuf_read(m, 0, len, whole_.data());
  if (from != whole_.data()) std::memcpy(whole_.data(), from, len);
  return whole_;
}

/// Passes on a packet that this node has no use for itself.
void PuntHandler::give_linux(const msg::Up& message, InterfaceSlot& in) {
  const auto deliver = [&](std::span<const std::byte> octets) {
    if (in.mirror == nullptr) return Drop::kLinuxDown;
    return message.kind == msg::Up::Kind::kLinkFrame ? in.mirror->deliver_frame(octets)
                                                     : in.mirror->deliver_broadcast(octets);
  };
  const Drop verdict = deliver(in_one_piece(message.mbuf));
  if (verdict == Drop::kNone)
    ++counters_.to_linux;
  else
    in.drops.add(verdict);
}

void PuntHandler::deliver_local(rte_mbuf* m, InterfaceSlot& in) {
  // A link-local address of another interface passes the fast path, which knows those of its own.
  if (interfaces_.has(source_of(m))) {
    in.drops.add(Drop::kIpMartianSource);
    return rte_pktmbuf_free(m);
  }
  const std::span<std::byte> packet = in_one_piece(m);
  if (multicast_->on_packet(in.control->id(), packet, now_))
    return deliver_membership(m, packet, in);
  if (is_advert(m, packet, in)) {
    ++counters_.adverts;
    return rte_pktmbuf_free(m);
  }
  ++counters_.local;
  if (const auto fragment = route::fragment_of(packet))
    deliver_fragment(m, *fragment, in);
  else
    deliver_whole(m, packet, in, false);
}

/// The node reports its own groups, and a multicast router of Linux hears what hosts and other routers
/// say.
void PuntHandler::deliver_membership(rte_mbuf* m, std::span<const std::byte> packet,
                                     InterfaceSlot& in) {
  const bool for_linux = linux_routes_multicast_ && in.mirror != nullptr;
  const Drop verdict = for_linux ? in.mirror->deliver(packet) : Drop::kNone;
  if (verdict == Drop::kNone)
    ++counters_.membership;
  else
    in.drops.add(verdict);
  rte_pktmbuf_free(m);
}

/// A multicast router forwards no packet whose TTL is at most the threshold of an interface, which is
/// at least 1: so Linux only counts a sample, or reports the interface on which it arrived.
void PuntHandler::deliver_to_router_of_linux(rte_mbuf* m, bool sample, InterfaceSlot& in) {
  const std::span<std::byte> packet = in_one_piece(m);
  Drop verdict = Drop::kLinuxDown;
  if (interfaces_.has(source_of(m))) {
    verdict = Drop::kIpMartianSource;
  } else if (in.mirror != nullptr) {
    if (sample) set_hops(packet, 1);
    verdict = in.mirror->deliver(packet);
  }
  if (verdict == Drop::kNone) {
    ++counters_.to_linux;
    ++counters_.to_linux_router;
  } else {
    in.drops.add(verdict);
  }
  rte_pktmbuf_free(m);
}

/// True if the packet is one of VRRP that the interface takes itself.
bool PuntHandler::is_advert(rte_mbuf* m, std::span<const std::byte> packet, InterfaceSlot& in) {
  if (!wire::vrrp_router_of(packet)) return false;
  const auto& rx = fabric::meta_of(m).rx;
  wire::Gid from{};
  // The GRH is in front of the header of the link, which is in front of the packet.
  const std::size_t back = sizeof(wire::IpoibHdr) + rx.grh_offset;
  if (rx.grh_offset >= sizeof(wire::Grh) && back <= rte_pktmbuf_headroom(m))
    std::memcpy(&from, rte_pktmbuf_mtod(m, const std::byte*) - back + offsetof(wire::Grh, sgid),
                sizeof(from));
  return in.control->on_vrrp(packet, from, rx.src_qpn, now_);
}

void PuntHandler::deliver_fragment(rte_mbuf* m, const route::Fragment& fragment,
                                   InterfaceSlot& in) {
  const auto whole = fragments_.add(fragment, in.control->id(), now_);
  if (!whole) return rte_pktmbuf_free(m);
  counters_.joined += whole->fragments - 1;
  deliver_whole(m, whole->packet, in, true);
}

/// `m`: the packet or, if it came in fragments, the last of them.
void PuntHandler::deliver_whole(rte_mbuf* m, std::span<std::byte> packet, InterfaceSlot& in,
                                bool in_fragments) {
  const bool linux_has_it =
      in.mirror != nullptr && (linux_answers_echo_ || !route::is_echo_request(packet));
  const Drop verdict =
      linux_has_it ? in.mirror->deliver(packet) : answer(m, packet, in, in_fragments);
  if (verdict == Drop::kNone && linux_has_it) {
    ++counters_.to_linux;
    return rte_pktmbuf_free(m);
  }
  if (verdict == Drop::kNone) return;
  in.drops.add(verdict);
  rte_pktmbuf_free(m);
}

void PuntHandler::fragment_lost(table::InterfaceId iface, Drop reason) {
  interfaces_.find(iface)->drops.add(reason);
}

void PuntHandler::packet_timed_out(table::InterfaceId iface, std::span<const std::byte> first) {
  const auto v4 = wire::read<wire::Ipv4Hdr>(first);
  const bool is_v4 = v4 && v4->version() == 4;
  auto error = is_v4 ? wire::kTtlExceeded : wire::kHopLimitExceeded;
  error.code = kReassemblyTimeExceeded;
  const auto sender =
      is_v4 ? wire::IpAddr::v4(v4->src.host()) : wire::read<wire::Ipv6Hdr>(first)->src;
  errors_.send(first, sender, interfaces_.find(iface), error, now_);
}

/// `m`: the packet that is answered or, if it came in fragments, one of them.
void PuntHandler::send_answer(rte_mbuf* m, std::span<const std::byte> answer, InterfaceSlot& in,
                              bool in_fragments) {
  if (answer.data() == rte_pktmbuf_mtod(m, const std::byte*)) {
    injector_.send_own(m, &in);
  } else if (in_fragments && !is_v4(m)) {
    // The sender of an IPv6 packet fragments it. Each path carries the minimum MTU.
    const auto id = static_cast<std::uint32_t>(hash_(++fragmented_));
    for (const auto& part : route::fragments6(answer, wire::kMinIpv6Mtu, id))
      if (!injector_.send_own(part, &in)) break;
    rte_pktmbuf_free(m);
  } else {
    injector_.send_own(answer, &in);
    rte_pktmbuf_free(m);
  }
  ++counters_.answered;
}

/// Returns kNone if it took `m` to answer it; else the reason of its drop, and `m` stays the
/// caller's.
Drop PuntHandler::answer(rte_mbuf* m, std::span<std::byte> packet, InterfaceSlot& in,
                         bool in_fragments) {
  const wire::IpAddr sender = source_of(m);
  const bool to_group = wire::is_multicast(destination_of(m));
  const auto own = to_group ? in.source_for(sender) : destination_of(m);
  if (!own) return Drop::kLocalUnsupported;
  const route::LocalAnswer answer = route::answer_local(packet, *own);
  switch (answer.verdict) {
    case route::LocalVerdict::kEchoReply:
      if (to_group && !errors_.allow_reply(sender, now_)) return Drop::kPuntRateLimited;
      send_answer(m, packet, in, in_fragments);
      return Drop::kNone;
    case route::LocalVerdict::kError: errors_.send(packet, sender, &in, answer.error, now_); break;
    case route::LocalVerdict::kIgnore: break;
  }
  return Drop::kLocalUnsupported;
}

std::uint32_t& PuntHandler::held_of(const rte_mbuf* m) {
  return held_by_sender_[hash_(source_of(m)) % held_by_sender_.size()];
}

link::Crowded PuntHandler::crowded(rte_mbuf* m) const {
  const auto& held = fabric::meta_of(m).held;
  const InterfaceSlot& slot = *interfaces_.find(held.out_iface);
  const auto crowded_by = [this](std::size_t of_kind, std::size_t kept_free, link::Crowded reason) {
    return of_kind + held_ > max_held_ - kept_free ? reason : link::Crowded::kNo;
  };
  if (!held.few) return crowded_by(slot.held, max_held_ / 4, link::Crowded::kBySender);
  if (held.neighbour) return crowded_by(slot.held_of_neighbours, 0, link::Crowded::kByAll);
  return crowded_by(slot.held_of_few, max_held_ / 8, link::Crowded::kByAll);
}

void PuntHandler::take_in(rte_mbuf* m, table::InterfaceId iface, InterfaceSlot& slot) {
  auto& held = fabric::meta_of(m).held;
  held.out_iface = iface;
  std::size_t& of_link = held_by_link_[held.link_sender];
  of_link += m->nb_segs;
  held.few = ++held_of(m) <= kFewHeld && (held.neighbour || of_link <= link_share());
  slot.held += m->nb_segs;
  if (held.few) slot.held_of_few += m->nb_segs;
  if (held.few && held.neighbour) slot.held_of_neighbours += m->nb_segs;
  held_ += m->nb_segs;
}

InterfaceSlot& PuntHandler::let_go(rte_mbuf* m) {
  const auto& held = fabric::meta_of(m).held;
  InterfaceSlot& slot = *interfaces_.find(held.out_iface);
  slot.held -= m->nb_segs;
  if (held.few) slot.held_of_few -= m->nb_segs;
  if (held.few && held.neighbour) slot.held_of_neighbours -= m->nb_segs;
  held_ -= m->nb_segs;
  const auto of_link = held_by_link_.find(held.link_sender);
  of_link->second -= m->nb_segs;
  if (of_link->second == 0) held_by_link_.erase(of_link);
  --held_of(m);
  return slot;
}

void PuntHandler::send_held(rte_mbuf* m) {
  expects_management();
  let_go(m);
  injector_.send_held(m);
}

void PuntHandler::drop_held(rte_mbuf* m, Drop reason, bool unreachable) {
  expects_management();
  const auto held = fabric::meta_of(m).held;
  let_go(m).drops.add(reason);
  if (unreachable) {
    const auto error = is_v4(m) ? wire::unreachable4(wire::IcmpUnreachable::kHost)
                                : wire::unreachable6(wire::Icmp6Unreachable::kAddress);
    errors_.send(m, interfaces_.find(held.in_iface), error, now_);
  }
  rte_pktmbuf_free(m);
}

}  // namespace ipoib::mgmt
