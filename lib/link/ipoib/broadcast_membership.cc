// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/broadcast_membership.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/group_record.h"
#include "lib/link/ipoib/port_sharing.h"
#include "lib/sa/queries.h"
#include "lib/wire/iba.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {
namespace {

constexpr Duration kLeaveTimeout = std::chrono::seconds(2);
/// Members that must confirm at once do so within twice this time.
constexpr Duration kConfirmDelay = std::chrono::milliseconds(50);
/// Scopes of IPoIB links, in the order of the search (RFC 4391 §4.1, §7).
constexpr std::array<std::uint8_t, 4> kScopes = {2, 5, 8, 14};

/// True if an SA's answer to a join that cannot create means that the group does not exist.
bool says_absent(const sa::Failure& failure) {
  using wire::MadStatus;
  const auto is = [&](MadStatus s) { return failure.status == static_cast<std::uint16_t>(s); };
  return failure.code == Errc::kRefused &&
         (is(MadStatus::kSaInsufficientComponents) || is(MadStatus::kSaRequestInvalid) ||
          is(MadStatus::kSaNoRecords));
}

wire::McMemberRecord attributes_of(const BroadcastAttributes& a, std::uint16_t pkey) {
  wire::McMemberRecord r{};
  r.pkey.set(pkey);
  r.qkey.set(a.qkey);
  r.mtu = a.mtu;
  r.rate = a.rate;
  r.tclass = a.tclass;
  r.sl_flow_hop = wire::McMemberRecord::pack(a.sl, a.flow_label, a.hop_limit);
  return r;
}

}  // namespace

BroadcastMembership::BroadcastMembership(const LinkConfig& config, LinkActions& actions,
                                         sa::Client& sa, LinkCounters& counters,
                                         MembershipOwner& owner, BroadcastFinder* finder,
                                         std::uint64_t seed)
    : config_{config},
      actions_{actions},
      sa_{sa},
      counters_{counters},
      owner_{owner},
      finder_{finder},
      jitter_{seed},
      check_{config, sa, [this](TimePoint now) { on_forgotten(now); }, seed ^ 1},
      backoff_{config.join_backoff_min} {}

BroadcastMembership::~BroadcastMembership() {
  sa_.cancel(transaction_);
}

void BroadcastMembership::cancel() {
  sa_.cancel(std::exchange(transaction_, sa::kNoTransaction));
  if (finder_ != nullptr) finder_->cancel();
}

void BroadcastMembership::start(TimePoint now) {
  backoff_ = config_.join_backoff_min;
  state_ = State::kWaiting;
  reason_.clear();
  search_anew();
  join(now);
}

void BroadcastMembership::stop(TimePoint now) {
  cancel();
  check_.stop();
  due_.reset();
  reason_.clear();
  if (!std::exchange(sa_registered_, false) || withhold_leave()) return left(now);
  state_ = State::kLeaving;
  due_ = now + kLeaveTimeout;
  transaction_ = sa_.submit(
      sa::leave_group(group_, port_, config_.pkey, wire::join_state::kFullMember),
      [this](const sa::Outcome& outcome, TimePoint at) {
        transaction_ = sa::kNoTransaction;
        if (!outcome)
          log(LogArea::kLink, LogLevel::kInfo, "{}: cannot leave {}: {}", config_.name,
              wire::to_string(group_), sa::describe(outcome.error()));
        left(at);
      },
      now);
  owner_.on_membership_changed(now);
}

/// Another user of the port needs the membership, which the SA would end for both of them.
bool BroadcastMembership::withhold_leave() {
  if (!shares_port(config_, actions_)) return false;
  ++counters_.group_leaves_withheld;
  return true;
}

/// The SA counts the port as a member under a former GID, or of a group that the finder has
/// replaced. An SA that refuses has forgotten it.
void BroadcastMembership::leave_former(TimePoint now) {
  const bool replaced = finder_ != nullptr && group_ != mgid();
  if (!sa_registered_ || (port_ == actions_.port().gid() && !replaced)) return;
  sa_registered_ = false;
  if (withhold_leave()) return;
  sa_.submit(
      sa::leave_group(group_, port_, config_.pkey, wire::join_state::kFullMember),
      [](const auto&, TimePoint) {}, now);
}

void BroadcastMembership::left(TimePoint now) {
  state_ = State::kLeft;
  due_.reset();
  owner_.on_membership_changed(now);
}

void BroadcastMembership::ask_again(TimePoint now) {
  if (state_ != State::kWaiting && state_ != State::kJoining && state_ != State::kMember) return;
  cancel();
  if (finder_ == nullptr) leave_former(now);  // Else before the join, when the group is known.
  backoff_ = config_.join_backoff_min;
  if (state_ == State::kMember && may_ask())
    due_ = now + jitter_.around(kConfirmDelay, 100);
  else
    join(now);
}

/// The answer to a request that is under way may be older than the group: the next one follows soon.
void BroadcastMembership::on_created(const wire::Gid& mgid, TimePoint now) {
  if ((state_ != State::kWaiting && state_ != State::kJoining) || !may_be(mgid)) return;
  ++counters_.group_reports;
  backoff_ = config_.join_backoff_min;
  if (due_) due_ = std::min(*due_, now + jitter_.around(kConfirmDelay, 100));
}

void BroadcastMembership::on_deleted(const wire::Gid& mgid, TimePoint now) {
  if (state_ != State::kMember || mgid != group_) return;
  ++counters_.group_reports;
  deleted_ = true;
  ask_again(now);
}

void BroadcastMembership::lose(std::string reason, TimePoint now) {
  if (state_ != State::kJoining && state_ != State::kMember) return;
  cancel();
  backoff_ = config_.join_backoff_min;
  began_ = now;
  give_reason(std::move(reason), State::kWaiting, now);
  try_later(now);
}

wire::Gid BroadcastMembership::mgid() const {
  if (finder_ != nullptr && finder_->group()) return finder_->group()->mgid;
  return mgid_in(scope_);
}

wire::Gid BroadcastMembership::mgid_in(std::uint8_t scope) const {
  if (config_.all_nodes == AllNodes::kInstead)
    return wire::mgid_of(wire::all_nodes(), config_.pkey, scope);
  return wire::broadcast_mgid(config_.pkey, scope);
}

/// True if the search can find this group.
bool BroadcastMembership::may_be(const wire::Gid& mgid) const {
  if (finder_ != nullptr) return finder_->group() && finder_->group()->mgid == mgid;
  if (config_.scope != kScopeAuto) return mgid == mgid_in(config_.scope);
  return std::ranges::any_of(kScopes, [&](std::uint8_t s) { return mgid == mgid_in(s); });
}

std::uint8_t BroadcastMembership::first_scope() const {
  return config_.scope == kScopeAuto ? kScopes.front() : config_.scope;
}

/// Restarts the search, which always begins with link-local (RFC 4391 §7), or with the configured
/// scope.
void BroadcastMembership::search_anew() {
  scope_ = first_scope();
  creating_ = false;
}

/// The group does not exist in this scope: tries the next one, and after the last its creation if
/// that is allowed. Returns false if nothing is left to try.
bool BroadcastMembership::look_further(TimePoint now) {
  sa_registered_ = false;
  if (finder_ != nullptr) return false;  // It may find another one.
  if (state_ == State::kMember) {
    if (config_.scope != kScopeAuto && !config_.create_broadcast) return false;
    give_reason(what() + ": the group no longer exists", State::kJoining, now);
    search_anew();
    join(now);
    return true;
  }
  const auto next = std::upper_bound(kScopes.begin(), kScopes.end(), scope_);
  if (!creating_ && config_.scope == kScopeAuto && next != kScopes.end()) {
    scope_ = *next;
  } else if (!creating_ && config_.create_broadcast) {
    creating_ = true;
    scope_ = first_scope();
  } else {
    return false;
  }
  join(now);
  return true;
}

/// Checks that the port allows the request and can carry a group that it would create.
Status BroadcastMembership::may_ask() const {
  if (auto may = owner_.may_join(); !may) return may;
  if (!creating_) return {};
  const auto code = config_.create_broadcast->mtu;
  const auto port = actions_.port().mtu;
  if (wire::mtu_octets(code) == 0 || code > port)
    return fail(
        Errc::kInvalidArgument,
        "cannot create the broadcast group with MTU {} (code {}), the port supports {} (code {})",
        wire::mtu_octets(code), code, wire::mtu_octets(port), port);
  return {};
}

std::string BroadcastMembership::what() const {
  return fmt::format("join of {} with P_Key 0x{:04x} (SM at LID {})", wire::to_string(mgid()),
                     config_.pkey | wire::kFullMemberBit, actions_.port().sm_lid);
}

/// Finds the group, then joins it. Each confirmation begins so, too: its parameters may have
/// changed. Without an answer the group of an earlier one is joined: the SA may have forgotten this
/// port.
void BroadcastMembership::find(TimePoint now) {
  if (state_ != State::kMember) {
    if (reason_.empty()) reason_ = "search of the broadcast group: no answer yet";
    state_ = State::kJoining;
    owner_.on_membership_changed(now);
  }
  finder_->find(
      [this](const Status& status, TimePoint at) {
        unanswered_ = !status;
        if (status) return ask_sa(at);
        ++counters_.joins_failed;
        if (state_ == State::kMember)
          warn(status.error().what + "; staying up", at);
        else
          give_reason(status.error().what, State::kJoining, at);
        if (!finder_->group()) return try_later(at);
        ask_sa(at);
      },
      now);
}

void BroadcastMembership::join(TimePoint now) {
  due_.reset();
  began_ = now;
  if (const auto may = may_ask(); !may) {
    give_reason(may.error().what, State::kWaiting, now);
    if (creating_) search_anew();
    return try_later(now);
  }
  if (finder_ != nullptr) return find(now);
  ask_sa(now);
}

void BroadcastMembership::ask_sa(TimePoint now) {
  ++counters_.joins_sent;
  constexpr auto kFull = wire::join_state::kFullMember;
  leave_former(now);
  const auto port = actions_.port().gid();
  transaction_ = sa_.submit(
      creating_ ? sa::create_group(mgid(), port, kFull,
                                   attributes_of(*config_.create_broadcast, config_.pkey))
                // Only the components that joining an existing group needs, so that none is created
                // by accident.
                : sa::join_group(mgid(), port, config_.pkey, kFull),
      [this](const sa::Outcome& outcome, TimePoint at) {
        transaction_ = sa::kNoTransaction;
        on_answer(outcome, at);
      },
      now);
  sa_registered_ = true;
  port_ = port;
  group_ = mgid();
  if (state_ == State::kMember) return;
  if (reason_.empty()) reason_ = what() + ": no answer yet";
  state_ = State::kJoining;
  owner_.on_membership_changed(now);
}

void BroadcastMembership::on_answer(const sa::Outcome& outcome, TimePoint now) {
  if (!outcome) {
    if (says_absent(outcome.error()) && look_further(now)) return;
    on_failure(outcome.error(), now);
    if (sa_says_no(outcome.error())) on_denied(now);
    return try_later(now);
  }
  creating_ = false;
  if (const auto good = accept(*outcome, now); !good) {
    ++counters_.joins_failed;
    give_reason(good.error().what, State::kJoining, now);
    if (good.error().code == Errc::kUnavailable) owner_.on_lost(now);
    return try_later(now);
  }
  state_ = State::kMember;
  denied_.reset();
  deleted_ = false;
  reason_.clear();
  if (unanswered_) {
    try_later(now);
  } else {
    backoff_ = config_.join_backoff_min;
    if (const auto interval = confirmation_interval(config_, actions_, 1))
      due_ = now + jitter_.around(*interval, kSpread);
  }
  check_.start(group_, port_, now);
  owner_.on_membership_changed(now);
}

/// A subnet manager that has just started may not have created its groups yet. Unless the SA reported
/// the deletion, the link is lost only if the SA still denies the group after the first back-off.
void BroadcastMembership::on_denied(TimePoint now) {
  search_anew();
  if (!denied_) denied_ = now;
  if (deleted_ || now - *denied_ >= config_.join_backoff_min / 2) owner_.on_lost(now);
}

/// An SA that is silent or busy may recover soon: a member stays one. An SA that refuses does not
/// know the group any more.
void BroadcastMembership::on_failure(const sa::Failure& failure, TimePoint now) {
  ++counters_.joins_failed;
  auto why = what() + ": " + sa::describe(failure);
  if (failure.status == static_cast<std::uint16_t>(wire::MadStatus::kSaInsufficientComponents))
    why += "; the group does not exist";
  if (state_ != State::kMember || sa_says_no(failure))
    give_reason(std::move(why), State::kJoining, now);
  else
    warn(why + "; staying up", now);
}

Status BroadcastMembership::accept(const sa::Reply& reply, TimePoint now) {
  auto r = read_group(reply, mgid(), config_.pkey, actions_.port().mtu);
  if (!r) return fail(r.error().code, "{}: {}", what(), r.error().what);
  if (auto used = use_found(*r); !used) return used;
  return owner_.on_joined(*r, now);
}

/// Packets get the header fields that were found, even if the SA has others for the group. Another
/// MLID would be one to which the fabric delivers nothing, so then the group must be found again.
Status BroadcastMembership::use_found(wire::McMemberRecord& record) const {
  if (finder_ == nullptr || !finder_->group()) return {};
  const wire::IbarpBroadcast found = *finder_->group();
  if (found.mlid != record.mlid.host())
    return fail(Errc::kProtocol, "{}: the SA returned MLID 0x{:04x}, the SIDR server 0x{:04x}",
                what(), record.mlid.host(), found.mlid);
  record.qkey.set(found.qkey);
  record.tclass = found.tclass;
  record.sl_flow_hop = wire::McMemberRecord::pack(found.sl, found.flow_label, found.hop_limit);
  return {};
}

void BroadcastMembership::give_reason(std::string reason, State state, TimePoint now) {
  state_ = state;
  if (reason != reason_ || unlogged_) unlogged_ = !warn(reason, now);
  reason_ = std::move(reason);
  owner_.on_membership_changed(now);
}

/// Logs a message that the SA causes. An SA whose answers differ from one to the next could cause a
/// line with each of them, for as long as the node runs. Returns false if the message is suppressed.
bool BroadcastMembership::warn(std::string_view what, TimePoint now) {
  const auto suppressed = log_limit_.allow(now);
  if (!suppressed) return false;
  log(LogArea::kLink, LogLevel::kWarning, "{}: {}{}", config_.name, what,
      *suppressed == 0 ? "" : fmt::format(" ({} messages suppressed)", *suppressed));
  return true;
}

/// The backoff counts from the start of the attempt, because the SA client has already spaced the
/// retries of an unanswered one.
void BroadcastMembership::try_later(TimePoint now) {
  due_ = std::max(now, began_ + jitter_.around(backoff_, kSpread));
  backoff_ = std::min(backoff_ * 2, config_.join_backoff_max);
}

void BroadcastMembership::on_forgotten(TimePoint now) {
  if (state_ != State::kMember) return;
  ++counters_.memberships_forgotten;
  warn(fmt::format("the SA at LID {} has lost the membership of {}, joining again",
                   actions_.port().sm_lid, wire::to_string(group_)),
       now);
  owner_.on_forgotten(now);
}

void BroadcastMembership::tick(TimePoint now) {
  if (state_ == State::kMember) check_.tick(now);
  if (!due_ || now < *due_) return;
  if (state_ == State::kLeaving) {
    cancel();
    log(LogArea::kLink, LogLevel::kWarning, "{}: cannot leave {}: no answer from the SA at LID {}",
        config_.name, wire::to_string(mgid()), actions_.port().sm_lid);
    return left(now);
  }
  join(now);
}

}  // namespace ipoib::link
