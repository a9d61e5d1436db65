// SPDX-License-Identifier: BSD-3-Clause
// Headers of an InfiniBand packet: LRH, GRH, BTH, DETH. Layouts: IBA vol 1 ch. 7-9.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"
#include "lib/wire/gid.h"

namespace ipoib::wire {

enum class Lnh : std::uint8_t { kRaw = 0, kIpRaw = 1, kLocal = 2, kGlobal = 3 };

/// Local route header: VL:4 LVer:4 | SL:4 0:2 LNH:2 | DLID | 0:5 PktLen:11 | SLID.
struct Lrh {
  std::uint8_t vl_lver;
  std::uint8_t sl_lnh;
  Be16 dlid;
  Be16 resv_pktlen;
  Be16 slid;

  [[nodiscard]] constexpr std::uint8_t vl() const noexcept { return vl_lver >> 4; }
  [[nodiscard]] constexpr std::uint8_t lver() const noexcept { return vl_lver & 0x0f; }
  [[nodiscard]] constexpr std::uint8_t sl() const noexcept { return sl_lnh >> 4; }
  [[nodiscard]] constexpr Lnh lnh() const noexcept { return static_cast<Lnh>(sl_lnh & 3); }
  /// Octets from the LRH through the ICRC.
  [[nodiscard]] constexpr std::size_t packet_len() const noexcept {
    return std::size_t{resv_pktlen.host() & 0x07ffU} * 4;
  }
};
static_assert(WireRecord<Lrh> && sizeof(Lrh) == 8);

/// Global route header.
struct Grh {
  Be32 version_tclass_flow;  ///< IPVer:4 TClass:8 FlowLabel:20.
  Be16 pay_len;              ///< Octets after the GRH through the ICRC.
  std::uint8_t next_header;
  std::uint8_t hop_limit;
  Gid sgid;
  Gid dgid;

  static constexpr std::uint8_t kNextHeaderIba = 0x1b;

  [[nodiscard]] constexpr std::uint8_t ip_version() const noexcept {
    return static_cast<std::uint8_t>(version_tclass_flow.host() >> 28);
  }
  [[nodiscard]] constexpr std::uint8_t tclass() const noexcept {
    return static_cast<std::uint8_t>(version_tclass_flow.host() >> 20);
  }
  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept {
    return version_tclass_flow.host() & 0xf'ffff;
  }
  static constexpr Be32 pack(std::uint8_t tclass, std::uint32_t flow_label) noexcept {
    return Be32{6U << 28 | std::uint32_t{tclass} << 20 | (flow_label & 0xf'ffff)};
  }
};
static_assert(WireRecord<Grh> && sizeof(Grh) == 40 && offsetof(Grh, sgid) == 8);

/// Opcodes that this program sends or receives (transport class and operation).
enum class Opcode : std::uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcAck = 0x11,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
};

/// Base transport header: opcode | S:1 M:1 Pad:2 TVer:4 | P_Key | resv:8 DestQP:24 | A:1 0:7
/// PSN:24.
struct Bth {
  std::uint8_t opcode;
  std::uint8_t flags;
  Be16 pkey;
  std::uint8_t resv8a;  ///< FECN, BECN, reserved; outside the ICRC.
  Be24 dest_qp;
  std::uint8_t ack_resv;
  Be24 psn;

  static constexpr std::uint8_t kSolicited = 0x80;
  static constexpr std::uint8_t kMigReq = 0x40;
  static constexpr std::uint8_t kAckReq = 0x80;

  [[nodiscard]] constexpr std::uint8_t pad() const noexcept { return (flags >> 4) & 3; }
  [[nodiscard]] constexpr std::uint8_t tver() const noexcept { return flags & 0x0f; }
};
static_assert(WireRecord<Bth> && sizeof(Bth) == 12 && offsetof(Bth, psn) == 9);

/// Datagram extended transport header.
struct Deth {
  Be32 qkey;
  std::uint8_t resv;
  Be24 src_qp;
};
static_assert(WireRecord<Deth> && sizeof(Deth) == 8);

/// True for a Q_Key that only privileged software sets: where a work request has one, an HCA sends
/// the Q_Key of the queue pair in its place. Source: iba-wire.md §1.10.
[[nodiscard]] constexpr bool is_controlled_qkey(std::uint32_t qkey) noexcept {
  return (qkey & 0x8000'0000U) != 0;
}

inline constexpr std::size_t kIcrcLen = 4;
inline constexpr std::size_t kVcrcLen = 2;
/// LRH + BTH + DETH, the headers before the payload of a local UD packet.
inline constexpr std::size_t kUdLocalHeaderLen = sizeof(Lrh) + sizeof(Bth) + sizeof(Deth);
inline constexpr std::size_t kUdGlobalHeaderLen = kUdLocalHeaderLen + sizeof(Grh);

/// MTU codes 1-5; rates as SA codes. Source: iba-wire.md §2.
enum class Mtu : std::uint8_t { k256 = 1, k512, k1024, k2048, k4096 };

/// MTU of a code in octets; 0 for a code that does not exist.
[[nodiscard]] constexpr unsigned mtu_octets(std::uint8_t code) noexcept {
  return code >= 1 && code <= 5 ? 128U << code : 0;
}
/// Code of an exact MTU in octets; 0 if there is none.
[[nodiscard]] constexpr std::uint8_t mtu_code(unsigned octets) noexcept {
  for (std::uint8_t code = 1; code <= 5; ++code)
    if (mtu_octets(code) == octets) return code;
  return 0;
}

/// Rate of a code in Mb/s; 0 for a code that does not exist. Codes are not ordered by rate.
[[nodiscard]] constexpr unsigned rate_mbps(std::uint8_t code) noexcept {
  switch (code) {
    case 2: return 2'500;
    case 3: return 10'000;
    case 4: return 30'000;
    case 5: return 5'000;
    case 6: return 20'000;
    case 7: return 40'000;
    case 8: return 60'000;
    case 9: return 80'000;
    case 10: return 120'000;
    case 11: return 14'000;
    case 12: return 56'000;
    case 13: return 112'000;
    case 14: return 168'000;
    case 15: return 25'000;
    case 16: return 100'000;
    case 17: return 200'000;
    case 18: return 300'000;
    case 19: return 28'000;
    case 20: return 50'000;
    case 21: return 400'000;
    case 22: return 600'000;
    case 23: return 800'000;
    case 24: return 1'200'000;
    default: return 0;
  }
}
/// Code of a rate in whole Gb/s (10, 56, 100 …; 2 means 2.5); 0 if there is none.
[[nodiscard]] constexpr std::uint8_t rate_code(unsigned gbps) noexcept {
  for (std::uint8_t code = 2; code <= 24; ++code)
    if (rate_mbps(code) / 1000 == gbps) return code;
  return 0;
}

}  // namespace ipoib::wire
