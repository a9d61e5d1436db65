// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp_limiter.h"

#include <functional>

namespace ipoib::route {

bool IcmpLimiter::allow(const wire::IpAddr& destination, TimePoint now) {
  const std::size_t bucket = std::hash<wire::IpAddr>{}(destination) >> (64 - kBucketBits);
  return per_host_[bucket].allow(now) && all_.allow(now);
}

}  // namespace ipoib::route
