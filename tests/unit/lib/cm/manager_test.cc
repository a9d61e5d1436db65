// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/manager.h"

#include <gtest/gtest.h>

#include "tests/unit/lib/cm/manager_fixture.h"

namespace ipoib::cm {
namespace {

TEST_F(CmManager, C02_RequestReplyReadyToUse) {
  connect();
  EXPECT_EQ(a.state(), State::kReqSent);
  EXPECT_EQ(a.sent.front().to.sl, 2);
  EXPECT_EQ(a.sent.front().to.pkey, 0x8001);
  const wire::CmMad req = pass(a, b);
  EXPECT_EQ(b.news(), News{"request"});
  EXPECT_EQ(b.state(), State::kReqRcvd);
  // The REQ contains the parameters of connect().
  EXPECT_EQ(b.req.local_id.host(), a.handle);
  EXPECT_EQ(b.req.service_id.host(), kService);
  EXPECT_EQ(b.req.local_ca_guid.host(), kGuid[0]);
  EXPECT_EQ(b.req.local_qpn.host(), 0x408U);
  EXPECT_EQ(b.req.starting_psn.host(), 0x123456U);
  EXPECT_EQ(b.req.transport(), wire::CmTransport::kRc);
  EXPECT_TRUE(b.req.srq());
  EXPECT_EQ(b.req.retry_count(), 5);
  EXPECT_EQ(b.req.rnr_retry(), 6);
  EXPECT_EQ(b.req.max_cm_retries(), 3);
  EXPECT_EQ(b.req.remote_timeout(), 18);
  EXPECT_EQ(b.req.local_timeout(), 17);
  EXPECT_EQ(b.req.pkey.host(), 0x8001);
  EXPECT_EQ(b.req.mtu(), 4);
  EXPECT_EQ(b.req.primary.ack_timeout(), 17);
  EXPECT_FALSE(b.req.alternate.is_given());

  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  EXPECT_EQ(b.state(), State::kRepSent);
  const wire::CmMad rep = pass(b, a);
  EXPECT_EQ(a.news(), News{"reply"});
  EXPECT_EQ(a.state(), State::kRepRcvd);
  EXPECT_EQ(a.rep.local_id.host(), b.handle);
  EXPECT_EQ(a.rep.local_qpn.host(), 0x507U);
  EXPECT_EQ(a.rep.starting_psn.host(), 0x654321U);
  EXPECT_EQ(a.rep.local_ca_guid.host(), kGuid[1]);
  EXPECT_EQ(a.rep.rnr_retry(), 7);
  EXPECT_EQ(a.rep.failover(), wire::Failover::kAccepted);

  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  const wire::CmMad rtu = pass(a, b);
  EXPECT_EQ(b.news(), News{"established"});
  // All messages have the same transaction ID, and no timer is left.
  EXPECT_EQ(rep.hdr.tid, req.hdr.tid);
  EXPECT_EQ(rtu.hdr.tid, req.hdr.tid);
  EXPECT_FALSE(a.manager.next_deadline());
  EXPECT_FALSE(b.manager.next_deadline());
  EXPECT_EQ(b.manager.half_open(), 0U);
  EXPECT_EQ(a.manager.find(a.handle)->exchange, nullptr);
  EXPECT_EQ(b.manager.find(b.handle)->exchange, nullptr);
}

TEST_F(CmManager, C04_EveryMessageOfASetUpCarriesThePrivateData) {
  const auto expect_said = [](std::span<const std::byte> data, std::uint32_t qpn) {
    const auto said = wire::read<wire::IpoibCmPrivate>(data).value();
    EXPECT_EQ(said.reserved, 0);
    EXPECT_EQ(said.ud_qpn.host(), qpn);
    EXPECT_EQ(said.receive_mtu.host(), 65'524U);
  };
  connect();
  const auto req = pass(a, b);
  expect_said(wire::cm_message<wire::CmReq>(req).private_data, 0x48);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  const auto rep = pass(b, a);
  expect_said(wire::cm_message<wire::CmRep>(rep).private_data, 0x49);
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  const auto rtu = pass(a, b);
  expect_said(wire::cm_message<wire::CmRtu>(rtu).private_data, 0x48);
  // The repeated RTU carries the data, too.
  a.feed(rep, b.lid);
  EXPECT_TRUE(same(a.sent.front().mad, rtu));
  a.sent.clear();

  // The next rejections are those of a REQ by the consumer, of a REQ by the manager, and of a REP
  // by the consumer.
  auto third = params();
  third.qpn = 0x666;
  a.handle = a.manager.connect(third, a, now).value();
  carry();
  ASSERT_TRUE(b.manager.reject(b.handle, RejReason::kConsumer, now));
  expect_said(rej_of(b.sent.front()).private_data, 0x49);
  carry();
  auto bad = params();
  bad.mtu = 9;
  ASSERT_TRUE(a.manager.connect(bad, a, now));
  pass(a, b);
  expect_said(rej_of(b.sent.front()).private_data, 0x49);
  b.sent.clear();
  auto other = params();
  other.qpn = 0x777;
  a.handle = a.manager.connect(other, a, now).value();
  pass(a, b);
  AcceptParams second = answer();
  second.qpn = 0x888;
  ASSERT_TRUE(b.manager.accept(b.handle, second, now));
  pass(b, a);
  ASSERT_TRUE(a.manager.reject(a.handle, RejReason::kConsumer, now));
  expect_said(rej_of(a.sent.front()).private_data, 0x48);
}

/// Rejections that the manager sends by itself carry the private data, too, if they concern an
/// existing connection or service.
TEST_F(CmManager, C04_RejectionsOfTheManagerCarryThePrivateData) {
  const auto expect_said_by = [](const End& end, RejReason why, std::uint32_t qpn) {
    const auto rej = rej_of(end.sent.back());
    EXPECT_EQ(rej.why(), why);
    EXPECT_EQ(wire::read<wire::IpoibCmPrivate>(rej.private_data)->ud_qpn.host(), qpn);
  };
  establish();
  // The manager rejects a REQ with a queue pair that is in use, a second REP with another ID, a REP
  // of a connection that has ended, and a REQ of a connection that has ended.
  End again{0, now, {}, 100};
  ASSERT_TRUE(again.manager.connect(params(), again, now));
  b.feed(again.sent.front().mad, again.lid);
  expect_said_by(b, RejReason::kStaleConnection, 0x49);
  b.sent.clear();

  auto second = params();
  second.qpn = 0x666;
  a.handle = a.manager.connect(second, a, now).value();
  const auto req = pass(a, b);
  auto accept = answer();
  accept.qpn = 0x667;
  ASSERT_TRUE(b.manager.accept(b.handle, accept, now));
  const auto rep = pass(b, a);
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  auto other = wire::cm_message<wire::CmRep>(rep);
  other.local_id.set(other.local_id.host() + 1);
  a.feed(wire::make_cm_mad(rep.hdr.tid.host(), other), b.lid);
  expect_said_by(a, RejReason::kInvalidCommInstance, 0x48);
  a.sent.pop_back();
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));
  carry();
  ASSERT_EQ(a.state(), State::kTimeWait);
  a.feed(rep, b.lid);
  expect_said_by(a, RejReason::kInvalidCommId, 0x48);
  b.feed(req, a.lid);
  expect_said_by(b, RejReason::kStaleConnection, 0x49);
}

TEST_F(CmManager, C02_AnUnansweredRequestIsRepeatedInTimeAndGivenUp) {
  connect();
  const wire::CmMad req = a.sent.front().mad;
  const TimePoint start = now;
  // The time is the remote CM response timeout and twice the packet lifetime.
  const Duration each = time_of(18) + 2 * time_of(16);
  for (int i = 1; i <= 3; ++i) {
    a.sent.clear();
    next(a);
    EXPECT_EQ(now, start + i * each);
    ASSERT_EQ(a.kinds(), "REQ");
    EXPECT_TRUE(same(a.sent.front().mad, req));
  }
  a.sent.clear();
  next(a);
  EXPECT_EQ(now, start + 4 * each);
  EXPECT_EQ(a.news(), (News{"closed: timed out", "released"}));
  // The peer gets a REJ, and finds its connection by GUID and ID.
  const auto rej = rej_of(a.sent.front());
  EXPECT_EQ(rej.why(), RejReason::kTimeout);
  EXPECT_EQ(rej.about(), wire::CmAbout::kReq);
  EXPECT_EQ(rej.remote_id.host(), 0U);
  EXPECT_EQ(rej.info_len(), 8);
  EXPECT_EQ(a.manager.size(), 0U);
  b.feed(req, a.lid);
  EXPECT_EQ(b.manager.size(), 1U);
  pass(a, b);
  EXPECT_EQ(b.news(), (News{"request", "closed: rejected by the peer", "released"}));
  EXPECT_EQ(b.manager.size(), 0U);
}

TEST_F(CmManager, C02_AnMraStretchesTheTimeAndCostsNoRetry) {
  connect();
  const wire::CmMad req = pass(a, b);
  next(b);  // The consumer has not answered in half the time.
  EXPECT_EQ(b.state(), State::kMraReqSent);
  ASSERT_EQ(b.kinds(), "MRA");
  EXPECT_LT(now, TimePoint{10s} + time_of(18));
  pass(b, a);
  EXPECT_EQ(a.state(), State::kRepWait);
  EXPECT_EQ(a.manager.next_deadline(), now + time_of(20) + 2 * time_of(16));
  // A repeated REQ gets the MRA again.
  b.feed(req, a.lid);
  ASSERT_EQ(b.kinds(), "MRA");
  b.sent.clear();
  EXPECT_EQ(a.manager.find(a.handle)->retries_left, 3);
  // An MRA has the same effect on a REP.
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  const wire::CmMad rep = pass(b, a);
  next(a);
  EXPECT_EQ(a.state(), State::kMraRepSent);
  pass(a, b);
  EXPECT_EQ(b.state(), State::kRtuWait);
  EXPECT_EQ(b.manager.next_deadline(), now + time_of(20) + 2 * time_of(16));
  a.feed(rep, b.lid);
  EXPECT_EQ(a.kinds(), "MRA");
  a.sent.clear();
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  carry();
  EXPECT_EQ(b.state(), State::kEstablished);
}

TEST_F(CmManager, AConsumerThatNeverAnswersLosesTheRequest) {
  connect();
  pass(a, b);
  next(b);
  b.sent.clear();
  next(b);
  EXPECT_EQ(b.news(), (News{"request", "closed: timed out"}));
  EXPECT_EQ(rej_of(b.sent.front()).why(), RejReason::kNoResources);
  EXPECT_FALSE(b.manager.accept(b.handle, answer(), now));
  carry();
  EXPECT_EQ(a.news(), (News{"closed: rejected by the peer", "released"}));
  run_out(b);
  EXPECT_EQ(b.news(), News{"released"});
}

TEST_F(CmManager, RepeatedMessagesGetTheSameAnswers) {
  connect();
  const wire::CmMad req = pass(a, b);
  b.feed(req, a.lid);  // no answer before the consumer has decided
  EXPECT_EQ(b.news(), News{"request"});
  EXPECT_TRUE(b.sent.empty());
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  const wire::CmMad rep = pass(b, a);
  b.feed(req, a.lid);
  ASSERT_EQ(b.kinds(), "REP");
  EXPECT_TRUE(same(b.sent.front().mad, rep));
  pass(b, a);
  EXPECT_EQ(a.news(), News{"reply"});
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  const wire::CmMad rtu = pass(a, b);
  // A repeated REP means that the RTU was lost.
  a.feed(rep, b.lid);
  ASSERT_EQ(a.kinds(), "RTU");
  EXPECT_TRUE(same(pass(a, b), rtu));
  EXPECT_EQ(b.news(), News{"established"});
  b.feed(req, a.lid);  // a late copy
  EXPECT_TRUE(b.sent.empty());
  EXPECT_EQ(b.manager.counters().duplicates[wire::index_of(CmAttr::kReq)], 3U);
  EXPECT_EQ(b.manager.counters().duplicates[wire::index_of(CmAttr::kRtu)], 1U);
  EXPECT_EQ(a.manager.counters().duplicates[wire::index_of(CmAttr::kRep)], 2U);
}

TEST_F(CmManager, ARejectionIsRememberedForRepeatedRequests) {
  connect();
  const wire::CmMad req = pass(a, b);
  ASSERT_TRUE(b.manager.reject(b.handle, RejReason::kConsumer, now));
  const wire::CmMad rej = b.sent.front().mad;
  b.sent.clear();  // The REJ is lost.
  b.feed(req, a.lid);
  ASSERT_EQ(b.kinds(), "REJ");
  EXPECT_TRUE(same(b.sent.front().mad, rej));
  EXPECT_EQ(b.news(), News{"request"});
  carry();
  EXPECT_EQ(a.news(), (News{"closed: rejected by the peer", "released"}));
  EXPECT_EQ(a.closed.rej.why(), RejReason::kConsumer);
  run_out(b);
  EXPECT_EQ(b.news(), News{"released"});
  EXPECT_EQ(b.manager.size(), 0U);
}

TEST_F(CmManager, ARejectedReplyIsRememberedToo) {
  connect();
  carry();
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  const wire::CmMad rep = pass(b, a);
  ASSERT_TRUE(a.manager.reject(a.handle, RejReason::kPathMtu, now));
  EXPECT_EQ(rej_of(a.sent.front()).about(), wire::CmAbout::kRep);
  a.sent.clear();
  a.feed(rep, b.lid);
  carry();
  EXPECT_EQ(b.closed.rej.why(), RejReason::kPathMtu);
  EXPECT_EQ(b.news(), (News{"request", "closed: rejected by the peer", "released"}));
  run_out(a);
  EXPECT_EQ(a.manager.size(), 0U);
}

TEST_F(CmManager, C16_ALostRtuIsAskedForByTheReplyAgain) {
  connect();
  carry();
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  carry();
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  a.sent.clear();
  EXPECT_EQ(b.manager.next_deadline(), now + time_of(17) + 2 * time_of(16));
  next(b);
  ASSERT_EQ(b.kinds(), "REP");
  carry();
  EXPECT_EQ(b.state(), State::kEstablished);
}

TEST_F(CmManager, APacketStandsForTheRtu) {
  connect();
  carry();
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  carry();
  ASSERT_TRUE(a.manager.confirm(a.handle, now));
  b.manager.on_traffic(b.handle, now);
  b.manager.on_traffic(b.handle, now);
  b.manager.tick(now);
  EXPECT_EQ(b.news(), (News{"request", "established"}));
  EXPECT_EQ(b.manager.counters().by_traffic, 1U);
  carry();  // The RTU still arrives.
  EXPECT_TRUE(b.news().empty());
  EXPECT_FALSE(b.manager.next_deadline());
}

/// The sender delivers at once, so an answer arrives while its request is still being sent.
TEST(CmManagerLoop, ASynchronousWireIsNoProblem) {
  TimePoint now{1s};
  Manager* self = nullptr;
  struct Both final : Consumer {
    Manager*& m;
    int established = 0;
    explicit Both(Manager*& manager) : m{manager} {}
    void on_request(Handle h, const wire::CmReq&, const fabric::MadAddress&,
                    TimePoint now) override {
      AcceptParams p;
      p.qpn = 0x501;
      EXPECT_TRUE(m->accept(h, p, now));
    }
    void on_reply(Handle h, const wire::CmRep&, TimePoint now) override {
      EXPECT_TRUE(m->confirm(h, now));
    }
    void on_established(Handle, TimePoint) override { ++established; }
    void on_closed(Handle, const Closed&, TimePoint) override {}
    void on_released(Handle, TimePoint) override {}
  } both{self};
  Manager manager{[&](const fabric::MadAddress&, std::span<const std::byte, wire::kMadLen> octets) {
                    fabric::ReceivedMad mad;
                    std::ranges::copy(octets, mad.bytes.begin());
                    EXPECT_TRUE(self->on_mad(mad, now));
                    return Status{};
                  },
                  {},
                  1};
  self = &manager;
  ASSERT_TRUE(manager.listen(kService, both, {}));
  ConnectParams p;
  p.service_id = kService;
  p.qpn = 0x500;
  ASSERT_TRUE(manager.connect(p, both, now));
  for (int i = 0; i < 10 && manager.next_deadline() == now; ++i) manager.tick(now);
  EXPECT_EQ(both.established, 1);
  EXPECT_EQ(manager.counters().established, 2U);
}

}  // namespace
}  // namespace ipoib::cm
