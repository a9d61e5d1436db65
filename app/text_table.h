// JSON for human eyes: lists as aligned columns, single objects as one line a key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/json.h"

namespace ipoib::app {

/// A column of a list: heading and the path of its key, "client.sent".
struct Column {
  std::string_view heading;
  std::string_view path;
};

/// Columns side by side, numbers to the right; "none" for an empty list. Ends with a newline.
[[nodiscard]] std::string list_text(const Json& list, const std::vector<Column>& columns);

/// One line a key, nested objects and lists indented below theirs. Ends with a newline.
[[nodiscard]] std::string object_text(const Json& object);

}  // namespace ipoib::app
