// SPDX-License-Identifier: BSD-3-Clause
// The forwarding engines: what a worker does with a received burst, by the forward mode. Chosen
// once a loop; within an engine nothing asks for the mode.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/modes.h"

namespace ipoib::fwd {

/// An interface this worker receives from.
struct Owned {
  table::InterfaceId id;
  table::InterfaceId io_peer;
  const InterfaceEntry* entry;
  fabric::ReceiveQueue* receive_queue = nullptr;  ///< Of the link's connections; null: the rest.
};

/// Takes a burst of one interface, from the link header to Tx or wherever else it ends. While
/// `forwarding` is off, IP packets are dropped as kForwardingStopped, but for neighbour discovery;
/// ARP goes up in every mode but io, which reads no frame.
using Engine = void (*)(Context& c, const Ingress& in, const Owned& owned, const Burst& rx,
                        bool forwarding) noexcept;

[[nodiscard]] Engine engine_of(ForwardMode mode) noexcept;

}  // namespace ipoib::fwd
