// SPDX-License-Identifier: BSD-3-Clause
// Packets that workers punt: ARP, local delivery, ICMP errors, packets that wait for their
// neighbour.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/base/keyed_hash.h"
#include "lib/mgmt/slow_path/icmp_errors.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/mgmt/worker/injector.h"
#include "lib/route/fragments.h"
#include "lib/route/multicast/multicast_router.h"

struct rte_mbuf;

namespace ipoib::mgmt {

struct PuntCounters {
  std::uint64_t arp = 0, nd = 0, local = 0, membership = 0, neighbour_wanted = 0;
  std::uint64_t multicast_unknown = 0, multicast_heard = 0, redirect_wanted = 0;
  /// Echo requests among the local packets, replied to if there were mbufs.
  std::uint64_t answered = 0;
  std::uint64_t to_linux = 0;         ///< Packets that the mirror of their interface took.
  std::uint64_t to_linux_router = 0;  ///< The part of them for its multicast router only.
  std::uint64_t adverts = 0;          ///< Advertisements of nodes that share an address.
  /// Fragments that became part of a packet whose other fragment counts as that packet.
  std::uint64_t joined = 0;
};

/// Management lcore only.
class PuntHandler final : route::FragmentSink {
 public:
  /// `max_held`: limit of mbufs of packets that wait for their neighbours, in all. `seed`: secret,
  /// so that no host can choose addresses that share the counter of another.
  PuntHandler(InterfaceTable& interfaces, Injector& injector, std::size_t max_held,
              std::uint64_t seed)
      : interfaces_{interfaces},
        injector_{injector},
        errors_{interfaces, injector},
        max_held_{max_held},
        hash_{seed} {}
  ~PuntHandler() override = default;

  /// Sets the receiver of IGMP and MLD, which outlives the last call of handle().
  void set_multicast(route::MulticastRouter& router) { multicast_ = &router; }
  /// Sets the routes, which outlive the last call of handle() and drop_held().
  void set_routes(const route::RouteTable& routes) { errors_.set_routes(routes); }
  /// With true, Linux answers echo requests on interfaces that it mirrors.
  void let_linux_answer(bool echo) { linux_answers_echo_ = echo; }
  /// With true, the IGMP and MLD of interfaces that Linux mirrors go to Linux, too.
  void let_linux_route_multicast(bool on) { linux_routes_multicast_ = on; }
  /// Sets the time for everything that is handled until the next call.
  void set_now(TimePoint now) { now_ = now; }

  /// Gives up packets of which fragments are missing for too long.
  void tick() { fragments_.tick(now_); }
  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    return fragments_.next_deadline();
  }

  /// Takes over the message's mbuf. A packet of no interface is dropped: kLocalFromSelf.
  void handle(const msg::Up& message);

  /// Not kNo if the packets held for the interface of `m`, including `m`, have more mbufs than those of
  /// other interfaces have left free. So one interface takes half at most, and never all. The last
  /// quarter of the limit is for packets of senders that had few (kFewHeld) when the packet came; on
  /// each interface they are limited by the number of such packets only, so that other senders
  /// cannot take their places there.
  [[nodiscard]] link::Crowded crowded(rte_mbuf* m) const;
  /// Sends a held packet, whose neighbour is now known.
  void send_held(rte_mbuf* m);
  /// Drops a held packet. `unreachable`: its sender gets an ICMP error.
  void drop_held(rte_mbuf* m, Drop reason, bool unreachable);

  [[nodiscard]] const PuntCounters& counters() const { return counters_; }
  [[nodiscard]] const IcmpErrorCounters& icmp_counters() const { return errors_.counters(); }
  /// mbufs of packets that wait for their neighbours.
  [[nodiscard]] std::size_t held() const { return held_; }
  /// Fragments that wait for the rest of their packets; they have no mbufs.
  [[nodiscard]] std::size_t waiting_fragments() const { return fragments_.waiting(); }
  /// Drops on this lcore of packets that arrived on no interface.
  [[nodiscard]] const DropCounters& drops() const { return drops_; }

 private:
  void fragment_lost(table::InterfaceId iface, Drop reason) override;
  void packet_timed_out(table::InterfaceId iface, std::span<const std::byte> first) override;
  void give_linux(const msg::Up& message, InterfaceSlot& in);
  void deliver_local(rte_mbuf* m, InterfaceSlot& in);
  void deliver_membership(rte_mbuf* m, std::span<const std::byte> packet, InterfaceSlot& in);
  void deliver_to_router_of_linux(rte_mbuf* m, bool sample, InterfaceSlot& in);
  [[nodiscard]] bool is_advert(rte_mbuf* m, std::span<const std::byte> packet, InterfaceSlot& in);
  void deliver_fragment(rte_mbuf* m, const route::Fragment& fragment, InterfaceSlot& in);
  void deliver_whole(rte_mbuf* m, std::span<std::byte> packet, InterfaceSlot& in,
                     bool in_fragments);
  std::span<std::byte> in_one_piece(rte_mbuf* m);
  Drop answer(rte_mbuf* m, std::span<std::byte> packet, InterfaceSlot& in, bool in_fragments);
  void send_answer(rte_mbuf* m, std::span<const std::byte> answer, InterfaceSlot& in,
                   bool in_fragments);
  /// A sender of which at most so many packets are held has few, except if its link-layer sender has
  /// more than a share of all mbufs: the IP sources of its packets may be forged.
  static constexpr std::uint32_t kFewHeld = 4;
  [[nodiscard]] std::size_t link_share() const { return max_held_ / 8; }
  /// Number of held packets of the sender, or of senders that share its counter.
  [[nodiscard]] std::uint32_t& held_of(const rte_mbuf* m);
  /// Counts a packet that is held from now on.
  void take_in(rte_mbuf* m, table::InterfaceId iface, InterfaceSlot& slot);
  /// Takes a held packet off the counts. Returns the slot of its interface.
  InterfaceSlot& let_go(rte_mbuf* m);

  InterfaceTable& interfaces_;
  Injector& injector_;
  IcmpErrors errors_;
  std::size_t max_held_;
  std::size_t held_ = 0;  ///< mbufs; sum over all interfaces.
  KeyedHash hash_;
  std::array<std::uint32_t, 1024> held_by_sender_{};  ///< Packets.
  /// mbufs by PacketMeta::Held::link_sender, which is a digest already.
  std::unordered_map<std::uint32_t, std::size_t> held_by_link_;
  std::vector<std::byte> whole_;  ///< Scratch memory of in_one_piece().
  route::Reassembler fragments_{*this};
  std::uint64_t fragmented_ = 0;  ///< Packets that this node has sent in fragments.
  route::MulticastRouter* multicast_ = nullptr;
  bool linux_answers_echo_ = false;
  bool linux_routes_multicast_ = false;
  PuntCounters counters_;
  DropCounters drops_;
  TimePoint now_{};
};

}  // namespace ipoib::mgmt
