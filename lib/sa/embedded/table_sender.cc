// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/table_sender.h"

#include <algorithm>
#include <span>

namespace ipoib::sa {
namespace {

constexpr Duration kPortBusy = std::chrono::milliseconds(1);

std::uint32_t segments_for(std::size_t octets) {
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (octets + wire::kSaDataLen - 1) / wire::kSaDataLen));
}

}  // namespace

wire::SaMad TableSender::segment(const Table& t, std::uint32_t number) {
  if (t.not_kept) return t.not_kept->first;
  const std::size_t at = std::size_t{number - 1} * wire::kSaDataLen;
  const std::size_t len = std::min(wire::kSaDataLen, t.records.size() - at);
  wire::SaMad mad{};
  mad.hdr = t.header;
  std::copy_n(t.records.begin() + static_cast<std::ptrdiff_t>(at), len, mad.data.begin());

  wire::Rmpp rmpp;
  rmpp.segment = number;
  if (number == 1) {
    rmpp.flags |= wire::rmpp_flag::kFirst;
    rmpp.len = static_cast<std::uint32_t>(t.segments * wire::kRmppSaHeaderLen + t.octets);
  }
  if (number == t.segments) {
    rmpp.flags |= wire::rmpp_flag::kLast;
    rmpp.len = static_cast<std::uint32_t>(wire::kRmppSaHeaderLen + len);
  }
  wire::write_rmpp(mad.hdr, rmpp);
  return mad;
}

TableSender::UnderWay TableSender::under_way(const fabric::MadAddress& from,
                                             const wire::SaMad& request) {
  const auto it = tables_.find({from.lid, request.hdr.mad.tid.host()});
  if (it == tables_.end()) return {};
  const Table& t = it->second;
  if (t.header.mad.attr_id != request.hdr.mad.attr_id ||
      t.comp_mask != request.hdr.comp_mask.host()) {
    ++counters_.stopped;
    remove(it);
    return {};
  }
  if (t.acked != 0) return {true, std::nullopt};
  ++counters_.segments;
  ++counters_.resent;
  return {true, segment(t, 1)};
}

std::optional<wire::SaMad> TableSender::start(const fabric::MadAddress& to,
                                              const wire::SaMad& request, const wire::SaHdr& header,
                                              std::vector<std::byte> records, TimePoint now) {
  const auto port = per_port_.find(to.lid);
  const bool full = tables_.size() >= config_.max_tables;
  if ((full && unheard_.empty()) || !has_room(to.lid, records.size()) ||
      (port != per_port_.end() && port->second.tables >= config_.max_tables_per_port)) {
    ++counters_.no_room;
    return std::nullopt;
  }
  if (full) {
    ++counters_.gave_way;
    remove(tables_.find(unheard_.front()));
  }
  last_now_ = now;
  const auto it = tables_.try_emplace({to.lid, request.hdr.mad.tid.host()}).first;
  Table& t = it->second;
  t.to = to;
  t.header = header;
  t.comp_mask = request.hdr.comp_mask.host();
  t.octets = records.size();
  t.segments = segments_for(t.octets);
  t.unheard = unheard_.insert(unheard_.end(), it->first);
  ++per_port_[to.lid].tables;
  keep(it, std::move(records));
  if (unheard_octets_ + t.octets > config_.max_octets_unheard) {
    t.not_kept = std::make_unique<NotKept>(NotKept{request, segment(t, 1)});
    drop_records(it);
  } else {
    unheard_octets_ += t.octets;
  }
  t.next = 2;
  t.highest = 1;
  t.retries_left = config_.retries;
  t.deadline = now + config_.timeout;
  t.end = now + config_.total_time;
  ++counters_.started;
  ++counters_.segments;
  return segment(t, 1);
}

bool TableSender::has_room(std::uint16_t lid, std::size_t octets) const {
  const auto port = per_port_.find(lid);
  const std::size_t of_port = port == per_port_.end() ? 0 : port->second.octets;
  return octets_ + octets <= config_.max_octets && of_port + octets <= config_.max_octets_per_port;
}

void TableSender::keep(Iterator it, std::vector<std::byte> records) {
  octets_ += records.size();
  per_port_[it->first.first].octets += records.size();
  it->second.records = std::move(records);
}

void TableSender::drop_records(Iterator it) {
  octets_ -= it->second.records.size();
  per_port_[it->first.first].octets -= it->second.records.size();
  it->second.records = {};
}

bool TableSender::take(const fabric::MadAddress& from, const wire::SaMad& mad, TimePoint now,
                       const FindRecords& find) {
  const auto it = tables_.find({from.lid, mad.hdr.mad.tid.host()});
  if (it == tables_.end() || mad.hdr.mad.attr_id != it->second.header.mad.attr_id) return false;
  last_now_ = now;
  wire::Rmpp rmpp;
  const wire::RmppError error = wire::parse_rmpp(mad.hdr, rmpp);
  if (error != wire::RmppError::kNone) {
    abort_table(it, wire::abort_status(error));
  } else if (rmpp.type == wire::RmppType::kData) {
    return false;  // Requests have only one MAD.
  } else if (rmpp.type == wire::RmppType::kAck) {
    on_ack(it, rmpp, now, find);
  } else {
    ++counters_.stopped;
    remove(it);
  }
  return true;
}

/// Ends the time without an acknowledgement of a table. False if its records are not there: it has
/// to wait for room, or was aborted.
bool TableSender::hear(Iterator it, const FindRecords& find) {
  Table& t = it->second;
  if (t.not_kept) {
    if (!has_room(it->first.first, t.octets)) {  // The first segment is sent again, and asks again.
      ++counters_.no_room;
      return false;
    }
    auto records = find(t.to, t.not_kept->request);
    const std::span sent{t.not_kept->first.data};
    const auto same = [sent](std::span<const std::byte> r) {
      const std::size_t n = std::min(r.size(), sent.size());
      return std::ranges::equal(r.first(n), sent.first(n));
    };
    if (!records || records->size() != t.octets || !same(*records)) {
      ++counters_.changed;
      abort_table(it, wire::RmppStatus::kResourcesExhausted);
      return false;
    }
    ++counters_.found_again;
    keep(it, std::move(*records));
    t.not_kept.reset();
  } else {
    unheard_octets_ -= t.octets;
  }
  unheard_.erase(t.unheard);
  t.heard = true;
  return true;
}

void TableSender::on_ack(Iterator it, const wire::Rmpp& ack, TimePoint now,
                         const FindRecords& find) {
  Table& t = it->second;
  if (ack.segment > t.highest) return abort_table(it, wire::RmppStatus::kSegmentTooBig);
  if (ack.segment < t.acked) return;  // A later ACK has overtaken it.
  // Segment 0 acknowledges nothing: the sender of such an ACK is as silent as before.
  if (!t.heard && (ack.segment == 0 || !hear(it, find))) return;
  if (ack.segment > t.acked || ack.len > t.window_last) {
    t.retries_left = config_.retries;
    t.deadline = now + config_.timeout;
  }
  t.acked = ack.segment;
  t.next = std::max(t.next, t.acked + 1);
  t.window_last = std::max(t.window_last, ack.len);
  if (t.acked != t.segments) return;
  ++counters_.finished;
  remove(it);
}

void TableSender::abort_table(Iterator it, wire::RmppStatus status) {
  ++counters_.given_up;
  wire::Rmpp rmpp;
  rmpp.type = wire::RmppType::kAbort;
  rmpp.status = static_cast<std::uint8_t>(status);
  wire::SaMad mad{};
  mad.hdr = it->second.header;
  wire::write_rmpp(mad.hdr, rmpp);
  goodbyes_.push_back({it->second.to, mad});
  remove(it);
}

void TableSender::remove(Iterator it) {
  const Table& t = it->second;
  if (!t.heard) {
    if (!t.not_kept) unheard_octets_ -= t.octets;
    unheard_.erase(t.unheard);
  }
  drop_records(it);
  const auto port = per_port_.find(it->first.first);
  if (--port->second.tables == 0) per_port_.erase(port);
  tables_.erase(it);
}

/// Tables with a late ACK go back to the first unacknowledged segment, as long as they have
/// retries. Tables out of time or retries end.
void TableSender::expire(TimePoint now) {
  for (auto it = tables_.begin(); it != tables_.end();) {
    const auto here = it++;
    Table& t = here->second;
    if (t.end <= now) {
      abort_table(here, wire::RmppStatus::kTimeTooLong);
    } else if (t.deadline <= now && t.retries_left == 0) {
      abort_table(here, wire::RmppStatus::kTooManyRetries);
    } else if (t.deadline <= now) {
      --t.retries_left;
      t.next = t.acked + 1;
      t.deadline = now + config_.timeout;
    }
  }
}

bool TableSender::send_next(Table& t, TimePoint now, const MadSender& send) {
  if (!send(t.to, wire::bytes_of(segment(t, t.next)))) {
    ++counters_.send_failed;
    not_before_ = now + kPortBusy;
    return false;
  }
  ++counters_.segments;
  if (t.next <= t.highest) ++counters_.resent;
  t.highest = std::max(t.highest, t.next);
  ++t.next;
  t.deadline = now + config_.timeout;
  return true;
}

void TableSender::tick(TimePoint now, const MadSender& send) {
  last_now_ = now;
  expire(now);
  if (now < not_before_) return;
  unsigned left = config_.burst;
  for (; left > 0 && !goodbyes_.empty(); --left) {
    const Goodbye g = goodbyes_.back();
    goodbyes_.pop_back();
    static_cast<void>(send(g.to, wire::bytes_of(g.mad)));  // If lost, the receiver times out.
  }
  // One segment per table in turn, starting after the table that was served last.
  for (std::size_t idle = 0; left > 0 && idle < tables_.size();) {
    auto it = tables_.upper_bound(served_);
    if (it == tables_.end()) it = tables_.begin();
    served_ = it->first;
    if (!it->second.ready()) {
      ++idle;
      continue;
    }
    if (!send_next(it->second, now, send)) return;
    idle = 0;
    --left;
  }
}

std::optional<TimePoint> TableSender::next_deadline() const {
  if (!goodbyes_.empty()) return std::max(last_now_, not_before_);
  std::optional<TimePoint> next;
  for (const auto& [key, t] : tables_) {
    if (t.ready()) next = earlier(next, std::max(last_now_, not_before_));
    next = earlier(next, std::min(t.deadline, t.end));
  }
  return next;
}

}  // namespace ipoib::sa
