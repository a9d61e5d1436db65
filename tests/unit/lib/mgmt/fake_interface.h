// SPDX-License-Identifier: BSD-3-Clause
// An interface that records its calls, for tests of its callers.
#pragma once

#include <string>
#include <vector>

#include "lib/link/interface.h"

namespace ipoib::mgmt {

class FakeInterface final : public link::Interface {
 public:
  std::vector<wire::IpPrefix> own;
  std::vector<link::HeldPacket> held;  ///< The test frees them.
  link::State now_state = link::State::kUp;

  Status join_group(const wire::IpAddr&, TimePoint) override { return {}; }
  Status leave_group(const wire::IpAddr&, TimePoint) override { return {}; }
  const std::string& name() const override { return name_; }
  table::InterfaceId id() const override { return 0; }
  link::State state() const override { return now_state; }
  std::string reason() const override { return {}; }
  std::uint16_t mtu() const override { return 1500; }
  const std::vector<wire::IpPrefix>& addresses() const override { return own; }
  std::vector<link::AddressInfo> addresses6() const override { return {}; }
  std::uint16_t mtu6() const override { return 1500; }
  const std::string& reason6() const override { return no_reason_; }
  Status set_mtu(std::uint16_t, TimePoint) override { return {}; }
  void start(TimePoint) override {}
  void stop(TimePoint) override {}
  void on_neighbour_wanted(const wire::IpAddr&, link::HeldPacket packet, TimePoint) override {
    held.push_back(packet);
  }
  Result<table::NeighbourIndex> use_gateway(const wire::IpAddr&, TimePoint) override { return 0; }
  void forget_gateway(const wire::IpAddr&) override {}
  bool has_failed(const wire::IpAddr&) const override { return false; }
  void on_arp(std::span<const std::byte>, std::uint16_t, std::uint32_t, TimePoint) override {}
  void on_nd(std::span<const std::byte>, TimePoint) override {}
  void send_redirect(std::span<const std::byte>, const wire::IpAddr&, TimePoint) override {}
  std::vector<link::GroupInfo> groups(TimePoint) const override { return {}; }
  void tick(TimePoint) override {}
  std::optional<TimePoint> next_deadline() const override { return {}; }
  std::vector<wire::IpAddr> neighbour_addresses() const override { return {}; }
  std::optional<link::NeighbourInfo> neighbour(const wire::IpAddr&, TimePoint) const override {
    return {};
  }
  link::NeighbourPhases neighbour_phases() const override { return {}; }
  Status add_static(const wire::IpAddr&, std::string_view, std::uint16_t, std::uint8_t,
                    TimePoint) override {
    return {};
  }
  Status remove_neighbour(const wire::IpAddr&) override { return {}; }
  void flush(TimePoint) override {}

 private:
  std::string name_ = "fake0";
  std::string no_reason_;
};

}  // namespace ipoib::mgmt
