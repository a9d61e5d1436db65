// SPDX-License-Identifier: BSD-3-Clause
// Assignment of flow buckets to the paths of an ECMP group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ipoib::route {

/// The number of buckets is fixed, so that a flow stays in its bucket. A bucket changes its path
/// only when that path dies, or when a path that came back gets its share. The numbers of buckets
/// of living paths differ by at most one.
class Buckets {
 public:
  /// All paths live. paths: 1 to 256; buckets: at least as many.
  Buckets(std::size_t paths, std::size_t buckets);

  /// Reassigns buckets of dead paths and balances the rest. alive[i]: path i lives. If no path
  /// lives, nothing changes, so the path that died last is still tried. Returns true if a bucket
  /// changed its path.
  bool deal(const std::vector<bool>& alive);

  [[nodiscard]] std::size_t size() const { return path_.size(); }
  [[nodiscard]] std::size_t path_of(std::size_t bucket) const { return path_[bucket]; }

 private:
  [[nodiscard]] std::size_t bucket_to_give(std::size_t from, std::size_t to) const;

  std::vector<std::uint8_t> path_;   ///< Indexed by bucket.
  std::vector<std::size_t> shares_;  ///< Indexed by path: number of its buckets.
};

}  // namespace ipoib::route
