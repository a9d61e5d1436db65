// SPDX-License-Identifier: BSD-3-Clause
// Limit of the directed broadcasts that one worker forwards, because all hosts of a link receive
// each, and may answer it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/hash_seed.h"
#include "lib/base/keyed_hash.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Each interface that broadcasts leave by has its own limit, and each source a share of that.
class BroadcastLimit {
 public:
  static constexpr std::uint32_t kPerSecond = 100;  ///< One interface.
  static constexpr std::uint8_t kPerSource = 25;    ///< One source, on one interface.

  /// `interfaces`: the number of them.
  explicit BroadcastLimit(std::size_t interfaces) : hash_{secret_seed()}, uses_(interfaces) {}

  /// Counts a broadcast from `source` that is to leave by `out`, an interface. `now_s`:
  /// Context::now_s.
  [[nodiscard]] bool allow(table::InterfaceId out, const wire::IpAddr& source,
                           std::uint32_t now_s) noexcept {
    Use& use = uses_[out];
    if (now_s != use.second) use = {.second = now_s};
    std::uint8_t& of_source = use.of_source[hash_(source) >> (64 - kBucketBits)];
    if (use.all >= kPerSecond || of_source >= kPerSource) return false;
    ++use.all;
    ++of_source;
    return true;
  }

 private:
  static constexpr unsigned kBucketBits = 8;
  struct Use {
    std::uint32_t second = 0;
    std::uint32_t all = 0;  ///< Broadcasts in that second.
    /// Indexed by the hash of the source. Sources that share a bucket share its part.
    std::array<std::uint8_t, std::size_t{1} << kBucketBits> of_source{};
  };

  KeyedHash hash_;  ///< Keyed, so that no host can choose the bucket of another.
  std::vector<Use> uses_;
};

}  // namespace ipoib::fwd
