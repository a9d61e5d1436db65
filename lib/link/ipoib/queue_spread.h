// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of a link that receives from a neighbour or from a multicast group.
#pragma once

#include <cstdint>

#include "lib/wire/gid.h"

namespace ipoib::link {

/// Spreads GIDs evenly over queue pairs. The hash has a key, so that hosts cannot choose GIDs
/// of which one queue pair gets all.
class QueueSpread {
 public:
  explicit QueueSpread(std::uint64_t key) : key_{key} {}

  /// Returns a number below `n`, which is at least 1.
  [[nodiscard]] unsigned queue_pair_of(const wire::Gid& gid, unsigned n) const {
    const std::uint64_t hash = mix(gid.guid() ^ mix(gid.prefix() ^ key_));
    return static_cast<unsigned>((hash >> 32) * n >> 32);
  }

 private:
  /// The finalizer of MurmurHash3, so that GIDs in sequence are spread.
  static std::uint64_t mix(std::uint64_t hash) {
    hash = (hash ^ hash >> 33) * 0xff51'afd7'ed55'8ccd;
    hash = (hash ^ hash >> 33) * 0xc4ce'b9fe'1a85'ec53;
    return hash ^ hash >> 33;
  }

  std::uint64_t key_;
};

}  // namespace ipoib::link
