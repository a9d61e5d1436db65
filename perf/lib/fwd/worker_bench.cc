// SPDX-License-Identifier: BSD-3-Clause
// Complete loops of a worker over fake devices: the cost of forwarding one 64-octet frame, with
// 2,048 flows. devices_alone measures the part of it that the fake devices take.
#include <rte_mbuf.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "perf/bench.h"
#include "perf/lib/fwd/bench_node.h"

namespace ipoib::fwd {
namespace {

/// Measures loops of the worker. All packets must leave by the output that `sent` belongs to.
void run(benchmark::State& state, Node& node, std::int64_t burst, const std::uint64_t& sent) {
  node.set_burst(burst);
  {
    const perf::PerPacket counters{state, burst};
    for (auto _ : state) node.worker->iterate();
  }
  if (sent != static_cast<std::uint64_t>(state.iterations() * burst))
    state.SkipWithError("packets were lost");
}

// The arguments are: neighbours, packets, burst.

void ethernet_to_ipoib(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0))};
  node.feed(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

void ethernet_to_ipoib_checked(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0))};
  node.check_sources();
  node.feed(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

// Their fourth argument is the number of filter rules.

void filtered_in(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0))};
  node.filter(static_cast<std::size_t>(state.range(3)), FilterDirection::kIn);
  node.feed(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

void filtered_out(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0))};
  node.filter(static_cast<std::size_t>(state.range(3)), FilterDirection::kOut);
  node.feed(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

void filtered_in6(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::k6};
  node.filter(static_cast<std::size_t>(state.range(3)), FilterDirection::kIn);
  node.feed6(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

void ipoib_to_ethernet(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0))};
  node.feed(node.ib0.source, state.range(1), false);
  run(state, node, state.range(2), node.eth0.sent);
}

void ethernet_to_ipoib6(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::k6};
  node.feed6(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

void ethernet_to_ipoib6_checked(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::k6};
  node.check_sources();
  node.feed6(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

void ipoib_to_ethernet6(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::k6};
  node.feed6(node.ib0.source, state.range(1), false);
  run(state, node, state.range(2), node.eth0.sent);
}

/// Every packet is handed on after it is received, and routed in the next loop.
void spread(benchmark::State& state, Traffic traffic) {
  Node node{static_cast<std::size_t>(state.range(0)), traffic, Encapsulation::kTypeFirst, true};
  if (traffic == Traffic::k6)
    node.feed6(node.eth0.source, state.range(1), true);
  else
    node.feed(node.eth0.source, state.range(1), true);
  node.set_burst(state.range(2));
  node.worker->iterate();
  run(state, node, state.range(2), node.ib0.sent);
}

void spread_from_ethernet(benchmark::State& state) {
  spread(state, Traffic::k4);
}

void spread_from_ethernet6(benchmark::State& state) {
  spread(state, Traffic::k6);
}

// The link speaks the dialect of 2001.

void ethernet_to_ibarp2001(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::k4, Encapsulation::kTypeLast};
  node.feed(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.ib0.sent);
}

void ibarp2001_to_ethernet(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::k4, Encapsulation::kTypeLast};
  node.feed(node.ib0.source, state.range(1), false);
  run(state, node, state.range(2), node.eth0.sent);
}

/// The destinations are groups, each delivered to one link. Its first argument is their number.
void multicast_to_one_link(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::kGroups};
  node.feed_groups(node.eth0.source, state.range(1), 1U << kIb0);
  run(state, node, state.range(2), node.ib0.sent);
}

/// Each group is delivered to two links, which takes one full copy per packet.
void multicast_to_two_links(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0)), Traffic::kGroups};
  node.feed_groups(node.eth0.source, state.range(1), 1U << kIb0 | 1U << kIb1);
  run(state, node, state.range(2), node.ib1.sent);
}

/// The cheapest loop: frames pass from port to port unread.
void ethernet_io(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0))};
  node.set_mode(ForwardMode::kIo);
  node.feed(node.eth0.source, state.range(1), true);
  run(state, node, state.range(2), node.eth1.sent);
}

// The arguments are: flows, octets of an IP packet, burst.

void generates(benchmark::State& state, ForwardMode mode, bool ip6) {
  GeneratorConfig config;
  config.ip = ip6 ? GeneratorConfig::Addresses{Node::ip6(kEthNet), Node::ip6(kIbNet)}
                  : GeneratorConfig::Addresses{wire::IpAddr::v4(kEthNet), wire::IpAddr::v4(kIbNet)};
  config.flows = static_cast<unsigned>(state.range(0));
  config.neighbours = std::min(config.flows, 1024U);
  config.sizes = {static_cast<std::uint16_t>(state.range(1))};
  Node node{config.neighbours, ip6 ? Traffic::k6 : Traffic::k4};
  node.generate(config, mode);
  run(state, node, state.range(2), node.ib0.sent);
}
void txonly(benchmark::State& state) {
  generates(state, ForwardMode::kTxonly, false);
}
void txonly6(benchmark::State& state) {
  generates(state, ForwardMode::kTxonly, true);
}
void flowgen(benchmark::State& state) {
  generates(state, ForwardMode::kFlowgen, false);
}
void latency(benchmark::State& state) {
  generates(state, ForwardMode::kLatency, false);
}

void devices_alone(benchmark::State& state) {
  Node node{static_cast<std::size_t>(state.range(0))};
  node.feed(node.eth0.source, state.range(1), true);
  const std::int64_t burst = state.range(2);
  std::vector<rte_mbuf*> pkts(static_cast<std::size_t>(burst));
  const auto n = static_cast<std::uint16_t>(burst);
  const perf::PerPacket counters{state, burst};
  for (auto _ : state) {
    rte_eth_rx_burst(node.eth0.port(), 0, pkts.data(), n);
    rte_eth_tx_burst(node.eth1.port(), 0, pkts.data(), n);
    benchmark::ClobberMemory();
  }
}

void cases(benchmark::internal::Benchmark* b) {
  b->ArgNames({"neighbours", "packets", "burst"});
  for (const int neighbours : {10, 1024, 32'768}) b->Args({neighbours, kHot, 32});
  b->Args({1024, kHot, 64});
  b->Args({1024, kCold, 32});
}
BENCHMARK(ethernet_to_ipoib)->Apply(cases);
BENCHMARK(ethernet_to_ipoib_checked)->Apply(cases);
BENCHMARK(ipoib_to_ethernet)->Apply(cases);
BENCHMARK(ethernet_to_ipoib6)->Apply(cases);
BENCHMARK(ethernet_to_ipoib6_checked)->Apply(cases);
BENCHMARK(ipoib_to_ethernet6)->Apply(cases);
void filter_cases(benchmark::internal::Benchmark* b) {
  b->ArgNames({"neighbours", "packets", "burst", "rules"});
  for (const int rules : {0, 16, 1024}) b->Args({1024, kHot, 32, rules});
}
BENCHMARK(filtered_in)->Apply(filter_cases);
BENCHMARK(filtered_out)->Apply(filter_cases);
BENCHMARK(filtered_in6)->Apply(filter_cases);
BENCHMARK(spread_from_ethernet)->Args({1024, kHot, 32})->Args({1024, kCold, 32});
BENCHMARK(spread_from_ethernet6)->Args({1024, kHot, 32});
BENCHMARK(ethernet_to_ibarp2001)->Args({1024, kHot, 32});
BENCHMARK(ibarp2001_to_ethernet)->Args({1024, kHot, 32});
void group_cases(benchmark::internal::Benchmark* b) {
  b->Args({1024, kHot, 32});
  b->ArgNames({"groups", "packets", "burst"});
  for (const int groups : {16, 1024, 16'384}) b->Args({groups, kCold, 32});
}
BENCHMARK(multicast_to_one_link)->Apply(group_cases);
BENCHMARK(multicast_to_two_links)->Apply(group_cases);
BENCHMARK(ethernet_io)->Args({10, kHot, 32})->Args({10, kCold, 32});
void generator_cases(benchmark::internal::Benchmark* b) {
  b->ArgNames({"flows", "size", "burst"});
  for (const int flows : {1, 1024, 65'535}) b->Args({flows, 64, 32});
  b->Args({1024, 1500, 32});
}
BENCHMARK(txonly)->Apply(generator_cases);
BENCHMARK(txonly6)->Apply(generator_cases);
BENCHMARK(flowgen)->Apply(generator_cases);
BENCHMARK(latency)->Apply(generator_cases);
BENCHMARK(devices_alone)->Args({10, kHot, 32})->Args({10, kCold, 32});

}  // namespace
}  // namespace ipoib::fwd
