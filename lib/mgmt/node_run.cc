// SPDX-License-Identifier: BSD-3-Clause
// The management lcore's loop, from the launch of the workers to their end.
#include <rte_cycles.h>
#include <rte_launch.h>

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/log.h"
#include "lib/mgmt/node_impl.h"

namespace ipoib::mgmt {
namespace {

/// Longest sleep: a missed doorbell costs no more than this.
constexpr Duration kMaxSleep = std::chrono::milliseconds(100);
/// Poll interval for MADs of a device that cannot wake the management lcore.
constexpr Duration kMadPoll = std::chrono::milliseconds(1);
constexpr Duration kCarrierCheck = std::chrono::milliseconds(100);
/// Time limit for leaving groups and disconnecting.
constexpr Duration kShutDownLimit = std::chrono::seconds(5);

/// Workers read these cache lines per packet, so they are written only on a change.
template <class T>
void publish(std::atomic<T>& to, T value) {
  if (to.load(std::memory_order_relaxed) != value) to.store(value, std::memory_order_relaxed);
}

}  // namespace

TimePoint NodeImpl::now() const {
  const auto cycles = tsc_() - epoch_tsc_;
  const auto hz = rte_get_tsc_hz();
  return TimePoint{std::chrono::seconds{cycles / hz} +
                   std::chrono::nanoseconds{cycles % hz * 1'000'000'000 / hz}};
}

void NodeImpl::request_stop() {
  stop_requested_.store(true, std::memory_order_relaxed);
  eventfd_write(doorbell_.eventfd, 1);
}

void NodeImpl::post(std::function<void()> task) {
  {
    const std::lock_guard lock{tasks_mutex_};
    tasks_.push_back(std::move(task));
  }
  eventfd_write(doorbell_.eventfd, 1);
}

void NodeImpl::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock{tasks_mutex_};
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

void NodeImpl::run() {
  if (auto s = launch_workers(); !s) {
    log(LogArea::kMgmt, LogLevel::kErr, "{}", s.error().what);
    return;
  }
  runner_.set(std::this_thread::get_id());
  const ActingAs role{LcoreRole::management()};
  start();
  while (!stop_requested_.load(std::memory_order_relaxed)) {
    run_once();
    sleep();
  }
  shut_down();
  runner_.set({});
}

void NodeImpl::start() {
  const ActingAs role{LcoreRole::management()};
  for (const auto& slot : interfaces_) bring_up(*slot->control);
}

Status NodeImpl::launch_workers() {
  for (WorkerHandle& w : workers_.all()) {
    if (rte_eal_remote_launch(&fwd::Worker::launch, w.worker.get(), w.lcore) != 0) {
      stop_workers();
      return fail(Errc::kUnavailable, "cannot start a worker on lcore {}: the lcore is busy",
                  w.lcore);
    }
  }
  return {};
}

void NodeImpl::bring_up(link::Interface& control) {
  control.start(now());
  for (const NeighbourEntryConfig& entry : config_.neighbours) {
    if (entry.iface != control.name()) continue;
    if (auto s = add_neighbour(entry); !s)
      log(LogArea::kMgmt, LogLevel::kErr, "cannot add neighbour {} on {}: {}",
          wire::to_string(entry.addr), entry.iface, s.error().what);
  }
}

void NodeImpl::run_once() {
  const ActingAs role{LcoreRole::management()};
  const TimePoint t = now();
  set_time(t);
  run_tasks();
  handle_port_events(t);
  for (const auto& h : hcas_) h->receive(t);
  handle_punts();
  run_timers();
  publish_interfaces();
  capture_.follow();
  for (WorkerHandle& w : workers_.all()) w.channel->flush();
  retirement_->advance();
  old_generators_.reclaim(*retirement_, [](auto old) { old.reset(); });
}

void NodeImpl::handle_port_events(TimePoint now) {
  for (const auto& h : hcas_) {
    while (const auto event = h->hca->next_event()) {
      const fabric::PortAttr& port = h->hca->attr();
      log(LogArea::kFabric, LogLevel::kNotice, "{}: {} (LID {}, SM at LID {})", h->config.name,
          fabric::to_string(*event), port.lid, port.sm_lid);
      h->on_port_change(now);
      for (const auto& l : links_)
        if (&l->hca() == h.get()) l->control().on_port_event(*event, now);
    }
  }
}

void NodeImpl::set_time(TimePoint t) {
  punt_->set_now(t);
  route_writer_->set_now(t);
  addresses_->set_now(t);
}

void NodeImpl::handle_punts() {
  std::array<msg::Up, 64> messages;
  for (WorkerHandle& w : workers_.all()) {
    const std::size_t n = w.channel->receive(messages);
    for (std::size_t i = 0; i < n; ++i) punt_->handle(messages[i]);
  }
}

void NodeImpl::run_timers() {
  const TimePoint t = now();
  const auto due = [t](std::optional<TimePoint> deadline) { return deadline && *deadline <= t; };
  for (const auto& h : hcas_) h->tick(t);
  for (const auto& slot : interfaces_) {
    if (due(slot->control->next_deadline())) slot->control->tick(t);
    if (slot->up_again && slot->control->state() == link::State::kStopped) {
      slot->up_again = false;
      bring_up(*slot->control);
    }
  }
  multicast_->update_state(t);
  if (due(multicast_->router().next_deadline())) multicast_->router().tick(t);
}

void NodeImpl::publish_interfaces() {
  if (const TimePoint t = now(); t >= next_carrier_check_) {
    next_carrier_check_ = t + kCarrierCheck;  // some drivers ask the kernel each time
    check_removals();
    for (const auto& p : ports_) p->control().set_carrier(p->device().link_status().up, t);
    update_test_egress();
  }
  for (const auto& slot : interfaces_) {
    const link::Interface& control = *slot->control;
    fwd::InterfaceEntry& entry = entries_[control.id()];
    // A link that joins again keeps forwarding with the attributes that it knows.
    const bool up = control.state() == link::State::kUp ||
                    (control.state() == link::State::kJoining && control.mtu() != 0);
    entry.set_up(up, control.mtu());
    routes_->interface_changed(control.id(), up);
    publish(entry.admin_down,
            control.state() == link::State::kStopping || control.state() == link::State::kStopped);
    publish(entry.multicast_router, multicast_->routes_from(control.id()));
  }
  for (const auto& p : ports_)
    if (multicast_->routes_from(p->config().id)) p->device().groups().join_all();
  for (const auto& l : links_) {
    fwd::InterfaceEntry& entry = entries_[l->config().id];
    publish(entry.max_segments, l->hca().hca->capabilities().max_segments);
    if (const wire::Gid gid = l->port().gid(); !entry.is_own(gid)) entry.set_gid(gid);
  }
}

bool NodeImpl::work_waiting() const {
  for (const WorkerHandle& w : workers_.all())
    if (w.channel->has_messages() || w.channel->waiting() != 0) return true;
  for (const auto& h : hcas_) {
    if (h->hca->mad_port().pending()) return true;
    const fabric::ConnectedTransport* const transport = h->hca->connected_transport();
    if (transport != nullptr && transport->queue_events_pending()) return true;
  }
  return stop_requested_.load(std::memory_order_relaxed);
}

std::optional<TimePoint> NodeImpl::next_deadline() const {
  std::optional<TimePoint> deadline = multicast_->router().next_deadline();
  for (const auto& h : hcas_) deadline = earlier(deadline, h->next_deadline());
  for (const auto& slot : interfaces_) deadline = earlier(deadline, slot->control->next_deadline());
  return deadline;
}

TimePoint NodeImpl::next_wake(TimePoint t) const {
  std::optional<TimePoint> wake = earlier(t + kMaxSleep, next_deadline());
  for (const auto& h : hcas_)
    if (h->hca->mad_port().polled()) wake = earlier(wake, t + kMadPoll);
  return *wake;
}

void NodeImpl::sleep() {
  const TimePoint t = now();
  const TimePoint wake = next_wake(t);
  doorbell_.arm();
  events_->wait(work_waiting() ? Duration::zero() : std::max(wake - t, Duration::zero()));
  doorbell_.disarm();
}

void NodeImpl::begin_to_leave() {
  const ActingAs role{LcoreRole::management()};
  log(LogArea::kMgmt, LogLevel::kNotice, "leaving every multicast group and stopping");
  if (stop_hook_) stop_hook_();
  for (const auto& slot : interfaces_) {
    slot->up_again = false;
    slot->control->stop(now());
  }
}

bool NodeImpl::has_left() const {
  return std::all_of(interfaces_.begin(), interfaces_.end(),
                     [](const auto& s) { return s->control->state() == link::State::kStopped; }) &&
         std::all_of(hcas_.begin(), hcas_.end(),
                     [](const auto& h) { return h->connections.settled(); });
}

void NodeImpl::shut_down() {
  const TimePoint limit = now() + kShutDownLimit;
  begin_to_leave();
  while (!has_left() && now() < limit) {
    run_once();
    events_->wait(kMadPoll);
  }
  if (!has_left())
    log(LogArea::kMgmt, LogLevel::kWarning,
        "some groups or connections could not be left or closed before the end");
  stop_workers();
  static_cast<void>(capture_.stop());
}

void NodeImpl::stop_workers() {
  for (WorkerHandle& w : workers_.all()) w.worker->stop();
  for (WorkerHandle& w : workers_.all()) rte_eal_wait_lcore(w.lcore);
}

}  // namespace ipoib::mgmt
