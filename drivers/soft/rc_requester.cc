// SPDX-License-Identifier: BSD-3-Clause
// RC, sending half: what ACKs, NAKs and silence make of what was sent. Source: IBA vol 1
// §9.7.5-§9.7.8; iba-wire.md §6.
#include "drivers/soft/connected_port.h"

namespace ipoib::soft {
namespace {

constexpr std::uint8_t kRnrForEver = 7;

/// The error that a NAK says; kNone: no NAK that there is.
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
  const bool known =
      kind == Kind::kAck || kind == Kind::kRnrNak || sequence || error != fabric::QueueError::kNone;
  // One behind what is acknowledged: an ACK's own packet is, a NAK's is not.
  const std::uint32_t una = kind == Kind::kAck ? wire::psn_add(p.psn, 1) : p.psn;
  // What the peer wants again, or to wait for, must have been sent.
  const std::int32_t beyond = kind == Kind::kAck || sequence ? 0 : -1;
  if (!known || wire::psn_diff(una, r.max) > beyond) return drop(m, Drop::kIbAck);
  rte_pktmbuf_free(m);
  if (wire::psn_diff(una, r.una) < 0) return;  // late: overtaken by another

  const bool progress = retire(q, una);
  if (error != fabric::QueueError::kNone) return fail(q, error);
  if (kind == Kind::kRnrNak) return rnr_nak(q, p.aeth.value());
  if (sequence) return sequence_nak(q);
  if (!progress) return;
  if (!r.waiting) restart_timer(q);
  mark_ready(q);  // the window is open again
}

/// Frees the messages whose packets all lie before `una`. True when there is any progress.
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
  r.una = una;
  r.retries_left = q.retry_count;
  r.rnr_left = q.rnr_retry;
  // After going back: what was to be repeated has arrived after all.
  if (wire::psn_diff(una, r.psn) > 0) {
    r.waiting = false;
    go_back(q, una);
  }
  return true;
}

/// The oldest packet is missing at the peer's.
void ConnectedPort::sequence_nak(SoftConnectedQueue& q) noexcept {
  Requester& r = q.requester;
  q.counters.naks_received.add(1);
  if (r.psn == r.una) {  // nothing is under way: told twice, or nothing is missing
    if (!q.armed()) restart_timer(q);
    mark_ready(q);
    return;
  }
  if (r.retries_left == 0) return fail(q, fabric::QueueError::kRetryExceeded);
  --r.retries_left;
  go_back(q, r.una);
  restart_timer(q);
  mark_ready(q);
}

/// The peer has no buffer for the oldest packet.
void ConnectedPort::rnr_nak(SoftConnectedQueue& q, std::uint8_t timer) noexcept {
  Requester& r = q.requester;
  q.counters.rnr_received.add(1);
  if (r.waiting) return;  // told twice
  if (r.rnr_left == 0) return fail(q, fabric::QueueError::kRnrRetryExceeded);
  if (r.rnr_left != kRnrForEver) --r.rnr_left;
  go_back(q, r.una);
  r.waiting = true;
  timers_.arm(q, hca_.tsc() + tsc_of_ns(wire::rnr_timer_ns(timer), config_.tsc_hz));
}

/// The next packet to send is `psn`, which is not acknowledged.
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

/// Times the oldest packet that has no ACK, if there is one, whether or not it could be sent: a
/// connection that finds no mbufs, or no room on the wire, fails in the same time as one whose peer
/// is silent, and gives back what it holds.
void ConnectedPort::restart_timer(SoftConnectedQueue& q) noexcept {
  if (q.requester.una == q.requester.end || q.ack_timeout_tsc == 0) return TimerWheel::cancel(q);
  timers_.arm(q, hca_.tsc() + q.ack_timeout_tsc);
}

/// The deadline is over: of a wait that the peer asked for, or of an ACK.
void ConnectedPort::timer(SoftConnectedQueue& q) noexcept {
  Requester& r = q.requester;
  if (q.state() != fabric::QueueState::kReadyToSend) return;
  mark_ready(q);
  if (std::exchange(r.waiting, false)) return restart_timer(q);
  q.counters.timeouts.add(1);
  if (r.retries_left == 0) return fail(q, fabric::QueueError::kRetryExceeded);
  --r.retries_left;
  go_back(q, r.una);
  restart_timer(q);
}

}  // namespace ipoib::soft
