// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/prefix_table.h"

#include <rte_rcu_qsbr.h>

#include "lib/base/hash_seed.h"

namespace ipoib::table {
namespace {

constexpr std::uint8_t kGroupLen = 24;
constexpr std::size_t kEntries = std::size_t{1} << kGroupLen;
constexpr std::uint32_t kEntryLenShift = kNextHopBits;
constexpr std::uint32_t kEntryLenMask = 63;
/// Neighbours leave a quarter of the groups free, so that they do not displace routes.
constexpr std::size_t kRouteShare = 4;

std::uint32_t mask_of(std::uint8_t len) noexcept {
  return len == 0 ? 0 : ~std::uint32_t{0} << (32 - len);
}

std::uint32_t entry_of(std::uint8_t len, NextHopIndex next_hop) noexcept {
  return std::uint32_t{len} << kEntryLenShift | next_hop;
}

/// An entry of the same length.
std::uint32_t with_number(std::uint32_t entry, NextHopIndex next_hop) noexcept {
  return entry >> kEntryLenShift << kEntryLenShift | next_hop;
}

std::uint32_t entry_len(std::uint32_t entry) noexcept {
  return (entry >> kEntryLenShift) & kEntryLenMask;
}

/// Release: a reader of the number sees the next hop, or the group, that it names.
void store(std::uint32_t& entry, std::uint32_t value) noexcept {
  std::atomic_ref{entry}.store(value, std::memory_order_release);
}

/// Replaces the entries that no longer prefix owns.
void replace(std::span<std::uint32_t> range, std::uint8_t len, std::uint32_t with) noexcept {
  for (std::uint32_t& entry : range)
    if (entry_len(entry) <= len) store(entry, with);
}

}  // namespace

std::size_t PrefixTable::Hash::operator()(std::uint32_t addr) const noexcept {
  std::uint64_t state = seed ^ addr;
  return next_random(state);
}

PrefixTable::PrefixTable(const Config& config, rte_rcu_qsbr* rcu)
    : max_prefixes_{config.max_prefixes}, in_group_(config.max_groups), rcu_{rcu} {
  prefixes_.fill(Prefixes(0, Hash{config.seed}));
  for (std::uint32_t i = config.max_groups; i > 0; --i) free_groups_.push_back(i - 1);
}

Result<std::unique_ptr<PrefixTable>> PrefixTable::create(const Config& config, rte_rcu_qsbr* rcu) {
  expects_management();
  std::unique_ptr<PrefixTable> table{new PrefixTable{config, rcu}};
  const auto allocate = [&](std::size_t n) {
    return Entries{static_cast<Entry*>(rte_zmalloc_socket(config.name.c_str(), n * sizeof(Entry),
                                                          RTE_CACHE_LINE_SIZE, config.socket))};
  };
  table->entries_ = allocate(kEntries);
  table->groups_ = allocate(std::size_t{config.max_groups} * kGroupSize);
  if (!table->entries_ || !table->groups_)
    return fail(Errc::kNoResources, "no memory for prefix table {} of {} groups", config.name,
                config.max_groups);
  return table;
}

Status PrefixTable::add(const wire::IpPrefix& prefix, NextHopIndex next_hop) {
  expects_management();
  if (!prefix.addr.is_v4() || prefix.len > 32)
    return fail(Errc::kInvalidArgument, "{} is not an IPv4 prefix", wire::to_string(prefix));
  if (!is_next_hop(next_hop))
    return fail(Errc::kInvalidArgument, "invalid next hop {} of {}", next_hop,
                wire::to_string(prefix));
  const std::uint8_t len = prefix.len;
  const std::uint32_t addr = prefix.addr.v4_host() & mask_of(len);
  Entry& entry = entries_[addr / kGroupSize];
  if (auto known = prefixes_[len].find(addr); known != prefixes_[len].end()) {
    if (known->second == next_hop) return {};
    known->second = next_hop;
  } else {
    if (size_ == max_prefixes_)
      return fail(Errc::kNoResources, "no room for prefix {}: there are {}",
                  wire::to_string(prefix), size_);
    if (len > kGroupLen && !open_group(entry, 0))
      return fail(Errc::kNoResources, "no room for prefix {}: all {} groups are in use",
                  wire::to_string(prefix), in_group_.size());
    prefixes_[len].emplace(addr, next_hop);
    ++size_;
    if (len > kGroupLen) ++in_group_[entry & kNumber];
  }
  write(addr, len, entry_of(len, next_hop));
  return {};
}

Status PrefixTable::remove(const wire::IpPrefix& prefix) {
  expects_management();
  if (!prefix.addr.is_v4() || prefix.len > 32)
    return fail(Errc::kInvalidArgument, "{} is not an IPv4 prefix", wire::to_string(prefix));
  const std::uint8_t len = prefix.len;
  const std::uint32_t addr = prefix.addr.v4_host() & mask_of(len);
  if (prefixes_[len].erase(addr) == 0)
    return fail(Errc::kNotFound, "no prefix {}", wire::to_string(prefix));
  --size_;
  write(addr, len, covering(addr, len));
  if (len > kGroupLen) close_group(entries_[addr / kGroupSize]);
  return {};
}

Status PrefixTable::add_neighbour(std::uint32_t addr, NextHopIndex via, NextHopIndex number) {
  expects_management();
  expects(via != kNextHopNone && via < kMaxNextHops && is_adjacency(number),
          "a neighbour lies behind a slot");
  Entry& entry = entries_[addr / kGroupSize];
  const auto [it, is_new] = neighbours_.try_emplace({via, addr}, via);
  if (is_new) {
    if (!open_group(entry, in_group_.size() / kRouteShare)) {
      neighbours_.erase(it);
      return fail(Errc::kNoResources, "no room for a neighbour: {} of {} groups are free",
                  free_groups_.size(), in_group_.size());
    }
    ++in_group_[entry & kNumber];
  }
  // Until now, lookups give `via` or the former number, unless another route wins.
  Entry& host = group(entry)[addr % kGroupSize];
  if ((host & kNumber) == it->second) store(host, with_number(host, number));
  it->second = number;
  return {};
}

void PrefixTable::remove_neighbour(std::uint32_t addr, NextHopIndex via) {
  expects_management();
  const auto it = neighbours_.find({via, addr});
  if (it == neighbours_.end()) return;
  Entry& entry = entries_[addr / kGroupSize];
  Entry& host = group(entry)[addr % kGroupSize];
  if ((host & kNumber) == it->second) store(host, with_number(host, via));
  neighbours_.erase(it);
  close_group(entry);
}

PrefixTable::Entry PrefixTable::covering(std::uint32_t addr, std::uint8_t len) const {
  while (len > 1) {
    --len;
    const auto found = prefixes_[len].find(addr & mask_of(len));
    if (found != prefixes_[len].end()) return entry_of(len, found->second);
  }
  return 0;
}

/// Writes `entry` to all addresses of a prefix that no longer prefix owns; for a prefix of length
/// 0, its next hop to the default.
void PrefixTable::write(std::uint32_t addr, std::uint8_t len, Entry entry) noexcept {
  if (len == 0) {
    // Release: pairs with the load in view(). A reader of the number sees its next hop, too.
    default_.store(entry & kNumber, std::memory_order_release);
    return;
  }
  const std::size_t first = addr / kGroupSize;
  if (len > kGroupLen) {
    const std::size_t n = std::size_t{1} << (32 - len);
    replace(group(entries_[first]).subspan(addr % kGroupSize, n), len, entry);
  } else {
    for (Entry& e : std::span{&entries_[first], std::size_t{1} << (kGroupLen - len)}) {
      if ((e & kGroup) != 0)
        replace(group(e), len, entry);
      else if (entry_len(e) <= len)
        store(e, entry);
    }
  }
  write_neighbours(addr, len, entry);
}

/// Writes the neighbours in a prefix where addresses have just got `entry`.
void PrefixTable::write_neighbours(std::uint32_t addr, std::uint8_t len, Entry entry) noexcept {
  const NextHopIndex via = entry & kNumber;
  const auto end = neighbours_.upper_bound({via, addr | ~mask_of(len)});
  for (auto it = neighbours_.lower_bound({via, addr}); it != end; ++it) {
    const std::uint32_t at = it->first.second;
    Entry& host = group(entries_[at / kGroupSize])[at % kGroupSize];
    if (host == entry) store(host, with_number(entry, it->second));
  }
}

/// Makes the entry of a /24 name a group, if it does not yet. False: no more than `reserve` groups
/// are free.
bool PrefixTable::open_group(Entry& entry, std::size_t reserve) {
  if ((entry & kGroup) != 0) return true;
  while (!retired_.empty() && rte_rcu_qsbr_check(rcu_, retired_.front().token, false) == 1) {
    free_groups_.push_back(retired_.front().group);
    retired_.pop_front();
  }
  if (free_groups_.size() <= reserve) return false;
  const std::uint32_t number = free_groups_.back();
  free_groups_.pop_back();
  for (Entry& e : group(number)) std::atomic_ref{e}.store(entry, std::memory_order_relaxed);
  store(entry, kGroup | number);
  return true;
}

/// A prefix or neighbour of the group was removed: without the last one, all entries of the group
/// are those of one prefix, and the /24 needs no group.
void PrefixTable::close_group(Entry& entry) {
  const std::uint32_t number = entry & kNumber;
  if (--in_group_[number] != 0) return;
  store(entry, group(number).front());
  retired_.push_back({rte_rcu_qsbr_start(rcu_), number});
}

}  // namespace ipoib::table
