// SPDX-License-Identifier: BSD-3-Clause
// A node: the devices, interfaces, routes and workers of one dpdk-ipoib process, and the management
// lcore's loop that connects them. The CLI, telemetry and tests use it through this header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/doorbell.h"
#include "lib/base/result.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/retirement.h"
#include "lib/mgmt/device_stats.h"
#include "lib/mgmt/event_loop.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/node_totals.h"
#include "lib/sa/client.h"

struct rte_mempool;
struct rte_rcu_qsbr;

namespace ipoib::mgmt {

/// EAL lcore ids.
struct NodeLcores {
  unsigned management = 0;
  std::vector<unsigned> workers;  ///< At least NodeConfig::worker.count.
};

/// Resources from which a driver makes an Hca. All of them outlive the Hca.
struct HcaResources {
  std::uint16_t ethdev_port = 0;  ///< Cable of a software HCA: configured and started.
  rte_mempool* pool = nullptr;
  rte_mempool* control_pool = nullptr;  ///< For ACKs and MADs when `pool` is empty; null: none.
  std::uint32_t message_mbufs = 0;      ///< Limit of mbufs of `pool` in messages of connections.
  std::uint16_t rxd = 512, txd = 512;   ///< Descriptors of a queue.
  int worker_node = -1;                 ///< NUMA node of the worker that serves the Hca.
  rte_rcu_qsbr* qsbr = nullptr;         ///< Workers report quiescent states to it.
  fabric::Retirement* retirement = nullptr;  ///< Says when a name may be used again.
  Doorbell* doorbell = nullptr;              ///< Rung when MADs or events arrive.
};
/// Makes an Hca. Implemented by app/, which knows the drivers.
using HcaFactory = std::function<Result<std::unique_ptr<fabric::Hca>>(
    const HcaConfig& config, const HcaResources& resources)>;

/// Management lcore only, except post() and request_stop().
class Node {
 public:
  /// Sets up every device and checks the settings that only devices can confirm. Needs
  /// rte_eal_init().
  static Result<std::unique_ptr<Node>> create(const NodeConfig& config, const NodeLcores& lcores,
                                              const HcaFactory& make_hca);
  virtual ~Node() = default;

  /// Launches the workers, brings interfaces up, loops until request_stop(), then takes the
  /// interfaces down, which leaves every group and ends every connection, joins the workers and
  /// returns. Call once.
  virtual void run() = 0;
  /// Any thread, but not a signal handler.
  virtual void request_stop() = 0;
  /// Registers a callback for the beginning of shutdown, independent of its cause. Call before
  /// run().
  virtual void on_stop(std::function<void()> hook) = 0;
  /// Runs `task` on the management lcore, soon. Any thread.
  virtual void post(std::function<void()> task) = 0;
  [[nodiscard]] virtual EventLoop& events() = 0;

  virtual void set_forwarding(bool on) = 0;
  [[nodiscard]] virtual bool forwarding() const = 0;
  virtual void set_forward_mode(ForwardMode mode) = 0;
  [[nodiscard]] virtual ForwardMode forward_mode() const = 0;
  /// Sets the packets that generating forward modes send; config() has it. kInvalidArgument:
  /// fwd::Generator refuses the configuration, and the previous one stays.
  virtual Status set_generator(const GeneratorConfig& generator) = 0;
  /// Each worker sends `bursts` bursts of the generator's packets, in any mode, as soon as
  /// forwarding is on and the interface that leads to their destination is up.
  virtual void send_first(unsigned bursts) = 0;
  /// `packets`: 1 to fwd::kMaxBurst.
  virtual void set_burst(unsigned packets) = 0;
  [[nodiscard]] virtual ForwardInfo forward_info() const = 0;

  [[nodiscard]] virtual const NodeConfig& config() const = 0;
  [[nodiscard]] virtual std::vector<LinkInfo> links() const = 0;
  [[nodiscard]] virtual std::vector<PortInfo> ports() const = 0;
  [[nodiscard]] virtual std::vector<HcaInfo> hcas() const = 0;
  /// Neighbours in order of interface and address; `iface` empty: of all interfaces. There may be
  /// many thousands, so readers ask for the rows one by one with neighbour(), over as many turns of
  /// the loop as that takes.
  [[nodiscard]] virtual std::vector<NeighbourKey> neighbour_keys(std::string_view iface) const = 0;
  /// None: the neighbour is gone.
  [[nodiscard]] virtual std::optional<link::NeighbourInfo> neighbour(
      const NeighbourKey& key) const = 0;
  /// Routes in order of their prefixes: the first `max_rows` after `after`, or of all.
  [[nodiscard]] virtual std::vector<RouteInfo> routes(const std::optional<wire::IpPrefix>& after,
                                                      std::size_t max_rows) const = 0;
  /// Connections of connected mode; `link` empty: of all links.
  [[nodiscard]] virtual std::vector<link::ConnectionInfo> connections(
      std::string_view link) const = 0;
  /// Multicast groups; `iface` empty: of all interfaces.
  [[nodiscard]] virtual std::vector<link::GroupInfo> groups(std::string_view iface) const = 0;
  [[nodiscard]] virtual std::vector<MulticastRouteInfo> multicast_routes() const = 0;
  [[nodiscard]] virtual std::vector<WorkerInfo> workers() const = 0;
  /// Loops of each worker since its launch; no clear resets them. A worker whose count stands still
  /// hangs, because a worker that finds no packet, or sleeps, also loops.
  [[nodiscard]] virtual std::vector<std::uint64_t> worker_loops() const = 0;
  /// Only reasons that were counted.
  [[nodiscard]] virtual std::vector<DropInfo> drops() const = 0;
  [[nodiscard]] virtual std::vector<SaInfo> subnet_administration() const = 0;
  /// Measurements of fwd::ForwardMode::kLatency since clear_latency().
  [[nodiscard]] virtual LatencyInfo latency() const = 0;
  /// Traffic of ports and links, and the error counters of the ports' devices, since
  /// clear_port_stats(). Rates are averages since the last call.
  [[nodiscard]] virtual std::vector<InterfaceStatsInfo> port_stats() = 0;
  /// Traffic of ports and links since clear_forward_stats().
  [[nodiscard]] virtual std::vector<InterfaceStatsInfo> forward_stats() const = 0;
  /// Totals since the start, which no clear resets.
  [[nodiscard]] virtual NodeTotals totals() const = 0;
  /// Every counter of a link, port or hca (lib/mgmt/xstats.h), also those that are zero: since
  /// clear_port_stats() or, for an hca, since clear_stats(). Names and order are the same at every
  /// call. Empty: nothing has that name.
  [[nodiscard]] virtual std::vector<Xstat> xstats(std::string_view name) const = 0;
  /// The clear functions make the counters shown count from zero: all, or those of one report.
  virtual void clear_stats() = 0;
  virtual void clear_forward_stats() = 0;
  /// `name` empty: all links and ports.
  virtual void clear_port_stats(std::string_view name) = 0;
  virtual void clear_latency() = 0;

  virtual Status add_neighbour(const NeighbourEntryConfig& entry) = 0;
  virtual Status remove_neighbour(std::string_view iface, const wire::IpAddr& addr) = 0;
  /// Forgets neighbours that are not static; `iface` empty: of all interfaces.
  virtual Status flush_neighbours(std::string_view iface) = 0;
  virtual Status add_route(const RouteConfig& route) = 0;
  virtual Status remove_route(const wire::IpPrefix& to) = 0;
  /// Listens to the group on the interface. Each join needs its leave.
  virtual Status join_group(std::string_view iface, const wire::IpAddr& group) = 0;
  virtual Status leave_group(std::string_view iface, const wire::IpAddr& group) = 0;
  /// kNotFound: no such link or connection; kRefused: the link has no connected mode.
  virtual Status close_connection(std::string_view link, cm::Handle connection) = 0;
  virtual Status add_multicast_route(const MulticastRouteConfig& route) = 0;
  /// Groups, source and `in` identify the route.
  virtual Status remove_multicast_route(const MulticastRouteConfig& route) = 0;
  /// Brings an interface up, or takes it down in order. An interface that is still going down comes
  /// up again afterwards. kNotFound; kUnavailable: its device is stopped.
  virtual Status set_interface_up(std::string_view name, bool up) = 0;
  /// Takes a port down and stops its device, or starts the device and brings the port up. Packets
  /// that the device had received and no worker had taken are dropped: Drop::kLinkDown. A link has
  /// no device of its own: this acts like set_interface_up().
  virtual Status set_port_started(std::string_view name, bool on) = 0;
  /// Sets the largest IP packet of a link or port, octets; config() has the value of a port.
  /// kInvalidArgument and kUnavailable say what is allowed.
  virtual Status set_mtu(std::string_view name, std::uint16_t mtu) = 0;
  /// Ports only. kNotFound; kRefused: the device does not support it.
  virtual Status set_promiscuous(std::string_view port, bool on) = 0;
  /// Changes the port `name` like a subnet manager would. kNotFound; kRefused: the port has a
  /// subnet manager of its own, or runs the subnet administrator, which peers know by these
  /// addresses.
  virtual Status change_hca(std::string_view name, const fabric::PortChange& change) = 0;

  /// Writes every frame on every HCA's wire to `path` (pcap of ERF records) until capture_stop(),
  /// or until the file would be longer than `limit` octets (0: no limit).
  virtual Status capture_start(const std::string& path, std::uint64_t limit) = 0;
  /// Returns the number of frames written.
  virtual Result<std::uint64_t> capture_stop() = 0;
};

}  // namespace ipoib::mgmt
