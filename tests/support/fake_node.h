// SPDX-License-Identifier: BSD-3-Clause
// Fakes of a node's faces: they show rows, which tests change at will, and record requests.
#pragma once

#include "lib/fwd/generator.h"
#include "lib/mgmt/management_loop.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/node_faces.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_view.h"
#include "lib/mgmt/test_traffic.h"
#include "tests/support/fake_trace.h"
#include "tests/support/requests.h"

namespace ipoib::app {

struct FakeView final : mgmt::NodeView, Fake {
  using Fake::Fake;
  const mgmt::NodeConfig& config() const override { return rows.config; }
  mgmt::ForwardInfo forward_info() const override { return rows.forward; }
  std::vector<mgmt::LinkInfo> links() const override { return rows.links; }
  std::vector<mgmt::EthernetPortInfo> ports() const override { return rows.ports; }
  std::vector<mgmt::HcaInfo> hcas() const override { return rows.hcas; }
  std::vector<mgmt::NeighbourKey> neighbour_keys(Text iface) const override {
    std::vector<mgmt::NeighbourKey> keys;
    for (const auto& n : rows_of(iface, rows.neighbours)) keys.push_back({0, n.addr});
    return keys;
  }
  std::optional<link::NeighbourInfo> neighbour(const mgmt::NeighbourKey& key) const override {
    return rows.neighbour(key.addr);
  }
  std::vector<mgmt::RouteInfo> routes(const std::optional<wire::IpPrefix>& after,
                                      std::size_t most) const override {
    return rows.routes_after(after, most);
  }
  std::vector<link::ConnectionInfo> connections(Text iface) const override {
    return rows_of(iface, rows.connections);
  }
  std::vector<link::GroupInfo> groups(Text i) const override { return rows_of(i, rows.groups); }
  std::vector<mgmt::QuerierInfo> queriers(Text i) const override {
    return rows_of(i, rows.queriers);
  }
  std::vector<mgmt::MulticastRouteInfo> multicast_routes() const override { return rows.mroutes; }
  std::vector<mgmt::FilterInfo> filters() const override { return rows.filters; }
  std::vector<mgmt::SaInfo> subnet_administration() const override { return rows.sa; }
  std::vector<link::SharedGroupInfo> shared_groups(Text i) const override {
    return rows_of(i, rows.shared_groups);
  }
  mgmt::LinuxInfo linux_plane() const override { return rows.linux_plane; }
  std::vector<mgmt::ProxyInfo> proxies() const override { return rows.proxies; }
  mgmt::CaptureInfo capture() const override { return rows.capture; }
};

struct FakeStats final : mgmt::NodeStats, Fake {
  using Fake::Fake;
  std::vector<mgmt::WorkerInfo> workers() const override { return rows.workers; }
  std::vector<std::uint64_t> worker_loops() const override {
    return ++rows.loops_asked, rows.worker_loops;
  }
  std::vector<mgmt::DropInfo> drops() const override { return rows.drops; }
  mgmt::ManagementInfo management() const override { return rows.management; }
  mgmt::LatencyInfo latency() const override { return rows.latency; }
  std::vector<mgmt::InterfaceStatsInfo> port_stats() override { return rows.stats; }
  std::vector<mgmt::InterfaceStatsInfo> forward_stats() const override { return rows.stats; }
  mgmt::IcmpErrorCounters icmp_errors() const override { return rows.totals.icmp_errors; }
  mgmt::NodeTotals totals() const override { return rows.totals; }
  std::vector<mgmt::Xstat> xstats(Text name) const override { return rows.xstats_of(name); }
  void clear_stats() override { note("clear"); }
  void clear_forward_stats() override { note("clear fwd"); }
  void clear_port_stats(Text name) override { note("clear port", Name{name}); }
  void clear_latency() override { note("clear latency"); }
};

struct FakeControl final : mgmt::NodeControl, Fake {
  using Fake::Fake;
  using Entry = mgmt::NeighbourEntryConfig;
  using Mroute = mgmt::MulticastRouteConfig;
  void set_forwarding(bool on) override { rows.forward.forwarding = on; }
  Status set_draining(bool on) override { return note("node", on ? "drain" : "undrain"); }
  Status set_interface_up(Text n, bool up) override { return note(n, up ? "up" : "down"); }
  Status set_port_started(Text n, bool on) override { return note(n, on ? "started" : "stopped"); }
  Status set_mtu(Text name, std::uint16_t mtu) override { return note(name, "mtu", mtu); }
  Status set_queues(Text link, unsigned n) override { return note(link, "queues", n); }
  Status set_promiscuous(Text n, bool on) override { return note(n, "promiscuous", on); }
  Status change_hca(Text n, const fabric::PortChange& c) override { return note("hca", n, c); }
  Status add_address(Text i, const wire::IpPrefix& a) override { return note("address add", i, a); }
  Status remove_address(Text i, const wire::IpPrefix& a) override {
    return note("address del", i, a);
  }
  Status add_neighbour(const Entry& e) override { return note("neigh add", e); }
  Status remove_neighbour(Text i, const Addr& a) override { return note("neigh del", i, a); }
  Status flush_neighbours(Text i) override { return note("neigh flush", Name{i}); }
  Status join_group(Text iface, const Addr& group) override { return note("join", iface, group); }
  Status leave_group(Text iface, const Addr& group) override { return note("leave", iface, group); }
  Status close_connection(Text l, cm::Handle c) override { return note("close", l, c); }
  Status add_route(const mgmt::RouteConfig& r) override { return note("route add", r); }
  Status remove_route(const wire::IpPrefix& to) override { return note("route del", to); }
  Status add_multicast_route(const Mroute& r) override { return note("mroute add", r); }
  Status remove_multicast_route(const Mroute& r) override { return note("mroute del", r); }
  Status add_filter(const mgmt::FilterConfig& f, std::optional<std::size_t> number) override {
    return note("filter add", f, "at", number.value_or(0));
  }
  Status remove_filter(std::size_t number) override { return note("filter del", number); }
  Status set_source_check(Text n, fwd::SourceCheck check) override {
    return note(n, "source-check", static_cast<int>(check));
  }
  Status set_directed_broadcast(Text n, fwd::DirectedBroadcast which) override {
    return note(n, "directed-broadcast", static_cast<int>(which));
  }
  Status capture_start(const mgmt::CaptureRequest& r) override {
    return note("capture", r.file, "limit", r.max_octets, "frames", r.max_frames,
                r.replace ? "replace" : "new");
  }
  Result<mgmt::CaptureInfo> capture_stop() override {
    return note("capture stop").map([this] { return rows.capture; });
  }
};

struct FakeTraffic final : mgmt::TestTraffic, Fake {
  using Fake::Fake;
  void set_forward_mode(mgmt::ForwardMode m) override { rows.config.mode = rows.forward.mode = m; }
  Status set_generator(const mgmt::GeneratorConfig& g) override {
    auto checked = fwd::Generator::check(g);
    if (checked) rows.config.generator = g;
    return checked;
  }
  void send_first(unsigned bursts) override { note("first", bursts); }
  void set_burst(unsigned n) override { rows.config.worker.burst = rows.forward.burst = n; }
};

struct FakeNode {
  void run() {
    for (; !loop.stop_requested(); loop.events().wait(std::chrono::milliseconds(1)))
      loop.run_tasks();
  }
  NodeRows rows;
  Requests requests;
  std::unique_ptr<mgmt::ManagementLoop> own_loop = std::move(*mgmt::ManagementLoop::create());
  mgmt::ManagementLoop& loop = *own_loop;
  FakeView view{rows, requests};
  FakeStats stats{rows, requests};
  FakeControl control{rows, requests};
  FakeTraffic traffic{rows, requests};
  FakeTrace trace;
  const mgmt::NodeFaces faces{loop, view, stats, control, traffic, trace};
};

}  // namespace ipoib::app
