// SPDX-License-Identifier: BSD-3-Clause
// Ethernet addresses as numbers, to be compared and stored at once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/wire/ipoib.h"

namespace ipoib::fwd {

static_assert(std::endian::native == std::endian::little);
inline constexpr std::uint64_t kMacMask = 0x0000'ffff'ffff'ffffULL;

/// First six octets of eight, the first lowest.
[[nodiscard]] inline std::uint64_t mac_at(const std::byte* p) noexcept {
  std::uint64_t mac;
  std::memcpy(&mac, p, sizeof(mac));
  return mac & kMacMask;
}

/// Two loads put together: eight octets loaded right after six were stored would wait for all
/// stores before.
[[nodiscard]] inline std::uint64_t mac_of(const wire::MacAddr& addr) noexcept {
  std::uint32_t low;
  std::uint16_t high;
  std::memcpy(&low, addr.data(), sizeof(low));
  std::memcpy(&high, addr.data() + sizeof(low), sizeof(high));
  return std::uint64_t{high} << 32 | low;
}

}  // namespace ipoib::fwd
