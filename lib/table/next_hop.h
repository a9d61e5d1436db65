// SPDX-License-Identifier: BSD-3-Clause
// The targets of prefixes. Prefixes map to next-hop numbers (24 bits), which name a neighbour or a
// slot of the next-hop table. The management lcore writes the table, and every worker reads it.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "lib/base/contract.h"
#include "lib/table/neighbour.h"

namespace ipoib::table {

enum class NextHopKind : std::uint8_t {
  kNone = 0,   ///< No route.
  kLocal,      ///< This node's own address.
  kLocalDown,  ///< Own IPv6 address that is not in use, because its interface is down or duplicate
               ///< address detection runs. No packet may come from it; none is delivered to it.
  kBroadcast,  ///< A broadcast address of an own prefix: all ones behind the prefix, on `iface`; all
               ///< zeros, which no packet leaves for, without an interface; or all ones behind the
               ///< classful net of prefixes, its subnets: `neighbour` is the number of the first of
               ///< several kBroadcast slots, one for each interface that packets to all subnets
               ///< leave by; a kNone slot ends them.
  kConnected,    ///< On `iface`: the destination itself is the neighbour.
  kGateway,      ///< Through `neighbour` on `iface`.
  kBlackhole,    ///< Dropped silently.
  kUnreachable,  ///< Dropped, ICMP host unreachable; ICMPv6: no route.
  kProhibited,   ///< Dropped, ICMP communication administratively prohibited.
  kGroup,        ///< ECMP: `neighbour` is the number of the first of 2^bucket_bits buckets, each a
                 ///< next hop. A hash of addresses, protocol, ports and IPv6 flow label chooses the
                 ///< bucket, so that a flow keeps its path until its bucket is rewritten. Behind
                 ///< the buckets each interface of a path, also of one that is not used now, has
                 ///< a kConnected slot; a kNone slot ends them.
};

/// True for an address of this node, also for one that is not in use.
[[nodiscard]] constexpr bool is_own(NextHopKind kind) noexcept {
  return kind == NextHopKind::kLocal || kind == NextHopKind::kLocalDown;
}

/// 8 octets, so that one load reads a whole next hop.
struct NextHop {
  NextHopKind kind = NextHopKind::kNone;
  std::uint8_t bucket_bits = 0;  ///< kGroup.
  /// kGroup: the one interface of its paths on which multicast from the prefix is accepted.
  InterfaceId iface = kNoInterface;
  NeighbourIndex neighbour = kNoNeighbour;

  friend bool operator==(const NextHop&, const NextHop&) = default;
};
static_assert(sizeof(NextHop) == 8 && std::is_trivially_copyable_v<NextHop>);

using NextHopIndex = std::uint32_t;
inline constexpr NextHopIndex kNextHopNone = 0;  ///< Always kind kNone: result of a failed lookup.
inline constexpr NextHopIndex kMaxNextHops = 1U << 18;  ///< Lower numbers are slots of the table.

/// A number with this bit has no slot: it names a neighbour by its low 22 bits.
inline constexpr NextHopIndex kAdjacency = 1U << 23;
/// With kAdjacency: the neighbour is a gateway. Otherwise it is the destination itself.
inline constexpr NextHopIndex kThroughGateway = 1U << 22;
/// Size of the largest neighbour table whose numbers fit.
inline constexpr std::size_t kMaxAdjacencies = kThroughGateway;
inline constexpr unsigned kNextHopBits = 24;  ///< Size of any number.

[[nodiscard]] constexpr bool is_adjacency(NextHopIndex i) noexcept {
  return (i & kAdjacency) != 0;
}
[[nodiscard]] constexpr NeighbourIndex neighbour_of(NextHopIndex adjacency) noexcept {
  return adjacency & (kThroughGateway - 1);
}
[[nodiscard]] constexpr NextHopIndex adjacency_of(NeighbourIndex neighbour,
                                                  bool through_gateway) noexcept {
  return kAdjacency | (through_gateway ? kThroughGateway : 0) | neighbour;
}
[[nodiscard]] constexpr bool is_next_hop(NextHopIndex i) noexcept {
  return i < kMaxNextHops || (is_adjacency(i) && i >> kNextHopBits == 0);
}

/// One writer (management lcore), any number of readers.
class NextHopTable {
 public:
  /// `flow_seed`: seed of the hash that spreads flows over the paths of groups. Consecutive routers
  /// need different seeds; otherwise each would use a single path of the next router's groups.
  /// `neighbours`: capacity of the neighbour tables.
  explicit NextHopTable(std::uint64_t flow_seed = 0, std::size_t neighbours = 65'536)
      : slots_(kMaxNextHops), interfaces_(neighbours), flow_seed_{flow_seed} {
    set(kNextHopNone, NextHop{});
    for (auto& iface : interfaces_) iface.store(kNoInterface, std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint64_t flow_seed() const noexcept { return flow_seed_; }
  /// Returns the next hop in the group for a flow with this hash.
  [[nodiscard]] NextHop member(const NextHop& group, std::uint32_t flow_hash) const noexcept {
    expects(group.kind == NextHopKind::kGroup && group.bucket_bits <= 32,
            "the next hop is a group");
    const auto bucket =
        static_cast<std::uint32_t>((std::uint64_t{flow_hash} << group.bucket_bits) >> 32);
    const NextHopIndex index = group.neighbour + bucket;
    return index < kMaxNextHops ? get(index) : NextHop{};
  }

  /// Slots hold what was set. An adjacency is kConnected or kGateway, on the interface that was set.
  [[nodiscard]] NextHop get(NextHopIndex i) const noexcept {
    expects(holds(i), "the number is a next hop's");
    if (is_adjacency(i)) return adjacency(i);
    return std::bit_cast<NextHop>(slots_[i].load(std::memory_order_relaxed));
  }
  /// For an adjacency, only the interface counts: the number states the rest.
  ///
  /// Relaxed is enough: the value is self-contained, and the release stores of the prefix tables
  /// publish prefixes that name a new number.
  void set(NextHopIndex i, const NextHop& hop) noexcept {
    expects_management();
    expects(holds(i), "the number is a next hop's");
    if (is_adjacency(i))
      interfaces_[neighbour_of(i)].store(hop.iface, std::memory_order_relaxed);
    else
      slots_[i].store(std::bit_cast<std::uint64_t>(hop), std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] bool holds(NextHopIndex i) const noexcept {
    return is_next_hop(i) && (!is_adjacency(i) || neighbour_of(i) < interfaces_.size());
  }
  [[nodiscard]] NextHop adjacency(NextHopIndex i) const noexcept {
    const NeighbourIndex neighbour = neighbour_of(i);
    return {(i & kThroughGateway) != 0 ? NextHopKind::kGateway : NextHopKind::kConnected, 0,
            interfaces_[neighbour].load(std::memory_order_relaxed), neighbour};
  }

  std::vector<std::atomic<std::uint64_t>> slots_;
  std::vector<std::atomic<InterfaceId>> interfaces_;  ///< Interface of each neighbour.
  std::uint64_t flow_seed_;
};

}  // namespace ipoib::table
