// SPDX-License-Identifier: BSD-3-Clause
// Which path of an ECMP group each bucket of flows takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ipoib::route {

/// The number of buckets is fixed, so that a flow stays in its bucket, and a bucket changes its
/// path only when that path dies or a path that came back is given its share. Living paths have
/// equal numbers of buckets, give or take one.
class Buckets {
 public:
  /// All paths live. paths: 1 to 256; buckets: at least as many.
  Buckets(std::size_t paths, std::size_t buckets);

  /// Deals anew what has to be. alive[i]: path i lives. Where none does, all stays as it is, so the
  /// path that died last is still tried. True: a bucket changed its path.
  bool deal(const std::vector<bool>& alive);

  [[nodiscard]] std::size_t size() const { return path_.size(); }
  [[nodiscard]] std::size_t path_of(std::size_t bucket) const { return path_[bucket]; }

 private:
  [[nodiscard]] std::size_t bucket_to_give(std::size_t from, std::size_t to) const;

  std::vector<std::uint8_t> path_;   ///< By bucket.
  std::vector<std::size_t> shares_;  ///< By path: number of its buckets.
};

}  // namespace ipoib::route
