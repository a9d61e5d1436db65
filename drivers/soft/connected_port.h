// SPDX-License-Identifier: BSD-3-Clause
// What the worker lcore runs of the connected transports of a port: frames that the datapath found
// to be RC or UC come in by receive(), all else that is to be done (ACKs, repetitions, timers) in
// poll(). One burst of frames on their way to the wire is shared by all queues.
//
// connected_port.cc: the loop, commands, events; connected_rx.cc: checks of a frame;
// rc_responder.cc, rc_requester.cc, uc_receiver.cc: the protocols; connected_tx.cc: frames to send.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <cstdint>
#include <span>

#include "drivers/soft/connected_frame.h"
#include "drivers/soft/connected_table.h"
#include "drivers/soft/datapath.h"
#include "drivers/soft/timer_wheel.h"
#include "lib/base/drop.h"
#include "lib/wire/rc.h"

namespace ipoib::soft {

/// A frame for this port whose headers up to the GRH are sound, and that says RC or UC.
struct ConnectedFrame {
  std::span<const std::byte> bytes;  ///< From the Ethernet header to the end of padding.
  const wire::Lrh* lrh;
  const wire::Grh* grh;  ///< Null: none.
  std::size_t bth_at;    ///< From the Ethernet header; a BTH and an ICRC lie before `end`.
  std::size_t end;       ///< Of the ICRC.
};

/// The same after all checks that do not concern the state of the connection.
struct ConnectedPacket {
  std::uint8_t opcode;
  bool ack_requested;
  std::uint32_t psn;
  std::uint16_t payload_at;  ///< From the Ethernet header: behind the extended headers.
  std::uint16_t payload_len;
  std::uint8_t grh_offset;  ///< As PacketMeta::Rx has it.
  std::uint8_t sl;
  std::uint16_t slid;
  wire::Aeth aeth;  ///< Of an ACK.
};

/// Management to worker: what to do with a queue; kClose comes last.
struct QueueCommand {
  enum class Op : std::uint64_t { kError, kClose };
  SoftConnectedQueue* queue;
  Op op;
};

struct ConnectedPortConfig {
  std::uint64_t tsc_hz = 0;
  std::uint32_t kept_mbufs = 0;   ///< Most that messages sent and not acknowledged may have.
  std::uint32_t begun_mbufs = 0;  ///< Most that messages which have begun to arrive may come to.
  rte_ring* commands = nullptr;   ///< QueueCommand; the worker is the one consumer.
  rte_ring* events = nullptr;     ///< fabric::QueueEvent; the worker is the one producer.
};

/// Worker lcore only, but queues(), discard(), the constructor and the destructor.
///
/// Every frame given to receive() ends in a message, or was an ACK, or is freed and counted under
/// one Drop.
class alignas(64) ConnectedPort {
 public:
  static constexpr std::uint16_t kBurst = Datapath::kBurst;
  /// Packets a queue may have sent without an ACK: enough for 50 Gb/s over 80 us with an MTU of
  /// 2,048, and no more than cables hold.
  static constexpr std::int32_t kWindow = 256;
  /// Packets after which an ACK is asked for within a long message; a power of two.
  static constexpr std::uint32_t kAckEvery = 16;
  /// A message that has not ended so long after it began never will: retries of its packets take
  /// some 140 ms. RC: its connection fails.
  static constexpr std::uint64_t kMessageMs = 1000;
  /// After this time it goes already when others want its room. Less than the time for which peers
  /// that are told to wait go on trying.
  static constexpr std::uint64_t kYieldMs = 10;
  /// A packet of a message so short is copied behind the one before it, where that has room: it
  /// would hold a whole mbuf.
  static constexpr std::uint16_t kCopied = 1024;

  ConnectedPort(Datapath& datapath, const DatapathConfig& hca, const ConnectedPortConfig& config);
  ~ConnectedPort();
  ConnectedPort(const ConnectedPort&) = delete;
  ConnectedPort& operator=(const ConnectedPort&) = delete;

  /// Takes the frame's mbuf, which is one segment.
  void receive(rte_mbuf* m, const ConnectedFrame& frame, const RxTable& table) noexcept;
  /// Once a loop, after the cable was read.
  void poll() noexcept;
  std::uint16_t tx_burst(SoftConnectedQueue& q, rte_mbuf** pkts, std::uint16_t n) noexcept;
  std::uint16_t rx_burst(SoftReceiveQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  /// Any thread may look, the management lcore writes.
  [[nodiscard]] ConnectedTable& queues() noexcept { return queues_; }

  /// Frees what a queue holds. Worker; or management lcore, when no worker uses the HCA any more.
  void discard(SoftConnectedQueue& q) noexcept;

 private:
  // connected_port.cc
  void obey(const QueueCommand& command) noexcept;
  void loop_back() noexcept;
  void serve_ready() noexcept;
  [[nodiscard]] bool serve(SoftConnectedQueue& q) noexcept;
  void mark_ready(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] bool tell(SoftConnectedQueue& q) noexcept;
  void fail(SoftConnectedQueue& q, fabric::QueueError why) noexcept;
  void drop(rte_mbuf* m, Drop reason) noexcept;

  // connected_rx.cc
  [[nodiscard]] Drop check(const SoftConnectedQueue& q, const ConnectedFrame& f,
                           ConnectedPacket& p) const noexcept;
  [[nodiscard]] bool begin(SoftConnectedQueue& q, SendPart part) noexcept;
  void append(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;
  void deliver(SoftConnectedQueue& q) noexcept;
  void abandon(SoftConnectedQueue& q, Drop reason) noexcept;
  void end(SoftConnectedQueue& q) noexcept;
  void give_up(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] bool oldest_is_over(std::uint64_t ms) const noexcept;

  // rc_responder.cc
  void request(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;
  void refuse_request(SoftConnectedQueue& q, rte_mbuf* m, Drop reason,
                      fabric::QueueError why) noexcept;
  void owe(SoftConnectedQueue& q, Response response) noexcept;
  [[nodiscard]] bool respond(SoftConnectedQueue& q) noexcept;

  // rc_requester.cc
  void acknowledgement(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;
  [[nodiscard]] bool retire(SoftConnectedQueue& q, std::uint32_t una) noexcept;
  void sequence_nak(SoftConnectedQueue& q) noexcept;
  void rnr_nak(SoftConnectedQueue& q, std::uint8_t timer) noexcept;
  void go_back(SoftConnectedQueue& q, std::uint32_t psn) noexcept;
  void restart_timer(SoftConnectedQueue& q) noexcept;
  void timer(SoftConnectedQueue& q) noexcept;

  // uc_receiver.cc
  void unreliable(SoftConnectedQueue& q, rte_mbuf* m, const ConnectedPacket& p) noexcept;

  // connected_tx.cc
  [[nodiscard]] bool may_keep(const SoftConnectedQueue& q, std::uint32_t mbufs) const noexcept;
  void let_go(SoftConnectedQueue& q, rte_mbuf* message) noexcept;
  [[nodiscard]] bool send(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] bool send_packet(SoftConnectedQueue& q) noexcept;
  [[nodiscard]] Made new_frame(const SoftConnectedQueue& q, const FrameSpec& spec) noexcept;
  void push_frame(rte_mbuf* frame, bool local) noexcept;
  [[nodiscard]] bool has_room() noexcept;
  void flush() noexcept;

  Datapath& datapath_;
  const DatapathConfig hca_;
  const ConnectedPortConfig config_;
  SoftConnectedQueue* ready_first_ = nullptr;
  SoftConnectedQueue* ready_last_ = nullptr;
  SoftConnectedQueue* begun_first_ = nullptr;  ///< The oldest.
  SoftConnectedQueue* begun_last_ = nullptr;
  std::uint32_t kept_ = 0;      ///< Mbufs of all messages sent and not acknowledged.
  std::uint32_t reserved_ = 0;  ///< Mbufs that count as those of messages which have begun.
  bool events_came_ = false;    ///< Into the ring, since the doorbell was last rung.
  std::uint16_t nb_frames_ = 0;
  std::uint16_t nb_sealed_ = 0;  ///< Those of frames_, from the front, that have their ICRC.
  std::uint16_t nb_local_ = 0;
  std::array<rte_mbuf*, kBurst> frames_;  ///< On their way to the wire.
  std::array<rte_mbuf*, kBurst> local_;   ///< On their way to this port itself.
  ConnectedTable queues_;
  TimerWheel timers_;
};

}  // namespace ipoib::soft
