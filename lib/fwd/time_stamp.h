// SPDX-License-Identifier: BSD-3-Clause
// Payload of test packets behind their UDP header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"

namespace ipoib::fwd {

/// All zero in packets without a time stamp.
struct TimeStamp {
  wire::Be32 stream;    ///< Random number of the run; low 8 bits: number of the worker.
  wire::Be32 sequence;  ///< Counts the worker's packets from 0.
  wire::Be64 tsc;       ///< TSC of the worker when it made the packet.
};
static_assert(wire::WireRecord<TimeStamp> && sizeof(TimeStamp) == 16);

}  // namespace ipoib::fwd
