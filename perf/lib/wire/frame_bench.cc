// SPDX-License-Identifier: BSD-3-Clause
// Parsing and building of UD packets, as the software HCA and captures do it.
#include <array>
#include <vector>

#include "lib/wire/frame.h"
#include "perf/bench.h"
#include "perf/lib/wire/bench_packets.h"

namespace ipoib::perf {
namespace {

using wire::FrameError;

/// The encapsulation header and an IP packet of 64 octets.
constexpr std::size_t kSmallPayload = 68;

void parse_ud(benchmark::State& state) {
  Packets packets{Packets::kHot, state.range(0) != 0, kSmallPayload};
  const PerPacket counters{state, 1};
  for (auto _ : state) {
    wire::UdFrame ud;
    if (wire::parse_ud(packets.next(), ud) != FrameError::kNone) {
      state.SkipWithError("bad packet");
      break;
    }
    benchmark::DoNotOptimize(ud.deth);
    benchmark::DoNotOptimize(ud.payload);
  }
}

void parse_ud_verify_icrc(benchmark::State& state) {
  Packets packets{Packets::kHot, state.range(0) != 0, kSmallPayload};
  const PerPacket counters{state, 1};
  for (auto _ : state) {
    wire::UdFrame ud;
    const auto packet = packets.next();
    if (wire::parse_ud(packet, ud) != FrameError::kNone || !wire::icrc_is_good(packet)) {
      state.SkipWithError("bad packet");
      break;
    }
    benchmark::DoNotOptimize(ud.payload);
  }
}

void build_ud(benchmark::State& state) {
  const auto payload_len = static_cast<std::size_t>(state.range(1));
  wire::UdSpec spec{.dlid = 4, .slid = 3, .dest_qp = 0x49, .src_qp = 0x48, .qkey = 0xb1b};
  if (state.range(0) != 0) spec.grh = wire::GrhSpec{wire::Gid::of(1, 2), wire::Gid::of(1, 3)};
  const std::vector<std::byte> payload(payload_len, std::byte{7});
  std::array<std::byte, wire::kMaxUdPacketLen> out;
  const PerPacket counters{state, 1};
  for (auto _ : state) {
    ++spec.psn;
    benchmark::DoNotOptimize(wire::build_ud_packet(spec, payload, out));
    benchmark::ClobberMemory();
  }
}

// grh: 1 for packets with a GRH.
BENCHMARK(parse_ud)->ArgName("grh")->Arg(0)->Arg(1);
BENCHMARK(parse_ud_verify_icrc)->ArgName("grh")->Arg(0)->Arg(1);
BENCHMARK(build_ud)
    ->ArgNames({"grh", "payload"})
    ->Args({0, 68})
    ->Args({1, 68})
    ->Args({0, 256})
    ->Args({0, 2048});

}  // namespace
}  // namespace ipoib::perf
