// SPDX-License-Identifier: BSD-3-Clause
// Histogram of numbers: linear up to 256, then 128 buckets per doubling, so that a bucket is
// precise to better than 1 % over the whole range, in fixed memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/contract.h"
#include "lib/base/counters.h"

namespace ipoib::fwd {

/// One writer, any readers.
class Histogram {
 public:
  static constexpr unsigned kMaxBits = 40;
  static constexpr std::uint64_t kMax = (std::uint64_t{1} << kMaxBits) - 1;
  static constexpr std::size_t kBuckets = (kMaxBits - 8) * std::size_t{128} + 256;
  using Counts = std::array<std::uint64_t, kBuckets>;

  /// Values above kMax count as kMax.
  void add(std::uint64_t value) noexcept { buckets_[bucket_of(std::min(value, kMax))].add(1); }
  void add_to(Counts& counts) const noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += buckets_[i].get();
  }

  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    if (value < 256) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 8;
    return shift * std::size_t{128} + (value >> shift);
  }
  /// Smallest and largest number that the bucket counts.
  [[nodiscard]] static constexpr std::uint64_t lowest(std::size_t bucket) noexcept {
    if (bucket < 256) return bucket;
    return (bucket % 128 + 128) << (bucket / 128 - 1);
  }
  [[nodiscard]] static constexpr std::uint64_t highest(std::size_t bucket) noexcept {
    return lowest(bucket + 1) - 1;
  }

  /// Returns the percentile `share` (0 to 1), rounded up to the largest number of its bucket; 0 if
  /// nothing was counted.
  [[nodiscard]] static std::uint64_t percentile(const Counts& counts, double share) noexcept {
    expects(share >= 0 && share <= 1, "the share is one of 1");
    std::uint64_t all = 0;
    for (const auto n : counts) all += n;
    const double wanted = std::max(1.0, share * static_cast<double>(all));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts[i];
      if (seen != 0 && static_cast<double>(seen) >= wanted) return highest(i);
    }
    return 0;
  }

 private:
  std::array<Counter, kBuckets> buckets_;
};

}  // namespace ipoib::fwd
