// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp_limiter.h"

namespace ipoib::route {

bool IcmpLimiter::allow(const wire::IpAddr& destination, IcmpBudget budget, TimePoint now) {
  Limits& limits = budgets_[static_cast<std::size_t>(budget)];
  const std::size_t bucket = hash_(destination) >> (64 - kBucketBits);
  return limits.per_host[bucket].allow(now) && limits.all.allow(now);
}

}  // namespace ipoib::route
