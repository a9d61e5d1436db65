// SPDX-License-Identifier: BSD-3-Clause
// A worker's private table of deliveries by ingress interface, group and source.
#pragma once

#include <rte_prefetch.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "lib/base/contract.h"
#include "lib/base/result.h"
#include "lib/base/rte_free.h"
#include "lib/table/delivery.h"

namespace ipoib::table {

/// One lcore reads and writes it.
///
/// Open addressing with linear probing. The slots hold the deliveries, and at most half of them are
/// taken: a hit costs one cache line, or two for an any-source delivery while the table has a
/// delivery with a source. Memory is fixed when the table is made: 128 to 256 octets per delivery.
class DeliveryTable {
 public:
  /// `seed` makes the hash private, so that an attacker cannot choose groups that collide.
  /// capacity: 1 to kMaxCapacity. `socket`: NUMA node; -1: any.
  static Result<std::unique_ptr<DeliveryTable>> create(std::size_t capacity, std::uint64_t seed,
                                                       int socket = -1);
  static constexpr std::size_t kMaxCapacity = std::size_t{1} << 24;

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Octets allocated in total.
  [[nodiscard]] std::size_t memory_size() const noexcept {
    return (slot_mask_ + std::size_t{1}) * sizeof(Slot);
  }

  /// Installs a delivery, replacing the one with the same key. Returns false if the table is full
  /// or delivery.in is kNoInterface.
  bool set(const Delivery& delivery) noexcept;
  /// Removes the delivery with the addr, source and in of `key`. False: no such delivery.
  bool remove(const Delivery& key) noexcept;

  /// Returns the delivery for exactly this source, else the one for any source; null: neither.
  [[nodiscard]] Delivery* lookup(InterfaceId in, const wire::IpAddr& addr,
                                 const wire::IpAddr& source) noexcept {
    return lookup(hash(in, addr, source), in, addr, source);
  }
  /// The hashes of a packet's any-source delivery and of that with its source.
  struct Hash {
    std::uint32_t any;
    std::uint32_t sourced;  ///< `any`, while no delivery has a source.
  };
  /// Prefetches the first slot that lookup() reads, and returns the hashes that it needs.
  [[nodiscard]] Hash prefetch(InterfaceId in, const wire::IpAddr& addr,
                              const wire::IpAddr& source) const noexcept {
    const Hash h = hash(in, addr, source);
    rte_prefetch0(&slots_[home(h.sourced)]);
    return h;
  }
  /// `h`: that of prefetch(), since which the table has not changed.
  [[nodiscard]] Delivery* lookup(Hash h, InterfaceId in, const wire::IpAddr& addr,
                                 const wire::IpAddr& source) noexcept {
    lcore_.expects_owner();
    const Key group = key_of(addr);
    if (nb_sourced_ != 0)
      if (Delivery* d = find(h.sourced, group, key_of(source), in)) return d;
    return find(h.any, group, Key{0, 0}, in);
  }

 private:
  /// The slot is free if in is kNoInterface.
  struct alignas(64) Slot {
    Delivery delivery;
  };
  static_assert(sizeof(Slot) == 64);

  /// An address as two machine words, in memory order.
  struct Key {
    std::uint64_t high;
    std::uint64_t low;
    friend bool operator==(const Key&, const Key&) = default;
  };

  DeliveryTable() = default;

  static Key key_of(const wire::IpAddr& addr) noexcept {
    Key key;
    std::memcpy(&key, &addr, sizeof(key));
    return key;
  }
  /// Multiplicative hashing with secret odd factors.
  [[nodiscard]] std::uint32_t hash_any(Key addr, InterfaceId in) const noexcept {
    return static_cast<std::uint32_t>((addr.high * factors_[0] + (addr.low ^ in) * factors_[1]) >>
                                      32);
  }
  [[nodiscard]] std::uint32_t hash_source(Key source) const noexcept {
    return static_cast<std::uint32_t>((source.high * factors_[2] + source.low * factors_[3]) >> 32);
  }
  [[nodiscard]] Hash hash(InterfaceId in, const wire::IpAddr& addr,
                          const wire::IpAddr& source) const noexcept {
    const std::uint32_t any = hash_any(key_of(addr), in);
    return {any, nb_sourced_ != 0 ? any ^ hash_source(key_of(source)) : any};
  }
  [[nodiscard]] std::uint32_t hash_of(const Delivery& d) const noexcept {
    const Key source = key_of(d.source);
    const std::uint32_t any = hash_any(key_of(d.addr), d.in);
    return source == Key{0, 0} ? any : any ^ hash_source(source);
  }
  [[nodiscard]] std::uint32_t home(std::uint32_t hash) const noexcept { return hash >> shift_; }

  [[nodiscard]] static bool is(const Delivery& d, Key addr, Key source, InterfaceId in) noexcept {
    return d.in == in && key_of(d.addr) == addr && key_of(d.source) == source;
  }
  [[nodiscard]] Delivery* find(std::uint32_t hash, Key addr, Key source, InterfaceId in) noexcept {
    // Terminates because at most half of the slots are taken.
    for (std::uint32_t i = home(hash); slots_[i].delivery.in != kNoInterface;
         i = (i + 1) & slot_mask_)
      if (is(slots_[i].delivery, addr, source, in)) return &slots_[i].delivery;
    return nullptr;
  }
  /// Returns the slot of the key, or the free slot for it.
  [[nodiscard]] std::uint32_t slot_of(const Delivery& key) const noexcept;

  Slot* slots_ = nullptr;
  std::uint64_t factors_[4] = {1, 1, 1, 1};
  std::uint32_t slot_mask_ = 0;
  std::uint32_t shift_ = 0;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  std::size_t nb_sourced_ = 0;  ///< Deliveries that name a source.
  [[no_unique_address]] OneLcore lcore_;
  std::unique_ptr<void, RteFree> memory_;
};

}  // namespace ipoib::table
