// SPDX-License-Identifier: BSD-3-Clause
// A worker's private neighbour table: entries by number, and numbers by interface and address.
#pragma once

#include <rte_prefetch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "lib/base/contract.h"
#include "lib/base/result.h"
#include "lib/base/rte_free.h"
#include "lib/table/neighbour.h"
#include "lib/table/next_hop.h"

namespace ipoib::table {

/// One lcore reads and writes it; any thread may read the stamps (last_used_s).
///
/// A hit costs two cache lines: one of eight slots, and the entry. Memory is fixed when the table
/// is made: 64 octets for each entry and 16 to 32 octets for its slots.
class NeighbourTable {
 public:
  /// Numbers 0 to capacity-1 are usable; capacity is 1 to kMaxCapacity. `seed` makes the hash
  /// private, so that an attacker cannot choose addresses that collide. `socket`: NUMA node; -1:
  /// any.
  static Result<std::unique_ptr<NeighbourTable>> create(std::size_t capacity, std::uint64_t seed,
                                                        int socket = -1);
  static constexpr std::size_t kMaxCapacity = kMaxAdjacencies;

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Octets allocated in total.
  [[nodiscard]] std::size_t memory_size() const noexcept {
    return capacity_ * sizeof(Neighbour) + (slot_mask_ + std::size_t{1}) * sizeof(Slot);
  }

  /// Installs the entry, replacing the previous one of this number. The stamp survives if the key
  /// stays. If two numbers have the same key, lookups find the newer one. Returns false if the
  /// number is out of range or the state is kFree.
  bool set(NeighbourIndex index, const Neighbour& neighbour) noexcept;
  /// Returns false if the number is out of range or already free.
  bool remove(NeighbourIndex index) noexcept;

  /// Returns the entry of a number; null if it is free or out of range.
  [[nodiscard]] Neighbour* at(NeighbourIndex index) noexcept {
    lcore_.expects_owner();
    if (index >= capacity_) [[unlikely]]
      return nullptr;
    Neighbour& n = entries_[index];
    return n.state == NeighbourState::kFree ? nullptr : &n;
  }

  /// Returns the entry of a number below capacity(); its state is kFree if it has none.
  [[nodiscard]] Neighbour& entry(NeighbourIndex index) noexcept {
    lcore_.expects_owner();
    expects(index < capacity_, "the number is one of the table");
    return entries_[index];
  }

  /// Prefetches the entry of a number, if that is one of the table.
  void prefetch(NeighbourIndex index) const noexcept {
    if (index < capacity_) rte_prefetch0(&entries_[index]);
  }

  /// Returns the number of an entry of this table.
  [[nodiscard]] NeighbourIndex index_of(const Neighbour& neighbour) const noexcept {
    expects([&] { return &neighbour >= entries_ && &neighbour < entries_ + capacity_; },
            "the entry is of this table");
    return static_cast<NeighbourIndex>(&neighbour - entries_);
  }

  /// Returns null if there is no such neighbour. addr in host order.
  [[nodiscard]] Neighbour* lookup_v4(InterfaceId iface, std::uint32_t addr) noexcept {
    return find_v4(hash_v4(iface, addr), iface, addr);
  }

  /// Like lookup_v4(), for an address of either version.
  [[nodiscard]] Neighbour* lookup(InterfaceId iface, const wire::IpAddr& addr) noexcept {
    return find(hash(iface, addr), iface, addr);
  }

  // Lookup in three steps, so that a burst overlaps its cache misses: prefetch the slots of all
  // packets, prefetch the entries of all packets, then find.
  [[nodiscard]] std::uint32_t hash_v4(InterfaceId iface, std::uint32_t addr) const noexcept {
    return hash({0, low_half_v4(addr)}, iface);
  }
  void prefetch_slot(std::uint32_t hash) const noexcept { rte_prefetch0(&slots_[home(hash)]); }
  /// Prefetches the most likely entry.
  void prefetch_entry(std::uint32_t hash) noexcept {
    lcore_.expects_owner();
    const Slot slot = slots_[home(hash)];
    if (slot.hash == hash && slot.index != kNoNeighbour) rte_prefetch0(&entries_[slot.index]);
  }
  [[nodiscard]] Neighbour* find_v4(std::uint32_t hash, InterfaceId iface,
                                   std::uint32_t addr) noexcept {
    return find(hash, {0, low_half_v4(addr)}, iface);
  }

  [[nodiscard]] std::uint32_t hash(InterfaceId iface, const wire::IpAddr& addr) const noexcept {
    return hash(key_of(addr), iface);
  }
  [[nodiscard]] Neighbour* find(std::uint32_t hash, InterfaceId iface,
                                const wire::IpAddr& addr) noexcept {
    return find(hash, key_of(addr), iface);
  }

  /// Records that a packet leaves through the entry. Stores only when the second has changed, so
  /// that the cache line of a busy entry stays clean for readers of the stamp.
  static void touch(Neighbour& neighbour, std::uint32_t now_s) noexcept {
    expects_worker();
    const std::atomic_ref<std::uint32_t> stamp{neighbour.last_used_s};
    if (stamp.load(std::memory_order_relaxed) != now_s)
      stamp.store(now_s, std::memory_order_relaxed);
  }
  /// Any thread. Returns 0 if the number is out of range or was not used.
  [[nodiscard]] std::uint32_t last_used_s(NeighbourIndex index) const noexcept {
    if (index >= capacity_) return 0;
    return std::atomic_ref<std::uint32_t>{entries_[index].last_used_s}.load(
        std::memory_order_relaxed);
  }

 private:
  /// Open addressing with linear probing. The slot is free if index is kNoNeighbour.
  struct Slot {
    std::uint32_t hash;
    NeighbourIndex index;
  };
  static_assert(sizeof(Slot) == 8);

  /// An address as two machine words, in memory order.
  struct Key {
    std::uint64_t high;
    std::uint64_t low;
  };
  static_assert(offsetof(Neighbour, addr) == 0 && sizeof(Key) == sizeof(wire::IpAddr));

  NeighbourTable() = default;

  static Key key_of(const wire::IpAddr& addr) noexcept {
    Key key;
    std::memcpy(&key, &addr, sizeof(key));
    return key;
  }
  /// Second half of wire::IpAddr::v4(addr): two zero octets, two of ones, the address.
  static std::uint64_t low_half_v4(std::uint32_t addr) noexcept {
    return 0xffff'0000ULL | std::uint64_t{__builtin_bswap32(addr)} << 32;
  }

  /// Multiplicative hashing with secret odd factors. For IPv4 the high half of the product is a
  /// bijection of the address, so that neighbours of one prefix spread evenly and a matching hash
  /// is a hit. The interface goes where an IPv4 address has zeros.
  [[nodiscard]] std::uint32_t hash(Key key, InterfaceId iface) const noexcept {
    return static_cast<std::uint32_t>((key.high * high_factor_ + (key.low ^ iface) * low_factor_) >>
                                      32);
  }
  [[nodiscard]] std::uint32_t home(std::uint32_t hash) const noexcept { return hash >> shift_; }

  [[nodiscard]] static bool is(const Neighbour& n, Key key, InterfaceId iface) noexcept {
    return has(n, key) && n.iface == iface;
  }
  [[nodiscard]] static bool has(const Neighbour& n, Key key) noexcept {
    const Key found = key_of(n.addr);
    return found.low == key.low && found.high == key.high;
  }
  /// Looks into the home slot, where most entries are; find_beyond() searches the following slots.
  [[nodiscard]] Neighbour* find(std::uint32_t hash, Key key, InterfaceId iface) noexcept {
    lcore_.expects_owner();
    const Slot slot = slots_[home(hash)];
    if (slot.hash == hash && slot.index != kNoNeighbour) [[likely]]
      if (Neighbour& n = entries_[slot.index]; is(n, key, iface)) [[likely]]
        return &n;
    return find_beyond(hash, key, iface);
  }
  [[nodiscard]] Neighbour* find_beyond(std::uint32_t hash, Key key, InterfaceId iface) noexcept;

  [[nodiscard]] std::uint32_t hash_of(const Neighbour& n) const noexcept {
    return hash(key_of(n.addr), n.iface);
  }
  void link(std::uint32_t hash, NeighbourIndex index) noexcept;
  void unlink(std::uint32_t hash, NeighbourIndex index) noexcept;

  Neighbour* entries_ = nullptr;
  Slot* slots_ = nullptr;
  std::uint64_t high_factor_ = 1;
  std::uint64_t low_factor_ = 1;
  std::uint32_t slot_mask_ = 0;
  std::uint32_t shift_ = 0;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  std::unique_ptr<void, RteFree> entries_memory_;
  std::unique_ptr<void, RteFree> slots_memory_;
  [[no_unique_address]] OneLcore lcore_;
};

}  // namespace ipoib::table
