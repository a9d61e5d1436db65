// SPDX-License-Identifier: BSD-3-Clause
// A periodic timer of the event loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "lib/mgmt/node/event_loop.h"

namespace ipoib::app {

class Periodic {
 public:
  /// Calls `tick` on the management lcore, first after one `period`, which must not be 0. Missed
  /// periods are not made up for.
  static Result<std::unique_ptr<Periodic>> create(mgmt::EventLoop& events,
                                                  std::chrono::nanoseconds period,
                                                  std::function<void()> tick);
  ~Periodic();
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  Periodic(mgmt::EventLoop& events, int fd) : events_{events}, fd_{fd} {}

  mgmt::EventLoop& events_;
  int fd_;
};

}  // namespace ipoib::app
