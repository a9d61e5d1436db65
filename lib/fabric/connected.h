// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of types RC and UC: one peer each. Messages of many of them are received through one
// shared receive queue, so an idle connection holds no buffers and a worker polls one function a
// link however many connections it has.
//
// With verbs a ReceiveQueue is a shared receive queue and the completion queue of all that is
// attached to it; completions of sends are reaped where it is polled. Values are named after what a
// REQ and a REP negotiate. Source: IBA vol 1 §10.2.9, §10.3, §12.7.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/fabric/tx_lost.h"
#include "lib/fabric/types.h"

struct rte_mbuf;

namespace ipoib::fabric {

/// Where the messages of connected queues arrive. rx_burst belongs to the one worker lcore that
/// sends through those queues too.
class ReceiveQueue {
 public:
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  /// Up to `n` whole messages, each starting at its IPoIB header, in one mbuf or a chain of them;
  /// PacketMeta::rx filled (but iface) and PacketMeta::queue. Those of one connection are in order.
  /// Ownership passes to the caller. To be called in every loop, as messages that nobody takes hold
  /// up the port.
  std::uint16_t rx_burst(rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_worker();
    worker_.expects_owner();
    return rx_(*this, pkts, n);
  }

 protected:
  using BurstFn = std::uint16_t (*)(ReceiveQueue&, rte_mbuf**, std::uint16_t) noexcept;
  explicit ReceiveQueue(BurstFn rx) : rx_{rx} {}
  ~ReceiveQueue() = default;

 private:
  BurstFn rx_;
  [[no_unique_address]] OneLcore worker_;
};

struct ReceiveQueueConfig {
  /// Messages that have begun to arrive and that nobody has taken yet. Without room for another, RC
  /// peers are told to wait (Drop::kIbRnr), messages of UC peers are lost (Drop::kIbNoBuffer).
  std::uint32_t depth = 512;
  /// Octets of the largest message, IPoIB header included. A longer one fails its RC connection.
  std::uint32_t max_message = 65'536;
};

/// Bounds of what can be asked for: octets, and messages.
inline constexpr std::uint32_t kMaxMessage = 1U << 20;
inline constexpr std::uint32_t kMaxReceiveDepth = 1U << 16;
inline constexpr std::uint32_t kMaxSendDepth = 1U << 12;

/// Queue pair of type RC or UC. tx_burst belongs to one worker lcore.
class ConnectedQueue {
 public:
  ConnectedQueue(const ConnectedQueue&) = delete;
  ConnectedQueue& operator=(const ConnectedQueue&) = delete;

  /// Sends packets that start at their IPoIB header, each as one message. Returns how many were
  /// taken, from the front: fewer than `n` when the send queue is full; the rest stay the caller's.
  /// A packet that can never be sent counts as taken, is freed and counted by the device: too long
  /// for the peer (Drop::kIbTxTooLong), the queue not ready or failed (Drop::kIbTxFlushed). So is
  /// one for which messages that wait for their ACKs leave no mbufs (Drop::kIbTxBudget). tx_lost()
  /// has all of these. Chains may be of any length. RC keeps what it took until the peer
  /// acknowledged it: nobody else may write to it.
  std::uint16_t tx_burst(rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_worker();
    worker_.expects_owner();
    return tx_(*this, pkts, n);
  }

  [[nodiscard]] const TxLost& tx_lost() const noexcept { return tx_lost_; }
  [[nodiscard]] std::uint32_t qpn() const noexcept { return qpn_; }
  [[nodiscard]] Transport transport() const noexcept { return transport_; }

 protected:
  using BurstFn = std::uint16_t (*)(ConnectedQueue&, rte_mbuf**, std::uint16_t) noexcept;
  ConnectedQueue(std::uint32_t qpn, Transport transport, BurstFn tx)
      : tx_{tx}, qpn_{qpn}, transport_{transport} {}
  ~ConnectedQueue() = default;

  TxLost tx_lost_;

 private:
  BurstFn tx_;
  std::uint32_t qpn_;
  Transport transport_;
  [[no_unique_address]] OneLcore worker_;
};

struct ConnectedQueueConfig {
  Transport transport = Transport::kRc;
  std::uint16_t pkey = wire::kDefaultPkey;  ///< Must match an entry of the port's table.
  ReceiveQueue* receive_queue = nullptr;    ///< Of the same Hca.
  /// Messages taken and not yet acknowledged (UC: not yet sent), a power of two.
  std::uint16_t send_depth = 128;
};

/// What a queue needs to receive: the peer's REQ or REP has it. PSNs have 24 bits.
struct ReadyToReceive {
  std::uint32_t peer_qpn = 0;
  AhAttr path{};
  std::uint8_t path_mtu = 4;  ///< As code; at most the port's.
  std::uint32_t rx_psn = 0;   ///< First expected: the Starting PSN this side has told.
  /// RC: code of the wait this side asks for while it has no buffer; 16: 2.56 ms, so that a peer
  /// with 6 retries gives up after 18 ms: later than a worker is away, sooner than TCP repeats.
  std::uint8_t min_rnr_timer = 16;
};

/// What it needs to send too. Of UC only the first two.
struct ReadyToSend {
  std::uint32_t tx_psn = 0;            ///< The Starting PSN that the peer has told.
  std::uint32_t max_message = 65'536;  ///< Octets the peer takes.
  std::uint8_t retry_count = 7;   ///< 0-7. The count starts anew with whatever is acknowledged.
  std::uint8_t rnr_retry = 7;     ///< 0-6; 7: for ever.
  std::uint8_t ack_timeout = 14;  ///< Code, 4.096 us << code; 0: none.
};

/// Source: IBA vol 1 §10.3.1; what the states between have to themselves does not show here.
enum class QueueState : std::uint8_t { kInit, kReadyToReceive, kReadyToSend, kError };

[[nodiscard]] constexpr std::string_view to_string(QueueState state) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"init", "ready to receive", "ready to send",
                                                      "error"};
  return kNames[static_cast<std::size_t>(state)];
}

/// Why a queue is in error. Source: IBA vol 1 §10.10, §11.6.2.
enum class QueueError : std::uint8_t {
  kNone,
  kClosed,                ///< By set_error().
  kRetryExceeded,         ///< The peer does not answer.
  kRnrRetryExceeded,      ///< The peer never had a buffer.
  kRemoteInvalidRequest,  ///< The peer says that this side sent what it must not.
  kRemoteAccess,
  kRemoteOperation,    ///< The peer failed by itself.
  kInvalidRequest,     ///< This side says so of the peer: opcode or length out of order.
  kMessageTooLong,     ///< The peer sent more than a receive buffer takes.
  kUnfinishedMessage,  ///< The peer began a message and did not end it in time.
  kCount
};

[[nodiscard]] constexpr std::string_view to_string(QueueError error) noexcept {
  constexpr std::array<std::string_view, static_cast<std::size_t>(QueueError::kCount)> kNames = {
      "none",
      "closed",
      "retry exceeded",
      "RNR retry exceeded",
      "remote invalid request",
      "remote access error",
      "remote operation error",
      "invalid request",
      "message too long",
      "unfinished message"};
  return kNames[static_cast<std::size_t>(error)];
}

/// News of one queue. A queue has each kind once at most.
struct QueueEvent {
  enum class Kind : std::uint32_t {
    kEstablished,  ///< First packet received while ready to receive only: the peer is ready.
    kError,        ///< The queue is in error, see ConnectedQueueInfo::error; not after set_error().
  };
  std::uint32_t qpn;
  Kind kind;
};

/// What a queue counted. A device leaves 0 what it cannot see.
template <class T>
struct ConnectedCountersOf {
  T tx_messages{};  ///< Taken by tx_burst and to be sent.
  T tx_octets{};    ///< Of those.
  T rx_messages{};  ///< Whole, and given to the receive queue.
  T rx_octets{};
  T tx_done{};          ///< Messages acknowledged; UC: sent.
  T tx_flushed{};       ///< Messages that the queue's failure or end left without an ACK.
  T tx_repeated{};      ///< Packets sent once more.
  T timeouts{};         ///< No ACK in time.
  T naks_received{};    ///< Sequence errors that the peer told of.
  T rnr_received{};     ///< The peer had no buffer.
  T naks_sent{};        ///< Of any kind but RNR.
  T rnr_sent{};         ///< This side had no buffer.
  T rx_duplicates{};    ///< Packets that were there before.
  T rx_out_of_order{};  ///< Packets behind one that is missing.
};
/// Writer: the worker that owns the queue.
using ConnectedCounters = ConnectedCountersOf<Counter>;

struct ConnectedQueueInfo {
  QueueState state = QueueState::kInit;
  QueueError error = QueueError::kNone;
  std::uint32_t peer_qpn = 0;
  ConnectedCountersOf<std::uint64_t> counters{};
};

}  // namespace ipoib::fabric
