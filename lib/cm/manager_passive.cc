// SPDX-License-Identifier: BSD-3-Clause
// The passive side: REQ, accept, RTU.
#include <algorithm>

#include "lib/cm/manager.h"
#include "lib/cm/messages.h"
#include "lib/cm/qpn.h"
#include "lib/wire/iba.h"
#include "lib/wire/smp.h"

namespace ipoib::cm {
namespace {

/// Checks that the path of a REQ leads to this port.
bool is_gid_of(const PortIdentity& port, const wire::Gid& gid) {
  return port.gid.is_zero() || gid == port.gid ||
         gid == wire::Gid::of(wire::kDefaultGidPrefix, port.gid.guid());
}
bool is_lid_of(const PortIdentity& port, const wire::CmPath& path) {
  const std::uint16_t lid = path.remote_lid.host();
  if (port.lid == 0 || !path.subnet_local() || lid == wire::kPermissiveLid) return true;
  return lid >> port.lmc == port.lid >> port.lmc;
}

/// True if the REQ, with the port and names of an earlier one, is a repetition of that. Transports may
/// rewrite the upper half of the transaction ID.
bool is_repetition(const wire::CmMad& mad, const wire::CmReq& req, std::uint64_t tid,
                   std::uint32_t qpn) {
  return static_cast<std::uint32_t>(tid) == static_cast<std::uint32_t>(mad.hdr.tid.host()) &&
         qpn == req.local_qpn.host();
}

/// Packet lifetime of the path. A REQ has only the ACK timeout, which is made of twice the
/// lifetime.
std::uint8_t lifetime_from(const wire::CmPath& path) {
  const std::uint8_t ack = path.ack_timeout();
  return ack == 0 ? ack : static_cast<std::uint8_t>(ack - 1);
}

}  // namespace

void Manager::on_req(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto req = wire::cm_message<wire::CmReq>(mad);
  const std::uint64_t guid = req.local_ca_guid.host();
  Connection* const same_id = table_.by_remote_id(from, guid, req.local_id.host());
  if (same_id != nullptr && same_id->passive &&
      is_repetition(mad, req, same_id->tid, same_id->remote_qpn)) {
    on_repeated_req(*same_id, mad, from, now);
    return;
  }
  if (const auto key = requests_.find(PortName::of(from, port_), guid, req.local_id.host())) {
    const wire::CmMad& first = requests_.find(*key)->mad;
    if (is_repetition(mad, req, first.hdr.tid.host(),
                      wire::cm_message<wire::CmReq>(first).local_qpn.host())) {
      // It keeps its place; the first one is answered.
      ++counters_.duplicates[wire::index_of(wire::CmAttr::kReq)];
      return;
    }
    requests_.erase(*key);  // The peer has given that attempt up.
  }
  const auto found = listeners_.find(req.service_id.host());
  if (refuse_req(mad, req, from, found == listeners_.end() ? nullptr : &found->second)) return;
  if (refuse_stale(mad, req, from, found->second, now)) return;
  arrived_.push_back({mad, from});
}

/// Refuses the REQ if it means that the peer has forgotten an existing connection with the same ID or
/// queue pair. That connection ends; the REJ is sent.
bool Manager::refuse_stale(const wire::CmMad& mad, const wire::CmReq& req,
                           const fabric::MadAddress& from, const Listener& listener,
                           TimePoint now) {
  const std::uint64_t guid = req.local_ca_guid.host();
  Connection* const same_id = table_.by_remote_id(from, guid, req.local_id.host());
  bool stale = same_id != nullptr && make_stale(*same_id, now);
  Connection* const same_qpn = table_.by_remote_qpn(from, guid, req.local_qpn.host());
  if (same_qpn != nullptr && same_qpn != same_id) stale |= make_stale(*same_qpn, now);
  if (stale)
    refuse(mad, from, wire::RejReason::kStaleConnection, counters_.refused_stale, {},
           listener.private_data);
  return stale;
}

/// The consumer gets the REQ. `counted`: the PortLimiter counts its queue pair.
void Manager::take_req(const wire::CmMad& mad, const fabric::MadAddress& from, bool counted,
                       TimePoint now) {
  const auto req = wire::cm_message<wire::CmReq>(mad);
  const auto found = listeners_.find(req.service_id.host());
  // Since its arrival, others may have come before it.
  if (refuse_req(mad, req, from, found == listeners_.end() ? nullptr : &found->second) ||
      refuse_stale(mad, req, from, found->second, now)) {
    if (counted) limiter_.end(PortName::of(from, port_));
    return;
  }
  const Listener& listener = found->second;
  make_room();

  Connection& c = table_.add();
  c.passive = true;
  c.consumer = listener.consumer;
  c.private_data = listener.private_data;
  c.state = State::kReqRcvd;
  c.remote_id = req.local_id.host();
  c.remote_guid = req.local_ca_guid.host();
  c.counted = counted;
  c.remote_qpn = req.local_qpn.host();
  c.tid = mad.hdr.tid.host();
  c.to = from;
  c.lifetime = lifetime_from(req.primary);
  c.timeout = peer_time(req.local_timeout(), c.lifetime);
  c.max_retries = c.retries_left = req.max_cm_retries();
  c.exchange = std::make_unique<Exchange>();
  c.exchange->latest = now + config_.max_handshake;
  c.exchange->has_alternate = req.alternate.is_given();
  table_.index(c);
  table_.join(c, Crowd::kHalfOpen);
  table_.set_due(c, now + answer_time(req.remote_timeout()) / 2);
  ++counters_.incoming;
  enqueue_event(c, Request{req, from});
}

/// Answers a repeated REQ as the first one was answered.
void Manager::on_repeated_req(Connection& c, const wire::CmMad& mad, const fabric::MadAddress& from,
                              TimePoint now) {
  ++counters_.duplicates[wire::index_of(wire::CmAttr::kReq)];
  switch (c.state) {
    case State::kMraReqSent:
      send(c.to, mra_mad(c, wire::CmAbout::kReq, config_.service_timeout), true);
      break;
    case State::kRepSent: send(c.to, c.exchange->mad, true); break;
    case State::kRejSent: repeat_rej(c, now); break;
    case State::kTimeWait:
      refuse(mad, from, wire::RejReason::kStaleConnection, counters_.refused_stale, {},
             c.private_data);
      break;
    default: break;  // Answered soon, or a late duplicate: the peer has had the answer.
  }
}

/// Returns true if the manager itself rejects the REQ; the REJ is then sent. `listener`: null if
/// there is none.
bool Manager::refuse_req(const wire::CmMad& mad, const wire::CmReq& req,
                         const fabric::MadAddress& from, const Listener* listener) {
  if (listener == nullptr) {
    refuse(mad, from, wire::RejReason::kInvalidServiceId, counters_.refused_service);
    return true;
  }
  using enum wire::RejReason;
  const auto& said = listener->private_data;
  const auto no = [&](wire::RejReason reason, std::uint64_t& counter,
                      std::span<const std::byte> info = {}) {
    refuse(mad, from, reason, counter, info, said);
    return true;
  };
  if (req.transport() != wire::CmTransport::kRc && req.transport() != wire::CmTransport::kUc)
    return no(kInvalidTransport, counters_.refused_transport);
  if (!is_connectable_qpn(req.local_qpn.host()))
    return no(kUnsupportedRequest, counters_.refused_fields);
  if (wire::mtu_octets(req.mtu()) == 0) return no(kPathMtu, counters_.refused_fields);
  if (!is_gid_of(port_, req.primary.remote_gid))
    return no(kPrimaryGid, counters_.refused_fields, port_.gid.bytes);
  if (!is_lid_of(port_, req.primary)) return no(kPrimaryLid, counters_.refused_fields);
  if (table_.size() >= config_.max_connections) return no(kNoResources, counters_.refused_full);
  return false;
}

/// Rejects a REQ and keeps no state of it.
void Manager::refuse(const wire::CmMad& mad, const fabric::MadAddress& from, wire::RejReason reason,
                     std::uint64_t& counter, std::span<const std::byte> info,
                     std::span<const std::byte> private_data) {
  ++counter;
  const auto req = wire::cm_message<wire::CmReq>(mad);
  send(from, rej_mad(mad.hdr.tid.host(), 0, req.local_id.host(), wire::CmAbout::kReq, reason, info,
                     private_data));
}

/// Makes room for one more half-open connection.
void Manager::make_room() {
  while (half_open() >= config_.max_half_open) {
    Connection* const rejected = table_.oldest(Crowd::kRejected);
    drop(rejected != nullptr ? *rejected : *table_.oldest(Crowd::kHalfOpen));
  }
}

void Manager::drop(Connection& c) {
  if (c.state != State::kRejSent) close(c, CloseReason::kDropped);
  release(c);
}

Status Manager::drop(Handle handle, TimePoint now) {
  last_now_ = now;
  Connection* c = table_.find(handle);
  if (c == nullptr) return fail(Errc::kNotFound, "no connection {:#x}", handle);
  const bool half_open = c->state == State::kReqRcvd || c->state == State::kMraReqSent ||
                         c->state == State::kRepSent || c->state == State::kRtuWait;
  if (!half_open)
    return fail(Errc::kUnavailable, "connection {:#x} is not half-open: {}", handle,
                to_string(c->state));
  drop(*c);
  return {};
}

Status Manager::probe(Handle handle, TimePoint now) {
  last_now_ = now;
  const Connection* c = table_.find(handle);
  if (c == nullptr) return fail(Errc::kNotFound, "no connection {:#x}", handle);
  if (c->state != State::kEstablished)
    return fail(Errc::kUnavailable, "connection {:#x} is not established: {}", handle,
                to_string(c->state));
  send(c->to, rtu_mad(*c), true);
  flush();
  return {};
}

Status Manager::accept(Handle handle, const AcceptParams& params, TimePoint now) {
  last_now_ = now;
  Connection* c = table_.find(handle);
  if (c == nullptr) return fail(Errc::kNotFound, "no connection {:#x}", handle);
  if (c->state != State::kReqRcvd && c->state != State::kMraReqSent)
    return fail(Errc::kUnavailable, "connection {:#x} has no request to accept: {}", handle,
                to_string(c->state));
  if (!is_connectable_qpn(params.qpn))
    return fail(Errc::kInvalidArgument, "invalid QPN {:#x}", params.qpn);
  c->state = State::kRepSent;
  c->local_qpn = params.qpn;
  c->private_data = params.private_data;
  c->ack_delay = params.target_ack_delay;
  c->exchange->mad = rep_mad(*c, params, ca_guid());
  c->exchange->latest = now + config_.max_handshake;
  table_.set_due(*c, now + c->timeout);
  send(c->to, c->exchange->mad);
  flush();
  return {};
}

void Manager::on_rtu(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto rtu = wire::cm_message<wire::CmRtu>(mad);
  Connection* c = table_.find(rtu.remote_id.host());
  if (c == nullptr || c->remote_id != rtu.local_id.host()) {
    // The peer believes that it is connected.
    ++(c == nullptr ? counters_.unknown_id : counters_.wrong_peer);
    send(from, rej_mad(mad.hdr.tid.host(), rtu.remote_id.host(), rtu.local_id.host(),
                       wire::CmAbout::kOther, wire::RejReason::kInvalidCommId));
    return;
  }
  if (!is_peers(*c, from)) return;
  if (c->state == State::kRepSent || c->state == State::kRtuWait) {
    establish(*c);
  } else if (c->state == State::kRejSent) {
    repeat_rej(*c, now);
  } else if (c->state == State::kEstablished ||
             (c->passive && c->state != State::kReqRcvd && c->state != State::kMraReqSent)) {
    ++counters_.duplicates[wire::index_of(wire::CmAttr::kRtu)];
  } else {
    ++counters_.unexpected;
  }
}

void Manager::on_traffic(Handle handle, TimePoint now) {
  last_now_ = now;
  Connection* c = table_.find(handle);
  if (c == nullptr || (c->state != State::kRepSent && c->state != State::kRtuWait)) return;
  ++counters_.by_traffic;
  establish(*c);
}

void Manager::establish(Connection& c) {
  c.state = State::kEstablished;
  table_.leave_crowd(c);
  c.exchange.reset();
  table_.set_due(c, TimePoint::max());
  ++counters_.established;
  enqueue_event(c, Established{});
}

}  // namespace ipoib::cm
