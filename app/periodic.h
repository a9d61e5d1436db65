// SPDX-License-Identifier: BSD-3-Clause
// A timer of the event loop that goes off again and again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "lib/mgmt/event_loop.h"

namespace ipoib::app {

class Periodic {
 public:
  /// First after one `period`, which is not 0; what was missed is not made up for. `tick` is called
  /// on the management lcore.
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
