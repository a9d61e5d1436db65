// SPDX-License-Identifier: BSD-3-Clause
// vcrc() of icrc.h, eight octets at a time.
#include <array>
#include <cstring>

#include "lib/wire/icrc/icrc.h"

namespace ipoib::wire {
namespace {

using VcrcTable = std::array<std::uint16_t, 256>;
constexpr std::size_t kSlice = sizeof(std::uint64_t);

/// [k][b]: contribution of octet b, with k octets behind it in the slice, to the register.
constexpr std::array<VcrcTable, kSlice> kVcrcTables = [] {
  std::array<VcrcTable, kSlice> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t r = i;
    for (int bit = 0; bit < 8; ++bit) r = (r >> 1) ^ ((r & 1) != 0 ? 0xd008U : 0U);
    tables[0][i] = static_cast<std::uint16_t>(r);
  }
  for (std::size_t k = 1; k < kSlice; ++k)
    for (std::size_t i = 0; i < 256; ++i) {
      const std::uint32_t r = tables[k - 1][i];
      tables[k][i] = static_cast<std::uint16_t>((r >> 8) ^ tables[0][r & 0xff]);
    }
  return tables;
}();

}  // namespace

std::uint16_t vcrc(std::span<const std::byte> packet) noexcept {
  std::uint32_t r = 0xffff;
  std::size_t at = 0;
  for (; packet.size() - at >= kSlice; at += kSlice) {
    std::uint64_t slice;
    std::memcpy(&slice, packet.data() + at, kSlice);
    slice ^= r;
    r = 0;
    for (std::size_t i = 0; i < kSlice; ++i)
      r ^= kVcrcTables[kSlice - 1 - i][(slice >> (8 * i)) & 0xff];
  }
  for (; at < packet.size(); ++at)
    r = (r >> 8) ^ kVcrcTables[0][(r ^ std::to_integer<std::uint32_t>(packet[at])) & 0xff];
  return static_cast<std::uint16_t>(~r);
}

}  // namespace ipoib::wire
