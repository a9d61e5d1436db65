// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/punt.h"

#include <rte_cycles.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/hash_seed.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/packet_meta.h"
#include "lib/table/neighbour_table.h"
#include "lib/table/own_addresses.h"
#include "lib/wire/arp.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::fwd {
namespace {

msg::Up message(msg::Up::Kind kind, table::InterfaceId iface, rte_mbuf* m) noexcept {
  msg::Up up{};
  up.kind = kind;
  up.iface = iface;
  up.mbuf = m;
  return up;
}

/// The IPv4 addresses of an ARP record, in the order in which they are written.
struct ArpAddresses {
  bool rarp;  ///< Or no ARP at all.
  std::uint32_t first, second;
};

/// Reads them without a check of the rest, which is management's. Empty: the packet is too short.
std::optional<ArpAddresses> arp_addresses(const InterfaceEntry& entry, const rte_mbuf* m) noexcept {
  constexpr std::size_t kHeaderLen = 8, kIpLen = sizeof(wire::Be32);
  const std::span octets{rte_pktmbuf_mtod(m, const std::byte*), m->data_len};
  std::size_t hw_len = wire::hw_len(wire::LinkKind::kEthernet);
  if (entry.kind == InterfaceKind::kIpoib) {
    hw_len = wire::hw_len(wire::LinkKind::kInfiniband);
    // The draft of 2001 has two lengths, and records without padding.
    if (entry.encapsulation == wire::Encapsulation::kTypeLast)
      hw_len = (std::max(octets.size(), kHeaderLen + 2 * kIpLen) - kHeaderLen) / 2 - kIpLen;
  }
  const auto op = wire::read<wire::Be16>(octets, kHeaderLen - sizeof(wire::Be16));
  const auto first = wire::read<wire::Be32>(octets, kHeaderLen + hw_len);
  const auto second = wire::read<wire::Be32>(octets, kHeaderLen + 2 * hw_len + kIpLen);
  if (!op || !first || !second) return std::nullopt;
  const bool arp = *op == wire::Be16{static_cast<std::uint16_t>(wire::ArpOp::kRequest)} ||
                   *op == wire::Be16{static_cast<std::uint16_t>(wire::ArpOp::kReply)};
  return ArpAddresses{!arp, first->host(), second->host()};
}

/// True for an advertisement of VRRP. Shape: at least a header of its version. Source: RFC 5798 §5.
bool is_vrrp(const rte_mbuf* m) noexcept {
  constexpr std::uint8_t kVrrp = 112;
  const auto* const v4 = rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  return (v4->version() == 4 ? v4->protocol
                             : rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->next_header) == kVrrp;
}

/// The source of an IP packet. Shape: at least a header of its version.
wire::IpAddr ip_sender(const rte_mbuf* m) noexcept {
  const auto* const v4 = rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  expects(m->data_len >= (v4->version() == 4 ? sizeof(wire::Ipv4Hdr) : sizeof(wire::Ipv6Hdr)),
          "the packet has a header of its version");
  if (v4->version() == 4) return wire::IpAddr::v4(v4->src.host());
  return rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->src;
}

/// The source of the frame whose header is in front of the data.
const std::byte* ethernet_source(const rte_mbuf* m) noexcept {
  return rte_pktmbuf_mtod(m, const std::byte*) - sizeof(wire::Be16) - sizeof(wire::MacAddr);
}

/// The source GID of a packet of an IPoIB link that has a GRH in front of the header of the link.
std::optional<wire::Gid> source_gid(rte_mbuf* m) noexcept {
  const auto& rx = fabric::meta_of(m).rx;
  if (rx.grh_offset < sizeof(wire::Grh) ||
      rx.grh_offset + sizeof(wire::IpoibHdr) > rte_pktmbuf_headroom(m))
    return std::nullopt;
  const std::byte* const grh =
      rte_pktmbuf_mtod(m, const std::byte*) - sizeof(wire::IpoibHdr) - rx.grh_offset;
  wire::Gid gid;
  std::memcpy(&gid, grh + offsetof(wire::Grh, sgid), sizeof(gid));
  return gid;
}

/// The sender of a packet on its link as an address: MAC address, LID and QPN, or GID on a link layer
/// without LIDs. The QPN of a message on a connection is that of the connection at this node.
wire::IpAddr link_sender_of(const InterfaceEntry& entry, rte_mbuf* m) noexcept {
  wire::IpAddr sender{};
  if (entry.kind == InterfaceKind::kIpoib) {
    const auto& rx = fabric::meta_of(m).rx;
    if (const auto gid = rx.slid == 0 ? source_gid(m) : std::nullopt) {
      std::memcpy(sender.bytes.data(), &*gid, sizeof(*gid));
      return sender;
    }
    const bool datagram = rx.transport == fabric::Transport::kUd;
    const std::uint64_t port =
        std::uint64_t{rx.slid} << 32 | (datagram ? rx.src_qpn : fabric::meta_of(m).queue);
    std::memcpy(sender.bytes.data(), &port, sizeof(port));
  } else {
    std::memcpy(sender.bytes.data(), ethernet_source(m), sizeof(wire::MacAddr));
  }
  return sender;
}

}  // namespace

Punt::Punt(const WorkerConfig& config, table::NeighbourTable& neighbours, NeighbourAnswers& answers,
           Counter& punts, Tracer& trace)
    : ring_{config.up},
      interfaces_{config.interfaces},
      own_addresses_{*config.own_addresses},
      neighbours_{neighbours},
      answers_{answers},
      settings_{*config.settings},
      doorbell_{*config.doorbell},
      punts_{punts},
      trace_{trace},
      limits_{config.punt},
      interval_tsc_{rte_get_tsc_hz() * config.punt.interval_us / 1'000'000},
      of_interface_(config.interfaces.size() + 1),
      factor_{secret_seed() | 1},
      keys_((static_cast<std::size_t>(Use::kHeard) + kHeardKeys) << kKeyBits) {
  const auto set = [&](Budget budget, std::uint32_t limit) {
    limit_[static_cast<std::size_t>(budget)] =
        std::max(limit / std::min(config.workers, limits_.max_parts), 1U);
  };
  set(Budget::kNeighbourWanted, limits_.neighbour);
  set(Budget::kArp, limits_.arp);
  set(Budget::kLocal, limits_.local);
  set(Budget::kMembership, limits_.membership);
  set(Budget::kNd, limits_.nd);
  set(Budget::kIcmpError, limits_.icmp_error);
  set(Budget::kTooBig, limits_.too_big);
  set(Budget::kMulticastUnknown, limits_.multicast);
  set(Budget::kRedirectWanted, limits_.redirect);
  set(Budget::kBroadcast, limits_.broadcast);
  set(Budget::kLinkFrame, limits_.link_frame);
  set(Budget::kForLinux, limits_.for_linux);
  set(Budget::kKnownArp, limits_.known_arp);
  set(Budget::kKnownNd, limits_.known_nd);
  // One worker may receive the groups of all interfaces.
  limit_[static_cast<std::size_t>(Budget::kMulticastHeard)] = limits_.heard;
  // No other worker and no management lcore shares this work.
  limit_[static_cast<std::size_t>(Budget::kAnswer)] = limits_.answers;
}

/// The high half of a product depends on all bits of its factors, and one of them is secret, so that
/// no host can choose IPv6 addresses with one key.
std::uint64_t Punt::mix(std::uint64_t seed, const wire::IpAddr& addr) const noexcept {
  std::uint64_t high, low;
  std::memcpy(&high, addr.bytes.data(), sizeof(high));
  std::memcpy(&low, addr.bytes.data() + sizeof(high), sizeof(low));
  // Each step keeps different addresses of one half apart.
  const std::uint64_t product = (low ^ seed) * factor_;
  return ((product ^ product >> 32) + high) * factor_;
}

void Punt::begin_interval(std::uint64_t tsc) noexcept {
  interval_end_tsc_ = tsc + interval_tsc_;
  ++interval_;
  all_ = {};
  std::ranges::fill(of_interface_, Budgets{});
}

std::uint32_t& Punt::used(const Ingress& in, Budget budget) noexcept {
  Budgets& of_interface = of_interface_[std::min<std::size_t>(in.iface, interfaces_.size())];
  return of_interface[static_cast<std::size_t>(budget)];
}

/// The sum of the packets of this interface and of all; at the limit, the interface has used half of
/// the budget that the others have left.
std::uint32_t Punt::in_use(const Ingress& in, Budget budget) noexcept {
  return used(in, budget) + all_[static_cast<std::size_t>(budget)];
}

bool Punt::spent(const Ingress& in, Budget budget) noexcept {
  return in_use(in, budget) >= limit(budget);
}

/// Takes one of the packets that a key may have for this use in this interval. False: none is left.
bool Punt::take(Use use, std::uint64_t key, std::uint32_t limit) noexcept {
  KeyUse& packets = use_of(use, key, 1);
  if (packets.used >= limit) return false;
  ++packets.used;
  return true;
}

/// False if this node has not asked for the neighbour or sent to it, or if another MAC address sent
/// the packet.
bool Punt::is_from(const table::Neighbour& neighbour, const rte_mbuf* m) noexcept {
  if (!neighbour.asked && neighbour.last_used_s == 0) return false;
  const bool has_mac = neighbour.state == table::NeighbourState::kValid &&
                       neighbour.mode == table::NeighbourMode::kEthernet;
  return !has_mac ||
         std::memcmp(ethernet_source(m), neighbour.mac.data(), neighbour.mac.size()) == 0;
}

/// Punts ARP or ND. `from`: the neighbour that it speaks of; null: there is none. A neighbour that has
/// used its share, a sender that has used its own by speaking of many neighbours, and all of them once
/// theirs is used up, count as strangers. Strangers of whom management has enough are answered here if
/// they look for this node.
void Punt::resolution(const Ingress& in, const msg::Up& message, const table::Neighbour* from,
                      Budget known) noexcept {
  const wire::IpAddr sender = link_sender_of(interfaces_[in.iface], message.mbuf);
  // Packets in the name of a neighbour, from other senders, do not use up its share.
  if (from != nullptr && is_from(*from, message.mbuf) && !spent(in, known) &&
      take(Use::kKnown, mix(mix(in.iface, from->addr), sender), limits_.known_per_key) &&
      take(Use::kSpeaker, mix(in.iface, sender), limits_.known_per_source) &&
      push(in, message, known))
    return;
  if (!take(Use::kStranger, mix(in.iface, sender), limits_.stranger_per_source))
    return drop(in, message.mbuf, Drop::kPuntRateLimited);
  const Budget budget = budget_of(message.kind);
  if (spent(in, budget)) return answer_or_drop(in, message, Drop::kPuntRateLimited);
  if (!push(in, message, budget)) answer_or_drop(in, message, Drop::kPuntRingFull);
}

/// `message`: of kind kArp or kNd.
void Punt::answer_or_drop(const Ingress& in, const msg::Up& message, Drop reason) noexcept {
  rte_mbuf* const m = message.mbuf;
  if (spent(in, Budget::kAnswer) ||
      !(message.kind == Kind::kArp ? answers_.arp(in, m) : answers_.nd(in, m)))
    return drop(in, m, reason);
  use(in, Budget::kAnswer);
}

/// The requests of one sender for others leave half of a neighbour's share for its requests for this
/// node: a router whose hosts are scanned asks for many.
bool Punt::may_ask_for_others(const Ingress& in, rte_mbuf* m) noexcept {
  const wire::IpAddr sender = link_sender_of(interfaces_[in.iface], m);
  return take(Use::kAsksForOthers, mix(in.iface, sender), limits_.known_per_key / 2);
}

void Punt::arp(const Ingress& in, rte_mbuf* m) noexcept {
  const InterfaceEntry& entry = interfaces_[in.iface];
  const auto addresses = arp_addresses(entry, m);
  // In replies of the draft of 2001, the sender may come second.
  const bool any_order = entry.encapsulation == wire::Encapsulation::kTypeLast;
  const table::Neighbour* from = nullptr;
  if (addresses) {
    from = neighbours_.lookup_v4(in.iface, addresses->first);
    const bool speaks_of_us =
        own_addresses_.perhaps_v4(addresses->first) || own_addresses_.perhaps_v4(addresses->second);
    const bool among_others = !speaks_of_us && !any_order && !addresses->rarp;
    if (among_others && ((from == nullptr && !entry.proxy) ||
                         (addresses->first != addresses->second && !may_ask_for_others(in, m))))
      return drop(in, m, Drop::kArpForOthers);
    if (any_order && (from == nullptr || !is_from(*from, m)))
      from = neighbours_.lookup_v4(in.iface, addresses->second);
  }
  resolution(in, message(Kind::kArp, in.iface, m), from, Budget::kKnownArp);
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
  const bool advert = group && is_vrrp(m);
  if (advert && !take(Use::kAdvertiser, mix(in.iface, link_sender_of(interfaces_[in.iface], m)),
                      limits_.stranger_per_source))
    return drop(in, m, Drop::kPuntRateLimited);
  fill_rx(in, m, group);
  push_or_drop(in, message(Kind::kLocal, in.iface, m),
               advert ? Budget::kMembership : Budget::kLocal);
}

void Punt::membership(const Ingress& in, rte_mbuf* m, bool group) noexcept {
  fill_rx(in, m, group);
  push_or_drop(in, message(Kind::kMembership, in.iface, m), Budget::kMembership);
}

void Punt::broadcast(const Ingress& in, rte_mbuf* m) noexcept {
  const wire::IpAddr sender = link_sender_of(interfaces_[in.iface], m);
  if (!take(Use::kBroadcaster, mix(in.iface, sender), limits_.broadcast_per_source))
    return drop(in, m, Drop::kPuntRateLimited);
  fill_rx(in, m, true);
  push_or_drop(in, message(Kind::kBroadcast, in.iface, m), Budget::kBroadcast);
}

void Punt::link_frame(const Ingress& in, rte_mbuf* m) noexcept {
  push_or_drop(in, message(Kind::kLinkFrame, in.iface, m), Budget::kLinkFrame);
}

void Punt::nd(const Ingress& in, rte_mbuf* m, bool group, const wire::IpAddr& speaker) noexcept {
  fill_rx(in, m, group);
  resolution(in, message(Kind::kNd, in.iface, m), neighbours_.lookup(in.iface, speaker),
             Budget::kKnownNd);
}

/// True if this node has asked for the IP sender of the packet, and its link-layer sender is the one
/// that answered. Hosts behind a gateway are no neighbours.
bool Punt::is_of_neighbour(const Ingress& in, rte_mbuf* m) noexcept {
  const table::Neighbour* const n = neighbours_.lookup(in.iface, ip_sender(m));
  if (n == nullptr || n->state != table::NeighbourState::kValid || !is_from(*n, m)) return false;
  if (n->mode == table::NeighbourMode::kEthernet) return true;
  const fabric::PacketMeta& meta = fabric::meta_of(m);
  if (n->queue == nullptr)
    return meta.rx.transport == fabric::Transport::kUd && meta.rx.src_qpn == n->qpn;
  return meta.rx.transport != fabric::Transport::kUd && meta.queue == n->queue->qpn();
}

/// Shares that others can use up by forged packets count only while the interface is busy. The IP
/// addresses of one link-layer sender, which may be a router or may be forged, have a quarter
/// together. The last quarter is for neighbours, because link-layer addresses can be forged, too.
bool Punt::may_want(const Ingress& in, rte_mbuf* m, std::uint64_t link_sender,
                    bool neighbour) noexcept {
  const std::uint32_t all = limit(Budget::kNeighbourWanted);
  const std::uint32_t share = std::max(all / limits_.neighbour_senders, 1U);
  const std::uint32_t link_share = std::max(all / limits_.neighbour_link_senders, 1U);
  const bool in_share = take(Use::kSource, mix(in.iface, ip_sender(m)), share) &&
                        take(Use::kLinkSource, link_sender, link_share);
  const std::uint32_t used = in_use(in, Budget::kNeighbourWanted);
  return (in_share || used < all / 2) && (neighbour || used < all - all / 4);
}

void Punt::neighbour_wanted(const Ingress& in, rte_mbuf* m, table::InterfaceId out_iface,
                            const wire::IpAddr& addr, fabric::Onward onward) noexcept {
  if (!take(Use::kWanted, mix(out_iface, addr), limits_.neighbour_per_key))
    return drop(in, m, Drop::kNeighbourPending);
  const bool own = in.iface == table::kNoInterface;
  // Copies have no header of their link in front of them.
  const bool on_link = !own && onward == fabric::Onward::kByRoute;
  const bool neighbour = own || (on_link && is_of_neighbour(in, m));
  const std::uint64_t link_sender =
      mix(in.iface, on_link ? link_sender_of(interfaces_[in.iface], m) : ip_sender(m));
  if (!may_want(in, m, link_sender, neighbour)) return drop(in, m, Drop::kPuntRateLimited);
  fabric::meta_of(m).held = {.in_iface = in.iface,
                             .out_iface = table::kNoInterface,
                             .onward = onward,
                             .few = false,
                             .neighbour = neighbour,
                             .link_sender = static_cast<std::uint32_t>(link_sender >> 32)};
  msg::Up up = message(Kind::kNeighbourWanted, out_iface, m);
  up.addr = addr;
  push_or_drop(in, up, Budget::kNeighbourWanted);
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
  const Budget budget = reason == Drop::kIpTooBig ? Budget::kTooBig : Budget::kIcmpError;
  if (spent(in, budget) || !push(in, up, budget)) discard(m);
}

void Punt::multicast_unknown(const Ingress& in, const wire::IpAddr& group,
                             const wire::IpAddr& source) noexcept {
  if (spent(in, Budget::kMulticastUnknown)) return;
  KeyUse& use = use_of(Use::kGroup, mix(mix(in.iface, group), source), limits_.multicast_again);
  if (use.used != 0) return;
  msg::Up up = message(Kind::kMulticastUnknown, in.iface, nullptr);
  up.addr = group;
  up.source = source;
  if (push(in, up, Budget::kMulticastUnknown)) use.used = 1;
}

/// Compares the link-layer address of a packet's sender, MAC address or GID and QPN, with that of this
/// node. All routers of a link see the same order.
int Punt::compare_sender(const Ingress& in, rte_mbuf* m) const noexcept {
  const InterfaceEntry& entry = interfaces_[in.iface];
  if (entry.kind != InterfaceKind::kIpoib)
    return std::memcmp(ethernet_source(m), entry.mac.data(), entry.mac.size());
  const auto sender = source_gid(m);
  if (!sender) return 1;
  const wire::Gid own = entry.own_gid();
  const int gids = std::memcmp(&*sender, &own, sizeof(own));
  if (gids != 0 || entry.ud_queues.empty()) return gids;
  return fabric::meta_of(m).rx.src_qpn < entry.ud_queues.front()->qpn() ? -1 : 1;
}

/// Returns the entry of a key that is due for a report, or one for it; null: the key is not due, or the
/// keys that share its place have used all in the latest intervals. The key that was reported longest
/// ago leaves its entry to another, so that they take turns.
Punt::KeyUse* Punt::heard_due(std::uint64_t key) noexcept {
  const std::size_t table = static_cast<std::size_t>(Use::kHeard) << kKeyBits;
  const std::span keys{&keys_[table + (key >> (64 - kKeyBits)) * kHeardKeys], kHeardKeys};
  const auto age = [this](const KeyUse& entry) { return interval_ - entry.interval; };
  for (KeyUse& entry : keys)
    if (entry.key == key && entry.used != 0)
      return age(entry) >= limits_.heard_again ? &entry : nullptr;
  KeyUse& oldest = *std::ranges::max_element(keys, {}, age);
  return age(oldest) >= std::max(limits_.heard_again / 8, 1U) ? &oldest : nullptr;
}

void Punt::multicast_heard(const Ingress& in, rte_mbuf* m, const table::Delivery& d,
                           const wire::IpAddr& source) noexcept {
  if (spent(in, Budget::kMulticastHeard)) return;
  std::uint64_t mixed = mix(mix(std::uint64_t{in.iface} << 16 | d.in, d.addr), source);
  // mix() alone puts too many of the consecutive addresses of one network into one place.
  const std::uint64_t key = next_random(mixed);
  KeyUse* const use = heard_due(key);
  if (use == nullptr) return;
  const int order = compare_sender(in, m);
  if (order == 0) return;  // own packet, returned by the link
  msg::Up up = message(Kind::kMulticastHeard, in.iface, nullptr);
  up.addr = d.addr;
  up.source = source;
  up.from = d.in;
  up.lower = order < 0;
  if (push(in, up, Budget::kMulticastHeard)) *use = {key, interval_, 1};
}

bool Punt::may_ask_linux(const Ingress& in, const wire::IpAddr& group,
                         const wire::IpAddr& source) noexcept {
  // Sources that Linux does not know leave half to those that it does.
  if (in_use(in, Budget::kForLinux) >= limit(Budget::kForLinux) / 2) return false;
  KeyUse& use = use_of(Use::kForLinux, mix(mix(in.iface, group), source), limits_.linux_again);
  return std::exchange(use.used, 1U) == 0;
}

void Punt::give_linux(const Ingress& in, rte_mbuf* m, bool sample) noexcept {
  msg::Up up = message(Kind::kForLinux, in.iface, m);
  up.sample = sample;
  push_or_drop(in, up, Budget::kForLinux);
}

bool Punt::may_redirect(const Ingress& in, const wire::IpAddr& source,
                        const wire::IpAddr& destination) noexcept {
  if (spent(in, Budget::kRedirectWanted) || !settings_.redirects.load(std::memory_order_relaxed))
    return false;
  KeyUse& use =
      use_of(Use::kRedirect, mix(mix(in.iface, source), destination), limits_.redirect_again);
  return std::exchange(use.used, 1U) == 0;
}

void Punt::redirect_wanted(const Ingress& in, rte_mbuf* copy,
                           const wire::IpAddr& next_hop) noexcept {
  msg::Up up = message(Kind::kRedirectWanted, in.iface, copy);
  up.addr = next_hop;
  if (!push(in, up, Budget::kRedirectWanted)) discard(copy);
}

/// Returns the uses of the key in the latest `intervals`, counted from its first use.
Punt::KeyUse& Punt::use_of(Use use, std::uint64_t key, std::uint32_t intervals) noexcept {
  const std::size_t table = static_cast<std::size_t>(use) << kKeyBits;
  KeyUse& entry = keys_[table | key >> (64 - kKeyBits)];
  if (entry.key != key || interval_ - entry.interval >= intervals) entry = {key, interval_, 0};
  return entry;
}

/// Local packets, ICMP errors, redirects and packets for Linux, which any host may cause in any number, leave half of
/// the ring free. The messages with which hosts join groups, become neighbours or learn the MTU of
/// their path, and those about sources of groups, leave a quarter, for those that neighbours depend
/// on.
bool Punt::leaves_room(Budget budget) const noexcept {
  const unsigned capacity = rte_ring_get_capacity(ring_), room = rte_ring_free_count(ring_);
  switch (budget) {
    case Budget::kKnownArp:
    case Budget::kKnownNd: return true;
    case Budget::kNeighbourWanted:
    case Budget::kArp:
    case Budget::kNd:
    case Budget::kMembership:
    case Budget::kTooBig:
    case Budget::kMulticastUnknown:
    case Budget::kMulticastHeard: return room > capacity / 4;
    default: return room > capacity / 2;
  }
}

void Punt::use(const Ingress& in, Budget budget) noexcept {
  ++used(in, budget);
  ++all_[static_cast<std::size_t>(budget)];
}

bool Punt::push(const Ingress& in, const msg::Up& message, Budget budget) noexcept {
  if (!leaves_room(budget) ||
      rte_ring_sp_enqueue_elem(ring_, const_cast<msg::Up*>(&message), sizeof(message)) != 0)
    return false;
  use(in, budget);
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

void Punt::push_or_drop(const Ingress& in, const msg::Up& message, Budget budget) noexcept {
  if (spent(in, budget)) return drop(in, message.mbuf, Drop::kPuntRateLimited);
  if (!push(in, message, budget)) drop(in, message.mbuf, Drop::kPuntRingFull);
}

}  // namespace ipoib::fwd
