// SPDX-License-Identifier: BSD-3-Clause
// Address handles of a software HCA: each has a template of the first octets of its frames.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "drivers/soft/rate_bucket.h"
#include "drivers/soft/soft_frame.h"
#include "lib/base/contract.h"
#include "lib/base/result.h"
#include "lib/base/rte_free.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/retirement.h"

namespace ipoib::soft {

/// Head length and special handling of an address handle. Aligned for single loads and stores.
struct alignas(2) AhKind {
  std::uint8_t head_len = 0;  ///< Octets of the template; 0: there is no such handle.
  std::uint8_t route = 0;     ///< Flags below; 0: the frame only goes to the wire.

  static constexpr std::uint8_t kLocal = 1;      ///< The DLID is one of the port's own.
  static constexpr std::uint8_t kMulticast = 2;  ///< Other queues of the port may need a copy.
  static constexpr std::uint8_t kLimited = 4;    ///< The handle has a RateBucket.
  static constexpr std::uint8_t kQkey = 8;       ///< The handle has a Q_Key of its own.
  static constexpr std::uint8_t kPathBits = 16;  ///< The SLID is not the port's base LID.

  /// True: no GRH and no flags.
  [[nodiscard]] bool allows_fast_path() const noexcept { return is({kLocalHeadLen, 0}); }
  /// True: a group, and no other flags.
  [[nodiscard]] bool is_plain_group() const noexcept { return is({kGlobalHeadLen, kMulticast}); }

  [[nodiscard]] bool is(AhKind other) const noexcept {
    return std::bit_cast<std::uint16_t>(*this) == std::bit_cast<std::uint16_t>(other);
  }
};

/// Ethernet header, LRH and GRH; lengths (LRH.PktLen, GRH.PayLen) are zero. One cache line.
struct alignas(64) AhTemplate {
  std::array<std::byte, kGlobalHeadLen> head;
  std::atomic<AhKind> kind;
};
static_assert(sizeof(AhTemplate) == 64 && std::atomic<AhKind>::is_always_lock_free);

/// Fills `out` except its `kind`, which is returned.
AhKind make_template(const fabric::PortAttr& port, const fabric::AhAttr& to, AhTemplate& out);

/// Fixed capacity. Management lcore, except view() (any thread) and bucket() (the worker that it
/// names). Each worker that sends has a bucket for each handle, as each queue pair of a hardware HCA
/// keeps to the rate by itself.
class AhTable {
 public:
  static constexpr std::uint32_t kCapacity = 65'536;

  /// kNoResources: no memory for the table. `tsc_hz` is the frequency of the clock that the buckets
  /// use. `retirement` must outlive the table. `workers`: those that send.
  [[nodiscard]] static Result<std::unique_ptr<AhTable>> create(int socket_id, std::uint64_t tsc_hz,
                                                               fabric::Retirement& retirement,
                                                               unsigned workers = 1);
  AhTable(const AhTable&) = delete;
  AhTable& operator=(const AhTable&) = delete;

  /// kNoResources: every number is in use, or packets in flight may still name it.
  Result<fabric::AhIndex> add(const fabric::PortAttr& port, const fabric::AhAttr& to);
  /// Retires the handle: packets that name it are sent with it until its period is over, and only
  /// then is it invalid and its number used again. Unknown numbers are ignored.
  void remove(fabric::AhIndex ah);
  /// Handles that were added and not removed.
  [[nodiscard]] std::size_t in_use() const {
    return attrs_.size() - free_.size() - retired_.size();
  }

  /// Changes when templates of existing handles may have changed; a release after they did.
  [[nodiscard]] const std::atomic<std::uint32_t>& version() const noexcept { return version_; }
  /// The port's base LID, the source of all frames whose handle has no kPathBits; 0 until there is a
  /// handle. Any thread. While
  /// rebuild() changes the port's addresses, frames of one loop may have one that is older or newer
  /// than their SGID.
  [[nodiscard]] std::uint16_t slid() const noexcept {
    return slid_.load(std::memory_order_relaxed);
  }

  /// Rebuilds every template after the port's addresses or rate changed. Waits for a grace period.
  /// kNoResources: no memory for a second table, and nothing changed.
  Status rebuild(const fabric::PortAttr& port, const fabric::Grace& grace);

  /// The handles as one burst sees them; valid until the worker's next quiescent state.
  class View {
   public:
    /// Returns the kind of a handle and, for a number below kCapacity, its template in `out`.
    [[nodiscard]] AhKind find(fabric::AhIndex ah, const AhTemplate*& out) const noexcept {
      if (ah >= kCapacity) [[unlikely]]
        return {};
      out = &slots_[ah];
      return out->kind.load(std::memory_order_relaxed);
    }
    void prefetch(fabric::AhIndex ah) const noexcept {
      __builtin_prefetch(&slots_[ah % kCapacity]);
    }

   private:
    friend class AhTable;
    explicit View(const AhTemplate* slots) : slots_{slots} {}
    const AhTemplate* slots_;
  };
  [[nodiscard]] View view() const noexcept {
    // Pairs with the release store of rebuild().
    return View{slots_.load(std::memory_order_acquire)};
  }
  /// Bucket of a handle for which View::find() reports kLimited.
  [[nodiscard]] RateBucket& bucket(fabric::AhIndex ah, unsigned worker) const noexcept {
    expects_worker();
    expects(ah < kCapacity && worker < workers_, "the number is a handle's, the worker sends");
    return buckets_[std::size_t{worker} * kCapacity + ah];
  }

  /// Q_Key of a handle for which View::find() reports kQkey.
  [[nodiscard]] std::uint32_t qkey(fabric::AhIndex ah) const noexcept {
    expects(ah < kCapacity, "the number is a handle's");
    return qkeys_[ah].load(std::memory_order_relaxed);
  }

 private:
  template <class T>
  using Memory = std::unique_ptr<T[], RteFree>;

  AhTable(Memory<AhTemplate> slots, Memory<RateBucket> buckets,
          Memory<std::atomic<std::uint32_t>> qkeys, int socket_id, std::uint64_t tsc_hz,
          fabric::Retirement& retirement, unsigned workers);
  template <class T>
  [[nodiscard]] static Memory<T> allocate(const char* name, int socket_id, unsigned tables = 1);
  void limit(fabric::AhIndex ah, unsigned mbps);
  void reclaim();
  std::atomic<AhTemplate*> slots_;  ///< Points to owned_.
  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint16_t> slid_{0};
  Memory<RateBucket> buckets_;  ///< kCapacity for each worker.
  unsigned workers_;
  Memory<std::atomic<std::uint32_t>> qkeys_;  ///< Ordered by the store of the handle's kind.
  Memory<AhTemplate> owned_;
  std::vector<fabric::AhAttr> attrs_;  ///< Attributes by number, for all numbers ever used.
  std::vector<bool> live_;             ///< Indexed by number: added and not removed.
  int socket_id_;
  std::uint64_t tsc_hz_;
  fabric::Retirement& retirement_;
  std::vector<fabric::AhIndex> free_;  ///< Numbers for reuse, the last one first.
  fabric::Retired<fabric::AhIndex> retired_;
};

}  // namespace ipoib::soft
