// SPDX-License-Identifier: BSD-3-Clause
// GIDs, LIDs and P_Keys: the identifiers of InfiniBand ports, multicast groups and partitions.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"

namespace ipoib::wire {

/// 128-bit GID or MGID in wire order. Tables use KeyedHash, as for addresses.
struct Gid {
  std::array<std::byte, 16> bytes{};

  [[nodiscard]] static constexpr Gid of(std::uint64_t prefix, std::uint64_t guid) noexcept {
    Gid g;
    for (std::size_t i = 0; i < 8; ++i) {
      g.bytes[i] = static_cast<std::byte>(prefix >> (56 - 8 * i));
      g.bytes[8 + i] = static_cast<std::byte>(guid >> (56 - 8 * i));
    }
    return g;
  }
  [[nodiscard]] constexpr std::uint64_t prefix() const noexcept { return half(0); }
  [[nodiscard]] constexpr std::uint64_t guid() const noexcept { return half(8); }
  [[nodiscard]] constexpr bool is_multicast() const noexcept { return bytes[0] == std::byte{0xff}; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return prefix() == 0 && guid() == 0; }

  friend constexpr auto operator<=>(const Gid&, const Gid&) noexcept = default;

 private:
  [[nodiscard]] constexpr std::uint64_t half(std::size_t at) const noexcept {
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < 8; ++i) v = v << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
    return v;
  }
};
static_assert(WireRecord<Gid> && sizeof(Gid) == 16);

inline constexpr std::uint64_t kDefaultGidPrefix = 0xfe80'0000'0000'0000ULL;
inline constexpr std::uint16_t kDefaultPkey = 0xffff;
inline constexpr std::uint16_t kFullMemberBit = 0x8000;
inline constexpr std::uint32_t kMulticastQpn = 0xff'ffff;
inline constexpr std::uint32_t kSmiQpn = 0;             ///< QP0: subnet management.
inline constexpr std::uint32_t kGsiQpn = 1;             ///< QP1: all other management classes.
inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;  ///< Q_Key of QP1.

/// True if both P_Keys name one partition, as full or as limited member.
[[nodiscard]] constexpr bool same_partition(std::uint16_t a, std::uint16_t b) noexcept {
  return ((a ^ b) & ~kFullMemberBit) == 0;
}

/// True if a packet with P_Key `a` may reach a queue pair with `b`: they name the same partition,
/// and at least one of them is a full member. Source: iba-wire.md §1.10.
[[nodiscard]] constexpr bool pkeys_match(std::uint16_t a, std::uint16_t b) noexcept {
  const auto base = static_cast<std::uint16_t>(a & 0x7fff);
  return base != 0 && base == (b & 0x7fff) && ((a | b) & kFullMemberBit) != 0;
}

/// Unicast LIDs are 0x0001-0xBFFF, multicast LIDs 0xC000-0xFFFE.
[[nodiscard]] constexpr bool is_unicast_lid(std::uint16_t lid) noexcept {
  return lid != 0 && lid < 0xc000;
}
[[nodiscard]] constexpr bool is_multicast_lid(std::uint16_t lid) noexcept {
  return lid >= 0xc000 && lid != 0xffff;
}

}  // namespace ipoib::wire
