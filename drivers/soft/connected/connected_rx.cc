// SPDX-License-Identifier: BSD-3-Clause
// Receive path of the connected transports: checks that come before sequence and message state, and
// reassembly of packets into messages. Order of checks: iba-wire.md §1.9.
#include <cstring>

#include "drivers/soft/connected/connected_port.h"
#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/frame.h"

namespace ipoib::soft {
namespace {

constexpr std::size_t kImmDtLen = 4;
constexpr std::uint8_t kTransportMask = 0xe0;
constexpr auto kUcClass = static_cast<std::uint8_t>(wire::Opcode::kUcSendFirst);
constexpr auto kAck = static_cast<std::uint8_t>(wire::Opcode::kRcAck);

/// Octets between BTH and payload for this opcode; irrelevant for opcodes that no queue here takes.
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
  expects_worker();
  wire::Bth bth;
  std::memcpy(&bth, f.bytes.data() + f.bth_at, sizeof(bth));
  SoftConnectedQueue* const q = queues_.find(bth.dest_qp.host());
  if (q == nullptr) [[unlikely]] {
    const bool ud = table.queue(bth.dest_qp.host()) != nullptr;
    return drop(m, ud ? Drop::kIbOpcode : Drop::kIbQpn);
  }
  ConnectedPacket p;
  if (const Drop reason = check(*q, f, p); reason != Drop::kNone) [[unlikely]]
    return drop(m, reason);
  if (!q->established && q->state() == fabric::QueueState::kReadyToReceive) [[unlikely]] {
    q->established = q->established_unreported = true;
    if (!report_events(*q)) mark_ready(*q);
  }
  if (!q->reliable()) return on_uc_packet(*q, m, p);
  if (p.opcode == kAck) return acknowledgement(*q, m, p);
  on_rc_request(*q, m, p);
}

Drop ConnectedPort::check(SoftConnectedQueue& q, const ConnectedFrame& f,
                          ConnectedPacket& p) noexcept {
  wire::Bth bth;
  std::memcpy(&bth, f.bytes.data() + f.bth_at, sizeof(bth));
  if (bth.tver() != 0) return Drop::kIbVersion;
  if ((bth.opcode & kTransportMask) != (q.reliable() ? 0 : kUcClass)) return Drop::kIbOpcode;
  const fabric::QueueState state = q.state();
  if (state == fabric::QueueState::kInit || state == fabric::QueueState::kError)
    return Drop::kIbQueueState;
  if (!wire::pkeys_match(q.pkey(), bth.pkey.host())) return Drop::kIbPkey;
  if (q.off_path(f.lrh->slid.host(), bth.flags)) [[unlikely]] {
    if (const Drop reason = follow(q, f, bth.flags); reason != Drop::kNone) return reason;
  } else if (f.grh != nullptr && q.path.global && f.grh->sgid != q.path.peer_gid) {
    return Drop::kIbPath;
  }

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
  return Drop::kNone;
}

/// Takes a receive buffer for a message and, if more packets follow, reserves all mbufs that they
/// may fill, so that every message that has begun can be completed. If necessary, it gives up
/// messages older than kYieldMs. False: no buffer or no mbufs are left.
bool ConnectedPort::begin(SoftConnectedQueue& q, SendPart part) noexcept {
  const std::uint32_t mbufs = part.ends ? 0 : (q.receive_queue.max_message() + q.mtu - 1) / q.mtu;
  // One message may always begin, even if it exceeds the budget.
  const auto fits = [&] {
    return mbufs == 0 || reserved_ == 0 || reserved_ + mbufs <= config_.begun_mbufs;
  };
  while (!fits() || !q.receive_queue.has_buffer()) {
    if (!oldest_is_over(kYieldMs)) return false;
    abort_message(*begun_first_);
  }
  q.receive_queue.take_buffer();
  if (part.ends) return true;
  Responder& r = q.responder;
  r.reserved = mbufs;
  r.begun_tsc = hca_.tsc();
  reserved_ += mbufs;
  q.begun_before = begun_last_;
  (begun_last_ != nullptr ? begun_last_->begun_after : begun_first_) = &q;
  begun_last_ = &q;
  return true;
}

/// Releases the budget of the current message, which is complete or lost.
void ConnectedPort::end(SoftConnectedQueue& q) noexcept {
  Responder& r = q.responder;
  r.first = r.last = nullptr;
  r.packets = 0;
  if (r.reserved == 0) return;
  reserved_ -= std::exchange(r.reserved, 0);
  (q.begun_before != nullptr ? q.begun_before->begun_after : begun_first_) = q.begun_after;
  (q.begun_after != nullptr ? q.begun_after->begun_before : begun_last_) = q.begun_before;
  q.begun_before = q.begun_after = nullptr;
}

bool ConnectedPort::oldest_is_over(std::uint64_t ms) const noexcept {
  return begun_first_ != nullptr &&
         hca_.tsc() - begun_first_->responder.begun_tsc > ms * config_.tsc_hz / 1000;
}

/// Gives up a message that the peer does not complete. RC has acknowledged its packets, so they are
/// not retransmitted, and the connection fails.
void ConnectedPort::abort_message(SoftConnectedQueue& q) noexcept {
  drop_message(q, Drop::kIbUnfinished);
  if (!q.reliable()) {
    q.responder.skipping = true;
    return;
  }
  schedule_response(q, Response::kOperationNak);
  fail(q, fabric::QueueError::kUnfinishedMessage);
}

namespace {

/// Copies the data of `m` behind the data of `last` and frees `m`. False: no room, or `last` is
/// shared.
bool copy_behind(rte_mbuf& last, rte_mbuf* m) noexcept {
  const std::uint16_t len = m->data_len;
  if (!RTE_MBUF_DIRECT(&last) || rte_mbuf_refcnt_read(&last) != 1 ||
      rte_pktmbuf_tailroom(&last) < len)
    return false;
  std::memcpy(rte_pktmbuf_mtod_offset(&last, std::byte*, last.data_len),
              rte_pktmbuf_mtod(m, const std::byte*), len);
  last.data_len = static_cast<std::uint16_t>(last.data_len + len);
  rte_pktmbuf_free(m);
  return true;
}

}  // namespace

/// Strips headers and trailer and appends the payload to the message.
void ConnectedPort::append(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept {
  m->ol_flags &= ~kRxOffloadFlags;
  m->data_off = static_cast<std::uint16_t>(m->data_off + p.payload_at);
  m->data_len = p.payload_len;
  m->pkt_len = p.payload_len;
  Responder& r = q.responder;
  ++r.packets;
  if (r.first != nullptr) {
    r.first->pkt_len += p.payload_len;
    if (p.payload_len <= kCopied && copy_behind(*r.last, m)) return;
    r.last->next = m;
    r.last = m;
    ++r.first->nb_segs;
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

/// Delivers a complete message.
void ConnectedPort::deliver(SoftConnectedQueue& q) noexcept {
  rte_mbuf* const message = q.responder.first;
  end(q);
  q.counters.rx_messages.add(1);
  q.counters.rx_octets.add(message->pkt_len);
  q.receive_queue.push(message);
}

/// Drops the incomplete message and counts each of its packets.
void ConnectedPort::drop_message(SoftConnectedQueue& q, Drop reason) noexcept {
  datapath_.count_drop(reason, q.responder.packets);
  rte_pktmbuf_free(q.responder.first);
  end(q);
  q.receive_queue.give_back_buffer();
}

}  // namespace ipoib::soft
