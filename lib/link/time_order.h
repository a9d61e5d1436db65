// SPDX-License-Identifier: BSD-3-Clause
// Keys ordered by a time: next timer, least recent use. Finding the first key and moving a key cost
// O(log n), so a tick never visits all 65,536 neighbours.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/clock.h"

namespace ipoib::link {

inline constexpr TimePoint kNever = TimePoint::max();

/// Keys with equal times are ordered by key, so that simulations are reproducible.
template <class Key>
class TimeOrder {
 public:
  /// Moves `key` to `when`; kNever removes it. `current`: the time under which the key is stored.
  /// The caller keeps it with the key's other state, kNever at first.
  void set(const Key& key, TimePoint& current, TimePoint when) {
    if (when == current) return;
    if (current != kNever) order_.erase({current, key});
    if (when != kNever) order_.emplace(when, key);
    current = when;
  }
  [[nodiscard]] std::optional<TimePoint> next() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->first;
  }
  [[nodiscard]] std::optional<Key> first() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->second;
  }
  /// The first key, if its time has come. It stays until set() moves it.
  [[nodiscard]] std::optional<Key> due(TimePoint now) const {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    return order_.begin()->second;
  }
  [[nodiscard]] std::size_t size() const { return order_.size(); }

 private:
  std::set<std::pair<TimePoint, Key>> order_;
};

}  // namespace ipoib::link
