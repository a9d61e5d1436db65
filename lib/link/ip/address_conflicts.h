// SPDX-License-Identifier: BSD-3-Clause
// Addresses that two hosts claim: the log of them, and how often an own address is defended. ARP
// and neighbour discovery detect the claims. Source: RFC 5227 §2.4 b; IPv6 does the same here.
#pragma once

#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/link/log_limit.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

/// A claimant without an address is one that neighbour discovery does not name.
class AddressConflicts {
 public:
  /// The reference is kept. `name`: name of the interface, for the log.
  explicit AddressConflicts(const std::string& name) : name_{name} {}

  /// `claimant` claims an own address. Returns true if the address must be announced: once per
  /// interval, so that two hosts that insist do not flood the link.
  [[nodiscard]] bool on_conflict(const wire::IpAddr& own,
                                 const std::optional<wire::HwAddr>& claimant, TimePoint now);
  /// `claimant` claims the address of another host.
  void on_contradiction(const wire::IpAddr& addr, const std::optional<wire::HwAddr>& claimant,
                        TimePoint now);

 private:
  static constexpr Duration kDefendInterval = std::chrono::seconds(10);  // RFC 5227 §1.1

  const std::string& name_;
  std::optional<TimePoint> defended_;
  LogLimit conflict_log_{kDefendInterval};
  LogLimit contradiction_log_{kDefendInterval};
};

}  // namespace ipoib::link
