// SPDX-License-Identifier: BSD-3-Clause
// What a queue took and then did not send.
#pragma once

#include <cstdint>

namespace ipoib::fabric {

/// Packets that tx_burst counted as taken, and freed and counted as drops of the device in that
/// same call. Whoever counts what was sent takes them off again, so that each packet is counted
/// once. Writer and reader: the worker that owns the queue.
struct TxLost {
  std::uint64_t packets = 0;
  std::uint64_t octets = 0;  ///< Of those, as they were given.

  void add(std::uint32_t len) noexcept {
    ++packets;
    octets += len;
  }
  [[nodiscard]] TxLost since(const TxLost& before) const noexcept {
    return {packets - before.packets, octets - before.octets};
  }
};

}  // namespace ipoib::fabric
