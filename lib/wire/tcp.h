// SPDX-License-Identifier: BSD-3-Clause
// TCP header for the data plane. Source: RFC 9293 §3.1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"

namespace ipoib::wire {

struct TcpHdr {
  Be16 src_port;
  Be16 dst_port;
  Be32 seq;
  Be32 ack;
  Be16 offset_flags;  ///< 4 bits header length in words, 4 bits reserved, flags.
  Be16 window;
  Be16 checksum;
  Be16 urgent;

  static constexpr std::uint16_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kPsh = 0x08, kAck = 0x10,
                                 kUrg = 0x20, kEce = 0x40, kCwr = 0x80;
  static constexpr std::uint16_t kFlagsMask = 0x0fff;  ///< Includes the reserved bits.

  [[nodiscard]] constexpr std::size_t header_len() const noexcept {
    return std::size_t{offset_flags.host()} >> 12 << 2;
  }
  [[nodiscard]] constexpr std::uint16_t flags() const noexcept {
    return offset_flags.host() & kFlagsMask;
  }
  constexpr void set_flags(std::uint16_t flags) noexcept {
    offset_flags.set(static_cast<std::uint16_t>((offset_flags.host() & ~kFlagsMask) | flags));
  }
};
static_assert(WireRecord<TcpHdr> && sizeof(TcpHdr) == 20);
static_assert(offsetof(TcpHdr, checksum) == 16);

}  // namespace ipoib::wire
