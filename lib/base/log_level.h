// SPDX-License-Identifier: BSD-3-Clause
// Log level of each area. EAL's --log-level=ipoib.AREA:LEVEL sets the same level.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "lib/base/log.h"

namespace ipoib {

/// Names of areas, indexed by LogArea.
inline constexpr std::array<std::string_view, static_cast<std::size_t>(LogArea::kCount)>
    kLogAreaNames = {"app", "config", "fabric", "link", "sa", "route", "mgmt", "worker"};

/// EAL's names of levels, indexed by LogLevel.
inline constexpr std::array<std::string_view, 5> kLogLevelNames = {"error", "warning", "notice",
                                                                   "info", "debug"};

/// From now on lines up to this level are written; none: no line of the area. Any thread.
void set_log_level(LogArea area, std::optional<LogLevel> level);
[[nodiscard]] std::optional<LogLevel> log_level(LogArea area);

}  // namespace ipoib
