// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/neighbour_table.h"

#include <bit>
#include <limits>
#include <new>

#include "lib/base/hash_seed.h"

namespace ipoib::table {
namespace {

constexpr std::size_t kCacheLine = 64;

template <class T>
T* construct(void* memory, std::size_t n, const T& value) {
  auto* const first = static_cast<T*>(memory);
  std::uninitialized_fill_n(first, n, value);
  return first;
}

}  // namespace

Result<std::unique_ptr<NeighbourTable>> NeighbourTable::create(std::size_t capacity,
                                                               std::uint64_t seed, int socket) {
  if (capacity == 0 || capacity > kMaxCapacity)
    return fail(Errc::kInvalidArgument, "invalid neighbour capacity {}, allowed: 1-{}", capacity,
                kMaxCapacity);
  const std::size_t slots = std::bit_ceil(capacity) * 2;
  std::unique_ptr<NeighbourTable> cache{new (std::nothrow) NeighbourTable};
  if (cache) {
    cache->entries_memory_.reset(
        rte_malloc_socket("neighbours", capacity * sizeof(Neighbour), kCacheLine, socket));
    cache->slots_memory_.reset(
        rte_malloc_socket("neighbour_slots", slots * sizeof(Slot), kCacheLine, socket));
  }
  if (!cache || !cache->entries_memory_ || !cache->slots_memory_)
    return fail(Errc::kNoResources, "no memory for {} neighbours: {} octets", capacity,
                capacity * sizeof(Neighbour) + slots * sizeof(Slot));

  cache->entries_ = construct(cache->entries_memory_.get(), capacity, Neighbour{});
  cache->slots_ = construct(cache->slots_memory_.get(), slots, Slot{0, kNoNeighbour});
  cache->capacity_ = capacity;
  cache->slot_mask_ = static_cast<std::uint32_t>(slots - 1);
  cache->shift_ = 32 - static_cast<std::uint32_t>(std::countr_zero(slots));
  cache->high_factor_ = next_random(seed) | 1;
  cache->low_factor_ = next_random(seed) | 1;
  return cache;
}

bool NeighbourTable::set(NeighbourIndex index, const Neighbour& neighbour) noexcept {
  lcore_.expects_owner();
  if (index >= capacity_ || neighbour.state == NeighbourState::kFree) return false;
  Neighbour& entry = entries_[index];
  const bool was_free = entry.state == NeighbourState::kFree;
  const bool same = !was_free && entry.same_key(neighbour.addr, neighbour.iface);
  if (!was_free && !same) unlink(hash_of(entry), index);

  // Another thread reads the stamp, so the copy leaves it out.
  std::memcpy(static_cast<void*>(&entry), &neighbour, offsetof(Neighbour, last_used_s));
  static_assert(
      offsetof(Neighbour, last_used_s) + sizeof(neighbour.last_used_s) == sizeof(Neighbour),
      "the stamp is the last member");
  if (!same) touch(entry, neighbour.last_used_s);
  link(hash_of(entry), index);
  if (was_free) ++size_;
  return true;
}

bool NeighbourTable::remove(NeighbourIndex index) noexcept {
  if (at(index) == nullptr) return false;
  Neighbour& entry = entries_[index];
  unlink(hash_of(entry), index);
  entry.state = NeighbourState::kFree;
  touch(entry, 0);
  --size_;
  return true;
}

Neighbour* NeighbourTable::find_beyond(std::uint32_t hash, Key key, InterfaceId iface) noexcept {
  // Terminates because at most half of the slots are taken.
  for (std::uint32_t i = home(hash); slots_[i].index != kNoNeighbour; i = (i + 1) & slot_mask_) {
    if (slots_[i].hash != hash) continue;
    if (Neighbour& n = entries_[slots_[i].index]; is(n, key, iface)) return &n;
  }
  return nullptr;
}

/// Makes lookups of the entry's key find `index`.
void NeighbourTable::link(std::uint32_t hash, NeighbourIndex index) noexcept {
  const Neighbour& entry = entries_[index];
  std::uint32_t i = home(hash);
  for (; slots_[i].index != kNoNeighbour; i = (i + 1) & slot_mask_)
    if (slots_[i].hash == hash && entries_[slots_[i].index].same_key(entry.addr, entry.iface))
      break;
  slots_[i] = {hash, index};
}

/// Frees the slot of `index`, if it still has one, and closes the gap, so that no probe sequence
/// ends before its entry.
void NeighbourTable::unlink(std::uint32_t hash, NeighbourIndex index) noexcept {
  std::uint32_t gap = home(hash);
  for (; slots_[gap].index != index; gap = (gap + 1) & slot_mask_)
    if (slots_[gap].index == kNoNeighbour) return;

  for (std::uint32_t i = (gap + 1) & slot_mask_; slots_[i].index != kNoNeighbour;
       i = (i + 1) & slot_mask_) {
    // An entry may move back to the gap unless its home lies behind the gap.
    const std::uint32_t from_home = (i - home(slots_[i].hash)) & slot_mask_;
    const std::uint32_t from_gap = (i - gap) & slot_mask_;
    if (from_home < from_gap) continue;
    slots_[gap] = slots_[i];
    gap = i;
  }
  slots_[gap].index = kNoNeighbour;
}

}  // namespace ipoib::table
