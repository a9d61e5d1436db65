// SPDX-License-Identifier: BSD-3-Clause
// Ends of connections: disconnection, rejection, silence, and a peer that has forgotten.
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "tests/unit/lib/cm/manager_fixture.h"

namespace ipoib::cm {
namespace {

/// Neither side keeps half a connection: the peer that believes itself connected learns of the end.
TEST_F(CmManager, C16_AReplyThatIsNeverAnsweredIsGivenUpByBothSides) {
  connect();
  carry();
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  carry();
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  const wire::CmMad rtu = a.sent.front().mad;
  a.sent.clear();
  for (int i = 0; i < 4; ++i) next(b);
  EXPECT_EQ(b.news(), (News{"request", "closed: timed out"}));
  EXPECT_EQ(b.kinds(), "REP REP REP REJ");
  const auto rej = rej_of(b.sent.back());
  EXPECT_EQ(rej.why(), RejReason::kTimeout);
  EXPECT_EQ(wire::read<wire::Be64>(rej.info)->host(), kGuid[1]);
  // That REJ is lost. A late RTU causes another one.
  b.sent.clear();
  b.feed(rtu, a.lid);
  carry();
  EXPECT_EQ(a.news(), (News{"reply", "closed: rejected by the peer"}));
  EXPECT_EQ(a.state(), State::kTimeWait);
  run_out(a);
  run_out(b);
  EXPECT_EQ(a.manager.size() + b.manager.size(), 0U);
}

TEST_F(CmManager, DisconnectAndTimeWait) {
  establish();
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));
  EXPECT_EQ(a.state(), State::kDreqSent);
  const wire::CmMad dreq = pass(a, b);
  EXPECT_EQ(wire::cm_message<wire::CmDreq>(dreq).remote_qpn.host(), 0x507U);
  EXPECT_EQ(b.news(), News{"closed: disconnected by the peer"});
  EXPECT_EQ(b.state(), State::kTimeWait);
  const wire::CmMad drep = pass(b, a);
  EXPECT_EQ(drep.hdr.tid, dreq.hdr.tid);
  EXPECT_EQ(a.state(), State::kTimeWait);
  EXPECT_TRUE(a.news().empty());
  // A repeated DREQ gets the same answer again.
  b.feed(dreq, a.lid);
  EXPECT_TRUE(same(b.sent.front().mad, drep));
  b.sent.clear();
  // The time wait lasts twice the packet lifetime.
  EXPECT_EQ(a.manager.next_deadline(), now + 2 * time_of(16));
  EXPECT_EQ(b.manager.next_deadline(), now + 2 * time_of(16));
  next(a);
  b.manager.tick(now);
  EXPECT_EQ(a.news(), News{"released"});
  EXPECT_EQ(b.news(), News{"released"});
  // A DREQ that arrives after the release is answered, too, and releases nothing.
  b.feed(dreq, a.lid);
  EXPECT_EQ(b.kinds(), "DREP");
  EXPECT_EQ(b.manager.counters().unknown_id, 1U);
  EXPECT_EQ(a.manager.size() + b.manager.size(), 0U);
}

/// A REQ may have any ACK time-out; 31 stands for 2.4 hours.
TEST_F(CmManager, C16_TheTimeWaitOfAPeersRequestIsBounded) {
  struct Row {
    std::uint8_t ack_timeout;
    std::uint8_t lifetime;
  };
  for (const Row& row : {Row{0, 0}, Row{1, 0}, Row{17, 16}, Row{20, 19}, Row{31, 19}}) {
    ConnectParams p = params();
    p.primary.set_ack_timeout(row.ack_timeout);
    a.handle = a.manager.connect(p, a, now).value();
    carry();
    ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
    carry();
    ASSERT_TRUE(a.manager.confirm(a.handle, now));
    carry();
    ASSERT_TRUE(a.manager.disconnect(a.handle, now));
    carry();
    EXPECT_EQ(b.manager.next_deadline(), now + 2 * time_of(row.lifetime)) << +row.ack_timeout;
    run_out(b);
    run_out(a);
    EXPECT_EQ(a.manager.size() + b.manager.size(), 0U) << +row.ack_timeout;
  }
}

TEST_F(CmManager, C16_ADisconnectThatIsNeverAnsweredEndsToo) {
  establish();
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));
  run_out(a);
  EXPECT_EQ(a.kinds(), "DREQ DREQ DREQ DREQ");
  EXPECT_TRUE(same(a.sent.front().mad, a.sent.back().mad));
  EXPECT_EQ(a.news(), News{"released"});
  EXPECT_EQ(a.manager.size(), 0U);
}

TEST_F(CmManager, DisconnectsThatCross) {
  establish();
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));
  ASSERT_TRUE(b.manager.disconnect(b.handle, now));
  carry();
  EXPECT_EQ(a.state(), State::kTimeWait);
  EXPECT_EQ(b.state(), State::kTimeWait);
  EXPECT_TRUE(a.news().empty());
  run_out(a);
  EXPECT_EQ(a.news(), News{"released"});
}

TEST_F(CmManager, DreqForAnotherQueuePairIsIgnored) {
  establish();
  wire::CmDreq dreq{};
  dreq.local_id.set(a.handle);
  dreq.remote_id.set(b.handle);
  dreq.remote_qpn.set(0x508);
  b.feed(wire::make_cm_mad(1, dreq), a.lid);
  EXPECT_EQ(b.state(), State::kEstablished);
  EXPECT_TRUE(b.sent.empty());
  EXPECT_EQ(b.manager.counters().wrong_peer, 1U);
}

/// C-16: a restarted peer requests a connection with the queue pair that it used before.
TEST_F(CmManager, C16_ARestartedPeerMakesTheOldConnectionStale) {
  establish();
  End again{0, now, {}, 100};
  ConnectParams p = params();
  again.handle = again.manager.connect(p, again, now).value();
  ASSERT_NE(again.handle, a.handle);
  b.feed(again.sent.front().mad, again.lid);
  again.sent.clear();
  EXPECT_EQ(b.news(), News{"closed: forgotten by the peer"});
  EXPECT_EQ(b.kinds(), "DREQ REJ");
  EXPECT_EQ(rej_of(b.sent.back()).why(), RejReason::kStaleConnection);
  // The new incarnation does not know the connection of the DREQ, and answers it. It does not use
  // the queue pair again before its time wait has ended.
  for (const Sent& s : std::exchange(b.sent, {})) again.feed(s.mad, b.lid);
  EXPECT_EQ(again.kinds(), "DREP");
  EXPECT_EQ(again.news(), News{"closed: rejected by the peer"});
  EXPECT_EQ(again.state(), State::kTimeWait);
  b.feed(again.sent.front().mad, again.lid);
  again.sent.clear();
  EXPECT_EQ(b.state(), State::kTimeWait);
  run_out(b);
  run_out(again);
  // After the time wait the request succeeds.
  again.handle = again.manager.connect(p, again, now).value();
  b.feed(again.sent.front().mad, again.lid);
  EXPECT_EQ(b.news(), (News{"released", "request"}));
}

/// If the old connection is the active side's, the active side detects the restart by the QPN in
/// the REP.
TEST_F(CmManager, C16_AReplyFromAQueuePairInUseIsStale) {
  establish();
  End again{1, now, {}, 100};
  ASSERT_TRUE(again.manager.listen(kService, again, {}));
  const Handle old = a.handle;
  ConnectParams p = params();
  p.qpn = 0x409;
  a.handle = a.manager.connect(p, a, now).value();
  again.feed(a.sent.front().mad, a.lid);
  a.sent.clear();
  ASSERT_TRUE(again.manager.accept(again.handle, answer(), now));  // QPN 0x507 again
  a.feed(again.sent.front().mad, again.lid);
  EXPECT_EQ(a.news(), (News{"closed: forgotten by the peer", "closed: forgotten by the peer"}));
  EXPECT_EQ(a.kinds(), "DREQ REJ");
  EXPECT_EQ(a.manager.find(old)->state, State::kDreqSent);
  EXPECT_EQ(rej_of(a.sent.back()).about(), wire::CmAbout::kRep);
  EXPECT_EQ(rej_of(a.sent.back()).why(), RejReason::kStaleConnection);
  run_out(a);
  EXPECT_EQ(a.manager.size(), 0U);
}

/// A stranger that names another port's queue pair or communication ID neither ends the connection of
/// that port nor is kept from one of its own. The same holds for attempts, until they are rejected.
TEST_F(CmManager, C16_OnlyThePortOfAConnectionMakesItStale) {
  connect();
  const auto req = wire::cm_message<wire::CmReq>(a.sent.front().mad);
  pass(a, b);
  ASSERT_EQ(b.state(), State::kReqRcvd);
  const Handle first = b.handle;
  auto same_qpn = req;
  same_qpn.local_id.set(0x1234);
  auto same_id = req;
  same_id.local_qpn.set(0x777);
  std::uint16_t stranger = 77;
  const auto strangers_have_their_own = [&] {
    const State before = b.manager.find(first)->state;
    for (const auto& lie : {same_qpn, same_id, req}) {
      b.news();
      b.feed(wire::make_cm_mad(7, lie), stranger++);
      EXPECT_EQ(b.news(), News{"request"});
      EXPECT_NE(b.handle, first);
      EXPECT_EQ(b.manager.find(first)->state, before);
    }
  };
  strangers_have_their_own();
  ASSERT_TRUE(b.manager.accept(first, answer(), now));
  strangers_have_their_own();
  carry();
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  carry();
  ASSERT_EQ(b.manager.find(first)->state, State::kEstablished);
  strangers_have_their_own();
  EXPECT_EQ(b.manager.counters().refused_stale, 0U);
  EXPECT_EQ(b.manager.counters().closed_by(CloseReason::kStale), 0U);
  // Its own port has forgotten the connection.
  b.news();
  b.sent.clear();
  b.feed(wire::make_cm_mad(8, same_qpn), a.lid);
  EXPECT_EQ(b.news(), News{"closed: forgotten by the peer"});
  EXPECT_EQ(b.kinds(), "DREQ REJ");
}

/// The active side: a stranger's connection with the peer's names does not make the peer's reply
/// stale.
TEST_F(CmManager, C16_NoStrangerMakesAReplyStale) {
  connect();
  pass(a, b);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  // The stranger names the CA, the queue pair and the ID of the reply.
  const auto rep = wire::cm_message<wire::CmRep>(b.sent.front().mad);
  ASSERT_TRUE(a.manager.listen(kService, a, {}));
  wire::CmReq lie = b.req;
  lie.local_ca_guid = rep.local_ca_guid;
  lie.local_qpn = rep.local_qpn;
  lie.local_id = rep.local_id;
  lie.primary.remote_gid = wire::Gid::of(wire::kDefaultGidPrefix, kGuid[0] + 1);
  lie.primary.remote_lid.set(kLid[0]);
  const Handle own = a.handle;
  a.feed(wire::make_cm_mad(9, lie), 77);
  ASSERT_EQ(a.news(), News{"request"});
  a.handle = own;
  carry();
  EXPECT_EQ(a.news(), News{"reply"});
}

/// Only the peer answers, delays, confirms or ends a connection, even if a stranger knows its IDs.
TEST_F(CmManager, C16_MessagesFromAnotherPortChangeNothing) {
  constexpr std::uint16_t kStranger = 77;
  std::uint64_t dropped = 0;
  const auto lie = [&](End& end, const auto& message) {
    const State before = end.state();
    end.told.clear();
    const auto sent = end.sent.size();
    end.feed(wire::make_cm_mad(end.manager.find(end.handle)->tid, message), kStranger);
    EXPECT_EQ(end.state(), before) << to_string(message.kAttr);
    EXPECT_TRUE(end.news().empty()) << to_string(message.kAttr);
    EXPECT_EQ(end.sent.size(), sent) << to_string(message.kAttr);
    ++dropped;
  };
  const auto named = [](auto message, std::uint32_t local, std::uint32_t remote) {
    message.local_id.set(local);
    message.remote_id.set(remote);
    return message;
  };
  const auto rej_about = [&](wire::CmAbout about, std::uint32_t local, std::uint32_t remote) {
    auto rej = named(wire::CmRej{}, local, remote);
    rej.set_about(about);
    return rej;
  };
  connect();
  wire::CmRep rep{};
  rep.local_qpn.set(0x666);
  lie(a, named(rep, 0x1234, a.handle));
  lie(a, rej_about(wire::CmAbout::kReq, 0, a.handle));
  wire::CmMra mra{};
  mra.set_about(wire::CmAbout::kReq);
  const auto due = a.manager.next_deadline();
  lie(a, named(mra, 0, a.handle));
  EXPECT_EQ(a.manager.next_deadline(), due);
  pass(a, b);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  lie(b, named(wire::CmRtu{}, a.handle, b.handle));
  mra.set_about(wire::CmAbout::kRep);
  lie(b, named(mra, a.handle, b.handle));
  lie(b, rej_about(wire::CmAbout::kRep, a.handle, b.handle));
  carry();
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  carry();
  ASSERT_EQ(b.state(), State::kEstablished);
  auto dreq = named(wire::CmDreq{}, a.handle, b.handle);
  dreq.remote_qpn.set(0x507);
  lie(b, dreq);
  lie(b, rej_about(wire::CmAbout::kOther, a.handle, b.handle));
  lie(a, rej_about(wire::CmAbout::kOther, b.handle, a.handle));
  lie(a, named(rep, b.handle, a.handle));
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));
  lie(a, named(wire::CmDrep{}, b.handle, a.handle));
  EXPECT_EQ(a.manager.counters().wrong_port + b.manager.counters().wrong_port, dropped);
  // The peer itself ends it.
  carry();
  EXPECT_EQ(b.news(), News{"closed: disconnected by the peer"});
}

/// An ID that a peer was given does not reveal those of other peers' connections.
TEST_F(CmManager, C16_IdsDoNotFollowFromEachOther) {
  std::vector<std::uint32_t> ids, tids;
  for (std::uint32_t i = 0; i < 64; ++i) {
    ConnectParams p = params();
    p.qpn = 0x500 + i;
    ids.push_back(a.manager.connect(p, a, now).value());
    tids.push_back(static_cast<std::uint32_t>(a.sent.back().mad.hdr.tid.host()));
  }
  for (const auto& numbers : {ids, tids}) {
    std::set<std::uint32_t> steps;
    for (std::size_t i = 1; i < numbers.size(); ++i) steps.insert(numbers[i] - numbers[i - 1]);
    EXPECT_EQ(steps.size(), numbers.size() - 1);
    EXPECT_GT(*steps.rbegin() - *steps.begin(), 1U << 30);
  }
}

/// A port with several LIDs may send from any of them.
TEST_F(CmManager, C16_APortWithSeveralLidsIsOnePort) {
  for (End* end : {&a, &b})
    end->manager.set_port(
        {wire::Gid::of(wire::kDefaultGidPrefix, kGuid[end == &b] + 1), end->lid, 1});
  establish();  // LID 3 of ports 2 and 3, LID 4 of ports 4 and 5
  auto dreq = wire::CmDreq{};
  dreq.local_id.set(b.handle);
  dreq.remote_id.set(a.handle);
  dreq.remote_qpn.set(0x408);
  a.feed(wire::make_cm_mad(5, dreq), 3);
  EXPECT_EQ(a.state(), State::kEstablished);
  a.feed(wire::make_cm_mad(5, dreq), 5);
  EXPECT_EQ(a.news(), News{"closed: disconnected by the peer"});
}

/// Many ports behind one router have the same LID. Their GIDs distinguish them.
TEST_F(CmManager, C16_OnlyThePortOfAConnectionMakesItStaleBehindARouterToo) {
  constexpr std::uint16_t kRouter = 9;
  const auto gid = [](std::uint64_t guid) { return wire::Gid::of(0x2001'0db8ULL << 32, guid); };
  connect();
  const auto req = wire::cm_message<wire::CmReq>(a.sent.front().mad);
  b.feed(a.sent.front().mad, kRouter, gid(1));
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  ASSERT_EQ(b.kinds(), "REP");
  EXPECT_EQ(b.sent.front().to.lid, kRouter);
  EXPECT_EQ(b.sent.front().to.gid, gid(1)) << "it goes back to where it came from";
  b.feed(wire::make_cm_mad(3, wire::CmRtu{req.local_id, wire::Be32{b.handle}, {}}), kRouter,
         gid(1));
  ASSERT_EQ(b.state(), State::kEstablished);
  b.news();

  auto again = req;
  again.local_id.set(0x1234);
  const Handle first = b.handle;
  for (const std::uint64_t stranger : {2U, 3U}) {
    b.feed(wire::make_cm_mad(stranger, again), kRouter, gid(stranger));
    EXPECT_EQ(b.news(), News{"request"});
    EXPECT_EQ(b.manager.find(first)->state, State::kEstablished);
  }
  b.sent.clear();
  b.feed(wire::make_cm_mad(4, again), kRouter, gid(1));
  EXPECT_EQ(b.kinds(), "DREQ REJ");
  EXPECT_EQ(b.sent.front().to.gid, gid(1));
  EXPECT_EQ(b.news(), News{"closed: forgotten by the peer"});
}

/// Only an end that has forgotten the connection answers a probe. Both sides can probe.
TEST_F(CmManager, C16_AProbeFindsAPeerThatHasForgotten) {
  establish();
  for (auto [asks, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    ASSERT_TRUE(asks->manager.probe(asks->handle, now));
    EXPECT_EQ(asks->kinds(), "RTU");
    pass(*asks, *other);
    EXPECT_TRUE(other->sent.empty());
    EXPECT_EQ(other->state(), State::kEstablished);
    EXPECT_EQ(other->manager.counters().unexpected, 0U);
  }
  End again{0, now, {}, 100};
  ASSERT_TRUE(b.manager.probe(b.handle, now));
  pass(b, again);
  pass(again, b);
  EXPECT_EQ(b.news(), News{"closed: rejected by the peer"});
  EXPECT_EQ(b.closed.rej.why(), RejReason::kInvalidCommId);
  EXPECT_EQ(b.manager.probe(b.handle, now).error().code, Errc::kUnavailable);
  EXPECT_EQ(b.manager.probe(b.handle + 1, now).error().code, Errc::kNotFound);
}

TEST_F(CmManager, ADroppedRequestIsForgottenWithoutAWord) {
  connect();
  pass(a, b);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  b.sent.clear();
  ASSERT_TRUE(b.manager.drop(b.handle, now));
  EXPECT_TRUE(b.sent.empty());
  EXPECT_EQ(b.manager.size(), 0U);
  b.manager.tick(now);
  EXPECT_EQ(b.news(), (News{"request", "closed: too many half-open", "released"}));
  EXPECT_EQ(b.manager.drop(b.handle, now).error().code, Errc::kNotFound);
  EXPECT_EQ(a.manager.drop(a.handle, now).error().code, Errc::kUnavailable);
}

TEST_F(CmManager, ANewAttemptReplacesAHalfOpenOneOfTheSameQueuePair) {
  connect();
  pass(a, b);
  const Handle first = b.handle;
  End again{0, now, {}, 100};
  again.handle = again.manager.connect(params(), again, now).value();
  b.feed(again.sent.front().mad, again.lid);
  EXPECT_EQ(b.news(), (News{"request", "closed: forgotten by the peer", "released", "request"}));
  EXPECT_NE(b.handle, first);
  EXPECT_EQ(b.manager.size(), 1U);
}

TEST_F(CmManager, ARejectionOfAnEstablishedConnectionEndsIt) {
  establish();
  wire::CmRej rej{};
  rej.local_id.set(b.handle);
  rej.remote_id.set(a.handle);
  rej.set_about(wire::CmAbout::kReq);
  // A REJ of the REQ does not belong to this incarnation.
  a.feed(wire::make_cm_mad(1, rej), b.lid);
  EXPECT_EQ(a.state(), State::kEstablished);
  EXPECT_EQ(a.manager.counters().unexpected, 1U);
  rej.set_about(wire::CmAbout::kOther);
  rej.local_id.set(b.handle + 1);
  a.feed(wire::make_cm_mad(1, rej), b.lid);
  EXPECT_EQ(a.manager.counters().wrong_peer, 1U);
  rej.local_id.set(b.handle);
  a.feed(wire::make_cm_mad(1, rej), b.lid);
  EXPECT_EQ(a.state(), State::kTimeWait);
  EXPECT_EQ(a.news(), News{"closed: rejected by the peer"});
}

TEST_F(CmManager, DisconnectEndsAnAttemptAtEveryStep) {
  connect();
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));  // REQ sent
  EXPECT_EQ(a.kinds(), "REQ REJ");
  carry();
  EXPECT_EQ(a.news(), News{});
  a.manager.tick(now);
  EXPECT_EQ(a.news(), News{"released"});
  EXPECT_EQ(b.manager.size(), 0U);
  b.told.clear();

  connect();
  pass(a, b);
  ASSERT_TRUE(b.manager.disconnect(b.handle, now));  // REQ received
  carry();
  EXPECT_EQ(a.news(), (News{"closed: rejected by the peer", "released"}));
  run_out(b);

  connect();
  pass(a, b);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  ASSERT_TRUE(b.manager.disconnect(b.handle, now));  // REP sent
  carry();
  EXPECT_EQ(a.news(), (News{"reply", "closed: rejected by the peer", "released"}));
  run_out(b);

  connect();
  carry();
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  carry();
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));  // REP received
  b.told.clear();
  carry();
  EXPECT_EQ(b.news(), (News{"closed: rejected by the peer", "released"}));
  run_out(a);
  EXPECT_EQ(a.manager.size() + b.manager.size(), 0U);
}

TEST_F(CmManager, AConsumerThatGoesAwayHearsNothingMore) {
  establish();
  b.manager.detach(b, now);
  carry();
  EXPECT_EQ(a.news(), News{"closed: disconnected by the peer"});
  run_out(b);
  EXPECT_TRUE(b.news().empty());
  EXPECT_EQ(b.manager.size(), 0U);
  connect();
  carry();
  EXPECT_EQ(a.closed.rej.why(), RejReason::kInvalidServiceId);
}

TEST_F(CmManager, ShutdownDisconnectsAndBeginsNothing) {
  establish();
  b.manager.shutdown(now);
  EXPECT_EQ(b.news(), News{"closed: shut down"});
  carry();
  EXPECT_EQ(a.news(), News{"closed: disconnected by the peer"});
  run_out(b);
  EXPECT_EQ(b.manager.size(), 0U);
  EXPECT_EQ(b.manager.connect(params(), b, now).error().code, Errc::kUnavailable);
}

class CmManagerLeft : public ManagerFixture, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(By, CmManagerLeft, testing::Bool(),
                         [](const auto& test) { return test.param ? "Consumer" : "Shutdown"; });

// Each rejection of an attempt of this node takes the place of a half-open connection, which may be
// one that has not had its turn yet.
TEST_P(CmManagerLeft, AttemptsEndWhileOthersAreDropped) {
  ManagerConfig config;
  config.max_half_open = 2;
  End c{1, now, config};
  ASSERT_TRUE(c.manager.listen(kService, c, {}));
  ASSERT_TRUE(a.manager.listen(kService, a, {}));
  constexpr std::uint32_t kReplied = 8;
  for (std::uint32_t i = 0; i < kReplied; ++i) {
    auto to_a = params();
    to_a.to.lid = a.lid;
    std::swap(to_a.primary.local_lid, to_a.primary.remote_lid);
    std::swap(to_a.primary.local_gid, to_a.primary.remote_gid);
    to_a.qpn = 0x600 + i;
    c.handle = c.manager.connect(to_a, c, now).value();
    pass(c, a);
    auto accepted = answer();
    accepted.qpn = 0x700 + i;
    ASSERT_TRUE(a.manager.accept(a.handle, accepted, now));
    pass(a, c);
    ASSERT_EQ(c.state(), State::kRepRcvd);
  }
  connect();
  auto req = wire::cm_message<wire::CmReq>(a.sent.back().mad);
  for (std::uint32_t i = 0; i < 2; ++i) {
    req.local_ca_guid.set(0xbad0'0000 + i);
    req.local_id.set(i);
    c.feed(wire::make_cm_mad(i, req), 77);
  }
  ASSERT_EQ(c.manager.half_open(), 2U);
  c.told.clear();
  if (GetParam())
    c.manager.detach(c, now);
  else
    c.manager.shutdown(now);
  EXPECT_LE(c.manager.half_open(), 2U);
  run_out(c);
  EXPECT_EQ(c.manager.size(), 0U);
  EXPECT_EQ(std::ranges::count(c.told, "released"), GetParam() ? 0 : kReplied + 2);
  EXPECT_EQ(c.told.empty(), GetParam()) << "a consumer that is gone hears nothing";
}

}  // namespace
}  // namespace ipoib::cm
