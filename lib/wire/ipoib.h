// SPDX-License-Identifier: BSD-3-Clause
// Wire formats of RFC 4391: the encapsulation header, the 20-octet link-layer address, and the
// mapping of IP groups to MGIDs. Header and address of the draft of 2001 are beside them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/wire/be.h"
#include "lib/wire/gid.h"
#include "lib/wire/ip.h"

namespace ipoib::wire {

/// 4-octet encapsulation header. Source: RFC 4391 §6.
struct IpoibHdr {
  Be16 type;
  Be16 reserved;  ///< Zero on send, ignored on receive.
};
static_assert(WireRecord<IpoibHdr> && sizeof(IpoibHdr) == 4);

/// 4-octet encapsulation header: the fields are in the other order than in RFC 4391.
/// Source: draft-pelissier-ipoib-encaparp-00 §3.
struct IbarpHdr {
  Be16 reserved;  ///< Zero on send, ignored on receive.
  Be16 type;
};
static_assert(WireRecord<IbarpHdr> && sizeof(IbarpHdr) == 4);

/// The order of the fields in the encapsulation header of a link.
enum class Encapsulation : std::uint8_t {
  kTypeFirst,  ///< IpoibHdr.
  kTypeLast,   ///< IbarpHdr.
};
static_assert(sizeof(IpoibHdr) == sizeof(IbarpHdr));

/// The encapsulation header of a packet of this type.
[[nodiscard]] constexpr Be32 encapsulation_header(Encapsulation order, EtherType type) noexcept {
  const std::uint32_t number = static_cast<std::uint16_t>(type);
  return Be32{order == Encapsulation::kTypeFirst ? number << 16 : number};
}
/// The type in an encapsulation header.
[[nodiscard]] constexpr EtherType encapsulated_type(Encapsulation order, Be32 header) noexcept {
  const std::uint32_t number = header.host();
  return static_cast<EtherType>(order == Encapsulation::kTypeFirst ? number >> 16
                                                                   : number & 0xffff);
}

/// 20-octet IPoIB link-layer address: flags:8, QPN:24, GID:128. Source: RFC 4391 §9.1.1,
/// draft-ietf-ipoib-connected-mode-03 §3.1.
struct LinkAddr {
  std::uint8_t flags;
  Be24 qpn;
  Gid gid;

  static constexpr std::uint8_t kFlagRc = 0x80;
  static constexpr std::uint8_t kFlagUc = 0x40;

  /// True if QPN and GID are equal. The flags octet states capabilities and is no part of the
  /// identity.
  [[nodiscard]] constexpr bool same_interface(const LinkAddr& o) const noexcept {
    return qpn == o.qpn && gid == o.gid;
  }
  friend constexpr bool operator==(const LinkAddr&, const LinkAddr&) noexcept = default;
};
static_assert(WireRecord<LinkAddr> && sizeof(LinkAddr) == 20);

/// 20 octets in hex with colons between, the form of `ip neigh`.
[[nodiscard]] std::string to_string(const LinkAddr& addr);
[[nodiscard]] std::optional<LinkAddr> parse_link_addr(std::string_view text);

/// 32-octet link-layer address: EUI-64, reserved:8, QPN:24, Q_Key:32, GID:128. The figures draw the
/// first word of the GID twice; LinkFormat::gid_word_twice says why one of them is dropped here.
/// Source: draft-pelissier-ipoib-encaparp-00 §6.3.
struct IbarpAddr {
  Be64 eui64;  ///< Lower half of the GID at index 0.
  std::uint8_t reserved;
  Be24 qpn;
  Be32 qkey;
  Gid gid;

  friend constexpr bool operator==(const IbarpAddr&, const IbarpAddr&) noexcept = default;
};
static_assert(WireRecord<IbarpAddr> && sizeof(IbarpAddr) == 32 && offsetof(IbarpAddr, gid) == 16);

/// 32 octets in hex with colons between.
[[nodiscard]] std::string to_string(const IbarpAddr& addr);
[[nodiscard]] std::optional<IbarpAddr> parse_ibarp_addr(std::string_view text);

using MacAddr = std::array<std::byte, 6>;
[[nodiscard]] std::string to_string(const MacAddr& addr);
[[nodiscard]] std::optional<MacAddr> parse_mac(std::string_view text);
/// "fe80::2:c903:a:b09", the form of IPv6 addresses.
[[nodiscard]] std::string to_string(const Gid& gid);
[[nodiscard]] std::optional<Gid> parse_gid(std::string_view text);

/// Ethernet address of a multicast group: 01:00:5e and 23 bits (RFC 1112 §6.4), 33:33 and 32 bits
/// (RFC 2464 §7).
[[nodiscard]] MacAddr group_mac(const IpAddr& group);

/// Signatures of MGIDs of IPv4 and IPv6 groups, octets 2 and 3 of the MGID. Source: RFC 4391 §4.
inline constexpr std::uint16_t kSignature4 = 0x401b, kSignature6 = 0x601b;
[[nodiscard]] inline std::uint16_t signature_of(const Gid& mgid) {
  return static_cast<std::uint16_t>(mgid.prefix() >> 32);
}

/// MGID of an IPv4 or IPv6 multicast address, or of 255.255.255.255, on a link.
/// `scope`: 4 bits of the link's broadcast-GID. `pkey`: the function sets the full-membership bit.
/// Source: RFC 4391 §4.
[[nodiscard]] Gid mgid_of(const IpAddr& group, std::uint16_t pkey, std::uint8_t scope);
[[nodiscard]] inline Gid broadcast_mgid(std::uint16_t pkey, std::uint8_t scope) {
  return mgid_of(IpAddr::v4(0xffff'ffff), pkey, scope);
}

/// Rule that makes an IPv6 interface identifier. Source: RFC 4391 §8.
enum class InterfaceIdRule : std::uint8_t {
  kSetUniversal,   ///< Port GUID, "u" bit set if clear: right for both forms, used by Linux.
  kEui64,          ///< Port GUIDs of this device are plain EUI-64: the "u" bit is inverted.
  kModifiedEui64,  ///< Port GUIDs are already modified EUI-64: they stay unchanged.
  kLid,            ///< The LID; for links within one IB subnet.
};

inline constexpr std::uint64_t kUniversalBit = 0x0200'0000'0000'0000ULL;

/// Interface identifier of an IPoIB interface; only kLid uses `lid`.
[[nodiscard]] constexpr std::uint64_t interface_id(
    std::uint64_t guid, InterfaceIdRule rule = InterfaceIdRule::kSetUniversal,
    std::uint16_t lid = 0) noexcept {
  switch (rule) {
    case InterfaceIdRule::kEui64: return guid ^ kUniversalBit;
    case InterfaceIdRule::kModifiedEui64: return guid;
    case InterfaceIdRule::kLid: return lid;
    case InterfaceIdRule::kSetUniversal: break;
  }
  return guid | kUniversalBit;
}
/// Interface identifier of an Ethernet interface: modified EUI-64 (RFC 2464 §4).
[[nodiscard]] constexpr std::uint64_t interface_id(const MacAddr& mac) noexcept {
  std::uint64_t id = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto octet = i == 3 ? std::byte{0xff} : i == 4 ? std::byte{0xfe} : mac[i < 3 ? i : i - 2];
    id = id << 8 | std::to_integer<std::uint64_t>(octet);
  }
  return id ^ kUniversalBit;
}

}  // namespace ipoib::wire
