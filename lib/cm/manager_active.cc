// SPDX-License-Identifier: BSD-3-Clause
// The active side: connect, REP, RTU; and MRAs, which both sides receive.
#include <algorithm>

#include "lib/cm/manager.h"
#include "lib/cm/messages.h"
#include "lib/cm/qpn.h"

namespace ipoib::cm {

Result<Handle> Manager::connect(const ConnectParams& params, Consumer& consumer, TimePoint now) {
  last_now_ = now;
  if (down_) return fail(Errc::kUnavailable, "the communication manager is shut down");
  if (!is_connectable_qpn(params.qpn))
    return fail(Errc::kInvalidArgument, "invalid QPN {:#x}", params.qpn);
  if (params.transport != wire::CmTransport::kRc && params.transport != wire::CmTransport::kUc)
    return fail(Errc::kInvalidArgument, "invalid transport {}, allowed: RC, UC",
                static_cast<unsigned>(params.transport));
  if (table_.size() >= config_.max_connections)
    return fail(Errc::kNoResources, "the limit of {} connections is reached", table_.size());
  Connection& c = table_.add();
  c.consumer = &consumer;
  c.private_data = params.private_data;
  c.tid = ids_.next();
  c.to = params.to;
  c.to.answer_ms = 0;
  c.local_qpn = params.qpn;
  c.lifetime = params.lifetime;
  c.timeout = peer_time(params.remote_timeout, params.lifetime);
  c.max_retries = c.retries_left = params.max_retries & 0x0f;
  c.exchange = std::make_unique<Exchange>();
  c.exchange->latest = now + config_.max_handshake;
  c.exchange->answer_time = params.local_timeout;
  c.exchange->mad = req_mad(c, params, ca_guid());
  table_.set_due(c, now + c.timeout);
  ++counters_.requests;
  const Handle handle = c.id;
  send(c.to, c.exchange->mad);
  flush();
  return handle;
}

void Manager::on_rep(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto rep = wire::cm_message<wire::CmRep>(mad);
  const auto answer = [&](wire::RejReason reason, std::span<const std::byte> said = {}) {
    send(from, rej_mad(mad.hdr.tid.host(), rep.remote_id.host(), rep.local_id.host(),
                       wire::CmAbout::kRep, reason, {}, said));
  };
  Connection* c = table_.find(rep.remote_id.host());
  if (c == nullptr || c->passive) {
    // The REJ saves its sender from waiting for its timeouts.
    ++counters_.unknown_id;
    answer(wire::RejReason::kInvalidCommId);
    return;
  }
  if (!is_peers(*c, from)) return;
  if (c->state == State::kReqSent || c->state == State::kRepWait) {
    take_rep(*c, rep, now);
    return;
  }
  if (c->remote_id != rep.local_id.host()) {
    // Two incarnations of the peer answered the REQ.
    ++counters_.wrong_peer;
    answer(wire::RejReason::kInvalidCommInstance, c->private_data);
    return;
  }
  on_repeated_rep(*c, mad, now);
}

void Manager::take_rep(Connection& c, const wire::CmRep& rep, TimePoint now) {
  c.remote_id = rep.local_id.host();
  c.remote_guid = rep.local_ca_guid.host();
  c.remote_qpn = rep.local_qpn.host();
  c.state = State::kRepRcvd;
  c.exchange->latest = now + config_.max_handshake;
  if (!is_connectable_qpn(c.remote_qpn)) {
    close(c, CloseReason::kProtocol);
    send_rej(c, wire::RejReason::kUnsupportedRequest, now);
    return;
  }
  Connection* const same_qpn = table_.by_remote_qpn(c.to, c.remote_guid, c.remote_qpn);
  Connection* const old =
      same_qpn != nullptr ? same_qpn : table_.by_remote_id(c.to, c.remote_guid, c.remote_id);
  if (old != nullptr && make_stale(*old, now)) {
    close(c, CloseReason::kStale);
    send_rej(c, wire::RejReason::kStaleConnection, now);
    return;
  }
  table_.index(c);
  table_.set_due(c, now + answer_time(c.exchange->answer_time) / 2);
  enqueue_event(c, rep);
}

void Manager::on_repeated_rep(Connection& c, const wire::CmMad& mad, TimePoint now) {
  ++counters_.duplicates[wire::index_of(wire::CmAttr::kRep)];
  switch (c.state) {
    case State::kMraRepSent:
      send(c.to, mra_mad(c, wire::CmAbout::kRep, config_.service_timeout), true);
      break;
    case State::kEstablished: send(c.to, rtu_mad(c), true); break;
    case State::kRejSent: repeat_rej(c, now); break;
    case State::kTimeWait:
      // The connection is over, and the peer does not know that it was established.
      send(c.to, rej_mad(mad.hdr.tid.host(), c.id, c.remote_id, wire::CmAbout::kRep,
                         wire::RejReason::kInvalidCommId, {}, c.private_data));
      break;
    default: break;  // The consumer answers soon, or a DREQ is under way.
  }
}

Status Manager::confirm(Handle handle, TimePoint now) {
  last_now_ = now;
  Connection* c = table_.find(handle);
  if (c == nullptr) return fail(Errc::kNotFound, "no connection {:#x}", handle);
  if (c->state != State::kRepRcvd && c->state != State::kMraRepSent)
    return fail(Errc::kUnavailable, "connection {:#x} has no reply to confirm: {}", handle,
                to_string(c->state));
  c->state = State::kEstablished;
  c->exchange.reset();
  table_.set_due(*c, TimePoint::max());
  ++counters_.established;
  send(c->to, rtu_mad(*c));
  flush();
  return {};
}

void Manager::on_mra(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto mra = wire::cm_message<wire::CmMra>(mad);
  Connection* c = table_.find(mra.remote_id.host());
  if (c == nullptr) {
    ++counters_.unknown_id;
    return;
  }
  if (!is_peers(*c, from)) return;
  const bool req = !c->passive && mra.about() == wire::CmAbout::kReq &&
                   (c->state == State::kReqSent || c->state == State::kRepWait);
  const bool rep = c->passive && mra.about() == wire::CmAbout::kRep &&
                   (c->state == State::kRepSent || c->state == State::kRtuWait);
  if (!req && !rep) {
    ++counters_.unexpected;
    return;
  }
  if (rep && c->remote_id != mra.local_id.host()) {
    ++counters_.wrong_peer;
    return;
  }
  c->state = req ? State::kRepWait : State::kRtuWait;
  // An MRA extends the current attempt and uses up no retry.
  table_.set_due(
      *c, std::min(now + peer_time(mra.service_timeout(), c->lifetime), c->exchange->latest));
}

}  // namespace ipoib::cm
