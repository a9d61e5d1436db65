// SPDX-License-Identifier: BSD-3-Clause
// A node without devices: tests supply its rows, and it records requests as lines.
#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "lib/fwd/generator.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {

class FakeNode : public mgmt::Node {
 public:
  FakeNode() : events_{std::move(*mgmt::EventLoop::create())} {
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
    config_.hcas = {hca};
    config_.links = {link};
    config_.ports = {port};
    stats_[0].name = port.name;
    stats_[1].name = link.name;
  }

  void run() override {
    while (!stopped_) {
      std::function<void()> task;
      {
        const std::lock_guard lock{mutex_};
        if (!tasks_.empty()) {
          task = std::move(tasks_.front());
          tasks_.pop_front();
        }
      }
      if (task) task();
      events_->wait(std::chrono::milliseconds(task ? 0 : 1));
    }
  }
  void request_stop() override { stopped_ = true; }
  void on_stop(std::function<void()> hook) override { stop_hook_ = std::move(hook); }
  void post(std::function<void()> task) override {
    const std::lock_guard lock{mutex_};
    tasks_.push_back(std::move(task));
  }
  mgmt::EventLoop& events() override { return *events_; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  void begin_to_leave() { stop_hook_(); }
  /// True if a task waits to be run.
  [[nodiscard]] bool asked() {
    const std::lock_guard lock{mutex_};
    return !tasks_.empty();
  }

  void set_forwarding(bool on) override { forwarding_ = on; }
  [[nodiscard]] bool forwarding() const override { return forwarding_; }
  void set_forward_mode(mgmt::ForwardMode mode) override { config_.mode = mode_ = mode; }
  Status set_generator(const mgmt::GeneratorConfig& generator) override {
    if (auto s = fwd::Generator::check(generator); !s) return s;
    config_.generator = generator;
    return {};
  }
  void send_first(unsigned bursts) override {
    requests_.push_back(fmt::format("first {}", bursts));
  }
  void set_burst(unsigned packets) override { config_.worker.burst = packets; }
  [[nodiscard]] mgmt::ForwardInfo forward_info() const override {
    mgmt::ForwardInfo info = forward_info_;
    info.mode = mode_;
    info.forwarding = forwarding_;
    info.burst = config_.worker.burst;
    return info;
  }
  [[nodiscard]] mgmt::LatencyInfo latency() const override { return latency_; }
  [[nodiscard]] std::vector<mgmt::InterfaceStatsInfo> port_stats() override { return stats_; }
  [[nodiscard]] std::vector<mgmt::InterfaceStatsInfo> forward_stats() const override {
    return stats_;
  }
  [[nodiscard]] mgmt::NodeTotals totals() const override { return totals_; }
  [[nodiscard]] std::vector<mgmt::Xstat> xstats(std::string_view name) const override {
    const auto found = xstats_.find(name);
    return found == xstats_.end() ? std::vector<mgmt::Xstat>{} : found->second;
  }
  void clear_port_stats(std::string_view name) override {
    requests_.push_back(fmt::format("clear port [{}]", name));
  }
  void clear_forward_stats() override { requests_.emplace_back("clear fwd"); }
  void clear_latency() override { requests_.emplace_back("clear latency"); }
  [[nodiscard]] mgmt::ForwardMode forward_mode() const override { return mode_; }

  [[nodiscard]] const mgmt::NodeConfig& config() const override { return config_; }
  [[nodiscard]] std::vector<mgmt::LinkInfo> links() const override { return links_; }
  [[nodiscard]] std::vector<mgmt::PortInfo> ports() const override { return ports_; }
  [[nodiscard]] std::vector<mgmt::HcaInfo> hcas() const override { return hcas_; }
  [[nodiscard]] std::vector<mgmt::NeighbourKey> neighbour_keys(
      std::string_view iface) const override {
    std::vector<mgmt::NeighbourKey> keys;
    for (const auto& n : neighbours_)
      if (iface.empty() || n.iface == iface) keys.push_back({0, n.addr});
    return keys;
  }
  [[nodiscard]] std::optional<link::NeighbourInfo> neighbour(
      const mgmt::NeighbourKey& key) const override {
    for (const auto& n : neighbours_)
      if (n.addr == key.addr) return n;
    return std::nullopt;
  }
  [[nodiscard]] std::vector<mgmt::RouteInfo> routes(const std::optional<wire::IpPrefix>& after,
                                                    std::size_t most) const override {
    std::vector<mgmt::RouteInfo> result;
    for (const auto& r : routes_)
      if ((!after || *after < r.to) && result.size() < most) result.push_back(r);
    return result;
  }
  [[nodiscard]] std::vector<link::ConnectionInfo> connections(
      std::string_view link) const override {
    std::vector<link::ConnectionInfo> result;
    for (const auto& c : connections_)
      if (link.empty() || c.iface == link) result.push_back(c);
    return result;
  }
  [[nodiscard]] std::vector<link::GroupInfo> groups(std::string_view iface) const override {
    std::vector<link::GroupInfo> result;
    for (const auto& g : groups_)
      if (iface.empty() || g.iface == iface) result.push_back(g);
    return result;
  }
  [[nodiscard]] std::vector<mgmt::MulticastRouteInfo> multicast_routes() const override {
    return multicast_routes_;
  }
  [[nodiscard]] std::vector<mgmt::WorkerInfo> workers() const override { return workers_; }
  [[nodiscard]] std::vector<std::uint64_t> worker_loops() const override {
    ++loops_asked_;
    return worker_loops_;
  }
  [[nodiscard]] std::vector<mgmt::DropInfo> drops() const override { return drops_; }
  [[nodiscard]] std::vector<mgmt::SaInfo> subnet_administration() const override { return sa_; }
  void clear_stats() override { requests_.emplace_back("clear"); }

  Status add_neighbour(const mgmt::NeighbourEntryConfig& e) override {
    return note(fmt::format("neigh add {} {} {} {} {}", e.iface, wire::to_string(e.addr), e.lladdr,
                            e.lid, e.sl));
  }
  Status remove_neighbour(std::string_view iface, const wire::IpAddr& addr) override {
    return note(fmt::format("neigh del {} {}", iface, wire::to_string(addr)));
  }
  Status flush_neighbours(std::string_view iface) override {
    return note(fmt::format("neigh flush [{}]", iface));
  }
  Status add_route(const mgmt::RouteConfig& route) override {
    std::string text = "route add " + wire::to_string(route.to);
    for (const auto& via : route.via) text += fmt::format(" {}", wire::to_string(via));
    if (route.blackhole) text += " blackhole";
    return note(std::move(text));
  }
  Status remove_route(const wire::IpPrefix& to) override {
    return note("route del " + wire::to_string(to));
  }
  Status join_group(std::string_view iface, const wire::IpAddr& group) override {
    return note(fmt::format("join {} {}", iface, wire::to_string(group)));
  }
  Status leave_group(std::string_view iface, const wire::IpAddr& group) override {
    return note(fmt::format("leave {} {}", iface, wire::to_string(group)));
  }
  Status close_connection(std::string_view link, cm::Handle connection) override {
    return note(fmt::format("close {} {}", link, connection));
  }
  Status add_multicast_route(const mgmt::MulticastRouteConfig& r) override {
    return note(fmt::format("mroute add {} from {} {} -> {}", wire::to_string(r.groups),
                            wire::to_string(r.source), r.in, fmt::join(r.out, " ")));
  }
  Status remove_multicast_route(const mgmt::MulticastRouteConfig& r) override {
    return note(fmt::format("mroute del {} from {} {}", wire::to_string(r.groups),
                            wire::to_string(r.source), r.in));
  }
  Status set_interface_up(std::string_view name, bool up) override {
    return note(fmt::format("{} {}", name, up ? "up" : "down"));
  }
  Status set_port_started(std::string_view name, bool on) override {
    return note(fmt::format("{} {}", name, on ? "started" : "stopped"));
  }
  Status set_mtu(std::string_view name, std::uint16_t mtu) override {
    return note(fmt::format("{} mtu {}", name, mtu));
  }
  Status set_promiscuous(std::string_view port, bool on) override {
    return note(fmt::format("{} {}", port, on ? "promiscuous" : "particular"));
  }
  Status change_hca(std::string_view name, const fabric::PortChange& c) override {
    std::string line = fmt::format("hca {}", name);
    if (c.lid) line += fmt::format(" lid {}", *c.lid);
    if (c.sm_lid) line += fmt::format(" sm-lid {}", *c.sm_lid);
    if (c.gid_prefix) line += fmt::format(" gid-prefix {:#018x}", *c.gid_prefix);
    if (c.pkeys)
      for (const auto pkey : *c.pkeys) line += fmt::format(" pkey {:#06x}", pkey);
    if (c.up) line += *c.up ? " up" : " down";
    if (c.reregister) line += " reregister";
    return note(line);
  }
  Status capture_start(const std::string& path, std::uint64_t limit) override {
    return note("capture " + path + (limit != 0 ? fmt::format(" limit {}", limit) : ""));
  }
  Result<std::uint64_t> capture_stop() override {
    if (refuse_) return fail(Errc::kUnavailable, "no capture is running");
    return 42;
  }

  std::vector<mgmt::LinkInfo> links_;
  std::vector<mgmt::PortInfo> ports_;
  std::vector<mgmt::HcaInfo> hcas_;
  std::vector<link::NeighbourInfo> neighbours_;
  std::vector<mgmt::RouteInfo> routes_;
  std::vector<link::GroupInfo> groups_;
  std::vector<link::ConnectionInfo> connections_;
  std::vector<mgmt::MulticastRouteInfo> multicast_routes_;
  std::vector<mgmt::WorkerInfo> workers_;
  std::vector<std::uint64_t> worker_loops_;
  mutable unsigned loops_asked_ = 0;  ///< Calls of worker_loops().
  std::vector<mgmt::InterfaceStatsInfo> stats_{2};
  std::map<std::string, std::vector<mgmt::Xstat>, std::less<>> xstats_;
  mgmt::NodeTotals totals_;
  mgmt::ForwardInfo forward_info_;
  mgmt::LatencyInfo latency_;
  std::vector<mgmt::DropInfo> drops_;
  std::vector<mgmt::SaInfo> sa_;
  std::vector<std::string> requests_;
  bool refuse_ = false;  ///< Requests fail.

 private:
  Status note(std::string request) {
    requests_.push_back(std::move(request));
    if (refuse_) return fail(Errc::kRefused, "refused by the test");
    return {};
  }

  std::unique_ptr<mgmt::EventLoop> events_;
  mgmt::NodeConfig config_;
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  std::atomic<bool> stopped_ = false;
  std::function<void()> stop_hook_;
  bool forwarding_ = false;
  mgmt::ForwardMode mode_ = mgmt::ForwardMode::kRoute;
};

/// Totals since the start. They exceed the visible counters, which were cleared since.
inline mgmt::NodeTotals totals_of(const FakeNode& node) {
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
  ib0.traffic = node.links_[0].traffic;
  ib0.traffic.rx_packets += 100;
  ib0.neighbours[static_cast<std::size_t>(link::NeighbourPhase::kReachable)] = 1;
  ib0.groups = {{"member", 1}};
  mgmt::InterfaceTotals eth0;
  eth0.name = "eth0";
  eth0.place = mgmt::Place::kPort;
  eth0.state = link::State::kDown;
  eth0.mtu = 1500;
  eth0.errors = {1, 2, 3};
  t.interfaces = {ib0, eth0};
  mgmt::HcaTotals soft0;
  soft0.name = "soft0";
  soft0.drops[static_cast<std::size_t>(Drop::kIbPkey)] = 12;
  soft0.client.sent = 9;
  soft0.mads = {{"sent", 12}};
  soft0.administrator = true;
  soft0.groups = 4;
  t.hcas = {soft0};
  t.workers = node.workers_;
  t.workers[0].busy_cycles = 3'000'000'000;
  t.workers[0].cycles = 180'000'000'000;
  t.workers[0].rx_packets = 70;
  t.workers[0].bursts = {5, 4, 3, 0, 0, 0, 0, 1};
  t.routes = {{"connected", 1}, {"static", 1}, {"blackhole", 1}};
  t.multicast_routes = 1;
  return t;
}

/// One row of each kind.
inline void fill(FakeNode& node) {
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
  link.addresses = {*wire::parse_prefix("10.0.0.1/24")};
  link.traffic.rx_packets = 7;
  link.traffic.drops[static_cast<std::size_t>(Drop::kIpNoRoute)] = 5;
  node.links_ = {link};

  link::ConnectionInfo connection;
  connection.handle = 0x8000'0007;
  connection.iface = "ib0";
  connection.neighbours = {*wire::parse_ip("10.0.0.2")};
  connection.state = "established";
  connection.sending = true;
  connection.mtu = 65'520;
  connection.queue.counters.tx_messages = 12;
  node.connections_ = {connection};

  mgmt::PortInfo port;
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
  node.ports_ = {port};

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
  node.hcas_ = {hca};

  link::NeighbourInfo neighbour;
  neighbour.addr = *wire::parse_ip("10.0.0.2");
  neighbour.iface = "ib0";
  neighbour.lladdr = "00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:02";
  neighbour.phase = link::NeighbourPhase::kReachable;
  neighbour.qpn = 0x4a7;
  neighbour.lid = 2;
  neighbour.mtu = 2044;
  neighbour.age = std::chrono::milliseconds(1500);
  node.neighbours_ = {neighbour};

  // In the order of a real node.
  node.routes_ = {{*wire::parse_prefix("10.0.0.0/24"), "connected", "ib0", {}},
                  {*wire::parse_prefix("172.16.0.0/12"), "blackhole", "", {}},
                  {*wire::parse_prefix("192.168.2.0/24"),
                   "static",
                   "ib0",
                   {*wire::parse_ip("10.0.0.2"), *wire::parse_ip("10.0.0.3")},
                   {*wire::parse_ip("10.0.0.3")}}};

  node.groups_ = {
      {*wire::parse_ip("239.1.1.1"), "ib0", "ff12:401b:ffff::f01:101", 0xc003, 1, "member"}};
  node.multicast_routes_ = {{*wire::parse_ip("239.1.1.1"),
                             {},
                             "eth0",
                             {"ib0"},
                             true,
                             "static",
                             std::chrono::milliseconds(250)}};

  mgmt::WorkerInfo worker;
  worker.lcore = 1;
  worker.interfaces = {"ib0", "eth0"};
  worker.loops = 100;
  node.workers_ = {worker};

  node.drops_ = {{Drop::kIpNoRoute, "ib0", 5}, {Drop::kIbPkey, "soft0", 12}};

  node.xstats_["ib0"] = {{"rx_good_packets", 7}, {"rx_drop_ip_no_route", 5}};

  node.totals_ = totals_of(node);

  mgmt::SaInfo sa;
  sa.hca = "soft0";
  sa.sm_lid = 1;
  sa.client.sent = 9;
  sa.mads = {{"sent", 12}, {"undeliverable", 1}};
  sa.administrator = true;
  sa.groups = {
      {wire::broadcast_mgid(0xffff, 2), 0xc000, 0xffff, 0x8001'0b1b, 2048, {{link.gid, 1}}}};
  sa.ports = {{link.gid, 1}};
  node.sa_ = {sa};
}

}  // namespace ipoib::app
