// SPDX-License-Identifier: BSD-3-Clause
// The ways to reach the management lcore: tasks of other threads, descriptors, the doorbell of
// workers and devices, and the request to stop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/doorbell.h"
#include "lib/base/result.h"
#include "lib/mgmt/node/event_loop.h"

namespace ipoib::mgmt {

/// Management lcore only, except post(), request_stop(), stop_requested(), stop_urged() and
/// has_tasks().
class ManagementLoop {
 public:
  static Result<std::unique_ptr<ManagementLoop>> create();
  ~ManagementLoop();
  ManagementLoop(const ManagementLoop&) = delete;
  ManagementLoop& operator=(const ManagementLoop&) = delete;

  /// Runs `task` on the management lcore, soon. Any thread.
  void post(std::function<void()> task);
  /// True if tasks wait to be run. Any thread.
  [[nodiscard]] bool has_tasks();
  /// Any thread, but not a signal handler. At the second request the node does not drain first.
  void request_stop();
  /// Any thread.
  [[nodiscard]] bool stop_requested() const {
    return stop_requests_.load(std::memory_order_relaxed) != 0;
  }
  /// Requested more than once. Any thread.
  [[nodiscard]] bool stop_urged() const {
    return stop_requests_.load(std::memory_order_relaxed) > 1;
  }
  /// Registers a callback for the beginning of shutdown, independent of its cause. Management
  /// lcore, before shutdown begins.
  void on_stop(std::function<void()> hook) { stop_hook_ = std::move(hook); }

  [[nodiscard]] EventLoop& events() {
    expects_own_lcore();
    return *events_;
  }
  /// Rung by workers and devices that have work for management.
  [[nodiscard]] Doorbell& doorbell() { return doorbell_; }

  // For the owner, which runs the loop.

  /// Runs the tasks that wait.
  void run_tasks();
  /// Calls the hook of on_stop().
  void announce_stop();
  /// Names the thread that runs the loop; default: none.
  void set_runner(std::thread::id runner) { runner_.set(runner); }
  /// Checks the rule "management lcore only": while a thread runs the loop, it is that lcore.
  [[gnu::always_inline]] void expects_own_lcore() const {
    expects_management();
    expects([this] { return runner_.is({}) || runner_.is(std::this_thread::get_id()); },
            "the node is asked by its own thread");
  }

 private:
  explicit ManagementLoop(std::unique_ptr<EventLoop> events) : events_{std::move(events)} {}

  std::unique_ptr<EventLoop> events_;
  Doorbell doorbell_;
  [[no_unique_address]] ForChecks<std::thread::id> runner_;
  std::function<void()> stop_hook_;
  std::atomic<unsigned> stop_requests_{0};
  std::mutex tasks_mutex_;
  std::vector<std::function<void()>> tasks_;  ///< Guarded by tasks_mutex_.
};

}  // namespace ipoib::mgmt
