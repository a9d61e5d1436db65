// SPDX-License-Identifier: BSD-3-Clause
// A node without lcores and without a clock: one thread makes each turn of its management loop and
// each loop of its workers, and sets the time. It serves tests that need hours in a second, the
// same order of events each time, or several nodes in one process (`instance`).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/mgmt/device/hca_resources.h"
#include "lib/mgmt/node/node_clock.h"
#include "lib/mgmt/node_faces.h"
#include "lib/mgmt/worker/packet_balance.h"

namespace ipoib::route {
class RouteTable;
}

namespace ipoib::mgmt {

struct NodeAssembly;
struct NodeConfig;

/// No worker is registered with the node's RCU variable, because it is quiescent outside iterate():
/// every grace period ends at once.
class SteppedNode {
 public:
  /// Like Node::create(). `tsc` replaces the time-stamp counter in management and workers; devices
  /// of `make_hca` must use the same one. `instance` distinguishes the nodes of one process,
  /// because their rings, pools and tables have EAL-wide names.
  static Result<std::unique_ptr<SteppedNode>> create(const NodeConfig& config,
                                                     const HcaFactory& make_hca, TscClock tsc,
                                                     unsigned instance = 0);
  ~SteppedNode();
  SteppedNode(const SteppedNode&) = delete;
  SteppedNode& operator=(const SteppedNode&) = delete;

  [[nodiscard]] const NodeFaces& faces() const;
  /// Brings the interfaces up. Call once, before the first turn.
  void start();
  /// One turn of the management loop, which does not sleep.
  void run_once();
  /// True if work is ready for a turn, so that run() would not sleep.
  [[nodiscard]] bool work_waiting() const;
  /// The end of the sleep that run() would begin now, without earlier events.
  [[nodiscard]] TimePoint next_wake() const;
  /// One loop of a worker. Returns packets and messages handled.
  std::uint32_t iterate(unsigned worker);
  /// Time since the node was created.
  [[nodiscard]] TimePoint now() const;
  /// Deadline of the next timer of the management loop; none: no timer runs.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  /// Begins to leave every group and end every connection, which takes turns until has_left().
  void begin_to_leave();
  [[nodiscard]] bool has_left() const;
  [[nodiscard]] PacketBalance packet_balance() const;
  [[nodiscard]] Unfinished unfinished() const;
  /// Its routes, for changes that do not come from its faces.
  [[nodiscard]] route::RouteTable& routes();

 private:
  explicit SteppedNode(std::unique_ptr<NodeAssembly> node);
  std::unique_ptr<NodeAssembly> node_;
};

}  // namespace ipoib::mgmt
