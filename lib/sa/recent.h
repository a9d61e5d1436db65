// SPDX-License-Identifier: BSD-3-Clause
// Remembers recent keys with values, bounded in time and number, to detect late copies of MADs.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "lib/base/clock.h"

namespace ipoib::sa {

template <class Key, class Value>
class Recent {
 public:
  Recent(Duration keep, std::size_t capacity) : keep_{keep}, capacity_{capacity} {}

  /// An existing key gets the new value and keeps its expiry time.
  void add(const Key& key, const Value& value, TimePoint now) {
    forget(now);
    if (!values_.insert_or_assign(key, value).second) return;
    order_.emplace_back(now + keep_, key);
    if (order_.size() > capacity_) drop_oldest();
  }
  [[nodiscard]] const Value* find(const Key& key, TimePoint now) {
    forget(now);
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : &it->second;
  }
  void clear() {
    values_.clear();
    order_.clear();
  }

 private:
  void drop_oldest() {
    values_.erase(order_.front().second);
    order_.pop_front();
  }
  void forget(TimePoint now) {
    while (!order_.empty() && order_.front().first <= now) drop_oldest();
  }

  Duration keep_;
  std::size_t capacity_;
  std::map<Key, Value> values_;
  std::deque<std::pair<TimePoint, Key>> order_;  ///< Oldest first, with the expiry time.
};

}  // namespace ipoib::sa
