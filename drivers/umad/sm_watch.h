// SPDX-License-Identifier: BSD-3-Clause
// Detects a replaced or restarted subnet manager, which has lost memberships and subscriptions, if
// no event reports it: polls its SMInfo. A state machine, driven by answers and the time.
#pragma once

#include <cstdint>
#include <optional>

#include "drivers/umad/port_watch.h"
#include "lib/base/clock.h"
#include "lib/fabric/fabric_types.h"
#include "lib/wire/smp.h"

namespace ipoib::umad {

class SmWatch {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  /// Questions without an answer before the manager counts as silent.
  static constexpr unsigned kMaxMissed = 2;

  explicit SmWatch(std::uint32_t first_tid) : tid_{first_tid} {}

  /// Sends a question when it is due and the port has a manager.
  void tick(const fabric::PortAttr& port, TimePoint now, const SmpSender& send);
  /// Handles an answer from LID `from`. False: it does not belong to the open question.
  bool on_answer(std::uint16_t from, const wire::Smp& smp);
  /// Handles a question that was returned undelivered or timed out. False: not the open question.
  bool on_bounce(std::uint32_t tid);

  /// True, once, after the manager was replaced or was away.
  [[nodiscard]] bool take_reregister();
  [[nodiscard]] bool silent() const { return silent_; }

 private:
  void forget();

  std::uint32_t tid_;
  TimePoint next_{};
  std::uint16_t lid_ = 0;     ///< LID of the watched manager; 0: none.
  bool outstanding_ = false;  ///< Question tid_ is open.
  unsigned missed_ = 0;
  bool silent_ = false;
  struct Seen {
    std::uint64_t guid;
    std::uint32_t act_count;
  };
  std::optional<Seen> seen_;
  bool reregister_ = false;
};

}  // namespace ipoib::umad
