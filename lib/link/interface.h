// SPDX-License-Identifier: BSD-3-Clause
// The control face of an interface, IPoIB link or Ethernet port, and what such a state machine
// needs from its surroundings. The program's surroundings are lib/mgmt; a test's are a simulated
// fabric in virtual time.
#pragma once

#include <array>
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
#include "lib/fabric/types.h"
#include "lib/link/ip6_types.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {

/// A packet that waits for its neighbour: an mbuf in the program, a number in a simulation.
/// Whoever holds it must give it back through release() or drop() exactly once.
using HeldPacket = std::uintptr_t;

/// Where the neighbour tables of all interfaces are installed and packets are let go.
/// Implemented by lib/mgmt and by tests.
class NeighbourSink {
 public:
  virtual ~NeighbourSink() = default;
  /// A number no other neighbour of any interface has; kNoResources when the tables are full.
  virtual Result<table::NeighbourIndex> allocate_index() = 0;
  /// Withdraws the entry from every worker; the number is used again once none can name it.
  virtual void remove(table::NeighbourIndex index) = 0;
  /// Installs or replaces the entry on every worker.
  virtual void install(table::NeighbourIndex index, const table::Neighbour& neighbour) = 0;
  /// When any worker last sent through the entry; TimePoint::min(): none has.
  [[nodiscard]] virtual TimePoint last_used(table::NeighbourIndex index) const = 0;
  /// Sends a held packet on, through the (now valid) entry.
  virtual void release(HeldPacket packet) = 0;
  /// The node holds more than it has buffers for, with this packet, which was handed over a moment
  /// ago: some are to be given up, or this one.
  [[nodiscard]] virtual bool crowded(HeldPacket packet) const {
    static_cast<void>(packet);
    return false;
  }
  /// Gives up a held packet; where `unreachable`, its sender is told (ICMP host unreachable).
  virtual void drop(HeldPacket packet, Drop reason, bool unreachable) = 0;
};

/// What an interface receives for this node. Implemented by lib/mgmt and by tests.
class AddressSink {
 public:
  virtual ~AddressSink() = default;
  /// Packets to `addr` (group or link-local unicast) that come by `iface` are this node's.
  virtual void listen(table::InterfaceId iface, const wire::IpAddr& addr) = 0;
  /// No longer.
  virtual void unlisten(table::InterfaceId iface, const wire::IpAddr& addr) = 0;
  /// A unicast address became usable (IPv4: at once; IPv6: after duplicate address detection).
  virtual void address_ready(table::InterfaceId iface, const wire::IpPrefix& address) = 0;
  /// No longer.
  virtual void address_gone(table::InterfaceId iface, const wire::IpPrefix& address) = 0;
  /// A router told of a better next hop (ICMPv6 Redirect): `to` is reached through `via` on
  /// `iface`; `via` == `to`: it is on the link.
  virtual void redirect(table::InterfaceId iface, const wire::IpAddr& to,
                        const wire::IpAddr& via) = 0;
  /// A default router advertised itself (only where they are accepted) / is one no longer.
  virtual void default_router(table::InterfaceId iface, const wire::IpAddr& router, bool usable) {
    static_cast<void>(iface), static_cast<void>(router), static_cast<void>(usable);
  }
  /// A neighbour does not answer: what routers told of ways through it holds no longer (only where
  /// they are accepted).
  virtual void neighbour_failed(table::InterfaceId iface, const wire::IpAddr& addr) {
    static_cast<void>(iface), static_cast<void>(addr);
  }
};
/// Tells nobody.
[[nodiscard]] AddressSink& no_address_sink();

enum class State : std::uint8_t { kDown, kWaiting, kJoining, kUp, kStopping, kStopped };
[[nodiscard]] std::string_view to_string(State state);

enum class NeighbourPhase : std::uint8_t {
  kIncomplete,  ///< ARP request out.
  kPath,        ///< Address known, PathRecord query out.
  kReachable,
  kStale,   ///< In use, confirmation due.
  kProbe,   ///< Unicast probe out; packets still flow.
  kFailed,  ///< Negative cache.
  kStatic,
};
[[nodiscard]] std::string_view to_string(NeighbourPhase phase);
/// How many neighbours there are of each phase.
using NeighbourPhases = std::array<std::size_t, 7>;
static_assert(NeighbourPhases{}.size() == static_cast<std::size_t>(NeighbourPhase::kStatic) + 1);

/// One row of `show neigh`.
struct NeighbourInfo {
  wire::IpAddr addr;
  std::string iface;
  std::string lladdr;  ///< Empty while unknown.
  NeighbourPhase phase = NeighbourPhase::kIncomplete;
  table::NeighbourIndex index = table::kNoNeighbour;
  std::uint32_t qpn = 0;  ///< IPoIB.
  std::uint16_t lid = 0;  ///< IPoIB.
  std::uint8_t sl = 0;
  std::uint8_t rate = 0;  ///< Code; IPoIB.
  std::uint16_t mtu = 0;
  table::NeighbourMode mode = table::NeighbourMode::kUd;  ///< How packets go there now.
  std::size_t held = 0;                                   ///< Packets waiting.
  Duration age{};                                         ///< Since the last confirmation.
};

/// One row of `show group`: an IP multicast group on an interface.
struct GroupInfo {
  wire::IpAddr group;
  std::string iface;
  std::string lladdr;           ///< MGID or MAC.
  std::uint16_t mlid = 0;       ///< IPoIB; 0: none.
  unsigned joins = 0;           ///< How many times this node listens; 0: it only sends.
  std::string_view state;       ///< "member", "joining", "absent" …; static storage.
  std::uint8_t join_state = 0;  ///< IPoIB: bits this port has (wire::join_state).
  bool sending = false;         ///< Packets were sent to it lately.
  bool routed = false;          ///< Received as a multicast router.
  std::size_t held = 0;         ///< Packets waiting.
  std::string reason{};         ///< Latest failure; empty when all is well.
  Duration age{};               ///< Since this node first had to do with it.
};

/// Timers and limits of neighbour resolution (RFC 1122 §2.3.2, RFC 4861 §10 in spirit).
struct NeighbourConfig {
  Duration retransmit = std::chrono::seconds(1);   ///< Between ARP requests.
  unsigned max_requests = 3;                       ///< Broadcast requests before failing.
  unsigned max_probes = 3;                         ///< Unicast probes before broadcasting again.
  Duration reachable = std::chrono::seconds(30);   ///< Confirmation holds this long (+-50 %).
  Duration probe_delay = std::chrono::seconds(1);  ///< Used stale entry is probed after this.
  Duration negative = std::chrono::seconds(3);     ///< A failed entry answers "failed" this long.
  Duration idle = std::chrono::seconds(300);       ///< An entry unused this long is forgotten.
  std::size_t max_held_per_neighbour = 16;
  std::size_t max_held = 2048;  ///< Over all neighbours of the interface.
  Duration max_held_age = std::chrono::seconds(3);
  std::size_t max_entries = 65536;
};

/// Where IP multicast groups are joined.
class GroupMember {
 public:
  virtual ~GroupMember() = default;
  /// This node listens to the group; counted, so that each join needs its leave. Errors:
  /// kInvalidArgument, it is no group or does not map.
  virtual Status join_group(const wire::IpAddr& group, TimePoint now) = 0;
  /// Errors: kNotFound, nobody here listens to it.
  virtual Status leave_group(const wire::IpAddr& group, TimePoint now) = 0;
};

/// Every IPv4 link carries packets of so many octets. Source: RFC 791 §3.2.
inline constexpr std::uint16_t kMinMtu = 68;

/// What both kinds of interface offer. Management lcore only.
class Interface : public GroupMember {
 public:
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual table::InterfaceId id() const = 0;
  [[nodiscard]] virtual State state() const = 0;
  /// One line: why it is not up; empty when it is.
  [[nodiscard]] virtual std::string reason() const = 0;
  /// Largest IP packet it carries; 0 while unknown.
  [[nodiscard]] virtual std::uint16_t mtu() const = 0;
  /// As configured.
  [[nodiscard]] virtual const std::vector<wire::IpPrefix>& addresses() const = 0;
  /// IPv6 addresses, the link-local one too, and what became of each.
  [[nodiscard]] virtual std::vector<AddressInfo> addresses6() const = 0;
  /// Largest IPv6 packet; 0 where IPv6 does not run: reason6() says why.
  [[nodiscard]] virtual std::uint16_t mtu6() const = 0;
  [[nodiscard]] virtual const std::string& reason6() const = 0;

  /// IP packets are at most this long from now on; octets. Neighbours and hosts are told. Errors:
  /// kInvalidArgument, less than IPv4 needs or more than the interface carries.
  virtual Status set_mtu(std::uint16_t mtu, TimePoint now) = 0;

  virtual void start(TimePoint now) = 0;
  /// Begins an orderly end (memberships left, neighbours withdrawn); finished at State::kStopped.
  virtual void stop(TimePoint now) = 0;

  /// A worker has a packet for a neighbour or group it does not know. Takes over `packet`.
  virtual void on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) = 0;
  /// The neighbour a gateway route goes through; exists from here on until forget_gateway.
  virtual Result<table::NeighbourIndex> use_gateway(const wire::IpAddr& addr, TimePoint now) = 0;
  virtual void forget_gateway(const wire::IpAddr& addr) = 0;

  /// ARP octets from the ARP header on. `slid`, `src_qpn`: what the packet's headers said (0 on
  /// Ethernet).
  virtual void on_arp(std::span<const std::byte> arp, std::uint16_t slid, std::uint32_t src_qpn,
                      TimePoint now) = 0;
  /// ICMPv6 neighbour discovery octets from the IPv6 header on, length and hop limit 255 checked;
  /// the ICMPv6 checksum is checked here.
  virtual void on_nd(std::span<const std::byte> packet, TimePoint now) = 0;
  /// The packet (octets from the IPv6 header on) left by the interface it came by, towards
  /// `next_hop`: its sender is told, where that is allowed. The caller limits the rate.
  virtual void send_redirect(std::span<const std::byte> packet, const wire::IpAddr& next_hop,
                             TimePoint now) = 0;

  [[nodiscard]] virtual std::vector<GroupInfo> groups(TimePoint now) const = 0;

  virtual void tick(TimePoint now) = 0;
  [[nodiscard]] virtual std::optional<TimePoint> next_deadline() const = 0;

  /// In order. Many thousands are shown some at a time.
  [[nodiscard]] virtual std::vector<wire::IpAddr> neighbour_addresses() const = 0;
  [[nodiscard]] virtual std::optional<NeighbourInfo> neighbour(const wire::IpAddr& addr,
                                                               TimePoint now) const = 0;
  /// All of them, in the order of their addresses.
  [[nodiscard]] std::vector<NeighbourInfo> neighbours(TimePoint now) const;
  [[nodiscard]] virtual NeighbourPhases neighbour_phases() const = 0;
  /// Entry that never changes by itself. `lladdr`: 20 octets (IPoIB) or 6 (Ethernet) as text;
  /// `lid`, `sl`: IPoIB path known beforehand, else (lid 0) asked of the SA.
  virtual Status add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                            std::uint8_t sl, TimePoint now) = 0;
  virtual Status remove_neighbour(const wire::IpAddr& addr) = 0;
  /// Forgets every entry that is not static.
  virtual void flush(TimePoint now) = 0;
};

}  // namespace ipoib::link
