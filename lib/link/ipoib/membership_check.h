// SPDX-License-Identifier: BSD-3-Clause
// Asks the SA every few seconds if it still knows the membership of the broadcast group. An SA that
// restarts at its LID has lost all memberships and subscriptions, and no event needs to report it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lib/base/clock.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/jitter.h"
#include "lib/sa/client.h"
#include "lib/wire/gid.h"

namespace ipoib::link {

/// A query changes nothing at the SA and is cheap for it: with the usual interval, 1,000 links ask
/// 333 times in a second. An SA that is silent is asked at that interval too, so that its return is
/// noticed. One that does not show memberships, perhaps to trusted requests only, is asked less and
/// less often, down to the interval of confirmations, and has forgotten the membership once at most.
class MembershipCheck {
 public:
  using Forgotten = std::function<void(TimePoint now)>;

  /// References are kept. `forgotten` is called from tick() of the client when the SA answers that
  /// there is no such membership.
  MembershipCheck(const LinkConfig& config, sa::Client& sa, Forgotten forgotten,
                  std::uint64_t seed);
  ~MembershipCheck();
  MembershipCheck(const MembershipCheck&) = delete;
  MembershipCheck& operator=(const MembershipCheck&) = delete;

  /// The SA has granted this membership.
  void start(const wire::Gid& mgid, const wire::Gid& port, TimePoint now);
  void stop();

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  void on_answer(const sa::Outcome& outcome, TimePoint now);

  const LinkConfig& config_;
  sa::Client& sa_;
  Forgotten forgotten_;
  Jitter jitter_;
  wire::Gid mgid_{};
  wire::Gid port_{};
  Duration interval_;
  sa::TransactionId transaction_ = sa::kNoTransaction;
  std::optional<TimePoint> due_;
};

}  // namespace ipoib::link
