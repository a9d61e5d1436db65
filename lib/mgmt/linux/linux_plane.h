// SPDX-License-Identifier: BSD-3-Clause
// Linux as the control plane of the node: a mirror of each interface, packets between it and the
// interface, and the addresses, groups and routes of Linux.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/hash_seed.h"
#include "lib/base/result.h"
#include "lib/link/log_limit.h"
#include "lib/linux/netlink_listener.h"
#include "lib/linux/netlink_requests.h"
#include "lib/mgmt/linux/joined_groups.h"
#include "lib/mgmt/linux/kernel_state.h"
#include "lib/mgmt/linux/linux_multicast.h"
#include "lib/mgmt/linux/mirror.h"
#include "lib/mgmt/node/node_clock.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/mgmt/worker/worker_set.h"
#include "lib/route/route_table.h"

namespace ipoib::mgmt {

class EventLoop;
class Injector;
class NodeControl;

/// An interface that Linux mirrors.
struct MirrorRequest {
  table::InterfaceId iface;
  wire::MacAddr mac;
  bool is_port;  ///< Or a link.
};

/// Management lcore only. References are kept.
class LinuxPlane final : private KernelStateSink {
 public:
  struct Parts {
    InterfaceTable& interfaces;
    route::RouteTable& routes;
    route::MulticastTable& multicast;
    Injector& injector;
    WorkerSet& workers;
    EventLoop& events;
    const NodeClock& clock;
  };

  LinuxPlane(const LinuxConfig& config, const Parts& parts)
      : config_{config},
        parts_{parts},
        state_{*this, config.table, secret_seed()},
        multicast_{parts.interfaces, parts.multicast,
                   [this](std::int32_t ifindex) { return interface_of(ifindex); }} {}
  ~LinuxPlane() override;

  /// Makes the mirrors and begins to read the state of Linux. Errors: those of Mirror::create() and
  /// of NetlinkListener::open().
  Status open(const std::vector<MirrorRequest>& requests, NodeControl& control);
  [[nodiscard]] bool has_mirrors() const { return !places_.empty(); }
  /// Drain: programs see mirrors that do not run, and say goodbye to their peers on them. Some
  /// seconds later the carrier goes, too. The node keeps the routes that Linux had before, until
  /// LinuxConfig::drain_hold after the end of the drain.
  void set_draining(bool on, TimePoint now);
  [[nodiscard]] Drain drain() const { return drain_; }
  [[nodiscard]] TimePoint drain_began() const { return drain_began_; }

  /// Follows the interfaces. Call once per turn of the loop.
  void advance(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] LinuxInfo info() const;

 private:
  /// The mirror of an interface; none: another process deleted it.
  struct Place {
    MirrorRequest request;
    std::unique_ptr<Mirror> mirror{};
    bool enabled = true;                     ///< In Linux.
    bool seen_enabled = false;               ///< Linux reports a new mirror as disabled first.
    bool stopped = false;                    ///< The interface, because Linux disabled the mirror.
    std::optional<TimePoint> stop{};         ///< Time at which it is stopped for that reason.
    std::set<wire::IpPrefix> from_linux{};   ///< Addresses that Linux gave to the interface.
    std::vector<wire::IpPrefix> followed{};  ///< InterfaceSlot::usable as Linux has seen it.
    /// Addresses of Linux that the interface refused. It is asked again.
    std::map<wire::IpPrefix, link::AddressOptions> refused{};
    std::set<wire::IpAddr> groups{};          ///< Joined on the interface for Linux.
    std::set<wire::IpAddr> refused_groups{};  ///< Not tried again while nothing else is left.
    std::optional<TimePoint> again{};         ///< Time at which the mirror is made again.
  };

  using RouteKey = std::pair<wire::IpPrefix, std::uint32_t>;  ///< Prefix and metric.

  // KernelStateSink.
  void link_changed(std::int32_t ifindex, const KernelLink* link) override;
  void address_added(std::int32_t ifindex, const KernelAddress& address) override;
  void address_removed(std::int32_t ifindex, const KernelAddress& address) override;
  void route_set(const KernelRouteEntry& route) override;
  void route_removed(const wire::IpPrefix& to, std::uint32_t metric) override;
  void multicast_route_set(const KernelMulticastRoute& route) override;
  void multicast_route_removed(const wire::IpAddr& group, const wire::IpAddr& source) override;
  void in_step() override;

  Status make(Place& place);
  void lose(Place& place);
  void receive(Place& place);
  void send(const Place& place, std::span<const std::byte> packet);
  void send_frame(const Place& place, std::span<const std::byte> frame);
  void drop(const Place& place, Drop reason);
  void follow_drain();
  void hear();
  Status listen();
  void follow(Place& place, bool all);
  void update_addresses(Place& place);
  void forget_removed(Place& place);
  void stop_or_start(Place& place, bool up);
  void retry_addresses(Place& place);
  void retry_routes();
  void update_groups();
  Status set_route(const KernelRouteEntry& entry);
  [[nodiscard]] Place* find(std::int32_t ifindex);
  [[nodiscard]] std::optional<table::InterfaceId> interface_of(std::int32_t ifindex);
  [[nodiscard]] std::string network_namespace() const {
    return config_.network_namespace.value_or("");
  }
  [[nodiscard]] InterfaceSlot& slot_of(const Place& place) const {
    return *parts_.interfaces.find(place.request.iface);
  }
  void report(std::string_view subject, const Status& status);

  const LinuxConfig& config_;
  Parts parts_;
  NodeControl* control_ = nullptr;  ///< Set by open().
  std::unique_ptr<kernel::NetlinkRequests> requests_;
  std::vector<Place> places_;
  KernelState state_;
  LinuxMulticast multicast_;
  bool more_ = false;  ///< KernelState::advance() has more to report.
  std::unique_ptr<kernel::NetlinkListener> listener_;  ///< Null: closed until `listen_again_`.
  std::optional<JoinedGroups> joined_;
  TimePoint now_{};
  TimePoint listen_again_{};
  TimePoint next_groups_{};
  TimePoint next_retry_{};
  /// Routes that the table refused: some are tried again each second.
  std::map<RouteKey, KernelRouteEntry> refused_routes_;
  RouteKey retried_{};  ///< The last one that was.
  Drain drain_ = Drain::kOff;
  TimePoint drain_began_{};
  /// kDraining: time at which the carrier goes, none: it has gone; kEnding: end.
  std::optional<TimePoint> drain_step_{};
  bool in_step_ = false;
  std::uint64_t routes_refused_ = 0;  ///< Changes of routes that the node's table did not take.
  link::LogLimit log_{std::chrono::seconds(1), 10};
};

}  // namespace ipoib::mgmt
