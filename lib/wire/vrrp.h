// SPDX-License-Identifier: BSD-3-Clause
// Advertisements of VRRP version 3, for IPv4 and IPv6. Source: RFC 5798 §5.
#pragma once

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/wire/ip.h"

namespace ipoib::wire {

inline constexpr std::uint8_t kVrrpProtocol = 112;
inline constexpr std::uint8_t kVrrpHops = 255;           ///< RFC 5798 §5.1.1.3, §5.1.2.3.
inline constexpr std::uint16_t kMaxVrrpInterval = 4095;  ///< Hundredths of a second.
/// A router that sends it gives up its part at once. Source: RFC 5798 §5.2.4.
inline constexpr std::uint8_t kVrrpLeaves = 0;

/// 224.0.0.18.
[[nodiscard]] constexpr IpAddr vrrp_group4() noexcept {
  return IpAddr::v4(0xe000'0012);
}
/// ff02::12.
[[nodiscard]] constexpr IpAddr vrrp_group6() noexcept {
  IpAddr a;
  a.bytes[0] = std::byte{0xff};
  a.bytes[1] = std::byte{0x02};
  a.bytes[15] = std::byte{0x12};
  return a;
}

struct VrrpHdr {
  std::uint8_t version_type;  ///< Version:4, Type:4.
  std::uint8_t vrid;
  std::uint8_t priority;
  std::uint8_t count;  ///< Addresses behind the header.
  Be16 interval;       ///< Reserved:4, Max Adver Int:12, in hundredths of a second.
  Be16 checksum;

  static constexpr std::uint8_t kVersion3Advertisement = 0x31;
};
static_assert(WireRecord<VrrpHdr> && sizeof(VrrpHdr) == 8);

enum class VrrpError : std::uint8_t {
  kNone,
  kLength,    ///< Shorter than its headers or its addresses, or a fragment.
  kHops,      ///< TTL or hop limit is not 255: it did not come from this link.
  kVersion,   ///< No advertisement of version 3.
  kChecksum,  ///< RFC 5798 §5.2.8.
  kGroup,     ///< Sent to another address than the group of VRRP.
  kCount
};
[[nodiscard]] std::string_view vrrp_error_name(VrrpError error) noexcept;

struct VrrpAdvertisement {
  IpAddr source;
  std::uint8_t vrid = 0;
  std::uint8_t priority = 0;
  std::uint16_t interval_cs = 0;  ///< Hundredths of a second.
  std::vector<IpAddr> addresses;

  friend bool operator==(const VrrpAdvertisement&, const VrrpAdvertisement&) = default;
};

/// The virtual router of a packet of VRRP version 3 (octets from the IP header on), which is otherwise
/// unchecked. Empty: it is a packet of another kind, or too short.
[[nodiscard]] std::optional<std::uint8_t> vrrp_router_of(std::span<const std::byte> packet);

/// Octets from the IP header on; those behind the packet are ignored.
[[nodiscard]] tl::expected<VrrpAdvertisement, VrrpError> parse_vrrp(
    std::span<const std::byte> packet);

/// Builds a packet from the IP header on. Shape: all addresses are of the family of the source, and
/// at most 255.
[[nodiscard]] std::vector<std::byte> build_vrrp(const VrrpAdvertisement& advertisement);

}  // namespace ipoib::wire
