// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/reporter.h"

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
  if (waiting_ >= max_waiting_) {
    ++counters_.dropped;
    return;
  }
  const auto [it, added] = receivers_.try_emplace(to);
  if (added) times_.add(to, now);
  it->second.to = address;
  it->second.queue.push_back(notice);
  ++waiting_;
}

bool Reporter::acknowledge(const fabric::MadAddress& from, std::uint64_t tid, TimePoint now) {
  const Subscriber who{from.lid, from.qpn};
  const auto it = receivers_.find(who);
  if (it == receivers_.end() || !times_.in_flight(who) ||
      it->second.tid != static_cast<std::uint32_t>(tid))
    return false;
  ++counters_.acknowledged;
  times_.remove(who, now);
  it->second.queue.pop_front();
  --waiting_;
  if (it->second.queue.empty())
    receivers_.erase(it);
  else
    times_.add(who, now);
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
  times_.remove(it->first);
  receivers_.erase(it);
}

void Reporter::send_first(Receiver& r, bool again, TimePoint now, const MadSender& send) {
  // A restarted administrator must not repeat the IDs that subscribers still remember.
  if (next_tid_ == 0) next_tid_ = static_cast<std::uint32_t>(now.time_since_epoch().count() >> 10);
  if (!again) r.tid = ++next_tid_;
  if (again) ++counters_.resent;
  ++counters_.sent;
  if (!send(r.to, wire::bytes_of(report_of(r.queue.front(), r.tid)))) ++counters_.send_failed;
}

std::vector<Subscriber> Reporter::tick(TimePoint now, const MadSender& sender) {
  std::vector<Subscriber> dead;
  times_.tick(
      now,
      [&](const Subscriber& who, unsigned sent) {
        send_first(receivers_.at(who), sent != 0, now, sender);
      },
      [&](const Subscriber& who) {
        ++counters_.died;
        dead.push_back(who);
        remove(receivers_.find(who));
      });
  return dead;
}

}  // namespace ipoib::sa
