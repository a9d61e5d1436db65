// SPDX-License-Identifier: BSD-3-Clause
// Parsing of ARP over InfiniBand, and the Internet checksum of an IPv4 header and of 1,500 octets.
#include <algorithm>
#include <array>
#include <vector>

#include "lib/wire/ipoib.h"
#include "perf/bench.h"

namespace ipoib::perf {
namespace {

void parse_arp(benchmark::State& state) {
  const auto arp = wire::make_arp(wire::ArpOp::kReply, wire::LinkAddr{0, wire::Be24{0x48}, {}}, 1,
                                  wire::LinkAddr{0, wire::Be24{0x49}, {}}, 2);
  std::array<std::byte, sizeof(arp)> octets;
  std::copy_n(wire::bytes_of(arp).begin(), octets.size(), octets.begin());
  const PerPacket counters{state, 1};
  for (auto _ : state) {
    benchmark::DoNotOptimize(octets.data());
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(wire::parse_arp<wire::LinkAddr>(octets));
  }
}

void internet_checksum(benchmark::State& state) {
  std::vector<std::byte> octets(static_cast<std::size_t>(state.range(0)), std::byte{0x5a});
  const PerPacket counters{state, 1, state.range(0)};
  for (auto _ : state) {
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(wire::internet_checksum(octets));
  }
}

BENCHMARK(parse_arp);
BENCHMARK(internet_checksum)->Arg(20)->Arg(1500);

}  // namespace
}  // namespace ipoib::perf
