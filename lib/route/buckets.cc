// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/buckets.h"

#include <algorithm>

namespace ipoib::route {
namespace {

/// If all paths live, bucket i belongs to path i, modulo the number of paths.
std::size_t home_of(std::size_t bucket, std::size_t paths) {
  return bucket % paths;
}

}  // namespace

Buckets::Buckets(std::size_t paths, std::size_t buckets) : path_(buckets), shares_(paths) {
  for (std::size_t i = 0; i < buckets; ++i) {
    path_[i] = static_cast<std::uint8_t>(home_of(i, paths));
    ++shares_[path_[i]];
  }
}

/// Prefers a bucket whose home is `to`, so that after an outage most flows return to their old
/// path.
std::size_t Buckets::bucket_to_give(std::size_t from, std::size_t to) const {
  std::size_t any = 0;
  for (std::size_t i = 0; i < path_.size(); ++i) {
    if (path_[i] != from) continue;
    if (home_of(i, shares_.size()) == to) return i;
    any = i;
  }
  return any;
}

bool Buckets::deal(const std::vector<bool>& alive) {
  std::vector<std::size_t> living;
  for (std::size_t p = 0; p < shares_.size(); ++p)
    if (alive[p]) living.push_back(p);
  if (living.empty()) return false;
  const auto less = [this](std::size_t a, std::size_t b) { return shares_[a] < shares_[b]; };
  const auto give = [this](std::size_t bucket, std::size_t to) {
    --shares_[path_[bucket]];
    ++shares_[to];
    path_[bucket] = static_cast<std::uint8_t>(to);
  };

  bool changed = false;
  for (std::size_t i = 0; i < path_.size(); ++i) {
    if (alive[path_[i]]) continue;
    const std::size_t home = home_of(i, shares_.size());
    const std::size_t poorest = *std::ranges::min_element(living, less);
    give(i, alive[home] && shares_[home] == shares_[poorest] ? home : poorest);
    changed = true;
  }
  for (;;) {
    const auto [poorest, richest] = std::ranges::minmax_element(living, less);
    if (shares_[*poorest] + 1 >= shares_[*richest]) return changed;
    give(bucket_to_give(*richest, *poorest), *poorest);
    changed = true;
  }
}

}  // namespace ipoib::route
