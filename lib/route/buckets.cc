// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ipoib::route {

Buckets::Buckets(std::vector<std::uint32_t> weights, std::size_t buckets)
    : weights_{std::move(weights)}, path_(buckets), shares_(weights_.size()) {
  std::vector<std::size_t> all(weights_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::uint8_t& path : path_) {
    const std::size_t p = poorest(all);
    path = static_cast<std::uint8_t>(p);
    ++shares_[p];
  }
  home_ = path_;
}

void Buckets::take_over(const Buckets& old, const std::vector<std::size_t>& path_of_old) {
  for (std::size_t i = 0; i < size(); ++i) {
    // The highest bits of a flow's hash are the number of its bucket.
    const std::size_t path = path_of_old[old.path_of(i * old.size() / size())];
    if (path < shares_.size()) give(i, path);
  }
}

/// The path that has the fewest buckets for its weight with one bucket more.
std::size_t Buckets::poorest(const std::vector<std::size_t>& paths) const {
  return *std::ranges::min_element(paths, [this](std::size_t a, std::size_t b) {
    return (shares_[a] + 1) * weights_[b] < (shares_[b] + 1) * weights_[a];
  });
}

/// Prefers a bucket whose home is `to`, so that after an outage most flows return to their old
/// path.
std::size_t Buckets::bucket_to_give(std::size_t from, std::size_t to) const {
  std::size_t any = 0;
  for (std::size_t i = 0; i < path_.size(); ++i) {
    if (path_[i] != from) continue;
    if (home_[i] == to) return i;
    any = i;
  }
  return any;
}

void Buckets::give(std::size_t bucket, std::size_t to) {
  --shares_[path_[bucket]];
  ++shares_[to];
  path_[bucket] = static_cast<std::uint8_t>(to);
}

bool Buckets::deal(const std::vector<bool>& alive) {
  std::vector<std::size_t> living;
  for (std::size_t p = 0; p < shares_.size(); ++p)
    if (alive[p]) living.push_back(p);
  if (living.empty()) return false;
  const auto cost = [this](std::size_t p, std::size_t more, std::size_t other) {
    return (shares_[p] + more) * weights_[other];
  };

  bool changed = false;
  for (std::size_t i = 0; i < path_.size(); ++i) {
    if (alive[path_[i]]) continue;
    const std::size_t home = home_[i], poor = poorest(living);
    give(i, alive[home] && cost(home, 1, poor) == cost(poor, 1, home) ? home : poor);
    changed = true;
  }
  for (;;) {
    const std::size_t poor = poorest(living);
    const std::size_t rich = *std::ranges::max_element(
        living, [&](std::size_t a, std::size_t b) { return cost(a, 0, b) < cost(b, 0, a); });
    if (cost(poor, 1, rich) >= cost(rich, 0, poor)) return changed;
    give(bucket_to_give(rich, poor), poor);
    changed = true;
  }
}

}  // namespace ipoib::route
