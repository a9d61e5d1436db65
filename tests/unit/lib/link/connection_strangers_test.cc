// SPDX-License-Identifier: BSD-3-Clause
// Connected mode against peers and strangers that lie: each refusal has its reason and its counter,
// and leaves nothing behind. Names of tests are those of tests/requirements.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using table::NeighbourMode;
using wire::CmAttr;
using wire::RejReason;

template <class Message>
void say(Message& message, std::uint32_t ud_qpn, std::uint32_t receive_mtu) {
  const auto said = wire::IpoibCmPrivate::of(ud_qpn, receive_mtu);
  wire::set_private(message.private_data, wire::bytes_of(said));
}

ConnectionConfig never_idle() {
  ConnectionConfig config = rc();
  config.idle = std::chrono::hours{1000};
  return config;
}

/// Side `a` has an established connection with side `b`; side `m` is the attacker.
struct Strangers : testing::Test {
  SimConnections sim;
  SimSide& a = sim.add(never_idle());
  SimSide& b = sim.add(never_idle());
  SimSide& m = sim.add(never_idle());
  std::uint32_t qpn = 0;  ///< QPN of the connection at `a`.

  void SetUp() override {
    a.meet(b);
    b.meet(a);
    a.talk(b);
    m.meet(a);
    sim.run_for(10s);
    qpn = a.up().at(0).qpn;
  }
  /// Checks that the connection still exists, and that everything else is released in the end.
  void TearDown() override {
    expect_untouched();
    sim.meddle = nullptr;
    for (const auto& side : sim.sides) side->connections->stop(sim.now);
    sim.run_for(180s);
    for (const auto& side : sim.sides) {
      EXPECT_EQ(side->queues(), 0U) << side->lid();
      EXPECT_EQ(side->manager->size(), 0U) << side->lid();
    }
  }
  void expect_untouched() const {
    EXPECT_EQ(a.way_to(b).mode, NeighbourMode::kRc);
    ASSERT_NE(a.way_to(b).queue, nullptr);
    EXPECT_EQ(a.way_to(b).queue->qpn(), qpn);
    EXPECT_EQ(b.way_to(a).mode, NeighbourMode::kRc);
  }
  [[nodiscard]] RejReason last_reason() const {
    const auto rejs = sim.all_sent<wire::CmRej>();
    return rejs.empty() ? RejReason::kNone : rejs.back().why();
  }
  /// Returns the reason with which `a` rejects a request of `m` that was changed in this way.
  template <class Change>
  RejReason reason_for(Change change) {
    change_each<wire::CmReq>(sim, change);
    sim.sent.clear();
    m.talk(a);
    sim.run_for(70s);  // longer than any back-off
    m.talk(a, false);
    sim.run_for(70s);
    return last_reason();
  }
};

TEST_F(Strangers, C03_ServiceIdsOfNobody) {
  const auto with_id = [this](std::uint64_t id) {
    return reason_for([id](wire::CmReq& req) { req.service_id.set(id); });
  };
  for (const std::uint64_t id : {0x0100'0000'0000'0042ULL, 0x0101'0000'0000'0041ULL,
                                 0x0100'0000'0100'0041ULL, 0x1100'0000'0000'0041ULL, 0x41ULL})
    EXPECT_EQ(with_id(id), RejReason::kInvalidServiceId) << std::hex << id;
  EXPECT_GE(a.manager->counters().refused_service, 5U);
  EXPECT_EQ(with_id(0x1000'0000'0000'0041ULL), RejReason::kNone);
}

TEST_F(Strangers, C04_PrivateDataThatCannotBe) {
  EXPECT_EQ(reason_for([](wire::CmReq& req) { say(req, 0, 65'524); }), RejReason::kConsumer);
  EXPECT_EQ(reason_for([](wire::CmReq& req) { say(req, 0x43, 4); }), RejReason::kConsumer);
  EXPECT_EQ(reason_for([](wire::CmReq& req) { std::ranges::fill(req.private_data, std::byte{}); }),
            RejReason::kConsumer);
  EXPECT_GE(a.connections->counters().bad_private_data, 3U);
  // The reserved octet and all octets after the record are ignored.
  EXPECT_EQ(reason_for([](wire::CmReq& req) {
              std::ranges::fill(req.private_data, std::byte{0xff});
              const auto said = wire::IpoibCmPrivate::of(0x43, 65'524);
              std::memcpy(req.private_data.data() + 1,
                          reinterpret_cast<const std::byte*>(&said) + 1, sizeof(said) - 1);
            }),
            RejReason::kNone);
}

/// An invalid reply is rejected, its queue is destroyed, and traffic continues to use UD.
TEST_F(Strangers, C04_RepliesThatCannotBe) {
  const auto reply = [this](RejReason expected, auto change) {
    change_each<wire::CmRep>(sim, change);
    sim.sent.clear();
    const auto refused = m.connections->counters().ended_by(ConnectionEnd::kRefused);
    m.talk(a);
    sim.run_for(70s);
    EXPECT_EQ(m.way_to(a).mode, NeighbourMode::kUd);
    EXPECT_EQ(last_reason(), expected);
    EXPECT_GT(m.connections->counters().ended_by(ConnectionEnd::kRefused), refused);
    m.talk(a, false);
    sim.run_for(70s);
    EXPECT_EQ(m.queues(), 0U);
    expect_untouched();
  };
  reply(RejReason::kConsumer, [](wire::CmRep& rep) { say(rep, 0x42, 65'524); });
  reply(RejReason::kConsumer, [](wire::CmRep& rep) { say(rep, 0x41, 0); });
  for (const std::uint32_t bad : {0U, 1U, 0xff'ffffU})
    reply(RejReason::kUnsupportedRequest, [bad](wire::CmRep& rep) { rep.local_qpn.set(bad); });
}

TEST_F(Strangers, C02_C14_ARejectionWithAnyReasonLeavesUd) {
  m.connections->stop(sim.now);
  for (std::uint16_t reason = 0; reason <= 36; ++reason) {
    SCOPED_TRACE(reason);
    // Requests are rejected because no service listens; the reason is changed on its way.
    change_each<wire::CmRej>(sim, [reason](wire::CmRej& rej) { rej.reason.set(reason); });
    sim.sent.clear();
    a.meet(m, wire::LinkAddr::kFlagRc);
    a.talk(m);
    sim.run_for(130s);
    const auto asked = sim.all_sent<wire::CmReq>().size();
    EXPECT_GE(asked, 3U) << "it may have been mended";
    EXPECT_LE(asked, 12U);
    EXPECT_EQ(a.way_to(m).mode, NeighbourMode::kUd);
    a.talk(m, false);
    a.lose(m);
    sim.run_for(1s);
    EXPECT_EQ(a.queues(), 1U);
  }
}

/// A request in the name of a peer arrives from another port than the peer's.
TEST_F(Strangers, C16_NobodyElseEndsAConnection) {
  const auto as_the_peer = [this](wire::CmReq& req) {
    req.primary.local_gid = b.address().gid;
    say(req, b.address().qpn.host(), 65'524);
  };
  EXPECT_EQ(reason_for(as_the_peer), RejReason::kTimeout) << "its own; it gets no answer";
  EXPECT_GT(a.connections->counters().elsewhere, 0U);
  expect_untouched();
  // The request also carries the peer's channel adapter GUID and queue pair number.
  const std::uint32_t theirs = b.up().at(0).qpn;
  const std::uint64_t guid = a.manager->connections().all().begin()->second.remote_guid;
  EXPECT_EQ(reason_for([&](wire::CmReq& req) {
              as_the_peer(req);
              req.local_ca_guid.set(guid);
              req.local_qpn.set(theirs);
            }),
            RejReason::kTimeout);
  EXPECT_EQ(a.manager->counters().refused_stale, 0U);
  EXPECT_EQ(a.hca.attempts, 1U) << "no queue pair was made for them";
}

/// A stranger requests a connection in the name of a host that has none. It gets no queue pair, even
/// while the path to that host is unknown.
TEST_F(Strangers, C16_NobodyGetsThePacketsOfAnother) {
  SimSide& v = sim.add(never_idle());
  ConnectionConfig accepting = never_idle();
  accepting.open = OpenPolicy::kAccept;
  SimSide& node = sim.add(accepting);
  node.meet(v);
  node.talk(v);
  m.meet(node);
  m.talk(node);
  const auto lie = [&v](wire::CmReq& req) {
    req.primary.local_gid = v.address().gid;
    say(req, v.address().qpn.host(), 65'524);
  };
  change_each<wire::CmReq>(sim, lie);
  sim.run_for(70s);
  EXPECT_EQ(node.connections->size(), 0U) << "the path contradicts the request";
  EXPECT_GT(node.connections->counters().elsewhere, 0U);

  node.has_path = false;
  for (const bool silent : {true, false}) {
    node.sa_answers = !silent;
    sim.run_for(70s);
    EXPECT_EQ(node.hca.attempts, 0U) << "queue pairs";
    EXPECT_GT(
        silent ? node.manager->counters().waited_too_long : node.connections->counters().no_path,
        0U);
  }
  node.has_path = true;
  EXPECT_TRUE(node.told.empty());
  // The host itself.
  sim.meddle = nullptr;
  v.meet(node);
  v.talk(node);
  m.talk(node, false);
  m.lose(node);
  sim.run_for(70s);
  ASSERT_EQ(node.up().size(), 1U);
  EXPECT_EQ(node.queue(node.up()[0].qpn).receive.path.dlid, v.lid());
  EXPECT_EQ(node.way_to(v).mode, NeighbourMode::kRc);
}

/// A stranger's request in the name of a host neither ends an attempt to connect with the host, nor
/// what the host has begun.
TEST_F(Strangers, C16_NobodyEndsAnAttempt) {
  SimSide& node = sim.add(never_idle());
  SimSide& v = sim.add(never_idle());  // Requests of the node give way to its own.
  m.meet(node);
  m.talk(node);
  change_each<wire::CmReq>(sim, [&v](wire::CmReq& req) {
    req.primary.local_gid = v.address().gid;
    say(req, v.address().qpn.host(), 65'524);
  });
  sim.run_for(2s);
  const auto lie = sim.all_sent<wire::CmReq>().back();
  m.talk(node, false);
  m.lose(node);
  for (const bool node_asks : {false, true}) {
    SCOPED_TRACE(node_asks);
    sim.meddle = nullptr;
    v.meet(node);
    node.meet(v);
    (node_asks ? node : v).talk(node_asks ? v : node);
    // Its answers take longer than the stranger needs.
    sim.delay = 200ms;
    const auto asked = sim.all_sent<wire::CmReq>().size();
    const TimePoint end = sim.now + 5s;
    while (sim.now < end && sim.all_sent<wire::CmReq>().size() == asked) sim.run_for(10ms);
    sim.run_for(node_asks ? 100ms : 300ms);
    sim.send(m.lid(), {.lid = node.lid()}, wire::bytes_of(wire::make_cm_mad(1, lie)));
    sim.run_for(2s);
    EXPECT_EQ(node.connections->counters().ended_by(ConnectionEnd::kReplaced), 0U);
    ASSERT_EQ(node.up().size(), 1U);
    EXPECT_EQ(node.way_to(v).mode, NeighbourMode::kRc);
    sim.delay = 10us;
    (node_asks ? node : v).talk(node_asks ? v : node, false);
    v.lose(node);
    node.lose(v);
    sim.run_for(10s);
    ASSERT_EQ(node.up().size(), 0U);
  }
}

/// Another address of the same interface, which a stranger claimed, does not take its connections
/// away.
TEST_F(Strangers, C16_FlagsOfOneAddressDoNotSpeakForAnother) {
  SimSide& d = sim.add(never_idle());
  SimSide& e = sim.add(never_idle());
  d.meet(e);
  e.meet(d);
  e.talk(d);
  sim.run_for(5s);
  ASSERT_EQ(d.way_to(e).mode, NeighbourMode::kRc);
  const auto claimed = wire::IpAddr::v4(0x0a63'6363);
  d.connections->acquire(claimed, wire::HwAddr{e.address()}, sim.now);
  sim.run_for(5s);
  EXPECT_EQ(d.way_to(e).mode, NeighbourMode::kRc);
  d.connections->release(claimed, wire::HwAddr{e.address()});
}

/// The forged request also names the LID of the host as that of its sender.
TEST_F(Strangers, C16_ARequestComesFromThePortItNames) {
  EXPECT_EQ(reason_for([](wire::CmReq& req) { req.primary.local_lid.set(77); }),
            RejReason::kConsumer);
  EXPECT_GT(a.connections->counters().elsewhere, 0U);
}

/// A host whose address says that it has no connections, as one that the operator configured, gets
/// its packets by UD, even if a connection is requested in its name.
TEST_F(Strangers, C16_AddressesWithoutConnectionsAreKeptByUd) {
  SimSide& d = sim.add(never_idle());
  SimSide& e = sim.add(never_idle());
  d.meet(e, 0);
  e.meet(d);
  e.talk(d);
  d.talk(e);
  sim.run_for(5s);
  ASSERT_EQ(d.up().size(), 1U);
  EXPECT_EQ(d.way_to(e).mode, NeighbourMode::kUd);
  // Its address changes, so that the connection is sent on.
  d.meet(e);
  sim.run_for(5s);
  EXPECT_EQ(d.way_to(e).mode, NeighbourMode::kRc);
}

/// Side `d` has few connections, one of them established. The flooding side `m` sends only requests: it
/// never completes a handshake, nor rejects the replies to forged requests.
struct FloodedByStrangers : Strangers {
  SimSide& d = sim.add(few());
  std::uint32_t standing = 0;
  wire::CmReq of_standing{};

  static ConnectionConfig few() {
    ConnectionConfig config = rc();
    config.max_connections = 8;
    return config;
  }
  void SetUp() override {
    Strangers::SetUp();
    d.meet(b);
    b.meet(d);
    b.talk(d);
    sim.run_for(5s);
    ASSERT_EQ(d.up().size(), 1U);
    standing = d.up()[0].qpn;
    of_standing = sim.all_sent<wire::CmReq>().back();
    m.meet(d);
    m.talk(d);
    sim.meddle = [this](std::uint16_t from, std::uint16_t, wire::CmMad& mad) {
      return from != m.lid() || mad.attr() == CmAttr::kReq;
    };
    sim.run_for(2s);
  }
  /// Sends the request of `m` as the `i`-th of its kind, in the name of this GID.
  void flood(std::uint32_t i, const wire::Gid& gid) {
    auto req = sim.all_sent<wire::CmReq>().back();
    req.local_id.set(0x1000 + i);
    req.local_qpn.set(0x1000 + i);
    req.local_ca_guid.set(0xbad0'0000 + i);
    req.primary.local_gid = gid;
    say(req, 0x1000 + i, 65'524);
    sim.send(m.lid(), {.lid = d.lid()}, wire::bytes_of(wire::make_cm_mad(i, req)));
    sim.sent.pop_back();
    sim.run_for(1ms);
  }
  /// Makes the half-open connections of `m` established.
  void complete() {
    for (const ConnectionInfo& row : d.connections->list(sim.now))
      if (row.state == "REP sent")
        d.connections->on_queue_event({row.qpn, fabric::QueueEvent::Kind::kEstablished}, sim.now);
    sim.run_for(1ms);
  }
  /// Takes all places of `d` with connections of `m`, which speaks no more.
  void fill() {
    for (std::uint32_t i = 0; i < 7; ++i) {
      flood(i, m.address().gid);
      complete();
    }
    ASSERT_EQ(d.connections->size(), 8U);
    m.talk(d, false);
  }
  /// Time passes in which packets are received on all connections of `d` but one.
  void use_all_but(std::uint32_t unused, Duration time) {
    for (const TimePoint end = sim.now + time; sim.now < end; sim.run_for(1s))
      for (const ConnectionInfo& row : d.up())
        if (row.qpn != unused) ++d.queue(row.qpn).info.counters.rx_messages;
  }
  [[nodiscard]] std::uint64_t displaced() const {
    return d.connections->counters().ended_by(ConnectionEnd::kDisplaced);
  }
  [[nodiscard]] bool has(std::uint32_t one) const {
    const auto rows = d.up();
    return std::ranges::find(rows, one, &ConnectionInfo::qpn) != rows.end();
  }
};

TEST_F(FloodedByStrangers, C16_MadeUpNamesGetNoQueuePair) {
  const auto before = d.hca.attempts;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    flood(i, wire::Gid::of(wire::kDefaultGidPrefix, 0xbad0'0000 + i));
    ASSERT_LE(d.manager->waiting(), 16U);
  }
  EXPECT_EQ(d.hca.attempts, before);
  EXPECT_GE(d.connections->counters().no_path, 1000U);
  EXPECT_TRUE(has(standing));
}

/// State is bounded: the oldest connections that never became ready are dropped, and established
/// ones stay.
TEST_F(FloodedByStrangers, C12_AFloodOfRequestsIsBounded) {
  const auto before = d.hca.attempts;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    flood(i, m.address().gid);
    ASSERT_LE(d.connections->size(), 8U);
    ASSERT_LE(d.queues(), 16U) << "those that are over included";
  }
  EXPECT_GE(d.connections->counters().ended_by(ConnectionEnd::kDropped), 100U);
  EXPECT_LE(d.hca.attempts - before, 256U + 2 * 50 + 10);
  EXPECT_TRUE(has(standing));
  // An honest peer connects at once.
  SimSide& honest = sim.add(rc());
  d.meet(honest);
  honest.meet(d);
  honest.talk(d);
  for (std::uint32_t i = 2000; i < 4000; ++i) flood(i, m.address().gid);
  EXPECT_EQ(honest.way_to(d).mode, NeighbourMode::kRc);
  m.talk(d, false);
  sim.run_for(10s);
}

TEST_F(FloodedByStrangers, C16_UnusedConnectionsMakeRoomTheLongestUnusedFirst) {
  fill();
  const auto rows = d.up();
  const std::uint32_t first = rows[3].qpn;
  use_all_but(first, 12s);
  SimSide& honest = sim.add(rc());
  d.meet(honest);
  honest.meet(d);
  honest.talk(d);
  sim.run_for(3s);
  EXPECT_EQ(honest.way_to(d).mode, NeighbourMode::kRc);
  EXPECT_EQ(displaced(), 1U);
  EXPECT_FALSE(has(first));
  EXPECT_TRUE(has(standing));
  EXPECT_EQ(d.connections->size(), 8U) << "the place of the victim is counted once";
}

/// Ended connections hold so many queue pairs that there is no further one. The peer of a connection
/// asks for another one in its place, and a new peer asks too.
TEST_F(FloodedByStrangers, C16_ARefusedRequestEndsNoConnection) {
  m.talk(d, false);
  for (std::uint32_t i = 0; i < 100 && d.queues() < 16; ++i) {
    const auto rows = d.up();
    const auto of_m =
        std::ranges::find_if(rows, [this](const auto& row) { return row.qpn != standing; });
    if (rows.size() == 8) static_cast<void>(d.connections->close(of_m->handle, sim.now));
    flood(i, m.address().gid);
    complete();
  }
  ASSERT_EQ(d.queues(), 16U);
  ASSERT_EQ(d.up().size(), 8U);
  of_standing.local_id.set(0x77);
  of_standing.local_qpn.set(0x77'77);
  sim.send(b.lid(), {.lid = d.lid()}, wire::bytes_of(wire::make_cm_mad(77, of_standing)));
  sim.run_for(100ms);
  EXPECT_EQ(d.connections->counters().limited, 1U);
  EXPECT_TRUE(has(standing));
  SimSide& honest = sim.add(rc());
  d.meet(honest);
  honest.meet(d);
  honest.talk(d);
  sim.run_for(3s);
  EXPECT_GE(d.connections->counters().limited, 2U);
  EXPECT_EQ(displaced(), 0U);
  EXPECT_EQ(d.up().size(), 8U);
  EXPECT_TRUE(has(standing));
}

/// All connections are in use. Those of a port with many make room for a port with none, and those of
/// others do not make room for a port with many.
TEST_F(FloodedByStrangers, C16_APortWithEverNewNamesPushesOutNoOther) {
  fill();
  use_all_but(0, 12s);
  const auto before = d.up();
  for (std::uint32_t i = 100; i < 200; ++i) flood(i, m.address().gid);
  EXPECT_EQ(displaced(), 0U);
  EXPECT_EQ(d.up().size(), 8U);
  EXPECT_GT(d.connections->counters().limited, 0U);
  EXPECT_TRUE(has(standing));
  SimSide& honest = sim.add(rc());
  d.meet(honest);
  honest.meet(d);
  honest.talk(d);
  sim.run_for(3s);
  EXPECT_EQ(honest.way_to(d).mode, NeighbourMode::kRc);
  EXPECT_EQ(displaced(), 1U);
  EXPECT_TRUE(has(standing));
}

}  // namespace
}  // namespace ipoib::link
