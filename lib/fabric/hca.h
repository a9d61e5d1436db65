// SPDX-License-Identifier: BSD-3-Clause
// What every InfiniBand device offers: one Hca per port. Data calls have the ethdev shape, a
// function pointer per queue and one call per burst; control calls are virtual and made by the
// management lcore only.
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
#include "lib/fabric/tx_lost.h"
#include "lib/fabric/types.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

namespace ipoib::fabric {

/// Queue pair of type UD. rx_burst and tx_burst belong to one worker lcore.
class UdQueue {
 public:
  UdQueue(const UdQueue&) = delete;
  UdQueue& operator=(const UdQueue&) = delete;

  /// Up to `n` received packets, each starting at its IPoIB header, PacketMeta::rx filled (but
  /// iface). Ownership passes to the caller.
  std::uint16_t rx_burst(rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_worker();
    worker_.expects_owner();
    return rx_(*this, pkts, n);
  }

  /// Sends packets that start at their IPoIB header, PacketMeta::tx filled. Returns how many were
  /// taken, from the front; the rest stay the caller's. A packet that can never be sent (too long,
  /// unknown address handle, P_Key gone, port down) counts as taken, is freed and counted by the
  /// device. So is one that exceeds its handle's path rate (Drop::kIbRateLimited): it must not hold
  /// up the packets of other handles behind it, nor be overtaken by later ones of its own.
  /// tx_lost() has all of these. Chains may be of any length.
  std::uint16_t tx_burst(rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_worker();
    worker_.expects_owner();
    return tx_(*this, pkts, n);
  }

  [[nodiscard]] const TxLost& tx_lost() const noexcept { return tx_lost_; }

  /// Another one only after the port's device was away (PortEvent::kFatal); 0 until it is there.
  /// Management lcore; the worker too, while it has a packet from here: the number does not change
  /// meanwhile.
  [[nodiscard]] std::uint32_t qpn() const noexcept { return qpn_; }

 protected:
  using BurstFn = std::uint16_t (*)(UdQueue&, rte_mbuf**, std::uint16_t) noexcept;
  UdQueue(std::uint32_t qpn, BurstFn rx, BurstFn tx) : rx_{rx}, tx_{tx}, qpn_{qpn} {}
  ~UdQueue() = default;
  /// Management lcore, while no worker finds packets here.
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

/// Names and values of what a device counted.
using NamedCounters = std::vector<std::pair<std::string_view, std::uint64_t>>;

/// QP1 of a port. Management lcore only.
class MadPort {
 public:
  virtual ~MadPort() = default;
  /// Sends one MAD; it is copied. kUnavailable when the queue to the wire is full.
  virtual Status send(const MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) = 0;
  virtual std::optional<ReceivedMad> receive() = 0;
  /// Descriptor that becomes readable when receive() may have something; -1: poll.
  [[nodiscard]] virtual int descriptor() const { return -1; }
  /// False: nobody needs to look before the descriptor is readable or the doorbell that the device
  /// was made with rings.
  [[nodiscard]] virtual bool polled() const { return descriptor() < 0; }
  /// receive() would return a MAD. For devices with a doorbell: looked at once more before sleep.
  [[nodiscard]] virtual bool pending() const { return false; }
  [[nodiscard]] virtual NamedCounters counters() const { return {}; }
  /// What keeps MADs to other ports from leaving, for people; empty: nothing known.
  [[nodiscard]] virtual std::string problem() const { return {}; }
};

/// Where copies of the frames on a device's wire go (lib/fabric/capture.h). The ring has one
/// producer, the worker that owns the device; who takes mbufs from it frees them.
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
  /// May become others while a device comes or goes.
  [[nodiscard]] virtual Capabilities capabilities() const { return {}; }

  /// The queue lives until destroyed; packets for it are received from here on. Its Q_Key starts
  /// as 0, which no packet of a link carries.
  virtual Result<UdQueue*> create_ud_queue(const UdQueueConfig& config) = 0;
  virtual void destroy_ud_queue(UdQueue& queue) = 0;
  virtual Status set_qkey(UdQueue& queue, std::uint32_t qkey) = 0;

  /// Multicast packets of the MGID, sent to the MLID, are received by the queue from here on.
  virtual Status attach(UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) = 0;
  virtual Status detach(UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) = 0;

  virtual Result<AhIndex> create_ah(const AhAttr& attr) = 0;
  /// The number is used again only when nothing under way can name it (lib/fabric/retirement.h).
  virtual void destroy_ah(AhIndex ah) = 0;

  // Connected mode (lib/fabric/connected.h). Devices that have none refuse all of it.

  /// Lives until destroyed, which must be after all connected queues attached to it.
  virtual Result<ReceiveQueue*> create_receive_queue(const ReceiveQueueConfig& /*config*/) {
    return fail(Errc::kRefused, "{} has no connected mode", name());
  }
  virtual void destroy_receive_queue(ReceiveQueue& /*queue*/) {}

  /// In QueueState::kInit. Errors: kInvalidArgument, kNoResources.
  virtual Result<ConnectedQueue*> create_connected_queue(const ConnectedQueueConfig& /*config*/) {
    return fail(Errc::kRefused, "{} has no connected mode", name());
  }
  /// No worker may name the queue any more. Never waits: what is inside is freed by and by, and the
  /// QPN is not used again soon.
  virtual void destroy_connected_queue(ConnectedQueue& /*queue*/) {}

  /// kInit to kReadyToReceive. kInvalidArgument, and nothing changed, for attributes that cannot
  /// be; kRefused in another state.
  virtual Status set_ready_to_receive(ConnectedQueue& /*queue*/, const ReadyToReceive& /*attr*/) {
    return fail(Errc::kRefused, "{} has no connected mode", name());
  }
  /// kReadyToReceive to kReadyToSend. Likewise; kRefused too when the queue has failed meanwhile.
  virtual Status set_ready_to_send(ConnectedQueue& /*queue*/, const ReadyToSend& /*attr*/) {
    return fail(Errc::kRefused, "{} has no connected mode", name());
  }
  /// To kError, soon: nothing is sent or received any more, what was not acknowledged is flushed.
  virtual void set_error(ConnectedQueue& /*queue*/) {}

  [[nodiscard]] virtual ConnectedQueueInfo info(const ConnectedQueue& /*queue*/) const {
    return {};
  }
  /// Oldest news of connected queues; those of queues that are no more are left out.
  virtual std::optional<QueueEvent> next_queue_event() { return std::nullopt; }
  /// next_queue_event() may return one. For devices with a doorbell: looked at once more before
  /// sleep.
  [[nodiscard]] virtual bool queue_events_pending() const { return false; }

  /// Events say what of attr() to look at again; those of one kind that wait are one.
  virtual std::optional<PortEvent> next_event() { return std::nullopt; }

  /// What keeps the port from working, for people; empty: nothing that the device knows of.
  [[nodiscard]] virtual std::string problem() const { return {}; }

  /// Does to this port what a subnet manager would do; events follow. Nothing changes on failure.
  /// kInvalidArgument: no such value; kRefused: a subnet manager of its own sets this port up.
  virtual Status change_port(const PortChange& /*change*/) {
    return fail(Errc::kRefused, "{} is set up by its subnet manager", name());
  }

  /// Work a device without hardware of its own needs done once per loop by the lcore that owns its
  /// queues (the software HCA reads its cable here); null for others. `burst`: packets that queues
  /// are about to be asked for; what is read beyond them would only push them out of the cache.
  using PollFn = void (*)(Hca&, std::uint16_t burst) noexcept;
  [[nodiscard]] virtual PollFn poll_function() const { return nullptr; }

  /// The ethdev that is the wire was taken away: on return nobody uses it any more, and the port is
  /// down for good. Devices without such a wire do nothing.
  virtual void lose_wire() {}

  /// While set, every frame on the wire is copied to the tap; on return nothing uses the tap that
  /// was set before. Nothing: no capture. kRefused: this device cannot show its wire.
  virtual Status set_capture(const std::optional<CaptureTap>& /*tap*/) {
    return fail(Errc::kRefused, "{} cannot show its wire", name());
  }
  /// Frames that found the tap's ring or pool exhausted.
  [[nodiscard]] virtual std::uint64_t capture_lost() const { return 0; }

  /// Packets discarded before a link saw them. Any thread.
  [[nodiscard]] virtual const DropCounters& drops() const = 0;
};

}  // namespace ipoib::fabric
