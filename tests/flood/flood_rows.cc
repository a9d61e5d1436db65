// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/flood_rows.h"

#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "tests/flood/cm_floods.h"
#include "tests/flood/ip_floods.h"
#include "tests/flood/mad_floods.h"
#include "tests/flood/rc_floods.h"

namespace ipoib::flood {
namespace {

using namespace std::chrono_literals;

/// Room for the 4,096 connections of A8, and for those of honest hosts.
constexpr std::size_t kConnections = 5'000;

std::vector<Row> make_rows() {
  std::vector<Row> all;
  const auto add = [&all](Row row) { all.push_back(std::move(row)); };

  // Requests for neighbours.
  const Limits neighbours{.found = 100};
  add({.name = "A3",
       .what = "ARP requests of strangers to all, for the node's address",
       .rate = 1'000'000,
       .short_rate = 300'000,
       .time = 120s,
       .limits = neighbours,
       .make = arp_of_strangers});
  add({.name = "A3-one",
       .what = "ARP requests of one MAC address to all, in many names",
       .rate = 1'000'000,
       .short_rate = 300'000,
       .time = 120s,
       .limits = neighbours,
       .make = arp_of_one});
  add({.name = "A3-names",
       .what = "ARP requests on IPoIB of forty ports in the names of established neighbours",
       .rate = 1'000'000,
       .short_rate = 300'000,
       .time = 120s,
       .limits = neighbours,
       .make = arp_in_names});
  add({.name = "A4",
       .what = "neighbour solicitations of strangers",
       .time = 120s,
       .limits = neighbours,
       .make = solicitations_of_strangers});

  // Scans.
  Limits scans{.resolved = 95, .first_3s = 95, .joins = 100};
  for (const auto& [name, links] :
       std::array<std::pair<const char*, unsigned>, 3>{{{"A5-1", 1}, {"A5-8", 8}, {"A5-32", 32}}}) {
    add({.name = name,
         .what = "one host scans a /16 and a /64 behind each link",
         .config = {.links = links},
         .limits = scans,
         .make = [n = links](FloodNode& node, SimHosts& hosts) {
           return scan(node, hosts, n, 1);
         }});
  }
  // Forged senders are as good as new hosts. Some first packets of neighbours meet full places, and
  // their number depends on random delays: 94 to 100 % arrive, less than half before these limits.
  Limits many_senders = scans;
  many_senders.first_3s = 85;
  add({.name = "A5-many",
       .what = "a scan of 8 links in the names of 10,000 hosts",
       .config = {.links = 8},
       .limits = many_senders,
       .make = [](FloodNode& node, SimHosts& hosts) { return scan(node, hosts, 8, 10'000); }});

  add({.name = "A5-macs",
       .what = "the same from 10,000 forged MAC addresses",
       .config = {.links = 8},
       .limits = many_senders,
       .make = [](FloodNode& node, SimHosts& hosts) {
         return scan(node, hosts, 8, 10'000, 10'000);
       }});

  // MADs.
  const Limits mads{.growth = std::size_t{10} << 20};
  for (const auto& [name, kind] :
       std::array<std::pair<const char*, MadKind>, 7>{{{"A6-class", MadKind::kUnknownClass},
                                                       {"A6-get", MadKind::kGet},
                                                       {"A6-table", MadKind::kGetTable},
                                                       {"A6-req", MadKind::kReq},
                                                       {"A6-rej", MadKind::kRej},
                                                       {"A6-dreq", MadKind::kDreq},
                                                       {"A6-sidr", MadKind::kSidrReq}}}) {
    add({.name = name,
         .what = mad_text(kind),
         .rate = 500'000,
         .short_rate = 200'000,
         .config = {.connected = true},
         .limits = mads,
         .make = [k = kind](FloodNode& node, SimHosts&) { return mads_of(node, k); }});
  }

  // Requests for connections.
  Limits connections{.peers = 100};
  const FloodNodeConfig slow{.connected = true, .queue_pair_cost = 1ms};
  add({.name = "A7",
       .what = "acceptable REQs of strangers, 1 ms for each queue pair",
       .rate = 5'000,
       .short_rate = 5'000,
       .config = slow,
       .peers = true,
       .limits = connections,
       .make = [](FloodNode& node, SimHosts&) { return requests(node, Names::kMadeUp); }});
  add({.name = "A7-known",
       .what = "such REQs in ever new names of ports that the administrator knows",
       .rate = 5'000,
       .short_rate = 5'000,
       .config = slow,
       .peers = true,
       .limits = connections,
       .make = [](FloodNode& node, SimHosts&) { return requests(node, Names::kOwn); }});
  Limits stolen = connections;
  stolen.peers = 0;
  stolen.connections = 0;
  add({.name = "A9",
       .what = "REQs of one port in the names of established neighbours",
       .rate = 5'000,
       .short_rate = 5'000,
       .config = {.connected = true},
       .limits = stolen,
       .make = [](FloodNode& node, SimHosts&) { return requests(node, Names::kOfOthers); }});
  Limits forged = connections;
  forged.connected = 100;
  forged.least_connections = 20;
  add({.name = "A9-cm",
       .what = "messages of all kinds with the IDs of honest connections, from other ports",
       .rate = 50'000,
       .short_rate = 20'000,
       .config = {.connected = true},
       .peers = true,
       .connected_hosts = true,
       .limits = forged,
       .make = [](FloodNode& node, SimHosts&) { return forged_messages(node); }});
  Limits on_connections{.connected = 100};
  on_connections.least_connections = 4096;
  add({.name = "A8",
       .what = "messages that never end, on 4,096 connections with a path MTU of 256",
       .rate = 100'000,
       .short_rate = 50'000,
       .config = {.connected = true, .max_connections = kConnections},
       .connected_hosts = true,
       .limits = on_connections,
       .make = half_messages});
  on_connections.least_connections = 256;
  for (const auto& [name, retry] :
       std::array<std::pair<const char*, std::uint8_t>, 2>{{{"A8-rnr", 6}, {"A8-rnr7", 7}}}) {
    add({.name = name,
         .what = retry == 7 ? "the same, if the node repeats packets for ever"
                            : "packets to 256 hosts that answer each packet on a connection by RNR",
         .config = {.connected = true, .rnr_retry = retry},
         .connected_hosts = true,
         .limits = on_connections,
         .make = never_ready});
  }

  // Packets that the node answers.
  const Limits answers{.resolved = 99, .reports = 100, .too_big = 100};
  const auto answered = [&](const char* name, const char* what, auto make) {
    add({.name = name,
         .what = what,
         .rate = 1'000'000,
         .short_rate = 300'000,
         .config = {.multicast_router = true},
         .reports = true,
         .long_packets = true,
         .limits = answers,
         .make = make});
  };
  answered("A10-ping", "pings of one host to the node", ping_of_one);
  answered("A10-udp", "UDP of one host to the node", udp_of_one);
  answered("A10-ttl", "packets with a TTL of 1 of a million senders", ttl_of_many);
  answered("A13-ping", "pings in the names of a million hosts, present and absent", ping_of_many);
  answered("A13-udp", "UDP in the names of a million hosts, present and absent", udp_of_many);
  add({.name = "A11",
       .what = "IGMPv3 of one host, 180 records a packet, 10,000 groups",
       .rate = 5'000,
       .short_rate = 5'000,
       .config = {.multicast_router = true},
       .reports = true,
       .limits = {.reports = 100},
       .make = igmp_of_one});
  return all;
}

}  // namespace

std::span<const Row> rows() {
  static const std::vector<Row> all = make_rows();
  return all;
}

}  // namespace ipoib::flood
