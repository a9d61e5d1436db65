// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/config_report.h"

#include <algorithm>
#include <sstream>
#include <tuple>

namespace ipoib::app {

namespace {

/// Escapes control characters as in a TOML string, so that the result is one line, and the
/// characters of `also`.
std::string escape(std::string_view text, std::string_view also) {
  std::string out;
  for (const char c : text) {
    const auto octet = static_cast<unsigned char>(c);
    if (also.find(c) != std::string_view::npos)
      (out += '\\') += c;
    else if (octet < 0x20 || octet == 0x7f)
      out += fmt::format("\\u{:04x}", octet);
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string Diagnostic::to_string() const {
  const std::string place = line == 0 ? "" : fmt::format("{}:{}:", line, column);
  return escape(fmt::format("{}:{} {}{}", source, place, warning ? "warning: " : "", text), "");
}

void Report::add(const toml::source_region& at, bool warning, std::string text) {
  Diagnostic d{file_, at.begin.line, at.begin.column, warning, std::move(text)};
  if (at.path && *at.path != file_) {
    d.source = *at.path;
    d.line = d.column = 0;
  } else if (d.line == 0) {
    d.line = d.column = 1;  // The fault concerns the whole file.
  }
  diagnostics_.push_back(std::move(d));
}

std::vector<Diagnostic> Report::take() {
  std::stable_sort(diagnostics_.begin(), diagnostics_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) {
                     return std::tuple{a.line == 0, a.line, a.column} <
                            std::tuple{b.line == 0, b.line, b.column};
                   });
  return std::exchange(diagnostics_, {});
}

void Field::reject(std::string_view allowed) const {
  report_.error(node_.source(),
                fmt::format("{}: invalid value {}, allowed: {}", path_, describe(node_), allowed));
}

std::string quote(std::string_view text) {
  return '"' + escape(text, "\"\\") + '"';
}

std::string describe(const toml::node& node) {
  constexpr std::size_t kMaxLen = 80;
  if (const auto* array = node.as_array()) return fmt::format("a list of {}", array->size());
  if (node.is_table()) return "a table";
  std::string text;
  if (const auto* string = node.as_string()) {
    text = quote(string->get());
  } else {
    std::ostringstream out;
    out << toml::toml_formatter{node};
    text = out.str();
  }
  if (text.size() > kMaxLen) text = text.substr(0, kMaxLen) + "...";
  return text;
}

}  // namespace ipoib::app
