// SPDX-License-Identifier: BSD-3-Clause
// Messages of IGMP and MLD in one form: MLDv1 equals IGMPv2 and MLDv2 equals IGMPv3 in another
// encoding (RFC 2710 §1, RFC 3810 §1), so that one state machine serves both. igmp.h and mld.h have
// the encodings.
#pragma once

#include <tl/expected.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/wire/be.h"
#include "lib/wire/ip.h"

namespace ipoib::wire {

/// kV2 is also MLDv1, kV3 also MLDv2.
enum class MembershipVersion : std::uint8_t { kV1 = 1, kV2 = 2, kV3 = 3 };

/// Source: RFC 3376 §4.2.12, RFC 3810 §5.2.12.
enum class RecordType : std::uint8_t {
  kIsInclude = 1,
  kIsExclude = 2,
  kToInclude = 3,
  kToExclude = 4,
  kAllow = 5,
  kBlock = 6
};

struct MembershipQuery {
  MembershipVersion version = MembershipVersion::kV3;
  IpAddr group{};  ///< All zero octets or 0.0.0.0: general query.
  std::chrono::milliseconds max_response{0};
  // kV3 only.
  bool suppress = false;             ///< S flag: routers do not change their timers.
  std::uint8_t robustness = 0;       ///< QRV, 0-7; 0: not given.
  std::chrono::seconds interval{0};  ///< QQI; 0: not given.
  std::vector<IpAddr> sources{};

  friend bool operator==(const MembershipQuery&, const MembershipQuery&) = default;
};

struct MembershipRecord {
  RecordType type = RecordType::kIsExclude;
  IpAddr group;  ///< Unchecked: the caller checks that it is a group.
  std::vector<IpAddr> sources{};

  friend bool operator==(const MembershipRecord&, const MembershipRecord&) = default;
};

/// A report of kV1 or kV2 is one kIsExclude record without sources, and Leave and Done are one
/// kToInclude record without sources, which has the same meaning (RFC 3376 §7.3.2).
struct MembershipReport {
  MembershipVersion version = MembershipVersion::kV3;
  std::vector<MembershipRecord> records{};
  /// Records of undefined types, which are skipped (RFC 3376 §4.2.12).
  std::size_t unknown_records = 0;

  friend bool operator==(const MembershipReport&, const MembershipReport&) = default;
};

using MembershipMessage = std::variant<MembershipQuery, MembershipReport>;

struct MembershipPacket {
  IpAddr src;
  IpAddr dst;
  MembershipMessage message;
};

/// Follows the header of a query of kV3; `sources` addresses follow.
struct MembershipQueryTail {
  std::uint8_t flags_qrv;  ///< 0x08 S, 0x07 QRV.
  std::uint8_t qqic;       ///< Seconds, encoded for decode_float8.
  Be16 sources;

  static constexpr std::uint8_t kSuppress = 0x08;
  static constexpr std::uint8_t kRobustness = 0x07;
};
static_assert(WireRecord<MembershipQueryTail> && sizeof(MembershipQueryTail) == 4);

/// Report of kV3; `records` records follow.
struct MembershipReportHdr {
  std::uint8_t type;
  std::uint8_t reserved1;
  Be16 checksum;
  Be16 reserved2;
  Be16 records;
};
static_assert(WireRecord<MembershipReportHdr> && sizeof(MembershipReportHdr) == 8);

/// Address: Be32 or IpAddr. `sources` addresses and then `aux_words` * 4 octets follow.
template <WireRecord Address>
struct MembershipRecordHdr {
  std::uint8_t type;
  std::uint8_t aux_words;
  Be16 sources;
  Address group;
};
static_assert(sizeof(MembershipRecordHdr<Be32>) == 8 && sizeof(MembershipRecordHdr<IpAddr>) == 20);

/// Largest number of sources in one query, so that it fits 1,280 octets.
inline constexpr std::size_t kMaxQuerySources = 64;

/// Reasons to reject a packet as a membership message.
enum class MembershipFault : std::uint8_t {
  kIpHeader,       ///< Bad version, length, option or extension header; IPv4: checksum, fragment.
  kNotMembership,  ///< Another protocol or another ICMPv6 type.
  kTruncated,      ///< Too short for its type, or a length between those of two versions.
  kChecksum,
  kHopLimit,     ///< TTL or hop limit is not 1: the packet may be from another link.
  kRouterAlert,  ///< MLD without the router alert option.
  kSource,       ///< MLD: not link-local; IGMP: multicast, class E, broadcast or loopback.
  kUnknownType,  ///< IGMP of an unknown type.
  kRecordCount,  ///< The octets do not hold all records.
  kSourceCount,  ///< The octets do not hold all sources.
  kQueryGroup,   ///< Query for an address that is no group, or general query with sources.
  kCount
};
inline constexpr std::size_t kMembershipFaultCount =
    static_cast<std::size_t>(MembershipFault::kCount);
inline constexpr std::array<std::string_view, kMembershipFaultCount> kMembershipFaultNames = {
    "ip_header", "not_membership", "truncated",    "checksum",     "hop_limit",  "router_alert",
    "source",    "unknown_type",   "record_count", "source_count", "query_group"};
static_assert(!kMembershipFaultNames.back().empty());

using ParsedMembership = tl::expected<MembershipPacket, MembershipFault>;

/// Groups that no router forwards: 224.0.0.0/24 (RFC 5771 §4), IPv6 scopes 0 to 2 (RFC 4291 §2.7).
[[nodiscard]] constexpr bool is_link_scope_group(const IpAddr& a) noexcept {
  if (a.is_v4()) return a.v4_host() >> 8 == 0xe00000;
  return a.bytes[0] == std::byte{0xff} && (a.bytes[1] & std::byte{0x0f}) <= std::byte{2};
}
/// Groups whose members always name sources: 232.0.0.0/8, ff3x::/32. Source: RFC 4607 §1.
[[nodiscard]] constexpr bool is_source_specific_group(const IpAddr& a) noexcept {
  if (a.is_v4()) return a.v4_host() >> 24 == 232;
  return a.bytes[0] == std::byte{0xff} && (a.bytes[1] & std::byte{0xf0}) == std::byte{0x30} &&
         a.bytes[2] == std::byte{0} && a.bytes[3] == std::byte{0};
}
/// The unspecified address: :: or 0.0.0.0.
[[nodiscard]] constexpr bool is_any_address(const IpAddr& a) noexcept {
  return a == IpAddr{} || a == IpAddr::v4(0);
}
/// Codes of 8 bits (IGMPv3 Max Resp Code, QQIC) and 16 bits (MLDv2 Maximum Response Code). Codes in
/// the lower half of the range are the value, the others are a mantissa and an exponent. Encoding
/// gives the largest value that does not exceed `value`.
/// Source: RFC 3376 §4.1.1, §4.1.7; RFC 3810 §5.1.3.
[[nodiscard]] std::uint32_t decode_float8(std::uint8_t code) noexcept;
[[nodiscard]] std::uint32_t decode_float16(std::uint16_t code) noexcept;
[[nodiscard]] std::uint8_t encode_float8(std::uint32_t value) noexcept;
[[nodiscard]] std::uint16_t encode_float16(std::uint32_t value) noexcept;

/// The router alert option of IPv4 (RFC 2113 §2.1).
inline constexpr std::array<std::byte, 4> kRouterAlertOption = {std::byte{0x94}, std::byte{4},
                                                                std::byte{0}, std::byte{0}};
/// Returns true if the options of an IPv4 header hold a router alert; an error if the lengths of
/// the options are inconsistent.
[[nodiscard]] tl::expected<bool, MembershipFault> has_router_alert(
    std::span<const std::byte> options) noexcept;

/// Hop-by-Hop Options header with a router alert for MLD and padding. Source: RFC 2711 §2.1.
[[nodiscard]] constexpr std::array<std::byte, 8> hop_by_hop_router_alert(IpProto next) noexcept {
  return {static_cast<std::byte>(next),
          std::byte{0},
          std::byte{5},
          std::byte{2},
          std::byte{0},
          std::byte{0},
          std::byte{1},
          std::byte{0}};
}
struct HopByHop {
  std::uint8_t next_header = 0;
  std::size_t len = 0;  ///< Octets of the header: a multiple of 8.
  bool router_alert = false;
};
/// Reads the Hop-by-Hop Options header at the start of `bytes`.
[[nodiscard]] tl::expected<HopByHop, MembershipFault> parse_hop_by_hop(
    std::span<const std::byte> bytes) noexcept;

}  // namespace ipoib::wire
