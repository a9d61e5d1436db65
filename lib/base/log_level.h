// SPDX-License-Identifier: BSD-3-Clause
// How much of the log is written, area by area. EAL's --log-level=ipoib.AREA:LEVEL sets the same.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "lib/base/log.h"

namespace ipoib {

/// By LogArea: as people write them.
inline constexpr std::array<std::string_view, static_cast<std::size_t>(LogArea::kCount)>
    kLogAreaNames = {"app", "config", "fabric", "link", "sa", "route", "mgmt", "worker"};

/// By LogLevel: as EAL has them.
inline constexpr std::array<std::string_view, 5> kLogLevelNames = {"error", "warning", "notice",
                                                                   "info", "debug"};

/// Lines up to this level are written from now on; none: no line of the area is. Any thread.
void set_log_level(LogArea area, std::optional<LogLevel> level);
[[nodiscard]] std::optional<LogLevel> log_level(LogArea area);

}  // namespace ipoib
