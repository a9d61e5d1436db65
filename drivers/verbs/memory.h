// SPDX-License-Identifier: BSD-3-Clause
// Memory of mempools that the device may read and write. It is registered when it is first seen;
// workers look it up by address.
#pragma once

#include <rte_mempool.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/verbs/handles.h"
#include "lib/base/contract.h"
#include "lib/base/result.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/retirement.h"

namespace ipoib::verbs {

/// Registered memory by address. Immutable once it is published.
class MemoryMap {
 public:
  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uint32_t lkey;

    [[nodiscard]] bool holds(std::uintptr_t at) const noexcept { return at - begin < end - begin; }
  };

  explicit MemoryMap(std::vector<Range> ranges);
  /// Returns null if no range holds the address.
  [[nodiscard]] const Range* find(std::uintptr_t at) const noexcept;

 private:
  std::vector<Range> ranges_;  ///< Sorted by address.
};

/// Management lcore, except map() and miss() (any lcore).
class Memory {
 public:
  Memory(std::string name, const fabric::Grace& grace) : name_{std::move(name)}, grace_{grace} {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Registers the mempool memory that is not registered yet. kNoResources names the memlock limit.
  Status register_pools(ibv_pd* pd);
  /// Ends all registrations. No queue may use them any more.
  void clear();

  /// Returns the current map, which is valid for one burst.
  [[nodiscard]] const MemoryMap& map() const noexcept {
    // Pairs with the release store of publish().
    return *map_.load(std::memory_order_acquire);
  }
  /// Reports unregistered memory: a mempool is newer than the last register_pools().
  void miss() noexcept { missed_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool take_miss() noexcept {
    expects_management();
    return missed_.load(std::memory_order_relaxed) &&
           missed_.exchange(false, std::memory_order_relaxed);
  }

 private:
  void publish();

  std::string name_;
  const fabric::Grace& grace_;
  std::vector<MrPtr> regions_;
  std::vector<MemoryMap::Range> ranges_;
  std::unique_ptr<const MemoryMap> current_ =
      std::make_unique<const MemoryMap>(std::vector<MemoryMap::Range>{});
  std::atomic<const MemoryMap*> map_{current_.get()};
  fabric::Retired<std::unique_ptr<const MemoryMap>> old_;
  std::atomic<bool> missed_{false};
};

/// Caches the latest lkey of one queue, because packets mostly come from one mempool.
class LkeyCache {
 public:
  /// False if the memory is not registered.
  [[nodiscard]] bool find(const MemoryMap& map, const void* address, std::uint32_t& lkey) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (!last_.holds(at)) [[unlikely]] {
      const MemoryMap::Range* const range = map.find(at);
      if (range == nullptr) return false;
      last_ = *range;
    }
    lkey = last_.lkey;
    return true;
  }

 private:
  MemoryMap::Range last_{};
};

}  // namespace ipoib::verbs
