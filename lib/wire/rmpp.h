// SPDX-License-Identifier: BSD-3-Clause
// RMPP, the reliable multi-packet protocol that carries tables of subnet administration: its twelve
// octets in the SA header. Source: IBA vol 1 §13.6; iba-wire.md §4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/wire/sa_records.h"

namespace ipoib::wire {

enum class RmppType : std::uint8_t { kData = 1, kAck = 2, kStop = 3, kAbort = 4 };

namespace rmpp_flag {
inline constexpr std::uint8_t kActive = 1;
inline constexpr std::uint8_t kFirst = 2;
inline constexpr std::uint8_t kLast = 4;
}  // namespace rmpp_flag

/// Status: kNormal for DATA and ACK, kResourcesExhausted for STOP, the others for ABORT.
enum class RmppStatus : std::uint8_t {
  kNormal = 0,
  kResourcesExhausted = 1,
  kTimeTooLong = 118,
  kInconsistentLast = 119,   ///< Last flag and PayloadLength.
  kInconsistentFirst = 120,  ///< First flag and SegmentNumber.
  kBadType = 121,
  kWindowTooSmall = 122,  ///< NewWindowLast below SegmentNumber.
  kSegmentTooBig = 123,   ///< SegmentNumber above the last segment sent.
  kIllegalStatus = 124,
  kBadVersion = 125,
  kTooManyRetries = 126,
  kUnspecified = 127,
};

inline constexpr std::uint8_t kRmppVersion = 1;
inline constexpr std::uint8_t kRmppNoRespTime = 0x1f;
/// Octets of the SA header that RMPP counts as payload of every segment, and payload of a full
/// segment.
inline constexpr std::uint32_t kRmppSaHeaderLen = 20;
inline constexpr std::uint32_t kRmppSegmentLen = kRmppSaHeaderLen + kSaDataLen;
static_assert(kRmppSegmentLen == 220);

struct Rmpp {
  RmppType type = RmppType::kData;
  std::uint8_t flags = rmpp_flag::kActive;
  std::uint8_t resp_time = kRmppNoRespTime;
  std::uint8_t status = 0;
  std::uint32_t segment = 0;  ///< DATA: number from 1 on; ACK: last segment received in order.
  std::uint32_t len = 0;      ///< DATA: PayloadLength; ACK: NewWindowLast.

  [[nodiscard]] constexpr bool first() const noexcept { return (flags & rmpp_flag::kFirst) != 0; }
  [[nodiscard]] constexpr bool last() const noexcept { return (flags & rmpp_flag::kLast) != 0; }
};

enum class RmppError : std::uint8_t {
  kNone,
  kInactive,       ///< Active flag not set: the MAD has no RMPP.
  kVersion,        ///< Not 1.
  kType,           ///< None of the four.
  kStatus,         ///< Status that the type cannot have.
  kSegment,        ///< DATA: number 0, First flag on another segment than 1, or missing there.
  kPayloadLength,  ///< DATA: impossible length of a first or last segment.
  kWindow,         ///< ACK: NewWindowLast below SegmentNumber.
  kCount
};
[[nodiscard]] std::string_view rmpp_error_name(RmppError error) noexcept;
/// Status of an ABORT for the error; kUnspecified if none fits.
[[nodiscard]] RmppStatus abort_status(RmppError error) noexcept;

/// Reads and checks the RMPP part of an SA header, without its context. `out` is filled except on
/// kInactive, kVersion and kType. PayloadLength: 20 to 220 in a last segment; in the first of
/// several segments 0 (not known) or more than 220, the sum over all of them.
[[nodiscard]] RmppError parse_rmpp(const SaHdr& hdr, Rmpp& out) noexcept;

void write_rmpp(SaHdr& hdr, const Rmpp& rmpp) noexcept;

}  // namespace ipoib::wire
