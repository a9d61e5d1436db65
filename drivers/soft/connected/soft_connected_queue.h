// SPDX-License-Identifier: BSD-3-Clause
// A queue pair of type RC or UC of a software HCA: its peer, its unacknowledged messages and its
// receive state.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "drivers/soft/connected/receive_queue.h"
#include "drivers/soft/connected/timer_wheel.h"
#include "lib/base/contract.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/port_shares.h"
#include "lib/wire/gid.h"
#include "lib/wire/iba.h"

namespace ipoib::soft {

class ConnectedPort;

/// One message of the send queue: PSNs first_psn to first_psn + packets - 1.
struct SendSlot {
  rte_mbuf* m;
  std::uint32_t first_psn;
  std::uint32_t packets;
};

/// Sending half. Slots [head, at) are sent and (RC) not acknowledged, slot `at` is being sent,
/// slots up to tail wait. PSNs: una <= psn <= end, and psn <= max.
struct Requester {
  /// Packets in flight per queue: enough for 50 Gb/s over 80 us with an MTU of 2,048, and no more
  /// than cables can queue.
  static constexpr std::int32_t kWindow = 256;

  std::unique_ptr<SendSlot[]> slots;
  std::uint32_t mask = 0;
  std::uint32_t head = 0, at = 0, tail = 0;
  std::uint32_t una = 0;   ///< Oldest PSN without an ACK.
  std::uint32_t psn = 0;   ///< Next PSN to send, in slot `at`.
  std::uint32_t max = 0;   ///< One after the highest PSN ever sent.
  std::uint32_t end = 0;   ///< One after the last PSN of the last slot.
  std::uint32_t kept = 0;  ///< Mbufs of the messages in slots.
  /// Set before the queue pair can send.
  std::shared_ptr<fabric::PortShare> port_share;
  /// Segment in which packet `psn` begins; null: not known, search from the first segment.
  rte_mbuf* segment = nullptr;
  std::uint32_t segment_at = 0;
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_left = 0;
  bool waiting = false;  ///< Suspended for the time that an RNR NAK asked for.
  /// Packets that may be without an ACK: one, while the peer has no buffer for the oldest; then as
  /// many more as it acknowledges, until there are kWindow.
  std::int32_t window = kWindow;

  [[nodiscard]] SendSlot& slot(std::uint32_t i) const noexcept { return slots[i & mask]; }
  [[nodiscard]] bool full() const noexcept { return tail - head > mask; }
  [[nodiscard]] bool empty() const noexcept { return head == tail; }
};

/// Pending response of the responder, in ascending order of precedence.
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
  std::uint32_t psn = 0;      ///< Next expected PSN.
  std::uint32_t msn = 0;      ///< Messages completed.
  rte_mbuf* first = nullptr;  ///< Incomplete message; it holds a buffer of the receive queue.
  rte_mbuf* last = nullptr;
  std::uint32_t packets = 0;    ///< Packets of that message so far.
  std::uint32_t reserved = 0;   ///< Mbufs reserved for it; 0: a single-packet message.
  std::uint64_t begun_tsc = 0;  ///< Start of the message; valid if `reserved` is not 0.
  Response response = Response::kNone;
  bool nak_sent = false;  ///< No further NAK is sent until the missing packet arrives.
  bool skipping = false;  ///< UC: the rest of a lost message is being dropped.
};

/// A path between the ports of both ends.
struct QueuePath {
  fabric::AhIndex ah;
  std::uint16_t peer_lid;
  bool global;                    ///< The path uses GRHs; peer_gid is the peer's GID.
  std::uint64_t ack_timeout_tsc;  ///< 0: no timeout.
  wire::Gid peer_gid;

  /// True if the peer sends packets with this SLID and GRH over the path; null: no GRH.
  [[nodiscard]] bool carries(std::uint16_t slid, const wire::Grh* grh) const noexcept {
    return slid == peer_lid && (grh == nullptr || !global || grh->sgid == peer_gid);
  }
};
inline constexpr QueuePath kNoPath{
    .ah = fabric::kNoAh, .peer_lid = 0, .global = false, .ack_timeout_tsc = 0, .peer_gid = {}};

/// Address handles of the path in use and of the alternate path; kNoAh: none.
struct alignas(8) PathHandles {
  fabric::AhIndex in_use;
  fabric::AhIndex loaded;
};
static_assert(std::atomic<PathHandles>::is_always_lock_free);

/// An address handle of a queue, and its attributes.
struct PathHandle {
  fabric::AhIndex ah;
  fabric::AhAttr attr;
};

/// Source: IBA vol 1 §17.2.8.
enum class Migration : std::uint8_t {
  kMigrated,  ///< No alternate path is loaded, or it is in use. MigReq is 1 in packets to the peer.
  kRearm,     ///< One is loaded. MigReq is 0 in packets to the peer, here and below.
  kArmed,     ///< A packet of the peer had MigReq 0: it has loaded one, too.
};

/// Worker lcore, except where a comment says otherwise.
class alignas(64) SoftConnectedQueue final : public fabric::ConnectedQueue, public Timed {
 public:
  SoftConnectedQueue(std::uint32_t qpn, const fabric::ConnectedQueueConfig& c)
      : ConnectedQueue{qpn, c.transport, &SoftConnectedQueue::tx},
        receive_queue{static_cast<SoftReceiveQueue&>(*c.receive_queue)},
        port{receive_queue.port()},
        partition{c.pkey},
        send_depth{c.send_depth} {}

  [[nodiscard]] bool reliable() const noexcept { return transport() == fabric::Transport::kRc; }
  /// Any thread. Acquire: pairs with the release of the management lcore that set up the fields
  /// which the state makes valid.
  [[nodiscard]] fabric::QueueState state() const noexcept {
    return state_.load(std::memory_order_acquire);
  }
  /// Worker: counts a packet that was accepted but is not sent.
  void count_lost(std::uint32_t len) noexcept {
    expects_worker();
    tx_lost_.add(len);
  }
  /// Worker: changes the state to kError. Only the management lcore makes other changes.
  void set_failed(fabric::QueueError why) noexcept {
    expects_worker();
    error.store(why, std::memory_order_relaxed);
    state_.store(fabric::QueueState::kError, std::memory_order_release);
  }
  /// Management lcore. Changes the state. False: the state was not `from`, for example after a
  /// failure.
  [[nodiscard]] bool advance(fabric::QueueState from, fabric::QueueState to) noexcept {
    expects_management();
    return state_.compare_exchange_strong(from, to, std::memory_order_release,
                                          std::memory_order_relaxed);
  }
  /// False if a packet has the SLID of the path in use and a MigReq that changes nothing. `flags` is
  /// the octet of the BTH.
  [[nodiscard]] bool off_path(std::uint16_t slid, std::uint8_t flags) const noexcept {
    return ((path_key(slid, flags) ^ expected_key_) & compared_) != 0;
  }
  [[nodiscard]] Migration migration() const noexcept { return migration_; }
  /// Bth::kMigReq or 0: the bit in packets to the peer.
  [[nodiscard]] std::uint8_t mig_req() const noexcept { return mig_req_; }
  /// Sets the paths and the state of migration. Management lcore, before the state makes them valid;
  /// then the worker.
  void set_paths(QueuePath in_use, QueuePath loaded, Migration to) noexcept {
    state() == fabric::QueueState::kInit ? expects_management() : expects_worker();
    path = in_use;
    alternate = loaded;
    migration_ = to;
    mig_req_ = to == Migration::kMigrated ? wire::Bth::kMigReq : std::uint8_t{0};
    expected_key_ = path_key(in_use.peer_lid, to == Migration::kArmed ? 0 : wire::Bth::kMigReq);
    compared_ = path_key(0xffff, to == Migration::kMigrated ? 0 : wire::Bth::kMigReq);
    handles.store({.in_use = in_use.ah, .loaded = loaded.ah}, std::memory_order_relaxed);
  }
  /// Any thread. The P_Key as the port's table has it. 0, which matches none: the table does not
  /// have it, or the port is not active.
  [[nodiscard]] std::uint16_t pkey() const noexcept {
    return pkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore.
  void set_pkey(std::uint16_t pkey) noexcept {
    expects_management();
    pkey_.store(pkey, std::memory_order_relaxed);
  }

  // The management lcore writes these before the state makes them valid; the worker reads them.
  SoftReceiveQueue& receive_queue;
  ConnectedPort& port;
  std::uint16_t partition;  ///< P_Key given at creation, even if the port's table lacks it now.
  std::uint16_t send_depth;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
  std::uint32_t peer_qpn = 0;
  std::uint32_t mtu = 0;  ///< Path MTU, octets.
  std::uint32_t max_message = 0;
  QueuePath path = kNoPath;  ///< The path in use, which the worker changes: see set_paths().

  // The worker reads and writes these.
  Requester requester;
  Responder responder;
  SoftConnectedQueue* next_ready = nullptr;  ///< Next in the port's ready list.
  // Links in the port's list of queues with an incomplete message of several packets, oldest first.
  SoftConnectedQueue* begun_before = nullptr;
  SoftConnectedQueue* begun_after = nullptr;
  bool in_ready_list = false;
  bool established = false;             ///< A packet arrived in state kReadyToReceive.
  bool established_unreported = false;  ///< Event to enqueue to management.
  bool migrated_unreported = false;
  bool error_unreported = false;
  bool closing = false;

  // The worker writes these, any thread reads them.
  std::atomic<fabric::QueueError> error{fabric::QueueError::kNone};
  std::atomic<bool> closed{false};  ///< The worker no longer uses the queue; release store.
  fabric::ConnectedCounters counters;

 private:
  static std::uint16_t tx(fabric::ConnectedQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  /// SLID and MigReq as one word.
  [[nodiscard]] static constexpr std::uint32_t path_key(std::uint16_t slid,
                                                        std::uint8_t flags) noexcept {
    return std::uint32_t{slid} | (std::uint32_t{flags} & std::uint32_t{wire::Bth::kMigReq}) << 16;
  }

  std::uint32_t expected_key_ = 0;
  std::uint32_t compared_ = 0;  ///< Mask of the key's bits.
  Migration migration_ = Migration::kMigrated;
  std::uint8_t mig_req_ = wire::Bth::kMigReq;
  std::atomic<fabric::QueueState> state_{fabric::QueueState::kInit};
  std::atomic<std::uint16_t> pkey_{0};

 public:
  // No packet needs these, so they are last.
  QueuePath alternate = kNoPath;  ///< Worker: loaded, and not in use.
  // The worker writes these, any thread reads them.
  std::atomic<PathHandles> handles{PathHandles{fabric::kNoAh, fabric::kNoAh}};
  std::atomic<std::uint32_t> loads_taken{0};  ///< Part of `loads`; release store after `handles`.
  // Management lcore.
  std::uint32_t loads = 0;                     ///< Commands to load an alternate path.
  fabric::AhIndex known_path = fabric::kNoAh;  ///< The path in use, as its events say.
  std::vector<PathHandle> ahs;                 ///< All that the queue may use.
};
/// The send queue is allocated separately. Checks of contracts have members of their own.
static_assert(sizeof(SoftConnectedQueue) <= 512 || kContractsChecked);

}  // namespace ipoib::soft
