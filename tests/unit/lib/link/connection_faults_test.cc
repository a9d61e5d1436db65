// SPDX-License-Identifier: BSD-3-Clause
// Connected mode with peers that lie, fail or restart, and with MADs that are lost. Names of tests
// are those of tests/requirements.md.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/seeds.h"
#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using table::NeighbourMode;
using wire::CmAttr;

std::size_t requests(const SimConnections& sim) {
  return static_cast<std::size_t>(
      std::ranges::count(sim.sent, CmAttr::kReq, [](const wire::CmMad& m) { return m.attr(); }));
}

TEST(ConnectionFaults, C14_FalseFlagsCostFewerAndFewerAttempts) {
  SimConnections sim;
  SimSide& a = sim.add(rc());
  SimSide& liar = sim.add({});
  a.meet(liar, wire::LinkAddr::kFlagRc);
  a.talk(liar);
  sim.run_for(60s);
  const auto first = requests(sim);
  sim.run_for(600s);
  const auto later = requests(sim) - first;
  EXPECT_GT(first, 2U);
  EXPECT_LE(first, 12U);
  EXPECT_GE(later, 5U) << "it may have been mended";
  EXPECT_LE(later, 16U) << "one attempt a minute";
  EXPECT_EQ(a.way_to(liar).mode, NeighbourMode::kUd);
  EXPECT_TRUE(a.told.empty());
}

TEST(ConnectionFaults, C14_SilentPeerIsAskedFewerAndFewerTimes) {
  SimConnections sim;
  SimSide& a = sim.add(rc());
  SimSide& dead = sim.add(rc());
  a.meet(dead);
  a.talk(dead);
  dead.kill();
  sim.run_for(600s);
  // Each attempt sends its request again cm_retries times.
  EXPECT_LE(requests(sim), 5U * 20U);
  EXPECT_GE(requests(sim), 5U * 8U);
  EXPECT_LE(a.queues(), 1U);
}

TEST(ConnectionFaults, C14_RefusedWithoutQueuePairsOrPath) {
  SimConnections sim;
  auto [a, b] = sim.two(rc(), rc());
  b.hca.has_room = false;
  sim.run_for(5s);
  EXPECT_GT(b.connections->counters().no_queue, 0U);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kUd);
  a.has_path = false;
  const auto before = requests(sim);
  sim.run_for(120s);
  EXPECT_EQ(requests(sim), before);
  b.hca.has_room = a.has_path = true;
  sim.run_for(70s);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
}

TEST(ConnectionFaults, C15_FailedQueueFallsBackToUdAtOnceAndIsReplaced) {
  SimConnections sim;
  auto [a, b] = sim.two(rc(), rc());
  sim.run_for(2s);
  const auto qpn = a.up().at(0).qpn;
  a.queue(qpn).info.error = fabric::QueueError::kRetryExceeded;
  a.connections->on_queue_event({qpn, fabric::QueueEvent::Kind::kError}, sim.now);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kUd);
  EXPECT_EQ(a.queue(qpn).info.state, fabric::QueueState::kError);
  sim.run_for(3s);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
  EXPECT_NE(a.up().at(0).qpn, qpn);
  EXPECT_EQ(b.up().size(), 1U);
  a.connections->on_queue_event({qpn, fabric::QueueEvent::Kind::kError}, sim.now);
  EXPECT_EQ(a.up().size(), 1U) << "late news";
}

TEST(ConnectionFaults, C16_FirstPacketStandsForALostRtu) {
  SimConnections sim;
  auto [a, b] = sim.two(rc(), rc());
  while (a.up().empty()) sim.run_for(5us);
  sim.loss = 1;
  ASSERT_TRUE(b.up().empty());
  const auto waiting = b.connections->list(sim.now).at(0);
  b.connections->on_queue_event({waiting.qpn, fabric::QueueEvent::Kind::kEstablished}, sim.now);
  sim.run_for(1ms);
  EXPECT_EQ(b.up().size(), 1U);
  EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kRc);
}

/// A side that keeps the first connection asks if the peer still has it.
TEST(ConnectionFaults, C06_C16_RestartedPeerReplacesWhatItForgot) {
  for (const auto& [restarted_asks, pairs] :
       {std::pair{false, PairPolicy::kOne}, {true, PairPolicy::kOne}, {true, PairPolicy::kFirst}}) {
    SimConnections sim;
    ConnectionConfig config = rc();
    config.pairs = pairs;
    auto [a, b] = sim.two(config, rc());
    sim.run_for(60s);
    ASSERT_EQ(a.up().size(), 1U);
    b.kill();
    sim.run_for(2s);
    b.start();
    b.meet(a);
    if (restarted_asks)
      b.talk(a);
    else  // the RC queue pair reports that its peer does not answer
      a.connections->on_queue_event({a.up().at(0).qpn, fabric::QueueEvent::Kind::kError}, sim.now);
    sim.run_for(5s);
    ASSERT_EQ(a.up().size(), 1U) << restarted_asks;
    ASSERT_EQ(b.up().size(), 1U) << restarted_asks;
    EXPECT_EQ(a.up()[0].peer_qpn, b.up()[0].qpn);
    EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kRc);
  }
}

/// Linux does not answer an RTU of a connection that it does not know.
TEST(ConnectionFaults, C06_C16_AFirstConnectionThatIsNotUsedGivesWayAfterSeconds) {
  SimConnections sim;
  ConnectionConfig config = rc();
  config.pairs = PairPolicy::kFirst;
  auto [a, b] = sim.two(config, rc());
  sim.run_for(60s);
  ASSERT_EQ(a.up().size(), 1U);
  const std::uint16_t silent = b.lid();
  sim.meddle = [silent](std::uint16_t from, std::uint16_t, const wire::CmMad& mad) {
    return from != silent || mad.attr() != wire::CmAttr::kRej;
  };
  b.kill();
  sim.run_for(2s);
  b.start();
  b.meet(a);
  b.talk(a);
  sim.run_for(10s);
  EXPECT_GE(a.connections->counters().further, 1U);
  ASSERT_EQ(a.up().size(), 1U);
  ASSERT_EQ(b.up().size(), 1U);
  EXPECT_EQ(a.up()[0].peer_qpn, b.up()[0].qpn);
  EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kRc);
}

/// The restarted peer's port has another LID. Until the SA is asked, its request looks like that of a
/// stranger.
TEST(ConnectionFaults, C16_APeerThatMovedIsAcceptedWithinSeconds) {
  for (const bool same_queue_pair : {false, true}) {
    SCOPED_TRACE(same_queue_pair);
    SimConnections sim;
    ConnectionConfig accepting = rc();
    accepting.open = OpenPolicy::kAccept;
    SimSide& a = sim.add(accepting);
    SimSide& b = sim.add(rc());
    a.meet(b);
    b.meet(a);
    b.talk(a);
    sim.run_for(60s);
    ASSERT_EQ(a.up().size(), 1U);
    const std::uint32_t old = a.up()[0].peer_qpn;
    b.kill();
    b.port_lid = 99;
    b.start();
    b.meet(a);
    b.talk(a);
    if (same_queue_pair)
      change_each<wire::CmReq>(sim, [old](wire::CmReq& req) { req.local_qpn.set(old); });
    sim.run_for(5s);
    EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kRc);
    ASSERT_EQ(a.up().size(), 1U);
    EXPECT_EQ(a.queue(a.up()[0].qpn).receive.path.dlid, 99);
    EXPECT_EQ(a.connections->counters().ended_by(ConnectionEnd::kMoved), 1U);
  }
}

/// UC does not report that the peer has restarted. The link therefore asks a peer that sends no
/// packets; a peer that is only silent keeps its connection.
TEST(ConnectionFaults, C15_C16_RestartedPeerOfOneWayUcIsNoticed) {
  for (const bool passive : {false, true}) {
    SCOPED_TRACE(passive);
    SimConnections sim;
    auto [a, b] = sim.two(uc(), uc());
    sim.run_for(2s);
    SimSide& sends = passive ? b : a;
    SimSide& silent = passive ? a : b;
    if (passive) b.talk(a);
    const auto send_for = [&](int whole_seconds) {
      for (int i = 0; i < whole_seconds * 2; ++i) {
        for (const auto& row : sends.up()) ++sends.queue(row.qpn).info.counters.tx_messages;
        sim.run_for(500ms);
      }
    };
    const auto qpn = sends.up().at(0).qpn;
    send_for(30);
    ASSERT_EQ(sends.up().size(), 1U);
    EXPECT_EQ(sends.up()[0].qpn, qpn);
    silent.kill();
    silent.start();
    silent.meet(sends);
    send_for(4);
    EXPECT_TRUE(sends.way_to(silent).mode == NeighbourMode::kUd || sends.up().at(0).qpn != qpn);
    send_for(4);
    ASSERT_EQ(sends.up().size(), 1U);
    EXPECT_NE(sends.up()[0].qpn, qpn);
    EXPECT_EQ(silent.up().at(0).peer_qpn, sends.up()[0].qpn);
  }
}

TEST(ConnectionFaults, RequestsOfNobody) {
  SimConnections sim;
  SimSide& a = sim.add(rc());
  SimSide& b = sim.add(rc());
  const auto ask = [&](std::uint32_t ud_qpn, std::uint32_t receive_mtu) {
    struct Nobody final : cm::Consumer {
      void on_request(cm::Handle, const wire::CmReq&, const fabric::MadAddress&,
                      TimePoint) override {}
      void on_reply(cm::Handle, const wire::CmRep&, TimePoint) override { FAIL(); }
      void on_established(cm::Handle, TimePoint) override { FAIL(); }
      void on_closed(cm::Handle, const cm::Closed& c, TimePoint) override { closed = c; }
      void on_released(cm::Handle, TimePoint) override {}
      cm::Closed closed;
    } nobody;
    const auto said = wire::IpoibCmPrivate::of(ud_qpn, receive_mtu);
    const auto octets = wire::bytes_of(said);
    cm::ConnectParams params;
    params.to = {.lid = 2};
    params.service_id = wire::ipoib_service_id(wire::ServiceIdForm::kIetf, 0x42);
    params.qpn = 0x999;
    params.primary.local_lid.set(1);
    params.primary.remote_lid.set(2);
    params.primary.local_gid = a.address().gid;
    params.primary.remote_gid = b.address().gid;
    params.primary.set_subnet_local(true);
    params.private_data = {octets.begin(), octets.end()};
    EXPECT_TRUE(a.manager->connect(params, nobody, sim.now));
    sim.run_for(1s);
    EXPECT_EQ(nobody.closed.rej.why(), wire::RejReason::kConsumer) << ud_qpn << " " << receive_mtu;
    a.manager->detach(nobody, sim.now);
  };
  ask(0, 65'524);
  ask(1, 65'524);
  ask(0x41, 0);
  ask(0x41, 4);
  ask(0x41, 1283);
  EXPECT_EQ(b.connections->counters().bad_private_data, 5U);
  EXPECT_EQ(b.queues(), 0U);
}

/// Loss, delay, disorder and restarts occur at random, and end. Links have up to three queue pairs,
/// and peers at times know another one than the first. Source: C-02, C-05, C-06, C-16, P-14.
void live(std::uint64_t seed) {
  SimConnections sim{seed};
  sim.loss = static_cast<double>(seed % 5) * 0.08;
  sim.spread = std::chrono::milliseconds(seed % 3 * 40);
  const auto pairs = seed % 2 != 0   ? PairPolicy::kPerDirection
                     : seed % 4 == 0 ? PairPolicy::kFirst
                                     : PairPolicy::kOne;
  const std::size_t n = 2 + seed % 3;
  for (std::size_t i = 0; i < n; ++i) {
    ConnectionConfig config = rc();
    config.pairs = pairs;
    config.idle = 40s;
    config.backoff_max = 8s;
    SimSide& side = sim.add(config);
    side.kill();
    side.queue_pairs = 1 + static_cast<unsigned>(seed / 2 % 3);
    side.start();
  }
  const auto meet_all = [&](SimSide& side) {
    for (const auto& other : sim.sides)
      if (other.get() != &side) side.meet(*other, wire::LinkAddr::kFlagRc);
  };
  for (const auto& side : sim.sides) meet_all(*side);
  for (int step = 0; step < 60; ++step) {
    SimSide& side = *sim.sides[sim.pick(n)];
    const SimSide& other = *sim.sides[sim.pick(n)];
    if (!side.alive()) {
      side.start();
      meet_all(side);
    } else if (sim.chance(0.1)) {
      side.kill();
    } else if (&side != &other) {
      side.talk(other, sim.chance(0.7));
      const auto rows = side.up();
      if (!rows.empty() && sim.chance(0.3))
        side.connections->on_queue_event({rows[0].qpn, fabric::QueueEvent::Kind::kError}, sim.now);
      if (other.alive() && sim.chance(0.2)) {
        sim.sides[other.lid() - 1U]->named[side.address().gid] =
            static_cast<unsigned>(sim.pick(other.queue_pairs));
        side.meet(other, wire::LinkAddr::kFlagRc);
      }
    }
    sim.run_for(std::chrono::milliseconds(sim.pick(3000)));
  }
  // All faults have ended. A queue pair whose peer no longer exists fails, as it would after its
  // retries.
  sim.loss = 0;
  for (const auto& side : sim.sides) {
    side->named.clear();
    if (!side->alive()) side->start();
  }
  for (const auto& side : sim.sides) meet_all(*side);
  for (const auto& side : sim.sides)
    for (const auto& other : sim.sides)
      if (side != other) side->talk(*other);
  for (int i = 0; i < 40; ++i) {
    for (const auto& side : sim.sides)
      for (const auto& row : side->up()) {
        FakeConnectedQueue& q = side->queue(row.qpn);
        const SimSide& peer = *sim.sides.at(q.receive.path.dlid - 1U);
        const auto rows = peer.up();
        const auto end = std::ranges::find(rows, row.peer_qpn, &ConnectionInfo::qpn);
        if (end == rows.end() || end->peer_qpn != row.qpn)
          side->connections->on_queue_event({row.qpn, fabric::QueueEvent::Kind::kError}, sim.now);
        else
          ++q.info.counters.tx_messages;
      }
    sim.run_for(1s);
  }
  for (const auto& side : sim.sides) {
    const std::size_t each = pairs == PairPolicy::kPerDirection ? 2 : 1;
    const auto rows = side->up();
    ASSERT_EQ(rows.size(), each * (n - 1)) << "lid " << side->lid();
    for (const ConnectionInfo& row : rows) ASSERT_LT(row.worker, 10 + side->queue_pairs);
    for (const auto& other : sim.sides)
      if (side != other) {
        ASSERT_EQ(side->way_to(*other).mode, NeighbourMode::kRc);
      }
  }
  for (const auto& side : sim.sides) side->connections->stop(sim.now);
  sim.run_for(120s);
  for (const auto& side : sim.sides) {
    ASSERT_EQ(side->queues(), 0U);
    ASSERT_EQ(side->manager->size(), 0U);
  }
}

TEST(ConnectionFaults, C16_SeededLivesEndWithWhatThePolicySays) {
  test::for_seeds(300, live);
}

}  // namespace
}  // namespace ipoib::link
