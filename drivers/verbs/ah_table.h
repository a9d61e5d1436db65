// SPDX-License-Identifier: BSD-3-Clause
// Address handles of one port, as sent packets name them: by number. Equal ones are one.
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
#include "lib/fabric/retirement.h"
#include "lib/fabric/types.h"

namespace ipoib::verbs {

/// Where sending has got to: what was posted before a moment is over when each queue has come as
/// far as it was then. By number of the queue's hardware.
using SendMarks = std::map<std::uint32_t, std::uint64_t>;

struct SendProgress {
  std::function<SendMarks()> posted;  ///< Work requests of each queue that there is.
  std::function<SendMarks()> done;  ///< Those that have completed; a queue that is gone is absent.
};

/// Management lcore, but find().
class AhTable {
 public:
  static constexpr std::uint32_t kCapacity = 65'536;

  /// `retirement` outlives the table.
  AhTable(std::string name, fabric::Retirement& retirement, SendProgress progress);
  AhTable(const AhTable&) = delete;
  AhTable& operator=(const AhTable&) = delete;

  /// Each add() is followed by a remove(). Errors: those of make_ah_attr(), kNoResources.
  Result<fabric::AhIndex> add(ibv_pd* pd, const PortTables& tables, const fabric::AhAttr& to);
  /// The last user's: the number leads nowhere from here on, and is used again when no worker can
  /// name it any more. Unknown numbers are ignored.
  void remove(fabric::AhIndex ah);
  /// Destroys what nothing names any more; never waits.
  void reclaim();
  /// The device is gone; no worker uses a handle. Numbers stay their users'.
  void forget_device();

  /// Null: no such handle.
  [[nodiscard]] ibv_ah* find(fabric::AhIndex ah) const noexcept {
    return ah < kCapacity ? slots_[ah].load(std::memory_order_relaxed) : nullptr;
  }

 private:
  using Key = std::tuple<std::uint16_t, std::uint8_t, std::uint8_t, bool, std::uint8_t,
                         std::uint8_t, std::uint32_t, wire::Gid>;
  struct Entry {
    Key key;
    AhPtr handle;
    unsigned users = 0;
  };
  /// A handle nobody names any more, but work requests that are under way may.
  struct Doomed {
    AhPtr handle;
    std::optional<SendMarks> waits_for;  ///< Nothing: for the workers.
    std::uint64_t retirement;
    fabric::AhIndex ah;
  };
  [[nodiscard]] static Key key_of(const fabric::AhAttr& to);

  std::string name_;
  fabric::Retirement& retirement_;
  SendProgress progress_;
  std::unique_ptr<std::atomic<ibv_ah*>[]> slots_;
  std::vector<Entry> entries_;  ///< As far as numbers were ever used.
  std::map<Key, fabric::AhIndex> by_key_;
  std::vector<fabric::AhIndex> free_;
  std::deque<Doomed> doomed_;
};

}  // namespace ipoib::verbs
