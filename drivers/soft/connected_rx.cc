// A received frame of a connected transport: what is checked before the state of its connection
// matters, and how packets become messages. Order of checks: reference §1.9.
#include <cstring>

#include "drivers/soft/connected_port.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/frame.h"

namespace ipoib::soft {
namespace {

constexpr Drop kGood = Drop::kCount;
constexpr std::size_t kImmDtLen = 4;
constexpr std::uint8_t kTransportMask = 0xe0;
constexpr auto kUcClass = static_cast<std::uint8_t>(wire::Opcode::kUcSendFirst);
constexpr auto kAck = static_cast<std::uint8_t>(wire::Opcode::kRcAck);

/// Octets between BTH and payload that the opcode calls for; of opcodes that no queue here takes
/// it does not matter.
std::size_t extended_len(std::uint8_t opcode) noexcept {
  using wire::Opcode;
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::kRcAck: return sizeof(wire::Aeth);
    case Opcode::kRcSendLastImm:
    case Opcode::kRcSendOnlyImm:
    case Opcode::kUcSendLastImm:
    case Opcode::kUcSendOnlyImm: return kImmDtLen;
    default: return 0;
  }
}

}  // namespace

void ConnectedPort::receive(rte_mbuf* m, const ConnectedFrame& f, const RxTable& table) noexcept {
  wire::Bth bth;
  std::memcpy(&bth, f.bytes.data() + f.bth_at, sizeof(bth));
  SoftConnectedQueue* const q = queues_.find(bth.dest_qp.host());
  if (q == nullptr) [[unlikely]] {
    const bool ud = table.queue(bth.dest_qp.host()) != nullptr;
    return drop(m, ud ? Drop::kIbOpcode : Drop::kIbQpn);
  }
  ConnectedPacket p;
  if (const Drop reason = check(*q, f, p); reason != kGood) [[unlikely]]
    return drop(m, reason);
  if (!q->established && q->state() == fabric::QueueState::kReadyToReceive) [[unlikely]] {
    q->established = q->established_to_tell = true;
    if (!tell(*q)) mark_ready(*q);
  }
  if (!q->reliable()) return unreliable(*q, m, p);
  if (p.opcode == kAck) return acknowledgement(*q, m, p);
  request(*q, m, p);
}

Drop ConnectedPort::check(const SoftConnectedQueue& q, const ConnectedFrame& f,
                          ConnectedPacket& p) const noexcept {
  wire::Bth bth;
  std::memcpy(&bth, f.bytes.data() + f.bth_at, sizeof(bth));
  if (bth.tver() != 0) return Drop::kIbVersion;
  if ((bth.opcode & kTransportMask) != (q.reliable() ? 0 : kUcClass)) return Drop::kIbOpcode;
  const fabric::QueueState state = q.state();
  if (state == fabric::QueueState::kInit || state == fabric::QueueState::kError)
    return Drop::kIbQueueState;
  if (!wire::pkeys_match(q.pkey(), bth.pkey.host())) return Drop::kIbPkey;
  if (f.lrh->slid.host() != q.peer_lid ||
      (f.grh != nullptr && q.global && f.grh->sgid != q.peer_gid))
    return Drop::kIbPath;

  const std::size_t payload_at = f.bth_at + sizeof(wire::Bth) + extended_len(bth.opcode);
  if (payload_at + bth.pad() + wire::kIcrcLen > f.end) return Drop::kIbLength;
  if (hca_.icrc && !wire::icrc_is_good(f.bytes.subspan(sizeof(EthHdr), f.end - sizeof(EthHdr))))
    return Drop::kIbIcrc;

  p.opcode = bth.opcode;
  p.ack_requested = (bth.ack_resv & wire::Bth::kAckReq) != 0;
  p.psn = bth.psn.host();
  p.payload_at = static_cast<std::uint16_t>(payload_at);
  p.payload_len = static_cast<std::uint16_t>(f.end - payload_at - bth.pad() - wire::kIcrcLen);
  p.grh_offset = static_cast<std::uint8_t>(f.grh != nullptr ? payload_at - kLocalHeadLen : 0);
  p.sl = f.lrh->sl();
  p.slid = f.lrh->slid.host();
  if (bth.opcode == kAck)
    std::memcpy(&p.aeth, f.bytes.data() + f.bth_at + sizeof(bth), sizeof(p.aeth));
  return kGood;
}

/// Strips what is around the payload and puts it behind what is there of the message.
void ConnectedPort::append(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept {
  m->ol_flags &= ~kRxOffloadFlags;
  m->data_off = static_cast<std::uint16_t>(m->data_off + p.payload_at);
  m->data_len = p.payload_len;
  m->pkt_len = p.payload_len;
  Responder& r = q.responder;
  if (r.first != nullptr) {
    r.last->next = m;
    r.last = m;
    ++r.first->nb_segs;
    r.first->pkt_len += p.payload_len;
    return;
  }
  r.first = r.last = m;
  fabric::PacketMeta& meta = fabric::meta_of(m);
  meta.rx = {.src_qpn = q.peer_qpn,
             .slid = p.slid,
             .iface = 0,
             .sl = p.sl,
             .grh_offset = p.grh_offset,
             .multicast = false,
             .transport = q.transport()};
  meta.queue = q.qpn();
}

/// The message is whole.
void ConnectedPort::deliver(SoftConnectedQueue& q) noexcept {
  rte_mbuf* const message = std::exchange(q.responder.first, nullptr);
  q.counters.rx_messages.add(1);
  q.counters.rx_octets.add(message->pkt_len);
  q.receive_queue.push(message);
}

/// The message that has begun is lost, packet by packet.
void ConnectedPort::abandon(SoftConnectedQueue& q, Drop reason) noexcept {
  rte_mbuf* const message = std::exchange(q.responder.first, nullptr);
  datapath_.count_drop(reason, message->nb_segs);
  rte_pktmbuf_free(message);
  q.receive_queue.give_back_buffer();
}

}  // namespace ipoib::soft
