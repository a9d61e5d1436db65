// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/delivery_table.h"

#include <bit>
#include <memory>
#include <new>

#include "lib/base/hash_seed.h"

namespace ipoib::table {

Result<std::unique_ptr<DeliveryTable>> DeliveryTable::create(std::size_t capacity,
                                                             std::uint64_t seed, int socket) {
  if (capacity == 0 || capacity > kMaxCapacity)
    return fail(Errc::kInvalidArgument, "invalid delivery capacity {}, allowed: 1-{}", capacity,
                kMaxCapacity);
  const std::size_t slots = std::bit_ceil(capacity) * 2;
  std::unique_ptr<DeliveryTable> table{new (std::nothrow) DeliveryTable};
  if (table)
    table->memory_.reset(
        rte_malloc_socket("deliveries", slots * sizeof(Slot), alignof(Slot), socket));
  if (!table || !table->memory_)
    return fail(Errc::kNoResources, "no memory for {} deliveries: {} octets", capacity,
                slots * sizeof(Slot));

  table->slots_ = static_cast<Slot*>(table->memory_.get());
  std::uninitialized_fill_n(table->slots_, slots, Slot{});
  table->capacity_ = capacity;
  table->slot_mask_ = static_cast<std::uint32_t>(slots - 1);
  table->shift_ = 32 - static_cast<std::uint32_t>(std::countr_zero(slots));
  for (std::uint64_t& factor : table->factors_) factor = next_random(seed) | 1;
  return table;
}

std::uint32_t DeliveryTable::slot_of(const Delivery& key) const noexcept {
  const Key addr = key_of(key.addr);
  const Key source = key_of(key.source);
  std::uint32_t i = home(hash_of(key));
  while (slots_[i].delivery.in != kNoInterface && !is(slots_[i].delivery, addr, source, key.in))
    i = (i + 1) & slot_mask_;
  return i;
}

bool DeliveryTable::set(const Delivery& delivery) noexcept {
  lcore_.expects_owner();
  if (delivery.in == kNoInterface) return false;
  Delivery& slot = slots_[slot_of(delivery)].delivery;
  if (slot.in == kNoInterface) {
    if (size_ == capacity_) return false;
    ++size_;
    if (!(key_of(delivery.source) == Key{0, 0})) ++nb_sourced_;
  }
  slot = delivery;
  return true;
}

bool DeliveryTable::remove(const Delivery& key) noexcept {
  lcore_.expects_owner();
  if (key.in == kNoInterface) return false;
  std::uint32_t gap = slot_of(key);
  if (slots_[gap].delivery.in == kNoInterface) return false;
  --size_;
  if (!(key_of(key.source) == Key{0, 0})) --nb_sourced_;

  // Close the gap, so that no probe sequence ends before its delivery.
  for (std::uint32_t i = (gap + 1) & slot_mask_; slots_[i].delivery.in != kNoInterface;
       i = (i + 1) & slot_mask_) {
    // A delivery may move back to the gap unless its home lies behind the gap.
    const std::uint32_t from_home = (i - home(hash_of(slots_[i].delivery))) & slot_mask_;
    const std::uint32_t from_gap = (i - gap) & slot_mask_;
    if (from_home < from_gap) continue;
    slots_[gap] = slots_[i];
    gap = i;
  }
  slots_[gap].delivery.in = kNoInterface;
  return true;
}

}  // namespace ipoib::table
