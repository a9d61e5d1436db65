// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/connected/connected_port.h"

#include <rte_ring_elem.h>

#include <algorithm>

#include "lib/base/contract.h"

namespace ipoib::soft {

ConnectedPort::ConnectedPort(UdDatapath& datapath, const UdDatapathConfig& hca,
                             const ConnectedPortConfig& config)
    : datapath_{datapath}, hca_{hca}, config_{config}, timers_{config.tsc_hz, hca.tsc()} {}

ConnectedPort::~ConnectedPort() {
  rte_pktmbuf_free_bulk(frames_.data(), nb_frames_);
  rte_pktmbuf_free_bulk(local_.data(), nb_local_);
}

void ConnectedPort::drop(rte_mbuf* m, Drop reason) noexcept {
  datapath_.count_drop(reason);
  rte_pktmbuf_free(m);
}

void ConnectedPort::poll() noexcept {
  expects_worker();
  QueueCommand command;
  while (rte_ring_sc_dequeue_elem(config_.commands, &command, sizeof(command)) == 0)
    [[unlikely]] apply_command(command);
  if (nb_local_ != 0) [[unlikely]]
    loop_back();
  while (oldest_is_over(kMessageMs)) [[unlikely]] abort_message(*begun_first_);
  timers_.expire(hca_.tsc(), [this](Timed& due) { timer(static_cast<SoftConnectedQueue&>(due)); });
  if (!ready_.empty()) serve_ready();
  flush();
  if (!events_came_) [[likely]]
    return;
  events_came_ = false;
  if (hca_.doorbell != nullptr) hca_.doorbell->ring();
}

void ConnectedPort::apply_command(const QueueCommand& command) noexcept {
  if (command.op == QueueCommand::Op::kLoadAlternate) return load_alternate(command);
  SoftConnectedQueue& q = *command.queue;
  fail(q, fabric::QueueError::kClosed);
  if (command.op != QueueCommand::Op::kClose) return;
  expects(!q.closing, "a queue is closed once");
  q.closing = true;
  ++closing_;
  mark_ready(q);
}

/// Receives frames of this port to its own queues. Responses to them are looped back in the next
/// loop.
void ConnectedPort::loop_back() noexcept {
  std::array<rte_mbuf*, kBurst> frames;
  const std::uint16_t n = std::exchange(nb_local_, std::uint16_t{0});
  std::copy_n(local_.begin(), n, frames.begin());
  datapath_.receive_own({frames.data(), n});
}

/// Serves each ready queue once, as long as the wire has room. Those that are being closed need no
/// room.
void ConnectedPort::serve_ready() noexcept {
  ReadyList ready = std::exchange(ready_, {});
  ReadyList passed_over;  // These are served first next time.
  bool room = has_room();
  while (!ready.empty() && (room || closing_ != 0)) {
    SoftConnectedQueue& q = ready.pop();
    if (q.closing) [[unlikely]] {
      --closing_;
      discard(q);
      // The last access: management may free the queue from here on.
      q.closed.store(true, std::memory_order_release);
      continue;
    }
    if (!room) [[unlikely]] {
      passed_over.push(q);
      continue;
    }
    q.in_ready_list = false;
    if (!serve(q)) mark_ready(q);
    room = has_room();
  }
  passed_over.append(ready);
  passed_over.append(ready_);
  ready_ = passed_over;
}

/// False: more work is left that only the wire, a mempool or the path's rate holds up.
bool ConnectedPort::serve(SoftConnectedQueue& q) noexcept {
  bool done = report_events(q);
  if (q.responder.response != Response::kNone && !respond(q)) return false;
  if (q.state() == fabric::QueueState::kReadyToSend) done &= send(q);
  return done;
}

void ConnectedPort::mark_ready(SoftConnectedQueue& q) noexcept {
  if (q.in_ready_list) return;
  q.in_ready_list = true;
  ready_.push(q);
}

/// Enqueues the queue's events to management. False: the ring is full.
bool ConnectedPort::report_events(SoftConnectedQueue& q) noexcept {
  using Kind = fabric::QueueEvent::Kind;
  const auto put = [&](bool& wanted, Kind kind) {
    if (!wanted) [[likely]]
      return true;
    QueueReport report{.qpn = q.qpn(), .kind = kind};
    if (rte_ring_sp_enqueue_elem(config_.events, &report, sizeof(report)) != 0) return false;
    wanted = false;
    return events_came_ = true;
  };
  return put(q.established_unreported, Kind::kEstablished) &&
         put(q.migrated_unreported, Kind::kMigrated) && put(q.error_unreported, Kind::kError);
}

/// Ends a connection. Only its pending response is still sent.
void ConnectedPort::fail(SoftConnectedQueue& q, fabric::QueueError why) noexcept {
  if (q.state() == fabric::QueueState::kError) return;
  q.set_failed(why);
  discard(q);
  if (why == fabric::QueueError::kClosed) return;
  q.error_unreported = true;
  if (!report_events(q)) mark_ready(q);
}

void ConnectedPort::discard(SoftConnectedQueue& q) noexcept {
  TimerWheel::disarm(q);
  if (q.responder.first != nullptr) drop_message(q, Drop::kIbQueueState);
  Requester& r = q.requester;
  const std::uint32_t flushed = r.tail - r.head;
  for (; r.head != r.tail; ++r.head) let_go(q, r.slot(r.head).m);
  r.at = r.head;
  if (flushed == 0) return;
  q.counters.tx_flushed.add(flushed);
  datapath_.count_drop(Drop::kIbTxFlushed, flushed);
}

std::uint16_t ConnectedPort::rx_burst(SoftReceiveQueue& queue, rte_mbuf** pkts,
                                      std::uint16_t n) noexcept {
  expects_worker();
  const std::uint16_t nb_rx = queue.pop(pkts, n);
  // Like a UD queue: the next frames wait in the ethdev's ring.
  if (!queue.empty()) datapath_.hold_reads();
  return nb_rx;
}

std::uint16_t SoftReceiveQueue::rx(fabric::ReceiveQueue& queue, rte_mbuf** pkts,
                                   std::uint16_t n) noexcept {
  auto& self = static_cast<SoftReceiveQueue&>(queue);
  return self.port_.rx_burst(self, pkts, n);
}

std::uint16_t SoftConnectedQueue::tx(fabric::ConnectedQueue& queue, rte_mbuf** pkts,
                                     std::uint16_t n) noexcept {
  auto& self = static_cast<SoftConnectedQueue&>(queue);
  return self.port.tx_burst(self, pkts, n);
}

}  // namespace ipoib::soft
