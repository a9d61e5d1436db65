// SPDX-License-Identifier: BSD-3-Clause
// Longest prefix match for IPv6: destination address to next-hop number.
//
// The prefixes cut the address space into sorted intervals. A lookup is a binary search; several
// searches of a burst advance together, so that their cache misses overlap. The intervals are
// stored in blocks, and a root holds the first address of each block. A change rewrites the blocks
// that it touches and the root, and publishes the new root by pointer, normally without waiting:
// the old root and blocks are reused once no reader can hold a reference. Why not rte_lpm6 or
// rte_fib6 (trie): neither has RCU in DPDK 22.11, so each would need two copies, of 64 Mbyte and
// more (perf/lib/table/prefix6_table_bench.cc).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/rte_free.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

struct rte_rcu_qsbr;

namespace ipoib::table {

__extension__ typedef unsigned __int128 Uint128;

/// One writer (management lcore) for create, add and remove. Readers call lookup and must pass a
/// quiescent state of `rcu` between bursts. A change waits for them, yielding the CPU, only if the
/// changes since the last quiescent state have used up the spare memory.
class Prefix6Table {
 public:
  struct Config {
    std::string name = "ipv6";  ///< For error messages.
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

  /// out[i] is kNextHopNone if no prefix matches. Shape: out.size() >= addrs.size().
  void lookup(std::span<const wire::IpAddr> addrs, std::span<NextHopIndex> out) const noexcept;
  [[nodiscard]] NextHopIndex lookup(const wire::IpAddr& addr) const noexcept {
    NextHopIndex found;
    lookup({&addr, 1}, {&found, 1});
    return found;
  }

  [[nodiscard]] std::size_t size() const noexcept { return prefixes_.size(); }
  /// Octets allocated for the data that readers use.
  [[nodiscard]] std::size_t memory_size() const noexcept {
    return max_blocks_ * 2 * sizeof(Block) + kRoots * root_size();
  }
  /// Cost of the changes so far.
  struct Work {
    std::uint64_t changes = 0;
    std::uint64_t intervals = 0;  ///< Intervals written in total.
    std::uint64_t waits = 0;      ///< Changes that had to wait for readers.
  };
  [[nodiscard]] const Work& work() const noexcept { return work_; }

 private:
  static constexpr std::uint32_t kBlock = 256;
  /// The current root, and those of changes whose grace period is not over.
  static constexpr std::size_t kRoots = 16;

  /// Interval i reaches from first[i] to the address before first[i + 1]. Its owner is the longest
  /// prefix that covers it: length << 24 | next hop; 0: none. Behind the last interval the block is
  /// padded so that a search may run there and still finds the owner of the last interval.
  struct alignas(64) Block {
    std::array<Uint128, kBlock> first;
    std::array<std::uint32_t, kBlock> owner;
    std::uint32_t n;  ///< At least half of kBlock, unless there is only one block.
  };
  /// Block i holds the intervals starting at first[i]; first[0] is 0.
  struct alignas(64) Root {
    Uint128* first = nullptr;
    Block** block = nullptr;
    std::uint32_t n = 0;
    std::uint32_t search_len = 0;  ///< Intervals of a block to search.
  };
  struct Intervals {
    std::vector<Uint128> first;
    std::vector<std::uint32_t> owner;
  };
  /// Assigns `owner` to the intervals from `low` to `high` whose owner has a length of at most
  /// `len`.
  struct Change {
    Uint128 low;
    Uint128 high;
    std::uint32_t owner;
    std::uint8_t len;
  };

  explicit Prefix6Table(rte_rcu_qsbr* rcu) : rcu_{rcu} {}

  Status allocate(const Config& config);
  [[nodiscard]] std::size_t root_size() const noexcept {
    return max_blocks_ * (sizeof(Uint128) + sizeof(Block*));
  }
  static std::uint32_t block_of(const Root& root, Uint128 addr) noexcept;
  static std::size_t split(Intervals& intervals, Uint128 at);
  static void merge(Intervals& intervals, std::size_t i);
  static void apply(Intervals& intervals, const Change& change);
  void gather(const Root& root, std::uint32_t from, std::uint32_t to);
  static void fill(Block& block, const Intervals& intervals, std::size_t begin, std::size_t end);
  void publish(const Change& change);
  void replace(const Root& old, std::uint32_t from, std::uint32_t to);
  void reclaim(std::size_t blocks);
  /// Returns the owner value of the longest prefix that is shorter than `prefix` and covers all of
  /// it.
  [[nodiscard]] std::uint32_t owner_above(const wire::IpPrefix& prefix) const;

  std::atomic<const Root*> current_{nullptr};  ///< Root that readers use.
  rte_rcu_qsbr* rcu_;
  // Writer only.
  Root* published_ = nullptr;  ///< Equal to current_.
  std::map<wire::IpPrefix, NextHopIndex> prefixes_;
  std::array<std::uint32_t, 129> of_length_{};  ///< Prefixes of each length.
  std::array<Root, kRoots> roots_;
  std::vector<Root*> free_roots_;
  std::vector<Block*> free_blocks_;
  /// Memory that readers may still use, oldest first.
  struct Retired {
    std::uint64_t token;
    Root* root;
    std::vector<Block*> blocks;
  };
  std::deque<Retired> retired_;
  Intervals scratch_;
  Work work_;
  std::size_t max_blocks_ = 0;  ///< Blocks that the intervals of a full table can need.
  std::uint32_t max_prefixes_ = 0;
  std::unique_ptr<void, RteFree> block_memory_;
  std::unique_ptr<void, RteFree> root_memory_;
};

}  // namespace ipoib::table
