// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/slow_path/multicast_wiring.h"

#include <utility>

#include "lib/base/contract.h"
#include "lib/base/hash_seed.h"
#include "lib/mgmt/worker/injector.h"

namespace ipoib::mgmt {
namespace {

std::string_view origin_of(const route::MulticastEntryInfo& row) {
  if (row.from_linux) return "linux";
  if (row.from_static) return row.learned ? "static, learned" : "static";
  return row.learned ? "learned" : "";
}

msg::Down delivery_message(msg::Down::Kind kind, const table::Delivery& delivery) {
  msg::Down down;
  down.kind = kind;
  down.delivery = delivery;
  return down;
}

}  // namespace

MulticastWiring::MulticastWiring(InterfaceTable& interfaces, WorkerSet& workers, Injector& injector)
    : interfaces_{interfaces},
      workers_{workers},
      injector_{injector},
      router_{{}, *this, *this, secret_seed()} {}

Status MulticastWiring::add_router(InterfaceSlot& slot, const IpConfig& config, TimePoint now) {
  expects_management();
  const table::InterfaceId id = slot.control->id();
  route::MembershipConfig membership;
  membership.last_member_query_interval = config.last_member_interval;
  membership.query_interval = config.query_interval;
  membership.query_response_interval = config.query_response_interval;
  membership.robustness = config.query_robustness;
  membership.version = static_cast<wire::MembershipVersion>(config.igmp_version);
  // MLDv1 is the counterpart of IGMPv2.
  membership.mld_version = static_cast<wire::MembershipVersion>(config.mld_version + 1);
  membership.forwarder = config.multicast_forwarder;
  membership.max_groups = config.max_groups;
  if (auto s = router_.add_interface(id, membership, now); !s) return s;
  router_.link_down(id, now);
  routers_.push_back(id);
  note_incoming();
  for (const wire::IpAddr& group : route::MulticastRouter::router_groups())
    if (auto s = slot.control->join_group(group, now); !s) return s;
  return {};
}

void MulticastWiring::update_state(TimePoint now) {
  expects_management();
  up_.resize(interfaces_.size());
  for (const auto& slot : interfaces_) {
    const table::InterfaceId id = slot->control->id();
    const bool up = slot->control->state() == link::State::kUp;
    if (up == up_[id]) continue;
    up_[id] = up;
    up ? router_.link_up(id, now) : router_.link_down(id, now);
  }
}

Result<route::StaticMulticastRoute> MulticastWiring::resolve(
    const MulticastRouteConfig& route) const {
  const auto id_of = [&](const std::string& name) -> Result<table::InterfaceId> {
    const InterfaceSlot* slot = interfaces_.find(name);
    if (slot == nullptr) return fail(Errc::kNotFound, "no link or port {}", name);
    return slot->control->id();
  };
  const auto in = id_of(route.in);
  if (!in) return tl::make_unexpected(in.error());
  route::StaticMulticastRoute result{route.groups, route.source, *in, {}};
  for (const std::string& name : route.out) {
    const auto out = id_of(name);
    if (!out) return tl::make_unexpected(out.error());
    result.out.push_back(*out);
  }
  return result;
}

Status MulticastWiring::add_route(const MulticastRouteConfig& route, TimePoint now) {
  expects_management();
  const auto resolved = resolve(route);
  if (!resolved) return tl::make_unexpected(resolved.error());
  Status added = router_.add_static(*resolved, now);
  note_incoming();
  if (added) interfaces_.find(resolved->in)->control->route_groups(resolved->groups, now);
  return added;
}

Status MulticastWiring::remove_route(const MulticastRouteConfig& route, TimePoint now) {
  expects_management();
  const auto resolved = resolve(route);
  if (!resolved) return tl::make_unexpected(resolved.error());
  Status removed = router_.remove_static(*resolved, now);
  note_incoming();
  if (removed) interfaces_.find(resolved->in)->control->unroute_groups(resolved->groups, now);
  return removed;
}

void MulticastWiring::note_incoming() {
  incoming_ = 0;
  for (const table::InterfaceId id : routers_) incoming_ |= std::uint64_t{1} << id;
  for (const auto& route : router_.table().static_routes())
    incoming_ |= std::uint64_t{1} << route.in;
}

std::vector<MulticastRouteInfo> MulticastWiring::rows(TimePoint now) const {
  std::vector<MulticastRouteInfo> rows;
  for (const route::MulticastEntryInfo& r : router_.table().rows(now)) {
    const table::Delivery& d = r.delivery;
    if (!wire::is_multicast(d.addr)) continue;  // a link-local address of this node
    MulticastRouteInfo row;
    row.group = d.addr;
    if (d.source != wire::IpAddr{}) row.source = d.source;
    row.in = interfaces_.name_of(d.in);
    for (const auto& slot : interfaces_) {
      const table::InterfaceId id = slot->control->id();
      if (id >= table::kMaxMulticastInterfaces) continue;
      if ((d.out >> id & 1) != 0) row.out.push_back(slot->control->name());
      if ((r.left_to_other >> id & 1) != 0) row.left_to_other.push_back(slot->control->name());
    }
    row.local = d.local;
    row.origin = origin_of(r);
    row.age = r.age;
    rows.push_back(std::move(row));
  }
  return rows;
}

void MulticastWiring::send(table::InterfaceId iface, std::vector<std::byte> packet) {
  injector_.send_on_interface(iface, packet);
}

void MulticastWiring::set(const table::Delivery& delivery) {
  workers_.send_to_all(delivery_message(msg::Down::Kind::kDeliverySet, delivery));
}

void MulticastWiring::remove(table::InterfaceId in, const wire::IpAddr& addr,
                             const wire::IpAddr& source) {
  table::Delivery key;
  key.in = in;
  key.addr = addr;
  key.source = source;
  workers_.send_to_all(delivery_message(msg::Down::Kind::kDeliveryRemove, key));
}

}  // namespace ipoib::mgmt
