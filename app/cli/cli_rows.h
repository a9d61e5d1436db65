// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the commands that show something: rows of JSON, printed as JSON with `json`, otherwise
// as text made from the same JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/cli_output.h"
#include "app/cli/cli_syntax.h"
#include "app/cli/text_table.h"
#include "app/export/json.h"
#include "lib/base/result.h"

namespace ipoib::mgmt {
class NodeView;
}

namespace ipoib::app {

/// Prints one object, or any other JSON value, as a whole.
[[nodiscard]] Output object(const Match& match, const Json& json);

[[nodiscard]] Output list(const Match& match, const Json& rows, const std::vector<Column>& columns);

/// Like list(), for rows that come in pieces: each call of `next` returns some rows, an empty array
/// at the end, and must not take long.
[[nodiscard]] Output list_in_pieces(const Match& match, std::vector<Column> columns,
                                    std::function<Json()> next);
/// Rows per piece: about a millisecond of work.
inline constexpr std::size_t kRowsInPiece = 64;

/// Returns a line of `c` around a title, as in dpdk-testpmd's reports.
[[nodiscard]] std::string ruler(char c, std::string_view title = {});

/// Lists all objects, or prints the named one in full. Errors: kNotFound with the existing names.
[[nodiscard]] Result<Output> list_or_one(const Match& match, const Json& rows, const char* key,
                                         std::string_view parameter,
                                         const std::vector<Column>& columns);

/// Returns the rows whose `key` is `name`; all rows if no name is given.
[[nodiscard]] Json only(const Json& rows, const char* key, const std::optional<std::string>& name);

/// Links first, then ports.
[[nodiscard]] std::vector<std::string> interface_names(const mgmt::NodeView& view);
[[nodiscard]] std::vector<std::string> link_names(const mgmt::NodeView& view);
[[nodiscard]] std::vector<std::string> port_names(const mgmt::NodeView& view);

/// Fails with kNotFound if a name is given and is not in `available`.
[[nodiscard]] Status require(const std::optional<std::string>& name,
                             const std::vector<std::string>& available);

}  // namespace ipoib::app
