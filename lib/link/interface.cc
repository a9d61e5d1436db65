// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/interface.h"

#include <utility>

#include "lib/link/ip/ip_stack.h"

namespace ipoib::link {

namespace {

class NoAddressSink final : public AddressSink {
 public:
  void listen(table::InterfaceId, const wire::IpAddr&) override {}
  void unlisten(table::InterfaceId, const wire::IpAddr&) override {}
  Status address_assigned(table::InterfaceId, const wire::IpPrefix&) override { return {}; }
  void address_released(table::InterfaceId, const wire::IpPrefix&) override {}
  void address_ready(table::InterfaceId, const wire::IpPrefix&) override {}
  void address_removed(table::InterfaceId, const wire::IpPrefix&) override {}
  void address_duplicate(table::InterfaceId, const wire::IpPrefix&) override {}
  void redirect(table::InterfaceId, const wire::IpAddr&, const wire::IpAddr&) override {}
  void default_router(table::InterfaceId, const wire::IpAddr&, bool) override {}
  void neighbour_failed(table::InterfaceId, const wire::IpAddr&) override {}
};

}  // namespace

AddressSink& no_address_sink() {
  static NoAddressSink sink;
  return sink;
}

const std::string& Interface::name() const {
  return ip_.config().name;
}

table::InterfaceId Interface::id() const {
  return ip_.config().id;
}

const std::vector<wire::IpPrefix>& Interface::addresses() const {
  return ip_.addresses();
}

bool Interface::is_shared(const wire::IpAddr& addr) const {
  return ip_.is_shared(addr);
}

Status Interface::add_address(const wire::IpPrefix& address, const AddressOptions& options,
                              TimePoint now) {
  return ip_.add_address(address, options, now);
}

Status Interface::remove_address(const wire::IpPrefix& address, TimePoint now) {
  return ip_.remove_address(address, now);
}

std::vector<AddressInfo> Interface::addresses6() const {
  return ip_.nd().list();
}

std::uint16_t Interface::mtu6() const {
  return ip_.nd().mtu();
}

const std::string& Interface::reason6() const {
  return ip_.nd().reason();
}

Result<table::NeighbourIndex> Interface::use_gateway(const wire::IpAddr& addr, TimePoint now) {
  return ip_.use_gateway(addr, now);
}

void Interface::forget_gateway(const wire::IpAddr& addr) {
  ip_.neighbours().forget_gateway(addr);
}

bool Interface::has_failed(const wire::IpAddr& addr) const {
  return ip_.neighbours().has_failed(addr);
}

void Interface::send_redirect(std::span<const std::byte> packet, const wire::IpAddr& next_hop,
                              TimePoint now) {
  ip_.nd().send_redirect(packet, next_hop, now);
}

std::vector<wire::IpAddr> Interface::neighbour_addresses() const {
  return ip_.neighbours().addresses();
}

std::optional<NeighbourInfo> Interface::neighbour(const wire::IpAddr& addr, TimePoint now) const {
  return ip_.neighbours().info(addr, now);
}

std::vector<NeighbourInfo> Interface::neighbours(TimePoint now) const {
  std::vector<NeighbourInfo> rows;
  for (const wire::IpAddr& addr : neighbour_addresses())
    if (auto row = neighbour(addr, now)) rows.push_back(std::move(*row));
  return rows;
}

NeighbourPhases Interface::neighbour_phases() const {
  return ip_.neighbours().phases();
}

void Interface::share_subnets(SubnetProxy& proxy) {
  ip_.share_subnets(proxy);
}

bool Interface::shares_subnet(const wire::IpAddr& addr) const {
  return ip_.shares_subnet(addr);
}

Status Interface::remove_neighbour(const wire::IpAddr& addr) {
  return ip_.neighbours().remove(addr);
}

void Interface::set_default_router(bool on, TimePoint now) {
  ip_.nd().set_default_router(on, now);
}

bool Interface::advertises_router() const {
  return ip_.nd().advertises_router();
}

void Interface::flush() {
  ip_.neighbours().flush();
}

std::string_view to_string(State state) {
  switch (state) {
    case State::kDown: return "down";
    case State::kWaiting: return "waiting";
    case State::kJoining: return "joining";
    case State::kUp: return "up";
    case State::kStopping: return "stopping";
    case State::kStopped: return "stopped";
  }
  return "unknown";
}

std::string_view to_string(NeighbourPhase phase) {
  switch (phase) {
    case NeighbourPhase::kIncomplete: return "incomplete";
    case NeighbourPhase::kPath: return "path";
    case NeighbourPhase::kReachable: return "reachable";
    case NeighbourPhase::kStale: return "stale";
    case NeighbourPhase::kProbe: return "probe";
    case NeighbourPhase::kFailed: return "failed";
    case NeighbourPhase::kStatic: return "static";
  }
  return "unknown";
}

}  // namespace ipoib::link
