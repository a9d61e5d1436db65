// SPDX-License-Identifier: BSD-3-Clause
// IPv4 route lookup in bursts by number of routes: our table, rte_lpm's bulk lookup, and rte_fib
// (DIR24_8; scalar, and AVX-512 if this CPU has it). The second part is the time of a change: the
// removal and addition of a /32, or of a neighbour, beside that many others. rte_lpm would need
// minutes to take the larger numbers of prefixes.
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_lpm.h>
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>

#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lib/table/prefix_table.h"
#include "perf/bench.h"

namespace ipoib::table {
namespace {

constexpr std::size_t kBurst = 32;
constexpr NextHopIndex kNetwork = 1;  ///< Next hop of the first route of a Filled.
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

/// A table with these routes.
class Filled {
 public:
  explicit Filled(const std::vector<Row>& rows) {
    rcu_ = static_cast<rte_rcu_qsbr*>(
        rte_zmalloc("rcu", rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));
    rte_rcu_qsbr_init(rcu_, 1);
    auto table = PrefixTable::create(
        {.name = "bench", .max_prefixes = 2'000'000, .max_groups = 131'072}, rcu_);
    if (!table) throw std::runtime_error{table.error().what};
    table_ = std::move(*table);
    NextHopIndex hop = 1;
    for (const Row& row : rows)
      if (const auto added = table_->add({wire::IpAddr::v4(row.addr), row.len}, hop++ % 256);
          !added)
        throw std::runtime_error{added.error().what};
  }
  ~Filled() {
    table_.reset();
    rte_free(rcu_);
  }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;

  PrefixTable& operator*() { return *table_; }
  /// Adds the hosts of these rows as neighbours.
  void add_neighbours(const std::vector<Row>& rows) {
    NeighbourIndex n = 0;
    for (const Row& row : rows)
      if (const auto added = table_->add_neighbour(row.addr, kNetwork, adjacency_of(n++, false));
          !added)
        throw std::runtime_error{added.error().what};
  }

 private:
  rte_rcu_qsbr* rcu_;
  std::unique_ptr<PrefixTable> table_;
};

/// One /32 for each host of consecutive /24s.
std::vector<Row> hosts(std::size_t n) {
  std::vector<Row> rows(n);
  for (std::size_t i = 0; i < n; ++i) rows[i] = {0x0a00'0000U + static_cast<std::uint32_t>(i), 32};
  return rows;
}

void measure_lookups(benchmark::State& state, const PrefixTable& table,
                     const std::vector<Row>& rows) {
  alignas(64) std::array<NextHopIndex, kBurst> out;
  measure(state, rows, [&](const std::uint32_t* addrs) {
    table.lookup({addrs, kBurst}, out);
    benchmark::DoNotOptimize(out);
  });
}

void route_prefix_table(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  Filled table{rows};
  measure_lookups(state, *table, rows);
}

void change_prefix_table(benchmark::State& state) {
  const auto rows = hosts(static_cast<std::size_t>(state.range(0)));
  Filled table{rows};
  std::mt19937 random{3};
  for (auto _ : state) {
    const wire::IpPrefix prefix{wire::IpAddr::v4(rows[random() % rows.size()].addr), 32};
    benchmark::DoNotOptimize((*table).remove(prefix));
    benchmark::DoNotOptimize((*table).add(prefix, 1));
  }
}

/// Neighbours of one connected network.
void route_neighbours(benchmark::State& state) {
  const auto rows = hosts(static_cast<std::size_t>(state.range(0)));
  Filled table{{{0x0a00'0000, 8}}};
  table.add_neighbours(rows);
  measure_lookups(state, *table, rows);
}

void change_neighbours(benchmark::State& state) {
  const auto rows = hosts(static_cast<std::size_t>(state.range(0)));
  Filled table{{{0x0a00'0000, 8}}};
  table.add_neighbours(rows);
  std::mt19937 random{3};
  for (auto _ : state) {
    const std::uint32_t addr = rows[random() % rows.size()].addr;
    (*table).remove_neighbour(addr, kNetwork);
    benchmark::DoNotOptimize((*table).add_neighbour(addr, kNetwork, adjacency_of(1, false)));
  }
}

/// An rte_lpm with these routes; null: rte_errno has the reason.
rte_lpm* filled_lpm(const std::vector<Row>& rows) {
  rte_lpm_config config{};
  config.max_rules = 131'072;
  config.number_tbl8s = 8'192;
  rte_lpm* const lpm = rte_lpm_create("bench", SOCKET_ID_ANY, &config);
  if (lpm == nullptr) return nullptr;
  std::uint32_t hop = 1;
  for (const Row& row : rows) rte_lpm_add(lpm, row.addr, row.len, hop++ % 256);
  return lpm;
}

void change_lpm(benchmark::State& state) {
  const auto rows = hosts(static_cast<std::size_t>(state.range(0)));
  rte_lpm* const lpm = filled_lpm(rows);
  if (lpm == nullptr) return state.SkipWithError(rte_strerror(rte_errno));
  std::mt19937 random{3};
  for (auto _ : state) {
    const std::uint32_t addr = rows[random() % rows.size()].addr;
    rte_lpm_delete(lpm, addr, 32);
    rte_lpm_add(lpm, addr, 32, 1);
  }
  rte_lpm_free(lpm);
}

void route_lpm_bulk(benchmark::State& state) {
  const auto rows = routes(static_cast<std::size_t>(state.range(0)));
  rte_lpm* const lpm = filled_lpm(rows);
  if (lpm == nullptr) return state.SkipWithError(rte_strerror(rte_errno));
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
BENCHMARK(route_prefix_table)->Apply(sizes)->Arg(1'000'000);
BENCHMARK(change_prefix_table)->Apply(sizes)->Arg(65'536)->Arg(1'000'000);
BENCHMARK(route_neighbours)->Arg(1'000)->Arg(65'536);
BENCHMARK(change_neighbours)->Arg(1'000)->Arg(65'536);
BENCHMARK(change_lpm)->Apply(sizes);
BENCHMARK(route_lpm_bulk)->Apply(sizes);
BENCHMARK(route_fib)
    ->ArgNames({"routes", "lookup"})
    ->ArgsProduct({{10, 1'000, 10'000},
                   {RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512}});

}  // namespace
}  // namespace ipoib::table
