// SPDX-License-Identifier: BSD-3-Clause
// Rate limit of the ICMP and ICMPv6 messages that the router itself sends. Source: RFC 1812
// §4.3.2.8, RFC 4443 §2.4 f.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Limits the rate of all errors together, and per host.
class IcmpLimiter {
 public:
  [[nodiscard]] bool allow(const wire::IpAddr& destination, TimePoint now);

 private:
  static constexpr unsigned kBucketBits = 10;
  RateLimiter all_{std::chrono::milliseconds(1), 100};
  // Hosts that share a bucket share its rate.
  std::vector<RateLimiter> per_host_{std::size_t{1} << kBucketBits,
                                     RateLimiter{std::chrono::milliseconds(10), 10}};
};

}  // namespace ipoib::route
