// SPDX-License-Identifier: BSD-3-Clause
// Deadlines of many queues, kept so that queues which are not due cost nothing: a wheel with one
// bucket per tick. Moving a deadline to a later time, as every ACK does, relinks nothing.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace ipoib::soft {

/// Converts nanoseconds to cycles, rounded up to the next greater number.
[[nodiscard]] constexpr std::uint64_t tsc_of_ns(std::uint64_t ns, std::uint64_t tsc_hz) noexcept {
  constexpr std::uint64_t kPerSecond = 1'000'000'000;
  return ns / kPerSecond * tsc_hz + ns % kPerSecond * tsc_hz / kPerSecond + 1;
}

/// Base class of objects with a deadline. Must be unlinked before its destruction: disarm().
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
  std::uint64_t tick_ = 0;          ///< Tick of its bucket.
  std::uint64_t deadline_tsc_ = 0;  ///< 0: no deadline.
};

/// For use by one thread.
class TimerWheel {
 public:
  static constexpr unsigned kBuckets = 1024;
  /// A deadline is noticed at most one tick late, and never early; this many ticks per second or
  /// more.
  static constexpr std::uint64_t kTicksPerSecond = 8192;

  /// A tick is the largest power of two of cycles that does not exceed tsc_hz / kTicksPerSecond.
  TimerWheel(std::uint64_t tsc_hz, std::uint64_t now_tsc) noexcept
      : shift_{tsc_hz > kTicksPerSecond
                   ? static_cast<unsigned>(std::bit_width(tsc_hz / kTicksPerSecond)) - 1
                   : 0},
        next_tick_{now_tsc >> shift_} {
    for (Timed& head : heads_) head.prev_ = head.next_ = &head;
  }
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  /// Sets the deadline, replacing the previous one.
  void arm(Timed& node, std::uint64_t deadline_tsc) noexcept {
    node.deadline_tsc_ = deadline_tsc | 1;  // never 0
    const std::uint64_t tick = bucket_tick(deadline_tsc);
    if (node.next_ != nullptr) {
      if (node.tick_ <= tick) return;  // its bucket is visited first and relinks it
      unlink(node);
    }
    link(node, tick);
  }
  /// Clears the deadline. The node may stay linked, so it must not be destroyed before disarm().
  static void cancel(Timed& node) noexcept { node.deadline_tsc_ = 0; }
  static void disarm(Timed& node) noexcept {
    cancel(node);
    if (node.next_ != nullptr) unlink(node);
  }

  /// Calls due(node) for each node with an expired deadline. The node has no deadline then and may
  /// be armed again; due() must not modify other nodes.
  template <class Due>
  void expire(std::uint64_t now_tsc, Due&& due) noexcept {
    const std::uint64_t now_tick = now_tsc >> shift_;
    if (next_tick_ >= now_tick) [[likely]]
      return;
    // One turn of the wheel visits all buckets.
    if (now_tick - next_tick_ > kBuckets) next_tick_ = now_tick - kBuckets;
    while (next_tick_ < now_tick) {
      Timed& head = heads_[next_tick_++ % kBuckets];
      Timed* node = head.next_;
      if (node == &head) continue;
      // The whole list is removed at once: nodes linked meanwhile belong to later ticks.
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
  std::uint64_t next_tick_;  ///< First tick not visited yet.
  std::array<Timed, kBuckets> heads_;
};

}  // namespace ipoib::soft
