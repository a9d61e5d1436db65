// SPDX-License-Identifier: BSD-3-Clause
// A node: the devices, interfaces, routes and workers of one dpdk-ipoib process, and the management
// lcore's loop that ties them together. The CLI, telemetry and tests see it through this header.
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

/// lcore ids, as EAL numbers them.
struct NodeLcores {
  unsigned management = 0;
  std::vector<unsigned> workers;  ///< At least NodeConfig::worker.count.
};

/// What a device driver is given to make an Hca with. All of it outlives the Hca.
struct HcaResources {
  std::uint16_t ethdev_port = 0;  ///< Cable of a software HCA: configured and started.
  rte_mempool* pool = nullptr;
  rte_mempool* control_pool = nullptr;  ///< For ACKs and MADs when `pool` is empty; null: none.
  std::uint32_t message_mbufs = 0;      ///< Most of `pool` that messages of connections may hold.
  std::uint16_t rxd = 512, txd = 512;   ///< Descriptors of a queue.
  int worker_node = -1;                 ///< NUMA node of the worker that is to serve it.
  rte_rcu_qsbr* qsbr = nullptr;         ///< Workers report quiescence to it.
  fabric::Retirement* retirement = nullptr;  ///< Says when a name may be used again.
  Doorbell* doorbell = nullptr;              ///< To be rung when MADs or events came.
};
/// Drivers are chosen by app/, which knows them.
using HcaFactory = std::function<Result<std::unique_ptr<fabric::Hca>>(
    const HcaConfig& config, const HcaResources& resources)>;

/// Everything but post() and request_stop(): management lcore only.
class Node {
 public:
  /// Sets every device up and checks what can only be checked against devices. Needs rte_eal_init.
  static Result<std::unique_ptr<Node>> create(const NodeConfig& config, const NodeLcores& lcores,
                                              const HcaFactory& make_hca);
  virtual ~Node() = default;

  /// Launches the workers, brings interfaces up, loops until request_stop(), then leaves every
  /// group, withdraws everything, joins the workers and returns. Call once.
  virtual void run() = 0;
  /// Any thread; not from a signal handler.
  virtual void request_stop() = 0;
  /// `hook` is called when run() begins to leave, whoever asked for it. Before run().
  virtual void on_stop(std::function<void()> hook) = 0;
  /// Runs `task` on the management lcore, soon. Any thread.
  virtual void post(std::function<void()> task) = 0;
  [[nodiscard]] virtual EventLoop& events() = 0;

  virtual void set_forwarding(bool on) = 0;
  [[nodiscard]] virtual bool forwarding() const = 0;
  virtual void set_forward_mode(ForwardMode mode) = 0;
  [[nodiscard]] virtual ForwardMode forward_mode() const = 0;
  /// What the modes that make packets send from now on; config() has it. kInvalidArgument: what
  /// fwd::Generator refuses; all stays as it was.
  virtual Status set_generator(const GeneratorConfig& generator) = 0;
  /// Each worker sends so many bursts of these, in any mode, as soon as forwarding is on and the
  /// interface that leads to them is up.
  virtual void send_first(unsigned bursts) = 0;
  /// 1 to fwd::kMaxBurst packets.
  virtual void set_burst(unsigned packets) = 0;
  [[nodiscard]] virtual ForwardInfo forward_info() const = 0;

  [[nodiscard]] virtual const NodeConfig& config() const = 0;
  [[nodiscard]] virtual std::vector<LinkInfo> links() const = 0;
  [[nodiscard]] virtual std::vector<PortInfo> ports() const = 0;
  [[nodiscard]] virtual std::vector<HcaInfo> hcas() const = 0;
  /// Neighbours in order, by interface and address; `iface` empty: of all interfaces. There may be
  /// many thousands: what is shown of them is asked for one by one, over as many turns as it takes.
  [[nodiscard]] virtual std::vector<NeighbourKey> neighbour_keys(std::string_view iface) const = 0;
  /// None: it is gone.
  [[nodiscard]] virtual std::optional<link::NeighbourInfo> neighbour(
      const NeighbourKey& key) const = 0;
  /// In order: the first `most` behind `after`, or of all.
  [[nodiscard]] virtual std::vector<RouteInfo> routes(const std::optional<wire::IpPrefix>& after,
                                                      std::size_t most) const = 0;
  /// Those of connected mode; `link` empty: of all links.
  [[nodiscard]] virtual std::vector<link::ConnectionInfo> connections(
      std::string_view link) const = 0;
  /// Multicast groups; `iface` empty: of all interfaces.
  [[nodiscard]] virtual std::vector<link::GroupInfo> groups(std::string_view iface) const = 0;
  [[nodiscard]] virtual std::vector<MulticastRouteInfo> multicast_routes() const = 0;
  [[nodiscard]] virtual std::vector<WorkerInfo> workers() const = 0;
  /// Of each worker since it was launched; nothing clears it. One that stands still hangs: a worker
  /// that finds nothing, or sleeps, loops too.
  [[nodiscard]] virtual std::vector<std::uint64_t> worker_loops() const = 0;
  /// Only reasons that were counted.
  [[nodiscard]] virtual std::vector<DropInfo> drops() const = 0;
  [[nodiscard]] virtual std::vector<SaInfo> subnet_administration() const = 0;
  /// What fwd::ForwardMode::kLatency measured since it was cleared.
  [[nodiscard]] virtual LatencyInfo latency() const = 0;
  /// Ports and links as their devices count; rates are those since the last call for it.
  [[nodiscard]] virtual std::vector<InterfaceStatsInfo> port_stats() = 0;
  /// Ports and links since clear_forward_stats().
  [[nodiscard]] virtual std::vector<InterfaceStatsInfo> forward_stats() const = 0;
  /// Since the start, whatever was cleared.
  [[nodiscard]] virtual NodeTotals totals() const = 0;
  /// Every counter of a link, port or hca since clear_port_stats(), of an hca since clear_stats(),
  /// zeros too (lib/mgmt/xstats.h); the same names in the same order at every call. Empty: there is
  /// none of that name.
  [[nodiscard]] virtual std::vector<Xstat> xstats(std::string_view name) const = 0;
  /// Counters shown from here on count from here: all, or those of one report.
  virtual void clear_stats() = 0;
  virtual void clear_forward_stats() = 0;
  /// `name` empty: of all links and ports.
  virtual void clear_port_stats(std::string_view name) = 0;
  virtual void clear_latency() = 0;

  virtual Status add_neighbour(const NeighbourEntryConfig& entry) = 0;
  virtual Status remove_neighbour(std::string_view iface, const wire::IpAddr& addr) = 0;
  /// Forgets what is not static; `iface` empty: of all interfaces.
  virtual Status flush_neighbours(std::string_view iface) = 0;
  virtual Status add_route(const RouteConfig& route) = 0;
  virtual Status remove_route(const wire::IpPrefix& to) = 0;
  /// This node listens to the group on the interface; as often joined, as often to be left.
  virtual Status join_group(std::string_view iface, const wire::IpAddr& group) = 0;
  virtual Status leave_group(std::string_view iface, const wire::IpAddr& group) = 0;
  /// kNotFound: no such link or connection; kRefused: the link has no connected mode.
  virtual Status close_connection(std::string_view link, cm::Handle connection) = 0;
  virtual Status add_multicast_route(const MulticastRouteConfig& route) = 0;
  /// By groups, source and `in`.
  virtual Status remove_multicast_route(const MulticastRouteConfig& route) = 0;
  /// Up, or down in order; up as soon as it is down where it is still on its way there. kNotFound;
  /// kUnavailable: its device is stopped.
  virtual Status set_interface_up(std::string_view name, bool up) = 0;
  /// Stops a port's device, after taking the port down, or starts it and brings the port up; what
  /// the device had received and no worker had taken is counted as Drop::kLinkDown. A link has no
  /// device of its own: as set_interface_up().
  virtual Status set_port_started(std::string_view name, bool on) = 0;
  /// Largest IP packet of a link or port, octets; config() has it of ports. kInvalidArgument,
  /// kUnavailable with what is allowed.
  virtual Status set_mtu(std::string_view name, std::uint16_t mtu) = 0;
  /// Of a port. kNotFound; kRefused: its device does not do that.
  virtual Status set_promiscuous(std::string_view port, bool on) = 0;
  /// What a subnet manager would do to the port `name`. kNotFound; kRefused: it has a subnet
  /// manager of its own, or runs the subnet administrator, which others know by these addresses.
  virtual Status change_hca(std::string_view name, const fabric::PortChange& change) = 0;

  /// Every frame of every HCA's wire goes to `path` (pcap of ERF records) until capture_stop(), or
  /// until the file would be longer than `limit` octets (0: no limit).
  virtual Status capture_start(const std::string& path, std::uint64_t limit) = 0;
  /// Returns the number of frames written.
  virtual Result<std::uint64_t> capture_stop() = 0;
};

}  // namespace ipoib::mgmt
