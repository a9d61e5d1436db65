// SPDX-License-Identifier: BSD-3-Clause
// What the commands that show something have in common: rows of JSON, printed as JSON with `json`,
// else as text made from the same JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli_output.h"
#include "app/cli_syntax.h"
#include "app/json.h"
#include "app/text_table.h"
#include "lib/base/result.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {

/// One object, or anything else that is shown whole.
[[nodiscard]] Output object(const Match& match, const Json& json);

[[nodiscard]] Output list(const Match& match, const Json& rows, const std::vector<Column>& columns);

/// As list(), of rows that come in pieces: `next` gives some of them at a time, an empty array at
/// the end, and does not take long.
[[nodiscard]] Output list_in_pieces(const Match& match, std::vector<Column> columns,
                                    std::function<Json()> next);
/// Rows in a piece: a millisecond's work or so.
inline constexpr std::size_t kRowsInPiece = 64;

/// A line of dashes, hashes or the like around a title, as dpdk-testpmd's reports have them.
[[nodiscard]] std::string ruler(char c, std::string_view title = {});

/// All objects as a list, or the one named in full. kNotFound names those there are.
[[nodiscard]] Result<Output> list_or_one(const Match& match, const Json& rows, const char* key,
                                         std::string_view parameter,
                                         const std::vector<Column>& columns);

/// Those rows whose `key` is the name given; all when none is.
[[nodiscard]] Json only(const Json& rows, const char* key, const std::optional<std::string>& name);

/// Links first, then ports.
[[nodiscard]] std::vector<std::string> interface_names(const mgmt::Node& node);
[[nodiscard]] std::vector<std::string> link_names(const mgmt::Node& node);
[[nodiscard]] std::vector<std::string> port_names(const mgmt::Node& node);

/// A name that is none of these is an error, not an empty list.
[[nodiscard]] Status require(const std::optional<std::string>& name,
                             const std::vector<std::string>& known);

}  // namespace ipoib::app
