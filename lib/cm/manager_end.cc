// SPDX-License-Identifier: BSD-3-Clause
// The end of connections: REJ, DREQ and DREP, stale connections, time-wait.
#include <algorithm>

#include "lib/cm/manager.h"
#include "lib/cm/messages.h"

namespace ipoib::cm {

Status Manager::reject(Handle handle, wire::RejReason reason, TimePoint now,
                       std::span<const std::byte> info) {
  last_now_ = now;
  Connection* c = table_.find(handle);
  if (c == nullptr) return fail(Errc::kNotFound, "no connection {:#x}", handle);
  const bool awaits_answer = c->state == State::kReqRcvd || c->state == State::kMraReqSent ||
                             c->state == State::kRepRcvd || c->state == State::kMraRepSent;
  if (!awaits_answer)
    return fail(Errc::kUnavailable, "connection {:#x} has nothing to reject: {}", handle,
                to_string(c->state));
  ++counters_.rejected_here;
  send_rej(*c, reason, now, info);
  flush();
  return {};
}

Status Manager::disconnect(Handle handle, TimePoint now) {
  last_now_ = now;
  Connection* c = table_.find(handle);
  if (c == nullptr) return fail(Errc::kNotFound, "no connection {:#x}", handle);
  ++counters_.disconnected;
  end(*c, now);
  flush();
  return {};
}

/// Ends a connection in any state, unless that is under way already.
void Manager::end(Connection& c, TimePoint now) {
  switch (c.state) {
    case State::kReqSent:
    case State::kRepWait:
      // The peer finds the connection by CA GUID and ID, because it has sent no ID of its own.
      send(c.to, rej_mad(c, wire::CmAbout::kReq, wire::RejReason::kTimeout,
                         wire::bytes_of(wire::Be64{ca_guid()})));
      release(c);
      return;
    case State::kRepSent:
    case State::kRtuWait:
    case State::kReqRcvd:
    case State::kMraReqSent:
    case State::kRepRcvd:
    case State::kMraRepSent: send_rej(c, wire::RejReason::kConsumer, now); return;
    case State::kEstablished: start_dreq(c, now); return;
    case State::kRejSent:
    case State::kDreqSent:
    case State::kTimeWait: return;
  }
}

// --- REJ ---

/// Rejects the REQ or REP that waits for an answer, or else the connection as a whole. The REJ is
/// kept to answer repetitions.
void Manager::send_rej(Connection& c, wire::RejReason reason, TimePoint now,
                       std::span<const std::byte> info) {
  auto about = wire::CmAbout::kOther;
  if (c.state == State::kReqRcvd || c.state == State::kMraReqSent) about = wire::CmAbout::kReq;
  if (c.state == State::kRepRcvd || c.state == State::kMraRepSent) about = wire::CmAbout::kRep;
  c.state = State::kRejSent;
  c.exchange->mad = rej_mad(c, about, reason, info);
  forget_place(c);
  table_.forget_qpn(c);
  if (c.exchange->serial == 0) make_room();
  table_.join(c, Crowd::kRejected);
  table_.set_due(c, now + rej_memory(c));
  send(c.to, c.exchange->mad);
}

void Manager::repeat_rej(Connection& c, TimePoint now) {
  send(c.to, c.exchange->mad, true);
  table_.set_due(c, now + rej_memory(c));
}

/// The time in which the peer may repeat the rejected message or send to the queue pair.
Duration Manager::rej_memory(const Connection& c) const {
  return std::max(2 * c.timeout, 2 * lifetime_of(c.lifetime));
}

/// Finds the connection that a REJ of the peer is about.
Connection* Manager::rejected_by(const wire::CmRej& rej, const fabric::MadAddress& from) {
  if (Connection* c = table_.find(rej.remote_id.host())) return c;
  if (rej.why() != wire::RejReason::kTimeout || rej.info_len() < sizeof(wire::Be64)) return nullptr;
  // Its sender has received nothing, and so knows no ID of this side.
  return table_.by_remote_id(from, wire::read<wire::Be64>(rej.info)->host(), rej.local_id.host());
}

void Manager::on_rej(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto rej = wire::cm_message<wire::CmRej>(mad);
  Connection* c = rejected_by(rej, from);
  if (c == nullptr) {
    if (!forget_waiting(rej, from)) ++counters_.unknown_id;
    return;
  }
  if (!is_peers(*c, from)) return;
  const bool of_req = rej.about() == wire::CmAbout::kReq;
  const bool unanswered = c->state == State::kReqSent || c->state == State::kRepWait;
  if (!unanswered && c->remote_id != rej.local_id.host()) {
    ++counters_.wrong_peer;
    return;
  }
  // A peer that rejects as stale may still have packets of the old connection under way.
  const auto end_handshake = [&] {
    close(*c, CloseReason::kRejected, &rej);
    if (rej.why() == wire::RejReason::kStaleConnection)
      enter_time_wait(*c, now);
    else
      release(*c);
  };
  switch (c->state) {
    case State::kReqSent:
    case State::kRepWait:
      if (rej.about() == wire::CmAbout::kRep) break;
      end_handshake();
      return;
    case State::kRepRcvd:
    case State::kMraRepSent:
      if (of_req) break;  // From another incarnation: this one has answered with a REP.
      close(*c, CloseReason::kRejected, &rej);
      release(*c);
      return;
    case State::kReqRcvd:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kRtuWait: end_handshake(); return;
    case State::kEstablished:
      if (of_req) break;
      close(*c, CloseReason::kRejected, &rej);
      enter_time_wait(*c, now);
      return;
    case State::kDreqSent:
      if (of_req) break;
      enter_time_wait(*c, now);
      return;
    case State::kRejSent: release(*c); return;  // Both sides know that it is over.
    case State::kTimeWait: ++counters_.duplicates[wire::index_of(wire::CmAttr::kRej)]; return;
  }
  ++counters_.unexpected;
}

// --- DREQ, DREP ---

void Manager::start_dreq(Connection& c, TimePoint now) {
  if (table_.size(Crowd::kEnding) >= config_.max_ending)
    abort_connection(*table_.oldest(Crowd::kEnding), now);
  forget_place(c);
  c.state = State::kDreqSent;
  c.exchange = std::make_unique<Exchange>();
  c.exchange->latest = now + config_.max_disconnect;
  table_.join(c, Crowd::kEnding);
  c.exchange->mad = dreq_mad(c, ids_.next());
  c.retries_left = c.max_retries;
  table_.set_due(c, std::min(now + c.timeout, c.exchange->latest));
  send(c.to, c.exchange->mad);
}

void Manager::on_dreq(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto dreq = wire::cm_message<wire::CmDreq>(mad);
  const wire::CmMad drep = drep_mad(mad.hdr.tid.host(), dreq);
  Connection* c = table_.find(dreq.remote_id.host());
  if (c == nullptr || c->remote_id != dreq.local_id.host()) {
    // The peer needs a DREP although there is nothing to release.
    ++(c == nullptr ? counters_.unknown_id : counters_.wrong_peer);
    send(from, drep);
    return;
  }
  if (!is_peers(*c, from)) return;
  if (dreq.remote_qpn.host() != c->local_qpn) {
    ++counters_.wrong_peer;
    return;
  }
  switch (c->state) {
    case State::kRepRcvd:
    case State::kMraRepSent:
    case State::kRepSent:
    case State::kRtuWait:
    case State::kEstablished:
      close(*c, CloseReason::kPeer);
      enter_time_wait(*c, now);
      break;
    case State::kDreqSent: enter_time_wait(*c, now); break;  // Both sides disconnect at once.
    case State::kRejSent: break;
    case State::kTimeWait: ++counters_.duplicates[wire::index_of(wire::CmAttr::kDreq)]; break;
    default: ++counters_.unexpected; return;
  }
  send(from, drep);
}

void Manager::on_drep(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto drep = wire::cm_message<wire::CmDrep>(mad);
  Connection* c = table_.find(drep.remote_id.host());
  if (c == nullptr) {
    ++counters_.unknown_id;
  } else if (!is_peers(*c, from)) {
    return;
  } else if (c->remote_id != drep.local_id.host()) {
    ++counters_.wrong_peer;
  } else if (c->state == State::kDreqSent) {
    enter_time_wait(*c, now);
  } else if (c->state == State::kTimeWait) {
    ++counters_.duplicates[wire::index_of(wire::CmAttr::kDrep)];
  } else {
    ++counters_.unexpected;
  }
}

// --- End ---

/// Reports the end of the connection to the consumer.
void Manager::close(const Connection& c, CloseReason reason, const wire::CmRej* rej) {
  ++counters_.closed[static_cast<std::size_t>(reason)];
  enqueue_event(c, Closed{reason, rej == nullptr ? wire::CmRej{} : *rej});
}

/// Twice the packet lifetime. A peer that this side has disconnected may send on a connection that it
/// opened until its own time-wait is over. That of Linux is the sum of twice the lifetime and the ACK
/// delay in the REP, as a power of two, and up to an eighth longer. Source: linux-interop.md §11.
Duration Manager::time_wait_of(const Connection& c) const {
  const Duration both_ways = 2 * lifetime_of(c.lifetime);
  if (!c.passive || c.state != State::kDreqSent) return both_ways;
  return (both_ways + 2 * time_of(c.ack_delay)) * 9 / 8;
}

void Manager::enter_time_wait(Connection& c, TimePoint now) {
  table_.set_due(c, now + time_wait_of(c));
  c.state = State::kTimeWait;
  forget_place(c);
  table_.leave_crowd(c);
  c.exchange.reset();
  table_.forget_qpn(c);
}

/// Precondition: no packet of the connection is under way any more.
void Manager::release(Connection& c) {
  forget_place(c);
  enqueue_event(c, Released{});
  table_.erase(c);
}

/// Called when the peer uses the queue pair or communication ID of `c` again. Returns true if `c`
/// was a connection, which must end before the peer may use them; an unfinished or rejected attempt
/// is only released.
bool Manager::make_stale(Connection& c, TimePoint now) {
  switch (c.state) {
    case State::kEstablished:
      close(c, CloseReason::kStale);
      start_dreq(c, now);
      return true;
    case State::kDreqSent:
    case State::kTimeWait: return true;
    case State::kRejSent: release(c); return false;
    default:
      close(c, CloseReason::kStale);
      release(c);
      return false;
  }
}

}  // namespace ipoib::cm
