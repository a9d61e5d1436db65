// SPDX-License-Identifier: BSD-3-Clause
// A worker's statistics of its own work. Writer: that worker; readers: any thread.
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
  Counter busy_cycles;  ///< TSC cycles spent in busy loops.
  Counter rx_packets;
  Counter handed_on;     ///< Part of rx_packets: packets that a worker of its spread handles.
  Counter consumed;      ///< Packets that a test forward mode counted and freed.
  Counter generated;     ///< Test packets made.
  Counter stamped;       ///< Part of `generated`: with a time stamp.
  Counter no_mbuf;       ///< Packets that were not made for lack of an mbuf.
  Counter gro_segments;  ///< TCP segments that were sent as part of larger packets.
  Counter gso_packets;   ///< TCP packets that were sent in smaller segments.
  Counter copies;        ///< Packets made from others: for more egresses, fragments, segments.
  Counter joined;        ///< Packets that became part of others: merged segments except the first.
  Counter punts;         ///< Messages sent to management.
  Counter answers;       ///< ARP requests and solicitations answered without management.
  Counter bad_messages;  ///< Messages from management that named missing objects.
  /// Receive calls by number of packets received: 0, 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64.
  std::array<Counter, 8> bursts;

  void count_burst(std::uint16_t n) noexcept {
    bursts[static_cast<std::size_t>(std::bit_width(n))].add(1);
    if (n != 0) rx_packets.add(n);
  }
};

}  // namespace ipoib::fwd
