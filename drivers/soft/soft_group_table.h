// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups of a port and the queue pairs attached to each. The cost of a change depends
// on the members of one group, not on the number of groups, because a port may be in thousands.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drivers/soft/soft_ud_queue.h"
#include "lib/base/contract.h"
#include "lib/base/keyed_hash.h"
#include "lib/base/result.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/retirement.h"
#include "lib/wire/gid.h"

namespace ipoib::soft {

/// The management lcore changes it, workers read it. A group never changes once a worker can
/// see it: a new one replaces it, and the old one is freed after the grace period.
class SoftGroupTable {
 public:
  /// Maximum number of queue pairs in one group; Takers (ud_rx.cc) has a bit for each.
  static constexpr std::size_t kMaxMembers = 1024;

  /// `grace` must outlive the table. `seed`: of the hash.
  SoftGroupTable(const fabric::Grace& grace, std::uint64_t seed);
  /// No worker may read the table any more.
  ~SoftGroupTable();
  SoftGroupTable(const SoftGroupTable&) = delete;
  SoftGroupTable& operator=(const SoftGroupTable&) = delete;

  // Management lcore. Shape: mgid and mlid are multicast.

  /// kExists: the queue is attached already. kNoResources: the group has kMaxMembers.
  Status attach(const wire::Gid& mgid, std::uint16_t mlid, SoftUdQueue& queue);
  /// False: the queue was not attached.
  [[nodiscard]] bool detach(const wire::Gid& mgid, std::uint16_t mlid, SoftUdQueue& queue);
  /// Detaches the queue from every group. Searches all groups.
  void detach_all(SoftUdQueue& queue);

  // Worker lcore.

  /// First filter: true if a group of the port uses this MLID. Shape: it is multicast.
  [[nodiscard]] bool has_mlid(std::uint16_t mlid) const noexcept {
    expects_worker();
    expects(mlid >= kFirstMlid, "the MLID is multicast");
    const unsigned bit = mlid - kFirstMlid;
    return (mlids_[bit / 64].load(std::memory_order_relaxed) >> bit % 64 & 1) != 0;
  }
  /// Second filter: the queue pairs attached to the group, up to kMaxMembers; empty: no such group.
  /// Valid until the worker's next quiescent state.
  [[nodiscard]] std::span<SoftUdQueue* const> members(const wire::Gid& mgid,
                                                      std::uint16_t mlid) const noexcept;

 private:
  static constexpr std::uint16_t kFirstMlid = 0xc000;
  static constexpr std::size_t kMlids = 0x4000;

  struct Group {
    wire::Gid mgid;
    std::uint16_t mlid = 0;  ///< 0: tombstone of a removed group; probing continues behind it.
    std::vector<SoftUdQueue*> members;

    [[nodiscard]] bool is(const wire::Gid& gid, std::uint16_t lid) const noexcept {
      return mlid == lid && mgid == gid;
    }
  };
  using Slot = std::atomic<const Group*>;
  /// Open addressing; at least half of the slots are null.
  struct Slots {
    explicit Slots(std::size_t n) : mask{n - 1}, at{std::make_unique<Slot[]>(n)} {}
    std::size_t mask;
    std::unique_ptr<Slot[]> at;
  };
  static const Group kGone;

  [[nodiscard]] Slot* find(const wire::Gid& mgid, std::uint16_t mlid) const;
  void add(std::unique_ptr<const Group> group);
  void replace(Slot& slot, const Group& old, std::unique_ptr<const Group> by);
  void take_out(Slot& slot, const Group& old, SoftUdQueue& queue);
  void make_room();
  void reclaim();

  const fabric::Grace& grace_;
  const KeyedHash hash_;
  std::unique_ptr<const Slots> owned_;
  std::atomic<const Slots*> slots_;  ///< Points to owned_.
  std::size_t nb_used_ = 0;          ///< Slots that are not null.
  std::size_t nb_groups_ = 0;
  std::array<std::atomic<std::uint64_t>, kMlids / 64> mlids_{};
  std::vector<std::uint32_t> groups_of_mlid_ = std::vector<std::uint32_t>(kMlids);
  fabric::Retired<std::unique_ptr<const Group>> old_groups_;
  fabric::Retired<std::unique_ptr<const Slots>> old_slots_;
};

}  // namespace ipoib::soft
