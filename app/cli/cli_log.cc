// SPDX-License-Identifier: BSD-3-Clause
// Commands for the log levels of areas.
#include <algorithm>

#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "lib/base/log_level.h"

namespace ipoib::app {
namespace {

constexpr std::string_view kOff = "off";

std::optional<LogLevel> level_named(std::string_view name) {
  const auto it = std::find(kLogLevelNames.begin(), kLogLevelNames.end(), name);
  if (it == kLogLevelNames.end()) return std::nullopt;
  return static_cast<LogLevel>(it - kLogLevelNames.begin());
}

void set_all(std::optional<LogLevel> level) {
  for (std::size_t i = 0; i < kLogAreaNames.size(); ++i)
    set_log_level(static_cast<LogArea>(i), level);
}

}  // namespace

std::string log_levels_allowed() {
  return fmt::format("{}, {}", kOff, fmt::join(kLogLevelNames, ", "));
}

bool is_log_level(std::string_view word) {
  return word == kOff || level_named(word);
}

bool is_log_area(std::string_view word) {
  return std::find(kLogAreaNames.begin(), kLogAreaNames.end(), word) != kLogAreaNames.end();
}

Result<Output> set_log(const mgmt::NodeFaces&, const Match& match) {
  const auto level = level_named(match.get("LEVEL").value_or(""));
  const auto area = match.get("AREA");
  for (std::size_t i = 0; i < kLogAreaNames.size(); ++i)
    if (!area || *area == kLogAreaNames[i]) set_log_level(static_cast<LogArea>(i), level);
  return "";
}

Result<Output> set_verbose(const mgmt::NodeFaces&, const Match& match) {
  set_all(
      static_cast<LogLevel>(static_cast<unsigned>(LogLevel::kNotice) + number(match, "VERBOSITY")));
  return "";
}

Result<Output> show_log(const mgmt::NodeFaces&, const Match& match) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < kLogAreaNames.size(); ++i) {
    const auto level = log_level(static_cast<LogArea>(i));
    rows.push_back({{"area", kLogAreaNames[i]},
                    {"level", level ? kLogLevelNames[static_cast<std::size_t>(*level)] : kOff}});
  }
  return list(match, rows, {{"AREA", "area"}, {"LEVEL", "level"}});
}

}  // namespace ipoib::app
