// SPDX-License-Identifier: BSD-3-Clause
// The ICRC by packet length: icrc() with each kernel of the CPU, and as the reference a table like
// that of the oldest zlib. Also the VCRC.
#include <array>

#include "lib/wire/iba.h"
#include "lib/wire/icrc/icrc.h"
#include "perf/bench.h"
#include "perf/lib/wire/bench_packets.h"

namespace ipoib::perf {
namespace {

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t r = i;
    for (int bit = 0; bit < 8; ++bit) r = (r >> 1) ^ ((r & 1) != 0 ? 0xedb8'8320U : 0U);
    table[i] = r;
  }
  return table;
}();

/// The reference: takes one octet at a time and only sets the masked fields to ones.
std::uint32_t icrc_by_table(std::span<const std::byte> packet) {
  std::uint32_t r = 0xffff'ffff;
  for (std::size_t i = 0; i < packet.size(); ++i) {
    auto octet = std::to_integer<std::uint32_t>(packet[i]);
    if (i == 0) octet |= 0xf0;
    if (i == sizeof(wire::Lrh) + offsetof(wire::Bth, resv8a)) octet = 0xff;
    r = (r >> 8) ^ kTable[(r ^ octet) & 0xff];
  }
  return ~r;
}

template <class Checksum>
void run(benchmark::State& state, std::size_t pool, Checksum checksum) {
  // The argument is the number of octets under the checksum: headers and payload.
  const auto covered = static_cast<std::size_t>(state.range(0));
  Packets packets{pool, false, covered - wire::kUdLocalHeaderLen};
  const PerPacket counters{state, 1, state.range(0)};
  for (auto _ : state) benchmark::DoNotOptimize(checksum(packets.next().first(covered)));
}

/// Selects a kernel for the life of this object.
class Selected {
 public:
  Selected(benchmark::State& state, wire::IcrcKernel kernel) {
    if (!wire::select_icrc_kernel(kernel)) state.SkipWithError("not a kernel of this CPU");
  }
  ~Selected() { wire::select_icrc_kernel(wire::fastest_icrc_kernel()); }
  Selected(const Selected&) = delete;
  Selected& operator=(const Selected&) = delete;
};

template <wire::IcrcKernel kKernel>
void icrc(benchmark::State& state) {
  const Selected selected{state, kKernel};
  run(state, Packets::kHot, wire::icrc);
}
/// Computes 32 ICRCs per call.
template <wire::IcrcKernel kKernel>
void icrc_burst(benchmark::State& state) {
  const Selected selected{state, kKernel};
  constexpr std::size_t kBurst = 32;
  const auto covered = static_cast<std::size_t>(state.range(0));
  Packets packets{Packets::kHot, false, covered - wire::kUdLocalHeaderLen};
  std::array<wire::Covered, kBurst> burst;
  std::array<std::uint32_t, kBurst> out;
  const PerPacket counters{state, kBurst, state.range(0)};
  for (auto _ : state) {
    for (auto& packet : burst) packet = {packets.next().data(), covered};
    wire::icrc_burst(burst, out);
    benchmark::DoNotOptimize(out);
  }
}
void icrc_cold(benchmark::State& state) {
  run(state, Packets::kCold, wire::icrc);
}
void icrc_table(benchmark::State& state) {
  run(state, Packets::kHot, icrc_by_table);
}
void vcrc(benchmark::State& state) {
  run(state, Packets::kHot, wire::vcrc);
}

void lengths(benchmark::internal::Benchmark* b) {
  // 96 octets cover an IP packet of 64. 2076 and 4124 cover full packets of MTU 2048 and 4096.
  for (const int len : {64, 96, 128, 256, 512, 1024, 2048, 2076, 4096, 4124}) b->Arg(len);
}
BENCHMARK_TEMPLATE(icrc, wire::IcrcKernel::kPortable)->Apply(lengths);
BENCHMARK_TEMPLATE(icrc, wire::IcrcKernel::kClmul)->Apply(lengths);
BENCHMARK_TEMPLATE(icrc, wire::IcrcKernel::kAvx2)->Apply(lengths);
BENCHMARK_TEMPLATE(icrc, wire::IcrcKernel::kAvx512)->Apply(lengths);
BENCHMARK_TEMPLATE(icrc_burst, wire::IcrcKernel::kClmul)->Apply(lengths);
BENCHMARK_TEMPLATE(icrc_burst, wire::IcrcKernel::kAvx2)->Apply(lengths);
BENCHMARK_TEMPLATE(icrc_burst, wire::IcrcKernel::kAvx512)->Apply(lengths);
BENCHMARK(icrc_table)->Apply(lengths);
BENCHMARK(icrc_cold)->Arg(96)->Arg(2048);
BENCHMARK(vcrc)->Arg(96)->Arg(2048);

}  // namespace
}  // namespace ipoib::perf
