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

}  // namespace ipoib::soft
