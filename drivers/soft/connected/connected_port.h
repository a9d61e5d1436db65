// SPDX-License-Identifier: BSD-3-Clause
// One worker's side of the connected transports of a port. The datapath passes RC and UC frames to
// receive(); poll() does all other work (ACKs, retransmits, timers). All queues of the worker share
// one burst of outgoing frames.
//
// connected_port.cc: the loop, commands, events; connected_rx.cc: checks of a frame and reassembly;
// rc_responder.cc, rc_requester.cc, uc_receiver.cc: the protocols; path_migration.cc: alternate
// paths; connected_tx.cc: frames to send.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "drivers/soft/connected/connected_frame.h"
#include "drivers/soft/connected/connected_table.h"
#include "drivers/soft/connected/timer_wheel.h"
#include "drivers/soft/ud_datapath.h"
#include "lib/base/contract.h"
#include "lib/base/drop.h"
#include "lib/wire/rc.h"

namespace ipoib::soft {

/// A frame for this port with valid headers up to the GRH and an RC or UC opcode.
struct ConnectedFrame {
  std::span<const std::byte> bytes;  ///< From the Ethernet header to the end of padding.
  const wire::Lrh* lrh;
  const wire::Grh* grh;  ///< Null: none.
  std::size_t bth_at;    ///< From the Ethernet header; BTH and ICRC lie before `end`.
  std::size_t end;       ///< End of the ICRC, from the Ethernet header.
};

/// A ConnectedFrame that passed all checks except those of sequence and message state.
struct ConnectedPacket {
  std::uint8_t opcode;
  bool ack_requested;
  std::uint32_t psn;
  std::uint16_t payload_at;  ///< From the Ethernet header: after the extended headers.
  std::uint16_t payload_len;
  std::uint8_t grh_offset;  ///< Encoded like PacketMeta::Rx::grh_offset.
  std::uint8_t sl;
  std::uint16_t slid;
  wire::Aeth aeth;  ///< ACK only.
};

/// Command from management to the worker for one queue; kClose is the last one.
struct QueueCommand {
  enum class Op : std::uint32_t { kError, kClose, kLoadAlternate };
  SoftConnectedQueue* queue;
  Op op;
  // kLoadAlternate.
  fabric::AhIndex in_use;  ///< The path in use, as management knows it.
  QueuePath alternate;
};

/// Queues that have something to do, in the order in which they are served.
class ReadyList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// Shape: the queue is in no list.
  void push(SoftConnectedQueue& q) noexcept {
    expects(q.next_ready == nullptr && last_ != &q, "the queue is in no list");
    (last_ != nullptr ? last_->next_ready : first_) = &q;
    last_ = &q;
  }
  /// Shape: not empty().
  SoftConnectedQueue& pop() noexcept {
    expects(!empty(), "the list is not empty");
    SoftConnectedQueue& q = *first_;
    first_ = std::exchange(q.next_ready, nullptr);
    if (first_ == nullptr) last_ = nullptr;
    return q;
  }
  /// Puts the queues of another list behind those of this one.
  void append(const ReadyList& other) noexcept {
    if (other.empty()) return;
    (last_ != nullptr ? last_->next_ready : first_) = other.first_;
    last_ = other.last_;
  }

 private:
  SoftConnectedQueue* first_ = nullptr;
  SoftConnectedQueue* last_ = nullptr;
};

/// A worker's report of an event: a fabric::QueueEvent without the path.
struct QueueReport {
  std::uint32_t qpn;
  fabric::QueueEvent::Kind kind;
};

struct ConnectedPortConfig {
  std::uint64_t tsc_hz = 0;
  std::uint32_t kept_mbufs = 0;   ///< Limit for messages to send: queued, or sent without an ACK.
  std::uint32_t begun_mbufs = 0;  ///< Limit for messages that have begun to arrive.
  const ConnectedWorkers* workers = nullptr;  ///< All queues of the HCA are in it.
  rte_ring* commands = nullptr;               ///< QueueCommand; the worker is the only consumer.
  rte_ring* events = nullptr;                 ///< QueueReport; the worker is the only producer.
};

/// Worker lcore only, except queues(), worker(), discard(), the constructor and the destructor.
///
/// Every frame passed to receive() becomes part of a message, or is an ACK, or is freed and counted
/// under one Drop.
class alignas(64) ConnectedPort {
 public:
  static constexpr std::uint16_t kBurst = UdDatapath::kBurst;
  /// Number of packets between two ACK requests of a long message; a power of two.
  static constexpr std::uint32_t kAckEvery = 16;
  /// A message that is incomplete after this time is given up: retransmits of its packets take
  /// about 140 ms. RC: its connection fails.
  static constexpr std::uint64_t kMessageMs = 1000;
  /// After this time an incomplete message is given up already if other messages need its buffers.
  /// Shorter than the time for which peers keep retrying after RNR NAKs.
  static constexpr std::uint64_t kYieldMs = 10;
  /// A payload up to this length is copied behind the one before it if that mbuf has room;
  /// otherwise it would occupy a whole mbuf.
  static constexpr std::uint16_t kCopied = 1024;
  /// A payload of this length or more is sent from the message's buffer where that is possible; the
  /// copy of a shorter one costs less.
  static constexpr std::uint32_t kShared = 512;

  ConnectedPort(UdDatapath& datapath, const UdDatapathConfig& hca,
                const ConnectedPortConfig& config);
  ~ConnectedPort();
  ConnectedPort(const ConnectedPort&) = delete;
  ConnectedPort& operator=(const ConnectedPort&) = delete;

  /// Takes ownership of the frame's mbuf, which has one segment.
  void receive(rte_mbuf* m, const ConnectedFrame& frame, const RxTable& table) noexcept;
  /// Called once per loop, after the cable was read.
  void poll() noexcept;
  std::uint16_t tx_burst(SoftConnectedQueue& q, rte_mbuf** pkts, std::uint16_t n) noexcept;
  std::uint16_t rx_burst(SoftReceiveQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  /// The queues of this worker. Any thread may read it; only the management lcore writes.
  [[nodiscard]] ConnectedTable& queues() noexcept { return queues_; }
  /// Number of this worker (UdDatapathConfig::worker).
  [[nodiscard]] unsigned worker() const noexcept { return hca_.worker; }
  /// The worker to which receive() with this QPN belongs.
  [[nodiscard]] unsigned worker_of(std::uint32_t qpn) const noexcept {
    return config_.workers->worker_of(qpn);
  }

  /// Frees the messages of a queue. Worker lcore, or the management lcore when no worker uses the
  /// HCA any more.
  void discard(SoftConnectedQueue& q) noexcept;

 private:
  // connected_port.cc
  void apply_command(const QueueCommand& command) noexcept;
  void loop_back() noexcept;
  void serve_ready() noexcept;
  [[nodiscard]] bool serve(SoftConnectedQueue& q) noexcept;
  void mark_ready(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] bool report_events(SoftConnectedQueue& q) noexcept;
  void fail(SoftConnectedQueue& q, fabric::QueueError why) noexcept;
  void drop(rte_mbuf* m, Drop reason) noexcept;

  // connected_rx.cc
  [[nodiscard]] Drop check(SoftConnectedQueue& q, const ConnectedFrame& f,
                           ConnectedPacket& p) noexcept;
  [[nodiscard]] bool begin(SoftConnectedQueue& q, SendPart part) noexcept;
  void append(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;
  void deliver(SoftConnectedQueue& q) noexcept;
  void drop_message(SoftConnectedQueue& q, Drop reason) noexcept;
  void end(SoftConnectedQueue& q) noexcept;
  void abort_message(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] bool oldest_is_over(std::uint64_t ms) const noexcept;

  // rc_responder.cc
  void on_rc_request(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;
  void refuse_request(SoftConnectedQueue& q, rte_mbuf* m, Drop reason,
                      fabric::QueueError why) noexcept;
  void schedule_response(SoftConnectedQueue& q, Response response) noexcept;
  [[nodiscard]] bool respond(SoftConnectedQueue& q) noexcept;

  // rc_requester.cc
  void acknowledgement(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;
  [[nodiscard]] bool retire(SoftConnectedQueue& q, std::uint32_t una) noexcept;
  void sequence_nak(SoftConnectedQueue& q) noexcept;
  void rnr_nak(SoftConnectedQueue& q, std::uint8_t timer) noexcept;
  void retry(SoftConnectedQueue& q) noexcept;
  void go_back(SoftConnectedQueue& q, std::uint32_t psn) noexcept;
  void restart_timer(SoftConnectedQueue& q) noexcept;
  void timer(SoftConnectedQueue& q) noexcept;

  // path_migration.cc
  static void load_alternate(const QueueCommand& command) noexcept;
  [[nodiscard]] bool migrate(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] Drop follow(SoftConnectedQueue& q, const ConnectedFrame& f,
                            std::uint8_t flags) noexcept;

  // uc_receiver.cc
  void on_uc_packet(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;

  // connected_tx.cc
  [[nodiscard]] bool may_keep(const SoftConnectedQueue& q, std::uint32_t added,
                              std::uint32_t mbufs) const noexcept;
  void let_go(SoftConnectedQueue& q, rte_mbuf* message) noexcept;
  [[nodiscard]] bool send(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] bool send_packet(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] rte_mbuf* share(rte_mbuf& payload, std::uint32_t head, std::uint32_t tail) noexcept;
  [[nodiscard]] Made new_frame(const SoftConnectedQueue& q, const FrameSpec& spec) noexcept;
  void push_frame(rte_mbuf* frame, bool local) noexcept;
  [[nodiscard]] bool has_room() noexcept;
  void flush() noexcept;

  UdDatapath& datapath_;
  const UdDatapathConfig hca_;
  const ConnectedPortConfig config_;
  ReadyList ready_;
  std::uint32_t closing_ = 0;                  ///< Queues in ready_ that are being closed.
  SoftConnectedQueue* begun_first_ = nullptr;  ///< The oldest unfinished message.
  SoftConnectedQueue* begun_last_ = nullptr;
  std::uint32_t kept_ = 0;      ///< Mbufs of all messages in send queues.
  std::uint32_t reserved_ = 0;  ///< Mbufs reserved for messages that have begun to arrive.
  bool events_came_ = false;    ///< The ring got events since the doorbell was last rung.
  std::uint16_t nb_frames_ = 0;
  std::uint16_t nb_sealed_ = 0;  ///< Number of frames_, from the front, that have their ICRC.
  std::uint16_t nb_local_ = 0;
  std::array<rte_mbuf*, kBurst> frames_;  ///< Frames to send to the wire.
  std::array<rte_mbuf*, kBurst> local_;   ///< Frames to loop back to this port.
  ConnectedTable queues_;
  TimerWheel timers_;
};

}  // namespace ipoib::soft
