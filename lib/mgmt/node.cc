// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node.h"

#include <rte_cycles.h>

#include <utility>

#include "lib/base/contract.h"
#include "lib/mgmt/node/node_assembly.h"
#include "lib/mgmt/node/node_builder.h"

namespace ipoib::mgmt {
namespace {

std::uint64_t read_tsc() noexcept {
  return rte_rdtsc();
}

}  // namespace

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, const NodeLcores& lcores,
                                           const HcaFactory& make_hca) {
  expects_management();
  auto built = build_node(config, lcores, make_hca, &read_tsc, 0);
  if (!built) return tl::make_unexpected(built.error());
  return std::unique_ptr<Node>{new Node{std::move(*built)}};
}

Node::Node(std::unique_ptr<NodeAssembly> assembly) : assembly_{std::move(assembly)} {}
Node::~Node() = default;

void Node::run() {
  expects_management();
  assembly_->runner.run();
}

const NodeFaces& Node::faces() const {
  return assembly_->faces;
}

}  // namespace ipoib::mgmt
