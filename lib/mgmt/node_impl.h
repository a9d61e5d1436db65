// SPDX-License-Identifier: BSD-3-Clause
// The implementation of node.h. Setup, loop, queries and requests have a file each.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/doorbell.h"
#include "lib/fwd/generator.h"
#include "lib/fwd/worker_config.h"
#include "lib/mgmt/address_book.h"
#include "lib/mgmt/buffers.h"
#include "lib/mgmt/capture.h"
#include "lib/mgmt/instances.h"
#include "lib/mgmt/interface_table.h"
#include "lib/mgmt/multicast_wiring.h"
#include "lib/mgmt/neighbour_directory.h"
#include "lib/mgmt/node.h"
#include "lib/mgmt/node_totals.h"
#include "lib/mgmt/packet_balance.h"
#include "lib/mgmt/punt_handler.h"
#include "lib/mgmt/route_writer.h"
#include "lib/mgmt/stepped_node.h"
#include "lib/mgmt/worker_retirement.h"
#include "lib/mgmt/worker_set.h"

namespace ipoib::mgmt {

struct RingDeleter {
  void operator()(rte_ring* ring) const;
};
struct QsbrDeleter {
  void operator()(rte_rcu_qsbr* rcu) const;
};

void add_drops(std::array<std::uint64_t, kDropCount>& sum, const DropCounters& drops);
[[nodiscard]] tl::unexpected<Error> no_interface(std::string_view name);
/// Name of a kind in RouteInfo::kind.
[[nodiscard]] std::string_view kind_name(route::RouteKind kind);

class NodeImpl final : public Node {
 public:
  NodeImpl(const NodeConfig& config, const NodeLcores& lcores, HcaFactory make_hca, TscClock tsc,
           unsigned instance);
  ~NodeImpl() override;

  Status set_up();

  void run() override;
  // Parts of run(), which SteppedNode also uses.
  void start();
  void run_once();
  void begin_to_leave();
  /// True if every interface is stopped and every communication manager has settled its
  /// connections.
  [[nodiscard]] bool has_left() const;
  [[nodiscard]] TimePoint now() const;
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] TimePoint next_wake(TimePoint t) const;
  [[nodiscard]] bool work_waiting() const;
  // node_totals.cc
  [[nodiscard]] PacketBalance packet_balance() const;
  [[nodiscard]] Unfinished unfinished() const;
  std::uint32_t iterate(unsigned worker) { return workers_.all()[worker].worker->iterate(tsc_()); }

  void request_stop() override;
  void on_stop(std::function<void()> hook) override { stop_hook_ = std::move(hook); }
  void post(std::function<void()> task) override;
  EventLoop& events() override {
    expects_own_lcore();
    return *events_;
  }

  void set_forwarding(bool on) override;
  bool forwarding() const override;
  void set_forward_mode(ForwardMode mode) override;
  ForwardMode forward_mode() const override;
  Status set_generator(const GeneratorConfig& generator) override;
  void send_first(unsigned bursts) override;
  void set_burst(unsigned packets) override;
  ForwardInfo forward_info() const override;

  const NodeConfig& config() const override {
    expects_own_lcore();
    return config_;
  }
  std::vector<LinkInfo> links() const override;
  std::vector<PortInfo> ports() const override;
  std::vector<HcaInfo> hcas() const override;
  std::vector<NeighbourKey> neighbour_keys(std::string_view iface) const override;
  std::optional<link::NeighbourInfo> neighbour(const NeighbourKey& key) const override;
  std::vector<RouteInfo> routes(const std::optional<wire::IpPrefix>& after,
                                std::size_t max_rows) const override;
  std::vector<link::ConnectionInfo> connections(std::string_view link) const override;
  std::vector<link::GroupInfo> groups(std::string_view iface) const override;
  std::vector<MulticastRouteInfo> multicast_routes() const override;
  std::vector<WorkerInfo> workers() const override;
  std::vector<std::uint64_t> worker_loops() const override;
  std::vector<DropInfo> drops() const override;
  std::vector<SaInfo> subnet_administration() const override;
  LatencyInfo latency() const override;
  NodeTotals totals() const override;
  std::vector<InterfaceStatsInfo> port_stats() override;
  std::vector<InterfaceStatsInfo> forward_stats() const override;
  std::vector<Xstat> xstats(std::string_view name) const override;
  void clear_stats() override;
  void clear_forward_stats() override;
  void clear_port_stats(std::string_view name) override;
  void clear_latency() override;

  Status add_neighbour(const NeighbourEntryConfig& entry) override;
  Status remove_neighbour(std::string_view iface, const wire::IpAddr& addr) override;
  Status flush_neighbours(std::string_view iface) override;
  Status add_route(const RouteConfig& route) override;
  Status remove_route(const wire::IpPrefix& to) override;
  Status join_group(std::string_view iface, const wire::IpAddr& group) override;
  Status leave_group(std::string_view iface, const wire::IpAddr& group) override;
  Status close_connection(std::string_view link, cm::Handle connection) override;
  Status add_multicast_route(const MulticastRouteConfig& route) override;
  Status remove_multicast_route(const MulticastRouteConfig& route) override;
  Status set_interface_up(std::string_view name, bool up) override;
  Status set_port_started(std::string_view name, bool on) override;
  Status set_mtu(std::string_view name, std::uint16_t mtu) override;
  Status set_promiscuous(std::string_view port, bool on) override;
  Status change_hca(std::string_view name, const fabric::PortChange& change) override;

  Status capture_start(const std::string& path, std::uint64_t limit) override;
  Result<std::uint64_t> capture_stop() override;

 private:
  using DropArray = std::array<std::uint64_t, kDropCount>;
  /// Checks the rule of class Node: while run() runs, its thread is the management lcore.
  [[gnu::always_inline]] void expects_own_lcore() const {
    expects_management();
    expects([this] { return runner_.is({}) || runner_.is(std::this_thread::get_id()); },
            "the node is asked by its own thread");
  }
  /// Totals at the last clear_stats().
  struct Baseline {
    std::vector<TrafficInfo> interfaces;
    std::vector<DropArray> hcas;
    std::vector<WorkerInfo> workers;
    DropArray local{};
    std::vector<DeviceStats> ports;
    std::vector<std::vector<Xstat>> port_xstats;
    std::vector<std::vector<Xstat>> ethdev_xstats;
  };

  // node_setup.cc
  Status create_tables();
  void create_routing();
  Status create_buffers();
  Status create_ports();
  Status create_hcas();
  Status create_links();
  Status create_workers();
  Status connect_workers();
  Status add_groups();
  Status add_address(table::InterfaceId iface, const wire::IpPrefix& address);
  Status add_routes();
  /// NUMA node of a worker's lcore.
  [[nodiscard]] int socket_of(unsigned worker) const;
  /// EAL-wide name of a ring, pool or table of this node.
  [[nodiscard]] std::string object_name(std::string_view what) const;
  [[nodiscard]] unsigned mbuf_size() const;
  /// Numbers for the neighbours of all interfaces together.
  [[nodiscard]] std::uint32_t neighbour_capacity() const;

  // node_ports.cc
  [[nodiscard]] PortInstance* port_named(std::string_view name);
  Status stop_device(PortInstance& port);
  Status start_device(PortInstance& port);
  Status raise_port_mtu(PortInstance& port, std::uint16_t mtu);
  void leave_device_alone(PortInstance& port);
  /// Closes devices that were taken away. Called periodically.
  void check_removals();

  // node_run.cc
  Status launch_workers();
  void bring_up(link::Interface& control);
  void run_tasks();
  void handle_port_events(TimePoint now);
  void handle_punts();
  void set_time(TimePoint t);
  void run_timers();
  void publish_interfaces();
  void sleep();
  void shut_down();
  void stop_workers();

  // node_info.cc
  [[nodiscard]] TrafficInfo total_traffic(table::InterfaceId id) const;
  [[nodiscard]] TrafficInfo traffic(table::InterfaceId id) const;
  [[nodiscard]] TrafficInfo traffic_since(table::InterfaceId id,
                                          const std::vector<TrafficInfo>& from) const;
  [[nodiscard]] std::vector<TrafficInfo> total_traffics() const;
  [[nodiscard]] DropArray total_local_drops() const;
  [[nodiscard]] WorkerInfo total_work(std::size_t worker) const;
  [[nodiscard]] std::string name_of(table::InterfaceId id) const;

  // node_stats.cc
  void add_device_stats(std::vector<InterfaceStatsInfo>& rows) const;

  // node_totals.cc
  [[nodiscard]] InterfaceTotals interface_totals(const InterfaceSlot& slot) const;
  [[nodiscard]] static HcaTotals hca_totals(const HcaInstance& hca);
  [[nodiscard]] LatencyTotals total_latency() const;

  // node_generate.cc
  Status publish_generator();
  /// Adapts the generator to the speed of the exit, and starts waiting first bursts once the exit
  /// is up. Called periodically.
  void update_test_egress();
  [[nodiscard]] table::InterfaceId test_egress() const;
  [[nodiscard]] std::uint64_t speed_bps(table::InterfaceId id) const;

  NodeConfig config_;
  NodeLcores lcores_;
  HcaFactory make_hca_;
  TscClock tsc_;
  unsigned instance_;        ///< Part of the names of this node's rings, pools and tables.
  std::uint64_t epoch_tsc_;  ///< TimePoint 0 of this process, for management and workers alike.
  std::unique_ptr<EventLoop> events_;

  Buffers buffers_;
  std::unique_ptr<rte_rcu_qsbr, QsbrDeleter> rcu_;
  table::NextHopTable next_hops_;
  table::OwnAddresses own_addresses_;
  std::unique_ptr<table::PrefixTable> prefixes_;
  std::unique_ptr<table::Prefix6Table> prefixes6_;
  fwd::Settings settings_;
  Doorbell doorbell_;

  InterfaceTable interfaces_;
  WorkerSet workers_;
  std::unique_ptr<WorkerRetirement> retirement_;
  std::unique_ptr<PuntHandler> punt_;
  std::unique_ptr<NeighbourDirectory> neighbours_;
  std::unique_ptr<MulticastWiring> multicast_;
  std::unique_ptr<AddressBook> addresses_;
  std::vector<std::unique_ptr<PortInstance>> ports_;
  std::vector<std::unique_ptr<HcaInstance>> hcas_;
  std::vector<std::unique_ptr<LinkInstance>> links_;
  std::unique_ptr<RouteWriter> route_writer_;
  std::unique_ptr<route::RouteTable> routes_;
  std::vector<fwd::InterfaceEntry> entries_;  ///< Interface state for workers; sized once.
  std::vector<std::unique_ptr<rte_ring, RingDeleter>> handoff_rings_;
  Capture capture_;
  TimePoint next_carrier_check_{};
  Baseline baseline_;
  std::vector<TrafficInfo> forward_baseline_;  ///< Baseline of forward_stats(); by InterfaceId.
  std::vector<TrafficInfo> port_shown_;        ///< Totals at the last port_stats(); by InterfaceId.
  TimePoint port_shown_at_{};
  LatencyTotals latency_baseline_;  ///< Totals at the last clear_latency().

  std::uint32_t run_id_;  ///< Identifies time stamps of this process; its low octet is 0.
  std::unique_ptr<const fwd::Generator> generator_;
  std::uint64_t generator_bps_ = 0;  ///< Speed of the egress that generator_ was made for.
  unsigned first_bursts_ = 0;        ///< Bursts that wait until the egress is up.
  fabric::Retired<std::unique_ptr<const fwd::Generator>> old_generators_;

  [[no_unique_address]] ForChecks<std::thread::id> runner_;  ///< Thread of run(), while that runs.
  std::function<void()> stop_hook_;
  std::atomic<bool> stop_requested_{false};
  std::mutex tasks_mutex_;
  std::vector<std::function<void()>> tasks_;  ///< Guarded by tasks_mutex_.
};

}  // namespace ipoib::mgmt
