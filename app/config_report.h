// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with a configuration, and where: every fault is collected, none stops the reading.
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/diagnostic.h"

namespace ipoib::app {

class Report {
 public:
  /// `file`: what positions without a source (things that are missing) are attributed to.
  explicit Report(std::string file) : file_{std::move(file)} {}

  void error(const toml::source_region& at, std::string text) { add(at, false, std::move(text)); }
  void warning(const toml::source_region& at, std::string text) { add(at, true, std::move(text)); }

  [[nodiscard]] const std::string& file() const { return file_; }
  /// In the order of the file; faults of arguments last. Leaves the report empty.
  [[nodiscard]] std::vector<Diagnostic> take();

 private:
  void add(const toml::source_region& at, bool warning, std::string text);

  std::string file_;
  std::vector<Diagnostic> diagnostics_;
};

/// A value on its way into an option.
class Field {
 public:
  Field(const toml::node& node, std::string path, Report& report)
      : node_{node}, path_{std::move(path)}, report_{report} {}

  [[nodiscard]] const toml::node& node() const { return node_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The same option seen at a part of its value: an element of its array.
  [[nodiscard]] Field at(const toml::node& part) const { return {part, path_, report_}; }

  /// "PATH: read VALUE, allowed: ALLOWED".
  void reject(std::string_view allowed) const;
  /// "PATH: read VALUE, which this version does not support, allowed: ALLOWED".
  void reject_unsupported(std::string_view allowed) const;

 private:
  const toml::node& node_;
  std::string path_;
  Report& report_;
};

/// The value as people would write it; long values are cut, arrays and tables only named.
[[nodiscard]] std::string describe(const toml::node& node);

}  // namespace ipoib::app
