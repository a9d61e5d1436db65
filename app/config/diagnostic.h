// SPDX-License-Identifier: BSD-3-Clause
// One fault of a configuration, and the quoting that keeps external text on one line.
#pragma once

#include <string>
#include <string_view>

namespace ipoib::app {

struct Diagnostic {
  std::string source;   ///< File name as given, or the command line argument.
  unsigned line = 0;    ///< From 1; 0 for an argument, which has no lines.
  unsigned column = 0;  ///< From 1.
  bool warning = false;
  std::string text;

  /// "FILE:LINE:COL: text", "FILE:LINE:COL: warning: text" or "--set a.b=c: text".
  [[nodiscard]] std::string to_string() const;
};

/// Returns `text` as a TOML string, quoted and escaped.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace ipoib::app
