// SPDX-License-Identifier: BSD-3-Clause
// Interface of every InfiniBand device: one Hca per port. Data plane calls have the form of ethdev,
// with a function pointer per queue and one call per burst. Control plane calls are virtual, and
// only the management lcore makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/base/result.h"
#include "lib/fabric/capabilities.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fabric/tx_lost.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

namespace ipoib::fabric {

/// Queue pair of type UD. rx_burst and tx_burst belong to one worker lcore.
class UdQueue {
 public:
  UdQueue(const UdQueue&) = delete;
  UdQueue& operator=(const UdQueue&) = delete;

  /// Receives up to `n` packets, each starting at its IPoIB header, with PacketMeta::rx filled
  /// (except iface). Ownership passes to the caller.
  std::uint16_t rx_burst(rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_worker();
    worker_.expects_owner();
    return rx_(*this, pkts, n);
  }

  /// Sends packets that start at their IPoIB header, with PacketMeta::tx filled. Returns the number
  /// of packets taken, from the front; the caller keeps the rest. A packet that can never be sent
  /// (too long, unknown address handle, P_Key gone, port down) counts as taken; the device frees
  /// and counts it. The device also takes and drops a packet that exceeds its handle's path rate
  /// (Drop::kIbRateLimited), because it must not hold up packets of other handles behind it, and
  /// later packets of its own handle must not overtake it. tx_lost() counts all of these. Chains
  /// may be of any length.
  std::uint16_t tx_burst(rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_worker();
    worker_.expects_owner();
    return tx_(*this, pkts, n);
  }

  [[nodiscard]] const TxLost& tx_lost() const noexcept { return tx_lost_; }

  /// The number changes only when the port's device goes and returns (PortEvent::kFatal); 0 until
  /// the device is there. Management lcore, and the worker while it has a packet from this queue,
  /// because the number does not change meanwhile.
  [[nodiscard]] std::uint32_t qpn() const noexcept { return qpn_; }

 protected:
  using BurstFn = std::uint16_t (*)(UdQueue&, rte_mbuf**, std::uint16_t) noexcept;
  UdQueue(std::uint32_t qpn, BurstFn rx, BurstFn tx) : rx_{rx}, tx_{tx}, qpn_{qpn} {}
  ~UdQueue() = default;
  /// Management lcore, while no worker receives packets from this queue.
  void set_qpn(std::uint32_t qpn) noexcept {
    expects_management();
    qpn_ = qpn;
  }

  TxLost tx_lost_;

 private:
  BurstFn rx_;
  BurstFn tx_;
  std::uint32_t qpn_;
  [[no_unique_address]] OneLcore worker_;
};

struct UdQueueConfig {
  std::uint16_t pkey = wire::kDefaultPkey;  ///< Must match an entry of the port's table.
};

/// Names and values of a device's counters.
using NamedCounters = std::vector<std::pair<std::string_view, std::uint64_t>>;

/// QP1 of a port. Management lcore only.
class MadPort {
 public:
  virtual ~MadPort() = default;
  /// Sends a copy of one MAD. Errors: kUnavailable if the queue to the wire is full or the port is
  /// not active; kInvalidArgument for an address that the port cannot send to; kNoResources.
  virtual Status send(const MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) = 0;
  virtual std::optional<ReceivedMad> receive() = 0;
  /// Descriptor that becomes readable when receive() may have something; -1: poll.
  [[nodiscard]] virtual int descriptor() const { return -1; }
  /// False: receive() need not be called before the descriptor is readable or the doorbell that the
  /// device was made with rings.
  [[nodiscard]] virtual bool polled() const { return descriptor() < 0; }
  /// True if receive() would return a MAD. For devices with a doorbell: checked again before sleep.
  [[nodiscard]] virtual bool pending() const { return false; }
  [[nodiscard]] virtual NamedCounters counters() const { return {}; }
  /// Reason why MADs to other ports are not sent, for operators; empty: no known problem.
  [[nodiscard]] virtual std::string problem() const { return {}; }
};

/// Destination of copies of the frames on a device's wire (lib/fabric/capture_meta.h). The ring has
/// one producer, the worker that owns the device; the consumer frees the mbufs.
struct CaptureTap {
  rte_ring* ring = nullptr;
  rte_mempool* pool = nullptr;
};

/// One port of an InfiniBand device.
class Hca {
 public:
  virtual ~Hca() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const PortAttr& attr() const = 0;
  [[nodiscard]] virtual MadPort& mad_port() = 0;
  /// They may change when a device comes or goes.
  [[nodiscard]] virtual Capabilities capabilities() const { return {}; }

  /// The queue lives until it is destroyed and receives packets from now on. Its Q_Key is 0 at
  /// first, which no packet of a link carries.
  virtual Result<UdQueue*> create_ud_queue(const UdQueueConfig& config) = 0;
  virtual void destroy_ud_queue(UdQueue& queue) = 0;
  virtual Status set_qkey(UdQueue& queue, std::uint32_t qkey) = 0;

  /// From now on the queue receives multicast packets of the MGID that are sent to the MLID.
  virtual Status attach(UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) = 0;
  virtual Status detach(UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) = 0;

  virtual Result<AhIndex> create_ah(const AhAttr& attr) = 0;
  /// The number is reused only when no packet or message can name it (lib/fabric/retirement.h).
  virtual void destroy_ah(AhIndex ah) = 0;

  // Connected mode (lib/fabric/connected.h). Devices without connected mode refuse all of it.

  /// The queue lives until it is destroyed, after all connected queues attached to it.
  virtual Result<ReceiveQueue*> create_receive_queue(const ReceiveQueueConfig& /*config*/) {
    return fail(Errc::kRefused, "{} does not support connected mode", name());
  }
  virtual void destroy_receive_queue(ReceiveQueue& /*queue*/) {}

  /// The new queue is in QueueState::kInit. Errors: kInvalidArgument, kNoResources.
  virtual Result<ConnectedQueue*> create_connected_queue(const ConnectedQueueConfig& /*config*/) {
    return fail(Errc::kRefused, "{} does not support connected mode", name());
  }
  /// Precondition: no worker refers to the queue any more. Does not block: its mbufs are freed
  /// gradually, and the QPN is not reused soon.
  virtual void destroy_connected_queue(ConnectedQueue& /*queue*/) {}

  /// Changes kInit to kReadyToReceive. Errors, which leave the queue unchanged: kInvalidArgument
  /// for impossible attributes; kRefused in any other state.
  virtual Status set_ready_to_receive(ConnectedQueue& /*queue*/, const ReadyToReceive& /*attr*/) {
    return fail(Errc::kRefused, "{} does not support connected mode", name());
  }
  /// Changes kReadyToReceive to kReadyToSend. Errors as of set_ready_to_receive(); kRefused also if
  /// the queue has failed meanwhile.
  virtual Status set_ready_to_send(ConnectedQueue& /*queue*/, const ReadyToSend& /*attr*/) {
    return fail(Errc::kRefused, "{} does not support connected mode", name());
  }
  /// Moves the queue to kError soon: it sends and receives no more packets, and messages that the
  /// peer has not acknowledged are flushed.
  virtual void set_error(ConnectedQueue& /*queue*/) {}

  [[nodiscard]] virtual ConnectedQueueInfo info(const ConnectedQueue& /*queue*/) const {
    return {};
  }
  /// Oldest event of connected queues; events of destroyed queues are left out.
  virtual std::optional<QueueEvent> next_queue_event() { return std::nullopt; }
  /// True if next_queue_event() may return an event. For devices with a doorbell: checked again
  /// before sleep.
  [[nodiscard]] virtual bool queue_events_pending() const { return false; }

  /// An event names a part of attr() to read again. Waiting events of one kind are merged.
  virtual std::optional<PortEvent> next_event() { return std::nullopt; }

  /// Reason why the port does not work, for operators; empty: the device knows of no problem.
  [[nodiscard]] virtual std::string problem() const { return {}; }

  /// Sets attributes of this port in place of a subnet manager; events follow. On failure nothing
  /// changes. kInvalidArgument: impossible value; kRefused: a subnet manager sets this port up.
  virtual Status change_port(const PortChange& /*change*/) {
    return fail(Errc::kRefused, "{} is configured by its subnet manager", name());
  }

  /// Work that the lcore that owns the queues does once per loop for a device without hardware of
  /// its own (the software HCA reads its cable here); null for other devices. `burst`: number of
  /// packets that the queues are polled for next; reading more would evict them from the cache.
  using PollFn = void (*)(Hca&, std::uint16_t burst) noexcept;
  [[nodiscard]] virtual PollFn poll_function() const { return nullptr; }

  /// The ethdev of the wire was removed: on return no lcore uses it any more, and the port is down
  /// for good. Devices without such a wire do nothing.
  virtual void on_ethdev_removed() {}

  /// While a tap is set, every frame on the wire is copied to it; none: no capture. On return the
  /// previous tap is no longer in use. kRefused: this device cannot show its wire.
  virtual Status set_capture(const std::optional<CaptureTap>& /*tap*/) {
    return fail(Errc::kRefused, "{} does not support packet capture", name());
  }
  /// Frames not captured because the tap's ring was full or its pool was empty.
  [[nodiscard]] virtual std::uint64_t capture_lost() const { return 0; }

  /// Packets discarded before a link saw them. Any thread.
  [[nodiscard]] virtual const DropCounters& drops() const = 0;
};

}  // namespace ipoib::fabric
