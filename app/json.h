// SPDX-License-Identifier: BSD-3-Clause
// JSON as every `show ... json` and telemetry answer carries it: keys in the order they were put
// in.
#pragma once

#include <nlohmann/json.hpp>

namespace ipoib::app {

using Json = nlohmann::ordered_json;

}  // namespace ipoib::app
