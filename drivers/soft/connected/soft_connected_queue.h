// SPDX-License-Identifier: BSD-3-Clause
// A queue pair of type RC or UC of a software HCA: its peer, its unacknowledged messages and its
// receive state.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "drivers/soft/connected/receive_queue.h"
#include "drivers/soft/connected/timer_wheel.h"
#include "lib/base/contract.h"
#include "lib/fabric/connected.h"
#include "lib/wire/gid.h"

namespace ipoib::soft {

class ConnectedPort;

/// One message of the send queue: PSNs first_psn to first_psn + packets - 1.
struct SendSlot {
  rte_mbuf* m;
  std::uint32_t first_psn;
  std::uint32_t packets;
};

/// Sending half. Slots [head, at) are sent and (RC) not acknowledged, slot `at` is being sent,
/// slots up to tail wait. PSNs: una <= psn <= end, and psn <= max.
struct Requester {
  /// Packets in flight per queue: enough for 50 Gb/s over 80 us with an MTU of 2,048, and no more
  /// than cables can queue.
  static constexpr std::int32_t kWindow = 256;

  std::unique_ptr<SendSlot[]> slots;
  std::uint32_t mask = 0;
  std::uint32_t head = 0, at = 0, tail = 0;
  std::uint32_t una = 0;   ///< Oldest PSN without an ACK.
  std::uint32_t psn = 0;   ///< Next PSN to send, in slot `at`.
  std::uint32_t max = 0;   ///< One after the highest PSN ever sent.
  std::uint32_t end = 0;   ///< One after the last PSN of the last slot.
  std::uint32_t kept = 0;  ///< Mbufs of the messages in slots.
  /// Segment in which packet `psn` begins; null: not known, search from the first segment.
  rte_mbuf* segment = nullptr;
  std::uint32_t segment_at = 0;
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_left = 0;
  bool waiting = false;  ///< Suspended for the time that an RNR NAK asked for.
  /// Packets that may be without an ACK: one, while the peer has no buffer for the oldest; then as
  /// many more as it acknowledges, until there are kWindow.
  std::int32_t window = kWindow;

  [[nodiscard]] SendSlot& slot(std::uint32_t i) const noexcept { return slots[i & mask]; }
  [[nodiscard]] bool full() const noexcept { return tail - head > mask; }
  [[nodiscard]] bool empty() const noexcept { return head == tail; }
};

/// Pending response of the responder, in ascending order of precedence.
enum class Response : std::uint8_t {
  kNone,
  kAck,
  kRnrNak,
  kSequenceNak,
  kInvalidNak,
  kOperationNak
};

/// Receiving half.
struct Responder {
  std::uint32_t psn = 0;      ///< Next expected PSN.
  std::uint32_t msn = 0;      ///< Messages completed.
  rte_mbuf* first = nullptr;  ///< Incomplete message; it holds a buffer of the receive queue.
  rte_mbuf* last = nullptr;
  std::uint32_t packets = 0;    ///< Packets of that message so far.
  std::uint32_t reserved = 0;   ///< Mbufs reserved for it; 0: a single-packet message.
  std::uint64_t begun_tsc = 0;  ///< Start of the message; valid if `reserved` is not 0.
  Response response = Response::kNone;
  bool nak_sent = false;  ///< No further NAK is sent until the missing packet arrives.
  bool skipping = false;  ///< UC: the rest of a lost message is being dropped.
};

/// Worker lcore, except where a comment says otherwise.
class alignas(64) SoftConnectedQueue final : public fabric::ConnectedQueue, public Timed {
 public:
  SoftConnectedQueue(std::uint32_t qpn, const fabric::ConnectedQueueConfig& c)
      : ConnectedQueue{qpn, c.transport, &SoftConnectedQueue::tx},
        receive_queue{static_cast<SoftReceiveQueue&>(*c.receive_queue)},
        port{receive_queue.port()},
        partition{c.pkey},
        send_depth{c.send_depth} {}

  [[nodiscard]] bool reliable() const noexcept { return transport() == fabric::Transport::kRc; }
  /// Any thread. Acquire: pairs with the release of the management lcore that set up the fields
  /// which the state makes valid.
  [[nodiscard]] fabric::QueueState state() const noexcept {
    return state_.load(std::memory_order_acquire);
  }
  /// Worker: counts a packet that was accepted but is not sent.
  void count_lost(std::uint32_t len) noexcept {
    expects_worker();
    tx_lost_.add(len);
  }
  /// Worker: changes the state to kError. Only the management lcore makes other changes.
  void set_failed(fabric::QueueError why) noexcept {
    expects_worker();
    error.store(why, std::memory_order_relaxed);
    state_.store(fabric::QueueState::kError, std::memory_order_release);
  }
  /// Management lcore. Changes the state. False: the state was not `from`, for example after a
  /// failure.
  [[nodiscard]] bool advance(fabric::QueueState from, fabric::QueueState to) noexcept {
    expects_management();
    return state_.compare_exchange_strong(from, to, std::memory_order_release,
                                          std::memory_order_relaxed);
  }
  /// Any thread. The P_Key as the port's table has it. 0, which matches none: the table does not
  /// have it, or the port is not active.
  [[nodiscard]] std::uint16_t pkey() const noexcept {
    return pkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore.
  void set_pkey(std::uint16_t pkey) noexcept {
    expects_management();
    pkey_.store(pkey, std::memory_order_relaxed);
  }

  // The management lcore writes these before the state makes them valid; the worker reads them.
  SoftReceiveQueue& receive_queue;
  ConnectedPort& port;
  std::uint16_t partition;  ///< P_Key given at creation, even if the port's table lacks it now.
  std::uint16_t send_depth;
  std::uint16_t peer_lid = 0;
  bool global = false;  ///< The path uses GRHs; peer_gid is the peer's GID.
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
  fabric::AhIndex ah = fabric::kNoAh;
  std::uint32_t peer_qpn = 0;
  std::uint32_t mtu = 0;  ///< Path MTU, octets.
  std::uint32_t max_message = 0;
  std::uint64_t ack_timeout_tsc = 0;  ///< 0: no timeout.
  wire::Gid peer_gid{};

  // The worker reads and writes these.
  Requester requester;
  Responder responder;
  SoftConnectedQueue* next_ready = nullptr;  ///< Next in the port's ready list.
  // Links in the port's list of queues with an incomplete message of several packets, oldest first.
  SoftConnectedQueue* begun_before = nullptr;
  SoftConnectedQueue* begun_after = nullptr;
  bool in_ready_list = false;
  bool established = false;             ///< A packet arrived in state kReadyToReceive.
  bool established_unreported = false;  ///< Event to enqueue to management.
  bool error_unreported = false;
  bool closing = false;

  // The worker writes these, any thread reads them.
  std::atomic<fabric::QueueError> error{fabric::QueueError::kNone};
  std::atomic<bool> closed{false};  ///< The worker no longer uses the queue; release store.
  fabric::ConnectedCounters counters;

 private:
  static std::uint16_t tx(fabric::ConnectedQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  std::atomic<fabric::QueueState> state_{fabric::QueueState::kInit};
  std::atomic<std::uint16_t> pkey_{0};
};
/// The send queue is allocated separately.
static_assert(sizeof(SoftConnectedQueue) <= 512);

}  // namespace ipoib::soft
