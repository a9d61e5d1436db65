// SPDX-License-Identifier: BSD-3-Clause
// Names of tests are those of tests/requirements.md.
#include "lib/link/ipoib/connected/connections.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/wire/rc.h"
#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using fabric::Transport;
using table::NeighbourMode;
using wire::CmAttr;
using wire::LinkAddr;
using wire::RejReason;
using wire::ServiceIdForm;

ConnectionConfig both() {
  ConnectionConfig c = rc();
  c.uc = true;
  return c;
}

struct ConnectionsTest : testing::Test {
  SimConnections sim;

  std::pair<SimSide&, SimSide&> two(const ConnectionConfig& a, const ConnectionConfig& b) {
    return sim.two(a, b);
  }
  [[nodiscard]] std::size_t sent(CmAttr attr) const {
    return static_cast<std::size_t>(
        std::ranges::count(sim.sent, attr, [](const wire::CmMad& m) { return m.attr(); }));
  }
};

/// Repeats the first request of `from` with a queue pair and communication ID that are larger by
/// `nth`.
void ask_again(const SimConnections& world, const SimSide& from, SimSide& to,
               std::uint32_t nth = 1) {
  const auto first = std::ranges::find(world.sent, CmAttr::kReq, &wire::CmMad::attr);
  ASSERT_NE(first, world.sent.end());
  auto request = wire::cm_message<wire::CmReq>(*first);
  request.local_id.set(request.local_id.host() + nth);
  request.local_qpn.set(request.local_qpn.host() + nth);
  const auto mad = wire::make_cm_mad(first->hdr.tid.host() + nth, request);
  fabric::ReceivedMad received{.from = from.mad_address(), .bytes = {}};
  std::ranges::copy(wire::bytes_of(mad), received.bytes.begin());
  to.manager->on_mad(received, world.now);
}

TEST_F(ConnectionsTest, C01_FlagsSayWhatIsConfigured) {
  EXPECT_EQ(sim.add({}).connections->flags(), 0);
  EXPECT_EQ(sim.add(rc()).connections->flags(), LinkAddr::kFlagRc);
  EXPECT_EQ(sim.add(uc()).connections->flags(), LinkAddr::kFlagUc);
  EXPECT_EQ(sim.add(both()).connections->flags(), 0xc0);
}

TEST_F(ConnectionsTest, C01_OtherBitsAreIgnoredAndDatagramLinksIgnoreAll) {
  SimSide& datagram = sim.add({});
  SimSide& connected = sim.add(rc());
  datagram.meet(connected, 0xff);
  datagram.talk(connected);
  connected.meet(datagram, 0x3f);
  connected.talk(datagram);
  sim.run_for(60s);
  EXPECT_TRUE(sim.sent.empty());
}

TEST_F(ConnectionsTest, C02_C12_TrafficOpensAndUdCarriesUntilThen) {
  auto [a, b] = two(rc(), rc());
  a.talk(b, false);
  sim.run_for(60s);
  EXPECT_TRUE(sim.sent.empty()) << "opened merely because the peer could";
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kUd);
  EXPECT_EQ(a.way_to(b).mtu, 2044);

  a.talk(b);
  sim.run_for(2s);
  ASSERT_EQ(a.up().size(), 1U);
  ASSERT_EQ(b.up().size(), 1U);
  const auto& mine = a.queue(a.up()[0].qpn);
  const auto& theirs = b.queue(b.up()[0].qpn);
  EXPECT_EQ(mine.receive.peer_qpn, theirs.qpn());
  EXPECT_EQ(theirs.receive.peer_qpn, mine.qpn());
  EXPECT_EQ(mine.receive.rx_psn, theirs.send.tx_psn);
  EXPECT_EQ(theirs.receive.rx_psn, mine.send.tx_psn);
  EXPECT_EQ(mine.receive.path.dlid, 2);
  EXPECT_EQ(theirs.receive.path.dlid, 1);
  EXPECT_EQ(theirs.receive.path.sl, 1);
  EXPECT_EQ(a.told, std::vector{b.ip()});
  EXPECT_EQ(b.told, std::vector{a.ip()}) << "one connection is for both directions";
  for (const auto& way : {a.way_to(b), b.way_to(a)}) {
    EXPECT_EQ(way.mode, NeighbourMode::kRc);
    EXPECT_EQ(way.mtu, 65'520);
  }
  EXPECT_EQ(a.way_to(b).queue, &mine);
  EXPECT_EQ(b.way_to(a).queue, &theirs);
}

/// Both ends of a connection use the LIDs that its request names.
TEST_F(ConnectionsTest, U41_ConnectionsKeepToTheLidsOfTheirPath) {
  auto [a, b] = two(rc(), rc());
  for (SimSide* side : {&a, &b}) {
    side->kill();
    side->port_lid = static_cast<std::uint16_t>(8 * side->lid());
    side->lmc = 1;
    side->start();
  }
  a.src_path_bits = 1;
  change_each<wire::CmReq>(sim, [](wire::CmReq& req) { req.primary.remote_lid.set(17); });
  a.meet(b);
  b.meet(a);
  a.talk(b);
  sim.run_for(5s);
  ASSERT_EQ(a.up().size(), 1U);
  ASSERT_EQ(b.up().size(), 1U);
  EXPECT_EQ(sim.all_sent<wire::CmReq>().at(0).primary.local_lid.host(), 9);
  EXPECT_EQ(a.queue(a.up()[0].qpn).receive.path.src_path_bits, 1);
  const auto& back = b.queue(b.up()[0].qpn).receive.path;
  EXPECT_EQ(back.dlid, 9);
  EXPECT_EQ(back.src_path_bits, 1);
}

TEST_F(ConnectionsTest, C12_PolicyAlwaysAndNever) {
  ConnectionConfig never = rc();
  never.open = OpenPolicy::kAccept;
  ConnectionConfig always = rc();
  always.open = OpenPolicy::kAlways;
  SimSide& a = sim.add(never);
  SimSide& b = sim.add(always);
  a.meet(b);
  a.talk(b);
  sim.run_for(30s);
  EXPECT_TRUE(sim.sent.empty());
  b.meet(a);
  sim.run_for(1s);
  EXPECT_EQ(b.up().size(), 1U) << "no packet is needed";
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc) << "who never asks accepts";
}

TEST_F(ConnectionsTest, C12_LimitLeavesOthersWithUd) {
  ConnectionConfig few = rc();
  few.max_connections = 2;
  SimSide& a = sim.add(few);
  for (int i = 0; i < 4; ++i) {
    SimSide& peer = sim.add(rc());
    a.meet(peer);
    a.talk(peer);
    peer.meet(a);
  }
  sim.run_for(30s);
  EXPECT_EQ(a.up().size(), 2U);
  EXPECT_GT(a.connections->counters().limited, 0U);
  sim.sides[3]->talk(a);
  sim.run_for(30s);
  EXPECT_EQ(a.up().size(), 2U);
  const auto rejs = sim.all_sent<wire::CmRej>();
  ASSERT_FALSE(rejs.empty());
  EXPECT_EQ(rejs[0].why(), RejReason::kNoResources);
  EXPECT_EQ(sim.sides[3]->way_to(a).mode, NeighbourMode::kUd);
}

TEST_F(ConnectionsTest, C03_ServiceIdNamesThePeersUdQueuePair) {
  two(rc(), rc());
  sim.run_for(2s);
  ASSERT_EQ(sim.all_sent<wire::CmReq>().size(), 1U);
  EXPECT_EQ(sim.all_sent<wire::CmReq>()[0].service_id.host(), 0x0100'0000'0000'0042ULL);
}

TEST_F(ConnectionsTest, C03_FirstOctetIsConfigurableAndBothAreListenedOn) {
  ConnectionConfig linux_id = rc();
  linux_id.service_id = ServiceIdForm::kLinux;
  auto [a, b] = two(linux_id, rc());
  sim.run_for(2s);
  EXPECT_EQ(sim.all_sent<wire::CmReq>()[0].service_id.host(), 0x1000'0000'0000'0042ULL);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
}

TEST_F(ConnectionsTest, C03_TheOtherOctetIsTriedWhereThePeerKnowsNoSuchService) {
  auto [a, b] = two(rc(), rc());
  b.manager->unlisten(wire::ipoib_service_id(ServiceIdForm::kIetf, 0x42));
  sim.run_for(2s);
  ASSERT_EQ(a.up().size(), 1U);
  EXPECT_EQ(sim.all_sent<wire::CmReq>().back().service_id.host(), 0x1000'0000'0000'0042ULL);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
  EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kUd)
      << "a peer with Linux's habit is not sent to on the connection that it opened";
}

TEST_F(ConnectionsTest, C03_APeerThatDidNotListenYetIsAskedByBothOctetsAgain) {
  auto [a, b] = two(rc(), rc());
  const auto ietf = wire::ipoib_service_id(ServiceIdForm::kIetf, 0x42);
  const auto linux_id = wire::ipoib_service_id(ServiceIdForm::kLinux, 0x42);
  b.manager->unlisten(ietf);
  b.manager->unlisten(linux_id);
  a.talk(b);
  sim.run_for(60s);
  EXPECT_TRUE(a.up().empty());
  const auto asked = sim.all_sent<wire::CmReq>();
  ASSERT_GE(asked.size(), 4U);
  for (std::size_t i = 0; i < asked.size(); ++i)
    EXPECT_EQ(asked[i].service_id.host(), (i % 2 == 0 ? ietf : linux_id)) << i;
  b.kill();
  b.start();
  sim.run_for(600s);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
}

TEST_F(ConnectionsTest, C04_EveryMessageSaysUdQpnAndReceiveMtu) {
  auto [a, b] = two(rc(), rc());
  sim.run_for(2s);
  SimSide& c = sim.add(uc());
  c.meet(a, LinkAddr::kFlagUc);
  c.talk(a);
  sim.run_for(2s);
  const auto check = [](const auto& message, std::uint32_t ud_qpn) {
    const auto said = wire::read<wire::IpoibCmPrivate>(message.private_data).value();
    EXPECT_EQ(said.reserved, 0);
    EXPECT_EQ(said.ud_qpn.host(), ud_qpn);
    EXPECT_EQ(said.receive_mtu.host(), 65'524U);
  };
  check(sim.all_sent<wire::CmReq>().at(0), 0x41);
  check(sim.all_sent<wire::CmRep>().at(0), 0x42);
  check(sim.all_sent<wire::CmRtu>().at(0), 0x41);
  check(sim.all_sent<wire::CmRej>().at(0), 0x41);
  EXPECT_EQ(sim.all_sent<wire::CmRej>().at(0).why(), RejReason::kInvalidTransport);
}

TEST_F(ConnectionsTest, C05_OneOfCrossingRequestsRemains) {
  // Requests cross with different delays; with the least delay of 10 us they are under way at the
  // same time.
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimConnections w{seed};
    w.spread = std::chrono::milliseconds(seed % 7);
    auto [a, b] = w.two(rc(), rc());
    b.talk(a);
    w.run_for(30s);
    ASSERT_EQ(a.up().size(), 1U) << seed;
    ASSERT_EQ(b.up().size(), 1U) << seed;
    ASSERT_EQ(a.up()[0].peer_qpn, b.up()[0].qpn) << seed;
    ASSERT_EQ(a.way_to(b).mode, NeighbourMode::kRc) << seed;
    ASSERT_EQ(b.way_to(a).mode, NeighbourMode::kRc) << seed;
    w.run_for(60s);
    ASSERT_EQ(a.connections->queues() + b.connections->queues(), 2U) << seed;
  }
}

TEST_F(ConnectionsTest, C05_C06_TheSmallerAddressAccepts) {
  auto [a, b] = two(rc(), rc());
  b.talk(a);
  sim.run_for(5s);
  // Both sides sent a request at the same time: the request of the side with the larger address is
  // accepted.
  ASSERT_EQ(b.up().size(), 1U);
  EXPECT_TRUE(b.up()[0].active);
  EXPECT_FALSE(a.up().at(0).active);
  const auto rejs = sim.all_sent<wire::CmRej>();
  ASSERT_FALSE(rejs.empty());
  EXPECT_EQ(rejs[0].why(), RejReason::kConsumer);
}

TEST_F(ConnectionsTest, C06_OnePerDirectionAsLinuxHasIt) {
  ConnectionConfig per_direction = rc();
  per_direction.pairs = PairPolicy::kPerDirection;
  auto [a, b] = two(per_direction, per_direction);
  b.talk(a);
  sim.run_for(5s);
  ASSERT_EQ(a.up().size(), 2U);
  ASSERT_EQ(b.up().size(), 2U);
  for (const SimSide* side : {&a, &b})
    for (const auto& row : side->up()) EXPECT_EQ(row.sending, row.active);
  EXPECT_EQ(sent(CmAttr::kRej), 0U);
}

/// A peer requests a further connection with a queue pair of its own, and keeps the first one.
TEST_F(ConnectionsTest, C06_AFurtherRequestReplacesTheFirstConnectionOrIsRefused) {
  for (const auto pairs : {PairPolicy::kOne, PairPolicy::kFirst, PairPolicy::kPerDirection}) {
    ConnectionConfig config = rc();
    config.pairs = pairs;
    SimConnections world;
    auto [a, b] = world.two(rc(), config);
    world.run_for(60s);
    ASSERT_EQ(b.up().size(), 1U);
    const bool refuses = pairs == PairPolicy::kFirst;
    ask_again(world, a, b);
    world.run_for(2s);
    EXPECT_EQ(a.up().size(), 1U) << "the peer asks once more for what it has lost";
    const ConnectionCounters& counters = b.connections->counters();
    EXPECT_EQ(counters.incoming, refuses ? 2U : 3U);
    EXPECT_EQ(counters.further, refuses ? 1U : 0U);
    EXPECT_EQ(counters.ended_by(ConnectionEnd::kReplaced), refuses ? 0U : 1U);
  }
}

/// The peer sends on it between its further requests.
TEST_F(ConnectionsTest, C06_AFirstConnectionThatIsUsedIsKept) {
  ConnectionConfig config = rc();
  config.pairs = PairPolicy::kFirst;
  auto [a, b] = two(rc(), config);
  sim.run_for(60s);
  ASSERT_EQ(b.up().size(), 1U);
  const std::uint32_t qpn = b.up()[0].qpn;
  constexpr std::uint32_t kTimes = 10;
  for (std::uint32_t i = 1; i <= kTimes; ++i) {
    ask_again(sim, a, b, i);
    sim.run_for(4s);
    ++b.queue(qpn).info.counters.rx_messages;
  }
  EXPECT_EQ(b.connections->counters().further, kTimes);
  ASSERT_EQ(b.up().size(), 1U);
  EXPECT_EQ(b.up()[0].qpn, qpn);
}

TEST_F(ConnectionsTest, C05_C06_CrossingRequestsAreNotFurtherOnes) {
  ConnectionConfig first = rc();
  first.pairs = PairPolicy::kFirst;
  auto [a, b] = two(first, first);
  b.talk(a);
  sim.run_for(5s);
  EXPECT_EQ(a.up().size(), 1U);
  EXPECT_EQ(b.up().size(), 1U);
  EXPECT_EQ(a.connections->counters().further + b.connections->counters().further, 0U);
}

TEST_F(ConnectionsTest, C17_APeerThatTakesLessThanTheProtocolsNeedIsSentToByUd) {
  for (const std::uint32_t takes : {1283U, 1284U}) {
    ConnectionConfig small = rc();
    small.receive_mtu = takes;
    SimConnections world;
    auto [a, b] = world.two(small, rc());
    b.talk(a);
    world.run_for(60s);
    const bool enough = takes == 1284;
    EXPECT_EQ(b.way_to(a).mode, enough ? NeighbourMode::kRc : NeighbourMode::kUd);
    EXPECT_EQ(b.way_to(a).mtu, enough ? 1280 : 2044);
    EXPECT_EQ(a.way_to(b).mode, b.way_to(a).mode);
    EXPECT_EQ(a.up().size(), enough ? 1U : 0U);
  }
}

TEST_F(ConnectionsTest, C07_NeighbourGoneLinkDownAndIdle) {
  auto [a, b] = two(rc(), rc());
  sim.run_for(2s);
  ASSERT_EQ(a.up().size(), 1U);
  a.lose(b);
  sim.run_for(1s);
  EXPECT_EQ(a.up().size() + b.up().size(), 0U);
  EXPECT_EQ(sent(CmAttr::kDreq), 1U);
  EXPECT_EQ(sent(CmAttr::kDrep), 1U);
  EXPECT_EQ(a.connections->counters().ended_by(ConnectionEnd::kUnwanted), 1U);
  EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kUd);

  a.meet(b);
  sim.run_for(3s);
  ASSERT_EQ(a.up().size(), 1U);
  a.talk(b, false);
  sim.run_for(600s);
  EXPECT_EQ(a.up().size() + b.up().size(), 0U);
  EXPECT_GE(a.connections->counters().ended_by(ConnectionEnd::kIdle) +
                b.connections->counters().ended_by(ConnectionEnd::kIdle),
            1U);

  a.talk(b);
  sim.run_for(5s);
  ASSERT_EQ(a.up().size(), 1U);
  b.connections->stop(sim.now);
  sim.run_for(1s);
  EXPECT_EQ(a.up().size() + b.up().size(), 0U);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kUd);
  sim.run_for(60s);
  EXPECT_EQ(a.queues() + b.queues(), 0U) << "queue pairs are given back";
}

// A lifetime of 31 would be 2.4 hours.
TEST_F(ConnectionsTest, C18_QueuePairIsKeptForTwoLifetimesOfItsPath) {
  struct Row {
    std::uint8_t lifetime;
    Duration kept;
  };
  for (const Row& row : {Row{0, 0ms}, Row{16, 536ms}, Row{18, 2147ms}, Row{19, 4294ms},
                         Row{31, 4294ms}, Row{63, 4294ms}}) {
    SimConnections fabric;
    auto [a, b] = fabric.two(rc(), rc());
    a.path_lifetime = row.lifetime;
    fabric.run_for(3s);
    ASSERT_EQ(a.up().size(), 1U) << unsigned{row.lifetime};
    a.lose(b);
    const TimePoint begin = fabric.now;
    while (a.queues() != 0 && fabric.now < begin + 60s) fabric.run_for(10ms);
    EXPECT_GE(fabric.now - begin, row.kept) << unsigned{row.lifetime};
    EXPECT_LE(fabric.now - begin, row.kept + 200ms) << unsigned{row.lifetime};
  }
}

/// A request says twice the lifetime plus the ACK delay of the own device, and a reply that of the peer's.
TEST(AckTimeouts, C18_LifetimeAndDelayOfTheDeviceDecideTheAckTimeoutOfARequest) {
  struct Row {
    std::uint8_t lifetime, delay, announced;
  };
  for (const Row& row : {Row{0, 0, 2}, Row{0, 15, 15}, Row{0, 31, 20}, Row{31, 0, 20},
                         Row{31, 31, 20}, Row{12, 15, 15}, Row{13, 15, 16}, Row{16, 15, 17},
                         Row{17, 15, 18}, Row{18, 15, 19}, Row{19, 15, 20}, Row{63, 15, 20},
                         Row{9, 12, 12}, Row{10, 12, 13}, Row{11, 12, 13}, Row{12, 12, 14}}) {
    SCOPED_TRACE(testing::Message() << "lifetime " << +row.lifetime << ", delay " << +row.delay);
    SimConnections fabric;
    auto [a, b] = fabric.two(rc(), rc());
    a.path_lifetime = row.lifetime;
    a.hca.delay = row.delay;
    b.hca.delay = static_cast<std::uint8_t>(31 - row.delay);
    fabric.run_for(2s);
    ASSERT_EQ(a.up().size(), 1U);
    EXPECT_EQ(fabric.all_sent<wire::CmReq>().at(0).primary.ack_timeout(), row.announced);
    EXPECT_EQ(fabric.all_sent<wire::CmRep>().at(0).target_ack_delay(), b.hca.delay);
  }
}

/// The time-out in a request is that of the path: this side adds no delay to it.
TEST(AckTimeouts, C18_ARequestSaysTheAckTimeoutOfThePeersQueuePair) {
  struct Row {
    std::uint8_t announced, retries, timeout;
  };
  for (const Row& row : {Row{0, 7, 8}, Row{1, 7, 8}, Row{8, 7, 8}, Row{9, 7, 9}, Row{12, 7, 12},
                         Row{31, 7, 12}, Row{0, 0, 8}, Row{13, 0, 13}, Row{31, 0, 15}}) {
    SCOPED_TRACE(testing::Message() << "announced " << +row.announced);
    SimConnections fabric;
    ConnectionConfig config = rc();
    config.retry_count = row.retries;
    auto [a, b] = fabric.two(config, config);
    change_each<wire::CmReq>(fabric,
                             [&](wire::CmReq& req) { req.primary.set_ack_timeout(row.announced); });
    fabric.run_for(2s);
    ASSERT_EQ(b.up().size(), 1U);
    EXPECT_EQ(b.queue(b.up().at(0).qpn).send.ack_timeout, row.timeout);
  }
}

/// The peer's ACK delay is in its REP. No queue pair waits longer than TCP, C-13, or less than 1 ms.
TEST(AckTimeouts, C18_PacketLifetimeDecidesTheAckTimeoutOfTheOwnQueuePair) {
  struct Row {
    std::uint8_t lifetime, delay, retries, timeout;
  };
  for (const Row& row :
       {Row{0, 0, 7, 8}, Row{0, 31, 7, 12}, Row{31, 0, 7, 12}, Row{31, 31, 7, 12}, Row{0, 0, 0, 8},
        Row{5, 0, 7, 8}, Row{7, 0, 7, 8}, Row{8, 0, 7, 9}, Row{8, 9, 7, 10}, Row{5, 10, 7, 10},
        Row{10, 0, 7, 11}, Row{10, 15, 7, 12}, Row{16, 0, 7, 12}, Row{63, 31, 7, 12},
        Row{16, 0, 0, 15}, Row{13, 5, 0, 14}}) {
    SCOPED_TRACE(testing::Message() << "lifetime " << +row.lifetime << ", delay " << +row.delay);
    SimConnections fabric;
    ConnectionConfig config = rc();
    config.retry_count = row.retries;
    auto [a, b] = fabric.two(config, config);
    a.path_lifetime = row.lifetime;
    change_each<wire::CmRep>(fabric,
                             [&](wire::CmRep& rep) { rep.set_target_ack_delay(row.delay); });
    fabric.run_for(2s);
    ASSERT_EQ(a.up().size(), 1U);
    EXPECT_EQ(a.queue(a.up().at(0).qpn).send.ack_timeout, row.timeout);
  }
}

/// The other end of a connection learns the lifetime from the timeout in the REQ.
TEST(AckTimeouts, C18_ThePeerKeepsItsQueuePairForTwoLifetimesToo) {
  for (const std::uint8_t lifetime : std::initializer_list<std::uint8_t>{16, 18}) {
    SimConnections fabric;
    auto [a, b] = fabric.two(rc(), rc());
    a.path_lifetime = lifetime;
    fabric.run_for(3s);
    ASSERT_EQ(b.up().size(), 1U);
    a.lose(b);
    const TimePoint begin = fabric.now;
    while (b.queues() != 0 && fabric.now < begin + 60s) fabric.run_for(10ms);
    const Duration kept = 2 * cm::time_of(lifetime);
    EXPECT_GE(fabric.now - begin, kept) << unsigned{lifetime};
    EXPECT_LE(fabric.now - begin, kept + 200ms) << unsigned{lifetime};
  }
}

/// Linux sends on a connection that it opened until the time-wait after this side's DREQ is over.
TEST_F(ConnectionsTest, C07_ThePeersConnectionIsHeardUntilItIsReleased) {
  ConnectionConfig linux_way = rc();
  linux_way.pairs = PairPolicy::kPerDirection;
  auto [a, b] = two(linux_way, linux_way);
  sim.run_for(2s);
  const auto rows = b.up();
  ASSERT_EQ(rows.size(), 1U);
  const std::uint32_t theirs = rows[0].qpn, own = a.up().at(0).qpn;
  ASSERT_TRUE(b.connections->close(rows[0].handle, sim.now));
  sim.run_for(1ms);
  EXPECT_EQ(sent(CmAttr::kDrep), 1U);
  EXPECT_EQ(b.queue(theirs).info.state, fabric::QueueState::kReadyToSend) << "it receives";
  EXPECT_EQ(a.queue(own).info.state, fabric::QueueState::kError);
  sim.run_for(10s);
  EXPECT_FALSE(b.hca.queues.contains(theirs)) << "released";
}

TEST_F(ConnectionsTest, C07_ConnectionsInUseAreNotIdle) {
  auto [a, b] = two(rc(), rc());
  sim.run_for(2s);
  for (int i = 0; i < 20; ++i) {
    ++b.queue(b.up().at(0).qpn).info.counters.rx_messages;
    ++a.queue(a.up().at(0).qpn).info.counters.tx_messages;
    sim.run_for(100s);
  }
  EXPECT_EQ(a.up().size(), 1U);
}

TEST_F(ConnectionsTest, C08_MtuIsTheSmallerReceiveMtuLess4) {
  ConnectionConfig small = rc();
  small.receive_mtu = 9004;
  auto [a, b] = two(rc(), small);
  sim.run_for(2s);
  EXPECT_EQ(a.way_to(b).mtu, 9000);
  EXPECT_EQ(b.way_to(a).mtu, 9000);
  EXPECT_EQ(a.queue(a.up().at(0).qpn).send.max_message, 9004U);
}

/// A peer that does not answer is given up in less than TCP's shortest retransmission time-out (200
/// ms); then packets use UD. Other values can be configured, for both directions.
TEST_F(ConnectionsTest, C13_RetriesAreShortAgainstTcpAndConfigurable) {
  const auto silence_ns = [](const fabric::ReadyToSend& send) {
    return (send.retry_count + 1U) * wire::ack_timeout_ns(send.ack_timeout);
  };
  auto [a, b] = two(rc(), rc());
  sim.run_for(2s);
  for (SimSide* side : {&a, &b}) {
    const auto& send = side->queue(side->up().at(0).qpn).send;
    EXPECT_GT(silence_ns(send), 0U);
    EXPECT_LT(silence_ns(send), 200'000'000U);
  }
  ConnectionConfig own = rc();
  own.retry_count = 2;
  own.rnr_retry = 3;
  own.ack_timeout = 9;
  SimSide& c = sim.add(own);
  c.meet(a);
  c.talk(a);
  sim.run_for(2s);
  const auto& send = c.queue(c.up().at(0).qpn).send;
  EXPECT_EQ(send.retry_count, 2);
  EXPECT_EQ(send.ack_timeout, 9);
  const auto req = sim.all_sent<wire::CmReq>().back();
  EXPECT_EQ(req.retry_count(), 2);
  EXPECT_EQ(req.rnr_retry(), 3) << "how often the peer is to send again";
  EXPECT_EQ(req.primary.ack_timeout(), 9);
  EXPECT_EQ(a.queue(a.up().at(1).qpn).send.rnr_retry, 3);
  EXPECT_EQ(send.rnr_retry, 3) << "the peer asks for more than this side is ready to do";
}

// A peer may ask for infinite retries (7), and does not get them.
TEST_F(ConnectionsTest, C15_NoPeerIsWaitedForForEver) {
  EXPECT_LT(ConnectionConfig{}.rnr_retry, 7);
  ConnectionConfig greedy = rc();
  greedy.rnr_retry = 7;
  auto [a, b] = two(greedy, rc());
  sim.run_for(2s);
  EXPECT_EQ(sim.all_sent<wire::CmReq>().back().rnr_retry(), 7);
  EXPECT_EQ(b.queue(b.up().at(0).qpn).send.rnr_retry, ConnectionConfig{}.rnr_retry);
  EXPECT_EQ(a.queue(a.up().at(0).qpn).send.rnr_retry, ConnectionConfig{}.rnr_retry);
  SimSide& c = sim.add(greedy);
  c.meet(a);
  c.talk(a);
  sim.run_for(2s);
  EXPECT_EQ(a.queue(a.up().at(1).qpn).send.rnr_retry, 7) << "unless both are set to";
}

TEST_F(ConnectionsTest, C11_ModeFollowsBothEnds) {
  const auto mode = [](const ConnectionConfig& x, const ConnectionConfig& y) {
    SimConnections w;
    SimSide& a = w.add(x);
    SimSide& b = w.add(y);
    a.meet(b);
    b.meet(a);
    a.talk(b);
    w.run_for(5s);
    return a.way_to(b).mode;
  };
  EXPECT_EQ(mode(rc(), rc()), NeighbourMode::kRc);
  EXPECT_EQ(mode(uc(), uc()), NeighbourMode::kUc);
  EXPECT_EQ(mode(both(), both()), NeighbourMode::kRc);
  EXPECT_EQ(mode(both(), uc()), NeighbourMode::kUc);
  EXPECT_EQ(mode(uc(), both()), NeighbourMode::kUc);
  EXPECT_EQ(mode(rc(), uc()), NeighbourMode::kUd);
  EXPECT_EQ(mode(rc(), {}), NeighbourMode::kUd);
  EXPECT_EQ(mode({}, both()), NeighbourMode::kUd);
}

}  // namespace
}  // namespace ipoib::link
