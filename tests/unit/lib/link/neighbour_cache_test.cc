// SPDX-License-Identifier: BSD-3-Clause
// Bounds and timing of the state machine that both kinds of interface share, on a medium without
// paths.
#include "lib/link/ip/neighbour_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <vector>

#include "lib/link/ethernet_paths.h"
#include "tests/support/link_fakes.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using table::NeighbourState;

wire::IpAddr host(std::uint32_t n) {
  return wire::IpAddr::v4(0x0a00'0000U + n);
}

struct FakeSolicitor final : Solicitor {
  void request(const wire::IpAddr& addr, unsigned /*attempt*/, TimePoint now) override {
    ++asked[addr];
    times.push_back(now);
  }
  void probe(const wire::IpAddr& addr, const wire::HwAddr&, TimePoint) override { ++probed[addr]; }
  void failed(const wire::IpAddr&) override {}
  [[nodiscard]] bool can_ask(const wire::IpAddr&) const override { return is_up; }
  bool is_up = true;
  std::map<wire::IpAddr, unsigned> asked, probed;
  std::vector<TimePoint> times;
};

class SimNeighbourCache {
 public:
  explicit SimNeighbourCache(const NeighbourConfig& config = {}, std::size_t capacity = 1U << 20)
      : sink{capacity}, cache{config, 1, sink, questions, paths, 1} {}

  HeldPacket want(const wire::IpAddr& addr) {
    const auto p = sink.new_packet();
    cache.request_neighbour(addr, p, now);
    return p;
  }
  void answer(const wire::IpAddr& addr) {
    cache.learn(addr, wire::MacAddr{std::byte{2}}, Evidence::kReply, false, now);
  }
  void resolve(const wire::IpAddr& addr) {
    want(addr);
    answer(addr);
  }
  void run_for(Duration d) {
    const auto end = now + d;
    while (const auto next = cache.next_deadline()) {
      if (*next > end) break;
      now = std::max(now, *next);
      cache.tick(now);
    }
    now = end;
  }

  TimePoint now{100s};
  FakeNeighbourSink sink;
  FakeSolicitor questions;
  static constexpr std::uint16_t kMtu = 1500;
  EthernetPaths paths{kMtu};
  NeighbourCache cache;
};

TEST(NeighbourCache, UnansweredRequestsAreRepeatedThenNegativelyCached) {
  SimNeighbourCache b;
  b.want(host(1));
  b.run_for(2900ms);
  // The third request is sent within 3.4 s. The first packet may or may not have expired, because
  // timers vary by a tenth.
  b.run_for(500ms);
  EXPECT_EQ(b.questions.asked[host(1)], 3U);
  EXPECT_EQ(b.sink.find(host(1))->state, NeighbourState::kFailed);
  EXPECT_TRUE(b.sink.open.empty());
  EXPECT_EQ(b.sink.unreachables, 1U);
  b.want(host(1));
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourFailed] + b.sink.drops[Drop::kNeighbourHeldTooLong], 2U);
  EXPECT_EQ(b.sink.unreachables, 2U);
  EXPECT_EQ(b.questions.asked[host(1)], 3U);
  b.run_for(3s);
  EXPECT_EQ(b.cache.size(), 0U);  // workers ask again
  EXPECT_TRUE(b.sink.indexes.empty());
}

/// IPv4 neighbours are not concerned.
TEST(NeighbourCache, P16_ALimitOfTheMtuIsAppliedInTurns) {
  constexpr std::uint32_t kNeighbours = 2 * NeighbourCache::kLimitsPerTurn + 10;
  SimNeighbourCache b;
  const auto host6 = [](std::uint32_t n) {
    auto addr = ip("fd00::");
    addr.bytes[14] = static_cast<std::byte>(n >> 8);
    addr.bytes[15] = static_cast<std::byte>(n);
    return addr;
  };
  for (std::uint32_t n = 1; n <= kNeighbours; ++n) {
    b.resolve(host(n));
    b.resolve(host6(n));
  }
  const auto limited = [&] {
    unsigned n = 0;
    for (std::uint32_t i = 1; i <= kNeighbours; ++i) {
      EXPECT_EQ(b.sink.find(host(i))->mtu, 1500);
      n += b.sink.find(host6(i))->mtu == 1280 ? 1 : 0;
    }
    return n;
  };
  b.cache.limit_mtu6(1280);
  EXPECT_EQ(limited(), NeighbourCache::kLimitsPerTurn);
  EXPECT_LE(b.cache.next_deadline().value(), b.now) << "the others follow at once";
  b.cache.tick(b.now);
  EXPECT_EQ(limited(), 2 * NeighbourCache::kLimitsPerTurn);
  b.cache.tick(b.now);
  EXPECT_EQ(limited(), kNeighbours);
  EXPECT_GT(b.cache.next_deadline().value(), b.now);
}

/// Routes avoid a failed gateway, so no packet asks for it.
TEST(NeighbourCache, AGatewayThatFailedIsAskedForUntilItAnswers) {
  SimNeighbourCache b;
  ASSERT_TRUE(b.cache.use_gateway(host(1), b.now));
  b.want(host(1));
  b.run_for(60s);
  EXPECT_GE(b.questions.asked[host(1)], 3U * 8);
  EXPECT_LE(b.questions.asked[host(1)], 3U * 12) << "with a pause after every three";
  while (b.sink.find(host(1))->state != NeighbourState::kIncomplete) b.run_for(100ms);
  b.answer(host(1));
  EXPECT_EQ(b.sink.find(host(1))->state, NeighbourState::kValid);
  b.cache.forget_gateway(host(1));
}

/// Routes learn it when they begin to use the gateway.
TEST(NeighbourCache, ANeighbourThatFailedBeforeItBecameAGatewayIsKnownToHaveFailed) {
  SimNeighbourCache b;
  EXPECT_FALSE(b.cache.has_failed(host(1)));
  b.want(host(1));
  EXPECT_FALSE(b.cache.has_failed(host(1)));
  while (b.sink.find(host(1))->state != NeighbourState::kFailed) b.run_for(100ms);
  EXPECT_TRUE(b.cache.has_failed(host(1)));
  ASSERT_TRUE(b.cache.use_gateway(host(1), b.now));
  b.run_for(30s);
  EXPECT_TRUE(b.cache.has_failed(host(1))) << "while it is requested again";
  while (b.sink.find(host(1))->state != NeighbourState::kIncomplete) b.run_for(100ms);
  b.answer(host(1));
  EXPECT_FALSE(b.cache.has_failed(host(1)));
  b.cache.forget_gateway(host(1));
}

/// Routes avoid the gateway after these commands, too.
TEST(NeighbourCache, AGatewayThatFailedIsAskedForAfterItsEntryIsReset) {
  const auto flush = [](SimNeighbourCache& b) { b.cache.flush(); };
  const auto remove = [](SimNeighbourCache& b) { EXPECT_TRUE(b.cache.remove(host(1))); };
  const auto down_and_up = [](SimNeighbourCache& b) {
    b.questions.is_up = false;
    b.cache.withdraw(Drop::kLinkDown);
    const auto asked = b.questions.asked[host(1)];
    ASSERT_TRUE(b.cache.use_gateway(host(1), b.now));
    b.cache.forget_gateway(host(1));
    b.cache.flush();
    EXPECT_TRUE(b.cache.remove(host(1)));
    b.run_for(60s);
    EXPECT_EQ(b.questions.asked[host(1)], asked) << "while the interface is down";
    b.questions.is_up = true;
    b.cache.request_gateways();
  };
  for (const std::function<void(SimNeighbourCache&)>& reset :
       {std::function<void(SimNeighbourCache&)>{flush},
        std::function<void(SimNeighbourCache&)>{remove},
        std::function<void(SimNeighbourCache&)>{down_and_up}}) {
    SimNeighbourCache b;
    ASSERT_TRUE(b.cache.use_gateway(host(1), b.now));
    b.want(host(1));
    while (b.sink.find(host(1))->state != NeighbourState::kFailed) b.run_for(100ms);
    reset(b);
    const auto asked = b.questions.asked[host(1)];
    b.run_for(30s);
    EXPECT_GE(b.questions.asked[host(1)], asked + 3U * 4);
    while (b.sink.find(host(1))->state != NeighbourState::kIncomplete) b.run_for(100ms);
    b.answer(host(1));
    EXPECT_EQ(b.sink.find(host(1))->state, NeighbourState::kValid);
    b.cache.forget_gateway(host(1));
  }
}

/// The cache does not ask for a gateway that answered: the first packet does, as for any neighbour.
TEST(NeighbourCache, AGatewayThatAnsweredIsNotAskedForByAFlush) {
  SimNeighbourCache b;
  ASSERT_TRUE(b.cache.use_gateway(host(1), b.now));
  b.resolve(host(1));
  const auto asked = b.questions.asked[host(1)];
  b.cache.flush();
  b.run_for(10s);
  EXPECT_EQ(b.questions.asked[host(1)], asked);
  b.cache.forget_gateway(host(1));
}

constexpr wire::MacAddr mac(unsigned last) {
  return {std::byte{2}, {}, {}, {}, {}, std::byte(last)};
}

TEST(NeighbourCache, EntryMovesAtMostOnceASecond) {
  SimNeighbourCache b;
  b.want(host(1));
  ASSERT_TRUE(b.cache.learn(host(1), mac(1), Evidence::kReply, false, b.now));
  unsigned moves = 0, refused = 0;
  auto at = b.sink.find(host(1))->mac;
  for (unsigned i = 0; i < 1000; ++i) {  // two claimants repeat their claims for ten seconds
    const auto evidence = i % 4 < 2 ? Evidence::kReply : Evidence::kOther;
    if (!b.cache.learn(host(1), mac(1 + i % 2), evidence, true, b.now)) ++refused;
    if (b.sink.find(host(1))->mac != at) ++moves;
    at = b.sink.find(host(1))->mac;
    b.run_for(10ms);
  }
  EXPECT_GE(moves, 5U);
  EXPECT_LE(moves, 10U);
  EXPECT_GE(refused, 400U);
  b.run_for(1s);
  EXPECT_TRUE(b.cache.learn(host(1), mac(9), Evidence::kOther, false, b.now));
  EXPECT_EQ(b.sink.find(host(1))->mac, mac(9));
}

NeighbourPhase phase_of(const SimNeighbourCache& b, const wire::IpAddr& addr) {
  const auto row = b.cache.info(addr, b.now);
  return row ? row->phase : NeighbourPhase::kIncomplete;
}

TEST(NeighbourCache, AdvertisementsAreTakenAsRfc4861Says) {
  const auto addr = ip("fd00::7");
  SimNeighbourCache b;
  EXPECT_TRUE(b.cache.advertised(addr, mac(1), true, true, b.now));
  EXPECT_EQ(b.cache.size(), 0U);  // there was no request
  b.want(addr);
  EXPECT_TRUE(b.cache.advertised(addr, std::nullopt, true, true, b.now));
  EXPECT_FALSE(b.sink.valid(addr));  // no address in the message
  EXPECT_TRUE(b.cache.advertised(addr, mac(1), true, false, b.now));
  EXPECT_EQ(phase_of(b, addr), NeighbourPhase::kReachable);
  // Without the override flag, another address is not adopted, and the entry becomes stale.
  EXPECT_TRUE(b.cache.advertised(addr, mac(2), true, false, b.now));
  EXPECT_EQ(b.sink.find(addr)->mac, mac(1));
  EXPECT_EQ(phase_of(b, addr), NeighbourPhase::kStale);
  EXPECT_TRUE(b.cache.advertised(addr, std::nullopt, true, false, b.now));
  EXPECT_EQ(phase_of(b, addr), NeighbourPhase::kReachable);
  // An unsolicited advertisement with the same address changes nothing.
  EXPECT_TRUE(b.cache.advertised(addr, mac(1), false, true, b.now));
  EXPECT_EQ(phase_of(b, addr), NeighbourPhase::kReachable);
  EXPECT_TRUE(b.cache.advertised(addr, mac(2), false, true, b.now));
  EXPECT_EQ(b.sink.find(addr)->mac, mac(2));
  EXPECT_EQ(phase_of(b, addr), NeighbourPhase::kStale);
  EXPECT_FALSE(b.cache.advertised(addr, mac(1), true, true, b.now));  // within a second
  EXPECT_EQ(b.sink.find(addr)->mac, mac(2));
}

TEST(NeighbourCache, MappedEntryIsValidAtOnceAndGoesWhenUnused) {
  SimNeighbourCache b{{.idle = 60s}};
  const auto group = ip("239.1.2.3");
  ASSERT_TRUE(b.cache.add_mapped(group, mac(1), b.now));
  EXPECT_TRUE(b.sink.valid(group));
  b.run_for(50s);
  b.sink.used[*b.sink.index_of(group)] = b.now;
  b.run_for(59s);
  EXPECT_TRUE(b.sink.valid(group));
  EXPECT_TRUE(b.cache.learn(group, mac(2), Evidence::kReply, true, b.now));
  EXPECT_EQ(b.sink.find(group)->mac, mac(1));  // a mapped entry is never learned
  b.run_for(2s);
  EXPECT_EQ(b.cache.size(), 0U);
  EXPECT_TRUE(b.questions.asked.empty());
  EXPECT_TRUE(b.questions.probed.empty());
}

TEST(NeighbourCache, MappedEntriesMakeRoomForOthers) {
  SimNeighbourCache b{{.max_entries = 4}};
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(b.cache.add_mapped(wire::IpAddr::v4(0xe100'0000 + i), mac(1), b.now)) << i;
    b.run_for(3s);
  }
  EXPECT_EQ(b.cache.size(), 4U);
}

TEST(NeighbourCache, HeldPacketsAreBoundedPerNeighbourKeepingTheLatest) {
  SimNeighbourCache b{{.max_held_per_neighbour = 4}};
  std::vector<HeldPacket> packets;
  for (int i = 0; i < 10; ++i) packets.push_back(b.want(host(1)));
  EXPECT_EQ(b.cache.held(), 4U);
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourPending], 6U);
  EXPECT_EQ(b.questions.asked[host(1)], 1U);
  b.answer(host(1));
  EXPECT_EQ(b.sink.released, std::vector(packets.end() - 4, packets.end()));
  EXPECT_EQ(b.cache.held(), 0U);
}

/// A packet of `source` for `addr`.
HeldPacket want_from(SimNeighbourCache& b, const wire::IpAddr& source, const wire::IpAddr& addr) {
  const auto p = b.sink.new_packet();
  b.sink.sources[p] = source;
  b.cache.request_neighbour(addr, p, b.now);
  return p;
}
void want_from(SimNeighbourCache& b, const PacketSender& from, const wire::IpAddr& addr) {
  const auto p = b.sink.new_packet();
  b.sink.senders[p] = from;
  b.cache.request_neighbour(addr, p, b.now);
}
/// One of ten senders, each of which wants less than its share of new neighbours.
wire::IpAddr sender(std::uint32_t n) {
  return wire::IpAddr::v4(0xc000'0200 + n % 10);
}

TEST(NeighbourCache, HeldPacketsAreBoundedInTotal) {
  SimNeighbourCache b{{.max_held = 100}};
  for (std::uint32_t i = 0; i < 1000; ++i) want_from(b, sender(i), host(i));
  EXPECT_EQ(b.cache.held(), 75U) << "a quarter is for other senders";
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourPending], 925U);
  // A destination whose packet cannot be held is resolved all the same.
  EXPECT_EQ(b.questions.asked.size(), 1000U);
  b.answer(host(999));
  EXPECT_TRUE(b.sink.valid(host(999)));
}

TEST(NeighbourCache, P16_OnePacketOfANeighbourIsHeldOnceHalfOfThePlacesAreTaken) {
  SimNeighbourCache b{{.max_held_per_neighbour = 10, .max_held = 100}};
  for (std::uint32_t i = 0; i < 10; ++i)
    for (int n = 0; n < 10; ++n) b.want(host(i));
  EXPECT_EQ(b.cache.held(), 55U) << "of five neighbours ten each, of five one";
  const auto last = b.want(host(7));
  b.answer(host(7));
  EXPECT_EQ(b.sink.released, std::vector{last});
}

/// The limit of the node's buffers applies in addition to the interface's own limit, because
/// packets of other interfaces may use all buffers.
TEST(NeighbourCache, HeldPacketsAreBoundedByTheNode) {
  SimNeighbourCache b;
  b.sink.room = 3;
  std::vector<HeldPacket> packets;
  for (int i = 0; i < 5; ++i) packets.push_back(b.want(host(1)));
  EXPECT_EQ(b.cache.held(), 3U) << "the latest ones";
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourPending], 2U);
  for (std::uint32_t i = 2; i < 100; ++i) b.want(host(i));
  EXPECT_EQ(b.cache.held(), 3U);
  EXPECT_EQ(b.cache.size(), 99U) << "what cannot wait is resolved all the same";
  b.answer(host(1));
  EXPECT_EQ(b.sink.released, std::vector(packets.end() - 3, packets.end()));
  b.sink.room = 0;
  b.want(host(1));
  EXPECT_EQ(b.sink.released.size(), 4U) << "what need not wait goes";
  b.want(host(2));
  EXPECT_EQ(b.cache.held(), 0U);
  EXPECT_TRUE(b.sink.open.empty());
}

/// A sender that has more than its share displaces its own packets at most.
TEST(NeighbourCache, P16_ASenderOverItsShareDisplacesNoPacketsOfOthers) {
  SimNeighbourCache b;
  const auto greedy = wire::IpAddr::v4(0xc000'0201), honest = wire::IpAddr::v4(0xc000'0202);
  std::vector<HeldPacket> kept{want_from(b, honest, host(1)), want_from(b, honest, host(1))};
  b.sink.greedy = {greedy};
  for (int i = 0; i < 10; ++i) want_from(b, greedy, host(1));
  EXPECT_EQ(b.cache.held(), 2U);
  b.answer(host(1));
  EXPECT_EQ(b.sink.released, kept);

  b.sink.greedy = {};
  want_from(b, greedy, host(2));
  kept.push_back(want_from(b, honest, host(2)));
  b.sink.greedy = {greedy};
  want_from(b, greedy, host(2));
  EXPECT_EQ(b.cache.held(), 1U);
  b.answer(host(2));
  EXPECT_EQ(b.sink.released, kept);
  EXPECT_TRUE(b.sink.open.empty());
}

/// A queue that may take no place of the last quarter does not lose those that it has: its latest
/// packet takes the place of its oldest one.
TEST(NeighbourCache, P16_ThePlacesOfAQueueStayItsOwnInTheLastQuarter) {
  SimNeighbourCache b{{.max_held = 100}};
  const auto scanner = wire::IpAddr::v4(0xc000'0201);
  for (std::uint32_t i = 0; i < 20; ++i) want_from(b, scanner, host(i));
  const auto old = want_from(b, scanner, host(19));
  for (std::uint32_t i = 0; i < 200; ++i)
    want_from(b, wire::IpAddr::v4(0xc633'0000U + i), host(100 + i));
  ASSERT_EQ(b.cache.held(), 100U - 100U / 8) << "the last eighth is for neighbours";
  const auto last = want_from(b, wire::IpAddr::v4(0xc633'6464U), host(19));
  b.answer(host(19));
  EXPECT_EQ(b.sink.released, (std::vector{old, last}));
}

TEST(NeighbourCache, HeldPacketsAreBoundedInAge) {
  SimNeighbourCache b{{.max_held_age = 500ms}};
  b.want(host(1));
  b.run_for(300ms);
  b.want(host(1));
  b.run_for(250ms);
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourHeldTooLong], 1U);
  EXPECT_EQ(b.cache.held(), 1U);
  b.answer(host(1));
  EXPECT_EQ(b.sink.released.size(), 1U);
  EXPECT_TRUE(b.sink.open.empty());
}

TEST(NeighbourCache, ThousandUnresolvableDestinationsCauseNoStorm) {
  SimNeighbourCache b;
  const auto begin = b.now;
  // Workers drop packets while an entry is failed, and punt them otherwise, twice a second for each
  // destination.
  while (b.now < begin + 30s) {
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const auto* index = b.sink.find(host(i));
      if (index == nullptr || index->state == NeighbourState::kIncomplete)
        want_from(b, sender(i), host(i));
    }
    b.run_for(500ms);
  }
  // Each cycle of about three seconds of requests and three of silence has three requests.
  EXPECT_LE(b.questions.times.size(), 30U * 550);
  EXPECT_GE(b.questions.times.size(), 30U * 350);
  std::map<std::int64_t, unsigned> per_second;
  for (const auto t : b.questions.times)
    ++per_second[std::chrono::duration_cast<std::chrono::seconds>(t - begin).count()];
  for (const auto& [second, n] : per_second) EXPECT_LE(n, 2000U) << "second " << second;
}

TEST(NeighbourCache, ScanOfTheAddressSpaceIsBoundedByPlaces) {
  SimNeighbourCache b;
  const auto begin = b.now;
  std::uint32_t next = 0;
  while (b.now < begin + 10s) {
    for (int i = 0; i < 200; ++i) b.want(host(next++));
    b.run_for(10ms);
  }
  // 2,048 addresses have a place for three seconds each, with three requests.
  EXPECT_LE(b.questions.times.size(), 10U * 2048 * 11 / 10);
  EXPECT_LE(b.cache.size(), 3U * 2048);
  b.cache.withdraw(Drop::kLinkDown);
  EXPECT_TRUE(b.sink.open.empty());
  EXPECT_TRUE(b.sink.indexes.empty());
}

wire::IpAddr absent_host(std::uint32_t n) {
  return wire::IpAddr::v4(0x0a10'0000U + n % 0x1'0000U);
}

/// One host scans absent addresses, others send to hosts that are new.
TEST(NeighbourCache, P16_AScanDoesNotKeepOthersFromNewHosts) {
  SimNeighbourCache b;
  const auto scanner = wire::IpAddr::v4(0xc000'0201);
  std::vector<HeldPacket> first;
  std::uint32_t absent = 0, present = 0;
  for (int step = 0; step < 400; ++step) {
    // More than workers hand over: 100,000 a second.
    for (int i = 0; i < 1000; ++i) want_from(b, scanner, absent_host(absent++));
    b.run_for(10ms);
    if (step % 10 != 9) continue;
    first.push_back(want_from(b, wire::IpAddr::v4(0xc633'6400U + present % 20), host(present)));
    b.run_for(2ms);
    b.answer(host(present++));
  }
  std::size_t delivered = 0;
  const std::set<HeldPacket> released{b.sink.released.begin(), b.sink.released.end()};
  for (const auto p : first) delivered += released.count(p);
  EXPECT_GE(delivered, first.size() * 95 / 100);
  EXPECT_LE(b.questions.times.size(), 5U * 2048 * 11 / 10);
}

/// A sender has half of the places, and once they are taken, as many as a sixteenth at a time.
TEST(NeighbourCache, P16_OneSenderAsksForASixteenthOfThePlacesOnceHalfAreTaken) {
  SimNeighbourCache b;
  const auto scanner = wire::IpAddr::v4(0xc000'0201), other = wire::IpAddr::v4(0xc000'0202);
  for (std::uint32_t i = 0; i < 2000; ++i) want_from(b, scanner, absent_host(i));
  EXPECT_EQ(b.questions.asked.size(), 2048U / 2);
  // Hosts that answered before need no place of it.
  b.answer(absent_host(0));
  b.cache.remove(absent_host(0));
  want_from(b, scanner, absent_host(0));
  b.answer(absent_host(0));
  EXPECT_TRUE(b.sink.valid(absent_host(0)));
  want_from(b, scanner, absent_host(2000));
  // Another sender has its own.
  const auto asked = b.questions.asked.size();
  for (std::uint32_t i = 0; i < 1000; ++i) want_from(b, other, absent_host(5000 + i));
  EXPECT_EQ(b.questions.asked.size(), asked + 2048 / 16);
  want_from(b, scanner, absent_host(2001));
  EXPECT_EQ(b.questions.asked.size(), asked + 2048 / 16);
}

/// Packets in the name of a host use up its share, but not while half of the places are free.
TEST(NeighbourCache, P16_ForgedPacketsDoNotKeepAHostFromNewNeighbours) {
  SimNeighbourCache b;
  const auto honest = wire::IpAddr::v4(0xc000'0201);
  for (std::uint32_t i = 0; i < 2 * 2048 / 16; ++i) want_from(b, honest, absent_host(i));
  const auto p = want_from(b, honest, host(1));
  b.answer(host(1));
  EXPECT_EQ(b.sink.released, std::vector{p});
}

/// All names that one host sends in have a quarter of the places together, once half are taken.
TEST(NeighbourCache, P16_ForgedSourcesOfOneHostLeavePlacesToOthers) {
  SimNeighbourCache b;
  for (std::uint32_t i = 0; i < 10'000; ++i)
    want_from(b, {wire::IpAddr::v4(0xc633'0000U + i), 7, false}, absent_host(i));
  EXPECT_EQ(b.questions.asked.size(), 2048U / 2);
  want_from(b, {wire::IpAddr::v4(0xc634'0000U), 8, false}, host(1));
  EXPECT_EQ(b.questions.asked.count(host(1)), 1U);
}

/// Forged link-layer addresses take no places of hosts that are neighbours.
TEST(NeighbourCache, P16_NeighboursHavePlacesThatNoStrangerTakes) {
  SimNeighbourCache b;
  for (std::uint32_t i = 0; i < 10'000; ++i)
    want_from(b, {wire::IpAddr::v4(0xc633'0000U + i), i + 1, false}, absent_host(i));
  EXPECT_EQ(b.questions.asked.size(), 2048U - 384);
  want_from(b, {wire::IpAddr::v4(0xc634'0000U), 20'000, false}, host(1));
  EXPECT_EQ(b.questions.asked.count(host(1)), 0U);
  want_from(b, {wire::IpAddr::v4(0xc634'0001U), 20'001, true}, host(2));
  EXPECT_EQ(b.questions.asked.count(host(2)), 1U);
}

/// Many made-up senders look like many hosts, but addresses that answered before are known.
TEST(NeighbourCache, P16_AScanDoesNotKeepAnybodyFromHostsThatAnsweredBefore) {
  SimNeighbourCache b;
  for (std::uint32_t i = 0; i < 100; ++i) b.resolve(host(i));
  b.cache.flush();
  for (std::uint32_t i = 0; i < 10'000; ++i)
    want_from(b, wire::IpAddr::v4(0xc633'0000U + i), absent_host(i));
  for (std::uint32_t i = 0; i < 100; ++i) {
    const auto p = want_from(b, wire::IpAddr::v4(0xc634'0000U + i), host(i));
    b.answer(host(i));
    EXPECT_EQ(b.sink.released.back(), p);
  }
  want_from(b, wire::IpAddr::v4(0xc635'0000U), host(200));
  EXPECT_EQ(b.questions.asked.count(host(200)), 0U);
}

/// Fills the table with `n` resolved neighbours.
void fill(SimNeighbourCache& b, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) {
    b.resolve(host(i));
    b.run_for(1ms);
  }
}

TEST(NeighbourCache, FullTableEvictsWhatWasUnusedLongest) {
  SimNeighbourCache b{{.max_entries = 100}};
  fill(b, 100);
  b.run_for(10s);
  b.sink.used[*b.sink.index_of(host(0))] = b.now;  // the oldest entry is in use
  b.want(host(500));
  EXPECT_EQ(b.cache.size(), 100U);
  EXPECT_NE(b.sink.find(host(0)), nullptr);
  EXPECT_EQ(b.sink.find(host(1)), nullptr);
  EXPECT_NE(b.sink.find(host(2)), nullptr);
  EXPECT_NE(b.sink.find(host(500)), nullptr);
}

/// Other hosts send requests, so that the cache learns addresses that it has not asked for.
void hear(SimNeighbourCache& b, const wire::IpAddr& addr) {
  EXPECT_TRUE(b.cache.learn(addr, mac(9), Evidence::kOther, true, b.now));
}
wire::IpAddr host6(std::uint32_t n) {
  auto addr = ip("fe80::1");
  for (unsigned i = 0; i < 4; ++i) addr.bytes[8 + i] = static_cast<std::byte>(n >> 8 * i);
  return addr;
}

TEST(NeighbourCache, P16_StrangersTakeHalfOfTheTableAndDisplaceNobody) {
  SimNeighbourCache b{{.max_entries = 100}};
  fill(b, 80);
  b.run_for(10s);
  for (std::uint32_t i = 0; i < 1000; ++i) hear(b, host(1000 + i));
  EXPECT_EQ(b.cache.size(), 100U);
  for (std::uint32_t i = 0; i < 80; ++i) EXPECT_NE(b.sink.find(host(i)), nullptr) << i;
  EXPECT_NE(b.sink.find(host(1999)), nullptr) << "a stranger displaces the oldest one";
  // A neighbour that packets are for displaces strangers, even if these are newer.
  for (std::uint32_t i = 0; i < 20; ++i) b.resolve(host(500 + i));
  for (std::uint32_t i = 0; i < 80; ++i) EXPECT_NE(b.sink.find(host(i)), nullptr) << i;
  hear(b, host(3000));
  EXPECT_EQ(b.sink.find(host(3000)), nullptr) << "no stranger is left to displace";
  EXPECT_EQ(b.cache.counters().refused, 1U);

  SimNeighbourCache empty{{.max_entries = 100}};
  for (std::uint32_t i = 0; i < 1000; ++i) hear(empty, host(i));
  EXPECT_EQ(empty.cache.size(), 50U);
}

TEST(NeighbourCache, P16_AStrangerThatPacketsAreSentToIsNoStrangerAnyMore) {
  SimNeighbourCache b{{.max_entries = 4}};
  hear(b, host(1));
  hear(b, host(2));
  b.run_for(2s);
  b.sink.used[*b.sink.index_of(host(1))] = b.now;
  b.want(host(2));
  for (std::uint32_t i = 0; i < 100; ++i) hear(b, host(100 + i));
  EXPECT_TRUE(b.sink.valid(host(1)));
  EXPECT_TRUE(b.sink.valid(host(2)));
  EXPECT_EQ(b.cache.size(), 4U);
}

/// Workers distinguish hosts that were asked for from strangers.
TEST(NeighbourCache, P16_EntriesSayWhetherTheHostWasAskedFor) {
  SimNeighbourCache b;
  hear(b, host(1));
  EXPECT_FALSE(b.sink.find(host(1))->asked);
  b.want(host(1));
  EXPECT_TRUE(b.sink.find(host(1))->asked);
  b.want(host(2));
  EXPECT_TRUE(b.sink.find(host(2))->asked);
  hear(b, host(3));
  b.sink.used[*b.sink.index_of(host(3))] = b.now;
  bool asked = false;
  for (int i = 0; i < 60 && !asked; ++i) {
    b.run_for(1s);
    const auto* const entry = b.sink.find(host(3));
    asked = entry != nullptr && entry->asked;
  }
  EXPECT_TRUE(asked) << "packets were sent to it";
}

/// A family takes places that the other does not use, and leaves it half when it does.
TEST(NeighbourCache, P16_NeitherFamilyTakesThePlacesOfTheOther) {
  SimNeighbourCache b{{.max_entries = 100}};
  fill(b, 100);
  b.run_for(10s);
  for (std::uint32_t i = 0; i < 50; ++i) b.resolve(host6(i));
  const auto valid = [&b](auto make) {
    unsigned n = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) n += b.sink.valid(make(i));
    return n;
  };
  EXPECT_EQ(valid(host), 50U);
  EXPECT_EQ(valid(host6), 50U);
  b.run_for(10s);
  for (std::uint32_t i = 50; i < 1000; ++i) b.resolve(host6(i));
  EXPECT_EQ(valid(host), 50U);
  EXPECT_EQ(b.cache.size(), 100U);
}

TEST(NeighbourCache, FullTableOfBusyKeptOrUsedEntriesRefusesNewOnes) {
  SimNeighbourCache b{{.max_entries = 4}};
  ASSERT_TRUE(b.cache.use_gateway(host(1), b.now));
  ASSERT_TRUE(b.cache.add_static(host(2), wire::MacAddr{std::byte{2}}, b.now));
  b.resolve(host(3));
  b.run_for(10s);
  b.sink.used[*b.sink.index_of(host(3))] = b.now;
  b.want(host(4));  // an entry that is being resolved
  b.want(host(5));
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourTableFull], 1U);
  EXPECT_FALSE(b.cache.use_gateway(host(6), b.now));
  EXPECT_EQ(b.cache.size(), 4U);
  b.answer(host(4));
  b.run_for(3s);
  b.want(host(5));  // host(3) was unused for the longest time
  EXPECT_EQ(b.sink.find(host(3)), nullptr);
  EXPECT_NE(b.sink.find(host(5)), nullptr);
  EXPECT_EQ(b.cache.counters().evicted, 1U);
  EXPECT_EQ(b.cache.counters().refused, 2U);
}

TEST(NeighbourCache, EntryBeingResolvedIsNotEvictedHoweverLongAgoItWasWanted) {
  SimNeighbourCache b{{.max_held_age = 100ms, .max_entries = 1}};
  b.want(host(1));
  b.run_for(2500ms);  // no packet waits any more; the last request is sent
  b.want(host(2));
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourTableFull], 1U);
  b.answer(host(1));
  EXPECT_TRUE(b.sink.valid(host(1)));
}

TEST(NeighbourCache, NoIndexLeftCountsAsTableFull) {
  SimNeighbourCache b{{}, 1};
  b.want(host(1));
  b.want(host(2));
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourTableFull], 1U);
  EXPECT_EQ(b.cache.counters().refused, 1U);
}

// An index is reusable only long after its entry is removed, so eviction would not provide one.
TEST(NeighbourCache, NobodyIsForgottenForWantOfAnIndex) {
  SimNeighbourCache b{{}, 2};
  for (const unsigned i : {1U, 2U}) b.resolve(host(i));
  b.run_for(3s);  // both entries could be evicted
  b.want(host(3));
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourTableFull], 1U);
  EXPECT_EQ(b.cache.counters().refused, 1U);
  EXPECT_EQ(b.cache.counters().evicted, 0U);
  EXPECT_EQ(b.cache.size(), 2U);
}

TEST(NeighbourCache, SixtyFourThousandEntriesAreServedQuickly) {
  SimNeighbourCache b;
  fill(b, 65536);
  EXPECT_EQ(b.cache.size(), 65536U);
  // All entries are confirmed, become stale and are checked within this minute.
  b.run_for(60s);
  // The table is full, and each new neighbour evicts one.
  for (std::uint32_t i = 0; i < 20000; ++i) b.resolve(host(100000 + i));
  EXPECT_EQ(b.cache.size(), 65536U);
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourTableFull], 0U);
  EXPECT_TRUE(b.sink.open.empty());
}

TEST(NeighbourCache, PacketThatArrivesAfterTheAnswerIsLetGo) {
  SimNeighbourCache b;
  b.resolve(host(1));
  const auto late = b.want(host(1));
  EXPECT_EQ(b.sink.released.back(), late);
}

TEST(NeighbourCache, AnswerTooLateRevivesAFailedEntry) {
  SimNeighbourCache b;
  b.want(host(1));
  b.run_for(3400ms);
  ASSERT_EQ(b.sink.find(host(1))->state, NeighbourState::kFailed);
  b.answer(host(1));
  EXPECT_EQ(b.sink.find(host(1))->state, NeighbourState::kValid);
}

TEST(NeighbourCache, TimersAreJittered) {
  SimNeighbourCache b;
  for (std::uint32_t i = 0; i < 100; ++i) b.want(host(i));
  b.run_for(1200ms);
  std::map<TimePoint, unsigned> times;
  for (const auto t : b.questions.times) ++times[t];
  EXPECT_GE(times.size(), 90U);  // 100 requests at once, then each at its own time
}

}  // namespace
}  // namespace ipoib::link
