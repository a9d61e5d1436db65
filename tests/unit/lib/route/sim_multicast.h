// SPDX-License-Identifier: BSD-3-Clause
// Hosts of every version and multicast routers in virtual time, on links that lose packets. The
// seed determines everything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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

class SimMulticast : public ipoib::test::SimTime {
 public:
  SimMulticast(std::uint64_t seed, std::size_t routers, table::InterfaceId links,
               const MembershipConfig& config = {});

  SimHost& add_host(table::InterfaceId link, IpFamily family, wire::MembershipVersion version);
  void run(Duration time);
  void after(Duration delay, std::function<void()> action) { at(now + delay, std::move(action)); }
  /// Sends a packet to all nodes on the link except the sender. Each receiver may lose it.
  void transmit(table::InterfaceId link, std::vector<std::byte> packet, const void* sender);

  [[nodiscard]] Duration up_to(Duration d);

  struct Router final : MulticastSender {
    explicit Router(SimMulticast& w) : sim{w}, control{{}, *this, deliveries} {}
    void send(table::InterfaceId iface, std::vector<std::byte> packet) override;

    SimMulticast& sim;
    FakeDeliverySink deliveries;
    MulticastRouter control;
    std::vector<std::uint64_t> sent = std::vector<std::uint64_t>(64);
    bool alive = true;
  };
  /// Returns the address of a router on a link.
  static wire::IpAddr router_address(std::size_t router, table::InterfaceId link, IpFamily family);

  std::vector<std::unique_ptr<Router>> routers;
  std::vector<std::unique_ptr<SimHost>> hosts;
  unsigned loss_percent = 0;
};

}  // namespace ipoib::route::test
