// SPDX-License-Identifier: BSD-3-Clause
// The hardware of a UD queue: its queue pair, completion queues and the packets in them.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "drivers/verbs/device.h"
#include "drivers/verbs/memory.h"
#include "drivers/verbs/packet_capture.h"
#include "drivers/verbs/queue_pair.h"
#include "drivers/verbs/receive_ring.h"
#include "drivers/verbs/send_queue.h"
#include "drivers/verbs/verbs_ah_table.h"
#include "lib/base/contract.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/hca.h"

namespace ipoib::verbs {

/// State that all queues of a port share. It outlives them.
struct PortShared {
  std::string name;
  rte_mempool* pool = nullptr;
  Doorbell* doorbell = nullptr;  ///< Rung when a queue has failed; null: no lcore sleeps.
  Memory& memory;
  VerbsAhTable& ahs;
  PacketCapture& capture;
  std::uint32_t rxd = 512;
  std::uint32_t txd = 512;
  // Packets lost with their hardware; the worker that next polls a queue counts them.
  std::atomic<std::uint32_t> unsent{0};   ///< Packets to send: Drop::kIbTxFlushed.
  std::atomic<std::uint32_t> untaken{0};  ///< Received packets: Drop::kIbQueueState.

  /// Worker lcore. `counted`: the worker's.
  void count_lost(DropCounters& counted) noexcept {
    expects_worker();
    if ((unsent.load(std::memory_order_relaxed) | untaken.load(std::memory_order_relaxed)) == 0)
        [[likely]]
      return;
    counted.add(Drop::kIbTxFlushed, unsent.exchange(0, std::memory_order_relaxed));
    counted.add(Drop::kIbQueueState, untaken.exchange(0, std::memory_order_relaxed));
  }
};

/// The keys of a queue pair.
struct UdKeys {
  std::uint16_t pkey_index = 0;
  std::uint32_t qkey = 0;
};

/// Queue pair, completion queues and the packets in them.
class UdHardware {
 public:
  /// Creates hardware that is ready to send, with posted receive buffers of at least
  /// `max_received` octets. kRefused names a missing permission or feature.
  [[nodiscard]] static Result<std::unique_ptr<UdHardware>> create(Device& device,
                                                                  const PortShared& shared,
                                                                  std::uint8_t port,
                                                                  std::uint32_t max_received,
                                                                  unsigned worker, UdKeys keys);
  ~UdHardware();

  /// Resets the queue pair and starts it with `keys`, which may be new. Pending packets are lost.
  /// No worker may use it.
  Status restart(UdKeys keys, PortShared& shared);
  /// Ends sending and receiving, then takes the completions that no worker will take: packets that
  /// were sent, and packets that were received, which count as untaken. No worker may use it.
  void stop(PortShared& shared);
  Status set_qkey(std::uint32_t qkey);
  Status attach(const wire::Gid& mgid, std::uint16_t mlid);
  /// Does nothing if the queue pair is not attached.
  Status detach(const wire::Gid& mgid, std::uint16_t mlid);
  [[nodiscard]] bool attached(const wire::Gid& mgid, std::uint16_t mlid) const {
    return groups_.contains({mgid, mlid});
  }

  // The queue pair is destroyed first: until then the device may use the others' buffers.
  std::unique_ptr<ReceiveRing> receive;
  std::unique_ptr<SendQueue> send;
  CqPtr send_cq;
  CqPtr receive_cq;
  QpPtr qp;
  std::uint32_t number = 0;  ///< Unique among all queues ever created.
  /// Octets of the longest packet to send, IPoIB header included.
  std::atomic<std::uint32_t> mtu{0};

 private:
  explicit UdHardware(std::string name, std::uint8_t port) : name_{std::move(name)}, port_{port} {}
  Status start(UdKeys keys);
  void drain(PortShared& shared);

  std::set<std::pair<wire::Gid, std::uint16_t>> groups_;
  std::string name_;
  std::uint8_t port_;
};

}  // namespace ipoib::verbs
