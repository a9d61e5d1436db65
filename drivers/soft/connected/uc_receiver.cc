// SPDX-License-Identifier: BSD-3-Clause
// UC receiver: delivers whole messages or drops them; the peer gets no response. Source: IBA vol 1
// §9.8; iba-wire.md §7.
#include "drivers/soft/connected/connected_port.h"

namespace ipoib::soft {

void ConnectedPort::on_uc_packet(SoftConnectedQueue& q, rte_mbuf* m,
                                 const ConnectedPacket& p) noexcept {
  constexpr std::uint8_t kOperation = 0x1f;
  constexpr std::uint8_t kSendOnlyImm = 0x05;
  if ((p.opcode & kOperation) > kSendOnlyImm) return drop(m, Drop::kIbOpcode);
  Responder& r = q.responder;
  const SendPart part = part_of(p.opcode);
  const bool expected = p.psn == r.psn;
  if (!expected) q.counters.rx_out_of_order.add(1);
  // A message is lost if its next packet is missing or if another message begins before its end.
  if (r.first != nullptr && (!expected || part.begins)) drop_message(q, Drop::kIbSequence);
  r.psn = wire::psn_add(p.psn, 1);

  const auto lose = [&](Drop reason) {
    if (r.first != nullptr) drop_message(q, reason);
    r.skipping = !part.ends;
    drop(m, reason);
  };
  if (!part.begins && r.first == nullptr)
    return lose(expected && !r.skipping ? Drop::kIbMessage : Drop::kIbSequence);
  if (!length_fits(part, p.payload_len, q.mtu)) return lose(Drop::kIbMessage);
  const std::uint32_t before = r.first != nullptr ? r.first->pkt_len : 0;
  if (before + p.payload_len > q.receive_queue.max_message()) return lose(Drop::kIbMessageTooLong);
  if (part.begins && !begin(q, part)) return lose(Drop::kIbNoBuffer);

  r.skipping = false;
  append(q, m, p);
  if (part.ends) deliver(q);
}

}  // namespace ipoib::soft
