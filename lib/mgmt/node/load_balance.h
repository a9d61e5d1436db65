// SPDX-License-Identifier: BSD-3-Clause
// Measures the load of workers and of the links' queue pairs, by which links move neighbours and busy
// workers spread their packets.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/ipoib/queue_spread.h"
#include "lib/mgmt/node/flow_spread.h"

namespace ipoib::mgmt {

class LinkInstance;
struct NodeParts;

class LoadBalance {
 public:
  /// A period. Its length is that of the pause between moves.
  static constexpr Duration kPeriod = std::chrono::seconds(5);

  explicit LoadBalance(NodeParts& parts) : parts_{parts} {}

  /// Ends the period if it is over: passes every link its loads, then changes what workers spread.
  /// Call it once a turn.
  void advance(TimePoint now);

 private:
  /// Totals at the end of the previous period.
  struct WorkerMark {
    std::uint64_t loops = 0, busy_cycles = 0, packets = 0;
  };
  struct WorkerLoad {
    FlowSpread::Load measured;
    double busy = 0;  ///< `measured`, and what neighbours that move add or take.
    /// Includes what the worker does for others, as the reading of a cable. So the load of a peer is
    /// never estimated too low.
    double per_packet = 0;
  };
  [[nodiscard]] std::vector<WorkerLoad> measure_workers();
  void balance(LinkInstance& link, std::vector<WorkerLoad>& workers, TimePoint now);
  void spread(const std::vector<WorkerLoad>& workers, TimePoint now);
  [[nodiscard]] std::vector<link::QueueLoad> measure(const LinkInstance& link,
                                                     const std::vector<WorkerLoad>& workers);

  NodeParts& parts_;
  TimePoint due_{};
  std::uint64_t begin_tsc_ = 0;
  std::vector<WorkerMark> workers_;
  FlowSpread spread_;
};

}  // namespace ipoib::mgmt
