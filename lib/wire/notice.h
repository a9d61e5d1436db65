// SPDX-License-Identifier: BSD-3-Clause
// Event subscription: the subscription of a port (InformInfo) and the reported event (Notice).
// Source: IBA vol 1 §13.4.8.2, §13.4.8.3, §15.2.5.12; iba-wire.md §3.5, §3.6.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lib/wire/be.h"
#include "lib/wire/gid.h"

namespace ipoib::wire {

/// Generic traps of the subnet manager whose data is a GID.
enum class Trap : std::uint16_t {
  kGidInService = 64,
  kGidOutOfService = 65,
  kGroupCreated = 66,
  kGroupDeleted = 67,
};
inline constexpr std::uint16_t kAllTraps = 0xffff;
inline constexpr std::uint16_t kAllLids = 0xffff;  ///< Value of LIDRangeBegin.
inline constexpr std::uint16_t kAnyNoticeType = 0xffff;
inline constexpr std::uint32_t kAnyProducer = 0xff'ffff;
inline constexpr std::uint32_t kProducerClassManager = 4;
inline constexpr std::uint8_t kNoticeTypeSubnet = 3;

enum class InformError : std::uint8_t {
  kNone,
  kLength,     ///< Fewer than 36 octets.
  kGeneric,    ///< IsGeneric neither 0 nor 1.
  kSubscribe,  ///< Subscribe neither 0 nor 1.
  kGid,        ///< A multicast GID: no port has it.
  kLidRange,   ///< The range ends before it begins.
  kCount
};
[[nodiscard]] std::string_view inform_error_name(InformError error) noexcept;

/// Subscription: selects notices by kind and port, and names the queue pair that gets the reports.
struct InformInfo {
  Gid gid;               ///< GID of the port that notices are about; zero: the LID range applies.
  Be16 lid_range_begin;  ///< kAllLids: all.
  Be16 lid_range_end;    ///< 0: only the first.
  Be16 reserved;
  std::uint8_t is_generic;
  std::uint8_t subscribe;  ///< 1 subscribe, 0 unsubscribe.
  Be16 type;               ///< kAnyNoticeType: any.
  Be16 trap_number;        ///< kAllTraps: any; a device ID if not generic.
  Be24 qpn;                ///< Destination of reports.
  std::uint8_t resp_time;  ///< Reserved:3, RespTimeValue:5.
  std::uint8_t reserved2;
  Be24 producer_type;  ///< kAnyProducer: any; a vendor ID if not generic.

  [[nodiscard]] constexpr std::uint8_t resp_time_value() const noexcept { return resp_time & 0x1f; }
};
static_assert(WireRecord<InformInfo> && sizeof(InformInfo) == 36 &&
              offsetof(InformInfo, is_generic) == 22 && offsetof(InformInfo, qpn) == 28 &&
              offsetof(InformInfo, producer_type) == 33);

/// Copies an InformInfo out of an attribute. `out` is complete unless the length is wrong.
[[nodiscard]] InformError parse_inform_info(std::span<const std::byte> attribute,
                                            InformInfo& out) noexcept;

/// Record of a subscription at the SA.
struct InformInfoRecord {
  Gid subscriber_gid;
  Be16 number;  ///< "Enum": distinguishes the subscriptions of a port.
  std::array<std::uint8_t, 6> reserved;
  InformInfo inform;
  std::array<std::uint8_t, 4> padding;  ///< Records of a table are 64 octets apart.

  static constexpr std::uint64_t kSubscriberGid = 1U << 0, kNumber = 1U << 1;
};
static_assert(WireRecord<InformInfoRecord> && sizeof(InformInfoRecord) == 64 &&
              offsetof(InformInfoRecord, inform) == 24);

enum class NoticeError : std::uint8_t {
  kNone,
  kLength,    ///< Fewer than 80 octets.
  kVendor,    ///< Not generic: trap number and producer have another meaning.
  kType,      ///< Not fatal to informational (0 to 4).
  kProducer,  ///< Producer type 0.
  kGid,       ///< Data of traps 64 to 67: not a port's GID, or not a group's.
  kCount
};
[[nodiscard]] std::string_view notice_error_name(NoticeError error) noexcept;

/// Event. Reserved octets are not checked, because real subnet managers leave garbage in them.
struct Notice {
  std::uint8_t generic_type;  ///< IsGeneric:1, Type:7.
  Be24 producer_type;
  Be16 trap_number;
  Be16 issuer_lid;
  Be16 toggle_count;  ///< NoticeToggle:1, NoticeCount:15.
  std::array<std::byte, 6> data_reserved;
  Gid data_gid;  ///< Traps 64 to 67: the port's GID or the MGID.
  std::array<std::byte, 32> data_rest;
  Gid issuer_gid;

  [[nodiscard]] constexpr bool is_generic() const noexcept { return (generic_type & 0x80) != 0; }
  [[nodiscard]] constexpr std::uint8_t type() const noexcept { return generic_type & 0x7f; }
  [[nodiscard]] constexpr bool is(Trap trap) const noexcept {
    return is_generic() && trap_number.host() == static_cast<std::uint16_t>(trap);
  }
  /// The GID that traps 64 to 67 are about; none for other traps.
  [[nodiscard]] constexpr std::optional<Gid> gid() const noexcept {
    const bool about_gid = is(Trap::kGidInService) || is(Trap::kGidOutOfService) ||
                           is(Trap::kGroupCreated) || is(Trap::kGroupDeleted);
    return about_gid ? std::optional{data_gid} : std::nullopt;
  }
};
static_assert(WireRecord<Notice> && sizeof(Notice) == 80 && offsetof(Notice, trap_number) == 4 &&
              offsetof(Notice, data_gid) == 16 && offsetof(Notice, issuer_gid) == 64);

/// Builds a notice of the subnet manager about a GID; all reserved fields are zero.
[[nodiscard]] Notice make_notice(Trap trap, const Gid& gid, std::uint16_t issuer_lid,
                                 const Gid& issuer_gid) noexcept;

/// Copies a Notice out of an attribute. `out` is complete unless the length is wrong.
[[nodiscard]] NoticeError parse_notice(std::span<const std::byte> attribute, Notice& out) noexcept;

}  // namespace ipoib::wire
