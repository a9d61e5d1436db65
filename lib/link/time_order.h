// SPDX-License-Identifier: BSD-3-Clause
// Keys in the order of a time each: what is due next, what was used longest ago. Finding the first
// and moving one cost O(log n), so a tick never looks at all 65,536 neighbours.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/clock.h"

namespace ipoib::link {

inline constexpr TimePoint kNever = TimePoint::max();

/// Keys of equal time are ordered by key, so that a simulation runs the same way every time.
template <class Key>
class TimeOrder {
 public:
  /// Moves `key` to `when`; kNever takes it out. `current` is where this order last put it, kept
  /// by the caller beside the key's other state and kNever at first.
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
  /// First key whose time has come; it stays until set() moves it.
  [[nodiscard]] std::optional<Key> due(TimePoint now) const {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    return order_.begin()->second;
  }
  [[nodiscard]] std::size_t size() const { return order_.size(); }

 private:
  std::set<std::pair<TimePoint, Key>> order_;
};

}  // namespace ipoib::link
