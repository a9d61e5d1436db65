// SPDX-License-Identifier: BSD-3-Clause
// Functions that make and change frames of the soft wire format.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "drivers/soft/soft_frame.h"
#include "lib/wire/frame.h"

namespace ipoib::soft {

/// Recomputes the ICRC of a soft frame, over the length in LRH.PktLen.
inline void seal(std::vector<std::byte>& frame) {
  const auto lrh = *wire::read<wire::Lrh>(frame, sizeof(EthHdr));
  wire::put_icrc({frame.data() + sizeof(EthHdr), lrh.packet_len()});
}

/// Returns the IBA packet of a soft frame, LRH to ICRC.
inline std::vector<std::byte> iba_of(const std::vector<std::byte>& frame) {
  const std::size_t len = wire::read<wire::Lrh>(frame, sizeof(EthHdr)).value().packet_len();
  const auto begin = frame.begin() + sizeof(EthHdr);
  return {begin, begin + static_cast<std::ptrdiff_t>(len)};
}

/// Returns the soft frame of a UD packet, without padding.
inline std::vector<std::byte> ud_frame(const wire::UdSpec& spec,
                                       std::span<const std::byte> payload) {
  std::vector<std::byte> frame(sizeof(EthHdr) +
                               wire::ud_packet_len(spec.grh.has_value(), payload.size()));
  EthHdr head{};
  head.ether_type.set(kEtherTypeIba);
  std::memcpy(frame.data(), &head, sizeof(head));
  if (wire::build_ud_packet(spec, payload, std::span{frame}.subspan(sizeof(head))) == 0)
    throw std::logic_error{"no packet can have this payload"};
  return frame;
}

}  // namespace ipoib::soft
