// SPDX-License-Identifier: BSD-3-Clause
// Parts that ICMP and ICMPv6 messages have in common: the header, and the quoted packet of an
// error. Only icmp4.cc and icmp6.cc need it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/wire/ip.h"

namespace ipoib::route {

/// TTL or hop limit of messages that this node makes.
inline constexpr std::uint8_t kIcmpHops = 64;

/// Returns a packet of at most `max_len` octets: space for `ip_len` octets of IP header, then
/// `icmp`, then as much of `offending` as fits.
inline std::vector<std::byte> quote(std::span<const std::byte> offending, const wire::IcmpHdr& icmp,
                                    std::size_t ip_len, std::size_t max_len) {
  const std::size_t headers = ip_len + sizeof icmp;
  const std::size_t quoted = std::min(offending.size(), max_len - headers);
  std::vector<std::byte> packet(headers + quoted);
  std::memcpy(packet.data() + ip_len, &icmp, sizeof icmp);
  std::memcpy(packet.data() + headers, offending.data(), quoted);
  return packet;
}

/// Stores the checksum of a whole message. `checksum_of` computes it over the message, in which the
/// checksum is zero.
template <class ChecksumOf>
void set_checksum(std::span<std::byte> message, const ChecksumOf& checksum_of) {
  auto icmp = *wire::read<wire::IcmpHdr>(message);
  icmp.checksum = {};
  std::memcpy(message.data(), &icmp, sizeof icmp);
  icmp.checksum.set(checksum_of(message));
  std::memcpy(message.data(), &icmp, sizeof icmp);
}

}  // namespace ipoib::route
