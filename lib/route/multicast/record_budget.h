// SPDX-License-Identifier: BSD-3-Clause
// Limit of the work that membership messages of one link cause. A packet may hold hundreds of
// records, each of which may change the deliveries of every worker, so that packets are no measure
// of it. Source: RFC 3376 §4.2, RFC 3810 §5.2 (records); RFC 3810 §10 (forged messages).
#pragma once

#include <cstdint>
#include <map>

#include "lib/base/clock.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::route {

/// Counts records and their sources, per interval: of the link, and of each host on it. A host that
/// has used up its share leaves the rest to the others, and all hosts that are new, which may be
/// made-up addresses, leave half of it to the known ones. A message that begins within the budget is
/// taken as a whole; what it exceeds the budget by counts in the following intervals.
class RecordBudget {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr std::uint64_t kRecordsPerLink = 16'384;
  /// The records of all groups of one host (MembershipConfig::max_host_groups) with 7 sources each.
  static constexpr std::uint64_t kRecordsPerHost = 2'048;

  /// True if neither the link nor the host has used up its budget. `known`: the link has groups
  /// because of this host, or the host is its querier.
  [[nodiscard]] bool has_room(const wire::IpAddr& host, bool known, TimePoint now);
  void take(const wire::IpAddr& host, const wire::MembershipMessage& message);

 private:
  void start_interval(TimePoint now);

  TimePoint next_{};  ///< End of the interval.
  std::uint64_t used_ = 0;
  std::map<wire::IpAddr, std::uint64_t> used_by_;  ///< Non-zero.
};

}  // namespace ipoib::route
