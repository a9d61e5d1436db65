// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/log.h"

#include <rte_log.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/log_level.h"

namespace ipoib {
namespace {

/// rte_log's number of an area, registered at first use; EAL allows this before rte_eal_init.
int log_type(LogArea area) {
  static const auto types = [] {
    std::array<int, kLogAreaNames.size()> t{};
    for (std::size_t i = 0; i < t.size(); ++i)
      t[i] = rte_log_register_type_and_pick_level(fmt::format("ipoib.{}", kLogAreaNames[i]).c_str(),
                                                  RTE_LOG_NOTICE);
    return t;
  }();
  return types[static_cast<std::size_t>(area)];
}

std::uint32_t rte_level(LogLevel level) {
  switch (level) {
    case LogLevel::kErr: return RTE_LOG_ERR;
    case LogLevel::kWarning: return RTE_LOG_WARNING;
    case LogLevel::kNotice: return RTE_LOG_NOTICE;
    case LogLevel::kInfo: return RTE_LOG_INFO;
    case LogLevel::kDebug: break;
  }
  return RTE_LOG_DEBUG;
}

/// A process has one log, that of rte_log.
std::atomic<std::uint64_t> lines_lost{0};

}  // namespace

std::uint64_t log_lines_lost() noexcept {
  return lines_lost.load(std::memory_order_relaxed);
}

void count_lost_log_lines(std::uint64_t n) noexcept {
  lines_lost.fetch_add(n, std::memory_order_relaxed);
}

bool log_enabled(LogArea area, LogLevel level) {
  return rte_log_can_log(static_cast<std::uint32_t>(log_type(area)), rte_level(level));
}

void log_line(LogArea area, LogLevel level, std::string_view text) {
  const std::string_view name = kLogAreaNames[static_cast<std::size_t>(area)];
  rte_log(rte_level(level), static_cast<std::uint32_t>(log_type(area)), "ipoib.%.*s: %.*s\n",
          static_cast<int>(name.size()), name.data(), static_cast<int>(text.size()), text.data());
}

void set_log_level(LogArea area, std::optional<LogLevel> level) {
  rte_log_set_level(static_cast<std::uint32_t>(log_type(area)), level ? rte_level(*level) : 0);
}

std::optional<LogLevel> log_level(LogArea area) {
  std::optional<LogLevel> highest;
  for (std::size_t i = 0; i < kLogLevelNames.size(); ++i)
    if (const auto level = static_cast<LogLevel>(i); log_enabled(area, level)) highest = level;
  return highest;
}

}  // namespace ipoib
