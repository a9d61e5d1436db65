// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups of an IPoIB link, in the view of the link. The dialect decides whether each
// IP group has a group of the fabric (GroupTable) or the broadcast group carries all of them
// (BroadcastGroups).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/link/interface.h"
#include "lib/link/ip/ip_stack.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/sa/client.h"
#include "lib/wire/sa_records.h"

namespace ipoib::link {

/// Management lcore only. IPv4 broadcast is a neighbour (ipoib_link.h), not a group.
class LinkGroups {
 public:
  virtual ~LinkGroups() = default;

  // --- The link ---
  /// The link is up with the attributes of `broadcast`; called again when they change.
  virtual void resume(const wire::McMemberRecord& broadcast, TimePoint now) = 0;
  /// Confirms every membership with the SA, spread in time; senders stay usable.
  virtual void rejoin(TimePoint now) = 0;
  /// The SA reports new groups from now on. A router asks for those that were created before.
  virtual void look_for_groups(TimePoint /*now*/) {}
  /// The spread over queue pairs has changed: move() follows until it returns false.
  virtual void begin_to_move() = 0;
  /// Moves up to `max` groups to the queue pairs that the spread now gives them. Returns true if
  /// more of them have to move. A group that the device cannot attach stays where it is heard.
  virtual bool move(std::size_t max, TimePoint now) = 0;
  /// The link lost its partition or device: withdraws everything and sends nothing to the SA. The
  /// joined groups are kept for resume(). Memberships that the SA may still count are kept too, so
  /// that resume() and stop() can leave unneeded ones.
  virtual void suspend() = 0;
  /// stop() follows: until then a group that is no longer listened to is not joined as send-only.
  virtual void prepare_stop() = 0;
  /// The broadcast group is lost, or the link ends: withdraws like suspend(), and leaves every
  /// membership, those of requests under way when they are answered. Leaves are repeated until the SA
  /// answers, and after resume() each comes before the next join. It is complete when left(), or
  /// after a timeout of the caller.
  virtual void stop(TimePoint now) = 0;
  [[nodiscard]] virtual bool left() const = 0;
  /// Stops waiting for the SA's answers to leaves.
  virtual void abort_leaves() = 0;

  // --- Receiving ---
  virtual Status join(const wire::IpAddr& group, TimePoint now) = 0;
  virtual Status leave(const wire::IpAddr& group, TimePoint now) = 0;
  /// Receives the groups of a prefix, if they exist or once they do, to route their packets. Counted:
  /// each route() needs its unroute().
  virtual void route(const wire::IpPrefix& /*groups*/, TimePoint /*now*/) {}
  virtual void unroute(const wire::IpPrefix& /*groups*/, TimePoint /*now*/) {}

  // --- Sending ---
  /// Limits IPv6 packets to groups that have a way of their own; 0: no limit.
  virtual void limit_mtu6(std::uint16_t /*mtu*/) {}
  /// Takes over `packet`.
  virtual void request_group(const wire::IpAddr& group, HeldPacket packet, TimePoint now) = 0;
  /// Sends a frame of the link itself, from the IPoIB header on. Returns true if it was sent, or if
  /// no group exists to send it to.
  virtual bool send(const wire::IpAddr& group, std::span<const std::byte> frame, TimePoint now) = 0;

  // --- Reports of the SA (traps 66, 67) ---
  virtual void on_created(const wire::Gid& mgid, TimePoint now) = 0;
  virtual void on_deleted(const wire::Gid& mgid, TimePoint now) = 0;

  virtual void tick(TimePoint now) = 0;
  [[nodiscard]] virtual std::optional<TimePoint> next_deadline() const = 0;

  [[nodiscard]] virtual std::vector<GroupInfo> list(TimePoint now) const = 0;
  /// Number of groups that the SA is queried for.
  [[nodiscard]] virtual std::size_t size() const = 0;
};

/// The parts of a link that its groups use. References are kept.
struct GroupSurroundings {
  const LinkConfig& config;
  LinkActions& actions;
  NeighbourSink& sink;
  AddressSink& receiver;
  sa::Client& sa;
  LinkCounters& counters;
  IpStack& ip;
  std::function<wire::HwAddr()> broadcast_hw;
  std::function<bool()> is_member;  ///< True if the port is a member of the broadcast group.
  /// Sends a frame to the broadcast group; false if there is none.
  std::function<bool(std::span<const std::byte> frame)> broadcast;
  std::uint64_t seed = 0;
};

}  // namespace ipoib::link
