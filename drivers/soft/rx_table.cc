#include "drivers/soft/rx_table.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <tuple>

namespace ipoib::soft {

std::uint16_t own_entry(const fabric::PortAttr& attr, std::uint16_t partition) {
  std::uint16_t found = 0;
  for (const std::uint16_t pkey : attr.pkeys)
    if (((pkey ^ partition) & ~wire::kFullMemberBit) == 0) found = std::max(found, pkey);
  return found;
}

RxTable::RxTable(const fabric::PortAttr& port, std::span<SoftUdQueue* const> queues,
                 std::span<const Attachment> attachments, SoftUdQueue* closing)
    : local_{local_pattern(port.lid, port.lmc)},
      lid_{port.lid},
      lmc_{port.lmc},
      active_{port.state == fabric::PortState::kActive},
      mtu_{wire::mtu_octets(port.mtu)},
      gid_{port.gid()},
      link_local_gid_{wire::Gid::of(wire::kDefaultGidPrefix, port.guid)},
      pkeys_{port.pkeys},
      closing_{closing} {
  add_queues(queues);
  add_groups(attachments);
}

void RxTable::add_queues(std::span<SoftUdQueue* const> queues) {
  queues_.resize(std::bit_ceil(queues.size() * 2 + 1));
  queue_mask_ = static_cast<std::uint32_t>(queues_.size() - 1);
  for (SoftUdQueue* queue : queues) {
    std::uint32_t i = queue->qpn() & queue_mask_;
    while (queues_[i].queue != nullptr) i = (i + 1) & queue_mask_;
    queues_[i] = {queue->qpn(), queue};
  }
}

std::size_t RxTable::group_hash(const wire::Gid& mgid) const noexcept {
  const std::uint64_t mixed = std::hash<wire::Gid>{}(mgid)*0x9e37'79b9'7f4a'7c15ULL;
  return (mixed >> 32) & (groups_.size() - 1);
}

void RxTable::add_groups(std::span<const Attachment> attachments) {
  std::vector<Attachment> sorted(attachments.begin(), attachments.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const Attachment& a, const Attachment& b) {
    return std::tie(a.mgid, a.mlid) < std::tie(b.mgid, b.mlid);
  });
  groups_.resize(std::bit_ceil(sorted.size() * 2 + 1));
  members_.reserve(sorted.size());
  for (std::size_t from = 0; from < sorted.size();) {
    GroupSlot group{.mgid = sorted[from].mgid,
                    .mlid = sorted[from].mlid,
                    .first = static_cast<std::uint32_t>(from)};
    for (;
         from < sorted.size() && sorted[from].mgid == group.mgid && sorted[from].mlid == group.mlid;
         ++from, ++group.n)
      members_.push_back(sorted[from].queue);
    std::size_t i = group_hash(group.mgid);
    while (groups_[i].n != 0) i = (i + 1) & (groups_.size() - 1);
    groups_[i] = group;
    const unsigned bit = group.mlid - kFirstMlid;
    mlids_[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
}

std::span<SoftUdQueue* const> RxTable::members(const wire::Gid& mgid,
                                               std::uint16_t mlid) const noexcept {
  for (std::size_t i = group_hash(mgid); groups_[i].n != 0; i = (i + 1) & (groups_.size() - 1)) {
    const GroupSlot& group = groups_[i];
    if (group.mlid == mlid && group.mgid == mgid) return {&members_[group.first], group.n};
  }
  return {};
}

bool RxTable::matches_any_pkey(std::uint16_t pkey) const noexcept {
  return std::any_of(pkeys_.begin(), pkeys_.end(),
                     [pkey](std::uint16_t own) { return wire::pkeys_match(own, pkey); });
}

}  // namespace ipoib::soft
