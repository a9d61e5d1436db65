#include "lib/link/broadcast_membership.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/sa/queries.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {
namespace {

constexpr Duration kLeaveTimeout = std::chrono::seconds(2);
constexpr unsigned kSpread = 20;

}  // namespace

BroadcastMembership::BroadcastMembership(const LinkConfig& config, LinkActions& actions,
                                         sa::Client& sa, LinkCounters& counters,
                                         MembershipOwner& owner, std::uint64_t seed)
    : config_{config},
      actions_{actions},
      sa_{sa},
      counters_{counters},
      owner_{owner},
      jitter_{seed},
      backoff_{config.join_backoff_min} {}

BroadcastMembership::~BroadcastMembership() {
  sa_.cancel(transaction_);
}

void BroadcastMembership::cancel() {
  sa_.cancel(std::exchange(transaction_, sa::kNoTransaction));
}

void BroadcastMembership::start(TimePoint now) {
  backoff_ = config_.join_backoff_min;
  state_ = State::kWaiting;
  reason_.clear();
  join(now);
}

void BroadcastMembership::stop(TimePoint now) {
  cancel();
  due_.reset();
  reason_.clear();
  if (!std::exchange(asked_, false)) return left(now);
  state_ = State::kLeaving;
  due_ = now + kLeaveTimeout;
  transaction_ = sa_.submit(
      sa::leave_group(mgid(), actions_.port().gid(), config_.pkey, wire::join_state::kFullMember),
      [this](const sa::Outcome& outcome, TimePoint at) {
        transaction_ = sa::kNoTransaction;
        if (!outcome)
          log(LogArea::kLink, LogLevel::kInfo, "{}: leave of {}: {}", config_.name,
              wire::to_string(mgid()), sa::describe(outcome.error()));
        left(at);
      },
      now);
  owner_.on_membership_changed(now);
}

void BroadcastMembership::left(TimePoint now) {
  state_ = State::kLeft;
  due_.reset();
  owner_.on_membership_changed(now);
}

void BroadcastMembership::ask_again(TimePoint now) {
  if (state_ != State::kWaiting && state_ != State::kJoining && state_ != State::kMember) return;
  cancel();
  backoff_ = config_.join_backoff_min;
  join(now);
}

wire::Gid BroadcastMembership::mgid() const {
  return wire::broadcast_mgid(config_.pkey, config_.scope);
}

std::string BroadcastMembership::what() const {
  return fmt::format("join of {} with P_Key 0x{:04x} (SM at LID {})", wire::to_string(mgid()),
                     config_.pkey | wire::kFullMemberBit, actions_.port().sm_lid);
}

void BroadcastMembership::join(TimePoint now) {
  due_.reset();
  began_ = now;
  if (const auto may = owner_.may_join(); !may) {
    give_reason(may.error().what, State::kWaiting, now);
    return try_later(now);
  }
  ++counters_.joins_sent;
  asked_ = true;
  transaction_ = sa_.submit(
      // Only what joining an existing group takes: a link does not create its group by accident.
      sa::join_group(mgid(), actions_.port().gid(), config_.pkey, wire::join_state::kFullMember),
      [this](const sa::Outcome& outcome, TimePoint at) {
        transaction_ = sa::kNoTransaction;
        on_answer(outcome, at);
      },
      now);
  if (state_ == State::kMember) return;
  if (reason_.empty()) reason_ = what() + ": no answer yet";
  state_ = State::kJoining;
  owner_.on_membership_changed(now);
}

void BroadcastMembership::on_answer(const sa::Outcome& outcome, TimePoint now) {
  if (!outcome) {
    on_failure(outcome.error(), now);
    return try_later(now);
  }
  if (const auto good = accept(*outcome, now); !good) {
    ++counters_.joins_failed;
    give_reason(good.error().what, State::kJoining, now);
    return try_later(now);
  }
  state_ = State::kMember;
  reason_.clear();
  backoff_ = config_.join_backoff_min;
  if (config_.membership_refresh > Duration::zero())
    due_ = now + jitter_.around(config_.membership_refresh, kSpread);
  owner_.on_membership_changed(now);
}

/// An SA that is silent or busy may be away for a moment: a member goes on as it was. One that
/// says no does not know the group any more.
void BroadcastMembership::on_failure(const sa::Failure& failure, TimePoint now) {
  ++counters_.joins_failed;
  auto why = what() + ": " + sa::describe(failure);
  if (failure.status == static_cast<std::uint16_t>(wire::MadStatus::kSaInsufficientComponents))
    why += "; the group does not exist";
  if (state_ != State::kMember || sa_says_no(failure))
    give_reason(std::move(why), State::kJoining, now);
  else
    log(LogArea::kLink, LogLevel::kWarning, "{}: {}; staying up", config_.name, why);
}

Status BroadcastMembership::accept(const sa::Reply& reply, TimePoint now) {
  const auto r = reply.record<wire::McMemberRecord>();
  if (!r) return fail(Errc::kProtocol, "{}: the answer is too short", what());
  if (r->mgid != mgid())
    return fail(Errc::kProtocol, "{}: the SA answered with {}", what(), wire::to_string(r->mgid));
  if (!wire::is_multicast_lid(r->mlid.host()))
    return fail(Errc::kProtocol, "{}: the SA answered with MLID 0x{:04x}", what(), r->mlid.host());
  return owner_.on_joined(*r, now);
}

void BroadcastMembership::give_reason(std::string reason, State state, TimePoint now) {
  state_ = state;
  if (reason != reason_) log(LogArea::kLink, LogLevel::kWarning, "{}: {}", config_.name, reason);
  reason_ = std::move(reason);
  owner_.on_membership_changed(now);
}

/// The pause counts from the beginning of the attempt: one that ended in silence was paced by the
/// SA client already.
void BroadcastMembership::try_later(TimePoint now) {
  due_ = std::max(now, began_ + jitter_.around(backoff_, kSpread));
  backoff_ = std::min(backoff_ * 2, config_.join_backoff_max);
}

void BroadcastMembership::tick(TimePoint now) {
  if (!due_ || now < *due_) return;
  if (state_ == State::kLeaving) {
    cancel();
    log(LogArea::kLink, LogLevel::kWarning, "{}: leave of {}: SA at LID {} did not answer",
        config_.name, wire::to_string(mgid()), actions_.port().sm_lid);
    return left(now);
  }
  join(now);
}

}  // namespace ipoib::link
