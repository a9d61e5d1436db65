// SPDX-License-Identifier: BSD-3-Clause
// Longest prefix match for IPv4: destination address to next-hop number, over rte_lpm.
//
// perf/lib/table/prefix_table_bench.cc compares rte_lpm with rte_fib (DIR24_8).
#pragma once

#include <rte_lpm.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "lib/base/contract.h"
#include "lib/base/result.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

struct rte_rcu_qsbr;

namespace ipoib::table {

/// One writer (management lcore) for create, add and remove. Readers call lookup and must pass a
/// quiescent state of `rcu` between bursts: only then are freed groups reused.
class PrefixTable {
 public:
  struct Config {
    std::string name = "ipv4";  ///< EAL-wide name of the table, at most 25 characters.
    std::uint32_t max_prefixes = 65'536;
    std::uint32_t max_groups = 4'096;  ///< /24s that contain prefixes longer than /24.
    int socket = -1;                   ///< NUMA node; -1: any.
  };

  /// `rcu`: initialised, outlives the table. kNoResources: no memory, or the name is taken.
  static Result<std::unique_ptr<PrefixTable>> create(const Config& config, rte_rcu_qsbr* rcu);

  PrefixTable(const PrefixTable&) = delete;
  PrefixTable& operator=(const PrefixTable&) = delete;
  ~PrefixTable();

  /// Adds a prefix or replaces its next hop; host bits of `prefix.addr` are ignored. The next hop
  /// must have been set in the NextHopTable before. kInvalidArgument: not IPv4, or a length or
  /// number out of range; kNoResources: full (retrying after a grace period may help).
  Status add(const wire::IpPrefix& prefix, NextHopIndex next_hop);
  /// kNotFound: no such prefix.
  Status remove(const wire::IpPrefix& prefix);

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
    [[nodiscard]] NextHopIndex lookup(std::uint32_t addr) const noexcept {
      NextHopIndex found;
      return rte_lpm_lookup(lpm_, addr, &found) == 0 ? found : miss_;
    }

   private:
    friend class PrefixTable;
    View(const rte_lpm* lpm, NextHopIndex miss) noexcept : lpm_{lpm}, miss_{miss} {}
    const rte_lpm* lpm_;
    NextHopIndex miss_;
  };
  [[nodiscard]] View view() const noexcept {
    // Acquire: pairs with the release store in add().
    return {lpm_, default_.load(std::memory_order_acquire)};
  }

 private:
  explicit PrefixTable(rte_lpm* lpm) : lpm_{lpm} {}

  rte_lpm* lpm_;
  /// rte_lpm has no prefix of length 0: a lookup that misses there returns this number.
  std::atomic<NextHopIndex> default_{kNextHopNone};
  bool has_default_ = false;  ///< Writer only.
};

}  // namespace ipoib::table
