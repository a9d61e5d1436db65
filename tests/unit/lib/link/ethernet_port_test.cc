// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ethernet_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/link_fakes.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using table::NeighbourState;

constexpr wire::MacAddr mac(unsigned last) {
  return {std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte(last)};
}

class EthernetPortTest : public ::testing::Test {
 protected:
  static EthernetPortConfig config() {
    EthernetPortConfig c;
    c.name = "eth0";
    c.id = 1;
    c.addresses = {prefix("192.168.1.1/24"), prefix("172.16.0.1/16")};
    return c;
  }
  void run(EthernetPort& p, Duration d) {
    const auto end = now + d;
    for (auto due = p.next_deadline(); due && *due <= end; due = p.next_deadline()) {
      now = std::max(now, *due);
      p.tick(now);
    }
    now = end;
  }
  /// Starts the port, and forgets its announcements.
  void start_quietly() {
    port.start(now);
    actions.frames.clear();
  }
  void receive_arp(wire::ArpOp op, const wire::MacAddr& from, std::string_view sender,
                   std::string_view target) {
    const auto arp =
        wire::build_arp({op, from, ip(sender).v4_host(), wire::MacAddr{}, ip(target).v4_host()});
    port.on_arp(arp, 0, 0, now);
  }
  HeldPacket want(std::string_view addr) {
    const auto p = sink.new_packet();
    port.on_neighbour_wanted(ip(addr), p, now);
    return p;
  }

  TimePoint now{100s};
  FakeNeighbourSink sink;
  FakePortActions actions;
  FakeAddressSink addresses;
  EthernetPort port{config(), actions, sink, 1, addresses};
};

TEST_F(EthernetPortTest, UpAtStartAndAnnouncesEveryAddress) {
  EXPECT_EQ(port.state(), State::kDown);
  port.start(now);
  EXPECT_EQ(port.state(), State::kUp);
  EXPECT_EQ(port.mtu(), 1500);
  ASSERT_EQ(actions.frames.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(actions.frames[i].size(), 60U);
    EXPECT_EQ(actions.frames[i][0], std::byte{0xff});
    EXPECT_EQ(actions.frames[i][12], std::byte{0x08});
    EXPECT_EQ(actions.frames[i][13], std::byte{0x06});
    const auto arp = actions.arp(i);
    ASSERT_TRUE(arp);
    EXPECT_EQ(wire::read<wire::Be16>(actions.frames[i], 14)->host(), wire::kArpHardwareEthernet);
    EXPECT_EQ(arp->sender_ip, arp->target_ip);
    EXPECT_EQ(arp->sender_hw, actions.own_mac);
  }
}

TEST_F(EthernetPortTest, ResolvesFromTheAddressInTheTargetsPrefix) {
  start_quietly();
  const auto packet = want("172.16.5.5");
  ASSERT_EQ(actions.frames.size(), 1U);
  EXPECT_EQ(actions.arp(0)->sender_ip, ip("172.16.0.1").v4_host());
  receive_arp(wire::ArpOp::kReply, mac(9), "172.16.5.5", "172.16.0.1");
  const auto* n = sink.find(ip("172.16.5.5"));
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->state, NeighbourState::kValid);
  EXPECT_EQ(n->mode, table::NeighbourMode::kEthernet);
  EXPECT_EQ(n->mac, mac(9));
  EXPECT_EQ(n->mtu, 1500);
  EXPECT_EQ(sink.released, std::vector{packet});
  EXPECT_EQ(port.neighbours(now).at(0).lladdr, "02:00:00:00:00:09");
}

TEST_F(EthernetPortTest, AnswersRequestsAndLearnsWhoAsked) {
  start_quietly();
  receive_arp(wire::ArpOp::kRequest, mac(7), "192.168.1.7", "192.168.1.1");
  ASSERT_EQ(actions.frames.size(), 1U);
  EXPECT_EQ(actions.destination(0), mac(7));
  EXPECT_EQ(actions.arp(0)->op, wire::ArpOp::kReply);
  EXPECT_TRUE(sink.valid(ip("192.168.1.7")));
  receive_arp(wire::ArpOp::kRequest, mac(8), "192.168.1.7", "192.168.1.99");  // the host has moved
  EXPECT_EQ(sink.find(ip("192.168.1.7"))->mac, mac(8));
  // A host of another subnet gets an answer, and no direct neighbour entry.
  receive_arp(wire::ArpOp::kRequest, mac(9), "10.9.9.9", "192.168.1.1");
  EXPECT_EQ(actions.frames.size(), 2U);
  EXPECT_EQ(sink.find(ip("10.9.9.9")), nullptr);
}

TEST_F(EthernetPortTest, WithoutCarrierPacketsAreDroppedAndItComesBack) {
  port.set_carrier(false, now);
  port.start(now);
  EXPECT_EQ(port.state(), State::kWaiting);
  EXPECT_EQ(port.reason(), "no carrier");
  want("192.168.1.7");
  EXPECT_EQ(sink.drops[Drop::kLinkDown], 1U);
  EXPECT_TRUE(actions.frames.empty());
  port.set_carrier(true, now);
  EXPECT_EQ(port.state(), State::kUp);
  EXPECT_EQ(port.reason(), "");
  EXPECT_EQ(actions.frames.size(), 2U);
  EXPECT_EQ(actions.states, (std::vector{State::kWaiting, State::kUp}));
}

TEST(EthernetBroadcasts, U03_NeedNoResolution) {
  FakeNeighbourSink sink;
  FakePortActions actions;
  FakeAddressSink addresses;
  EthernetPortConfig config;
  config.name = "eth0";
  config.addresses = {prefix("192.168.1.1/24"), prefix("172.16.0.1/16"), prefix("10.1.2.1/24")};
  EthernetPort port{config, actions, sink, 1, addresses};
  const TimePoint now{100s};
  port.start(now);
  actions.frames.clear();
  wire::MacAddr all;
  all.fill(std::byte{0xff});
  for (const char* addr :
       {"255.255.255.255", "192.168.1.255", "172.16.255.255", "10.1.2.255", "10.255.255.255"}) {
    port.on_neighbour_wanted(ip(addr), sink.new_packet(), now);
    ASSERT_TRUE(sink.valid(ip(addr))) << addr;
    EXPECT_EQ(sink.find(ip(addr))->mac, all) << addr;
  }
  EXPECT_TRUE(actions.frames.empty());
  port.stop(now);
}

TEST_F(EthernetPortTest, StaticEntry) {
  port.start(now);
  ASSERT_TRUE(port.add_static(ip("192.168.1.5"), "02:00:00:00:00:33", 0, 0, now));
  EXPECT_EQ(sink.find(ip("192.168.1.5"))->mac, mac(0x33));
  receive_arp(wire::ArpOp::kReply, mac(1), "192.168.1.5", "192.168.1.1");
  EXPECT_EQ(sink.find(ip("192.168.1.5"))->mac, mac(0x33));
  EXPECT_FALSE(port.add_static(ip("192.168.1.6"), "03:00:00:00:00:33", 0, 0, now));
  EXPECT_FALSE(port.add_static(ip("192.168.1.6"), "nonsense", 0, 0, now));
}

TEST_F(EthernetPortTest, MtuIsSetWhileItRuns) {
  port.start(now);
  want("172.16.5.5");
  receive_arp(wire::ArpOp::kReply, mac(9), "172.16.5.5", "172.16.0.1");
  ASSERT_EQ(sink.find(ip("172.16.5.5"))->mtu, 1500);
  EXPECT_TRUE(port.set_mtu(9000, now));
  EXPECT_EQ(port.mtu(), 9000);
  EXPECT_EQ(port.mtu6(), 9000);
  EXPECT_EQ(sink.find(ip("172.16.5.5"))->mtu, 9000);
  EXPECT_TRUE(port.set_mtu(600, now));
  EXPECT_EQ(port.mtu6(), 0);
  EXPECT_EQ(port.set_mtu(67, now).error().what, "invalid MTU 67 of eth0, allowed: at least 68");
  EXPECT_EQ(port.mtu(), 600);
  EXPECT_EQ(sink.find(ip("172.16.5.5"))->mtu, 600);
}

TEST_F(EthernetPortTest, StopGivesEverythingBack) {
  port.start(now);
  want("192.168.1.5");
  receive_arp(wire::ArpOp::kRequest, mac(7), "192.168.1.7", "192.168.1.1");
  ASSERT_TRUE(port.use_gateway(ip("192.168.1.8"), now));
  port.stop(now);
  EXPECT_EQ(port.state(), State::kStopped);
  port.forget_gateway(ip("192.168.1.8"));
  EXPECT_TRUE(sink.indexes.empty());
  EXPECT_TRUE(sink.open.empty());
  EXPECT_FALSE(port.next_deadline());
}

/// Routes avoid the gateway, so the port asks for it without a packet.
TEST_F(EthernetPortTest, FailedGatewayIsAskedForOnlyWhileThePortIsUp) {
  const auto gateway = ip("192.168.1.8");
  const auto asks = [&](Duration within = 1min) {
    actions.frames.clear();
    run(port, within);
    for (std::size_t i = 0; i < actions.frames.size(); ++i)
      if (const auto arp = actions.arp(i); arp && arp->target_ip == gateway.v4_host()) return true;
    return false;
  };
  port.start(now);
  want("192.168.1.8");
  run(port, 4s);
  ASSERT_TRUE(port.has_failed(gateway));
  ASSERT_TRUE(port.use_gateway(gateway, now));
  EXPECT_TRUE(asks());
  port.stop(now);
  ASSERT_TRUE(port.use_gateway(gateway, now));
  EXPECT_FALSE(asks()) << "while the port is stopped";
  port.start(now);
  EXPECT_TRUE(asks());
  const auto run_until_it_failed = [&] {
    while (sink.find(gateway)->state != NeighbourState::kFailed) run(port, 100ms);
  };
  run_until_it_failed();
  port.set_carrier(false, now);
  EXPECT_FALSE(asks()) << "without a carrier";
  port.set_carrier(true, now);
  EXPECT_TRUE(asks(10ms)) << "at once";
  run_until_it_failed();
  port.set_carrier(false, now);
  port.set_carrier(true, now);
  EXPECT_TRUE(asks(10ms)) << "the time of the failure does not go on";
  port.stop(now);
  port.forget_gateway(gateway);
  port.forget_gateway(gateway);
  EXPECT_TRUE(sink.indexes.empty());
}

/// IPv6 does not run with an MTU below 1280 octets (RFC 8200 §5).
TEST_F(EthernetPortTest, FailedIp6GatewayIsAskedForOnlyWhileIp6Runs) {
  const auto gateway = ip("fe80::9");
  const auto asks = [&](Duration within) {
    actions.frames.clear();
    run(port, within);
    return std::any_of(actions.frames.begin(), actions.frames.end(), [&](const auto& frame) {
      const auto target = wire::read<wire::IpAddr>(frame, 14 + 40 + 8);  // of a solicitation
      return target && *target == gateway;
    });
  };
  port.start(now);
  run(port, 5s);
  want("fe80::9");
  EXPECT_TRUE(asks(4s));
  ASSERT_TRUE(port.has_failed(gateway));
  ASSERT_TRUE(port.use_gateway(gateway, now));
  ASSERT_TRUE(port.set_mtu(1000, now));
  const auto unsent = port.counters().nd.unsent;
  EXPECT_FALSE(asks(10min));
  EXPECT_EQ(port.counters().nd.unsent, unsent);
  ASSERT_TRUE(port.set_mtu(1500, now));
  EXPECT_TRUE(asks(5s));
  port.stop(now);
  port.forget_gateway(gateway);
}

TEST_F(EthernetPortTest, GroupsAreMappedToMacAddressesAndNotAskedFor) {
  start_quietly();
  const auto v4 = want("239.129.2.3");
  const auto v6 = want("ff05::1:2345:6789");
  EXPECT_EQ(sink.released, (std::vector{v4, v6}));
  EXPECT_EQ(wire::to_string(sink.find(ip("239.129.2.3"))->mac), "01:00:5e:01:02:03");
  EXPECT_EQ(wire::to_string(sink.find(ip("ff05::1:2345:6789"))->mac), "33:33:23:45:67:89");
  EXPECT_TRUE(actions.frames.empty());
  run(port, 10min);
  EXPECT_EQ(sink.find(ip("239.129.2.3")), nullptr);
  EXPECT_TRUE(sink.indexes.empty());
}

TEST_F(EthernetPortTest, GroupIsLeftWithTheLastOfItsJoins) {
  ASSERT_TRUE(port.join_group(ip("239.129.2.3"), now));
  ASSERT_TRUE(port.join_group(ip("239.129.2.3"), now));
  ASSERT_TRUE(port.join_group(ip("ff02::1:ff12:3456"), now));
  EXPECT_EQ(addresses.listening.size(), 2U);
  const auto rows = port.groups(now);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].lladdr, "01:00:5e:01:02:03");
  EXPECT_EQ(rows[0].joins, 2U);
  EXPECT_EQ(rows[1].lladdr, "33:33:ff:12:34:56");
  ASSERT_TRUE(port.leave_group(ip("239.129.2.3"), now));
  EXPECT_EQ(addresses.listening.size(), 2U);
  ASSERT_TRUE(port.leave_group(ip("239.129.2.3"), now));
  EXPECT_EQ(addresses.listening.size(), 1U);
  const auto gone = port.leave_group(ip("239.129.2.3"), now);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::kNotFound);
  const auto unicast = port.join_group(ip("192.168.1.7"), now);
  ASSERT_FALSE(unicast);
  EXPECT_EQ(unicast.error().code, Errc::kInvalidArgument);
}

// Devices filter by MAC address, which many groups share.
TEST_F(EthernetPortTest, DeviceIsToldTheAddressOfEachGroup) {
  const auto address = [](std::string_view group) { return wire::group_mac(ip(group)); };
  ASSERT_EQ(address("239.1.2.3"), address("239.129.2.3"));
  for (const char* group : {"239.1.2.3", "239.129.2.3", "239.129.2.3", "ff02::1:ff12:3456"})
    ASSERT_TRUE(port.join_group(ip(group), now));
  EXPECT_EQ(actions.joined,
            (std::multiset<wire::MacAddr>{address("239.1.2.3"), address("239.1.2.3"),
                                          address("ff02::1:ff12:3456")}));
  ASSERT_TRUE(port.leave_group(ip("239.129.2.3"), now));
  EXPECT_EQ(actions.joined.size(), 3U);
  ASSERT_TRUE(port.leave_group(ip("239.129.2.3"), now));
  EXPECT_EQ(actions.joined.count(address("239.1.2.3")), 1U);
  ASSERT_TRUE(port.leave_group(ip("239.1.2.3"), now));
  EXPECT_EQ(actions.joined, std::multiset<wire::MacAddr>{address("ff02::1:ff12:3456")});
}

TEST_F(EthernetPortTest, ArpThatContradictsItselfIsCountedAndDoesNotFlap) {
  port.start(now);
  receive_arp(wire::ArpOp::kRequest, mac(7), "192.168.1.7", "192.168.1.1");
  const auto before = sink.installs;
  for (unsigned i = 0; i < 100; ++i) {
    receive_arp(wire::ArpOp::kReply, mac(8 - i % 2), "192.168.1.7", "192.168.1.1");
    now += 9ms;
  }
  EXPECT_LE(sink.installs, before + 1);
  EXPECT_EQ(port.counters().arp.contradictions, 50U);
  EXPECT_EQ(sink.find(ip("192.168.1.7"))->mac, mac(8));
}

/// Two ports on one cable. Frames arrive at once, and as a worker would punt them.
class TwoPorts : public ::testing::Test {
 protected:
  struct Node {
    FakeNeighbourSink sink;
    FakePortActions actions;
    FakeAddressSink addresses;
    std::unique_ptr<EthernetPort> port;
    std::size_t seen = 0;
  };

  void SetUp() override {
    for (unsigned i = 0; i < 2; ++i) {
      EthernetPortConfig c;
      c.name = "eth0";
      c.addresses = {prefix(i == 0 ? "fd00::1/64" : "fd00::2/64")};
      nodes[i].actions.own_mac = mac(i + 1);
      nodes[i].port = std::make_unique<EthernetPort>(c, nodes[i].actions, nodes[i].sink, i + 1,
                                                     nodes[i].addresses);
      nodes[i].port->start(now);
    }
    run_for(5s);
  }
  void deliver(Node& from, Node& to) {
    for (; from.seen < from.actions.frames.size(); ++from.seen) {
      const auto& frame = from.actions.frames[from.seen];
      const auto dst = from.actions.destination(from.seen);
      bool taken = dst == to.actions.own_mac;
      for (const auto& row : to.port->groups(now))
        taken = taken || row.lladdr == wire::to_string(dst);
      const auto type = wire::read<wire::Be16>(frame, 12)->host();
      if (taken && type == 0x86dd) to.port->on_nd(std::span{frame}.subspan(14), 0, now);
    }
  }
  void run_for(Duration d) {
    for (const auto end = now + d; now < end; now += 10ms)
      for (unsigned i = 0; i < 2; ++i) {
        nodes[i].port->tick(now);
        deliver(nodes[i], nodes[1 - i]);
        deliver(nodes[1 - i], nodes[i]);
      }
  }

  TimePoint now{100s};
  Node nodes[2];
};

TEST_F(TwoPorts, AddressesOfThePortsAreReadyAndTheirGroupsJoined) {
  EXPECT_EQ(nodes[0].addresses.ready.size(), 2U);
  const auto rows = nodes[0].port->addresses6();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].address, prefix("fe80::ff:fe00:1/64"));
  EXPECT_EQ(rows[0].state, AddressState::kReady);
  EXPECT_EQ(rows[1].state, AddressState::kReady);
  std::vector<std::string> groups;
  for (const auto& row : nodes[0].port->groups(now)) groups.push_back(wire::to_string(row.group));
  // fd00::1 and fe80::ff:fe00:1 share one solicited-node group; fd00:: is of all routers.
  EXPECT_EQ(groups,
            (std::vector<std::string>{"ff02::1", "ff02::2", "ff02::1:ff00:0", "ff02::1:ff00:1"}));
  EXPECT_EQ(nodes[0].port->groups(now).back().joins, 1U);
}

TEST_F(TwoPorts, ResolveEachOther) {
  auto& a = nodes[0];
  const auto packet = a.sink.new_packet();
  a.port->on_neighbour_wanted(ip("fd00::2"), packet, now);
  run_for(20ms);
  ASSERT_TRUE(a.sink.valid(ip("fd00::2")));
  EXPECT_EQ(a.sink.find(ip("fd00::2"))->mac, mac(2));
  EXPECT_EQ(a.sink.released, std::vector{packet});
  const auto far = a.sink.new_packet();
  a.port->on_neighbour_wanted(ip("fd00::1"), far, now);
  EXPECT_EQ(a.sink.drops[Drop::kLocalUnsupported], 1U);
  for (auto& n : nodes) {
    n.port->stop(now);
    EXPECT_TRUE(n.sink.indexes.empty());
    EXPECT_TRUE(n.addresses.listening.empty());
    EXPECT_TRUE(n.addresses.ready.empty());
    EXPECT_FALSE(n.port->next_deadline());
  }
}

TEST_F(EthernetPortTest, Ipv4AddressesAreReadyAtOnceAndItsGroupsJoined) {
  port.start(now);
  EXPECT_EQ(addresses.ready.count({1, prefix("192.168.1.1/24")}), 1U);
  EXPECT_EQ(addresses.ready.count({1, prefix("172.16.0.1/16")}), 1U);
  EXPECT_EQ(addresses.listening.count({1, ip("224.0.0.1")}), 1U);
  EXPECT_EQ(addresses.listening.count({1, ip("224.0.0.2")}), 1U);
  port.stop(now);
  EXPECT_TRUE(addresses.ready.empty());
  EXPECT_TRUE(addresses.listening.empty());
}

/// Returns the EtherType of a frame.
unsigned type_of(const std::vector<std::byte>& frame) {
  return std::to_integer<unsigned>(frame.at(12)) << 8 | std::to_integer<unsigned>(frame.at(13));
}

class EthernetRarp : public EthernetPortTest {
 protected:
  static EthernetPortConfig rarp(std::vector<wire::IpPrefix> own, bool ask) {
    auto c = config();
    c.addresses = std::move(own);
    c.ip6.enabled = false;
    c.rarp = {{{mac(7), ip("192.168.1.7")}}, ask, 24};
    return c;
  }
  void rarp_arrives(EthernetPort& p, wire::ArpOp op, const wire::MacAddr& from,
                    const wire::MacAddr& target, std::string_view target_ip) {
    const auto arp = wire::build_arp({op, from, 0, target, ip(target_ip).v4_host()});
    p.on_arp(arp, 0, 0, now);
  }
};

TEST_F(EthernetRarp, U24_PortTellsAHostItsAddress) {
  EthernetPort p{rarp({prefix("192.168.1.1/24")}, false), actions, sink, 1, addresses};
  p.start(now);
  run(p, 3s);
  actions.frames.clear();
  rarp_arrives(p, wire::ArpOp::kRarpRequest, mac(7), mac(7), "0.0.0.0");
  rarp_arrives(p, wire::ArpOp::kRarpRequest, mac(8), mac(8), "0.0.0.0");  // no address for it
  ASSERT_EQ(actions.frames.size(), 1U);
  EXPECT_EQ(type_of(actions.frames[0]), 0x8035U);
  EXPECT_EQ(actions.destination(0), mac(7));
  const auto reply = *actions.arp(0);
  EXPECT_EQ(reply.op, wire::ArpOp::kRarpReply);
  EXPECT_EQ(reply.target_ip, ip("192.168.1.7").v4_host());
  EXPECT_EQ(reply.sender_ip, ip("192.168.1.1").v4_host());
  EXPECT_EQ(p.counters().rarp.requests, 2U);
  EXPECT_EQ(p.counters().rarp.answered, 1U);
  EXPECT_EQ(p.counters().arp.invalid, 0U);
  EXPECT_TRUE(p.neighbours(now).empty());  // a host without an address is not a neighbour
  // ARP uses its own EtherType.
  const auto held = sink.new_packet();
  p.on_neighbour_wanted(ip("192.168.1.9"), held, now);
  EXPECT_EQ(type_of(actions.frames.back()), 0x0806U);
  p.stop(now);
}

TEST_F(EthernetRarp, U24_PortAsksForItsAddressAndUsesIt) {
  EthernetPort p{rarp({}, true), actions, sink, 1, addresses};
  p.start(now);
  run(p, 100ms);
  ASSERT_EQ(actions.frames.size(), 1U);
  EXPECT_EQ(type_of(actions.frames[0]), 0x8035U);
  EXPECT_EQ(actions.arp(0)->op, wire::ArpOp::kRarpRequest);
  EXPECT_EQ(actions.arp(0)->target_hw, actions.own_mac);
  EXPECT_TRUE(addresses.ready.empty());
  // The port does not ask without carrier, and asks again when the carrier returns.
  p.set_carrier(false, now);
  run(p, 5min);
  EXPECT_EQ(actions.frames.size(), 1U);
  p.set_carrier(true, now);
  run(p, 100ms);
  ASSERT_EQ(actions.frames.size(), 2U);
  rarp_arrives(p, wire::ArpOp::kRarpReply, mac(9), actions.own_mac, "192.168.1.44");
  EXPECT_EQ(addresses.ready.count({1, prefix("192.168.1.44/24")}), 1U);
  EXPECT_EQ(addresses.listening.count({1, ip("224.0.0.1")}), 1U);
  ASSERT_EQ(p.addresses().size(), 1U);
  // The port uses the address: it announces it and answers for it.
  EXPECT_EQ(actions.arp(2)->sender_ip, ip("192.168.1.44").v4_host());
  run(p, 5min);
  const auto sent = actions.frames.size();
  const auto request = wire::build_arp({wire::ArpOp::kRequest, mac(9), ip("192.168.1.9").v4_host(),
                                        wire::MacAddr{}, ip("192.168.1.44").v4_host()});
  p.on_arp(request, 0, 0, now);
  ASSERT_EQ(actions.frames.size(), sent + 1);
  EXPECT_EQ(actions.arp(sent)->op, wire::ArpOp::kReply);
  p.stop(now);
  EXPECT_TRUE(addresses.ready.empty());
  EXPECT_TRUE(addresses.listening.empty());
  EXPECT_TRUE(p.addresses().empty());
}

TEST_F(EthernetPortTest, ConflictIsCounted) {
  port.start(now);
  receive_arp(wire::ArpOp::kRequest, mac(7), "192.168.1.1", "192.168.1.1");
  EXPECT_EQ(port.counters().arp.conflicts, 1U);
  receive_arp(wire::ArpOp::kRequest, actions.own_mac, "192.168.1.1", "192.168.1.1");
  EXPECT_EQ(port.counters().arp.conflicts, 1U);
}

}  // namespace
}  // namespace ipoib::link
