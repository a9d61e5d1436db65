// SPDX-License-Identifier: BSD-3-Clause
// Packets of connected queue pairs between their headers and their messages.
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

/// From the operation in a SEND's opcode, of either transport.
[[nodiscard]] constexpr SendPart part_of(std::uint8_t opcode) noexcept {
  switch (opcode & 0x1f) {
    case 0x00: return {.begins = true, .ends = false};   // first
    case 0x01: return {.begins = false, .ends = false};  // middle
    case 0x02:
    case 0x03: return {.begins = false, .ends = true};  // last
    default: return {.begins = true, .ends = true};     // only
  }
}

/// First and middle packets fill the path MTU, the last has 1 octet at least, an only one may have
/// none. Source: IBA vol 1 §9.7.4.1.4.
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
};

/// What became of it.
struct Made {
  rte_mbuf* frame = nullptr;     ///< All but extended headers, payload and ICRC is written.
  std::byte* payload = nullptr;  ///< Its place in the frame.
  bool local = false;            ///< It goes to this port itself.
  bool blocked = false;          ///< No frame now, try again; else no frame means that it is lost.
};

}  // namespace ipoib::soft
