// SPDX-License-Identifier: BSD-3-Clause
// What an address is to an interface that has these addresses.
#pragma once

#include <optional>
#include <vector>

#include "lib/base/drop.h"
#include "lib/wire/ip.h"

namespace ipoib::link {

/// Whether the address is one of `addresses`.
[[nodiscard]] bool is_own(const std::vector<wire::IpPrefix>& addresses, const wire::IpAddr& addr);
/// Whether the address lies in a prefix of `addresses`.
[[nodiscard]] bool is_on_link(const std::vector<wire::IpPrefix>& addresses,
                              const wire::IpAddr& addr);
/// 255.255.255.255 or the directed broadcast of a prefix of `addresses`.
[[nodiscard]] bool is_broadcast(const std::vector<wire::IpPrefix>& addresses,
                                const wire::IpAddr& addr);
/// Whether a neighbour can have the address: unicast, not loopback, no broadcast, not zero, not our
/// own.
[[nodiscard]] bool is_neighbour_address(const std::vector<wire::IpPrefix>& addresses,
                                        const wire::IpAddr& addr);

/// Why a packet for the address can have no neighbour here; empty where it can (broadcast
/// included, groups not).
[[nodiscard]] std::optional<Drop> why_no_neighbour(const std::vector<wire::IpPrefix>& addresses,
                                                   const wire::IpAddr& addr);

}  // namespace ipoib::link
