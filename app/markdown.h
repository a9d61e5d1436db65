// SPDX-License-Identifier: BSD-3-Clause
// Text for the tables of the references in app/*.md.
#pragma once

#include <string>
#include <string_view>

namespace ipoib::app {

/// A cell of a Markdown table, with the bars escaped that would otherwise end it.
[[nodiscard]] inline std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string{"\\|"} : std::string{c};
  return out;
}

}  // namespace ipoib::app
