// SPDX-License-Identifier: BSD-3-Clause
// The table of commands. The grammar, `help`, completion and the CLI reference use it.
#include <charconv>
#include <utility>

#include "app/cli/cli.h"
#include "app/cli/cli_commands.h"
#include "app/config/config_check.h"
#include "app/config/filter_text.h"
#include "app/config/generator_text.h"
#include "lib/base/log_level.h"
#include "lib/fwd/worker_config.h"
#include "lib/link/interface.h"
#include "lib/msg/trace_records.h"
#include "lib/wire/ip_prefix.h"
#include "lib/wire/ipoib.h"

namespace ipoib::app {
namespace {

/// Octets of an IP packet: no interface has a larger MTU (RFC 4755 §6).
constexpr unsigned kMaxMtu = 65'520;

bool is_up_to(std::string_view word, unsigned max) {
  unsigned value = 0;
  const char* end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end && value <= max;
}

bool is_within(std::string_view word, unsigned min, unsigned max) {
  return is_up_to(word, max) && !(min > 0 && is_up_to(word, min - 1));
}

bool is_rate(std::string_view word) {
  double value = -1;
  const char* end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, value);
  return result.ec == std::errc{} && result.ptr == end && value >= 0;
}

bool is_address(std::string_view word) {
  return wire::parse_ip(word).has_value();
}

bool is_interface_address(std::string_view word) {
  const auto address = wire::parse_prefix(word);
  return address && wire::is_interface_address(*address);
}

bool is_group(std::string_view word) {
  const auto addr = wire::parse_ip(word);
  return addr && wire::is_multicast(*addr);
}

bool is_prefix(std::string_view word) {
  const auto prefix = wire::parse_prefix(word);
  return prefix && prefix->addr == wire::network(*prefix);
}

/// A group, or a prefix of groups.
bool is_groups(std::string_view word) {
  if (is_group(word)) return true;
  return is_prefix(word) && wire::is_multicast(wire::parse_prefix(word)->addr);
}

bool is_name_list(std::string_view words) {
  while (true) {
    const auto comma = words.find(',');
    if (!is_name(words.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    words.remove_prefix(comma + 1);
  }
}

bool is_address_list(std::string_view words) {
  while (true) {
    const auto comma = words.find(',');
    if (!is_address(words.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    words.remove_prefix(comma + 1);
  }
}

bool is_pkey_list(std::string_view words) {
  const auto is_pkey = [](std::string_view word) {
    const auto pkey = parse_hex(word, 4);
    return pkey && (*pkey & 0x7fff) != 0;
  };
  while (true) {
    const auto comma = words.find(',');
    if (!is_pkey(words.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    words.remove_prefix(comma + 1);
  }
}

bool is_link_layer_address(std::string_view word) {
  return wire::parse_hw_addr(word).has_value();
}

bool is_anything(std::string_view) {
  return true;
}

Result<Output> help(const mgmt::NodeFaces&, const Match& match) {
  auto text = command_help(match.get("TOPIC").value_or(""));
  if (!text) return tl::make_unexpected(text.error());
  return std::move(*text);
}

}  // namespace

const std::vector<Parameter>& parameters() {
  static const std::string kModes = fmt::format("{}", fmt::join(fwd::kForwardModeNames, ", "));
  static const std::string kAreas = fmt::format("{}", fmt::join(kLogAreaNames, ", "));
  static const std::string kMtus = fmt::format("{}-{}", link::kMinMtu, kMaxMtu);
  static const std::string kLevels = log_levels_allowed();
  static const std::string kRecords = fmt::format("1-{}", msg::trace::Session::kMaxRecords);
  static const std::string kProtocols = trace_protocols_allowed();
  static const std::vector<Parameter> kParameters = {
      {"LINK", "name of a link", is_name},
      {"PORT", "name of a port", is_name},
      {"HCA", "name of an HCA", is_name},
      {"IFACE", "name of a link or port", is_name},
      {"WHERE", "name of a link, port or HCA", is_name},
      {"WORKER", "number of a worker, from 0", [](std::string_view w) { return is_up_to(w, 127); }},
      {"ADDR", "IP address", is_address},
      {"OWN", "IP address of a host and prefix length", is_interface_address},
      {"ADDRS", "IP addresses without a zone (dev names the interface), separated by commas",
       is_address_list},
      {"PREFIX", "IP prefix without host bits", is_prefix},
      {"SRC", "IP prefix without host bits, or IP address", is_trace_prefix},
      {"DST", "IP prefix without host bits, or IP address", is_trace_prefix},
      {"PROTO", kProtocols, is_trace_protocol},
      {"RECORDS", kRecords,
       [](std::string_view w) { return is_within(w, 1, msg::trace::Session::kMaxRecords); }},
      {"L4PORT", "TCP or UDP port, 1-65535",
       [](std::string_view w) { return is_within(w, 1, 65'535); }},
      {"RULE", "number of a filter rule, 1-4096",
       [](std::string_view w) { return is_within(w, 1, fwd::kMaxFilterRules); }},
      {"SPORTS", port_range_form().allowed,
       [](std::string_view w) { return port_range_form().parse(w).has_value(); }},
      {"DPORTS", port_range_form().allowed,
       [](std::string_view w) { return port_range_form().parse(w).has_value(); }},
      {"GROUP", "IP multicast address", is_group},
      {"GROUPS", "IP multicast address or prefix", is_groups},
      {"SOURCE", "IP address", is_address},
      {"IFACES", "names of links and ports, separated by commas", is_name_list},
      {"LLADDR", "20 or 6 octets in hexadecimal, separated by colons", is_link_layer_address},
      {"LID", "0-49151; 0: ask the subnet administrator",
       [](std::string_view w) { return is_up_to(w, 0xbfff); }},
      {"QUEUES", "1-127", [](std::string_view w) { return is_within(w, 1, 127); }},
      {"PORTLID", "1-49151", [](std::string_view w) { return is_up_to(w, 0xbfff) && w != "0"; }},
      {"SMLID", "0-49151; 0: no subnet manager",
       [](std::string_view w) { return is_up_to(w, 0xbfff); }},
      {"SL", "0-15", [](std::string_view w) { return is_up_to(w, 15); }},
      {"PKEYS", "P_Keys, 0x and hexadecimal digits, separated by commas", is_pkey_list},
      {"PREFIX64", "GID prefix, 0x and up to 16 hexadecimal digits",
       [](std::string_view w) { return parse_hex(w, 16).has_value(); }},
      {"MODE", kModes, [](std::string_view w) { return fwd::mode_named(w).has_value(); }},
      {"VERBOSITY", "0: notices, 1: information, 2: everything",
       [](std::string_view w) { return is_up_to(w, 2); }},
      {"AREA", kAreas, is_log_area},
      {"LEVEL", kLevels, is_log_level},
      {"BURSTS", "1-1000000", [](std::string_view w) { return is_within(w, 1, 1'000'000); }},
      {"PACKETS", "1-64", [](std::string_view w) { return is_within(w, 1, fwd::kMaxBurst); }},
      {"CORES", "1-127", [](std::string_view w) { return is_within(w, 1, 127); }},
      {"COUNT", "1-65535", [](std::string_view w) { return is_within(w, 1, 65'535); }},
      {"RATE", "a non-negative number", is_rate},
      {"SIZES", packet_sizes_form().allowed,
       [](std::string_view w) { return packet_sizes_form().parse(w).has_value(); }},
      {"ADDRPAIR", tx_ip_form().allowed,
       [](std::string_view w) { return tx_ip_form().parse(w).has_value(); }},
      {"UDPPORTS", tx_udp_form().allowed,
       [](std::string_view w) { return tx_udp_form().parse(w).has_value(); }},
      {"MTU", kMtus, [](std::string_view w) { return is_within(w, link::kMinMtu, kMaxMtu); }},
      {"CONNECTION", "ID of a connection, from show connection",
       [](std::string_view w) { return is_within(w, 1, 0xffff'ffff); }},
      {"FILE", "file name", is_anything},
      {"FRAMES", "1-4294967295", [](std::string_view w) { return is_within(w, 1, 4'294'967'295); }},
      {"MEGABYTES", "1-1000000", [](std::string_view w) { return is_within(w, 1, 1'000'000); }},
      {"TOPIC", "first word of a command, or all", is_anything},
  };
  return kParameters;
}

const std::vector<Command>& commands() {
  static const std::vector<Command> kCommands = {
      {"help [TOPIC]", "list commands, or explain one", help},
      {"start [tx_first [BURSTS]]", "start forwarding; tx_first: send bursts of test packets first",
       start},
      {"stop", "stop forwarding: drop packets that would be forwarded", stop},
      {"quit", "leave every multicast group and exit", quit},
      {"show link [LINK] [json]", "IP over InfiniBand links", show_link},
      {"show port [PORT] [json]", "Ethernet ports", show_port},
      {"show port summary all [json]", "one line for each port and link", show_port_summary},
      {"show port info all [json]", "details of all ports and links", show_port_info},
      {"show port info IFACE [json]", "details of one port or link", show_port_info},
      {"show port stats all [json]",
       "traffic of all ports and links, with the rate since the last display", show_port_stats},
      {"show port stats IFACE [json]",
       "traffic of one port or link, with the rate since the last display", show_port_stats},
      {"show port xstats all [json]", "every counter of all ports and links, with drops by reason",
       show_port_xstats},
      {"show port xstats IFACE [json]", "every counter of one port or link", show_port_xstats},
      {"show fwd [json]", "the forward mode and the settings of test packets", show_fwd},
      {"show fwd stats [all] [json]",
       "forwarding statistics, ICMP errors and the load of the lcores", show_fwd_stats},
      {"show latency [json]", "latency and loss of test packets with time stamps", show_latency},
      {"show neigh [IFACE] [json]", "neighbours of all interfaces or of one", show_neigh},
      {"show route [IFACE] [json]", "routes, all or those through one interface", show_route},
      {"show group [IFACE] [json]", "multicast groups that this node listens or sends to",
       show_group},
      {"show querier [IFACE] [json]",
       "queriers of IGMP and MLD on the links of a multicast router, and the router that forwards",
       show_querier},
      {"show connection [LINK] [json]", "connections of connected mode, of all links or of one",
       show_connection},
      {"show mroute [IFACE] [json]", "multicast routes, all or those from one interface",
       show_mroute},
      {"show filter [json]", "filter rules in order, with the packets that fitted each",
       show_filter},
      {"show drops [WHERE] [json]", "dropped packets by reason", show_drops},
      {"show trace [json]", "packets of the trace, with the path of each", show_trace},
      {"show capture [json]", "the capture in progress, or the last one", show_capture},
      {"show worker [WORKER] [json]", "worker lcores", show_worker},
      {"show management [json]", "turns of the management lcore, and the time that they take",
       show_management},
      {"show hca [HCA] [json]", "InfiniBand ports", show_hca},
      {"show mirror [json]", "mirrors of interfaces in Linux, and its routes", show_mirror},
      {"show proxy [json]", "interfaces that share their subnets, and the hosts on each",
       show_proxy},
      {"show shared [LINK] [json]",
       "addresses that links share with other nodes: members, the hosts of each, and counters",
       show_shared},
      {"show sa [HCA] [json]",
       "subnet administration: requests, and groups if the administrator runs here", show_sa},
      {"show config [json]", "the configuration in effect", show_config},
      {"show config fwd|rxtx|cores [json]", "one part of the configuration", show_config_part},
      {"show log [json]", "log level of each area", show_log},
      {"clear stats", "reset all statistics", clear_stats},
      {"clear port stats|xstats all",
       "reset the statistics of all ports and links; stats and xstats share counters",
       clear_port_stats},
      {"clear port stats|xstats IFACE", "reset the statistics of one port or link",
       clear_port_stats},
      {"clear fwd stats all", "reset forwarding statistics", clear_fwd_stats},
      {"clear latency", "reset latency statistics", clear_latency},
      {"clear trace", "end the trace and discard its packets", clear_trace},
      {"set verbose VERBOSITY", "verbosity of the log, for all areas", set_verbose},
      {"set log all LEVEL", "most detailed level to log, for all areas", set_log},
      {"set log AREA LEVEL", "most detailed level to log, for one area", set_log},
      {"set fwd MODE", "set the forward mode", set_fwd},
      {"set burst PACKETS", "packets per receive burst (at least 8) and per generated burst",
       set_burst},
      {"set nbcore CORES", "number of worker lcores: fixed at the start", set_nbcore},
      {"set txpkts SIZES", "sizes of test packets, used in turn", set_generator},
      {"set tx-ip ADDRPAIR", "source and first destination address of test packets", set_generator},
      {"set tx-udp UDPPORTS", "first source port and destination port of test packets",
       set_generator},
      {"set flows COUNT", "number of flowgen flows, distinguished by source port", set_generator},
      {"set neighbours COUNT", "number of destinations of test packets, consecutive addresses",
       set_generator},
      {"set rate RATE pps|gbps|percent", "rate of test packets; 0: as fast as possible",
       set_generator},
      {"set node drain|undrain",
       "take the node out of service without a loss, or return it: daemons on the mirrors in Linux "
       "and IPv6 hosts learn it, and the node forwards what still arrives",
       set_node},
      {"set link LINK mtu MTU",
       "MTU of a link, up to the limit of its broadcast group or of its connections", set_mtu},
      {"set link LINK queues QUEUES",
       "spread neighbours and groups over this many queue pairs of a link", set_queues},
      {"set port PORT mtu MTU", "MTU of a port, up to the limit of its device", set_mtu},
      {"set source-check IFACE off|loose|strict",
       "drop packets that arrive on a link or port from sources behind others", set_source_check},
      {"set directed-broadcast IFACE off|subnet|all-subnets",
       "forward packets to the broadcast addresses of a link's or port's IPv4 prefixes, or also of "
       "their classful nets",
       set_directed_broadcast},
      {"set promisc all on|off", "promiscuous mode of all ports", set_promisc},
      {"set promisc PORT on|off", "promiscuous mode of one port", set_promisc},
      {"set hca HCA lid PORTLID", "change the LID of an InfiniBand port, as a subnet manager would",
       set_hca},
      {"set hca HCA sm-lid SMLID", "set the LID of the subnet manager of an InfiniBand port",
       set_hca},
      {"set hca HCA pkeys PKEYS", "replace the P_Key table of an InfiniBand port", set_hca},
      {"set hca HCA gid-prefix PREFIX64", "change the GID prefix of an InfiniBand port", set_hca},
      {"set hca HCA state up|down", "activate an InfiniBand port, or take it down", set_hca},
      {"set hca HCA reregister",
       "make the links of an InfiniBand port request all memberships again", set_hca},
      {"port stop|start all",
       "stop or start the devices of all ports, and take all links down or up", port_state},
      {"port stop|start IFACE", "stop or start the device of one port, or take one link down or up",
       port_state},
      {"port config mtu IFACE MTU", "MTU of a port or link", set_mtu},
      {"link up|down IFACE", "bring a link or port up, or take it down gracefully", link_state},
      {"address add IFACE OWN",
       "give a link or port an address, and announce it; IPv6: after duplicate address detection",
       address_add},
      {"address del IFACE OWN",
       "take an address from a link or port; with the last one of a prefix its neighbours are "
       "forgotten",
       address_del},
      {"neigh add IFACE ADDR lladdr LLADDR [lid LID [sl SL]]", "add a static neighbour", neigh_add},
      {"neigh del IFACE ADDR", "remove a neighbour", neigh_del},
      {"neigh flush all", "remove every neighbour that was resolved", neigh_flush},
      {"neigh flush IFACE", "remove the resolved neighbours of one interface", neigh_flush},
      {"route add PREFIX via ADDRS [dev IFACE]",
       "add a route through one or more next hops; link-local ones require dev", route_add},
      {"route add PREFIX blackhole", "add a route that drops packets to this prefix", route_add},
      {"route del PREFIX", "remove a route", route_del},
      {"filter add in|out accept|drop [at RULE] [iface IFACE] [src SRC] [dst DST] [proto PROTO] "
       "[sport SPORTS] [dport DPORTS]",
       "add a filter rule for packets that arrive or are forwarded, at the end or at a place",
       filter_add},
      {"filter del RULE", "remove a filter rule", filter_del},
      {"group join IFACE GROUP", "join a multicast group", group_join},
      {"group leave IFACE GROUP", "leave a multicast group", group_leave},
      {"connection close LINK all", "close every connection of a link", connection_close},
      {"connection close LINK CONNECTION",
       "close one connection; packets to the neighbour then go as datagrams", connection_close},
      {"mroute add GROUPS [from SOURCE] in IFACE out IFACES",
       "add a multicast route from one interface to others", mroute_add},
      {"mroute del GROUPS [from SOURCE] in IFACE", "remove a multicast route", mroute_del},
      {"capture start FILE [limit MEGABYTES] [frames FRAMES] [replace]",
       "write all frames of all InfiniBand cables to a new pcap file of at most MEGABYTES, 1000 if "
       "not given; replace: in place of an old one",
       capture_start},
      {"capture stop", "stop the capture; the file is completed in the background", capture_stop},
      {"trace start RECORDS [in IFACE] [src SRC] [dst DST] [proto PROTO] [port L4PORT] [drop]",
       "record the paths of the next matching packets; drop: of dropped packets only", trace_start},
      {"trace stop", "end the trace; show trace still has its packets", trace_stop},
  };
  return kCommands;
}

}  // namespace ipoib::app
