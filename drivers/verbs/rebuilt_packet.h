// SPDX-License-Identifier: BSD-3-Clause
// A packet as it was on the wire of an HCA, rebuilt from its headers' values and its payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/wire/be.h"
#include "lib/wire/frame.h"
#include "lib/wire/iba.h"

namespace ipoib::verbs {

/// Values of the headers. Fields that software cannot know (VL, FECN, BECN, AckReq) are 0.
struct PacketHead {
  struct Datagram {
    std::uint32_t qkey = 0;
    std::uint32_t src_qp = 0;
  };

  wire::Opcode opcode = wire::Opcode::kUdSendOnly;
  std::uint8_t sl = 0;
  std::uint16_t slid = 0;
  std::uint16_t dlid = 0;
  std::optional<wire::GrhSpec> grh{};
  std::uint16_t pkey = wire::kDefaultPkey;
  std::uint32_t dest_qp = 0;
  std::uint32_t psn = 0;
  bool mig_req = true;  ///< False on QP1. Source: iba-wire.md §1.3.
  std::optional<Datagram> datagram{};
  std::optional<wire::Be32> immediate{};
};

/// Octets from the LRH to the payload.
[[nodiscard]] std::size_t head_len(const PacketHead& head) noexcept;
/// Octets from the LRH through the ICRC.
[[nodiscard]] std::size_t packet_len(const PacketHead& head, std::size_t payload_len) noexcept;

/// Writes headers, pad and ICRC around a payload that is already in its place.
/// Shape: packet.size() == packet_len(head, payload_len), and PktLen can express it.
void complete_packet(const PacketHead& head, std::size_t payload_len,
                     std::span<std::byte> packet) noexcept;

}  // namespace ipoib::verbs
