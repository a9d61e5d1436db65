// SPDX-License-Identifier: BSD-3-Clause
// The device of a verbs port: opened when it is present, closed when it is gone, with failed queues
// restarted.
#include <algorithm>
#include <cstring>
#include <utility>

#include "drivers/verbs/verbs_hca.h"
#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {
namespace {

constexpr Duration kLookForDevice = std::chrono::seconds(1);
/// Some changes cause no event, for example the MTU of an Ethernet or the removal of a device.
constexpr Duration kLookAtPort = std::chrono::milliseconds(250);
/// A queue pair that fails again and again must not keep the management lcore busy.
constexpr Duration kRestartInterval = std::chrono::milliseconds(50);

constexpr auto kQueueBroken = "a completion queue or shared receive queue has failed";

}  // namespace

TimePoint VerbsHca::now() const {
  return config_.now ? config_.now()
                     : TimePoint{std::chrono::steady_clock::now().time_since_epoch()};
}

std::optional<fabric::PortEvent> VerbsHca::next_event() {
  expects_management();
  const TimePoint t = now();
  if (device_) take_device_events();
  if (manager_) on_manager_events();
  if (const bool news = std::exchange(look_now_, false); news || t >= next_look_) {
    if (!device_)
      look_for_device();
    else if (!device_->present())
      lose_device("the device is being removed");
    else if (news || !manager_ || !queue_problem_.empty())
      look_at_port();
    next_look_ = t + (device_ ? kLookAtPort : kLookForDevice);
  }
  if (device_) check_failures(t);
  if (device_ && memory_.take_miss())
    if (auto registered = memory_.register_pools(device_->pd()); !registered)
      log(LogArea::kFabric, LogLevel::kErr, "{}", registered.error().what);
  reclaim();
  return events_.next();
}

void VerbsHca::on_manager_events() {
  while (const auto event = manager_->next_event()) {
    if (*event == fabric::PortEvent::kClientReregister) events_.add(*event);
    look_now_ = true;
  }
}

std::string VerbsHca::problem() const {
  if (!device_ || !problem_.empty()) return problem_;
  std::string problem;
  if (manager_) problem = manager_->problem();
  if (problem.empty() && mad_port_) problem = mad_port_->problem();
  return problem.empty() ? queue_problem_ : problem;
}

// --- The device ---

void VerbsHca::look_for_device() {
  auto device = Device::open(config_.device, config_.port);
  const Status used = device ? use(std::move(*device)) : tl::make_unexpected(device.error());
  if (used) return;
  // Logs each reason once, because the search repeats every second.
  if (std::exchange(problem_, used.error().what) != used.error().what)
    log(LogArea::kFabric, LogLevel::kErr, "{}: {}", config_.name, problem_);
}

Status VerbsHca::use(std::unique_ptr<Device> device) {
  if (device->ethernet() && !config_.administrator)
    return fail(Errc::kRefused,
                "port {} of {} has Ethernet link layer, which has no subnet manager: change the "
                "port to InfiniBand link layer (mlxconfig LINK_TYPE), or set subnet-administrator "
                "= true if all nodes on it run this program",
                config_.port, config_.device);
  if (!device->ethernet() && config_.administrator)
    return fail(Errc::kRefused,
                "port {} of {} has InfiniBand link layer and is administered by its subnet "
                "manager: set subnet-administrator = false",
                config_.port, config_.device);
  if (auto registered = memory_.register_pools(device->pd()); !registered) {
    memory_.clear();
    return registered;
  }
  device_ = std::move(device);
  tables_ = {.port = config_.port, .ethernet = device_->ethernet()};
  problem_.clear();
  log(LogArea::kFabric, LogLevel::kNotice, "{}: {} port {} opened ({} link layer)", config_.name,
      config_.device, config_.port, device_->ethernet() ? "Ethernet" : "InfiniBand");
  warn_of_nodes();
  if (!device_->ethernet() && !manager_) manager_ = config_.manager();
  look_at_port();
  return {};
}

void VerbsHca::warn_of_nodes() const {
  const int node = device_->numa_node();
  if (node < 0) return;
  const auto warn = [&](std::string_view what, int other, std::string_view fix) {
    if (other >= 0 && other != node)
      log(LogArea::kFabric, LogLevel::kWarning,
          "{}: {} is on NUMA node {}, {} is on node {}, and every packet crosses nodes: {}",
          config_.name, config_.device, node, what, other, fix);
  };
  warn("its worker's lcore", config_.worker_node,
       "use lcores on the NUMA node of the device (EAL option -l, [worker] assign)");
  warn("its mempool", config_.pool->socket_id,
       "run the management lcore on the NUMA node of the device (--mgmt-lcore), with memory on "
       "that node (--socket-mem)");
}

/// Destroys all objects of the device, then closes it.
void VerbsHca::lose_device(const std::string& why) {
  log(LogArea::kFabric, LogLevel::kErr, "{}: device {} lost: {}", config_.name, config_.device,
      why);
  for (const auto& queue : ud_queues_) queue->publish(nullptr);
  for (const auto& queue : receive_queues_) queue->publish(nullptr);
  grace_.wait();
  for (const auto& queue : receive_queues_) queue->closing.clear();
  for (const auto& queue : connected_queues_) {
    queue->receive_queue.queues.set(queue->qpn(), nullptr);
    queue->set_error(fabric::QueueError::kClosed);
    queue->forget_device();
  }
  for (const auto& queue : receive_queues_) queue->hardware.reset();
  for (const auto& queue : ud_queues_) queue->end_hardware();
  groups_.clear();
  ahs_.forget_device();
  memory_.clear();
  mad_port_.reset();
  device_.reset();
  problem_ = why;
  attr_.state = fabric::PortState::kDown;
  events_.add(fabric::PortEvent::kFatal);
}

void VerbsHca::take_device_events() {
  while (device_) {
    const auto event = device_->next_event();
    if (!event) return;
    switch (event->kind) {
      case VerbsEvent::Kind::kPort:
        if (event->port_event == fabric::PortEvent::kFatal)
          return lose_device("the device has failed");
        if (event->port_event == fabric::PortEvent::kClientReregister && !manager_)
          events_.add(event->port_event);
        look_now_ = true;
        break;
      case VerbsEvent::Kind::kQueueEstablished:
        if (find_queue(event->qpn) != nullptr)
          queue_events_.push_back({event->qpn, fabric::QueueEvent::Kind::kEstablished});
        break;
      case VerbsEvent::Kind::kQueueMigrated:
        if (VerbsConnectedQueue* const queue = find_queue(event->qpn))
          if (const auto path = queue->migrated(grace_))
            queue_events_.push_back({event->qpn, fabric::QueueEvent::Kind::kMigrated, *path});
        break;
      case VerbsEvent::Kind::kQueueFailed:
        if (event->qpn == 0) return lose_device(kQueueBroken);
        if (VerbsConnectedQueue* const queue = find_queue(event->qpn))
          queue->set_error(fabric::QueueError::kInvalidRequest);
        for (const auto& queue : ud_queues_)
          if (queue->qpn() == event->qpn) queue->fail(IBV_WC_FATAL_ERR);
        break;
    }
  }
}

void VerbsHca::look_at_port() {
  auto view = query_port(*device_, config_.port);
  fabric::PortAttr next = attr_;
  if (view) {
    const bool moved = tables_.gid_index != view->tables.gid_index;
    // A port that is not active has no rate.
    if (view->attr.state != fabric::PortState::kActive) view->tables.rate = tables_.rate;
    tables_ = view->tables;
    if (tables_.ethernet && (!mad_port_ || moved)) mad_port_ = config_.mad_port(tables_.gid_index);
    pkeys_ = std::move(view->pkeys);
    if (manager_) {
      next = manager_->attr();
      next.mtu = std::min(next.mtu, view->attr.mtu);
    } else {
      next = std::move(view->attr);
    }
    const bool down = !manager_ && next.state != fabric::PortState::kActive;
    problem_ = down ? "the port is down" : "";
  } else {
    // A port without an address is down; a port that cannot be queried is gone.
    ibv_port_attr reported{};
    if (ibv_query_port(device_->context(), config_.port, &reported) != 0)
      return lose_device(view.error().what);
    problem_ = view.error().what;
    next.state = fabric::PortState::kDown;
  }
  become(std::move(next));
  equip();
}

/// Changes the port's attributes to `next` and reports the changes as events.
void VerbsHca::become(fabric::PortAttr next) {
  using fabric::PortState;
  const bool was = attr_.state == PortState::kActive;
  const bool is = next.state == PortState::kActive;
  if (!is) {
    // Attributes of a port that is not active are ignored, except its state.
    const PortState state = next.state;
    next = attr_;
    next.state = state;
  }
  next.mtu = std::min(next.mtu, config_.mtu);
  if (attr_.guid != 0) events_.add_changes(attr_, next);
  if (was != is) events_.add(is ? fabric::PortEvent::kPortActive : fabric::PortEvent::kPortDown);
  attr_ = std::move(next);
  publish_capture();
}

// --- Queues ---

/// Gives every queue its missing hardware, and publishes usable hardware to the workers.
void VerbsHca::equip() {
  std::string problem;
  const auto note = [&](const Status& done) {
    if (!done) problem = done.error().what;
  };
  note(ahs_.renew(device_->pd(), tables_));
  for (const auto& queue : receive_queues_) note(equip(*queue));
  for (const auto& queue : ud_queues_) note(equip(*queue));
  end_queues_of_moved_pkeys();
  end_queues_without_rate();
  if (!problem.empty() && problem != queue_problem_)
    log(LogArea::kFabric, LogLevel::kErr, "{}", problem);
  queue_problem_ = std::move(problem);
}

Status VerbsHca::equip(VerbsReceiveQueue& queue) {
  if (queue.hardware) return {};
  auto made = ReceiveHardware::create(*device_, shared_, queue.config);
  if (!made) return tl::make_unexpected(made.error());
  queue.hardware = std::move(*made);
  queue.publish(queue.hardware.get());
  return {};
}

Status VerbsHca::equip(VerbsUdQueue& queue) {
  const auto index = find_pkey(pkeys_, queue.pkey);
  if (!index) {
    queue.publish(nullptr, Drop::kIbPkey);
    return fail(Errc::kUnavailable, "{}: P_Key {:#06x} is not in the P_Key table of the port: {}",
                config_.name, queue.pkey,
                tables_.ethernet ? "a port of Ethernet link layer has only 0xffff"
                                 : "add it in the subnet manager (OpenSM: partitions.conf)");
  }
  if (!queue.hardware) {
    auto made = UdHardware::create(*device_, shared_, config_.port, wire::mtu_octets(config_.mtu),
                                   queue.worker, {*index, queue.qkey()});
    if (!made) return tl::make_unexpected(made.error());
    queue.hardware = std::move(*made);
    queue.pkey_index = *index;
    queue.set_qpn(queue.hardware->qp->qp_num);
  } else if (queue.pkey_index != *index) {
    if (auto restarted = restart(queue, *index); !restarted) return restarted;
  }
  Status complete;
  for (const auto& group : queue.attachments)
    if (!queue.hardware->attached(group.mgid, group.mlid))
      if (auto attached = attach_now(queue, group); !attached) complete = attached;
  queue.hardware->mtu.store(wire::mtu_octets(attr_.mtu), std::memory_order_relaxed);
  // Sends through a port that is down can put a queue pair into error.
  const bool active = attr_.state == fabric::PortState::kActive;
  queue.publish(active ? queue.hardware.get() : nullptr);
  return complete;
}

/// A queue pair keeps the index of its P_Key, where the subnet manager may put another P_Key at any
/// time. A peer's packets are then discarded without a word, so the connection ends and opens again.
void VerbsHca::end_queues_of_moved_pkeys() {
  end_queues("the P_Key table of the port has changed", [this](const VerbsConnectedQueue& queue) {
    return find_pkey(pkeys_, queue.pkey) != queue.pkey_index;
  });
}

/// A queue pair keeps the static rate of its path, which it does not have if the port was no faster when
/// it was made. If the port is faster now, the connection ends and opens again with one.
void VerbsHca::end_queues_without_rate() {
  end_queues("the rate of the port has risen above that of paths",
             [this](const VerbsConnectedQueue& queue) { return queue.exceeds(tables_.rate); });
}

/// Ends the queue pairs for which `ends` is true.
void VerbsHca::end_queues(std::string_view why,
                          const std::function<bool(const VerbsConnectedQueue&)>& ends) {
  unsigned ended = 0;
  for (const auto& queue : connected_queues_) {
    if (queue->error() != fabric::QueueError::kNone || !ends(*queue)) continue;
    queue->end(fabric::QueueError::kInvalidRequest);
    ++ended;
  }
  if (ended != 0)
    log(LogArea::kFabric, LogLevel::kNotice, "{}: {}, {} connected queue pairs end", config_.name,
        why, ended);
}

/// Restarts the queue pair. Its attachments to multicast groups stay.
Status VerbsHca::restart(VerbsUdQueue& queue, std::uint16_t pkey_index) {
  queue.publish(nullptr);
  grace_.wait();
  queue.pkey_index = pkey_index;
  return queue.hardware->restart({pkey_index, queue.qkey()}, shared_);
}

void VerbsHca::check_failures(TimePoint now) {
  for (const auto& queue : receive_queues_)
    if (queue->take_broken()) return lose_device(kQueueBroken);
  for (const auto& queue : ud_queues_) {
    if (queue->take_broken()) return lose_device(kQueueBroken);
    if (!queue->hardware || now < queue->next_restart) continue;
    const auto failure = queue->take_failure();
    if (!failure) continue;
    queue->next_restart = now + kRestartInterval;
    log(LogArea::kFabric, LogLevel::kWarning, "{}: queue pair {:#x} failed ({}), restarting it",
        config_.name, queue->qpn(), ibv_wc_status_str(*failure));
    if (auto restarted = restart(*queue, queue->pkey_index); !restarted)
      return lose_device(restarted.error().what);
    equip();
  }
}

}  // namespace ipoib::verbs
