// SPDX-License-Identifier: BSD-3-Clause
// An interface that records its calls, for tests of its callers. Its IP stack is a real one that is
// never started, on a medium that carries nothing.
#pragma once

#include <utility>
#include <vector>

#include "lib/link/ip/ip_stack.h"
#include "tests/support/link_fakes.h"

namespace ipoib::mgmt {

class FakeInterface final : public link::Interface,
                            private link::Medium,
                            private link::FakeNeighbourPaths {
 public:
  explicit FakeInterface(std::vector<wire::IpPrefix> own = {})
      : Interface{stack_}, config_{"fake0", 0, std::move(own), {}, {}, {}} {}

  std::vector<link::HeldPacket> held;  ///< The test frees them.
  link::State now_state = link::State::kUp;

  link::IpCounters ip_counters() const { return stack_.counters(); }
  link::State state() const override { return now_state; }
  std::string reason() const override { return {}; }
  std::uint16_t mtu() const override { return 1500; }
  Status set_mtu(std::uint16_t, TimePoint) override { return {}; }
  void start(TimePoint) override {}
  void stop(TimePoint) override {}
  void on_neighbour_wanted(const wire::IpAddr&, link::HeldPacket packet, TimePoint) override {
    held.push_back(packet);
  }
  void on_arp(std::span<const std::byte>, std::uint16_t, std::uint32_t, TimePoint) override {}
  void on_nd(std::span<const std::byte>, std::uint16_t, TimePoint) override {}
  Status join_group(const wire::IpAddr&, TimePoint) override { return {}; }
  Status leave_group(const wire::IpAddr&, TimePoint) override { return {}; }
  std::vector<link::GroupInfo> groups(TimePoint) const override { return {}; }
  void tick(TimePoint) override {}
  std::optional<TimePoint> next_deadline() const override { return {}; }
  Status add_static(const wire::IpAddr&, std::string_view, std::uint16_t, std::uint8_t,
                    TimePoint) override {
    return {};
  }

 private:
  wire::HwAddr own_hw() const override { return wire::MacAddr{std::byte{2}}; }
  wire::HwAddr broadcast_hw() const override { return own_hw(); }
  void broadcast(wire::EtherType, std::span<const std::byte>) override {}
  void send(const wire::HwAddr&, wire::EtherType, std::span<const std::byte>, TimePoint) override {}
  bool send_to_group(const wire::IpAddr&, std::span<const std::byte>, TimePoint) override {
    return true;
  }
  using link::FakeNeighbourPaths::state;

  link::IpConfig config_;
  link::FakeNeighbourSink sink_;
  link::IpStack stack_{config_, *this, *this, sink_, link::no_address_sink(), 1};
};

}  // namespace ipoib::mgmt
