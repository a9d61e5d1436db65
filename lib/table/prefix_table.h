// SPDX-License-Identifier: BSD-3-Clause
// Longest prefix match for IPv4: destination address to next-hop number, by DIR-24-8. A table has
// an entry for each /24; an entry of a /24 with longer prefixes names a group of 256 entries, one
// for each address. A lookup takes one or two loads.
//
// Neighbours have entries of their own, so that a lookup of a neighbour's address gives its number.
//
// perf/lib/table/prefix_table_bench.cc compares rte_lpm and rte_fib. Neither would do for a prefix
// of each neighbour: rte_lpm searches the prefixes of a length one by one when it removes one, and
// its result needs a test for a miss.
#pragma once

#include <rte_prefetch.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/result.h"
#include "lib/base/rte_free.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

struct rte_rcu_qsbr;

namespace ipoib::table {

/// One writer (management lcore) for create, add and remove. Readers call lookup and must pass a
/// quiescent state of `rcu` between bursts: only then are freed groups reused. The time of a change
/// depends on the number of addresses that the prefix covers, not on the number of prefixes: one
/// entry for a /24, at most 256 for a longer prefix, and an entry for each /24 of a shorter one. A
/// prefix also rewrites the entries of the neighbours in it that it leads to.
class PrefixTable {
 public:
  struct Config {
    std::string name = "ipv4";  ///< Name of the memory.
    std::uint32_t max_prefixes = 65'536;
    /// /24s that contain prefixes longer than /24 or neighbours.
    std::uint32_t max_groups = 4'096;
    int socket = -1;         ///< NUMA node; -1: any.
    std::uint64_t seed = 0;  ///< Makes the hash of the writer secret.
  };

  /// `rcu`: initialised, outlives the table. kNoResources: no memory.
  static Result<std::unique_ptr<PrefixTable>> create(const Config& config, rte_rcu_qsbr* rcu);

  PrefixTable(const PrefixTable&) = delete;
  PrefixTable& operator=(const PrefixTable&) = delete;

  /// Adds a prefix or replaces its next hop; host bits of `prefix.addr` are ignored. The next hop
  /// must have been set in the NextHopTable before. kInvalidArgument: not IPv4, or a length or
  /// number out of range; kNoResources: full (retrying after a grace period may help).
  Status add(const wire::IpPrefix& prefix, NextHopIndex next_hop);
  /// kNotFound: no such prefix.
  Status remove(const wire::IpPrefix& prefix);

  /// Makes lookups of `addr`, in host order, give the adjacency `number` while the longest prefix
  /// that covers it, other than one of length 0, has the next hop `via`: the kConnected slot of the
  /// neighbour's interface. Any other route wins, whenever it is added. Neighbours with different
  /// `via` may have the same address. A neighbour is not a prefix of size(). The caller first sets
  /// the number in the NextHopTable.
  ///
  /// kNoResources: no group is free for a neighbour. Lookups go on to give `via`; nothing tries
  /// again but the caller.
  Status add_neighbour(std::uint32_t addr, NextHopIndex via, NextHopIndex number);
  /// Makes lookups of the address give the route again. Harmless if there is no such neighbour.
  void remove_neighbour(std::uint32_t addr, NextHopIndex via);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Addresses in host order; out[i] is kNextHopNone if no prefix matches.
  /// Shape: out.size() >= addrs.size().
  void lookup(std::span<const std::uint32_t> addrs, std::span<NextHopIndex> out) const noexcept {
    expects(out.size() >= addrs.size(), "each address has a place for what is found");
    const View table = view();
    for (std::size_t i = 0; i < addrs.size(); ++i) out[i] = table.lookup(addrs[i]);
  }
  [[nodiscard]] NextHopIndex lookup(std::uint32_t addr) const noexcept {
    return view().lookup(addr);
  }

  /// The table for one burst: values that stay the same during the burst are read once.
  class View {
   public:
    /// For a lookup of the address a little later.
    void prefetch(std::uint32_t addr) const noexcept {
      rte_prefetch0(&entries_[addr / kGroupSize]);
    }
    [[nodiscard]] NextHopIndex lookup(std::uint32_t addr) const noexcept {
      Entry entry = load(entries_[addr / kGroupSize]);
      if ((entry & kGroup) != 0)
        entry = load(groups_[(entry & kNumber) * kGroupSize + addr % kGroupSize]);
      if (is_adjacency(entry)) [[likely]]
        return entry & kNumber;
      return entry != 0 ? entry & kNumber : default_;
    }

   private:
    friend class PrefixTable;
    View(std::uint32_t* entries, std::uint32_t* groups, NextHopIndex default_hop) noexcept
        : entries_{entries}, groups_{groups}, default_{default_hop} {}
    std::uint32_t* entries_;
    std::uint32_t* groups_;
    NextHopIndex default_;
  };
  [[nodiscard]] View view() const noexcept {
    // Acquire: pairs with the release store in write().
    return {entries_.get(), groups_.get(), default_.load(std::memory_order_acquire)};
  }

 private:
  /// Bits 0 to 23: next hop; bits 24 to 29: length of the prefix, for a neighbour of the one that
  /// leads to it. With kGroup: the number of a group. 0: no prefix longer than /0.
  using Entry = std::uint32_t;
  static constexpr Entry kNumber = (1U << kNextHopBits) - 1;
  static constexpr Entry kGroup = 1U << 31;
  static constexpr std::uint32_t kGroupSize = 256;

  /// Relaxed: a reader reaches a group, and a next hop, only through the number that it has read.
  [[nodiscard]] static Entry load(Entry& entry) noexcept {
    return std::atomic_ref{entry}.load(std::memory_order_relaxed);
  }

  using Entries = std::unique_ptr<Entry[], RteFree>;
  /// Prefixes of one length, by their addresses. The hash is keyed, because hosts of a link choose
  /// addresses.
  struct Hash {
    std::uint64_t seed;
    std::size_t operator()(std::uint32_t addr) const noexcept;
  };
  using Prefixes = std::unordered_map<std::uint32_t, NextHopIndex, Hash>;

  PrefixTable(const Config& config, rte_rcu_qsbr* rcu);

  std::span<Entry> group(Entry entry) noexcept {
    return {&groups_[(entry & kNumber) * kGroupSize], kGroupSize};
  }
  /// Returns the entry of the longest prefix that is shorter than `len` and covers the address.
  [[nodiscard]] Entry covering(std::uint32_t addr, std::uint8_t len) const;
  void write(std::uint32_t addr, std::uint8_t len, Entry entry) noexcept;
  void write_neighbours(std::uint32_t addr, std::uint8_t len, Entry entry) noexcept;
  [[nodiscard]] bool open_group(Entry& entry, std::size_t reserve);
  void close_group(Entry& entry);

  Entries entries_;
  Entries groups_;
  /// The next hop of the prefix of length 0, which entries do not have: that prefix changes in one
  /// store instead of 16 million.
  std::atomic<NextHopIndex> default_{kNextHopNone};

  // Writer only.
  std::array<Prefixes, 33> prefixes_;  ///< One map for each length.
  std::size_t size_ = 0;
  /// Numbers by `via` and address, so that a prefix finds those to which it leads. The /24 of each
  /// one has a group.
  std::map<std::pair<NextHopIndex, std::uint32_t>, NextHopIndex> neighbours_;
  std::size_t max_prefixes_;
  std::vector<std::uint32_t> free_groups_;
  std::vector<std::uint32_t> in_group_;  ///< Prefixes longer than /24 and neighbours, by group.
  /// Groups that readers may still use, oldest first.
  struct Retired {
    std::uint64_t token;
    std::uint32_t group;
  };
  std::deque<Retired> retired_;
  rte_rcu_qsbr* rcu_;
};

/// PrefixTable::add_neighbour() for a neighbour behind the next hop `via`, whose interface the
/// next-hop table then knows before any look-up gives the number.
inline Status add_neighbour(PrefixTable& prefixes, NextHopTable& next_hops, std::uint32_t addr,
                            NextHopIndex via, NeighbourIndex neighbour) {
  const NextHopIndex number = adjacency_of(neighbour, false);
  next_hops.set(number, next_hops.get(via));
  return prefixes.add_neighbour(addr, via, number);
}

}  // namespace ipoib::table
