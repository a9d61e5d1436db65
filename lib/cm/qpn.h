// SPDX-License-Identifier: BSD-3-Clause
// QPNs that are valid for connections.
#pragma once

#include <cstdint>

#include "lib/wire/gid.h"

namespace ipoib::cm {

/// True except for the management QPNs (0, 1) and the multicast QPN.
[[nodiscard]] constexpr bool is_connectable_qpn(std::uint32_t qpn) noexcept {
  return qpn > 1 && qpn < wire::kMulticastQpn;
}

}  // namespace ipoib::cm
