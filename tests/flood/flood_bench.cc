// SPDX-License-Identifier: BSD-3-Clause
// Sends one flood to a node in virtual time, and says what the others lost by it.
//
//   flood_bench [--long] [--rate=N] ROW   one line of figures; status 1 if a limit is not kept
//   flood_bench --json ...                the figures as JSON
//   flood_bench --list                    the rows
//
// --rate: frames of the flood a second; 0 shows the same time without the flood. Nothing depends on
// the speed of the machine.
#include <rte_eal.h>
#include <rte_log.h>
#include <rte_random.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lib/base/log_level.h"
#include "lib/fabric/packet_meta.h"
#include "tests/flood/cm_floods.h"
#include "tests/flood/flood_node.h"
#include "tests/flood/flood_rows.h"
#include "tests/flood/participants.h"
#include "tests/flood/rc_hosts.h"
#include "tests/flood/sim_hosts.h"

namespace ipoib::flood {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShortTime = 10s;
/// Time in which what is under way comes to an end.
constexpr Duration kWindDown = 3s;

struct Options {
  bool is_long = false;
  std::optional<std::uint32_t> rate = {};
  bool json = false;
};

struct RowResult {
  Outcome outcome;
  FloodNode::Figures figures;
  Share peers;
  Share connected;
  unsigned mbufs = 0;
  std::size_t growth = 0;
  std::size_t ended = 0;  ///< Connections of honest hosts.
  std::size_t connections_before = 0;
  std::size_t connections = 0;
  std::uint32_t rate = 0;
  Duration time{};
  std::uint64_t sent = 0;
};

bool start_node_eal() {
  std::array<const char*, 11> arguments = {
      "flood_bench", "--no-huge", "--no-shconf", "--no-pci",    "--no-telemetry", "-m",
      "640",         "--lcores",  "0@0,1@0",     "--log-level", "lib.eal:error"};
  const bool started =
      rte_eal_init(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data())) >= 0 &&
      fabric::register_packet_meta();
  rte_log_set_global_level(RTE_LOG_ERR);
  rte_srand(1);
  return started;
}

RowResult run(const Row& row, const Options& options) {
  FloodNodeConfig config = row.config;
  if (!options.is_long) config.reachable = 4s;
  FloodNode node{config};
  SimHosts hosts{node};
  Participants participants{node, hosts, row.reports, row.long_packets};
  if (!participants.establish()) throw std::runtime_error("the hosts do not become neighbours");
  std::optional<Peers> peers;
  std::optional<ConnectedHosts> connected;
  if (row.connected_hosts) connected.emplace(node, hosts);
  const Flood flood = row.make(node, hosts);
  if (row.peers) peers.emplace(node, hosts);

  RowResult result;
  result.rate = options.rate.value_or(options.is_long ? row.rate : row.short_rate);
  result.time = options.is_long ? row.time : kShortTime;
  const auto count_connections = [&] {
    return config.connected ? node.faces().view.connections("").size() : 0;
  };
  result.connections_before = count_connections();
  node.restart_figures();
  participants.restart();
  const std::size_t before = FloodNode::resident();
  if (connected) connected->restart();
  const TimePoint begin = node.now();
  const auto pass = [&](TimePoint end) {
    while (node.now() < end) {
      participants.step();
      if (peers) peers->step();
      if (connected) connected->step();
      node.step();
    }
  };
  while (node.now() - begin < result.time) {
    const auto due =
        static_cast<std::uint64_t>((node.now() - begin) / 1us) * result.rate / 1'000'000;
    for (; result.sent < due; ++result.sent) flood();
    pass(node.now() + FloodNode::kStep);
  }
  participants.wind_down();
  if (peers) peers->wind_down();
  if (connected) connected->wind_down();
  pass(node.now() + kWindDown);

  result.growth = FloodNode::resident() - std::min(before, FloodNode::resident());
  result.outcome = participants.outcome();
  result.figures = node.figures();
  if (peers) result.peers = peers->outcome();
  if (connected) result.connected = connected->outcome();
  result.ended = (peers ? peers->ended() : 0) + (connected ? connected->ended() : 0);
  result.mbufs = node.mbufs();
  result.connections = count_connections();
  return result;
}

/// Limits that the result does not keep, a sentence each.
std::vector<std::string> broken(const Row& row, const RowResult& r) {
  std::vector<std::string> all;
  const Limits& limits = row.limits;
  const auto least = [&](std::string_view what, double is, double limit) {
    if (is < limit) all.push_back(fmt::format("{}: {:.2f} % instead of {} %", what, is, limit));
  };
  const Outcome& o = r.outcome;
  if (o.lost_neighbours > limits.lost_neighbours)
    all.push_back(fmt::format("{} established neighbours were lost", o.lost_neighbours));
  least("the stream to IPoIB", o.to_cable.percent(), limits.to_cable);
  least("the stream to Ethernet", o.to_ethernet.percent(), limits.to_ethernet);
  least("new hosts reached", o.resolved.percent(), limits.resolved);
  least("first packets within 1 s", o.first_1s.percent(), limits.first_1s);
  least("first packets within 3 s", o.first_3s.percent(), limits.first_3s);
  least("routers found by new hosts", o.found.percent(), limits.found);
  least("joins", o.joins.percent(), limits.joins);
  least("reports of groups", o.reports.percent(), limits.reports);
  least("answers to packets that are too long", o.too_big.percent(), limits.too_big);
  least("connections of honest peers", r.peers.percent(), limits.peers);
  least("packets on honest connections", r.connected.percent(), limits.connected);
  least("commands", o.commands.percent(), limits.commands);
  least("free mbufs", 100.0 * r.figures.least_free / r.mbufs, limits.free_mbufs);
  if (r.figures.longest_turn > limits.turn)
    all.push_back(
        fmt::format("a turn took {:.1f} ms",
                    std::chrono::duration<double, std::milli>(r.figures.longest_turn).count()));
  if (r.growth > limits.growth) all.push_back(fmt::format("memory grew by {} MiB", r.growth >> 20));
  if (r.ended > limits.ended)
    all.push_back(fmt::format("{} connections of honest hosts ended", r.ended));
  if (r.connections_before < limits.least_connections)
    all.push_back(fmt::format("{} connections instead of {}", r.connections_before,
                              limits.least_connections));
  if (limits.connections && r.connections > *limits.connections)
    all.push_back(fmt::format("{} connections stand", r.connections));
  return all;
}

std::string share_text(const Share& share) {
  return share.all == 0 ? "-" : fmt::format("{:.2f}", share.percent());
}

void print_text(const Row& row, const RowResult& r, const std::vector<std::string>& faults) {
  const Outcome& o = r.outcome;
  fmt::print(
      "{:<9} {:>7}/s {:>4} s | lost {:>4} | to ib {:>6} to eth {:>6} | new {:>6} {:>6} {:>6} "
      "router "
      "{:>6} | joins {:>6} igmp {:>6} | too big {:>6} | peers {:>6} conns {:>4} {:>4} on them "
      "{:>6} | cli {:>6} | turn {:>5.2f} ms "
      "{:>3} msgs | free {:>5.1f} % | +{} MiB | {}\n",
      row.name, r.rate, r.time / 1s, o.lost_neighbours, share_text(o.to_cable),
      share_text(o.to_ethernet), share_text(o.first_1s), share_text(o.first_3s),
      share_text(o.resolved), share_text(o.found), share_text(o.joins), share_text(o.reports),
      share_text(o.too_big), share_text(r.peers), r.connections_before, r.connections,
      share_text(r.connected), share_text(o.commands),
      std::chrono::duration<double, std::milli>(r.figures.longest_turn).count(),
      r.figures.most_messages, 100.0 * r.figures.least_free / r.mbufs, r.growth >> 20,
      faults.empty() ? "ok" : "NOT KEPT");
  for (const std::string& fault : faults) fmt::print("          {}: {}\n", row.name, fault);
}

void print_json(const Row& row, const RowResult& r, const std::vector<std::string>& faults) {
  const Outcome& o = r.outcome;
  const auto share = [](const Share& s) {
    return s.all == 0 ? std::string{"null"} : fmt::format("{:.6f}", s.percent() / 100);
  };
  std::string list;
  for (const std::string& fault : faults)
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", fault);
  fmt::print(
      "{{\"row\": \"{}\", \"what\": \"{}\", \"rate\": {}, \"seconds\": {}, \"lost_neighbours\": "
      "{}, "
      "\"to_ipoib\": {}, \"to_ethernet\": {}, \"new_first_1s\": {}, \"new_first_3s\": {}, "
      "\"new_reached_3s\": {}, \"router_found_3s\": {}, \"joins_1s\": {}, \"reports_1s\": {}, "
      "\"too_big\": {}, \"peers_5s\": {}, \"connections_before\": {}, \"connections_after\": {}, "
      "\"on_connections\": {}, \"commands_100ms\": {}, \"longest_turn_ms\": {:.3f}, "
      "\"most_messages\": {}, \"free_mbufs\": {:.4f}, \"growth_octets\": {}, \"queue_pairs\": {}, "
      "\"missed\": {}, \"broken\": [{}]}}\n",
      row.name, row.what, r.rate, r.time / 1s, o.lost_neighbours, share(o.to_cable),
      share(o.to_ethernet), share(o.first_1s), share(o.first_3s), share(o.resolved), share(o.found),
      share(o.joins), share(o.reports), share(o.too_big), share(r.peers), r.connections_before,
      r.connections, share(r.connected), share(o.commands),
      std::chrono::duration<double, std::milli>(r.figures.longest_turn).count(),
      r.figures.most_messages, static_cast<double>(r.figures.least_free) / r.mbufs, r.growth,
      r.figures.queue_pairs, r.figures.missed, list);
}

bool read_number(std::string_view text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

int usage() {
  std::fputs("usage: flood_bench [--long] [--rate=N] [--json] ROW | --list\n", stderr);
  return 2;
}

int run_named(std::string_view name, const Options& options) {
  const auto all = rows();
  const auto row = std::ranges::find(all, name, &Row::name);
  if (row == all.end()) return usage();
  if (!start_node_eal()) {
    std::fputs("flood_bench: EAL does not start\n", stderr);
    return 2;
  }
  const RowResult result = run(*row, options);
  const auto faults = broken(*row, result);
  (options.json ? print_json : print_text)(*row, result, faults);
  return faults.empty() ? 0 : 1;
}

}  // namespace
}  // namespace ipoib::flood

int main(int argc, char** argv) {
  using namespace ipoib::flood;
  Options options;
  std::string_view name;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument{argv[i]};
    if (argument == "--list") {
      for (const Row& row : rows()) fmt::print("{}\t{}\n", row.name, row.what);
      return 0;
    }
    if (argument == "--long")
      options.is_long = true;
    else if (argument.starts_with("--rate=") &&
             read_number(argument.substr(7), options.rate.emplace()))
      continue;
    else if (argument == "--json")
      options.json = true;
    else if (name.empty() && !argument.starts_with("-"))
      name = argument;
    else
      return usage();
  }
  if (name.empty()) return usage();
  try {
    return run_named(name, options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "flood_bench: %s\n", e.what());
    return 2;
  }
}
