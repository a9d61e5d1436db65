// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/ports.h"

#include <algorithm>

namespace ipoib::sa {

using wire::MadStatus;

void PortTable::add_own(const wire::Gid& gid, std::uint16_t lid) {
  Port& port = by_gid_[gid];
  port.gid = gid;
  port.lid = lid;
  port.own = true;
  by_lid_[lid] = gid;
}

MadStatus PortTable::may_claim(const wire::Gid& gid, std::uint16_t any_lid, bool holder_idle,
                               TimePoint now) const {
  const std::uint16_t lid = base_of(any_lid);
  const Port* port = find(gid);
  const Port* holder = at(lid);
  if (port != nullptr && port == holder) return MadStatus::kOk;
  if (port != nullptr && port->own) return MadStatus::kSaRequestInvalid;
  if (holder != nullptr && holder->own) return MadStatus::kSaRequestInvalid;
  if (port != nullptr && port->former_lid == lid && now - port->moved < kMaxDelay)
    return MadStatus::kBusy;
  if (holder != nullptr && !holder_idle && now - holder->heard < silence_)
    return MadStatus::kSaRequestInvalid;
  if (port == nullptr && holder == nullptr && by_gid_.size() >= max_ports_)
    return MadStatus::kSaNoResources;
  return MadStatus::kOk;
}

std::optional<wire::Gid> PortTable::claim(const wire::Gid& gid, std::uint16_t any_lid,
                                          TimePoint now) {
  const std::uint16_t lid = base_of(any_lid);
  std::optional<wire::Gid> loser;
  if (const Port* holder = at(lid); holder != nullptr && holder->gid != gid) {
    loser = holder->gid;
    by_gid_.erase(*loser);
    events_.push_back({PortChange::Kind::kOutOfService, *loser, lid});
  }
  Port& port = by_gid_[gid];
  if (port.lid == 0) events_.push_back({PortChange::Kind::kInService, gid, lid});
  if (port.lid != 0 && port.lid != lid) {
    by_lid_.erase(port.lid);
    port.former_lid = port.lid;
    port.moved = now;
    port.mtu = 0;
    events_.push_back({PortChange::Kind::kMoved, gid, port.lid});
  }
  port.gid = gid;
  port.lid = lid;
  port.heard = now;
  by_lid_[lid] = gid;
  return loser;
}

bool PortTable::hear(const wire::Gid& gid, std::uint16_t lid, TimePoint now) {
  const Port* port = find(gid);
  const Port* holder = at(lid);
  const bool together = port != nullptr && port == holder;
  const bool both_new = port == nullptr && holder == nullptr && by_gid_.size() < max_ports_ / 2;
  if (together || both_new) claim(gid, lid, now);
  return together || both_new;
}

void PortTable::add_partition(const wire::Gid& gid, std::uint16_t pkey) {
  if (const auto it = by_gid_.find(gid); it != by_gid_.end())
    it->second.partitions.insert(partition_of(pkey));
}

void PortTable::set_mtu(const wire::Gid& gid, std::uint8_t mtu) {
  if (const auto it = by_gid_.find(gid); it != by_gid_.end()) it->second.mtu = mtu;
}

void PortTable::doubt_mtu(const wire::Gid& gid, TimePoint now) {
  const auto it = by_gid_.find(gid);
  if (it == by_gid_.end()) return;
  Port& port = it->second;
  if (port.doubted != TimePoint{} && now - port.doubted < kDoubtInterval) return;
  port.doubted = now;
  events_.push_back({PortChange::Kind::kMtuInDoubt, gid, port.lid});
}

const Port* PortTable::find(const wire::Gid& gid) const {
  const auto it = by_gid_.find(gid);
  return it == by_gid_.end() ? nullptr : &it->second;
}

const Port* PortTable::at(std::uint16_t lid) const {
  const auto it = by_lid_.find(base_of(lid));
  return it == by_lid_.end() ? nullptr : find(it->second);
}

std::optional<std::uint16_t> shared_partition(const Port& a, const Port& b) {
  const std::uint16_t preferred = partition_of(wire::kDefaultPkey);
  if (a.partitions.count(preferred) != 0 && b.partitions.count(preferred) != 0) return preferred;
  const auto it = std::find_if(a.partitions.begin(), a.partitions.end(),
                               [&b](std::uint16_t p) { return b.partitions.count(p) != 0; });
  return it == a.partitions.end() ? std::nullopt : std::optional{*it};
}

}  // namespace ipoib::sa
