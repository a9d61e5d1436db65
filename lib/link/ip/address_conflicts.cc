// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/address_conflicts.h"

#include "lib/base/log.h"

namespace ipoib::link {
namespace {

std::string name_of(const std::optional<wire::HwAddr>& claimant) {
  return claimant ? wire::to_string(*claimant) : "an unknown host";
}

}  // namespace

bool AddressConflicts::on_conflict(const wire::IpAddr& own,
                                   const std::optional<wire::HwAddr>& claimant, TimePoint now) {
  if (const auto suppressed = conflict_log_.allow(now))
    log(LogArea::kLink, LogLevel::kErr,
        "{}: address conflict: own address {} is also claimed by {} ({} conflicts suppressed)",
        name_, wire::to_string(own), name_of(claimant), *suppressed);
  if (defended_ && now - *defended_ < kDefendInterval) return false;
  defended_ = now;
  return true;
}

void AddressConflicts::on_contradiction(const wire::IpAddr& addr,
                                        const std::optional<wire::HwAddr>& claimant,
                                        TimePoint now) {
  if (const auto suppressed = contradiction_log_.allow(now))
    log(LogArea::kLink, LogLevel::kWarning,
        "{}: address conflict: {} is claimed by {} and by another host ({} conflicts suppressed)",
        name_, wire::to_string(addr), name_of(claimant), *suppressed);
}

}  // namespace ipoib::link
