// SPDX-License-Identifier: BSD-3-Clause
// Management datagrams: the common header. Source: IBA vol 1 §13.4; iba-wire.md §3.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"

namespace ipoib::wire {

inline constexpr std::size_t kMadLen = 256;
inline constexpr std::uint8_t kMadBaseVersion = 1;

enum class MgmtClass : std::uint8_t {
  kSubnLid = 0x01,
  kSubnAdm = 0x03,
  kComMgt = 0x07,
  kSubnDr = 0x81
};

enum class Method : std::uint8_t {
  kGet = 0x01,
  kSet = 0x02,
  kSend = 0x03,
  kTrap = 0x05,
  kReport = 0x06,
  kTrapRepress = 0x07,
  kGetTable = 0x12,
  kDelete = 0x15,
  kGetResp = 0x81,
  kReportResp = 0x86,
  kGetTableResp = 0x92,
  kDeleteResp = 0x95,
};
inline constexpr std::uint8_t kMethodResponse = 0x80;

/// Common header of every MAD.
struct MadHdr {
  std::uint8_t base_version;  ///< 1.
  std::uint8_t mgmt_class;
  std::uint8_t class_version;  ///< SA 2, CM 2.
  std::uint8_t method;
  Be16 status;
  Be16 class_specific;
  Be64 tid;
  Be16 attr_id;
  Be16 reserved;
  Be32 attr_mod;
};
static_assert(WireRecord<MadHdr> && sizeof(MadHdr) == 24);

}  // namespace ipoib::wire
