// SPDX-License-Identifier: BSD-3-Clause
// Membership of the broadcast group: searches the group, joins or creates it, retries for ever with
// backoff, checks and confirms the membership periodically, leaves it. Source: RFC 4391 §4.1, §5; IBA vol 1
// §15.2.5.17.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/link/ipoib/broadcast_finder.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/ipoib/membership_check.h"
#include "lib/link/jitter.h"
#include "lib/link/log_limit.h"
#include "lib/sa/client.h"
#include "lib/wire/sa_records.h"

namespace ipoib::link {

/// The link that owns the membership.
class MembershipOwner {
 public:
  virtual ~MembershipOwner() = default;
  /// Called before each join. The text of an error becomes the reason.
  virtual Status may_join() const = 0;
  /// Called for the first answer and for every confirmation. An error keeps the link down and
  /// retrying.
  virtual Status on_joined(const wire::McMemberRecord& record, TimePoint now) = 0;
  /// state() or reason() may have changed.
  virtual void on_membership_changed(TimePoint now) = 0;
  /// The SA has lost the membership, and so probably everything that it knew of the port.
  virtual void on_forgotten(TimePoint now) = 0;
  /// The group does not exist any more, or this port cannot use the group that replaced it.
  virtual void on_lost(TimePoint now) = 0;
};

class BroadcastMembership {
 public:
  enum class State : std::uint8_t { kIdle, kWaiting, kJoining, kMember, kLeaving, kLeft };

  /// References are kept. `finder`: finds the group before it is joined; null: its MGID follows
  /// from P_Key and scope.
  BroadcastMembership(const LinkConfig& config, LinkActions& actions, sa::Client& sa,
                      LinkCounters& counters, MembershipOwner& owner, BroadcastFinder* finder,
                      std::uint64_t seed);
  ~BroadcastMembership();
  BroadcastMembership(const BroadcastMembership&) = delete;
  BroadcastMembership& operator=(const BroadcastMembership&) = delete;

  void start(TimePoint now);
  /// Leaves; ends in kLeft when the SA has answered, or after a timeout.
  void stop(TimePoint now);
  /// The SA may answer differently now. A member asks soon, with a delay so that not all members
  /// ask at once.
  void ask_again(TimePoint now);
  /// The SA reports the creation or deletion of a group. If it can be this one, the SA is asked
  /// soon, because reports may be late or repeated.
  void on_created(const wire::Gid& mgid, TimePoint now);
  void on_deleted(const wire::Gid& mgid, TimePoint now);
  /// The port cannot be a member any more; joins again later.
  void lose(std::string reason, TimePoint now);

  [[nodiscard]] State state() const { return state_; }
  /// The reason why it is not a member; empty when it is.
  [[nodiscard]] const std::string& reason() const { return reason_; }

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    return state_ == State::kMember ? earlier(due_, check_.next_deadline()) : due_;
  }

 private:
  [[nodiscard]] wire::Gid mgid() const;
  [[nodiscard]] wire::Gid mgid_in(std::uint8_t scope) const;
  [[nodiscard]] bool may_be(const wire::Gid& mgid) const;
  [[nodiscard]] std::string what() const;
  [[nodiscard]] std::uint8_t first_scope() const;
  [[nodiscard]] Status may_ask() const;
  void find(TimePoint now);
  void join(TimePoint now);
  void ask_sa(TimePoint now);
  bool look_further(TimePoint now);
  void search_anew();
  void on_answer(const sa::Outcome& outcome, TimePoint now);
  Status accept(const sa::Reply& reply, TimePoint now);
  Status use_found(wire::McMemberRecord& record) const;
  void on_denied(TimePoint now);
  void on_failure(const sa::Failure& failure, TimePoint now);
  void on_forgotten(TimePoint now);
  void try_later(TimePoint now);
  void give_reason(std::string reason, State state, TimePoint now);
  bool warn(std::string_view what, TimePoint now);
  void left(TimePoint now);
  [[nodiscard]] bool withhold_leave();
  void leave_former(TimePoint now);
  void cancel();

  const LinkConfig& config_;
  LinkActions& actions_;
  sa::Client& sa_;
  LinkCounters& counters_;
  MembershipOwner& owner_;
  BroadcastFinder* finder_;
  Jitter jitter_;
  LogLimit log_limit_{std::chrono::minutes(1), 10};
  MembershipCheck check_;  ///< In state kMember.
  State state_ = State::kIdle;
  std::string reason_;
  bool unlogged_ = false;  ///< The line with `reason_` was suppressed: the next attempt repeats it.
  std::uint8_t scope_ = 2;           ///< Scope being tried, or joined.
  bool creating_ = false;            ///< The next request may create the group.
  bool sa_registered_ = false;       ///< The SA may count this port as a member.
  wire::Gid port_;                   ///< GID of that membership; valid with sa_registered_.
  wire::Gid group_;                  ///< MGID of that membership; valid with sa_registered_.
  bool deleted_ = false;             ///< The SA has reported the deletion of the group.
  std::optional<TimePoint> denied_;  ///< First denial since the port was a member.
  bool unanswered_ = false;          ///< The latest search of `finder_` failed.
  sa::TransactionId transaction_ = sa::kNoTransaction;
  TimePoint began_{};  ///< Latest attempt.
  Duration backoff_{};
  std::optional<TimePoint> due_;
};

}  // namespace ipoib::link
