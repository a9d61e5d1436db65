// SPDX-License-Identifier: BSD-3-Clause
// Asks the SA to be told of multicast groups that come and go (traps 66 and 67), again after every
// event that may have made it forget, and from time to time. Source: RFC 4391 §10, §11.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lib/base/clock.h"
#include "lib/link/ipoib_types.h"
#include "lib/link/jitter.h"
#include "lib/sa/client.h"

namespace ipoib::link {

/// A subscription is the port's, and other links of the port may need it: it is renewed by each and
/// ended by the last.
class TrapSubscription {
 public:
  /// References are kept.
  TrapSubscription(const LinkConfig& config, sa::Client& sa, LinkCounters& counters,
                   std::uint64_t seed);
  ~TrapSubscription();
  TrapSubscription(const TrapSubscription&) = delete;
  TrapSubscription& operator=(const TrapSubscription&) = delete;

  /// Subscribes soon, not at the very moment when all others do.
  void renew(TimePoint now);
  /// Asks nothing more; what is subscribed stays.
  void stop();
  /// The link ends. Where it was the last to need them, the subscriptions are ended.
  void end(TimePoint now);
  /// After end(): the SA has answered.
  [[nodiscard]] bool ended() const;

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  void on_answer(std::size_t which, const sa::Outcome& outcome, TimePoint now);

  const LinkConfig& config_;
  sa::Client& sa_;
  LinkCounters& counters_;
  Jitter jitter_;
  std::array<sa::TransactionId, 2> transactions_{};
  bool holding_ = false;  ///< Counted as a subscriber of the port.
  Duration backoff_{};
  std::optional<TimePoint> due_;
};

}  // namespace ipoib::link
