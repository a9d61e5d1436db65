// SPDX-License-Identifier: BSD-3-Clause
// A node on DPDK's telemetry socket: /ipoib/links, /ipoib/link,NAME, /ipoib/neighbours,LINK[,FIRST]
// and more; a list is in telemetry.cc. The same JSON as `show ... json`, in the form that telemetry
// can carry: its numbers are whole ones; its lists hold no objects, so those become objects keyed
// "0", "1", ..., and long lists come in pieces, {total, first, entries}.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "app/json.h"
#include "lib/base/result.h"
#include "lib/mgmt/node.h"

struct rte_tel_data;

namespace ipoib::app {

using Query = std::function<Json()>;
/// Runs a query where the node may be asked, and waits for its answer; null when it does not come.
using QueryRunner = std::function<Json(const Query&)>;

/// Runs queries on the node's management lcore. May be called by any thread but that one.
[[nodiscard]] QueryRunner run_on_management(mgmt::Node& node, std::chrono::milliseconds timeout);

/// While it lives, the node answers. One at a time: DPDK gives its handlers no way to know whom
/// they are asked about.
class Telemetry {
 public:
  static Result<std::unique_ptr<Telemetry>> create(const mgmt::Node& node, QueryRunner run);
  /// Waits for answers that are being made.
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

 private:
  Telemetry() = default;
};

/// What /ipoib/<command> answers to the parameters behind its comma (null: none given). Null for
/// objects that do not exist. Management lcore only.
[[nodiscard]] Json telemetry_answer(const mgmt::Node& node, std::string_view command,
                                    std::string_view parameters);

/// Fills the answer of a handler. kInvalidArgument when the value is neither an object nor a list.
[[nodiscard]] Status to_telemetry(const Json& value, rte_tel_data* data);

}  // namespace ipoib::app
