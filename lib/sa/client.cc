// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/client.h"

#include <algorithm>
#include <utility>

#include "lib/sa/sa_mad.h"

namespace ipoib::sa {
namespace {

bool answers(const wire::MadHdr& hdr, const Request& request) {
  return hdr.method == response_of(static_cast<std::uint8_t>(request.method)) &&
         hdr.attr_id.host() == static_cast<std::uint16_t>(request.attr);
}

tl::unexpected<Failure> failed(Errc code, std::uint16_t status = 0) {
  return tl::make_unexpected(Failure{code, status});
}

constexpr std::size_t kMaxEnded = 256;
constexpr std::size_t kMaxReports = 4096;

}  // namespace

Client::Client(MadSender send, ClientConfig config, std::uint64_t seed)
    : send_{std::move(send)},
      config_{config},
      random_{seed},
      ids_{seed},
      ended_{config.remember, kMaxEnded},
      reports_{config.remember_reports, kMaxReports} {
  config_.max_outstanding = std::max(config_.max_outstanding, 1U);
  config_.window = std::max(config_.window, 1U);
}

void Client::set_sm(std::uint16_t sm_lid, std::uint8_t sm_sl, TimePoint now) {
  if (sm_lid == sm_lid_ && sm_sl == sm_sl_) return;
  const bool moved = sm_lid != sm_lid_;
  sm_lid_ = sm_lid;
  sm_sl_ = sm_sl;
  if (moved) reports_.clear();
  std::vector<TransactionId> ids;
  for (auto& [id, t] : outstanding_) {
    if (t.table && !moved) continue;  // The SA keeps its LID and goes on sending.
    t.table.reset();
    t.timeout = config_.timeout;
    t.retries_left = config_.retries;
    ids.push_back(id);
  }
  for (const TransactionId id : ids) send(id, now);
}

TransactionId Client::submit(const Request& request, Handler handler, TimePoint now) {
  last_now_ = now;
  const TransactionId id = new_id();
  if (down_) {
    enqueue_outcome(id, std::move(handler), failed(Errc::kUnavailable));
  } else if (outstanding_.size() >= config_.max_outstanding &&
             waiting_.size() >= config_.max_waiting) {
    ++counters_.overflowed;
    enqueue_outcome(id, std::move(handler), failed(Errc::kNoResources));
  } else {
    waiting_.push_back({id, request, std::move(handler)});
    waiting_by_id_.emplace(id, std::prev(waiting_.end()));
    start_waiting(now);
  }
  return id;
}

void Client::cancel(TransactionId id) {
  if (id == kNoTransaction) return;  // Pending Reports have this id.
  outstanding_.erase(id);            // The next tick() starts a waiting request instead.
  if (const auto it = waiting_by_id_.find(id); it != waiting_by_id_.end()) {
    waiting_.erase(it->second);
    waiting_by_id_.erase(it);
  }
  std::erase_if(finished_, [id](const Finished& f) { return f.id == id; });
}

void Client::shutdown(TimePoint now) {
  last_now_ = now;
  down_ = true;
  for (auto& [id, t] : outstanding_)
    enqueue_outcome(id, std::move(t.handler), failed(Errc::kUnavailable));
  outstanding_.clear();
  for (Waiting& w : waiting_)
    enqueue_outcome(w.id, std::move(w.handler), failed(Errc::kUnavailable));
  waiting_.clear();
  waiting_by_id_.clear();
  deliver(now);
}

bool Client::on_mad(const fabric::ReceivedMad& received, TimePoint now) {
  last_now_ = now;
  wire::SaMad mad;
  if (wire::parse_sa_mad(received.bytes, mad) != wire::MadError::kNone) {
    ++counters_.malformed;
    return false;
  }
  const wire::MadHdr& hdr = mad.hdr.mad;
  if (hdr.method == static_cast<std::uint8_t>(wire::Method::kReport))
    return on_report(received, mad, now);
  // Transports may rewrite the upper half of the transaction ID.
  const auto id = static_cast<TransactionId>(hdr.tid.host());
  const auto it = outstanding_.find(id);
  const bool from_sa = received.from.lid == sm_lid_ && received.from.qpn == 1;
  if (it == outstanding_.end() && from_sa && on_late_segment(received.from, mad, now)) return true;
  if (it == outstanding_.end() || !from_sa || !answers(hdr, it->second.request)) {
    ++counters_.unmatched;
    return false;
  }
  const bool table = it->second.request.method == wire::Method::kGetTable;
  if (table && !received.whole && (is_rmpp(mad.hdr) || it->second.table != nullptr))
    return on_segment(id, received, mad, now);
  if ((hdr.status.host() & static_cast<std::uint16_t>(wire::MadStatus::kBusy)) != 0) {
    ++counters_.busy;
    it->second.busy = true;  // The request is retried after the timeout of this attempt.
    return true;
  }
  finish(id, table && received.whole ? whole_table(id, mad, received)
                                     : count(read_answer(mad, it->second.request.method)));
  start_waiting(now);
  deliver(now);
  return true;
}

void Client::tick(TimePoint now) {
  last_now_ = now;
  std::vector<TransactionId> expired;
  for (const auto& [id, t] : outstanding_)
    if (t.deadline <= now) expired.push_back(id);
  for (const TransactionId id : expired) expire(id, now);
  start_waiting(now);
  deliver(now);
}

std::optional<TimePoint> Client::next_deadline() const {
  const bool room = outstanding_.size() < config_.max_outstanding;
  if (!finished_.empty() || (room && !waiting_.empty())) return last_now_;
  std::optional<TimePoint> next;
  for (const auto& [id, t] : outstanding_) next = earlier(next, t.deadline);
  return next;
}

TransactionId Client::new_id() {
  return ids_.next_unused<TransactionId>([this](TransactionId id) {
    return outstanding_.count(id) != 0 || waiting_by_id_.count(id) != 0;
  });
}

Duration Client::with_jitter(Duration timeout) {
  const auto max = static_cast<std::uint64_t>(std::max<Duration::rep>(timeout.count() / 4, 0));
  return timeout + Duration{static_cast<Duration::rep>(random_() % (max + 1))};
}

/// Sends one attempt. The MadSender may call on_mad() with the answer before it returns, so `t` is
/// not used after the call.
void Client::send(TransactionId id, TimePoint now) {
  const auto it = outstanding_.find(id);
  if (it == outstanding_.end()) return;
  Transaction& t = it->second;
  const bool again = t.sent;
  t.busy = false;
  t.deadline = now + with_jitter(t.timeout);
  if (sm_lid_ == 0) return;
  t.sent = true;

  const wire::SaMad mad = request_mad(t.request, id);
  ++sending_;
  const auto answer = std::chrono::ceil<std::chrono::milliseconds>(t.timeout);
  const Status status =
      send_({.lid = sm_lid_, .sl = sm_sl_, .answer_ms = static_cast<std::uint32_t>(answer.count())},
            wire::bytes_of(mad));
  --sending_;
  if (status) {
    ++counters_.sent;
    if (again) ++counters_.retried;
    return;
  }
  ++counters_.send_failed;
  if (const auto still = outstanding_.find(id); still != outstanding_.end())
    still->second.sent = again;
}

void Client::start_waiting(TimePoint now) {
  while (!waiting_.empty() && outstanding_.size() < config_.max_outstanding) {
    Waiting& w = waiting_.front();
    const TransactionId id = w.id;
    Transaction& t = outstanding_[id];
    t.request = w.request;
    t.handler = std::move(w.handler);
    t.timeout = config_.timeout;
    t.retries_left = config_.retries;
    waiting_by_id_.erase(id);
    waiting_.pop_front();
    send(id, now);
  }
}

/// Handles the timeout of an attempt: retries, or ends the transaction.
void Client::expire(TransactionId id, TimePoint now) {
  const auto it = outstanding_.find(id);
  if (it == outstanding_.end()) return;
  Transaction& t = it->second;
  if (t.table) {
    abort_table(id, t.table_from, wire::SaHdr{t.table->header()}, wire::RmppStatus::kTimeTooLong,
                Errc::kTimedOut, now);
  } else if (t.retries_left > 0) {
    --t.retries_left;
    t.timeout = std::min(t.timeout * 2, config_.max_timeout);
    send(id, now);
  } else if (t.busy) {
    ++counters_.refused;
    finish(id, failed(Errc::kRefused, static_cast<std::uint16_t>(wire::MadStatus::kBusy)));
  } else {
    ++counters_.timed_out;
    finish(id, failed(t.sent ? Errc::kTimedOut : Errc::kUnavailable));
  }
}

void Client::finish(TransactionId id, Outcome outcome) {
  const auto it = outstanding_.find(id);
  Handler handler = std::move(it->second.handler);
  outstanding_.erase(it);
  enqueue_outcome(id, std::move(handler), std::move(outcome));
}

void Client::enqueue_outcome(TransactionId id, Handler handler, Outcome outcome) {
  finished_.push_back({id, std::move(handler), std::move(outcome)});
}

/// Calls the pending handlers. Must be the last action of its caller because a handler may destroy
/// the client. Handlers that become pending meanwhile wait for the next call, so that a handler
/// that submits again at once cannot hold the loop for ever.
void Client::deliver(TimePoint now) {
  if (delivering_ || sending_ != 0) return;
  delivering_ = true;
  const std::weak_ptr<const bool> alive = alive_;
  for (std::size_t n = finished_.size(); n > 0 && !finished_.empty(); --n) {
    const Finished f = std::move(finished_.front());
    finished_.pop_front();
    if (f.handler) f.handler(f.outcome, now);
    if (alive.expired()) return;
  }
  delivering_ = false;
}

/// Sends a MAD that is not a request. Must be the caller's last use of a transaction because the
/// MadSender may call on_mad() before it returns.
void Client::answer_to(const fabric::MadAddress& to, const wire::SaMad& mad) {
  ++sending_;
  const Status status = send_(to, wire::bytes_of(mad));
  --sending_;
  if (!status) ++counters_.send_failed;
}

Outcome Client::count(const tl::expected<Reply, Fault>& answer) {
  if (answer) {
    ++counters_.answered;
    return *answer;
  }
  switch (answer.error().kind) {
    case Fault::Kind::kRefused:
      ++counters_.refused;
      return failed(Errc::kRefused, answer.error().status);
    case Fault::Kind::kMalformed: ++counters_.malformed; break;
  }
  return failed(Errc::kProtocol);
}

}  // namespace ipoib::sa
