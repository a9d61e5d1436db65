// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/broadcast_groups.h"

#include <utility>

namespace ipoib::link {

/// Neighbours that name a former broadcast group are forgotten; packets ask for them again.
void BroadcastGroups::resume(const wire::McMemberRecord& broadcast, TimePoint) {
  mlid_ = broadcast.mlid.host();
  const wire::Gid former = std::exchange(mgid_, broadcast.mgid);
  if (former.is_zero() || former == mgid_) return;
  for (const auto& addr : around_.ip.neighbours().addresses())
    if (wire::is_multicast(addr)) static_cast<void>(around_.ip.neighbours().remove(addr));
}

Status BroadcastGroups::join(const wire::IpAddr& group, TimePoint) {
  if (!wire::is_multicast(group))
    return fail(Errc::kInvalidArgument, "{} is not a multicast group", wire::to_string(group));
  if (joins_.count(group) == 0 && joins_.size() >= around_.config.group.max_groups) {
    ++around_.counters.group_refused_local;
    return fail(Errc::kNoResources, "all {} groups of {} are in use", joins_.size(),
                around_.config.name);
  }
  if (++joins_[group] == 1) around_.receiver.listen(around_.config.id, group);
  return {};
}

Status BroadcastGroups::leave(const wire::IpAddr& group, TimePoint) {
  const auto it = joins_.find(group);
  if (it == joins_.end())
    return fail(Errc::kNotFound, "{} is not joined on {}", wire::to_string(group),
                around_.config.name);
  if (--it->second > 0) return {};
  joins_.erase(it);
  around_.receiver.unlisten(around_.config.id, group);
  return {};
}

void BroadcastGroups::request_group(const wire::IpAddr& group, HeldPacket packet, TimePoint now) {
  around_.ip.request_group(group, around_.broadcast_hw(), packet, now);
}

bool BroadcastGroups::send(const wire::IpAddr&, std::span<const std::byte> frame, TimePoint) {
  if (around_.broadcast(frame)) return true;
  ++around_.counters.group_frames_unsent;
  return false;
}

std::vector<GroupInfo> BroadcastGroups::list(TimePoint) const {
  const bool member = around_.is_member();
  std::vector<GroupInfo> rows;
  rows.reserve(joins_.size());
  for (const auto& [group, joins] : joins_) {
    GroupInfo row;
    row.group = group;
    row.iface = around_.config.name;
    row.joins = joins;
    row.state = "waiting";
    if (member) {
      row.lladdr = wire::to_string(mgid_);
      row.mlid = mlid_;
      row.state = "member";
      row.join_state = wire::join_state::kFullMember;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ipoib::link
