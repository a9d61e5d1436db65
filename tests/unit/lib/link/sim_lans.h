// SPDX-License-Identifier: BSD-3-Clause
// Ethernet segments in virtual time: hosts, and gateways that share the subnet of two segments.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/link/ethernet_port.h"
#include "lib/link/ip/subnet_proxy.h"
#include "tests/support/link_fakes.h"

namespace ipoib::link {

class SimLans;

/// One port on one segment.
class SimStation final : public PortActions {
  SimLans& sim_;

 public:
  SimStation(SimLans& sim, unsigned number, unsigned segment, const EthernetPortConfig& config,
             AddressSink& receiver)
      : sim_{sim},
        lan{segment},
        own{std::byte{2}, std::byte{0}, std::byte{0},
            std::byte{0}, std::byte{0}, static_cast<std::byte>(number)},
        port{config, *this, sink, number, receiver} {}
  ~SimStation() override { port.stop({}); }

  [[nodiscard]] wire::MacAddr mac() const override { return own; }
  void send(std::span<const std::byte> frame) override;
  void join(const wire::MacAddr& group) override { ++joined[group]; }
  void leave(const wire::MacAddr& group) override {
    const auto it = joined.find(group);
    ASSERT_NE(it, joined.end());
    if (--it->second == 0) joined.erase(it);
  }
  void state_changed(State) override {}
  /// A packet for the address comes.
  HeldPacket want(std::string_view addr, TimePoint now) {
    const auto packet = sink.new_packet();
    port.on_neighbour_wanted(ip(addr), packet, now);
    return packet;
  }
  /// The MAC address to which it sends; empty: none.
  [[nodiscard]] std::string next_hop(std::string_view addr, TimePoint now) const {
    const auto row = port.neighbour(ip(addr), now);
    return row ? row->lladdr : std::string{};
  }
  [[nodiscard]] std::string mac_text() const { return wire::to_string(wire::HwAddr{own}); }

  unsigned lan;
  wire::MacAddr own;
  bool all_groups = false;
  bool plugged = true;
  std::map<wire::MacAddr, unsigned> joined;
  FakeNeighbourSink sink;
  EthernetPort port;
};

/// A gateway with a port on each of two segments.
struct SimGateway {
  SimGateway(SimLans& sim, unsigned number, const std::vector<std::vector<std::string>>& addresses,
             std::size_t max_hosts);
  ~SimGateway() {
    for (auto& side : sides) side->port.stop({});
  }
  FakeAddressSink receiver;
  SubnetProxy proxy;
  std::vector<std::unique_ptr<SimStation>> sides;

  /// The segment to which it sends packets for a host; -1: it does not know.
  [[nodiscard]] int segment_of(std::string_view addr) const {
    const auto it = receiver.hosts.find(ip(addr));
    return it == receiver.hosts.end() ? -1 : static_cast<int>(it->second);
  }
};

class SimLans {
 public:
  struct Sent {
    TimePoint at;
    const SimStation* by;
    std::vector<std::byte> frame;

    [[nodiscard]] std::optional<wire::Arp> arp() const {
      if (wire::read<wire::Be16>(frame, 12)->host() != 0x0806) return std::nullopt;
      return wire::parse_arp(wire::LinkKind::kEthernet, std::span{frame}.subspan(14));
    }
  };

  static EthernetPortConfig config(const std::vector<std::string>& addresses) {
    EthernetPortConfig c;
    c.name = "eth";
    c.neighbour.idle = std::chrono::seconds(30);
    for (const auto& a : addresses) c.addresses.push_back(prefix(a));
    return c;
  }
  SimStation& host(unsigned lan, const std::vector<std::string>& addresses) {
    EthernetPortConfig c = config(addresses);
    c.ip6.routing = false;
    stations.push_back(std::make_unique<SimStation>(*this, next_number(), lan, c, host_addresses));
    SimStation& s = *stations.back();
    all.push_back(&s);
    s.port.start(now);
    return s;
  }
  SimGateway& gateway(const std::vector<std::vector<std::string>>& addresses,
                      std::size_t max_hosts = SIZE_MAX) {
    gateways.push_back(std::make_unique<SimGateway>(*this, next_number(), addresses, max_hosts));
    for (auto& side : gateways.back()->sides) {
      all.push_back(side.get());
      side->port.start(now);
    }
    return *gateways.back();
  }
  unsigned next_number() { return ++number_; }

  void run(Duration d) {
    const TimePoint end = now + d;
    for (;;) {
      TimePoint next = end + Duration{1};
      if (!wire_.empty()) next = wire_.begin()->first;
      for (SimStation* s : all)
        if (const auto due = s->port.next_deadline()) next = std::min(next, std::max(now, *due));
      if (next > end) break;
      now = next;
      while (!wire_.empty() && wire_.begin()->first <= now) {
        const auto sent = wire_.extract(wire_.begin());
        deliver(sent.mapped());
      }
      for (SimStation* s : all)
        if (const auto due = s->port.next_deadline(); due && *due <= now) s->port.tick(now);
    }
    now = end;
  }
  void put(const SimStation* by, unsigned lan, std::span<const std::byte> frame) {
    Sent sent{now, by, {frame.begin(), frame.end()}};
    sent_on[lan].push_back(sent);
    wire_.emplace(now + std::chrono::microseconds(50), std::pair{lan, std::move(sent)});
  }
  /// Sends an ARP request of a host that is no station.
  void put_request(unsigned lan, const wire::MacAddr& from, std::uint32_t sender,
                   std::uint32_t target) {
    std::vector<std::byte> frame(14, std::byte{0xff});
    std::copy(from.begin(), from.end(), frame.begin() + 6);
    frame[12] = std::byte{0x08};
    frame[13] = std::byte{0x06};
    const auto arp =
        wire::build_arp({wire::ArpOp::kRequest, from, sender, wire::MacAddr{}, target});
    frame.insert(frame.end(), arp.begin(), arp.end());
    put(nullptr, lan, frame);
  }

  TimePoint now{std::chrono::seconds(100)};
  FakeAddressSink host_addresses_unused;
  AddressSink& host_addresses = no_address_sink();
  std::map<unsigned, std::vector<Sent>> sent_on;
  std::vector<SimStation*> all;
  std::vector<std::unique_ptr<SimStation>> stations;
  std::vector<std::unique_ptr<SimGateway>> gateways;

 private:
  void deliver(const std::pair<unsigned, Sent>& sent) {
    const auto& [lan, m] = sent;
    const auto to = *wire::read<wire::MacAddr>(m.frame);
    const bool group = (to[0] & std::byte{1}) != std::byte{0};
    const bool broadcast =
        std::all_of(to.begin(), to.end(), [](auto b) { return b == std::byte{0xff}; });
    const auto payload = std::span{m.frame}.subspan(14);
    const auto type = wire::read<wire::Be16>(m.frame, 12)->host();
    for (SimStation* s : all) {
      if (s->lan != lan || s == m.by || !s->plugged) continue;
      if (group ? !broadcast && !s->all_groups && !s->joined.contains(to) : to != s->own) continue;
      if (type == 0x0806) s->port.on_arp(payload, 0, 0, now);
      if (type == 0x86dd) s->port.on_nd(payload, 0, now);
    }
  }
  std::multimap<TimePoint, std::pair<unsigned, Sent>> wire_;
  unsigned number_ = 0;
};

inline void SimStation::send(std::span<const std::byte> frame) {
  if (plugged) sim_.put(this, lan, frame);
}

inline SimGateway::SimGateway(SimLans& sim, unsigned number,
                              const std::vector<std::vector<std::string>>& addresses,
                              std::size_t max_hosts)
    : proxy{"lab", number} {
  receiver.max_hosts = max_hosts;
  for (unsigned lan = 0; lan < addresses.size(); ++lan) {
    EthernetPortConfig c = SimLans::config(addresses[lan]);
    c.name = "side" + std::to_string(lan);
    c.id = static_cast<table::InterfaceId>(lan);
    sides.push_back(
        std::make_unique<SimStation>(sim, lan == 0 ? number : sim.next_number(), lan, c, receiver));
    sides.back()->all_groups = true;
    sides.back()->port.share_subnets(proxy);
  }
}

}  // namespace ipoib::link
