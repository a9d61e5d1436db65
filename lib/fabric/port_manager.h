// SPDX-License-Identifier: BSD-3-Clause
// Who carries the management datagrams of a port and says what a subnet manager made of it, for
// devices that do not do so themselves.
#pragma once

#include <optional>
#include <string>

#include "lib/fabric/hca.h"
#include "lib/fabric/types.h"

namespace ipoib::fabric {

/// Management lcore only.
class PortManager {
 public:
  virtual ~PortManager() = default;

  [[nodiscard]] virtual MadPort& mad_port() = 0;
  /// Until the port was seen: down, GUID 0. What it says while the port is not active counts for
  /// nothing but the state.
  [[nodiscard]] virtual const PortAttr& attr() const = 0;
  /// Events say what of attr() to look at again; those of one kind that wait are one. To be called
  /// ten times a second or so.
  virtual std::optional<PortEvent> next_event() = 0;
  /// What keeps the port from working, for people; empty: nothing.
  [[nodiscard]] virtual std::string problem() const = 0;
};

}  // namespace ipoib::fabric
