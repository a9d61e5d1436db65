// SPDX-License-Identifier: BSD-3-Clause
// Floods of management datagrams, of many ports.
#pragma once

#include <cstdint>
#include <string_view>

#include "tests/flood/flood_rows.h"

namespace ipoib::flood {

enum class MadKind : std::uint8_t {
  kUnknownClass,
  kGet,
  kGetTable,
  kReq,
  kRej,
  kDreq,
  kSidrReq,
};
[[nodiscard]] std::string_view mad_text(MadKind kind);

Flood mads_of(FloodNode& node, MadKind kind);

}  // namespace ipoib::flood
