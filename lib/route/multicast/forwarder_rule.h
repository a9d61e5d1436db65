// SPDX-License-Identifier: BSD-3-Clause
// A setting of multicast routers that users make: a plain value.
#pragma once

#include <cstdint>

namespace ipoib::route {

/// Which of several routers between two links forwards the groups that hosts request.
enum class ForwarderRule : std::uint8_t {
  kQuerier,  ///< Not this one if another is the querier of both links: packets arrive once.
  kAlways,   ///< This one too: the querier may be a switch that does not route.
};

}  // namespace ipoib::route
