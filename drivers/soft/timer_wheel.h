// SPDX-License-Identifier: BSD-3-Clause
// Deadlines of many queues, kept so that those which are not due cost nothing: a wheel of buckets,
// one a tick. Setting a deadline later than it was, as every ACK does, moves nothing.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace ipoib::soft {

/// Cycles of that time, rounded up.
[[nodiscard]] constexpr std::uint64_t tsc_of_ns(std::uint64_t ns, std::uint64_t tsc_hz) noexcept {
  constexpr std::uint64_t kPerSecond = 1'000'000'000;
  return ns / kPerSecond * tsc_hz + ns % kPerSecond * tsc_hz / kPerSecond + 1;
}

/// Base of what has a deadline. Must not be linked any more when it goes: disarm().
class Timed {
 public:
  Timed() = default;
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  [[nodiscard]] bool armed() const noexcept { return deadline_tsc_ != 0; }

 private:
  friend class TimerWheel;
  Timed* prev_ = nullptr;
  Timed* next_ = nullptr;           ///< Null: in no bucket.
  std::uint64_t tick_ = 0;          ///< Of its bucket.
  std::uint64_t deadline_tsc_ = 0;  ///< 0: none.
};

/// One thread.
class TimerWheel {
 public:
  static constexpr unsigned kBuckets = 1024;
  /// A deadline is noticed so much too late at most, never too early.
  static constexpr std::uint64_t kTicksPerSecond = 8192;

  /// The tick is the power of two below tsc_hz / kTicksPerSecond.
  TimerWheel(std::uint64_t tsc_hz, std::uint64_t now_tsc) noexcept
      : shift_{tsc_hz > kTicksPerSecond
                   ? static_cast<unsigned>(std::bit_width(tsc_hz / kTicksPerSecond)) - 1
                   : 0},
        next_tick_{now_tsc >> shift_} {
    for (Timed& head : heads_) head.prev_ = head.next_ = &head;
  }
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  /// In place of the deadline it may have.
  void arm(Timed& node, std::uint64_t deadline_tsc) noexcept {
    node.deadline_tsc_ = deadline_tsc | 1;  // never 0
    const std::uint64_t tick = bucket_tick(deadline_tsc);
    if (node.next_ != nullptr) {
      if (node.tick_ <= tick) return;  // its bucket comes first and puts it right
      unlink(node);
    }
    link(node, tick);
  }
  /// It may stay linked; what it is part of must not go.
  static void cancel(Timed& node) noexcept { node.deadline_tsc_ = 0; }
  static void disarm(Timed& node) noexcept {
    cancel(node);
    if (node.next_ != nullptr) unlink(node);
  }

  /// Calls due(node) for each whose deadline is over. It has none any more and may be armed anew;
  /// others are not to be touched.
  template <class Due>
  void expire(std::uint64_t now_tsc, Due&& due) noexcept {
    const std::uint64_t now_tick = now_tsc >> shift_;
    if (next_tick_ >= now_tick) [[likely]]
      return;
    // A whole turn looks at everything.
    if (now_tick - next_tick_ > kBuckets) next_tick_ = now_tick - kBuckets;
    while (next_tick_ < now_tick) {
      Timed& head = heads_[next_tick_++ % kBuckets];
      Timed* node = head.next_;
      if (node == &head) continue;
      // Taken out as a whole: what is linked meanwhile belongs to later ticks.
      head.prev_->next_ = nullptr;
      head.prev_ = head.next_ = &head;
      while (node != nullptr) {
        Timed& one = *node;
        node = node->next_;
        one.next_ = one.prev_ = nullptr;
        if (one.deadline_tsc_ == 0) continue;
        if (one.deadline_tsc_ > now_tsc) {
          link(one, bucket_tick(one.deadline_tsc_));
          continue;
        }
        one.deadline_tsc_ = 0;
        due(one);
      }
    }
  }

 private:
  [[nodiscard]] std::uint64_t bucket_tick(std::uint64_t deadline_tsc) const noexcept {
    const std::uint64_t tick = deadline_tsc >> shift_;
    if (tick < next_tick_) return next_tick_;
    return tick - next_tick_ < kBuckets ? tick : next_tick_ + kBuckets - 1;
  }
  void link(Timed& node, std::uint64_t tick) noexcept {
    Timed& head = heads_[tick % kBuckets];
    node.tick_ = tick;
    node.prev_ = head.prev_;
    node.next_ = &head;
    head.prev_->next_ = &node;
    head.prev_ = &node;
  }
  static void unlink(Timed& node) noexcept {
    node.prev_->next_ = node.next_;
    node.next_->prev_ = node.prev_;
    node.next_ = node.prev_ = nullptr;
  }

  unsigned shift_;
  std::uint64_t next_tick_;  ///< Not looked at yet.
  std::array<Timed, kBuckets> heads_;
};

}  // namespace ipoib::soft
