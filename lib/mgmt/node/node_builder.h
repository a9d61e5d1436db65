// SPDX-License-Identifier: BSD-3-Clause
// Makes a node: memory, devices, interfaces, workers, then the configured state.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/mgmt/device/eth_device.h"
#include "lib/mgmt/device/hca_resources.h"
#include "lib/mgmt/node.h"
#include "lib/mgmt/node/node_clock.h"
#include "lib/mgmt/worker/placement.h"

namespace ipoib::mgmt {

struct NodeAssembly;
struct NodeConfig;
struct NodeParts;

/// Makes the parts of a node in order. Used by build_node() only.
class NodeBuilder {
 public:
  NodeBuilder(NodeParts& parts, const NodeLcores& lcores, const HcaFactory& make_hca,
              unsigned instance);

  Status build();

 private:
  Status assign_workers();
  Status create_tables();
  Status create_buffers();
  void create_routing();
  Status create_ports();
  Result<EthDevice> open_port(const PortConfig& p, std::vector<unsigned>& receivers);
  Status create_hcas();
  Status create_links();
  Status create_proxies();
  Status create_workers();
  Status connect_workers();
  /// NUMA node of a worker's lcore.
  [[nodiscard]] std::vector<rte_mempool*> pools_of(const std::vector<unsigned>& receivers) const;
  [[nodiscard]] int socket_of(unsigned worker) const;
  [[nodiscard]] Topology topology() const;
  void warn_of_nodes(const std::string& name, const EthDevice& device,
                     const std::vector<unsigned>& receivers) const;
  /// EAL-wide name of a ring, pool or table of this node.
  [[nodiscard]] std::string object_name(std::string_view what) const;
  [[nodiscard]] unsigned mbuf_size() const;
  /// Numbers for the neighbours of all interfaces together.
  [[nodiscard]] std::uint32_t neighbour_capacity() const;

  NodeParts& parts_;
  const NodeLcores& lcores_;
  const HcaFactory& make_hca_;
  std::set<std::string> shared_unasked_;  ///< Ports that got several workers without being asked.
  unsigned instance_;  ///< Part of the names of this node's rings, pools and tables.
};

/// Makes a node that is ready to run: Node::create(), with a clock and a number that distinguishes
/// the nodes of one process.
Result<std::unique_ptr<NodeAssembly>> build_node(const NodeConfig& config, const NodeLcores& lcores,
                                                 const HcaFactory& make_hca, TscClock tsc,
                                                 unsigned instance);

}  // namespace ipoib::mgmt
