// SPDX-License-Identifier: BSD-3-Clause
// The configuration file: TOML text and command line overrides in, a NodeConfig or a list of every
// fault out. What may stand in it is in config_schema.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/diagnostic.h"
#include "lib/base/result.h"
#include "lib/mgmt/node_config.h"

namespace ipoib::app {

/// A command line argument that sets one option: "--set hca.soft0.lid=3", "--burst=64".
struct Override {
  std::string argument;  ///< As given, for errors.
  std::string path;      ///< "hca.soft0.lid".
  std::string value;     ///< A TOML value; anything else is taken as a string.
};

struct ConfigResult {
  mgmt::NodeConfig config;
  std::vector<Diagnostic> diagnostics;

  /// Nothing but warnings: `config` may be used.
  [[nodiscard]] bool ok() const;
};

/// `file` names the text in errors. Overrides are applied in order, after the file.
[[nodiscard]] ConfigResult parse_config(std::string_view text, const std::string& file,
                                        const std::vector<Override>& overrides);

/// parse_config of a file's content; an empty name stands for an empty file.
/// Errors: kNotFound when it cannot be read.
[[nodiscard]] Result<ConfigResult> load_config(const std::string& file,
                                               const std::vector<Override>& overrides);

/// Every effective value as a configuration file that parses to the same NodeConfig.
[[nodiscard]] std::string print_config(const mgmt::NodeConfig& config);

/// Every option with type, default, allowed values and help, in Markdown.
[[nodiscard]] std::string config_reference();

}  // namespace ipoib::app
