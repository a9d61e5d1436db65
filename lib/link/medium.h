// SPDX-License-Identifier: BSD-3-Clause
// The medium below the IP stack of an interface: IPoIB or Ethernet. The stack is the same above
// both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/link/interface.h"
#include "lib/table/neighbour.h"
#include "lib/wire/hw_addr.h"

namespace ipoib::link {

/// Sends for the IP stack, and joins its groups. Payloads are octets behind the link header; they
/// may be lost.
class Medium {
 public:
  virtual ~Medium() = default;
  /// The address of the interface. It may have more, one for each worker that receives.
  [[nodiscard]] virtual wire::HwAddr own_hw() const = 0;
  /// The address that messages to `peer` name, so that its packets come to one of the workers.
  [[nodiscard]] virtual wire::HwAddr own_hw_for(const wire::HwAddr& /*peer*/) const {
    return own_hw();
  }
  /// True if own_hw_for() depends on the peer. Messages to all hosts should name no address then,
  /// because all would send to it.
  [[nodiscard]] virtual bool has_several_addresses() const { return false; }
  /// True if requests to all hosts should have no sender, because all would learn its address.
  [[nodiscard]] virtual bool asks_anonymously() const { return false; }
  /// True if `hw` is an address of the interface.
  [[nodiscard]] virtual bool is_own(const wire::HwAddr& hw) const {
    return hw.same_interface(own_hw());
  }
  /// The form of addresses in ARP records and ND options.
  [[nodiscard]] virtual wire::LinkFormat format() const { return own_hw().kind(); }
  /// False: no host here has an IPv4 address, because nothing reaches all of them.
  [[nodiscard]] virtual bool carries_v4() const { return true; }
  /// The address of all hosts, for IPv4 broadcasts.
  [[nodiscard]] virtual wire::HwAddr broadcast_hw() const = 0;
  virtual void broadcast(wire::EtherType type, std::span<const std::byte> payload) = 0;
  virtual void send(const wire::HwAddr& to, wire::EtherType type,
                    std::span<const std::byte> payload, TimePoint now) = 0;
  /// Sends an IP packet to a group. The medium resolves the group; the packet waits for that or is
  /// lost. Returns true if all members have been sent the packet by now.
  virtual bool send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                             TimePoint now) = 0;
  /// Sets the limit of IPv6 packets to groups, from router advertisements; 0: none.
  virtual void limit_mtu6(std::uint16_t /*mtu*/) {}
  /// Joins the group. Joins are counted: each needs its leave. Errors: kInvalidArgument, `group` is
  /// no group or cannot be mapped.
  virtual Status join_group(const wire::IpAddr& group, TimePoint now) = 0;
  /// Errors: kNotFound, this node has not joined the group.
  virtual Status leave_group(const wire::IpAddr& group, TimePoint now) = 0;
};

enum class PathState : std::uint8_t { kReady, kPending, kFailed };

/// The paths that sending needs in addition to the link-layer address. Users are neighbours, named
/// by their address. NeighbourCache::on_path reports the outcome to a user that got kPending, and
/// every later change.
class NeighbourPaths {
 public:
  virtual ~NeighbourPaths() = default;
  virtual PathState acquire(const wire::IpAddr& user, const wire::HwAddr& hw, TimePoint now) = 0;
  /// `user` has the path, and its link-layer address is now another interface at the same port.
  virtual void moved(const wire::IpAddr& /*user*/, const wire::HwAddr& /*from*/,
                     const wire::HwAddr& /*to*/, TimePoint /*now*/) {}
  /// This node sends to the neighbour or has routes through it. Paths of which only other hosts have
  /// spoken become ready later, and give way first if there are too many.
  virtual void asked_for(const wire::HwAddr& /*hw*/) {}
  /// Precondition: no installed entry of `user` uses the path any more.
  virtual void release(const wire::IpAddr& user, const wire::HwAddr& hw) = 0;
  /// The path may have changed; the known values stay in use until the answer arrives.
  virtual void refresh(const wire::HwAddr& hw, TimePoint now) = 0;
  /// A user of the path has answered a message of this node.
  virtual void answered(const wire::HwAddr& /*hw*/, TimePoint /*now*/) {}
  [[nodiscard]] virtual PathState state(const wire::HwAddr& hw) const = 0;
  [[nodiscard]] virtual table::NeighbourMode mode() const = 0;
  /// Fills in the values that sending needs (MTU and addresses). Precondition: the path is kReady.
  virtual void describe(const wire::HwAddr& hw, table::Neighbour& out) const = 0;
  virtual void describe(const wire::HwAddr& hw, NeighbourInfo& out) const = 0;
};

}  // namespace ipoib::link
