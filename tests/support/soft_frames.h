// SPDX-License-Identifier: BSD-3-Clause
// Functions that change frames of the soft wire format.
#pragma once

#include "drivers/soft/soft_frame.h"
#include "lib/wire/frame.h"
#include "tests/support/vectors.h"

namespace ipoib::soft {

/// Recomputes the ICRC of a soft frame, over the length in LRH.PktLen.
inline void seal(test::Bytes& frame) {
  const auto lrh = *wire::read<wire::Lrh>(frame, sizeof(EthHdr));
  wire::put_icrc({frame.data() + sizeof(EthHdr), lrh.packet_len()});
}

/// Returns the IBA packet of a soft frame, LRH to ICRC.
inline test::Bytes iba_of(const test::Bytes& frame) {
  const std::size_t len = wire::read<wire::Lrh>(frame, sizeof(EthHdr)).value().packet_len();
  const auto begin = frame.begin() + sizeof(EthHdr);
  return {begin, begin + static_cast<std::ptrdiff_t>(len)};
}

}  // namespace ipoib::soft
