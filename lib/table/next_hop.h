// What a prefix leads to. Prefixes map to next-hop numbers (24 bits, rte_lpm); the next-hop table
// is written by the management lcore and read by every worker.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "lib/table/neighbour.h"

namespace ipoib::table {

enum class NextHopKind : std::uint8_t {
  kNone = 0,     ///< No route.
  kLocal,        ///< This node's own address.
  kBroadcast,    ///< A broadcast address of an own prefix.
  kConnected,    ///< On `iface`: the destination itself is the neighbour.
  kGateway,      ///< Through `neighbour` on `iface`.
  kBlackhole,    ///< Dropped silently.
  kUnreachable,  ///< Dropped, ICMP host unreachable.
  kGroup,        ///< ECMP: one of the `paths` next hops from number `neighbour` on, chosen by a
                 ///< hash of addresses, protocol and ports, so that a flow keeps its path.
};

/// 8 octets, so that one load sees a whole one.
struct NextHop {
  NextHopKind kind = NextHopKind::kNone;
  std::uint8_t paths = 0;  ///< kGroup.
  InterfaceId iface = kNoInterface;
  NeighbourIndex neighbour = kNoNeighbour;

  friend bool operator==(const NextHop&, const NextHop&) = default;
};
static_assert(sizeof(NextHop) == 8 && std::is_trivially_copyable_v<NextHop>);

using NextHopIndex = std::uint32_t;
inline constexpr NextHopIndex kNextHopNone = 0;  ///< Always kind kNone: what a failed lookup gives.
inline constexpr NextHopIndex kMaxNextHops = 1U << 16;

/// One writer (management lcore), any number of readers.
class NextHopTable {
 public:
  NextHopTable() : slots_(kMaxNextHops) { set(kNextHopNone, NextHop{}); }

  [[nodiscard]] NextHop get(NextHopIndex i) const noexcept {
    return std::bit_cast<NextHop>(bits(i));
  }
  /// The same as one number.
  using Bits = std::uint64_t;
  [[nodiscard]] Bits bits(NextHopIndex i) const noexcept {
    return slots_[i].load(std::memory_order_relaxed);
  }
  /// Relaxed is enough: the value is self-contained, and prefixes that name a new number are
  /// published by rte_lpm's own release store.
  void set(NextHopIndex i, const NextHop& hop) noexcept {
    slots_[i].store(std::bit_cast<std::uint64_t>(hop), std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<std::uint64_t>> slots_;
};

}  // namespace ipoib::table
