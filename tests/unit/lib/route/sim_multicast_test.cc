// SPDX-License-Identifier: BSD-3-Clause
// Properties of the multicast router over many seeds, and the life of members and queriers in
// virtual time.
#include "tests/unit/lib/route/sim_multicast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"
#include "tests/support/addresses.h"

namespace ipoib::route::test {
namespace {

using ipoib::test::ip;
using std::chrono::milliseconds;
using std::chrono::seconds;
using table::InterfaceId;
using wire::IpAddr;
using wire::MembershipVersion;

constexpr InterfaceId kLinks = 3;
/// More than twice the Group Membership Interval of 260 s, so that the effects of lost packets have
/// ended.
constexpr Duration kSettled = seconds(3 * 260);

const std::array<IpAddr, 2> kGroups4 = {ip("239.1.1.1"), ip("239.1.1.2")};
const std::array<IpAddr, 2> kGroups6 = {ip("ff1e::1"), ip("ff1e::2")};
const std::array<IpAddr, 3> kSources4 = {ip("10.9.0.1"), ip("10.9.0.2"), ip("10.9.0.3")};
const std::array<IpAddr, 3> kSources6 = {ip("fd09::1"), ip("fd09::2"), ip("fd09::3")};

GroupFilter random_filter(std::mt19937_64& random, bool v4, MembershipVersion version) {
  if (random() % 3 == 0) return {};
  if (version != MembershipVersion::kV3) return {true, {}};
  GroupFilter filter{random() % 2 == 0, {}};
  for (const IpAddr& s : v4 ? kSources4 : kSources6)
    if (random() % 2 == 0) filter.sources.push_back(s);
  return filter;
}

/// Returns the outgoing interfaces that a router's delivery must have, from the filters of the
/// hosts.
std::uint64_t wanted_out(const SimMulticast& sim, InterfaceId in, const IpAddr& group,
                         const IpAddr& source) {
  std::uint64_t out = 0;
  for (const auto& host : sim.hosts) {
    const auto filter = host->filters().find(group);
    if (host->link() == in || filter == host->filters().end()) continue;
    if (filter->second.matches(source)) out |= std::uint64_t{1} << host->link();
  }
  return out;
}

/// Returns the interfaces on which living routers send the packet, and those on which several do.
std::pair<std::uint64_t, std::uint64_t> sent_on(const SimMulticast& sim, InterfaceId in,
                                                const IpAddr& group, const IpAddr& source) {
  std::uint64_t once = 0, twice = 0;
  for (const auto& router : sim.routers) {
    if (!router->alive) continue;
    const std::uint64_t out = router->deliveries.lookup(in, group, source).out;
    twice |= once & out;
    once |= out;
  }
  return {once, twice};
}

/// All routers together serve each filter, and no two of them the same one.
void expect_filters_served(const SimMulticast& sim, const char* when, std::uint64_t seed) {
  for (const auto& router : sim.routers) {
    EXPECT_EQ(router->deliveries.removed_unknown, 0U);
    EXPECT_EQ(router->deliveries.entries.size(), router->control.table().entries());
  }
  for (InterfaceId in = 0; in < kLinks; ++in) {
    for (const bool v4 : {true, false})
      for (const IpAddr& group : v4 ? kGroups4 : kGroups6)
        for (const IpAddr& source : v4 ? kSources4 : kSources6) {
          const auto sent = sent_on(sim, in, group, source);
          ASSERT_EQ(sent.first, wanted_out(sim, in, group, source))
              << when << ": seed " << seed << " in " << in << " " << to_string(group) << " from "
              << to_string(source);
          ASSERT_EQ(sent.second, 0U) << when << ": seed " << seed << " in " << in;
        }
  }
}

void expect_empty(const SimMulticast& sim, std::uint64_t seed) {
  for (const auto& router : sim.routers) {
    EXPECT_TRUE(router->deliveries.entries.empty()) << seed;
    for (InterfaceId link = 0; link < kLinks; ++link)
      for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6})
        EXPECT_EQ(router->control.membership(link, family)->group_count(), 0U) << seed;
  }
}

SimHost& random_host(SimMulticast& sim) {
  const auto link = static_cast<InterfaceId>(sim.random() % kLinks);
  const bool v4 = sim.random() % 2 == 0;
  // MLD has no equivalent of IGMP version 1.
  const auto version =
      static_cast<MembershipVersion>(v4 ? 1 + sim.random() % 3 : 2 + sim.random() % 2);
  return sim.add_host(link, v4 ? IpFamily::kIpv4 : IpFamily::kIpv6, version);
}

void change_filters(SimMulticast& sim, SimHost& host) {
  const bool v4 = host.addr().is_v4();
  for (const IpAddr& group : v4 ? kGroups4 : kGroups6)
    host.want(group, random_filter(sim.random, v4, host.version()));
}

class MulticastSimulation : public testing::TestWithParam<std::size_t> {};

// Hosts of all versions change their filters on links that lose a third of all packets. After the
// hosts rest and packets arrive, the deliveries of every router are equal to the filters. After all
// hosts have left, the routers keep nothing.
TEST_P(MulticastSimulation, DeliveriesAreTheFiltersOfTheHosts) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SimMulticast sim{seed, GetParam(), kLinks};
    for (int i = 0; i < 8; ++i) random_host(sim);
    sim.loss_percent = 33;
    for (int round = 0; round < 10; ++round) {
      for (const auto& host : sim.hosts)
        if (sim.random() % 2 == 0) change_filters(sim, *host);
      sim.run(sim.up_to(seconds(60)));
    }
    sim.loss_percent = 0;
    sim.run(kSettled);
    expect_filters_served(sim, "settled", seed);
    for (const auto& host : sim.hosts)
      for (const IpAddr& group : host->addr().is_v4() ? kGroups4 : kGroups6) host->want(group, {});
    sim.run(kSettled);
    expect_empty(sim, seed);
    if (HasFatalFailure() || HasFailure()) return;
  }
}

// The robustness variable compensates for loss that never ends.
TEST_P(MulticastSimulation, RobustnessSurvivesSteadyLoss) {
  MembershipConfig config;
  config.robustness = 7;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SimMulticast sim{seed, GetParam(), kLinks, config};
    sim.loss_percent = 5;
    for (int i = 0; i < 8; ++i) change_filters(sim, random_host(sim));
    sim.run(seconds(3 * (7 * 125 + 10)));
    for (int minute = 0; minute < 30; ++minute) {
      sim.run(seconds(60));
      expect_filters_served(sim, "steady", seed);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Routers, MulticastSimulation, testing::Values(1, 2));

TEST(MulticastLife, AJoinIsServedAtOnceAndALeaveWithinTheLastMemberTime) {
  for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6}) {
    for (const auto version : {MembershipVersion::kV2, MembershipVersion::kV3}) {
      SimMulticast sim{1, 1, kLinks};
      sim.run(MulticastMembership::kListenTime);
      const IpAddr group = family == IpFamily::kIpv4 ? kGroups4[0] : kGroups6[0];
      const IpAddr source = family == IpFamily::kIpv4 ? kSources4[0] : kSources6[0];
      SimHost& host = sim.add_host(1, family, version);
      host.want(group, {true, {}});
      sim.run(milliseconds(1));
      EXPECT_EQ(sim.routers[0]->deliveries.lookup(0, group, source).out, 2U);
      EXPECT_EQ(sim.routers[0]->deliveries.lookup(1, group, source).out, 0U);
      EXPECT_EQ(sim.routers[0]->deliveries.lookup(2, group, source).out, 2U);
      sim.run(seconds(300));
      EXPECT_EQ(sim.routers[0]->deliveries.lookup(0, group, source).out, 2U);
      host.want(group, {});
      sim.run(milliseconds(1'900));
      EXPECT_EQ(sim.routers[0]->deliveries.lookup(0, group, source).out, 2U);
      sim.run(milliseconds(1'300));
      EXPECT_TRUE(sim.routers[0]->deliveries.entries.empty());
    }
  }
}

TEST(MulticastLife, ALeaveDoesNotCutOffTheMembersThatStay) {
  SimMulticast sim{2, 1, kLinks};
  std::vector<SimHost*> hosts;
  for (const auto version : {MembershipVersion::kV2, MembershipVersion::kV2})
    hosts.push_back(&sim.add_host(1, IpFamily::kIpv4, version));
  for (SimHost* host : hosts) host->want(kGroups4[0], {true, {}});
  sim.run(seconds(5));
  hosts[0]->want(kGroups4[0], {});
  for (int i = 0; i < 600; ++i) {
    sim.run(seconds(1));
    ASSERT_EQ(sim.routers[0]->deliveries.lookup(0, kGroups4[0], kSources4[0]).out, 2U) << i;
  }
}

TEST(MulticastLife, AHostOfVersionOneIsNotLeftByOthers) {
  SimMulticast sim{3, 1, kLinks};
  SimHost& v1 = sim.add_host(1, IpFamily::kIpv4, MembershipVersion::kV1);
  SimHost& v3 = sim.add_host(1, IpFamily::kIpv4, MembershipVersion::kV3);
  v1.want(kGroups4[0], {true, {}});
  v3.want(kGroups4[0], {true, {}});
  sim.run(seconds(5));
  const auto rows = sim.routers[0]->control.membership(1, IpFamily::kIpv4)->groups(sim.now);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].version, MembershipVersion::kV1);
  v3.want(kGroups4[0], {});
  sim.run(seconds(20));
  EXPECT_EQ(sim.routers[0]->deliveries.lookup(0, kGroups4[0], kSources4[0]).out, 2U);
  v1.want(kGroups4[0], {});  // leaves silently
  sim.run(seconds(270));
  EXPECT_TRUE(sim.routers[0]->deliveries.entries.empty());
}

TEST(MulticastLife, TheLowestAddressAsksAndAnotherTakesOver) {
  SimMulticast sim{4, 2, kLinks};
  const auto querier = [&sim](std::size_t r) {
    return sim.routers[r]->control.membership(0, IpFamily::kIpv4)->querier() &&
           sim.routers[r]->control.membership(0, IpFamily::kIpv6)->querier();
  };
  SimHost& host = sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3);
  host.want(kGroups4[0], {true, {}});
  sim.run(seconds(200));
  EXPECT_TRUE(querier(0));
  EXPECT_FALSE(querier(1));
  EXPECT_EQ(sim.routers[1]->control.membership(0, IpFamily::kIpv4)->other_querier(),
            SimMulticast::router_address(0, 0, IpFamily::kIpv4));
  const std::uint64_t sent = sim.routers[1]->sent[0];
  sim.run(seconds(1'000));
  EXPECT_EQ(sim.routers[1]->sent[0], sent);

  sim.routers[0]->alive = false;
  sim.run(seconds(256));  // Other Querier Present Interval: 255 s.
  EXPECT_TRUE(querier(1));
  EXPECT_EQ(sim.routers[1]->deliveries.lookup(1, kGroups4[0], kSources4[0]).out, 1U);
  sim.run(seconds(1'000));
  EXPECT_EQ(sim.routers[1]->deliveries.lookup(1, kGroups4[0], kSources4[0]).out, 1U);
  sim.routers[0]->alive = true;
  sim.run(seconds(300));
  EXPECT_FALSE(querier(1));
}

/// Number of routers that send a packet from link 1 to the host on link 0.
std::size_t copies(const SimMulticast& sim, const IpAddr& group, const IpAddr& source) {
  return static_cast<std::size_t>(std::ranges::count_if(sim.routers, [&](const auto& router) {
    return router->alive && (router->deliveries.lookup(1, group, source).out & 1U) != 0;
  }));
}

// Two routers between the same links: a host gets each packet once, and again so after the one that
// forwards has died and the Other Querier Present Interval has passed.
TEST(MulticastLife, P06_OfTwoRoutersTheQuerierForwardsAndAnotherTakesOver) {
  for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6}) {
    const IpAddr group = family == IpFamily::kIpv4 ? kGroups4[0] : kGroups6[0];
    const IpAddr source = family == IpFamily::kIpv4 ? kSources4[0] : kSources6[0];
    MembershipConfig config;
    config.query_interval = seconds(10);
    config.query_response_interval = seconds(2);
    SimMulticast sim{8, 2, kLinks, config};
    sim.add_host(0, family, MembershipVersion::kV3).want(group, {true, {}});
    sim.run(MulticastMembership::kListenTime);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(copies(sim, group, source), 1U) << i;
      sim.run(seconds(1));
    }
    sim.routers[0]->alive = false;
    EXPECT_EQ(copies(sim, group, source), 0U);
    sim.run(seconds(21) + MulticastMembership::kListenTime);  // 2 x 10 s, and half of 2 s
    EXPECT_EQ(copies(sim, group, source), 1U);
    // The one that returns has the lower address, and asks at once when it hears the other.
    sim.routers[0]->alive = true;
    sim.run(seconds(11));
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(copies(sim, group, source), 1U) << i;
      sim.run(seconds(1));
    }
    EXPECT_NE(sim.routers[0]->deliveries.lookup(1, group, source).out, 0U);
  }
}

/// A host that is a member on link 0, and two routers, of which one starts, on both links, `offset`
/// after the other. The host asks for the group all the time.
void expect_no_copy(std::uint64_t seed, IpFamily family, std::size_t first, Duration offset,
                    unsigned loss_percent, Duration deaf) {
  const IpAddr group = family == IpFamily::kIpv4 ? kGroups4[0] : kGroups6[0];
  const IpAddr source = family == IpFamily::kIpv4 ? kSources4[0] : kSources6[0];
  SimMulticast sim{seed, 2, kLinks};
  SimHost& host = sim.add_host(0, family, MembershipVersion::kV3);
  for (const auto& router : sim.routers)
    for (const InterfaceId link : {InterfaceId{0}, InterfaceId{1}})
      router->control.link_down(link, sim.now);
  sim.run(seconds(1));
  const auto start = [&sim](std::size_t r) {
    for (const InterfaceId link : {InterfaceId{0}, InterfaceId{1}})
      sim.routers[r]->control.link_up(link, sim.now);
  };
  const TimePoint begin = sim.now;
  sim.loss_percent = deaf > Duration{} ? 100 : loss_percent;
  sim.after({}, [&] { start(first); });
  sim.after(offset, [&] { start(1 - first); });
  sim.after(offset + deaf, [&] { sim.loss_percent = loss_percent; });
  bool forwarded = false;
  while (sim.now < begin + offset + seconds(5)) {
    host.want(group, {true, {}});
    sim.run(milliseconds(20));
    const std::size_t n = copies(sim, group, source);
    ASSERT_LE(n, 1U) << "seed " << seed << " at " << (sim.now - begin).count() << " ns, offset "
                     << offset.count() << " ns, router " << first << " first";
    forwarded = forwarded || n == 1;
  }
  EXPECT_TRUE(forwarded) << seed;
  EXPECT_EQ(copies(sim, group, source), 1U) << seed;
}

// Each takes itself for the querier until it hears the other, and hears it in the time in which it
// does not forward yet, at every time between their starts, and if links lose packets.
TEST(MulticastLife, P06_RoutersThatStartTogetherDeliverOnce) {
  for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6}) {
    for (const std::size_t first : {0U, 1U}) {
      for (auto offset = milliseconds(0); offset <= milliseconds(2'500);
           offset += milliseconds(100)) {
        expect_no_copy(1, family, first, offset, 0, {});
        expect_no_copy(1, family, first, offset, 0, milliseconds(1'200));
        for (std::uint64_t seed = 1; seed <= 4; ++seed)
          expect_no_copy(seed, family, first, offset, 5, {});
        if (HasFailure()) return;
      }
    }
  }
}

// Both routers that wait miss the querier at the same moment.
TEST(MulticastLife, P06_OneOfTwoThatMissTheQuerierTakesOver) {
  MembershipConfig config;
  config.query_interval = seconds(10);
  config.query_response_interval = seconds(2);
  SimMulticast sim{15, 3, kLinks, config};
  sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3).want(kGroups4[0], {true, {}});
  sim.run(seconds(30));
  sim.routers[0]->alive = false;
  sim.loss_percent = 100;
  for (int i = 0; i < 300; ++i) {
    sim.run(milliseconds(100));
    ASSERT_LE(copies(sim, kGroups4[0], kSources4[0]), 1U) << i;
    if (sim.routers[1]->control.membership(0, IpFamily::kIpv4)->querier()) sim.loss_percent = 0;
  }
  EXPECT_EQ(copies(sim, kGroups4[0], kSources4[0]), 1U);
}

// The routers miss the querier of one link seconds before that of the other link, because the
// querier came up on them at different times. The one that takes over does not stop again.
TEST(MulticastLife, P06_ARouterThatTookOverForwardsOnWhenItMissesTheQuerierOfTheOtherLink) {
  MembershipConfig config;
  config.query_interval = seconds(10);
  config.query_response_interval = seconds(2);
  for (const InterfaceId late : {InterfaceId{0}, InterfaceId{1}}) {
    SimMulticast sim{16, 3, kLinks, config};
    sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3).want(kGroups4[0], {true, {}});
    sim.routers[0]->control.link_down(late, sim.now);
    sim.run(seconds(5));
    sim.routers[0]->control.link_up(late, sim.now);
    sim.run(seconds(60));
    ASSERT_EQ(copies(sim, kGroups4[0], kSources4[0]), 1U);
    sim.routers[0]->alive = false;
    for (int i = 0; i < 250 && copies(sim, kGroups4[0], kSources4[0]) == 0; ++i)
      sim.run(milliseconds(100));
    for (int i = 0; i < 250; ++i) {
      ASSERT_EQ(copies(sim, kGroups4[0], kSources4[0]), 1U) << "link " << late << ", " << i;
      sim.run(milliseconds(100));
    }
  }
}

// A stranger poses as the querier of the shortest interval, and falls silent, again and again.
TEST(MulticastLife, P06_AStrangerOnOneLinkDoesNotStopWhatIsForwarded) {
  for (const InterfaceId link : {InterfaceId{0}, InterfaceId{1}}) {
    SimMulticast sim{17, 1, kLinks};
    SimHost& host = sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3);
    host.want(kGroups4[0], {true, {}});
    sim.run(seconds(10));
    sim.stream({kGroups4[0], kSources4[0], 1}, milliseconds(100), seconds(60));
    const MulticastMembership& victim = *sim.routers[0]->control.membership(link, IpFamily::kIpv4);
    unsigned forged = 0;
    for (int i = 0; i < 600; ++i) {
      if (victim.forwarder() == Forwarder::kThis && ++forged != 0)
        sim.transmit(link,
                     wire::make_igmp(ip("10.0.0.0"), wire::MembershipQuery{.robustness = 1,
                                                                           .interval = seconds(1)}),
                     nullptr);
      sim.run(milliseconds(100));
    }
    EXPECT_GE(forged, 5U);
    EXPECT_EQ(std::ranges::count(sim.copies(0, kGroups4[0]), 1U), 600) << "link " << link;
  }
}

// A router that starts beside the querier hears it at once.
TEST(MulticastLife, P06_ARouterThatStartsBesideTheQuerierStopsAtOnce) {
  SimMulticast sim{9, 2, kLinks};
  sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3).want(kGroups4[0], {true, {}});
  sim.run(seconds(300));
  sim.routers[1]->control.link_down(0, sim.now);
  sim.run(seconds(20));
  sim.routers[1]->control.link_up(0, sim.now);
  sim.run(milliseconds(1));
  EXPECT_FALSE(sim.routers[1]->control.membership(0, IpFamily::kIpv4)->querier());
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(copies(sim, kGroups4[0], kSources4[0]), 1U) << i;
    sim.run(seconds(1));
  }
}

TEST(MulticastLife, P06_ARouterForwardsBesideAQuerierThatDoesNot) {
  MembershipConfig config;
  config.forwarder = ForwarderRule::kAlways;
  SimMulticast sim{10, 2, kLinks, config};
  sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3).want(kGroups4[0], {true, {}});
  sim.run(seconds(300));
  EXPECT_EQ(copies(sim, kGroups4[0], kSources4[0]), 2U);
}

// A static route names its egress itself. No election moves it.
TEST(MulticastLife, P06_StaticRoutesDoNotDependOnTheQuerier) {
  SimMulticast sim{11, 2, kLinks};
  for (const auto& router : sim.routers)
    ASSERT_TRUE(router->control.add_static({{kGroups4[0], 32}, {}, 1, {0}}, sim.now));
  sim.run(seconds(300));
  EXPECT_EQ(copies(sim, kGroups4[0], kSources4[0]), 2U);
}

// RFC 3376 §9.1, §9.2: a source that is not on the link may be forged by a host elsewhere.
TEST(MulticastLife, P06_IgmpFromOtherNetworksIsIgnored) {
  SimMulticast sim{12, 1, kLinks};
  MulticastRouter& control = sim.routers[0]->control;
  control.set_networks(0, {{ip("10.0.0.9"), 24}});
  const auto hears = [&](const char* from) {
    const wire::MembershipReport report{MembershipVersion::kV3,
                                        {{wire::RecordType::kToExclude, kGroups4[0], {}}}};
    control.on_packet(0, wire::make_igmp(ip(from), report), sim.now);
    return control.membership(0, IpFamily::kIpv4)->group_count() != 0;
  };
  EXPECT_FALSE(hears("10.0.1.7"));
  wire::MembershipQuery query;
  query.robustness = 7;
  control.on_packet(0, wire::make_igmp(ip("9.9.9.9"), query), sim.now);
  EXPECT_TRUE(control.membership(0, IpFamily::kIpv4)->querier());
  EXPECT_EQ(control.foreign_messages(0), 2U);
  EXPECT_TRUE(hears("0.0.0.0")) << "a host without an address";
  control.set_networks(1, {{ip("10.0.0.9"), 32}});
  control.on_packet(1, wire::make_igmp(ip("9.9.9.9"), query), sim.now);
  EXPECT_EQ(control.foreign_messages(1), 0U) << "the network is not known";
}

// RFC 3810 §5.1.14, §5.2.13: messages of other links have no link-local source.
TEST(MulticastLife, P06_MldFromOtherNetworksIsIgnored) {
  SimMulticast sim{12, 1, kLinks};
  MulticastRouter& control = sim.routers[0]->control;
  const auto hears = [&](const char* from) {
    const wire::MembershipReport report{MembershipVersion::kV3,
                                        {{wire::RecordType::kToExclude, kGroups6[0], {}}}};
    control.on_packet(0, wire::make_mld(ip(from), report), sim.now);
    return control.membership(0, IpFamily::kIpv6)->group_count() != 0;
  };
  for (const auto* from : {"2001:db8::7", "fec0::7", "ff02::7", "::1"}) {
    EXPECT_FALSE(hears(from)) << from;
    wire::MembershipQuery query;
    query.robustness = 7;
    control.on_packet(0, wire::make_mld(ip(from), query), sim.now);
    EXPECT_TRUE(control.membership(0, IpFamily::kIpv6)->querier()) << from;
  }
  EXPECT_TRUE(hears("fe80::7"));
}

// RFC 3376 §6.1, RFC 4541 §2.1.1: a switch between learns this node's groups from the answers to its
// own queries.
TEST(MulticastLife, P06_TheQuerierAnswersItsOwnQueries) {
  SimMulticast sim{13, 1, kLinks};
  ASSERT_TRUE(sim.routers[0]->control.listen(0, kGroups4[0], sim.now));
  sim.run(seconds(60));
  const auto& counters = sim.routers[0]->control.reporter(0, IpFamily::kIpv4)->counters();
  const std::uint64_t before = counters.reports_sent;
  sim.run(seconds(10 * 125));
  EXPECT_EQ(counters.reports_sent, before + 10);
}

TEST(MulticastLife, ARouterThatDoesNotAskGivesUpWhatTheQuerierGivesUp) {
  MembershipConfig config;
  config.forwarder = ForwarderRule::kAlways;
  SimMulticast sim{5, 2, kLinks, config};
  SimHost& host = sim.add_host(0, IpFamily::kIpv6, MembershipVersion::kV3);
  host.want(kGroups6[0], {false, {kSources6[0]}});
  sim.run(seconds(300));
  EXPECT_EQ(sim.routers[1]->deliveries.lookup(1, kGroups6[0], kSources6[0]).out, 1U);
  EXPECT_EQ(sim.routers[1]->deliveries.lookup(1, kGroups6[0], kSources6[1]).out, 0U);
  host.want(kGroups6[0], {});
  sim.run(milliseconds(3'500));
  for (const auto& router : sim.routers) EXPECT_TRUE(router->deliveries.entries.empty());
}

// A host that joins and leaves continually does not cause more queries than one group may cause.
TEST(MulticastLife, FlappingMembersMakeNoStorm) {
  SimMulticast sim{6, 1, kLinks};
  SimHost& host = sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3);
  for (int i = 0; i < 10'000; ++i) {
    host.want(kGroups4[0], i % 2 == 0 ? GroupFilter{true, {}} : GroupFilter{});
    sim.run(milliseconds(1));
  }
  // The limit is the first query of each family, and two queries a second.
  EXPECT_LE(sim.routers[0]->sent[0], 2U + 2U * 11U);
}

TEST(MulticastLife, ALinkThatGoesDownForgetsItsMembersAndAsksAgain) {
  SimMulticast sim{7, 1, kLinks};
  sim.add_host(0, IpFamily::kIpv4, MembershipVersion::kV3).want(kGroups4[0], {true, {}});
  sim.run(seconds(5));
  MulticastRouter& control = sim.routers[0]->control;
  EXPECT_EQ(sim.routers[0]->deliveries.entries.size(), 2U);
  control.link_down(0, sim.now);
  EXPECT_TRUE(sim.routers[0]->deliveries.entries.empty());
  sim.run(seconds(500));
  EXPECT_TRUE(sim.routers[0]->deliveries.entries.empty());
  control.link_up(0, sim.now);
  sim.run(seconds(11));
  EXPECT_EQ(sim.routers[0]->deliveries.entries.size(), 2U);
}

}  // namespace
}  // namespace ipoib::route::test
