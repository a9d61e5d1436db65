// SPDX-License-Identifier: BSD-3-Clause
// What test packets carry behind their UDP header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"

namespace ipoib::fwd {

/// All zero in packets that carry none.
struct TimeStamp {
  wire::Be32 stream;    ///< Number of the run that made it, at random, and of the worker (8 bits).
  wire::Be32 sequence;  ///< Of the worker's packets, from 0.
  wire::Be64 tsc;       ///< Of the worker, when it made the packet.
};
static_assert(wire::WireRecord<TimeStamp> && sizeof(TimeStamp) == 16);

}  // namespace ipoib::fwd
