// SPDX-License-Identifier: BSD-3-Clause
// Subnet administration: the header of its management datagrams, and the records that this program
// requests and serves. Source: IBA vol 1 ch. 15; iba-wire.md §3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/wire/be.h"
#include "lib/wire/gid.h"
#include "lib/wire/mad.h"

namespace ipoib::wire {

inline constexpr std::uint8_t kSaClassVersion = 2;

enum class Attr : std::uint16_t {
  kClassPortInfo = 0x01,
  kNotice = 0x02,
  kInformInfo = 0x03,
  kNodeRecord = 0x11,
  kPortInfoRecord = 0x12,
  kServiceRecord = 0x31,
  kPathRecord = 0x35,
  kMcMemberRecord = 0x38,
  kInformInfoRecord = 0xf3,
};

/// MAD status: the low octet is generic, the high octet belongs to the class (here: SA).
enum class MadStatus : std::uint16_t {
  kOk = 0,
  kBusy = 0x0001,
  kRedirect = 0x0002,
  kBadVersion = 0x0004,
  kMethodNotSupported = 0x0008,
  kMethodAttributeNotSupported = 0x000c,
  kInvalidField = 0x001c,
  kSaNoResources = 0x0100,
  kSaRequestInvalid = 0x0200,
  kSaNoRecords = 0x0300,
  kSaTooManyRecords = 0x0400,
  kSaInvalidGid = 0x0500,
  kSaInsufficientComponents = 0x0600,
  kSaDenied = 0x0700,
  kSaPrioritySuggested = 0x0800,
};
/// "no records", "insufficient components" …; "unknown status" for a value not listed.
[[nodiscard]] std::string_view status_name(std::uint16_t status) noexcept;

/// Header of an SA MAD: common, RMPP, SA.
struct SaHdr {
  MadHdr mad;
  std::uint8_t rmpp_version;
  std::uint8_t rmpp_type;
  std::uint8_t rmpp_rtime_flags;  ///< RRespTime:5, flags:3.
  std::uint8_t rmpp_status;
  Be32 rmpp_segment;
  Be32 rmpp_len;
  Be64 sm_key;
  Be16 attr_offset;  ///< Units of 8 octets between records of a table.
  Be16 reserved;
  Be64 comp_mask;
};
static_assert(WireRecord<SaHdr> && sizeof(SaHdr) == 56 && offsetof(SaHdr, sm_key) == 36 &&
              offsetof(SaHdr, comp_mask) == 48);

inline constexpr std::size_t kSaDataLen = kMadLen - sizeof(SaHdr);
static_assert(kSaDataLen == 200);

/// Complete SA MAD.
struct SaMad {
  SaHdr hdr;
  std::array<std::byte, kSaDataLen> data;
};
static_assert(WireRecord<SaMad> && sizeof(SaMad) == kMadLen);

enum class MadError : std::uint8_t {
  kNone,
  kLength,        ///< Not 256 octets.
  kBaseVersion,   ///< Not 1.
  kClass,         ///< Not subnet administration.
  kClassVersion,  ///< Not 2.
  kCount
};
/// "length", "base_version" …; "none" for kNone.
[[nodiscard]] std::string_view mad_error_name(MadError error) noexcept;

/// Copies an SA MAD out of a UD payload. Checks only the two versions and the class of its header.
/// `out` is complete unless the length is wrong, so that a bad version can be answered.
[[nodiscard]] MadError parse_sa_mad(std::span<const std::byte> payload, SaMad& out) noexcept;

/// Selector of MTU, rate and lifetime components (the two bits above the value).
enum class Selector : std::uint8_t { kGreater = 0, kLess = 1, kExactly = 2, kBest = 3 };

[[nodiscard]] constexpr std::uint8_t with_selector(Selector s, std::uint8_t value) noexcept {
  return static_cast<std::uint8_t>(static_cast<unsigned>(s) << 6 | (value & 0x3fU));
}
[[nodiscard]] constexpr Selector selector_of(std::uint8_t v) noexcept {
  return static_cast<Selector>(v >> 6);
}
[[nodiscard]] constexpr std::uint8_t value_of(std::uint8_t v) noexcept {
  return v & 0x3f;
}

/// Bits of MCMemberRecord.JoinState.
namespace join_state {
inline constexpr std::uint8_t kFullMember = 1;
inline constexpr std::uint8_t kNonMember = 2;
inline constexpr std::uint8_t kSendOnlyNonMember = 4;
inline constexpr std::uint8_t kSendOnlyFullMember = 8;
}  // namespace join_state

/// MCMemberRecord. Source: IBA vol 1 §15.2.5.17; iba-wire.md §3.3.
struct McMemberRecord {
  Gid mgid;
  Gid port_gid;
  Be32 qkey;
  Be16 mlid;
  std::uint8_t mtu;  ///< Selector:2, code:6; rate and lifetime have the same layout.
  std::uint8_t tclass;
  Be16 pkey;
  std::uint8_t rate;
  std::uint8_t lifetime;
  Be32 sl_flow_hop;         ///< SL:4, FlowLabel:20, HopLimit:8.
  std::uint8_t scope_join;  ///< Scope:4, JoinState:4.
  std::uint8_t proxy_resv;  ///< ProxyJoin:1.
  std::array<std::uint8_t, 2> reserved;
  std::array<std::uint8_t, 4> padding;  ///< Records of a table are 56 octets apart.

  [[nodiscard]] constexpr std::uint8_t sl() const noexcept {
    return static_cast<std::uint8_t>(sl_flow_hop.host() >> 28);
  }
  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept {
    return (sl_flow_hop.host() >> 8) & 0xf'ffff;
  }
  [[nodiscard]] constexpr std::uint8_t hop_limit() const noexcept {
    return static_cast<std::uint8_t>(sl_flow_hop.host());
  }
  static constexpr Be32 pack(std::uint8_t sl, std::uint32_t flow, std::uint8_t hop) noexcept {
    return Be32{std::uint32_t{sl} << 28 | (flow & 0xf'ffffU) << 8 | hop};
  }
  [[nodiscard]] constexpr std::uint8_t scope() const noexcept { return scope_join >> 4; }
  [[nodiscard]] constexpr std::uint8_t join() const noexcept { return scope_join & 0x0f; }

  // Component mask bits.
  static constexpr std::uint64_t kMgid = 1U << 0, kPortGid = 1U << 1, kQkey = 1U << 2,
                                 kMlid = 1U << 3, kMtuSel = 1U << 4, kMtu = 1U << 5,
                                 kTclass = 1U << 6, kPkey = 1U << 7, kRateSel = 1U << 8,
                                 kRate = 1U << 9, kLifeSel = 1U << 10, kLife = 1U << 11,
                                 kSl = 1U << 12, kFlow = 1U << 13, kHop = 1U << 14,
                                 kScope = 1U << 15, kJoin = 1U << 16, kProxy = 1U << 17;
  static constexpr std::uint64_t kJoinMask = kMgid | kPortGid | kPkey | kJoin;
  static constexpr std::uint64_t kCreateMask =
      kJoinMask | kQkey | kMtuSel | kMtu | kTclass | kRateSel | kRate | kSl | kFlow | kHop;
};
static_assert(WireRecord<McMemberRecord> && sizeof(McMemberRecord) == 56 &&
              offsetof(McMemberRecord, qkey) == 32 && offsetof(McMemberRecord, scope_join) == 48);
static_assert(McMemberRecord::kJoinMask == 0x10083 && McMemberRecord::kCreateMask == 0x173f7);

/// PathRecord. Source: IBA vol 1 §15.2.5.16; iba-wire.md §3.4.
struct PathRecord {
  Be64 service_id;
  Gid dgid;
  Gid sgid;
  Be16 dlid;
  Be16 slid;
  Be32 raw_flow_hop;  ///< Raw:1, reserved:3, FlowLabel:20, HopLimit:8.
  std::uint8_t tclass;
  std::uint8_t reversible_numb;  ///< Reversible:1, NumbPath:7.
  Be16 pkey;
  Be16 qos_sl;  ///< QoSClass:12, SL:4.
  std::uint8_t mtu;
  std::uint8_t rate;
  std::uint8_t lifetime;
  std::uint8_t preference;
  std::array<std::uint8_t, 6> reserved;

  [[nodiscard]] constexpr std::uint8_t sl() const noexcept { return qos_sl.host() & 0x0f; }
  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept {
    return (raw_flow_hop.host() >> 8) & 0xf'ffff;
  }
  [[nodiscard]] constexpr std::uint8_t hop_limit() const noexcept {
    return static_cast<std::uint8_t>(raw_flow_hop.host());
  }

  static constexpr std::uint64_t kServiceId = 3, kDgid = 1U << 2, kSgid = 1U << 3, kDlid = 1U << 4,
                                 kSlid = 1U << 5, kRaw = 1U << 6, kFlow = 1U << 8, kHop = 1U << 9,
                                 kTclass = 1U << 10, kReversible = 1U << 11, kNumbPath = 1U << 12,
                                 kPkey = 1U << 13, kQosClass = 1U << 14, kSl = 1U << 15,
                                 kMtuSel = 1U << 16, kMtu = 1U << 17, kRateSel = 1U << 18,
                                 kRate = 1U << 19, kLifeSel = 1U << 20, kLife = 1U << 21;
  static constexpr std::uint64_t kIpoibMask = kDgid | kSgid | kTclass | kNumbPath | kPkey;
};
static_assert(WireRecord<PathRecord> && sizeof(PathRecord) == 64 &&
              offsetof(PathRecord, dlid) == 40 && offsetof(PathRecord, mtu) == 54);
static_assert(PathRecord::kIpoibMask == 0x340c);

/// ClassPortInfo. Source: IBA vol 1 §13.4.8.1; iba-wire.md §3.7.
struct ClassPortInfo {
  std::uint8_t base_version;
  std::uint8_t class_version;
  Be16 capability_mask;
  Be32 capability2_resp_time;  ///< CapabilityMask2:27, RespTimeValue:5.
  Gid redirect_gid;
  Be32 redirect_tc_sl_fl;
  Be16 redirect_lid;
  Be16 redirect_pkey;
  Be32 redirect_qp;
  Be32 redirect_qkey;
  Gid trap_gid;
  Be32 trap_tc_sl_fl;
  Be16 trap_lid;
  Be16 trap_pkey;
  Be32 trap_hl_qp;
  Be32 trap_qkey;
};
static_assert(WireRecord<ClassPortInfo> && sizeof(ClassPortInfo) == 72);

}  // namespace ipoib::wire
