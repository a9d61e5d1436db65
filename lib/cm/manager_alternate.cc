// SPDX-License-Identifier: BSD-3-Clause
// Alternate paths of established connections: LAP and APR. Source: IBA vol 1 §12.8.
#include <algorithm>

#include "lib/cm/manager.h"
#include "lib/cm/messages.h"

namespace ipoib::cm {

Status Manager::load_alternate(Handle handle, const AlternateParams& params, TimePoint now) {
  last_now_ = now;
  Connection* const c = table_.find(handle);
  if (c == nullptr) return fail(Errc::kNotFound, "no connection {:#x}", handle);
  if (c->state != State::kEstablished || c->exchange)
    return fail(Errc::kUnavailable, "connection {:#x} is not established or has sent a LAP: {}",
                handle, to_string(c->state));
  c->exchange = std::make_unique<Exchange>();
  c->exchange->latest = now + config_.max_handshake;
  c->exchange->mad = lap_mad(*c, ids_.next(), params);
  c->retries_left = c->max_retries;
  table_.set_due(*c, now + c->timeout);
  send(c->to, c->exchange->mad);
  flush();
  return {};
}

/// The LAP has its answer, or gets none.
void Manager::end_lap(Connection& c, AlternateAnswer answer) {
  c.exchange.reset();
  table_.set_due(c, TimePoint::max());
  enqueue_event(c, answer);
}

void Manager::on_lap(const wire::CmMad& mad, const fabric::MadAddress& from) {
  const auto lap = wire::cm_message<wire::CmLap>(mad);
  const std::uint64_t tid = mad.hdr.tid.host();
  const Connection* c = table_.find(lap.remote_id.host());
  if (c != nullptr && !is_peers(*c, from)) return;
  const auto refuse = [&](wire::ApStatus status, std::uint64_t& counter) {
    ++counter;
    send(from, apr_mad(tid, lap, status));
  };
  if (c == nullptr || c->remote_id != lap.local_id.host() || c->state != State::kEstablished)
    return refuse(wire::ApStatus::kInvalidCommId, counters_.unknown_id);
  if (lap.remote_qpn.host() != c->local_qpn)
    return refuse(wire::ApStatus::kQpnMismatch, counters_.laps_refused);
  if (c->consumer == nullptr) return refuse(wire::ApStatus::kNotSupported, counters_.laps_refused);
  enqueue_event(*c, Alternate{lap, tid, from});
}

/// Lets the consumer judge a LAP. The connection may have ended since it arrived.
void Manager::answer_lap(const Event& event, const Alternate& asked, TimePoint now) {
  const Connection* const c = table_.find(event.handle);
  if (c == nullptr || c->state != State::kEstablished) return;
  const wire::ApStatus status = event.consumer->on_alternate(event.handle, asked.lap, now);
  ++(status == wire::ApStatus::kLoaded ? counters_.laps_accepted : counters_.laps_refused);
  send(asked.from, apr_mad(asked.tid, asked.lap, status));
  flush();
}

void Manager::on_apr(const wire::CmMad& mad, const fabric::MadAddress& from) {
  const auto apr = wire::cm_message<wire::CmApr>(mad);
  Connection* const c = table_.find(apr.remote_id.host());
  if (c == nullptr) {
    ++counters_.unknown_id;
  } else if (!is_peers(*c, from)) {
    return;
  } else if (c->remote_id != apr.local_id.host()) {
    ++counters_.wrong_peer;
  } else if (c->state != State::kEstablished || !c->exchange ||
             c->exchange->mad.hdr.tid != mad.hdr.tid) {
    ++counters_.unexpected;  // Too late, or repeated.
  } else {
    end_lap(*c, apr.status);
  }
}

}  // namespace ipoib::cm
