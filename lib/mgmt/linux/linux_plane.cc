// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/linux_plane.h"

#include <sys/epoll.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/mgmt/node/event_loop.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/slow_path/ip_mbuf.h"
#include "lib/mgmt/worker/injector.h"

namespace ipoib::mgmt {
namespace {

/// Frames of one interface that a turn of the loop takes.
constexpr unsigned kFramesPerTurn = 64;
/// Frames stay in Linux while a worker has so many messages to take.
constexpr std::size_t kMaxBacklog = 256;
/// Linux does not report changes of groups by netlink; most show by a frame of IGMP or MLD.
constexpr Duration kGroupInterval = std::chrono::seconds(1);
constexpr Duration kGroupDelay = std::chrono::milliseconds(50);
constexpr Duration kRetryInterval = std::chrono::seconds(1);
/// An interface that is deleted in Linux is disabled first.
constexpr Duration kStopDelay = std::chrono::milliseconds(100);
/// Programs send their goodbyes while a drained mirror has a carrier. Daemons that look at the
/// carrier only (BIRD), and sessions that begin again, end with it.
constexpr Duration kGoodbyeTime = std::chrono::seconds(2);
constexpr std::size_t kMaxRefusedRoutes = 100'000;
constexpr unsigned kRoutesPerRetry = 1'000;

route::RouteAction action_of(KernelRouteType type) {
  switch (type) {
    case KernelRouteType::kUnicast: break;
    case KernelRouteType::kBlackhole: return route::RouteAction::kBlackhole;
    case KernelRouteType::kUnreachable: return route::RouteAction::kUnreachable;
    case KernelRouteType::kProhibit: return route::RouteAction::kProhibit;
  }
  return route::RouteAction::kForward;
}

bool is_limited_broadcast(const wire::IpAddr& to) {
  return to == wire::IpAddr::v4(0xffff'ffff);
}

}  // namespace

LinuxPlane::~LinuxPlane() {
  for (const Place& place : places_) {
    if (!place.mirror) continue;
    parts_.events.unwatch(place.mirror->fd());
    slot_of(place).mirror = nullptr;
  }
  if (listener_) parts_.events.unwatch(listener_->fd());
}

Status LinuxPlane::open(const std::vector<MirrorRequest>& requests, NodeControl& control) {
  expects_management();
  control_ = &control;
  now_ = parts_.clock.now();
  auto opened = kernel::NetlinkRequests::open(network_namespace());
  if (!opened) return tl::make_unexpected(opened.error());
  requests_ = std::move(*opened);
  auto joined = JoinedGroups::open(network_namespace());
  if (!joined) return tl::make_unexpected(joined.error());
  joined_.emplace(std::move(*joined));
  for (const MirrorRequest& request : requests) places_.push_back({request});
  for (Place& place : places_)
    if (auto made = make(place); !made) return made;
  return listen();
}

Status LinuxPlane::make(Place& place) {
  kernel::TapConfig tap;
  tap.name = slot_of(place).control->name();
  tap.network_namespace = network_namespace();
  std::transform(place.request.mac.begin(), place.request.mac.end(), tap.mac.begin(),
                 [](std::byte o) { return std::to_integer<std::uint8_t>(o); });
  if (const auto mtu = slot_of(place).control->mtu(); mtu != 0) tap.mtu = mtu;
  auto mirror = Mirror::create(tap, *requests_, place.request.is_port);
  if (!mirror) return tl::make_unexpected(mirror.error());
  place.mirror = std::move(*mirror);
  place.followed.clear();
  place.seen_enabled = false;
  place.again.reset();
  auto watched = parts_.events.watch(place.mirror->fd(), EPOLLIN, [this, &place](std::uint32_t) {
    now_ = parts_.clock.now();
    receive(place);
  });
  if (watched) slot_of(place).mirror = place.mirror.get();
  return watched;
}

/// The mirror does not exist any more: addresses and groups that Linux had there are gone.
void LinuxPlane::lose(Place& place) {
  if (!place.mirror) return;
  log(LogArea::kMgmt, LogLevel::kWarning,
      "{}: the mirror was deleted; it is made again in a second", place.mirror->name());
  parts_.events.unwatch(place.mirror->fd());
  slot_of(place).mirror = nullptr;
  const std::string& name = slot_of(place).control->name();
  for (const wire::IpPrefix& address : std::exchange(place.from_linux, {}))
    static_cast<void>(slot_of(place).control->remove_address(address, now_));
  for (const wire::IpAddr& group : std::exchange(place.groups, {}))
    static_cast<void>(control_->leave_group(name, group));
  place.refused.clear();
  place.refused_groups.clear();
  place.mirror.reset();
  place.stop.reset();
  place.enabled = true;
  stop_or_start(place, true);
  place.again = now_ + kRetryInterval;
  multicast_.mirrors_changed(now_);
}

void LinuxPlane::receive(Place& place) {
  const WorkerChannel& channel = *parts_.workers.all()[slot_of(place).owner()].channel;
  for (unsigned i = 0; i < kFramesPerTurn && channel.waiting() < kMaxBacklog; ++i) {
    std::span<const std::byte> packet;
    switch (place.mirror->next(packet)) {
      case Mirror::Sent::kNothing: return;
      case Mirror::Sent::kPacket: send(place, packet); break;
      case Mirror::Sent::kMembership:
        next_groups_ = std::min(next_groups_, now_ + kGroupDelay);
        if (config_.multicast_routes)
          send(place, packet);
        else
          drop(place, Drop::kLinuxRefused);
        break;
      case Mirror::Sent::kFrame: send_frame(place, packet); break;
      case Mirror::Sent::kRefused: drop(place, Drop::kLinuxRefused); break;
      case Mirror::Sent::kGone: return lose(place);
    }
  }
}

/// Packets to groups, broadcasts and neighbours leave by the interface on which Linux sent them; the
/// others by the routes of the node, which have those of Linux.
void LinuxPlane::send(const Place& place, std::span<const std::byte> packet) {
  const wire::IpAddr to = destination_of(packet);
  InterfaceSlot& slot = slot_of(place);
  const auto of_interface = [&] {
    return is_limited_broadcast(to) || wire::is_multicast(to) || wire::is_link_local6(to) ||
           parts_.routes.interface_of(to) == place.request.iface;
  };
  if (parts_.interfaces.has(to)) return drop(place, Drop::kLocalFromSelf);
  if (wire::is_multicast(to) && multicast_.is_copy(packet)) return drop(place, Drop::kLinuxCopy);
  parts_.injector.send_of_linux(packet, slot, of_interface());
}

void LinuxPlane::send_frame(const Place& place, std::span<const std::byte> frame) {
  if (!slot_of(place).carries_packets()) return drop(place, Drop::kLinkDown);
  parts_.injector.send_raw(place.request.iface, fabric::kNoAh, 0, frame);
}

void LinuxPlane::drop(const Place& place, Drop reason) {
  parts_.injector.drop_of_linux(slot_of(place), reason);
}

Status LinuxPlane::listen() {
  auto opened = kernel::NetlinkListener::open(KernelState::subscription(config_.multicast_routes),
                                              network_namespace(), state_, now_);
  if (!opened) return tl::make_unexpected(opened.error());
  Status watched = parts_.events.watch((*opened)->fd(), EPOLLIN, [this](std::uint32_t) {
    now_ = parts_.clock.now();
    hear();
  });
  if (!watched) return watched;
  listener_ = std::move(*opened);
  return {};
}

void LinuxPlane::hear() {
  const Status received = listener_->receive(now_);
  if (received) return;
  log(LogArea::kMgmt, LogLevel::kWarning,
      "the state of Linux is not heard: {}; the next attempt is in a second",
      received.error().what);
  parts_.events.unwatch(listener_->fd());
  listener_.reset();
  listen_again_ = now_ + kRetryInterval;
}

void LinuxPlane::set_draining(bool on, TimePoint now) {
  expects_management();
  if (on == (drain_ == Drain::kDraining) || (!on && drain_ == Drain::kOff)) return;
  drain_ = on ? Drain::kDraining : Drain::kEnding;
  if (on) drain_began_ = now;
  drain_step_ = now + (on ? kGoodbyeTime : config_.drain_hold);
  if (on) state_.freeze_routes();
  log(LogArea::kMgmt, LogLevel::kNotice, "{}",
      on ? "the node drains: neighbours should use other ways, and it forwards what still arrives"
         : "the drain ends: neighbours may use the node again");
}

/// Daemons need their time to find the routes again after a drain. A snapshot then says which of
/// the earlier ones are left.
void LinuxPlane::follow_drain() {
  if (!drain_step_ || now_ < *drain_step_) return;
  drain_step_.reset();
  if (drain_ == Drain::kDraining) return;
  drain_ = Drain::kOff;
  state_.thaw_routes();
  if (!listener_) return;  // The one that is opened next begins with a snapshot.
  parts_.events.unwatch(listener_->fd());
  listener_.reset();
  listen_again_ = now_;
}

void LinuxPlane::advance(TimePoint now) {
  expects_management();
  now_ = now;
  follow_drain();
  if (!requests_) return;
  const bool retry = now >= next_retry_;
  for (Place& place : places_) {
    if (!place.mirror && place.again && now >= *place.again) {
      place.again = now + kRetryInterval;
      if (const Status made = make(place); !made) report(slot_of(place).control->name(), made);
    }
    if (place.mirror) follow(place, retry);
    if (place.stop && now >= *place.stop) {
      place.stop.reset();
      stop_or_start(place, false);
    }
  }
  if (listener_) {
    if (const auto due = listener_->next_deadline(); due && *due <= now) hear();
  } else if (now >= listen_again_) {
    listen_again_ = now + kRetryInterval;
    report("netlink", listen());
  }
  more_ = state_.advance();
  if (now >= next_groups_) update_groups();
  if (!retry) return;
  next_retry_ = now + kRetryInterval;
  for (Place& place : places_) retry_addresses(place);
  retry_routes();
  multicast_.tick(now);
}

std::optional<TimePoint> LinuxPlane::next_deadline() const {
  if (!requests_) return drain_step_;
  std::optional<TimePoint> deadline = earlier(more_ ? now_ : next_groups_, drain_step_);
  for (const Place& place : places_) deadline = earlier(deadline, earlier(place.again, place.stop));
  return earlier(deadline, listener_ ? listener_->next_deadline() : listen_again_);
}

/// Linux sees addresses while it has the interface enabled. They stay when it has no carrier. `all`:
/// also what does not show by a change of InterfaceSlot::usable.
void LinuxPlane::follow(Place& place, bool all) {
  const link::Interface& control = *slot_of(place).control;
  const bool up = slot_of(place).carries_packets();
  if (const auto mtu = control.mtu(); mtu != 0) place.mirror->set_mtu(mtu);
  if (up && place.enabled && (all || place.followed != slot_of(place).usable))
    update_addresses(place);
  const bool draining = drain_ == Drain::kDraining;
  place.mirror->set_dormant(draining, now_);
  place.mirror->set_carrier(up && !(draining && !drain_step_));
}

void LinuxPlane::update_addresses(Place& place) {
  place.followed = slot_of(place).usable;
  forget_removed(place);
  std::vector<wire::IpPrefix> addresses;
  for (const wire::IpPrefix& p : place.followed)
    if (!place.from_linux.contains(p)) addresses.push_back(p);
  // Daemons do not lose an address while the node looks for duplicates after a link was down.
  for (const link::AddressInfo& info : slot_of(place).control->addresses6())
    if (info.state == link::AddressState::kTentative && place.mirror->has(info.address))
      addresses.push_back(info.address);
  place.mirror->set_addresses(addresses, now_);
}

/// An operator removed an address that Linux had added: Linux loses it, too.
void LinuxPlane::forget_removed(Place& place) {
  const std::vector<wire::IpPrefix>& own4 = slot_of(place).control->addresses();
  const std::vector<link::AddressInfo> own6 = slot_of(place).control->addresses6();
  std::erase_if(place.from_linux, [&](const wire::IpPrefix& p) {
    if (std::ranges::find(own4, p) != own4.end() ||
        std::ranges::find(own6, p, &link::AddressInfo::address) != own6.end())
      return false;
    report(slot_of(place).control->name(), place.mirror->remove(p));
    return true;
  });
}

/// An address that another interface had may have become free.
void LinuxPlane::retry_addresses(Place& place) {
  std::erase_if(place.refused, [&](const auto& entry) {
    const auto& [address, options] = entry;
    if (!slot_of(place).control->add_address(address, options, now_)) return false;
    place.from_linux.insert(address);
    return true;
  });
}

/// Routes that ended may have made room for others.
void LinuxPlane::retry_routes() {
  const auto n = std::min<std::size_t>(kRoutesPerRetry, refused_routes_.size());
  auto it = refused_routes_.upper_bound(retried_);
  for (std::size_t i = 0; i < n; ++i) {
    if (it == refused_routes_.end()) it = refused_routes_.begin();
    retried_ = it->first;
    it = set_route(it->second) ? refused_routes_.erase(it) : std::next(it);
  }
}

/// Groups that programs have left make room for those that they join.
void LinuxPlane::update_groups() {
  next_groups_ = now_ + kGroupInterval;
  const auto joined = joined_->read();
  if (!joined) return;
  for (Place& place : places_) {
    if (!place.mirror) continue;
    const std::string& name = slot_of(place).control->name();
    const auto found = joined->find(place.mirror->ifindex());
    const std::set<wire::IpAddr> wanted =
        found != joined->end() ? found->second : std::set<wire::IpAddr>{};
    const auto left = std::erase_if(place.groups, [&](const wire::IpAddr& group) {
      if (wanted.contains(group)) return false;
      static_cast<void>(control_->leave_group(name, group));
      return true;
    });
    if (left != 0) place.refused_groups.clear();
    for (const wire::IpAddr& group : wanted) {
      if (place.groups.contains(group) || place.refused_groups.contains(group)) continue;
      const Status joined_it = control_->join_group(name, group);
      (joined_it ? place.groups : place.refused_groups).insert(group);
      report(name, joined_it);
    }
    std::erase_if(place.refused_groups,
                  [&](const wire::IpAddr& group) { return !wanted.contains(group); });
  }
}

LinuxPlane::Place* LinuxPlane::find(std::int32_t ifindex) {
  const auto it = std::find_if(places_.begin(), places_.end(), [ifindex](const Place& p) {
    return p.mirror && p.mirror->ifindex() == ifindex;
  });
  return it != places_.end() ? &*it : nullptr;
}

/// `ip link set` enables or disables the interface of the node. A mirror that goes, or that moved to
/// another namespace, leaves the interface as it is.
void LinuxPlane::link_changed(std::int32_t ifindex, const KernelLink* link) {
  Place* const place = find(ifindex);
  if (place == nullptr) return;
  if (link == nullptr) return lose(*place);
  place->seen_enabled = place->seen_enabled || link->up;
  if (!place->seen_enabled || link->up == place->enabled) return;
  place->enabled = link->up;
  if (link->up) {
    place->followed.clear();
    place->stop.reset();
    stop_or_start(*place, true);
  } else {
    place->mirror->forget_addresses6();
    place->stop = now_ + kStopDelay;
  }
}

/// Starts only an interface that Linux has stopped: an operator may have taken it down.
void LinuxPlane::stop_or_start(Place& place, bool up) {
  if (place.stopped != up) return;
  place.stopped = !up;
  const std::string& name = slot_of(place).control->name();
  log(LogArea::kMgmt, LogLevel::kNotice, "{}: {} in Linux", name, up ? "enabled" : "disabled");
  report(name, control_->set_interface_up(name, up));
}

void LinuxPlane::address_added(std::int32_t ifindex, const KernelAddress& address) {
  Place* const place = find(ifindex);
  if (place == nullptr || place->mirror->has(address.prefix)) return;
  link::Interface& control = *slot_of(*place).control;
  if (address.peer)
    return report(control.name(),
                  fail(Errc::kInvalidArgument, "{} has a peer, which mirrors do not support",
                       wire::to_string(address.prefix)));
  const link::AddressOptions options{.detect_duplicates = !address.no_dad};
  if (const Status added = control.add_address(address.prefix, options, now_); !added) {
    place->refused.insert_or_assign(address.prefix, options);
    return report(control.name(), added);
  }
  place->from_linux.insert(address.prefix);
}

/// The configuration wins: an address that it has returns to Linux.
void LinuxPlane::address_removed(std::int32_t ifindex, const KernelAddress& address) {
  Place* const place = find(ifindex);
  if (place == nullptr || address.peer) return;
  const std::string& name = slot_of(*place).control->name();
  place->refused.erase(address.prefix);
  if (place->from_linux.erase(address.prefix) != 0)
    return report(name, slot_of(*place).control->remove_address(address.prefix, now_));
  if (place->enabled && place->mirror->restore(address.prefix, now_))
    report(name, fail(Errc::kRefused, "{} is an address of the configuration: Linux has it again",
                      wire::to_string(address.prefix)));
}

Status LinuxPlane::set_route(const KernelRouteEntry& entry) {
  route::KernelRoute route{entry.to, entry.metric, action_of(entry.type), {}};
  for (const KernelPath& path : entry.paths)
    if (const Place* const place = find(path.ifindex))
      route.paths.push_back({place->request.iface, path.via, path.weight});
  // Routes through other interfaces of the namespace are not the node's.
  if (route.action != route::RouteAction::kForward || !route.paths.empty())
    return parts_.routes.set_kernel(route);
  parts_.routes.remove_kernel(entry.to, entry.metric);
  return {};
}

/// A route that the table refuses does not leave the one before in use, which Linux no longer has.
void LinuxPlane::route_set(const KernelRouteEntry& entry) {
  if (!config_.routes) return;
  const RouteKey key{entry.to, entry.metric};
  refused_routes_.erase(key);
  const Status set = set_route(entry);
  if (set) return;
  ++routes_refused_;
  parts_.routes.remove_kernel(entry.to, entry.metric);
  if (refused_routes_.size() < kMaxRefusedRoutes) refused_routes_.emplace(key, entry);
  report("route of Linux to " + wire::to_string(entry.to), set);
}

void LinuxPlane::route_removed(const wire::IpPrefix& to, std::uint32_t metric) {
  refused_routes_.erase({to, metric});
  parts_.routes.remove_kernel(to, metric);
}

std::optional<table::InterfaceId> LinuxPlane::interface_of(std::int32_t ifindex) {
  const Place* const place = find(ifindex);
  return place != nullptr ? std::optional{place->request.iface} : std::nullopt;
}

void LinuxPlane::multicast_route_set(const KernelMulticastRoute& route) {
  report("multicast route of Linux to " + wire::to_string(route.group),
         multicast_.set(route, now_));
}

void LinuxPlane::multicast_route_removed(const wire::IpAddr& group, const wire::IpAddr& source) {
  multicast_.remove(group, source, now_);
}

void LinuxPlane::in_step() {
  if (std::exchange(in_step_, true)) return;
  log(LogArea::kMgmt, LogLevel::kNotice, "the state of Linux is known");
}

LinuxInfo LinuxPlane::info() const {
  LinuxInfo info;
  info.drain = drain_;
  info.network_namespace = network_namespace();
  info.in_step = listener_ != nullptr && in_step_ && !listener_->reader().needs_snapshot() &&
                 !listener_->reader().in_snapshot();
  info.snapshots = listener_ ? listener_->reader().snapshots() : 0;
  info.routes = parts_.routes.in_effect()[static_cast<std::size_t>(route::RouteKind::kKernel)];
  info.routes_refused = routes_refused_;
  info.multicast_routes = state_.multicast().size();
  info.multicast_routes_refused = state_.multicast().refused();
  for (const Place& place : places_) {
    LinuxInfo::MirrorRow row;
    row.iface = slot_of(place).control->name();
    if (place.mirror) {
      row.ifindex = place.mirror->ifindex();
      row.enabled = place.enabled;
      row.carrier = place.mirror->carrier();
      row.to_linux = place.mirror->counters().delivered;
      row.from_linux = place.mirror->counters().taken;
    }
    row.addresses = place.from_linux.size();
    row.groups = place.groups.size();
    info.mirrors.push_back(row);
  }
  return info;
}

void LinuxPlane::report(std::string_view subject, const Status& status) {
  if (status) return;
  if (const auto suppressed = log_.allow(now_))
    log(LogArea::kMgmt, LogLevel::kWarning, "{}: {} ({} messages suppressed)", subject,
        status.error().what, *suppressed);
}

}  // namespace ipoib::mgmt
