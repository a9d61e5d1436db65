// SPDX-License-Identifier: BSD-3-Clause
// A UD queue pair of a real HCA. The queue outlives its hardware: a device that goes away takes
// the queue pair with it, and one that comes back brings another.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "drivers/verbs/ah_table.h"
#include "drivers/verbs/device.h"
#include "drivers/verbs/memory.h"
#include "drivers/verbs/queue_pair.h"
#include "drivers/verbs/receive_ring.h"
#include "drivers/verbs/send_queue.h"
#include "lib/base/clock.h"
#include "lib/base/contract.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/hca.h"

namespace ipoib::verbs {

/// What all queues of a port share. Outlives them.
struct PortShared {
  std::string name;
  rte_mempool* pool = nullptr;
  Doorbell* doorbell = nullptr;  ///< Rung when a queue has failed; null: nobody sleeps.
  Memory& memory;
  AhTable& ahs;
  DropCounters& drops;  ///< Writer: the worker that owns the port's queues.
  std::uint32_t rxd = 512;
  std::uint32_t txd = 512;
  // Packets lost with the hardware they were in; the worker that next polls a queue counts them.
  std::atomic<std::uint32_t> unsent{0};   ///< Drop::kIbTxFlushed
  std::atomic<std::uint32_t> untaken{0};  ///< Received: Drop::kIbQueueState

  /// Worker.
  void count_lost() noexcept {
    expects_worker();
    if ((unsent.load(std::memory_order_relaxed) | untaken.load(std::memory_order_relaxed)) == 0)
        [[likely]]
      return;
    drops.add(Drop::kIbTxFlushed, unsent.exchange(0, std::memory_order_relaxed));
    drops.add(Drop::kIbQueueState, untaken.exchange(0, std::memory_order_relaxed));
  }
};

/// The keys of a queue pair.
struct UdKeys {
  std::uint16_t pkey_index = 0;
  std::uint32_t qkey = 0;
};

/// Queue pair, completion queues and what is under way in them.
class UdHardware {
 public:
  /// Ready to send, receive buffers posted, which hold `most_received` octets at least. kRefused
  /// names a missing permission or feature.
  [[nodiscard]] static Result<std::unique_ptr<UdHardware>> create(const Device& device,
                                                                  const PortShared& shared,
                                                                  std::uint8_t port,
                                                                  std::uint32_t most_received,
                                                                  UdKeys keys);
  ~UdHardware();

  /// Out of error, with keys that may be others and what was under way lost. No worker uses it.
  Status restart(UdKeys keys, PortShared& shared);
  Status set_qkey(std::uint32_t qkey);
  Status attach(const wire::Gid& mgid, std::uint16_t mlid);
  /// Nothing where it is not attached.
  Status detach(const wire::Gid& mgid, std::uint16_t mlid);
  [[nodiscard]] bool attached(const wire::Gid& mgid, std::uint16_t mlid) const {
    return groups_.contains({mgid, mlid});
  }

  // The queue pair ends first: until then the device may use what the others hold.
  std::unique_ptr<ReceiveRing> receive;
  std::unique_ptr<SendQueue> send;
  CqPtr send_cq;
  CqPtr receive_cq;
  QpPtr qp;
  std::uint32_t number = 0;  ///< Tells it from all others that ever were.
  /// Octets of the longest packet to send, IPoIB header included.
  std::atomic<std::uint32_t> mtu{0};

 private:
  explicit UdHardware(std::string name, std::uint8_t port) : name_{std::move(name)}, port_{port} {}
  Status start(UdKeys keys);

  std::set<std::pair<wire::Gid, std::uint16_t>> groups_;
  std::string name_;
  std::uint8_t port_;
};

/// Worker lcore: bursts. Management lcore: the rest, but where it says so.
class alignas(64) VerbsUdQueue final : public fabric::UdQueue {
 public:
  VerbsUdQueue(PortShared& shared, std::uint16_t pkey);

  /// What the worker uses from now on; the caller waits for the workers before it ends what was.
  /// Null: nothing, and packets to send are lost by this reason.
  void show(UdHardware* hardware, Drop absent = Drop::kIbPortDown) noexcept;
  /// Why the hardware has failed: once.
  [[nodiscard]] std::optional<ibv_wc_status> take_failure() noexcept {
    expects_management();
    if (failure_.load(std::memory_order_relaxed) == IBV_WC_SUCCESS) return std::nullopt;
    return failure_.exchange(IBV_WC_SUCCESS, std::memory_order_acquire);
  }
  /// Any lcore. What is flushed only follows from something else.
  void fail(ibv_wc_status why) noexcept {
    auto expected = IBV_WC_SUCCESS;
    if (!failure_.compare_exchange_strong(expected, why, std::memory_order_release) &&
        expected == IBV_WC_WR_FLUSH_ERR)
      failure_.store(why, std::memory_order_release);
  }
  /// A completion queue has failed, which no restart mends: once.
  [[nodiscard]] bool take_broken() noexcept {
    expects_management();
    return broken_.load(std::memory_order_relaxed) &&
           broken_.exchange(false, std::memory_order_acquire);
  }
  /// No worker uses the hardware any more.
  void end_hardware();
  void set_qkey(std::uint32_t qkey) noexcept {
    expects_management();
    qkey_.store(qkey, std::memory_order_relaxed);
  }
  /// Any lcore.
  [[nodiscard]] std::uint32_t qkey() const noexcept {
    return qkey_.load(std::memory_order_relaxed);
  }

  struct Attachment {
    wire::Gid mgid;
    std::uint16_t mlid;
    friend bool operator==(const Attachment&, const Attachment&) = default;
  };

  // The management lcore's.
  const std::uint16_t pkey;
  std::unique_ptr<UdHardware> hardware;  ///< Null while the device is away.
  std::vector<Attachment> attachments;
  std::uint16_t pkey_index = 0;
  TimePoint next_restart{};  ///< Not before.
  using UdQueue::set_qpn;

 private:
  static std::uint16_t rx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static std::uint16_t tx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  std::uint16_t receive(UdHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept;
  void idle(UdHardware& hw) noexcept;
  void fill(UdHardware& hw) noexcept;
  std::uint16_t send(UdHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept;
  void add(UdHardware& hw, const MemoryMap& map, rte_mbuf* m) noexcept;
  void reap(UdHardware& hw) noexcept;
  void report_failure(ibv_wc_status why) noexcept;
  void report_broken() noexcept;
  rte_mbuf* sendable(const UdHardware& hw, rte_mbuf* m) noexcept;
  void lose(rte_mbuf* m, Drop reason) noexcept;

  PortShared& shared_;
  std::atomic<UdHardware*> shown_{nullptr};
  std::atomic<Drop> absent_{Drop::kIbPortDown};
  std::atomic<ibv_wc_status> failure_{IBV_WC_SUCCESS};
  std::atomic<bool> broken_{false};
  std::atomic<std::uint32_t> qkey_{0};
  // The worker's.
  bool starving_ = false;  ///< No mbufs: received packets give up theirs.
};

}  // namespace ipoib::verbs
