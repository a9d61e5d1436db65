// SPDX-License-Identifier: BSD-3-Clause
// Finds out again and again what the port is, by asking its own subnet management agent: what the
// kernel shows in files may be old, and comes without the P_Key table's holes. A state machine: fed
// with answers and the time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/port_events.h"
#include "lib/fabric/types.h"
#include "lib/wire/smp.h"

namespace ipoib::umad {

/// How a subnet management datagram leaves, to QP0 of a LID.
using SmpSender = std::function<bool(std::uint16_t lid, std::uint8_t sl, const wire::Smp& smp)>;

class PortWatch {
 public:
  static constexpr Duration kPeriod = std::chrono::milliseconds(250);
  /// Rounds without a whole answer before the port counts as down: three seconds, which a machine
  /// short of CPUs may need. A device that is gone says so by its descriptor.
  static constexpr unsigned kMostMissed = 12;

  explicit PortWatch(std::uint32_t first_tid) : tid_{first_tid} {}

  /// Asks when it is time to.
  void tick(TimePoint now, const SmpSender& send);
  /// True when the answer was asked for.
  bool on_answer(const wire::Smp& smp, const SmpSender& send);
  /// Asks at the next tick: something has changed.
  void look_now() { next_ = {}; }
  /// The device is gone.
  void lose();

  [[nodiscard]] const fabric::PortAttr& attr() const { return attr_; }
  [[nodiscard]] fabric::PortEvents& events() { return events_; }
  /// P_Key at a place in the table; the default one where there is none.
  [[nodiscard]] std::uint16_t pkey(std::uint16_t index) const;
  /// Place of the entry for a P_Key's partition, full membership first; -1: none.
  [[nodiscard]] int pkey_index(std::uint16_t pkey) const;
  /// Number of the port on its device; 0: not known yet.
  [[nodiscard]] std::uint8_t number() const { return node_.local_port; }
  /// The port did not say what it is for so many rounds.
  [[nodiscard]] bool silent() const { return missed_ >= kMostMissed; }

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
  std::map<std::uint32_t, Question> asked_;  ///< Of this round, by the low half of the TID.
  // What this round has told.
  wire::NodeInfo node_{};
  wire::PortInfo port_{};
  std::vector<std::uint16_t> table_;
  // What the last whole round told.
  std::vector<std::uint16_t> pkeys_;  ///< With holes.
  fabric::PortAttr attr_{.state = fabric::PortState::kDown, .pkeys = {}};
  fabric::PortEvents events_;
};

}  // namespace ipoib::umad
