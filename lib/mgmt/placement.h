// SPDX-License-Identifier: BSD-3-Clause
// Which worker serves what, and how many packet buffers that takes on which NUMA node. Arithmetic
// on the configuration: it needs neither devices nor memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/mgmt/node_config.h"

namespace ipoib::mgmt {

/// NUMA nodes of the lcores; -1: not known.
struct Topology {
  std::vector<int> workers;  ///< By worker number.
  int management = -1;
};

/// mbufs that one lcore keeps to itself.
inline constexpr unsigned kMbufCache = 256;
/// Segments of long messages that are put together, or wait to be acknowledged, on one hca.
inline constexpr unsigned kMessagesUnderWay = 16'384;
/// Packets that wait for their neighbours hold no more than this part of all mbufs.
inline constexpr unsigned kHeldShare = 8;

/// A link in connected mode on that hca.
[[nodiscard]] bool is_connected_on(const LinkConfigEntry& l, const HcaConfig& hca);

/// Worker that serves a port or hca: the one assigned, or each in turn. `nth`: its place among
/// ports, then hcas.
[[nodiscard]] unsigned owner_of(const NodeConfig& config, const std::string& name, std::size_t nth);

/// Places in the ring from one worker to another; a power of two. Up to 17 workers, a worker's
/// rings to all others have no more than 8,192 places together.
[[nodiscard]] unsigned handoff_depth(unsigned workers);

struct PoolPlan {
  int socket = -1;
  unsigned mbufs = 0;
};
/// A pool on each NUMA node that has a worker, in the order of worker numbers: what waits at the
/// devices of the workers there, in their rings and caches. Management's share is on its own node
/// where a worker is there too, else on the first. Where the configuration says how many mbufs
/// there are, the pools share them in these proportions.
[[nodiscard]] std::vector<PoolPlan> plan_pools(const NodeConfig& config, const Topology& topology);

/// mbufs that nobody but management and the acknowledgements of connections may take.
[[nodiscard]] unsigned plan_reserve(const NodeConfig& config);

}  // namespace ipoib::mgmt
