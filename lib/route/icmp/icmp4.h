// SPDX-License-Identifier: BSD-3-Clause
// The ICMP messages of icmp.h for IPv4. Source: RFC 792, RFC 1812 §4.3.
#pragma once

#include "lib/route/icmp/icmp.h"

namespace ipoib::route {

/// icmp_error() for IPv4. Quotes as much of `offending` as fits 576 octets (RFC 1812 §4.3.2.3).
/// Empty (RFC 1812 §4.3.2.7): about ICMP errors, later fragments, broadcasts and multicasts, to
/// sources that are not a single host, and about truncated headers.
[[nodiscard]] std::optional<std::vector<std::byte>> icmp4_error(
    std::span<const std::byte> offending, const wire::IcmpError& error, const wire::IpAddr& source);

/// ICMP redirect for the sender of `offending`: `gateway` is a better next hop to its destination.
/// `gateway` and `source` are on the sender's link. Empty in the cases of icmp4_error(). For IPv6,
/// neighbour discovery sends redirects. Source: RFC 792, RFC 1812 §5.2.7.2.
[[nodiscard]] std::optional<std::vector<std::byte>> icmp4_redirect(
    std::span<const std::byte> offending, const wire::IpAddr& gateway, const wire::IpAddr& source);

/// is_echo_request() for IPv4.
[[nodiscard]] bool is_echo_request4(std::span<const std::byte> packet);
/// answer_local() for IPv4. The header is checked, and its total length is packet.size(). Fragments
/// and packets to groups are ignored.
[[nodiscard]] LocalAnswer answer_local4(std::span<std::byte> packet, const wire::IpAddr& own);

}  // namespace ipoib::route
