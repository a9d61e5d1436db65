// SPDX-License-Identifier: BSD-3-Clause
// Receive table of a port: its addresses, queue pairs and P_Keys, as one value that never changes
// once a worker can see it. Its groups change independently (soft_group_table.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "drivers/soft/soft_frame.h"
#include "drivers/soft/soft_group_table.h"
#include "drivers/soft/soft_ud_queue.h"
#include "lib/fabric/fabric_types.h"
#include "lib/wire/iba.h"

namespace ipoib::soft {

/// The port's own entry for a partition, full membership first; 0: none.
[[nodiscard]] std::uint16_t own_entry(const fabric::PortAttr& attr, std::uint16_t partition);

/// Built by the management lcore, read by the workers.
class RxTable {
 public:
  /// `groups` must outlive the table.
  RxTable(const fabric::PortAttr& port, std::span<SoftUdQueue* const> queues,
          const SoftGroupTable& groups, SoftUdQueue* closing = nullptr);

  /// Pattern, from the EtherType on, of an IBA packet without GRH to a LID of this port.
  [[nodiscard]] const Pattern& local() const noexcept { return local_; }
  [[nodiscard]] bool is_own_lid(std::uint16_t lid) const noexcept {
    return lid >> lmc_ == lid_ >> lmc_;
  }
  /// True for the port's GID, with its own or the default prefix.
  [[nodiscard]] bool is_own_gid(const wire::Gid& gid) const noexcept {
    return gid == gid_ || gid == link_local_gid_;
  }
  [[nodiscard]] const SoftGroupTable& groups() const noexcept { return groups_; }
  struct QueueSlot {
    std::uint32_t qpn = 0;
    std::uint32_t worker = 0;      ///< SoftUdQueue::worker().
    SoftUdQueue* queue = nullptr;  ///< Null: there is no such queue pair.
  };
  [[nodiscard]] const QueueSlot& find(std::uint32_t qpn) const noexcept {
    std::uint32_t i = qpn & queue_mask_;
    while (queues_[i].queue != nullptr && queues_[i].qpn != qpn) i = (i + 1) & queue_mask_;
    return queues_[i];
  }
  /// Null: no such queue pair.
  [[nodiscard]] SoftUdQueue* queue(std::uint32_t qpn) const noexcept { return find(qpn).queue; }
  /// True if the P_Key matches any entry of the table, which is enough for QP1.
  [[nodiscard]] bool matches_any_pkey(std::uint16_t pkey) const noexcept;
  /// False: the port drops all packets.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// Largest UD payload, octets.
  [[nodiscard]] std::uint32_t mtu() const noexcept { return mtu_; }
  /// True if queue pairs of two links are in this partition, so that multicast of one may be for
  /// the other.
  [[nodiscard]] bool has_two_links_in(std::uint16_t partition) const noexcept {
    return !shared_.empty() && is_shared(partition);
  }
  /// Queue pair whose waiting packets its worker must drop; null: none.
  [[nodiscard]] SoftUdQueue* closing() const noexcept { return closing_; }

 private:
  void add_queues(std::span<SoftUdQueue* const> queues);
  [[nodiscard]] bool is_shared(std::uint16_t partition) const noexcept;

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
  std::vector<std::uint16_t> shared_;  ///< Partitions with queue pairs of two links.
  SoftUdQueue* closing_;
  const SoftGroupTable& groups_;
};

}  // namespace ipoib::soft
