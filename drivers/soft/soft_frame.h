// SPDX-License-Identifier: BSD-3-Clause
// The soft wire format: an IBA packet, LRH through ICRC, in an Ethernet frame of EtherType 0x88B5.
// It has no VCRC: the Ethernet FCS takes its place. LRH.PktLen gives the end of the packet; the
// rest of the frame is Ethernet padding.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/wire/be.h"
#include "lib/wire/iba.h"

namespace ipoib::soft {

struct EthHdr {
  std::array<std::byte, 6> dst;
  std::array<std::byte, 6> src;
  wire::Be16 ether_type;
};
static_assert(wire::WireRecord<EthHdr> && sizeof(EthHdr) == 14);

/// IEEE 802 local experimental EtherType 1.
inline constexpr std::uint16_t kEtherTypeIba = 0x88b5;
inline constexpr std::size_t kMinEthPayload = 46;
inline constexpr std::size_t kMinEthFrame = sizeof(EthHdr) + kMinEthPayload;

/// Excess of the ethdev's MTU over the IB MTU: LRH, GRH, BTH, DETH, ICRC, and 8 spare.
inline constexpr unsigned kEthMtuOverhead = 80;

/// A masked 64-bit comparison of eight octets.
class Pattern {
 public:
  /// Takes both as numbers whose most significant octet comes first in memory.
  constexpr Pattern(std::uint64_t mask, std::uint64_t value) noexcept
      : mask_{std::bit_cast<std::uint64_t>(wire::Be64{mask})},
        value_{std::bit_cast<std::uint64_t>(wire::Be64{value & mask})} {}
  /// Matches nothing.
  constexpr Pattern() noexcept : mask_{0}, value_{1} {}

  [[nodiscard]] bool matches(const void* octets) const noexcept {
    std::uint64_t word;
    std::memcpy(&word, octets, sizeof(word));
    return (word & mask_) == value_;
  }
  /// True if it matches nothing.
  [[nodiscard]] constexpr bool is_empty() const noexcept { return (value_ & ~mask_) != 0; }
  /// Both in memory order.
  [[nodiscard]] constexpr std::uint64_t mask() const noexcept { return mask_; }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t mask_;  ///< Both in memory order, as they are compared.
  std::uint64_t value_;
};

/// Pattern for a packet without GRH to a port. It covers the eight octets from the EtherType on and
/// compares EtherType, LVer, LNH, and the DLID except its LMC bits.
[[nodiscard]] constexpr Pattern local_pattern(std::uint16_t lid, std::uint8_t lmc) noexcept {
  const std::uint64_t dlid_mask = 0xffffU << lmc & 0xffffU;
  return {0xffff'0f03'0000'0000 | dlid_mask << 16,
          std::uint64_t{kEtherTypeIba} << 48 | static_cast<std::uint64_t>(wire::Lnh::kLocal) << 32 |
              std::uint64_t{lid} << 16};
}

/// BTH and DETH of a UD packet as five words, as the datapath reads and writes them: a 24-bit field
/// is the low part of its word.
struct UdWords {
  wire::Be32 op_flags_pkey;
  wire::Be32 resv_dest_qp;
  wire::Be32 ack_psn;
  wire::Be32 qkey;
  wire::Be32 resv_src_qp;

  [[nodiscard]] std::uint8_t opcode() const noexcept {
    return static_cast<std::uint8_t>(op_flags_pkey.host() >> 24);
  }
  [[nodiscard]] std::uint8_t pad() const noexcept {
    return static_cast<std::uint8_t>((op_flags_pkey.host() >> 20) & 3);
  }
  [[nodiscard]] std::uint8_t tver() const noexcept {
    return static_cast<std::uint8_t>((op_flags_pkey.host() >> 16) & 0xf);
  }
  [[nodiscard]] std::uint16_t pkey() const noexcept {
    return static_cast<std::uint16_t>(op_flags_pkey.host());
  }
  [[nodiscard]] std::uint32_t dest_qp() const noexcept { return resv_dest_qp.host() & 0xff'ffff; }
  [[nodiscard]] std::uint32_t src_qp() const noexcept { return resv_src_qp.host() & 0xff'ffff; }

  /// First word of a UD SEND. `flags`: Bth::kMigReq or 0.
  [[nodiscard]] static constexpr wire::Be32 send_only(std::uint8_t flags, unsigned pad,
                                                      std::uint16_t pkey) noexcept {
    constexpr auto kOpcode = static_cast<std::uint32_t>(wire::Opcode::kUdSendOnly);
    return wire::Be32{kOpcode << 24 | (std::uint32_t{flags} | pad << 4) << 16 | pkey};
  }
};
static_assert(wire::WireRecord<UdWords> &&
              sizeof(UdWords) == sizeof(wire::Bth) + sizeof(wire::Deth));

/// Pattern for the first two words of a UD SEND to a queue pair with a matching P_Key. It compares
/// opcode, TVer, P_Key and destination. A full member accepts limited members too; P_Key 0 matches
/// none.
[[nodiscard]] constexpr Pattern send_pattern(std::uint16_t pkey, std::uint32_t qpn) noexcept {
  if (pkey == 0) return {};
  const bool full = (pkey & wire::kFullMemberBit) != 0;
  const std::uint64_t pkey_mask = full ? 0x7fff : 0xffff;
  return {(0xff0f'0000 | pkey_mask) << 32 | 0xff'ffff,
          std::uint64_t{UdWords::send_only(0, 0, pkey | wire::kFullMemberBit).host()} << 32 | qpn};
}

/// Octets of a frame that an address handle determines: Ethernet + LRH, and Ethernet + LRH + GRH.
inline constexpr std::size_t kLocalHeadLen = sizeof(EthHdr) + sizeof(wire::Lrh);
inline constexpr std::size_t kGlobalHeadLen = kLocalHeadLen + sizeof(wire::Grh);

/// Ethernet address of a LID: unicast, multicast or, for the permissive LID, broadcast.
[[nodiscard]] constexpr std::array<std::byte, 6> mac_of_dlid(std::uint16_t lid) noexcept {
  constexpr std::byte kFf{0xff};
  if (lid == 0xffff) return {kFf, kFf, kFf, kFf, kFf, kFf};
  const std::byte first{wire::is_multicast_lid(lid) ? std::uint8_t{0x03} : std::uint8_t{0x02}};
  return {first,
          std::byte{0x49},
          std::byte{0x42},
          std::byte{0},
          static_cast<std::byte>(lid >> 8),
          static_cast<std::byte>(lid)};
}

}  // namespace ipoib::soft
