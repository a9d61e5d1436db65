// SPDX-License-Identifier: BSD-3-Clause
// IPv4, IPv6 and ICMP headers and addresses for the control plane and the data plane.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/wire/be.h"

namespace ipoib::wire {

enum class EtherType : std::uint16_t {
  kIpv4 = 0x0800,
  kArp = 0x0806,
  kRarp = 0x8035,
  kIpv6 = 0x86dd,
  kIba = 0x88b5,
  kLldp = 0x88cc
};

/// IPv4 or IPv6 address, 16 octets in wire order. IPv4 addresses are mapped (::ffff:a.b.c.d), so
/// that one table holds both families. Strangers choose addresses, so there is no std::hash: tables
/// use KeyedHash.
struct IpAddr {
  std::array<std::byte, 16> bytes{};

  [[nodiscard]] static constexpr IpAddr v4(std::uint32_t host) noexcept {
    return std::bit_cast<IpAddr>(Halves{Be64{0}, Be64{kMapped << 32 | host}});
  }
  [[nodiscard]] constexpr bool is_v4() const noexcept {
    const auto [high, low] = std::bit_cast<Halves>(*this);
    return high == Be64{0} && low.host() >> 32 == kMapped;
  }
  /// IPv4 address in host order; valid only if is_v4().
  [[nodiscard]] constexpr std::uint32_t v4_host() const noexcept {
    return static_cast<std::uint32_t>(std::bit_cast<Halves>(*this)[1].host());
  }
  // The operators compare words, in the order of the octets. Defaulted ones would compare octet by octet.
  friend constexpr std::strong_ordering operator<=>(const IpAddr& a, const IpAddr& b) noexcept {
    const auto [high, low] = std::bit_cast<Halves>(a);
    const auto [other_high, other_low] = std::bit_cast<Halves>(b);
    if (high != other_high) return high.host() <=> other_high.host();
    return low.host() <=> other_low.host();
  }
  friend constexpr bool operator==(const IpAddr& a, const IpAddr& b) noexcept {
    return std::bit_cast<Halves>(a) == std::bit_cast<Halves>(b);
  }

 private:
  using Halves = std::array<Be64, 2>;
  static constexpr std::uint64_t kMapped = 0xffff;
};
static_assert(WireRecord<IpAddr> && sizeof(IpAddr) == 16);

/// Address and prefix length. `len` is relative to the family: 0-32 or 0-128.
struct IpPrefix {
  IpAddr addr;
  std::uint8_t len = 0;

  friend constexpr auto operator<=>(const IpPrefix&, const IpPrefix&) noexcept = default;
};

struct Ipv4Hdr {
  std::uint8_t version_ihl;
  std::uint8_t tos;
  Be16 total_len;
  Be16 id;
  Be16 flags_offset;  ///< 0x4000 DF, 0x2000 MF, offset in units of 8 octets.
  std::uint8_t ttl;
  std::uint8_t protocol;
  Be16 checksum;
  Be32 src;
  Be32 dst;

  static constexpr std::uint16_t kDontFragment = 0x4000;
  static constexpr std::uint16_t kMoreFragments = 0x2000;
  static constexpr std::uint16_t kOffsetMask = 0x1fff;

  [[nodiscard]] constexpr std::uint8_t version() const noexcept { return version_ihl >> 4; }
  [[nodiscard]] constexpr std::size_t header_len() const noexcept {
    return std::size_t{version_ihl & 0x0fU} * 4;
  }
  [[nodiscard]] constexpr bool is_fragment() const noexcept {
    return (flags_offset.host() & (kMoreFragments | kOffsetMask)) != 0;
  }
};
static_assert(WireRecord<Ipv4Hdr> && sizeof(Ipv4Hdr) == 20);

/// Source: RFC 768.
struct UdpHdr {
  Be16 src_port;
  Be16 dst_port;
  Be16 len;
  Be16 checksum;
};
static_assert(WireRecord<UdpHdr> && sizeof(UdpHdr) == 8);

/// Fixed IPv6 header. Source: RFC 8200 §3.
struct Ipv6Hdr {
  Be32 version_class_flow;  ///< 4 bits version (6), 8 bits traffic class, 20 bits flow label.
  Be16 payload_len;         ///< Octets behind this header.
  std::uint8_t next_header;
  std::uint8_t hop_limit;
  IpAddr src;
  IpAddr dst;

  static constexpr std::uint32_t kVersion6 = 0x6000'0000;

  [[nodiscard]] constexpr unsigned version() const noexcept {
    return version_class_flow.host() >> 28;
  }
};
static_assert(WireRecord<Ipv6Hdr> && sizeof(Ipv6Hdr) == 40);

/// Smallest MTU of a link that carries IPv6 (RFC 8200 §5).
inline constexpr std::uint16_t kMinIpv6Mtu = 1280;

/// 224.0.0.0/4 or ff00::/8.
[[nodiscard]] constexpr bool is_multicast(const IpAddr& a) noexcept {
  return a.is_v4() ? a.v4_host() >> 28 == 0xe : a.bytes[0] == std::byte{0xff};
}
/// fe80::/10.
[[nodiscard]] constexpr bool is_link_local6(const IpAddr& a) noexcept {
  return a.bytes[0] == std::byte{0xfe} && (a.bytes[1] & std::byte{0xc0}) == std::byte{0x80};
}

/// True for loopback, IPv4-compatible, IPv4-mapped and unspecified addresses: ::/96 and
/// ::ffff:0:0/96. Only the unspecified address is ever on a wire. Source: RFC 4291 §2.5.2, §2.5.3,
/// §2.5.5.
[[nodiscard]] inline bool is_reserved6(const IpAddr& a) noexcept {
  std::uint64_t first;
  std::memcpy(&first, a.bytes.data(), sizeof(first));
  std::uint32_t third;
  std::memcpy(&third, a.bytes.data() + sizeof(first), sizeof(third));
  return first == 0 && (third == 0 || third == 0xffff'0000);
}

enum class IpProto : std::uint8_t { kIcmp = 1, kIgmp = 2, kTcp = 6, kUdp = 17, kIcmpv6 = 58 };

struct IcmpHdr {
  std::uint8_t type;
  std::uint8_t code;
  Be16 checksum;
  Be32 rest;  ///< Echo: id, sequence. Fragmentation needed: 0, next-hop MTU.
};
static_assert(WireRecord<IcmpHdr> && sizeof(IcmpHdr) == 8);

enum class IcmpType : std::uint8_t {
  kEchoReply = 0,
  kUnreachable = 3,
  kRedirect = 5,
  kEchoRequest = 8,
  kTimeExceeded = 11
};
enum class IcmpUnreachable : std::uint8_t {
  kNet = 0,
  kHost = 1,
  kProtocol = 2,
  kPort = 3,
  kFragmentationNeeded = 4,
  kSourceRouteFailed = 5,
  kProhibited = 13  ///< RFC 1812 §5.2.7.1.
};

/// Adds the carries of a sum of 16-bit words to it until there are none.
[[nodiscard]] constexpr std::uint16_t fold_carries(std::uint32_t sum) noexcept {
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>((sum & 0xffff) + (sum >> 16));
}
/// Internet checksum (RFC 1071) of the octets, in host order; store it with Be16.
[[nodiscard]] std::uint16_t internet_checksum(std::span<const std::byte> bytes) noexcept;

/// Parses "10.0.0.1" and "fd00::1". The mapped form "::ffff:10.0.0.1" is refused, because IPv4 has
/// one spelling. to_string() writes the form of inet_ntop().
[[nodiscard]] std::optional<IpAddr> parse_ip(std::string_view text);
[[nodiscard]] std::string to_string(const IpAddr& addr);
/// Parses "10.0.0.1/24" and keeps the host bits; network() clears them.
[[nodiscard]] std::optional<IpPrefix> parse_prefix(std::string_view text);
[[nodiscard]] std::string to_string(const IpPrefix& prefix);
[[nodiscard]] IpAddr network(const IpPrefix& prefix);
[[nodiscard]] bool contains(const IpPrefix& prefix, const IpAddr& addr);
/// The address with all host bits set. IPv4 prefixes of length 31 and 32 and IPv6 have none.
[[nodiscard]] std::optional<IpAddr> directed_broadcast(const IpPrefix& prefix);
/// The classful net (A, B or C) that the prefix is a subnet of. None: IPv6; a prefix that is a whole
/// net or several; length 31 and 32, which have no broadcasts (RFC 3021 §2.2); nets 0 and 127; class D
/// and E. Source: RFC 791 §2.3, RFC 950 §2.1.
[[nodiscard]] std::optional<IpPrefix> subnetted_net(const IpPrefix& prefix);
/// The broadcast address of that net, for all hosts of all its subnets. Source: RFC 922 §7, RFC 1122
/// §3.2.1.3 (f).
[[nodiscard]] std::optional<IpAddr> net_broadcast(const IpPrefix& prefix);

}  // namespace ipoib::wire
