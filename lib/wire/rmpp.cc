// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/rmpp.h"

#include <array>

namespace ipoib::wire {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(RmppError::kCount)>
    kRmppErrorNames = {"none",   "inactive", "version",        "type",
                       "status", "segment",  "payload_length", "window"};
static_assert(!kRmppErrorNames.back().empty());

constexpr std::uint8_t kFlagsMask = 7;
constexpr unsigned kFlagsBits = 3;

bool status_fits(const Rmpp& r) {
  switch (r.type) {
    case RmppType::kStop: return r.status == static_cast<unsigned>(RmppStatus::kResourcesExhausted);
    case RmppType::kAbort: return r.status >= static_cast<unsigned>(RmppStatus::kTimeTooLong);
    default: return r.status == 0;
  }
}

bool length_fits(const Rmpp& r) {
  if (r.last()) return r.len >= kRmppSaHeaderLen && r.len <= kRmppSegmentLen;
  return !r.first() || r.len == 0 || r.len > kRmppSegmentLen;
}

}  // namespace

std::string_view rmpp_error_name(RmppError error) noexcept {
  return kRmppErrorNames[static_cast<std::size_t>(error)];
}

RmppStatus abort_status(RmppError error) noexcept {
  switch (error) {
    case RmppError::kVersion: return RmppStatus::kBadVersion;
    case RmppError::kType: return RmppStatus::kBadType;
    case RmppError::kStatus: return RmppStatus::kIllegalStatus;
    case RmppError::kSegment: return RmppStatus::kInconsistentFirst;
    case RmppError::kPayloadLength: return RmppStatus::kInconsistentLast;
    case RmppError::kWindow: return RmppStatus::kWindowTooSmall;
    default: return RmppStatus::kUnspecified;
  }
}

RmppError parse_rmpp(const SaHdr& hdr, Rmpp& out) noexcept {
  const std::uint8_t flags = hdr.rmpp_rtime_flags & kFlagsMask;
  if ((flags & rmpp_flag::kActive) == 0) return RmppError::kInactive;
  if (hdr.rmpp_version != kRmppVersion) return RmppError::kVersion;
  if (hdr.rmpp_type < static_cast<std::uint8_t>(RmppType::kData) ||
      hdr.rmpp_type > static_cast<std::uint8_t>(RmppType::kAbort))
    return RmppError::kType;
  out.type = static_cast<RmppType>(hdr.rmpp_type);
  out.flags = flags;
  out.resp_time = static_cast<std::uint8_t>(hdr.rmpp_rtime_flags >> kFlagsBits);
  out.status = hdr.rmpp_status;
  out.segment = hdr.rmpp_segment.host();
  out.len = hdr.rmpp_len.host();

  if (!status_fits(out)) return RmppError::kStatus;
  if (out.type == RmppType::kData) {
    if (out.segment == 0 || out.first() != (out.segment == 1)) return RmppError::kSegment;
    if (!length_fits(out)) return RmppError::kPayloadLength;
  }
  if (out.type == RmppType::kAck && out.len < out.segment) return RmppError::kWindow;
  return RmppError::kNone;
}

void write_rmpp(SaHdr& hdr, const Rmpp& rmpp) noexcept {
  hdr.rmpp_version = kRmppVersion;
  hdr.rmpp_type = static_cast<std::uint8_t>(rmpp.type);
  hdr.rmpp_rtime_flags = static_cast<std::uint8_t>(rmpp.resp_time << kFlagsBits | rmpp.flags);
  hdr.rmpp_status = rmpp.status;
  hdr.rmpp_segment.set(rmpp.segment);
  hdr.rmpp_len.set(rmpp.len);
}

}  // namespace ipoib::wire
