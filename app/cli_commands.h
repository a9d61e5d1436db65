// The commands, by what they are about. Each takes the node and the words of its line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli_syntax.h"
#include "lib/base/result.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {

// cli_show.cc
Result<std::string> show_link(mgmt::Node& node, const Match& match);
Result<std::string> show_port(mgmt::Node& node, const Match& match);
Result<std::string> show_hca(mgmt::Node& node, const Match& match);
Result<std::string> show_sa(mgmt::Node& node, const Match& match);
Result<std::string> show_worker(mgmt::Node& node, const Match& match);
Result<std::string> show_neigh(mgmt::Node& node, const Match& match);
Result<std::string> show_route(mgmt::Node& node, const Match& match);
Result<std::string> show_group(mgmt::Node& node, const Match& match);
Result<std::string> show_mroute(mgmt::Node& node, const Match& match);
Result<std::string> show_drops(mgmt::Node& node, const Match& match);
Result<std::string> show_config(mgmt::Node& node, const Match& match);

// cli_stats.cc
Result<std::string> show_port_stats(mgmt::Node& node, const Match& match);
Result<std::string> show_fwd_stats(mgmt::Node& node, const Match& match);
Result<std::string> show_latency(mgmt::Node& node, const Match& match);
Result<std::string> clear_port_stats(mgmt::Node& node, const Match& match);
Result<std::string> clear_fwd_stats(mgmt::Node& node, const Match& match);
Result<std::string> clear_latency(mgmt::Node& node, const Match& match);

// cli_forward.cc
Result<std::string> start(mgmt::Node& node, const Match& match);
Result<std::string> stop(mgmt::Node& node, const Match& match);
Result<std::string> set_fwd(mgmt::Node& node, const Match& match);
Result<std::string> set_burst(mgmt::Node& node, const Match& match);
Result<std::string> set_nbcore(mgmt::Node& node, const Match& match);
/// txpkts, tx-ip, tx-udp, flows, neighbours, rate.
Result<std::string> set_generator(mgmt::Node& node, const Match& match);
Result<std::string> show_fwd(mgmt::Node& node, const Match& match);
/// Of fwd, rxtx or cores.
Result<std::string> show_config_part(mgmt::Node& node, const Match& match);

// cli_change.cc
/// The value of a parameter that is a number; the grammar let only fitting ones through.
[[nodiscard]] unsigned number(const Match& match, std::string_view parameter);
/// "0x" and up to `digits` hexadecimal digits.
[[nodiscard]] std::optional<std::uint64_t> parse_hex(std::string_view word, std::size_t digits);
Result<std::string> quit(mgmt::Node& node, const Match& match);
Result<std::string> clear_stats(mgmt::Node& node, const Match& match);
Result<std::string> set_verbose(mgmt::Node& node, const Match& match);
Result<std::string> set_hca(mgmt::Node& node, const Match& match);
Result<std::string> link_state(mgmt::Node& node, const Match& match);
Result<std::string> neigh_add(mgmt::Node& node, const Match& match);
Result<std::string> neigh_del(mgmt::Node& node, const Match& match);
Result<std::string> neigh_flush(mgmt::Node& node, const Match& match);
Result<std::string> route_add(mgmt::Node& node, const Match& match);
Result<std::string> route_del(mgmt::Node& node, const Match& match);
Result<std::string> group_join(mgmt::Node& node, const Match& match);
Result<std::string> group_leave(mgmt::Node& node, const Match& match);
Result<std::string> mroute_add(mgmt::Node& node, const Match& match);
Result<std::string> mroute_del(mgmt::Node& node, const Match& match);
Result<std::string> capture_start(mgmt::Node& node, const Match& match);
Result<std::string> capture_stop(mgmt::Node& node, const Match& match);

}  // namespace ipoib::app
