// SPDX-License-Identifier: BSD-3-Clause
// The parts of a node. NodeBuilder makes them; the faces and the runner of the node share them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/rte_free.h"
#include "lib/fabric/ring_ptr.h"
#include "lib/fwd/worker_config.h"
#include "lib/link/ip/subnet_proxy.h"
#include "lib/mgmt/device/kernel_interfaces.h"
#include "lib/mgmt/management_loop.h"
#include "lib/mgmt/node/filter_list.h"
#include "lib/mgmt/node/instances.h"
#include "lib/mgmt/node/node_clock.h"
#include "lib/mgmt/node/turn_times.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/slow_path/address_book.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/mgmt/slow_path/multicast_wiring.h"
#include "lib/mgmt/slow_path/neighbour_directory.h"
#include "lib/mgmt/slow_path/punt_handler.h"
#include "lib/mgmt/slow_path/route_writer.h"
#include "lib/mgmt/worker/buffers.h"
#include "lib/mgmt/worker/injector.h"
#include "lib/mgmt/worker/worker_retirement.h"
#include "lib/mgmt/worker/worker_set.h"

namespace ipoib::mgmt {

/// Tables and settings that workers read while management writes them.
struct SharedTables {
  std::unique_ptr<rte_rcu_qsbr, RteFree> rcu;
  std::unique_ptr<table::NextHopTable> next_hops;
  table::OwnAddresses own_addresses;
  std::unique_ptr<table::PrefixTable> prefixes;
  std::unique_ptr<table::Prefix6Table> prefixes6;
  std::optional<fwd::HeaderRules> header_rules;  ///< Set before the workers are created.
  fwd::Settings settings;
  std::vector<fwd::InterfaceEntry> entries;  ///< Interface state, by InterfaceId; sized once.
};

/// Destroyed in reverse order: no destructor uses a later member.
struct NodeParts {
  NodeParts(const NodeConfig& node_config, TscClock tsc);

  [[nodiscard]] TimePoint now() const { return clock.now(); }
  /// Sets the time for everything that is handled until the next call.
  void set_time(TimePoint t);
  /// Null: no port has that name.
  [[nodiscard]] PortInstance* port_named(std::string_view name) const;
  /// Speed of a port's device or of an active link; 0: not known.
  [[nodiscard]] std::uint64_t speed_bps(table::InterfaceId id) const;

  NodeConfig config;
  NodeClock clock;
  std::uint32_t run_id;  ///< Identifies time stamps of this process; its low octet is 0.
  std::unique_ptr<ManagementLoop> loop;
  Buffers buffers;
  SharedTables tables;
  InterfaceTable interfaces;
  WorkerSet workers;
  TurnTimes turn_times;
  std::unique_ptr<WorkerRetirement> retirement;
  std::unique_ptr<Injector> injector;
  std::unique_ptr<PuntHandler> punt;
  std::unique_ptr<NeighbourDirectory> neighbours;
  std::unique_ptr<MulticastWiring> multicast;
  std::unique_ptr<AddressBook> addresses;
  std::vector<std::unique_ptr<link::SubnetProxy>> proxies;
  std::vector<std::unique_ptr<PortInstance>> ports;
  std::vector<std::unique_ptr<HcaInstance>> hcas;
  KernelInterfaces kernel_interfaces;
  std::vector<std::unique_ptr<LinkInstance>> links;
  std::unique_ptr<RouteWriter> route_writer;
  std::unique_ptr<route::RouteTable> routes;
  std::vector<fabric::RingPtr> handoff_rings;
  std::unique_ptr<FilterList> filters;
};

}  // namespace ipoib::mgmt
