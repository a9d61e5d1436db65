// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/frame_heads.h"

#include <algorithm>

namespace ipoib::fwd {

using table::NeighbourMode;

FrameHeads::FrameHeads(const WorkerConfig& config) {
  for (std::size_t i = 0; i < config.interfaces.size(); ++i) {
    if (config.queues[i].ud == nullptr) continue;
    const fabric::UdQueue& queue = *config.queues[i].ud;
    if (queue.frames() == nullptr) continue;
    const auto& version = queue.frames()->heads_version(queue);
    links_.push_back({static_cast<table::InterfaceId>(i), &queue, &version, version.load()});
  }
}

void FrameHeads::fill(table::Neighbour& to) const noexcept {
  if (to.mode != NeighbourMode::kUd && to.mode != NeighbourMode::kUdFrame) return;
  to.mode = NeighbourMode::kUd;
  const auto link = std::ranges::find(links_, to.iface, &Link::iface);
  fabric::FrameHead head;
  if (link == links_.end() || !link->queue->frames()->head(*link->queue, to.ah, head) ||
      to.mtu + sizeof(wire::IpoibHdr) > head.max_payload)
    return;
  to.mode = NeighbourMode::kUdFrame;
  to.mac = head.mac;
  to.lrh = head.lrh;
}

void FrameHeads::renew(Link& link, std::uint32_t now,
                       table::NeighbourTable& neighbours) const noexcept {
  std::size_t left = neighbours.size();  // low numbers are used first
  for (table::NeighbourIndex i = 0; left != 0; ++i) {
    table::Neighbour* const to = neighbours.at(i);
    if (to == nullptr) continue;
    --left;
    if (to->iface == link.iface) fill(*to);
  }
  link.seen = now;
}

}  // namespace ipoib::fwd
