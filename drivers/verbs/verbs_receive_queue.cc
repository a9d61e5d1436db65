// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/verbs_receive_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "drivers/verbs/queue_pair.h"
#include "drivers/verbs/verbs_connected_queue.h"
#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {
namespace {

using fabric::QueueError;

/// Pending sends of all queues of a worker and link together.
constexpr std::uint32_t kSendCompletions = 16'384;
constexpr std::uint16_t kMaxConnectedPolled = 64;

QueueError error_of_receive(ibv_wc_status status) {
  return status == IBV_WC_LOC_LEN_ERR ? QueueError::kMessageTooLong : QueueError::kInvalidRequest;
}

}  // namespace

void QpnTable::set(std::uint32_t qpn, VerbsConnectedQueue* queue) {
  expects_management();
  auto& slot = pages_[qpn >> kBits & kMask];
  Page* page = slot.load(std::memory_order_relaxed);
  if (page == nullptr) {
    page = owned_.emplace_back(std::make_unique<Page>()).get();
    slot.store(page, std::memory_order_release);
  }
  (*page)[qpn & kMask].store(queue, std::memory_order_release);
}

Result<std::unique_ptr<ReceiveHardware>> ReceiveHardware::create(
    Device& device, const PortShared& shared, const fabric::ReceiveQueueConfig& config) {
  const ibv_device_attr& able = device.attr();
  if (able.max_srq <= 0)
    return fail(Errc::kRefused,
                "{}: the device does not support shared receive queues, which connected mode "
                "requires: set mode = \"datagram\"",
                shared.name);
  const std::uint32_t room = rte_pktmbuf_data_room_size(shared.pool) - RTE_PKTMBUF_HEADROOM;
  const std::uint32_t segments = (config.max_message + room - 1) / room;
  const auto max = std::min(static_cast<std::uint32_t>(std::max(1, able.max_srq_sge)),
                            ReceiveRing::kMaxSegments);
  if (segments > max)
    return fail(Errc::kInvalidArgument,
                "{}: a message of {} octets takes {} mbufs of {}, but the device fills at most {}: "
                "raise --mbuf-size to {} or lower connected-mtu",
                shared.name, config.max_message, segments, room, max,
                (config.max_message + max - 1) / max + RTE_PKTMBUF_HEADROOM);
  const auto depth =
      std::min(config.depth, static_cast<std::uint32_t>(std::min(able.max_srq_wr, able.max_cqe)));

  auto hw = std::make_unique<ReceiveHardware>();
  hw->mbuf_room = config.send_mbufs;
  hw->send_room = std::min(kSendCompletions, static_cast<std::uint32_t>(able.max_cqe));
  const PreferNode near{device.numa_node()};
  hw->send_cq = create_cq(device, config.worker, hw->send_room);
  hw->receive_cq = create_cq(device, config.worker, depth);
  if (hw->send_cq == nullptr || hw->receive_cq == nullptr)
    return fail(Errc::kNoResources, "{}: cannot create a completion queue of {} entries: {}",
                shared.name, std::max(hw->send_room, depth), std::strerror(errno));
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = depth;
  attr.attr.max_sge = segments;
  hw->srq.reset(ibv_create_srq(device.queue_pd(config.worker), &attr));
  if (hw->srq == nullptr)
    return fail(Errc::kNoResources, "{}: cannot create a shared receive queue of {} buffers: {}",
                shared.name, depth, std::strerror(errno));
  hw->receive = std::make_unique<ReceiveRing>(
      nullptr, hw->srq.get(),
      ReceiveRingConfig{.pool = shared.pool, .depth = depth, .segments = segments});
  if (hw->receive->fill(shared.memory.map(), true) != ReceiveRing::Fill::kDone)
    log(LogArea::kFabric, LogLevel::kWarning,
        "{}: the shared receive queue starts with {} of {} buffers of {} mbufs: raise "
        "--total-num-mbufs",
        shared.name, hw->receive->posted(), depth, segments);
  return hw;
}

VerbsReceiveQueue::VerbsReceiveQueue(PortShared& shared, const fabric::ReceiveQueueConfig& wanted)
    : ReceiveQueue{&VerbsReceiveQueue::rx}, config{wanted}, shared_{shared} {}

VerbsReceiveQueue::~VerbsReceiveQueue() {
  closing.clear();  // They refer to this object.
}

void VerbsReceiveQueue::report_failure() noexcept {
  failure_.store(true, std::memory_order_release);
  if (shared_.doorbell != nullptr) shared_.doorbell->ring();
}

void VerbsReceiveQueue::report_broken() noexcept {
  expects_worker();
  broken_.store(true, std::memory_order_release);
  report_failure();
}

/// Takes over send completion entries, mbufs and lost packets of destroyed queues.
void VerbsReceiveQueue::reclaim_destroyed(ReceiveHardware& hw) noexcept {
  if (given_back_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    const std::uint64_t back = given_back_.exchange(0, std::memory_order_relaxed);
    hw.send_room += static_cast<std::uint32_t>(back);
    hw.mbuf_room += static_cast<std::uint32_t>(back >> 32);
  }
  shared_.count_lost(drops);
}

std::uint16_t VerbsReceiveQueue::rx(fabric::ReceiveQueue& queue, rte_mbuf** pkts,
                                    std::uint16_t n) noexcept {
  auto& self = static_cast<VerbsReceiveQueue&>(queue);
  ReceiveHardware* const hw = self.published();
  if (hw == nullptr) return 0;
  self.reclaim_destroyed(*hw);
  self.reap(*hw);
  return self.receive(*hw, pkts, n);
}

std::uint16_t VerbsReceiveQueue::receive(ReceiveHardware& hw, rte_mbuf** pkts,
                                         std::uint16_t n) noexcept {
  std::array<ibv_wc, kMaxConnectedPolled> completions;
  const int max = std::min(n, kMaxConnectedPolled);
  const int got = ibv_poll_cq(hw.receive_cq.get(), max, completions.data());
  if (got < 0) [[unlikely]]
    report_broken();
  const CaptureView* const view = shared_.capture.view();
  std::uint16_t taken = 0;
  for (int i = 0; i < got; ++i)
    if (rte_mbuf* const m = take(hw, completions[static_cast<unsigned>(i)], view))
      pkts[taken++] = m;
  if (hw.receive->posted() != hw.receive->depth()) fill(hw);
  // Pairs with the acquire load of emptied().
  if (got < max)
    emptied_.store(emptied_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return taken;
}

/// Returns null if the completion delivers no packet. Drops are counted, flushed buffers are not.
/// `view`: of the capture; null: none.
rte_mbuf* VerbsReceiveQueue::take(ReceiveHardware& hw, const ibv_wc& wc,
                                  const CaptureView* view) noexcept {
  VerbsConnectedQueue* const queue = queues.find(wc.qp_num);
  const auto discard = [&](Drop reason) {
    drops.add(reason);
    hw.receive->recycle(wc.wr_id);
    return nullptr;
  };
  if (failed(wc)) [[unlikely]] {
    if (queue != nullptr && wc.status != IBV_WC_WR_FLUSH_ERR) {
      queue->set_error(error_of_receive(wc.status));
      return discard(wc.status == IBV_WC_LOC_LEN_ERR ? Drop::kIbMessageTooLong : Drop::kIbMessage);
    }
    hw.receive->recycle(wc.wr_id);
    return nullptr;
  }
  if (queue == nullptr) [[unlikely]]
    return discard(Drop::kIbQpn);
  if (wc.byte_len < sizeof(wire::IpoibHdr)) [[unlikely]]
    return discard(Drop::kIbRunt);
  if (starving_) [[unlikely]]
    return discard(Drop::kIbNoBuffer);
  rte_mbuf* const m = hw.receive->take(wc.wr_id, wc.byte_len);
  queue->count_received(wc.byte_len);
  fabric::PacketMeta& meta = fabric::meta_of(m);
  meta.rx = {.src_qpn = wc.src_qp,
             .slid = wc.slid,
             .iface = 0,
             .sl = wc.sl,
             .grh_offset = 0,
             .multicast = false,
             .transport = queue->transport()};
  meta.queue = wc.qp_num;
  if (view != nullptr) [[unlikely]]
    queue->show_received(*view, wc, m);
  return m;
}

void VerbsReceiveQueue::fill(ReceiveHardware& hw) noexcept {
  using Fill = ReceiveRing::Fill;
  const Fill filled = hw.receive->fill(shared_.memory.map());
  starving_ = filled == Fill::kNoMbufs && hw.receive->posted() < hw.receive->depth() / 4;
  if (filled == Fill::kUnregistered) [[unlikely]]
    shared_.memory.miss();
  if (filled == Fill::kRefused) [[unlikely]]
    report_broken();
}

void VerbsReceiveQueue::reap(ReceiveHardware& hw) noexcept {
  expects_worker();
  std::array<ibv_wc, 16> completions;
  int n = 0;
  do {
    n = ibv_poll_cq(hw.send_cq.get(), static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < n; ++i) {
      const ibv_wc& wc = completions[static_cast<unsigned>(i)];
      // A destroyed queue is not found; its destruction has counted the pending packets.
      if (VerbsConnectedQueue* const queue = queues.find(wc.qp_num))
        static_cast<void>(queue->complete(wc, hw, drops));
    }
    if (n < 0) [[unlikely]]
      report_broken();
  } while (n == static_cast<int>(completions.size()));
}

}  // namespace ipoib::verbs
