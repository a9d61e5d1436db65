// SPDX-License-Identifier: BSD-3-Clause
// Classification of an address by the addresses of an interface.
#pragma once

#include <optional>
#include <vector>

#include "lib/base/drop.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

/// True if the address is one of `addresses`.
[[nodiscard]] bool is_own(const std::vector<wire::IpPrefix>& addresses, const wire::IpAddr& addr);
/// True if the address lies in a prefix of `addresses`.
[[nodiscard]] bool is_on_link(const std::vector<wire::IpPrefix>& addresses,
                              const wire::IpAddr& addr);
/// True for 255.255.255.255, the directed broadcast of each prefix of `addresses`, and that of the
/// classful net of each. If the address lies in prefixes of them, the longest decides. Source: RFC
/// 4391 §5.
[[nodiscard]] bool is_broadcast(const std::vector<wire::IpPrefix>& addresses,
                                const wire::IpAddr& addr);
/// True if a neighbour can have the address: unicast, not loopback, no broadcast, not zero, not an
/// own address.
[[nodiscard]] bool is_neighbour_address(const std::vector<wire::IpPrefix>& addresses,
                                        const wire::IpAddr& addr);

/// The reason why packets to the address can have no neighbour here; empty if they can (broadcast
/// included, groups not).
[[nodiscard]] std::optional<Drop> why_no_neighbour(const std::vector<wire::IpPrefix>& addresses,
                                                   const wire::IpAddr& addr);

}  // namespace ipoib::link
