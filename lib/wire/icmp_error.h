// SPDX-License-Identifier: BSD-3-Clause
// The ICMP and ICMPv6 errors that a router sends. Source: RFC 792, RFC 1191, RFC 1812 §5.2.7;
// RFC 4443 §3.
#pragma once

#include <cstdint>

#include "lib/wire/icmpv6.h"
#include "lib/wire/ip.h"

namespace ipoib::wire {

/// An error of ICMP or ICMPv6, by the version of IP of the packet that it is about.
struct IcmpError {
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  /// Too big: MTU of the next hop. Parameter problem of ICMPv6: the octet's offset. Else 0.
  std::uint32_t value = 0;

  friend bool operator==(const IcmpError&, const IcmpError&) = default;
};

/// `mtu`: that of the next hop, for kFragmentationNeeded.
constexpr IcmpError unreachable4(IcmpUnreachable code, std::uint16_t mtu = 0) {
  return {static_cast<std::uint8_t>(IcmpType::kUnreachable), static_cast<std::uint8_t>(code), mtu};
}
inline constexpr IcmpError kTtlExceeded{static_cast<std::uint8_t>(IcmpType::kTimeExceeded)};

/// Codes of ICMPv6 destination unreachable. Source: RFC 4443 §3.1.
enum class Icmp6Unreachable : std::uint8_t {
  kNoRoute = 0,
  kProhibited = 1,
  kBeyondScope = 2,
  kAddress = 3,
  kPort = 4
};

constexpr IcmpError unreachable6(Icmp6Unreachable code) {
  return {static_cast<std::uint8_t>(Icmp6Type::kUnreachable), static_cast<std::uint8_t>(code)};
}
constexpr IcmpError packet_too_big(std::uint16_t mtu) {
  return {static_cast<std::uint8_t>(Icmp6Type::kPacketTooBig), 0, mtu};
}
inline constexpr IcmpError kHopLimitExceeded{static_cast<std::uint8_t>(Icmp6Type::kTimeExceeded)};

}  // namespace ipoib::wire
