// SPDX-License-Identifier: BSD-3-Clause
// Polls the attributes of the port from its own subnet management agent, because the kernel's files
// may be out of date and omit the holes of the P_Key table. A state machine, driven by answers and
// the time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fabric/port_events.h"
#include "lib/fabric/port_manager.h"
#include "lib/wire/smp.h"

namespace ipoib::umad {

/// Sends a subnet management datagram to QP0 of a LID.
using SmpSender = std::function<bool(std::uint16_t lid, std::uint8_t sl, const wire::Smp& smp)>;

/// Sum of a port's counter that has 16 bits, stays at 65,535, and goes back to 0 when the subnet
/// manager or a restart of the port clears it.
class PortCounter {
 public:
  /// The first value is of the time before.
  void see(std::uint16_t value) {
    const std::uint16_t before = last_.value_or(value);
    sum_ += value >= before ? value - before : value;
    last_ = value;
  }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }

 private:
  std::optional<std::uint16_t> last_;
  std::uint64_t sum_ = 0;
};

class PortWatch {
 public:
  static constexpr Duration kPeriod = std::chrono::milliseconds(250);
  /// Incomplete rounds until the port counts as down: three seconds, which a machine short of CPUs
  /// may need. The descriptor reports a device that is gone.
  static constexpr unsigned kMaxMissed = 12;

  explicit PortWatch(std::uint32_t first_tid) : tid_{first_tid} {}

  /// Starts a round of questions when it is due.
  void tick(TimePoint now, const SmpSender& send);
  /// True if the answer belongs to an open question.
  bool on_answer(const wire::Smp& smp, const SmpSender& send);
  /// Starts a round at the next tick, because something has changed.
  void look_now() { next_ = {}; }
  /// Called when the device is gone.
  void lose();

  [[nodiscard]] const fabric::PortAttr& attr() const { return attr_; }
  [[nodiscard]] fabric::PortEvents& events() { return events_; }
  /// P_Key at an index of the table; the default one if there is none.
  [[nodiscard]] std::uint16_t pkey(std::uint16_t index) const;
  /// Index of the entry for a P_Key's partition, full membership first; -1: none.
  [[nodiscard]] int pkey_index(std::uint16_t pkey) const;
  /// Number of the port on its device; 0: not known yet.
  [[nodiscard]] std::uint8_t number() const { return node_.local_port; }
  [[nodiscard]] fabric::KeyViolations key_violations() const {
    return {.pkey = pkey_violations_.sum(), .qkey = qkey_violations_.sum()};
  }
  /// True after kMaxMissed incomplete rounds.
  [[nodiscard]] bool silent() const { return missed_ >= kMaxMissed; }

 private:
  void ask(wire::SmpAttr attr, std::uint32_t modifier, const SmpSender& send);
  void take(const wire::Smp& smp, std::uint32_t modifier, const SmpSender& send);
  void conclude();
  void become(fabric::PortAttr next);

  std::uint32_t tid_;
  TimePoint next_{};
  unsigned missed_ = 0;
  struct Question {
    wire::SmpAttr attr;
    std::uint32_t modifier;
  };
  std::map<std::uint32_t, Question> outstanding_;  ///< Open questions, by the low half of the TID.
  // Answers of this round.
  wire::NodeInfo node_{};
  wire::PortInfo port_{};
  std::vector<std::uint16_t> table_;
  // Results of the last complete round.
  std::vector<std::uint16_t> pkeys_;  ///< Including holes.
  fabric::PortAttr attr_{.state = fabric::PortState::kDown, .pkeys = {}};
  fabric::PortEvents events_;
  PortCounter pkey_violations_;
  PortCounter qkey_violations_;
};

}  // namespace ipoib::umad
