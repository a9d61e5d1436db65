// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs of types RC and UC, with one peer each. Many of them receive through one shared
// receive queue, so an idle connection holds no buffers, and a worker polls one function per link,
// independent of the number of connections.
//
// With verbs a ReceiveQueue is an SRQ and the CQ of all queue pairs attached to it; polling it also
// reaps the completions of sends. Values have the names that REQ and REP use for them. Source: IBA
// vol 1 §10.2.9, §10.3, §12.7.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fabric/queue_info.h"
#include "lib/fabric/tx_lost.h"

struct rte_mbuf;

namespace ipoib::fabric {

/// Messages of connected queues arrive here. rx_burst belongs to the one worker lcore that also
/// sends through those queues (ReceiveQueueConfig::worker).
class ReceiveQueue {
 public:
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  /// Receives up to `n` whole messages, each starting at its IPoIB header, in one mbuf or a chain.
  /// PacketMeta::rx (except iface) and PacketMeta::queue are filled. Messages of one connection are
  /// in order. Ownership passes to the caller. Call it in every loop, because messages that remain
  /// in the queue hold up the port.
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
  /// Messages that have begun to arrive and that rx_burst has not returned yet. Without room for
  /// another one, RC peers get a RNR NAK (Drop::kIbRnr) and messages of UC peers are lost
  /// (Drop::kIbNoBuffer).
  std::uint32_t depth = 512;
  /// Octets of the largest message, IPoIB header included. A longer one fails its RC connection.
  std::uint32_t max_message = 65'536;
  /// A number as in UdQueueConfig::worker.
  unsigned worker = 0;
  /// Mbufs that messages to send may hold, of all queue pairs with this receive queue. A message
  /// beyond is lost (Drop::kIbTxBudget). A software HCA has a limit for each worker instead.
  std::uint32_t send_mbufs = 8192;
};

/// Largest values that can be configured: octets, and messages.
inline constexpr std::uint32_t kMaxMessage = 1U << 20;
inline constexpr std::uint32_t kMaxReceiveDepth = 1U << 16;
inline constexpr std::uint32_t kMaxSendDepth = 1U << 12;

/// Queue pair of type RC or UC. tx_burst belongs to the worker lcore of its receive queue.
class ConnectedQueue {
 public:
  ConnectedQueue(const ConnectedQueue&) = delete;
  ConnectedQueue& operator=(const ConnectedQueue&) = delete;

  /// Sends packets that start at their IPoIB header, each as one message. Returns the number of
  /// packets taken, from the front: fewer than `n` if the send queue is full; the caller keeps the
  /// rest. A packet that can never be sent counts as taken; the device frees and counts it: too
  /// long for the peer (Drop::kIbTxTooLong), or the queue not ready or failed (Drop::kIbTxFlushed).
  /// The device also takes and drops a packet if messages that wait for their ACKs leave no mbufs
  /// for it (Drop::kIbTxBudget). tx_lost() counts all of these. Chains may be of any length. RC
  /// keeps a packet until the peer has acknowledged it; no other code may write to it, and the
  /// device writes to the head- and tailroom of those mbufs that have no other owner. The frames
  /// leave at the latest when the Hca is polled next.
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
  ReceiveQueue* receive_queue = nullptr;    ///< Belongs to the same Hca.
  /// Messages taken and not yet acknowledged (UC: not yet sent), a power of two.
  std::uint16_t send_depth = 128;
};

/// Attributes that a queue needs to receive, from the peer's REQ or REP. PSNs have 24 bits.
struct ReadyToReceive {
  std::uint32_t peer_qpn = 0;
  AhAttr path{};
  std::uint8_t path_mtu = 4;  ///< MTU code; at most the MTU of the port.
  std::uint32_t rx_psn = 0;   ///< First expected PSN: the Starting PSN that this side announced.
  /// RC: code of the delay that this side requests while it has no buffer. 16 is 2.56 ms, so that a
  /// peer with 6 retries gives up after 18 ms: longer than a worker pauses, shorter than TCP's
  /// retransmission timeout.
  std::uint8_t min_rnr_timer = 16;
};

/// Attributes that a queue needs to send as well. UC uses the first two only.
struct ReadyToSend {
  std::uint32_t tx_psn = 0;            ///< Starting PSN that the peer announced.
  std::uint32_t max_message = 65'536;  ///< Octets of the largest message that the peer takes.
  std::uint8_t retry_count = 7;        ///< 0-7. Any acknowledged packet resets the count.
  std::uint8_t rnr_retry = 7;          ///< 0-6; 7: for ever.
  std::uint8_t ack_timeout = 14;       ///< Code, 4.096 us << code; 0: none.
};

/// A second path to the peer's port. The queue changes to it by itself when the path in use fails,
/// and the peer's queue follows, if it has the reverse path loaded. Source: IBA vol 1 §17.2.8.
struct AlternatePath {
  AhAttr path{};
  std::uint8_t ack_timeout = 14;  ///< Code, 4.096 us << code; 0: none.
};

/// Event of one queue. Each kind except kMigrated occurs at most once per queue.
struct QueueEvent {
  enum class Kind : std::uint32_t {
    kEstablished,  ///< First packet received while only ready to receive: the peer is ready.
    kError,        ///< The queue is in error, see ConnectedQueueInfo::error; not after set_error().
    kMigrated,     ///< The queue uses its alternate path.
  };
  std::uint32_t qpn;
  Kind kind;
  AhAttr path{};  ///< kMigrated: the path in use, as it was loaded.
};

/// Writer: the worker that owns the queue.
using ConnectedCounters = ConnectedCountersOf<Counter>;

/// Connected mode of a device. Management lcore only.
class ConnectedTransport {
 public:
  /// The queue lives until it is destroyed, after all connected queues attached to it. Errors:
  /// kInvalidArgument, kNoResources.
  virtual Result<ReceiveQueue*> create_receive_queue(const ReceiveQueueConfig& config) = 0;
  virtual void destroy_receive_queue(ReceiveQueue& queue) = 0;

  /// The new queue is in QueueState::kInit. Errors: kInvalidArgument, kNoResources.
  virtual Result<ConnectedQueue*> create_connected_queue(const ConnectedQueueConfig& config) = 0;
  /// Precondition: no worker refers to the queue any more. Does not block: its mbufs are freed
  /// gradually, and the QPN is not reused soon.
  virtual void destroy_connected_queue(ConnectedQueue& queue) = 0;

  /// Changes kInit to kReadyToReceive. Errors, which leave the queue unchanged: kInvalidArgument
  /// for impossible attributes; kRefused in any other state.
  virtual Status set_ready_to_receive(ConnectedQueue& queue, const ReadyToReceive& attr) = 0;
  /// Changes kReadyToReceive to kReadyToSend. Errors as of set_ready_to_receive(); kRefused also if
  /// the queue has failed meanwhile.
  virtual Status set_ready_to_send(ConnectedQueue& queue, const ReadyToSend& attr) = 0;
  /// Moves the queue to kError soon: it sends and receives no more packets, and messages that the
  /// peer has not acknowledged are flushed.
  virtual void set_error(ConnectedQueue& queue) = 0;
  /// Loads an alternate path, in place of one loaded before. The queue is of type RC and ready to send.
  /// Errors, which leave the queue unchanged: kInvalidArgument for impossible attributes; kRefused in
  /// any other state, by a device without alternate paths, as by default, or until kMigrated is read.
  virtual Status load_alternate(ConnectedQueue& queue, const AlternatePath& alternate);

  [[nodiscard]] virtual ConnectedQueueInfo info(const ConnectedQueue& queue) const = 0;
  /// Oldest event of connected queues; events of destroyed queues are left out.
  virtual std::optional<QueueEvent> next_queue_event() = 0;
  /// True if next_queue_event() may return an event. For devices with a doorbell: checked again
  /// before sleep.
  [[nodiscard]] virtual bool queue_events_pending() const = 0;

 protected:
  ~ConnectedTransport() = default;
};

inline Status ConnectedTransport::load_alternate(ConnectedQueue& /*queue*/,
                                                 const AlternatePath& /*alternate*/) {
  return fail(Errc::kRefused, "the device has no alternate paths");
}

}  // namespace ipoib::fabric
