// SPDX-License-Identifier: BSD-3-Clause
// REQs before they are accepted: they wait until their consumer believes them, and until it is the
// turn of their port.
#include <utility>

#include "lib/cm/manager.h"

namespace ipoib::cm {
namespace {

/// Waiting requests are judged again at this interval, and so many are accepted at most.
constexpr Duration kJudgeInterval = std::chrono::milliseconds(10);
constexpr unsigned kAcceptedAtOnce = 8;
/// A request waits so long at most; its sender may have given up.
constexpr Duration kLongestWait = std::chrono::seconds(2);

}  // namespace

/// Consumers are called, so this has the same place as deliver().
void Manager::serve_requests(TimePoint now) {
  if (delivering_ || flushing_) return;
  delivering_ = true;
  for (std::size_t n = arrived_.size(); n > 0 && !arrived_.empty(); --n) {
    const Arrived arrived = arrived_.front();
    arrived_.pop_front();
    judge_arrived(arrived, now);
  }
  if (now >= judge_at_) judge_waiting(now);
  delivering_ = false;
  flush();
}

Admission Manager::admission_of(const wire::CmMad& mad, const fabric::MadAddress& from,
                                std::optional<TimePoint> waits_since, TimePoint now) {
  const auto req = wire::cm_message<wire::CmReq>(mad);
  const auto found = listeners_.find(req.service_id.host());
  // take_req() refuses it.
  if (found == listeners_.end()) return {.what = Admission::What::kReject, .known = false};
  return found->second.consumer->admit(req, from, waits_since, now);
}

/// A request that what is known does not decide needs a place before anything is asked for it, in
/// the order of the queue.
void Manager::judge_arrived(const Arrived& arrived, TimePoint now) {
  const auto& [mad, from] = arrived;
  const PortName port = PortName::of(from, port_);
  const Admission admission = admission_of(mad, from, std::nullopt, now);
  switch (admission.what) {
    case Admission::What::kDrop: ++counters_.not_admitted; return;
    case Admission::What::kReject: take_req(mad, from, false, now); return;
    case Admission::What::kAccept:
      if (!requests_.is_before(admission.known) && limiter_.allow(port, now))
        return take_req(mad, from, true, now);
      break;
    case Admission::What::kWait: break;
  }
  const auto req = wire::cm_message<wire::CmReq>(mad);
  const bool waits = requests_.add({.mad = mad,
                                    .from = from,
                                    .port = port,
                                    .ca_guid = req.local_ca_guid.host(),
                                    .id = req.local_id.host(),
                                    .since = now,
                                    .known = admission.known,
                                    .ready = admission.what == Admission::What::kAccept});
  ++(waits ? counters_.waited : counters_.waiting_full);
  // At once, unless requests have been judged a moment ago: a port that withdraws its requests and
  // sends others causes no more work than one that does not.
  if (waits && judge_at_ == TimePoint::max()) judge_at_ = now;
}

void Manager::judge_waiting(TimePoint now) {
  unsigned accepted = 0;
  for (const RequestQueue::Key& key : requests_.keys())
    if (judge_again(key, accepted < kAcceptedAtOnce, now)) ++accepted;
  judge_at_ = requests_.size() == 0 ? TimePoint::max() : now + kJudgeInterval;
}

/// Returns true if the request was accepted.
bool Manager::judge_again(const RequestQueue::Key& key, bool may_accept, TimePoint now) {
  const WaitingRequest* const found = requests_.find(key);
  if (found == nullptr) return false;
  const WaitingRequest waiting = *found;
  const Admission admission = admission_of(waiting.mad, waiting.from, waiting.since, now);
  const bool accept = admission.what == Admission::What::kAccept;
  const bool reject = admission.what == Admission::What::kReject;
  const bool turn = accept && may_accept && limiter_.allow(waiting.port, now);
  if (turn || reject) {
    requests_.erase(key);
    take_req(waiting.mad, waiting.from, turn, now);
    return turn;
  }
  const bool drop = admission.what == Admission::What::kDrop;
  if (drop || now - waiting.since >= kLongestWait) {
    ++(drop ? counters_.not_admitted : counters_.waited_too_long);
    requests_.erase(key);
    return false;
  }
  requests_.update(key, admission.known, accept);
  return false;
}

/// The peer gives up an attempt that still waits. Its REJ names its CA, because it knows no ID of
/// this side.
bool Manager::forget_waiting(const wire::CmRej& rej, const fabric::MadAddress& from) {
  if (rej.why() != wire::RejReason::kTimeout || rej.info_len() < sizeof(wire::Be64)) return false;
  const auto key = requests_.find(PortName::of(from, port_),
                                  wire::read<wire::Be64>(rej.info)->host(), rej.local_id.host());
  if (key) requests_.erase(*key);
  return key.has_value();
}

/// The connection is over, and its port may have another one.
void Manager::forget_place(Connection& c) {
  if (std::exchange(c.counted, false)) limiter_.end(PortName::of(c.to, port_));
}

}  // namespace ipoib::cm
