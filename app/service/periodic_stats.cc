// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/periodic_stats.h"

#include <chrono>
#include <utility>

namespace ipoib::app {

Result<std::unique_ptr<Periodic>> print_statistics(Cli& cli, mgmt::EventLoop& events,
                                                   unsigned period_s,
                                                   std::function<void(std::string_view)> print) {
  return Periodic::create(events, std::chrono::seconds{period_s}, [&cli, print = std::move(print)] {
    print(cli.execute("show port stats all"));
  });
}

}  // namespace ipoib::app
