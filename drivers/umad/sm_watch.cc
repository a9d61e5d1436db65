// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/umad/sm_watch.h"

#include <utility>

namespace ipoib::umad {
void SmWatch::forget() {
  outstanding_ = false;
  missed_ = 0;
  silent_ = false;
  seen_.reset();
}

void SmWatch::tick(const fabric::PortAttr& port, TimePoint now, const SmpSender& send) {
  const std::uint16_t lid = port.state == fabric::PortState::kActive ? port.sm_lid : 0;
  if (lid != lid_) {  // A port event reports this change.
    forget();
    lid_ = lid;
    next_ = now;
  }
  if (lid_ == 0 || now < next_) return;
  next_ = now + kPeriod;
  if (outstanding_ && ++missed_ >= kMaxMissed) silent_ = true;
  outstanding_ = send(lid_, port.sm_sl,
                      wire::smp_get(wire::MgmtClass::kSubnLid, wire::SmpAttr::kSmInfo, 0, ++tid_));
}

bool SmWatch::on_answer(std::uint16_t from, const wire::Smp& smp) {
  if (!outstanding_ || from != lid_ || static_cast<std::uint32_t>(smp.mad.tid.host()) != tid_ ||
      smp.mad.attr_id.host() != static_cast<std::uint16_t>(wire::SmpAttr::kSmInfo))
    return false;
  outstanding_ = false;
  missed_ = 0;
  if (std::exchange(silent_, false)) reregister_ = true;
  if (smp.mad.status.host() != 0) return true;  // The manager is alive, but gives no SMInfo.
  const auto info = *wire::read<wire::SmInfo>(smp.data);
  const Seen now{info.guid.host(), info.act_count.host()};
  if (seen_ && (seen_->guid != now.guid || now.act_count < seen_->act_count)) reregister_ = true;
  seen_ = now;
  return true;
}

bool SmWatch::on_bounce(std::uint32_t tid) {
  if (!outstanding_ || tid != tid_) return false;
  outstanding_ = false;
  silent_ = true;
  return true;
}

bool SmWatch::take_reregister() {
  return std::exchange(reregister_, false);
}

}  // namespace ipoib::umad
