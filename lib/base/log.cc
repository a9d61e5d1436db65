#include "lib/base/log.h"

#include <rte_log.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace ipoib {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(LogArea::kCount)> kAreaNames = {
    "ipoib.app", "ipoib.config", "ipoib.fabric", "ipoib.link",
    "ipoib.sa",  "ipoib.route",  "ipoib.mgmt",   "ipoib.worker"};

/// rte_log's number for an area; registered at first use, which EAL allows before rte_eal_init.
int log_type(LogArea area) {
  static const auto types = [] {
    std::array<int, kAreaNames.size()> t{};
    for (std::size_t i = 0; i < t.size(); ++i)
      t[i] = rte_log_register_type_and_pick_level(kAreaNames[i], RTE_LOG_NOTICE);
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

}  // namespace

bool log_enabled(LogArea area, LogLevel level) {
  return rte_log_can_log(static_cast<std::uint32_t>(log_type(area)), rte_level(level));
}

void log_line(LogArea area, LogLevel level, std::string_view text) {
  rte_log(rte_level(level), static_cast<std::uint32_t>(log_type(area)), "%s: %.*s\n",
          kAreaNames[static_cast<std::size_t>(area)], static_cast<int>(text.size()), text.data());
}

}  // namespace ipoib
