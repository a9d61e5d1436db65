// SPDX-License-Identifier: BSD-3-Clause
// The counters of every microbenchmark, which the report shows.
#pragma once

#include <rte_cycles.h>

#include <benchmark/benchmark.h>

#include <cstdint>

namespace ipoib::perf {

/// Surrounds the loop of a benchmark. Its destructor reports items, octets and cycles of the
/// time-stamp counter per packet since construction.
class PerPacket {
 public:
  /// `packet_len`: octets processed per packet. With 0 no octets are reported.
  PerPacket(benchmark::State& state, std::int64_t packets_per_iteration,
            std::int64_t packet_len = 0)
      : state_{state}, per_iteration_{packets_per_iteration}, packet_len_{packet_len} {}
  PerPacket(const PerPacket&) = delete;
  PerPacket& operator=(const PerPacket&) = delete;
  ~PerPacket() {
    const std::uint64_t tsc = rte_rdtsc() - start_;
    const std::int64_t packets = state_.iterations() * per_iteration_;
    state_.SetItemsProcessed(packets);
    if (packet_len_ != 0) state_.SetBytesProcessed(packets * packet_len_);
    state_.counters["tsc_per_pkt"] = static_cast<double>(tsc) / static_cast<double>(packets);
  }

 private:
  benchmark::State& state_;
  std::int64_t per_iteration_;
  std::int64_t packet_len_;
  std::uint64_t start_ = rte_rdtsc();
};

}  // namespace ipoib::perf
