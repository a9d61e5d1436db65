// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/frame_heads.h"

#include <algorithm>

#include "lib/base/contract.h"

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

void FrameHeads::fill(table::Neighbour& to) noexcept {
  if (to.mode != NeighbourMode::kUd && !has_frames(to.mode)) return;
  to.mode = NeighbourMode::kUd;
  const auto link = std::ranges::find(links_, to.iface, &Link::iface);
  fabric::FrameHead head;
  if (link == links_.end() || !link->queue->frames()->head(*link->queue, to.ah, head) ||
      to.mtu + sizeof(wire::IpoibHdr) > head.max_payload)
    return;
  if (head.group) {
    auto& grh = link->group_grh[to.addr.is_v4() ? 0 : 1];
    if (!grh) grh = head.group;
    if (*grh != *head.group) return;
  }
  to.mode = head.group ? NeighbourMode::kUdGroupFrame : NeighbourMode::kUdFrame;
  to.mgid_mid = head.mgid_mid;
  to.mgid_low = head.mgid_low;
  to.mac = head.mac;
  to.lrh = head.lrh;
}

const fabric::GroupGrh& FrameHeads::group_grh(table::InterfaceId iface, bool ip6) const noexcept {
  const auto link = std::ranges::find(links_, iface, &Link::iface);
  expects([&] { return link != links_.end() && link->group_grh[ip6 ? 1 : 0]; },
          "a neighbour of the link has it");
  return *link->group_grh[ip6 ? 1 : 0];
}

void FrameHeads::renew(Link& link, std::uint32_t now, table::NeighbourTable& neighbours) noexcept {
  link.group_grh = {};
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
