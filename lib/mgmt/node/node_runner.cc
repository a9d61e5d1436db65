// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/node_runner.h"

#include <rte_launch.h>

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/mgmt/capture/capture.h"
#include "lib/mgmt/device/device_readings.h"
#include "lib/mgmt/device/port_devices.h"
#include "lib/mgmt/linux/linux_plane.h"
#include "lib/mgmt/node/node_control_impl.h"
#include "lib/mgmt/node/node_parts.h"
#include "lib/mgmt/node/packet_trace.h"
#include "lib/mgmt/node/test_traffic_impl.h"

namespace ipoib::mgmt {
namespace {

/// Longest sleep: a missed doorbell costs no more than this.
constexpr Duration kMaxSleep = std::chrono::milliseconds(100);
/// Poll interval for MADs of a device that cannot wake the management lcore.
constexpr Duration kMadPoll = std::chrono::milliseconds(1);
/// Events of one port that a turn of the loop handles; the others wait for the next turn.
constexpr unsigned kEventsPerTurn = 64;
constexpr Duration kCarrierCheck = std::chrono::milliseconds(100);
/// Time limit for leaving groups and disconnecting.
constexpr Duration kShutDownLimit = std::chrono::seconds(5);
/// Time limit for the file of a capture at the end. It is ample for writing all queued frames to a
/// working disk.
constexpr std::chrono::seconds kCaptureLimit{2};
/// Interval at which a capture that starts or ends is looked at.
constexpr Duration kCaptureStep = std::chrono::milliseconds(5);

/// Workers read these cache lines per packet, so they are written only on a change.
template <class T>
void publish(std::atomic<T>& to, T value) {
  if (to.load(std::memory_order_relaxed) != value) to.store(value, std::memory_order_relaxed);
}

}  // namespace

NodeRunner::NodeRunner(NodeParts& parts, NodeControlImpl& control, PortDevices& devices,
                       TestTrafficImpl& traffic, Capture& capture, PacketTrace& trace,
                       LinuxPlane& linux_plane)
    : parts_{parts},
      loop_{*parts.loop},
      control_{control},
      devices_{devices},
      traffic_{traffic},
      capture_{capture},
      trace_{trace},
      linux_plane_{linux_plane},
      balance_{parts} {}

void NodeRunner::run() {
  if (auto s = launch_workers(); !s) {
    log(LogArea::kMgmt, LogLevel::kErr, "{}", s.error().what);
    return;
  }
  loop_.set_runner(std::this_thread::get_id());
  const ActingAs role{LcoreRole::management()};
  watch_kernel();
  start();
  turn_begin_ = parts_.now();
  while (!loop_.stop_requested()) turn();
  drain_before_end();
  shut_down();
  if (kernel_) loop_.events().unwatch(kernel_->fd());
  kernel_.reset();
  loop_.set_runner({});
}

void NodeRunner::turn() {
  run_once();
  parts_.turn_times.add(turn_begin_, parts_.now());
  sleep();
}

/// The time of a drain that an operator began counts.
void NodeRunner::drain_before_end() {
  const Duration time = parts_.config.linux_plane.drain_time;
  if (time == Duration::zero()) return;
  if (linux_plane_.drain() != Drain::kDraining && !control_.set_draining(true)) return;
  drain_end_ = linux_plane_.drain_began() + time;
  while (!loop_.stop_urged() && parts_.now() < *drain_end_) turn();
  drain_end_.reset();
}

/// Links learn of the interfaces that exist already before they choose their addresses.
void NodeRunner::watch_kernel() {
  const auto wants = [](const auto& l) {
    return l->config().shared_port == link::SharedPort::kAuto;
  };
  if (std::none_of(parts_.links.begin(), parts_.links.end(), wants)) return;
  auto opened = kernel::NetlinkListener::open(KernelInterfaces::subscription(), "",
                                              parts_.kernel_interfaces, parts_.now());
  const auto watched = opened ? loop_.events().watch((*opened)->fd(), EPOLLIN,
                                                     [this](std::uint32_t) { hear_kernel(); })
                              : Status{tl::make_unexpected(opened.error())};
  if (!watched) {
    log(LogArea::kMgmt, LogLevel::kWarning,
        "cannot see the kernel's interfaces: {}; set shared-port of links whose port and partition "
        "the kernel uses",
        watched.error().what);
    return;
  }
  kernel_ = std::move(*opened);
  hear_kernel();
}

void NodeRunner::hear_kernel() {
  const TimePoint t = parts_.now();
  const Status received = kernel_->receive(t);
  for (const KernelInterface& changed : parts_.kernel_interfaces.take_changes())
    for (const auto& l : parts_.links) l->on_kernel_interface(changed, t);
  if (received) return;
  log(LogArea::kMgmt, LogLevel::kWarning, "the kernel's interfaces are no longer watched: {}",
      received.error().what);
  loop_.events().unwatch(kernel_->fd());
  kernel_.reset();
}

void NodeRunner::start() {
  const ActingAs role{LcoreRole::management()};
  for (const auto& slot : parts_.interfaces) control_.bring_up(*slot->control);
}

Status NodeRunner::launch_workers() {
  for (WorkerHandle& w : parts_.workers.all()) {
    if (rte_eal_remote_launch(&fwd::Worker::launch, w.worker.get(), w.lcore) != 0) {
      stop_workers();
      return fail(Errc::kUnavailable, "cannot start a worker on lcore {}: the lcore is busy",
                  w.lcore);
    }
  }
  return {};
}

void NodeRunner::run_once() {
  const ActingAs role{LcoreRole::management()};
  const TimePoint t = parts_.now();
  parts_.set_time(t);
  loop_.run_tasks();
  handle_port_events(t);
  for (const auto& h : parts_.hcas) h->receive(t, parts_.clock);
  handle_punts();
  run_timers();
  publish_interfaces();
  linux_plane_.advance(t);
  capture_.follow();
  for (WorkerHandle& w : parts_.workers.all()) w.channel->flush();
  parts_.retirement->advance();
  trace_.advance(t);
  traffic_.collect();
  parts_.filters->advance(t);
}

void NodeRunner::handle_port_events(TimePoint now) {
  for (const auto& h : parts_.hcas) {
    for (unsigned i = 0; i < kEventsPerTurn; ++i) {
      const auto event = h->hca->next_event();
      if (!event) break;
      const fabric::PortAttr& port = h->hca->attr();
      log(LogArea::kFabric, LogLevel::kNotice, "{}: {} (LID {}, SM at LID {})", h->config.name,
          fabric::to_string(*event), port.lid, port.sm_lid);
      h->on_port_change(now);
      for (const auto& l : parts_.links)
        if (&l->hca() == h.get()) l->control().on_port_event(*event, now);
    }
  }
}

void NodeRunner::handle_punts() {
  std::array<msg::Up, 64> messages;
  for (WorkerHandle& w : parts_.workers.all()) {
    const std::size_t n = w.channel->receive(messages);
    for (std::size_t i = 0; i < n; ++i) parts_.punt->handle(messages[i]);
  }
}

void NodeRunner::run_timers() {
  const TimePoint t = parts_.now();
  const auto due = [t](std::optional<TimePoint> deadline) { return deadline && *deadline <= t; };
  for (const auto& h : parts_.hcas) h->tick(t);
  for (const auto& slot : parts_.interfaces) {
    if (due(slot->control->next_deadline())) slot->control->tick(t);
    if (slot->up_again && slot->control->state() == link::State::kStopped) {
      slot->up_again = false;
      control_.bring_up(*slot->control);
    }
  }
  if (due(parts_.punt->next_deadline())) parts_.punt->tick();
  if (kernel_ && due(kernel_->next_deadline())) hear_kernel();
  balance_.advance(t);
  parts_.multicast->update_state(t);
  if (due(parts_.multicast->router().next_deadline())) parts_.multicast->router().tick(t);
}

void NodeRunner::publish_interfaces() {
  if (const TimePoint t = parts_.now(); t >= next_carrier_check_) {
    next_carrier_check_ = t + kCarrierCheck;  // some drivers ask the kernel each time
    devices_.check_removals();
    for (const auto& p : parts_.ports) p->control().set_carrier(link_status(p->device()).up, t);
    traffic_.update();
  }
  for (const auto& slot : parts_.interfaces) {
    const link::Interface& control = *slot->control;
    fwd::InterfaceEntry& entry = parts_.tables.entries[control.id()];
    const bool up = slot->carries_packets();
    entry.set_up(up, control.mtu());
    parts_.routes->interface_changed(control.id(), up);
    publish(entry.admin_down,
            control.state() == link::State::kStopping || control.state() == link::State::kStopped);
    publish(entry.mirrored, slot->mirror != nullptr);
    publish(entry.multicast_router, parts_.multicast->routes_from(control.id()));
    publish(entry.linux_multicast, parts_.multicast->linux_routes_from(control.id()));
  }
  for (const auto& p : parts_.ports)
    if (parts_.multicast->routes_from(p->config().id) ||
        parts_.multicast->linux_routes_from(p->config().id))
      p->device().groups().join_all();
  for (const auto& l : parts_.links) {
    fwd::InterfaceEntry& entry = parts_.tables.entries[l->config().id];
    publish(entry.max_segments, l->hca().hca->capabilities().max_segments);
    if (const wire::Gid gid = l->port().gid(); !entry.is_own(gid)) entry.set_gid(gid);
    const bool deaf = l->port().link_layer == fabric::LinkLayer::kEthernet;
    parts_.multicast->router().table().set_deaf(l->config().id, deaf, parts_.now());
  }
}

bool NodeRunner::work_waiting() const {
  for (const WorkerHandle& w : parts_.workers.all())
    if (w.channel->has_messages() || w.channel->waiting() != 0) return true;
  for (const auto& h : parts_.hcas) {
    if (h->hca->mad_port().pending()) return true;
    const fabric::ConnectedTransport* const transport = h->hca->connected_transport();
    if (transport != nullptr && transport->queue_events_pending()) return true;
  }
  const bool stop = drain_end_ ? loop_.stop_urged() : loop_.stop_requested();
  return stop || loop_.has_tasks();
}

std::optional<TimePoint> NodeRunner::next_deadline() const {
  std::optional<TimePoint> deadline = parts_.multicast->router().next_deadline();
  deadline = earlier(deadline, parts_.punt->next_deadline());
  if (kernel_) deadline = earlier(deadline, kernel_->next_deadline());
  deadline = earlier(deadline, linux_plane_.next_deadline());
  for (const auto& h : parts_.hcas) deadline = earlier(deadline, h->next_deadline());
  for (const auto& slot : parts_.interfaces)
    deadline = earlier(deadline, slot->control->next_deadline());
  return deadline;
}

TimePoint NodeRunner::next_wake(TimePoint t) const {
  std::optional<TimePoint> wake = earlier(t + kMaxSleep, earlier(next_deadline(), drain_end_));
  for (const auto& h : parts_.hcas)
    if (h->hca->mad_port().polled()) wake = earlier(wake, t + kMadPoll);
  if (capture_.in_transition()) wake = earlier(wake, t + kCaptureStep);
  return *wake;
}

void NodeRunner::sleep() {
  const TimePoint t = parts_.now();
  const TimePoint wake = next_wake(t);
  loop_.doorbell().arm();
  loop_.events().wait(work_waiting() ? Duration::zero() : std::max(wake - t, Duration::zero()),
                      [this] { turn_begin_ = parts_.now(); });
  loop_.doorbell().disarm();
}

void NodeRunner::begin_to_leave() {
  const ActingAs role{LcoreRole::management()};
  log(LogArea::kMgmt, LogLevel::kNotice, "the node is leaving its multicast groups and stopping");
  loop_.announce_stop();
  for (const auto& slot : parts_.interfaces) {
    slot->up_again = false;
    slot->control->stop(parts_.now());
  }
}

bool NodeRunner::has_left() const {
  return std::all_of(parts_.interfaces.begin(), parts_.interfaces.end(),
                     [](const auto& s) { return s->control->state() == link::State::kStopped; }) &&
         std::all_of(parts_.hcas.begin(), parts_.hcas.end(),
                     [](const auto& h) { return h->connections.settled(); });
}

void NodeRunner::shut_down() {
  const TimePoint limit = parts_.now() + kShutDownLimit;
  begin_to_leave();
  while (!has_left() && parts_.now() < limit) {
    run_once();
    loop_.events().wait(kMadPoll);
  }
  if (!has_left())
    log(LogArea::kMgmt, LogLevel::kWarning,
        "some groups or connections could not be left or closed before the end");
  stop_workers();
  capture_.end(kCaptureLimit);
}

void NodeRunner::stop_workers() {
  for (WorkerHandle& w : parts_.workers.all()) w.worker->stop();
  for (WorkerHandle& w : parts_.workers.all()) rte_eal_wait_lcore(w.lcore);
}

}  // namespace ipoib::mgmt
