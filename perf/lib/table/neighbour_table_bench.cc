// SPDX-License-Identifier: BSD-3-Clause
// Lookup hits of the neighbour cache by table size: one by one, and in bursts whose cache misses
// overlap. std::unordered_map is the reference.
#include <benchmark/benchmark.h>

#include <array>
#include <random>
#include <unordered_map>
#include <vector>

#include "lib/table/neighbour_table.h"
#include "perf/bench.h"

namespace ipoib::table {
namespace {

constexpr std::size_t kBurst = 32;
constexpr InterfaceId kIface = 2;
constexpr std::uint32_t kNet = 0x0a00'0000;

/// A cache with a worker's capacity, which does not depend on `n`.
std::unique_ptr<NeighbourTable> filled(std::size_t n) {
  auto cache = NeighbourTable::create(65'536, 1);
  for (std::uint32_t i = 0; i < n; ++i) {
    Neighbour neighbour;
    neighbour.addr = wire::IpAddr::v4(kNet + i);
    neighbour.iface = kIface;
    neighbour.state = NeighbourState::kValid;
    (*cache)->set(i, neighbour);
  }
  return std::move(*cache);
}

/// Addresses of neighbours in random order.
std::vector<std::uint32_t> addresses(std::size_t n) {
  std::vector<std::uint32_t> out(std::size_t{1} << 16);
  std::mt19937 random{1};
  std::uniform_int_distribution<std::uint32_t> pick{0, static_cast<std::uint32_t>(n) - 1};
  for (auto& a : out) a = kNet + pick(random);
  return out;
}

void neighbour_hit(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto cache = filled(n);
  const auto addrs = addresses(n);
  std::size_t at = 0;
  const perf::PerPacket counters{state, kBurst};
  for (auto _ : state) {
    const std::uint32_t* const burst = &addrs[at];
    for (std::size_t i = 0; i < kBurst; ++i)
      benchmark::DoNotOptimize(cache->lookup_v4(kIface, burst[i])->qpn);
    at = (at + kBurst) % addrs.size();
  }
}

void neighbour_hit_prefetched(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto cache = filled(n);
  const auto addrs = addresses(n);
  std::size_t at = 0;
  const perf::PerPacket counters{state, kBurst};
  for (auto _ : state) {
    const std::uint32_t* const burst = &addrs[at];
    std::array<std::uint32_t, kBurst> hash;
    for (std::size_t i = 0; i < kBurst; ++i) {
      hash[i] = cache->hash_v4(kIface, burst[i]);
      cache->prefetch_slot(hash[i]);
    }
    for (std::size_t i = 0; i < kBurst; ++i) cache->prefetch_entry(hash[i]);
    for (std::size_t i = 0; i < kBurst; ++i)
      benchmark::DoNotOptimize(cache->find_v4(hash[i], kIface, burst[i])->qpn);
    at = (at + kBurst) % addrs.size();
  }
}

wire::IpAddr ip6(std::uint32_t low) {
  wire::IpAddr a = *wire::parse_ip("fd00::");
  const wire::Be32 last{low};
  std::memcpy(&a.bytes[12], &last, sizeof(last));
  return a;
}

/// The lookup of IPv6 neighbours and of groups: the hash covers both halves of the address.
void neighbour_hit_prefetched6(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  auto made = NeighbourTable::create(65'536, 1);
  const auto cache = std::move(*made);
  for (std::uint32_t i = 0; i < n; ++i) {
    Neighbour neighbour;
    neighbour.addr = ip6(kNet + i);
    neighbour.iface = kIface;
    neighbour.state = NeighbourState::kValid;
    cache->set(i, neighbour);
  }
  std::vector<wire::IpAddr> addrs;
  for (const std::uint32_t a : addresses(n)) addrs.push_back(ip6(a));
  std::size_t at = 0;
  const perf::PerPacket counters{state, kBurst};
  for (auto _ : state) {
    const wire::IpAddr* const burst = &addrs[at];
    std::array<std::uint32_t, kBurst> hash;
    for (std::size_t i = 0; i < kBurst; ++i) {
      hash[i] = cache->hash(kIface, burst[i]);
      cache->prefetch_slot(hash[i]);
    }
    for (std::size_t i = 0; i < kBurst; ++i) cache->prefetch_entry(hash[i]);
    for (std::size_t i = 0; i < kBurst; ++i)
      benchmark::DoNotOptimize(cache->find(hash[i], kIface, burst[i])->qpn);
    at = (at + kBurst) % addrs.size();
  }
}

void neighbour_hit_unordered_map(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::unordered_map<std::uint64_t, Neighbour> map;
  for (std::uint32_t i = 0; i < n; ++i) map[std::uint64_t{kIface} << 32 | (kNet + i)].qpn = i;
  const auto addrs = addresses(n);
  std::size_t at = 0;
  const perf::PerPacket counters{state, kBurst};
  for (auto _ : state) {
    const std::uint32_t* const burst = &addrs[at];
    for (std::size_t i = 0; i < kBurst; ++i)
      benchmark::DoNotOptimize(map.find(std::uint64_t{kIface} << 32 | burst[i])->second.qpn);
    at = (at + kBurst) % addrs.size();
  }
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int n : {10, 1'000, 10'000, 65'536}) b->Arg(n);
}
BENCHMARK(neighbour_hit)->Apply(sizes);
BENCHMARK(neighbour_hit_prefetched)->Apply(sizes);
BENCHMARK(neighbour_hit_prefetched6)->Apply(sizes);
BENCHMARK(neighbour_hit_unordered_map)->Apply(sizes);

}  // namespace
}  // namespace ipoib::table
