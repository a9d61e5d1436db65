#include "lib/mgmt/punt.h"

#include <rte_mbuf.h>

#include <array>
#include <cstring>

#include "lib/fabric/packet_meta.h"

namespace ipoib::mgmt {
namespace {

std::span<std::byte> data_of(rte_mbuf* m) {
  return {rte_pktmbuf_mtod(m, std::byte*), rte_pktmbuf_data_len(m)};
}

msg::Down send_message(msg::Down::Kind kind, table::InterfaceId iface, rte_mbuf* m) {
  msg::Down down{};
  down.kind = kind;
  down.iface = iface;
  down.index = table::kNoNeighbour;
  down.mbuf = m;
  return down;
}

constexpr route::IcmpError unreachable_error(wire::IcmpUnreachable code) {
  return {static_cast<std::uint8_t>(wire::IcmpType::kUnreachable), static_cast<std::uint8_t>(code),
          0};
}

}  // namespace

void Punt::handle(const msg::Up& message) {
  rte_mbuf* m = message.mbuf;
  InterfaceSlot* slot = interfaces_.find(message.iface);
  switch (message.kind) {
    case msg::Up::Kind::kNeighbourWanted:
      ++counters_.neighbour_wanted;
      fabric::meta_of(m).held.out_iface = message.iface;
      slot->control->on_neighbour_wanted(message.addr, reinterpret_cast<link::HeldPacket>(m), now_);
      return;  // held now
    case msg::Up::Kind::kArp: {
      ++counters_.arp;
      const auto& rx = fabric::meta_of(m).rx;
      slot->control->on_arp(data_of(m), rx.slid, rx.src_qpn, now_);
      break;
    }
    case msg::Up::Kind::kLocal:
      ++counters_.local;
      deliver_local(m, *slot);
      return;
    case msg::Up::Kind::kNd: slot->drops.add(Drop::kLocalUnsupported); break;
    case msg::Up::Kind::kIcmpError:
      tell_sender(m, message.iface, {message.icmp_type, message.icmp_code, message.mtu});
      break;
  }
  rte_pktmbuf_free(m);
}

void Punt::deliver_local(rte_mbuf* m, InterfaceSlot& in) {
  const table::InterfaceId id = in.control->id();
  const auto verdict = rte_pktmbuf_linearize(m) == 0 ? route::answer_local(data_of(m))
                                                     : route::LocalVerdict::kIgnore;
  switch (verdict) {
    case route::LocalVerdict::kEchoReply:
      workers_.send(in.owner, send_message(msg::Down::Kind::kSendRouted, table::kNoInterface, m));
      return;
    case route::LocalVerdict::kPortUnreachable:
      tell_sender(m, id, unreachable_error(wire::IcmpUnreachable::kPort));
      break;
    case route::LocalVerdict::kProtocolUnreachable:
      tell_sender(m, id, unreachable_error(wire::IcmpUnreachable::kProtocol));
      break;
    case route::LocalVerdict::kIgnore: break;
  }
  in.drops.add(Drop::kLocalUnsupported);
  rte_pktmbuf_free(m);
}

void Punt::tell_sender(rte_mbuf* offending, table::InterfaceId in, const route::IcmpError& error) {
  InterfaceSlot* slot = interfaces_.find(in);
  std::optional<std::uint32_t> source = slot != nullptr ? slot->address() : std::nullopt;
  for (const auto& s : interfaces_)
    if (!source) source = s->address();
  if (!source) return;

  std::array<std::byte, 576> scratch;
  const auto len = std::min<std::uint32_t>(rte_pktmbuf_pkt_len(offending), scratch.size());
  const auto* head =
      static_cast<const std::byte*>(rte_pktmbuf_read(offending, 0, len, scratch.data()));
  const auto packet = route::icmp_error({head, len}, error, *source);
  const auto ip = wire::read<wire::Ipv4Hdr>({head, len});
  if (!packet || !limiter_.allow(ip->src.host(), now_)) {
    ++counters_.icmp_suppressed;
    return;
  }
  rte_mbuf* m = copy(*packet);
  if (m == nullptr) return;
  ++counters_.icmp_sent;
  workers_.send(slot != nullptr ? slot->owner : 0,
                send_message(msg::Down::Kind::kSendRouted, table::kNoInterface, m));
}

void Punt::send_routed(rte_mbuf* m) {
  const InterfaceSlot* slot = interfaces_.find(fabric::meta_of(m).held.out_iface);
  workers_.send(slot->owner, send_message(msg::Down::Kind::kSendRouted, table::kNoInterface, m));
}

void Punt::drop_held(rte_mbuf* m, Drop reason, bool unreachable) {
  const auto& held = fabric::meta_of(m).held;
  interfaces_.find(held.out_iface)->drops.add(reason);
  if (unreachable) tell_sender(m, held.in_iface, unreachable_error(wire::IcmpUnreachable::kHost));
  rte_pktmbuf_free(m);
}

void Punt::send_raw(table::InterfaceId iface, fabric::AhIndex ah, std::uint32_t qpn,
                    std::span<const std::byte> frame) {
  rte_mbuf* m = copy(frame);
  if (m == nullptr) return;
  auto& tx = fabric::meta_of(m).tx;
  tx.ah = ah;
  tx.qpn = qpn;
  tx.iface = iface;
  workers_.send(interfaces_.find(iface)->owner, send_message(msg::Down::Kind::kSendRaw, iface, m));
}

rte_mbuf* Punt::copy(std::span<const std::byte> octets) {
  rte_mbuf* m = rte_pktmbuf_alloc(pool_);
  char* room =
      m == nullptr ? nullptr : rte_pktmbuf_append(m, static_cast<std::uint16_t>(octets.size()));
  if (room == nullptr) {
    ++counters_.no_mbuf;
    rte_pktmbuf_free(m);
    return nullptr;
  }
  std::memcpy(room, octets.data(), octets.size());
  return m;
}

}  // namespace ipoib::mgmt
