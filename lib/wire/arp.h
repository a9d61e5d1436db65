// SPDX-License-Identifier: BSD-3-Clause
// ARP and RARP records for IPv4 on every kind of link. Source: RFC 826, RFC 903; RFC 4391 §9.2;
// draft-pelissier-ipoib-encaparp-00 §6.3 (IBARP).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/hw_addr.h"
#include "lib/wire/ip.h"

namespace ipoib::wire {

enum class ArpOp : std::uint16_t { kRequest = 1, kReply = 2, kRarpRequest = 3, kRarpReply = 4 };

/// One record; both link-layer addresses are of the same kind.
struct Arp {
  ArpOp op = ArpOp::kRequest;
  HwAddr sender_hw;
  std::uint32_t sender_ip = 0;  ///< Host order.
  HwAddr target_hw;
  std::uint32_t target_ip = 0;  ///< Host order.

  [[nodiscard]] bool is_rarp() const noexcept {
    return op == ArpOp::kRarpRequest || op == ArpOp::kRarpReply;
  }
  /// Returns the record with sender and target exchanged.
  [[nodiscard]] Arp exchanged() const { return {op, target_hw, target_ip, sender_hw, sender_ip}; }

  friend bool operator==(const Arp&, const Arp&) = default;
};

/// Octets of a record on a link of this format.
[[nodiscard]] constexpr std::size_t arp_len(const LinkFormat& format) noexcept {
  return 8 + 2 * (written_len(format) + sizeof(Be32));
}

/// Builds the octets from the ARP header on.
[[nodiscard]] std::vector<std::byte> build_arp(const Arp& arp, const LinkFormat& format);
[[nodiscard]] inline std::vector<std::byte> build_arp(const Arp& arp) {
  return build_arp(arp, arp.sender_hw.kind());
}

/// Copies an ARP record out of the octets behind the link header. Octets behind the record are
/// ignored, except on links of the draft of 2001, where the length alone shows how often the word
/// of a GID is written. Empty if there are too few octets, if hardware type, protocol type or
/// lengths do not match this format, or if op is not 1-4.
[[nodiscard]] std::optional<Arp> parse_arp(const LinkFormat& format,
                                           std::span<const std::byte> octets);

}  // namespace ipoib::wire
