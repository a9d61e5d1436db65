// SPDX-License-Identifier: BSD-3-Clause
// Queues, groups and address handles of a verbs port. verbs_hca_device.cc handles the device.
#include "drivers/verbs/verbs_hca.h"

#include <algorithm>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {

namespace {

/// The MAD port as long as no carrier of MADs exists, for example until the link layer is known.
class NoMadPort final : public fabric::MadPort {
 public:
  Status send(const fabric::MadAddress& /*to*/,
              std::span<const std::byte, wire::kMadLen> /*mad*/) override {
    return fail(Errc::kUnavailable, "device not found");
  }
  std::optional<fabric::ReceivedMad> receive() override { return std::nullopt; }
  [[nodiscard]] bool polled() const override { return false; }
  [[nodiscard]] bool pending() const override { return false; }
  [[nodiscard]] fabric::NamedCounters counters() const override { return {}; }
  /// Empty: the HCA names the reason.
  [[nodiscard]] std::string problem() const override { return {}; }
};

NoMadPort no_mad_port;

template <class T>
auto find(std::vector<std::unique_ptr<T>>& all, const void* wanted) {
  return std::find_if(all.begin(), all.end(),
                      [wanted](const auto& q) { return q.get() == wanted; });
}

}  // namespace

Result<std::unique_ptr<VerbsHca>> VerbsHca::create(VerbsHcaConfig config) {
  if (config.device.empty() || config.port == 0)
    return fail(Errc::kInvalidArgument, "{}: a device and a port number from 1 are required",
                config.name);
  if (wire::mtu_octets(config.mtu) == 0)
    return fail(Errc::kInvalidArgument, "{}: invalid MTU code {}", config.name, config.mtu);
  if (config.pool == nullptr || config.rxd == 0 || config.txd == 0)
    return fail(Errc::kInvalidArgument, "{}: a mempool and descriptors are required", config.name);
  if (auto ok = fabric::register_packet_meta(); !ok) return tl::make_unexpected(ok.error());
  std::unique_ptr<VerbsHca> hca{new VerbsHca{std::move(config)}};
  hca->look_for_device();
  hca->events_ = {};  // The initial state of the port is not an event.
  return hca;
}

VerbsHca::VerbsHca(VerbsHcaConfig config)
    : Hca{config.name, {.connected = this, .capture = this}},
      config_{std::move(config)},
      grace_{config_.qsbr},
      memory_{config_.name, grace_},
      ahs_{config_.name,
           config_.retirement != nullptr ? *config_.retirement : fabric::no_workers(),
           {.posted = [this] { return marks(&SendQueue::posted); },
            .done = [this] { return marks(&SendQueue::done); }}},
      capture_{grace_},
      shared_{.name = config_.name,
              .pool = config_.pool,
              .doorbell = config_.doorbell,
              .memory = memory_,
              .ahs = ahs_,
              .capture = capture_,
              .rxd = config_.rxd,
              .txd = config_.txd},
      mads_{capture_, [this]() -> fabric::MadPort& { return mad_carrier(); }},
      attr_{.mtu = config_.mtu, .state = fabric::PortState::kDown, .pkeys = {}} {}

VerbsHca::~VerbsHca() {
  connected_queues_.clear();
  receive_queues_.clear();
  ud_queues_.clear();
  ahs_.forget_device();
  memory_.clear();
}

fabric::MadPort& VerbsHca::mad_carrier() const {
  if (manager_) return manager_->mad_port();
  return mad_port_ ? *mad_port_ : no_mad_port;
}

SendMarks VerbsHca::marks(std::uint64_t (SendQueue::*mark)() const noexcept) const {
  SendMarks all;
  for (const auto& queue : ud_queues_)
    if (queue->hardware) all[queue->hardware->number] = ((*queue->hardware->send).*mark)();
  return all;
}

fabric::Capabilities VerbsHca::capabilities() const {
  fabric::Capabilities able{.receives_chains = true,
                            .multicast = fabric::MulticastFilter::kGroups,
                            .max_workers = fabric::kAnyWorkers,
                            .removal_events = true};
  if (!device_) return able;
  able.max_segments = max_send_segments(*device_);
  able.alternate_paths = device_->has(IBV_DEVICE_AUTO_PATH_MIG);
  able.ack_delay = device_->ack_delay();
  return able;
}

void VerbsHca::reclaim() {
  ahs_.reclaim();
  // A worker that has much to receive holds up its own queues only.
  for (const auto& receive : receive_queues_) {
    while (!receive->closing.empty()) {
      VerbsReceiveQueue::Closing& first = receive->closing.front();
      if (!first.emptied) {
        if (!grace_.over(first.grace)) break;
        first.emptied = receive->emptied();
      }
      if (receive->published() != nullptr && receive->emptied() == *first.emptied) break;
      receive->closing.pop_front();
    }
  }
}

// --- Capture ---

void VerbsHca::set_capture(const std::optional<fabric::CaptureTap>& tap) {
  expects_management();
  tap_ = tap;
  if (tap_)
    publish_capture();
  else
    capture_.publish(std::nullopt);
  grace_.wait();
}

/// Tells workers which attributes of the port a capture shows, if there is one.
void VerbsHca::publish_capture() {
  if (!tap_) return;
  CaptureView view;
  view.tap = *tap_;
  view.ethernet = tables_.ethernet;
  view.pkeys = pkeys_;
  view.gid = wire::Gid::of(attr_.gid_prefix, attr_.guid);
  if (!view.ethernet) {
    view.lid = attr_.lid;
    view.lmc = attr_.lmc;
  }
  for (const auto& queue : ud_queues_)
    for (const auto& group : queue->attachments) view.groups.emplace_back(group.mgid, group.mlid);
  capture_.publish(std::move(view));
}

// --- UD ---

Result<fabric::UdQueue*> VerbsHca::create_ud_queue(const fabric::UdQueueConfig& config) {
  expects_management();
  ud_queues_.push_back(std::make_unique<VerbsUdQueue>(shared_, config));
  if (device_) equip();
  return ud_queues_.back().get();
}

void VerbsHca::destroy_ud_queue(fabric::UdQueue& queue) {
  expects_management();
  const auto found = find(ud_queues_, &queue);
  if (found == ud_queues_.end()) return;
  VerbsUdQueue& closing = **found;
  closing.publish(nullptr);
  grace_.wait();
  for (const auto& group : closing.attachments) leave(closing, group);
  closing.end_hardware();
  ended_.add(closing.drops());
  ud_queues_.erase(found);
}

DropTotals VerbsHca::drops() const {
  DropTotals sum = ended_;
  for (const auto& queue : ud_queues_) sum.add(queue->drops());
  for (const auto& queue : receive_queues_) sum.add(queue->drops);
  if (!manager_) return sum;
  // The hardware discards packets with the wrong keys, which no queue pair reports.
  const fabric::KeyViolations wrong = manager_->key_violations();
  sum.by_reason[static_cast<std::size_t>(Drop::kIbPkey)] += wrong.pkey;
  sum.by_reason[static_cast<std::size_t>(Drop::kIbQkey)] += wrong.qkey;
  return sum;
}

Status VerbsHca::set_qkey(fabric::UdQueue& queue, std::uint32_t qkey) {
  expects_management();
  auto& verbs_queue = static_cast<VerbsUdQueue&>(queue);
  if (verbs_queue.hardware)
    if (auto set = verbs_queue.hardware->set_qkey(qkey); !set) return set;
  verbs_queue.set_qkey(qkey);
  return {};
}

Status VerbsHca::attach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) {
  expects_management();
  if (!mgid.is_multicast() || !wire::is_multicast_lid(mlid))
    return fail(Errc::kInvalidArgument,
                "{}: cannot attach to MLID {:#06x}: not a multicast GID and LID", config_.name,
                mlid);
  auto& verbs_queue = static_cast<VerbsUdQueue&>(queue);
  const VerbsUdQueue::Attachment wanted{mgid, mlid};
  if (std::find(verbs_queue.attachments.begin(), verbs_queue.attachments.end(), wanted) !=
      verbs_queue.attachments.end())
    return fail(Errc::kExists, "{}: QP {:#08x} is already attached to this group on MLID {:#06x}",
                config_.name, queue.qpn(), mlid);
  if (verbs_queue.hardware)
    if (auto attached = attach_now(verbs_queue, wanted); !attached) return attached;
  verbs_queue.attachments.push_back(wanted);
  publish_capture();
  return {};
}

Status VerbsHca::attach_now(VerbsUdQueue& queue, const VerbsUdQueue::Attachment& group) {
  if (tables_.ethernet)
    if (auto joined = groups_.join(tables_.netdev, group.mgid); !joined) return joined;
  auto attached = queue.hardware->attach(group.mgid, group.mlid);
  if (!attached && tables_.ethernet) groups_.leave(group.mgid);
  return attached;
}

Status VerbsHca::detach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) {
  expects_management();
  auto& verbs_queue = static_cast<VerbsUdQueue&>(queue);
  if (std::erase(verbs_queue.attachments, VerbsUdQueue::Attachment{mgid, mlid}) == 0)
    return fail(Errc::kNotFound, "{}: QP {:#08x} is not attached to this group on MLID {:#06x}",
                config_.name, queue.qpn(), mlid);
  publish_capture();
  if (!verbs_queue.hardware) return {};
  leave(verbs_queue, {mgid, mlid});
  return verbs_queue.hardware->detach(mgid, mlid);
}

/// Reverts the join of attach_now(). An attachment that failed has none, and the group may still be
/// that of another queue.
void VerbsHca::leave(const VerbsUdQueue& queue, const VerbsUdQueue::Attachment& group) {
  if (tables_.ethernet && queue.hardware && queue.hardware->attached(group.mgid, group.mlid))
    groups_.leave(group.mgid);
}

Result<fabric::AhIndex> VerbsHca::create_ah(const fabric::AhAttr& attr) {
  expects_management();
  if (!device_) return fail(Errc::kUnavailable, "{}: {}", config_.name, problem());
  return ahs_.add(device_->pd(), tables_, attr);
}

// --- Connected mode ---

Result<fabric::ReceiveQueue*> VerbsHca::create_receive_queue(
    const fabric::ReceiveQueueConfig& config) {
  expects_management();
  if (config.depth == 0 || config.depth > fabric::kMaxReceiveDepth || config.max_message == 0 ||
      config.max_message > fabric::kMaxMessage)
    return fail(Errc::kInvalidArgument, "{}: invalid receive queue: {} messages of {} octets",
                config_.name, config.depth, config.max_message);
  receive_queues_.push_back(std::make_unique<VerbsReceiveQueue>(shared_, config));
  if (device_) equip();
  return receive_queues_.back().get();
}

void VerbsHca::destroy_receive_queue(fabric::ReceiveQueue& queue) {
  expects_management();
  const auto found = find(receive_queues_, &queue);
  if (found == receive_queues_.end()) return;
  (*found)->publish(nullptr);
  grace_.wait();
  (*found)->closing.clear();
  ended_.add((*found)->drops);
  receive_queues_.erase(found);
}

Result<fabric::ConnectedQueue*> VerbsHca::create_connected_queue(
    const fabric::ConnectedQueueConfig& config) {
  expects_management();
  if (!device_) return fail(Errc::kUnavailable, "{}: {}", config_.name, problem());
  const auto depth = config.send_depth;
  if (config.transport == fabric::Transport::kUd || config.receive_queue == nullptr || depth == 0 ||
      depth > fabric::kMaxSendDepth || (depth & (depth - 1)) != 0)
    return fail(Errc::kInvalidArgument,
                "{}: invalid connected queue: transport {}, {} work requests", config_.name,
                to_string(config.transport), depth);
  if (!static_cast<VerbsReceiveQueue*>(config.receive_queue)->hardware)
    return fail(Errc::kUnavailable, "{}: its shared receive queue does not exist", config_.name);
  const auto index = find_pkey(pkeys_, config.pkey);
  if (!index)
    return fail(Errc::kInvalidArgument, "{}: P_Key {:#06x} is not in the P_Key table of the port",
                config_.name, config.pkey);
  auto made = VerbsConnectedQueue::create(*device_, shared_, config_.port, *index, config);
  if (!made) return tl::make_unexpected(made.error());
  connected_queues_.push_back(std::move(*made));
  return connected_queues_.back().get();
}

void VerbsHca::destroy_connected_queue(fabric::ConnectedQueue& queue) {
  expects_management();
  const auto found = find(connected_queues_, &queue);
  if (found == connected_queues_.end()) return;
  VerbsReceiveQueue& receive = (*found)->receive_queue;
  // After a change of the device, another queue may have this QPN.
  if (receive.queues.find(queue.qpn()) == found->get()) receive.queues.set(queue.qpn(), nullptr);
  (*found)->end(fabric::QueueError::kClosed);
  receive.closing.push_back({std::move(*found), grace_.start(), std::nullopt});
  connected_queues_.erase(found);
  std::erase_if(queue_events_, [&](const fabric::QueueEvent& e) { return e.qpn == queue.qpn(); });
  reclaim();
}

Status VerbsHca::set_ready_to_receive(fabric::ConnectedQueue& queue,
                                      const fabric::ReadyToReceive& attr) {
  expects_management();
  if (attr.path_mtu > attr_.mtu)
    return fail(Errc::kInvalidArgument,
                "{}: path MTU code {} is larger than {}, the MTU code of the port", config_.name,
                attr.path_mtu, attr_.mtu);
  return static_cast<VerbsConnectedQueue&>(queue).set_ready_to_receive(tables_, attr);
}

Status VerbsHca::set_ready_to_send(fabric::ConnectedQueue& queue, const fabric::ReadyToSend& attr) {
  expects_management();
  return static_cast<VerbsConnectedQueue&>(queue).set_ready_to_send(attr);
}

void VerbsHca::set_error(fabric::ConnectedQueue& queue) {
  expects_management();
  static_cast<VerbsConnectedQueue&>(queue).end(fabric::QueueError::kClosed);
}

Status VerbsHca::load_alternate(fabric::ConnectedQueue& queue,
                                const fabric::AlternatePath& alternate) {
  expects_management();
  if (!device_) return fail(Errc::kRefused, "{}: {}", config_.name, problem());
  if (!device_->has(IBV_DEVICE_AUTO_PATH_MIG))
    return fail(Errc::kRefused, "{}: {} has no automatic path migration", config_.name,
                config_.device);
  return static_cast<VerbsConnectedQueue&>(queue).load_alternate(tables_, alternate);
}

fabric::ConnectedQueueInfo VerbsHca::info(const fabric::ConnectedQueue& queue) const {
  return static_cast<const VerbsConnectedQueue&>(queue).info();
}

VerbsConnectedQueue* VerbsHca::find_queue(std::uint32_t qpn) const {
  const auto found = std::find_if(connected_queues_.begin(), connected_queues_.end(),
                                  [qpn](const auto& queue) { return queue->qpn() == qpn; });
  return found == connected_queues_.end() ? nullptr : found->get();
}

bool VerbsHca::queue_events_pending() const {
  return !queue_events_.empty() ||
         std::any_of(receive_queues_.begin(), receive_queues_.end(),
                     [](const auto& queue) { return queue->failure_pending(); });
}

std::optional<fabric::QueueEvent> VerbsHca::next_queue_event() {
  expects_management();
  bool failure = false;
  for (const auto& queue : receive_queues_) failure |= queue->take_failure();
  if (failure) {
    for (const auto& queue : connected_queues_) {
      const fabric::QueueError error = queue->error();
      if (error == fabric::QueueError::kNone || error == fabric::QueueError::kClosed) continue;
      if (!std::exchange(queue->reported, true))
        queue_events_.push_back({queue->qpn(), fabric::QueueEvent::Kind::kError});
    }
  }
  if (queue_events_.empty()) return std::nullopt;
  const fabric::QueueEvent first = queue_events_.front();
  queue_events_.pop_front();
  return first;
}

}  // namespace ipoib::verbs
