// SPDX-License-Identifier: BSD-3-Clause
// Interface of every InfiniBand device: one Hca per port. Data plane calls have the form of ethdev,
// with a function pointer per queue and one call per burst. Control plane calls are virtual, and
// only the management lcore makes them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
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
#include "lib/fabric/ud_frames.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;

namespace ipoib::fabric {

class MadPort;  // lib/fabric/qp1.h

class UdQueue;

/// Functions of a queue pair whose frames a worker may write itself (ud_frames.h). Only that worker
/// calls them, and heads_version() before it runs.
struct UdFrames {
  /// Keys of the frames of this loop. False: none may be written now, and packets take tx_burst.
  bool (*keys)(UdQueue&, FrameKeys&) noexcept;
  /// False: packets of this handle take tx_burst.
  bool (*head)(const UdQueue&, AhIndex, FrameHead&) noexcept;
  /// Sends frames with an ICRC of zero, which it adds. Returns the number taken, from the front.
  std::uint16_t (*tx_burst)(UdQueue&, rte_mbuf**, std::uint16_t) noexcept;
  /// Changes when heads of existing handles may have changed. Acquire: pairs with the writer's release.
  const std::atomic<std::uint32_t>& (*heads_version)(const UdQueue&) noexcept;
};

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

  /// Null: the device makes the frames itself.
  [[nodiscard]] const UdFrames* frames() const noexcept { return frames_; }

  /// The number changes only when the port's device is removed and restored (PortEvent::kFatal); 0
  /// until the device is there.
  [[nodiscard]] std::uint32_t qpn() const noexcept { return qpn_.load(std::memory_order_relaxed); }

 protected:
  using BurstFn = std::uint16_t (*)(UdQueue&, rte_mbuf**, std::uint16_t) noexcept;
  UdQueue(std::uint32_t qpn, BurstFn rx, BurstFn tx, const UdFrames* frames = nullptr)
      : rx_{rx}, tx_{tx}, frames_{frames}, qpn_{qpn} {}
  ~UdQueue() = default;
  /// Management lcore, while no worker receives packets from this queue.
  void set_qpn(std::uint32_t qpn) noexcept {
    expects_management();
    qpn_.store(qpn, std::memory_order_relaxed);
  }

  TxLost tx_lost_;

 private:
  BurstFn rx_;
  BurstFn tx_;
  const UdFrames* frames_;
  std::atomic<std::uint32_t> qpn_;
  [[no_unique_address]] OneLcore worker_;
};

struct UdQueueConfig {
  std::uint16_t pkey = wire::kDefaultPkey;  ///< Must match an entry of the port's table.
  /// Number, among the workers with queues on the port, of the one that receives from the queue and
  /// sends to it; below Capabilities::max_workers. 0: the owner of the port.
  unsigned worker = 0;
  /// The link's queue of the owner. Multicast of this queue need not return to it. Null: this is it.
  UdQueue* first = nullptr;
  /// Wanted QPN. A device that chooses QPNs by itself gives another one.
  std::optional<std::uint32_t> qpn{};
};

/// Destination of copies of the frames on a device's wire (lib/fabric/capture_meta.h). Any number of
/// workers enqueue to the ring; the consumer frees the mbufs.
struct CaptureTap {
  rte_ring* ring = nullptr;
  rte_mempool* pool = nullptr;
};

/// A device that can show its wire.
class WireCapture {
 public:
  /// While a tap is set, every frame on the wire is copied to it; none: no capture. On return the
  /// previous tap is no longer in use.
  virtual void set_capture(const std::optional<CaptureTap>& tap) = 0;
  /// Frames not captured because the tap's ring was full or its pool was empty.
  [[nodiscard]] virtual std::uint64_t capture_lost() const = 0;

 protected:
  ~WireCapture() = default;
};

/// A port whose attributes this program sets in place of a subnet manager.
class PortSetter {
 public:
  /// Events follow. On failure nothing changes. Errors: kInvalidArgument for an impossible value.
  virtual Status change_port(const PortChange& change) = 0;

 protected:
  ~PortSetter() = default;
};

/// A device whose wire is an ethdev.
class EthdevWire {
 public:
  /// The ethdev was removed: on return no lcore uses it any more, and the port is down for good.
  virtual void on_ethdev_removed() = 0;

 protected:
  ~EthdevWire() = default;
};

class Hca;
/// Work for a device without hardware of its own, once per loop of each worker that has a queue on it
/// or receives from it (the software HCA reads its cable here). `worker`: its number
/// in UdQueueConfig::worker. `burst`: number of packets that the queues are polled for next; reading
/// more would evict them from the cache. 0: they are not polled next, and nothing is read. Returns the
/// number of packets read.
using PollFn = std::uint32_t (*)(Hca&, unsigned worker, std::uint16_t burst) noexcept;

/// Abilities that only some devices have; null: this device does not. The objects live as long as
/// the device.
struct HcaAbilities {
  ConnectedTransport* connected = nullptr;
  WireCapture* capture = nullptr;
  PortSetter* setter = nullptr;
  EthdevWire* wire = nullptr;
  PollFn poll = nullptr;
};

/// One port of an InfiniBand device.
class Hca {
 public:
  virtual ~Hca() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  // Each is null if the device does not have the ability.
  [[nodiscard]] ConnectedTransport* connected_transport() const { return abilities_.connected; }
  [[nodiscard]] WireCapture* wire_capture() const { return abilities_.capture; }
  [[nodiscard]] PortSetter* port_setter() const { return abilities_.setter; }
  [[nodiscard]] EthdevWire* ethdev_wire() const { return abilities_.wire; }
  [[nodiscard]] PollFn poll_function() const { return abilities_.poll; }

  [[nodiscard]] virtual const PortAttr& attr() const = 0;
  [[nodiscard]] virtual MadPort& mad_port() = 0;
  /// They may change when a device comes or goes.
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  /// The queue lives until it is destroyed and receives packets from now on. Its Q_Key is 0 at
  /// first, which no packet of a link carries.
  virtual Result<UdQueue*> create_ud_queue(const UdQueueConfig& config) = 0;
  virtual void destroy_ud_queue(UdQueue& queue) = 0;
  virtual Status set_qkey(UdQueue& queue, std::uint32_t qkey) = 0;

  /// From now on the queue receives multicast packets of the MGID that are sent to the MLID.
  virtual Status attach(UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) = 0;
  virtual Status detach(UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) = 0;

  virtual Result<AhIndex> create_ah(const AhAttr& attr) = 0;
  /// The handle is valid until no packet or message can name it (lib/fabric/retirement.h); only then
  /// is its number reused.
  virtual void destroy_ah(AhIndex ah) = 0;

  /// An event names a part of attr() to read again. Waiting events of one kind are merged.
  virtual std::optional<PortEvent> next_event() = 0;

  /// Reason why the port does not work, for operators; empty: the device knows of no problem.
  [[nodiscard]] virtual std::string problem() const = 0;

  /// Packets discarded before a link saw them. Management lcore.
  [[nodiscard]] virtual DropTotals drops() const = 0;

 protected:
  explicit Hca(std::string name, const HcaAbilities& abilities = {})
      : name_{std::move(name)}, abilities_{abilities} {}

 private:
  std::string name_;
  HcaAbilities abilities_;
};

}  // namespace ipoib::fabric
