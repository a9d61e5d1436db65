// SPDX-License-Identifier: BSD-3-Clause
// Connected mode of links with several UD queue pairs, each of another worker. Source: P-14, C-05.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "lib/link/ipoib/connected/connections.h"
#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using table::NeighbourMode;
using wire::ServiceIdForm;

struct ConnectionQueuePairs : testing::Test {
  SimConnections sim;

  SimSide& add(unsigned queue_pairs, const ConnectionConfig& config = rc()) {
    SimSide& side = sim.add(config);
    side.kill();
    side.queue_pairs = queue_pairs;
    side.start();
    return side;
  }
  /// `other` learns that queue pair of `side`.
  static void name(SimSide& side, SimSide& other, unsigned queue_pair) {
    side.named[other.address().gid] = queue_pair;
    other.meet(side);
  }
  static std::uint32_t qpn(const SimSide& side, unsigned queue_pair) {
    return side.address(queue_pair).qpn.host();
  }
  /// Number of connections that are up, by worker.
  static std::map<unsigned, unsigned> by_worker(const SimSide& side) {
    std::map<unsigned, unsigned> found;
    for (const ConnectionInfo& row : side.up()) ++found[row.worker];
    return found;
  }
  /// New peers request connections. Returns by_worker() then.
  std::map<unsigned, unsigned> with_more_peers(SimSide& side, int n) {
    for (int i = 0; i < n; ++i) {
      SimSide& peer = add(1);
      peer.meet(side);
      peer.talk(side);
    }
    sim.run_for(2s);
    return by_worker(side);
  }
  static std::uint64_t ended(const SimSide& side, ConnectionEnd why) {
    return side.connections->counters().ended[static_cast<std::size_t>(why)];
  }
};

using Workers = std::map<unsigned, unsigned>;

TEST_F(ConnectionQueuePairs, P14_RequestsAreAcceptedAtEveryQueuePair) {
  for (unsigned queue_pair = 0; queue_pair < 3; ++queue_pair) {
    SimSide& a = add(3);
    SimSide& b = add(1);
    name(a, b, queue_pair);
    a.meet(b);
    b.talk(a);
    sim.sent.clear();
    sim.run_for(2s);
    const auto requests = sim.all_sent<wire::CmReq>();
    ASSERT_EQ(requests.size(), 1U);
    EXPECT_EQ(requests[0].service_id.host(),
              wire::ipoib_service_id(ServiceIdForm::kIetf, qpn(a, queue_pair)));
    const auto replies = sim.all_sent<wire::CmRep>();
    ASSERT_EQ(replies.size(), 1U);
    const auto said = wire::read<wire::IpoibCmPrivate>(replies[0].private_data).value();
    EXPECT_EQ(said.ud_qpn.host(), qpn(a, queue_pair));
    EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
    EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kRc);
  }
}

TEST_F(ConnectionQueuePairs, P14_NewConnectionsAreOfTheWorkerWithTheFewest) {
  SimSide& a = add(3);
  std::vector<SimSide*> peers;
  for (unsigned i = 0; i < 9; ++i) {
    SimSide& peer = *peers.emplace_back(&add(1));
    a.meet(peer);
    peer.meet(a);
    // Both sides request some.
    i % 2 == 0 ? a.talk(peer) : peer.talk(a);
    sim.run_for(2s);
  }
  EXPECT_EQ(by_worker(a), (Workers{{10, 3}, {11, 3}, {12, 3}}));
  for (const wire::CmReq& request : sim.all_sent<wire::CmReq>())
    if (request.primary.local_gid == a.address().gid) {
      const auto said = wire::read<wire::IpoibCmPrivate>(request.private_data).value();
      EXPECT_EQ(said.ud_qpn.host(), qpn(a, 0)) << "it is the address that all peers are told";
    }
  for (SimSide* peer : peers) {
    const auto way = a.way_to(*peer);
    ASSERT_EQ(way.mode, NeighbourMode::kRc);
    EXPECT_EQ(10 + a.connections->served_by(peer->address()).value(), way.worker);
    EXPECT_EQ(peer->way_to(a).mode, NeighbourMode::kRc);
  }

  // Their queue pairs exist for a while, and count.
  for (SimSide* peer : peers)
    if (a.way_to(*peer).worker == 11) {
      a.talk(*peer, false);
      peer->kill();
    }
  for (const ConnectionInfo& row : a.up())
    if (row.worker == 11) {
      ASSERT_TRUE(a.connections->close(row.handle, sim.now));
    }
  sim.run_for(60s);
  EXPECT_EQ(with_more_peers(a, 3), (Workers{{10, 3}, {11, 3}, {12, 3}}))
      << "closed ones do not count";
}

// The device could not make the receive queue of one worker.
TEST_F(ConnectionQueuePairs, P14_WorkerWithoutAReceiveQueueIsPassedOver) {
  SimSide& a = add(3);
  a.hca.without_receive_queue = {1};
  for (int i = 0; i < 6; ++i) {
    SimSide& peer = add(1);
    peer.meet(a);
    a.meet(peer);
    i % 2 == 0 ? a.talk(peer) : peer.talk(a);
    sim.run_for(2s);
  }
  EXPECT_EQ(by_worker(a), (Workers{{10, 3}, {12, 3}}));
  EXPECT_EQ(a.connections->counters().no_queue, 0U);
}

// Requests of strangers must not cost a failure for each worker.
TEST_F(ConnectionQueuePairs, P14_HcaWithoutRoomIsAskedOnce) {
  SimSide& a = add(3);
  SimSide& b = add(1);
  b.meet(a);
  a.hca.has_room = false;
  b.talk(a);
  for (int i = 0; i < 500 && a.hca.attempts == 0; ++i) sim.run_for(10ms);
  EXPECT_EQ(a.connections->counters().no_queue, 1U);
  EXPECT_EQ(a.hca.attempts, 1U);
}

TEST_F(ConnectionQueuePairs, P14_TheIdlestOfWorkersWithEquallyManyIsFirst) {
  SimSide& a = add(3);
  a.connections->set_busy({0.3, 0.2, 0.1});
  for (const auto& expected : {Workers{{12, 1}}, Workers{{11, 1}, {12, 1}}})
    EXPECT_EQ(with_more_peers(a, 1), expected);
}

TEST_F(ConnectionQueuePairs, P14_WorkersThatAreShortOfTimeGetNoNewConnections) {
  SimSide& a = add(3);
  const auto more = [&](std::vector<double> busy) {
    a.connections->set_busy(std::move(busy));
    return with_more_peers(a, 4);
  };
  EXPECT_EQ(more({0.9, 0.2, 0.3}), (Workers{{11, 2}, {12, 2}}));
  EXPECT_EQ(more({0.9, 0.8, 0.9}), (Workers{{10, 3}, {11, 3}, {12, 2}}))
      << "there is no difference";
  EXPECT_EQ(more({0.1, 0.2, 0.4}), (Workers{{10, 4}, {11, 4}, {12, 4}})) << "all have time";
}

TEST_F(ConnectionQueuePairs, P14_FewerQueuesConcernNewConnectionsOnly) {
  SimSide& a = add(2);
  EXPECT_EQ(with_more_peers(a, 2), (Workers{{10, 1}, {11, 1}}));
  a.queue_pairs = 1;
  EXPECT_EQ(with_more_peers(a, 2), (Workers{{10, 3}, {11, 1}}));
}

TEST_F(ConnectionQueuePairs, C05_RequestsThatCrossLeaveOneConnection) {
  SimSide& a = add(3);
  SimSide& b = add(2);
  a.meet(b);
  b.meet(a);
  a.talk(b);
  b.talk(a);
  sim.run_for(60s);
  EXPECT_EQ(a.up().size(), 1U);
  EXPECT_EQ(b.up().size(), 1U);
  EXPECT_GT(a.connections->counters().crossed + b.connections->counters().crossed, 0U);
}

// The peer had no connected mode before, and still knows the queue pair of that time. The two
// connections do not replace each other, again and again.
TEST_F(ConnectionQueuePairs, P14_RequestsAtTwoQueuePairsAreTwoConnections) {
  SimSide& a = add(2);
  SimSide& b = add(1);
  name(a, b, 1);
  a.meet(b);
  a.talk(b);
  b.talk(a);
  sim.run_for(120s);
  EXPECT_EQ(by_worker(a), (Workers{{10, 1}, {11, 1}}));
  for (const SimSide* side : {&a, &b})
    for (std::size_t why = 0; why < static_cast<std::size_t>(ConnectionEnd::kCount); ++why)
      EXPECT_EQ(ended(*side, static_cast<ConnectionEnd>(why)), 0U) << why;
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
  EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kRc);
}

TEST_F(ConnectionQueuePairs, P14_PeerThatLearnsAnotherQueuePairConnectsThere) {
  SimSide& a = add(3);
  SimSide& b = add(1);
  name(a, b, 1);
  a.meet(b);
  b.talk(a);
  sim.run_for(5s);
  ASSERT_EQ(a.up().size(), 1U);
  const std::uint32_t before = a.up()[0].qpn;
  name(a, b, 0);
  sim.run_for(5s);
  ASSERT_EQ(a.up().size(), 1U);
  EXPECT_NE(a.up()[0].qpn, before);
  EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
  EXPECT_EQ(ended(a, ConnectionEnd::kPeer), 1U);
  EXPECT_EQ(ended(b, ConnectionEnd::kUnwanted), 1U);
}

// The device made the second queue pair late.
TEST_F(ConnectionQueuePairs, P14_QueuePairThatComesLaterIsListenedAt) {
  SimSide& a = add(1);
  SimSide& b = add(1);
  name(a, b, 1);
  a.meet(b);
  ASSERT_TRUE(a.connections->start({a.address(0), a.address(1)}, {}, sim.now));
  b.talk(a);
  sim.run_for(2s);
  EXPECT_EQ(a.up().size(), 1U);
}

TEST_F(ConnectionQueuePairs, P14_StoppedLinkListensAtNoQueuePair) {
  SimSide& a = add(2);
  SimSide& b = add(1);
  name(a, b, 1);
  a.connections->stop(sim.now);
  b.talk(a);
  sim.run_for(2s);
  const auto rejects = sim.all_sent<wire::CmRej>();
  ASSERT_FALSE(rejects.empty());
  for (const wire::CmRej& reject : rejects)
    EXPECT_EQ(reject.why(), wire::RejReason::kInvalidServiceId);
  ASSERT_TRUE(a.connections->start({a.address(0), a.address(1)}, {}, sim.now));
  sim.run_for(120s);
  EXPECT_EQ(a.up().size(), 1U);
}

// The device could not make the others.
TEST_F(ConnectionQueuePairs, P14_QueuePairsWithoutHardwareTakePartInNothing) {
  SimSide& a = add(1);
  a.connections->stop(sim.now);
  wire::LinkAddr none = a.address(0);
  none.qpn = {};
  ASSERT_TRUE(a.connections->start({a.address(0), none, none}, {}, sim.now));
  SimSide& b = add(1);
  name(a, b, 0);
  a.meet(b);
  b.talk(a);
  sim.run_for(2s);
  EXPECT_EQ(by_worker(a), (Workers{{10, 1}}));
}

/// Another user of the port's communication manager.
struct OtherUser final : cm::Consumer {
  void on_request(cm::Handle, const wire::CmReq&, const fabric::MadAddress&, TimePoint) override {}
  void on_reply(cm::Handle, const wire::CmRep&, TimePoint) override {}
  void on_established(cm::Handle, TimePoint) override {}
  void on_closed(cm::Handle, const cm::Closed& c, TimePoint) override { closed = c; }
  void on_released(cm::Handle, TimePoint) override {}
  cm::Closed closed;
};

TEST_F(ConnectionQueuePairs, P14_ServiceIdOfAnotherUserEndsTheStart) {
  SimSide& a = add(2);
  a.connections->stop(sim.now);
  OtherUser other;
  const auto taken = wire::ipoib_service_id(ServiceIdForm::kLinux, qpn(a, 1));
  ASSERT_TRUE(a.manager->listen(taken, other, {}));
  const auto started = a.connections->start({a.address(0), a.address(1)}, {}, sim.now);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kExists);
  a.manager->unlisten(taken);
  EXPECT_TRUE(a.connections->start({a.address(0), a.address(1)}, {}, sim.now))
      << "the first attempt left nothing behind";
}

// Every queue pair of the link is this link, and not only the first one.
TEST_F(ConnectionQueuePairs, P14_RequestInTheNameOfAnOwnQueuePairIsRefused) {
  SimSide& a = add(1);
  SimSide& b = add(3);
  for (unsigned queue_pair = 0; queue_pair < 3; ++queue_pair) {
    OtherUser liar;
    const auto said = wire::IpoibCmPrivate::of(qpn(b, queue_pair), 65'524);
    const auto octets = wire::bytes_of(said);
    cm::ConnectParams params;
    params.to = {.lid = b.lid()};
    params.service_id = wire::ipoib_service_id(ServiceIdForm::kIetf, qpn(b, 1));
    params.qpn = 0x999;
    params.primary.local_lid.set(a.lid());
    params.primary.remote_lid.set(b.lid());
    params.primary.local_gid = b.address().gid;
    params.primary.remote_gid = b.address().gid;
    params.primary.set_subnet_local(true);
    params.private_data = {octets.begin(), octets.end()};
    ASSERT_TRUE(a.manager->connect(params, liar, sim.now));
    sim.run_for(1s);
    EXPECT_EQ(liar.closed.rej.why(), wire::RejReason::kConsumer);
    a.manager->detach(liar, sim.now);
  }
  EXPECT_EQ(b.connections->counters().bad_private_data, 3U);
  EXPECT_EQ(b.queues(), 0U);
}

TEST_F(ConnectionQueuePairs, P14_PortsWithConnectionsAreKnown) {
  SimSide& a = add(2);
  SimSide& able = add(1);
  SimSide& datagram = add(1, {});
  a.meet(able);
  a.meet(datagram);
  EXPECT_TRUE(a.connections->may_have(able.address().gid)) << "one may be requested";
  EXPECT_FALSE(a.connections->may_have(datagram.address().gid));
  EXPECT_FALSE(a.connections->may_have(add(1).address().gid)) << "it is no neighbour";

  // Its flags are not known, but it has requested a connection.
  SimSide& asks = add(1);
  asks.meet(a);
  asks.talk(a);
  sim.run_for(2s);
  ASSERT_EQ(asks.up().size(), 1U);
  EXPECT_TRUE(a.connections->may_have(asks.address().gid));
}

}  // namespace
}  // namespace ipoib::link
