// SPDX-License-Identifier: BSD-3-Clause
// Lookup hits of the delivery table by number of groups, for (*,G) and for (S,G) entries.
#include <benchmark/benchmark.h>

#include <array>
#include <random>
#include <vector>

#include "lib/table/delivery_table.h"
#include "perf/bench.h"

namespace ipoib::table {
namespace {

constexpr std::size_t kBurst = 32;
constexpr InterfaceId kIface = 2;
constexpr std::uint32_t kNet = 0xef00'0000;

void measure(benchmark::State& state, const wire::IpAddr& source) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  const auto table = std::move(*DeliveryTable::create(16'384, 1));
  for (std::uint32_t i = 0; i < n; ++i)
    table->set({.addr = wire::IpAddr::v4(kNet + i), .source = source, .in = kIface, .out = 1});
  std::vector<wire::IpAddr> groups(std::size_t{1} << 16);
  std::mt19937 random{1};
  std::uniform_int_distribution<std::uint32_t> pick{0, n - 1};
  for (auto& g : groups) g = wire::IpAddr::v4(kNet + pick(random));
  const wire::IpAddr from = wire::IpAddr::v4(0x0a00'0001);
  std::size_t at = 0;
  const perf::PerPacket counters{state, kBurst};
  for (auto _ : state) {
    std::array<DeliveryTable::Hash, kBurst> hashes;
    for (std::size_t i = 0; i < kBurst; ++i)
      hashes[i] = table->prefetch(kIface, groups[at + i], from);
    for (std::size_t i = 0; i < kBurst; ++i)
      benchmark::DoNotOptimize(table->lookup(hashes[i], kIface, groups[at + i], from)->out);
    at = (at + kBurst) % groups.size();
  }
}

void delivery_hit(benchmark::State& state) {
  measure(state, {});
}
void delivery_hit_source(benchmark::State& state) {
  measure(state, wire::IpAddr::v4(0x0a00'0001));
}
BENCHMARK(delivery_hit)->Arg(16)->Arg(1'024)->Arg(16'384);
BENCHMARK(delivery_hit_source)->Arg(16)->Arg(1'024)->Arg(16'384);

}  // namespace
}  // namespace ipoib::table
