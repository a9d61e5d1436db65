// SPDX-License-Identifier: BSD-3-Clause
// Assignment of flow buckets to the paths of an ECMP group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ipoib::route {

/// The number of buckets is fixed, so that a flow stays in its bucket. A bucket changes its path
/// only when that path dies, or when a path that came back gets its share.
///
/// The buckets of living paths are in proportion to their weights: no path has more buckets, for
/// each unit of its weight, than another would have with one bucket more (the method of Jefferson).
/// So shares of paths with one weight differ by at most one bucket, and a path with less than one
/// bucket's weight may have none.
class Buckets {
 public:
  /// All paths live. weights: one for each of 1 to 256 paths, at least 1 each. buckets: at least as
  /// many as paths.
  Buckets(std::vector<std::uint32_t> weights, std::size_t buckets);

  /// Takes over the paths of another group's buckets, so that flows stay on paths that both groups
  /// have. path_of_old[p]: the path here that is path p there; any other number: none here. A
  /// deal() has to follow.
  void take_over(const Buckets& old, const std::vector<std::size_t>& path_of_old);

  /// Reassigns buckets of dead paths and balances the rest. alive[i]: path i lives. If no path
  /// lives, nothing changes, so the path that died last is still tried. Returns true if a bucket
  /// changed its path.
  bool deal(const std::vector<bool>& alive);

  [[nodiscard]] std::size_t size() const { return path_.size(); }
  [[nodiscard]] std::size_t path_of(std::size_t bucket) const { return path_[bucket]; }

 private:
  [[nodiscard]] std::size_t poorest(const std::vector<std::size_t>& paths) const;
  [[nodiscard]] std::size_t bucket_to_give(std::size_t from, std::size_t to) const;
  void give(std::size_t bucket, std::size_t to);

  std::vector<std::uint32_t> weights_;
  std::vector<std::uint8_t> path_;   ///< Indexed by bucket.
  std::vector<std::uint8_t> home_;   ///< Path of each bucket if all paths live.
  std::vector<std::size_t> shares_;  ///< Indexed by path: number of its buckets.
};

}  // namespace ipoib::route
