// SPDX-License-Identifier: BSD-3-Clause
// Decides when a name may be reused.
//
// Workers, messages and packets in flight name objects by number (address handles, neighbours, next
// hops) or by pointer (connected queues). A name is retired in three steps: workers can no longer
// find it, or the messages that remove it from their tables are sent; start() is called; over()
// reports that no worker, message or packet has it any more. Only then is the number reused, or the
// memory freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace ipoib::fabric {

/// Management lcore only.
class Retirement {
 public:
  virtual ~Retirement() = default;
  /// Call when the last reference to a name is removed. Messages may be sent a little later, but
  /// before the loop's turn ends.
  virtual std::uint64_t start() = 0;
  /// True if all holders of a name at the time when start() returned `token` have released it.
  [[nodiscard]] virtual bool over(std::uint64_t token) const = 0;
};

/// For code without workers: no other code holds a name, so every period is over at once.
[[nodiscard]] inline Retirement& no_workers() {
  struct NoWorkers final : Retirement {
    std::uint64_t start() override { return 0; }
    [[nodiscard]] bool over(std::uint64_t) const override { return true; }
  };
  static NoWorkers stateless;
  return stateless;
}

/// Keeps values until their period is over, oldest first. `Period`: Retirement, or Grace if workers
/// hold the value for no longer than a loop.
template <class T>
class Retired {
 public:
  template <class Period>
  void add(T value, Period& period) {
    items_.emplace_back(period.start(), std::move(value));
  }

  /// Passes every value whose period is over to `release`. Does not block.
  template <class Period, class Release>
  void reclaim(const Period& period, Release&& release) {
    while (!items_.empty() && period.over(items_.front().first)) {
      release(std::move(items_.front().second));
      items_.pop_front();
    }
  }
  /// Releases every value. No worker may run any more.
  template <class Release>
  void reclaim_all(Release&& release) {
    for (; !items_.empty(); items_.pop_front()) release(std::move(items_.front().second));
  }

  [[nodiscard]] std::size_t size() const { return items_.size(); }

 private:
  std::deque<std::pair<std::uint64_t, T>> items_;
};

}  // namespace ipoib::fabric
