// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/packet_capture.h"

#include <rte_cycles.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "drivers/verbs/port.h"
#include "lib/base/contract.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/rc.h"

namespace ipoib::verbs {
namespace {

using fabric::CaptureDirection;

wire::GrhSpec grh_to(const fabric::AhAttr& to, const wire::Gid& from, bool ethernet) {
  return {.sgid = from,
          .dgid = to.dgid,
          .tclass = to.tclass,
          .flow_label = to.flow_label,
          .hop_limit = std::max<std::uint8_t>(to.hop_limit, ethernet ? 1 : 0)};
}

/// Opcode of a packet of a message. RC and UC differ in the transport class, the upper three bits.
wire::Opcode opcode_of(fabric::Transport transport, bool first, bool last, bool immediate) {
  using wire::Opcode;
  Opcode of_rc = Opcode::kRcSendMiddle;
  if (first && last)
    of_rc = immediate ? Opcode::kRcSendOnlyImm : Opcode::kRcSendOnly;
  else if (last)
    of_rc = immediate ? Opcode::kRcSendLastImm : Opcode::kRcSendLast;
  else if (first)
    of_rc = Opcode::kRcSendFirst;
  const auto uc = static_cast<unsigned>(Opcode::kUcSendFirst);
  return static_cast<Opcode>(static_cast<unsigned>(of_rc) |
                             (transport == fabric::Transport::kUc ? uc : 0));
}

}  // namespace

std::uint16_t CaptureView::sent_pkey(std::uint16_t pkey) const noexcept {
  const auto index = find_pkey(pkeys, pkey);
  return index ? pkeys[*index] : pkey;
}

PacketHead CaptureView::head_to(const fabric::AhAttr& to) const noexcept {
  PacketHead head;
  head.sl = to.sl;
  head.slid = lid;
  head.dlid = ethernet ? std::uint16_t{0} : to.dlid;
  if (to.global) head.grh = grh_to(to, gid, ethernet);
  return head;
}

PacketHead CaptureView::head_from(const fabric::AhAttr& peer) const noexcept {
  PacketHead head = head_to(peer);
  std::swap(head.slid, head.dlid);
  if (head.grh) std::swap(head.grh->sgid, head.grh->dgid);
  return head;
}

PacketHead CaptureView::head_of_datagram(std::uint16_t slid, std::uint8_t path_bits,
                                         std::uint8_t sl, const wire::Grh* grh,
                                         std::uint32_t qpn) const noexcept {
  PacketHead head;
  head.sl = sl;
  head.slid = ethernet ? std::uint16_t{0} : slid;
  head.dlid = static_cast<std::uint16_t>(lid | (path_bits & ((1U << lmc) - 1)));
  head.dest_qp = qpn;
  if (grh == nullptr) return head;
  head.grh = wire::GrhSpec{.sgid = grh->sgid,
                           .dgid = grh->dgid,
                           .tclass = grh->tclass(),
                           .flow_label = grh->flow_label(),
                           .hop_limit = grh->hop_limit};
  if (!grh->dgid.is_multicast()) return head;
  head.dest_qp = wire::kMulticastQpn;
  const auto group = std::find_if(groups.begin(), groups.end(),
                                  [grh](const auto& joined) { return joined.first == grh->dgid; });
  head.dlid = ethernet || group == groups.end() ? std::uint16_t{0} : group->second;
  return head;
}

void PacketCapture::publish(std::optional<CaptureView> view) {
  expects_management();
  auto fresh = view ? std::make_unique<const CaptureView>(std::move(*view)) : nullptr;
  published_.store(fresh.get(), std::memory_order_release);
  old_.add(std::exchange(current_, std::move(fresh)), grace_);
  old_.reclaim(grace_, [](std::unique_ptr<const CaptureView> old) { old.reset(); });
}

/// `fill` writes the payload into the copy.
template <class Fill>
void PacketCapture::hand_over(const CaptureView& view, const PacketHead& head,
                              std::size_t payload_len, CaptureDirection direction,
                              const Fill& fill) noexcept {
  const std::size_t len = packet_len(head, payload_len);
  rte_mbuf* const copy = rte_pktmbuf_alloc(view.tap.pool);
  char* const octets = copy != nullptr && payload_len <= wire::kMaxPayload
                           ? rte_pktmbuf_append(copy, static_cast<std::uint16_t>(len))
                           : nullptr;
  if (octets != nullptr) {
    const std::span packet{reinterpret_cast<std::byte*>(octets), len};
    fill(packet.data() + head_len(head));
    complete_packet(head, payload_len, packet);
    new (copy->buf_addr) fabric::CaptureMeta{.tsc = rte_rdtsc(), .direction = direction};
    if (rte_ring_enqueue(view.tap.ring, copy) == 0) return;
  }
  rte_pktmbuf_free(copy);
  lost_.fetch_add(1, std::memory_order_relaxed);
}

void PacketCapture::copy(const CaptureView& view, const PacketHead& head,
                         std::span<const std::byte> payload, CaptureDirection direction) noexcept {
  hand_over(view, head, payload.size(), direction,
            [payload](std::byte* to) { std::memcpy(to, payload.data(), payload.size()); });
}

void PacketCapture::copy_part(const CaptureView& view, const PacketHead& head,
                              const rte_mbuf* payload, Part part,
                              CaptureDirection direction) noexcept {
  expects(part.offset + part.len <= payload->pkt_len, "the part is in the packet");
  hand_over(view, head, part.len, direction, [payload, part](std::byte* to) {
    const void* const from = rte_pktmbuf_read(payload, part.offset, part.len, to);
    if (from != to && from != nullptr) std::memcpy(to, from, part.len);
  });
}

void PacketCapture::copy_message(const CaptureView& view, PacketHead head,
                                 const CapturedMessage& message, const rte_mbuf* payload,
                                 std::uint32_t& psn, CaptureDirection direction) noexcept {
  expects(message.mtu != 0, "the path has an MTU");
  for (std::uint32_t at = 0; at < payload->pkt_len; at += message.mtu) {
    const std::uint32_t rest = payload->pkt_len - at;
    const bool last = rest <= message.mtu;
    head.opcode = opcode_of(message.transport, at == 0, last, message.immediate.has_value());
    head.immediate = last ? message.immediate : std::nullopt;
    head.psn = psn;
    psn = wire::psn_add(psn, 1);
    copy_part(view, head, payload, {at, std::min(rest, message.mtu)}, direction);
  }
}

}  // namespace ipoib::verbs
