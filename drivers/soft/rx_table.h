// What a port receives: its addresses, queue pairs, groups and P_Keys, as one value that never
// changes once a worker can see it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "drivers/soft/frame.h"
#include "drivers/soft/ud_queue.h"
#include "lib/fabric/types.h"
#include "lib/wire/iba.h"

namespace ipoib::soft {

/// The port's own entry for a partition, full membership first; 0: none.
[[nodiscard]] std::uint16_t own_entry(const fabric::PortAttr& attr, std::uint16_t partition);

/// One queue pair's wish for one group.
struct Attachment {
  wire::Gid mgid;
  std::uint16_t mlid;
  SoftUdQueue* queue;

  friend bool operator==(const Attachment&, const Attachment&) = default;
};

/// Built by the management lcore, read by the worker.
class RxTable {
 public:
  RxTable(const fabric::PortAttr& port, std::span<SoftUdQueue* const> queues,
          std::span<const Attachment> attachments, SoftUdQueue* closing = nullptr);

  /// From the EtherType on: an IBA packet without GRH to a LID of this port.
  [[nodiscard]] const Pattern& local() const noexcept { return local_; }
  [[nodiscard]] bool is_own_lid(std::uint16_t lid) const noexcept {
    return lid >> lmc_ == lid_ >> lmc_;
  }
  /// The port's GID, under its own or the default prefix.
  [[nodiscard]] bool is_own_gid(const wire::Gid& gid) const noexcept {
    return gid == gid_ || gid == link_local_gid_;
  }
  /// First filter: does any group of the port use this MLID?
  [[nodiscard]] bool has_mlid(std::uint16_t mlid) const noexcept {
    const unsigned bit = mlid - kFirstMlid;
    return (mlids_[bit / 64] >> bit % 64 & 1) != 0;
  }
  /// Second filter: the queue pairs attached to the group; none: empty.
  [[nodiscard]] std::span<SoftUdQueue* const> members(const wire::Gid& mgid,
                                                      std::uint16_t mlid) const noexcept;
  /// Null: no such queue pair.
  [[nodiscard]] SoftUdQueue* queue(std::uint32_t qpn) const noexcept {
    for (std::uint32_t i = qpn & queue_mask_;; i = (i + 1) & queue_mask_) {
      if (queues_[i].qpn == qpn) return queues_[i].queue;
      if (queues_[i].queue == nullptr) return nullptr;
    }
  }
  /// QP1 takes any P_Key that matches one of the table.
  [[nodiscard]] bool matches_any_pkey(std::uint16_t pkey) const noexcept;
  /// False: nothing is received.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// Largest UD payload, octets.
  [[nodiscard]] std::uint32_t mtu() const noexcept { return mtu_; }
  /// Queue pair whose staged packets the worker is to give up; null: none.
  [[nodiscard]] SoftUdQueue* closing() const noexcept { return closing_; }

 private:
  static constexpr std::uint16_t kFirstMlid = 0xc000;

  struct QueueSlot {
    std::uint32_t qpn = 0;
    SoftUdQueue* queue = nullptr;
  };
  struct GroupSlot {
    wire::Gid mgid;
    std::uint16_t mlid = 0;
    std::uint32_t first = 0;  ///< In members_.
    std::uint32_t n = 0;      ///< 0: free slot.
  };
  [[nodiscard]] std::size_t group_hash(const wire::Gid& mgid) const noexcept;
  void add_queues(std::span<SoftUdQueue* const> queues);
  void add_groups(std::span<const Attachment> attachments);

  Pattern local_;
  std::uint16_t lid_;
  std::uint8_t lmc_;
  bool active_;
  std::uint32_t mtu_;
  std::uint32_t queue_mask_ = 0;
  std::vector<QueueSlot> queues_;  ///< Open addressing; at least one slot is free.
  wire::Gid gid_;
  wire::Gid link_local_gid_;
  std::vector<std::uint16_t> pkeys_;
  SoftUdQueue* closing_;
  std::vector<GroupSlot> groups_;  ///< Open addressing; at least one slot is free.
  std::vector<SoftUdQueue*> members_;
  std::array<std::uint64_t, 0x4000 / 64> mlids_{};
};

}  // namespace ipoib::soft
