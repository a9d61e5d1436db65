// SPDX-License-Identifier: BSD-3-Clause
// Subscribes to the SA's reports of created and deleted multicast groups (traps 66 and 67) and, if the
// link shares addresses, of ports that come into service and go out of it (traps 64 and 65), again
// after every event that may have made the SA forget, and periodically. Source: RFC 4391 §10, §11.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "lib/base/clock.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/jitter.h"
#include "lib/link/log_limit.h"
#include "lib/sa/client.h"

namespace ipoib::link {

/// A subscription belongs to the port, and other links of the port may need it: each link renews
/// it, and the last one ends it.
class TrapSubscription {
 public:
  /// References are kept. `on_subscribed` is called once after each renew(): the SA reports the
  /// groups that are created from now on.
  TrapSubscription(const LinkConfig& config, sa::Client& sa, LinkCounters& counters,
                   std::uint64_t seed, std::function<void(TimePoint)> on_subscribed);
  ~TrapSubscription();
  TrapSubscription(const TrapSubscription&) = delete;
  TrapSubscription& operator=(const TrapSubscription&) = delete;

  /// Subscribes soon, with a delay so that not all nodes subscribe at once. Reports of subscriptions
  /// before are forgotten.
  void renew(TimePoint now);
  /// Sends no more requests; existing subscriptions stay.
  void stop();
  /// The link ends. The last link of the port ends the subscriptions.
  void end(TimePoint now);
  /// True after end() when the SA has answered.
  [[nodiscard]] bool ended() const;

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  [[nodiscard]] std::size_t traps() const;
  void unsubscribe(std::size_t first, std::size_t end, TimePoint now);
  void on_answer(std::size_t which, const sa::Outcome& outcome, TimePoint now);

  const LinkConfig& config_;
  sa::Client& sa_;
  LinkCounters& counters_;
  Jitter jitter_;
  LogLimit log_limit_{std::chrono::minutes(1), 10};
  std::function<void(TimePoint)> on_subscribed_;
  bool renewed_ = false;  ///< `on_subscribed_` is not called yet.
  std::array<sa::TransactionId, 4> transactions_{};
  bool holding_ = false;  ///< Counted as a subscriber of the port.
  Duration backoff_{};
  std::optional<TimePoint> due_;
};

}  // namespace ipoib::link
