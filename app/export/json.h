// SPDX-License-Identifier: BSD-3-Clause
// The JSON type of every `show ... json` and telemetry answer: keys keep their order of insertion.
#pragma once

#include <nlohmann/json.hpp>

namespace ipoib::app {

using Json = nlohmann::ordered_json;

}  // namespace ipoib::app
