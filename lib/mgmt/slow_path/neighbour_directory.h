// SPDX-License-Identifier: BSD-3-Clause
// Numbers neighbours and keeps every worker's private table in step with the control plane.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/fabric/retirement.h"
#include "lib/link/interface.h"
#include "lib/mgmt/worker/worker_set.h"
#include "lib/route/route_table.h"

namespace ipoib::mgmt {

class PuntHandler;

/// Management lcore only.
class NeighbourDirectory final : public link::NeighbourSink {
 public:
  /// `capacity`: total of numbers, including those that wait for their retirement.
  NeighbourDirectory(WorkerSet& workers, PuntHandler& punt, fabric::Retirement& retirement,
                     std::uint32_t capacity);

  /// Sets the route table, which learns which neighbours answer and where valid ones are. It
  /// outlives the last call of install() and remove().
  void set_routes(route::RouteTable& routes) { routes_ = &routes; }

  /// kNoResources while every number is in use, or may still be named by packets in flight.
  Result<table::NeighbourIndex> allocate_index() override;
  void remove(table::NeighbourIndex index) override;
  void install(table::NeighbourIndex index, const table::Neighbour& neighbour) override;
  [[nodiscard]] TimePoint last_used(table::NeighbourIndex index) const override;
  [[nodiscard]] link::Crowded crowded(link::HeldPacket packet) const override;
  [[nodiscard]] wire::IpAddr source_of(link::HeldPacket packet) const override;
  [[nodiscard]] link::PacketSender sender_of(link::HeldPacket packet) const override;
  void release(link::HeldPacket packet) override;
  void drop(link::HeldPacket packet, Drop reason, bool unreachable) override;

  [[nodiscard]] std::size_t in_use() const { return capacity_ - free_.size() - retired_.size(); }

 private:
  /// The host entry of a neighbour in the prefix table; without an interface: none.
  struct HostRoute {
    std::uint32_t addr = 0;
    table::InterfaceId iface = table::kNoInterface;
    friend bool operator==(const HostRoute&, const HostRoute&) = default;
  };

  void notify_routes(const table::Neighbour& neighbour, bool answers);
  void publish(table::NeighbourIndex index, const table::Neighbour& neighbour);
  void withdraw(table::NeighbourIndex index);

  WorkerSet& workers_;
  PuntHandler& punt_;
  route::RouteTable* routes_ = nullptr;
  fabric::Retirement& retirement_;
  std::uint32_t capacity_;
  std::vector<table::NeighbourIndex> free_;  ///< Low numbers last, so that they are used first.
  fabric::Retired<table::NeighbourIndex> retired_;
  std::vector<HostRoute> host_routes_;  ///< Indexed by number.
};

}  // namespace ipoib::mgmt
