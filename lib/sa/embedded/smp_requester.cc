// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/smp_requester.h"

namespace ipoib::sa {

void SmpRequester::post(std::uint16_t lid, const wire::Smp& request, TimePoint now) {
  last_now_ = now;
  const bool added = requests_.insert_or_assign(lid, Request{request, 0, {}}).second;
  if (added || in_flight_.erase(lid) != 0) turn_.push_back(lid);
}

void SmpRequester::forget(std::uint16_t lid) {
  requests_.erase(lid);
  in_flight_.erase(lid);
}

std::optional<wire::Method> SmpRequester::take(std::uint16_t lid, const wire::Smp& answer,
                                               TimePoint now) {
  if (in_flight_.count(lid) == 0) return std::nullopt;
  const wire::MadHdr& request = requests_.at(lid).smp.mad;
  const bool answers = answer.mad.method == static_cast<std::uint8_t>(wire::Method::kGetResp) &&
                       answer.mad.attr_id == request.attr_id &&
                       static_cast<std::uint32_t>(answer.mad.tid.host()) == request.tid.host();
  if (!answers) return std::nullopt;
  last_now_ = now;
  ++counters_.answered;
  const auto method = static_cast<wire::Method>(request.method);
  forget(lid);
  return method;
}

void SmpRequester::send(std::uint16_t lid, Request& r, TimePoint now, const MadSender& send) {
  // A restarted administrator must not take answers to its predecessor.
  if (next_tid_ == 0) next_tid_ = static_cast<std::uint32_t>(now.time_since_epoch().count() >> 10);
  if (r.sent == 0) r.smp.mad.tid.set(++next_tid_);
  r.deadline = now + config_.timeout;
  if (r.sent++ != 0) ++counters_.resent;
  ++counters_.sent;
  if (!send({.lid = lid, .qpn = 0}, wire::bytes_of(r.smp))) ++counters_.send_failed;
}

std::vector<std::uint16_t> SmpRequester::tick(TimePoint now, const MadSender& sender) {
  last_now_ = now;
  std::vector<std::uint16_t> silent;
  for (const std::uint16_t lid : in_flight_) {
    Request& request = requests_.at(lid);
    if (request.deadline > now) continue;
    if (request.sent <= config_.retries)
      send(lid, request, now, sender);
    else
      silent.push_back(lid);
  }
  for (const std::uint16_t lid : silent) forget(lid);
  counters_.silent += silent.size();
  while (!turn_.empty() && in_flight_.size() < config_.max_outstanding) {
    const std::uint16_t lid = turn_.front();
    turn_.pop_front();
    const auto it = requests_.find(lid);
    if (it == requests_.end() || !in_flight_.insert(lid).second) continue;
    send(lid, it->second, now, sender);
  }
  return silent;
}

std::optional<TimePoint> SmpRequester::next_deadline() const {
  if (!turn_.empty() && in_flight_.size() < config_.max_outstanding) return last_now_;
  std::optional<TimePoint> next;
  for (const std::uint16_t lid : in_flight_) next = earlier(next, requests_.at(lid).deadline);
  return next;
}

}  // namespace ipoib::sa
