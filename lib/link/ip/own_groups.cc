// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/own_groups.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/wire/igmp.h"

namespace ipoib::link {
namespace {

constexpr Duration kRetry = std::chrono::seconds(5);

}  // namespace

void OwnGroups::join(const wire::IpAddr& group, Use& use, TimePoint now) {
  const auto joined = medium_.join_group(group, now);
  use.joined = joined.has_value();
  if (use.joined) return;
  log(LogArea::kLink, LogLevel::kDebug, "group {} not joined yet: {}", wire::to_string(group),
      joined.error().what);
  if (!retry_) retry_ = now + kRetry;
}

void OwnGroups::follow(const std::vector<wire::IpPrefix>& addresses, bool routing, TimePoint now) {
  const bool v4 = std::any_of(addresses.begin(), addresses.end(),
                              [](const auto& own) { return own.addr.is_v4(); });
  if (std::exchange(v4_, v4) == v4) return;
  const auto change = v4 ? &OwnGroups::add : &OwnGroups::remove;
  (this->*change)(wire::IpAddr::v4(0xe000'0001), now);
  if (routing) (this->*change)(wire::kIgmpAllRouters, now);
}

void OwnGroups::add(const wire::IpAddr& group, TimePoint now) {
  Use& use = groups_[group];
  if (++use.users == 1) join(group, use, now);
}

void OwnGroups::remove(const wire::IpAddr& group, TimePoint now) {
  const auto it = groups_.find(group);
  if (it == groups_.end() || --it->second.users > 0) return;
  if (it->second.joined) static_cast<void>(medium_.leave_group(group, now));
  groups_.erase(it);
  if (groups_.empty()) retry_.reset();
}

void OwnGroups::clear(TimePoint now) {
  for (const auto& [group, use] : groups_)
    if (use.joined) static_cast<void>(medium_.leave_group(group, now));
  groups_.clear();
  v4_ = false;
  retry_.reset();
}

void OwnGroups::tick(TimePoint now) {
  if (!retry_ || now < *retry_) return;
  retry_.reset();
  for (auto& [group, use] : groups_)
    if (!use.joined) join(group, use, now);
}

}  // namespace ipoib::link
