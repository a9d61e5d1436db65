// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/icrc/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/wire/iba.h"

namespace ipoib::wire {
namespace {

/// ISA-L's CRC-32 of gzip; continues from an earlier result like zlib's crc32().
std::uint32_t crc32(std::uint32_t crc, const std::byte* data, std::size_t len) noexcept {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(data), len);
}

}  // namespace

std::uint32_t icrc_portable(std::span<const std::byte> packet) noexcept {
  const bool global =
      (std::to_integer<unsigned>(packet[1]) & 3) == static_cast<unsigned>(Lnh::kGlobal);
  const std::size_t head_len = sizeof(Lrh) + (global ? sizeof(Grh) : 0) + sizeof(Bth);
  constexpr std::byte kOnes{0xff};

  expects(packet.size() >= head_len, "the packet has all its headers");

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

}  // namespace ipoib::wire
