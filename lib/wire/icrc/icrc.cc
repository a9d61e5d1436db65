// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/icrc/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/wire/iba.h"

namespace ipoib::wire {
namespace {

/// ISA-L's CRC-32 of gzip; continues from an earlier result like zlib's crc32().
std::uint32_t crc32(std::uint32_t crc, const std::byte* data, std::size_t len) noexcept {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(data), len);
}

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

std::uint32_t icrc_portable(std::span<const std::byte> packet) noexcept {
  const bool global =
      (std::to_integer<unsigned>(packet[1]) & 3) == static_cast<unsigned>(Lnh::kGlobal);
  const std::size_t head_len = sizeof(Lrh) + (global ? sizeof(Grh) : 0) + sizeof(Bth);
  constexpr std::byte kOnes{0xff};

  std::array<std::byte, sizeof(Lrh) + sizeof(Grh) + sizeof(Bth)> head;
  std::memcpy(head.data(), packet.data(), head_len);
  if (global) {
    std::fill_n(head.begin(), sizeof(Lrh), kOnes);
    std::byte* grh = head.data() + sizeof(Lrh);
    grh[0] |= std::byte{0x0f};  // TClass and FlowLabel, not IPVer
    grh[1] = grh[2] = grh[3] = kOnes;
    grh[7] = kOnes;  // HopLmt
  } else {
    head[0] |= std::byte{0xf0};  // VL
  }
  head[head_len - sizeof(Bth) + offsetof(Bth, resv8a)] = kOnes;
  const std::uint32_t crc = crc32(0, head.data(), head_len);
  return crc32(crc, packet.data() + head_len, packet.size() - head_len);
}

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
