// SPDX-License-Identifier: BSD-3-Clause
// Carries the MADs of a port and reports the attributes that a subnet manager gave it, for devices
// that do not do so themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/fabric/fabric_types.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/qp1.h"

namespace ipoib::fabric {

/// Packets that the port discarded because of their keys. Source: IBA vol 1 §14.2.5.6.
struct KeyViolations {
  std::uint64_t pkey = 0;
  std::uint64_t qkey = 0;
};

/// Management lcore only.
class PortManager {
 public:
  virtual ~PortManager() = default;

  [[nodiscard]] virtual MadPort& mad_port() = 0;
  /// Until the port was seen: down, GUID 0. While the port is not active, only the state is valid.
  [[nodiscard]] virtual const PortAttr& attr() const = 0;
  /// An event names a part of attr() to read again. Waiting events of one kind are merged. Call it
  /// about ten times a second.
  virtual std::optional<PortEvent> next_event() = 0;
  /// Reason why the port does not work, for operators; empty: no problem.
  [[nodiscard]] virtual std::string problem() const = 0;
  /// Counted since the port was first seen, for all users of the port.
  [[nodiscard]] virtual KeyViolations key_violations() const { return {}; }
};

}  // namespace ipoib::fabric
