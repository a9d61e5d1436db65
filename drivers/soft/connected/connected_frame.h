// SPDX-License-Identifier: BSD-3-Clause
// Helpers for packets of connected queue pairs: place in a message, length, description of a frame.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>

#include "lib/wire/iba.h"

namespace ipoib::soft {

/// Place of a SEND packet in its message.
struct SendPart {
  bool begins;
  bool ends;
};

/// Takes the operation from a SEND's opcode, of either transport.
[[nodiscard]] constexpr SendPart part_of(std::uint8_t opcode) noexcept {
  switch (opcode & 0x1f) {
    case 0x00: return {.begins = true, .ends = false};   // first
    case 0x01: return {.begins = false, .ends = false};  // middle
    case 0x02:
    case 0x03: return {.begins = false, .ends = true};  // last
    default: return {.begins = true, .ends = true};     // only
  }
}

/// First and middle packets fill the path MTU, the last has at least 1 octet, an only one may be
/// empty. Source: IBA vol 1 §9.7.4.1.4.
[[nodiscard]] constexpr bool length_fits(SendPart part, std::uint32_t len,
                                         std::uint32_t mtu) noexcept {
  if (!part.ends) return len == mtu;
  return len <= mtu && (len != 0 || part.begins);
}

/// A packet to be sent.
struct FrameSpec {
  wire::Opcode opcode;
  bool ack_request = false;
  std::uint32_t psn = 0;
  std::uint32_t extended_len = 0;  ///< Octets between BTH and payload.
  std::uint32_t payload_len = 0;
  rte_mbuf* whole = nullptr;  ///< The mbuf of the message whose data is this payload; null: none.
};

/// Result of making the frame of a FrameSpec.
struct Made {
  rte_mbuf* frame = nullptr;     ///< Written except extended headers, payload and ICRC.
  std::byte* payload = nullptr;  ///< Place of the payload in the frame.
  bool shared = false;           ///< The payload is in its place: it is that of the message.
  bool local = false;            ///< The frame goes to this port itself.
  bool blocked = false;          ///< No frame now, try again. If false, no frame means a drop.
};

}  // namespace ipoib::soft
