// SPDX-License-Identifier: BSD-3-Clause
// Subnet management agent of a software HCA's port: answers the SMPs of its subnet manager on QP0.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/fabric/fabric_types.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/smp.h"

namespace ipoib::soft {

/// The attributes of the port come from its configuration, so a subnet manager can read PortInfo and
/// request client reregistration, and can set nothing else. Management lcore only.
class SubnetAgent {
 public:
  /// Events of the request for reregistration are at least this far apart, because each makes the
  /// links request all their memberships again.
  static constexpr unsigned kReregisterMs = 1000;

  /// The reference must outlive the object.
  explicit SubnetAgent(const fabric::PortAttr& port) : port_{port} {}

  /// True for a request to this agent: a Get or Set with a LID route, from the port's subnet manager.
  [[nodiscard]] bool serves(const fabric::ReceivedMad& mad) const;
  /// Returns the answer to such a request. The wire::MadStatus of a refusal is
  /// kBadVersion, kMethodAttributeNotSupported (an attribute other than PortInfo), or kInvalidField (another port
  /// number, or a Set that would change the port's GID prefix, LID, subnet manager or state).
  /// Source: IBA vol 1 §14.2.5.6.
  [[nodiscard]] wire::Smp answer(const fabric::ReceivedMad& mad);

  /// True once after a request for reregistration. The times are those of a clock with `hz` ticks in
  /// a second.
  [[nodiscard]] bool take_reregister(std::uint64_t now, std::uint64_t hz);

 private:
  [[nodiscard]] wire::PortInfo port_info() const;
  [[nodiscard]] std::uint16_t serve(const wire::Smp& request, wire::PortInfo& info);

  const fabric::PortAttr& port_;
  bool reregister_ = false;
  std::uint64_t next_reregister_ = 0;
};

}  // namespace ipoib::soft
