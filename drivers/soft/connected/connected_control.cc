// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/connected/connected_control.h"

#include <rte_errno.h>
#include <rte_ring_elem.h>

#include <algorithm>
#include <bit>

#include "lib/base/contract.h"
#include "lib/wire/rc.h"

namespace ipoib::soft {
namespace {

using fabric::QueueState;

Result<fabric::RingPtr> create_ring(const ConnectedControlConfig& config,
                                    const UdDatapathConfig& datapath, const char* what,
                                    unsigned element) {
  const std::string name = fmt::format("soft{}_qp_{}_{}", datapath.port_id, what, datapath.worker);
  fabric::RingPtr ring{rte_ring_create_elem(name.c_str(), element, ConnectedControl::kRingSize,
                                            config.socket_id,
                                            RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ)};
  if (ring != nullptr) return ring;
  return fail(Errc::kNoResources, "{}: ring {}: {}", config.name, name, rte_strerror(rte_errno));
}

bool is_psn(std::uint32_t psn) {
  return psn <= wire::kPsnMask;
}

QueuePath path_of(fabric::AhIndex ah, const fabric::AhAttr& attr, std::uint64_t ack_timeout_tsc) {
  return {.ah = ah,
          .peer_lid = attr.dlid,
          .global = attr.global,
          .ack_timeout_tsc = ack_timeout_tsc,
          .peer_gid = attr.dgid};
}

}  // namespace

Result<std::unique_ptr<ConnectedControl>> ConnectedControl::create(
    const ConnectedControlConfig& config) {
  std::vector<Lane> lanes;
  for (const auto& datapath : config.datapaths) {
    auto commands = create_ring(config, datapath->config(), "down", sizeof(QueueCommand));
    if (!commands) return tl::make_unexpected(commands.error());
    auto events = create_ring(config, datapath->config(), "up", sizeof(QueueReport));
    if (!events) return tl::make_unexpected(events.error());
    lanes.push_back({.commands = std::move(*commands), .events = std::move(*events)});
  }
  return std::unique_ptr<ConnectedControl>{new ConnectedControl{config, std::move(lanes)}};
}

ConnectedControl::ConnectedControl(const ConnectedControlConfig& config, std::vector<Lane> lanes)
    : config_{config}, lanes_{std::move(lanes)} {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    UdDatapath& datapath = *config.datapaths[i];
    lanes_[i].port =
        std::make_unique<ConnectedPort>(datapath, datapath.config(),
                                        ConnectedPortConfig{.tsc_hz = config.tsc_hz,
                                                            .kept_mbufs = config.message_mbufs / 2,
                                                            .begun_mbufs = config.message_mbufs / 2,
                                                            .workers = &workers_,
                                                            .commands = lanes_[i].commands.get(),
                                                            .events = lanes_[i].events.get()});
    datapath.publish(lanes_[i].port.get());
  }
}

ConnectedControl::~ConnectedControl() {
  for (const auto& q : queues_)
    if (q) q->port.discard(*q);
  for (const Lane& lane : lanes_)
    for (const auto& q : lane.closing) q->port.discard(*q);
}

Result<fabric::ReceiveQueue*> ConnectedControl::create_receive_queue(
    const fabric::ReceiveQueueConfig& config) {
  expects_management();
  if (config.depth == 0 || config.depth > fabric::kMaxReceiveDepth)
    return fail(Errc::kInvalidArgument, "{}: invalid receive queue depth {}, allowed: 1-{}",
                config_.name, config.depth, fabric::kMaxReceiveDepth);
  if (config.max_message == 0 || config.max_message > fabric::kMaxMessage)
    return fail(Errc::kInvalidArgument, "{}: invalid message size {}, allowed: 1-{} octets",
                config_.name, config.max_message, fabric::kMaxMessage);
  if (config.worker >= lanes_.size())
    return fail(Errc::kInvalidArgument, "{}: receive queue for worker {}, but {} have queue pairs",
                config_.name, config.worker, lanes_.size());
  receive_queues_.push_back(
      std::make_unique<SoftReceiveQueue>(*lanes_[config.worker].port, config));
  return receive_queues_.back().get();
}

void ConnectedControl::destroy_receive_queue(fabric::ReceiveQueue& queue) {
  expects_management();
  closing_receive_queues_.push_back(static_cast<SoftReceiveQueue*>(&queue));
  reclaim();
}

std::uint16_t ConnectedControl::own_pkey(std::uint16_t partition) const {
  return config_.attr.state == fabric::PortState::kActive ? own_entry(config_.attr, partition) : 0;
}

void ConnectedControl::on_port_change() {
  expects_management();
  for (const auto& q : queues_)
    if (q) q->set_pkey(own_pkey(q->partition));
}

bool ConnectedControl::uses(std::uint32_t qpn) const {
  const auto is = [qpn](const auto& q) { return q && q->qpn() == qpn; };
  const std::uint32_t place = ConnectedTable::place(qpn);
  return (place < queues_.size() && is(queues_[place])) ||
         std::ranges::any_of(
             lanes_, [&](const Lane& lane) { return std::ranges::any_of(lane.closing, is); });
}

/// Returns the next unused QPN of the place that is free for longest; empty: no place is free.
std::optional<std::uint32_t> ConnectedControl::free_qpn() {
  if (free_places_.empty()) {
    if (queues_.size() == ConnectedTable::kCapacity) return std::nullopt;
    free_places_.push_back(static_cast<std::uint32_t>(queues_.size()));
    queues_.emplace_back();
    generations_.push_back(config_.first_generation);
  }
  const std::uint32_t place = free_places_.front();
  for (;;) {
    const std::uint32_t qpn = ConnectedTable::qpn(place, generations_[place]++);
    constexpr std::uint32_t kFirstFreeQpn = 2;
    if (qpn >= kFirstFreeQpn && qpn != wire::kMulticastQpn &&
        config_.datapaths.front()->table().queue(qpn) == nullptr) {
      free_places_.pop_front();
      return qpn;
    }
  }
}

Result<fabric::ConnectedQueue*> ConnectedControl::create_queue(
    const fabric::ConnectedQueueConfig& config) {
  expects_management();
  reclaim();
  if (config.transport == fabric::Transport::kUd || config.receive_queue == nullptr)
    return fail(Errc::kInvalidArgument,
                "{}: a connected queue requires transport RC or UC and a receive queue",
                config_.name);
  if (!std::has_single_bit(config.send_depth) || config.send_depth > fabric::kMaxSendDepth)
    return fail(Errc::kInvalidArgument,
                "{}: invalid send queue depth {}, allowed: a power of two up to {}", config_.name,
                config.send_depth, fabric::kMaxSendDepth);
  // SoftHca::create_ud_queue() checks this in the same way.
  if (!config_.managed && own_entry(config_.attr, config.pkey) == 0)
    return fail(Errc::kInvalidArgument, "{}: P_Key {:#06x} is not in the P_Key table of the port",
                config_.name, config.pkey);
  const std::optional<std::uint32_t> qpn = free_qpn();
  if (!qpn)
    return fail(Errc::kNoResources, "{}: all {} connected queues are in use", config_.name,
                ConnectedTable::kCapacity);
  auto q = std::make_unique<SoftConnectedQueue>(*qpn, config);
  q->set_pkey(own_pkey(config.pkey));
  ++q->receive_queue.users;
  const std::uint32_t place = ConnectedTable::place(*qpn);
  workers_.set(place, q->port.worker());
  q->port.queues().set(place, q.get());
  queues_[place] = std::move(q);
  return queues_[place].get();
}

void ConnectedControl::destroy_queue(SoftConnectedQueue& q) {
  expects_management();
  const std::uint32_t place = ConnectedTable::place(q.qpn());
  q.port.queues().set(place, nullptr);
  lanes_[q.port.worker()].closing.push_back(std::move(queues_[place]));
  command({.queue = &q, .op = QueueCommand::Op::kClose, .in_use = {}, .alternate = kNoPath});
}

Status ConnectedControl::check_path(const fabric::AhAttr& path) const {
  if (wire::is_unicast_lid(path.dlid)) return {};
  return fail(Errc::kInvalidArgument, "{}: path to LID {:#06x}, which is not a unicast LID",
              config_.name, path.dlid);
}

Status ConnectedControl::check_mtu(std::uint8_t code) const {
  const unsigned mtu = wire::mtu_octets(code);
  if (mtu == 0 || code > config_.attr.mtu)
    return fail(Errc::kInvalidArgument, "{}: invalid path MTU code {}, allowed: 1-{}", config_.name,
                code, config_.attr.mtu);
  // Head with GRH, BTH, immediate or AETH, payload, pad, ICRC.
  const std::size_t frame = kGlobalHeadLen + sizeof(wire::Bth) + 4 + mtu + 3 + wire::kIcrcLen;
  const std::size_t room = rte_pktmbuf_data_room_size(config_.datapaths.front()->config().pool);
  if (room < frame)
    return fail(Errc::kInvalidArgument,
                "{}: path MTU {} requires frames of {} octets, mbufs hold {}", config_.name, mtu,
                frame, room);
  return {};
}

/// Cycles, for the code of an ACK timeout.
std::uint64_t ConnectedControl::ack_timeout_tsc(std::uint8_t code) const {
  return code == 0 ? 0 : tsc_of_ns(wire::ack_timeout_ns(code), config_.tsc_hz);
}

Status ConnectedControl::set_ready_to_receive(SoftConnectedQueue& q,
                                              const fabric::ReadyToReceive& attr) {
  expects_management();
  if (const QueueState state = q.state(); state != QueueState::kInit)
    return fail(Errc::kRefused, "{}: QP {:#08x} is in state {}", config_.name, q.qpn(),
                to_string(state));
  if (Status ok = check_mtu(attr.path_mtu); !ok) return ok;
  if (Status ok = check_path(attr.path); !ok) return ok;
  if (attr.peer_qpn < 2 || attr.peer_qpn >= wire::kMulticastQpn)
    return fail(Errc::kInvalidArgument, "{}: invalid QPN {:#08x} of the peer", config_.name,
                attr.peer_qpn);
  if (!is_psn(attr.rx_psn) || attr.min_rnr_timer > 31)
    return fail(Errc::kInvalidArgument, "{}: PSN {:#x} or RNR timer code {} is out of range",
                config_.name, attr.rx_psn, attr.min_rnr_timer);
  const Result<fabric::AhIndex> ah = config_.ahs.add(config_.attr, attr.path);
  if (!ah) return tl::make_unexpected(ah.error());
  q.ahs.push_back({*ah, attr.path});
  q.known_path = *ah;
  q.set_paths(path_of(*ah, attr.path, 0), kNoPath, Migration::kMigrated);
  q.requester.port_share = lanes_[q.port.worker()].port_shares.of(attr.path);
  q.peer_qpn = attr.peer_qpn;
  q.mtu = wire::mtu_octets(attr.path_mtu);
  q.min_rnr_timer = attr.min_rnr_timer;
  q.responder.psn = attr.rx_psn;
  if (!q.advance(QueueState::kInit, QueueState::kReadyToReceive))
    return fail(Errc::kRefused, "{}: QP {:#08x} is closed", config_.name, q.qpn());
  return {};
}

Status ConnectedControl::set_ready_to_send(SoftConnectedQueue& q, const fabric::ReadyToSend& attr) {
  expects_management();
  if (const QueueState state = q.state(); state != QueueState::kReadyToReceive)
    return fail(Errc::kRefused, "{}: QP {:#08x} is in state {}", config_.name, q.qpn(),
                to_string(state));
  if (!is_psn(attr.tx_psn) || attr.retry_count > 7 || attr.rnr_retry > 7 || attr.ack_timeout > 31)
    return fail(Errc::kInvalidArgument,
                "{}: PSN {:#x}, retry counts {} and {} or ACK timeout code {} is out of range",
                config_.name, attr.tx_psn, attr.retry_count, attr.rnr_retry, attr.ack_timeout);
  if (attr.max_message == 0 || attr.max_message > fabric::kMaxMessage)
    return fail(Errc::kInvalidArgument, "{}: invalid message size {}, allowed: 1-{} octets",
                config_.name, attr.max_message, fabric::kMaxMessage);
  // At most half of all PSNs may be in flight.
  const std::uint64_t packets = (std::uint64_t{attr.max_message} + q.mtu - 1) / q.mtu;
  if (packets * q.send_depth > 1U << 23)
    return fail(Errc::kInvalidArgument, "{}: {} messages of {} packets exceed the PSN space",
                config_.name, q.send_depth, packets);
  Requester& r = q.requester;
  r.slots = std::make_unique<SendSlot[]>(q.send_depth);
  r.mask = q.send_depth - 1U;
  r.una = r.psn = r.max = r.end = attr.tx_psn;
  r.retries_left = q.retry_count = attr.retry_count;
  r.rnr_left = q.rnr_retry = attr.rnr_retry;
  q.max_message = attr.max_message;
  q.path.ack_timeout_tsc = ack_timeout_tsc(attr.ack_timeout);
  if (!q.advance(QueueState::kReadyToReceive, QueueState::kReadyToSend))
    return fail(Errc::kRefused, "{}: QP {:#08x} has failed: {}", config_.name, q.qpn(),
                to_string(info(q).error));
  return {};
}

void ConnectedControl::set_error(SoftConnectedQueue& q) {
  expects_management();
  command({.queue = &q, .op = QueueCommand::Op::kError, .in_use = {}, .alternate = kNoPath});
}

Status ConnectedControl::load_alternate(SoftConnectedQueue& q,
                                        const fabric::AlternatePath& alternate) {
  expects_management();
  if (const QueueState state = q.state(); !q.reliable() || state != QueueState::kReadyToSend)
    return fail(Errc::kRefused, "{}: QP {:#08x} is of type {} and in state {}", config_.name,
                q.qpn(), to_string(q.transport()), to_string(state));
  // Its event is still to be read.
  if (q.handles.load(std::memory_order_relaxed).in_use != q.known_path)
    return fail(Errc::kRefused, "{}: QP {:#08x} has just changed its path", config_.name, q.qpn());
  if (Status ok = check_path(alternate.path); !ok) return ok;
  if (alternate.ack_timeout > 31)
    return fail(Errc::kInvalidArgument, "{}: ACK timeout code {} is out of range", config_.name,
                alternate.ack_timeout);
  trim_handles(q);
  const Result<fabric::AhIndex> ah = config_.ahs.add(config_.attr, alternate.path);
  if (!ah) return tl::make_unexpected(ah.error());
  q.ahs.push_back({*ah, alternate.path});
  ++q.loads;
  command({.queue = &q,
           .op = QueueCommand::Op::kLoadAlternate,
           .in_use = q.known_path,
           .alternate = path_of(*ah, alternate.path, ack_timeout_tsc(alternate.ack_timeout))});
  return {};
}

/// Returns the path in use. Until the event of its migration is read, a queue migrates no further.
fabric::AhAttr ConnectedControl::on_migrated(SoftConnectedQueue& q) {
  q.known_path = q.handles.load(std::memory_order_relaxed).in_use;
  trim_handles(q);
  return std::ranges::find(q.ahs, q.known_path, &PathHandle::ah)->attr;
}

/// Removes the address handles of paths that the queue no longer has, unless a path is on its way to
/// the worker.
void ConnectedControl::trim_handles(SoftConnectedQueue& q) {
  // Pairs with the release store of the worker after it took a path.
  if (q.loads_taken.load(std::memory_order_acquire) != q.loads) return;
  const PathHandles kept = q.handles.load(std::memory_order_relaxed);
  std::erase_if(q.ahs, [&](const PathHandle& path) {
    if (path.ah == kept.in_use || path.ah == kept.loaded) return false;
    config_.ahs.remove(path.ah);
    return true;
  });
}

void ConnectedControl::command(const QueueCommand& command) {
  Lane& lane = lanes_[command.queue->port.worker()];
  lane.unsent.push_back(command);
  send_commands(lane);
}

void ConnectedControl::send_commands(Lane& lane) {
  while (!lane.unsent.empty() && rte_ring_sp_enqueue_elem(lane.commands.get(), &lane.unsent.front(),
                                                          sizeof(QueueCommand)) == 0)
    lane.unsent.pop_front();
}

/// Frees the queues that their workers have released.
void ConnectedControl::reclaim() {
  for (Lane& lane : lanes_) {
    send_commands(lane);
    // Acquire: pairs with the worker's last store to the queue.
    while (!lane.closing.empty() && lane.closing.front()->closed.load(std::memory_order_acquire)) {
      release(std::move(lane.closing.front()));
      lane.closing.pop_front();
    }
  }
  std::erase_if(closing_receive_queues_, [this](SoftReceiveQueue* queue) {
    if (queue->users != 0) return false;
    std::erase_if(receive_queues_, [queue](const auto& q) { return q.get() == queue; });
    return true;
  });
}

void ConnectedControl::release(std::unique_ptr<SoftConnectedQueue> q) {
  for (const PathHandle& path : q->ahs) config_.ahs.remove(path.ah);
  --q->receive_queue.users;
  free_places_.push_back(ConnectedTable::place(q->qpn()));
}

fabric::ConnectedQueueInfo ConnectedControl::info(const SoftConnectedQueue& q) {
  const fabric::ConnectedCounters& c = q.counters;
  return {.state = q.state(),
          .error = q.error.load(std::memory_order_relaxed),
          .peer_qpn = q.peer_qpn,
          .counters = {.tx_messages = c.tx_messages.get(),
                       .tx_octets = c.tx_octets.get(),
                       .rx_messages = c.rx_messages.get(),
                       .rx_octets = c.rx_octets.get(),
                       .tx_done = c.tx_done.get(),
                       .tx_flushed = c.tx_flushed.get(),
                       .tx_repeated = c.tx_repeated.get(),
                       .timeouts = c.timeouts.get(),
                       .naks_received = c.naks_received.get(),
                       .rnr_received = c.rnr_received.get(),
                       .naks_sent = c.naks_sent.get(),
                       .rnr_sent = c.rnr_sent.get(),
                       .rx_duplicates = c.rx_duplicates.get(),
                       .rx_out_of_order = c.rx_out_of_order.get()}};
}

std::optional<fabric::QueueEvent> ConnectedControl::next_event() {
  expects_management();
  reclaim();
  QueueReport report;
  for (const Lane& lane : lanes_)
    while (rte_ring_sc_dequeue_elem(lane.events.get(), &report, sizeof(report)) == 0)
      if (SoftConnectedQueue* const q = lane.port->queues().find(report.qpn); q != nullptr) {
        fabric::QueueEvent event{.qpn = report.qpn, .kind = report.kind};
        if (event.kind == fabric::QueueEvent::Kind::kMigrated) event.path = on_migrated(*q);
        return event;
      }
  return std::nullopt;
}

bool ConnectedControl::events_pending() const {
  return std::ranges::any_of(
      lanes_, [](const Lane& lane) { return rte_ring_empty(lane.events.get()) == 0; });
}

}  // namespace ipoib::soft
