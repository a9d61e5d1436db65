// SPDX-License-Identifier: BSD-3-Clause
// The forwarding engines: each handles a received burst in one forward mode. The worker chooses the
// engine once a loop; an engine does not look at the mode.
#pragma once

#include "lib/fabric/sender_samples.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/modes.h"

namespace ipoib::fwd {

/// A queue from which this worker receives.
struct Owned {
  table::InterfaceId id;
  const InterfaceEntry* entry;
  std::uint16_t ethdev_queue = 0;                 ///< kEthernet only.
  fabric::UdQueue* ud_queue = nullptr;            ///< Null: not a UD queue.
  fabric::ReceiveQueue* receive_queue = nullptr;  ///< The link's connections; null: other packets.
  fabric::SenderSamples* senders = nullptr;       ///< The senders to `ud_queue`; null: not sampled.
};

/// Takes a burst of one interface, from the link header to Tx or another end. While `forwarding` is
/// off, IP packets are dropped as kForwardingStopped, except neighbour discovery. ARP is punted in
/// every mode except io, which reads no frame.
using Engine = void (*)(Context& c, const Ingress& in, const Burst& rx, bool forwarding) noexcept;

[[nodiscard]] Engine engine_of(ForwardMode mode) noexcept;

}  // namespace ipoib::fwd
