// SPDX-License-Identifier: BSD-3-Clause
// The text forms of the members of filter rules, for the configuration file and the command line.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "app/config/text_form.h"
#include "lib/fwd/filter/filter_rule.h"

namespace ipoib::app {

/// IP protocols that have a name in rules, commands and traces.
inline constexpr std::array<std::pair<std::string_view, std::uint8_t>, 5> kProtocolNames = {
    {{"icmp", 1}, {"igmp", 2}, {"tcp", 6}, {"udp", 17}, {"icmpv6", 58}}};

/// "tcp", "132".
[[nodiscard]] const TextForm<std::uint8_t>& protocol_form();
/// "53", "1024-65535".
[[nodiscard]] const TextForm<fwd::PortRange>& port_range_form();
/// "10.0.0.0/8", "fd00::1" for a single address.
[[nodiscard]] const TextForm<wire::IpPrefix>& filter_prefix_form();

}  // namespace ipoib::app
