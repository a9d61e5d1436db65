// SPDX-License-Identifier: BSD-3-Clause
// Neighbour discovery between agents on one wire, on both media.
#include "lib/link/ip/nd_agent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <set>

#include "tests/support/logged.h"
#include "tests/unit/lib/link/sim_nd.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using wire::Icmp6Type;

class Nd : public ::testing::TestWithParam<wire::LinkKind> {
 protected:
  /// Adds a host with these addresses and starts it.
  SimNdHost& start(std::vector<wire::IpPrefix> addresses = {}) {
    SimNdHost& host = w.add(std::move(addresses));
    host.up();
    return host;
  }
  /// Starts fd00::1 and fd00::2. The first resolves the second, whose address is known then.
  std::pair<SimNdHost&, SimNdHost&> neighbours() {
    SimNdHost& a = start({prefix("fd00::1/64")});
    SimNdHost& b = start({prefix("fd00::2/64")});
    w.run_for(5s);
    a.want(ip("fd00::2"));
    w.run_for(10ms);
    return {a, b};
  }

  SimNd w{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Media, Nd,
                         ::testing::Values(wire::LinkKind::kInfiniband, wire::LinkKind::kEthernet,
                                           wire::LinkKind::kIbarp),
                         [](const auto& test) {
                           if (test.param == wire::LinkKind::kEthernet) return "Ethernet";
                           return test.param == wire::LinkKind::kIbarp ? "Ibarp" : "InfiniBand";
                         });

wire::NdMessage advertisement(const wire::IpAddr& target, const wire::HwAddr& hw, bool solicited,
                              const wire::IpAddr& dst) {
  wire::NdMessage m;
  m.type = Icmp6Type::kNeighbourAdvertisement;
  m.src = m.target = target;
  m.dst = dst;
  m.solicited = solicited;
  m.override_it = true;
  m.target_hw = hw;
  return m;
}

wire::NdMessage router_advertisement(const wire::IpAddr& src, const wire::HwAddr& hw,
                                     std::optional<std::uint32_t> mtu) {
  wire::NdMessage m;
  m.type = Icmp6Type::kRouterAdvertisement;
  m.src = src;
  m.dst = wire::all_nodes();
  m.source_hw = hw;
  m.lifetime_s = 60;
  m.mtu = mtu;
  return m;
}

TEST_P(Nd, U18_LinkLocalAddressIsUsedOnceNobodyObjected) {
  auto& a = start();
  EXPECT_EQ(a.joined.count(wire::all_nodes()), 1U);
  EXPECT_EQ(a.joined.count(wire::all_routers()), 1U);
  EXPECT_EQ(a.joined.count(wire::solicited_node(a.local())), 1U);
  w.run_for(999ms);
  EXPECT_EQ(a.agent.list().at(0).state, AddressState::kTentative);
  EXPECT_EQ(a.agent.list().at(0).reason, "duplicate address detection");
  EXPECT_TRUE(a.addresses.ready.empty());
  w.run_for(1s);
  EXPECT_TRUE(a.is_ready(a.local()));
  EXPECT_EQ(a.addresses.ready.count({1, {a.local(), 64}}), 1U);
  EXPECT_EQ(a.addresses.listening.count({1, a.local()}), 1U);
  ASSERT_EQ(w.count(Icmp6Type::kNeighbourSolicitation), 1U);
  const auto& question = w.sent.front().message;
  EXPECT_TRUE(wire::is_unspecified(question.src));
  EXPECT_EQ(question.dst, wire::solicited_node(a.local()));
  EXPECT_EQ(question.target, a.local());
  EXPECT_TRUE(question.nonce);
  EXPECT_FALSE(question.source_hw);
  // The node announces the address twice: to all nodes, unsolicited, as a router.
  w.run_for(2s);
  ASSERT_EQ(w.count(Icmp6Type::kNeighbourAdvertisement), 2U);
  const auto& told = w.sent.back().message;
  EXPECT_EQ(told.dst, wire::all_nodes());
  EXPECT_FALSE(told.solicited);
  EXPECT_TRUE(told.override_it);
  EXPECT_TRUE(told.router);
  EXPECT_EQ(told.target_hw, a.hw);
  a.down();
  EXPECT_TRUE(a.joined.empty());
  EXPECT_TRUE(a.addresses.ready.empty());
  EXPECT_TRUE(a.addresses.listening.empty());
  EXPECT_FALSE(a.agent.next_deadline());
}

TEST_P(Nd, U18_AddressInUseIsNotTakenAndTriedAgain) {
  auto& a = start({prefix("fd00::7/64")});
  w.run_for(3s);
  ASSERT_TRUE(a.is_ready(ip("fd00::7")));
  auto& b = start({prefix("fd00::7/64")});
  w.run_for(5s);
  EXPECT_FALSE(b.is_ready(ip("fd00::7")));
  EXPECT_TRUE(b.is_ready(b.local()));
  const auto rows = b.agent.list();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].state, AddressState::kDuplicate);
  EXPECT_EQ(rows[1].reason, "also claimed by " + wire::to_string(a.hw));
  EXPECT_EQ(b.agent.counters().conflicts, 1U);
  ASSERT_EQ(b.addresses.duplicates.size(), 1U);
  EXPECT_EQ(b.addresses.duplicates.begin()->second, prefix("fd00::7/64"));
  EXPECT_TRUE(a.addresses.duplicates.empty());
  EXPECT_EQ(b.joined.count(wire::solicited_node(ip("fd00::7"))), 0U);
  // The owner of the address can be reached like any neighbour.
  b.want(ip("fd00::7"));
  w.run_for(100ms);
  EXPECT_TRUE(b.sink.valid(ip("fd00::7")));
  const auto questions = w.count(Icmp6Type::kNeighbourSolicitation, &b);
  w.run_for(10min);
  EXPECT_FALSE(b.is_ready(ip("fd00::7")));
  EXPECT_LE(w.count(Icmp6Type::kNeighbourSolicitation, &b), questions + 20);
  a.down();
  a.plugged = false;
  w.run_for(2min);
  EXPECT_TRUE(b.is_ready(ip("fd00::7")));
}

TEST_P(Nd, U18_TwoThatStartTogetherNeverBothUseTheAddress) {
  unsigned used = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimNd world{GetParam(), seed};
    auto& a = world.add({prefix("fd00::7/64")});
    auto& b = world.add({prefix("fd00::7/64")});
    a.up();
    world.run_for(std::chrono::milliseconds(seed));
    b.up();
    world.run_for(5s);
    const bool first = a.is_ready(ip("fd00::7"));
    const bool second = b.is_ready(ip("fd00::7"));
    ASSERT_FALSE(first && second) << seed;
    if (first || second) ++used;
  }
  EXPECT_GE(used, 190U);  // the first to ask; none if both questions crossed
}

TEST_P(Nd, U18_OwnQuestionThatComesBackIsNoConflict) {
  w.reflects = true;
  auto& a = start({prefix("fd00::7/64")});
  w.run_for(5s);
  EXPECT_TRUE(a.is_ready(a.local()));
  EXPECT_TRUE(a.is_ready(ip("fd00::7")));
  EXPECT_EQ(a.agent.counters().conflicts, 0U);
}

TEST_P(Nd, ResolvesThroughTheSolicitedNodeGroup) {
  auto& a = start({prefix("fd00::1/64")});
  auto& b = start({prefix("fd00::2/64")});
  auto& other = start({prefix("fd00::3/64")});
  w.run_for(5s);
  w.sent.clear();
  const auto heard = other.agent.counters().received;
  const auto packet = a.want(ip("fd00::2"));
  w.run_for(10ms);
  ASSERT_EQ(w.sent.size(), 2U);
  const auto& question = w.sent[0];
  EXPECT_TRUE(question.group);
  EXPECT_EQ(question.message.src, ip("fd00::1"));
  EXPECT_EQ(question.message.dst, ip("ff02::1:ff00:2"));
  EXPECT_EQ(question.message.source_hw, a.hw);
  const auto& reply = w.sent[1];
  EXPECT_FALSE(reply.group);
  EXPECT_EQ(reply.message.dst, ip("fd00::1"));
  EXPECT_TRUE(reply.message.solicited);
  EXPECT_TRUE(reply.message.override_it);
  EXPECT_TRUE(reply.message.router);
  EXPECT_EQ(reply.message.target_hw, b.hw);
  EXPECT_EQ(a.sink.released, std::vector{packet});
  EXPECT_EQ(a.phase(ip("fd00::2")), NeighbourPhase::kReachable);
  EXPECT_EQ(b.phase(ip("fd00::1")), NeighbourPhase::kStale);  // a request makes its sender known
  EXPECT_EQ(other.agent.counters().received, heard);
}

/// Each router of a subnet answers for their common address, at times of their own, and the first
/// answer stays. Source: RFC 4291 §2.6.1, RFC 4861 §7.2.7.
TEST_P(Nd, U18_RoutersAnswerForTheAnycastAddressOfTheirSubnet) {
  Ip6Config plain;
  plain.routing = false;
  SimNdHost& host = w.add({prefix("fd00::9/64")}, plain);
  host.up();
  std::vector<SimNdHost*> routers;
  for (const char* own : {"fd00::1/64", "fd00::2/64", "fd00::3/64"})
    routers.push_back(&start({prefix(own)}));
  w.run_for(5s);
  w.sent.clear();
  const TimePoint asked = w.now;
  const auto packet = host.want(ip("fd00::"));
  w.run_for(2s);
  EXPECT_EQ(host.sink.released, std::vector{packet});
  std::set<TimePoint> times;
  for (const auto& s : w.sent) {
    if (s.message.type != Icmp6Type::kNeighbourAdvertisement) continue;
    EXPECT_EQ(s.message.target, ip("fd00::"));
    EXPECT_NE(s.message.src, ip("fd00::")) << "a source is the address of one host";
    EXPECT_TRUE(s.message.solicited);
    EXPECT_FALSE(s.message.override_it);
    EXPECT_EQ(s.message.target_hw, s.by->hw);
    EXPECT_LE(s.at - asked, 1s + 10ms);
    times.insert(s.at);
  }
  EXPECT_GE(times.size(), 3U);
  // A flood of questions is answered up to a limit, and none after the router has gone down.
  SimNdHost& router = *routers[0];
  wire::NdMessage question;
  question.src = ip("fd00::9");
  question.dst = ip("ff02::1:ff00:0");
  question.target = ip("fd00::");
  question.source_hw = host.hw;
  for (int i = 0; i < 1000; ++i) router.receive(question);
  EXPECT_EQ(router.agent.counters().unsent, 0U) << "a host has one place";
  for (unsigned i = 0; i < 1000; ++i) {
    question.src = ip("fd00::1:" + std::to_string(i));
    router.receive(question);
  }
  EXPECT_EQ(router.agent.counters().unsent, 1000U - 63);
  router.down();
  w.sent.clear();
  w.run_for(2s);
  for (const auto& s : w.sent) EXPECT_NE(s.by, &router);
  EXPECT_EQ(router.joined.count(ip("ff02::1:ff00:0")), 0U);
}

TEST_P(Nd, U26_UsedNeighbourIsProbedAloneAndFailsWhenSilent) {
  auto [a, b] = neighbours();
  w.sent.clear();
  for (int s = 0; s < 60; ++s) {
    a.use(ip("fd00::2"));
    w.run_for(1s);
    ASSERT_TRUE(a.sink.valid(ip("fd00::2")));
  }
  ASSERT_GE(w.sent.size(), 2U);
  EXPECT_FALSE(w.sent[0].group);
  EXPECT_EQ(w.sent[0].message.dst, ip("fd00::2"));
  b.plugged = false;
  for (int s = 0; s < 60 && a.sink.valid(ip("fd00::2")); ++s) {
    a.use(ip("fd00::2"));
    w.run_for(1s);
  }
  EXPECT_FALSE(a.sink.valid(ip("fd00::2")));
}

TEST_P(Nd, U26_NeighbourWithAnotherAddressIsFollowedAtItsAnnouncement) {
  auto [a, b] = neighbours();
  b.hw = nd_hw(GetParam(), 77);
  b.up();  // as after a change of the port
  w.run_for(10ms);
  EXPECT_EQ(a.cache.hw_of(ip("fd00::2")), b.hw);
  EXPECT_TRUE(a.sink.valid(ip("fd00::2")));
}

TEST_P(Nd, EveryNeighbourIsFoundUnderLoss) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimNd world{GetParam(), seed, 0.3};
    for (int i = 1; i <= 4; ++i) world.add({prefix("fd00::" + std::to_string(i) + "/64")}).up();
    world.run_for(5s);
    const auto all_valid = [&] {
      bool all = true;
      for (const auto& a : world.hosts)
        for (const auto& b : world.hosts) {
          if (a == b) continue;
          const auto to = b->configured[0].addr;
          if (a->sink.valid(to)) continue;
          all = false;
          a->want(to);
        }
      return all;
    };
    for (int s = 0; s < 60 && !all_valid(); ++s) world.run_for(1s);
    ASSERT_TRUE(all_valid()) << seed;
    for (const auto& a : world.hosts)
      for (const auto& b : world.hosts)
        if (a != b) {
          ASSERT_EQ(a->cache.hw_of(b->configured[0].addr), b->hw) << seed;
        }
  }
}

TEST_P(Nd, ForgedAdvertisementsMakeNoEntryFlap) {
  auto [a, b] = neighbours();
  const auto liar = nd_hw(GetParam(), 66);
  unsigned moves = 0;
  auto at = a.cache.hw_of(ip("fd00::2"));
  for (int i = 0; i < 1000; ++i) {
    a.receive(advertisement(ip("fd00::2"), i % 2 ? b.hw : liar, true, ip("fd00::1")));
    if (a.cache.hw_of(ip("fd00::2")) != at) ++moves;
    at = a.cache.hw_of(ip("fd00::2"));
    w.run_for(5ms);
  }
  EXPECT_GE(moves, 1U);
  EXPECT_LE(moves, 6U);
  EXPECT_GT(a.agent.counters().contradictions, 400U);
}

TEST_P(Nd, AdvertisementOfAnIpv4AddressChangesNoIpv4Neighbour) {
  auto& a = start({prefix("fd00::1/64")});
  w.run_for(5s);
  const auto hw = nd_hw(GetParam(), 7), liar = nd_hw(GetParam(), 66);
  ASSERT_TRUE(a.cache.learn(ip("192.168.0.50"), hw, Evidence::kReply, true, w.now));
  w.run_for(5s);
  wire::NdMessage m = advertisement(ip("192.168.0.50"), liar, false, wire::all_nodes());
  m.src = ip("fd00::9");
  a.receive(m);
  w.run_for(5s);
  EXPECT_EQ(a.cache.hw_of(ip("192.168.0.50")), hw);
  EXPECT_EQ(a.agent.counters().errors[static_cast<std::size_t>(wire::NdError::kTarget)], 1U);
}

TEST_P(Nd, ClaimOfAnOwnAddressIsCountedAndDefendedOnceInAWhile) {
  auto& a = start({prefix("fd00::1/64")});
  w.run_for(5s);
  w.sent.clear();
  for (int i = 0; i < 500; ++i) {
    a.receive(advertisement(ip("fd00::1"), nd_hw(GetParam(), 66), false, wire::all_nodes()));
    w.run_for(10ms);
  }
  EXPECT_EQ(a.agent.counters().conflicts, 500U);
  EXPECT_EQ(w.sent.size(), 1U);
  EXPECT_TRUE(a.is_ready(ip("fd00::1")));
  EXPECT_EQ(a.cache.size(), 0U);
}

TEST_P(Nd, BadMessagesAreCountedByNameAndTeachNothing) {
  auto& a = start({prefix("fd00::1/64")});
  w.run_for(5s);
  w.sent.clear();
  wire::NdMessage m;
  m.src = ip("fd00::9");
  m.dst = wire::solicited_node(ip("fd00::1"));
  m.target = ip("fd00::1");
  m.source_hw = nd_hw(GetParam(), 9);
  const auto good = wire::build_nd(m);
  const auto hear = [&](std::size_t at, int value) {
    auto packet = good;
    packet[at] = static_cast<std::byte>(value);
    packet[42] = packet[43] = std::byte{0};
    const wire::Be16 sum{wire::icmp6_checksum(m.src, m.dst, std::span{packet}.subspan(40))};
    std::memcpy(packet.data() + 42, &sum, 2);
    a.agent.on_nd(packet, w.now);
  };
  const auto errors = [&](wire::NdError e) {
    return a.agent.counters().errors[static_cast<std::size_t>(e)];
  };
  hear(7, 254);
  EXPECT_EQ(errors(wire::NdError::kHopLimit), 1U);
  hear(65, 0);
  EXPECT_EQ(errors(wire::NdError::kOptionLength), 1U);
  hear(65, 9);
  EXPECT_EQ(errors(wire::NdError::kOptionLength), 2U);
  hear(41, 1);
  EXPECT_EQ(errors(wire::NdError::kCode), 1U);
  auto packet = good;
  packet.back() ^= std::byte{1};
  a.agent.on_nd(packet, w.now);
  EXPECT_EQ(errors(wire::NdError::kChecksum), 1U);
  for (std::size_t len = 0; len < good.size(); ++len)
    a.agent.on_nd(std::span{good}.first(len), w.now);
  EXPECT_EQ(errors(wire::NdError::kTruncated), good.size());
  m.source_hw = wire::HwAddr::zero(GetParam());  // no interface can have this address
  a.receive(m);
  EXPECT_EQ(errors(wire::NdError::kLinkAddr), 1U);
  EXPECT_EQ(a.agent.counters().invalid, good.size() + 6);
  EXPECT_EQ(a.cache.size(), 0U);
  EXPECT_TRUE(w.sent.empty());
  a.agent.on_nd(good, w.now);
  EXPECT_EQ(a.cache.size(), 1U);
}

class Routers {
 public:
  explicit Routers(wire::LinkKind kind) : w{kind} {
    Ip6Config r;
    r.router_advertisement = true;
    Ip6Config h;
    h.routing = false;
    h.accept_ra = true;
    router = &w.add({prefix("fd00:1::1/64"), prefix("fd00:2::1/48"), prefix("10.0.0.1/24")}, r);
    host = &w.add({}, h);
  }
  /// Starts both. The host knows the router then.
  void start() {
    router->up();
    host->up();
    w.run_for(10s);
  }
  /// Returns the times of the router's advertisements.
  [[nodiscard]] std::vector<TimePoint> times() const {
    std::vector<TimePoint> all;
    for (const auto& s : w.sent)
      if (s.message.type == Icmp6Type::kRouterAdvertisement) all.push_back(s.at);
    return all;
  }

  SimNd w;
  SimNdHost* router;
  SimNdHost* host;
};

TEST_P(Nd, GarbledMessagesLeaveBoundedStateAndValidEntriesTrue) {
  Routers t{GetParam()};
  auto& h = *t.host;
  t.start();
  std::vector<std::vector<std::byte>> good;
  for (const auto& s : t.w.sent) good.push_back(wire::build_nd(s.message));
  std::mt19937_64 random{7};
  const auto before = h.agent.counters().received;
  for (int i = 0; i < 20'000; ++i) {
    auto packet = good[random() % good.size()];
    for (auto n = random() % 4; n > 0; --n)
      packet[40 + random() % (packet.size() - 40)] = static_cast<std::byte>(random());
    const auto ip6 = *wire::read<wire::Ipv6Hdr>(packet);
    packet[42] = packet[43] = std::byte{0};
    const wire::Be16 sum{wire::icmp6_checksum(ip6.src, ip6.dst, std::span{packet}.subspan(40))};
    std::memcpy(packet.data() + 42, &sum, 2);
    h.agent.on_nd(packet, t.w.now);
    t.router->agent.on_nd(packet, t.w.now);
    if (i % 16 == 0) t.w.run_for(1ms);
  }
  EXPECT_GE(h.agent.counters().received, before + 20'000);
  EXPECT_LE(h.addresses.routers.size(), 16U);
  EXPECT_LE(h.cache.size(), 65536U);
  EXPECT_LE(t.w.sent.size(), 60'000U);
  h.down();
  EXPECT_TRUE(h.joined.empty());
  EXPECT_TRUE(h.addresses.routers.empty());
  h.cache.withdraw(Drop::kLinkDown);
  EXPECT_TRUE(h.sink.indexes.empty());
}

TEST_P(Nd, U17_AnotherIdentifierMakesAnotherLinkLocalAddress) {
  auto& a = w.add();
  a.agent.up({}, 0x12, 2044, w.now);
  w.run_for(3s);
  ASSERT_TRUE(a.is_ready(ip("fe80::12")));
  a.agent.up({}, 0x13, 2044, w.now);  // the subnet manager gave the port another LID
  w.run_for(3s);
  EXPECT_FALSE(a.is_ready(ip("fe80::12")));
  EXPECT_TRUE(a.is_ready(ip("fe80::13")));
  EXPECT_EQ(a.addresses.ready.size(), 1U);
}

TEST_P(Nd, M03_SmallerMtuOfARouterIsTakenALargerIgnored) {
  auto [a, b] = neighbours();
  a.ip6.accept_ra = true;
  ASSERT_EQ(a.sink.find(ip("fd00::2"))->mtu, 2044);
  const auto router = nd_hw(GetParam(), 99);
  const auto hear = [&router, &a = a](std::optional<std::uint32_t> mtu) {
    a.receive(router_advertisement(ip("fe80::99"), router, mtu));
  };
  for (const std::uint32_t ignored : {4092U, 0x1'0000U + 1500U, 1279U}) {
    hear(ignored);
    EXPECT_EQ(a.agent.mtu(), 2044) << ignored;
  }
  hear(1500);
  EXPECT_EQ(a.agent.mtu(), 1500);
  EXPECT_EQ(a.sink.find(ip("fd00::2"))->mtu, 1500);
  hear(std::nullopt);
  EXPECT_EQ(a.agent.mtu(), 1500);
  // Contradictory routers do not cause an update of all neighbours with every message.
  const auto installs = a.sink.installs;
  for (int i = 0; i < 100; ++i) hear(1400 + static_cast<std::uint32_t>(i));
  EXPECT_EQ(a.sink.installs, installs);
  w.run_for(1s);
  hear(1280);
  EXPECT_EQ(a.agent.mtu(), 1280);
  // IPv4 is not affected.
  a.cache.learn(ip("10.0.0.2"), b.hw, Evidence::kReply, true, w.now);
  EXPECT_EQ(a.sink.find(ip("10.0.0.2"))->mtu, 2044);
}

TEST_P(Nd, M08_LargerMtuOfARouterIsLoggedNowAndThen) {
  auto [a, b] = neighbours();
  a.ip6.accept_ra = true;
  const auto hear = [&a = a] {
    a.receive(router_advertisement(ip("fe80::99"), nd_hw(GetParam(), 99), 4092));
  };
  const auto text = logged([&] {
    for (int i = 0; i < 10; ++i) hear();
  });
  EXPECT_NE(text.find("ignored MTU 4092 of router fe80::99, the IPv6 MTU is 2044"),
            std::string::npos);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_EQ(a.agent.counters().mtus_ignored, 10U);
  w.run_for(61s);
  EXPECT_NE(logged(hear).find("9 more ignored before"), std::string::npos);
}

TEST_P(Nd, M03_MtuOfARouterEndsWithItsLifetime) {
  auto [a, b] = neighbours();
  a.ip6.accept_ra = true;
  auto ra = router_advertisement(ip("fe80::99"), nd_hw(GetParam(), 99), 1500);
  a.receive(ra);
  ASSERT_EQ(a.agent.mtu(), 1500);
  w.run_for(61s);
  EXPECT_EQ(a.agent.mtu(), 2044);
  EXPECT_EQ(a.sink.find(ip("fd00::2"))->mtu, 2044);
  a.receive(ra);
  ASSERT_EQ(a.agent.mtu(), 1500);
  ra.lifetime_s = 0;
  w.run_for(2s);
  a.receive(ra);
  EXPECT_EQ(a.agent.mtu(), 2044) << "the router says good-bye";
  EXPECT_EQ(a.agent.counters().mtus_ignored, 1U);
}

TEST_P(Nd, M03_MtuOfTwoRoutersOutlivesOne) {
  auto [a, b] = neighbours();
  a.ip6.accept_ra = true;
  auto first = router_advertisement(ip("fe80::98"), nd_hw(GetParam(), 98), 1500);
  auto second = router_advertisement(ip("fe80::99"), nd_hw(GetParam(), 99), 1500);
  a.receive(first);
  a.receive(second);
  first.lifetime_s = 0;
  a.receive(first);
  EXPECT_EQ(a.agent.mtu(), 1500);
  second.lifetime_s = 0;
  a.receive(second);
  EXPECT_EQ(a.agent.mtu(), 2044);
}

TEST_P(Nd, M03_MtuOfARouterIsOnlyReportedIfAdvertisementsAreNotAccepted) {
  auto [a, b] = neighbours();
  const auto router = nd_hw(GetParam(), 99);
  for (const std::uint32_t mtu : {1280U, 2044U, 1500U})
    a.receive(router_advertisement(ip("fe80::99"), router, mtu));
  EXPECT_EQ(a.agent.mtu(), 2044);
  EXPECT_EQ(a.sink.find(ip("fd00::2"))->mtu, 2044);
  EXPECT_EQ(a.agent.counters().mtus_ignored, 2U);
  EXPECT_TRUE(a.addresses.routers.empty());
}

TEST_P(Nd, U15_Ipv6NeedsAnMtuOf1280) {
  auto& a = w.add();
  a.up(1279);
  EXPECT_FALSE(a.agent.running());
  EXPECT_EQ(a.agent.reason(), "the MTU 1279 is less than 1280 octets, the minimum of IPv6");
  EXPECT_TRUE(a.joined.empty());
  a.up(1280);
  w.run_for(3s);
  EXPECT_TRUE(a.is_ready(a.local()));
  a.up(1020);  // the group was created again with another MTU
  EXPECT_FALSE(a.agent.running());
  EXPECT_TRUE(a.addresses.ready.empty());
}

TEST_P(Nd, RouterIsFoundWhenAskedForAndGoesWithItsGoodBye) {
  Routers t{GetParam()};
  t.router->up(4092);
  t.w.run_for(60s);
  t.host->up(4092);
  t.w.run_for(10s);
  EXPECT_GE(t.w.count(Icmp6Type::kRouterSolicitation, t.host), 1U);
  EXPECT_EQ(t.host->addresses.routers, std::set{t.router->local()});
  EXPECT_FALSE(t.host->joined.count(wire::all_routers()));
  const auto ra = std::find_if(t.w.sent.rbegin(), t.w.sent.rend(), [](const auto& s) {
                    return s.message.type == Icmp6Type::kRouterAdvertisement;
                  })->message;
  EXPECT_EQ(ra.src, t.router->local());
  EXPECT_EQ(ra.lifetime_s, 1800);
  EXPECT_EQ(ra.mtu, 4092U);
  EXPECT_EQ(ra.source_hw, t.router->hw);
  ASSERT_EQ(ra.prefixes.size(), 2U);
  EXPECT_EQ(ra.prefixes[0].prefix, prefix("fd00:1::/64"));
  EXPECT_TRUE(ra.prefixes[0].on_link && ra.prefixes[0].autonomous);
  EXPECT_EQ(ra.prefixes[1].prefix, prefix("fd00:2::/48"));
  EXPECT_FALSE(ra.prefixes[1].autonomous);
  EXPECT_TRUE(t.router->addresses.routers.empty());
  t.router->down();
  t.w.run_for(1s);
  EXPECT_EQ(t.w.sent.back().message.lifetime_s, 0);
  EXPECT_TRUE(t.host->addresses.routers.empty());
}

// The prefixes stay: only the way through this router ends, until it is said to be one again.
TEST_P(Nd, P18_RouterOutOfServiceIsNoDefaultRouter) {
  Routers t{GetParam()};
  t.router->up(4092);
  t.host->up(4092);
  t.w.run_for(20s);
  ASSERT_EQ(t.host->addresses.routers, std::set{t.router->local()});
  EXPECT_TRUE(t.router->agent.advertises_router());
  t.router->agent.set_default_router(false, t.w.now);
  t.w.run_for(1s);
  EXPECT_TRUE(t.host->addresses.routers.empty()) << "at once";
  const auto last = [&t] {
    return std::find_if(
               t.w.sent.rbegin(), t.w.sent.rend(),
               [](const auto& s) { return s.message.type == Icmp6Type::kRouterAdvertisement; })
        ->message;
  };
  EXPECT_EQ(last().lifetime_s, 0);
  EXPECT_EQ(last().prefixes.size(), 2U);
  t.router->up(4000);  // it comes up again
  t.w.run_for(3600s);
  EXPECT_TRUE(t.host->addresses.routers.empty());
  t.router->agent.set_default_router(true, t.w.now);
  t.w.run_for(1s);
  EXPECT_EQ(t.host->addresses.routers, std::set{t.router->local()});
}

// Messages to all hosts name no address that only some should use. Answers and probes name the one
// of their receiver.
TEST_P(Nd, P14_RouterWithSeveralAddressesTellsEachHostOne) {
  Routers t{GetParam()};
  const SimNdHost& other = t.w.add();
  t.router->told = other.hw;
  t.router->up(4092);
  t.w.run_for(60s);
  t.host->up(4092);
  t.w.run_for(10s);
  EXPECT_EQ(t.host->addresses.routers, std::set{t.router->local()});
  for (const auto& s : t.w.sent) {
    if (s.by != t.router || s.message.type != Icmp6Type::kRouterAdvertisement) continue;
    EXPECT_FALSE(s.message.source_hw);
  }

  t.w.sent.clear();
  t.host->want(t.router->local());
  t.w.run_for(1s);
  const auto told = [&](Icmp6Type type, const std::optional<wire::HwAddr> wire::NdMessage::*hw) {
    std::vector<wire::HwAddr> all;
    for (const auto& s : t.w.sent)
      if (s.by == t.router && s.message.type == type && !s.group) all.push_back(*(s.message.*hw));
    return all;
  };
  EXPECT_EQ(told(Icmp6Type::kNeighbourAdvertisement, &wire::NdMessage::target_hw),
            std::vector{other.hw});
  t.router->want(t.host->local());
  t.w.run_for(1s);
  for (int i = 0; i < 60; ++i) {
    t.router->use(t.host->local());
    t.w.run_for(1s);
  }
  const auto probes = told(Icmp6Type::kNeighbourSolicitation, &wire::NdMessage::source_hw);
  EXPECT_FALSE(probes.empty());
  for (const wire::HwAddr& hw : probes) EXPECT_EQ(hw, other.hw);
}

// The solicitation of its group named the first address.
TEST_P(Nd, P14_NeighbourFoundByItsGroupGetsItsAddressAtOnce) {
  SimNdHost& node = w.add();
  SimNdHost& host = w.add();
  node.told = w.add().hw;
  node.up();
  host.up();
  w.run_for(10s);
  w.sent.clear();
  node.want(host.local());
  w.run_for(5s);
  std::vector<std::pair<bool, wire::HwAddr>> solicitations;  // to the group, address
  for (const auto& s : w.sent)
    if (s.by == &node && s.message.type == Icmp6Type::kNeighbourSolicitation)
      solicitations.emplace_back(s.group, *s.message.source_hw);
  EXPECT_EQ(solicitations, (decltype(solicitations){{true, node.hw}, {false, *node.told}}));
}

TEST_P(Nd, SilentRouterIsForgottenAfterItsLifetime) {
  Routers t{GetParam()};
  t.host->up();
  t.w.run_for(3s);
  t.host->receive(router_advertisement(ip("fe80::99"), nd_hw(GetParam(), 99), std::nullopt));
  EXPECT_EQ(t.host->addresses.routers.size(), 1U);
  t.w.run_for(59s);
  EXPECT_EQ(t.host->addresses.routers.size(), 1U);
  t.w.run_for(2s);
  EXPECT_TRUE(t.host->addresses.routers.empty());
}

TEST_P(Nd, AdvertisementsKeepThePaceOfRfc4861) {
  Routers t{GetParam()};
  t.router->up();
  t.w.run_for(1h);
  auto times = t.times();
  ASSERT_GE(times.size(), 6U);
  for (std::size_t i = 1; i < times.size(); ++i) {
    const auto pause = times[i] - times[i - 1];
    if (i < 3) {
      EXPECT_LE(pause, 16s);
    } else {
      EXPECT_GE(pause, 200s) << i;
      EXPECT_LE(pause, 600s) << i;
    }
  }
  // The router answers at most once in 3 s, for any number of requests from any sender.
  t.w.sent.clear();
  wire::NdMessage rs;
  rs.type = Icmp6Type::kRouterSolicitation;
  rs.dst = wire::all_routers();
  for (int i = 0; i < 3000; ++i) {
    t.router->receive(rs);
    t.w.run_for(10ms);
  }
  times = t.times();
  EXPECT_GE(times.size(), 8U);
  EXPECT_LE(times.size(), 11U);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i] - times[i - 1], 3s);
}

TEST_P(Nd, RedirectCountsFromTheRouterInUseAlone) {
  Routers t{GetParam()};
  auto& h = *t.host;
  t.start();
  wire::NdMessage m;
  m.type = Icmp6Type::kRedirect;
  m.src = ip("fe80::66");
  m.dst = h.local();
  m.target = ip("fe80::9");
  m.destination = ip("fd00:9::1");
  m.target_hw = nd_hw(GetParam(), 9);
  h.receive(m);
  EXPECT_TRUE(h.addresses.redirects.empty());
  EXPECT_EQ(h.agent.counters().redirects_ignored, 1U);
  m.src = t.router->local();
  h.receive(m);
  EXPECT_EQ(h.addresses.redirects,
            (std::vector{FakeAddressSink::Redirect{1, ip("fd00:9::1"), ip("fe80::9")}}));
  EXPECT_EQ(h.cache.hw_of(ip("fe80::9")), nd_hw(GetParam(), 9));
  // A node that ignores router advertisements ignores redirects, too.
  t.router->receive(m);
  EXPECT_TRUE(t.router->addresses.redirects.empty());
}

/// Only a host reports that a next hop does not answer; it may have learned it from a redirect.
TEST_P(Nd, NextHopThatDoesNotAnswerIsTold) {
  Routers t{GetParam()};
  t.start();
  for (auto* h : {t.host, t.router}) h->want(ip("fe80::9"));
  t.w.run_for(5s);
  EXPECT_EQ(t.host->addresses.failed,
            (std::set<std::pair<table::InterfaceId, wire::IpAddr>>{{1, ip("fe80::9")}}));
  EXPECT_TRUE(t.router->addresses.failed.empty());
}

TEST_P(Nd, AdvertisementsOfManyPrefixesFitTheMtu) {
  Ip6Config config;
  config.router_advertisement = true;
  std::vector<wire::IpPrefix> own;
  for (unsigned i = 0; i < 100; ++i)
    own.push_back(prefix(("fd00:0:0:" + std::to_string(i + 1) + "::1/64").c_str()));
  auto& a = w.add(own, config);
  a.up(1500);
  w.run_for(60s);
  a.down();
  std::map<wire::IpPrefix, unsigned> told, withdrawn;
  for (const auto& s : w.sent) {
    if (s.message.type != Icmp6Type::kRouterAdvertisement) continue;
    EXPECT_LE(wire::build_nd(s.message).size(), 1500U);
    for (const auto& p : s.message.prefixes)
      ++(s.message.lifetime_s == 0 ? withdrawn : told)[p.prefix];
  }
  EXPECT_EQ(told.size(), 100U);
  EXPECT_EQ(withdrawn.size(), 100U);
}

TEST_P(Nd, RedirectIsSentToTheNeighbourWhosePacketTurnedBack) {
  Routers t{GetParam()};
  t.start();
  t.router->want(t.host->local());
  t.w.run_for(1s);
  t.w.sent.clear();
  std::vector<std::byte> packet(100);
  const wire::Ipv6Hdr hdr{wire::Be32{wire::Ipv6Hdr::kVersion6},
                          wire::Be16{60},
                          17,
                          64,
                          t.host->local(),
                          ip("fd00:9::1")};
  std::memcpy(packet.data(), &hdr, sizeof hdr);
  t.router->agent.send_redirect(packet, ip("fe80::9"), t.w.now);
  t.w.run_for(1s);
  ASSERT_EQ(t.w.count(Icmp6Type::kRedirect), 1U);
  EXPECT_EQ(t.host->addresses.redirects.size(), 1U);
  // No redirect goes to a sender whose address is not on the link.
  std::memcpy(packet.data() + 8, ip("fd00:77::1").bytes.data(), 16);
  const auto unsent = t.router->agent.counters().unsent;
  t.router->agent.send_redirect(packet, ip("fe80::9"), t.w.now);
  EXPECT_EQ(t.w.count(Icmp6Type::kRedirect), 1U);
  EXPECT_EQ(t.router->agent.counters().unsent, unsent + 1);
}

}  // namespace
}  // namespace ipoib::link
