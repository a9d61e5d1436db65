// SPDX-License-Identifier: BSD-3-Clause
// Checks of IPv6 headers and addresses for the stages. Source: RFC 8200, RFC 4291.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "lib/wire/ip.h"
#include "lib/wire/ip6_next_headers.h"

namespace ipoib::fwd {

/// The first octets of an extension header. Source: RFC 8200 §4, RFC 4302 §2.2.
struct ExtensionHead {
  std::uint8_t next;
  std::uint8_t units;      ///< Length of the header as it says.
  std::uint8_t octets[2];  ///< They follow the length.

  /// Reads the header at this place of a packet in any segments. Empty: the packet ends before.
  static std::optional<ExtensionHead> read(const rte_mbuf* m, std::uint32_t at) noexcept {
    ExtensionHead head;
    const void* const from = rte_pktmbuf_read(m, at, sizeof(head), &head);
    if (from == nullptr) return std::nullopt;
    if (from != &head) std::memcpy(&head, from, sizeof(head));
    return head;
  }
  /// Octets of the header, which is of kind `kind`.
  [[nodiscard]] std::uint32_t len(std::uint8_t kind) const noexcept {
    if (kind == wire::kFragmentHeader) return 8;
    return kind == wire::kAuthenticationHeader ? (units + 2U) * 4 : (units + 1U) * 8;
  }
  [[nodiscard]] std::uint8_t routing_type() const noexcept { return octets[0]; }
  // Fragment header.
  [[nodiscard]] bool is_later_fragment() const noexcept {
    return octets[0] != 0 || (octets[1] & 0xf8) != 0;
  }
  [[nodiscard]] bool more_fragments() const noexcept { return (octets[1] & 1) != 0; }
};

/// First eight octets and last eight, in memory order.
struct Ip6Words {
  std::uint64_t high;
  std::uint64_t low;
};
inline Ip6Words words_of(const wire::IpAddr& addr) noexcept {
  Ip6Words words;
  std::memcpy(&words, addr.bytes.data(), sizeof(words));
  return words;
}

/// Returns the scope of a group: 1 interface, 2 link, ... 14 global. Source: RFC 4291 §2.7.
inline std::uint8_t scope_of(const wire::IpAddr& group) noexcept {
  return std::to_integer<std::uint8_t>(group.bytes[1]) & 0xf;
}
inline constexpr std::uint8_t kInterfaceScope = 1;
inline constexpr std::uint8_t kLinkScope = 2;

}  // namespace ipoib::fwd
