// SPDX-License-Identifier: BSD-3-Clause
// A socket of rtnetlink in a network namespace.
#pragma once

#include <string>

#include "lib/base/result.h"

struct mnl_socket;

namespace ipoib::kernel {

/// Opens a socket whose calls do not wait; the caller binds and closes it. Errors: those of
/// in_network_namespace(), and kUnavailable (the process may not open it).
[[nodiscard]] Result<mnl_socket*> open_netlink_socket(const std::string& network_namespace);

}  // namespace ipoib::kernel
