// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/groups.h"

#include <algorithm>

namespace ipoib::sa {
namespace {

constexpr std::uint16_t kFirstMlid = 0xc000;

/// JoinState bits of the members that keep a group.
constexpr std::uint8_t kKeeps =
    wire::join_state::kFullMember | wire::join_state::kSendOnlyFullMember;

}  // namespace

const McGroup* McGroupTable::find(const wire::Gid& mgid) const {
  const auto it = groups_.find(mgid);
  return it == groups_.end() ? nullptr : &it->second;
}

bool McGroupTable::is_member_somewhere(const wire::Gid& port) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&port](const auto& group) { return group.second.members.count(port) != 0; });
}

bool McGroupTable::room_for_group() const {
  return groups_.size() < std::min(max_groups_, used_mlids_.size());
}

const McGroup& McGroupTable::create(const wire::McMemberRecord& attributes, bool configured) {
  McGroup& group = groups_[attributes.mgid];
  group.record = attributes;
  group.record.mlid.set(take_mlid(attributes.mlid.host()));
  group.configured = configured;
  events_.push_back({true, group.record.mgid, group.record.pkey.host()});
  return group;
}

std::uint8_t McGroupTable::join(const wire::Gid& mgid, const wire::Gid& port, std::uint8_t bits) {
  const auto [member, added] = groups_.at(mgid).members.try_emplace(port, std::uint8_t{0});
  if (added) ++members_;
  member->second = static_cast<std::uint8_t>(member->second | bits);
  return member->second;
}

std::uint8_t McGroupTable::leave(const wire::Gid& mgid, const wire::Gid& port, std::uint8_t bits) {
  const auto it = groups_.find(mgid);
  if (it == groups_.end()) return 0;
  const auto member = it->second.members.find(port);
  if (member == it->second.members.end()) return 0;
  const auto left = static_cast<std::uint8_t>(member->second & ~bits);
  member->second = left;
  if (left == 0) {
    it->second.members.erase(member);
    --members_;
  }
  drop_unless_kept(it);
  return left;
}

/// Removes a port from the groups that `concerns` names. Returns their number.
template <class Concerns>
std::size_t McGroupTable::remove_from(const wire::Gid& port, Concerns concerns) {
  std::size_t removed = 0;
  for (auto it = groups_.begin(); it != groups_.end();) {
    const auto here = it++;
    if (!concerns(here->second)) continue;
    if (here->second.members.erase(port) == 0) continue;
    ++removed;
    --members_;
    drop_unless_kept(here);
  }
  return removed;
}

void McGroupTable::remove_port(const wire::Gid& port) {
  remove_from(port, [](const McGroup&) { return true; });
}

std::size_t McGroupTable::remove_from_larger(const wire::Gid& port, std::uint8_t mtu) {
  return remove_from(
      port, [mtu](const McGroup& group) { return wire::value_of(group.record.mtu) > mtu; });
}

std::uint16_t McGroupTable::take_mlid(std::uint16_t wanted) {
  std::size_t n = lowest_free_;
  if (wire::is_multicast_lid(wanted) && !used_mlids_.test(wanted - std::size_t{kFirstMlid}))
    n = wanted - std::size_t{kFirstMlid};
  used_mlids_.set(n);
  while (lowest_free_ < used_mlids_.size() && used_mlids_.test(lowest_free_)) ++lowest_free_;
  return static_cast<std::uint16_t>(kFirstMlid + n);
}

void McGroupTable::free_mlid(std::uint16_t mlid) {
  const std::size_t n = mlid - std::size_t{kFirstMlid};
  used_mlids_.reset(n);
  lowest_free_ = std::min(lowest_free_, n);
}

bool McGroupTable::is_kept(const McGroup& group) const {
  const auto keeps = [this](const auto& member) {
    return kept_by_any_ || (member.second & kKeeps) != 0;
  };
  return group.configured || std::any_of(group.members.begin(), group.members.end(), keeps);
}

void McGroupTable::drop_unless_kept(Iterator it) {
  if (is_kept(it->second)) return;
  events_.push_back({false, it->first, it->second.record.pkey.host()});
  members_ -= it->second.members.size();
  free_mlid(it->second.record.mlid.host());
  groups_.erase(it);
}

}  // namespace ipoib::sa
