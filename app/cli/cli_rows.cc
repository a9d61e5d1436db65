// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_rows.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "app/export/render.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_view.h"

namespace ipoib::app {
namespace {

std::string lower(std::string_view text) {
  std::string result{text};
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string names_text(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

template <class Config>
std::vector<std::string> names_of(const std::vector<Config>& configs) {
  std::vector<std::string> names;
  for (const Config& c : configs) names.push_back(c.name);
  return names;
}

/// Returns the elements of a JSON array as text without brackets.
std::string elements(const Json& rows) {
  const std::string text = dump(rows);
  return text.substr(1, text.size() - 2);
}

}  // namespace

Output object(const Match& match, const Json& json) {
  return match.has("json") ? dump(json) + "\n" : object_text(json);
}

Output list(const Match& match, const Json& rows, const std::vector<Column>& columns) {
  return match.has("json") ? dump(rows) + "\n" : list_text(rows, columns);
}

Output list_in_pieces(const Match& match, std::vector<Column> columns, std::function<Json()> next) {
  if (match.has("json"))
    return Output{[next = std::move(next), first = true](std::string& out) mutable {
      const Json rows = next();
      if (rows.empty()) {
        out += first ? "[]\n" : "]\n";
        return false;
      }
      out += std::exchange(first, false) ? '[' : ',';
      out += elements(rows);
      return true;
    }};
  return Output{[next = std::move(next), first = true,
                 table = TextTable{std::move(columns)}](std::string& out) mutable {
    const Json rows = next();
    if (rows.empty()) {
      if (first) out += "none\n";
      return false;
    }
    first = false;
    out += table.rows(rows);
    return true;
  }};
}

std::string ruler(char c, std::string_view title) {
  constexpr std::size_t kWidth = 78;
  const std::string text = title.empty() ? "" : fmt::format(" {} ", title);
  const std::size_t left = (kWidth - text.size()) / 2;
  return fmt::format("  {}{}{}\n", std::string(left, c), text,
                     std::string(kWidth - text.size() - left, c));
}

Result<Output> list_or_one(const Match& match, const Json& rows, const char* key,
                           std::string_view parameter, const std::vector<Column>& columns) {
  const auto wanted = match.get(parameter);
  if (!wanted) return list(match, rows, columns);
  std::vector<std::string> available;
  for (const Json& row : rows) {
    const Json& value = row.at(key);
    available.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    if (available.back() == *wanted) return object(match, row);
  }
  return fail(Errc::kNotFound, "no {} {}; available: {}", lower(parameter), *wanted,
              names_text(available));
}

Json only(const Json& rows, const char* key, const std::optional<std::string>& name) {
  if (!name) return rows;
  Json result = Json::array();
  for (const Json& row : rows)
    if (row.at(key) == *name) result.push_back(row);
  return result;
}

std::vector<std::string> interface_names(const mgmt::NodeView& view) {
  std::vector<std::string> names = link_names(view);
  for (std::string& port : port_names(view)) names.push_back(std::move(port));
  return names;
}

std::vector<std::string> link_names(const mgmt::NodeView& view) {
  return names_of(view.config().links);
}

std::vector<std::string> port_names(const mgmt::NodeView& view) {
  return names_of(view.config().ports);
}

Status require(const std::optional<std::string>& name, const std::vector<std::string>& available) {
  if (!name || std::find(available.begin(), available.end(), *name) != available.end()) return {};
  return fail(Errc::kNotFound, "no {}; available: {}", *name, names_text(available));
}

}  // namespace ipoib::app
