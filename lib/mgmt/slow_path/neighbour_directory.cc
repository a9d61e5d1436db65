// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/slow_path/neighbour_directory.h"

#include <algorithm>
#include <utility>

#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/mgmt/slow_path/ip_mbuf.h"
#include "lib/mgmt/slow_path/punt_handler.h"

namespace ipoib::mgmt {
namespace {

msg::Down message(msg::Down::Kind kind, table::NeighbourIndex index) {
  msg::Down m{};
  m.kind = kind;
  m.iface = table::kNoInterface;
  m.index = index;
  return m;
}

}  // namespace

NeighbourDirectory::NeighbourDirectory(WorkerSet& workers, PuntHandler& punt,
                                       fabric::Retirement& retirement, std::uint32_t capacity)
    : workers_{workers},
      punt_{punt},
      retirement_{retirement},
      capacity_{capacity},
      host_routes_(capacity) {
  free_.reserve(capacity);
  for (std::uint32_t i = capacity; i > 0; --i) free_.push_back(i - 1);
}

Result<table::NeighbourIndex> NeighbourDirectory::allocate_index() {
  expects_management();
  retired_.reclaim(retirement_, [this](table::NeighbourIndex index) { free_.push_back(index); });
  if (free_.empty())
    return fail(Errc::kNoResources, "all {} neighbour entries are in use or not yet reclaimed ({})",
                capacity_, retired_.size());
  const auto index = free_.back();
  free_.pop_back();
  return index;
}

void NeighbourDirectory::remove(table::NeighbourIndex index) {
  expects_management();
  // Once workers have forgotten the number, none may look it up.
  withdraw(index);
  workers_.send_to_all(message(msg::Down::Kind::kNeighbourRemove, index));
  retired_.add(index, retirement_);
}

void NeighbourDirectory::install(table::NeighbourIndex index, const table::Neighbour& neighbour) {
  expects_management();
  // Flows must leave a gateway before workers learn that it failed.
  if (neighbour.state == table::NeighbourState::kFailed) notify_routes(neighbour, false);
  msg::Down m = message(msg::Down::Kind::kNeighbourSet, index);
  m.neighbour = neighbour;
  workers_.send_to_all(m);
  if (neighbour.state != table::NeighbourState::kValid) return;
  notify_routes(neighbour, true);
  publish(index, neighbour);
}

/// Later states do not withdraw the route, because the worker reads the state with the neighbour.
/// Where there is no room, the next installation of this neighbour tries again.
void NeighbourDirectory::publish(table::NeighbourIndex index, const table::Neighbour& neighbour) {
  if (routes_ == nullptr || !neighbour.addr.is_v4() || wire::is_multicast(neighbour.addr)) return;
  const HostRoute route{neighbour.addr.v4_host(), neighbour.iface};
  if (host_routes_[index] == route) return;
  withdraw(index);
  if (routes_->add_neighbour(neighbour.iface, neighbour.addr, index)) host_routes_[index] = route;
}

void NeighbourDirectory::withdraw(table::NeighbourIndex index) {
  const auto route = std::exchange(host_routes_[index], {});
  if (route.iface != table::kNoInterface)
    routes_->remove_neighbour(route.iface, wire::IpAddr::v4(route.addr));
}

void NeighbourDirectory::notify_routes(const table::Neighbour& neighbour, bool answers) {
  if (routes_ != nullptr) routes_->neighbour_heard(neighbour.iface, neighbour.addr, answers);
}

TimePoint NeighbourDirectory::last_used(table::NeighbourIndex index) const {
  std::uint32_t latest = 0;
  for (const WorkerHandle& w : workers_.all())
    latest = std::max(latest, w.worker->last_used_s(index));
  return latest == 0 ? TimePoint::min() : TimePoint{std::chrono::seconds{latest}};
}

link::Crowded NeighbourDirectory::crowded(link::HeldPacket packet) const {
  return punt_.crowded(reinterpret_cast<rte_mbuf*>(packet));
}

wire::IpAddr NeighbourDirectory::source_of(link::HeldPacket packet) const {
  return mgmt::source_of(reinterpret_cast<rte_mbuf*>(packet));
}

link::PacketSender NeighbourDirectory::sender_of(link::HeldPacket packet) const {
  auto* const m = reinterpret_cast<rte_mbuf*>(packet);
  const auto& held = fabric::meta_of(m).held;
  return {mgmt::source_of(m), held.link_sender, held.neighbour};
}

void NeighbourDirectory::release(link::HeldPacket packet) {
  expects_management();
  punt_.send_held(reinterpret_cast<rte_mbuf*>(packet));
}

void NeighbourDirectory::drop(link::HeldPacket packet, Drop reason, bool unreachable) {
  expects_management();
  punt_.drop_held(reinterpret_cast<rte_mbuf*>(packet), reason, unreachable);
}

}  // namespace ipoib::mgmt
