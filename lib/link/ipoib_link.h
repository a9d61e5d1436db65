// SPDX-License-Identifier: BSD-3-Clause
// One IPoIB link: bring-up through the SA, ARP, ND, groups, paths, neighbours. Source: RFC 4391.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/link/arp_agent.h"
#include "lib/link/broadcast_membership.h"
#include "lib/link/connections.h"
#include "lib/link/group_table.h"
#include "lib/link/interface.h"
#include "lib/link/ipoib_types.h"
#include "lib/link/nd_agent.h"
#include "lib/link/neighbour_cache.h"
#include "lib/link/own_groups.h"
#include "lib/link/path_table.h"
#include "lib/link/trap_subscription.h"
#include "lib/sa/client.h"
#include "lib/wire/notice.h"

namespace ipoib::link {

/// Down until the broadcast group is joined and its parameters suit the port. Once up, resolved
/// neighbours stay usable while a membership that the SA lost is joined again (kJoining).
/// References given to the constructor must outlive the link. stop() must be called before its end,
/// or held packets and address handles leak.
class IpoibLink final : public Interface,
                        private ArpTransport<wire::LinkAddr>,
                        private NdTransport<wire::LinkAddr>,
                        private MembershipOwner {
 public:
  /// Additional references for connected mode.
  struct Connected {
    ConnectionActions& actions;
    cm::Manager& manager;
  };

  /// `seed`: seed of the jitter of its timers. Without `connected` the link is UD only, regardless
  /// of LinkConfig::connected.
  IpoibLink(LinkConfig config, LinkActions& actions, NeighbourSink& sink, sa::Client& sa,
            std::uint64_t seed, AddressSink& receiver = no_address_sink(),
            std::optional<Connected> connected = std::nullopt);

  [[nodiscard]] const std::string& name() const override { return config_.name; }
  [[nodiscard]] table::InterfaceId id() const override { return config_.id; }
  [[nodiscard]] State state() const override { return state_; }
  [[nodiscard]] std::string reason() const override;
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }
  [[nodiscard]] const std::vector<wire::IpPrefix>& addresses() const override {
    return config_.addresses;
  }
  [[nodiscard]] std::vector<AddressInfo> addresses6() const override { return nd_.list(); }
  [[nodiscard]] std::uint16_t mtu6() const override { return nd_.mtu(); }
  [[nodiscard]] const std::string& reason6() const override { return nd_.reason(); }

  Status set_mtu(std::uint16_t mtu, TimePoint now) override;

  void start(TimePoint now) override;
  /// Withdraws everything at once, including static entries; gateways stay until forgotten, but
  /// lose their data. Then leaves the groups.
  void stop(TimePoint now) override;

  void on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) override;
  Result<table::NeighbourIndex> use_gateway(const wire::IpAddr& addr, TimePoint now) override;
  void forget_gateway(const wire::IpAddr& addr) override { cache_.forget_gateway(addr); }
  [[nodiscard]] bool has_failed(const wire::IpAddr& addr) const override {
    return cache_.has_failed(addr);
  }
  void on_arp(std::span<const std::byte> arp, std::uint16_t slid, std::uint32_t src_qpn,
              TimePoint now) override;
  void on_nd(std::span<const std::byte> packet, TimePoint now) override;
  void send_redirect(std::span<const std::byte> packet, const wire::IpAddr& next_hop,
                     TimePoint now) override {
    if (operational_) nd_.send_redirect(packet, next_hop, now);
  }
  Status join_group(const wire::IpAddr& group, TimePoint now) override;
  Status leave_group(const wire::IpAddr& group, TimePoint now) override;
  [[nodiscard]] std::vector<GroupInfo> groups(TimePoint now) const override {
    return groups_.list(now);
  }
  /// Handles a report of the SA to the port (sa::Client::set_report_handler): creation and deletion
  /// of groups.
  void on_report(const wire::Notice& notice, TimePoint now);
  /// Sends a packet of the link itself, from its IPv4 or IPv6 header on. It waits, bounded, for the
  /// lookup of the group, and is lost while the link is down. Returns true if it was sent, or if
  /// the group does not exist.
  bool send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                     TimePoint now) override;
  /// The port changed. Memberships and paths are confirmed, spread in time, while neighbours stay
  /// usable. A link that waits tries at once; a link that lost its P_Key is withdrawn.
  void on_port_event(fabric::PortEvent event, TimePoint now);

  void tick(TimePoint now) override;
  [[nodiscard]] std::optional<TimePoint> next_deadline() const override;

  [[nodiscard]] std::vector<wire::IpAddr> neighbour_addresses() const override {
    return cache_.addresses();
  }
  [[nodiscard]] std::optional<NeighbourInfo> neighbour(const wire::IpAddr& addr,
                                                       TimePoint now) const override {
    return cache_.info(addr, now);
  }
  [[nodiscard]] NeighbourPhases neighbour_phases() const override { return cache_.phases(); }
  Status add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                    std::uint8_t sl, TimePoint now) override;
  Status remove_neighbour(const wire::IpAddr& addr) override;
  void flush(TimePoint) override { cache_.flush(); }

  /// Null: the link is UD only.
  [[nodiscard]] Connections* connections() { return connections_.get(); }
  [[nodiscard]] const Connections* connections() const { return connections_.get(); }

  [[nodiscard]] const LinkParameters& parameters() const { return parameters_; }
  [[nodiscard]] LinkCounters counters() const;
  /// Number of objects that the SA is queried for: groups, and paths to neighbours and answered
  /// hosts.
  [[nodiscard]] std::size_t sa_objects() const { return groups_.size() + paths_.size(); }

 private:
  struct StaticNeighbour {
    wire::LinkAddr hw;
    std::uint16_t lid;  ///< 0: query the SA.
    std::uint8_t sl;
  };

  // ArpTransport and NdTransport.
  [[nodiscard]] wire::LinkAddr own_hw() const override;
  void broadcast_arp(std::span<const std::byte> arp) override;
  void unicast_arp(const wire::LinkAddr& to, std::span<const std::byte> arp,
                   TimePoint now) override;
  void send_to(const wire::LinkAddr& to, std::span<const std::byte> packet, TimePoint now) override;
  // MembershipOwner.
  [[nodiscard]] Status may_join() const override;
  Status on_joined(const wire::McMemberRecord& record, TimePoint now) override;
  void on_membership_changed(TimePoint now) override;

  Status apply(const LinkParameters& next, TimePoint now);
  bool update_mtu();
  [[nodiscard]] bool has_pkey() const;
  void join_own_groups(TimePoint now);
  [[nodiscard]] std::unique_ptr<Connections> make_connections(
      const std::optional<Connected>& connected, std::uint64_t seed);
  /// The paths to neighbours: with connected mode Connections, else PathTable.
  [[nodiscard]] NeighbourPaths<wire::LinkAddr>& neighbour_paths();
  Status start_connections(TimePoint now);
  void withdraw(TimePoint now);
  void on_rarp_address(const wire::IpPrefix& own, TimePoint now);
  void suspend(TimePoint now);
  void finish_stop(TimePoint now);
  /// While stopping: the SA has answered everything except the leave of the broadcast group.
  [[nodiscard]] bool leaves_done() const { return groups_.left() && traps_.ended(); }
  void forget_broadcast_neighbours();
  Status pin_static(const wire::IpAddr& addr, const StaticNeighbour& entry, TimePoint now);
  void set_state(State state);
  void on_up(TimePoint now);
  void start_ip6(TimePoint now);
  /// Addresses of this node in the family of `addr`.
  [[nodiscard]] const std::vector<wire::IpPrefix>& own(const wire::IpAddr& addr) const {
    return addr.is_v4() ? config_.addresses : nd_.prefixes();
  }
  void unpin_unless_used(const wire::Gid& gid);

  LinkConfig config_;
  LinkActions& actions_;
  NeighbourSink& sink_;
  AddressSink& receiver_;
  LinkCounters counters_;
  LinkParameters parameters_;
  State state_ = State::kDown;
  std::uint16_t mtu_ = 0;
  /// Set by set_mtu(); empty: limited by the broadcast group only.
  std::optional<std::uint16_t> max_mtu_;
  bool operational_ = false;  ///< Parameters are applied: packets may be sent.
  std::optional<std::uint32_t> reported_qkey_;
  std::map<wire::IpAddr, StaticNeighbour> statics_;
  std::optional<TimePoint> stop_by_;
  bool groups_started_ = false;
  bool moved_ = false;    ///< The port has a new LID or GID, which is not announced yet.
  bool started_ = false;  ///< IPv4 addresses were reported to the AddressSink.
  ArpAgent<wire::LinkAddr> arp_;
  RarpAgent<wire::LinkAddr> rarp_;
  OwnGroups own_groups_;
  NdAgent<wire::LinkAddr> nd_;
  FamilySolicitor<wire::LinkAddr> solicitor_;
  PathTable paths_;
  std::unique_ptr<Connections> connections_;
  NeighbourCache<wire::LinkAddr> cache_;
  BroadcastMembership membership_;
  GroupTable groups_;
  TrapSubscription traps_;
};

}  // namespace ipoib::link
