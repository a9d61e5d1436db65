// SPDX-License-Identifier: BSD-3-Clause
// MLD, both versions: converts whole IPv6 packets to messages, and messages to packets.
// Source: RFC 2710 §3, RFC 3810 §5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/wire/be.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::wire {

/// ICMPv6 types.
enum class MldType : std::uint8_t { kQuery = 130, kReportV1 = 131, kDone = 132, kReportV2 = 143 };

/// ff02::16. The other groups of routers and nodes are all_routers() and all_nodes() of icmpv6.h.
inline constexpr IpAddr kMldV2Routers = [] {
  IpAddr a;
  a.bytes[0] = std::byte{0xff};
  a.bytes[1] = std::byte{0x02};
  a.bytes[15] = std::byte{0x16};
  return a;
}();

/// Every query (MembershipQueryTail follows in version 2), and the messages of version 1.
struct MldHdr {
  std::uint8_t type;
  std::uint8_t code;
  Be16 checksum;
  Be16 max_response;  ///< ms; version 2: encoded for decode_float16.
  Be16 reserved;
  IpAddr group;
};
static_assert(WireRecord<MldHdr> && sizeof(MldHdr) == 24);

/// Reads a packet from its IPv6 header on; octets behind the payload length are ignored. Hop limit
/// 1, a link-local source and a router alert in a Hop-by-Hop header are required (RFC 3810 §5.1.14,
/// §6.2, §7.1).
[[nodiscard]] ParsedMembership parse_mld(std::span<const std::byte> packet);

/// Builds an IPv6 packet with router alert and hop limit 1, from `src`, a link-local address.
/// A general query goes to ff02::1, others to their group.
[[nodiscard]] std::vector<std::byte> make_mld(const IpAddr& src, const MembershipQuery& query);
/// Version 2 (kV3) goes to ff02::16, Done to ff02::2, a version 1 report to its group. Version 1
/// (kV2): exactly one record. The packet must fit 65,535 octets of payload.
[[nodiscard]] std::vector<std::byte> make_mld(const IpAddr& src, const MembershipReport& report);

}  // namespace ipoib::wire
