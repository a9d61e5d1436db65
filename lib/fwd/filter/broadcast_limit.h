// SPDX-License-Identifier: BSD-3-Clause
// Limit of the directed broadcasts that one worker forwards, because all hosts of a link receive
// each, and may answer it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/hash_seed.h"
#include "lib/base/keyed_hash.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Sender of a broadcast. Sources can be forged, and their interface cannot.
struct BroadcastSender {
  table::InterfaceId in;
  wire::IpAddr source;
  bool is_neighbour;  ///< The source is a neighbour there, which has answered.
};

/// Each interface that broadcasts leave by has its own limit. Those of one ingress interface take at
/// most half of what the others have left, so that a host with forged sources leaves room for those
/// behind other interfaces. Each source has a share of that, and the last quarter is for neighbours.
class BroadcastLimit {
 public:
  static constexpr std::uint32_t kPerSecond = 200;   ///< One interface.
  static constexpr std::uint32_t kPerIngress = 100;  ///< One ingress interface, if alone.
  static constexpr std::uint32_t kStrangers = 75;    ///< The part without the last quarter.
  static constexpr std::uint8_t kPerSource = 25;     ///< One source, on one interface.

  /// `interfaces`: the number of them.
  explicit BroadcastLimit(std::size_t interfaces) : hash_{secret_seed()}, uses_(interfaces) {
    for (Use& use : uses_) use.of_ingress.resize(interfaces);
  }

  /// Counts a broadcast that is to leave by `out`; both interfaces exist. `now_s`: Context::now_s.
  [[nodiscard]] bool allow(const BroadcastSender& sender, table::InterfaceId out,
                           std::uint32_t now_s) noexcept {
    Use& use = uses_[out];
    if (now_s != use.second) use.begin(now_s);
    std::uint8_t& of_ingress = use.of_ingress[sender.in];
    std::uint8_t& of_source = use.of_source[hash_(sender.source) >> (64 - kBucketBits)];
    // At the sum of both the ingress has used half of what the others have left.
    const std::uint32_t limit = sender.is_neighbour ? kPerSecond : 2 * kStrangers;
    if (use.all + of_ingress >= limit || of_source >= kPerSource) return false;
    ++use.all;
    ++of_ingress;
    ++of_source;
    return true;
  }

 private:
  static constexpr unsigned kBucketBits = 8;
  static_assert(2 * kPerIngress == kPerSecond && 4 * kStrangers == 3 * kPerIngress &&
                kPerIngress <= 0xff);
  struct Use {
    void begin(std::uint32_t now_s) noexcept {
      second = now_s;
      all = 0;
      std::ranges::fill(of_ingress, std::uint8_t{0});
      of_source = {};
    }
    std::uint32_t second = 0;
    std::uint32_t all = 0;                 ///< Broadcasts in that second.
    std::vector<std::uint8_t> of_ingress;  ///< Indexed by InterfaceId.
    /// Indexed by the hash of the source. Sources that share a bucket share its part.
    std::array<std::uint8_t, std::size_t{1} << kBucketBits> of_source{};
  };

  KeyedHash hash_;  ///< Keyed, so that no host can choose the bucket of another.
  std::vector<Use> uses_;
};

}  // namespace ipoib::fwd
