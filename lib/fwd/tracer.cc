// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/tracer.h"

#include <rte_cycles.h>
#include <rte_ether.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/ip6_header.h"
#include "lib/wire/tcp.h"

namespace ipoib::fwd {
namespace {

namespace trace = msg::trace;
using table::InterfaceId;
using table::NeighbourMode;
using trace::Record;
using trace::Step;
using wire::EtherType;

/// Octets of a packet that are in its first mbuf.
using Octets = std::span<const std::byte>;

Octets from(Octets octets, std::size_t at) noexcept {
  return octets.subspan(std::min(at, octets.size()));
}

std::uint16_t number16(Octets octets, std::size_t at) noexcept {
  return wire::read<wire::Be16>(octets, at).value_or(wire::Be16{}).host();
}

void describe_upper(trace::Packet& p, Octets octets) noexcept {
  if (octets.size() < 4) return;
  if (p.is(wire::IpProto::kTcp) || p.is(wire::IpProto::kUdp))
    p.upper = {number16(octets, 0), number16(octets, 2)};
  else if (p.is(wire::IpProto::kIcmp) || p.is(wire::IpProto::kIcmpv6))
    p.upper = {std::to_integer<std::uint16_t>(octets[0]),
               std::to_integer<std::uint16_t>(octets[1])};
}

void describe_ip4(trace::Packet& p, Octets octets) noexcept {
  const auto hdr = wire::read<wire::Ipv4Hdr>(octets);
  if (!hdr || hdr->version() != 4) return;
  p.has_addresses = true;
  p.src = wire::IpAddr::v4(hdr->src.host());
  p.dst = wire::IpAddr::v4(hdr->dst.host());
  p.protocol = hdr->protocol;
  p.hops = hdr->ttl;
  if ((hdr->flags_offset.host() & wire::Ipv4Hdr::kOffsetMask) == 0)
    describe_upper(p, from(octets, hdr->header_len()));
}

void describe_ip6(trace::Packet& p, Octets octets) noexcept {
  const auto hdr = wire::read<wire::Ipv6Hdr>(octets);
  if (!hdr || hdr->version() != 6) return;
  p.has_addresses = true;
  p.src = hdr->src;
  p.dst = hdr->dst;
  p.protocol = hdr->next_header;
  p.hops = hdr->hop_limit;
  std::size_t at = sizeof(*hdr);
  if (p.protocol == wire::kHopByHop && octets.size() >= at + 2) {
    p.protocol = std::to_integer<std::uint8_t>(octets[at]);
    at += (std::to_integer<std::size_t>(octets[at + 1]) + 1) * 8;
  }
  describe_upper(p, from(octets, at));
}

/// ARP and RARP, by the lengths of their addresses. Source: RFC 826.
void describe_arp(trace::Packet& p, Octets octets) noexcept {
  constexpr std::size_t kFixed = 8, kIp = 4;
  if (octets.size() < kFixed) return;
  const auto hw = std::to_integer<std::size_t>(octets[4]);
  p.protocol = std::to_integer<std::uint8_t>(octets[7]);
  const auto sender = wire::read<wire::Be32>(octets, kFixed + hw);
  const auto target = wire::read<wire::Be32>(octets, kFixed + 2 * hw + kIp);
  if (!sender || !target || std::to_integer<std::size_t>(octets[5]) != kIp) return;
  p.has_addresses = true;
  p.src = wire::IpAddr::v4(sender->host());
  p.dst = wire::IpAddr::v4(target->host());
}

trace::Packet describe(const rte_mbuf* m, Tracer::StartsAt header) noexcept {
  const Octets octets{rte_pktmbuf_mtod(m, const std::byte*), m->data_len};
  trace::Packet p;
  std::size_t at = 0;
  switch (header) {
    case Tracer::StartsAt::kEthernet:
      at = RTE_ETHER_HDR_LEN;
      p.ether_type = number16(octets, at - sizeof(wire::Be16));
      break;
    case Tracer::StartsAt::kIpoib:
      at = sizeof(wire::IpoibHdr);
      p.ether_type = number16(octets, 0);
      break;
    case Tracer::StartsAt::kIbarp:
      at = sizeof(wire::IbarpHdr);
      p.ether_type = number16(octets, offsetof(wire::IbarpHdr, type));
      break;
    case Tracer::StartsAt::kIp:
      const bool v6 = !octets.empty() && (octets[0] >> 4) == std::byte{6};
      p.ether_type = static_cast<std::uint16_t>(v6 ? EtherType::kIpv6 : EtherType::kIpv4);
      break;
  }
  p.len = m->pkt_len - static_cast<std::uint32_t>(std::min<std::size_t>(at, m->pkt_len));
  switch (EtherType{p.ether_type}) {
    case EtherType::kIpv4: describe_ip4(p, from(octets, at)); break;
    case EtherType::kIpv6: describe_ip6(p, from(octets, at)); break;
    case EtherType::kArp:
    case EtherType::kRarp: describe_arp(p, from(octets, at)); break;
    default: break;
  }
  return p;
}

trace::Resolved resolved_of(const table::Neighbour& n) noexcept {
  const bool datagrams = has_frames(n.mode) || n.mode == NeighbourMode::kUdPaths;
  const NeighbourMode mode = datagrams ? NeighbourMode::kUd : n.mode;
  return {n.addr, n.iface, n.state, mode, n.mac, n.queue != nullptr ? n.queue->qpn() : n.qpn};
}

/// Adds a step, or counts it in the last one, if that differs in the number of packets only: the
/// pieces of a packet share a record.
void add_or_count(Record& record, const Step& step) noexcept {
  Step* const last = record.n_steps != 0 ? &record.steps[record.n_steps - 1U] : nullptr;
  if (last != nullptr && last->index() == step.index()) {
    if (auto* const cut = std::get_if<trace::Cut>(last)) {
      cut->pieces =
          static_cast<std::uint16_t>(cut->pieces + std::get_if<trace::Cut>(&step)->pieces);
      return;
    }
    const auto* const sent = std::get_if<trace::Sent>(&step);
    if (auto* const before = std::get_if<trace::Sent>(last);
        sent != nullptr && before->iface == sent->iface && before->mode == sent->mode &&
        before->lost == sent->lost) {
      ++before->packets;
      return;
    }
    const auto* const handed = std::get_if<trace::HandedOff>(&step);
    if (auto* const before = std::get_if<trace::HandedOff>(last);
        handed != nullptr && before->iface == handed->iface) {
      ++before->packets;
      return;
    }
    const auto* const dropped = std::get_if<trace::Dropped>(&step);
    if (auto* const before = std::get_if<trace::Dropped>(last); dropped != nullptr &&
                                                                before->reason == dropped->reason &&
                                                                before->iface == dropped->iface) {
      ++before->packets;
      return;
    }
  }
  record.add(step);
}

bool has_drop(const Record& record) noexcept {
  const auto path = record.path();
  return std::any_of(path.begin(), path.end(),
                     [](const Step& s) { return std::holds_alternative<trace::Dropped>(s); });
}

}  // namespace

/// A hash table of followed mbufs, with the records that are under construction.
struct Tracer::Memory {
  static constexpr std::size_t kMaxOpen = 256, kMaxFollowed = 1024, kSlots = 1024;
  static constexpr std::uint16_t kNone = 0xffff;

  struct Followed {
    const rte_mbuf* m;  ///< Null: forgotten.
    std::uint16_t record;
    std::uint16_t next;  ///< Next one in its slot; kNone: none.
    std::uint16_t slot;
  };
  struct Leaving {
    Record* record;  ///< Null: not followed.
    InterfaceId iface;
  };

  Memory() { slots.fill(kNone); }
  static std::size_t slot_of(const rte_mbuf* m) noexcept {
    return (reinterpret_cast<std::uintptr_t>(m) * 0x9e37'79b9'7f4a'7c15ULL) >> 54;
  }
  static_assert(kSlots == std::size_t{1} << (64 - 54));

  std::array<Record, kMaxOpen> open;
  std::array<std::uint16_t, kSlots> slots;  ///< First of each slot, the one that came last.
  std::array<Followed, kMaxFollowed> followed;
  std::size_t n_followed = 0;
  std::array<Leaving, kMaxBurst> leaving;
  std::size_t n_leaving = 0;
};

Tracer::Tracer(const WorkerConfig& config)
    : worker_{static_cast<std::uint8_t>(config.number)},
      tsc_{config.tsc},
      memory_{std::make_unique<Memory>()} {}
Tracer::~Tracer() = default;

void Tracer::set(trace::Session* session) noexcept {
  expects(!active(), "no packet is followed");
  session_ = session;
}

void Tracer::follow_matching(std::span<rte_mbuf* const> pkts, InterfaceId in,
                             StartsAt header) noexcept {
  if (session_->full()) return;
  const std::uint64_t tsc = tsc_ != nullptr ? tsc_() : rte_rdtsc();
  std::uint32_t missed = 0;
  for (const rte_mbuf* m : pkts) {
    const trace::Packet packet = describe(m, header);
    if (!session_->filter().matches(in, packet)) continue;
    if (n_open_ == Memory::kMaxOpen || !follow(m, static_cast<std::uint16_t>(n_open_))) {
      ++missed;
      continue;
    }
    Record& record = memory_->open[n_open_++];
    record.tsc = tsc;
    record.in = in;
    record.worker = worker_;
    record.n_steps = 0;
    record.truncated = false;
    record.packet = packet;
  }
  if (missed != 0) session_->count_missed(missed);
}

void Tracer::publish() noexcept {
  const bool dropped_only = session_->filter().dropped_only;
  for (std::uint32_t i = 0; i < n_open_; ++i)
    if (!dropped_only || has_drop(memory_->open[i])) session_->publish(memory_->open[i]);
  n_open_ = 0;
  for (std::size_t i = 0; i < memory_->n_followed; ++i)
    memory_->slots[memory_->followed[i].slot] = Memory::kNone;
  memory_->n_followed = 0;
}

bool Tracer::follow(const rte_mbuf* m, std::uint16_t record) noexcept {
  if (memory_->n_followed == Memory::kMaxFollowed) return false;
  const auto index = static_cast<std::uint16_t>(memory_->n_followed++);
  const std::size_t slot = Memory::slot_of(m);
  memory_->followed[index] = {m, record, memory_->slots[slot], static_cast<std::uint16_t>(slot)};
  memory_->slots[slot] = index;
  return true;
}

/// The one that came last wins: an mbuf may have been another packet before.
Record* Tracer::find(const rte_mbuf* m) noexcept {
  for (std::uint16_t i = memory_->slots[Memory::slot_of(m)]; i != Memory::kNone;
       i = memory_->followed[i].next)
    if (memory_->followed[i].m == m) return &memory_->open[memory_->followed[i].record];
  return nullptr;
}

void Tracer::forget(const rte_mbuf* m) noexcept {
  for (std::uint16_t i = memory_->slots[Memory::slot_of(m)]; i != Memory::kNone;
       i = memory_->followed[i].next)
    if (memory_->followed[i].m == m) memory_->followed[i].m = nullptr;
}

void Tracer::add(const rte_mbuf* m, const Step& step) noexcept {
  if (Record* const record = find(m)) add_or_count(*record, step);
}

void Tracer::leave(const rte_mbuf* m, const Step& step) noexcept {
  add(m, step);
  forget(m);
}

void Tracer::add_entered(std::span<rte_mbuf* const> pkts, trace::Stage stage,
                         bool over_connection) noexcept {
  for (rte_mbuf* m : pkts) {
    trace::Entered step{stage};
    if (stage == trace::Stage::kIpoibInput) step.mode = NeighbourMode::kUd;
    if (over_connection) step.mode = table::mode_of(fabric::meta_of(m).rx.transport);
    add(m, step);
  }
}

void Tracer::add_routed(const rte_mbuf* m, const wire::IpAddr& to, const table::NextHop& hop,
                        const table::Neighbour* neighbour) noexcept {
  Record* const record = find(m);
  if (record == nullptr) return;
  record->add(trace::Routed{hop.kind, hop.iface, to});
  if (neighbour != nullptr)
    record->add(resolved_of(*neighbour));
  else if (hop.kind == table::NextHopKind::kConnected)
    record->add(trace::Resolved{to, hop.iface, table::NeighbourState::kFree, {}, {}, 0});
}

void Tracer::add_resolved(const RoutedBurst& pkts) noexcept {
  for (std::size_t i = 0; i < pkts.n; ++i) add(pkts.pkts[i], resolved_of(*pkts.to[i]));
}

void Tracer::add_merged(const RoutedBurst& before, const RoutedBurst& after) noexcept {
  const std::span kept{after.pkts.data(), after.n};
  const auto head_of = [&](const rte_mbuf* m) -> const rte_mbuf* {
    for (const rte_mbuf* head : kept)
      for (const rte_mbuf* s = head; s != nullptr; s = s->next)
        if (s == m) return head;
    return nullptr;
  };
  std::array<std::uint16_t, kMaxBurst> joined{};
  for (std::size_t i = 0; i < before.n; ++i) {
    const rte_mbuf* const m = before.pkts[i];
    const auto head = std::find(kept.begin(), kept.end(), head_of(m));
    if (head == kept.end() || *head == m) continue;
    ++joined[static_cast<std::size_t>(head - kept.begin())];
    leave(m, trace::Joined{});
  }
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (joined[i] != 0) add(kept[i], trace::Merged{static_cast<std::uint16_t>(joined[i] + 1)});
}

void Tracer::add_cut(const rte_mbuf* m, std::span<rte_mbuf* const> pieces, bool tcp,
                     std::uint16_t mtu) noexcept {
  add(m, trace::Cut{tcp, mtu, static_cast<std::uint16_t>(pieces.size())});
  for (const rte_mbuf* piece : pieces) follow_copy(m, piece);
}

void Tracer::follow_copy(const rte_mbuf* m, const rte_mbuf* copy) noexcept {
  Record* const record = find(m);
  if (record == nullptr) return;
  const auto index = static_cast<std::uint16_t>(record - memory_->open.data());
  if (!follow(copy, index)) record->truncated = true;
}

void Tracer::add_dropped(const rte_mbuf* m, Drop reason, bool leaves) noexcept {
  add(m, trace::Dropped{reason});
  if (leaves) forget(m);
}

void Tracer::add_punted(const msg::Up& message) noexcept {
  if (message.mbuf == nullptr) return;  // a report, not a packet
  if (message.kind == msg::Up::Kind::kNeighbourWanted)
    leave(message.mbuf, trace::Held{message.addr, message.iface});
  else
    leave(message.mbuf, trace::Punted{message.kind, message.icmp_type, message.icmp_code});
}

void Tracer::add_consumed(std::span<rte_mbuf* const> pkts) noexcept {
  for (const rte_mbuf* m : pkts) leave(m, trace::Consumed{});
}

void Tracer::note_leaving(std::span<rte_mbuf* const> pkts, bool handoff) noexcept {
  memory_->n_leaving = pkts.size();
  for (std::size_t i = 0; i < pkts.size(); ++i) {
    memory_->leaving[i] = {find(pkts[i]),
                           handoff ? fabric::meta_of(pkts[i]).tx.iface : table::kNoInterface};
    forget(pkts[i]);
  }
}

void Tracer::add_left(const Departure& d) noexcept {
  for (std::size_t i = 0; i < memory_->n_leaving; ++i) {
    const auto& [record, to] = memory_->leaving[i];
    if (record == nullptr) continue;
    const InterfaceId iface = d.handoff ? to : d.iface;
    if (i >= d.taken)
      add_or_count(*record, trace::Dropped{d.unsent, iface});
    else if (d.handoff)
      add_or_count(*record, trace::HandedOff{d.worker, iface});
    else
      add_or_count(*record, trace::Sent{iface, d.mode, 1, d.lost});
  }
  memory_->n_leaving = 0;
}

}  // namespace ipoib::fwd
