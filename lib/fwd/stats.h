// SPDX-License-Identifier: BSD-3-Clause
// What a worker tells of its own work. Writer: that worker; readers: any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "lib/base/counters.h"

namespace ipoib::fwd {

struct alignas(64) WorkerStats {
  Counter loops;
  Counter busy_loops;   ///< Loops that found a packet or a message.
  Counter busy_cycles;  ///< TSC cycles spent in those.
  Counter rx_packets;
  Counter consumed;      ///< Packets that ended here because the forward mode is a test.
  Counter generated;     ///< Packets that a forward mode made.
  Counter stamped;       ///< Of the generated: with a time stamp.
  Counter no_mbuf;       ///< Packets that were not made for want of an mbuf.
  Counter tcp_merged;    ///< TCP segments that were sent as part of larger packets.
  Counter tcp_cut;       ///< TCP packets that were sent in smaller segments.
  Counter copies;        ///< Packets made of others: for more ways out, fragments, segments.
  Counter joined;        ///< Packets that became part of others: merged segments but the first.
  Counter punts;         ///< Messages that went up.
  Counter bad_messages;  ///< Messages from management that named what is not there.
  /// Receive calls by how many packets they gave: 0, 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64.
  std::array<Counter, 8> bursts;

  void count_burst(std::uint16_t n) noexcept {
    bursts[static_cast<std::size_t>(std::bit_width(n))].add(1);
    if (n != 0) rx_packets.add(n);
  }
};

}  // namespace ipoib::fwd
