// SPDX-License-Identifier: BSD-3-Clause
// ICMP messages that the router itself sends: errors about packets that it could not forward, and
// answers to echo requests for its own addresses. Bytes in, bytes out. Source: RFC 792,
// RFC 1812 §4.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/ip.h"

namespace ipoib::route {

struct IcmpError {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  std::uint16_t mtu = 0;  ///< Fragmentation needed: next hop's MTU (RFC 1191).
};

/// IP packet with the error for the sender of `offending` (octets from its IP header on), which
/// quotes as much of it as fits 576 octets (RFC 1812 §4.3.2.3). Empty if no error may be sent
/// (RFC 1812 §4.3.2.7): about ICMP errors, later fragments, broadcasts and multicasts, to sources
/// that are not a single host, and about truncated headers.
[[nodiscard]] std::optional<std::vector<std::byte>> icmp4_error(
    std::span<const std::byte> offending, const IcmpError& error, std::uint32_t source);

/// ICMP redirect for the sender of `offending`: `gateway` is a better next hop to its destination.
/// `gateway` and `source` are on the sender's link. Empty in the cases of icmp4_error(). Source:
/// RFC 792, RFC 1812 §5.2.7.2.
[[nodiscard]] std::optional<std::vector<std::byte>> icmp4_redirect(
    std::span<const std::byte> offending, std::uint32_t gateway, std::uint32_t source);

enum class LocalVerdict : std::uint8_t {
  kEchoReply,        ///< The packet was turned into the reply; send it.
  kPortUnreachable,  ///< UDP without a listener: send an error.
  kProtocolUnreachable,
  kIgnore,  ///< Nothing to answer.
};

/// Decides about a packet (from the IP header on, header checked, total length == packet.size())
/// for one of this node's own addresses; turns an echo request into its reply in place.
[[nodiscard]] LocalVerdict answer_local4(std::span<std::byte> packet);

}  // namespace ipoib::route
