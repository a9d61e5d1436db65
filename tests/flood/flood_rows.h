// SPDX-License-Identifier: BSD-3-Clause
// The floods, and the limits of what each may cost others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/clock.h"
#include "tests/flood/flood_node.h"
#include "tests/flood/sim_hosts.h"

namespace ipoib::flood {

/// Sends the next frame of a flood.
using Flood = std::function<void()>;

/// Shares are percent. A share that a row has no limit for is printed only.
struct Limits {
  std::uint64_t lost_neighbours = 0;
  double to_cable = 100;     ///< Stream from Ethernet.
  double to_ethernet = 100;  ///< Stream from the cable.
  double resolved = 100;     ///< New hosts reached within 3 s.
  double first_1s = 0;       ///< New hosts whose first packet arrived within 1 s.
  double first_3s = 0;       ///< New hosts whose first packet arrived within 3 s.
  double found = 0;          ///< New Ethernet hosts that find their router within 3 s.
  double joins = 0;          ///< At the subnet administrator, within 1 s.
  double reports = 0;        ///< IGMP, within 1 s.
  double too_big = 0;
  double peers = 0;  ///< Connections of honest peers within 5 s.
  double commands = 100;
  double free_mbufs = 50;  ///< At least, of all.
  Duration turn = std::chrono::milliseconds(20);
  std::size_t growth = std::size_t{64} << 20;   ///< Octets of resident memory.
  std::optional<std::size_t> connections = {};  ///< Most connections at the end.
  std::size_t least_connections = 0;            ///< When the flood begins.
  std::size_t ended = 0;                        ///< Connections of honest hosts.
  double connected = 0;                         ///< Packets to honest hosts on their connections.
};

struct Row {
  std::string_view name;
  std::string_view what;
  std::uint32_t rate = 100'000;  ///< Frames a second.
  std::uint32_t short_rate = 100'000;
  Duration time = std::chrono::seconds(60);
  FloodNodeConfig config{};
  bool reports = false;  ///< Hosts report groups by IGMP.
  bool long_packets = false;
  bool peers = false;            ///< Honest peers request connections.
  bool connected_hosts = false;  ///< Honest hosts have connections and receive on them.
  Limits limits{};
  std::function<Flood(FloodNode&, SimHosts&)> make{};
};

/// All rows, in the order of their names.
[[nodiscard]] std::span<const Row> rows();

}  // namespace ipoib::flood
