// SPDX-License-Identifier: BSD-3-Clause
// RC requester: handles ACKs, NAKs and timeouts. Source: IBA vol 1 §9.7.5-§9.7.8; iba-wire.md §6.
#include "drivers/soft/connected/connected_port.h"

namespace ipoib::soft {
namespace {

constexpr std::uint8_t kRnrForEver = 7;

/// The fatal error that a NAK reports; kNone: the syndrome is no fatal NAK.
fabric::QueueError error_of(std::uint8_t syndrome) noexcept {
  using fabric::QueueError;
  switch (syndrome) {
    case wire::Aeth::kNakInvalidRequest: return QueueError::kRemoteInvalidRequest;
    case wire::Aeth::kNakRemoteAccess: return QueueError::kRemoteAccess;
    case wire::Aeth::kNakRemoteOperation: return QueueError::kRemoteOperation;
    default: return QueueError::kNone;
  }
}

}  // namespace

void ConnectedPort::acknowledgement(SoftConnectedQueue& q, rte_mbuf* m,
                                    const ConnectedPacket& p) noexcept {
  using Kind = wire::Aeth::Kind;
  if (q.state() != fabric::QueueState::kReadyToSend) return drop(m, Drop::kIbQueueState);
  Requester& r = q.requester;
  const Kind kind = p.aeth.kind();
  const bool sequence = p.aeth.syndrome == wire::Aeth::kNakSequence;
  const fabric::QueueError error = error_of(p.aeth.syndrome);
  const bool defined =
      kind == Kind::kAck || kind == Kind::kRnrNak || sequence || error != fabric::QueueError::kNone;
  // First PSN that is not acknowledged: an ACK includes its own packet, a NAK does not.
  const std::uint32_t una = kind == Kind::kAck ? wire::psn_add(p.psn, 1) : p.psn;
  // An RNR NAK or a fatal NAK must name a packet that was sent; a sequence NAK may name the next
  // one.
  const std::int32_t beyond = kind == Kind::kAck || sequence ? 0 : -1;
  if (!defined || wire::psn_diff(una, r.max) > beyond) return drop(m, Drop::kIbAck);
  rte_pktmbuf_free(m);
  if (wire::psn_diff(una, r.una) < 0) return;  // late: a newer response overtook it

  const bool progress = retire(q, una);
  if (error != fabric::QueueError::kNone) return fail(q, error);
  if (kind == Kind::kRnrNak) return rnr_nak(q, p.aeth.value());
  if (sequence) return sequence_nak(q);
  if (!progress) return;
  if (!r.waiting) restart_timer(q);
  if (r.psn != r.end) mark_ready(q);  // the window is open again
}

/// Frees the messages whose packets all lie before `una`. True if `una` made progress.
bool ConnectedPort::retire(SoftConnectedQueue& q, std::uint32_t una) noexcept {
  Requester& r = q.requester;
  if (una == r.una) return false;
  const std::uint32_t head = r.head;
  for (; r.head != r.tail; ++r.head) {
    const SendSlot& slot = r.slot(r.head);
    if (wire::psn_diff(wire::psn_add(slot.first_psn, slot.packets), una) > 0) break;
    let_go(q, slot.m);
  }
  q.counters.tx_done.add(r.head - head);
  // After a window of one packet it grows with what the peer takes, which may be one at a time.
  r.window = std::min(Requester::kWindow, r.window + wire::psn_diff(una, r.una));
  r.una = una;
  r.retries_left = q.retry_count;
  r.rnr_left = q.rnr_retry;
  // After going back: packets that were to be retransmitted have arrived after all.
  if (wire::psn_diff(una, r.psn) > 0) {
    r.waiting = false;
    go_back(q, una);
  }
  return true;
}

/// Handles a sequence NAK: the peer misses the oldest packet.
void ConnectedPort::sequence_nak(SoftConnectedQueue& q) noexcept {
  Requester& r = q.requester;
  q.counters.naks_received.add(1);
  if (r.psn == r.una) {  // nothing is in flight: duplicate NAK, or nothing is missing
    if (!q.armed()) restart_timer(q);
    mark_ready(q);
    return;
  }
  retry(q);
  mark_ready(q);
}

/// Handles an RNR NAK: the peer has no buffer for the oldest packet.
void ConnectedPort::rnr_nak(SoftConnectedQueue& q, std::uint8_t timer) noexcept {
  Requester& r = q.requester;
  q.counters.rnr_received.add(1);
  if (r.waiting) return;  // duplicate NAK
  if (r.rnr_left == 0) return fail(q, fabric::QueueError::kRnrRetryExceeded);
  if (r.rnr_left != kRnrForEver) --r.rnr_left;
  go_back(q, r.una);
  r.waiting = true;
  // The peer drops all packets behind the oldest until it takes that.
  r.window = 1;
  timers_.arm(q, hca_.tsc() + tsc_of_ns(wire::rnr_timer_ns(timer), config_.tsc_hz));
}

/// Goes back to the oldest packet without an ACK, over the alternate path if the retries on the path
/// in use are exhausted. Without one, the queue fails.
void ConnectedPort::retry(SoftConnectedQueue& q) noexcept {
  Requester& r = q.requester;
  if (r.retries_left != 0)
    --r.retries_left;
  else if (!migrate(q))
    return fail(q, fabric::QueueError::kRetryExceeded);
  go_back(q, r.una);
  restart_timer(q);
}

/// Continues sending with `psn`, which is not acknowledged.
void ConnectedPort::go_back(SoftConnectedQueue& q, std::uint32_t psn) noexcept {
  Requester& r = q.requester;
  TimerWheel::cancel(q);
  r.psn = psn;
  r.segment = nullptr;
  for (r.at = r.head; r.at != r.tail; ++r.at) {
    const SendSlot& slot = r.slot(r.at);
    if (wire::psn_diff(wire::psn_add(slot.first_psn, slot.packets), psn) > 0) break;
  }
}

/// Starts the ACK timeout of the oldest packet without an ACK, if there is one, even if it could
/// not be sent: a connection that finds no mbufs, or no room on the wire, fails after the same time
/// as one whose peer is silent, and frees its messages.
void ConnectedPort::restart_timer(SoftConnectedQueue& q) noexcept {
  if (q.requester.una == q.requester.end || q.path.ack_timeout_tsc == 0)
    return TimerWheel::cancel(q);
  timers_.arm(q, hca_.tsc() + q.path.ack_timeout_tsc);
}

/// Handles an expired deadline: the end of an RNR wait, or an ACK timeout.
void ConnectedPort::timer(SoftConnectedQueue& q) noexcept {
  Requester& r = q.requester;
  if (q.state() != fabric::QueueState::kReadyToSend) return;
  mark_ready(q);
  if (std::exchange(r.waiting, false)) return restart_timer(q);
  q.counters.timeouts.add(1);
  retry(q);
}

}  // namespace ipoib::soft
