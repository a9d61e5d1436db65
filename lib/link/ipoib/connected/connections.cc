// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/connected/connections.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "lib/base/contract.h"
#include "lib/link/ipoib/queue_spread.h"

namespace ipoib::link {
namespace {

using wire::ServiceIdForm;

/// Idle connections are detected late by at most the idle time divided by this.
constexpr int kUseChecks = 4;
/// A connection that was up this long did not fail at once.
constexpr Duration kLasted = std::chrono::seconds(10);

ConnectionEnd end_by(cm::CloseReason reason) {
  switch (reason) {
    case cm::CloseReason::kRejected: return ConnectionEnd::kRejected;
    case cm::CloseReason::kTimedOut: return ConnectionEnd::kTimedOut;
    case cm::CloseReason::kDropped: return ConnectionEnd::kDropped;
    case cm::CloseReason::kPeer: return ConnectionEnd::kPeer;
    case cm::CloseReason::kStale: return ConnectionEnd::kStale;
    case cm::CloseReason::kShutdown: return ConnectionEnd::kClosed;
    default: return ConnectionEnd::kRefused;
  }
}

/// True if the peer or its path caused the end, so that an immediate request would fail again.
bool is_failure(ConnectionEnd why) {
  switch (why) {
    case ConnectionEnd::kRejected:
    case ConnectionEnd::kTimedOut:
    case ConnectionEnd::kStale:
    case ConnectionEnd::kFailed:
    case ConnectionEnd::kRefused: return true;
    default: return false;
  }
}

}  // namespace

std::string_view to_string(ConnectionEnd end) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(ConnectionEnd::kCount)> kNames = {
      "rejected by the peer",
      "no answer",
      "closed by the peer",
      "forgotten by the peer",
      "idle",
      "unwanted",
      "replaced",
      "peer moved",
      "never ready",
      "displaced",
      "queue pair failed",
      "closed",
      "refused"};
  return kNames[static_cast<std::size_t>(end)];
}

Connections::Connections(ConnectionConfig config, std::uint16_t pkey, NeighbourPaths& ud,
                         ConnectionActions& actions, cm::Manager& manager,
                         ConnectionSurroundings around, std::uint64_t seed)
    : config_{config},
      pkey_{pkey},
      ud_{ud},
      actions_{actions},
      manager_{manager},
      around_{std::move(around)},
      random_{seed},
      jitter_{random_()} {}

Connections::~Connections() {
  manager_.detach(*this, now_);
  for (const auto& [handle, c] : all_) actions_.destroy_connected(*c.queue, c.served_by);
}

std::uint8_t Connections::flags() const {
  return static_cast<std::uint8_t>((config_.rc ? wire::LinkAddr::kFlagRc : 0) |
                                   (config_.uc ? wire::LinkAddr::kFlagUc : 0));
}

Status Connections::start(std::vector<wire::LinkAddr> own, const fabric::PortAttr& port,
                          TimePoint now) {
  now_ = now;
  if (!config_.rc && !config_.uc) return {};
  port_ = port;
  for (wire::LinkAddr& address : own) address.flags = 0;
  // A device may make a queue pair later than the others.
  const bool changed = own != own_addresses_;
  own_addresses_ = std::move(own);
  if (changed || listening_.empty()) {
    unlisten();
    if (auto listens = listen(); !listens) {
      unlisten();
      return listens;
    }
  }
  if (std::exchange(started_, true)) return {};
  use_check_ = now + use_period();
  for (const auto& [key, p] : peers_) schedule(key, now);
  return {};
}

void Connections::stop(TimePoint now) {
  now_ = now;
  if (!std::exchange(started_, false)) return;
  unlisten();
  for (auto& [handle, c] : all_) close(handle, c, ConnectionEnd::kClosed, now);
  use_check_ = kNever;
}

Status Connections::listen() {
  for (unsigned i = 0; i < own_addresses_.size(); ++i)
    for (const auto form : {ServiceIdForm::kIetf, ServiceIdForm::kLinux}) {
      const std::uint32_t qpn = own_addresses_[i].qpn.host();
      if (qpn == 0) continue;
      const auto id = wire::ipoib_service_id(form, qpn);
      if (auto listens = manager_.listen(id, *this, private_data(i)); !listens) return listens;
      listening_.push_back(id);
    }
  return {};
}

void Connections::unlisten() {
  for (const std::uint64_t id : std::exchange(listening_, {})) manager_.unlisten(id);
}

unsigned Connections::queue_pair_of(wire::Be64 service_id) const {
  const std::uint32_t qpn = wire::ipoib_service_of(service_id.host())->ud_qpn;
  const auto it = std::ranges::find(own_addresses_, wire::Be24{qpn}, &wire::LinkAddr::qpn);
  expects(it != own_addresses_.end(), "the link listens at this queue pair");
  return static_cast<unsigned>(it - own_addresses_.begin());
}

Status Connections::close(cm::Handle handle, TimePoint now) {
  now_ = now;
  const auto it = all_.find(handle);
  if (it == all_.end() || it->second.over) return fail(Errc::kNotFound, "no connection {}", handle);
  close(handle, it->second, ConnectionEnd::kClosed, now);
  return {};
}

void Connections::on_queue_event(const fabric::QueueEvent& event, TimePoint now) {
  now_ = now;
  const auto it = by_qpn_.find(event.qpn);
  if (it == by_qpn_.end()) return;
  Connection& c = all_.at(it->second);
  if (c.over) return;
  if (event.kind == fabric::QueueEvent::Kind::kEstablished)
    manager_.on_traffic(it->second, now);
  else if (event.kind == fabric::QueueEvent::Kind::kMigrated)
    on_migrated(it->second, c, event.path, now);
  else
    close(it->second, c, ConnectionEnd::kFailed, now);
}

void Connections::on_path(const wire::HwAddr& peer, TimePoint now) {
  now_ = now;
  const auto key = key_of(peer);
  const auto it = peers_.find(key);
  if (it == peers_.end()) return;
  for (const cm::Handle handle : std::vector{it->second.handles}) {
    Connection& c = all_.at(handle);
    if (leads_to(key.gid, c.port) == false) close(handle, c, ConnectionEnd::kMoved, now);
  }
  choose(key, now);
}

// --- Peers ---

PathState Connections::acquire(const wire::IpAddr& user, const wire::HwAddr& hw, TimePoint now) {
  now_ = now;
  add_user(user, hw, now);
  return ud_.acquire(user, hw, now);
}

void Connections::moved(const wire::IpAddr& user, const wire::HwAddr& from, const wire::HwAddr& to,
                        TimePoint now) {
  now_ = now;
  remove_user(user, from);
  add_user(user, to, now);
}

void Connections::release(const wire::IpAddr& user, const wire::HwAddr& hw) {
  remove_user(user, hw);
  ud_.release(user, hw);
}

void Connections::add_user(const wire::IpAddr& user, const wire::HwAddr& hw, TimePoint now) {
  if (flags() == 0) return;
  const auto key = key_of(hw);
  Peer& p = peer(key);
  p.lost_users = false;
  p.users.insert_or_assign(user, hw.link_addr().flags);
  // The neighbour is installed after this: traffic to it shows later. A connection that it opened is
  // sent on as soon as it is installed.
  const bool soon = config_.open == OpenPolicy::kAlways || !p.handles.empty();
  schedule(key, soon ? now : now + kLook);
}

void Connections::remove_user(const wire::IpAddr& user, const wire::HwAddr& hw) {
  const auto key = key_of(hw);
  const auto it = peers_.find(key);
  if (it == peers_.end()) return;
  Peer& p = it->second;
  p.users.erase(user);
  p.lost_users = p.users.empty();
  if (p.lost_users) schedule(key, now_);
}

void Connections::describe(const wire::HwAddr& hw, table::Neighbour& out) const {
  ud_.describe(hw, out);
  const auto it = peers_.find(key_of(hw));
  if (it == peers_.end() || it->second.sending == cm::kNoHandle) return;
  const Connection& c = all_.at(it->second.sending);
  out.mode = table::mode_of(c.queue->transport());
  out.mtu = static_cast<std::uint16_t>(std::min<std::uint32_t>(connection_mtu(c), max_mtu_));
  out.queue = c.queue;
  out.worker = actions_.worker_of(c.served_by);
}

void Connections::describe(const wire::HwAddr& hw, NeighbourInfo& out) const {
  ud_.describe(hw, out);
}

Connections::Peer& Connections::peer(const PeerKey& key) {
  return peers_.try_emplace(key, Peer{.form = config_.service_id}).first->second;
}

wire::LinkAddr Connections::address_of(const PeerKey& key) {
  return {0, wire::Be24{key.qpn}, key.gid};
}

void Connections::schedule(const PeerKey& key, TimePoint when) {
  peer_timers_.set(key, peers_.at(key).wake, when);
}

void Connections::forget_if_idle(const PeerKey& key) {
  const auto it = peers_.find(key);
  if (it == peers_.end() || !it->second.users.empty() || !it->second.handles.empty()) return;
  schedule(key, kNever);
  peers_.erase(it);
}

bool Connections::may_have(const wire::Gid& port) const {
  const auto first = peers_.lower_bound({port, 0});
  return std::any_of(first, peers_.upper_bound({port, 0xff'ffff}), [this](const auto& entry) {
    return !entry.second.handles.empty() || transport_with(flags_of(entry.second));
  });
}

std::optional<unsigned> Connections::served_by(const wire::HwAddr& peer) const {
  const auto it = peers_.find(key_of(peer));
  if (it == peers_.end() || it->second.sending == cm::kNoHandle) return std::nullopt;
  return all_.at(it->second.sending).served_by;
}

std::optional<fabric::Transport> Connections::transport_with(std::uint8_t flags) const {
  if (config_.rc && (flags & wire::LinkAddr::kFlagRc) != 0) return fabric::Transport::kRc;
  if (config_.uc && (flags & wire::LinkAddr::kFlagUc) != 0) return fabric::Transport::kUc;
  return std::nullopt;
}

std::uint8_t Connections::flags_of(const Peer& p) {
  unsigned all = 0;
  for (const auto& [user, flags] : p.users) all |= flags;
  return static_cast<std::uint8_t>(all);
}

std::vector<wire::IpAddr> Connections::users_of(const Peer& p) {
  std::vector<wire::IpAddr> users;
  for (const auto& [user, flags] : p.users) users.push_back(user);
  return users;
}

/// Numbers of queue pairs. Overloaded workers come last. If workers have equally many queues, the
/// idlest comes first: one that reads a cable also does so for others.
std::vector<unsigned> Connections::workers_by_rank() const {
  std::vector<unsigned> order(around_.queues());
  std::iota(order.begin(), order.end(), 0U);
  const auto busy = [this](unsigned i) { return i < busy_.size() ? busy_[i] : 0.0; };
  double idlest = 1;
  for (const unsigned i : order) idlest = std::min(idlest, busy(i));
  std::ranges::stable_sort(order, {}, [&](unsigned i) {
    return std::tuple{is_overloaded(busy(i), idlest), actions_.connected_queues(i), busy(i)};
  });
  return order;
}

Result<Connections::NewQueue> Connections::create_queue(fabric::Transport transport) {
  Result<fabric::ConnectedQueue*> queue = fail(Errc::kNoResources, "no queue pairs");
  for (const unsigned i : workers_by_rank()) {
    queue = actions_.create_connected(transport, i);
    if (queue) return NewQueue{*queue, i};
    if (queue.error().code != Errc::kUnavailable) break;  // The whole HCA refuses.
  }
  return tl::make_unexpected(queue.error());
}

bool Connections::per_direction(const Peer& p) const {
  return config_.pairs == PairPolicy::kPerDirection || p.linux_habit;
}

bool Connections::has_one_to_send(const Peer& p) const {
  return std::ranges::any_of(p.handles, [&](cm::Handle handle) {
    const Connection& c = all_.at(handle);
    return !c.over && is_to_send(p, c);
  });
}

/// A request names its sender by words of its own. A connection that a peer opened is sent on only
/// if ARP or ND said that the peer has connections, and the SA that the peer's port is where the
/// request came from.
bool Connections::is_to_send(const Peer& p, const Connection& c) const {
  if (c.active) return true;
  const bool rc = c.queue->transport() == fabric::Transport::kRc;
  const auto flag = rc ? wire::LinkAddr::kFlagRc : wire::LinkAddr::kFlagUc;
  return !per_direction(p) && (flags_of(p) & flag) != 0 && leads_to(c.peer.gid, c.port) == true;
}

bool Connections::wanted(const Peer& p, TimePoint now) const {
  if (config_.open == OpenPolicy::kAlways) return true;
  return std::ranges::any_of(p.users, [&](const auto& user) {
    const TimePoint used = around_.last_used(user.first);
    // The stamp has a resolution of one second.
    return used != TimePoint::min() && used + 2 * kLook >= now;
  });
}

// --- Life and end ---

Connections::Connection& Connections::add(cm::Handle handle, const Connection& connection,
                                          TimePoint now) {
  Connection& c = all_[handle] = connection;
  c.since = c.active_at = now;
  by_qpn_[c.queue->qpn()] = handle;
  peer(c.peer).handles.push_back(handle);
  c.port_name = name_of(c.port);
  count_port(c, true);
  return c;
}

std::uint32_t Connections::connection_mtu(const Connection& c) const {
  return wire::connection_ip_mtu(config_.receive_mtu, c.peer_mtu);
}

void Connections::leave_half_open(Connection& c) {
  if (c.serial != 0) half_open_.erase(std::exchange(c.serial, 0));
}

void Connections::connection_up(Connection& c, TimePoint now) {
  leave_half_open(c);
  ++counters_.established;
  c.up = true;
  c.since = c.active_at = now;
  uses_.set(by_qpn_.at(c.queue->qpn()), c.use, now);
  choose(c.peer, now);
}

void Connections::choose(const PeerKey& key, TimePoint now) {
  Peer& p = peers_.at(key);
  cm::Handle best = cm::kNoHandle;
  for (const cm::Handle handle : p.handles) {
    const Connection& c = all_.at(handle);
    if (!c.up || c.over || !is_to_send(p, c)) continue;
    best = handle;
    if (c.active) break;
  }
  if (std::exchange(p.sending, best) == best) return;
  for (const wire::IpAddr& user : users_of(p)) around_.changed(user, now);
}

void Connections::close(cm::Handle handle, Connection& c, ConnectionEnd why, TimePoint now) {
  if (c.over) return;
  // It may have ended already, with the event still queued.
  static_cast<void>(manager_.disconnect(handle, now));
  finish(c, why, now);
}

/// True if the peer may go on to send on a connection that this side ends. A Linux host does so on a
/// connection that it opened until its time-wait is over, and each packet that gets no ACK is lost.
bool Connections::is_still_heard(const Connection& c, ConnectionEnd why) {
  switch (why) {
    case ConnectionEnd::kIdle:
    case ConnectionEnd::kUnwanted:
    case ConnectionEnd::kReplaced:
    case ConnectionEnd::kDisplaced:
    case ConnectionEnd::kClosed: return c.up && !c.active;
    default: return false;
  }
}

void Connections::finish(Connection& c, ConnectionEnd why, TimePoint now) {
  if (std::exchange(c.over, true)) return;
  c.still_heard = is_still_heard(c, why);
  count_port(c, false);
  uses_.set(by_qpn_.at(c.queue->qpn()), c.use, kNever);
  settling_.set(by_qpn_.at(c.queue->qpn()), c.settles, kNever);
  leave_half_open(c);
  ++counters_.ended[static_cast<std::size_t>(why)];
  const bool lasted = std::exchange(c.up, false) && now - c.since >= kLasted;
  choose(c.peer, now);  // Before the queue fails, so that packets still being sent use UD.
  if (!c.still_heard) actions_.set_error(*c.queue);
  Peer& p = peers_.at(c.peer);
  if (lasted) p.failures = 0;
  if (is_failure(why) && !has_one_to_send(p)) return back_off(c.peer, now);
  p.retry_at = now + config_.backoff_min;
  schedule(c.peer, p.lost_users ? now : p.retry_at);
}

void Connections::on_closed(cm::Handle handle, const cm::Closed& closed, TimePoint now) {
  now_ = now;
  const auto it = all_.find(handle);
  if (it == all_.end() || it->second.over) return;
  Connection& c = it->second;
  Peer& p = peers_.at(c.peer);
  const bool again = c.active && try_other_service(p, closed);
  finish(c, end_by(closed.reason), now);
  if (!again) return;
  p.failures = 0;
  p.retry_at = now;
  schedule(c.peer, now);
}

void Connections::on_released(cm::Handle handle, TimePoint now) {
  now_ = now;
  const auto it = all_.find(handle);
  if (it == all_.end()) return;
  finish(it->second, ConnectionEnd::kClosed, now);
  if (it->second.still_heard) actions_.set_error(*it->second.queue);
  const PeerKey key = it->second.peer;
  fabric::ConnectedQueue& queue = *it->second.queue;
  const unsigned served_by = it->second.served_by;
  by_qpn_.erase(queue.qpn());
  std::erase(peers_.at(key).handles, handle);
  all_.erase(it);
  actions_.destroy_connected(queue, served_by);
  forget_if_idle(key);
}

void Connections::tick(TimePoint now) {
  now_ = now;
  while (const auto key = peer_timers_.due(now)) look_at(*key, now);
  while (const auto handle = settling_.due(now)) settle(*handle, now);
  if (now >= use_check_) check_use(now);
}

std::optional<TimePoint> Connections::next_deadline() const {
  const TimePoint next = std::min(
      {peer_timers_.next().value_or(kNever), settling_.next().value_or(kNever), use_check_});
  return next == kNever ? std::nullopt : std::optional{next};
}

Duration Connections::use_period() const {
  const Duration idle = config_.idle / kUseChecks;
  return config_.uc ? std::min(idle, kSilence) : idle;
}

void Connections::check_use(TimePoint now) {
  use_check_ = now + use_period();
  for (auto& [handle, c] : all_) {
    if (!c.up || c.over) continue;
    const auto [sent, heard] = note_use(handle, c, now);
    if (now - c.active_at >= config_.idle)
      close(handle, c, ConnectionEnd::kIdle, now);
    else if (c.queue->transport() == fabric::Transport::kRc && c.active && !c.loaded &&
             now >= c.seek_at)
      seek_alternate(handle, c, now);
    else if (sent && !heard && c.queue->transport() == fabric::Transport::kUc)
      // It may have ended, with the event still queued.
      static_cast<void>(manager_.probe(handle, now));
  }
}

std::vector<std::byte> Connections::private_data(unsigned queue_pair) const {
  const auto said =
      wire::IpoibCmPrivate::of(own_addresses_[queue_pair].qpn.host(), config_.receive_mtu);
  const auto octets = wire::bytes_of(said);
  return {octets.begin(), octets.end()};
}

std::uint8_t Connections::path_mtu(std::uint8_t code) const {
  return code == 0 ? port_.mtu : std::min(code, port_.mtu);
}

std::vector<ConnectionInfo> Connections::list(TimePoint now) const {
  std::vector<ConnectionInfo> rows;
  for (const auto& [handle, c] : all_) {
    if (c.over) continue;
    const Peer& p = peers_.at(c.peer);
    auto peer = address_of(c.peer);
    peer.flags = flags_of(p);
    const cm::Connection* handshake = manager_.find(handle);
    rows.push_back({.handle = handle,
                    .iface = {},
                    .peer = wire::to_string(peer),
                    .neighbours = users_of(p),
                    .transport = c.queue->transport(),
                    .active = c.active,
                    .sending = p.sending == handle,
                    .state = handshake != nullptr ? to_string(handshake->state) : "closed",
                    .worker = actions_.worker_of(c.served_by),
                    .qpn = c.queue->qpn(),
                    .peer_qpn = c.peer_qpn,
                    .mtu = c.peer_mtu == 0 ? 0 : connection_mtu(c),
                    .age = now - c.since,
                    .idle = now - c.active_at,
                    .queue = actions_.info(*c.queue)});
  }
  std::ranges::stable_sort(rows, std::greater{}, &ConnectionInfo::age);
  return rows;
}

}  // namespace ipoib::link
