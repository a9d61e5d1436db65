// SPDX-License-Identifier: BSD-3-Clause
// --stats-period: prints the traffic of links and ports periodically.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "app/cli/cli.h"
#include "app/service/periodic.h"

namespace ipoib::app {

/// Prints until the timer is destroyed. `print` is called on the management lcore.
[[nodiscard]] Result<std::unique_ptr<Periodic>> print_statistics(
    Cli& cli, mgmt::EventLoop& events, unsigned period_s,
    std::function<void(std::string_view)> print);

}  // namespace ipoib::app
