// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/smp_requester.h"

namespace ipoib::sa {

void SmpRequester::post(std::uint16_t lid, const wire::Smp& request, TimePoint now) {
  const bool added = requests_.insert_or_assign(lid, request).second;
  if (!added && !times_.in_flight(lid)) return;  // It keeps its turn.
  times_.remove(lid, now);
  times_.add(lid, now);
}

void SmpRequester::forget(std::uint16_t lid) {
  requests_.erase(lid);
  times_.remove(lid);
}

std::optional<wire::Method> SmpRequester::take(std::uint16_t lid, const wire::Smp& answer,
                                               TimePoint now) {
  if (!times_.in_flight(lid)) return std::nullopt;
  const wire::MadHdr& request = requests_.at(lid).mad;
  const bool answers = answer.mad.method == static_cast<std::uint8_t>(wire::Method::kGetResp) &&
                       answer.mad.attr_id == request.attr_id &&
                       static_cast<std::uint32_t>(answer.mad.tid.host()) == request.tid.host();
  if (!answers) return std::nullopt;
  ++counters_.answered;
  const auto method = static_cast<wire::Method>(request.method);
  times_.remove(lid, now);
  requests_.erase(lid);
  return method;
}

void SmpRequester::send(std::uint16_t lid, bool again, TimePoint now, const MadSender& send) {
  wire::Smp& smp = requests_.at(lid);
  // A restarted administrator must not take answers to its predecessor.
  if (next_tid_ == 0) next_tid_ = static_cast<std::uint32_t>(now.time_since_epoch().count() >> 10);
  if (!again) smp.mad.tid.set(++next_tid_);
  if (again) ++counters_.resent;
  ++counters_.sent;
  if (!send({.lid = lid, .qpn = 0}, wire::bytes_of(smp))) ++counters_.send_failed;
}

std::vector<std::uint16_t> SmpRequester::tick(TimePoint now, const MadSender& sender) {
  std::vector<std::uint16_t> silent;
  times_.tick(
      now, [&](std::uint16_t lid, unsigned sent) { send(lid, sent != 0, now, sender); },
      [&](std::uint16_t lid) {
        requests_.erase(lid);
        silent.push_back(lid);
      });
  counters_.silent += silent.size();
  return silent;
}

}  // namespace ipoib::sa
