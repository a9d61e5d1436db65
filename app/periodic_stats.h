// --stats-period: traffic of links and ports, printed every so often.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "app/cli.h"

namespace ipoib::app {

class PeriodicStats {
 public:
  /// `print` is called on the management lcore.
  static Result<std::unique_ptr<PeriodicStats>> create(Cli& cli, mgmt::EventLoop& events,
                                                       unsigned period_s,
                                                       std::function<void(std::string_view)> print);
  ~PeriodicStats();
  PeriodicStats(const PeriodicStats&) = delete;
  PeriodicStats& operator=(const PeriodicStats&) = delete;

 private:
  PeriodicStats(mgmt::EventLoop& events, int fd) : events_{events}, fd_{fd} {}

  mgmt::EventLoop& events_;
  int fd_;
};

}  // namespace ipoib::app
