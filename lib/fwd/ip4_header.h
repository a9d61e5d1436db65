// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on IPv4 headers in place. Checksums stay in memory order throughout, because the
// Internet checksum does not depend on byte order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// `addr`: in host order. Source: RFC 3927.
[[nodiscard]] constexpr bool is_link_local4(std::uint32_t addr) noexcept {
  return addr >> 16 == 0xa9fe;
}

/// Returns the sum of a header's 32-bit words in memory order, including its checksum field; no
/// carry is lost. `len`: a multiple of 4, 20 to 60.
[[gnu::always_inline]] inline std::uint64_t ip4_header_words(const wire::Ipv4Hdr& hdr,
                                                             std::size_t len) noexcept {
  expects(len % 4 == 0 && len >= sizeof(hdr) && len <= 60, "it is a header's length");
  const auto* const p = reinterpret_cast<const std::byte*>(&hdr);
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < len; at += sizeof(std::uint32_t)) {
    std::uint32_t word;
    std::memcpy(&word, p + at, sizeof(word));
    sum += word;
  }
  return sum;
}

/// Returns the ones' complement sum of the 16-bit words of a header, in memory order: 0xffff if the
/// checksum is right. Source: RFC 1071.
inline std::uint16_t ip4_header_sum(const wire::Ipv4Hdr& hdr, std::size_t len) noexcept {
  const std::uint64_t sum = ip4_header_words(hdr, len);
  // Adding the halves to each other crosswise leaves their sum, including the carry, in the upper
  // half.
  const auto sum32 = static_cast<std::uint32_t>((sum + std::rotl(sum, 32)) >> 32);
  return static_cast<std::uint16_t>((sum32 + std::rotl(sum32, 16)) >> 16);
}

/// True if the checksum of a header is right: its 16-bit words add up to a multiple of 0xffff, and
/// so do longer words, because 0x10000 leaves 1. `len`: a multiple of 4, 20 to 60.
[[gnu::always_inline]] inline bool ip4_checksum_is_valid(const wire::Ipv4Hdr& hdr,
                                                         std::size_t len) noexcept {
  return ip4_header_words(hdr, len) % 0xffff == 0;  // never 0, because the version is not 0
}

/// ip4_checksum_is_valid() for a header without options. It adds eight octets at a time, and adds
/// each carry once more, because 2^64 leaves 1, too.
[[gnu::always_inline]] inline bool plain_ip4_checksum_is_valid(const wire::Ipv4Hdr& hdr) noexcept {
  const auto* const p = reinterpret_cast<const std::byte*>(&hdr);
  std::uint64_t sum, word;
  std::uint32_t last;
  static_assert(sizeof(hdr) == sizeof(sum) + sizeof(word) + sizeof(last));
  std::memcpy(&sum, p, sizeof(sum));
  std::memcpy(&word, p + sizeof(sum), sizeof(word));
  std::memcpy(&last, p + sizeof(sum) + sizeof(word), sizeof(last));
  sum += word;
  sum += sum < word;
  sum += last;
  sum += sum < last;
  return sum % 0xffff == 0;  // never 0, because the version is not 0
}

/// Stores the checksum of a header whose other fields are final.
inline void set_ip4_checksum(wire::Ipv4Hdr& hdr, std::size_t len) noexcept {
  hdr.checksum = wire::Be16{};
  // The sum is in memory order, set() takes host order.
  hdr.checksum.set(__builtin_bswap16(static_cast<std::uint16_t>(~ip4_header_sum(hdr, len))));
}

/// Decrements the TTL, which is at least 1, and adjusts the checksum: with m the word that holds
/// the TTL in its high octet, HC' = ~(~HC + ~m + (m - 0x0100)) = HC + 0x0100 with the carry added
/// in. The formula never gives 0xffff, so that 0 replaces a sum of 0xffff. Source: RFC 1624 §3,
/// equation 3.
inline void decrement_ttl(wire::Ipv4Hdr& hdr) noexcept {
  expects(hdr.ttl != 0, "the TTL can go down");
  static_assert(std::endian::native == std::endian::little);
  static_assert(offsetof(wire::Ipv4Hdr, ttl) == 8 && offsetof(wire::Ipv4Hdr, checksum) == 10);
  // TTL, protocol and checksum as one number, lowest octet first: 0x0100 in the checksum is
  // 0x0001'0000 here, and the decrement of the TTL makes it 0xffff.
  auto* const at = reinterpret_cast<std::byte*>(&hdr) + offsetof(wire::Ipv4Hdr, ttl);
  std::uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  word += 0xffff + (word >= 0xfffe'0000 ? 0x1'0000U : 0U);
  std::memcpy(at, &word, sizeof(word));
}

}  // namespace ipoib::fwd
