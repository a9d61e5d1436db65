// SPDX-License-Identifier: BSD-3-Clause
// The application's arguments, those after "--". Names and meaning are dpdk-testpmd's wherever both
// have the feature.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/config.h"
#include "lib/base/result.h"

namespace ipoib::app {

struct Options {
  bool interactive = false;
  bool auto_start = false;
  bool check = false;
  bool help = false;
  bool help_config = false;
  bool help_cli = false;
  bool version = false;
  std::string config_file;   ///< Empty: the overrides are all there is.
  std::string cmdline_file;  ///< Empty: none; so is cli_socket.
  std::string cli_socket;
  std::string prometheus;       ///< Address to serve metrics at; empty: nowhere.
  unsigned stats_period_s = 0;  ///< 0: no periodic statistics.
  std::optional<unsigned> mgmt_lcore;
  std::vector<Override> overrides;  ///< In the order of the command line, --set and shorthands.

  /// Forwarding runs from the start: asked for, or nobody is there to type `start`.
  [[nodiscard]] bool starts_forwarding() const { return auto_start || !interactive; }
};

/// `args` without the program's name. Errors: kInvalidArgument with what was read and is allowed.
[[nodiscard]] Result<Options> parse_options(const std::vector<std::string>& args);

/// What --help prints.
[[nodiscard]] std::string options_help();

}  // namespace ipoib::app
