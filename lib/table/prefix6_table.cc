#include "lib/table/prefix6_table.h"

#include <rte_rcu_qsbr.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

namespace ipoib::table {
namespace {

constexpr std::size_t kCacheLine = 64;
/// Searches that run side by side: enough to hide a cache miss, few enough for registers.
constexpr std::size_t kLanes = 16;
constexpr unsigned kLenShift = 24;
static_assert(kMaxNextHops <= 1U << kLenShift);

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
  if (config.max_prefixes == 0 || config.max_prefixes > kMaxPrefixes)
    return fail(Errc::kInvalidArgument, "prefix table {}: {} prefixes are not 1 to {}", config.name,
                config.max_prefixes, kMaxPrefixes);
  std::unique_ptr<Prefix6Table> table{new (std::nothrow) Prefix6Table{rcu}};
  if (!table) return fail(Errc::kNoResources, "no memory for prefix table {}", config.name);
  // Each prefix has two ends; the whole space is one interval before the first.
  table->capacity_ = std::size_t{config.max_prefixes} * 2 + 1;
  table->max_prefixes_ = config.max_prefixes;
  std::size_t block = 0;
  for (Copy& copy : table->copies_) {
    const auto allocate = [&](std::size_t size) {
      table->memory_[block].reset(
          rte_malloc_socket("prefixes6", table->capacity_ * size, kCacheLine, config.socket));
      return table->memory_[block++].get();
    };
    copy.first = static_cast<Uint128*>(allocate(sizeof(Uint128)));
    copy.owner = static_cast<std::uint32_t*>(allocate(sizeof(std::uint32_t)));
    if (copy.first == nullptr || copy.owner == nullptr)
      return fail(Errc::kNoResources, "no memory for {} prefixes in table {}: {} octets",
                  config.max_prefixes, config.name, table->memory_size());
    copy.first[0] = 0;
    copy.owner[0] = owner_of(0, kNextHopNone);
    copy.n = 1;
  }
  table->current_.store(table->copies_.data(), std::memory_order_release);
  return table;
}

/// The interval that holds the address.
std::uint32_t Prefix6Table::interval_of(const Copy& copy, Uint128 addr) noexcept {
  return static_cast<std::uint32_t>(std::upper_bound(copy.first, copy.first + copy.n, addr) -
                                    copy.first - 1);
}

/// Makes an interval start at the address; returns its place.
std::uint32_t Prefix6Table::split(Copy& copy, Uint128 at) noexcept {
  const std::uint32_t i = interval_of(copy, at);
  if (copy.first[i] == at) return i;
  const std::size_t behind = copy.n - i - 1;
  std::memmove(&copy.first[i + 2], &copy.first[i + 1], behind * sizeof(copy.first[0]));
  std::memmove(&copy.owner[i + 2], &copy.owner[i + 1], behind * sizeof(copy.owner[0]));
  copy.first[i + 1] = at;
  copy.owner[i + 1] = copy.owner[i];
  ++copy.n;
  return i + 1;
}

/// Joins interval i to the one before it when both belong to one prefix: of the same length, and no
/// prefix of that length starts in between.
void Prefix6Table::merge(Copy& copy, std::uint32_t i) noexcept {
  if (i == 0 || i >= copy.n || copy.owner[i] != copy.owner[i - 1]) return;
  const std::uint8_t len = len_of(copy.owner[i]);
  if (len != 0 && (copy.first[i] & host_mask(len)) == 0) return;
  const std::size_t behind = copy.n - i - 1;
  std::memmove(&copy.first[i], &copy.first[i + 1], behind * sizeof(copy.first[0]));
  std::memmove(&copy.owner[i], &copy.owner[i + 1], behind * sizeof(copy.owner[0]));
  --copy.n;
}

void Prefix6Table::apply(Copy& copy, const Change& change) noexcept {
  const std::uint32_t begin = split(copy, change.low);
  const std::uint32_t end = change.high == ~Uint128{0} ? copy.n : split(copy, change.high + 1);
  for (std::uint32_t i = begin; i < end; ++i)
    if (len_of(copy.owner[i]) <= change.len) copy.owner[i] = change.owner;
  merge(copy, end);
  merge(copy, begin);
}

void Prefix6Table::publish(const Change& change) {
  const Copy* const seen = current_.load(std::memory_order_relaxed);  // only this thread stores
  Copy& spare = copies_[seen == copies_.data() ? 1 : 0];
  if (missed_) {
    // Readers of the burst in which the copy was last seen may still be at it.
    while (rte_rcu_qsbr_check(rcu_, token_, false) == 0) std::this_thread::yield();
    apply(spare, *missed_);
  }
  apply(spare, change);
  // Pairs with the load in lookup: who sees the pointer sees the intervals, and the next hops that
  // were set before.
  current_.store(&spare, std::memory_order_release);
  token_ = rte_rcu_qsbr_start(rcu_);
  missed_ = change;
}

std::uint32_t Prefix6Table::owner_above(const wire::IpPrefix& prefix) const {
  for (std::uint8_t len = prefix.len; len-- != 0;) {
    const auto it = prefixes_.find({wire::network({prefix.addr, len}), len});
    if (it != prefixes_.end()) return owner_of(len, it->second);
  }
  return owner_of(0, kNextHopNone);
}

Status Prefix6Table::add(const wire::IpPrefix& prefix, NextHopIndex next_hop) {
  if (!is_ipv6(prefix))
    return fail(Errc::kInvalidArgument, "{} is no IPv6 prefix", wire::to_string(prefix));
  if (next_hop >= kMaxNextHops)
    return fail(Errc::kInvalidArgument, "next hop {} of {} is not below {}", next_hop,
                wire::to_string(prefix), kMaxNextHops);
  const wire::IpPrefix key{wire::network(prefix), prefix.len};
  const auto it = prefixes_.find(key);
  if (it == prefixes_.end() && prefixes_.size() == max_prefixes_)
    return fail(Errc::kNoResources, "no room for prefix {}: {} are there", wire::to_string(prefix),
                prefixes_.size());
  if (it != prefixes_.end() && it->second == next_hop) return {};
  prefixes_.insert_or_assign(key, next_hop);
  const Uint128 low = number_of(key.addr);
  publish({low, low | host_mask(key.len), owner_of(key.len, next_hop), key.len});
  return {};
}

Status Prefix6Table::remove(const wire::IpPrefix& prefix) {
  if (!is_ipv6(prefix))
    return fail(Errc::kInvalidArgument, "{} is no IPv6 prefix", wire::to_string(prefix));
  const wire::IpPrefix key{wire::network(prefix), prefix.len};
  if (prefixes_.erase(key) == 0)
    return fail(Errc::kNotFound, "no prefix {}", wire::to_string(prefix));
  const Uint128 low = number_of(key.addr);
  publish({low, low | host_mask(key.len), owner_above(key), key.len});
  return {};
}

void Prefix6Table::lookup(std::span<const wire::IpAddr> addrs,
                          std::span<NextHopIndex> out) const noexcept {
  // Pairs with the store in publish.
  const Copy& copy = *current_.load(std::memory_order_acquire);
  for (std::size_t begin = 0; begin < addrs.size(); begin += kLanes) {
    const std::size_t lanes = std::min(kLanes, addrs.size() - begin);
    std::array<Uint128, kLanes> key;
    std::array<std::uint32_t, kLanes> at{};
    for (std::size_t i = 0; i < lanes; ++i) key[i] = number_of(addrs[begin + i]);
    for (std::uint32_t len = copy.n; len > 1;) {
      const std::uint32_t half = len / 2;
      for (std::size_t i = 0; i < lanes; ++i)  // no branch: it would go either way
        at[i] += half & (0U - static_cast<std::uint32_t>(copy.first[at[i] + half] <= key[i]));
      len -= half;
    }
    for (std::size_t i = 0; i < lanes; ++i) out[begin + i] = next_hop_of(copy.owner[at[i]]);
  }
}

}  // namespace ipoib::table
