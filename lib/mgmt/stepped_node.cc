// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/stepped_node.h"

#include <rte_lcore.h>

#include <utility>
#include <vector>

#include "lib/mgmt/node/node_assembly.h"
#include "lib/mgmt/node/node_builder.h"

namespace ipoib::mgmt {

Result<std::unique_ptr<SteppedNode>> SteppedNode::create(const NodeConfig& config,
                                                         const HcaFactory& make_hca, TscClock tsc,
                                                         unsigned instance) {
  const unsigned here = rte_lcore_id();
  const NodeLcores lcores{here, std::vector<unsigned>(config.worker.count, here)};
  auto built = build_node(config, lcores, make_hca, tsc, instance);
  if (!built) return tl::make_unexpected(built.error());
  return std::unique_ptr<SteppedNode>{new SteppedNode{std::move(*built)}};
}

SteppedNode::SteppedNode(std::unique_ptr<NodeAssembly> node) : node_{std::move(node)} {}
SteppedNode::~SteppedNode() = default;

const NodeFaces& SteppedNode::faces() const {
  return node_->faces;
}
void SteppedNode::start() {
  node_->runner.start();
}
void SteppedNode::run_once() {
  node_->runner.run_once();
}
TimePoint SteppedNode::next_wake() const {
  return node_->runner.next_wake(now());
}
bool SteppedNode::work_waiting() const {
  return node_->runner.work_waiting();
}
std::uint32_t SteppedNode::iterate(unsigned worker) {
  return node_->parts->workers.all()[worker].worker->iterate(node_->parts->clock.tsc());
}
TimePoint SteppedNode::now() const {
  return node_->parts->now();
}
std::optional<TimePoint> SteppedNode::next_deadline() const {
  return node_->runner.next_deadline();
}
void SteppedNode::begin_to_leave() {
  node_->runner.begin_to_leave();
}
bool SteppedNode::has_left() const {
  return node_->runner.has_left();
}
PacketBalance SteppedNode::packet_balance() const {
  return NodeCounters{*node_->parts}.packet_balance();
}
route::RouteTable& SteppedNode::routes() {
  return *node_->parts->routes;
}
Unfinished SteppedNode::unfinished() const {
  return NodeCounters{*node_->parts}.unfinished();
}

}  // namespace ipoib::mgmt
