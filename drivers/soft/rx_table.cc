// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/rx_table.h"

#include <algorithm>
#include <bit>
#include <map>

#include "lib/base/contract.h"

namespace ipoib::soft {

std::uint16_t own_entry(const fabric::PortAttr& attr, std::uint16_t partition) {
  std::uint16_t found = 0;
  for (const std::uint16_t pkey : attr.pkeys)
    if (wire::same_partition(pkey, partition)) found = std::max(found, pkey);
  return found;
}

RxTable::RxTable(const fabric::PortAttr& port, std::span<SoftUdQueue* const> queues,
                 const SoftGroupTable& groups, SoftUdQueue* closing)
    : local_{local_pattern(port.lid, port.lmc)},
      lid_{port.lid},
      lmc_{port.lmc},
      active_{port.state == fabric::PortState::kActive},
      mtu_{wire::mtu_octets(port.mtu)},
      gid_{port.gid()},
      link_local_gid_{wire::Gid::of(wire::kDefaultGidPrefix, port.guid)},
      pkeys_{port.pkeys},
      closing_{closing},
      groups_{groups} {
  add_queues(queues);
}

void RxTable::add_queues(std::span<SoftUdQueue* const> queues) {
  expects_management();
  queues_.resize(std::bit_ceil(queues.size() * 2 + 1));
  queue_mask_ = static_cast<std::uint32_t>(queues_.size() - 1);
  for (SoftUdQueue* queue : queues) {
    std::uint32_t i = queue->qpn() & queue_mask_;
    while (queues_[i].queue != nullptr) i = (i + 1) & queue_mask_;
    queues_[i] = {queue->qpn(), queue->worker(), queue};
  }
  std::map<std::uint16_t, const fabric::UdQueue*> link_in;
  for (const SoftUdQueue* queue : queues) {
    const std::uint16_t partition =
        static_cast<std::uint16_t>(queue->partition() & ~wire::kFullMemberBit);
    const auto [it, first] = link_in.emplace(partition, &queue->first());
    if (!first && it->second != &queue->first() && !is_shared(partition))
      shared_.push_back(partition);
  }
}

bool RxTable::is_shared(std::uint16_t partition) const noexcept {
  return std::ranges::any_of(
      shared_, [partition](std::uint16_t one) { return wire::same_partition(one, partition); });
}

bool RxTable::matches_any_pkey(std::uint16_t pkey) const noexcept {
  return std::any_of(pkeys_.begin(), pkeys_.end(),
                     [pkey](std::uint16_t own) { return wire::pkeys_match(own, pkey); });
}

}  // namespace ipoib::soft
