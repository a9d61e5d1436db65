// SPDX-License-Identifier: BSD-3-Clause
// A queue pair of type RC or UC of a software HCA: what its peer is, what it has sent and not yet
// heard of, what it expects.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "drivers/soft/receive_queue.h"
#include "drivers/soft/timer_wheel.h"
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

/// Sending half. Slots [head, at) are sent and, RC, not acknowledged; `at` is being sent; up to
/// tail they wait. PSNs: una <= psn <= end, and psn <= max.
struct Requester {
  std::unique_ptr<SendSlot[]> slots;
  std::uint32_t mask = 0;
  std::uint32_t head = 0, at = 0, tail = 0;
  std::uint32_t una = 0;   ///< Oldest PSN without an ACK.
  std::uint32_t psn = 0;   ///< Next to send, of slot `at`.
  std::uint32_t max = 0;   ///< One behind the highest ever sent.
  std::uint32_t end = 0;   ///< One behind what the last slot needs.
  std::uint32_t kept = 0;  ///< Mbufs of the messages in slots.
  /// Where packet `psn` begins; null: at its beginning, or not known.
  const rte_mbuf* segment = nullptr;
  std::uint32_t segment_at = 0;
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_left = 0;
  bool waiting = false;  ///< For the time that a RNR NAK asked for.

  [[nodiscard]] SendSlot& slot(std::uint32_t i) const noexcept { return slots[i & mask]; }
  [[nodiscard]] bool full() const noexcept { return tail - head > mask; }
  [[nodiscard]] bool empty() const noexcept { return head == tail; }
};

/// What the responder owes the peer.
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
  std::uint32_t psn = 0;      ///< Expected.
  std::uint32_t msn = 0;      ///< Messages completed.
  rte_mbuf* first = nullptr;  ///< Message that has begun; it has a buffer of the receive queue.
  rte_mbuf* last = nullptr;
  std::uint32_t packets = 0;    ///< That message has so far.
  std::uint32_t reserved = 0;   ///< Mbufs that count as its own; 0: it has but one packet.
  std::uint64_t begun_tsc = 0;  ///< When it began, where `reserved` is not 0.
  Response response = Response::kNone;
  bool nak_sent = false;  ///< Nothing more is said of what is missing until it comes.
  bool skipping = false;  ///< UC: the rest of a message that is lost.
};

/// Worker lcore, but what is said to be otherwise.
class alignas(64) SoftConnectedQueue final : public fabric::ConnectedQueue, public Timed {
 public:
  SoftConnectedQueue(ConnectedPort& owner, std::uint32_t qpn, const fabric::ConnectedQueueConfig& c)
      : ConnectedQueue{qpn, c.transport, &SoftConnectedQueue::tx},
        port{owner},
        receive_queue{static_cast<SoftReceiveQueue&>(*c.receive_queue)},
        partition{c.pkey},
        send_depth{c.send_depth} {}

  [[nodiscard]] bool reliable() const noexcept { return transport() == fabric::Transport::kRc; }
  /// Any thread. Acquire: pairs with the release of the management lcore that set up what the state
  /// needs.
  [[nodiscard]] fabric::QueueState state() const noexcept {
    return state_.load(std::memory_order_acquire);
  }
  /// Worker: a packet was taken and is not sent.
  void count_lost(std::uint32_t len) noexcept {
    expects_worker();
    tx_lost_.add(len);
  }
  /// Worker: to kError. Any other change is the management lcore's.
  void set_failed(fabric::QueueError why) noexcept {
    expects_worker();
    error.store(why, std::memory_order_relaxed);
    state_.store(fabric::QueueState::kError, std::memory_order_release);
  }
  /// Management lcore. False: it was in another state, or failed meanwhile.
  [[nodiscard]] bool advance(fabric::QueueState from, fabric::QueueState to) noexcept {
    expects_management();
    return state_.compare_exchange_strong(from, to, std::memory_order_release,
                                          std::memory_order_relaxed);
  }
  /// Any thread. As in the port's table; 0, which matches none: not there, or the port is not
  /// active.
  [[nodiscard]] std::uint16_t pkey() const noexcept {
    return pkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore.
  void set_pkey(std::uint16_t pkey) noexcept {
    expects_management();
    pkey_.store(pkey, std::memory_order_relaxed);
  }

  // Management lcore writes before the state says that they hold, worker reads.
  ConnectedPort& port;
  SoftReceiveQueue& receive_queue;
  std::uint16_t partition;  ///< P_Key it was made for, whether or not the port's table has it now.
  std::uint16_t send_depth;
  std::uint16_t peer_lid = 0;
  bool global = false;  ///< The path has GRHs, and peer_gid at its end.
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
  fabric::AhIndex ah = fabric::kNoAh;
  std::uint32_t peer_qpn = 0;
  std::uint32_t mtu = 0;  ///< Of the path, octets.
  std::uint32_t max_message = 0;
  std::uint64_t ack_timeout_tsc = 0;  ///< 0: none.
  wire::Gid peer_gid{};

  // Worker.
  Requester requester;
  Responder responder;
  SoftConnectedQueue* next_ready = nullptr;  ///< In the port's list of those with something to do.
  // In the port's list of those that receive a message of several packets, oldest first.
  SoftConnectedQueue* begun_before = nullptr;
  SoftConnectedQueue* begun_after = nullptr;
  bool in_ready_list = false;
  bool established = false;          ///< Has received.
  bool established_to_tell = false;  ///< To management, as soon as its ring has room.
  bool error_to_tell = false;
  bool closing = false;

  // Worker writes, anybody reads.
  std::atomic<fabric::QueueError> error{fabric::QueueError::kNone};
  std::atomic<bool> closed{false};  ///< The worker has let go of it; release.
  fabric::ConnectedCounters counters;

 private:
  static std::uint16_t tx(fabric::ConnectedQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  std::atomic<fabric::QueueState> state_{fabric::QueueState::kInit};
  std::atomic<std::uint16_t> pkey_{0};
};
/// Without its send queue.
static_assert(sizeof(SoftConnectedQueue) <= 512);

}  // namespace ipoib::soft
