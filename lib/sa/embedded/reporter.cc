// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/reporter.h"

#include <algorithm>

namespace ipoib::sa {
namespace {

wire::SaMad report_of(const wire::Notice& notice, std::uint32_t tid) {
  wire::SaMad mad{};
  mad.hdr.mad.base_version = wire::kMadBaseVersion;
  mad.hdr.mad.mgmt_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm);
  mad.hdr.mad.class_version = wire::kSaClassVersion;
  mad.hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kReport);
  mad.hdr.mad.tid.set(tid);
  mad.hdr.mad.attr_id.set(static_cast<std::uint16_t>(wire::Attr::kNotice));
  static_cast<void>(wire::write(std::span{mad.data}, 0, notice));
  return mad;
}

}  // namespace

void Reporter::post(const Subscriber& to, const fabric::MadAddress& address,
                    const wire::Notice& notice, TimePoint now) {
  last_now_ = now;
  if (waiting_ >= config_.max_waiting) {
    ++counters_.dropped;
    return;
  }
  const auto [it, added] = receivers_.try_emplace(to);
  if (added) turn_.push_back(to);
  it->second.to = address;
  it->second.queue.push_back(notice);
  ++waiting_;
}

bool Reporter::acknowledge(const fabric::MadAddress& from, std::uint64_t tid, TimePoint now) {
  const Subscriber who{from.lid, from.qpn};
  const auto it = receivers_.find(who);
  if (it == receivers_.end() || in_flight_.count(who) == 0 ||
      it->second.tid != static_cast<std::uint32_t>(tid))
    return false;
  last_now_ = now;
  ++counters_.acknowledged;
  in_flight_.erase(who);
  it->second.queue.pop_front();
  --waiting_;
  it->second.sent = 0;
  if (it->second.queue.empty())
    receivers_.erase(it);
  else
    turn_.push_back(who);
  return true;
}

void Reporter::forget(const Subscriber& subscriber) {
  if (const auto it = receivers_.find(subscriber); it != receivers_.end()) remove(it);
}

void Reporter::forget_port(std::uint16_t lid) {
  for (auto it = receivers_.lower_bound({lid, 0}); it != receivers_.end() && it->first.lid == lid;
       it = receivers_.lower_bound({lid, 0}))
    remove(it);
}

void Reporter::remove(Iterator it) {
  counters_.dropped += it->second.queue.size();
  waiting_ -= it->second.queue.size();
  if (in_flight_.erase(it->first) == 0)
    turn_.erase(std::remove(turn_.begin(), turn_.end(), it->first), turn_.end());
  receivers_.erase(it);
}

void Reporter::send_first(Receiver& r, TimePoint now, const MadSender& send) {
  // A restarted administrator must not repeat the IDs that subscribers still remember.
  if (next_tid_ == 0) next_tid_ = static_cast<std::uint32_t>(now.time_since_epoch().count() >> 10);
  if (r.sent == 0) r.tid = ++next_tid_;
  r.deadline = now + config_.timeout;
  if (r.sent++ != 0) ++counters_.resent;
  ++counters_.sent;
  if (!send(r.to, wire::bytes_of(report_of(r.queue.front(), r.tid)))) ++counters_.send_failed;
}

std::vector<Subscriber> Reporter::tick(TimePoint now, const MadSender& send) {
  last_now_ = now;
  std::vector<Subscriber> due, dead;
  for (const Subscriber& who : in_flight_)
    if (receivers_.at(who).deadline <= now) due.push_back(who);
  for (const Subscriber& who : due) {
    const auto it = receivers_.find(who);
    if (it == receivers_.end()) continue;
    if (it->second.sent <= config_.retries) {
      send_first(it->second, now, send);
      continue;
    }
    ++counters_.died;
    dead.push_back(who);
    remove(it);
  }
  while (!turn_.empty() && in_flight_.size() < config_.max_outstanding) {
    const Subscriber who = turn_.front();
    turn_.pop_front();
    in_flight_.insert(who);
    send_first(receivers_.at(who), now, send);
  }
  return dead;
}

std::optional<TimePoint> Reporter::next_deadline() const {
  if (!turn_.empty() && in_flight_.size() < config_.max_outstanding) return last_now_;
  std::optional<TimePoint> next;
  for (const Subscriber& who : in_flight_) next = earlier(next, receivers_.at(who).deadline);
  return next;
}

}  // namespace ipoib::sa
