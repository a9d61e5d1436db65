// SPDX-License-Identifier: BSD-3-Clause
// Tables of workers that a route table may fill and no worker reads.
#pragma once

#include <cstdint>

#include "lib/route/route_sink.h"

namespace ipoib::mgmt {

struct FakeRouteSink final : route::RouteSink {
  Status set_prefix(const wire::IpPrefix&, table::NextHopIndex) override { return {}; }
  void remove_prefix(const wire::IpPrefix&) override {}
  Status add_neighbour(const wire::IpAddr&, table::NextHopIndex, table::NeighbourIndex) override {
    return {};
  }
  void remove_neighbour(const wire::IpAddr&, table::NextHopIndex) override {}
  void set_next_hop(table::NextHopIndex, const table::NextHop&) override {}
  Result<table::NeighbourIndex> use_gateway(table::InterfaceId, const wire::IpAddr&) override {
    return 1;
  }
  void forget_gateway(table::InterfaceId, const wire::IpAddr&) override {}
  bool has_failed(table::InterfaceId, const wire::IpAddr&) const override { return false; }
  std::uint64_t mark_time() override { return 0; }
  bool is_past(std::uint64_t, bool) override { return true; }
};

}  // namespace ipoib::mgmt
