// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/verbs_connected_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "drivers/verbs/queue_pair.h"
#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {
namespace {

using fabric::QueueError;
using fabric::QueueState;

/// Largest number of mbufs of a message to send; enough for 64 KiB in pages.
constexpr std::uint32_t kMaxConnectedSegments = 30;
/// Alternate paths that a queue knows: the one loaded last, and the one before.
constexpr std::size_t kKeptAlternates = 2;

/// Error of a queue by the status of its failed send. Source: ibv_poll_cq(3).
QueueError error_of_send(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return QueueError::kRetryExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR: return QueueError::kRnrRetryExceeded;
    case IBV_WC_REM_INV_REQ_ERR: return QueueError::kRemoteInvalidRequest;
    case IBV_WC_REM_ACCESS_ERR: return QueueError::kRemoteAccess;
    case IBV_WC_REM_OP_ERR: return QueueError::kRemoteOperation;
    default: return QueueError::kInvalidRequest;
  }
}

}  // namespace

std::uint16_t max_send_segments(const Device& device) {
  return static_cast<std::uint16_t>(send_limits(device, 1, kMaxConnectedSegments).max_sge);
}

Result<std::unique_ptr<VerbsConnectedQueue>> VerbsConnectedQueue::create(
    Device& device, PortShared& shared, std::uint8_t port, std::uint16_t pkey_index,
    const fabric::ConnectedQueueConfig& config) {
  expects_management();
  expects(
      [&] { return static_cast<VerbsReceiveQueue*>(config.receive_queue)->hardware != nullptr; },
      "the receive queue has its hardware");
  auto& receive = static_cast<VerbsReceiveQueue&>(*config.receive_queue);
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = config.transport == fabric::Transport::kRc ? IBV_QPT_RC : IBV_QPT_UC;
  wanted.send_cq = receive.hardware->send_cq.get();
  wanted.recv_cq = receive.hardware->receive_cq.get();
  wanted.srq = receive.hardware->srq.get();
  const PreferNode near{device.numa_node()};
  auto pair = create_qp(device, receive.config.worker, wanted,
                        send_limits(device, config.send_depth, kMaxConnectedSegments));
  if (!pair) return fail(pair.error().code, "{}: {}", shared.name, pair.error().what);
  ibv_qp_attr attr{};
  attr.pkey_index = pkey_index;
  attr.port_num = port;
  if (const int error = modify(*pair->qp, IBV_QPS_INIT, attr,
                               IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      error != 0)
    return fail(Errc::kUnavailable, "{}: cannot initialise queue pair {:#x}: {}", shared.name,
                pair->qp->qp_num, std::strerror(error));
  std::unique_ptr<VerbsConnectedQueue> queue{
      new VerbsConnectedQueue{std::move(*pair), shared, next_queue_number(), pkey_index, config}};
  receive.queues.set(queue->qpn(), queue.get());
  return queue;
}

VerbsConnectedQueue::VerbsConnectedQueue(QueuePair pair, PortShared& shared, std::uint32_t tag,
                                         std::uint16_t index,
                                         const fabric::ConnectedQueueConfig& config)
    : ConnectedQueue{pair.qp->qp_num, config.transport, &VerbsConnectedQueue::tx},
      receive_queue{static_cast<VerbsReceiveQueue&>(*config.receive_queue)},
      pkey{config.pkey},
      pkey_index{index},
      shared_{shared},
      qp_{std::move(pair.qp)},
      send_{qp_.get(), pair.extended, pair.limits, tag},
      mbufs_{std::make_unique<std::uint32_t[]>(pair.limits.depth)} {}

VerbsConnectedQueue::~VerbsConnectedQueue() {
  forget_device();
}

void VerbsConnectedQueue::forget_device() {
  expects_management();
  qp_.reset();
  const std::uint32_t n = send_.flush();
  shared_.unsent.fetch_add(n, std::memory_order_relaxed);
  const std::uint32_t mbufs = posted_mbufs_ - std::exchange(released_mbufs_, posted_mbufs_);
  receive_queue.give_back(n, mbufs);
  if (port_share_ != nullptr) port_share_->give_back(mbufs);
}

Status VerbsConnectedQueue::set_ready_to_receive(const PortTables& tables,
                                                 const fabric::ReadyToReceive& attr) {
  expects_management();
  if (qp_ == nullptr || state_.load(std::memory_order_relaxed) != QueueState::kInit)
    return fail(Errc::kRefused, "queue pair {:#x} is in state {}", qpn(), to_string(info().state));
  auto path = make_ah_attr(tables, attr.path);
  if (!path) return tl::make_unexpected(path.error());
  if (attr.peer_qpn > 0xff'ffff || attr.rx_psn > 0xff'ffff || attr.min_rnr_timer > 31 ||
      wire::mtu_octets(attr.path_mtu) == 0)
    return fail(
        Errc::kInvalidArgument,
        "queue pair {:#x}: peer QPN {:#x}, PSN {:#x}, RNR timer {} or MTU code {} is out of range",
        qpn(), attr.peer_qpn, attr.rx_psn, attr.min_rnr_timer, attr.path_mtu);
  ibv_qp_attr to{};
  to.ah_attr = *path;
  to.path_mtu = static_cast<ibv_mtu>(attr.path_mtu);
  to.dest_qp_num = attr.peer_qpn;
  to.rq_psn = attr.rx_psn;
  to.min_rnr_timer = attr.min_rnr_timer;
  int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (transport() == fabric::Transport::kRc)
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  port_share_ = receive_queue.port_shares.of(attr.path);
  in_use_ = std::make_unique<const KnownPath>(KnownPath{attr.path, path->static_rate});
  path_.store(&in_use_->attr, std::memory_order_release);
  mtu_ = wire::mtu_octets(attr.path_mtu);
  if (const int error = modify(*qp_, IBV_QPS_RTR, to, mask); error != 0)
    return fail(Errc::kInvalidArgument, "cannot set queue pair {:#x} ready to receive: {}", qpn(),
                std::strerror(error));
  peer_qpn_ = attr.peer_qpn;
  state_.store(QueueState::kReadyToReceive, std::memory_order_relaxed);
  return {};
}

Status VerbsConnectedQueue::set_ready_to_send(const fabric::ReadyToSend& attr) {
  expects_management();
  if (qp_ == nullptr || state_.load(std::memory_order_relaxed) != QueueState::kReadyToReceive)
    return fail(Errc::kRefused, "queue pair {:#x} is in state {}", qpn(), to_string(info().state));
  if (attr.tx_psn > 0xff'ffff || attr.retry_count > 7 || attr.rnr_retry > 7 ||
      attr.ack_timeout > 31)
    return fail(Errc::kInvalidArgument,
                "queue pair {:#x}: PSN {:#x}, retry count {}, RNR retry {} or ACK timeout {} is "
                "out of range",
                qpn(), attr.tx_psn, attr.retry_count, attr.rnr_retry, attr.ack_timeout);
  ibv_qp_attr to{};
  to.sq_psn = attr.tx_psn;
  to.timeout = attr.ack_timeout;
  to.retry_cnt = attr.retry_count;
  to.rnr_retry = attr.rnr_retry;
  int mask = IBV_QP_SQ_PSN;
  if (transport() == fabric::Transport::kRc)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (const int error = modify(*qp_, IBV_QPS_RTS, to, mask); error != 0)
    return fail(Errc::kInvalidArgument, "cannot set queue pair {:#x} ready to send: {}", qpn(),
                std::strerror(error));
  max_message_.store(attr.max_message, std::memory_order_relaxed);
  // Pairs with the acquire load of tx().
  auto expected = QueueState::kReadyToReceive;
  if (!state_.compare_exchange_strong(expected, QueueState::kReadyToSend,
                                      std::memory_order_release))
    return fail(Errc::kRefused, "queue pair {:#x} has failed: {}", qpn(), to_string(error()));
  return {};
}

Status VerbsConnectedQueue::load_alternate(const PortTables& tables,
                                           const fabric::AlternatePath& alternate) {
  expects_management();
  if (qp_ == nullptr || transport() != fabric::Transport::kRc ||
      state_.load(std::memory_order_relaxed) != QueueState::kReadyToSend)
    return fail(Errc::kRefused, "queue pair {:#x} is in state {}", qpn(), to_string(info().state));
  auto path = make_ah_attr(tables, alternate.path);
  if (!path) return tl::make_unexpected(path.error());
  if (alternate.ack_timeout > 31)
    return fail(Errc::kInvalidArgument, "queue pair {:#x}: ACK timeout {} is out of range", qpn(),
                alternate.ack_timeout);
  ibv_qp_attr to{};
  to.alt_ah_attr = *path;
  to.alt_pkey_index = pkey_index;
  to.alt_port_num = tables.port;
  to.alt_timeout = alternate.ack_timeout;
  to.path_mig_state = IBV_MIG_REARM;
  if (const int error = modify(*qp_, IBV_QPS_RTS, to, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
      error != 0)
    return fail(Errc::kInvalidArgument, "cannot load the alternate path of queue pair {:#x}: {}",
                qpn(), std::strerror(error));
  // Workers do not read it yet.
  if (loaded_.size() == kKeptAlternates) loaded_.erase(loaded_.begin());
  loaded_.push_back(
      std::make_unique<const KnownPath>(KnownPath{alternate.path, path->static_rate}));
  return {};
}

/// Returns the place in `loaded_` of the path that the device uses. One that does not say so has
/// changed to the last one.
std::size_t VerbsConnectedQueue::find_migrated() const {
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  if (loaded_.size() > 1 && ibv_query_qp(qp_.get(), &now, IBV_QP_AV, &init) == 0)
    for (std::size_t i = loaded_.size(); i-- > 0;)
      if (loaded_[i]->attr.dlid == now.ah_attr.dlid &&
          loaded_[i]->attr.src_path_bits == now.ah_attr.src_path_bits)
        return i;
  return loaded_.size() - 1;
}

std::optional<fabric::AhAttr> VerbsConnectedQueue::migrated(const fabric::Grace& grace) {
  expects_management();
  if (qp_ == nullptr || loaded_.empty()) return std::nullopt;
  const auto found = loaded_.begin() + static_cast<std::ptrdiff_t>(find_migrated());
  path_.store(&(*found)->attr, std::memory_order_release);
  old_paths_.add(std::exchange(in_use_, std::move(*found)), grace);
  old_paths_.reclaim(grace, [](KnownPathPtr old) { old.reset(); });
  loaded_.erase(loaded_.begin(), found + 1);
  return in_use_->attr;
}

bool VerbsConnectedQueue::exceeds(std::uint8_t port_rate) const {
  expects_management();
  const auto exceeded = [port_rate](const KnownPathPtr& path) {
    return path != nullptr && path->static_rate == 0 &&
           static_rate(path->attr.rate, port_rate) != 0;
  };
  return exceeded(in_use_) || std::ranges::any_of(loaded_, exceeded);
}

void VerbsConnectedQueue::set_error(QueueError error) noexcept {
  auto expected = QueueError::kNone;
  if (!error_.compare_exchange_strong(expected, error, std::memory_order_relaxed)) return;
  state_.store(QueueState::kError, std::memory_order_release);
  if (error != QueueError::kClosed) receive_queue.report_failure();
}

void VerbsConnectedQueue::end(QueueError error) noexcept {
  expects_management();
  set_error(error);
  if (qp_ != nullptr) static_cast<void>(modify(*qp_, IBV_QPS_ERR, {}, 0));
}

fabric::ConnectedQueueInfo VerbsConnectedQueue::info() const {
  fabric::ConnectedQueueInfo out;
  out.state = state_.load(std::memory_order_relaxed);
  out.error = error();
  out.peer_qpn = peer_qpn_;
  out.counters.tx_messages = counters_.tx_messages.get();
  out.counters.tx_octets = counters_.tx_octets.get();
  out.counters.rx_messages = counters_.rx_messages.get();
  out.counters.rx_octets = counters_.rx_octets.get();
  out.counters.tx_flushed = counters_.tx_flushed.get();
  out.counters.tx_done = send_.done() - out.counters.tx_flushed;
  return out;
}

bool VerbsConnectedQueue::complete(const ibv_wc& wc, ReceiveHardware& hw,
                                   DropCounters& drops) noexcept {
  expects_worker();
  const std::uint32_t before = send_.used();
  if (!send_.complete(wc.wr_id)) return false;
  hw.send_room += before - send_.used();
  hw.mbuf_room += count_released();
  if (!failed(wc)) [[likely]]
    return true;
  drops.add(Drop::kIbTxFlushed);
  counters_.tx_flushed.add(1);
  // Flush errors only follow the first failure.
  if (wc.status != IBV_WC_WR_FLUSH_ERR) set_error(error_of_send(wc.status));
  return true;
}

std::uint16_t VerbsConnectedQueue::tx(fabric::ConnectedQueue& queue, rte_mbuf** pkts,
                                      std::uint16_t n) noexcept {
  auto& self = static_cast<VerbsConnectedQueue&>(queue);
  ReceiveHardware* const hw = self.receive_queue.published();
  if (hw != nullptr && self.state_.load(std::memory_order_acquire) == QueueState::kReadyToSend)
      [[likely]]
    return self.send(*hw, pkts, n);
  for (std::uint16_t i = 0; i < n; ++i) self.lose(pkts[i], Drop::kIbTxFlushed);
  return n;
}

std::uint16_t VerbsConnectedQueue::send(ReceiveHardware& hw, rte_mbuf** pkts,
                                        std::uint16_t n) noexcept {
  if (std::min(send_.room(), hw.send_room) < n || hw.mbuf_room < n * send_.limits().max_sge)
    receive_queue.reap(hw);
  const auto taken =
      static_cast<std::uint16_t>(std::min<std::uint32_t>({n, send_.room(), hw.send_room}));
  const MemoryMap& map = shared_.memory.map();
  const std::uint64_t before = send_.posted();
  std::uint64_t octets = 0;
  std::uint32_t mbufs = 0;
  bool posted = true;
  for (std::uint16_t i = 0; i < taken; ++i) {
    rte_mbuf* const m = sendable(pkts[i], hw.mbuf_room - mbufs, mbufs);
    if (m == nullptr) [[unlikely]]
      continue;
    if (send_.chain_full(m)) posted &= send_.post(receive_queue.drops, tx_lost_);
    const std::uint32_t length = m->pkt_len;
    const std::uint32_t segments = m->nb_segs;
    if (!add(map, m)) continue;
    octets += length;
    mbufs += segments;
  }
  posted &= send_.post(receive_queue.drops, tx_lost_);
  const std::uint64_t sent = send_.posted() - before;
  hw.send_room -= static_cast<std::uint32_t>(sent);
  hw.mbuf_room -= count_held(before);
  counters_.tx_messages.add(sent);
  // If a chain is refused, the number of octets that the device took is not known.
  if (posted) [[likely]]
    counters_.tx_octets.add(octets);
  else
    set_error(QueueError::kInvalidRequest);
  if (const CaptureView* const view = shared_.capture.view(); view != nullptr) [[unlikely]]
    show_sent(*view, before);
  return taken;
}

void VerbsConnectedQueue::lose(rte_mbuf* m, Drop reason) noexcept {
  receive_queue.drops.add(reason);
  tx_lost_.add(m->pkt_len);
  rte_pktmbuf_free(m);
}

/// Counts the mbufs of the messages posted since position `from`. Returns their number.
std::uint32_t VerbsConnectedQueue::count_held(std::uint64_t from) noexcept {
  const std::uint32_t before = posted_mbufs_;
  for (std::uint64_t at = from; at != send_.posted(); ++at) {
    posted_mbufs_ += send_.under_way(at)->nb_segs;
    mbufs_[at & (send_.limits().depth - 1)] = posted_mbufs_;
  }
  port_share_->add(posted_mbufs_ - before);
  return posted_mbufs_ - before;
}

/// Returns the number of mbufs of messages that were completed since the last call.
std::uint32_t VerbsConnectedQueue::count_released() noexcept {
  const std::uint32_t now = mbufs_[(send_.done() - 1) & (send_.limits().depth - 1)];
  const std::uint32_t released = now - std::exchange(released_mbufs_, now);
  port_share_->remove(released);
  return released;
}

/// Returns the packet in as many mbufs as the device can send; null: it was dropped. `room`: mbufs
/// that messages may still take; `added`: those of messages that are taken but not counted yet.
rte_mbuf* VerbsConnectedQueue::sendable(rte_mbuf* m, std::uint32_t room,
                                        std::uint32_t added) noexcept {
  Drop reason = Drop::kIbTxTooLong;
  rte_mbuf* fits = nullptr;
  if (m->pkt_len <= max_message_.load(std::memory_order_relaxed)) [[likely]]
    fits = fabric::with_few_segments(m, send_.limits().max_sge, shared_.pool, reason);
  if (fits == nullptr) [[unlikely]] {
    lose(m, reason == Drop::kNoMbuf ? Drop::kIbNoBuffer : Drop::kIbTxTooLong);
    return nullptr;
  }
  if (!fabric::may_keep({.limit = receive_queue.config.send_mbufs, .left = room},
                        port_share_->held() + added, posted_mbufs_ - released_mbufs_ + added,
                        fits->nb_segs)) [[unlikely]] {
    lose(fits, Drop::kIbTxBudget);
    return nullptr;
  }
  return fits;
}

bool VerbsConnectedQueue::add(const MemoryMap& map, rte_mbuf* m) noexcept {
  if (send_.add(m, map, nullptr, 0, 0)) [[likely]]
    return true;
  shared_.memory.miss();
  lose(m, Drop::kIbTxInvalid);
  return false;
}

/// Copies the messages posted since position `from` to a capture.
void VerbsConnectedQueue::show_sent(const CaptureView& view, std::uint64_t from) noexcept {
  PacketHead head = view.head_to(*path_.load(std::memory_order_acquire));
  head.pkey = view.sent_pkey(pkey);
  head.dest_qp = peer_qpn_;
  const CapturedMessage message{.transport = transport(), .mtu = mtu_};
  for (std::uint64_t at = from; at != send_.posted(); ++at)
    shared_.capture.copy_message(view, head, message, send_.under_way(at), captured_tx_,
                                 fabric::CaptureDirection::kSent);
}

void VerbsConnectedQueue::show_received(const CaptureView& view, const ibv_wc& wc,
                                        const rte_mbuf* m) noexcept {
  PacketHead head = view.head_from(*path_.load(std::memory_order_acquire));
  head.pkey = view.sent_pkey(pkey);
  head.dest_qp = qpn();
  CapturedMessage message{.transport = transport(), .mtu = mtu_};
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) message.immediate = immediate_of(wc);
  shared_.capture.copy_message(view, head, message, m, captured_rx_,
                               fabric::CaptureDirection::kReceived);
}

}  // namespace ipoib::verbs
