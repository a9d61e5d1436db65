// SPDX-License-Identifier: BSD-3-Clause
// Several multicast routers between the same links, with packets, in virtual time.
#include "lib/route/multicast/forwarder_election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "lib/wire/igmp.h"
#include "lib/wire/ip_prefix.h"
#include "tests/support/addresses.h"
#include "tests/unit/lib/route/sim_multicast.h"

namespace ipoib::route::test {
namespace {

using ipoib::test::ip;
using std::chrono::milliseconds;
using std::chrono::seconds;
using table::InterfaceId;
using wire::IpAddr;
using wire::MembershipVersion;

constexpr InterfaceId kLinks = 2;
constexpr std::array kFamilies = {IpFamily::kIpv4, IpFamily::kIpv6};

/// A packet of the group of a family from a host on a link.
SimPacket from(IpFamily family, InterfaceId home, unsigned group = 1) {
  const bool v4 = family == IpFamily::kIpv4;
  IpAddr g = ip(v4 ? "239.1.1.0" : "ff1e::");
  IpAddr source = ip(v4 ? "10.9.0.0" : "fd09::");
  g.bytes[15] = static_cast<std::byte>(group);
  source.bytes[15] = static_cast<std::byte>(home + 1);
  return {g, source, home};
}

void join(SimMulticast& sim, InterfaceId link, IpFamily family, unsigned group = 1) {
  sim.add_host(link, family, MembershipVersion::kV3).want(from(family, 0, group).group, {true, {}});
}

MembershipConfig short_times() {
  MembershipConfig config;
  config.query_interval = seconds(10);
  config.query_response_interval = seconds(2);
  return config;
}

struct Outcome {
  std::size_t lost = 0, twice = 0;
  std::size_t latest_bad = 0;  ///< Number of the last packet that did not arrive once, plus one.
};

/// Shape: all packets of the stream were sent.
Outcome outcome(SimMulticast& sim, InterfaceId link, const IpAddr& group, std::size_t packets) {
  Outcome o;
  auto& copies = sim.copies(link, group);
  copies.resize(packets);
  for (std::size_t i = 0; i < packets; ++i) {
    o.lost += copies[i] == 0 ? 1 : 0;
    o.twice += copies[i] > 1 ? copies[i] - 1 : 0;
    if (copies[i] != 1) o.latest_bad = i + 1;
  }
  return o;
}

/// Hosts of link 1 request a second group, all packets of which arrive once: the routers know who
/// forwards.
void expect_all_of_second_group(SimMulticast& sim, IpFamily family) {
  join(sim, 1, family, 2);
  sim.run(milliseconds(1));
  const SimPacket packet = from(family, 0, 2);
  sim.stream(packet, milliseconds(10), seconds(10));
  sim.run(seconds(11));
  EXPECT_EQ(outcome(sim, 1, packet.group, 1'000).latest_bad, 0U);
}

// Each router is the querier of one of both links.
TEST(ForwarderElection, P06_CrossedQueriersDeliverOnceFromTheFirstPacket) {
  for (const IpFamily family : kFamilies) {
    for (const bool last_is_lowest : {false, true}) {
      SimMulticast sim{1, 2, kLinks, {}, Addresses::kCrossed};
      sim.last_is_lowest = last_is_lowest;
      for (const InterfaceId link : {InterfaceId{0}, InterfaceId{1}}) join(sim, link, family);
      sim.run(seconds(10));
      for (const InterfaceId link : {InterfaceId{0}, InterfaceId{1}})
        ASSERT_NE(sim.routers[0]->control.membership(link, family)->querier(),
                  sim.routers[1]->control.membership(link, family)->querier());
      EXPECT_TRUE(sim.routers[0]->control.membership(0, family)->querier());
      EXPECT_TRUE(sim.routers[1]->control.membership(1, family)->querier());
      SimPacket other = from(family, 1, 2);
      join(sim, 0, family, 2);
      sim.stream(from(family, 0), milliseconds(10), seconds(60));
      sim.stream(other, milliseconds(10), seconds(60));
      sim.run(seconds(61));
      for (const Outcome& o :
           {outcome(sim, 1, from(family, 0).group, 6'000), outcome(sim, 0, other.group, 6'000)}) {
        EXPECT_EQ(o.lost, 0U);
        EXPECT_EQ(o.twice, 0U);
      }
      for (const auto& router : sim.routers) {
        EXPECT_EQ(router->control.table().election_counters().taken_over, 0U);
        EXPECT_EQ(router->control.table().election_counters().given_way, 0U);
      }
    }
  }
}

/// Two routers of which one starts `offset` after the other, while a host sends on each link.
void expect_once(IpFamily family, Addresses addresses, std::size_t first, Duration offset,
                 Duration interval) {
  SimMulticast sim{1, 2, kLinks, {}, addresses};
  for (const auto& router : sim.routers)
    for (InterfaceId link = 0; link < kLinks; ++link) router->control.link_down(link, sim.now);
  sim.run(seconds(1));
  for (InterfaceId link = 0; link < kLinks; ++link) join(sim, link, family, link + 1U);
  const auto start = [&sim](std::size_t r) {
    for (InterfaceId link = 0; link < kLinks; ++link)
      sim.routers[r]->control.link_up(link, sim.now);
  };
  const TimePoint begin = sim.now;
  sim.after({}, [&] { start(first); });
  sim.after(offset, [&] { start(1 - first); });
  for (InterfaceId link = 0; link < kLinks; ++link)
    sim.stream(from(family, link, 2U - link), interval, seconds(20));
  // The hosts ask for their groups all the time.
  while (sim.now < begin + seconds(21)) {
    for (const auto& host : sim.hosts) host->want(host->filters().begin()->first, {true, {}});
    sim.run(milliseconds(100));
  }
  const auto packets = static_cast<std::size_t>((seconds(20) + interval - Duration{1}) / interval);
  for (InterfaceId link = 0; link < kLinks; ++link) {
    const Outcome o = outcome(sim, link, from(family, 1 - link, link + 1U).group, packets);
    EXPECT_EQ(o.twice, 0U) << "link " << link << ", offset " << offset.count() << " ns, router "
                           << first << " first, interval " << interval.count() << " ns";
    // The first router listens before it forwards, and goes on when the other comes, unless that
    // comes while it listens, or packets are rare: then that listens, too.
    const bool steady = interval < ForwarderElection::kHandover;
    const Duration wait =
        steady && offset >= MulticastMembership::kListenTime ? Duration{} : offset;
    const Duration until = MulticastMembership::kListenTime + wait;
    EXPECT_LE((o.latest_bad - 1) * interval, until + (steady ? Duration{} : seconds(2)))
        << "offset " << offset.count() << " ns, interval " << interval.count() << " ns";
  }
}

// At every time between the starts of both, with streams that never pause and with slow ones.
TEST(ForwarderElection, P06_RoutersThatStartDeliverOnceAtAnyOffset) {
  for (const IpFamily family : kFamilies)
    for (const Addresses addresses : {Addresses::kSame, Addresses::kCrossed})
      for (const std::size_t first : {0U, 1U})
        for (auto offset = milliseconds(0); offset <= milliseconds(5'000);
             offset += milliseconds(250))
          for (const auto interval : {milliseconds(10), milliseconds(170), milliseconds(1'300)}) {
            expect_once(family, addresses, first, offset, interval);
            if (HasFailure()) return;
          }
}

// The querier of the hosts' link is a router that is not on the link of the source, or a switch.
TEST(ForwarderElection, P06_ARouterForwardsWhatTheQuerierDoesNot) {
  for (const IpFamily family : kFamilies) {
    for (const auto interval : {milliseconds(10), milliseconds(15'000)}) {
      SimMulticast sim{2, 2, kLinks};
      sim.routers[0]->control.link_down(0, sim.now);
      sim.routers[0]->no_link = {0};
      join(sim, 1, family);
      sim.run(seconds(10));
      ASSERT_FALSE(sim.routers[1]->control.membership(1, family)->querier());
      sim.stream(from(family, 0), interval, interval * 100);
      sim.run(interval * 100);
      const Outcome o = outcome(sim, 1, from(family, 0).group, 100);
      EXPECT_EQ(o.twice, 0U);
      EXPECT_EQ(o.lost, interval < seconds(1) ? 100U : 1U);
      // Another group has no loss: the routers are the same.
      if (interval < seconds(1)) sim.run(seconds(1));
      expect_all_of_second_group(sim, family);
    }
  }
}

// Both of two gateways take over at the same moment, from a querier that forwards nothing.
TEST(ForwarderElection, P06_OfTwoGatewaysBesideAThirdQuerierOneForwards) {
  for (const IpFamily family : kFamilies) {
    for (const bool last_is_lowest : {false, true}) {
      for (const auto interval : {milliseconds(10), milliseconds(15'000)}) {
        SimMulticast sim{3, 3, kLinks};
        sim.last_is_lowest = last_is_lowest;
        sim.routers[0]->no_link = {0, 1};
        join(sim, 1, family);
        sim.run(seconds(10));
        sim.stream(from(family, 0), interval, interval * 1'000);
        sim.run(interval * 1'001);
        const Outcome o = outcome(sim, 1, from(family, 0).group, 1'000);
        EXPECT_EQ(o.twice, 1U) << "the packet that shows each the other";
        EXPECT_LE(o.lost * interval, seconds(15));
        EXPECT_LE(o.lost, 101U);
        EXPECT_LE(o.latest_bad, o.lost + 1);
        expect_all_of_second_group(sim, family);
      }
    }
  }
}

// The other notices by the packets, long before it misses the querier.
TEST(ForwarderElection, P06_ARouterTakesOverWhenTheForwarderDies) {
  for (const IpFamily family : kFamilies) {
    for (const bool last_is_lowest : {false, true}) {
      SimMulticast sim{4, 2, kLinks, short_times(), Addresses::kCrossed};
      sim.last_is_lowest = last_is_lowest;
      join(sim, 1, family);
      sim.run(seconds(10));
      sim.stream(from(family, 0), milliseconds(10), seconds(300));
      sim.run(seconds(20));
      sim.routers[1]->alive = false;
      sim.run(seconds(60));
      const auto died = outcome(sim, 1, from(family, 0).group, 8'000);
      EXPECT_EQ(died.twice, 0U);
      EXPECT_GT(died.lost, 100U);
      EXPECT_LE(died.lost, 405U) << "three reports after a second without another";
      EXPECT_EQ(sim.routers[0]->control.table().election_counters().taken_over, 1U);
      // It returns, and hears that it is not needed.
      for (InterfaceId link = 0; link < kLinks; ++link)
        sim.routers[1]->control.link_down(link, sim.now);
      sim.routers[1]->alive = true;
      for (InterfaceId link = 0; link < kLinks; ++link)
        sim.routers[1]->control.link_up(link, sim.now);
      sim.run(seconds(221));
      EXPECT_TRUE(sim.routers[1]->control.membership(1, family)->querier());
      const auto all = outcome(sim, 1, from(family, 0).group, 30'000);
      EXPECT_EQ(all.twice, 0U);
      EXPECT_EQ(all.lost, died.lost);
    }
  }
}

TEST(ForwarderElection, P06_PacketsOfASlowSourceArriveOnce) {
  for (const IpFamily family : kFamilies) {
    SimMulticast sim{5, 2, kLinks, {}, Addresses::kCrossed};
    for (InterfaceId link = 0; link < kLinks; ++link) join(sim, link, family, link + 1U);
    sim.run(seconds(10));
    for (InterfaceId link = 0; link < kLinks; ++link)
      sim.stream(from(family, link, 2U - link), seconds(15), seconds(15) * 1'000);
    sim.run(seconds(15) * 1'001);
    for (InterfaceId link = 0; link < kLinks; ++link)
      EXPECT_EQ(outcome(sim, link, from(family, 1 - link, link + 1U).group, 1'000).latest_bad, 0U);
  }
}

// One of the gateways loses a packet in twenty, which looks like another that does not forward.
TEST(ForwarderElection, P06_LostPacketsHardlyEverDuplicate) {
  std::size_t twice = 0, lost = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const auto interval : {milliseconds(20), milliseconds(5'000)}) {
      MembershipConfig config;
      config.robustness = 7;
      SimMulticast sim{seed, 2, kLinks, config, Addresses::kCrossed};
      join(sim, 1, IpFamily::kIpv4);
      sim.run(seconds(10));
      sim.loss_percent = 5;
      sim.stream(from(IpFamily::kIpv4, 0), interval, interval * 1'000);
      sim.run(interval * 1'001);
      const Outcome o = outcome(sim, 1, from(IpFamily::kIpv4, 0).group, 1'000);
      twice += o.twice;
      lost += o.lost;
    }
  }
  EXPECT_LE(twice, 40U) << "of 20,000";
  EXPECT_LE(lost, 20'000U / 20U * 12U / 10U) << "those that the forwarder did not hear";
}

// A router of another make, or a host that forges packets, does not give way.
TEST(ForwarderElection, P06_ARouterGivesWayToOneThatDoesNot) {
  SimMulticast sim{6, 1, kLinks};
  join(sim, 1, IpFamily::kIpv4);
  join(sim, 1, IpFamily::kIpv4, 2);
  sim.run(seconds(10));
  for (const unsigned group : {1U, 2U})
    sim.stream(from(IpFamily::kIpv4, 0, group), milliseconds(10), seconds(40));
  SimPacket alien = from(IpFamily::kIpv4, 0, 1);
  alien.number = 10'000;
  for (int i = 0; i < 2'000; ++i)
    sim.after(milliseconds(10) * i, [&sim, alien] { sim.transmit(1, alien); });
  sim.run(seconds(41));
  auto& copies = sim.copies(1, alien.group);
  const auto served = [&](std::size_t first, std::size_t end) {
    return std::count(copies.begin() + static_cast<std::ptrdiff_t>(first),
                      copies.begin() + static_cast<std::ptrdiff_t>(end), 1U);
  };
  EXPECT_EQ(served(0, 300), 300) << "three seconds";
  EXPECT_EQ(served(400, 2'000), 0) << "the other forwards";
  EXPECT_EQ(served(2'250, 4'000), 4'000 - 2'250) << "it has ended";
  EXPECT_EQ(outcome(sim, 1, from(IpFamily::kIpv4, 0, 2).group, 4'000).latest_bad, 0U)
      << "another group";
}

/// When the other router, which has a static multicast route for one source only, begins.
enum class Begins { kBefore, kDuring, kWhileThisListens };

/// The multicast router is the querier, or stands by for one that forwards nothing.
void expect_both_sources(IpFamily family, Begins begins, bool last_is_lowest, bool is_querier) {
  SimMulticast sim{7, is_querier ? 2U : 3U, kLinks};
  sim.last_is_lowest = last_is_lowest;
  SimMulticast::Router &gateway = **(sim.routers.end() - 2), &other = *sim.routers.back();
  if (!is_querier) sim.routers[0]->no_link = {0, 1};
  for (InterfaceId link = 0; link < kLinks; ++link) other.control.remove_interface(link, sim.now);
  SimPacket first = from(family, 0), second = first;
  second.source.bytes[15] = std::byte{9};
  second.number = 10'000;
  const auto begin = [&] {
    ASSERT_TRUE(other.control.add_static(
        {{first.group, wire::host_len(first.group)}, first.source, 0, {1}}, sim.now));
  };
  join(sim, 1, family);
  sim.run(seconds(10));
  if (begins != Begins::kDuring) begin();
  if (begins == Begins::kWhileThisListens)
    for (InterfaceId link = 0; link < kLinks; ++link) gateway.control.link_down(link, sim.now);
  for (const SimPacket& packet : {first, second}) sim.stream(packet, milliseconds(10), seconds(60));
  if (begins == Begins::kWhileThisListens)
    for (InterfaceId link = 0; link < kLinks; ++link) gateway.control.link_up(link, sim.now);
  sim.run(seconds(5));
  if (begins == Begins::kDuring) begin();
  const auto until = sim.now + seconds(56);
  while (sim.now < until) {
    if (begins == Begins::kWhileThisListens) sim.hosts[0]->want(first.group, {true, {}});
    sim.run(milliseconds(500));
  }
  auto& copies = sim.copies(1, first.group);
  const auto bad = [&](std::size_t begin_at, std::size_t end_at) {
    return std::count_if(copies.begin() + static_cast<std::ptrdiff_t>(begin_at),
                         copies.begin() + static_cast<std::ptrdiff_t>(end_at),
                         [](unsigned n) { return n != 1; });
  };
  EXPECT_EQ(bad(1'000, 6'000), 0) << "of the source that the other forwards";
  EXPECT_EQ(bad(10'500, 16'000), 0) << "of the other source";
  const bool at_once = is_querier && begins != Begins::kWhileThisListens;
  if (at_once) {
    EXPECT_EQ(bad(10'000, 10'500), 0);
    EXPECT_EQ(gateway.control.table().election_counters().taken_over, 0U);
  }
}

// RFC 7761 §4.6 asserts for each source.
TEST(ForwarderElection, P06_ARouterOfOneSourceLeavesTheOthersToAnother) {
  for (const IpFamily family : kFamilies)
    for (const Begins begins : {Begins::kBefore, Begins::kDuring, Begins::kWhileThisListens})
      for (const bool last_is_lowest : {false, true})
        for (const bool is_querier : {false, true}) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(begins) << last_is_lowest
                                          << is_querier << static_cast<int>(family));
          expect_both_sources(family, begins, last_is_lowest, is_querier);
          if (HasFailure()) return;
        }
}

// The former forwarder of several sources has ended, and all of them are taken over.
TEST(ForwarderElection, P06_AllSourcesAreTakenOver) {
  for (const IpFamily family : kFamilies) {
    SimMulticast sim{8, 2, kLinks, {}, Addresses::kCrossed};
    join(sim, 1, family);
    sim.run(seconds(10));
    for (unsigned i = 0; i < 5; ++i) {
      SimPacket packet = from(family, 0);
      packet.source.bytes[14] = static_cast<std::byte>(i);
      packet.number = i * 10'000;
      sim.stream(packet, milliseconds(10) * (i + 1), seconds(40));
    }
    sim.run(seconds(10));
    sim.routers[1]->alive = false;
    sim.run(seconds(31));
    auto& copies = sim.copies(1, from(family, 0).group);
    for (unsigned i = 0; i < 5; ++i) {
      const std::size_t all = 4'000 / (i + 1);
      for (std::size_t n = 0; n < all; ++n) {
        const bool dead = n >= all / 4 && n < all / 4 + all / 8;
        ASSERT_TRUE(dead ? copies[i * 10'000 + n] <= 1 : copies[i * 10'000 + n] == 1)
            << i << " " << n;
      }
    }
    EXPECT_EQ(sim.routers[0]->deliveries.entries.size(), 1U) << "of the group alone";
  }
}

}  // namespace
}  // namespace ipoib::route::test
