// Arithmetic on IPv4 headers in place. Checksums are kept in memory order throughout: the Internet
// checksum does not mind.
#pragma once

#include <cstdint>
#include <cstring>

#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Ones' complement sum of the 16-bit words of a header, its checksum field included: 0xffff when
/// the checksum is right. `len`: a multiple of 4, 20 to 60. Source: RFC 1071.
inline std::uint16_t ip4_header_sum(const wire::Ipv4Hdr& hdr, std::size_t len) noexcept {
  const auto* const p = reinterpret_cast<const std::byte*>(&hdr);
  std::uint64_t a, b;
  std::uint32_t c;
  std::memcpy(&a, p, sizeof(a));
  std::memcpy(&b, p + 8, sizeof(b));
  std::memcpy(&c, p + 16, sizeof(c));
  // Halves of 32 bits added up in 64 have room for every carry.
  std::uint64_t sum = (a & 0xffff'ffff) + (a >> 32) + (b & 0xffff'ffff) + (b >> 32) + c;
  for (std::size_t at = 20; at < len; at += 4) {
    std::memcpy(&c, p + at, sizeof(c));
    sum += c;
  }
  sum = (sum & 0xffff'ffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}

/// Stores the checksum of a header whose other fields are final.
inline void set_ip4_checksum(wire::Ipv4Hdr& hdr, std::size_t len) noexcept {
  hdr.checksum = wire::Be16{};
  // The sum is in memory order, set() takes host order.
  hdr.checksum.set(__builtin_bswap16(static_cast<std::uint16_t>(~ip4_header_sum(hdr, len))));
}

/// Takes one off the TTL, which is at least 1, and adjusts the checksum: with m the 16-bit word
/// that holds TTL and protocol, HC' = ~(~HC + ~m + m'). Source: RFC 1624 §3, equation 3.
inline void take_ttl_down(wire::Ipv4Hdr& hdr) noexcept {
  // ~m + m' is ~0x0100: the TTL is the high octet of its word.
  const std::uint32_t sum = static_cast<std::uint16_t>(~hdr.checksum.host()) + 0xfeffU;
  --hdr.ttl;
  hdr.checksum.set(static_cast<std::uint16_t>(~((sum & 0xffff) + (sum >> 16))));
}

}  // namespace ipoib::fwd
