// SPDX-License-Identifier: BSD-3-Clause
// The application's arguments, those after "--". Names and meanings are those of dpdk-testpmd if
// both programs have the feature.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/config/config.h"
#include "lib/base/result.h"

namespace ipoib::app {

struct Options {
  bool interactive = false;
  bool auto_start = false;
  bool check = false;
  bool help = false;
  bool help_config = false;
  bool help_cli = false;
  bool help_options = false;
  bool help_telemetry = false;
  bool version = false;
  std::string config_file;   ///< Empty: only the overrides apply.
  std::string cmdline_file;  ///< Empty: none, also for the sockets.
  std::string cli_socket;
  std::string cli_read_socket;
  std::string prometheus;       ///< Address to serve metrics at; empty: disabled.
  unsigned stats_period_s = 0;  ///< 0: no periodic statistics.
  std::optional<unsigned> mgmt_lcore;
  std::vector<Override> overrides;  ///< --set and shorthands, in the order of the command line.

  /// Forwarding runs from the start: on request, or because there is no terminal to type `start`
  /// at.
  [[nodiscard]] bool starts_forwarding() const { return auto_start || !interactive; }
};

/// `args` excludes the program's name. Errors: kInvalidArgument with the text read and the allowed
/// one.
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& args);

/// Returns the output of --help.
[[nodiscard]] std::string options_help();

/// Returns the table in app/options.md.
[[nodiscard]] std::string options_reference();

}  // namespace ipoib::app
