// SPDX-License-Identifier: BSD-3-Clause
// The control interface of an IPoIB link or Ethernet port, and the interfaces through which its
// state machine reaches its surroundings: lib/mgmt in the program, a simulated fabric in virtual
// time in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/drop.h"
#include "lib/base/result.h"
#include "lib/link/interface_config.h"
#include "lib/link/link_info.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {

/// A packet that waits for its neighbour: an mbuf in the program, a number in a simulation. Its
/// holder must give it back through release() or drop() exactly once.
using HeldPacket = std::uintptr_t;

/// Says if a held packet can wait, and if not, which packets must make room for it.
enum class Crowded : std::uint8_t {
  kNo,
  kBySender,  ///< Its sender has more than its share: packets of other senders make no room.
  kByAll,
};

/// The sender of a packet that waits for its neighbour.
struct PacketSender {
  wire::IpAddr addr{};     ///< IP source.
  std::uint32_t link = 0;  ///< Digest of the link-layer address that sent it on the ingress link.
  bool neighbour = false;  ///< It is a neighbour that this node needs, at that link-layer address.
};

/// Receives the neighbour entries and the held packets of all interfaces. Implemented by lib/mgmt
/// and by tests.
class NeighbourSink {
 public:
  virtual ~NeighbourSink() = default;
  /// Returns a number that no other neighbour of any interface has; kNoResources when the tables
  /// are full.
  virtual Result<table::NeighbourIndex> allocate_index() = 0;
  /// Withdraws the entry from every worker. The number is reused after its retirement.
  virtual void remove(table::NeighbourIndex index) = 0;
  /// Installs or replaces the entry on every worker.
  virtual void install(table::NeighbourIndex index, const table::Neighbour& neighbour) = 0;
  /// The latest time at which a worker sent through the entry; TimePoint::min(): never.
  [[nodiscard]] virtual TimePoint last_used(table::NeighbourIndex index) const = 0;
  /// Sends a held packet through the (now valid) entry.
  virtual void release(HeldPacket packet) = 0;
  /// Says if the node holds more packets than it has buffers for, including this one, which was
  /// just handed over. The caller must then drop some held packets, or this one.
  [[nodiscard]] virtual Crowded crowded(HeldPacket packet) const = 0;
  /// The IP source address of a held packet.
  [[nodiscard]] virtual wire::IpAddr source_of(HeldPacket packet) const = 0;
  [[nodiscard]] virtual PacketSender sender_of(HeldPacket packet) const = 0;
  /// Drops a held packet. `unreachable`: its sender gets an ICMP host unreachable.
  virtual void drop(HeldPacket packet, Drop reason, bool unreachable) = 0;
};

/// Learns the addresses that an interface receives for this node. Implemented by lib/mgmt and by
/// tests.
class AddressSink {
 public:
  virtual ~AddressSink() = default;
  /// Packets to `addr` (group or link-local unicast) that arrive on `iface` are for this node.
  virtual void listen(table::InterfaceId iface, const wire::IpAddr& addr) = 0;
  /// Reverts listen().
  virtual void unlisten(table::InterfaceId iface, const wire::IpAddr& addr) = 0;
  /// The interface has a unicast address from here on, though it may not use it yet. The addresses
  /// that it is configured with are not reported here. Errors: kExists, another interface has the
  /// address or its network; kNoResources. It does not get the address then.
  virtual Status address_assigned(table::InterfaceId iface, const wire::IpPrefix& address) = 0;
  /// The interface does not have the address any more, and does not use it: another host may have it.
  virtual void address_released(table::InterfaceId iface, const wire::IpPrefix& address) = 0;
  /// A unicast address became usable (IPv4: at once; IPv6: after duplicate address detection).
  virtual void address_ready(table::InterfaceId iface, const wire::IpPrefix& address) = 0;
  /// Reverts address_ready().
  virtual void address_removed(table::InterfaceId iface, const wire::IpPrefix& address) = 0;
  /// Another host has an IPv6 address that was never ready: it is not this node's.
  virtual void address_duplicate(table::InterfaceId iface, const wire::IpPrefix& address) = 0;
  /// A router reported a better next hop (ICMPv6 Redirect): `to` is reached through `via` on
  /// `iface`; `via` == `to`: it is on the link.
  virtual void redirect(table::InterfaceId iface, const wire::IpAddr& to,
                        const wire::IpAddr& via) = 0;
  /// A default router advertised itself (only if router advertisements are accepted), or no longer
  /// is one.
  virtual void default_router(table::InterfaceId iface, const wire::IpAddr& router,
                              bool usable) = 0;
  /// Packets to the host go to this interface, of those that share its subnet. Returns false if there
  /// is no room for its route.
  virtual bool host_located(table::InterfaceId /*iface*/, const wire::IpAddr& /*addr*/) {
    return true;
  }
  /// Reverts host_located().
  virtual void host_lost(table::InterfaceId /*iface*/, const wire::IpAddr& /*addr*/) {}
  /// A neighbour does not answer: information of routers about paths through it is no longer valid
  /// (only if router advertisements are accepted).
  virtual void neighbour_failed(table::InterfaceId iface, const wire::IpAddr& addr) = 0;
};
/// A sink that ignores all calls.
[[nodiscard]] AddressSink& no_address_sink();

class IpStack;
class SubnetProxy;

/// The way in which an interface begins to use an address that it gets while it runs.
struct AddressOptions {
  /// IPv6: after duplicate address detection, now and whenever the interface comes up. Without it at
  /// once: for an address that moves between routers, whose former owner may not know it yet.
  bool detect_duplicates = true;
};

/// Number of addresses of an interface, without the link-local one that it makes itself.
inline constexpr std::size_t kMaxAddresses = 128;

/// The functions that links and ports have in common. Those of the IP stack are the same for both.
/// Management lcore only.
class Interface {
 public:
  virtual ~Interface() = default;
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] table::InterfaceId id() const;
  [[nodiscard]] virtual State state() const = 0;
  /// The reason why it is not up, in one line; empty when it is up.
  [[nodiscard]] virtual std::string reason() const = 0;
  /// Largest IP packet; 0 while unknown.
  [[nodiscard]] virtual std::uint16_t mtu() const = 0;
  /// The configured addresses, one obtained by RARP, and those of add_address(), in the order in which
  /// it got them.
  [[nodiscard]] const std::vector<wire::IpPrefix>& addresses() const;
  /// True if it is an own address that the interface shares with interfaces of other nodes: the source
  /// of answers for it only.
  [[nodiscard]] bool is_shared(const wire::IpAddr& addr) const;
  /// IPv6 addresses with their state, including the link-local one.
  [[nodiscard]] std::vector<AddressInfo> addresses6() const;
  /// Largest IPv6 packet; 0 if IPv6 does not run (see reason6()).
  [[nodiscard]] std::uint16_t mtu6() const;
  [[nodiscard]] const std::string& reason6() const;

  /// Limits IP packets to `mtu` octets and announces that to neighbours and hosts. Errors:
  /// kInvalidArgument, less than IPv4 needs or more than the interface carries.
  virtual Status set_mtu(std::uint16_t mtu, TimePoint now) = 0;

  /// Gives the interface one more address. If it is up, it announces the address to all hosts; IPv4
  /// at once and IPv6 when the address is ready: hosts may know another owner of it. If it is not, it
  /// begins to use the address when it comes up. Must not be called by an AddressSink. Errors:
  /// kInvalidArgument, no address of one host, or a broadcast address here; kExists, an own address of
  /// this or another interface, a static neighbour, or a network of another interface; kNoResources,
  /// kMaxAddresses or no room for its routes; kRefused, the interface is configured
  /// without IPv6, or without IPv4.
  Status add_address(const wire::IpPrefix& address, const AddressOptions& options, TimePoint now);
  /// Takes an address away. With the last one of a network the neighbours there are forgotten, except
  /// static ones; gateways of routes are asked for again. Must not be called by an AddressSink. Errors: kNotFound;
  /// kRefused, it was obtained by RARP.
  Status remove_address(const wire::IpPrefix& address, TimePoint now);

  virtual void start(TimePoint now) = 0;
  /// Begins an orderly end (memberships left, neighbours withdrawn), which is complete at
  /// State::kStopped.
  virtual void stop(TimePoint now) = 0;

  /// A worker has a packet for an unknown neighbour or group. Takes over `packet`.
  virtual void on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) = 0;
  /// Returns the neighbour of a gateway route; it exists until forget_gateway().
  Result<table::NeighbourIndex> use_gateway(const wire::IpAddr& addr, TimePoint now);
  void forget_gateway(const wire::IpAddr& addr);
  /// True if `addr` did not answer the last requests, or has no path.
  [[nodiscard]] bool has_failed(const wire::IpAddr& addr) const;

  /// ARP octets from the ARP header on. `slid`, `src_qpn`: from the packet's headers (0 on
  /// Ethernet).
  virtual void on_arp(std::span<const std::byte> arp, std::uint16_t slid, std::uint32_t src_qpn,
                      TimePoint now) = 0;
  /// ICMPv6 neighbour discovery octets from the IPv6 header on. Length and hop limit 255 are
  /// checked already; the ICMPv6 checksum is checked here. `slid`: as for on_arp().
  virtual void on_nd(std::span<const std::byte> packet, std::uint16_t slid, TimePoint now) = 0;
  /// A packet of VRRP, from its IPv4 or IPv6 header on. `from`, `src_qpn`: the sender of its frame, zero
  /// if unknown. Returns true if it was for this interface; otherwise it is for others to handle.
  virtual bool on_vrrp(std::span<const std::byte> /*packet*/, const wire::Gid& /*from*/,
                       std::uint32_t /*src_qpn*/, TimePoint /*now*/) {
    return false;
  }
  /// The packet (octets from the IPv6 header on) was sent on its ingress interface, towards
  /// `next_hop`. Sends a redirect to its sender if that is allowed. The caller limits the rate.
  void send_redirect(std::span<const std::byte> packet, const wire::IpAddr& next_hop,
                     TimePoint now);

  /// IPv6 hosts learn that this node is a default router, or is none for now (lifetime 0 in its
  /// advertisements, RFC 4861 §6.2.5). It stays so when the interface goes down and up.
  void set_default_router(bool on, TimePoint now);
  /// True if it sends router advertisements now.
  [[nodiscard]] bool advertises_router() const;

  /// Joins an IP multicast group. Joins are counted: each needs its leave. Errors:
  /// kInvalidArgument, `group` is no group or cannot be mapped.
  virtual Status join_group(const wire::IpAddr& group, TimePoint now) = 0;
  /// Errors: kNotFound, this node has not joined the group.
  virtual Status leave_group(const wire::IpAddr& group, TimePoint now) = 0;
  /// Receives the groups of the prefix, to route their packets: on a link they are joined as a
  /// NonMember while they exist (RFC 4391 §11), and a port of a multicast router receives all.
  /// Counted: each call needs its unroute_groups().
  virtual void route_groups(const wire::IpPrefix& /*groups*/, TimePoint /*now*/) {}
  virtual void unroute_groups(const wire::IpPrefix& /*groups*/, TimePoint /*now*/) {}
  [[nodiscard]] virtual std::vector<GroupInfo> groups(TimePoint now) const = 0;

  virtual void tick(TimePoint now) = 0;
  [[nodiscard]] virtual std::optional<TimePoint> next_deadline() const = 0;

  /// In order of address. The CLI shows many thousands in portions.
  [[nodiscard]] std::vector<wire::IpAddr> neighbour_addresses() const;
  [[nodiscard]] std::optional<NeighbourInfo> neighbour(const wire::IpAddr& addr,
                                                       TimePoint now) const;
  /// All neighbours in the order of their addresses.
  [[nodiscard]] std::vector<NeighbourInfo> neighbours(TimePoint now) const;
  [[nodiscard]] NeighbourPhases neighbour_phases() const;
  /// Adds an entry that never changes by itself. `lladdr`: 20 octets (IPoIB) or 6 (Ethernet) as
  /// text; `lid`, `sl`: the IPoIB path if it is known, else (lid 0) the SA is queried.
  virtual Status add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                            std::uint8_t sl, TimePoint now) = 0;
  virtual Status remove_neighbour(const wire::IpAddr& addr);
  /// Makes it a side of the proxy, which outlives it. Call before start().
  void share_subnets(SubnetProxy& proxy);
  /// True if hosts of the address's subnet may be on other interfaces.
  [[nodiscard]] bool shares_subnet(const wire::IpAddr& addr) const;
  /// Forgets all entries except static ones.
  void flush();

 protected:
  /// `ip`: the stack of this interface, which the derived class owns. It is only kept here.
  explicit Interface(IpStack& ip) : ip_{ip} {}

  IpStack& ip_;
};

}  // namespace ipoib::link
