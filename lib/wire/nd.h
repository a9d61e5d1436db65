// SPDX-License-Identifier: BSD-3-Clause
// IPv6 neighbour discovery messages: whole packets, from the IPv6 header on. Source: RFC 4861 §4;
// link-layer options of IPoIB: RFC 4391 §9.3, draft-pelissier-ipoib-encaparp-00 §5; nonce: RFC
// 7527, RFC 3971 §5.3.2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/ip.h"

namespace ipoib::wire {

enum class NdOption : std::uint8_t {
  kSourceLinkAddr = 1,
  kTargetLinkAddr = 2,
  kPrefix = 3,
  kRedirectedHeader = 4,
  kMtu = 5,
  kNonce = 14
};

/// Octets of a source or target link-layer option. InfiniBand has two zero octets before the
/// address; those of the draft of 2001 end with padding unless LinkFormat::gid_word_twice.
[[nodiscard]] constexpr std::size_t hw_option_len(LinkKind kind) noexcept {
  switch (kind) {
    case LinkKind::kEthernet: return 8;
    case LinkKind::kInfiniband: return 24;
    case LinkKind::kIbarp: break;
  }
  return 40;
}

/// Octets of a prefix option.
inline constexpr std::size_t kPrefixOptionLen = 32;

/// Prefix of a router advertisement.
struct NdPrefix {
  IpPrefix prefix;
  bool on_link = false;
  bool autonomous = false;
  std::uint32_t valid_s = 0;
  std::uint32_t preferred_s = 0;
  friend bool operator==(const NdPrefix&, const NdPrefix&) = default;
};

using NdNonce = std::array<std::byte, 6>;

/// Any of the five messages. Fields that a type does not have keep their default.
struct NdMessage {
  Icmp6Type type = Icmp6Type::kNeighbourSolicitation;
  IpAddr src;
  IpAddr dst;
  IpAddr target;       ///< NS, NA, Redirect.
  IpAddr destination;  ///< Redirect: destination that is reached through `target`.
  // NA.
  bool router = false;
  bool solicited = false;
  bool override_it = false;
  // RA.
  std::uint8_t hop_limit = 0;
  std::uint8_t flags = 0;  ///< 0x80 managed, 0x40 other configuration.
  std::uint16_t lifetime_s = 0;
  std::uint32_t reachable_ms = 0;
  std::uint32_t retransmit_ms = 0;
  std::vector<NdPrefix> prefixes;
  std::optional<std::uint32_t> mtu;
  // Options.
  std::optional<HwAddr> source_hw;
  std::optional<HwAddr> target_hw;
  std::optional<NdNonce> nonce;
  /// Redirect: start of the packet that caused it, whole units of 8 octets.
  std::vector<std::byte> redirected;

  friend bool operator==(const NdMessage&, const NdMessage&) = default;
};

/// Reasons to reject octets as a neighbour discovery message.
enum class NdError : std::uint8_t {
  kTruncated,     ///< Headers or fixed part incomplete, or payload length exceeds the octets.
  kNotNd,         ///< Not ICMPv6 over IPv6, or another ICMPv6 type.
  kHopLimit,      ///< Not 255: the packet passed a router.
  kChecksum,      ///< Wrong ICMPv6 checksum.
  kCode,          ///< Not 0.
  kOptionLength,  ///< An option of length 0, or longer than the packet.
  kLinkAddr,      ///< Link-layer option of another length or form, or source option from `::`.
  kSource,        ///< Not unicast; `::` in no solicitation; RA, redirect: not link-local.
  kDestination,   ///< NS from `::`: no solicited-node group; solicited NA: a group; redirect: not
                  ///< unicast.
  kTarget,        ///< NS, NA: not unicast; redirect: cannot be a next hop.
  kCount
};
inline constexpr std::size_t kNdErrorCount = static_cast<std::size_t>(NdError::kCount);
[[nodiscard]] std::string_view to_string(NdError error);

/// Does the checks of RFC 4861 §6.1, §7.1, §8.1 for a link of this format. Unknown options are
/// ignored.
[[nodiscard]] tl::expected<NdMessage, NdError> parse_nd(const LinkFormat& format,
                                                        std::span<const std::byte> packet);

/// Builds the packet with hop limit 255 and checksum. `format`: of the link; without it, that of
/// the kind of the addresses.
[[nodiscard]] std::vector<std::byte> build_nd(const NdMessage& message,
                                              const std::optional<LinkFormat>& format = {});

/// Builds a redirect to the sender of `offending` (octets from its IPv6 header on): its destination
/// is better reached through `next_hop`, whose link-layer address may be known. A `next_hop` equal
/// to the destination means that the destination is a neighbour. `source`: link-local address of
/// this router. The packet has at most 1280 octets. Empty if no redirect may
/// be sent: the sender is not a unicast address, or the destination is a group (RFC 4861 §8.2).
[[nodiscard]] std::optional<std::vector<std::byte>> make_redirect(
    const LinkFormat& format, const IpAddr& source, std::span<const std::byte> offending,
    const IpAddr& next_hop, const std::optional<HwAddr>& next_hop_hw);

}  // namespace ipoib::wire
