// SPDX-License-Identifier: BSD-3-Clause
// The functions of the commands, grouped by subject. Each takes the node and the words of its line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli/cli_output.h"
#include "app/cli/cli_syntax.h"
#include "lib/base/result.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {

// cli_show.cc
Result<Output> show_link(mgmt::Node& node, const Match& match);
Result<Output> show_port(mgmt::Node& node, const Match& match);
Result<Output> show_hca(mgmt::Node& node, const Match& match);
Result<Output> show_sa(mgmt::Node& node, const Match& match);
Result<Output> show_worker(mgmt::Node& node, const Match& match);
Result<Output> show_drops(mgmt::Node& node, const Match& match);
Result<Output> show_config(mgmt::Node& node, const Match& match);

// cli_lists.cc
Result<Output> show_neigh(mgmt::Node& node, const Match& match);
Result<Output> show_route(mgmt::Node& node, const Match& match);
Result<Output> show_group(mgmt::Node& node, const Match& match);
Result<Output> show_connection(mgmt::Node& node, const Match& match);
Result<Output> show_mroute(mgmt::Node& node, const Match& match);

// cli_ports.cc
Result<Output> port_state(mgmt::Node& node, const Match& match);
Result<Output> set_promisc(mgmt::Node& node, const Match& match);
Result<Output> set_mtu(mgmt::Node& node, const Match& match);
Result<Output> show_port_info(mgmt::Node& node, const Match& match);
Result<Output> show_port_summary(mgmt::Node& node, const Match& match);
Result<Output> show_port_xstats(mgmt::Node& node, const Match& match);
/// Clears the counters of show_port_stats() and show_port_xstats().
Result<Output> clear_port_stats(mgmt::Node& node, const Match& match);

// cli_stats.cc
Result<Output> show_port_stats(mgmt::Node& node, const Match& match);
Result<Output> show_fwd_stats(mgmt::Node& node, const Match& match);
Result<Output> show_latency(mgmt::Node& node, const Match& match);
Result<Output> clear_fwd_stats(mgmt::Node& node, const Match& match);
Result<Output> clear_latency(mgmt::Node& node, const Match& match);

// cli_forward.cc
Result<Output> start(mgmt::Node& node, const Match& match);
Result<Output> stop(mgmt::Node& node, const Match& match);
Result<Output> set_fwd(mgmt::Node& node, const Match& match);
Result<Output> set_burst(mgmt::Node& node, const Match& match);
Result<Output> set_nbcore(mgmt::Node& node, const Match& match);
/// Sets txpkts, tx-ip, tx-udp, flows, neighbours or rate.
Result<Output> set_generator(mgmt::Node& node, const Match& match);
Result<Output> show_fwd(mgmt::Node& node, const Match& match);
/// Shows the part fwd, rxtx or cores of the configuration.
Result<Output> show_config_part(mgmt::Node& node, const Match& match);

// cli_log.cc
[[nodiscard]] bool is_log_area(std::string_view word);
[[nodiscard]] bool is_log_level(std::string_view word);
/// Returns the names of the levels for error texts: "off, error, ...".
[[nodiscard]] std::string log_levels_allowed();
Result<Output> set_log(mgmt::Node& node, const Match& match);
Result<Output> set_verbose(mgmt::Node& node, const Match& match);
Result<Output> show_log(mgmt::Node& node, const Match& match);

// cli_change.cc
/// Returns the value of a numeric parameter, 0 if the line lacks it. The grammar has checked it.
[[nodiscard]] unsigned number(const Match& match, std::string_view parameter);
/// Parses "0x" and 1 to `digits` hexadecimal digits.
[[nodiscard]] std::optional<std::uint64_t> parse_hex(std::string_view word, std::size_t digits);
Result<Output> quit(mgmt::Node& node, const Match& match);
Result<Output> clear_stats(mgmt::Node& node, const Match& match);
Result<Output> set_hca(mgmt::Node& node, const Match& match);
Result<Output> link_state(mgmt::Node& node, const Match& match);
Result<Output> neigh_add(mgmt::Node& node, const Match& match);
Result<Output> neigh_del(mgmt::Node& node, const Match& match);
Result<Output> neigh_flush(mgmt::Node& node, const Match& match);
Result<Output> route_add(mgmt::Node& node, const Match& match);
Result<Output> route_del(mgmt::Node& node, const Match& match);
Result<Output> group_join(mgmt::Node& node, const Match& match);
Result<Output> group_leave(mgmt::Node& node, const Match& match);
Result<Output> connection_close(mgmt::Node& node, const Match& match);
Result<Output> mroute_add(mgmt::Node& node, const Match& match);
Result<Output> mroute_del(mgmt::Node& node, const Match& match);
Result<Output> capture_start(mgmt::Node& node, const Match& match);
Result<Output> capture_stop(mgmt::Node& node, const Match& match);

}  // namespace ipoib::app
