// SPDX-License-Identifier: BSD-3-Clause
// When a name may be given to something else.
//
// Workers, messages and packets under way name things by number (address handles, neighbours, next
// hops) or by pointer (connected queues). Such a name goes through three steps: workers can find it
// nowhere any more, or the messages that take it out of their tables are sent; start() is called;
// over() says that no worker, message or packet is left that has it. Only then is the number given
// to something else, or the memory freed.
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
  /// Call when the last way to a name is taken away. Messages may be sent a little later, but
  /// before the loop's turn ends.
  virtual std::uint64_t start() = 0;
  /// Whatever knew a name when start() returned `token` has forgotten it.
  [[nodiscard]] virtual bool over(std::uint64_t token) const = 0;
};

/// For those who have no workers: nobody else knows a name, so everything is over at once.
[[nodiscard]] inline Retirement& no_workers() {
  struct NoWorkers final : Retirement {
    std::uint64_t start() override { return 0; }
    [[nodiscard]] bool over(std::uint64_t) const override { return true; }
  };
  static NoWorkers stateless;
  return stateless;
}

/// Values put aside until their period is over, oldest first. `Period`: Retirement, or Grace where
/// workers know the value for no longer than a loop.
template <class T>
class Retired {
 public:
  template <class Period>
  void add(T value, Period& period) {
    items_.emplace_back(period.start(), std::move(value));
  }

  /// Hands every value whose period is over to `release`; never waits.
  template <class Period, class Release>
  void reclaim(const Period& period, Release&& release) {
    while (!items_.empty() && period.over(items_.front().first)) {
      release(std::move(items_.front().second));
      items_.pop_front();
    }
  }
  /// There are no workers any more.
  template <class Release>
  void reclaim_all(Release&& release) {
    for (; !items_.empty(); items_.pop_front()) release(std::move(items_.front().second));
  }

  [[nodiscard]] std::size_t size() const { return items_.size(); }

 private:
  std::deque<std::pair<std::uint64_t, T>> items_;
};

}  // namespace ipoib::fabric
