// SPDX-License-Identifier: BSD-3-Clause
// Which queue pairs can be in a connection.
#pragma once

#include <cstdint>

#include "lib/wire/gid.h"

namespace ipoib::cm {

/// Neither one of management (0, 1) nor the one of multicast.
[[nodiscard]] constexpr bool is_connectable_qpn(std::uint32_t qpn) noexcept {
  return qpn > 1 && qpn < wire::kMulticastQpn;
}

}  // namespace ipoib::cm
