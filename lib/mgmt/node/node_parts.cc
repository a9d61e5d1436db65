// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/node_parts.h"

#include <rte_ring.h>

#include <algorithm>

#include "lib/base/hash_seed.h"
#include "lib/mgmt/device/device_readings.h"
#include "lib/wire/iba.h"

namespace ipoib::mgmt {

NodeParts::NodeParts(const NodeConfig& node_config, TscClock tsc)
    : config{node_config},
      clock{tsc},
      run_id{static_cast<std::uint32_t>(secret_seed() << 8 | 1U << 8)} {}

void NodeParts::set_time(TimePoint t) {
  punt->set_now(t);
  route_writer->set_now(t);
  addresses->set_now(t);
}

PortInstance* NodeParts::port_named(std::string_view name) const {
  const auto found = std::find_if(ports.begin(), ports.end(),
                                  [name](const auto& p) { return p->config().name == name; });
  return found == ports.end() ? nullptr : found->get();
}

std::uint64_t NodeParts::speed_bps(table::InterfaceId id) const {
  constexpr std::uint64_t kMega = 1'000'000;
  for (const auto& p : ports)
    if (p->config().id == id) return link_status(p->device()).speed_mbps * kMega;
  for (const auto& l : links)
    if (l->config().id == id && l->control().state() == link::State::kUp)
      return wire::rate_mbps(l->control().parameters().rate) * kMega;
  return 0;
}

}  // namespace ipoib::mgmt
