// SPDX-License-Identifier: BSD-3-Clause
// Messages that are invalid, come too often, or ask for too much.
#include <gtest/gtest.h>

#include "tests/unit/lib/cm/manager_fixture.h"

namespace ipoib::cm {
namespace {

/// The manager itself rejects these REQs, each with its reason.
TEST_F(CmManager, C02_RequestsThatCannotBeAreRejectedWithTheirReason) {
  const auto reason_for = [this](auto&& change) {
    ConnectParams p = params();
    change(p);
    const Handle h = a.manager.connect(p, a, now).value();
    const auto mad = pass(a, b);
    EXPECT_EQ(b.sent.size(), 1U);
    const auto rej = rej_of(b.sent.front());
    EXPECT_EQ(rej.remote_id.host(), h);
    EXPECT_EQ(rej.local_id.host(), 0U);
    EXPECT_EQ(rej.about(), wire::CmAbout::kReq);
    EXPECT_EQ(b.sent.front().mad.hdr.tid, mad.hdr.tid);
    carry();
    EXPECT_EQ(a.news(), (News{"closed: rejected by the peer", "released"}));
    EXPECT_EQ(b.manager.size(), 0U);
    EXPECT_TRUE(b.news().empty());
    return rej.why();
  };
  EXPECT_EQ(reason_for([](ConnectParams& p) { p.service_id = kService + 1; }),
            RejReason::kInvalidServiceId);
  EXPECT_EQ(reason_for([](ConnectParams& p) {
              p.service_id = wire::ipoib_service_id(wire::ServiceIdForm::kLinux, 0x49);
            }),
            RejReason::kInvalidServiceId);  // nothing listens on this form of the ID
  EXPECT_EQ(reason_for([](ConnectParams& p) { p.mtu = 0; }), RejReason::kPathMtu);
  EXPECT_EQ(reason_for([](ConnectParams& p) { p.mtu = 6; }), RejReason::kPathMtu);
  EXPECT_EQ(reason_for([](ConnectParams& p) { p.primary.remote_gid = wire::Gid::of(1, 2); }),
            RejReason::kPrimaryGid);
  EXPECT_EQ(reason_for([](ConnectParams& p) { p.primary.remote_lid.set(77); }),
            RejReason::kPrimaryLid);
  const auto& counters = b.manager.counters();
  EXPECT_EQ(counters.refused_service, 2U);
  EXPECT_EQ(counters.refused_fields, 4U);

  // connect() does not send such REQs, so the test changes REQs that it sent.
  const auto reason_of = [this](auto&& change) {
    connect();
    wire::CmMad mad = a.sent.front().mad;
    a.sent.clear();
    auto req = wire::cm_message<wire::CmReq>(mad);
    change(req);
    b.feed(wire::make_cm_mad(mad.hdr.tid.host(), req), a.lid);
    const auto rej = rej_of(b.sent.front());
    b.sent.clear();
    return rej.why();
  };
  EXPECT_EQ(reason_of([](wire::CmReq& r) { r.set_transport(wire::CmTransport::kRd); }),
            RejReason::kInvalidTransport);
  EXPECT_EQ(reason_of([](wire::CmReq& r) { r.set_transport(wire::CmTransport::kExtended); }),
            RejReason::kInvalidTransport);
  for (const std::uint32_t qpn : {0U, 1U, 0xff'ffffU})
    EXPECT_EQ(reason_of([&](wire::CmReq& r) { r.local_qpn.set(qpn); }),
              RejReason::kUnsupportedRequest);
  EXPECT_EQ(counters.refused_transport, 2U);
  EXPECT_EQ(b.manager.size(), 0U);
}

TEST_F(CmManager, RequestsOfAnotherClassVersionAreRejected) {
  connect();
  wire::CmMad mad = a.sent.front().mad;
  mad.hdr.class_version = 1;
  EXPECT_FALSE(b.feed(mad, a.lid));
  EXPECT_EQ(rej_of(b.sent.front()).why(), RejReason::kClassVersion);
  EXPECT_EQ(rej_of(b.sent.front()).remote_id.host(), a.handle);
  mad.hdr.attr_id.set(0x14);
  EXPECT_FALSE(b.feed(mad, a.lid));
  EXPECT_EQ(b.sent.size(), 1U);
}

/// The peer may give any reason, at each step. The attempt ends with this reason and the private
/// data.
TEST_F(CmManager, C02_ARejectionWithAnyReasonEndsTheAttempt) {
  for (std::uint16_t reason = 0; reason <= 36; ++reason) {
    SCOPED_TRACE(reason);
    connect();
    pass(a, b);
    ASSERT_TRUE(b.manager.reject(b.handle, static_cast<RejReason>(reason), now));
    carry();
    EXPECT_EQ(a.closed.rej.reason.host(), reason);
    EXPECT_EQ(wire::read<wire::IpoibCmPrivate>(a.closed.rej.private_data)->ud_qpn.host(), 0x49U);
    run_out(a);
    run_out(b);
    connect();
    pass(a, b);
    ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
    pass(b, a);
    ASSERT_TRUE(a.manager.reject(a.handle, static_cast<RejReason>(reason), now));
    carry();
    EXPECT_EQ(b.closed.rej.reason.host(), reason);
    run_out(a);
    run_out(b);
    ASSERT_EQ(a.manager.size() + b.manager.size(), 0U);
  }
}

TEST_F(CmManager, MessagesAboutNothingAreDroppedOrAnswered) {
  const wire::Be32 ours{0x1111}, theirs{0x2222};
  const auto answer_to = [&](const auto& message) {
    b.sent.clear();
    b.feed(wire::make_cm_mad(7, message), a.lid);
    return b.kinds();
  };
  wire::CmRep rep{};
  rep.local_id = theirs;
  rep.remote_id = ours;
  EXPECT_EQ(answer_to(rep), "REJ");
  EXPECT_EQ(rej_of(b.sent.front()).why(), RejReason::kInvalidCommId);
  EXPECT_EQ(rej_of(b.sent.front()).remote_id, theirs);
  EXPECT_EQ(rej_of(b.sent.front()).local_id, ours);
  // An RTU without a REP comes from a peer that believes itself connected.
  EXPECT_EQ(answer_to(wire::CmRtu{theirs, ours, {}}), "REJ");
  EXPECT_EQ(rej_of(b.sent.front()).about(), wire::CmAbout::kOther);
  EXPECT_EQ(answer_to(wire::CmDreq{theirs, ours, wire::Be24{5}, 0, {}}), "DREP");
  EXPECT_EQ(answer_to(wire::CmDrep{theirs, ours, {}}), "");
  wire::CmRej rej{};
  rej.remote_id = ours;
  EXPECT_EQ(answer_to(rej), "");
  wire::CmMra mra{};
  mra.remote_id = ours;
  EXPECT_EQ(answer_to(mra), "");
  wire::CmLap lap{};
  lap.local_id = theirs;
  lap.remote_id = ours;
  EXPECT_EQ(answer_to(lap), "APR");
  EXPECT_EQ(wire::cm_message<wire::CmApr>(b.sent.front().mad).status,
            wire::ApStatus::kInvalidCommId);
  EXPECT_EQ(answer_to(wire::CmApr{}), "");
  EXPECT_EQ(b.manager.counters().unknown_id, 8U);
  EXPECT_EQ(b.manager.size(), 0U);
}

TEST_F(CmManager, AnRtuBeforeTheReplyIsUnexpected) {
  connect();
  pass(a, b);
  b.feed(wire::make_cm_mad(1, wire::CmRtu{wire::Be32{a.handle}, wire::Be32{b.handle}, {}}), a.lid);
  EXPECT_EQ(b.state(), State::kReqRcvd);
  EXPECT_TRUE(b.sent.empty());
  EXPECT_EQ(b.manager.counters().unexpected, 1U);
}

/// A flood of requests ends the oldest half-open connections, never an established one.
TEST_F(CmManager, AFloodOfRequestsIsBounded) {
  ManagerConfig config;
  config.max_half_open = 8;
  config.limits.port_burst = config.limits.burst = 10'000;
  config.limits.port_max = 10'000;
  End c{1, now, config};
  ASSERT_TRUE(c.manager.listen(kService, c, {}));
  connect();
  c.feed(a.sent.front().mad, a.lid);
  ASSERT_TRUE(c.manager.accept(c.handle, answer(), now));
  a.sent.clear();
  a.feed(c.sent.front().mad, c.lid);
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  c.feed(a.sent.front().mad, a.lid);
  const Handle established = c.handle;
  auto req = wire::cm_message<wire::CmReq>(wire::CmMad{});
  connect();
  req = wire::cm_message<wire::CmReq>(a.sent.back().mad);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    req.local_ca_guid.set(0xbad0'0000 + i);
    req.local_id.set(i);
    c.feed(wire::make_cm_mad(i, req), 77);
    ASSERT_LE(c.manager.half_open(), 8U);
  }
  EXPECT_EQ(c.manager.size(), 9U);
  EXPECT_EQ(c.manager.counters().closed_by(CloseReason::kDropped), 992U);
  EXPECT_EQ(c.manager.find(established)->state, State::kEstablished);
  run_out(c);
  EXPECT_EQ(c.manager.size(), 1U);
  EXPECT_EQ(std::ranges::count(c.told, "released"), 1000);
}

TEST_F(CmManager, TimesThatPeersChooseAreBounded) {
  connect();
  auto req = wire::cm_message<wire::CmReq>(a.sent.front().mad);
  req.set_local_timeout(31);  // 2.4 hours
  req.primary.set_ack_timeout(31);
  req.set_remote_timeout(0);
  b.feed(wire::make_cm_mad(5, req), a.lid);
  EXPECT_EQ(b.manager.next_deadline(), now + 5ms);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  EXPECT_EQ(b.manager.next_deadline(), now + 10s + 2 * time_of(19));
  // Endless MRAs do not keep the connection half-open for ever.
  const TimePoint start = now;
  wire::CmMra mra{};
  mra.local_id.set(a.handle);
  mra.remote_id.set(b.handle);
  mra.set_about(wire::CmAbout::kRep);
  mra.set_service_timeout(31);
  while (b.state() == State::kRepSent || b.state() == State::kRtuWait) {
    b.feed(wire::make_cm_mad(5, mra), a.lid);
    next(b);
    ASSERT_LE(now, start + ManagerConfig{}.max_handshake);
  }
  EXPECT_EQ(b.news(), (News{"request", "closed: timed out"}));
}

TEST_F(CmManager, WishesOutOfTurnAreRefused) {
  EXPECT_EQ(a.manager.accept(5, answer(), now).error().code, Errc::kNotFound);
  EXPECT_EQ(a.manager.confirm(5, now).error().code, Errc::kNotFound);
  EXPECT_EQ(a.manager.reject(5, RejReason::kConsumer, now).error().code, Errc::kNotFound);
  EXPECT_EQ(a.manager.disconnect(5, now).error().code, Errc::kNotFound);
  connect();
  EXPECT_EQ(a.manager.accept(a.handle, answer(), now).error().code, Errc::kUnavailable);
  EXPECT_EQ(a.manager.confirm(a.handle, now).error().code, Errc::kUnavailable);
  EXPECT_EQ(a.manager.reject(a.handle, RejReason::kConsumer, now).error().code, Errc::kUnavailable);
  auto bad = params();
  bad.qpn = 1;
  EXPECT_EQ(a.manager.connect(bad, a, now).error().code, Errc::kInvalidArgument);
  bad = params();
  bad.transport = wire::CmTransport::kRd;
  EXPECT_EQ(a.manager.connect(bad, a, now).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(b.manager.listen(kService, b, {}).error().code, Errc::kExists);
  pass(a, b);
  auto worse = answer();
  worse.qpn = 0;
  EXPECT_EQ(b.manager.accept(b.handle, worse, now).error().code, Errc::kInvalidArgument);
}

TEST_F(CmManager, ConnectionsAreBounded) {
  ManagerConfig config;
  config.max_connections = 1;
  End c{1, now, config};
  ASSERT_TRUE(c.manager.listen(kService, c, {}));
  connect();
  c.feed(a.sent.front().mad, a.lid);
  EXPECT_EQ(c.manager.connect(params(), c, now).error().code, Errc::kNoResources);
  auto req = wire::cm_message<wire::CmReq>(a.sent.front().mad);
  req.local_id.set(1);
  req.local_qpn.set(0x999);
  c.feed(wire::make_cm_mad(5, req), a.lid);
  EXPECT_EQ(rej_of(c.sent.back()).why(), RejReason::kNoResources);
  EXPECT_EQ(c.manager.counters().refused_full, 1U);
}

/// Two incarnations of the peer answer. The first one wins; the other gets a REJ.
TEST_F(CmManager, ASecondReplyFromElsewhereIsRejected) {
  connect();
  const wire::CmMad req = pass(a, b);
  End again{1, now, {}, 100};
  ASSERT_TRUE(again.manager.listen(kService, again, {}));
  again.feed(req, a.lid);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  ASSERT_TRUE(again.manager.accept(again.handle, answer(), now));
  pass(b, a);
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  a.sent.clear();
  a.feed(again.sent.front().mad, again.lid);
  EXPECT_EQ(rej_of(a.sent.front()).why(), RejReason::kInvalidCommInstance);
  again.feed(a.sent.front().mad, a.lid);
  EXPECT_EQ(again.closed.rej.why(), RejReason::kInvalidCommInstance);
  EXPECT_EQ(again.manager.size(), 0U);
  EXPECT_EQ(a.state(), State::kEstablished);
}

}  // namespace
}  // namespace ipoib::cm
