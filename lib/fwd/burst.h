// SPDX-License-Identifier: BSD-3-Clause
// Packets on their way through the stages of one worker.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/fwd/tracer.h"
#include "lib/fwd/worker_config.h"
#include "lib/table/neighbour.h"

namespace ipoib::fwd {

/// Ingress interface of a burst.
struct Ingress {
  table::InterfaceId iface;  ///< kNoInterface: this node made the packets.
  InterfaceCounters& counters;
};

/// Up to kMaxBurst packets in order. The caller of push() makes sure that the packet fits.
struct Burst {
  std::array<rte_mbuf*, kMaxBurst> pkts;
  std::uint16_t n = 0;

  void push(rte_mbuf* m) noexcept {
    expects(n < kMaxBurst, "the packet fits");
    pkts[n++] = m;
  }
  [[nodiscard]] std::span<rte_mbuf* const> span() const noexcept { return {pkts.data(), n}; }
};

/// Packets that start at their IPv4 header, with the members and the limit of Burst.
struct Ip4Burst {
  alignas(64) std::array<std::uint32_t, kMaxBurst> dst;  ///< Host order.
  std::array<rte_mbuf*, kMaxBurst> pkts;
  std::uint16_t n = 0;

  void push(rte_mbuf* m, std::uint32_t destination) noexcept {
    expects(n < kMaxBurst, "the packet fits");
    pkts[n] = m;
    dst[n++] = destination;
  }
  [[nodiscard]] std::span<rte_mbuf* const> span() const noexcept { return {pkts.data(), n}; }
};

/// Packets that start at their IPv6 header, with the members and the limit of Burst.
struct Ip6Burst {
  /// In a union, which leaves the elements without values until push() gives them one: to fill all
  /// of them with zeros costs 3 cycles a packet.
  union {
    std::array<wire::IpAddr, kMaxBurst> dst;
  };
  std::array<rte_mbuf*, kMaxBurst> pkts;
  std::uint16_t n = 0;

  Ip6Burst() noexcept {}
  void push(rte_mbuf* m, const wire::IpAddr& destination) noexcept {
    expects(n < kMaxBurst, "the packet fits");
    pkts[n] = m;
    dst[n++] = destination;
  }
  [[nodiscard]] std::span<rte_mbuf* const> span() const noexcept { return {pkts.data(), n}; }
};

/// Packets of one IP version that start at their IP header, each with its valid neighbour. Members
/// and limit are those of Burst.
struct RoutedBurst {
  std::array<rte_mbuf*, kMaxBurst> pkts;
  std::array<table::Neighbour*, kMaxBurst> to;
  std::uint16_t n = 0;

  void push(rte_mbuf* m, table::Neighbour& neighbour) noexcept {
    expects(n < kMaxBurst, "the packet fits");
    expects(neighbour.state == table::NeighbourState::kValid, "the neighbour is valid");
    pkts[n] = m;
    to[n++] = &neighbour;
  }
};

/// Takes dropped packets: counts each at once, frees them together.
class DropBin {
 public:
  DropBin(Tracer& trace, DropCounters& counters) noexcept : trace_{trace}, counters_{counters} {}
  DropBin(const DropBin&) = delete;
  DropBin& operator=(const DropBin&) = delete;
  ~DropBin() { flush(); }

  [[gnu::noinline]] void add(rte_mbuf* m, Drop reason) noexcept {
    counters_.add(reason);
    trace_.dropped(m, reason);
    if (burst_.n == kMaxBurst) flush();
    burst_.push(m);
  }
  void add(std::span<rte_mbuf* const> pkts, Drop reason) noexcept {
    for (rte_mbuf* m : pkts) add(m, reason);
  }

 private:
  void flush() noexcept {
    if (burst_.n != 0) rte_pktmbuf_free_bulk(burst_.pkts.data(), burst_.n);
    burst_.n = 0;
  }

  Tracer& trace_;
  DropCounters& counters_;
  Burst burst_;
};

/// Removes `n` octets from the front; the first segment must hold them.
inline void strip(rte_mbuf* m, std::uint16_t n) noexcept {
  expects(n <= m->data_len, "the first segment holds what is taken off");
  m->data_off = static_cast<std::uint16_t>(m->data_off + n);
  m->data_len = static_cast<std::uint16_t>(m->data_len - n);
  m->pkt_len -= n;
}

/// Makes room for `n` octets in front. Returns false, without a change, if there is no room.
[[nodiscard]] inline bool prepend(rte_mbuf* m, std::uint16_t n) noexcept {
  if (m->data_off < n) [[unlikely]]
    return false;
  m->data_off = static_cast<std::uint16_t>(m->data_off - n);
  m->data_len = static_cast<std::uint16_t>(m->data_len + n);
  m->pkt_len += n;
  return true;
}

}  // namespace ipoib::fwd
