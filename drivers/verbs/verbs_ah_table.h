// SPDX-License-Identifier: BSD-3-Clause
// Address handles of one port. Packets to send name them by number; equal handles share one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "drivers/verbs/handles.h"
#include "drivers/verbs/port.h"
#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fabric/retirement.h"

namespace ipoib::verbs {

/// Send positions by number of the queue's hardware. Work requests that were posted before a moment
/// are complete when each queue has reached its position of that moment.
using SendMarks = std::map<std::uint32_t, std::uint64_t>;

struct SendProgress {
  std::function<SendMarks()> posted;  ///< Work requests posted on each existing queue.
  std::function<SendMarks()> done;    ///< Work requests completed; a destroyed queue is absent.
};

/// Management lcore, except find(), attr_of() and qkey_of().
class VerbsAhTable {
 public:
  static constexpr std::uint32_t kCapacity = 65'536;

  /// `retirement` must outlive the table.
  VerbsAhTable(std::string name, fabric::Retirement& retirement, SendProgress progress);
  VerbsAhTable(const VerbsAhTable&) = delete;
  VerbsAhTable& operator=(const VerbsAhTable&) = delete;

  /// Each add() must be followed by a remove(). Errors: those of make_ah_attr(), kNoResources.
  Result<fabric::AhIndex> add(ibv_pd* pd, const PortTables& tables, const fabric::AhAttr& to);
  /// The last user's remove() retires the handle: packets that name it are sent with it until no
  /// worker can name it any more, and only then is its number used again. Unknown numbers are
  /// ignored.
  void remove(fabric::AhIndex ah);
  /// The rate of the port is `tables.rate` from now on: replaces the handles whose static rate
  /// depends on it. Their numbers stay, and packets that are posted already keep the former ones.
  /// kNoResources: some handles are still the former ones; a further call tries again.
  Status renew(ibv_pd* pd, const PortTables& tables);
  /// Destroys removed handles that are no longer in use. Does not block.
  void reclaim();
  /// Destroys all handles of a lost device; no worker may use them. Users keep their numbers.
  void forget_device();

  /// Returns null if there is no such handle.
  [[nodiscard]] ibv_ah* find(fabric::AhIndex ah) const noexcept {
    // Acquire: pairs with the release of renew().
    return ah < kCapacity ? slots_[ah].handle.load(std::memory_order_acquire) : nullptr;
  }

  /// Returns the attributes of a handle that find() returns, which are valid for one burst.
  [[nodiscard]] const fabric::AhAttr& attr_of(fabric::AhIndex ah) const noexcept {
    return *attrs_[ah].load(std::memory_order_relaxed);
  }

  /// Q_Key of packets to a handle: its own, or that of the queue.
  [[nodiscard]] std::uint32_t qkey_of(fabric::AhIndex ah, std::uint32_t of_queue) const noexcept {
    const std::uint64_t own = slots_[ah].qkey.load(std::memory_order_relaxed);
    return (own & kHasQkey) != 0 ? static_cast<std::uint32_t>(own) : of_queue;
  }

 private:
  static constexpr std::uint64_t kHasQkey = 1ULL << 32;
  using Key =
      std::tuple<std::uint16_t, std::uint8_t, std::uint8_t, std::uint8_t, bool, std::uint8_t,
                 std::uint8_t, std::uint32_t, wire::Gid, std::optional<std::uint32_t>>;
  /// The worker's part of a handle, in one cache line.
  struct alignas(16) Slot {
    std::atomic<ibv_ah*> handle{nullptr};
    std::atomic<std::uint64_t> qkey{0};  ///< With kHasQkey if it has one.
  };
  static_assert(sizeof(Slot) == 16);
  struct Entry {
    Key key;
    AhPtr handle;
    unsigned users = 0;
    std::unique_ptr<const fabric::AhAttr> attr{};  ///< Kept until the number is used again.
    std::uint8_t static_rate = 0;                  ///< That of `handle`.
  };
  /// A removed or former handle that pending work requests may still use.
  struct Doomed {
    AhPtr handle;
    std::optional<SendMarks> waits_for;  ///< Empty: still waits for the workers.
    std::uint64_t retirement;
    fabric::AhIndex ah;  ///< kNoAh: another handle has its number.
  };
  [[nodiscard]] static Key key_of(const fabric::AhAttr& to);
  [[nodiscard]] Result<AhPtr> make(ibv_pd* pd, ibv_ah_attr attr, const fabric::AhAttr& to) const;

  std::string name_;
  fabric::Retirement& retirement_;
  SendProgress progress_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<std::atomic<const fabric::AhAttr*>[]> attrs_;  ///< Index: number of the handle.
  std::vector<Entry> entries_;                                   ///< Index: number of the handle.
  std::map<Key, fabric::AhIndex> by_key_;
  std::vector<fabric::AhIndex> free_;
  std::deque<Doomed> doomed_;
  std::uint8_t rate_ = 0;  ///< Code of the port's rate that all handles have been made for.
};

}  // namespace ipoib::verbs
