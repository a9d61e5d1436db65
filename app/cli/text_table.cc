// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace ipoib::app {
namespace {

/// Returns the digits of a number that is printed in hexadecimal; 0: it is printed in decimal.
int hex_digits(std::string_view key) {
  if (key == "pkey" || key == "pkeys" || key == "mlid" || key == "broadcast_mlid") return 4;
  if (key == "qpn") return 6;
  return key == "qkey" ? 8 : 0;
}

std::string cell(std::string_view key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer() && hex_digits(key) != 0)
    return fmt::format("0x{:0{}x}", value.get<std::uint64_t>(), hex_digits(key));
  std::string text;
  if (value.is_array())
    for (const Json& v : value) text += (text.empty() ? "" : ", ") + cell(key, v);
  else if (value.is_object())
    for (const auto& [k, v] : value.items())
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", k, cell(k, v));
  else if (!value.is_null())
    text = value.dump();
  return text;
}

/// Returns the value at "a.b", null if there is none.
Json at_path(const Json& object, std::string_view path) {
  const auto dot = path.find('.');
  const auto it = object.find(std::string{path.substr(0, dot)});
  if (it == object.end()) return nullptr;
  return dot == std::string_view::npos ? *it : at_path(*it, path.substr(dot + 1));
}

struct Cell {
  std::string text;
  bool number = false;
};

/// Removes the blanks at the end of a line.
std::string without_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string aligned(const std::vector<std::vector<Cell>>& rows, std::vector<std::size_t>& widths) {
  widths.resize(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].text.size());
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string_view gap = i == 0 ? "" : "  ";
      line += row[i].number ? fmt::format("{}{:>{}}", gap, row[i].text, widths[i])
                            : fmt::format("{}{:<{}}", gap, row[i].text, widths[i]);
    }
    out += without_end(line) + '\n';
  }
  return out;
}

bool is_list_of_objects(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += "  ";
  }
  return out;
}

/// Prints a list that is a value of an object; the keys of its first row are the columns.
std::string nested_list(const Json& list) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : list.front().items()) keys.push_back(key);
  std::vector<Column> columns;
  for (const auto& key : keys) columns.push_back({key, key});
  return list_text(list, columns);
}

}  // namespace

std::string TextTable::rows(const Json& list) {
  std::vector<std::vector<Cell>> lines;
  if (widths_.empty()) {
    auto& headings = lines.emplace_back();
    for (const Column& c : columns_)
      headings.push_back({std::string{c.heading}, at_path(list.front(), c.path).is_number()});
  }
  for (const Json& object : list) {
    auto& line = lines.emplace_back();
    for (const Column& c : columns_) {
      const Json value = at_path(object, c.path);
      line.push_back({cell(c.path.substr(c.path.rfind('.') + 1), value), value.is_number()});
    }
  }
  return aligned(lines, widths_);
}

std::string list_text(const Json& list, const std::vector<Column>& columns) {
  return list.empty() ? "none\n" : TextTable{columns}.rows(list);
}

std::string object_text(const Json& object) {
  std::size_t width = 0;
  for (const auto& [key, value] : object.items()) width = std::max(width, key.size());
  std::string out;
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && !value.empty())
      out += key + '\n' + indented(object_text(value));
    else if (is_list_of_objects(value))
      out += key + '\n' + indented(nested_list(value));
    else if (value.is_structured() && value.empty())
      out += fmt::format("{:<{}}  none\n", key, width);
    else
      out += without_end(fmt::format("{:<{}}  {}", key, width, cell(key, value))) + '\n';
  }
  return out;
}

}  // namespace ipoib::app
