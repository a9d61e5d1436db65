// SPDX-License-Identifier: BSD-3-Clause
// A link-layer (hardware) address of either kind of link as one value, so that the control plane
// needs one state machine for both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lib/wire/ipoib.h"

namespace ipoib::wire {

/// The kinds of link. The value is the length of a link-layer address in octets.
enum class LinkKind : std::uint8_t { kEthernet = sizeof(MacAddr), kInfiniband = sizeof(LinkAddr) };

/// Octets of a link-layer address on a link of this kind.
[[nodiscard]] constexpr std::size_t hw_len(LinkKind kind) noexcept {
  return static_cast<std::size_t>(kind);
}

class HwAddr {
 public:
  // Conversions, because each of the two is a hardware address.
  HwAddr(const MacAddr& mac) noexcept : HwAddr{LinkKind::kEthernet, mac} {}
  HwAddr(const LinkAddr& addr) noexcept : HwAddr{LinkKind::kInfiniband, bytes_of(addr)} {}
  /// All octets are zero.
  [[nodiscard]] static HwAddr zero(LinkKind kind) noexcept { return {kind, {}}; }
  /// Copies the address from the first octets; empty if there are too few.
  [[nodiscard]] static std::optional<HwAddr> read(LinkKind kind,
                                                  std::span<const std::byte> octets) {
    if (octets.size() < hw_len(kind)) return std::nullopt;
    return HwAddr{kind, octets.first(hw_len(kind))};
  }

  [[nodiscard]] LinkKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::span<const std::byte> octets() const noexcept {
    return std::span{octets_}.first(hw_len(kind_));
  }
  /// Precondition: kind() is kEthernet.
  [[nodiscard]] MacAddr mac() const;
  /// Precondition: kind() is kInfiniband.
  [[nodiscard]] LinkAddr link_addr() const;

  /// True if both are of one interface: equal, except for the flags of an IPoIB address.
  [[nodiscard]] bool same_interface(const HwAddr& o) const noexcept;
  /// True if both are at one port, so that one path leads to both: the GIDs, or the MAC addresses,
  /// are equal.
  [[nodiscard]] bool same_port(const HwAddr& o) const noexcept;
  /// True if a single interface can have this address: no group, not zero, and no management queue
  /// pair (QPNs 0 and 1).
  [[nodiscard]] bool is_plausible() const;

  friend bool operator==(const HwAddr&, const HwAddr&) noexcept = default;

 private:
  /// `octets`: at most hw_len(kind).
  HwAddr(LinkKind kind, std::span<const std::byte> octets) noexcept;

  LinkKind kind_;
  std::array<std::byte, sizeof(LinkAddr)> octets_{};  ///< Zero behind the address.
};

/// Octets in hex with colons between, the form of `ip neigh`.
[[nodiscard]] std::string to_string(const HwAddr& addr);

}  // namespace ipoib::wire
