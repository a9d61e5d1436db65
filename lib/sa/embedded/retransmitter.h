// SPDX-License-Identifier: BSD-3-Clause
// Order and times of the transmissions of messages that are repeated until they are answered: Reports
// and SMPs. A bounded number of them is in flight, and the others wait for their turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/clock.h"

namespace ipoib::sa {

/// `Key`: names a receiver, of which one message is in flight at a time. A step with a key costs
/// O(log n), and equal times are ordered by key, so that simulations are reproducible.
template <class Key>
class Retransmitter {
 public:
  /// Transmissions and messages given up that one call of tick() handles.
  static constexpr unsigned kStepsPerTick = 64;

  Retransmitter(Duration timeout, unsigned retries, std::size_t max_outstanding)
      : timeout_{timeout}, retries_{retries}, max_outstanding_{max_outstanding} {}

  /// A new message waits for its turn behind those of all other keys. Precondition: the key has none.
  void add(const Key& key, TimePoint now) {
    last_now_ = now;
    entries_.emplace(key, Entry{.place = ++places_});
    waiting_.emplace(places_, key);
  }
  /// Ends the message of a key, if it has one.
  void remove(const Key& key, TimePoint now) {
    last_now_ = now;
    remove(key);
  }
  void remove(const Key& key) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) return;
    if (it->second.sent != 0)
      in_flight_.erase({it->second.deadline, key});
    else
      waiting_.erase(it->second.place);
    entries_.erase(it);
  }
  [[nodiscard]] bool in_flight(const Key& key) const {
    const auto it = entries_.find(key);
    return it != entries_.end() && it->second.sent != 0;
  }
  [[nodiscard]] std::size_t outstanding() const { return in_flight_.size(); }

  /// Calls `transmit` with the key and the number of earlier transmissions for messages that are due,
  /// and `give_up` with the key after the last of them was not answered; that message is removed
  /// already. The calls must not add or remove messages.
  template <class Transmit, class GiveUp>
  void tick(TimePoint now, Transmit&& transmit, GiveUp&& give_up) {
    last_now_ = now;
    for (unsigned steps = 0; steps < kStepsPerTick; ++steps) {
      if (!in_flight_.empty() && in_flight_.begin()->first <= now) {
        const Key key = in_flight_.begin()->second;
        if (const unsigned sent = entries_.at(key).sent; sent <= retries_) {
          start(key, now);
          transmit(key, sent);
        } else {
          remove(key);
          give_up(key);
        }
      } else if (may_start()) {
        const Key key = waiting_.begin()->second;
        waiting_.erase(waiting_.begin());
        start(key, now);
        transmit(key, 0U);
      } else {
        return;
      }
    }
  }
  /// The time at which tick() has work: the latest `now` passed in, so at once, while messages can
  /// start.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    if (may_start()) return last_now_;
    if (in_flight_.empty()) return std::nullopt;
    return in_flight_.begin()->first;
  }

 private:
  struct Entry {
    std::uint64_t place = 0;  ///< Its key in waiting_, until it is sent.
    unsigned sent = 0;        ///< Transmissions.
    TimePoint deadline{};     ///< Its time in in_flight_, from then on.
  };
  [[nodiscard]] bool may_start() const {
    return !waiting_.empty() && in_flight_.size() < max_outstanding_;
  }
  /// Counts a transmission now.
  void start(const Key& key, TimePoint now) {
    Entry& entry = entries_.at(key);
    if (entry.sent != 0) in_flight_.erase({entry.deadline, key});
    ++entry.sent;
    entry.deadline = now + timeout_;
    in_flight_.emplace(entry.deadline, key);
  }

  Duration timeout_;
  unsigned retries_;
  std::size_t max_outstanding_;
  std::map<Key, Entry> entries_;
  std::set<std::pair<TimePoint, Key>> in_flight_;
  std::map<std::uint64_t, Key> waiting_;
  std::uint64_t places_ = 0;
  TimePoint last_now_{};
};

}  // namespace ipoib::sa
