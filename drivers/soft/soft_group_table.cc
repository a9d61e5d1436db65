// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/soft_group_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::soft {
namespace {

constexpr std::size_t kMinSlots = 16;

}  // namespace

/// Tombstone of a removed group: a search continues behind it.
const SoftGroupTable::Group SoftGroupTable::kGone{};

SoftGroupTable::SoftGroupTable(const fabric::Grace& grace, std::uint64_t seed)
    : grace_{grace},
      hash_{seed},
      owned_{std::make_unique<const Slots>(kMinSlots)},
      slots_{owned_.get()} {}

SoftGroupTable::~SoftGroupTable() {
  for (std::size_t i = 0; i <= owned_->mask; ++i)
    if (const Group* group = owned_->at[i].load(std::memory_order_relaxed); group != &kGone)
      delete group;
}

std::span<SoftUdQueue* const> SoftGroupTable::members(const wire::Gid& mgid,
                                                      std::uint16_t mlid) const noexcept {
  expects_worker();
  // Pairs with the release stores of make_room() and of the slots.
  const Slots& slots = *slots_.load(std::memory_order_acquire);
  for (std::size_t i = hash_(mgid);; ++i) {
    const Group* group = slots.at[i & slots.mask].load(std::memory_order_acquire);
    if (group == nullptr) return {};
    if (group->is(mgid, mlid)) return group->members;
  }
}

/// Null: there is no such group.
SoftGroupTable::Slot* SoftGroupTable::find(const wire::Gid& mgid, std::uint16_t mlid) const {
  for (std::size_t i = hash_(mgid);; ++i) {
    Slot& slot = owned_->at[i & owned_->mask];
    const Group* group = slot.load(std::memory_order_relaxed);
    if (group == nullptr) return nullptr;
    if (group->is(mgid, mlid)) return &slot;
  }
}

Status SoftGroupTable::attach(const wire::Gid& mgid, std::uint16_t mlid, SoftUdQueue& queue) {
  expects_management();
  expects(mgid.is_multicast() && mlid >= kFirstMlid, "MGID and MLID are multicast");
  reclaim();
  Slot* const slot = find(mgid, mlid);
  if (slot == nullptr) {
    add(std::unique_ptr<const Group>{new Group{.mgid = mgid, .mlid = mlid, .members = {&queue}}});
    return {};
  }
  const Group& old = *slot->load(std::memory_order_relaxed);
  if (std::ranges::find(old.members, &queue) != old.members.end())
    return fail(Errc::kExists, "QP {:#08x} is already attached to this group on MLID {:#06x}",
                queue.qpn(), mlid);
  if (old.members.size() == kMaxMembers)
    return fail(Errc::kNoResources, "the group on MLID {:#06x} already has {} queue pairs", mlid,
                kMaxMembers);
  auto fresh = std::make_unique<Group>(old);
  fresh->members.push_back(&queue);
  replace(*slot, old, std::move(fresh));
  return {};
}

bool SoftGroupTable::detach(const wire::Gid& mgid, std::uint16_t mlid, SoftUdQueue& queue) {
  expects_management();
  expects(mgid.is_multicast() && mlid >= kFirstMlid, "MGID and MLID are multicast");
  reclaim();
  Slot* const slot = find(mgid, mlid);
  if (slot == nullptr) return false;
  const Group& old = *slot->load(std::memory_order_relaxed);
  if (std::ranges::find(old.members, &queue) == old.members.end()) return false;
  take_out(*slot, old, queue);
  return true;
}

void SoftGroupTable::detach_all(SoftUdQueue& queue) {
  expects_management();
  reclaim();
  for (std::size_t i = 0; i <= owned_->mask; ++i) {
    Slot& slot = owned_->at[i];
    const Group* group = slot.load(std::memory_order_relaxed);
    if (group == nullptr || std::ranges::find(group->members, &queue) == group->members.end())
      continue;
    take_out(slot, *group, queue);
  }
}

/// Adds a group that is not in the table.
void SoftGroupTable::add(std::unique_ptr<const Group> group) {
  if ((nb_used_ + 1) * 2 > owned_->mask + 1) make_room();
  const unsigned mlid = group->mlid - kFirstMlid;
  std::size_t i = hash_(group->mgid);
  const Group* there = nullptr;
  while ((there = owned_->at[i & owned_->mask].load(std::memory_order_relaxed)) != nullptr &&
         there != &kGone)
    ++i;
  if (there == nullptr) ++nb_used_;
  ++nb_groups_;
  owned_->at[i & owned_->mask].store(group.release(), std::memory_order_release);
  if (groups_of_mlid_[mlid]++ == 0)
    mlids_[mlid / 64].fetch_or(std::uint64_t{1} << mlid % 64, std::memory_order_relaxed);
}

void SoftGroupTable::replace(Slot& slot, const Group& old, std::unique_ptr<const Group> by) {
  slot.store(by.release(), std::memory_order_release);
  old_groups_.add(std::unique_ptr<const Group>{&old}, grace_);
}

/// Shape: the queue is a member.
void SoftGroupTable::take_out(Slot& slot, const Group& old, SoftUdQueue& queue) {
  expects([&] { return std::ranges::find(old.members, &queue) != old.members.end(); },
          "the queue is a member");
  if (old.members.size() > 1) {
    auto fresh = std::make_unique<Group>(old);
    std::erase(fresh->members, &queue);
    return replace(slot, old, std::move(fresh));
  }
  const unsigned mlid = old.mlid - kFirstMlid;
  if (--groups_of_mlid_[mlid] == 0)
    mlids_[mlid / 64].fetch_and(~(std::uint64_t{1} << mlid % 64), std::memory_order_relaxed);
  --nb_groups_;
  slot.store(&kGone, std::memory_order_release);
  old_groups_.add(std::unique_ptr<const Group>{&old}, grace_);
}

/// Makes at least four slots per group, so that at least as many additions as there are groups
/// follow before the next call.
void SoftGroupTable::make_room() {
  auto fresh = std::make_unique<const Slots>(std::bit_ceil((nb_groups_ + kMinSlots / 4) * 4));
  for (std::size_t i = 0; i <= owned_->mask; ++i) {
    const Group* group = owned_->at[i].load(std::memory_order_relaxed);
    if (group == nullptr || group == &kGone) continue;
    std::size_t to = hash_(group->mgid);
    while (fresh->at[to & fresh->mask].load(std::memory_order_relaxed) != nullptr) ++to;
    fresh->at[to & fresh->mask].store(group, std::memory_order_relaxed);
  }
  nb_used_ = nb_groups_;
  slots_.store(fresh.get(), std::memory_order_release);
  old_slots_.add(std::exchange(owned_, std::move(fresh)), grace_);
}

void SoftGroupTable::reclaim() {
  old_groups_.reclaim(grace_, [](std::unique_ptr<const Group> old) { old.reset(); });
  old_slots_.reclaim(grace_, [](std::unique_ptr<const Slots> old) { old.reset(); });
}

}  // namespace ipoib::soft
