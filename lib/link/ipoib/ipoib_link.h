// SPDX-License-Identifier: BSD-3-Clause
// One IPoIB link: bring-up through the SA, ARP, ND, groups, paths, neighbours. Source: RFC 4391.
// dialect.h has what links of another dialect do differently.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/link/interface.h"
#include "lib/link/ip/ip_stack.h"
#include "lib/link/ipoib/broadcast_membership.h"
#include "lib/link/ipoib/connected/connections.h"
#include "lib/link/ipoib/dialect.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/ipoib/link_groups.h"
#include "lib/link/ipoib/paths/path_table.h"
#include "lib/link/ipoib/paths/second_paths.h"
#include "lib/link/ipoib/port_sharing.h"
#include "lib/link/ipoib/queue_spread.h"
#include "lib/link/ipoib/shared/shared_gateway.h"
#include "lib/link/ipoib/trap_subscription.h"
#include "lib/link/medium.h"
#include "lib/sa/client.h"
#include "lib/wire/notice.h"

namespace ipoib::link {

/// Down until the broadcast group is joined and its parameters suit the port. Once up, resolved
/// neighbours stay usable while a membership that the SA lost is joined again (kJoining).
/// References given to the constructor must outlive the link. stop() must be called before its end,
/// or held packets and address handles leak.
class IpoibLink final : public Interface, private Medium, private MembershipOwner {
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

  [[nodiscard]] State state() const override { return state_; }
  [[nodiscard]] std::string reason() const override;
  [[nodiscard]] std::uint16_t mtu() const override { return mtu_; }
  Status set_mtu(std::uint16_t mtu, TimePoint now) override;

  void start(TimePoint now) override;
  /// Withdraws everything at once, including static entries; gateways stay until forgotten, but
  /// lose their data. Then leaves the groups.
  void stop(TimePoint now) override;

  void on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) override;
  void on_arp(std::span<const std::byte> arp, std::uint16_t slid, std::uint32_t src_qpn,
              TimePoint now) override;
  void on_nd(std::span<const std::byte> packet, std::uint16_t slid, TimePoint now) override;
  bool on_vrrp(std::span<const std::byte> packet, const wire::Gid& from, std::uint32_t src_qpn,
               TimePoint now) override {
    return shared_ && shared_->on_packet(packet, from, src_qpn, now);
  }
  Status join_group(const wire::IpAddr& group, TimePoint now) override;
  Status leave_group(const wire::IpAddr& group, TimePoint now) override;
  void route_groups(const wire::IpPrefix& groups, TimePoint now) override {
    groups_->route(groups, now);
  }
  void unroute_groups(const wire::IpPrefix& groups, TimePoint now) override {
    groups_->unroute(groups, now);
  }
  [[nodiscard]] std::vector<GroupInfo> groups(TimePoint now) const override {
    return groups_->list(now);
  }
  /// Handles a report of the SA to the port (sa::Client::set_report_handler): creation and deletion
  /// of groups.
  void on_report(const wire::Notice& notice, TimePoint now);
  /// Sends a packet of the link itself, from its IPv4 or IPv6 header on. It waits, bounded, for the
  /// lookup of the group, and is lost while the link is down. Returns true if it was sent, or if
  /// the group does not exist.
  bool send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                     TimePoint now) override;
  void limit_mtu6(std::uint16_t mtu) override { groups_->limit_mtu6(mtu); }
  /// The port changed. Memberships and paths are confirmed, spread in time, while neighbours stay
  /// usable. A link that waits tries at once; a link that lost its P_Key is withdrawn.
  void on_port_event(fabric::PortEvent event, TimePoint now);
  /// LinkActions::port_user() has changed, or was different for a while. The other user may have
  /// left groups of this link: they are joined again, now and a few times later, because its
  /// requests may still be under way.
  void on_port_user(TimePoint now);

  void tick(TimePoint now) override;
  [[nodiscard]] std::optional<TimePoint> next_deadline() const override;

  Status add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                    std::uint8_t sl, TimePoint now) override;
  Status remove_neighbour(const wire::IpAddr& addr) override;

  /// Null: the link is UD only.
  [[nodiscard]] Connections* connections() { return connections_.get(); }
  [[nodiscard]] const Connections* connections() const { return connections_.get(); }

  [[nodiscard]] bool shares_addresses() const { return shared_ != nullptr; }
  /// False: other nodes that share its addresses serve the hosts (SharedGroup::set_serving()).
  void set_serving(bool serving, TimePoint now) {
    if (shared_) shared_->set_serving(serving, now);
  }
  /// The groups of nodes that share addresses of the link; empty: it shares none.
  [[nodiscard]] std::vector<SharedGroupInfo> shared_groups(TimePoint now) const {
    return shared_ ? shared_->info(now) : std::vector<SharedGroupInfo>{};
  }

  [[nodiscard]] const LinkParameters& parameters() const { return parameters_; }
  [[nodiscard]] LinkCounters counters() const;
  /// Number of objects that the SA is queried for: groups, and paths to neighbours and answered
  /// hosts.
  [[nodiscard]] std::size_t sa_objects() const { return groups_->size() + paths_.size(); }
  /// Number of the queue pair that messages to the peer name.
  [[nodiscard]] unsigned queue_pair_for(const wire::HwAddr& peer) const;
  /// Number of the queue pair whose worker sends over the connection with the neighbour, or else
  /// receives its datagrams.
  [[nodiscard]] unsigned served_by(const wire::HwAddr& neighbour) const;
  /// Number of queue pairs over which neighbours and groups are spread.
  [[nodiscard]] unsigned queues() const { return spread_width(config_, actions_); }
  /// Spreads them over the first `n` queue pairs from now on. Neighbours and groups with another
  /// queue pair than before move one after another. kInvalidArgument: the link has fewer.
  Status set_queues(unsigned n, TimePoint now);
  /// Moves neighbours from a queue pair with much load to one with little. `loads`: of all queue
  /// pairs, in a period after the previous call; QueueLoad::busy follows the moves.
  void balance(std::span<QueueLoad> loads, TimePoint now);

 private:
  void heard(const wire::HwAddr& from, std::uint16_t slid, TimePoint now);

  struct StaticNeighbour {
    wire::HwAddr hw;
    std::uint16_t lid;  ///< 0: query the SA.
    std::uint8_t sl;
  };

  // Medium.
  [[nodiscard]] wire::HwAddr own_hw() const override { return address_of(0); }
  [[nodiscard]] wire::HwAddr own_hw_for(const wire::HwAddr& peer) const override {
    return address_of(queue_pair_for(peer));
  }
  [[nodiscard]] bool has_several_addresses() const override { return queues() > 1; }
  [[nodiscard]] bool asks_anonymously() const override {
    return config_.anonymous_requests && has_several_addresses();
  }
  [[nodiscard]] bool is_own(const wire::HwAddr& hw) const override;
  [[nodiscard]] wire::LinkFormat format() const override { return dialect_->format(); }
  [[nodiscard]] bool carries_v4() const override { return config_.all_nodes != AllNodes::kInstead; }
  [[nodiscard]] wire::HwAddr broadcast_hw() const override;
  void broadcast(wire::EtherType type, std::span<const std::byte> payload) override;
  void send(const wire::HwAddr& to, wire::EtherType type, std::span<const std::byte> payload,
            TimePoint now) override;
  // MembershipOwner.
  [[nodiscard]] Status may_join() const override;
  Status on_joined(const wire::McMemberRecord& record, TimePoint now) override;
  void on_membership_changed(TimePoint now) override;
  void on_forgotten(TimePoint now) override {
    on_port_event(fabric::PortEvent::kClientReregister, now);
  }
  void on_lost(TimePoint now) override;

  [[nodiscard]] std::vector<std::byte> encapsulate(wire::EtherType type,
                                                   std::span<const std::byte> payload) const;
  bool broadcast_frame(std::span<const std::byte> frame);
  [[nodiscard]] std::uint16_t group_mtu(const LinkParameters& p) const;
  [[nodiscard]] GroupSurroundings group_surroundings(sa::Client& sa, AddressSink& receiver,
                                                     std::uint64_t seed);
  Status apply(const LinkParameters& next, TimePoint now);
  using BroadcastAttachment = std::pair<wire::Gid, std::uint16_t>;  // MGID and MLID
  Status attach_broadcast(const BroadcastAttachment& wanted);
  void detach_broadcast();
  bool update_mtu();
  void start_ip6(TimePoint now);
  void resume_paths(TimePoint now);
  [[nodiscard]] bool has_pkey() const;
  void join_own_groups(TimePoint now);
  [[nodiscard]] wire::LinkAddr own_address() const;
  [[nodiscard]] wire::HwAddr address_of(unsigned queue_pair) const;
  [[nodiscard]] std::uint64_t interface_id() const;
  bool look_for_twin();
  void rejoin(TimePoint now);
  [[nodiscard]] std::unique_ptr<SharedGateway> make_shared_gateway(std::uint64_t seed);
  [[nodiscard]] std::unique_ptr<Connections> make_connections(
      const std::optional<Connected>& connected, std::uint64_t seed);
  /// The paths to neighbours: with connected mode Connections, else PathTable.
  [[nodiscard]] NeighbourPaths& neighbour_paths();
  /// The path to a neighbour has changed.
  void on_path(const wire::IpAddr& neighbour, TimePoint now);
  Status start_connections(TimePoint now);
  void move_some(TimePoint now);
  [[nodiscard]] bool is_moving() const {
    return state_ == State::kUp && (!to_tell_.empty() || groups_move_);
  }
  void withdraw(TimePoint now);
  void suspend(TimePoint now);
  void go_down(TimePoint now);
  void finish_stop(TimePoint now);
  /// While stopping: the SA has answered everything except the leave of the broadcast group.
  [[nodiscard]] bool leaves_done() const { return groups_->left() && traps_.ended(); }
  Status pin_static(const wire::IpAddr& addr, const StaticNeighbour& entry, TimePoint now);
  void set_state(State state);
  void on_up(TimePoint now);
  void unpin_unless_used(const PathKey& key);

  LinkConfig config_;
  std::unique_ptr<const Dialect> dialect_;
  LinkActions& actions_;
  NeighbourSink& sink_;
  LinkCounters counters_;
  LinkParameters parameters_;
  std::optional<BroadcastAttachment> attached_;
  State state_ = State::kDown;
  std::uint16_t mtu_ = 0;
  /// Set by set_mtu(); empty: limited by the broadcast group only.
  std::optional<std::uint16_t> max_mtu_;
  std::optional<std::uint32_t> reported_qkey_;
  std::map<wire::IpAddr, StaticNeighbour> statics_;
  std::optional<TimePoint> stop_by_;
  PeerSpread spread_;
  std::set<wire::IpAddr> to_tell_;  ///< Neighbours with another queue pair than before.
  bool groups_move_ = false;        ///< Groups may have another queue pair than before.
  TimePoint move_due_{};
  RejoinSeries rejoins_;
  /// Another user of the port derives an interface identifier from its GUID. Until the link stops:
  /// an address that comes and goes is of no use to neighbours.
  bool twin_ = false;
  bool moved_ = false;  ///< The port has a new LID or GID, which is not announced yet.
  PathTable paths_;
  std::unique_ptr<Connections> connections_;
  SecondPaths second_paths_;                 ///< Its handlers call connections_.
  IpStack stack_;                            ///< Ready while the parameters are applied.
  std::unique_ptr<BroadcastFinder> finder_;  ///< Null: see Dialect::make_finder().
  std::unique_ptr<BroadcastServer> server_;  ///< Null: no server runs here.
  BroadcastMembership membership_;
  std::unique_ptr<LinkGroups> groups_;
  std::unique_ptr<SharedGateway> shared_;  ///< Null: the link shares no address.
  TrapSubscription traps_;
};

}  // namespace ipoib::link
