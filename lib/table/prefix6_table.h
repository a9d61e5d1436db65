// Longest prefix match for IPv6: destination address to next-hop number.
//
// The prefixes cut the address space into intervals, sorted; an address is found by binary search,
// all of a burst step by step together, so that their cache misses overlap. Two copies, of which
// readers see one: a change goes into the copy nobody reads, which is then published by pointer;
// the other copy takes the same change when the next one comes, after the grace period. Why not
// rte_lpm6 or rte_fib6 (trie): neither has RCU in DPDK 22.11, so each would need two copies, of 64
// Mbyte and more; here both together take 40 octets for each boundary, at most two boundaries a
// prefix (perf/lib/table/prefix6_table_bench.cc).
#pragma once

#include <rte_malloc.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

struct rte_rcu_qsbr;

namespace ipoib::table {

__extension__ typedef unsigned __int128 Uint128;

/// One writer (management lcore) for create, add and remove. Readers call lookup and must pass a
/// quiescent state of `rcu` between bursts; a change waits, yielding the CPU, until all have done
/// so since the change before it, one loop of a worker at most.
class Prefix6Table {
 public:
  struct Config {
    std::string name = "ipv6";  ///< For messages.
    std::uint32_t max_prefixes = 65'536;
    int socket = -1;  ///< NUMA node; -1: any.
  };
  static constexpr std::uint32_t kMaxPrefixes = 1U << 24;

  /// `rcu`: initialised, outlives the table. kNoResources: no memory.
  static Result<std::unique_ptr<Prefix6Table>> create(const Config& config, rte_rcu_qsbr* rcu);

  Prefix6Table(const Prefix6Table&) = delete;
  Prefix6Table& operator=(const Prefix6Table&) = delete;

  /// Adds a prefix or replaces its next hop; host bits of `prefix.addr` are ignored. The next hop
  /// must have been set in the NextHopTable before. kInvalidArgument: not IPv6, or a length or
  /// number out of range; kNoResources: full.
  Status add(const wire::IpPrefix& prefix, NextHopIndex next_hop);
  /// kNotFound: no such prefix.
  Status remove(const wire::IpPrefix& prefix);

  /// out[i] is kNextHopNone where nothing matches. Shape: out.size() >= addrs.size().
  void lookup(std::span<const wire::IpAddr> addrs, std::span<NextHopIndex> out) const noexcept;
  [[nodiscard]] NextHopIndex lookup(const wire::IpAddr& addr) const noexcept {
    NextHopIndex found;
    lookup({&addr, 1}, {&found, 1});
    return found;
  }

  [[nodiscard]] std::size_t size() const noexcept { return prefixes_.size(); }
  /// Octets that readers may touch, both copies.
  [[nodiscard]] std::size_t memory_size() const noexcept {
    return copies_.size() * capacity_ * (sizeof(Uint128) + sizeof(std::uint32_t));
  }

 private:
  struct RteFree {
    void operator()(void* p) const noexcept { rte_free(p); }
  };
  /// Interval i reaches from first[i] to the octet before first[i + 1]; first[0] is 0. Its owner is
  /// the longest prefix that holds it: length << 24 | next hop; 0: none.
  struct Copy {
    Uint128* first = nullptr;
    std::uint32_t* owner = nullptr;
    std::uint32_t n = 0;
  };
  /// Intervals from `low` to `high` whose owner is no longer than `len` go to `owner`.
  struct Change {
    Uint128 low;
    Uint128 high;
    std::uint32_t owner;
    std::uint8_t len;
  };

  explicit Prefix6Table(rte_rcu_qsbr* rcu) : rcu_{rcu} {}

  static std::uint32_t interval_of(const Copy& copy, Uint128 addr) noexcept;
  static std::uint32_t split(Copy& copy, Uint128 at) noexcept;
  static void merge(Copy& copy, std::uint32_t i) noexcept;
  static void apply(Copy& copy, const Change& change) noexcept;
  void publish(const Change& change);
  /// Of the longest prefix that holds all of `prefix` and is shorter.
  [[nodiscard]] std::uint32_t owner_above(const wire::IpPrefix& prefix) const;

  std::atomic<const Copy*> current_{nullptr};  ///< What readers see.
  rte_rcu_qsbr* rcu_;
  // Writer's.
  std::map<wire::IpPrefix, NextHopIndex> prefixes_;
  std::array<Copy, 2> copies_;
  std::optional<Change> missed_;  ///< By the copy that readers do not see.
  std::uint64_t token_ = 0;       ///< Of the grace period since that copy was last seen.
  std::size_t capacity_ = 0;      ///< Intervals of a copy.
  std::uint32_t max_prefixes_ = 0;
  std::array<std::unique_ptr<void, RteFree>, 4> memory_;
};

}  // namespace ipoib::table
