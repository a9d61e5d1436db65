// SPDX-License-Identifier: BSD-3-Clause
// Hosts of every version and multicast routers in virtual time, on links that lose packets. The
// seed determines everything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/route/multicast/multicast_router.h"
#include "tests/support/sim_time.h"

namespace ipoib::route::test {

class SimMulticast;

/// A host that reports its filters to the routers of its link, in the form of its version.
class SimHost {
 public:
  SimHost(SimMulticast& sim, table::InterfaceId link, wire::IpAddr addr,
          wire::MembershipVersion version)
      : sim_{sim}, link_{link}, addr_{addr}, version_{version} {}

  /// A filter with nothing() leaves the group. Versions before 3 want all sources or none.
  void want(const wire::IpAddr& group, const GroupFilter& filter);
  void on_packet(std::span<const std::byte> packet);

  [[nodiscard]] table::InterfaceId link() const { return link_; }
  [[nodiscard]] const wire::IpAddr& addr() const { return addr_; }
  [[nodiscard]] wire::MembershipVersion version() const { return version_; }
  [[nodiscard]] const std::map<wire::IpAddr, GroupFilter>& filters() const { return filters_; }

 private:
  void answer(const wire::IpAddr& group, const wire::MembershipQuery& query);
  void send(wire::RecordType type, const wire::IpAddr& group,
            const std::vector<wire::IpAddr>& sources);

  SimMulticast& sim_;
  table::InterfaceId link_;
  wire::IpAddr addr_;
  wire::MembershipVersion version_;
  std::map<wire::IpAddr, GroupFilter> filters_;
};

/// The deliveries of one router, with the lookup of a worker.
class FakeDeliverySink final : public DeliverySink {
 public:
  void set(const table::Delivery& d) override {
    ++writes;
    entries[{d.in, d.addr, d.source}] = d;
  }
  void remove(table::InterfaceId in, const wire::IpAddr& addr, const wire::IpAddr& source) override;
  [[nodiscard]] table::Delivery lookup(table::InterfaceId in, const wire::IpAddr& addr,
                                       const wire::IpAddr& source) const;

  std::map<std::tuple<table::InterfaceId, wire::IpAddr, wire::IpAddr>, table::Delivery> entries;
  unsigned removed_unknown = 0;
  std::size_t writes = 0;  ///< Number of entries set and removed.
};

/// Order of the addresses of the routers, which elect the querier. kCrossed: the last router has the
/// lowest addresses on links with odd numbers.
enum class Addresses : bool { kSame, kCrossed };

/// A packet to a group. Routers with an interface on `home` reach its source there.
struct SimPacket {
  wire::IpAddr group;
  wire::IpAddr source;
  table::InterfaceId home = 0;
  unsigned number = 0;
};

class SimMulticast : public ipoib::test::SimTime {
 public:
  SimMulticast(std::uint64_t seed, std::size_t routers, table::InterfaceId links,
               const MembershipConfig& config = {}, Addresses addresses = Addresses::kSame);

  SimHost& add_host(table::InterfaceId link, IpFamily family, wire::MembershipVersion version);
  void run(Duration time);
  void after(Duration delay, std::function<void()> action) { at(now + delay, std::move(action)); }
  /// Sends a packet to all nodes on the link except the sender. Each receiver may lose it.
  void transmit(table::InterfaceId link, std::vector<std::byte> packet, const void* sender);

  /// A host on the link, or a router, sends a packet to a group there. Each receiver may lose it.
  /// Routers forward it as workers do, and report it to their election at the rate of workers.
  void transmit(table::InterfaceId link, const SimPacket& packet, const void* sender = nullptr);
  /// Sends packets from hosts on link `home` for a time, one at each interval.
  void stream(SimPacket packet, Duration interval, Duration time);
  /// Number of copies of each packet of the group, by its number, that hosts on the link were sent.
  std::vector<unsigned>& copies(table::InterfaceId link, const wire::IpAddr& group) {
    return copies_[{link, group}];
  }

  [[nodiscard]] Duration up_to(Duration d);

  struct Router final : MulticastSender {
    explicit Router(SimMulticast& w) : sim{w}, control{{}, *this, deliveries} {}
    void send(table::InterfaceId iface, std::vector<std::byte> packet) override;
    /// `lower`: the sender has a lower link-layer address.
    void on_packet(table::InterfaceId link, const SimPacket& packet, bool lower);
    [[nodiscard]] bool has_link(table::InterfaceId link) const { return !no_link.contains(link); }

    SimMulticast& sim;
    FakeDeliverySink deliveries;
    MulticastRouter control;
    std::vector<std::uint64_t> sent = std::vector<std::uint64_t>(64);
    bool alive = true;
    std::set<table::InterfaceId> no_link{};  ///< Links that the router has no interface on.
    /// Time of the last report by ingress, the interface that leads to the source, group and source.
    std::map<std::tuple<table::InterfaceId, table::InterfaceId, wire::IpAddr, wire::IpAddr>,
             TimePoint>
        reported{};
  };
  /// Returns the address of a router on a link.
  static wire::IpAddr router_address(std::size_t router, table::InterfaceId link, IpFamily family);

  std::vector<std::unique_ptr<Router>> routers;
  std::vector<std::unique_ptr<SimHost>> hosts;
  unsigned loss_percent = 0;
  /// Order of the link-layer addresses of the routers: that of their numbers, or the reverse one.
  bool last_is_lowest = false;

 private:
  [[nodiscard]] bool lost();

  std::map<std::pair<table::InterfaceId, wire::IpAddr>, std::vector<unsigned>> copies_;
};

}  // namespace ipoib::route::test
