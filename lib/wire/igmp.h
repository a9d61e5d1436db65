// SPDX-License-Identifier: BSD-3-Clause
// IGMP, all versions: converts whole IPv4 packets to messages, and messages to packets.
// Source: RFC 1112 Appendix I, RFC 2236 §2, RFC 3376 §4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/wire/be.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::wire {

enum class IgmpType : std::uint8_t {
  kQuery = 0x11,
  kReportV1 = 0x12,
  kReportV2 = 0x16,
  kLeave = 0x17,
  kReportV3 = 0x22
};

inline constexpr IpAddr kIgmpAllSystems = IpAddr::v4(0xe000'0001);
inline constexpr IpAddr kIgmpAllRouters = IpAddr::v4(0xe000'0002);
inline constexpr IpAddr kIgmpV3Routers = IpAddr::v4(0xe000'0016);

/// Every query (MembershipQueryTail follows in version 3), and the reports before version 3.
struct IgmpHdr {
  std::uint8_t type;
  std::uint8_t max_resp_code;  ///< Queries: 0: version 1; else units of 100 ms, kV3: decode_float8.
  Be16 checksum;
  Be32 group;
};
static_assert(WireRecord<IgmpHdr> && sizeof(IgmpHdr) == 8);

/// Reads a packet from its IPv4 header on; octets behind the total length are ignored. Only TTL 1
/// is accepted. The router alert is not required, because version 1 has none.
[[nodiscard]] ParsedMembership parse_igmp(std::span<const std::byte> packet);

/// Builds an IPv4 packet with router alert, TTL 1, precedence Internetwork Control, from `src`.
/// A general query goes to 224.0.0.1, others to their group. sources.size() <= kMaxQuerySources.
[[nodiscard]] std::vector<std::byte> make_igmp(const IpAddr& src, const MembershipQuery& query);
/// Version 3 goes to 224.0.0.22, a leave to 224.0.0.2, other reports to their group. Versions 1 and
/// 2: exactly one record. The packet must fit 65,535 octets.
[[nodiscard]] std::vector<std::byte> make_igmp(const IpAddr& src, const MembershipReport& report);

}  // namespace ipoib::wire
