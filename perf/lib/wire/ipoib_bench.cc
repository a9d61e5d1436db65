// SPDX-License-Identifier: BSD-3-Clause
// Parsing of ARP over InfiniBand, and the Internet checksum of an IPv4 header and of 1,500 octets.
#include <vector>

#include "lib/wire/arp.h"
#include "perf/bench.h"

namespace ipoib::perf {
namespace {

void parse_arp(benchmark::State& state) {
  const auto octets = wire::build_arp({wire::ArpOp::kReply, wire::LinkAddr{0, wire::Be24{0x48}, {}},
                                       1, wire::LinkAddr{0, wire::Be24{0x49}, {}}, 2});
  const PerPacket counters{state, 1};
  for (auto _ : state) {
    benchmark::DoNotOptimize(octets.data());
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(wire::parse_arp(wire::LinkKind::kInfiniband, octets));
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
