// SPDX-License-Identifier: BSD-3-Clause
// The node as a service of systemd: tells it when the node is ready, how its interfaces are, that
// it lives, and that it stops (sd_notify(3)). Without a service manager nobody is told anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/periodic.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {

/// Says when the service manager is told that the process lives: twice in the time it waits, but
/// only while every worker loops. That the management lcore lives is shown by asking.
class Watchdog {
 public:
  /// How often due() is asked in the time the manager waits.
  static constexpr unsigned kChecks = 4;

  /// `loops` of each worker, never decreasing: Node::worker_loops(). True at every second check; a
  /// worker that has not looped since the last true makes it wait for the first check that finds
  /// that it has.
  [[nodiscard]] bool due(const std::vector<std::uint64_t>& loops);

 private:
  unsigned checks_ = 0;  ///< Since the last true.
  std::vector<std::uint64_t> told_;
};

/// What `systemctl status` shows of a running node: one line.
[[nodiscard]] std::string service_status(const mgmt::Node& node);

/// Sets that line while there is no node yet, or no longer.
void tell_service_manager(std::string_view status);

class Service {
 public:
  /// The node is ready: its workers run, its faces are open; links may still be joining. Null where
  /// no service manager listens (NOTIFY_SOCKET). `node` has been run by the time it is destroyed.
  static Result<std::unique_ptr<Service>> create(mgmt::Node& node);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

 private:
  explicit Service(const mgmt::Node& node) : node_{node} {}
  void follow_status();
  void keep_alive();
  void stopping();

  const mgmt::Node& node_;
  std::string status_;  ///< As last told.
  Watchdog watchdog_;
  std::unique_ptr<Periodic> status_timer_;
  std::unique_ptr<Periodic> watchdog_timer_;
};

}  // namespace ipoib::app
