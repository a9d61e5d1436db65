// SPDX-License-Identifier: BSD-3-Clause
// Pending events of a port.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lib/base/contract.h"
#include "lib/fabric/fabric_types.h"

namespace ipoib::fabric {

/// Bounded by merging: at most one event of each kind waits, because an event only names a part of
/// PortAttr to read again. next() returns fatal and down first, and active after the changes, so
/// that a consumer that handles them one by one ends in the port's state. Management lcore only.
class PortEvents {
 public:
  void add(PortEvent event) noexcept {
    expects_management();
    // The port is down again before any consumer learned that it was active.
    if (event == PortEvent::kPortDown) waiting_ &= ~bit(PortEvent::kPortActive);
    waiting_ |= bit(event);
  }
  /// Adds the events for attributes that differ, except for the state of the port.
  void add_changes(const PortAttr& from, const PortAttr& to) noexcept {
    if (from.gid_prefix != to.gid_prefix || from.guid != to.guid) add(PortEvent::kGidChange);
    if (from.lid != to.lid || from.lmc != to.lmc) add(PortEvent::kLidChange);
    if (from.pkeys != to.pkeys) add(PortEvent::kPkeyChange);
    if (from.sm_lid != to.sm_lid || from.sm_sl != to.sm_sl) add(PortEvent::kSmChange);
    // The port was retrained: links then compare the MTU of their group again.
    if (from.mtu != to.mtu && to.state == PortState::kActive) add(PortEvent::kPortActive);
  }
  [[nodiscard]] std::optional<PortEvent> next() noexcept {
    expects_management();
    for (const PortEvent event : kOrder) {
      if ((waiting_ & bit(event)) == 0) continue;
      waiting_ &= ~bit(event);
      return event;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::array kOrder = {PortEvent::kFatal,      PortEvent::kPortDown,
                                        PortEvent::kGidChange,  PortEvent::kLidChange,
                                        PortEvent::kPkeyChange, PortEvent::kSmChange,
                                        PortEvent::kPortActive, PortEvent::kClientReregister};
  [[nodiscard]] static constexpr std::uint32_t bit(PortEvent event) noexcept {
    return std::uint32_t{1} << static_cast<unsigned>(event);
  }
  std::uint32_t waiting_ = 0;
};

}  // namespace ipoib::fabric
