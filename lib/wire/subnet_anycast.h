// SPDX-License-Identifier: BSD-3-Clause
// The anycast address that all routers of an IPv6 subnet have.
#pragma once

#include <optional>

#include "lib/wire/ip_prefix.h"

namespace ipoib::wire {

/// Address of all routers of the subnet of `own`, an address of this node. Empty: IPv4, and
/// networks of two addresses, which have no room for an address of any router (RFC 6164), and if it
/// is `own` itself. Source: RFC 4291 §2.6.1.
[[nodiscard]] inline std::optional<IpAddr> subnet_router_anycast(const IpPrefix& own) {
  if (own.addr.is_v4() || own.len >= 127) return std::nullopt;
  const IpAddr anycast = network(own);
  return anycast == own.addr ? std::nullopt : std::optional{anycast};
}

}  // namespace ipoib::wire
