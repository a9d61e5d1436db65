// SPDX-License-Identifier: BSD-3-Clause
// The interface through which routes take effect.
#pragma once

#include <cstdint>

#include "lib/base/result.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Implemented by lib/mgmt over the tables that workers read, and by tests.
class RouteSink {
 public:
  virtual ~RouteSink() = default;
  virtual Status set_prefix(const wire::IpPrefix& prefix, table::NextHopIndex next_hop) = 0;
  virtual void remove_prefix(const wire::IpPrefix& prefix) = 0;
  /// Sends packets to the IPv4 address straight to the neighbour, as long as the longest route to it
  /// has the next hop `via`. kNoResources: no room; they take the route.
  virtual Status add_neighbour(const wire::IpAddr& addr, table::NextHopIndex via,
                               table::NeighbourIndex neighbour) = 0;
  virtual void remove_neighbour(const wire::IpAddr& addr, table::NextHopIndex via) = 0;
  virtual void set_next_hop(table::NextHopIndex index, const table::NextHop& next_hop) = 0;
  /// The neighbour number of a gateway, held until forget_gateway().
  virtual Result<table::NeighbourIndex> use_gateway(table::InterfaceId iface,
                                                    const wire::IpAddr& addr) = 0;
  virtual void forget_gateway(table::InterfaceId iface, const wire::IpAddr& addr) = 0;
  /// True if the neighbour did not answer the last requests.
  [[nodiscard]] virtual bool has_failed(table::InterfaceId iface,
                                        const wire::IpAddr& addr) const = 0;

  /// Returns a token of the current moment.
  virtual std::uint64_t mark_time() = 0;
  /// True if every worker has finished the packets whose route it looked up before the token's
  /// moment. `wait`: blocks until then.
  virtual bool is_past(std::uint64_t moment, bool wait) = 0;
};

}  // namespace ipoib::route
