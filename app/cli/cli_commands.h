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
#include "lib/mgmt/node_faces.h"

namespace ipoib::app {

// cli_show.cc
Result<Output> show_link(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_port(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_hca(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_mirror(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_proxy(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_shared(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_sa(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_worker(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_drops(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_config(const mgmt::NodeFaces& node, const Match& match);

// cli_lists.cc
Result<Output> show_neigh(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_route(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_group(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_querier(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_connection(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_mroute(const mgmt::NodeFaces& node, const Match& match);

// cli_ports.cc
Result<Output> port_state(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_promisc(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_mtu(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_queues(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_port_info(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_port_summary(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_port_xstats(const mgmt::NodeFaces& node, const Match& match);
/// Clears the counters of show_port_stats() and show_port_xstats().
Result<Output> clear_port_stats(const mgmt::NodeFaces& node, const Match& match);

// cli_stats.cc
Result<Output> show_port_stats(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_fwd_stats(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_management(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_latency(const mgmt::NodeFaces& node, const Match& match);
Result<Output> clear_fwd_stats(const mgmt::NodeFaces& node, const Match& match);
Result<Output> clear_latency(const mgmt::NodeFaces& node, const Match& match);

// cli_forward.cc
Result<Output> start(const mgmt::NodeFaces& node, const Match& match);
Result<Output> stop(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_fwd(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_burst(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_nbcore(const mgmt::NodeFaces& node, const Match& match);
/// Sets txpkts, tx-ip, tx-udp, flows, neighbours or rate.
Result<Output> set_generator(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_fwd(const mgmt::NodeFaces& node, const Match& match);
/// Shows the part fwd, rxtx or cores of the configuration.
Result<Output> show_config_part(const mgmt::NodeFaces& node, const Match& match);

// cli_log.cc
[[nodiscard]] bool is_log_area(std::string_view word);
[[nodiscard]] bool is_log_level(std::string_view word);
/// Returns the names of the levels for error texts: "off, error, ...".
[[nodiscard]] std::string log_levels_allowed();
Result<Output> set_log(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_verbose(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_log(const mgmt::NodeFaces& node, const Match& match);

// cli_trace.cc
/// An IP prefix without host bits, or an address.
[[nodiscard]] bool is_trace_prefix(std::string_view word);
[[nodiscard]] bool is_trace_protocol(std::string_view word);
/// Returns the names of the protocols for error texts: "icmp, igmp, ...".
[[nodiscard]] std::string trace_protocols_allowed();
Result<Output> trace_start(const mgmt::NodeFaces& node, const Match& match);
Result<Output> trace_stop(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_trace(const mgmt::NodeFaces& node, const Match& match);
Result<Output> clear_trace(const mgmt::NodeFaces& node, const Match& match);

// cli_filter.cc
Result<Output> filter_add(const mgmt::NodeFaces& node, const Match& match);
Result<Output> filter_del(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_filter(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_source_check(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_directed_broadcast(const mgmt::NodeFaces& node, const Match& match);

// cli_change.cc
/// The output of a command that prints nothing on success.
[[nodiscard]] Result<Output> done(const Status& status);
/// Returns the value of a numeric parameter, 0 if the line lacks it. The grammar has checked it.
[[nodiscard]] unsigned number(const Match& match, std::string_view parameter);
/// Parses "0x" and 1 to `digits` hexadecimal digits.
[[nodiscard]] std::optional<std::uint64_t> parse_hex(std::string_view word, std::size_t digits);
Result<Output> quit(const mgmt::NodeFaces& node, const Match& match);
Result<Output> clear_stats(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_hca(const mgmt::NodeFaces& node, const Match& match);
Result<Output> set_node(const mgmt::NodeFaces& node, const Match& match);
Result<Output> link_state(const mgmt::NodeFaces& node, const Match& match);
Result<Output> address_add(const mgmt::NodeFaces& node, const Match& match);
Result<Output> address_del(const mgmt::NodeFaces& node, const Match& match);
Result<Output> neigh_add(const mgmt::NodeFaces& node, const Match& match);
Result<Output> neigh_del(const mgmt::NodeFaces& node, const Match& match);
Result<Output> neigh_flush(const mgmt::NodeFaces& node, const Match& match);
Result<Output> route_add(const mgmt::NodeFaces& node, const Match& match);
Result<Output> route_del(const mgmt::NodeFaces& node, const Match& match);
Result<Output> group_join(const mgmt::NodeFaces& node, const Match& match);
Result<Output> group_leave(const mgmt::NodeFaces& node, const Match& match);
Result<Output> connection_close(const mgmt::NodeFaces& node, const Match& match);
Result<Output> mroute_add(const mgmt::NodeFaces& node, const Match& match);
Result<Output> mroute_del(const mgmt::NodeFaces& node, const Match& match);
Result<Output> capture_start(const mgmt::NodeFaces& node, const Match& match);
Result<Output> capture_stop(const mgmt::NodeFaces& node, const Match& match);
Result<Output> show_capture(const mgmt::NodeFaces& node, const Match& match);

}  // namespace ipoib::app
