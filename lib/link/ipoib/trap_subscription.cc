// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/trap_subscription.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/sa/queries.h"
#include "lib/wire/notice.h"

namespace ipoib::link {
namespace {

constexpr std::array kTraps = {wire::Trap::kGroupCreated, wire::Trap::kGroupDeleted,
                               wire::Trap::kGidInService, wire::Trap::kGidOutOfService};
constexpr std::size_t kGroupTraps = 2;
constexpr Duration kDelay = std::chrono::milliseconds(20);

}  // namespace

TrapSubscription::TrapSubscription(const LinkConfig& config, sa::Client& sa, LinkCounters& counters,
                                   std::uint64_t seed, std::function<void(TimePoint)> on_subscribed)
    : config_{config},
      sa_{sa},
      counters_{counters},
      jitter_{seed},
      on_subscribed_{std::move(on_subscribed)} {}

TrapSubscription::~TrapSubscription() {
  stop();
  if (!holding_) return;
  static_cast<void>(sa_.remove_subscriber());
  if (traps() > kGroupTraps) static_cast<void>(sa_.remove_subscriber(sa::Subscription::kPorts));
}

/// Number of traps of this link.
std::size_t TrapSubscription::traps() const {
  return config_.shared.addresses.empty() ? kGroupTraps : kTraps.size();
}

void TrapSubscription::renew(TimePoint now) {
  if (!std::exchange(holding_, true)) {
    sa_.add_subscriber();
    if (traps() > kGroupTraps) sa_.add_subscriber(sa::Subscription::kPorts);
  }
  sa_.forget_reports();
  backoff_ = config_.group.backoff_min;
  renewed_ = true;
  due_ = now + jitter_.around(kDelay, 100);
}

void TrapSubscription::stop() {
  for (auto& id : transactions_) sa_.cancel(std::exchange(id, sa::kNoTransaction));
  due_.reset();
}

void TrapSubscription::end(TimePoint now) {
  stop();
  if (!std::exchange(holding_, false)) return;
  if (sa_.remove_subscriber()) unsubscribe(0, kGroupTraps, now);
  if (traps() > kGroupTraps && sa_.remove_subscriber(sa::Subscription::kPorts))
    unsubscribe(kGroupTraps, kTraps.size(), now);
}

/// A refusal is ignored: an SA that has lost the subscriptions refuses.
void TrapSubscription::unsubscribe(std::size_t first, std::size_t end, TimePoint now) {
  for (std::size_t i = first; i < end; ++i)
    transactions_[i] = sa_.submit(
        sa::unsubscribe(kTraps[i]),
        [this, i](const sa::Outcome&, TimePoint) { transactions_[i] = sa::kNoTransaction; }, now);
}

bool TrapSubscription::ended() const {
  return std::all_of(transactions_.begin(), transactions_.end(),
                     [](sa::TransactionId id) { return id == sa::kNoTransaction; });
}

void TrapSubscription::tick(TimePoint now) {
  if (!due_ || now < *due_) return;
  due_.reset();
  if (config_.membership_refresh > Duration::zero())
    due_ = now + jitter_.around(config_.membership_refresh, kSpread);
  for (std::size_t i = 0; i < traps(); ++i) {
    if (transactions_[i] != sa::kNoTransaction) continue;
    transactions_[i] = sa_.submit(
        sa::subscribe(kTraps[i]),
        [this, i](const sa::Outcome& outcome, TimePoint at) {
          transactions_[i] = sa::kNoTransaction;
          on_answer(i, outcome, at);
        },
        now);
  }
}

void TrapSubscription::on_answer(std::size_t which, const sa::Outcome& outcome, TimePoint now) {
  if (outcome) {
    backoff_ = config_.group.backoff_min;
    if (kTraps[which] == wire::Trap::kGroupCreated && std::exchange(renewed_, false))
      on_subscribed_(now);
    return;
  }
  ++counters_.subscriptions_failed;
  if (const auto suppressed = log_limit_.allow(now))
    log(LogArea::kLink, LogLevel::kWarning,
        "{}: cannot subscribe to trap {}: {} ({} failures suppressed)", config_.name,
        static_cast<unsigned>(kTraps[which]), sa::describe(outcome.error()), *suppressed);
  const auto again = now + jitter_.around(backoff_, kSpread);
  due_ = due_ ? std::min(*due_, again) : again;
  backoff_ = std::min(backoff_ * 2, config_.group.backoff_max);
}

}  // namespace ipoib::link
