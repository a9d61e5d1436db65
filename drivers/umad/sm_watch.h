// SPDX-License-Identifier: BSD-3-Clause
// Notices that the subnet manager was replaced or restarted, and so has forgotten memberships and
// subscriptions, where nobody says so: by asking it for SMInfo. A state machine: fed with answers
// and the time.
#pragma once

#include <cstdint>
#include <optional>

#include "drivers/umad/port_watch.h"
#include "lib/base/clock.h"
#include "lib/fabric/types.h"
#include "lib/wire/smp.h"

namespace ipoib::umad {

class SmWatch {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  /// Questions without an answer before the manager counts as silent.
  static constexpr unsigned kMostMissed = 2;

  explicit SmWatch(std::uint32_t first_tid) : tid_{first_tid} {}

  /// Asks when it is time to and the port has a manager.
  void tick(const fabric::PortAttr& port, TimePoint now, const SmpSender& send);
  /// The manager answered, from LID `from`. False: not what was asked.
  bool on_answer(std::uint16_t from, const wire::Smp& smp);
  /// The question came back undelivered, or timed out. False: it was none of these.
  bool on_bounce(std::uint32_t tid);

  /// True, once, when the manager is another or was away.
  [[nodiscard]] bool take_reregister();
  [[nodiscard]] bool silent() const { return silent_; }

 private:
  void forget();

  std::uint32_t tid_;
  TimePoint next_{};
  std::uint16_t lid_ = 0;  ///< Whom we watch; 0: nobody.
  bool asked_ = false;     ///< Question tid_ is open.
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
