// SPDX-License-Identifier: BSD-3-Clause
// Forwarding of packets to groups: combines the groups that this node listens to, static multicast
// routes and the requests of hosts on other links into deliveries, which workers look up by the
// ingress interface of a packet.
//
// Loops. Packets that hosts requested are forwarded only from the interface that leads back to the
// source, which workers look up for each packet (Delivery::from_reverse_path). A static multicast
// route names its ingress interface itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/route/multicast/forwarder_election.h"
#include "lib/route/multicast/forwarder_rule.h"
#include "lib/route/multicast/multicast_group.h"
#include "lib/table/delivery.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Passes deliveries to the workers. Implemented by lib/mgmt and by tests.
class DeliverySink {
 public:
  virtual ~DeliverySink() = default;
  /// Adds a delivery, or replaces the one with the same in, addr and source.
  virtual void set(const table::Delivery& delivery) = 0;
  virtual void remove(table::InterfaceId in, const wire::IpAddr& addr,
                      const wire::IpAddr& source) = 0;
};

/// Packets to any group of `groups` that arrive on `in`, from `source` (all zero: any), are sent on
/// `out`. Groups of a prefix shorter than an address are forwarded from packet_seen() on, or if
/// this node listens to them.
struct StaticMulticastRoute {
  wire::IpPrefix groups;
  wire::IpAddr source{};
  table::InterfaceId in = table::kNoInterface;
  std::vector<table::InterfaceId> out{};
};

/// An entry of the multicast router of Linux, for packets to `group` from `source` (all zero: any
/// without an entry of its own) that arrive on `in`. Packets that arrive elsewhere are not forwarded.
/// Static routes for the same packets are preferred.
struct LinuxMulticastRoute {
  wire::IpAddr group;
  wire::IpAddr source{};
  table::InterfaceId in = table::kNoInterface;  ///< kNoInterface: one that the node does not have.
  std::uint64_t out = 0;                        ///< Bit i: interface i.
  bool elsewhere = false;  ///< Also to an interface that the node does not have.

  friend bool operator==(const LinuxMulticastRoute&, const LinuxMulticastRoute&) = default;
};

/// One row of `show mroute`.
struct MulticastEntryInfo {
  table::Delivery delivery;
  bool from_static = false;
  bool from_linux = false;
  bool learned = false;  ///< Members were heard on the outgoing links.
  /// Bit i: interface i has members, and this node leaves it to another router to forward to it.
  std::uint64_t left_to_other = 0;
  Duration age{};  ///< Time since the entry was installed.
};

/// A packet to a group that arrived on an interface of the multicast router.
struct HeardPacket {
  wire::IpAddr group;
  wire::IpAddr source;
  table::InterfaceId in = table::kNoInterface;
  table::InterfaceId from = table::kNoInterface;  ///< The interface that leads to the source.
  bool lower = false;  ///< The link-layer address of the sender is lower than this node's.
};

struct MulticastTableConfig {
  std::size_t max_entries = 16'384;   ///< Deliveries installed.
  std::size_t max_routes = 4'096;     ///< Static multicast routes.
  std::size_t max_seen = 4'096;       ///< Pairs of group and source from packet_seen().
  std::size_t max_contests = 16'384;  ///< ForwarderElection.
  /// Such a pair is forgotten after this time and named again by its next packet (RFC 7761 §4.11
  /// has the same for its Keepalive Timer).
  Duration seen_lifetime = std::chrono::seconds(210);
};

struct MulticastTableCounters {
  std::uint64_t entries_refused = 0;  ///< Times that a group found no room for an entry.
  std::uint64_t seen_refused = 0;
};

class MulticastTable {
 public:
  /// `sink` must outlive this object.
  MulticastTable(const MulticastTableConfig& config, DeliverySink& sink)
      : config_{config}, sink_{sink}, election_{config.max_contests} {}

  /// Members heard on one multicast router's interface are served from all the others.
  /// kInvalidArgument: iface >= kMaxInterfaces, so that a delivery has no bit for it.
  Status set_router(table::InterfaceId iface, bool router, TimePoint now);
  /// Removes everything that names the interface, including static routes.
  void remove_interface(table::InterfaceId iface, TimePoint now);

  /// Packets to `addr`, a group or a link-local unicast address, that arrive on `iface` are this
  /// node's. Counted: each listen needs its unlisten.
  Status listen(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);
  void unlisten(table::InterfaceId iface, const wire::IpAddr& addr, TimePoint now);

  /// kInvalidArgument: not groups, link scope, no possible source, no outgoing interface, one that
  /// is `in`, or an interface that has no bit. kExists: same groups, source and `in`. kNoResources:
  /// max_routes.
  Status add_static(const StaticMulticastRoute& route, TimePoint now);
  Status remove_static(const StaticMulticastRoute& route, TimePoint now);

  /// Adds an entry of Linux, or replaces the one with its group and source. kInvalidArgument: no group,
  /// link scope, or no possible source.
  Status set_linux(const LinuxMulticastRoute& route, TimePoint now);
  void remove_linux(const wire::IpAddr& group, const wire::IpAddr& source, TimePoint now);
  /// Linux gets a sample of the packets of so many of its entries. Repeated calls take turns.
  void sample_linux(std::size_t n);
  /// Number of entries of Linux.
  [[nodiscard]] std::size_t linux_routes() const { return linux_routes_.size(); }

  /// Sets the router that forwards requested groups to the link, unless packet_heard() shows another
  /// (forwarder_election.h). None are forwarded from and to a link while it is unknown. Static
  /// multicast routes are not affected.
  void set_forwarder(table::InterfaceId iface, bool v4, Forwarder forwarder, TimePoint now);
  /// Sets the request of a link's members; MembershipSink::on_filter_change.
  void set_filter(table::InterfaceId iface, const wire::IpAddr& group, const GroupFilter& filter,
                  TimePoint now);
  /// See ForwarderElection::set_deaf(). Interfaces are not deaf at first.
  void set_deaf(table::InterfaceId iface, bool deaf, TimePoint now);

  /// Reports a packet from `source` to `group` that has no entry, or only one for any source.
  void packet_seen(const wire::IpAddr& group, const wire::IpAddr& source, TimePoint now);
  /// Reports a packet that this node stands by for, or that arrived on an interface to which this
  /// node forwards or stands by, and not on the one that leads to its source.
  void packet_heard(const HeardPacket& packet, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] std::vector<MulticastEntryInfo> rows(TimePoint now) const;
  [[nodiscard]] std::size_t entries() const { return entries_; }
  [[nodiscard]] const std::vector<StaticMulticastRoute>& static_routes() const { return static_; }
  [[nodiscard]] const MulticastTableCounters& counters() const { return counters_; }
  [[nodiscard]] const ForwarderElectionCounters& election_counters() const {
    return election_.counters();
  }

  static constexpr table::InterfaceId kMaxInterfaces = table::kMaxMulticastInterfaces;

 private:
  struct Installed {
    table::Delivery delivery;
    bool from_static = false;
    bool from_linux = false;
    bool learned = false;
    std::uint64_t left_to_other = 0;
    TimePoint since{};
  };
  using Key = std::pair<table::InterfaceId, wire::IpAddr>;  ///< in, source
  using Entries = std::map<Key, Installed>;
  /// Everything known about one address.
  struct Group {
    std::map<table::InterfaceId, unsigned> listeners{};
    std::map<table::InterfaceId, GroupFilter> filters{};
    std::map<wire::IpAddr, TimePoint> seen{};                ///< source, forgotten at
    std::map<wire::IpAddr, LinuxMulticastRoute> of_linux{};  ///< Key: source.
    std::map<table::InterfaceId, std::size_t> linux_in{};    ///< Entries of `of_linux` from each.
    Entries installed{};

    [[nodiscard]] bool idle() const {
      return listeners.empty() && filters.empty() && seen.empty() && of_linux.empty() &&
             installed.empty();
    }
  };

  void refresh(const wire::IpAddr& addr, TimePoint now);
  void refresh_source(const wire::IpAddr& addr, const wire::IpAddr& source, TimePoint now,
                      table::InterfaceId also = table::kNoInterface);
  void refresh_all(TimePoint now);
  void refresh_requested(bool v4, TimePoint now);
  [[nodiscard]] std::vector<ForwardedGroup> forwarded_to(table::InterfaceId iface, bool v4) const;
  void drop_idle(const wire::IpAddr& addr, const Group& group);
  void use_room(std::size_t before, TimePoint now);
  [[nodiscard]] Entries wanted(const wire::IpAddr& addr, const Group& group) const;
  [[nodiscard]] std::set<wire::IpAddr> named_sources(const wire::IpAddr& addr,
                                                     const Group& group) const;
  [[nodiscard]] bool is_named(const wire::IpAddr& addr, const Group& group,
                              const wire::IpAddr& source) const;
  static void count_linux_in(Group& group, table::InterfaceId in, bool more);
  [[nodiscard]] std::set<table::InterfaceId> incoming_of(const wire::IpAddr& addr,
                                                         const Group& group) const;
  [[nodiscard]] Installed entry_for(const wire::IpAddr& addr, const Group& group,
                                    table::InterfaceId in, const wire::IpAddr& source) const;
  void put(const wire::IpAddr& addr, Group& group, const Key& key, const Installed& entry,
           TimePoint now);
  Entries::iterator take_out(const wire::IpAddr& addr, Group& group, Entries::iterator it);
  void install(const wire::IpAddr& addr, Group& group, const Entries& wanted, TimePoint now);
  [[nodiscard]] Status check(const StaticMulticastRoute& route) const;
  [[nodiscard]] bool is_router(table::InterfaceId iface) const {
    return (routers_ >> iface & 1U) != 0;
  }

  const MulticastTableConfig config_;
  DeliverySink& sink_;
  std::uint64_t routers_ = 0;  ///< Bit i: interface i is a multicast router's.
  ForwarderElection election_;
  std::vector<StaticMulticastRoute> static_;
  std::map<wire::IpAddr, Group> groups_;
  std::set<std::tuple<TimePoint, wire::IpAddr, wire::IpAddr>> forget_;  ///< when, group, source
  std::set<wire::IpAddr> refused_;  ///< Groups for which there was no room.
  /// Group and source of all entries of Linux.
  std::set<std::pair<wire::IpAddr, wire::IpAddr>> linux_routes_;
  std::pair<wire::IpAddr, wire::IpAddr> sampled_{};  ///< The last one of sample_linux().
  std::size_t entries_ = 0;
  MulticastTableCounters counters_;
};

}  // namespace ipoib::route
