// SPDX-License-Identifier: BSD-3-Clause
// Broadcast parameters of the draft of 2001 that preceded RFC 4391, in an answer of SIDR. Its
// header and address are in lib/wire/ipoib.h, its ARP records and ND options in lib/wire/arp.h and
// lib/wire/nd.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/be.h"
#include "lib/wire/gid.h"

namespace ipoib::wire {

/// The draft leaves the service ID of IBARP open. This one is of the range for local administration
/// (first octet 0x02). In the IETF's range (0x01) it could be the service of a connected-mode link.
inline constexpr std::uint64_t kIbarpServiceId = 0x0200'0000'0000'0806ULL;

/// Parameters of the broadcast group, from the private data of a SIDR_REP.
struct IbarpBroadcast {
  std::uint8_t sl = 0;
  std::uint8_t tclass = 0;
  std::uint16_t mlid = 0;  ///< DLID.
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  std::uint16_t pkey = kDefaultPkey;
  std::uint32_t qkey = 0;
  Gid mgid;  ///< DGID.

  friend bool operator==(const IbarpBroadcast&, const IbarpBroadcast&) = default;
};

/// Reasons to reject private data as parameters of a broadcast group.
enum class IbarpError : std::uint8_t {
  kTruncated,
  kVersion,  ///< Not 1.
  kDlid,     ///< No multicast LID.
  kDgid,     ///< No multicast GID.
  kPkey,     ///< Partition 0, which is invalid.
  kCount
};
inline constexpr std::size_t kIbarpErrorCount = static_cast<std::size_t>(IbarpError::kCount);
[[nodiscard]] std::string_view to_string(IbarpError error);

/// Octets of the parameters. The draft adds 180 reserved octets, 212 in all, but the private data
/// of a SIDR_REP has 136: the reserved ones are cut. Source: draft-pelissier-ipoib-encaparp-00
/// §6.2, iba-wire.md §9.
inline constexpr std::size_t kIbarpBroadcastLen = 32;

/// Reserved fields and octets behind the parameters are ignored.
[[nodiscard]] tl::expected<IbarpBroadcast, IbarpError> parse_ibarp_broadcast(
    std::span<const std::byte> private_data);
[[nodiscard]] std::vector<std::byte> build_ibarp_broadcast(const IbarpBroadcast& broadcast);

}  // namespace ipoib::wire
