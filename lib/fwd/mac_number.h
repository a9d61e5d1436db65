// SPDX-License-Identifier: BSD-3-Clause
// Ethernet addresses as numbers, to be compared and stored in one step.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/wire/ipoib.h"

namespace ipoib::fwd {

static_assert(std::endian::native == std::endian::little);
inline constexpr std::uint64_t kMacMask = 0x0000'ffff'ffff'ffffULL;

/// Returns the first six octets of eight, the first octet lowest.
[[nodiscard]] inline std::uint64_t mac_at(const std::byte* p) noexcept {
  std::uint64_t mac;
  std::memcpy(&mac, p, sizeof(mac));
  return mac & kMacMask;
}

/// Loads 4 and 2 octets: a load of eight octets right after a store of six would wait for all
/// earlier stores, because it defeats store forwarding.
[[nodiscard]] inline std::uint64_t mac_of(const wire::MacAddr& addr) noexcept {
  std::uint32_t low;
  std::uint16_t high;
  std::memcpy(&low, addr.data(), sizeof(low));
  std::memcpy(&high, addr.data() + sizeof(low), sizeof(high));
  return std::uint64_t{high} << 32 | low;
}

}  // namespace ipoib::fwd
