// SPDX-License-Identifier: BSD-3-Clause
// Groups as neighbours of the workers: installs the entries, holds packets until the way of a group
// is known, keeps one address handle per group. Source: RFC 4391 §6, §10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "lib/link/ipoib/group.h"
#include "lib/link/ipoib/ipoib_types.h"

namespace ipoib::link {

/// Address handle attributes of packets to a group: always a GRH, with the group's values.
[[nodiscard]] fabric::AhAttr group_ah(const wire::McMemberRecord& record);

class GroupSenders {
 public:
  /// IPv6 groups whose addresses differ only above their low 80 bits are one group of InfiniBand
  /// (RFC 4391 §4), and any host may name such addresses: limits of those of one group, and of those
  /// of all groups without the first of each.
  static constexpr std::size_t kMaxOfGroup = 64, kMaxFurther = 256;

  /// References are kept.
  GroupSenders(const LinkConfig& config, LinkActions& actions, NeighbourSink& sink,
               LinkCounters& counters);

  /// MTU of the link, octets of IP.
  void set_mtu(std::uint16_t mtu) { mtu_ = mtu; }
  /// Limit of IPv6 packets; 0: none. Returns true if it changed. It applies to deliveries that are
  /// known from then on.
  bool limit_mtu6(std::uint16_t mtu) { return std::exchange(mtu6_, mtu) != mtu; }

  /// Takes over `packet`: holds it, releases it or drops it. The first packet to `addr` is held
  /// until the set_delivery() that must follow, because the way may depend on the senders.
  void request_group(Group& g, const wire::IpAddr& addr, HeldPacket packet, TimePoint now);
  /// Sends a frame of the link itself to the IP group `to`, from the IPoIB header on, at once or
  /// when the way is known.
  void send(Group& g, const wire::IpAddr& to, std::span<const std::byte> frame, TimePoint now);

  /// Sets the way of packets. `target`: with kDirect the group's record, with kRouters that of the
  /// all-routers group, with kFlood that of the broadcast group; else null. kUnknown changes
  /// nothing.
  void set_delivery(Group& g, GroupDelivery delivery, const wire::McMemberRecord* target);
  /// Packets are held again until set_delivery(); the address handle is destroyed.
  void forget_delivery(Group& g);
  /// Forgets senders and waiting frames; held packets are dropped under `reason`.
  void clear(Group& g, Drop reason);
  /// Forgets the senders that failed because the group was absent, so that they may ask again,
  /// those without a packet since then, and the link's own use of it: only senders that go on
  /// sending occupy the table of groups.
  void forget_unused(Group& g, TimePoint since);
  /// Latest packet on a way that the group has.
  [[nodiscard]] TimePoint last_used(const Group& g) const;
  /// Drops packets that waited too long, and forgets senders that are unused for the configured
  /// time.
  void expire(Group& g, TimePoint now);
  /// Time of the next expire().
  [[nodiscard]] TimePoint due(const Group& g) const;

  [[nodiscard]] std::size_t held() const { return held_.total(); }

 private:
  [[nodiscard]] bool usable(const Group& g, const wire::IpAddr& addr) const;
  [[nodiscard]] bool make_room(Group& g, TimePoint now);
  template <typename Gone>
  void remove_senders(Group& g, Gone gone);
  void install(const Group& g, const wire::IpAddr& addr, GroupSender& s,
               table::NeighbourState state);
  void apply_delivery(Group& g, const wire::IpAddr& addr, GroupSender& s);
  void drop_all(const HeldQueue& packets, Drop reason);
  void drop_frames(Group& g);
  void destroy_handle(Group& g);

  const LinkConfig& config_;
  LinkActions& actions_;
  NeighbourSink& sink_;
  LinkCounters& counters_;
  HeldPackets held_;
  std::uint16_t mtu_ = 0;
  std::uint16_t mtu6_ = 0;
  std::size_t frames_ = 0;
  std::size_t further_ = 0;  ///< Senders of all groups without the first of each.
};

}  // namespace ipoib::link
