// SPDX-License-Identifier: BSD-3-Clause
// The node as a service of systemd: reports readiness, the state of interfaces, liveness and the
// stop (sd_notify(3)). Without a service manager it reports nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/service/periodic.h"
#include "lib/mgmt/node_faces.h"
#include "lib/mgmt/node_view.h"

namespace ipoib::app {

/// Decides when to notify the service manager that the process lives: twice per timeout of the
/// watchdog, but only while every worker loops. A call of due() shows that the management lcore
/// lives.
class Watchdog {
 public:
  /// Calls of due() per timeout of the watchdog.
  static constexpr unsigned kChecks = 4;

  /// `loops` is the loop count of each worker, never decreasing: NodeStats::worker_loops(). Returns
  /// true at every second check. If a worker has not looped since the last true, it returns true at
  /// the first check after that worker has.
  [[nodiscard]] bool due(const std::vector<std::uint64_t>& loops);

 private:
  unsigned checks_ = 0;                  ///< Checks since the last true.
  std::vector<std::uint64_t> reported_;  ///< `loops` at the last true.
};

/// Returns the status line of a running node for `systemctl status`.
[[nodiscard]] std::string service_status(const mgmt::NodeView& view);

/// Sets that line while the node does not exist yet, or no longer.
void notify_service_manager(std::string_view status);

class Service {
 public:
  /// Reports that the node is ready: its workers run and its user interfaces are open; links may
  /// still be joining. Returns null without a service manager (NOTIFY_SOCKET). Node::run() must
  /// have returned before the object is destroyed.
  static Result<std::unique_ptr<Service>> create(const mgmt::NodeFaces& node);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

 private:
  explicit Service(const mgmt::NodeFaces& node) : node_{node} {}
  void update_status();
  void keep_alive();
  void stopping();

  const mgmt::NodeFaces& node_;
  std::string status_;  ///< Last reported status.
  Watchdog watchdog_;
  std::unique_ptr<Periodic> status_timer_;
  std::unique_ptr<Periodic> watchdog_timer_;
};

}  // namespace ipoib::app
