// SPDX-License-Identifier: BSD-3-Clause
// JSON for human eyes: lists as aligned columns, single objects as one line a key.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/json.h"

namespace ipoib::app {

/// A column of a list: heading and the path of its key, "client.sent".
struct Column {
  std::string_view heading;
  std::string_view path;
};

/// A list that comes in pieces: columns side by side, numbers to the right. A column grows wider
/// where a later piece needs that.
class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_{std::move(columns)} {}

  /// A line for each of these rows (not none), the headings before the first. Ends with a newline.
  [[nodiscard]] std::string rows(const Json& list);

 private:
  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;  ///< Empty until the first rows came.
};

/// All of it at once; "none" for an empty list.
[[nodiscard]] std::string list_text(const Json& list, const std::vector<Column>& columns);

/// One line a key, nested objects and lists indented below theirs. Ends with a newline.
[[nodiscard]] std::string object_text(const Json& object);

}  // namespace ipoib::app
