// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/address_conflicts.h"

#include "lib/base/log.h"

namespace ipoib::link {

bool AddressConflicts::must_defend(const wire::IpAddr& own, const std::string& claimant,
                                   TimePoint now) {
  if (const auto suppressed = conflict_log_.allow(now))
    log(LogArea::kLink, LogLevel::kErr,
        "{}: address conflict: own address {} is also claimed by {} ({} conflicts suppressed)",
        name_, wire::to_string(own), claimant, *suppressed);
  if (defended_ && now - *defended_ < kDefendInterval) return false;
  defended_ = now;
  return true;
}

void AddressConflicts::on_contradiction(const wire::IpAddr& addr, const std::string& claimant,
                                        TimePoint now) {
  if (const auto suppressed = contradiction_log_.allow(now))
    log(LogArea::kLink, LogLevel::kWarning,
        "{}: address conflict: {} is claimed by {} and by another host ({} conflicts suppressed)",
        name_, wire::to_string(addr), claimant, *suppressed);
}

}  // namespace ipoib::link
