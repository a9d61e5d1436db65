// SPDX-License-Identifier: BSD-3-Clause
// Whole InfiniBand packets: checks the headers of a received packet, and builds a packet to send.
// No function allocates. Parsing is inline because the data plane does it per packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "lib/base/contract.h"
#include "lib/wire/be.h"
#include "lib/wire/gid.h"
#include "lib/wire/iba.h"
#include "lib/wire/icrc/icrc.h"

namespace ipoib::wire {

/// Errors of a packet, in the order of the checks.
enum class FrameError : std::uint8_t {
  kNone,
  kRunt,              ///< The received octets or PktLen end before the headers do.
  kLinkVersion,       ///< LVer is not 0.
  kNotIba,            ///< LNH is a raw one: no transport header follows.
  kPacketLength,      ///< PktLen contradicts the octets received.
  kGrhVersion,        ///< IPVer is not 6.
  kGrhNextHeader,     ///< NxtHdr is not IBA transport.
  kGrhLength,         ///< PayLen contradicts PktLen.
  kTransportVersion,  ///< TVer is not 0.
  kOpcode,            ///< Not UD SEND only.
  kPad,               ///< The pad is longer than the octets behind the headers.
  kCount
};
/// "runt", "link_version" …; "none" for kNone.
[[nodiscard]] std::string_view frame_error_name(FrameError error) noexcept;

/// Ethernet pads shorter payloads. PktLen may be less than the octets received only in such frames.
inline constexpr std::size_t kEthernetMinPayload = 46;

/// A packet of any transport whose headers up to the BTH are valid. Offsets count from the LRH.
struct IbaFrame {
  Lrh lrh{};
  Bth bth{};
  bool global = false;           ///< A GRH follows the LRH: grh_of().
  std::uint16_t packet_len = 0;  ///< LRH through ICRC, a multiple of 4.
  std::uint16_t body = 0;        ///< First octet behind the BTH.
  std::uint16_t body_len = 0;    ///< Octets from `body` to the pad: extended headers and payload.
};

/// A UD SEND whose headers are valid. LIDs, keys, QPNs and the ICRC are not checked.
struct UdFrame {
  IbaFrame iba;
  Deth deth{};
  std::uint16_t payload = 0;
  std::uint16_t payload_len = 0;
};

/// Returns the GRH of a packet that has one.
/// Shape: packet.size() >= 48.
[[nodiscard]] inline Grh grh_of(std::span<const std::byte> packet) noexcept {
  expects(packet.size() >= sizeof(Lrh) + sizeof(Grh), "packet.size() >= 48");
  Grh grh;
  std::memcpy(&grh, packet.data() + sizeof(Lrh), sizeof(grh));
  return grh;
}

/// Checks LRH, GRH and BTH of the octets received, from the LRH on, without VCRC.
/// `out` is complete on kNone only. Source: iba-wire.md §1.9, steps 1, 3 and 4.
[[nodiscard]] inline FrameError parse_iba(std::span<const std::byte> octets,
                                          IbaFrame& out) noexcept {
  if (octets.size() < sizeof(Lrh)) return FrameError::kRunt;
  std::memcpy(&out.lrh, octets.data(), sizeof(Lrh));
  if (out.lrh.lver() != 0) return FrameError::kLinkVersion;
  out.global = out.lrh.lnh() == Lnh::kGlobal;
  if (!out.global && out.lrh.lnh() != Lnh::kLocal) return FrameError::kNotIba;

  const std::size_t len = out.lrh.packet_len();
  if (len > octets.size()) return FrameError::kPacketLength;
  if (len < octets.size() && octets.size() > kEthernetMinPayload) return FrameError::kPacketLength;
  const std::size_t bth = sizeof(Lrh) + (out.global ? sizeof(Grh) : 0);
  const std::size_t body = bth + sizeof(Bth);
  if (len < body + kIcrcLen) return FrameError::kRunt;

  if (out.global) {
    const Grh grh = grh_of(octets);
    if (grh.ip_version() != 6) return FrameError::kGrhVersion;
    if (grh.next_header != Grh::kNextHeaderIba) return FrameError::kGrhNextHeader;
    if (grh.pay_len.host() != len - bth) return FrameError::kGrhLength;
  }
  std::memcpy(&out.bth, octets.data() + bth, sizeof(Bth));
  if (out.bth.tver() != 0) return FrameError::kTransportVersion;
  const std::size_t behind = len - body - kIcrcLen;
  if (out.bth.pad() > behind) return FrameError::kPad;

  out.packet_len = static_cast<std::uint16_t>(len);
  out.body = static_cast<std::uint16_t>(body);
  out.body_len = static_cast<std::uint16_t>(behind - out.bth.pad());
  return FrameError::kNone;
}

/// parse_iba(), and the packet must be a UD SEND only, without immediate data.
[[nodiscard]] inline FrameError parse_ud(std::span<const std::byte> octets, UdFrame& out) noexcept {
  const FrameError error = parse_iba(octets, out.iba);
  if (error != FrameError::kNone) return error;
  if (out.iba.bth.opcode != static_cast<std::uint8_t>(Opcode::kUdSendOnly))
    return FrameError::kOpcode;
  const std::size_t behind = std::size_t{out.iba.body_len} + out.iba.bth.pad();
  if (behind < sizeof(Deth)) return FrameError::kRunt;
  if (out.iba.body_len < sizeof(Deth)) return FrameError::kPad;
  std::memcpy(&out.deth, octets.data() + out.iba.body, sizeof(Deth));
  out.payload = static_cast<std::uint16_t>(out.iba.body + sizeof(Deth));
  out.payload_len = static_cast<std::uint16_t>(out.iba.body_len - sizeof(Deth));
  return FrameError::kNone;
}

/// True if the last four octets of the packet, LRH through ICRC, are its ICRC.
/// Shape: packet.size() is IbaFrame::packet_len of parse_iba().
[[nodiscard]] inline bool icrc_is_good(std::span<const std::byte> packet) noexcept {
  expects(packet.size() >= sizeof(Lrh) + sizeof(Bth) + kIcrcLen,
          "the packet has its headers and ICRC");
  std::uint32_t wire;
  std::memcpy(&wire, packet.data() + packet.size() - kIcrcLen, sizeof(wire));
  return wire == icrc(packet.first(packet.size() - kIcrcLen));
}

/// Writes the ICRC into the last four octets of the packet, LRH through ICRC.
inline void put_icrc(std::span<std::byte> packet) noexcept {
  const std::uint32_t value = icrc(packet.first(packet.size() - kIcrcLen));
  std::memcpy(packet.data() + packet.size() - kIcrcLen, &value, sizeof(value));
}

struct GrhSpec {
  Gid sgid;
  Gid dgid;
  std::uint8_t tclass = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
};

/// All fields of a UD packet except the payload.
struct UdSpec {
  std::uint8_t vl = 0;
  std::uint8_t sl = 0;
  std::uint16_t dlid = 0;
  std::uint16_t slid = 0;
  std::optional<GrhSpec> grh = std::nullopt;
  std::uint16_t pkey = kDefaultPkey;
  std::uint32_t dest_qp = 0;
  std::uint32_t src_qp = 0;
  std::uint32_t qkey = 0;
  std::uint32_t psn = 0;
  bool solicited = false;
  bool mig_req = true;  ///< False on QP1. Source: iba-wire.md §1.3.
};

inline constexpr std::size_t kMaxPayload = 4096;
/// Octets from LRH through ICRC of the longest UD packet.
inline constexpr std::size_t kMaxUdPacketLen = kUdGlobalHeaderLen + kMaxPayload + kIcrcLen;

/// Octets from LRH through ICRC.
[[nodiscard]] constexpr std::size_t ud_packet_len(bool global, std::size_t payload_len) noexcept {
  const std::size_t padded = (payload_len + 3) & ~std::size_t{3};
  return (global ? kUdGlobalHeaderLen : kUdLocalHeaderLen) + padded + kIcrcLen;
}

/// Writes the packet, LRH through ICRC, at the start of `out`. `payload` must not overlap the
/// packet in `out`, except that it may already be at its own place there.
/// Returns the packet's length. Returns 0 and writes nothing if the packet does not fit or the
/// payload is longer than kMaxPayload.
std::size_t build_ud_packet(const UdSpec& spec, std::span<const std::byte> payload,
                            std::span<std::byte> out) noexcept;

/// Writes the VCRC behind a packet of `packet_len` octets, LRH through ICRC, at the start of
/// `buffer`. Returns false and writes nothing if it does not fit.
[[nodiscard]] bool append_vcrc(std::span<std::byte> buffer, std::size_t packet_len) noexcept;

}  // namespace ipoib::wire
