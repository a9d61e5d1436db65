// SPDX-License-Identifier: BSD-3-Clause
// Connects multicast routing with workers and interfaces: deliveries go to every worker, membership
// messages to the links.
#pragma once

#include <string>
#include <vector>

#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/mgmt/worker/worker_set.h"
#include "lib/route/multicast/multicast_router.h"

namespace ipoib::mgmt {

class Injector;

/// Management lcore only.
class MulticastWiring final : private route::MulticastSender, private route::DeliverySink {
 public:
  MulticastWiring(InterfaceTable& interfaces, WorkerSet& workers, Injector& injector);

  /// Makes the interface a multicast router's: it joins the groups of routers and learns from hosts
  /// which groups they want. Call before the interface starts.
  Status add_router(InterfaceSlot& slot, const IpConfig& config, TimePoint now);
  Status add_route(const MulticastRouteConfig& route, TimePoint now);
  Status remove_route(const MulticastRouteConfig& route, TimePoint now);

  /// True if packets to groups that arrive on the interface are routed: it is a multicast router's,
  /// or a route names it as incoming.
  [[nodiscard]] bool routes_from(table::InterfaceId iface) const {
    return iface < table::kMaxMulticastInterfaces && (incoming_ >> iface & 1) != 0;
  }

  /// Linux routes the packets to groups that arrive on the interface, and no add_router() does. Call
  /// before the interface starts.
  void set_linux_router(table::InterfaceId iface) {
    if (iface < table::kMaxMulticastInterfaces) of_linux_ |= std::uint64_t{1} << iface;
  }
  [[nodiscard]] bool linux_routes_from(table::InterfaceId iface) const {
    return iface < table::kMaxMulticastInterfaces && (of_linux_ >> iface & 1) != 0;
  }

  /// Forgets the members on links that went down, and reports this node's groups on links that came
  /// up.
  void update_state(TimePoint now);

  [[nodiscard]] std::vector<MulticastRouteInfo> rows(TimePoint now) const;
  [[nodiscard]] route::MulticastRouter& router() { return router_; }
  [[nodiscard]] const route::MulticastRouter& router() const { return router_; }

 private:
  // MulticastSender.
  void send(table::InterfaceId iface, std::vector<std::byte> packet) override;
  // DeliverySink.
  void set(const table::Delivery& delivery) override;
  void remove(table::InterfaceId in, const wire::IpAddr& addr, const wire::IpAddr& source) override;

  [[nodiscard]] Result<route::StaticMulticastRoute> resolve(
      const MulticastRouteConfig& route) const;
  void note_incoming();

  InterfaceTable& interfaces_;
  WorkerSet& workers_;
  Injector& injector_;
  route::MulticastRouter router_;
  std::vector<table::InterfaceId> routers_;  ///< Interfaces of add_router().
  std::vector<bool> up_;                     ///< State of interface i, as router_ knows it.
  std::uint64_t incoming_ = 0;               ///< Bit i: routes_from(i).
  std::uint64_t of_linux_ = 0;               ///< Bit i: linux_routes_from(i).
};

}  // namespace ipoib::mgmt
