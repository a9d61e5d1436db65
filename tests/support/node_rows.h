// SPDX-License-Identifier: BSD-3-Clause
// The rows of a fake node, and sample rows.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/node_totals.h"
#include "lib/wire/ipoib.h"

namespace ipoib::app {

/// Rows of the interface; `iface` empty: all.
template <class Row>
std::vector<Row> rows_of(std::string_view iface, std::vector<Row> rows) {
  std::erase_if(rows, [iface](const Row& row) { return !iface.empty() && row.iface != iface; });
  return rows;
}

/// A node with one HCA, one link and one port. Only its configuration is filled.
struct NodeRows {
  NodeRows() {
    mgmt::HcaConfig hca;
    hca.name = "soft0";
    hca.wire = "net_memif0";
    hca.guid = 0x0002'c903'000a'0b01;
    hca.lid = 1;
    mgmt::LinkConfigEntry link;
    link.name = "ib0";
    link.hca = "soft0";
    link.addresses = {*wire::parse_prefix("10.0.0.1/24")};
    mgmt::PortConfig port;
    port.name = "eth0";
    port.device = "net_tap0";
    config.hcas = {hca};
    config.links = {link};
    config.ports = {port};
    forward.burst = config.worker.burst;
    stats[0].name = port.name;
    stats[1].name = link.name;
  }

  [[nodiscard]] std::optional<link::NeighbourInfo> neighbour(const wire::IpAddr& addr) const {
    for (const auto& n : neighbours)
      if (n.addr == addr) return n;
    return std::nullopt;
  }
  [[nodiscard]] std::vector<mgmt::RouteInfo> routes_after(
      const std::optional<wire::IpPrefix>& after, std::size_t most) const {
    auto left = routes;
    std::erase_if(left, [&after](const auto& r) { return after && !(*after < r.to); });
    left.resize(std::min(left.size(), most));
    return left;
  }
  [[nodiscard]] std::vector<mgmt::Xstat> xstats_of(std::string_view name) const {
    const auto found = xstats.find(name);
    return found == xstats.end() ? std::vector<mgmt::Xstat>{} : found->second;
  }

  mgmt::NodeConfig config;
  mgmt::ForwardInfo forward;
  std::vector<mgmt::LinkInfo> links;
  std::vector<mgmt::EthernetPortInfo> ports;
  std::vector<mgmt::HcaInfo> hcas;
  std::vector<link::NeighbourInfo> neighbours;
  std::vector<mgmt::RouteInfo> routes;
  std::vector<link::GroupInfo> groups;
  std::vector<link::ConnectionInfo> connections;
  std::vector<mgmt::QuerierInfo> queriers;
  std::vector<mgmt::MulticastRouteInfo> mroutes;
  std::vector<mgmt::FilterInfo> filters;
  std::vector<link::SharedGroupInfo> shared_groups;
  mgmt::LinuxInfo linux_plane;
  std::vector<mgmt::ProxyInfo> proxies;
  std::vector<mgmt::SaInfo> sa;
  std::vector<mgmt::WorkerInfo> workers;
  std::vector<std::uint64_t> worker_loops;
  unsigned loops_asked = 0;  ///< Queries of worker_loops.
  std::vector<mgmt::InterfaceStatsInfo> stats{2};
  std::map<std::string, std::vector<mgmt::Xstat>, std::less<>> xstats;
  mgmt::NodeTotals totals;
  mgmt::ManagementInfo management;
  mgmt::LatencyInfo latency;
  mgmt::CaptureInfo capture;
  std::vector<mgmt::DropInfo> drops;
};

/// Totals since the start. They exceed the visible counters, which were cleared since.
inline mgmt::NodeTotals totals_of(const NodeRows& rows) {
  mgmt::NodeTotals t;
  t.uptime = std::chrono::seconds(90);
  t.tsc_hz = 2'000'000'000;
  t.mbufs = 4096;
  t.mbufs_free = 4000;
  t.reserve_mbufs = 64;
  mgmt::InterfaceTotals ib0;
  ib0.name = "ib0";
  ib0.state = link::State::kUp;
  ib0.mtu = 2044;
  ib0.speed_bps = 10'000'000'000;
  ib0.traffic = rows.links[0].traffic;
  ib0.traffic.rx_packets += 100;
  ib0.neighbours[static_cast<std::size_t>(link::NeighbourPhase::kReachable)] = 1;
  ib0.groups = {{"member", 1}};
  ib0.membership = {{"reports_sent", 8}};
  mgmt::InterfaceTotals eth0;
  eth0.name = "eth0";
  eth0.place = mgmt::Place::kPort;
  eth0.state = link::State::kDown;
  eth0.mtu = 1500;
  eth0.errors = {1, 2, 3};
  t.interfaces = {ib0, eth0};
  t.queues = {{"ib0", 0, 0, ib0.traffic.rx_packets, 0, 0, 0}, {"eth0", 1, 3, 0, 21, 0, 2100}};
  mgmt::HcaTotals soft0;
  soft0.name = "soft0";
  soft0.drops[static_cast<std::size_t>(Drop::kIbPkey)] = 12;
  soft0.client.sent = 9;
  soft0.mads = {{"sent", 12}};
  soft0.administrator = true;
  soft0.smps.sent = 5;
  soft0.groups = 4;
  t.hcas = {soft0};
  t.workers = rows.workers;
  t.workers[0].busy_cycles = 3'000'000'000;
  t.workers[0].cycles = 180'000'000'000;
  t.workers[0].rx_packets = 70;
  t.workers[0].bursts = {5, 4, 3, 0, 0, 0, 0, 1};
  t.routes = {{"connected", 1}, {"static", 2}};
  t.multicast_routes = 1;
  return t;
}

/// Adds one row of each kind.
inline void fill(NodeRows& rows) {
  rows.filters = {
      {.number = 1,
       .config = {"eth0",
                  {.source = *wire::parse_prefix("10.9.0.0/16"),
                   .protocol = 6,
                   .destination_ports = fwd::PortRange{20, 22}}},
       .packets = 14,
       .active = true},
      {.number = 2,
       .config = {
           "", {.direction = fwd::FilterDirection::kOut, .action = fwd::FilterAction::kAccept}}}};
  mgmt::LinkInfo link;
  link.name = "ib0";
  link.state = "up";
  link.hca = "soft0";
  link.lid = 1;
  link.gid = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'000a'0b01);
  link.qpn = 0x4a7;
  link.pkey = 0xffff;
  link.mtu = 2044;
  link.mode = "datagram";
  link.dialect = "rfc4391";
  link.parameters.broadcast_mgid = wire::broadcast_mgid(0xffff, 2);
  link.parameters.broadcast_mlid = 0xc000;
  link.parameters.qkey = 0x8001'0b1b;
  link.parameters.rate = 3;
  link.counters.joins_sent = 2;
  link.counters.nd.invalid = 4;
  link.counters.nd.errors.back() = 3;
  link.counters.path_records_refused = 4;
  link.counters.paths_left = 3;
  link.counters.paths_refused = 6;
  link.counters.path_claims_refused = 7;
  link.counters.sidr.errors[static_cast<std::size_t>(wire::IbarpError::kDlid)] = 2;
  link.addresses = {*wire::parse_prefix("10.0.0.1/24")};
  link.traffic.rx_packets = 7;
  link.traffic.drops[static_cast<std::size_t>(Drop::kIpNoRoute)] = 5;
  rows.links = {link};

  link::ConnectionInfo connection;
  connection.handle = 0x8000'0007;
  connection.iface = "ib0";
  connection.neighbours = {*wire::parse_ip("10.0.0.2")};
  connection.state = "established";
  connection.sending = true;
  connection.mtu = 65'520;
  connection.queue.counters.tx_messages = 12;
  rows.connections = {connection};

  mgmt::EthernetPortInfo port;
  port.name = "eth0";
  port.device = "net_tap0";
  port.driver = "net_tap";
  port.state = "up";
  port.mac = *wire::parse_mac("02:00:00:00:00:01");
  port.mtu = 1500;
  port.capabilities = {
      .max_segments = 8, .multicast = fabric::MulticastFilter::kGroups, .removal_events = true};
  port.ip6 = {{{*wire::parse_prefix("fe80::1/64"), link::AddressState::kDuplicate,
                "02:00:00:00:00:09 has it"}},
              2044,
              ""};
  rows.ports = {port};

  mgmt::HcaInfo hca;
  hca.name = "soft0";
  hca.driver = "soft";
  hca.wire = "net_memif0";
  hca.attr.guid = 0x0002'c903'000a'0b01;
  hca.attr.lid = 1;
  hca.attr.sm_lid = 1;
  hca.attr.pkeys = {0xffff, 0x8001};
  hca.subnet_administrator = true;
  hca.capabilities = {.max_segments = fabric::kAnySegments,
                      .receives_chains = true,
                      .multicast = fabric::MulticastFilter::kGroups};
  hca.cm.sent[wire::index_of(wire::CmAttr::kReq)] = 3;
  hca.cm.sidr_refused = 5;
  rows.hcas = {hca};

  link::NeighbourInfo neighbour;
  neighbour.addr = *wire::parse_ip("10.0.0.2");
  neighbour.iface = "ib0";
  neighbour.lladdr = "00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:02";
  neighbour.phase = link::NeighbourPhase::kReachable;
  neighbour.qpn = 0x4a7;
  neighbour.lid = 2;
  neighbour.mtu = 2044;
  neighbour.age = std::chrono::milliseconds(1500);
  rows.neighbours = {neighbour};

  // In the order of a real node.
  rows.routes = {{*wire::parse_prefix("10.0.0.0/24"), "connected", "ib0", {}},
                 {*wire::parse_prefix("172.16.0.0/12"), "static", "", {}, {}, {}, "blackhole"},
                 {*wire::parse_prefix("192.168.2.0/24"),
                  "static",
                  "ib0",
                  {*wire::parse_ip("10.0.0.2"), *wire::parse_ip("10.0.0.3")},
                  {*wire::parse_ip("10.0.0.3")}},
                 {*wire::parse_prefix("192.168.2.0/24"),
                  "kernel",
                  "ib0",
                  {*wire::parse_ip("10.0.0.4"), *wire::parse_ip("fe80::5")},
                  {},
                  {3, 1},
                  "forward",
                  20,
                  false}};

  rows.queriers = {
      {"ib0", true, wire::IpAddr::v4(0x0a00'0001), "other", "other", std::chrono::seconds(3)},
      {"ib0", false, std::nullopt, "none", "listening"}};
  rows.groups = {
      {*wire::parse_ip("239.1.1.1"), "ib0", "ff12:401b:ffff::f01:101", 0xc003, 1, "member"}};
  rows.groups[0].worker = 2;
  rows.mroutes = {{*wire::parse_ip("239.1.1.1"),
                   {},
                   "eth0",
                   {"ib0"},
                   {"ib1"},
                   true,
                   "static",
                   std::chrono::milliseconds(250)}};

  mgmt::WorkerInfo worker;
  worker.lcore = 1;
  worker.interfaces = {"ib0", "eth0"};
  worker.loops = 100;
  worker.table_octets = 8192;
  worker.connections = 3;
  rows.workers = {worker};

  rows.drops = {{Drop::kIpNoRoute, "ib0", 5}, {Drop::kIbPkey, "soft0", 12}};

  rows.xstats["ib0"] = {{"rx_good_packets", 7}, {"rx_drop_ip_no_route", 5}};

  rows.totals = totals_of(rows);

  mgmt::SaInfo sa;
  sa.hca = "soft0";
  sa.sm_lid = 1;
  sa.client.sent = 9;
  sa.mads = {{"sent", 12}, {"undeliverable", 1}};
  sa.administrator = true;
  sa.smps = {.sent = 5, .resent = 1, .answered = 3, .silent = 1};
  sa.groups = {
      {wire::broadcast_mgid(0xffff, 2), 0xc000, 0xffff, 0x8001'0b1b, 2048, {{link.gid, 1}}}};
  sa.ports = {{link.gid, 1}};
  rows.sa = {sa};
}

}  // namespace ipoib::app
