// SPDX-License-Identifier: BSD-3-Clause
// Assigns devices to workers and computes the number of packet buffers on each NUMA node.
// Arithmetic on the configuration: it needs neither devices nor memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/fwd/worker_config.h"
#include "lib/mgmt/node_config.h"

namespace ipoib::mgmt {

/// NUMA nodes of the lcores; -1: not known.
struct Topology {
  std::vector<int> workers;  ///< Indexed by worker number.
  int management = -1;
};

/// Size of an lcore's mempool cache, mbufs.
inline constexpr unsigned kMbufCache = 256;
/// Segments of long messages in reassembly, or waiting for their ACKs, on one hca, and at least for
/// each worker with connections.
inline constexpr unsigned kMessagesUnderWay = 16'384, kMessagesOfWorker = 4096;
/// Packets that wait for their neighbours hold at most 1/kHeldShare of all mbufs.
inline constexpr unsigned kHeldShare = 8;

/// True if `l` is a link in connected mode on that hca.
[[nodiscard]] bool is_connected_on(const LinkConfigEntry& l, const HcaConfig& hca);

/// Number of the workers that have connections on an hca, if it serves all workers.
[[nodiscard]] unsigned connection_workers(const NodeConfig& config, const HcaConfig& hca);
/// Mbufs for the messages of all these workers.
[[nodiscard]] unsigned messages_under_way(const NodeConfig& config, const HcaConfig& hca);

/// Workers that receive from a port or hca: the assigned ones, else one, round robin. The first one
/// owns it. `nth`: index among ports, then hcas.
[[nodiscard]] std::vector<unsigned> receivers_of(const NodeConfig& config, const std::string& name,
                                                 std::size_t nth);

/// The receivers of a device without an assignment: the workers on its NUMA node, or all workers if
/// there is none, those with the fewest devices first. `queues`: limit of their number; `devices`:
/// number of the devices that each worker receives from.
[[nodiscard]] std::vector<unsigned> receivers_for(const Topology& topology, int socket,
                                                  unsigned queues,
                                                  const std::vector<unsigned>& devices);

/// UD queue pairs that a link has if its hca serves all workers. A link of the 2001 dialect has one,
/// because its draft does not say if peers accept packets from another QPN than the resolved one.
[[nodiscard]] unsigned queue_pairs_of(const LinkConfigEntry& link, unsigned workers);

/// All workers in the order in which they get queues to send: the receivers first.
[[nodiscard]] std::vector<unsigned> senders_of(const std::vector<unsigned>& receivers,
                                               unsigned workers);

/// Shares the `rx` receive and `tx` transmit queues of an ethdev among all workers, in the order of
/// senders_of(): a worker's first queues have its place there as their number. Indexed by worker
/// number.
[[nodiscard]] std::vector<fwd::InterfaceQueues> share_queues(const std::vector<unsigned>& receivers,
                                                             unsigned workers, std::uint16_t rx,
                                                             std::uint16_t tx);

/// Size of the handoff ring from one worker to another; a power of two. With up to 17 workers, the
/// rings of a worker to all others have at most 8,192 places together.
[[nodiscard]] unsigned handoff_depth(unsigned workers);

/// Size of the ring by which one worker passes frames from a cable to another; a power of two. With up
/// to 17 workers, the rings of a worker to all others have at most 4,096 places together.
[[nodiscard]] unsigned cable_ring_depth(unsigned workers);

struct PoolPlan {
  int socket = -1;
  unsigned mbufs = 0;
  unsigned shares = 0;  ///< Mbufs without a buffer, see Buffers::shares().
};
/// Plans a pool on each NUMA node that has a worker, in the order of worker numbers: mbufs for the
/// devices, rings and caches of the workers there. The share of management is on its own node if a
/// worker is there too, else on the first. If the configuration sets the total number of mbufs, the
/// pools share it in these proportions.
[[nodiscard]] std::vector<PoolPlan> plan_pools(const NodeConfig& config, const Topology& topology);

/// mbufs reserved for management and the acknowledgements of connections.
[[nodiscard]] unsigned plan_reserve(const NodeConfig& config);

}  // namespace ipoib::mgmt
