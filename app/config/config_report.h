// SPDX-License-Identifier: BSD-3-Clause
// Faults of a configuration with their positions. Every fault is collected; none stops the reading.
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/config/diagnostic.h"

namespace ipoib::app {

class Report {
 public:
  /// `file` is the source of faults without a position, such as missing sections.
  explicit Report(std::string file) : file_{std::move(file)} {}

  void error(const toml::source_region& at, std::string text) { add(at, false, std::move(text)); }
  void warning(const toml::source_region& at, std::string text) { add(at, true, std::move(text)); }

  [[nodiscard]] const std::string& file() const { return file_; }
  /// Returns the faults in the order of the file, those of arguments last, and empties the report.
  [[nodiscard]] std::vector<Diagnostic> take();

 private:
  void add(const toml::source_region& at, bool warning, std::string text);

  std::string file_;
  std::vector<Diagnostic> diagnostics_;
};

/// A value that is being read into an option.
class Field {
 public:
  Field(const toml::node& node, std::string path, Report& report)
      : node_{node}, path_{std::move(path)}, report_{report} {}

  [[nodiscard]] const toml::node& node() const { return node_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns a field of this option for a part of its value: an element of its array.
  [[nodiscard]] Field at(const toml::node& part) const { return {part, path_, report_}; }

  /// "PATH: read VALUE, allowed: ALLOWED".
  void reject(std::string_view allowed) const;

 private:
  const toml::node& node_;
  std::string path_;
  Report& report_;
};

/// Returns the value as text for errors. Long values are truncated; arrays and tables are only
/// named.
[[nodiscard]] std::string describe(const toml::node& node);

}  // namespace ipoib::app
