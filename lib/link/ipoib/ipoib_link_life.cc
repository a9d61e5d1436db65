// SPDX-License-Identifier: BSD-3-Clause
// Port events and the end of an IPoIB link.
#include <utility>

#include "lib/base/log.h"
#include "lib/link/ipoib/ipoib_link.h"

namespace ipoib::link {
namespace {

/// Limit of the wait for leaves of groups.
constexpr Duration kStopTimeout = std::chrono::seconds(2);

}  // namespace

void IpoibLink::on_port_event(fabric::PortEvent event, TimePoint now) {
  using fabric::PortEvent;
  switch (event) {
    case PortEvent::kFatal: suspend(now); return membership_.lose("device failure", now);
    case PortEvent::kPortDown:
      if (shared_) shared_->down();  // It hears no advertisements until the port is active.
      return membership_.ask_again(now);
    case PortEvent::kPkeyChange: return membership_.ask_again(now);
    case PortEvent::kPortActive:
    case PortEvent::kLidChange:
    case PortEvent::kSmChange:
    case PortEvent::kClientReregister:
    case PortEvent::kGidChange: break;
  }
  // The SA may have lost this port, or know it by another address.
  membership_.ask_again(now);
  groups_->rejoin(now);
  // A link without a broadcast group waits for the report of its creation.
  if (ip_.ready() || membership_.state() == BroadcastMembership::State::kJoining) traps_.renew(now);
  paths_.refresh_all(now);
  // The link-layer address has changed, or leads elsewhere. It is announced when the SA knows it,
  // because the hosts will query the SA. Addresses that depend on it restart.
  const bool moved = event == PortEvent::kGidChange || event == PortEvent::kLidChange;
  moved_ = moved_ || moved;
  if (!moved || !ip_.ready() || !connections_) return;
  // Peers know the connections by the old address.
  connections_->stop(now);
  if (auto listens = start_connections(now); !listens)
    log(LogArea::kLink, LogLevel::kErr, "{}: {}", config_.name, listens.error().what);
}

void IpoibLink::on_port_user(TimePoint now) {
  if (config_.shared_port == SharedPort::kNo) return;
  if (state_ == State::kStopping || state_ == State::kStopped) return;
  if (look_for_twin()) start_ip6(now);
  rejoins_.begin(now);
  if (rejoins_.take(now)) rejoin(now);
}

/// Returns true if there is one that was not known before.
bool IpoibLink::look_for_twin() {
  return has_port_user(config_, actions_) && !std::exchange(twin_, true);
}

/// A link that is not a member joins already: its request may need longer than the next one is away.
void IpoibLink::rejoin(TimePoint now) {
  if (membership_.state() == BroadcastMembership::State::kMember) membership_.ask_again(now);
  groups_->rejoin(now);
}

void IpoibLink::on_report(const wire::Notice& notice, TimePoint now) {
  if (notice.is(wire::Trap::kGroupCreated)) {
    membership_.on_created(notice.data_gid, now);
    groups_->on_created(notice.data_gid, now);
  }
  if (shared_ && notice.is(wire::Trap::kGidOutOfService))
    shared_->on_out_of_service(notice.data_gid, now);
  if (notice.is(wire::Trap::kGroupDeleted)) {
    membership_.on_deleted(notice.data_gid, now);
    groups_->on_deleted(notice.data_gid, now);
  }
}

/// Removes neighbours, paths, and the attachment to the broadcast group at the HCA.
void IpoibLink::withdraw(TimePoint now) {
  traps_.stop();
  if (shared_) shared_->down();
  if (connections_) connections_->stop(now);
  ip_.withdraw();
  paths_.clear();
  detach_broadcast();
  parameters_ = {};
  mtu_ = 0;
}

/// The link cannot be used. Nothing is sent; static entries and joined groups are kept until
/// it recovers.
void IpoibLink::suspend(TimePoint now) {
  if (!ip_.ready()) return;
  groups_->suspend();  // First, so that nothing is sent to the SA.
  go_down(now);
}

/// The SA has no broadcast group for this link. Groups that were created like the former one are
/// left, so that they can end: those of the next one may have another Q_Key or MTU.
void IpoibLink::on_lost(TimePoint now) {
  if (!ip_.ready()) return;
  groups_->stop(now);
  go_down(now);
}

void IpoibLink::go_down(TimePoint now) {
  ip_.stop_ip6(now);
  withdraw(now);
  for (const auto& [addr, entry] : statics_) static_cast<void>(pin_static(addr, entry, now));
}

void IpoibLink::stop(TimePoint now) {
  if (state_ == State::kStopping || state_ == State::kStopped) return;
  stop_by_ = now + kStopTimeout;
  rejoins_.end();
  if (shared_) shared_->leave(now);
  groups_->prepare_stop();
  ip_.stop(now);
  groups_->stop(now);
  statics_.clear();
  withdraw(now);
  traps_.end(now);
  membership_.stop(now);
}

/// Completes the stop once all groups are left and no subscription remains, or after the timeout.
void IpoibLink::finish_stop(TimePoint now) {
  if (membership_.state() != BroadcastMembership::State::kLeft ||
      (!leaves_done() && stop_by_ && now < *stop_by_))
    return set_state(State::kStopping);
  groups_->abort_leaves();
  traps_.stop();
  stop_by_.reset();
  set_state(State::kStopped);
}

}  // namespace ipoib::link
