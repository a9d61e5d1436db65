// SPDX-License-Identifier: BSD-3-Clause
// ICMPv6 messages that the router itself sends: errors about packets that it could not forward, and
// answers to echo requests for its own addresses. Bytes in, bytes out. Source: RFC 4443.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/icmpv6.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Types and codes that are sent. Source: RFC 4443 §3, §4.
inline constexpr std::uint8_t kIcmp6Unreachable =
    static_cast<std::uint8_t>(wire::Icmp6Type::kUnreachable);
inline constexpr std::uint8_t kIcmp6PacketTooBig =
    static_cast<std::uint8_t>(wire::Icmp6Type::kPacketTooBig);
inline constexpr std::uint8_t kIcmp6TimeExceeded =
    static_cast<std::uint8_t>(wire::Icmp6Type::kTimeExceeded);
inline constexpr std::uint8_t kIcmp6ParameterProblem =
    static_cast<std::uint8_t>(wire::Icmp6Type::kParameterProblem);
inline constexpr std::uint8_t kIcmp6EchoRequest =
    static_cast<std::uint8_t>(wire::Icmp6Type::kEchoRequest);
inline constexpr std::uint8_t kIcmp6EchoReply =
    static_cast<std::uint8_t>(wire::Icmp6Type::kEchoReply);
inline constexpr std::uint8_t kUnreachable6Address = 3;
inline constexpr std::uint8_t kUnreachable6Port = 4;
inline constexpr std::uint8_t kUnrecognizedNextHeader = 1;
inline constexpr std::uint8_t kUnrecognizedOption = 2;

struct Icmp6Error {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  std::uint32_t value =
      0;  ///< Too big: MTU of the next hop. Parameter problem: the octet's offset.
};

/// IP packet with the error for the sender of `offending` (octets from its IPv6 header on), which
/// quotes as much of it as fits 1280 octets. `source`: a unicast address of this node. Empty if no
/// error may be sent (RFC 4443 §2.4 e): about ICMPv6 errors and redirects, to sources that are not
/// a single node, about packets to groups except for packet too big and unrecognized options, and
/// about truncated headers.
[[nodiscard]] std::optional<std::vector<std::byte>> icmp6_error(
    std::span<const std::byte> offending, const Icmp6Error& error, const wire::IpAddr& source);

enum class Local6Verdict : std::uint8_t {
  kEchoReply,  ///< The packet was turned into the reply; send it.
  kError,      ///< Send `error` to the source.
  kIgnore,     ///< Nothing to answer.
};
struct Local6Answer {
  Local6Verdict verdict = Local6Verdict::kIgnore;
  Icmp6Error error{};
};

/// Decides about a packet (from the IPv6 header on, payload length == packet.size() - 40) for an
/// address of this node, or for a group that it listens to; turns an echo request into its reply in
/// place. `own`: unicast source of the answer to a packet for a group. The caller should limit
/// replies to packets for groups by IcmpLimiter, like errors (RFC 4443 §4.2, §2.4 f).
/// Fragments, and packets with a routing header that has segments left, are ignored.
[[nodiscard]] Local6Answer answer_local6(std::span<std::byte> packet, const wire::IpAddr& own);

}  // namespace ipoib::route
