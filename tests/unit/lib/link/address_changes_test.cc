// SPDX-License-Identifier: BSD-3-Clause
// Addresses that interfaces get and lose while they run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "lib/link/ethernet_port.h"
#include "tests/support/link_fakes.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"
#include "tests/unit/lib/link/sim_fabric.h"
#include "tests/unit/lib/link/sim_nd.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using wire::Icmp6Type;

constexpr wire::MacAddr mac(unsigned last) {
  return {std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte(last)};
}

constexpr wire::MacAddr kAllHosts{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                  std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};

class AddressChanges : public ::testing::Test {
 protected:
  static EthernetPortConfig config() {
    EthernetPortConfig c;
    c.name = "eth0";
    c.id = 1;
    c.addresses = {prefix("192.168.1.1/24"), prefix("172.16.0.1/16")};
    return c;
  }
  void run(Duration d) {
    const auto end = now + d;
    for (auto due = port.next_deadline(); due && *due <= end; due = port.next_deadline()) {
      now = std::max(now, *due);
      port.tick(now);
    }
    now = end;
  }
  /// Starts the port, and forgets its announcements.
  void start_quietly() {
    port.start(now);
    run(5s);
    actions.frames.clear();
  }
  Status add(std::string_view address, bool detect = true) {
    return port.add_address(prefix(address), {detect}, now);
  }
  Status remove(std::string_view address) { return port.remove_address(prefix(address), now); }
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
  /// The port knows the host.
  void learn(std::string_view host, unsigned last_octet) {
    want(host);
    receive_arp(wire::ArpOp::kReply, mac(last_octet), host, "192.168.1.1");
    ASSERT_TRUE(sink.valid(ip(host))) << host;
  }
  /// Number of ARP announcements of the address that were sent.
  [[nodiscard]] std::size_t announced(std::string_view addr) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < actions.frames.size(); ++i) {
      const auto arp = actions.arp(i);
      const bool is_it = arp && arp->sender_ip == arp->target_ip &&
                         arp->sender_ip == ip(addr).v4_host() &&
                         arp->sender_hw == wire::HwAddr{actions.own_mac};
      n += is_it ? 1 : 0;
    }
    return n;
  }
  [[nodiscard]] bool is_ready(std::string_view address) const {
    return addresses.ready.contains({1, prefix(address)});
  }

  TimePoint now{100s};
  FakeNeighbourSink sink;
  FakePortActions actions;
  FakeAddressSink addresses;
  EthernetPort port{config(), actions, sink, 1, addresses};
};

TEST_F(AddressChanges, P19_Ipv4IsReadyAtOnceAndAnnouncedTwice) {
  start_quietly();
  ASSERT_TRUE(add("192.168.1.50/24"));
  EXPECT_TRUE(is_ready("192.168.1.50/24"));
  EXPECT_EQ(addresses.assigned.count({1, prefix("192.168.1.50/24")}), 1U);
  EXPECT_EQ(port.addresses().back(), prefix("192.168.1.50/24"));
  EXPECT_EQ(announced("192.168.1.50"), 1U);
  run(5s);
  EXPECT_EQ(announced("192.168.1.50"), 2U);
  EXPECT_EQ(announced("192.168.1.1"), 0U) << "others have not changed";
  actions.frames.clear();
  receive_arp(wire::ArpOp::kRequest, mac(7), "192.168.1.7", "192.168.1.50");
  ASSERT_EQ(actions.frames.size(), 1U);
  EXPECT_EQ(actions.arp(0)->op, wire::ArpOp::kReply);
  EXPECT_EQ(actions.arp(0)->sender_ip, ip("192.168.1.50").v4_host());
  // It is not the source of other requests: it may move.
  want("192.168.1.8");
  EXPECT_EQ(actions.arp(1)->sender_ip, ip("192.168.1.1").v4_host());
  port.stop(now);
}

TEST_F(AddressChanges, P19_RemovedAddressIsAnotherHosts) {
  start_quietly();
  ASSERT_TRUE(add("192.168.1.50/24"));
  actions.frames.clear();
  ASSERT_TRUE(remove("192.168.1.50/24"));
  EXPECT_FALSE(is_ready("192.168.1.50/24"));
  EXPECT_EQ(addresses.released.count({1, prefix("192.168.1.50/24")}), 1U);
  EXPECT_EQ(port.addresses(), config().addresses);
  run(5s);
  EXPECT_EQ(announced("192.168.1.50"), 0U) << "not a second time";
  receive_arp(wire::ArpOp::kRequest, mac(7), "192.168.1.7", "192.168.1.50");
  EXPECT_TRUE(std::none_of(actions.frames.begin(), actions.frames.end(), [&](const auto& frame) {
    return *wire::read<wire::MacAddr>(frame) == mac(7);
  }));
  // Its new owner is a host like others, and causes no conflict.
  const auto packet = want("192.168.1.50");
  receive_arp(wire::ArpOp::kReply, mac(8), "192.168.1.50", "192.168.1.1");
  EXPECT_EQ(sink.released, std::vector{packet});
  EXPECT_EQ(port.counters().arp.conflicts, 0U);
  // It can return, and is no neighbour then.
  ASSERT_TRUE(add("192.168.1.50/24"));
  EXPECT_EQ(sink.find(ip("192.168.1.50")), nullptr);
  EXPECT_EQ(announced("192.168.1.50"), 1U);
  want("192.168.1.50");
  EXPECT_EQ(sink.drops[Drop::kLocalUnsupported], 1U);
  port.stop(now);
}

TEST_F(AddressChanges, P19_AddressOfAnInterfaceThatIsNotUpWaitsForIt) {
  ASSERT_TRUE(add("192.168.1.50/24"));
  EXPECT_FALSE(is_ready("192.168.1.50/24"));
  EXPECT_TRUE(actions.frames.empty());
  port.start(now);
  EXPECT_TRUE(is_ready("192.168.1.50/24"));
  EXPECT_EQ(announced("192.168.1.50"), 1U);
  run(5s);
  // Without a carrier, announcements would be lost.
  port.set_carrier(false, now);
  actions.frames.clear();
  ASSERT_TRUE(add("192.168.1.51/24"));
  EXPECT_TRUE(is_ready("192.168.1.51/24")) << "like the others";
  run(5s);
  EXPECT_EQ(announced("192.168.1.51"), 0U);
  port.set_carrier(true, now);
  EXPECT_EQ(announced("192.168.1.51"), 1U);
  port.stop(now);
  ASSERT_TRUE(add("192.168.1.52/24"));
  EXPECT_FALSE(is_ready("192.168.1.52/24"));
  ASSERT_TRUE(remove("192.168.1.51/24"));
  port.start(now);
  EXPECT_TRUE(is_ready("192.168.1.50/24"));
  EXPECT_FALSE(is_ready("192.168.1.51/24"));
  EXPECT_TRUE(is_ready("192.168.1.52/24"));
  port.stop(now);
  EXPECT_TRUE(addresses.ready.empty());
}

TEST_F(AddressChanges, P19_BadChangesAreRefused) {
  start_quietly();
  ASSERT_TRUE(port.add_static(ip("192.168.1.9"), "02:00:00:00:00:09", 0, 0, now));
  const std::vector<std::pair<std::string_view, Errc>> cases = {
      {"192.168.1.1/24", Errc::kExists},
      {"192.168.1.1/32", Errc::kExists},
      {"192.168.1.9/24", Errc::kExists},
      {"192.168.2.0/24", Errc::kInvalidArgument},
      {"192.168.2.255/24", Errc::kInvalidArgument},
      {"192.168.1.255/32", Errc::kInvalidArgument},
      {"172.16.255.255/8", Errc::kInvalidArgument},
      {"224.0.0.1/24", Errc::kInvalidArgument},
      {"240.0.0.1/24", Errc::kInvalidArgument},
      {"255.255.255.255/32", Errc::kInvalidArgument},
      {"127.0.0.1/8", Errc::kInvalidArgument},
      {"0.0.0.0/32", Errc::kInvalidArgument},
      {"10.0.0.1/0", Errc::kInvalidArgument},
      {"::/128", Errc::kInvalidArgument},
      {"::1/128", Errc::kInvalidArgument},
      {"ff02::1/64", Errc::kInvalidArgument},
      {"fd00::/64", Errc::kInvalidArgument},
      {"::10.0.0.1/64", Errc::kInvalidArgument}};
  for (const auto& [address, code] : cases) {
    const auto added = add(address);
    ASSERT_FALSE(added) << address;
    EXPECT_EQ(added.error().code, code) << added.error().what;
    EXPECT_NE(added.error().what.find("eth0"), std::string::npos) << added.error().what;
  }
  const auto local = port.addresses6().at(0).address;
  EXPECT_EQ(port.add_address(local, {}, now).error().code, Errc::kExists);
  addresses.refuse = true;  // another interface has it
  EXPECT_EQ(add("10.0.0.1/24").error().code, Errc::kExists);
  EXPECT_EQ(port.addresses(), config().addresses);
  EXPECT_TRUE(addresses.assigned.empty());
  EXPECT_TRUE(actions.frames.empty());
  for (const char* address : {"192.168.1.2/24", "192.168.1.1/25", "fd00::1/64"})
    EXPECT_EQ(remove(address).error().code, Errc::kNotFound) << address;
  EXPECT_EQ(port.remove_address(local, now).error().code, Errc::kNotFound);
  port.stop(now);
}

TEST_F(AddressChanges, P19_NumberOfAddressesIsLimited) {
  start_quietly();
  for (std::size_t i = port.addresses().size(); i < kMaxAddresses; ++i)
    ASSERT_TRUE(add("10.9." + std::to_string(i / 200) + "." + std::to_string(i % 200 + 1) + "/32"));
  const auto more = add("10.8.0.1/32");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::kNoResources);
  ASSERT_TRUE(remove("10.9.0.100/32"));
  EXPECT_TRUE(add("10.8.0.1/32"));
  port.stop(now);
}

TEST_F(AddressChanges, P19_NoIpv6AddressWhereItIsNotConfigured) {
  auto c = config();
  c.ip6.enabled = false;
  EthernetPort p{c, actions, sink, 1, addresses};
  p.start(now);
  const auto added = p.add_address(prefix("fd00::1/64"), {}, now);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kRefused);
  p.stop(now);
}

TEST(LinkAddressChanges, P19_NoIpv4AddressOnALinkWithoutArp) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) {
    c.addresses.clear();
    c.ip6.enabled = true;
    c.all_nodes = AllNodes::kInstead;
  })};
  sim.bring_up();
  const auto added = sim.link.add_address(prefix("10.0.0.9/24"), {}, sim.now);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kRefused);
  EXPECT_TRUE(sim.link.add_address(prefix("fd00::9/64"), {}, sim.now));
}

TEST_F(AddressChanges, P19_NeighboursOfTheLastAddressOfANetworkAreForgotten) {
  start_quietly();
  learn("172.16.5.5", 5);
  learn("192.168.1.6", 6);
  ASSERT_TRUE(port.add_static(ip("172.16.5.7"), "02:00:00:00:00:07", 0, 0, now));
  const auto gateway = port.use_gateway(ip("172.16.5.8"), now);
  ASSERT_TRUE(gateway);
  learn("172.16.5.8", 8);
  want("172.16.255.255");
  ASSERT_TRUE(sink.valid(ip("172.16.255.255")));
  const auto waiting = want("172.16.5.9");
  ASSERT_TRUE(add("172.16.0.2/16"));
  ASSERT_TRUE(remove("172.16.0.1/16"));
  EXPECT_TRUE(sink.valid(ip("172.16.5.5"))) << "the network has another address";
  EXPECT_TRUE(sink.open.contains(waiting));
  ASSERT_TRUE(remove("172.16.0.2/16"));
  EXPECT_EQ(sink.find(ip("172.16.5.5")), nullptr);
  EXPECT_EQ(sink.find(ip("172.16.5.9")), nullptr);
  EXPECT_EQ(sink.find(ip("172.16.255.255")), nullptr);
  EXPECT_TRUE(sink.valid(ip("192.168.1.6")));
  EXPECT_TRUE(sink.valid(ip("172.16.5.7"))) << "the operator said so";
  EXPECT_EQ(sink.dropped, (std::vector{std::pair{waiting, Drop::kNeighbourGone}}));
  // The route's gateway is asked for again when it is needed.
  ASSERT_EQ(sink.index_of(ip("172.16.5.8")), *gateway);
  EXPECT_FALSE(sink.valid(ip("172.16.5.8")));
  actions.frames.clear();
  want("172.16.5.8");
  ASSERT_EQ(actions.frames.size(), 1U);
  EXPECT_EQ(actions.arp(0)->target_ip, ip("172.16.5.8").v4_host());
  port.forget_gateway(ip("172.16.5.8"));
  port.stop(now);
}

TEST_F(AddressChanges, P19_NeighbourThatBecomesABroadcastAddressIsForgotten) {
  start_quietly();
  learn("172.16.5.255", 5);
  learn("172.16.5.6", 6);
  ASSERT_TRUE(add("172.16.5.1/24"));
  EXPECT_EQ(sink.find(ip("172.16.5.255")), nullptr);
  EXPECT_TRUE(sink.valid(ip("172.16.5.6")));
  want("172.16.5.255");
  EXPECT_EQ(sink.find(ip("172.16.5.255"))->mac, kAllHosts);
  ASSERT_TRUE(remove("172.16.5.1/24"));
  EXPECT_EQ(sink.find(ip("172.16.5.255")), nullptr) << "a host again";
  EXPECT_TRUE(sink.valid(ip("172.16.5.6"))) << "it is in the larger network";
  port.stop(now);
}

TEST_F(AddressChanges, P19_GroupsOfIpv4AreJoinedWithTheFirstAddressOnly) {
  auto c = config();
  c.addresses.clear();
  EthernetPort p{c, actions, sink, 1, addresses};
  p.start(now);
  const auto listens = [&](const char* group) {
    return addresses.listening.contains({1, ip(group)});
  };
  EXPECT_FALSE(listens("224.0.0.1"));
  for (const char* own : {"10.0.0.1/24", "10.0.0.2/24"})
    ASSERT_TRUE(p.add_address(prefix(own), {}, now));
  EXPECT_TRUE(listens("224.0.0.1"));
  EXPECT_TRUE(listens("224.0.0.2"));
  ASSERT_TRUE(p.remove_address(prefix("10.0.0.1/24"), now));
  EXPECT_TRUE(listens("224.0.0.1"));
  ASSERT_TRUE(p.remove_address(prefix("10.0.0.2/24"), now));
  EXPECT_FALSE(listens("224.0.0.1"));
  EXPECT_FALSE(listens("224.0.0.2"));
  p.stop(now);
  EXPECT_TRUE(addresses.listening.empty());
  EXPECT_TRUE(actions.joined.empty());
}

class RarpAddress : public AddressChanges {
 protected:
  static EthernetPortConfig asking() {
    auto c = config();
    c.addresses.clear();
    c.ip6.enabled = false;
    c.rarp.ask = true;
    return c;
  }
  void obtain(EthernetPort& p) {
    p.tick(now);
    const auto reply = wire::build_arp(
        {wire::ArpOp::kRarpReply, mac(9), 0, actions.own_mac, ip("10.0.0.44").v4_host()});
    p.on_arp(reply, 0, 0, now);
  }
  EthernetPort asker{asking(), actions, sink, 1, addresses};
};

TEST_F(RarpAddress, P19_IsNotRemovedByHandButWithItsInterface) {
  asker.start(now);
  obtain(asker);
  const auto own = prefix("10.0.0.44/24");
  ASSERT_EQ(asker.addresses(), std::vector{own});
  EXPECT_TRUE(addresses.assigned.contains({1, own}));
  const auto removed = asker.remove_address(own, now);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Errc::kRefused);
  EXPECT_TRUE(addresses.ready.contains({1, own}));
  asker.stop(now);
  EXPECT_TRUE(addresses.released.contains({1, own})) << "the server may give it to another host";
}

TEST_F(RarpAddress, P19_OfAnotherInterfaceIsNotUsed) {
  asker.start(now);
  addresses.refuse = true;
  const auto text = logged([&] { obtain(asker); });
  EXPECT_NE(text.find("address 10.0.0.44/24 obtained by RARP not used: refused"), std::string::npos)
      << text;
  EXPECT_TRUE(asker.addresses().empty());
  EXPECT_TRUE(addresses.ready.empty());
  const auto sent = actions.frames.size();
  const auto question = wire::build_arp({wire::ArpOp::kRequest, mac(7), ip("10.0.0.7").v4_host(),
                                         wire::MacAddr{}, ip("10.0.0.44").v4_host()});
  asker.on_arp(question, 0, 0, now);
  EXPECT_EQ(actions.frames.size(), sent) << "not answered";
  asker.stop(now);
}

/// The fakes check that nothing is reported, joined or dropped twice or never.
TEST_F(AddressChanges, P19_AnyOrderOfChangesKeepsTheBooks) {
  std::mt19937 random{7};
  const std::vector<wire::IpPrefix> pool = {
      prefix("192.168.1.1/24"), prefix("172.16.0.1/16"), prefix("172.16.5.1/24"),
      prefix("172.16.5.2/24"),  prefix("10.0.0.1/32"),   prefix("fd00::1/64"),
      prefix("fd00::2/64"),     prefix("fe80::77/64"),   prefix("fd01::1/127")};
  std::vector<wire::IpPrefix> own = config().addresses;
  for (int step = 0; step < 3000; ++step) {
    const auto& address = pool[random() % pool.size()];
    const auto at = std::find(own.begin(), own.end(), address);
    switch (random() % 10) {
      case 0: port.start(now); break;
      case 1: port.stop(now); break;
      case 2: port.set_carrier(random() % 2 == 0, now); break;
      case 3: run(std::chrono::milliseconds(random() % 3000)); break;
      case 4: want("172.16.5." + std::to_string(random() % 4 + 1)); break;
      case 5: want("fd00::" + std::to_string(random() % 4 + 1)); break;
      case 6: want("172.16.5.255"); break;
      case 7:
        receive_arp(wire::ArpOp::kRequest, mac(9), "172.16.5." + std::to_string(random() % 4 + 1),
                    "172.16.0.1");
        break;
      default:
        if (at == own.end()) {
          ASSERT_TRUE(port.add_address(address, {random() % 2 == 0}, now));
          own.push_back(address);
        } else {
          ASSERT_TRUE(port.remove_address(address, now));
          own.erase(at);
        }
    }
    ASSERT_EQ(port.addresses(), own);
    for (const auto& [iface, ready] : addresses.ready)
      ASSERT_TRUE(std::find(own.begin(), own.end(), ready) != own.end() ||
                  ready == port.addresses6().at(0).address)
          << wire::to_string(ready);
    for (const auto& address6 : own) ASSERT_EQ(sink.find(address6.addr), nullptr);
  }
  port.stop(now);
  EXPECT_TRUE(addresses.ready.empty());
  EXPECT_TRUE(addresses.listening.empty());
  EXPECT_TRUE(actions.joined.empty());
  EXPECT_TRUE(sink.open.empty());
  EXPECT_TRUE(sink.indexes.empty());
  EXPECT_FALSE(port.next_deadline());
}

// --- IPv6 ---

class Address6Changes : public ::testing::Test {
 protected:
  SimNdHost& start(const Ip6Config& config = {}) {
    SimNdHost& host = w.add({}, config);
    host.up();
    w.run_for(5s);
    return host;
  }
  /// Unsolicited advertisements of the address by the host.
  [[nodiscard]] std::size_t announced(const SimNdHost& by, std::string_view addr) const {
    return static_cast<std::size_t>(
        std::count_if(w.sent.begin(), w.sent.end(), [&](const SimNd::Sent& s) {
          return s.by == &by && s.message.type == Icmp6Type::kNeighbourAdvertisement &&
                 s.message.target == ip(addr) && s.message.dst == wire::all_nodes() &&
                 s.message.override_it && s.message.target_hw == by.hw;
        }));
  }
  SimNd w{wire::LinkKind::kInfiniband};
  const wire::IpPrefix vip = prefix("fd00::100/64");
};

TEST_F(Address6Changes, P17_AddressIsUsedAfterDetectionAndAnnouncedTwice) {
  auto& a = start();
  a.agent.add(vip, true, w.now);
  EXPECT_EQ(a.joined.count(wire::solicited_node(vip.addr)), 1U);
  EXPECT_FALSE(a.is_ready(vip.addr));
  w.run_for(5s);
  EXPECT_TRUE(a.is_ready(vip.addr));
  EXPECT_TRUE(a.addresses.ready.contains({1, vip}));
  EXPECT_EQ(announced(a, "fd00::100"), 2U);
  a.agent.remove(vip, w.now);
  EXPECT_FALSE(a.addresses.ready.contains({1, vip}));
  EXPECT_EQ(a.joined.count(wire::solicited_node(vip.addr)), 0U);
  EXPECT_EQ(a.agent.prefixes().size(), 1U);
  auto& b = start();
  b.agent.add(prefix("fd00::2/64"), false, w.now);
  b.want(vip.addr);
  w.run_for(10s);
  EXPECT_FALSE(b.sink.valid(vip.addr)) << "none answers for it";
}

TEST_F(Address6Changes, P17_AddressWithoutDetectionMovesAtOnce) {
  auto& a = start();
  auto& b = start();
  auto& host = start();
  host.agent.add(prefix("fd00::9/64"), false, w.now);
  a.agent.add(vip, false, w.now);
  EXPECT_TRUE(a.is_ready(vip.addr));
  EXPECT_EQ(announced(a, "fd00::100"), 1U);
  host.want(vip.addr);
  w.run_for(3s);
  EXPECT_EQ(host.cache.hw_of(vip.addr), a.hw);
  // The former owner gives it up later than the new one takes it.
  b.agent.add(vip, false, w.now);
  EXPECT_TRUE(b.is_ready(vip.addr));
  w.run_for(20ms);
  a.agent.remove(vip, w.now);
  EXPECT_EQ(host.cache.hw_of(vip.addr), b.hw);
  w.run_for(5s);
  EXPECT_EQ(host.cache.hw_of(vip.addr), b.hw);
  EXPECT_GE(announced(b, "fd00::100"), 2U);
  // It needs no detection when the interface comes up again either.
  b.configured = {vip};
  b.down();
  b.up();
  EXPECT_TRUE(b.is_ready(vip.addr));
  EXPECT_FALSE(b.is_ready(b.local()));
  b.agent.remove(vip, w.now);
  b.agent.add(vip, true, w.now);
  EXPECT_FALSE(b.is_ready(vip.addr));
}

TEST_F(Address6Changes, P17_RemovalEndsDetection) {
  auto& a = start();
  a.agent.add(vip, true, w.now);
  w.run_for(100ms);
  a.agent.remove(vip, w.now);
  EXPECT_EQ(a.joined.count(wire::solicited_node(vip.addr)), 0U);
  w.run_for(10s);
  EXPECT_FALSE(a.addresses.ready.contains({1, vip}));
  EXPECT_EQ(announced(a, "fd00::100"), 0U);
}

TEST_F(Address6Changes, P17_DuplicateIsNotUsedAndCanBeRemoved) {
  auto& a = start();
  a.agent.add(vip, true, w.now);
  w.run_for(5s);
  auto& b = start();
  b.agent.add(vip, true, w.now);
  w.run_for(5s);
  ASSERT_EQ(b.agent.list().size(), 2U);
  EXPECT_EQ(b.agent.list()[1].state, AddressState::kDuplicate);
  b.agent.remove(vip, w.now);
  EXPECT_EQ(b.agent.list().size(), 1U);
  a.agent.remove(vip, w.now);
  const auto sent = w.count(Icmp6Type::kNeighbourSolicitation, &b);
  w.run_for(10min);
  EXPECT_EQ(w.count(Icmp6Type::kNeighbourSolicitation, &b), sent) << "it is not tried again";
  EXPECT_TRUE(a.is_ready(a.local()));
}

/// VRRP for IPv6 has a link-local virtual address (RFC 5798 §1.3).
TEST_F(Address6Changes, P17_SecondLinkLocalAddressIsServedButNotASource) {
  Ip6Config config;
  config.router_advertisement = true;
  auto& a = start(config);
  const auto local = prefix("fe80::100/64");
  a.agent.add(local, false, w.now);
  EXPECT_TRUE(a.addresses.listening.contains({1, local.addr}));
  auto& host = start();
  host.want(local.addr);
  a.want(ip("fe80::99"));
  w.run_for(1min);
  EXPECT_TRUE(host.sink.valid(local.addr));
  EXPECT_GT(w.count(Icmp6Type::kRouterAdvertisement, &a), 0U);
  for (const auto& s : w.sent) {
    if (s.by != &a || s.message.type == Icmp6Type::kNeighbourAdvertisement) continue;
    EXPECT_NE(s.message.src, local.addr) << "it moves to another router";
  }
  a.agent.remove(local, w.now);
  EXPECT_FALSE(a.addresses.listening.contains({1, local.addr}));
  EXPECT_TRUE(a.is_ready(a.local()));
  // After a restart the interface has both.
  a.configured = {local};
  a.down();
  a.up();
  w.run_for(5s);
  EXPECT_TRUE(a.is_ready(a.local()));
  EXPECT_TRUE(a.is_ready(local.addr));
}

TEST_F(Address6Changes, P19_HostsLearnOfPrefixesSoon) {
  Ip6Config config;
  config.router_advertisement = true;
  auto& a = start(config);
  w.run_for(1h);
  const auto last_prefixes = [&] {
    std::size_t n = ~std::size_t{0};
    for (const auto& s : w.sent)
      if (s.message.type == Icmp6Type::kRouterAdvertisement) n = s.message.prefixes.size();
    return n;
  };
  EXPECT_EQ(last_prefixes(), 0U);
  a.agent.add(vip, false, w.now);
  w.run_for(1s);
  EXPECT_EQ(last_prefixes(), 1U);
  a.agent.remove(vip, w.now);
  w.run_for(1s);
  EXPECT_EQ(last_prefixes(), 0U);
}

// --- A virtual address on a fabric ---

class VirtualAddress : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Families, VirtualAddress,
                         ::testing::Values("10.0.0.100/24", "fe80::100/64"), [](const auto& test) {
                           return test.param.find(':') == std::string_view::npos ? "Ipv4" : "Ipv6";
                         });

/// Two nodes pass an address on, first with both having it for a while, as when a better VRRP router
/// takes over, then with neither, while a host sends to it every 10 ms.
TEST_P(VirtualAddress, P17_MovesBetweenNodesWhileAHostSends) {
  SimFabric f{3, {0, 0, 5us, 50us}};
  SimNode& a = f.add_node("10.0.0.1/24");
  SimNode& b = f.add_node("10.0.0.2/24");
  SimNode& host = f.add_node("10.0.0.9/24");
  for (auto* n : {&a, &b, &host}) n->start();
  ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5min));
  f.run_for(5s);
  const auto vip = prefix(GetParam());
  const auto source = vip.addr.is_v4() ? host.address() : *host.local6();
  const auto send_for = [&](Duration d) {
    for (const auto end = f.now + d; f.now < end;) {
      host.send_ip(vip.addr);
      f.run_for(10ms);
    }
  };
  const auto add_to = [&](SimNode& n) {
    ASSERT_TRUE(n.link->add_address(vip, {.detect_duplicates = false}, f.now));
  };
  const auto remove_from = [&](SimNode& n) { ASSERT_TRUE(n.link->remove_address(vip, f.now)); };
  const auto heard = [&](const SimNode& n) {
    const auto it = n.received.find(source);
    return it == n.received.end() ? 0 : it->second;
  };

  add_to(a);
  send_for(1s);
  EXPECT_GE(heard(a), 99U) << "a packet may wait for the answer";
  add_to(b);
  f.run_for(5ms);
  remove_from(a);
  send_for(5s);
  EXPECT_GE(heard(b), 499U);
  EXPECT_EQ(f.lost["misdirected"], 0U);
  // The former owner is a host as others are.
  a.send_ip(vip.addr);
  f.run_for(1s);
  EXPECT_EQ(b.received[vip.addr.is_v4() ? a.address() : *a.local6()], 1U);

  const auto before = heard(a);
  remove_from(b);
  send_for(100ms);
  add_to(a);
  send_for(5s);
  EXPECT_GE(heard(a), before + 499);
  // They were sent while none had it, and one was under way with the announcement.
  EXPECT_LE(f.lost["misdirected"], 11U);
  for (auto* n : {&a, &b, &host}) n->link->stop(f.now);
  f.run_for(3s);
  for (auto* n : {&a, &b, &host}) EXPECT_TRUE(n->nothing_left());
}

}  // namespace
}  // namespace ipoib::link
