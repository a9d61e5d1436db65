// SPDX-License-Identifier: BSD-3-Clause
// State that the stages of one worker share. The worker owns all of it, except the shared tables,
// which it only reads, and the interface states, which management writes.
#pragma once

#include <rte_cycles.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/counters.h"
#include "lib/fwd/answers/neighbour_answers.h"
#include "lib/fwd/filter/broadcast_limit.h"
#include "lib/fwd/filter/header_rules.h"
#include "lib/fwd/filter/ip_filter.h"
#include "lib/fwd/frame_heads.h"
#include "lib/fwd/latency_recorder.h"
#include "lib/fwd/punt.h"
#include "lib/fwd/stats.h"
#include "lib/fwd/tracer.h"
#include "lib/fwd/tx.h"
#include "lib/fwd/worker_config.h"
#include "lib/table/delivery_table.h"
#include "lib/table/neighbour_table.h"
#include "lib/table/next_hop.h"
#include "lib/table/prefix6_table.h"
#include "lib/table/prefix_table.h"

namespace ipoib::fwd {

struct Context {
  Context(const WorkerConfig& config, std::unique_ptr<table::NeighbourTable> cache,
          std::unique_ptr<table::DeliveryTable> delivery_table)
      : interfaces{config.interfaces},
        prefixes{*config.prefixes},
        prefixes6{*config.prefixes6},
        next_hops{*config.next_hops},
        own_addresses{*config.own_addresses},
        header_rules{*config.header_rules},
        neighbours{std::move(cache)},
        frame_heads{config},
        deliveries{std::move(delivery_table)},
        fragment_pool{config.fragment_pool},
        latency{std::make_unique<LatencyRecorder>()},
        run_id{config.run_id},
        tsc{config.tsc},
        ns_per_cycle{1e9 / static_cast<double>(rte_get_tsc_hz())},
        broadcasts{std::make_unique<BroadcastLimit>(config.interfaces.size())},
        counters(config.interfaces.size() + 1),
        trace{config},
        filter{*config.settings, config.number},
        tx{config, counters, trace},
        neighbour_answers{config, *deliveries, tx, stats.answers},
        punt{config, *neighbours, neighbour_answers, stats.punts, trace} {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  std::span<const InterfaceEntry> interfaces;
  std::vector<table::InterfaceId> io_peers;  ///< io_peers() of them.
  const table::PrefixTable& prefixes;
  const table::Prefix6Table& prefixes6;
  const table::NextHopTable& next_hops;
  const table::OwnAddresses& own_addresses;
  const HeaderRules& header_rules;
  std::unique_ptr<table::NeighbourTable> neighbours;
  FrameHeads frame_heads;  ///< Heads of the frames to `neighbours`.
  std::unique_ptr<table::DeliveryTable> deliveries;
  rte_mempool* fragment_pool;
  std::unique_ptr<LatencyRecorder> latency;
  std::uint32_t run_id;             ///< Identifies time stamps of this process.
  std::uint64_t (*tsc)() noexcept;  ///< Copy of WorkerConfig::tsc; see now_tsc().
  double ns_per_cycle;
  std::uint32_t now_s = 0;  ///< Seconds since the process started; set once a loop.
  std::unique_ptr<BroadcastLimit> broadcasts;

  /// Indexed by InterfaceId; the last element is for packets without an ingress interface.
  std::vector<InterfaceCounters> counters;
  WorkerStats stats;
  Tracer trace;
  IpFilter filter;
  Tx tx;
  NeighbourAnswers neighbour_answers;
  Punt punt;

  [[nodiscard]] std::uint64_t now_tsc() const noexcept {
    return tsc != nullptr ? tsc() : rte_rdtsc();
  }

  /// Accepts kNoInterface.
  [[nodiscard]] Ingress ingress(table::InterfaceId iface) noexcept {
    return {iface, iface < interfaces.size() ? counters[iface] : counters.back()};
  }
};

}  // namespace ipoib::fwd
