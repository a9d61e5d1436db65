// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/subnet_proxy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/seeds.h"
#include "tests/unit/lib/link/sim_lans.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

/// The addresses of a case, by IP version.
struct Plan {
  std::string gateway[2], second[2], host[6];
  std::string len;
  [[nodiscard]] std::string with_len(const std::string& addr) const { return addr + len; }
};

const Plan kPlan4{{"10.0.0.1", "10.0.0.2"},
                  {"10.0.0.3", "10.0.0.4"},
                  {"10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14", "10.0.0.15"},
                  "/24"};
const Plan kPlan6{{"fd00::1", "fd00::2"},
                  {"fd00::3", "fd00::4"},
                  {"fd00::10", "fd00::11", "fd00::12", "fd00::13", "fd00::14", "fd00::15"},
                  "/64"};

class SubnetProxyTest : public testing::TestWithParam<const Plan*> {
 protected:
  SimGateway& gateway(std::size_t max_hosts = SIZE_MAX) {
    return sim.gateway({{p.with_len(p.gateway[0])}, {p.with_len(p.gateway[1])}}, max_hosts);
  }
  SimGateway& second_gateway() {
    return sim.gateway({{p.with_len(p.second[0])}, {p.with_len(p.second[1])}});
  }
  SimStation& host(unsigned lan, unsigned i) { return sim.host(lan, {p.with_len(p.host[i])}); }
  /// The station resolves the address within some seconds.
  std::string resolve(SimStation& from, const std::string& addr) {
    from.want(addr, sim.now);
    sim.run(2s);
    return from.next_hop(addr, sim.now);
  }

  const Plan& p = *GetParam();
  SimLans sim;
};

INSTANTIATE_TEST_SUITE_P(Families, SubnetProxyTest, testing::Values(&kPlan4, &kPlan6),
                         [](const auto& tested) {
                           return std::string{tested.param == &kPlan4 ? "V4" : "V6"};
                         });

TEST_P(SubnetProxyTest, P24_HostsOfTwoSidesFindEachOtherAtTheGateway) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  SimStation& b = host(1, 1);
  sim.run(5s);
  const auto asked = g.proxy.counters().asked;
  EXPECT_EQ(resolve(a, p.host[1]), g.sides[0]->mac_text());
  EXPECT_EQ(g.segment_of(p.host[1]), 1);
  // The packets of `a` let the gateway know where it is.
  EXPECT_EQ(resolve(b, p.host[0]), g.sides[1]->mac_text());
  EXPECT_EQ(g.segment_of(p.host[0]), 0);
  EXPECT_LE(g.proxy.counters().asked, asked + 1) << "the other side was asked once";
  EXPECT_EQ(g.proxy.counters().refused, 0U);
}

TEST_P(SubnetProxyTest, P24_HostsOfOneSideFindEachOtherThere) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  SimStation& c = host(0, 2);
  host(1, 1);
  sim.run(5s);
  EXPECT_EQ(resolve(a, p.host[2]), c.mac_text());
  EXPECT_EQ(resolve(c, p.host[0]), a.mac_text());
  EXPECT_EQ(g.proxy.counters().answered, 0U);
  for (const auto& [addr, segment] : g.receiver.hosts)
    EXPECT_EQ(segment, addr == ip(p.host[1]) ? 1 : 0) << wire::to_string(addr);
}

TEST_P(SubnetProxyTest, P24_AnUnknownHostIsAskedForAndNobodyAnswers) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  sim.run(5s);
  const auto before = g.proxy.counters();
  EXPECT_EQ(resolve(a, p.host[5]), "");
  sim.run(5s);
  EXPECT_EQ(g.proxy.counters().answered, 0U);
  EXPECT_GE(g.proxy.counters().asked - before.asked, 1U);
  EXPECT_LE(g.proxy.counters().asked - before.asked, 3U);
  EXPECT_EQ(g.proxy.counters().unanswered - before.unanswered, 1U);
  EXPECT_EQ(g.proxy.questions(), 0U);
  // It comes.
  host(1, 5);
  sim.run(5s);
  EXPECT_EQ(resolve(a, p.host[5]), g.sides[0]->mac_text());
}

TEST_P(SubnetProxyTest, P24_OwnAddressesAreAnsweredOnEachSide) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  SimStation& b = host(1, 1);
  sim.run(5s);
  const auto asked = g.proxy.counters().asked;
  EXPECT_EQ(resolve(a, p.gateway[0]), g.sides[0]->mac_text());
  EXPECT_EQ(resolve(a, p.gateway[1]), g.sides[0]->mac_text());
  EXPECT_EQ(resolve(b, p.gateway[0]), g.sides[1]->mac_text());
  EXPECT_EQ(g.proxy.counters().asked, asked);
}

TEST_P(SubnetProxyTest, P24_AHostThatTakesAnAddressOfTheGatewayIsNotBelieved) {
  SimGateway& g = gateway();
  SimStation& b = host(1, 1);
  sim.run(5s);
  SimStation& thief = sim.host(1, {p.with_len(p.gateway[0])});
  sim.run(5s);
  EXPECT_EQ(g.segment_of(p.gateway[0]), -1);
  if (GetParam() == &kPlan6) {
    for (const auto& row : thief.port.addresses6())
      if (row.address.addr == ip(p.gateway[0])) {
        EXPECT_EQ(row.state, AddressState::kDuplicate);
      }
  } else {
    EXPECT_GE(g.sides[1]->port.counters().arp.conflicts, 1U);
  }
  static_cast<void>(b);
}

TEST_P(SubnetProxyTest, P24_AHostThatMovesIsFoundAndTheOthersAreTold) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  SimStation& b = host(1, 1);
  SimStation& neighbour = host(1, 2);
  sim.run(5s);
  ASSERT_EQ(resolve(a, p.host[1]), g.sides[0]->mac_text());
  ASSERT_EQ(resolve(neighbour, p.host[1]), b.mac_text());
  b.plugged = false;
  SimStation& moved = host(0, 1);  // It has the same address, now on the other side.
  sim.run(3s);
  // Its announcement is honoured.
  EXPECT_EQ(g.segment_of(p.host[1]), 0);
  EXPECT_EQ(g.proxy.counters().moved, 1U);
  EXPECT_EQ(a.next_hop(p.host[1], sim.now), moved.mac_text());
  EXPECT_EQ(neighbour.next_hop(p.host[1], sim.now), g.sides[1]->mac_text());
}

TEST_P(SubnetProxyTest, P24_TwoHostsWithOneAddressDoNotMakeItFlap) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  SimStation& b = host(1, 1);
  sim.run(5s);
  ASSERT_EQ(resolve(a, p.host[1]), g.sides[0]->mac_text());
  const auto before = g.proxy.counters();
  // Both ask for the gateway in the name of one address, ten times a second.
  if (GetParam() == &kPlan6) return;  // Their kernels would detect it: see the tests of that.
  for (unsigned i = 0; i < 50; ++i) {
    sim.put_request(0, wire::MacAddr{std::byte{2}, {}, {}, {}, {}, std::byte{0x77}},
                    ip(p.host[1]).v4_host(), ip(p.gateway[0]).v4_host());
    sim.put_request(1, b.own, ip(p.host[1]).v4_host(), ip(p.gateway[1]).v4_host());
    sim.run(100ms);
  }
  EXPECT_LE(g.proxy.counters().moved - before.moved, 6U);
  EXPECT_GE(g.proxy.counters().contradictions, 40U);
}

TEST_P(SubnetProxyTest, P24_AHostThatIsGoneIsForgotten) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  SimStation& b = host(1, 1);
  sim.run(5s);
  ASSERT_EQ(resolve(a, p.host[1]), g.sides[0]->mac_text());
  b.plugged = false;
  // The gateway has a packet for it now and then.
  for (unsigned i = 0; i < 60 && g.segment_of(p.host[1]) == 1; ++i) {
    if (const auto index = g.sides[1]->sink.index_of(ip(p.host[1])))
      g.sides[1]->sink.used[*index] = sim.now;
    sim.run(1s);
  }
  EXPECT_EQ(g.segment_of(p.host[1]), -1);
  EXPECT_EQ(g.proxy.size(), 1U) << "the host that asked";
  sim.run(60s);
  EXPECT_EQ(g.proxy.size(), 0U) << "nothing is sent to it either";
}

TEST_P(SubnetProxyTest, P24_PacketsForAHostOfTheOtherSideFollowItsRoute) {
  if (GetParam() == &kPlan6) return;  // The host is known, so no packet takes the other route.
  SimGateway& g = gateway();
  host(1, 1);
  sim.run(5s);
  // The route of the subnet leads to the first side.
  const auto first = g.sides[0]->want(p.host[1], sim.now);
  sim.run(500ms);
  EXPECT_EQ(g.segment_of(p.host[1]), 1);
  EXPECT_EQ(g.sides[0]->sink.released, std::vector{first}) << "a worker looks up its route again";
  EXPECT_TRUE(g.sides[0]->sink.dropped.empty());
  const auto second = g.sides[0]->want(p.host[1], sim.now);
  EXPECT_EQ(g.sides[0]->sink.released.back(), second);
  // If packets still come, another route leads there: they must not go round.
  sim.run(2s);
  g.sides[0]->want(p.host[1], sim.now);
  EXPECT_EQ(g.sides[0]->sink.released.size(), 2U);
  sim.run(10s);
  EXPECT_TRUE(g.sides[0]->sink.open.empty());
}

// A route of the operator's leads through the host.
TEST_P(SubnetProxyTest, P24_AGatewayOfRoutesDoesNotMove) {
  SimGateway& g = gateway();
  host(0, 0);
  sim.run(5s);
  ASSERT_TRUE(g.sides[0]->port.use_gateway(ip(p.host[0]), sim.now));
  g.sides[0]->want(p.host[0], sim.now);
  sim.run(2s);
  ASSERT_EQ(g.segment_of(p.host[0]), 0);
  SimStation& thief = host(1, 0);
  sim.run(3s);
  thief.want(p.gateway[1], sim.now);
  sim.run(3s);
  EXPECT_EQ(g.segment_of(p.host[0]), 0);
  g.sides[0]->port.forget_gateway(ip(p.host[0]));
}

TEST_P(SubnetProxyTest, P24_DuplicatesOnBothSidesAreDetected) {
  if (GetParam() == &kPlan4) return;  // See ProbesOf below.
  gateway();
  host(1, 1);
  sim.run(5s);
  SimStation& twin = host(0, 1);
  sim.run(5s);
  bool duplicate = false;
  for (const auto& row : twin.port.addresses6())
    duplicate |= row.address.addr == ip(p.host[1]) && row.state == AddressState::kDuplicate;
  EXPECT_TRUE(duplicate);
}

TEST_P(SubnetProxyTest, P24_TwinsThatStartTogetherDoNotBothKeepTheAddress) {
  if (GetParam() == &kPlan4) return;
  gateway();
  sim.run(5s);
  SimStation& x = host(0, 1);
  SimStation& y = host(1, 1);
  sim.run(5s);
  unsigned ready = 0;
  for (const SimStation* s : {&x, &y})
    for (const auto& row : s->port.addresses6())
      ready += row.address.addr == ip(p.host[1]) && row.state == AddressState::kReady;
  EXPECT_LE(ready, 1U);
}

TEST_P(SubnetProxyTest, P24_AFullTableKeepsItsHosts) {
  if (GetParam() == &kPlan6) return;  // These hosts are known from their start on.
  SimGateway& g = gateway(2);
  SimStation& a = host(0, 0);
  host(1, 1);
  host(1, 2);
  sim.run(5s);
  ASSERT_EQ(resolve(a, p.host[1]), g.sides[0]->mac_text());
  ASSERT_EQ(g.proxy.size(), 2U);
  EXPECT_EQ(resolve(a, p.host[2]), "");
  EXPECT_GE(g.proxy.counters().no_room, 1U);
  EXPECT_EQ(g.segment_of(p.host[1]), 1);
}

TEST_P(SubnetProxyTest, P24_ASideThatStopsTakesItsHostsAlong) {
  SimGateway& g = gateway();
  SimStation& a = host(0, 0);
  SimStation& b = host(1, 1);
  sim.run(5s);
  ASSERT_EQ(resolve(a, p.host[1]), g.sides[0]->mac_text());
  g.sides[1]->port.stop(sim.now);
  EXPECT_EQ(g.segment_of(p.host[1]), -1);
  sim.run(1s);
  g.sides[1]->port.start(sim.now);
  sim.run(5s);
  EXPECT_EQ(resolve(b, p.host[0]), g.sides[1]->mac_text());
}

// Both answer, and neither believes the other. A host that goes leaves no ghost that each of them
// knows from the other.
TEST_P(SubnetProxyTest, P24_TwoGatewaysInParallelDoNotLearnFromEachOther) {
  ipoib::test::for_seeds(20, [this](std::uint64_t seed) {
    SimLans own;
    SimGateway& g = own.gateway({{p.with_len(p.gateway[0])}, {p.with_len(p.gateway[1])}});
    SimGateway& h = own.gateway({{p.with_len(p.second[0])}, {p.with_len(p.second[1])}});
    std::vector<SimStation*> hosts;
    for (unsigned i = 0; i < 4; ++i) hosts.push_back(&own.host(i % 2, {p.with_len(p.host[i])}));
    own.run(5s);
    std::mt19937_64 random{seed};
    for (unsigned i = 0; i < 60; ++i) {
      SimStation& from = *hosts[random() % 4];
      const unsigned to = static_cast<unsigned>(random() % 4);
      if (hosts[to] != &from) from.want(p.host[to], own.now);
      // Packets of both gateways, by the route of the subnet.
      for (SimGateway* gateway : {&g, &h})
        if (random() % 3 == 0) gateway->sides[0]->want(p.host[random() % 6], own.now);
      if (i == 30) hosts[1]->plugged = false;
      own.run(std::chrono::milliseconds(random() % 800));
      for (SimGateway* gateway : {&g, &h})
        for (unsigned k = 0; k < 6; ++k)
          if (const int segment = gateway->segment_of(p.host[k]); segment != -1) {
            ASSERT_LT(k, 4U) << "a host that is nowhere";
            ASSERT_EQ(segment, static_cast<int>(k % 2)) << p.host[k];
          }
    }
    EXPECT_EQ(g.proxy.counters().moved, 0U);
    EXPECT_EQ(h.proxy.counters().moved, 0U);
    EXPECT_GT(g.proxy.counters().of_gateways, 0U);
    own.run(120s);
    EXPECT_EQ(g.segment_of(p.host[1]), -1);
    EXPECT_EQ(h.segment_of(p.host[1]), -1);
    hosts[0]->want(p.host[1], own.now);
    own.run(5s);
    EXPECT_EQ(hosts[0]->next_hop(p.host[1], own.now), "");
    const std::string at = [&] {
      hosts[0]->want(p.host[3], own.now);
      own.run(3s);
      return hosts[0]->next_hop(p.host[3], own.now);
    }();
    EXPECT_TRUE(at == g.sides[0]->mac_text() || at == h.sides[0]->mac_text()) << at;
  });
}

class ProxyStrangers : public testing::Test {
 protected:
  ProxyStrangers() { sim.run(5s); }
  static std::uint32_t addr(unsigned i) { return 0x0a00'0000 + i; }
  /// Requests that a gateway's side sent to all hosts.
  [[nodiscard]] std::size_t requests_on(unsigned lan) const {
    const auto it = sim.sent_on.find(lan);
    return it == sim.sent_on.end()
               ? 0
               : static_cast<std::size_t>(
                     std::count_if(it->second.begin(), it->second.end(), [](const auto& sent) {
                       const auto arp = sent.arp();
                       return arp && arp->op == wire::ArpOp::kRequest && sent.by != nullptr;
                     }));
  }
  static wire::MacAddr mac(unsigned i) {
    return {std::byte{6},
            std::byte{0},
            std::byte{0},
            std::byte{0},
            static_cast<std::byte>(i >> 8),
            static_cast<std::byte>(i)};
  }

  SimLans sim;
  SimGateway& gateway = sim.gateway({{"10.0.0.1/16"}, {"10.0.0.2/16"}});
  SimStation& a = sim.host(0, {"10.0.0.10/16"});
  SimStation& b = sim.host(1, {"10.0.0.11/16"});
};

TEST_F(ProxyStrangers, P24_AScanOfOneStrangerIsBounded) {
  a.want("10.0.0.11", sim.now);
  sim.run(1s);
  const std::size_t before = requests_on(1);
  for (unsigned i = 0; i < 4000; ++i) {
    sim.put_request(0, mac(1), addr(99), addr(1000 + i));
    sim.run(1ms);
  }
  EXPECT_LE(gateway.proxy.questions(), SubnetProxy::kMaxQuestionsOfOne);
  EXPECT_LE(requests_on(1) - before, 3 * SubnetProxy::kMaxQuestionsOfOne);
  EXPECT_GE(gateway.proxy.counters().refused, 3900U);
  EXPECT_LE(gateway.proxy.size(), 2U) << "the stranger gets no place";
  // Another host is served.
  SimStation& c = sim.host(0, {"10.0.0.12/16"});
  SimStation& d = sim.host(1, {"10.0.0.13/16"});
  c.want("10.0.0.13", sim.now);
  sim.put_request(0, mac(1), addr(99), addr(6000));
  sim.run(500ms);
  EXPECT_EQ(c.next_hop("10.0.0.13", sim.now), gateway.sides[0]->mac_text());
  static_cast<void>(d);
}

TEST_F(ProxyStrangers, P24_AScanWithManySendersIsPaced) {
  a.want("10.0.0.11", sim.now);
  sim.run(1s);
  const std::size_t before = requests_on(1);
  for (unsigned i = 0; i < 5000; ++i) {
    sim.put_request(0, mac(i), addr(8000 + i), addr(20'000 + i));
    sim.run(1ms);
  }
  EXPECT_LE(gateway.proxy.questions(), SubnetProxy::kMaxQuestions);
  EXPECT_LE(requests_on(1) - before, SubnetProxy::kAskBurst + 500U + 10U);
  EXPECT_LE(gateway.proxy.size(), 2U);
  // A host that is known is answered at once.
  SimStation& c = sim.host(0, {"10.0.0.12/16"});
  c.want("10.0.0.11", sim.now);
  sim.run(10ms);
  EXPECT_EQ(c.next_hop("10.0.0.11", sim.now), gateway.sides[0]->mac_text());
}

TEST_F(ProxyStrangers, P24_ProbesOfAnAddressInUseOnTheOtherSideAreAnswered) {
  const auto replies = [&] {
    std::size_t n = 0;
    for (const auto& sent : sim.sent_on[0]) {
      const auto arp = sent.arp();
      n += arp && arp->op == wire::ArpOp::kReply && arp->sender_ip == ip("10.0.0.11").v4_host();
    }
    return n;
  };
  sim.put_request(0, mac(1), 0, ip("10.0.0.11").v4_host());
  sim.run(1s);
  EXPECT_EQ(replies(), 1U);
  // The host is gone, although the gateway still knows it: another may take its address.
  b.plugged = false;
  sim.put_request(0, mac(2), 0, ip("10.0.0.11").v4_host());
  sim.run(1s);
  EXPECT_EQ(replies(), 1U);
  // The gateway does not answer for a host on the side of the asker.
  sim.put_request(0, a.own, 0, ip("10.0.0.10").v4_host());
  sim.run(1s);
  EXPECT_EQ(gateway.proxy.counters().answered, 1U);
}

TEST_F(ProxyStrangers, P24_TwoProbesAtOnceMeetOnBothSides) {
  sim.put_request(0, mac(1), 0, ip("10.0.0.50").v4_host());
  sim.put_request(1, mac(2), 0, ip("10.0.0.50").v4_host());
  sim.run(1s);
  // Each segment has a probe of another sender (RFC 5227 §2.1.1).
  for (const unsigned lan : {0U, 1U}) {
    std::set<std::string> senders;
    for (const auto& sent : sim.sent_on[lan])
      if (const auto arp = sent.arp();
          arp && arp->sender_ip == 0 && arp->target_ip == ip("10.0.0.50").v4_host())
        senders.insert(wire::to_string(arp->sender_hw));
    EXPECT_EQ(senders.size(), 2U) << "segment " << lan;
  }
}

TEST_F(ProxyStrangers, P24_MessagesOfThisNodeOnTheWrongSideAreALoop) {
  sim.put_request(1, gateway.sides[0]->own, ip("10.0.0.1").v4_host(), ip("10.0.0.77").v4_host());
  sim.run(1s);
  EXPECT_EQ(gateway.proxy.counters().loops, 1U);
  EXPECT_EQ(gateway.proxy.questions(), 0U);
}

TEST(ProxyOfIp6, P24_AnotherProxyEndsThatOfIp6ForAnHour) {
  SimLans sim;
  SimGateway& g = sim.gateway({{"fd00::1/64"}, {"fd00::2/64"}});
  SimStation& a = sim.host(0, {"fd00::10/64"});
  sim.host(1, {"fd00::11/64"});
  sim.run(5s);
  a.want("fd00::11", sim.now);
  sim.run(1s);
  ASSERT_EQ(g.segment_of("fd00::11"), 1);
  wire::NdMessage ra;
  ra.type = wire::Icmp6Type::kRouterAdvertisement;
  ra.src = ip("fe80::99");
  ra.dst = wire::all_nodes();
  ra.flags = 0x04;
  g.sides[1]->port.on_nd(wire::build_nd(ra), 0, sim.now);
  EXPECT_EQ(g.segment_of("fd00::11"), -1);
  SimStation& c = sim.host(0, {"fd00::12/64"});
  sim.run(5s);
  c.want("fd00::11", sim.now);
  sim.run(2s);
  EXPECT_EQ(c.next_hop("fd00::11", sim.now), "");
  sim.run(61min);
  c.want("fd00::11", sim.now);
  sim.run(2s);
  EXPECT_EQ(c.next_hop("fd00::11", sim.now), g.sides[0]->mac_text());
}

TEST(ProxyOfIp6, P24_SolicitationsForHostsOfTheOtherSideAreHeard) {
  SimLans sim;
  SimGateway& g = sim.gateway({{"fd00::1/64"}, {"fd00::2/64"}});
  SimStation& a = sim.host(0, {"fd00::10/64"});
  sim.host(1, {"fd00::11/64"});
  sim.run(5s);
  const auto group = wire::group_mac(wire::solicited_node(ip("fd00::11")));
  a.want("fd00::11", sim.now);
  sim.run(1s);
  EXPECT_TRUE(g.sides[0]->joined.contains(group)) << "on InfiniBand, only members hear them";
  EXPECT_FALSE(g.sides[1]->joined.contains(group));
  sim.run(200s);
  EXPECT_FALSE(g.sides[0]->joined.contains(group));
}

// Each membership costs the subnet manager work.
TEST(ProxyOfIp6, P24_MadeUpHostsCauseFewMemberships) {
  SimLans sim;
  SimGateway& g = sim.gateway({{"fd00::1/64"}, {"fd00::2/64"}});
  sim.run(5s);
  const std::size_t before = g.sides[1]->joined.size();
  for (unsigned i = 0; i < 3000; ++i) {
    wire::NdMessage m;
    m.src = ip("fd00::" + std::to_string(1000 + i));
    m.target = ip("fd00::1");
    m.dst = wire::solicited_node(m.target);
    m.source_hw = wire::HwAddr{wire::MacAddr{
        std::byte{6}, {}, {}, {}, static_cast<std::byte>(i >> 8), static_cast<std::byte>(i)}};
    g.sides[0]->port.on_nd(wire::build_nd(m), 0, sim.now);
    sim.run(1ms);
  }
  EXPECT_GT(g.proxy.size(), 2900U);
  EXPECT_LE(g.sides[1]->joined.size() - before, SubnetProxy::kListenBurst + 31U);
}

}  // namespace
}  // namespace ipoib::link
