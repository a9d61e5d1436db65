// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/sidr.h"

#include <utility>

namespace ipoib::cm {

Result<SidrId> Sidr::ask(const SidrQuestion& question, SidrHandler handler, TimePoint now) {
  if (pending_.size() >= max_outstanding_)
    return fail(Errc::kNoResources, "the limit of {} outstanding service ID resolutions is reached",
                pending_.size());
  const auto id =
      ids_.next_unused<SidrId>([this](SidrId used) { return pending_.count(used) != 0; });
  wire::CmSidrReq req{};
  req.request_id.set(id);
  req.pkey.set(question.to.pkey);
  req.service_id.set(question.service_id);
  wire::set_private(req.private_data, question.private_data);
  // The request ID is also the transaction ID, which makes it unique.
  const wire::CmMad mad = wire::make_cm_mad(id, req);
  pending_.emplace(id, Pending{question.to, mad, std::move(handler), question.timeout,
                               now + question.timeout, question.retries});
  ++counters_.sidr_requests;
  send_(question.to, mad, false);
  return id;
}

void Sidr::on_req(const wire::CmMad& mad, const fabric::MadAddress& from) {
  const auto req = wire::cm_message<wire::CmSidrReq>(mad);
  wire::CmSidrRep rep{};
  if (const SidrService* const service = find_service(req, from)) {
    rep = (*service)(req, from);
    ++counters_.sidr_served;
  } else {
    rep.status = wire::SidrStatus::kServiceNotSupported;
    ++counters_.sidr_refused;
  }
  rep.request_id = req.request_id;
  rep.service_id = req.service_id;
  send_(from, wire::make_cm_mad(mad.hdr.tid.host(), rep), false);
}

/// A stranger may write any P_Key into a request, but the port has checked that of the packet.
const SidrService* Sidr::find_service(const wire::CmSidrReq& req,
                                      const fabric::MadAddress& from) const {
  if (!wire::same_partition(req.pkey.host(), from.pkey)) return nullptr;
  for (const std::uint16_t pkey : {req.pkey.host(), std::uint16_t{0}})
    if (const auto it = services_.find(key_of(req.service_id.host(), pkey)); it != services_.end())
      return &it->second;
  return nullptr;
}

void Sidr::on_rep(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now) {
  const auto rep = wire::cm_message<wire::CmSidrRep>(mad);
  const auto it = pending_.find(rep.request_id.host());
  if (it == pending_.end()) {
    ++counters_.unknown_id;
    return;
  }
  const Pending& asked = it->second;
  const auto question = wire::cm_message<wire::CmSidrReq>(asked.mad);
  if (!fabric::same_port(from, asked.to, lmc_) || !wire::same_partition(from.pkey, asked.to.pkey) ||
      mad.hdr.tid != asked.mad.hdr.tid || rep.service_id != question.service_id) {
    ++counters_.unexpected;
    return;
  }
  ++counters_.sidr_answered;
  finish(it->first, rep, now);
}

void Sidr::tick(TimePoint now) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    auto& [id, pending] = *it;
    if (pending.due > now) {
      ++it;
      continue;
    }
    if (pending.retries_left > 0) {
      --pending.retries_left;
      pending.due = now + pending.timeout;
      send_(pending.to, pending.mad, true);
      ++it;
      continue;
    }
    ++counters_.sidr_timed_out;
    const SidrId over = id;
    finish(over, tl::make_unexpected(Errc::kTimedOut), now);
    it = pending_.upper_bound(over);  // The handler may have called ask() or cancel().
  }
}

void Sidr::shutdown(TimePoint now) {
  services_.clear();
  max_outstanding_ = 0;
  while (!pending_.empty())
    finish(pending_.begin()->first, tl::make_unexpected(Errc::kUnavailable), now);
}

std::optional<TimePoint> Sidr::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [id, pending] : pending_) next = earlier(next, pending.due);
  return next;
}

void Sidr::finish(SidrId id, const tl::expected<wire::CmSidrRep, Errc>& outcome, TimePoint now) {
  const auto it = pending_.find(id);
  const SidrHandler handler = std::move(it->second.handler);
  pending_.erase(it);
  if (handler) handler(outcome, now);
}

}  // namespace ipoib::cm
