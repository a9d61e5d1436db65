// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/interface.h"

#include <utility>

namespace ipoib::link {

namespace {

class NoAddressSink final : public AddressSink {
 public:
  void listen(table::InterfaceId, const wire::IpAddr&) override {}
  void unlisten(table::InterfaceId, const wire::IpAddr&) override {}
  void address_ready(table::InterfaceId, const wire::IpPrefix&) override {}
  void address_removed(table::InterfaceId, const wire::IpPrefix&) override {}
  void redirect(table::InterfaceId, const wire::IpAddr&, const wire::IpAddr&) override {}
};

}  // namespace

AddressSink& no_address_sink() {
  static NoAddressSink sink;
  return sink;
}

std::vector<NeighbourInfo> Interface::neighbours(TimePoint now) const {
  std::vector<NeighbourInfo> rows;
  for (const wire::IpAddr& addr : neighbour_addresses())
    if (auto row = neighbour(addr, now)) rows.push_back(std::move(*row));
  return rows;
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
