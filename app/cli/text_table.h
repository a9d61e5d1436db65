// SPDX-License-Identifier: BSD-3-Clause
// JSON as text for people: lists as aligned columns, single objects as one line per key.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/export/json.h"

namespace ipoib::app {

/// A column of a list: heading and the path of its key, "client.sent".
struct Column {
  std::string_view heading;
  std::string_view path;
};

/// A list that comes in pieces: aligned columns, numbers to the right. A column widens when a later
/// piece needs it.
class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_{std::move(columns)} {}

  /// Returns one line per row, with the headings before the first. `list` must not be empty. Ends
  /// with a newline.
  [[nodiscard]] std::string rows(const Json& list);

 private:
  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;  ///< Empty until the first rows come.
};

/// Returns the whole list as text; "none" for an empty list.
[[nodiscard]] std::string list_text(const Json& list, const std::vector<Column>& columns);

/// Returns one line per key, nested objects and lists indented below theirs. Ends with a newline.
[[nodiscard]] std::string object_text(const Json& object);

}  // namespace ipoib::app
