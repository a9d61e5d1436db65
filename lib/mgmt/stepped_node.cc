// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/stepped_node.h"

#include <rte_lcore.h>

#include <utility>
#include <vector>

#include "lib/mgmt/node_impl.h"

namespace ipoib::mgmt {

Result<std::unique_ptr<SteppedNode>> SteppedNode::create(const NodeConfig& config,
                                                         const HcaFactory& make_hca, TscClock tsc,
                                                         unsigned instance) {
  const unsigned here = rte_lcore_id();
  const NodeLcores lcores{here, std::vector<unsigned>(config.worker.count, here)};
  auto node = std::make_unique<NodeImpl>(config, lcores, make_hca, tsc, instance);
  if (auto s = node->set_up(); !s) return tl::make_unexpected(s.error());
  return std::unique_ptr<SteppedNode>{new SteppedNode{std::move(node)}};
}

SteppedNode::SteppedNode(std::unique_ptr<NodeImpl> node) : node_{std::move(node)} {}
SteppedNode::~SteppedNode() = default;

Node& SteppedNode::node() {
  return *node_;
}
void SteppedNode::start() {
  node_->start();
}
void SteppedNode::run_once() {
  node_->run_once();
}
TimePoint SteppedNode::next_wake() const {
  return node_->next_wake(now());
}
bool SteppedNode::work_waiting() const {
  return node_->work_waiting();
}
std::uint32_t SteppedNode::iterate(unsigned worker) {
  return node_->iterate(worker);
}
TimePoint SteppedNode::now() const {
  return node_->now();
}
std::optional<TimePoint> SteppedNode::next_deadline() const {
  return node_->next_deadline();
}
void SteppedNode::begin_to_leave() {
  node_->begin_to_leave();
}
bool SteppedNode::has_left() const {
  return node_->has_left();
}
PacketBalance SteppedNode::packet_balance() const {
  return node_->packet_balance();
}
Unfinished SteppedNode::unfinished() const {
  return node_->unfinished();
}

}  // namespace ipoib::mgmt
