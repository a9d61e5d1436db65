// SPDX-License-Identifier: BSD-3-Clause
// A node: the devices, interfaces, routes and workers of one dpdk-ipoib process, and the management
// lcore's loop that connects them. The CLI, telemetry and tests use it through its faces.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/result.h"
#include "lib/mgmt/device/hca_resources.h"
#include "lib/mgmt/node_faces.h"

namespace ipoib::mgmt {

struct NodeAssembly;
struct NodeConfig;

/// EAL lcore ids.
struct NodeLcores {
  unsigned management = 0;
  std::vector<unsigned> workers;  ///< At least NodeConfig::worker.count.
};

/// Management lcore only.
class Node {
 public:
  /// Sets up every device and checks the settings that only devices can confirm. Needs
  /// rte_eal_init().
  static Result<std::unique_ptr<Node>> create(const NodeConfig& config, const NodeLcores& lcores,
                                              const HcaFactory& make_hca);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Launches the workers, brings interfaces up, loops until ManagementLoop::request_stop(), then
  /// takes the interfaces down, which leaves every group and ends every connection, joins the
  /// workers and returns. Call once.
  void run();
  /// Any thread; the faces themselves have rules of their own.
  [[nodiscard]] const NodeFaces& faces() const;

 private:
  explicit Node(std::unique_ptr<NodeAssembly> assembly);
  std::unique_ptr<NodeAssembly> assembly_;
};

}  // namespace ipoib::mgmt
