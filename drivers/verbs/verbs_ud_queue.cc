// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/verbs_ud_queue.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "drivers/verbs/queue_pair.h"
#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {
namespace {

constexpr std::uint32_t kGrhLen = sizeof(wire::Grh);
static_assert(kGrhLen <= RTE_PKTMBUF_HEADROOM);
constexpr std::uint16_t kMaxUdPolled = 64;
/// Send completions are polled when this many sends are pending, or when no packet was received.
constexpr std::uint32_t kReapAt = 128;

}  // namespace

VerbsUdQueue::VerbsUdQueue(PortShared& shared, const fabric::UdQueueConfig& config)
    : UdQueue{0, &VerbsUdQueue::rx, &VerbsUdQueue::tx},
      pkey{config.pkey},
      worker{config.worker},
      shared_{shared} {}

void VerbsUdQueue::publish(UdHardware* hw, Drop absent) noexcept {
  expects_management();
  absent_.store(absent, std::memory_order_relaxed);
  // Pairs with the acquire loads of the bursts.
  published_.store(hw, std::memory_order_release);
}

void VerbsUdQueue::end_hardware() {
  expects_management();
  if (hardware) {
    hardware->stop(shared_);
    shared_.unsent.fetch_add(hardware->send->used(), std::memory_order_relaxed);
  }
  hardware.reset();
  failure_.store(IBV_WC_SUCCESS, std::memory_order_relaxed);
  broken_.store(false, std::memory_order_relaxed);
  set_qpn(0);
}

/// Drops a packet that was accepted from the caller.
void VerbsUdQueue::lose(rte_mbuf* m, Drop reason) noexcept {
  drops_.add(reason);
  tx_lost_.add(m->pkt_len);
  rte_pktmbuf_free(m);
}

void VerbsUdQueue::report_failure(ibv_wc_status why) noexcept {
  fail(why);
  if (shared_.doorbell != nullptr) shared_.doorbell->ring();
}

void VerbsUdQueue::report_broken() noexcept {
  broken_.store(true, std::memory_order_release);
  if (shared_.doorbell != nullptr) shared_.doorbell->ring();
}

std::uint16_t VerbsUdQueue::rx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  auto& self = static_cast<VerbsUdQueue&>(queue);
  UdHardware* const hw = self.published_.load(std::memory_order_acquire);
  self.shared_.count_lost(self.drops_);
  return hw != nullptr ? self.receive(*hw, pkts, n) : std::uint16_t{0};
}

std::uint16_t VerbsUdQueue::receive(UdHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept {
  std::array<ibv_wc, kMaxUdPolled> completions;
  const int got = ibv_poll_cq(hw.receive_cq.get(), std::min(n, kMaxUdPolled), completions.data());
  if (got <= 0) {
    if (got < 0) [[unlikely]]
      report_broken();
    idle(hw);
    return 0;
  }
  const CaptureView* const view = shared_.capture.view();
  std::uint16_t taken = 0;
  for (int i = 0; i < got; ++i) {
    const ibv_wc& wc = completions[static_cast<unsigned>(i)];
    if (!hw.receive->is_current(wc.wr_id)) [[unlikely]] {
      // Late: the queue pair has been restarted since.
      if (!failed(wc)) drops_.add(Drop::kIbQueueState);
      continue;
    }
    if (failed(wc)) [[unlikely]] {
      hw.receive->recycle(wc.wr_id);
      report_failure(wc.status);
      continue;
    }
    const bool runt = wc.byte_len < kGrhLen + sizeof(wire::IpoibHdr);
    if (starving_ || runt) [[unlikely]] {
      hw.receive->recycle(wc.wr_id);
      drops_.add(runt ? Drop::kIbRunt : Drop::kIbNoBuffer);
      continue;
    }
    rte_mbuf* const m = hw.receive->take(wc.wr_id, wc.byte_len - kGrhLen);
    const bool global = (wc.wc_flags & IBV_WC_GRH) != 0;
    const auto* const grh = rte_pktmbuf_mtod(m, const std::byte*) - kGrhLen;
    fabric::PacketMeta& meta = fabric::meta_of(m);
    meta.rx = {.src_qpn = wc.src_qp,
               .slid = wc.slid,
               .iface = 0,
               .sl = wc.sl,
               .grh_offset = static_cast<std::uint8_t>(global ? kGrhLen : 0),
               .multicast = global && grh[offsetof(wire::Grh, dgid)] == std::byte{0xff},
               .transport = fabric::Transport::kUd};
    if ((wc.wc_flags & IBV_WC_IP_CSUM_OK) != 0)
      m->ol_flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    if (view != nullptr) [[unlikely]]
      show_received(*view, wc, m);
    pkts[taken++] = m;
  }
  fill(hw);
  return taken;
}

void VerbsUdQueue::fill(UdHardware& hw) noexcept {
  using Fill = ReceiveRing::Fill;
  const Fill filled = hw.receive->fill(shared_.memory.map());
  if (filled == Fill::kDone) [[likely]] {
    starving_ = false;
    return;
  }
  // While there are no mbufs, dropping packets is better than not receiving.
  starving_ = filled == Fill::kNoMbufs && hw.receive->posted() < hw.receive->depth() / 4;
  if (filled == Fill::kUnregistered) shared_.memory.miss();
  if (filled == Fill::kRefused) report_failure(IBV_WC_GENERAL_ERR);
}

/// Called if no packet was received: takes send completions and refills the receive ring.
void VerbsUdQueue::idle(UdHardware& hw) noexcept {
  if (hw.send->used() != 0) reap(hw);
  if (hw.receive->posted() != hw.receive->depth()) [[unlikely]]
    fill(hw);
}

void VerbsUdQueue::reap(UdHardware& hw) noexcept {
  std::array<ibv_wc, 16> completions;
  int n = 0;
  do {
    n = ibv_poll_cq(hw.send_cq.get(), static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < n; ++i) {
      const ibv_wc& wc = completions[static_cast<unsigned>(i)];
      // Late completions are from before a restart, which has counted them.
      if (!hw.send->complete(wc.wr_id) || !failed(wc)) [[likely]]
        continue;
      drops_.add(Drop::kIbTxFlushed);
      report_failure(wc.status);
    }
    if (n < 0) [[unlikely]]
      report_broken();
  } while (n == static_cast<int>(completions.size()));
}

std::uint16_t VerbsUdQueue::tx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  auto& self = static_cast<VerbsUdQueue&>(queue);
  UdHardware* const hw = self.published_.load(std::memory_order_acquire);
  if (hw != nullptr) [[likely]]
    return self.send(*hw, pkts, n);
  for (std::uint16_t i = 0; i < n; ++i)
    self.lose(pkts[i], self.absent_.load(std::memory_order_relaxed));
  return n;
}

std::uint16_t VerbsUdQueue::send(UdHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept {
  if (hw.send->used() >= kReapAt || hw.send->room() < n) reap(hw);
  const auto taken = static_cast<std::uint16_t>(std::min<std::uint32_t>(n, hw.send->room()));
  const MemoryMap& map = shared_.memory.map();
  const std::uint64_t before = hw.send->posted();
  bool posted = true;
  for (std::uint16_t i = 0; i < taken; ++i) {
    rte_mbuf* const m = sendable(hw, pkts[i]);
    if (m == nullptr) [[unlikely]]
      continue;
    if (hw.send->chain_full(m)) posted &= hw.send->post(drops_, tx_lost_);
    add(hw, map, m);
  }
  posted &= hw.send->post(drops_, tx_lost_);
  if (!posted) [[unlikely]]
    report_failure(IBV_WC_GENERAL_ERR);
  if (const CaptureView* const view = shared_.capture.view(); view != nullptr) [[unlikely]]
    show_sent(*view, *hw.send, before);
  return taken;
}

/// Returns the packet in as many mbufs as the device can send; null: it was dropped.
rte_mbuf* VerbsUdQueue::sendable(const UdHardware& hw, rte_mbuf* m) noexcept {
  Drop reason = Drop::kIbTxTooLong;
  rte_mbuf* fits = nullptr;
  if (m->pkt_len <= hw.mtu.load(std::memory_order_relaxed)) [[likely]]
    fits = fabric::with_few_segments(m, hw.send->limits().max_sge, shared_.pool, reason);
  if (fits == nullptr) [[unlikely]]
    lose(m, reason == Drop::kNoMbuf ? Drop::kIbNoBuffer : Drop::kIbTxTooLong);
  return fits;
}

void VerbsUdQueue::add(UdHardware& hw, const MemoryMap& map, rte_mbuf* m) noexcept {
  const fabric::PacketMeta& meta = fabric::meta_of(m);
  ibv_ah* const ah = shared_.ahs.find(meta.tx.ah);
  if (ah == nullptr) [[unlikely]]
    return lose(m, Drop::kIbTxInvalid);
  if (hw.send->add(m, map, ah, meta.tx.qpn, shared_.ahs.qkey_of(meta.tx.ah, qkey()))) [[likely]]
    return;
  shared_.memory.miss();
  lose(m, Drop::kIbTxInvalid);
}

/// Copies the packets posted since position `from` to a capture.
void VerbsUdQueue::show_sent(const CaptureView& view, const SendQueue& sends,
                             std::uint64_t from) const noexcept {
  for (std::uint64_t at = from; at != sends.posted(); ++at) {
    rte_mbuf* const m = sends.under_way(at);
    const fabric::PacketMeta::Tx& to = fabric::meta_of(m).tx;
    PacketHead head = view.head_to(shared_.ahs.attr_of(to.ah));
    head.pkey = view.sent_pkey(pkey);
    head.dest_qp = to.qpn;
    const std::uint32_t wanted = shared_.ahs.qkey_of(to.ah, qkey());
    head.datagram = {wire::is_controlled_qkey(wanted) ? qkey() : wanted, qpn()};
    shared_.capture.copy(view, head, m, fabric::CaptureDirection::kSent);
  }
}

/// The queue pair has accepted the packet, so the packet's Q_Key and partition were the queue's.
void VerbsUdQueue::show_received(const CaptureView& view, const ibv_wc& wc,
                                 const rte_mbuf* m) const noexcept {
  wire::Grh grh;
  std::memcpy(&grh, rte_pktmbuf_mtod(m, const std::byte*) - kGrhLen, kGrhLen);
  const bool global = (wc.wc_flags & IBV_WC_GRH) != 0;
  PacketHead head =
      view.head_of_datagram(wc.slid, wc.dlid_path_bits, wc.sl, global ? &grh : nullptr, qpn());
  head.pkey = view.sent_pkey(pkey);
  head.datagram = {qkey(), wc.src_qp};
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
    head.opcode = wire::Opcode::kUdSendOnlyImm;
    head.immediate = immediate_of(wc);
  }
  shared_.capture.copy(view, head, m, fabric::CaptureDirection::kReceived);
}

}  // namespace ipoib::verbs
