// SPDX-License-Identifier: BSD-3-Clause
// The management lcore's loop, from the launch of the workers to their end.
#pragma once

#include <memory>
#include <optional>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/linux/netlink_listener.h"
#include "lib/mgmt/node/load_balance.h"

namespace ipoib::mgmt {

class Capture;
class LinuxPlane;
class ManagementLoop;
class NodeControlImpl;
struct NodeParts;
class PacketTrace;
class PortDevices;
class TestTrafficImpl;

class NodeRunner {
 public:
  NodeRunner(NodeParts& parts, NodeControlImpl& control, PortDevices& devices,
             TestTrafficImpl& traffic, Capture& capture, PacketTrace& trace,
             LinuxPlane& linux_plane);

  /// Node::run().
  void run();

  // Parts of run(), which SteppedNode also uses.

  /// Brings the interfaces up.
  void start();
  /// One turn of the loop, which does not sleep.
  void run_once();
  void begin_to_leave();
  /// True if every interface is stopped and every communication manager has settled its
  /// connections.
  [[nodiscard]] bool has_left() const;
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  /// The end of a sleep that begins at `t`, without earlier events.
  [[nodiscard]] TimePoint next_wake(TimePoint t) const;
  [[nodiscard]] bool work_waiting() const;

 private:
  Status launch_workers();
  void watch_kernel();
  void hear_kernel();
  void handle_port_events(TimePoint now);
  void handle_punts();
  void run_timers();
  void publish_interfaces();
  void turn();
  void sleep();
  void drain_before_end();
  void shut_down();
  void stop_workers();

  NodeParts& parts_;
  ManagementLoop& loop_;
  NodeControlImpl& control_;
  PortDevices& devices_;
  TestTrafficImpl& traffic_;
  Capture& capture_;
  PacketTrace& trace_;
  LinuxPlane& linux_plane_;
  LoadBalance balance_;
  /// The kernel's interfaces; null: they are not watched.
  std::unique_ptr<kernel::NetlinkListener> kernel_;
  TimePoint next_carrier_check_{};
  std::optional<TimePoint> drain_end_;  ///< The drain after the request to stop ends.
  TimePoint turn_begin_{};              ///< Begin of the turn in run().
};

}  // namespace ipoib::mgmt
