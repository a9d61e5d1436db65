// SPDX-License-Identifier: BSD-3-Clause
// RC responder: accepts requests in the order of their PSNs and answers with ACKs and NAKs. Source:
// IBA vol 1 §9.7.4-§9.7.5; iba-wire.md §6.
#include <cstring>

#include "drivers/soft/connected/connected_port.h"

namespace ipoib::soft {
namespace {

enum class RequestKind : std::uint8_t {
  kSend,
  kUnwanted,   ///< A request that no queue here grants.
  kNoRequest,  ///< A response, or an unknown opcode.
};

RequestKind kind_of(std::uint8_t opcode) noexcept {
  switch (opcode) {
    case 0x00:
    case 0x01:
    case 0x02:
    case 0x03:
    case 0x04:
    case 0x05: return RequestKind::kSend;
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x0a:
    case 0x0b:  // RDMA WRITE
    case 0x0c:  // RDMA READ
    case 0x13:
    case 0x14:  // atomic
    case 0x16:
    case 0x17:  // SEND with invalidate
      return RequestKind::kUnwanted;
    default: return RequestKind::kNoRequest;
  }
}

}  // namespace

void ConnectedPort::on_rc_request(SoftConnectedQueue& q, rte_mbuf* m,
                                  const ConnectedPacket& p) noexcept {
  const RequestKind kind = kind_of(p.opcode);
  if (kind == RequestKind::kNoRequest) return drop(m, Drop::kIbOpcode);
  Responder& r = q.responder;
  const std::int32_t ahead = wire::psn_diff(p.psn, r.psn);
  if (ahead > 0) {
    q.counters.rx_out_of_order.add(1);
    if (!r.nak_sent) schedule_response(q, Response::kSequenceNak);
    r.nak_sent = true;
    return drop(m, Drop::kIbSequence);
  }
  if (ahead < 0) {
    q.counters.rx_duplicates.add(1);
    schedule_response(q, Response::kAck);
    return drop(m, Drop::kIbDuplicate);
  }

  const SendPart part = part_of(p.opcode);
  using fabric::QueueError;
  if (kind == RequestKind::kUnwanted || part.begins != (r.first == nullptr) ||
      !length_fits(part, p.payload_len, q.mtu))
    return refuse_request(q, m, Drop::kIbMessage, QueueError::kInvalidRequest);
  const std::uint32_t before = r.first != nullptr ? r.first->pkt_len : 0;
  if (before + p.payload_len > q.receive_queue.max_message())
    return refuse_request(q, m, Drop::kIbMessageTooLong, QueueError::kMessageTooLong);
  if (part.begins && !begin(q, part)) {
    schedule_response(q, Response::kRnrNak);
    r.nak_sent = true;  // no NAK for the packets that follow: the RNR NAK covers them
    return drop(m, Drop::kIbRnr);
  }

  append(q, m, p);
  r.psn = wire::psn_add(r.psn, 1);
  r.nak_sent = false;
  if (part.ends) {
    r.msn = wire::psn_add(r.msn, 1);
    deliver(q);
  }
  if (p.ack_requested) schedule_response(q, Response::kAck);
}

/// The peer violated the protocol: sends a NAK and fails the connection.
void ConnectedPort::refuse_request(SoftConnectedQueue& q, rte_mbuf* m, Drop reason,
                                   fabric::QueueError why) noexcept {
  drop(m, reason);
  schedule_response(q, Response::kInvalidNak);
  fail(q, why);
}

/// Records a response, which is sent at the end of the loop, so that one response covers all
/// packets of a burst. A later ACK does not replace a NAK, because a NAK acknowledges as much.
void ConnectedPort::schedule_response(SoftConnectedQueue& q, Response response) noexcept {
  if (response > q.responder.response) q.responder.response = response;
  mark_ready(q);
}

/// Sends the response. False: no mbuf, no room on the wire, or the path's rate limit; it is still
/// owed.
bool ConnectedPort::respond(SoftConnectedQueue& q) noexcept {
  if (!has_room()) return false;
  Responder& r = q.responder;
  // An ACK names the last packet that was accepted, a NAK the next one.
  std::uint32_t psn = r.psn;
  wire::Aeth aeth{.syndrome = wire::Aeth::kAckNoCredits, .msn = wire::Be24{r.msn}};
  switch (r.response) {
    case Response::kRnrNak:
      aeth.syndrome = static_cast<std::uint8_t>(wire::Aeth::kRnrNak | q.min_rnr_timer);
      break;
    case Response::kSequenceNak: aeth.syndrome = wire::Aeth::kNakSequence; break;
    case Response::kInvalidNak: aeth.syndrome = wire::Aeth::kNakInvalidRequest; break;
    case Response::kOperationNak: aeth.syndrome = wire::Aeth::kNakRemoteOperation; break;
    default: psn = wire::psn_add(psn, wire::kPsnMask); break;
  }
  const FrameSpec spec{.opcode = wire::Opcode::kRcAck, .psn = psn, .extended_len = sizeof(aeth)};
  const Made made = new_frame(q, spec);
  if (made.blocked) return false;
  if (made.frame != nullptr) {
    std::memcpy(made.payload - sizeof(aeth), &aeth, sizeof(aeth));
    push_frame(made.frame, made.local);
  }
  const Response sent = std::exchange(r.response, Response::kNone);
  if (sent == Response::kRnrNak) q.counters.rnr_sent.add(1);
  if (sent > Response::kRnrNak) q.counters.naks_sent.add(1);
  return true;
}

}  // namespace ipoib::soft
