// SPDX-License-Identifier: BSD-3-Clause
// IPv4 route lookup in bursts by number of routes: our table over rte_lpm, rte_lpm's own bulk
// lookup, and rte_fib (DIR24_8; scalar, and AVX-512 if this CPU has it).
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include <benchmark/benchmark.h>

#include <array>
#include <random>
#include <vector>

#include "lib/table/prefix_table.h"
#include "perf/bench.h"

namespace ipoib::table {
namespace {

constexpr std::size_t kBurst = 32;
using Random = std::independent_bits_engine<std::mt19937, 32, std::uint32_t>;

struct Row {
  std::uint32_t addr;
  std::uint8_t len;

  [[nodiscard]] std::uint32_t host_mask() const {
    return static_cast<std::uint32_t>((std::uint64_t{1} << (32 - len)) - 1);
  }
};

/// Random prefixes with lengths like those of a routing table: six in ten are /24, three in ten
/// shorter, one in ten longer.
std::vector<Row> routes(std::size_t n) {
  Random random{1};
  std::vector<Row> rows(n);
  for (Row& row : rows) {
    const std::uint32_t kind = random() % 10;
    const std::uint32_t len = kind < 6 ? 24 : kind < 9 ? 16 + random() % 8 : 25 + random() % 8;
    row.len = static_cast<std::uint8_t>(len);
    row.addr = random() & ~row.host_mask();
  }
  return rows;
}

/// Random addresses within the routes, so that every lookup hits.
std::vector<std::uint32_t> destinations(const std::vector<Row>& rows) {
  Random random{2};
  std::vector<std::uint32_t> out(std::size_t{1} << 16);
  for (auto& a : out) {
    const Row& row = rows[random() % rows.size()];
    a = row.addr | (random() & row.host_mask());
  }
  return out;
}

template <class Lookup>
void measure(benchmark::State& state, const std::vector<Row>& rows, Lookup&& lookup) {
  const auto addrs = destinations(rows);
  std::size_t at = 0;
  const perf::PerPacket counters{state, kBurst};
  for (auto _ : state) {
    lookup(&addrs[at]);
    at = (at + kBurst) % addrs.size();
  }
}

void route_prefix_table(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  auto* const rcu = static_cast<rte_rcu_qsbr*>(
      rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));
  rte_rcu_qsbr_init(rcu, 1);
  {
    auto table =
        PrefixTable::create({.name = "bench", .max_prefixes = 65'536, .max_groups = 8'192}, rcu);
    if (!table) return state.SkipWithError(table.error().what.c_str());
    NextHopIndex hop = 1;
    for (const Row& row : rows)
      if (!(*table)->add({wire::IpAddr::v4(row.addr), row.len}, hop++ % 256))
        return state.SkipWithError("route does not fit");
    alignas(64) std::array<NextHopIndex, kBurst> out;
    measure(state, rows, [&](const std::uint32_t* addrs) {
      (*table)->lookup({addrs, kBurst}, out);
      benchmark::DoNotOptimize(out);
    });
  }
  rte_free(rcu);
}

void route_lpm_bulk(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  rte_lpm_config config{};
  config.max_rules = 65'536;
  config.number_tbl8s = 8'192;
  rte_lpm* const lpm = rte_lpm_create("bench", SOCKET_ID_ANY, &config);
  if (lpm == nullptr) return state.SkipWithError(rte_strerror(rte_errno));
  std::uint32_t hop = 1;
  for (const Row& row : rows) rte_lpm_add(lpm, row.addr, row.len, hop++ % 256);
  alignas(64) std::array<std::uint32_t, kBurst> out;
  measure(state, rows, [&](const std::uint32_t* addrs) {
    rte_lpm_lookup_bulk_func(lpm, addrs, out.data(), kBurst);
    benchmark::DoNotOptimize(out);
  });
  rte_lpm_free(lpm);
}

void route_fib(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  rte_fib_conf config{};
  config.type = RTE_FIB_DIR24_8;
  config.max_routes = 65'536;
  config.dir24_8.nh_sz = RTE_FIB_DIR24_8_4B;
  config.dir24_8.num_tbl8 = 8'192;
  rte_fib* const fib = rte_fib_create("bench", SOCKET_ID_ANY, &config);
  if (fib == nullptr) return state.SkipWithError(rte_strerror(rte_errno));
  const auto kind = static_cast<rte_fib_lookup_type>(state.range(1));
  if (rte_fib_select_lookup(fib, kind) != 0) {
    rte_fib_free(fib);
    return state.SkipWithError("not on this CPU");
  }
  std::uint64_t hop = 1;
  for (const Row& row : rows) rte_fib_add(fib, row.addr, row.len, hop++ % 256);
  alignas(64) std::array<std::uint64_t, kBurst> out;
  measure(state, rows, [&](const std::uint32_t* addrs) {
    rte_fib_lookup_bulk(fib, const_cast<std::uint32_t*>(addrs), out.data(), kBurst);
    benchmark::DoNotOptimize(out);
  });
  rte_fib_free(fib);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int n : {10, 1'000, 10'000}) b->Arg(n);
}
BENCHMARK(route_prefix_table)->Apply(sizes);
BENCHMARK(route_lpm_bulk)->Apply(sizes);
BENCHMARK(route_fib)
    ->ArgNames({"routes", "lookup"})
    ->ArgsProduct({{10, 1'000, 10'000},
                   {RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512}});

}  // namespace
}  // namespace ipoib::table
