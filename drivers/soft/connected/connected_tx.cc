// SPDX-License-Identifier: BSD-3-Clause
// Turns messages of connected queue pairs into frames. The message must stay for retransmits, so a
// frame is an mbuf of its own. It shares the buffer of the message's mbuf if that holds exactly its
// payload, as most do after a receipt with the same path MTU: head and tail are written around the
// payload. Other payloads are copied: those of merged TCP segments, of longer Ethernet packets, and
// a short last one that append() put behind the one before it.
#include <algorithm>
#include <cstring>

#include "drivers/soft/connected/connected_port.h"
#include "drivers/soft/control_mbuf.h"
#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"
#include "lib/wire/frame.h"

namespace ipoib::soft {
namespace {

using wire::Opcode;

/// SEND opcode for a place in the message. UC opcodes are RC opcodes plus kUcSendFirst.
Opcode send_opcode(bool reliable, SendPart part) noexcept {
  const Opcode rc = part.begins ? (part.ends ? Opcode::kRcSendOnly : Opcode::kRcSendFirst)
                                : (part.ends ? Opcode::kRcSendLast : Opcode::kRcSendMiddle);
  const auto base =
      static_cast<std::uint8_t>(reliable ? Opcode::kRcSendFirst : Opcode::kUcSendFirst);
  return static_cast<Opcode>(static_cast<std::uint8_t>(rc) + base);
}

/// Copies `len` octets from octet `at` of `segment` on, and advances both.
void copy_out(rte_mbuf*& segment, std::uint32_t& at, std::byte* to, std::uint32_t len) {
  while (len != 0) {
    const std::uint32_t n = std::min<std::uint32_t>(len, segment->data_len - at);
    std::memcpy(to, rte_pktmbuf_mtod_offset(segment, const std::byte*, at), n);
    to += n;
    len -= n;
    at += n;
    if (at != segment->data_len) continue;
    segment = segment->next;
    at = 0;
  }
}

/// Returns the segment of octet `at` of a message and makes `at` its offset there. Shape: at <=
/// m->pkt_len.
rte_mbuf* find(rte_mbuf* m, std::uint32_t& at) noexcept {
  expects(at <= m->pkt_len, "the octet is the message's");
  while (m != nullptr && at >= m->data_len) {
    at -= m->data_len;
    m = m->next;
  }
  return m;
}

}  // namespace

std::uint16_t ConnectedPort::tx_burst(SoftConnectedQueue& q, rte_mbuf** pkts,
                                      std::uint16_t n) noexcept {
  expects_worker();
  Requester& r = q.requester;
  const bool ready = q.state() == fabric::QueueState::kReadyToSend;
  const auto lose = [&](rte_mbuf* m, Drop reason) {
    q.count_lost(m->pkt_len);
    drop(m, reason);
  };
  std::uint32_t added = 0;
  std::uint16_t i = 0;
  for (; i < n; ++i) {
    rte_mbuf* const m = pkts[i];
    if (!ready) [[unlikely]] {
      lose(m, Drop::kIbTxFlushed);
      continue;
    }
    if (m->pkt_len > q.max_message) [[unlikely]] {
      lose(m, Drop::kIbTxTooLong);
      continue;
    }
    if (r.full()) [[unlikely]]
      break;
    if (!may_keep(q, added, m->nb_segs)) [[unlikely]] {
      lose(m, Drop::kIbTxBudget);
      continue;
    }
    added += m->nb_segs;
    const std::uint32_t packets = std::max((m->pkt_len + q.mtu - 1) / q.mtu, 1U);
    r.slot(r.tail++) = {.m = m, .first_psn = r.end, .packets = packets};
    r.end = wire::psn_add(r.end, packets);
    q.counters.tx_messages.add(1);
    q.counters.tx_octets.add(m->pkt_len);
  }
  if (!ready) [[unlikely]]
    return i;
  r.kept += added;
  kept_ += added;
  r.port_share->add(added);
  if (!send(q)) mark_ready(q);
  return i;
}

/// True if the budget allows the message beside `added` mbufs that are not counted yet.
bool ConnectedPort::may_keep(const SoftConnectedQueue& q, std::uint32_t added,
                             std::uint32_t mbufs) const noexcept {
  return fabric::may_keep({.limit = config_.kept_mbufs, .left = config_.kept_mbufs - kept_ - added},
                          q.requester.port_share->held() + added, q.requester.kept + added, mbufs);
}

/// Frees the mbufs of a message that is acknowledged, sent (UC) or lost.
void ConnectedPort::let_go(SoftConnectedQueue& q, rte_mbuf* message) noexcept {
  q.requester.kept -= message->nb_segs;
  q.requester.port_share->remove(message->nb_segs);
  kept_ -= message->nb_segs;
  rte_pktmbuf_free(message);
}

/// False: more packets could follow, but the burst is over, or the wire, a mempool or the path's
/// rate allows none now.
bool ConnectedPort::send(SoftConnectedQueue& q) noexcept {
  Requester& r = q.requester;
  if (r.psn == r.end || r.waiting) return true;
  bool blocked = false;
  for (unsigned n = 0; r.psn != r.end && !blocked; ++n) {
    if (q.reliable() && wire::psn_diff(r.psn, r.una) >= r.window) break;
    blocked = n == kBurst || !has_room() || !send_packet(q);
  }
  if (q.reliable() && !q.armed()) restart_timer(q);
  return !blocked;
}

/// Sends the next packet. False: not possible now, and nothing changed.
bool ConnectedPort::send_packet(SoftConnectedQueue& q) noexcept {
  Requester& r = q.requester;
  SendSlot& slot = r.slot(r.at);
  const auto number = static_cast<std::uint32_t>(wire::psn_diff(r.psn, slot.first_psn));
  const SendPart part{.begins = number == 0, .ends = number + 1 == slot.packets};
  const std::uint32_t offset = number * q.mtu;
  const std::uint32_t len = std::min(q.mtu, slot.m->pkt_len - offset);
  const bool last_of_window = wire::psn_diff(r.psn, r.una) == r.window - 1;
  const bool ack = q.reliable() && (part.ends || last_of_window || (r.psn + 1) % kAckEvery == 0);
  if (r.segment == nullptr) {
    r.segment_at = offset;
    r.segment = find(slot.m, r.segment_at);
  }
  const bool whole = len >= kShared && r.segment_at == 0 && r.segment->data_len == len;
  const Made made = new_frame(q, {.opcode = send_opcode(q.reliable(), part),
                                  .ack_request = ack,
                                  .psn = r.psn,
                                  .payload_len = len,
                                  .whole = whole ? r.segment : nullptr});
  if (made.blocked) return false;
  if (made.frame != nullptr) [[likely]] {
    if (made.shared)
      r.segment = r.segment->next;
    else
      copy_out(r.segment, r.segment_at, made.payload, len);
    push_frame(made.frame, made.local);
  } else {
    r.segment = nullptr;
  }
  r.psn = wire::psn_add(r.psn, 1);
  if (wire::psn_diff(r.psn, r.max) > 0)
    r.max = r.psn;
  else
    q.counters.tx_repeated.add(1);
  if (!part.ends) return true;
  r.segment = nullptr;
  ++r.at;
  if (q.reliable()) return true;
  r.una = r.psn;
  let_go(q, slot.m);
  ++r.head;
  q.counters.tx_done.add(1);
  return true;
}

/// Returns an mbuf with the buffer of `payload` that begins `head` octets before the data; null:
/// there is none, or no room for head and tail, or another owner reads the buffer, as an ethdev
/// does that still has an earlier frame.
rte_mbuf* ConnectedPort::share(rte_mbuf& payload, std::uint32_t head, std::uint32_t tail) noexcept {
  if (hca_.share_pool == nullptr || !RTE_MBUF_DIRECT(&payload) ||
      rte_mbuf_refcnt_read(&payload) != 1 || payload.data_off < head ||
      rte_pktmbuf_tailroom(&payload) < tail)
    return nullptr;
  rte_mbuf* const m = rte_pktmbuf_alloc(hca_.share_pool);
  if (m == nullptr) [[unlikely]]
    return nullptr;
  rte_pktmbuf_attach(m, &payload);
  m->ol_flags = RTE_MBUF_F_INDIRECT;  // no offload of the packet in the message is for the frame
  m->data_off = static_cast<std::uint16_t>(m->data_off - head);
  return m;
}

/// Makes a frame and writes its headers, pad and a zero ICRC around the payload. The caller writes
/// extended headers, and the payload unless the frame is shared.
Made ConnectedPort::new_frame(const SoftConnectedQueue& q, const FrameSpec& spec) noexcept {
  const std::uint16_t pkey = q.pkey();
  const AhTemplate* ah = nullptr;
  const AhKind kind = hca_.ahs->view().find(q.path.ah, ah);
  if (pkey == 0 || kind.head_len == 0) [[unlikely]] {
    datapath_.count_drop(datapath_.table().active() ? Drop::kIbPkey : Drop::kIbPortDown);
    return {};
  }
  const std::uint32_t head_len =
      kind.head_len + static_cast<std::uint32_t>(sizeof(wire::Bth)) + spec.extended_len;
  const std::uint32_t pad = -spec.payload_len & 3;
  const std::uint32_t iba_len = head_len - static_cast<std::uint32_t>(sizeof(EthHdr)) +
                                spec.payload_len + pad + static_cast<std::uint32_t>(wire::kIcrcLen);
  const bool limited = (kind.route & AhKind::kLimited) != 0;
  if (limited &&
      !hca_.ahs->bucket(q.path.ah, hca_.worker).take(iba_len, hca_.tsc(), hca_.rate_burst_tsc))
      [[unlikely]]
    return {.blocked = true};
  const std::uint32_t len =
      std::max<std::uint32_t>(static_cast<std::uint32_t>(sizeof(EthHdr)) + iba_len, kMinEthFrame);
  const bool local = (kind.route & AhKind::kLocal) != 0;
  const std::uint32_t tail = head_len + spec.payload_len;
  rte_mbuf* m = spec.whole == nullptr || local ? nullptr : share(*spec.whole, head_len, len - tail);
  const bool shared = m != nullptr;
  if (!shared) {
    m = spec.payload_len != 0 ? rte_pktmbuf_alloc(hca_.pool)
                              : alloc_control(hca_.pool, hca_.control_pool);
    if (m == nullptr) [[unlikely]] {
      if (limited) hca_.ahs->bucket(q.path.ah, hca_.worker).give_back(iba_len);
      return {.blocked = true};
    }
    if (spec.whole != nullptr && !local) [[unlikely]]
      datapath_.count_copy();
    if (m->data_off + len > m->buf_len) m->data_off = 0;  // it fits: see check_path()
  }
  m->data_len = static_cast<std::uint16_t>(len);
  m->pkt_len = len;

  auto* const frame = rte_pktmbuf_mtod(m, std::byte*);
  std::memcpy(frame, ah->head.data(), kLocalHeadLen);
  reinterpret_cast<wire::Lrh*>(frame + sizeof(EthHdr))
      ->resv_pktlen.set(static_cast<std::uint16_t>(iba_len / 4));
  if (kind.head_len == kGlobalHeadLen) {
    std::memcpy(frame + kLocalHeadLen, &ah->head[kLocalHeadLen], sizeof(wire::Grh));
    reinterpret_cast<wire::Grh*>(frame + kLocalHeadLen)
        ->pay_len.set(static_cast<std::uint16_t>(iba_len - sizeof(wire::Lrh) - sizeof(wire::Grh)));
  }
  const auto flags = static_cast<std::uint8_t>(q.mig_req() | pad << 4);
  *reinterpret_cast<wire::Bth*>(frame + kind.head_len) = {
      .opcode = static_cast<std::uint8_t>(spec.opcode),
      .flags = flags,
      .pkey = wire::Be16{pkey},
      .resv8a = 0,
      .dest_qp = wire::Be24{q.peer_qpn},
      .ack_resv = spec.ack_request ? wire::Bth::kAckReq : std::uint8_t{0},
      .psn = wire::Be24{spec.psn}};
  // Pad, ICRC and Ethernet padding.
  std::memset(frame + tail, 0, len - tail);
  return {.frame = m, .payload = frame + head_len, .shared = shared, .local = local};
}

namespace {

void seal(rte_mbuf* frame) noexcept {
  auto* const iba = rte_pktmbuf_mtod_offset(frame, std::byte*, sizeof(EthHdr));
  wire::put_icrc({iba, reinterpret_cast<const wire::Lrh*>(iba)->packet_len()});
}

}  // namespace

/// Shape: has_room().
void ConnectedPort::push_frame(rte_mbuf* frame, bool local) noexcept {
  expects((local ? nb_local_ : nb_frames_) < kBurst, "there is room for the frame");
  if (!local) [[likely]] {
    frames_[nb_frames_++] = frame;
    return;
  }
  if (hca_.icrc) seal(frame);
  local_[nb_local_++] = frame;
}

/// True if one more frame fits, for the wire or for this port. Flushes if necessary.
bool ConnectedPort::has_room() noexcept {
  if (nb_local_ == kBurst) return false;
  if (nb_frames_ == kBurst) flush();
  return nb_frames_ != kBurst;
}

/// Sends frames_. Frames that the ethdev rejects stay and are sent first next time, unless it was
/// removed.
void ConnectedPort::flush() noexcept {
  if (nb_frames_ == 0) return;
  if (datapath_.ethdev_removed()) [[unlikely]] {
    datapath_.count_drop(Drop::kIbPortDown, nb_frames_);
    rte_pktmbuf_free_bulk(frames_.data(), nb_frames_);
    nb_frames_ = nb_sealed_ = 0;
    return;
  }
  // Computed a burst after the headers were written, as in ud_tx.cc.
  if (hca_.icrc)
    for (std::uint16_t i = nb_sealed_; i < nb_frames_; ++i) seal(frames_[i]);
  const std::uint16_t nb_sent = datapath_.transmit({frames_.data(), nb_frames_});
  std::copy(frames_.begin() + nb_sent, frames_.begin() + nb_frames_, frames_.begin());
  nb_frames_ = static_cast<std::uint16_t>(nb_frames_ - nb_sent);
  nb_sealed_ = nb_frames_;
}

}  // namespace ipoib::soft
