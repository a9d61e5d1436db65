// SPDX-License-Identifier: BSD-3-Clause
// The ICMP messages of icmp.h for IPv6. Source: RFC 4443.
#pragma once

#include "lib/route/icmp/icmp.h"

namespace ipoib::route {

/// icmp_error() for IPv6. Quotes as much of `offending` as fits 1280 octets. Empty (RFC 4443
/// §2.4 e): about ICMPv6 errors and redirects, to sources that are not a single host, about packets
/// to groups except for packet too big and unrecognized options, and about truncated headers.
[[nodiscard]] std::optional<std::vector<std::byte>> icmp6_error(
    std::span<const std::byte> offending, const wire::IcmpError& error, const wire::IpAddr& source);

/// is_echo_request() for IPv6.
[[nodiscard]] bool is_echo_request6(std::span<const std::byte> packet);
/// answer_local() for IPv6. The payload length is packet.size() - 40. The caller should limit
/// replies to packets for groups by IcmpLimiter, like errors (RFC 4443 §4.2, §2.4 f). Fragments,
/// and packets with a routing header that has segments left, are ignored.
[[nodiscard]] LocalAnswer answer_local6(std::span<std::byte> packet, const wire::IpAddr& own);

}  // namespace ipoib::route
