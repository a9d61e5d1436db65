// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp_limiter.h"

#include <functional>

namespace ipoib::route {

bool IcmpLimiter::allow(std::uint32_t destination, TimePoint now) {
  const std::size_t bucket = destination * 0x9e3779b1U >> 22;  // upper 10 bits
  static_assert(kBuckets == 1U << 10);
  return allow_bucket(bucket, now);
}

bool IcmpLimiter::allow(const wire::IpAddr& destination, TimePoint now) {
  return allow_bucket(std::hash<wire::IpAddr>{}(destination) >> (64 - 10), now);
}

bool IcmpLimiter::allow_bucket(std::size_t bucket, TimePoint now) {
  return per_host_[bucket].allow(now) && all_.allow(now);
}

}  // namespace ipoib::route
