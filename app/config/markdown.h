// SPDX-License-Identifier: BSD-3-Clause
// Text for the tables of the references in app/*.md.
#pragma once

#include <string>
#include <string_view>

namespace ipoib::app {

/// Returns the text of a Markdown table's cell, with the bars escaped that would end it.
[[nodiscard]] inline std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string{"\\|"} : std::string{c};
  return out;
}

}  // namespace ipoib::app
