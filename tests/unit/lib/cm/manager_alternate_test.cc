// SPDX-License-Identifier: BSD-3-Clause
// Alternate paths: in REQ and REP, and by LAP and APR.
#include <gtest/gtest.h>

#include "tests/unit/lib/cm/manager_fixture.h"

namespace ipoib::cm {
namespace {

using wire::ApStatus;

class CmAlternate : public ManagerFixture {
 protected:
  static AlternateParams alternate() {
    AlternateParams p;
    p.path = params().primary;
    p.path.local_lid.set(0x11);
    p.path.remote_lid.set(0x21);
    p.path.flow_rate = wire::CmPath::pack_flow_rate(0x54321, 6);
    p.path.tclass = 7;
    p.path.hop_limit = 9;
    p.path.set_sl(3);
    p.path.set_ack_timeout(15);
    p.remote_timeout = 16;
    return p;
  }
  void ask() { ASSERT_TRUE(a.manager.load_alternate(a.handle, alternate(), now)); }
};

TEST_F(CmAlternate, C15_ALapCarriesThePathAndItsAprTheAnswer) {
  establish();
  b.alternate_status = ApStatus::kLoaded;
  ask();
  EXPECT_FALSE(a.manager.load_alternate(a.handle, alternate(), now));  // One at a time.
  const wire::CmMad lap = pass(a, b);
  EXPECT_EQ(b.news(), News{"alternate"});
  EXPECT_EQ(b.lap.remote_qpn.host(), answer().qpn);
  EXPECT_EQ(b.lap.local_lid.host(), 0x11);
  EXPECT_EQ(b.lap.remote_lid.host(), 0x21);
  EXPECT_EQ(b.lap.local_gid, params().primary.local_gid);
  EXPECT_EQ(b.lap.remote_gid, params().primary.remote_gid);
  EXPECT_EQ(b.lap.flow_label(), 0x54321U);
  EXPECT_EQ(b.lap.rate(), 6);
  EXPECT_EQ(b.lap.tclass, 7);
  EXPECT_EQ(b.lap.hop_limit, 9);
  EXPECT_EQ(b.lap.sl(), 3);
  EXPECT_TRUE(b.lap.subnet_local());
  EXPECT_EQ(b.lap.ack_timeout(), 15);
  EXPECT_EQ(b.lap.remote_timeout(), 16);
  EXPECT_EQ(b.manager.counters().laps_accepted, 1U);

  ASSERT_EQ(b.kinds(), "APR");
  const wire::CmMad apr = pass(b, a);
  EXPECT_EQ(apr.hdr.tid, lap.hdr.tid);
  EXPECT_EQ(a.news(), News{"answer: 0"});
  EXPECT_FALSE(a.manager.next_deadline());
  EXPECT_EQ(a.manager.find(a.handle)->exchange, nullptr);
  a.feed(apr, b.lid);  // Repeated.
  EXPECT_TRUE(a.news().empty());
  EXPECT_EQ(a.manager.counters().unexpected, 1U);
  ask();  // The next one.
  carry();
  EXPECT_EQ(a.news(), News{"answer: 0"});
}

TEST_F(CmAlternate, C15_ALapThatGetsNoAnswerIsRepeatedAndEndsNothing) {
  establish();
  ask();
  run_out(a);
  EXPECT_EQ(a.news(), News{"answer: none"});
  EXPECT_EQ(a.kinds(), "LAP LAP LAP LAP");
  EXPECT_EQ(a.manager.counters().laps_unanswered, 1U);
  EXPECT_EQ(a.state(), State::kEstablished);
  // The first one arrives after all; its APR is too late.
  carry();
  EXPECT_EQ(a.manager.counters().unexpected, 4U);
  EXPECT_EQ(b.manager.counters().laps_refused, 4U);
}

TEST_F(CmAlternate, C15_AConnectionThatEndsForgetsItsLap) {
  establish();
  ask();
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));
  EXPECT_EQ(a.kinds(), "LAP DREQ");
  carry();
  run_out(a);
  run_out(b);
  EXPECT_EQ(a.news(), News{"released"});
  EXPECT_EQ(b.news(), (News{"alternate", "closed: disconnected by the peer", "released"}));
  EXPECT_FALSE(a.manager.load_alternate(a.handle, alternate(), now));
}

TEST_F(CmAlternate, LapsOfStrangersAndForOtherQueuePairsAreRefused) {
  establish();
  wire::CmLap lap{};
  lap.local_id.set(a.handle);
  lap.remote_id.set(b.handle);
  b.feed(wire::make_cm_mad(99, lap), a.lid);
  ASSERT_EQ(b.kinds(), "APR");
  const auto apr = wire::cm_message<wire::CmApr>(b.sent.front().mad);
  EXPECT_EQ(apr.status, ApStatus::kQpnMismatch);
  EXPECT_EQ(apr.remote_id.host(), a.handle);
  EXPECT_EQ(b.sent.front().mad.hdr.tid.host(), 99U);
  EXPECT_EQ(b.manager.counters().laps_refused, 1U);
  b.sent.clear();
  lap.remote_qpn.set(answer().qpn);
  b.feed(wire::make_cm_mad(99, lap), 77);
  EXPECT_EQ(b.manager.counters().wrong_port, 1U);
  EXPECT_EQ(b.kinds(), "");
  // Its consumer has no alternate paths.
  b.feed(wire::make_cm_mad(99, lap), a.lid);
  EXPECT_EQ(wire::cm_message<wire::CmApr>(b.sent.front().mad).status, ApStatus::kNotSupported);
  EXPECT_EQ(b.state(), State::kEstablished);
}

TEST_F(CmAlternate, C15_TheReplySaysWhetherTheRequestsAlternateIsLoaded) {
  for (const auto failover : {wire::Failover::kAccepted, wire::Failover::kNotSupported}) {
    ConnectParams asked = params();
    asked.alternate = alternate().path;
    a.handle = a.manager.connect(asked, a, now).value();
    carry();
    EXPECT_EQ(b.req.alternate.remote_lid.host(), 0x21);
    AcceptParams said = answer();
    said.failover = failover;
    ASSERT_TRUE(b.manager.accept(b.handle, said, now));
    carry();
    EXPECT_EQ(a.rep.failover(), failover);
    ASSERT_TRUE(a.manager.disconnect(a.handle, now));
    carry();
    run_out(a);
    run_out(b);
  }
}

}  // namespace
}  // namespace ipoib::cm
