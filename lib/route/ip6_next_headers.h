// SPDX-License-Identifier: BSD-3-Clause
// Numbers of the IPv6 extension headers that this node reads. Source: RFC 8200 §4.
#pragma once

#include <cstdint>

namespace ipoib::route {

enum : std::uint8_t {
  kHopByHop = 0,
  kRouting = 43,
  kFragment = 44,
  kNoNextHeader = 59,
  kDestinationOptions = 60,
};

}  // namespace ipoib::route
