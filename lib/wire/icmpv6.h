// SPDX-License-Identifier: BSD-3-Clause
// ICMPv6: message types and the checksum over pseudo header and message.
// Source: RFC 4443, RFC 8200 §8.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/wire/ip.h"

namespace ipoib::wire {

enum class Icmp6Type : std::uint8_t {
  kUnreachable = 1,
  kPacketTooBig = 2,
  kTimeExceeded = 3,
  kParameterProblem = 4,
  kEchoRequest = 128,
  kEchoReply = 129,
  kRouterSolicitation = 133,
  kRouterAdvertisement = 134,
  kNeighbourSolicitation = 135,
  kNeighbourAdvertisement = 136,
  kRedirect = 137
};

/// Checksum of an ICMPv6 message whose checksum field is zero, host order. The result is 0 for a
/// message with a correct checksum.
[[nodiscard]] std::uint16_t icmp6_checksum(const IpAddr& src, const IpAddr& dst,
                                           std::span<const std::byte> message) noexcept;

/// ff02::1.
[[nodiscard]] constexpr IpAddr all_nodes() noexcept {
  IpAddr a;
  a.bytes[0] = std::byte{0xff};
  a.bytes[1] = std::byte{0x02};
  a.bytes[15] = std::byte{0x01};
  return a;
}
/// ff02::2.
[[nodiscard]] constexpr IpAddr all_routers() noexcept {
  IpAddr a = all_nodes();
  a.bytes[15] = std::byte{0x02};
  return a;
}
/// ff02::1:ff00:0 with the low 24 bits of the address (RFC 4291 §2.7.1).
[[nodiscard]] IpAddr solicited_node(const IpAddr& addr) noexcept;
/// fe80:: with the interface identifier.
[[nodiscard]] IpAddr link_local(std::uint64_t interface_id) noexcept;
/// True for the unspecified address, `::`.
[[nodiscard]] constexpr bool is_unspecified(const IpAddr& a) noexcept {
  return a == IpAddr{};
}

}  // namespace ipoib::wire
