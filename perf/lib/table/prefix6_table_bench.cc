// SPDX-License-Identifier: BSD-3-Clause
// IPv6 route lookup in bursts by number of routes: our table and rte_lpm6, which has no RCU. Also
// the time of route changes.
#include <rte_errno.h>
#include <rte_lpm6.h>
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "lib/table/prefix6_table.h"
#include "perf/bench.h"

namespace ipoib::table {
namespace {

constexpr std::size_t kBurst = 32;
using Random = std::independent_bits_engine<std::mt19937, 32, std::uint32_t>;
using Octets = std::array<std::uint8_t, 16>;

/// Random prefixes with lengths like those of a routing table: half are /48, seven in twenty /32 to
/// /47, one in ten /64, one in twenty /128.
std::vector<wire::IpPrefix> routes(std::size_t n) {
  Random random{1};
  std::vector<wire::IpPrefix> rows(n);
  for (auto& row : rows) {
    const std::uint32_t kind = random() % 20;
    row.len = static_cast<std::uint8_t>(kind < 10   ? 48
                                        : kind < 17 ? 32 + random() % 16
                                        : kind < 19 ? 64
                                                    : 128);
    for (auto& b : row.addr.bytes) b = static_cast<std::byte>(random());
    row.addr.bytes[0] = static_cast<std::byte>(0x20 | (random() & 0xf));
    row.addr = wire::network(row);
  }
  return rows;
}

/// Random addresses within the routes, so that every lookup hits.
std::vector<wire::IpAddr> destinations(const std::vector<wire::IpPrefix>& rows) {
  Random random{2};
  std::vector<wire::IpAddr> out(std::size_t{1} << 14);
  for (auto& a : out) {
    const auto& row = rows[random() % rows.size()];
    a = row.addr;
    for (std::size_t i = (row.len + 7U) / 8; i < 16; ++i)
      a.bytes[i] = static_cast<std::byte>(random());
  }
  return out;
}

auto table_for(const std::vector<wire::IpPrefix>& rows, rte_rcu_qsbr* rcu) {
  Prefix6Table::Config config;
  config.max_prefixes = std::max(config.max_prefixes, static_cast<std::uint32_t>(2 * rows.size()));
  return Prefix6Table::create(config, rcu);
}

void route6_prefix_table(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  const auto addrs = destinations(rows);
  auto* const rcu = static_cast<rte_rcu_qsbr*>(
      rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));
  rte_rcu_qsbr_init(rcu, 1);
  {
    auto table = table_for(rows, rcu);
    if (!table) return state.SkipWithError(table.error().what.c_str());
    NextHopIndex hop = 1;
    for (const auto& row : rows)
      if (!(*table)->add(row, hop++ % 256)) return state.SkipWithError("route does not fit");
    std::array<NextHopIndex, kBurst> out;
    std::size_t at = 0;
    const perf::PerPacket counters{state, kBurst};
    for (auto _ : state) {
      (*table)->lookup({&addrs[at], kBurst}, out);
      benchmark::DoNotOptimize(out);
      at = (at + kBurst) % addrs.size();
    }
  }
  rte_free(rcu);
}

void route6_lpm6_bulk(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  const auto addrs = destinations(rows);
  rte_lpm6_config config{};
  config.max_rules = 65'536;
  config.number_tbl8s = 1U << 16;
  rte_lpm6* const lpm = rte_lpm6_create("bench6", SOCKET_ID_ANY, &config);
  if (lpm == nullptr) return state.SkipWithError(rte_strerror(rte_errno));
  std::uint32_t hop = 1;
  for (const auto& row : rows) {
    Octets octets;
    std::memcpy(octets.data(), &row.addr, 16);
    if (rte_lpm6_add(lpm, octets.data(), row.len, hop++ % 256) != 0) {
      rte_lpm6_free(lpm);
      return state.SkipWithError("route does not fit");
    }
  }
  std::vector<Octets> keys(addrs.size());
  std::memcpy(static_cast<void*>(keys.data()), addrs.data(), addrs.size() * 16);
  {
    std::array<std::int32_t, kBurst> out;
    std::size_t at = 0;
    const perf::PerPacket counters{state, kBurst};
    for (auto _ : state) {
      rte_lpm6_lookup_bulk_func(lpm, reinterpret_cast<std::uint8_t(*)[16]>(keys[at].data()),
                                out.data(), kBurst);
      benchmark::DoNotOptimize(out);
      at = (at + kBurst) % keys.size();
    }
  }
  rte_lpm6_free(lpm);
}

/// Removes one prefix of a full table and adds it again, as a routing protocol does.
void route6_change(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  auto* const rcu = static_cast<rte_rcu_qsbr*>(
      rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));
  rte_rcu_qsbr_init(rcu, 1);
  {
    auto table = table_for(rows, rcu);
    if (!table) return state.SkipWithError(table.error().what.c_str());
    NextHopIndex hop = 1;
    for (const auto& row : rows)
      if (!(*table)->add(row, hop++ % 256)) return state.SkipWithError("route does not fit");
    Random random{3};
    for (auto _ : state) {
      const auto& row = rows[random() % rows.size()];
      if (!(*table)->remove(row) || !(*table)->add(row, hop++ % 256))
        return state.SkipWithError("route does not fit");
    }
    state.SetItemsProcessed(state.iterations() * 2);
  }
  rte_free(rcu);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int n : {10, 1'000, 10'000}) b->Arg(n);
}
BENCHMARK(route6_prefix_table)->Apply(sizes)->Arg(200'000);
BENCHMARK(route6_lpm6_bulk)->Apply(sizes);
BENCHMARK(route6_change)->Arg(10)->Arg(1'000)->Arg(10'000)->Arg(65'000)->Arg(200'000);

}  // namespace
}  // namespace ipoib::table
