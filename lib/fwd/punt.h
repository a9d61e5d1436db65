// SPDX-License-Identifier: BSD-3-Clause
// Stage punt: passes packets that the worker cannot handle to the management lcore, within limits
// that protect established flows against any load.
//
// The packets that keep neighbours alive come first: ARP and ND of a neighbour that this node has
// asked for or sent to have budgets and a part of the ring that no packet of a stranger can use
// (RFC 6583 §7).
//
// A punted packet is not counted as a drop here, except for an ICMP error: that packet is counted
// under the reason for which it could not be forwarded, whether or not management is asked for the
// error, and under no other reason. A packet that should be punted and may not is counted once:
// kNeighbourPending (limit of its neighbour), kPuntRateLimited (limit of its kind or sender),
// kPuntRingFull. ARP of unknown hosts among each other is not punted, and of a neighbour that asks for
// others only a few messages are, because it may have moved: kArpForOthers. Where other interfaces share
// the subnet, the same holds for each host. Requests for own addresses
// that may not be punted are answered by NeighbourAnswers if they can be.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/counters.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fwd/answers/neighbour_answers.h"
#include "lib/fwd/burst.h"
#include "lib/fwd/worker_config.h"
#include "lib/msg/worker_messages.h"
#include "lib/table/neighbour_table.h"
#include "lib/table/own_addresses.h"
#include "lib/wire/icmp_error.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Functions that are given a packet take ownership of it.
class Punt {
 public:
  /// The references are kept.
  Punt(const WorkerConfig& config, table::NeighbourTable& neighbours, NeighbourAnswers& answers,
       Counter& punts, Tracer& trace);

  /// Starts a new interval when one is due.
  void begin_loop(std::uint64_t tsc) noexcept {
    if (tsc >= interval_end_tsc_) [[unlikely]]
      begin_interval(tsc);
  }

  /// `m` starts at the ARP header. In a packet of an Ethernet interface, the frame's header is in
  /// front of it; so in nd().
  void arp(const Ingress& in, rte_mbuf* m) noexcept;
  /// In the following functions `m` starts at the IP header. `group`: its destination is a group.
  /// For an Ethernet frame, PacketMeta::rx holds only that and the interface. A packet without an
  /// ingress interface was sent by this node to itself: kLocalFromSelf.
  void local(const Ingress& in, rte_mbuf* m, bool group = false) noexcept;
  /// IGMP and MLD have their own limit, so that pings cannot keep hosts out of their groups. VRRP to a
  /// group shares it: nodes that miss it take over from each other.
  void membership(const Ingress& in, rte_mbuf* m, bool group) noexcept;
  /// `speaker`: the target of a neighbour advertisement, the source of another message.
  void nd(const Ingress& in, rte_mbuf* m, bool group, const wire::IpAddr& speaker) noexcept;
  /// A broadcast for programs of Linux. Each sender on the link has a limit.
  void broadcast(const Ingress& in, rte_mbuf* m) noexcept;
  /// `m` starts at the Ethernet header.
  void link_frame(const Ingress& in, rte_mbuf* m) noexcept;
  void neighbour_wanted(const Ingress& in, rte_mbuf* m, table::InterfaceId out_iface,
                        const wire::IpAddr& addr,
                        fabric::Onward onward = fabric::Onward::kByRoute) noexcept;
  /// `error`: for the sender of the packet.
  void icmp_error(const Ingress& in, rte_mbuf* m, Drop reason,
                  const wire::IcmpError& error) noexcept;
  /// Reports a source and group that no delivery names together. The caller keeps the packet. If
  /// the report is rate-limited, a later packet causes it.
  void multicast_unknown(const Ingress& in, const wire::IpAddr& group,
                         const wire::IpAddr& source) noexcept;
  /// Reports a packet (msg::Up::Kind::kMulticastHeard). `d`: its delivery on d.in, the interface that
  /// leads to its source. `m` starts at the IP header, with the header of the link in front. The
  /// caller keeps it. If the report is rate-limited, a later packet causes it.
  void multicast_heard(const Ingress& in, rte_mbuf* m, const table::Delivery& d,
                       const wire::IpAddr& source) noexcept;
  /// True if Linux may get a packet from `source` to `group` that has no entry of its multicast router
  /// for this interface. After true, that pair gets false for a while (PuntLimits::linux_again).
  [[nodiscard]] bool may_ask_linux(const Ingress& in, const wire::IpAddr& group,
                                   const wire::IpAddr& source) noexcept;
  /// True if Linux may get a copy of a packet to a group.
  [[nodiscard]] bool may_copy_for_linux(const Ingress& in) noexcept {
    return !spent(in, Budget::kForLinux);
  }
  /// Gives Linux a packet or a copy, after one of these two. `sample`: Linux must not forward it.
  void give_linux(const Ingress& in, rte_mbuf* m, bool sample) noexcept;
  /// True if a packet from `source` to `destination`, sent back on its ingress link, may be punted
  /// as redirect_wanted(); false if Settings::redirects is off. After true, the flow gets false for
  /// a while (PuntLimits::redirect_again).
  [[nodiscard]] bool may_redirect(const Ingress& in, const wire::IpAddr& source,
                                  const wire::IpAddr& destination) noexcept;
  /// `copy` is a copy of such a packet. If it cannot be punted, it is freed and no drop is counted.
  void redirect_wanted(const Ingress& in, rte_mbuf* copy, const wire::IpAddr& next_hop) noexcept;

  /// Wakes management if it sleeps and messages were sent. Once a loop.
  void ring_doorbell() noexcept {
    if (!pushed_) [[likely]]
      return;
    pushed_ = false;
    doorbell_.ring();
  }

 private:
  using Kind = msg::Up::Kind;
  /// The budgets of the kinds of messages, in their order, of ARP and ND of neighbours, of the ICMP
  /// errors that path MTU discovery needs, and of answers without management.
  enum class Budget : std::uint8_t {
    kNeighbourWanted,
    kArp,
    kLocal,
    kMembership,
    kNd,
    kIcmpError,
    kMulticastUnknown,
    kRedirectWanted,
    kMulticastHeard,
    kBroadcast,
    kLinkFrame,
    kForLinux,
    kKnownArp,
    kKnownNd,
    kTooBig,
    kAnswer,
    kCount,
  };
  using Budgets = std::array<std::uint32_t, static_cast<std::size_t>(Budget::kCount)>;

  /// The uses of keys: a neighbour that is wanted, the IP and link-layer sender of packets for such
  /// neighbours, a neighbour that speaks, the sender of such messages, a neighbour that asks for
  /// others, a stranger, a source of a group, a redirected flow, a sender of broadcasts or of VRRP, a
  /// source of a group that Linux does not know, a group that several routers may forward.
  enum class Use : std::uint8_t {
    kWanted,
    kSource,
    kLinkSource,
    kKnown,
    kSpeaker,
    kAsksForOthers,
    kStranger,
    kGroup,
    kRedirect,
    kBroadcaster,
    kAdvertiser,
    kForLinux,
    kHeard,
    kCount
  };

  /// Number of packets punted for one neighbour, sender, multicast source or redirected flow since
  /// an interval. Direct-mapped: a colliding key takes over the entry; the limit per kind holds
  /// anyway.
  struct KeyUse {
    std::uint64_t key = 0;
    std::uint32_t interval = 0;
    std::uint32_t used = 0;
  };
  static constexpr unsigned kKeyBits = 12;
  /// Keys that share a place in the table of Use::kHeard, which is the last one.
  static constexpr std::size_t kHeardKeys = 4;

  [[nodiscard]] std::uint64_t mix(std::uint64_t seed, const wire::IpAddr& addr) const noexcept;
  void begin_interval(std::uint64_t tsc) noexcept;
  [[nodiscard]] KeyUse& use_of(Use use, std::uint64_t key, std::uint32_t intervals) noexcept;
  [[nodiscard]] KeyUse* heard_due(std::uint64_t key) noexcept;
  [[nodiscard]] static Budget budget_of(Kind kind) noexcept { return static_cast<Budget>(kind); }
  [[nodiscard]] std::uint32_t& used(const Ingress& in, Budget budget) noexcept;
  /// This worker's part of a limit.
  [[nodiscard]] std::uint32_t limit(Budget budget) const noexcept {
    return limit_[static_cast<std::size_t>(budget)];
  }
  [[nodiscard]] std::uint32_t in_use(const Ingress& in, Budget budget) noexcept;
  [[nodiscard]] bool spent(const Ingress& in, Budget budget) noexcept;
  [[nodiscard]] bool take(Use use, std::uint64_t key, std::uint32_t limit) noexcept;
  [[nodiscard]] static bool is_from(const table::Neighbour& neighbour, const rte_mbuf* m) noexcept;
  [[nodiscard]] bool is_of_neighbour(const Ingress& in, rte_mbuf* m) noexcept;
  [[nodiscard]] bool may_want(const Ingress& in, rte_mbuf* m, std::uint64_t link_sender,
                              bool neighbour) noexcept;
  [[nodiscard]] bool leaves_room(Budget budget) const noexcept;
  void resolution(const Ingress& in, const msg::Up& message, const table::Neighbour* from,
                  Budget known) noexcept;
  [[nodiscard]] bool may_ask_for_others(const Ingress& in, rte_mbuf* m) noexcept;
  [[nodiscard]] int compare_sender(const Ingress& in, rte_mbuf* m) const noexcept;
  bool push(const Ingress& in, const msg::Up& message, Budget budget) noexcept;
  void use(const Ingress& in, Budget budget) noexcept;
  void answer_or_drop(const Ingress& in, const msg::Up& message, Drop reason) noexcept;
  void drop(const Ingress& in, rte_mbuf* m, Drop reason) noexcept;
  void discard(rte_mbuf* m) noexcept;
  void fill_rx(const Ingress& in, rte_mbuf* m, bool group) const noexcept;
  void push_or_drop(const Ingress& in, const msg::Up& message, Budget budget) noexcept;

  rte_ring* ring_;
  std::span<const InterfaceEntry> interfaces_;
  const table::OwnAddresses& own_addresses_;
  table::NeighbourTable& neighbours_;
  NeighbourAnswers& answers_;
  const Settings& settings_;
  Doorbell& doorbell_;
  Counter& punts_;
  Tracer& trace_;
  bool pushed_ = false;
  std::uint32_t interval_ = 0;  ///< Number of the current one; keys start at 0, intervals at 1.
  PuntLimits limits_;
  std::uint64_t interval_tsc_;
  std::uint64_t interval_end_tsc_ = 0;
  Budgets limit_{};
  Budgets all_{};  ///< Used in this interval.
  /// Used in this interval, by InterfaceId; the last element is for packets of no interface.
  std::vector<Budgets> of_interface_;
  std::uint64_t factor_;      ///< Secret factor of mix(), odd.
  std::vector<KeyUse> keys_;  ///< A table for each use.
};

}  // namespace ipoib::fwd
