// SPDX-License-Identifier: BSD-3-Clause
// The control plane of multicast: membership of the hosts of every link in both families, the table
// that computes deliveries from it, and the reports of this node's own groups. Interface for
// lib/mgmt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/route/multicast/group_reporter.h"
#include "lib/route/multicast/multicast_membership.h"
#include "lib/route/multicast/multicast_sender.h"
#include "lib/route/multicast/multicast_table.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

class MulticastRouter final : private MembershipSink {
 public:
  /// `sender` and `deliveries` must outlive this object. `seed`: seed of the delays of reports.
  MulticastRouter(const MulticastTableConfig& config, MulticastSender& sender,
                  DeliverySink& deliveries, std::uint64_t seed = 0);

  /// Makes the interface a multicast router's. Before its first packet arrives, the interface
  /// should have joined router_groups(). kExists: it is one; kInvalidArgument: it has no bit in a
  /// delivery.
  Status add_interface(table::InterfaceId iface, const MembershipConfig& config, TimePoint now);
  /// Forgets members, listeners, static routes and own groups of the interface.
  void remove_interface(table::InterfaceId iface, TimePoint now);

  /// Destinations of membership messages to routers: 224.0.0.2, 224.0.0.22, ff02::2, ff02::16.
  /// (Reports of versions 1 and 2 go to the group itself: workers must punt IGMP, and IPv6 with a
  /// router alert, to any group.)
  [[nodiscard]] static std::array<wire::IpAddr, 4> router_groups();

  /// An address of the interface became usable / unusable. Queries are sent from the lowest IPv4
  /// address and the lowest link-local IPv6 address; others are ignored.
  void address_ready(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);
  void address_removed(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);
  /// Sets the IPv4 networks of the interface. IGMP from other sources is ignored (RFC 3376 §9.1,
  /// §9.2), except from 0.0.0.0. None, or networks of one address only: all sources are heard.
  void set_networks(table::InterfaceId iface, const std::vector<wire::IpPrefix>& networks);
  /// The link went down: its members are forgotten, and no queries and reports are sent until it is
  /// up. An interface is up from add_interface() on; one that is no multicast router's is down.
  void link_down(table::InterfaceId iface, TimePoint now);
  void link_up(table::InterfaceId iface, TimePoint now);

  /// MulticastTable::listen(); the group is also reported to the routers of the link.
  Status listen(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);
  void unlisten(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);
  /// Adds or removes a static multicast route. A route to one group makes this node a member on the
  /// incoming link: the group is reported to its routers. Errors: see MulticastTable.
  Status add_static(const StaticMulticastRoute& route, TimePoint now);
  Status remove_static(const StaticMulticastRoute& route, TimePoint now);

  /// Handles a packet to any group, from its IP header on. True: it was IGMP or MLD and is not for
  /// other receivers. On interfaces that are not a multicast router's, only queries matter.
  bool on_packet(table::InterfaceId iface, std::span<const std::byte> packet, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// Gives access to listeners, static routes, packets seen and rows. Only this class sets the
  /// roles of interfaces and the filters.
  [[nodiscard]] MulticastTable& table() { return table_; }
  [[nodiscard]] const MulticastTable& table() const { return table_; }
  /// nullptr if the interface is not a multicast router's.
  [[nodiscard]] const MulticastMembership* membership(table::InterfaceId iface,
                                                      IpFamily family) const;
  /// nullptr if the interface has no address and no group.
  [[nodiscard]] const GroupReporter* reporter(table::InterfaceId iface, IpFamily family) const;
  /// Number of IGMP messages from sources that are not on the link.
  [[nodiscard]] std::uint64_t foreign_messages(table::InterfaceId iface) const;

 private:
  /// Arrays are indexed by IpFamily.
  struct Interface {
    Interface(table::InterfaceId id, std::uint64_t seed, MulticastSender& sender)
        : reporters{GroupReporter{id, IpFamily::kIpv4, seed, sender},
                    GroupReporter{id, IpFamily::kIpv6, seed + 1, sender}} {}

    bool up = false;
    std::array<std::set<wire::IpAddr>, 2> addresses{};
    std::array<GroupReporter, 2> reporters;
    std::map<wire::IpAddr, unsigned> listeners{};  ///< Groups of listen().
    std::vector<wire::IpPrefix> networks{};        ///< IPv4.
    std::uint64_t foreign = 0;                     ///< Messages from elsewhere.
    /// Empty if the interface is not a multicast router's.
    std::unique_ptr<std::array<MulticastMembership, 2>> families{};
  };

  void send(table::InterfaceId iface, std::vector<std::byte> packet, TimePoint now) override;
  void on_filter_change(table::InterfaceId iface, const wire::IpAddr& group,
                        const GroupFilter& filter, TimePoint now) override;
  void on_forwarder_change(table::InterfaceId iface, IpFamily family, Forwarder forwarder,
                           TimePoint now) override;
  static void use_addresses(Interface& interface, TimePoint now);
  [[nodiscard]] static bool is_foreign(const Interface& interface,
                                       std::span<const std::byte> packet);
  Interface& interface_of(table::InterfaceId iface);
  void report(table::InterfaceId iface, const wire::IpAddr& group, TimePoint now);
  void answer_query(table::InterfaceId iface, IpFamily family, std::span<const std::byte> packet,
                    TimePoint now);

  MulticastSender& sender_;
  const std::uint64_t seed_;
  MulticastTable table_;
  std::map<table::InterfaceId, Interface> interfaces_;
};

}  // namespace ipoib::route
