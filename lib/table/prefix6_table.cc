// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/prefix6_table.h"

#include <rte_rcu_qsbr.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::table {
namespace {

/// Number of parallel searches: enough to hide a cache miss, few enough for registers.
constexpr std::size_t kLanes = 16;
constexpr unsigned kLenShift = kNextHopBits;

Uint128 number_of(const wire::IpAddr& addr) noexcept {
  std::uint64_t high, low;
  std::memcpy(&high, addr.bytes.data(), sizeof(high));
  std::memcpy(&low, addr.bytes.data() + sizeof(high), sizeof(low));
  return Uint128{__builtin_bswap64(high)} << 64 | __builtin_bswap64(low);
}

Uint128 host_mask(std::uint8_t len) noexcept {
  return len == 128 ? Uint128{0} : ~Uint128{0} >> len;
}

std::uint32_t owner_of(std::uint8_t len, NextHopIndex next_hop) noexcept {
  return std::uint32_t{len} << kLenShift | next_hop;
}
std::uint8_t len_of(std::uint32_t owner) noexcept {
  return static_cast<std::uint8_t>(owner >> kLenShift);
}
NextHopIndex next_hop_of(std::uint32_t owner) noexcept {
  return owner & ((1U << kLenShift) - 1);
}

bool is_ipv6(const wire::IpPrefix& prefix) {
  return !prefix.addr.is_v4() && prefix.len <= 128;
}

}  // namespace

Result<std::unique_ptr<Prefix6Table>> Prefix6Table::create(const Config& config,
                                                           rte_rcu_qsbr* rcu) {
  expects_management();
  if (config.max_prefixes == 0 || config.max_prefixes > kMaxPrefixes)
    return fail(Errc::kInvalidArgument,
                "prefix table {}: invalid number of prefixes {}, allowed: 1-{}", config.name,
                config.max_prefixes, kMaxPrefixes);
  std::unique_ptr<Prefix6Table> table{new (std::nothrow) Prefix6Table{rcu}};
  if (!table) return fail(Errc::kNoResources, "no memory for prefix table {}", config.name);
  if (auto s = table->allocate(config); !s) return tl::make_unexpected(s.error());
  table->scratch_ = {{0}, {owner_of(0, kNextHopNone)}};
  table->replace(Root{}, 0, 0);
  return table;
}

/// Allocates twice the blocks of a full table, because a change may rewrite all of them.
Status Prefix6Table::allocate(const Config& config) {
  max_prefixes_ = config.max_prefixes;
  // Each prefix has two ends; an empty table is one interval.
  const std::size_t intervals = std::size_t{max_prefixes_} * 2 + 1;
  max_blocks_ = intervals / (kBlock / 2) + 1;
  block_memory_.reset(rte_malloc_socket("prefixes6", max_blocks_ * 2 * sizeof(Block),
                                        alignof(Block), config.socket));
  root_memory_.reset(
      rte_malloc_socket("prefixes6", kRoots * root_size(), alignof(Root), config.socket));
  if (!block_memory_ || !root_memory_)
    return fail(Errc::kNoResources, "no memory for {} prefixes in table {}: {} octets",
                config.max_prefixes, config.name, memory_size());
  auto* const blocks = static_cast<Block*>(block_memory_.get());
  for (std::size_t i = max_blocks_ * 2; i > 0; --i)
    free_blocks_.push_back(new (&blocks[i - 1]) Block);
  auto* const firsts = static_cast<Uint128*>(root_memory_.get());
  auto* const places = reinterpret_cast<Block**>(firsts + kRoots * max_blocks_);
  for (std::size_t i = 0; i < kRoots; ++i) {
    roots_[i].first = firsts + i * max_blocks_;
    roots_[i].block = places + i * max_blocks_;
    free_roots_.push_back(&roots_[i]);
  }
  return {};
}

// --- Intervals ---

/// Makes an interval start at the address; returns its index.
std::size_t Prefix6Table::split(Intervals& intervals, Uint128 at) {
  auto& [first, owner] = intervals;
  const auto next = std::ranges::upper_bound(first, at) - first.begin();
  const auto before = static_cast<std::size_t>(next - 1);
  if (first[before] == at) return before;
  first.insert(first.begin() + next, at);
  const std::uint32_t same = owner[before];
  owner.insert(owner.begin() + next, same);
  return before + 1;
}

/// Joins interval i to the one before it if both belong to one prefix: they have the same owner,
/// and no prefix of its length starts at interval i.
void Prefix6Table::merge(Intervals& intervals, std::size_t i) {
  auto& [first, owner] = intervals;
  if (i == 0 || i >= first.size() || owner[i] != owner[i - 1]) return;
  const std::uint8_t len = len_of(owner[i]);
  if (len != 0 && (first[i] & host_mask(len)) == 0) return;
  first.erase(first.begin() + static_cast<std::ptrdiff_t>(i));
  owner.erase(owner.begin() + static_cast<std::ptrdiff_t>(i));
}

void Prefix6Table::apply(Intervals& intervals, const Change& change) {
  const std::size_t begin = split(intervals, change.low);
  const std::size_t end =
      change.high == ~Uint128{0} ? intervals.first.size() : split(intervals, change.high + 1);
  for (std::size_t i = begin; i < end; ++i)
    if (len_of(intervals.owner[i]) <= change.len) intervals.owner[i] = change.owner;
  merge(intervals, end);
  merge(intervals, begin);
}

// --- Blocks ---

/// Returns the index of the block that holds the address.
std::uint32_t Prefix6Table::block_of(const Root& root, Uint128 addr) noexcept {
  return static_cast<std::uint32_t>(std::upper_bound(root.first, root.first + root.n, addr) -
                                    root.first - 1);
}

/// Copies the intervals of blocks `from` to `to` into the scratch area.
void Prefix6Table::gather(const Root& root, std::uint32_t from, std::uint32_t to) {
  scratch_.first.clear();
  scratch_.owner.clear();
  for (std::uint32_t i = from; i <= to; ++i) {
    const Block& block = *root.block[i];
    scratch_.first.insert(scratch_.first.end(), block.first.begin(), block.first.begin() + block.n);
    scratch_.owner.insert(scratch_.owner.end(), block.owner.begin(), block.owner.begin() + block.n);
  }
}

void Prefix6Table::fill(Block& block, const Intervals& intervals, std::size_t begin,
                        std::size_t end) {
  block.n = static_cast<std::uint32_t>(end - begin);
  std::copy_n(intervals.first.data() + begin, block.n, block.first.begin());
  std::copy_n(intervals.owner.data() + begin, block.n, block.owner.begin());
  std::fill(block.first.begin() + block.n, block.first.end(), ~Uint128{0});
  std::fill(block.owner.begin() + block.n, block.owner.end(), block.owner[block.n - 1]);
}

void Prefix6Table::publish(const Change& change) {
  const Root& old = *published_;
  std::uint32_t from = block_of(old, change.low);
  // The first interval that changes may merge with the interval before it.
  if (from > 0 && old.first[from] == change.low) --from;
  std::uint32_t to = change.high == ~Uint128{0} ? old.n - 1 : block_of(old, change.high + 1);
  gather(old, from, to);
  apply(scratch_, change);
  if (scratch_.first.size() < kBlock / 2 && to - from + 1 < old.n) {
    // Too few for a block: with the intervals of an adjacent block they fill one or two.
    to + 1 < old.n ? ++to : --from;
    gather(old, from, to);
    apply(scratch_, change);
  }
  replace(old, from, to);
}

/// Publishes a root in which the scratch area replaces blocks `from` to `to`.
void Prefix6Table::replace(const Root& old, std::uint32_t from, std::uint32_t to) {
  const std::size_t n = scratch_.first.size();
  const std::size_t blocks = (n + kBlock - 1) / kBlock;
  reclaim(blocks);
  Root& root = *free_roots_.back();
  free_roots_.pop_back();
  Retired retired{0, nullptr, {}};
  root.n = 0;
  const auto keep = [&](std::uint32_t i) {
    root.first[root.n] = old.first[i];
    root.block[root.n++] = old.block[i];
  };
  for (std::uint32_t i = 0; i < from; ++i) keep(i);
  for (std::size_t i = 0; i < blocks; ++i) {
    Block* const block = free_blocks_.back();
    free_blocks_.pop_back();
    fill(*block, scratch_, n * i / blocks, n * (i + 1) / blocks);
    root.first[root.n] = block->first[0];
    root.block[root.n++] = block;
  }
  for (std::uint32_t i = from; i <= to && i < old.n; ++i) retired.blocks.push_back(old.block[i]);
  for (std::uint32_t i = to + 1; i < old.n; ++i) keep(i);
  root.search_len = root.n == 1 ? root.block[0]->n : kBlock;

  // Pairs with the load in lookup(): a reader that sees the pointer also sees the intervals and the
  // next hops that were set before.
  current_.store(&root, std::memory_order_release);
  ++work_.changes;
  work_.intervals += n;
  retired.root = std::exchange(published_, &root);
  if (retired.root == nullptr) return;
  retired.token = rte_rcu_qsbr_start(rcu_);
  retired_.push_back(std::move(retired));
}

/// Reclaims retired memory that no reader uses any more; waits until there is a free root and
/// `blocks` free blocks.
void Prefix6Table::reclaim(std::size_t blocks) {
  bool waited = false;
  while (!retired_.empty()) {
    const bool enough = !free_roots_.empty() && free_blocks_.size() >= blocks;
    if (rte_rcu_qsbr_check(rcu_, retired_.front().token, false) == 0) {
      if (enough) break;
      waited = true;
      std::this_thread::yield();
      continue;
    }
    Retired& oldest = retired_.front();
    free_roots_.push_back(oldest.root);
    free_blocks_.insert(free_blocks_.end(), oldest.blocks.begin(), oldest.blocks.end());
    retired_.pop_front();
  }
  if (waited) ++work_.waits;
}

// --- Prefixes ---

std::uint32_t Prefix6Table::owner_above(const wire::IpPrefix& prefix) const {
  for (std::uint8_t len = prefix.len; len-- != 0;) {
    if (of_length_[len] == 0) continue;
    const auto it = prefixes_.find({wire::network({prefix.addr, len}), len});
    if (it != prefixes_.end()) return owner_of(len, it->second);
  }
  return owner_of(0, kNextHopNone);
}

Status Prefix6Table::add(const wire::IpPrefix& prefix, NextHopIndex next_hop) {
  expects_management();
  if (!is_ipv6(prefix))
    return fail(Errc::kInvalidArgument, "{} is not an IPv6 prefix", wire::to_string(prefix));
  if (!is_next_hop(next_hop))
    return fail(Errc::kInvalidArgument, "invalid next hop {} of {}", next_hop,
                wire::to_string(prefix));
  const wire::IpPrefix key{wire::network(prefix), prefix.len};
  const auto it = prefixes_.find(key);
  if (it == prefixes_.end() && prefixes_.size() == max_prefixes_)
    return fail(Errc::kNoResources, "no room for prefix {}: the table already has {}",
                wire::to_string(prefix), prefixes_.size());
  if (it != prefixes_.end() && it->second == next_hop) return {};
  if (it == prefixes_.end()) ++of_length_[key.len];
  prefixes_.insert_or_assign(key, next_hop);
  const Uint128 low = number_of(key.addr);
  publish({low, low | host_mask(key.len), owner_of(key.len, next_hop), key.len});
  return {};
}

Status Prefix6Table::remove(const wire::IpPrefix& prefix) {
  expects_management();
  if (!is_ipv6(prefix))
    return fail(Errc::kInvalidArgument, "{} is not an IPv6 prefix", wire::to_string(prefix));
  const wire::IpPrefix key{wire::network(prefix), prefix.len};
  if (prefixes_.erase(key) == 0)
    return fail(Errc::kNotFound, "no prefix {}", wire::to_string(prefix));
  --of_length_[key.len];
  const Uint128 low = number_of(key.addr);
  publish({low, low | host_mask(key.len), owner_above(key), key.len});
  return {};
}

void Prefix6Table::lookup(std::span<const wire::IpAddr> addrs,
                          std::span<NextHopIndex> out) const noexcept {
  expects(out.size() >= addrs.size(), "each address has a place for what is found");
  // Pairs with the store in replace().
  const Root& root = *current_.load(std::memory_order_acquire);
  for (std::size_t begin = 0; begin < addrs.size(); begin += kLanes) {
    const std::size_t lanes = std::min(kLanes, addrs.size() - begin);
    std::array<Uint128, kLanes> key;
    std::array<std::uint32_t, kLanes> at{};
    std::array<const Block*, kLanes> block;
    for (std::size_t i = 0; i < lanes; ++i) key[i] = number_of(addrs[begin + i]);
    // No branch on the comparison: it would be unpredictable.
    for (std::uint32_t len = root.n; len > 1;) {
      const std::uint32_t half = len / 2;
      for (std::size_t i = 0; i < lanes; ++i)
        at[i] += half & (0U - static_cast<std::uint32_t>(root.first[at[i] + half] <= key[i]));
      len -= half;
    }
    for (std::size_t i = 0; i < lanes; ++i) block[i] = root.block[at[i]];
    at = {};
    for (std::uint32_t len = root.search_len; len > 1;) {
      const std::uint32_t half = len / 2;
      for (std::size_t i = 0; i < lanes; ++i)
        at[i] += half & (0U - static_cast<std::uint32_t>(block[i]->first[at[i] + half] <= key[i]));
      len -= half;
    }
    for (std::size_t i = 0; i < lanes; ++i) out[begin + i] = next_hop_of(block[i]->owner[at[i]]);
  }
}

}  // namespace ipoib::table
