// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/kernel_paths.h"

#include <algorithm>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::mgmt {

KernelPaths::KernelPaths() {
  slots_.emplace_back();
}

bool KernelPaths::take_changed() {
  return std::exchange(changed_, false);
}

bool KernelPaths::take_doubt() {
  return std::exchange(doubt_, false);
}

// Contents.

KernelPaths::Id KernelPaths::acquire(const KernelHops& content) {
  expects_management();
  const auto [it, added] = ids_.try_emplace(content, 0);
  if (added) {
    if (free_.empty()) {
      free_.push_back(static_cast<Id>(slots_.size()));
      slots_.emplace_back();
    }
    it->second = free_.back();
    free_.pop_back();
    slots_[it->second] = {content, 0, acquire_report(content), false, true};
    if (content.object != 0) {
      users_[content.object].push_back(it->second);
      if (!objects_.contains(content.object)) doubt_ = true;
    }
  }
  ++slots_[it->second].users;
  return it->second;
}

void KernelPaths::release(Id id) {
  Slot& slot = slots_[id];
  if (--slot.users != 0) return;
  unindex(id);
  release_report(slot.report);
  slot = {};
  free_.push_back(id);
}

void KernelPaths::unindex(Id id) {
  Slot& slot = slots_[id];
  if (std::exchange(slot.indexed, false)) ids_.erase(slot.content);
  const auto users = users_.find(slot.content.object);
  if (users == users_.end()) return;
  std::erase(users->second, id);
  if (users->second.empty()) users_.erase(users);
}

/// Its routes are found and removed later; another route with the same content is a new one.
void KernelPaths::end(Id id) {
  unindex(id);
  slots_[id].gone = true;
  refresh(id);
  changed_ = true;
}

bool KernelPaths::ended(const KernelHops& content) const {
  if (content.object != 0) return !objects_.contains(content.object);
  const auto is_down = [this](const KernelHop& hop) {
    const auto link = links_.find(hop.path.ifindex);
    return link == links_.end() || !link->second.up;
  };
  return std::all_of(content.hops.begin(), content.hops.end(), is_down);
}

// Reports.

bool KernelPaths::usable(const KernelHop& hop) const {
  const auto link = links_.find(hop.path.ifindex);
  return !hop.dead && !hop.foreign && link != links_.end() && link->second.carrier;
}

/// Adds the usable paths of an object. Groups have no groups as members.
void KernelPaths::collect(std::uint32_t object, unsigned weight, KernelReport& report) const {
  const auto it = objects_.find(object);
  if (it == objects_.end()) return;
  if (it->second.blackhole) {
    report.type = KernelRouteType::kBlackhole;
  } else if (it->second.group.empty() && usable(it->second.hop)) {
    report.paths.push_back(it->second.hop.path);
    report.paths.back().weight = weight;
  }
}

KernelReport KernelPaths::evaluate(const KernelHops& content) const {
  KernelReport report{content.type, content.protocol, {}};
  for (const KernelHop& hop : content.hops)
    if (usable(hop)) report.paths.push_back(hop.path);
  const auto object = objects_.find(content.object);
  if (object != objects_.end() && !object->second.group.empty())
    for (const auto& member : object->second.group) collect(member.id, member.weight, report);
  else
    collect(content.object, 1, report);
  if (report.type != KernelRouteType::kUnicast) report.paths.clear();
  auto& paths = report.paths;
  std::sort(paths.begin(), paths.end());
  const auto same_way = [](const KernelPath& a, const KernelPath& b) {
    return a.ifindex == b.ifindex && a.via == b.via;
  };
  for (std::size_t i = 1; i < paths.size(); ++i)
    if (same_way(paths[i - 1], paths[i])) paths[i].weight += paths[i - 1].weight;
  const auto last = std::unique(paths.rbegin(), paths.rend(), same_way);
  paths.erase(paths.begin(), last.base());
  if (paths.size() == 1) paths.front().weight = 1;
  return report;
}

KernelPaths::ReportId KernelPaths::acquire_report(const KernelHops& content) {
  if (content.silent) return kNoReport;
  const KernelReport report = evaluate(content);
  if (report.type == KernelRouteType::kUnicast && report.paths.empty()) return kNoReport;
  return reports_.acquire(report);
}

void KernelPaths::refresh(Id id) {
  Slot& slot = slots_[id];
  const ReportId before =
      std::exchange(slot.report, slot.gone ? kNoReport : acquire_report(slot.content));
  if (before != slot.report) changed_ = true;
  release_report(before);
}

void KernelPaths::refresh_users(std::uint32_t object) {
  const auto users = users_.find(object);
  if (users == users_.end()) return;
  for (const Id id : users->second) refresh(id);
}

void KernelPaths::refresh_link(std::int32_t ifindex) {
  const auto has_link = [ifindex](const KernelHop& hop) { return hop.path.ifindex == ifindex; };
  for (Id id = 1; id < slots_.size(); ++id) {
    const auto& hops = slots_[id].content.hops;
    if (std::any_of(hops.begin(), hops.end(), has_link)) refresh(id);
  }
  std::set<std::uint32_t> objects;
  for (const auto& [id, object] : objects_)
    if (has_link(object.hop)) objects.insert(id);
  if (objects.empty()) return;
  for (const auto& [id, object] : objects_) {
    const bool affected =
        objects.contains(id) ||
        std::any_of(object.group.begin(), object.group.end(),
                    [&objects](const auto& member) { return objects.contains(member.id); });
    if (affected) refresh_users(id);
  }
}

// Links.

/// Calls `change(hop)` for the paths over the link. Contents whose paths are all dead end then.
template <class Change>
void KernelPaths::change_hops(std::int32_t ifindex, bool v4_only, Change&& change) {
  for (Id id = 1; id < slots_.size(); ++id) {
    const KernelHops& before = slots_[id].content;
    if (slots_[id].users == 0 || slots_[id].gone || (v4_only && !before.v4)) continue;
    KernelHops after = before;
    for (KernelHop& hop : after.hops)
      if (hop.path.ifindex == ifindex) change(hop);
    if (after == before) continue;
    const bool ends = std::all_of(after.hops.begin(), after.hops.end(),
                                  [](const KernelHop& hop) { return hop.dead; });
    if (ends) {
      end(id);
      continue;
    }
    unindex(id);
    std::sort(after.hops.begin(), after.hops.end());
    slots_[id].content = after;
    slots_[id].indexed = ids_.try_emplace(std::move(after), id).second;
    refresh(id);
  }
}

void KernelPaths::kill_hops(std::int32_t ifindex, bool v4_only) {
  change_hops(ifindex, v4_only, [](KernelHop& hop) { hop.dead = true; });
}

void KernelPaths::revive_hops(std::int32_t ifindex, bool v4_only) {
  change_hops(ifindex, v4_only, [](KernelHop& hop) { hop.dead = false; });
}

void KernelPaths::set_link(const KernelLink& link) {
  expects_management();
  const Link after{link.up, link.carrier};
  const auto [it, added] = links_.try_emplace(link.ifindex, after);
  const Link before = added ? Link{false, false} : std::exchange(it->second, after);
  if (!added && before.up && !after.up) kill_hops(link.ifindex, false);
  if (!added && !before.up && after.up) revive_hops(link.ifindex, false);
  if (!added && before.carrier && !after.carrier) remove_objects_on(link.ifindex);
  if (before.carrier != after.carrier) refresh_link(link.ifindex);
}

/// IPv4 routes end even if they have other paths. IPv6 routes keep those, with a message for each
/// lost path, unless the kernel is configured not to send it (skip_notify_on_dev_down).
void KernelPaths::remove_link(std::int32_t ifindex) {
  expects_management();
  kill_hops(ifindex, false);
  for (Id id = 1; id < slots_.size(); ++id) {
    const Slot& slot = slots_[id];
    if (slot.gone || std::none_of(slot.content.hops.begin(), slot.content.hops.end(),
                                  [ifindex](const auto& h) { return h.path.ifindex == ifindex; }))
      continue;
    if (slot.content.v4)
      end(id);
    else
      doubt_ = true;
  }
  remove_objects_on(ifindex);
  links_.erase(ifindex);
  refresh_link(ifindex);
}

void KernelPaths::ipv4_added(std::int32_t ifindex) {
  const auto link = links_.find(ifindex);
  if (link != links_.end() && link->second.up) revive_hops(ifindex, true);
}

void KernelPaths::ipv4_ended(std::int32_t ifindex) {
  kill_hops(ifindex, true);
}

void KernelPaths::source_gone(const wire::IpAddr& addr) {
  for (Id id = 1; id < slots_.size(); ++id)
    if (!slots_[id].gone && slots_[id].content.v4 && slots_[id].content.source == addr) end(id);
}

// Next-hop objects.

void KernelPaths::set_object(const KernelNextHop& object) {
  expects_management();
  listed_.insert(object.id);
  const auto [it, added] = objects_.try_emplace(object.id, object);
  if (!added && std::exchange(it->second, object) == object) return;
  refresh_users(object.id);
  for (const auto& [id, other] : objects_)
    if (std::any_of(other.group.begin(), other.group.end(),
                    [&object](const auto& member) { return member.id == object.id; }))
      refresh_users(id);
}

void KernelPaths::remove_object(std::uint32_t id) {
  expects_management();
  if (objects_.erase(id) == 0) return;
  listed_.erase(id);
  if (const auto users = users_.find(id); users != users_.end())
    for (const Id user : std::vector<Id>{users->second}) end(user);
  std::vector<std::uint32_t> empty;
  for (auto& [other_id, other] : objects_) {
    const auto removed =
        std::erase_if(other.group, [id](const auto& member) { return member.id == id; });
    if (removed == 0) continue;
    if (other.group.empty())
      empty.push_back(other_id);
    else
      refresh_users(other_id);
  }
  for (const std::uint32_t group : empty) remove_object(group);
}

void KernelPaths::remove_objects_on(std::int32_t ifindex) {
  std::vector<std::uint32_t> removed;
  for (const auto& [id, object] : objects_)
    if (object.group.empty() && !object.blackhole && object.hop.path.ifindex == ifindex)
      removed.push_back(id);
  for (const std::uint32_t id : removed) remove_object(id);
}

void KernelPaths::end_snapshot() {
  std::vector<std::uint32_t> unlisted;
  for (const auto& [id, object] : objects_)
    if (!listed_.contains(id)) unlisted.push_back(id);
  for (const std::uint32_t id : unlisted) remove_object(id);
  listed_.clear();
}

}  // namespace ipoib::mgmt
