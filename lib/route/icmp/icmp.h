// SPDX-License-Identifier: BSD-3-Clause
// ICMP messages that the router itself sends: errors about packets that it could not forward, and
// answers to echo requests for its own addresses. Bytes in, bytes out. The functions here serve
// both versions of IP; icmp4.h and icmp6.h say what each version does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/icmp_error.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// IP packet with the error for the sender of `offending` (octets from its IP header on). `source`:
/// a unicast address of this node, of the same version. Empty if no error may be sent.
[[nodiscard]] std::optional<std::vector<std::byte>> icmp_error(std::span<const std::byte> offending,
                                                               const wire::IcmpError& error,
                                                               const wire::IpAddr& source);

/// True for an echo request of either version, from its IP header on, that answer_local() may answer.
[[nodiscard]] bool is_echo_request(std::span<const std::byte> packet);

enum class LocalVerdict : std::uint8_t {
  kEchoReply,  ///< The packet was turned into the reply; send it.
  kError,      ///< Send `error` to the source.
  kIgnore,     ///< Nothing to answer.
};
struct LocalAnswer {
  LocalVerdict verdict = LocalVerdict::kIgnore;
  wire::IcmpError error{};

  friend bool operator==(const LocalAnswer&, const LocalAnswer&) = default;
};

/// Decides about a packet (octets from the IP header on) for an address of this node, or for a
/// group that it listens to; turns an echo request into its reply in place. `own`: the address of
/// this node that answers, which is the destination unless that is a group.
[[nodiscard]] LocalAnswer answer_local(std::span<std::byte> packet, const wire::IpAddr& own);

}  // namespace ipoib::route
