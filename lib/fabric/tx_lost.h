// SPDX-License-Identifier: BSD-3-Clause
// Packets that a queue took and did not send.
#pragma once

#include <cstdint>

namespace ipoib::fabric {

/// Packets that tx_burst counted as taken, and freed and counted as drops of the device in the same
/// call. A caller that counts sent packets subtracts them, so that each packet is counted once.
/// Writer and reader: the worker that owns the queue.
struct TxLost {
  std::uint64_t packets = 0;
  std::uint64_t octets = 0;  ///< Octets of these packets as tx_burst got them.

  void add(std::uint32_t len) noexcept {
    ++packets;
    octets += len;
  }
  [[nodiscard]] TxLost since(const TxLost& before) const noexcept {
    return {packets - before.packets, octets - before.octets};
  }
};

}  // namespace ipoib::fabric
