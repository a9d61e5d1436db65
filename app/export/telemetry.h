// SPDX-License-Identifier: BSD-3-Clause
// A node on DPDK's telemetry socket: the commands of app/telemetry.md. Answers are the JSON of
// `show ... json`, in the form that telemetry can carry: numbers are integers; lists hold no
// objects, so such lists become objects keyed "0", "1", ..., and long lists come in pieces, {total,
// first, entries}.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "app/export/json.h"
#include "lib/base/result.h"
#include "lib/mgmt/node_faces.h"

struct rte_tel_data;

namespace ipoib::app {

using Query = std::function<Json()>;
/// Runs a query where the node may be queried, and waits for its answer; returns null on timeout.
using QueryRunner = std::function<Json(const Query&)>;

/// Returns a runner that uses the management lcore of `loop`. Any thread except that lcore may call
/// it.
[[nodiscard]] QueryRunner run_on_management(mgmt::ManagementLoop& loop,
                                            std::chrono::milliseconds timeout);

/// The node answers while this object exists. Only one object may exist: DPDK does not pass its
/// handlers an argument that could identify a node.
class Telemetry {
 public:
  static Result<std::unique_ptr<Telemetry>> create(const mgmt::NodeFaces& node, QueryRunner run);
  /// Waits for answers in progress.
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

 private:
  Telemetry() = default;
};

/// Returns the answer of a command such as "/ipoib/links" to the parameters after its comma; empty:
/// none given. Returns null for objects that do not exist. Management lcore only.
[[nodiscard]] Json telemetry_answer(const mgmt::NodeFaces& node, std::string_view command,
                                    std::string_view parameters);

/// Returns the table of the commands in app/telemetry.md.
[[nodiscard]] std::string telemetry_reference();

/// Fills the answer of a handler. Errors: kInvalidArgument if the value is neither an object nor a
/// list.
[[nodiscard]] Status to_telemetry(const Json& value, rte_tel_data* data);

}  // namespace ipoib::app
