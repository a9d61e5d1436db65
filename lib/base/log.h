// SPDX-License-Identifier: BSD-3-Clause
// Log of the control plane. Lines go to rte_log, so EAL's --log-level=ipoib.link:debug works. This
// header includes nothing of EAL, so every room may include it. Workers do not log.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace ipoib {

enum class LogArea { kApp, kConfig, kFabric, kLink, kSa, kRoute, kMgmt, kWorker, kCount };

/// ERR: an operator must act. WARNING: degraded. NOTICE: state changed. INFO: set-up.
enum class LogLevel { kErr, kWarning, kNotice, kInfo, kDebug };

/// Writes one line "ipoib.<area>: text". Thread-safe.
void log_line(LogArea area, LogLevel level, std::string_view text);

/// True if a line of this level would be written. Guards expensive arguments.
[[nodiscard]] bool log_enabled(LogArea area, LogLevel level);

/// Lines that were logged and never written, because their destination took no more. Any thread.
[[nodiscard]] std::uint64_t log_lines_lost() noexcept;
/// For the writer of the log.
void count_lost_log_lines(std::uint64_t n) noexcept;

template <class... Args>
void log(LogArea area, LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(area, level))
    log_line(area, level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ipoib
