// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/membership_check.h"

#include <algorithm>
#include <utility>

#include "lib/sa/queries.h"

namespace ipoib::link {

MembershipCheck::MembershipCheck(const LinkConfig& config, sa::Client& sa, Forgotten forgotten,
                                 std::uint64_t seed)
    : config_{config},
      sa_{sa},
      forgotten_{std::move(forgotten)},
      jitter_{seed},
      interval_{config.membership_check} {}

MembershipCheck::~MembershipCheck() {
  stop();
}

void MembershipCheck::start(const wire::Gid& mgid, const wire::Gid& port, TimePoint now) {
  const TimePoint due = due_.value_or(kNever);
  stop();
  if (config_.membership_check <= Duration::zero()) return;
  mgid_ = mgid;
  port_ = port;
  // Confirmations of the membership may come as often as the checks.
  due_ = std::min(due, now + jitter_.around(interval_, kSpread));
}

void MembershipCheck::stop() {
  sa_.cancel(std::exchange(transaction_, sa::kNoTransaction));
  due_.reset();
}

/// A query that is still unanswered is given up for a new one, because the pauses between the
/// retries of one query grow.
void MembershipCheck::tick(TimePoint now) {
  if (!due_ || now < *due_) return;
  sa_.cancel(transaction_);
  due_ = now + jitter_.around(interval_, kSpread);
  transaction_ = sa_.submit(
      sa::find_member(mgid_, port_),
      [this](const sa::Outcome& outcome, TimePoint at) {
        transaction_ = sa::kNoTransaction;
        on_answer(outcome, at);
      },
      now);
}

void MembershipCheck::on_answer(const sa::Outcome& outcome, TimePoint now) {
  if (outcome) {
    if (interval_ == config_.membership_check) return;
    interval_ = config_.membership_check;
    due_ = now + jitter_.around(interval_, kSpread);
    return;
  }
  if (!sa_says_no(outcome.error())) return;
  const bool first = interval_ == config_.membership_check;
  interval_ = std::max(std::min(2 * interval_, config_.membership_refresh), interval_);
  const bool unknown =
      outcome.error().status == static_cast<std::uint16_t>(wire::MadStatus::kSaNoRecords);
  if (first && unknown) forgotten_(now);
}

}  // namespace ipoib::link
