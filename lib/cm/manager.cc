// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/manager.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "lib/cm/messages.h"

namespace ipoib::cm {

Manager::Manager(MadSender send, ManagerConfig config, std::uint64_t seed)
    : send_{std::move(send)},
      config_{config},
      ids_{seed},
      table_{ids_.next()},
      limiter_{config.limits},
      sidr_{[this](const fabric::MadAddress& to, const wire::CmMad& mad, bool repeated) {
              this->send(to, mad, repeated);
            },
            counters_, config.max_sidr, ids_.next()} {
  config_.max_half_open = std::max<std::size_t>(config_.max_half_open, 1);
}

Status Manager::listen(std::uint64_t service_id, Consumer& consumer,
                       std::vector<std::byte> private_data) {
  if (!listeners_.try_emplace(service_id, Listener{&consumer, std::move(private_data)}).second)
    return fail(Errc::kExists, "already listening on service ID {:#018x}", service_id);
  return {};
}

void Manager::set_port(const PortIdentity& port) {
  if (port == port_) return;
  port_ = port;
  sidr_.set_lmc(port.lmc);
  // The names of ports depend on it.
  requests_.clear();
  limiter_.clear();
  for (const auto& [id, c] : table_.all())
    if (c.counted) limiter_.add(PortName::of(c.to, port_));
}

void Manager::detach(const Consumer& consumer, TimePoint now) {
  last_now_ = now;
  std::erase_if(listeners_, [&](const auto& l) { return l.second.consumer == &consumer; });
  for (Event& e : events_)
    if (e.consumer == &consumer) e.consumer = nullptr;
  std::vector<Handle> handles;
  for (const auto& [id, c] : table_.all())
    if (c.consumer == &consumer) handles.push_back(id);
  for (const Handle handle : handles) table_.find(handle)->consumer = nullptr;
  // The rejection of one attempt may drop another one: see make_room().
  for (const Handle handle : handles)
    if (Connection* const c = table_.find(handle)) end(*c, now);
  flush();
}

bool Manager::on_mad(const fabric::ReceivedMad& received, TimePoint now) {
  last_now_ = now;
  fabric::MadAddress from = received.from;
  from.answer_ms = 0;
  wire::CmMad mad;
  const auto error = wire::parse_cm_mad(received.bytes, mad);
  if (error != wire::CmError::kNone) {
    auto& counter = counters_.malformed[static_cast<std::size_t>(error)];
    const bool of_version = error == wire::CmError::kClassVersion &&
                            mad.attr() == wire::CmAttr::kReq &&
                            mad.hdr.method == static_cast<std::uint8_t>(wire::Method::kSend);
    if (of_version)
      refuse(mad, from, wire::RejReason::kClassVersion, counter);
    else
      ++counter;
    flush();
    return false;
  }
  ++counters_.received[wire::index_of(mad.attr())];
  switch (mad.attr()) {
    case wire::CmAttr::kReq: on_req(mad, from, now); break;
    case wire::CmAttr::kMra: on_mra(mad, from, now); break;
    case wire::CmAttr::kRej: on_rej(mad, from, now); break;
    case wire::CmAttr::kRep: on_rep(mad, from, now); break;
    case wire::CmAttr::kRtu: on_rtu(mad, from, now); break;
    case wire::CmAttr::kDreq: on_dreq(mad, from, now); break;
    case wire::CmAttr::kDrep: on_drep(mad, from, now); break;
    case wire::CmAttr::kLap: on_lap(mad, from); break;
    case wire::CmAttr::kApr: on_apr(mad, from); break;
    case wire::CmAttr::kSidrReq: sidr_.on_req(mad, from); break;
    case wire::CmAttr::kSidrRep: sidr_.on_rep(mad, from, now); break;
  }
  flush();
  serve_requests(now);
  deliver(now);
  return true;
}

/// False, and counted, if a message that names the connection is from another port than the peer's.
/// It may be forged, so it is dropped without an answer.
bool Manager::is_peers(const Connection& c, const fabric::MadAddress& from) {
  if (fabric::same_port(from, c.to, port_.lmc)) return true;
  ++counters_.wrong_port;
  return false;
}

Result<SidrId> Manager::ask_service(const SidrQuestion& question, SidrHandler handler,
                                    TimePoint now) {
  if (down_) return fail(Errc::kUnavailable, "the communication manager is shut down");
  auto id = sidr_.ask(question, std::move(handler), now);
  flush();
  return id;
}

void Manager::tick(TimePoint now) {
  last_now_ = now;
  while (Connection* c = table_.due(now)) expire(*c, now);
  sidr_.tick(now);
  flush();
  serve_requests(now);
  deliver(now);
}

std::optional<TimePoint> Manager::next_deadline() const {
  if (!events_.empty() || !arrived_.empty()) return last_now_;
  const auto next = earlier(table_.next_due(), sidr_.next_deadline());
  return requests_.size() == 0 ? next : earlier(next, judge_at_);
}

bool Manager::settled() const {
  return std::ranges::all_of(table_.all(), [](const auto& entry) {
    const State state = entry.second.state;
    return state == State::kEstablished || state == State::kTimeWait || state == State::kRejSent;
  });
}

void Manager::shutdown(TimePoint now) {
  last_now_ = now;
  down_ = true;
  listeners_.clear();
  requests_.clear();
  arrived_.clear();
  std::vector<Handle> handles;
  for (const auto& [id, c] : table_.all()) handles.push_back(id);
  for (const Handle handle : handles) {
    Connection* const c = table_.find(handle);  // Null if a rejection has dropped it.
    if (c == nullptr || c->state == State::kRejSent || c->state == State::kDreqSent ||
        c->state == State::kTimeWait)
      continue;
    close(*c, CloseReason::kShutdown);
    end(*c, now);
  }
  sidr_.shutdown(now);
  flush();
  deliver(now);
}

// --- Timers ---

Duration Manager::lifetime_of(std::uint8_t code) const {
  return time_of(std::min(code, config_.max_lifetime));
}

/// The answer time that a peer states, within the configured bounds.
Duration Manager::answer_time(std::uint8_t code) const {
  return std::clamp(time_of(code), config_.min_timeout, config_.max_timeout);
}

/// Time to wait for a peer's answer: its answer time `code` and the packet lifetimes of both ways.
Duration Manager::peer_time(std::uint8_t code, std::uint8_t lifetime) const {
  return answer_time(code) + 2 * lifetime_of(lifetime);
}

/// Handles the expired timer of a connection.
void Manager::expire(Connection& c, TimePoint now) {
  switch (c.state) {
    case State::kReqSent:
    case State::kRepWait:
    case State::kRepSent:
    case State::kRtuWait:
    case State::kDreqSent: retry(c, now); return;
    case State::kReqRcvd:
    case State::kRepRcvd: {
      const bool req = c.state == State::kReqRcvd;
      c.state = req ? State::kMraReqSent : State::kMraRepSent;
      send(c.to,
           mra_mad(c, req ? wire::CmAbout::kReq : wire::CmAbout::kRep, config_.service_timeout));
      table_.set_due(c, std::min(now + time_of(config_.service_timeout), c.exchange->latest));
      return;
    }
    case State::kMraReqSent:
    case State::kMraRepSent:
      close(c, CloseReason::kTimedOut);
      send_rej(c, wire::RejReason::kNoResources, now);
      return;
    case State::kRejSent:
    case State::kTimeWait: release(c); return;
    case State::kEstablished:
      if (c.exchange) return retry(c, now);  // A LAP.
      table_.set_due(c, TimePoint::max());
      return;
  }
}

void Manager::retry(Connection& c, TimePoint now) {
  if (c.retries_left == 0 || now >= c.exchange->latest) {
    abort_connection(c, now);
    return;
  }
  --c.retries_left;
  if (c.state == State::kRepWait) c.state = State::kReqSent;
  if (c.state == State::kRtuWait) c.state = State::kRepSent;
  table_.set_due(c, std::min(now + c.timeout, c.exchange->latest));
  send(c.to, c.exchange->mad, true);
}

/// Ends an exchange that the peer has not answered.
void Manager::abort_connection(Connection& c, TimePoint now) {
  if (c.state == State::kDreqSent) {
    ++counters_.dreqs_unanswered;
    enter_time_wait(c, now);
    return;
  }
  if (c.state == State::kEstablished) {
    ++counters_.laps_unanswered;
    return end_lap(c, std::nullopt);
  }
  close(c, CloseReason::kTimedOut);
  if (c.passive)
    send_rej(c, wire::RejReason::kTimeout, now, wire::bytes_of(wire::Be64{ca_guid()}));
  else
    end(c, now);
}

// --- Sending ---

void Manager::send(const fabric::MadAddress& to, const wire::CmMad& mad, bool repeated) {
  const std::size_t kind = wire::index_of(mad.attr());
  ++counters_.sent[kind];
  if (repeated) ++counters_.repeated[kind];
  outbox_.push_back({to, mad});
}

/// MadSender may call on_mad() at once; the messages that this causes queue behind.
void Manager::flush() {
  if (flushing_) return;
  flushing_ = true;
  while (!outbox_.empty()) {
    const Outgoing out = outbox_.front();
    outbox_.pop_front();
    if (!send_(out.to, wire::bytes_of(out.mad))) ++counters_.send_failed;
  }
  flushing_ = false;
}

void Manager::enqueue_event(const Connection& c, decltype(Event::what) what) {
  if (c.consumer != nullptr) events_.push_back({c.consumer, c.id, std::move(what)});
}

/// Delivers queued events to consumers. Events that arise meanwhile wait for the next call, so that
/// a consumer that retries at once cannot hold the loop for ever.
void Manager::deliver(TimePoint now) {
  if (delivering_ || flushing_) return;
  delivering_ = true;
  for (std::size_t n = events_.size(); n > 0 && !events_.empty(); --n) {
    const Event e = std::move(events_.front());
    events_.pop_front();
    if (e.consumer == nullptr) continue;
    std::visit(
        [&](const auto& what) {
          using T = std::decay_t<decltype(what)>;
          if constexpr (std::is_same_v<T, Request>)
            e.consumer->on_request(e.handle, what.req, what.from, now);
          else if constexpr (std::is_same_v<T, wire::CmRep>)
            e.consumer->on_reply(e.handle, what, now);
          else if constexpr (std::is_same_v<T, Established>)
            e.consumer->on_established(e.handle, now);
          else if constexpr (std::is_same_v<T, Closed>)
            e.consumer->on_closed(e.handle, what, now);
          else if constexpr (std::is_same_v<T, Alternate>)
            answer_lap(e, what, now);
          else if constexpr (std::is_same_v<T, AlternateAnswer>)
            e.consumer->on_alternate_answer(e.handle, what, now);
          else
            e.consumer->on_released(e.handle, now);
        },
        e.what);
  }
  delivering_ = false;
}

std::string_view to_string(State state) {
  switch (state) {
    case State::kReqSent: return "REQ sent";
    case State::kRepWait: return "REP wait";
    case State::kRepRcvd: return "REP received";
    case State::kMraRepSent: return "MRA(REP) sent";
    case State::kReqRcvd: return "REQ received";
    case State::kMraReqSent: return "MRA(REQ) sent";
    case State::kRepSent: return "REP sent";
    case State::kRtuWait: return "RTU wait";
    case State::kRejSent: return "REJ sent";
    case State::kEstablished: return "established";
    case State::kDreqSent: return "DREQ sent";
    case State::kTimeWait: return "time wait";
  }
  return "unknown";
}

std::string_view to_string(CloseReason reason) {
  switch (reason) {
    case CloseReason::kRejected: return "rejected by the peer";
    case CloseReason::kTimedOut: return "timed out";
    case CloseReason::kPeer: return "disconnected by the peer";
    case CloseReason::kStale: return "forgotten by the peer";
    case CloseReason::kProtocol: return "reply makes no sense";
    case CloseReason::kDropped: return "too many half-open";
    case CloseReason::kShutdown: return "shut down";
    case CloseReason::kCount: break;
  }
  return "unknown";
}

}  // namespace ipoib::cm
