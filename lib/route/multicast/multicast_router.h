// SPDX-License-Identifier: BSD-3-Clause
// The control plane of the multicast router: membership of every link in both families, and the
// table that computes deliveries from it. Interface for lib/mgmt.
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
#include "lib/route/multicast/multicast_membership.h"
#include "lib/route/multicast/multicast_table.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Sends packets on links. Implemented by lib/mgmt (msg::Down kSendOnInterface) and by tests.
class MulticastSender {
 public:
  virtual ~MulticastSender() = default;
  /// Sends a whole IP packet to its group; TTL or hop limit stays.
  virtual void send(table::InterfaceId iface, std::vector<std::byte> packet) = 0;
};

class MulticastRouter final : private MembershipSink {
 public:
  /// `sender` and `deliveries` must outlive this object.
  MulticastRouter(const MulticastTableConfig& config, MulticastSender& sender,
                  DeliverySink& deliveries);

  /// Makes the interface a multicast router's. Before its first packet arrives, the interface
  /// should have joined router_groups(). kExists: it is one; kInvalidArgument: it has no bit in a
  /// delivery.
  Status add_interface(table::InterfaceId iface, const MembershipConfig& config, TimePoint now);
  /// Forgets members, listeners and static routes of the interface.
  void remove_interface(table::InterfaceId iface, TimePoint now);

  /// Destinations of membership messages to routers: 224.0.0.2, 224.0.0.22, ff02::2, ff02::16.
  /// (Reports of versions 1 and 2 go to the group itself: workers must punt IGMP, and IPv6 with a
  /// router alert, to any group.)
  [[nodiscard]] static std::array<wire::IpAddr, 4> router_groups();

  /// An address of the interface became usable / unusable. Queries are sent from the lowest IPv4
  /// address and the lowest link-local IPv6 address; others are ignored.
  void address_ready(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);
  void address_removed(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);
  /// The link went down: its members are forgotten, and no queries are sent until it is up.
  void link_down(table::InterfaceId iface, TimePoint now);
  void link_up(table::InterfaceId iface, TimePoint now);

  /// Handles a packet to any group, from its IP header on. True: it was IGMP or MLD and is not for
  /// other receivers. On interfaces that are not a multicast router's, IGMP and MLD are ignored.
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

 private:
  struct Interface {
    Interface(table::InterfaceId id, const MembershipConfig& config, MembershipSink& sink)
        : families{MulticastMembership{id, IpFamily::kIpv4, config, sink},
                   MulticastMembership{id, IpFamily::kIpv6, config, sink}} {}

    bool up = true;
    std::array<std::set<wire::IpAddr>, 2> addresses{};
    std::array<MulticastMembership, 2> families;  ///< Indexed by IpFamily.
  };

  void send(table::InterfaceId iface, std::vector<std::byte> packet) override;
  void on_filter_change(table::InterfaceId iface, const wire::IpAddr& group,
                        const GroupFilter& filter, TimePoint now) override;
  static void use_addresses(Interface& interface, TimePoint now);

  MulticastSender& sender_;
  MulticastTable table_;
  std::map<table::InterfaceId, Interface> interfaces_;
};

}  // namespace ipoib::route
