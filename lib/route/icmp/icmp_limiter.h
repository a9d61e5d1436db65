// SPDX-License-Identifier: BSD-3-Clause
// Rate limit of the ICMP and ICMPv6 messages that the router itself sends. Source: RFC 1812
// §4.3.2.8, RFC 4443 §2.4 f.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/base/rate_limiter.h"
#include "lib/wire/icmp_error.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Messages that share a budget. Path MTU discovery depends on the first kind (RFC 1191 §4,
/// RFC 8201 §4), so packets that cause the others, which any host can send, must not use it up.
enum class IcmpBudget : std::uint8_t { kTooBig, kOther, kCount };

/// Returns the budget of an error about a packet of the version: kTooBig for "fragmentation needed"
/// of ICMP and "packet too big" of ICMPv6.
[[nodiscard]] constexpr IcmpBudget budget_of(const wire::IcmpError& error, bool v4) {
  const wire::IcmpError too_big =
      v4 ? wire::unreachable4(wire::IcmpUnreachable::kFragmentationNeeded)
         : wire::packet_too_big(0);
  return error.type == too_big.type && error.code == too_big.code ? IcmpBudget::kTooBig
                                                                  : IcmpBudget::kOther;
}

/// Limits the rate of all messages of a budget together, and per host.
class IcmpLimiter {
 public:
  /// `seed`: of the hash that assigns hosts to buckets, so that no host can choose that of another.
  explicit IcmpLimiter(std::uint64_t seed) : hash_{seed} {}
  [[nodiscard]] bool allow(const wire::IpAddr& destination, IcmpBudget budget, TimePoint now);

 private:
  static constexpr unsigned kBucketBits = 10;
  struct Limits {
    RateLimiter all{std::chrono::milliseconds(1), 100};
    // Hosts that share a bucket share its rate.
    std::vector<RateLimiter> per_host{std::size_t{1} << kBucketBits,
                                      RateLimiter{std::chrono::milliseconds(10), 10}};
  };
  KeyedHash hash_;
  std::array<Limits, static_cast<std::size_t>(IcmpBudget::kCount)> budgets_;
};

}  // namespace ipoib::route
