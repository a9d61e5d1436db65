// SPDX-License-Identifier: BSD-3-Clause
// Wire format of the reliable connected transport besides the common headers: packet sequence
// numbers, AETH, and the codes of its timers. Source: IBA vol 1 §9.7; iba-wire.md §1.4-§1.6, §6.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"

namespace ipoib::wire {

inline constexpr std::uint32_t kPsnMask = 0xff'ffff;

/// Difference of two 24-bit numbers that wrap: > 0 if a is after b, < 0 if before.
[[nodiscard]] constexpr std::int32_t psn_diff(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::int32_t>((a - b) << 8) >> 8;
}
[[nodiscard]] constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t n) noexcept {
  return (psn + n) & kPsnMask;
}

/// ACK extended transport header.
struct Aeth {
  std::uint8_t syndrome;
  Be24 msn;  ///< Number of completed messages.

  /// Bits 6-5 of the syndrome; bit 7 is 0.
  enum class Kind : std::uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };
  // Syndromes. The low bits of an ACK are end-to-end credits, those of a RNR NAK its timer code.
  static constexpr std::uint8_t kAckNoCredits = 0x1f;  ///< Used with a shared receive queue.
  static constexpr std::uint8_t kRnrNak = 0x20;
  static constexpr std::uint8_t kNakSequence = 0x60;
  static constexpr std::uint8_t kNakInvalidRequest = 0x61;
  static constexpr std::uint8_t kNakRemoteAccess = 0x62;
  static constexpr std::uint8_t kNakRemoteOperation = 0x63;

  [[nodiscard]] constexpr Kind kind() const noexcept {
    return (syndrome & 0x80) != 0 ? Kind::kReserved : static_cast<Kind>(syndrome >> 5 & 3);
  }
  [[nodiscard]] constexpr std::uint8_t value() const noexcept { return syndrome & 0x1f; }
};
static_assert(WireRecord<Aeth> && sizeof(Aeth) == 4);

/// Delay that a RNR NAK with this timer code requests, ns.
[[nodiscard]] constexpr std::uint64_t rnr_timer_ns(std::uint8_t code) noexcept {
  constexpr std::array<std::uint32_t, 32> kUnitsOf10us = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::uint64_t{kUnitsOf10us[code & 31U]} * 10'000;
}

/// Local ACK timeout of a code, ns; 0: none.
[[nodiscard]] constexpr std::uint64_t ack_timeout_ns(std::uint8_t code) noexcept {
  return code == 0 ? 0 : std::uint64_t{4096} << (code & 31U);
}

}  // namespace ipoib::wire
