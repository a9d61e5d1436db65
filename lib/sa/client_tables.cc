// SPDX-License-Identifier: BSD-3-Clause
// Client: tables in RMPP segments. Segments are acknowledged with the method of the request, until
// the table is complete or this side or the SA gives up.
#include <algorithm>
#include <memory>

#include "lib/sa/client.h"
#include "lib/sa/sa_mad.h"

namespace ipoib::sa {
namespace {

constexpr std::uint8_t kRequestMethod = static_cast<std::uint8_t>(wire::Method::kGetTable);

wire::Rmpp ack_of(std::uint32_t in_order, std::uint32_t window_last) {
  wire::Rmpp rmpp;
  rmpp.type = wire::RmppType::kAck;
  rmpp.segment = in_order;
  rmpp.len = window_last;
  return rmpp;
}

wire::Rmpp end_of(wire::RmppStatus status) {
  wire::Rmpp rmpp;
  rmpp.type = status == wire::RmppStatus::kResourcesExhausted ? wire::RmppType::kStop
                                                              : wire::RmppType::kAbort;
  rmpp.status = static_cast<std::uint8_t>(status);
  return rmpp;
}

}  // namespace

/// Takes an RMPP packet, or a MAD without RMPP for a table that has begun to arrive in segments.
bool Client::on_segment(TransactionId id, const fabric::ReceivedMad& received,
                        const wire::SaMad& mad, TimePoint now) {
  wire::Rmpp rmpp;
  const wire::RmppError error = wire::parse_rmpp(mad.hdr, rmpp);
  if (error == wire::RmppError::kInactive) {  // A late answer to an earlier attempt.
    ++counters_.unmatched;
    return false;
  }
  if (error != wire::RmppError::kNone) {
    ++counters_.malformed;
    abort_table(id, received.from, mad.hdr, wire::abort_status(error), Errc::kProtocol, now);
  } else if (rmpp.type == wire::RmppType::kAck) {
    ++counters_.unmatched;  // This side sends nothing in segments.
    return false;
  } else if (rmpp.type == wire::RmppType::kData) {
    on_data(id, received.from, mad, rmpp, now);
  } else {
    ++counters_.tables_stopped;
    // Before the first segment it ends an earlier attempt: the timeout retries.
    if (outstanding_.at(id).table == nullptr) return true;
    finish(id, tl::make_unexpected(Failure{Errc::kProtocol, 0, rmpp.status}));
  }
  start_waiting(now);
  deliver(now);
  return true;
}

void Client::on_data(TransactionId id, const fabric::MadAddress& from, const wire::SaMad& mad,
                     const wire::Rmpp& rmpp, TimePoint now) {
  Transaction& t = outstanding_.at(id);
  if (!t.table) {
    if (!rmpp.first()) {
      ++counters_.segments_beyond;
      return;
    }
    t.table = std::make_unique<RmppReceiver>(config_.window);
    t.table_end = now + config_.table_time;
    t.table_from = from;
  }
  const RmppReceiver::Step step = t.table->take(mad, rmpp, room_for_table(id));
  const wire::Rmpp ack = ack_of(t.table->in_order(), t.table->window_last());
  switch (step) {
    case RmppReceiver::Step::kTaken:
      ++counters_.segments;
      t.deadline = std::min(now + config_.table_silence, t.table_end);
      break;
    case RmppReceiver::Step::kRepeated: ++counters_.segments_repeated; break;
    case RmppReceiver::Step::kBeyond: ++counters_.segments_beyond; return;
    case RmppReceiver::Step::kDone:
      ++counters_.segments;
      ended_.add(mad.hdr.mad.tid.host(), ack_of(ack.segment, ack.segment), now);
      if (ack.segment > 1) ++counters_.segmented;
      finish_table(id);
      return say(from, mad.hdr, ack);
    case RmppReceiver::Step::kTooBig:
      return abort_table(id, from, mad.hdr, wire::RmppStatus::kResourcesExhausted,
                         Errc::kNoResources, now);
    case RmppReceiver::Step::kBroken:
      ++counters_.malformed;
      return abort_table(id, from, mad.hdr, wire::RmppStatus::kInconsistentLast, Errc::kProtocol,
                         now);
  }
  if (t.table->ack_due()) say(from, mad.hdr, ack);
}

/// Answers a segment of an ended table, because the SA did not receive the last answer.
bool Client::on_late_segment(const fabric::MadAddress& from, const wire::SaMad& mad,
                             TimePoint now) {
  if (mad.hdr.mad.method != response_of(kRequestMethod)) return false;
  wire::Rmpp rmpp;
  if (wire::parse_rmpp(mad.hdr, rmpp) != wire::RmppError::kNone) return false;
  const Ended* ended = ended_.find(mad.hdr.mad.tid.host(), now);
  if (rmpp.type != wire::RmppType::kData || ended == nullptr) return false;
  ++counters_.segments_repeated;
  say(from, mad.hdr, *ended);
  return true;
}

/// Sends an ACK, STOP or ABORT in answer to a segment with header `about`.
void Client::say(const fabric::MadAddress& to, const wire::SaHdr& about, const wire::Rmpp& rmpp) {
  wire::SaMad mad{};
  mad.hdr = about;
  mad.hdr.mad.method = kRequestMethod;
  mad.hdr.mad.status.set(0);
  wire::write_rmpp(mad.hdr, rmpp);
  answer_to(to, mad);
}

void Client::abort_table(TransactionId id, fabric::MadAddress from, const wire::SaHdr& about,
                         wire::RmppStatus status, Errc code, TimePoint now) {
  ++counters_.tables_given_up;
  if (code == Errc::kTimedOut) ++counters_.timed_out;
  const wire::Rmpp end = end_of(status);
  ended_.add(about.mad.tid.host(), end, now);
  finish(id, tl::make_unexpected(Failure{code, 0, end.status}));
  say(from, about, end);
}

void Client::finish_table(TransactionId id) {
  const RmppReceiver& table = *outstanding_.at(id).table;
  finish(id, count(read_table(table.header(), table.data(), false)));
}

/// Takes a table that the transport reassembled.
Outcome Client::whole_table(TransactionId id, const wire::SaMad& mad,
                            const fabric::ReceivedMad& received) {
  if (received.rest.size() > room_for_table(id)) {
    ++counters_.tables_given_up;
    return tl::make_unexpected(
        Failure{Errc::kNoResources, 0, end_of(wire::RmppStatus::kResourcesExhausted).status});
  }
  if (!received.rest.empty()) ++counters_.segmented;
  return count(read_whole_table(mad, received));
}

/// Octets that the table may take, given the memory that other tables use.
std::size_t Client::room_for_table(TransactionId id) const {
  std::size_t others = 0;
  for (const auto& [other, t] : outstanding_)
    if (other != id && t.table) others += t.table->octets();
  return config_.max_table_octets > others ? config_.max_table_octets - others : 0;
}

}  // namespace ipoib::sa
