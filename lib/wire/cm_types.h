// SPDX-License-Identifier: BSD-3-Clause
// Communication management MADs, by which two ports set up, keep and end a connection. Their
// messages are in cm_mads.h. Source: IBA vol 1 ch. 12; iba-wire.md §5.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "lib/wire/be.h"
#include "lib/wire/gid.h"
#include "lib/wire/mad.h"

namespace ipoib::wire {

inline constexpr std::uint8_t kCmClassVersion = 2;
inline constexpr std::size_t kCmDataLen = kMadLen - sizeof(MadHdr);
inline constexpr std::size_t kCmInfoLen = 72;  ///< "Additional information" of REJ, APR, SIDR_REP.
static_assert(kCmDataLen == 232);

enum class CmAttr : std::uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};
/// Number of attributes. Their values are consecutive.
inline constexpr std::size_t kCmAttrs = 11;
[[nodiscard]] constexpr std::size_t index_of(CmAttr attr) noexcept {
  return static_cast<std::size_t>(attr) - static_cast<std::size_t>(CmAttr::kReq);
}
/// "REQ", "MRA" …
[[nodiscard]] std::string_view to_string(CmAttr attr) noexcept;

/// Complete CM MAD.
struct CmMad {
  MadHdr hdr;
  std::array<std::byte, kCmDataLen> data;

  [[nodiscard]] constexpr CmAttr attr() const noexcept {
    return static_cast<CmAttr>(hdr.attr_id.host());
  }
};
static_assert(WireRecord<CmMad> && sizeof(CmMad) == kMadLen);

enum class CmError : std::uint8_t {
  kNone,
  kLength,        ///< Not 256 octets.
  kBaseVersion,   ///< Not 1.
  kClass,         ///< Not communication management.
  kClassVersion,  ///< Not 2: the layouts differ.
  kMethod,        ///< Not Send.
  kAttribute,     ///< None of the eleven.
  kInfoLength,    ///< REJ, APR, SIDR_REP: additional information longer than its field.
  kMessageCode,   ///< MRA, REJ: reserved code of the message that it refers to.
  kCount
};
/// "length", "base_version" …; "none" for kNone.
[[nodiscard]] std::string_view cm_error_name(CmError error) noexcept;

/// Copies a CM MAD out of a UD payload and detects errors that make it unreadable; the CM checks
/// the values of its fields. Reserved bits are ignored. `out` is complete unless the length is
/// wrong.
[[nodiscard]] CmError parse_cm_mad(std::span<const std::byte> payload, CmMad& out) noexcept;

/// A message of cm_mads.h.
template <class T>
concept CmMessage = WireRecord<T> &&
                    sizeof(T) == kCmDataLen&& std::same_as<decltype(T::kAttr), const CmAttr>;

/// The message in a MAD whose attribute is T::kAttr.
template <CmMessage T>
[[nodiscard]] T cm_message(const CmMad& mad) noexcept {
  T message;
  std::memcpy(&message, mad.data.data(), sizeof(T));
  return message;
}

template <CmMessage T>
[[nodiscard]] CmMad make_cm_mad(std::uint64_t tid, const T& message) noexcept {
  CmMad mad{};
  mad.hdr.base_version = kMadBaseVersion;
  mad.hdr.mgmt_class = static_cast<std::uint8_t>(MgmtClass::kComMgt);
  mad.hdr.class_version = kCmClassVersion;
  mad.hdr.method = static_cast<std::uint8_t>(Method::kSend);
  mad.hdr.tid.set(tid);
  mad.hdr.attr_id.set(static_cast<std::uint16_t>(T::kAttr));
  std::memcpy(mad.data.data(), &message, sizeof(T));
  return mad;
}

/// Fills a message's private data with the octets that fit, and zeros behind them.
template <std::size_t N>
constexpr void set_private(std::array<std::byte, N>& to, std::span<const std::byte> from) noexcept {
  to = {};
  std::copy_n(from.begin(), std::min(N, from.size()), to.begin());
}

/// Returns `n` bits of an octet, the lowest of which is bit `shift`.
[[nodiscard]] constexpr std::uint8_t bits(std::uint8_t octet, unsigned shift, unsigned n) noexcept {
  return static_cast<std::uint8_t>((octet >> shift) & ((1U << n) - 1));
}
/// Sets these bits to the low `n` bits of `value`.
constexpr void set_bits(std::uint8_t& octet, unsigned shift, unsigned n, unsigned value) noexcept {
  const unsigned mask = ((1U << n) - 1) << shift;
  octet = static_cast<std::uint8_t>((octet & ~mask) | ((value << shift) & mask));
}

/// Message that an MRA or a REJ refers to.
enum class CmAbout : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

/// Reason of a REJ. Source: IBA vol 1 §12.6.7.2; iba-wire.md §5.4.
enum class RejReason : std::uint16_t {
  kNone = 0,  ///< Not a reason of the specification.
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,  ///< Additional information: the sender's CA GUID.
  kUnsupportedRequest = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,
  kInvalidTransport = 9,
  kStaleConnection = 10,
  kRdcDoesNotExist = 11,
  kPrimaryGid = 12,  ///< Additional information: an acceptable GID.
  kPrimaryLid = 13,
  kPrimarySl = 14,
  kPrimaryTclass = 15,
  kPrimaryHopLimit = 16,
  kPrimaryRate = 17,
  kAlternateGid = 18,
  kAlternateLid = 19,
  kAlternateSl = 20,
  kAlternateTclass = 21,
  kAlternateHopLimit = 22,
  kAlternateRate = 23,
  kPortAndCmRedirect = 24,
  kPortRedirect = 25,
  kPathMtu = 26,
  kResponderResources = 27,
  kConsumer = 28,
  kRnrRetry = 29,
  kDuplicateCommId = 30,
  kClassVersion = 31,
  kPrimaryFlowLabel = 32,
  kAlternateFlowLabel = 33,
  kVendorOption = 35,
};
/// "no QP", "consumer reject" …; "unknown reason" for a value not listed.
[[nodiscard]] std::string_view to_string(RejReason reason) noexcept;

/// Status of APR. Source: IBA vol 1 §12.8.2.
enum class ApStatus : std::uint8_t {
  kLoaded = 0,
  kInvalidCommId = 1,
  kNotSupported = 2,
  kRejected = 3,
  kRedirect = 4,
  kDuplicate = 5,
  kQpnMismatch = 6,
  kLid = 7,
  kGid = 8,
  kFlowLabel = 9,
  kTclass = 10,
  kHopLimit = 11,
  kRate = 12,
  kSl = 13,
};

/// Status of SIDR_REP. Source: IBA vol 1 §12.11.2.
enum class SidrStatus : std::uint8_t {
  kValid = 0,
  kServiceNotSupported = 1,
  kRejected = 2,
  kNoQp = 3,
  kRedirect = 4,  ///< Additional information: ClassPortInfo.
  kClassVersion = 5,
};
[[nodiscard]] std::string_view to_string(SidrStatus status) noexcept;

/// Transport service type in a REQ. IPoIB does not use XRC and RD.
enum class CmTransport : std::uint8_t { kRc = 0, kUc = 1, kRd = 2, kExtended = 3 };

/// Result of a REP for the alternate path of its REQ.
enum class Failover : std::uint8_t { kAccepted = 0, kNotSupported = 1, kRejected = 2 };

}  // namespace ipoib::wire
