// SPDX-License-Identifier: BSD-3-Clause
// The configuration file: converts TOML text and command line overrides to a NodeConfig, or to a
// list of every fault. config_schema.cc defines the options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/config/diagnostic.h"
#include "lib/base/result.h"
#include "lib/mgmt/node_config.h"

namespace ipoib::app {

/// A command line argument that sets one option: "--set hca.soft0.lid=3", "--burst=64".
struct Override {
  std::string argument;  ///< The argument as given, for errors.
  std::string path;      ///< "hca.soft0.lid".
  std::string value;     ///< A TOML value; anything else is taken as a string.
};

struct ConfigResult {
  mgmt::NodeConfig config;
  std::vector<Diagnostic> diagnostics;

  /// True if there are only warnings; then `config` may be used.
  [[nodiscard]] bool ok() const;
};

/// `file` names the text in errors. Overrides are applied in order, after the file.
[[nodiscard]] ConfigResult parse_config(std::string_view text, const std::string& file,
                                        const std::vector<Override>& overrides);

/// Parses a file; an empty name stands for an empty file. Errors: kNotFound if the file cannot be
/// read.
[[nodiscard]] Result<ConfigResult> load_config(const std::string& file,
                                               const std::vector<Override>& overrides);

/// Returns every effective value as a configuration file that parses to the same NodeConfig.
[[nodiscard]] std::string print_config(const mgmt::NodeConfig& config);

/// Returns every option with type, default, allowed values and help, in Markdown.
[[nodiscard]] std::string config_reference();

}  // namespace ipoib::app
