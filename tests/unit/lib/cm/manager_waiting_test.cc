// SPDX-License-Identifier: BSD-3-Clause
// REQs that wait, floods of REQs, and peers that answer no DREQ. Names of tests are those of
// tests/requirements.md.
#include <random>

#include "tests/support/seeds.h"
#include "tests/unit/lib/cm/manager_fixture.h"

namespace ipoib::cm {
namespace {

using What = Admission::What;

/// The consumer of `b` says this about all requests.
auto says(What what, bool known = false) {
  return [=](const fabric::MadAddress&) { return Admission{.what = what, .known = known}; };
}

/// A REQ that differs from all others by its number.
wire::CmMad numbered(const wire::CmMad& like, std::uint32_t number) {
  auto req = wire::cm_message<wire::CmReq>(like);
  req.local_ca_guid.set(0xbad0'0000'0000 + number);
  req.local_id.set(0x1000 + number);
  req.local_qpn.set(0x1000 + number % 0xff'0000);
  return wire::make_cm_mad(number, req);
}

TEST_F(CmManager, C16_ARequestWaitsUntilItIsBelieved) {
  b.admits = says(What::kWait);
  connect();
  const wire::CmMad req = pass(a, b);
  for (int i = 0; i < 50; ++i) {
    now += 10ms;
    b.manager.tick(now);
  }
  b.feed(req, a.lid);
  EXPECT_EQ(b.manager.waiting(), 1U) << "the repetition is of the same attempt";
  EXPECT_EQ(b.manager.counters().duplicates[wire::index_of(CmAttr::kReq)], 1U);
  EXPECT_TRUE(b.told.empty());
  EXPECT_TRUE(b.sent.empty()) << "the peer repeats its request until there is an answer";
  EXPECT_EQ(b.manager.size(), 0U);
  b.admits = nullptr;
  next(b);
  EXPECT_EQ(b.news(), News{"request"});
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  carry();
  EXPECT_EQ(a.state(), State::kRepRcvd);
  EXPECT_EQ(b.manager.waiting(), 0U);
  EXPECT_EQ(b.manager.counters().waited, 1U);
}

/// The SA is queried only for requests that have a place, of which a port has few.
TEST_F(CmManager, P16_NothingIsAskedForARequestWithoutAPlace) {
  b.admits = says(What::kWait);
  connect();
  const wire::CmMad like = a.sent.front().mad;
  for (std::uint32_t i = 0; i < 1000; ++i) b.feed(numbered(like, i), a.lid);
  next(b);
  EXPECT_LE(b.asked, RequestQueue::kPlacesOfPort + 1) << "the first one twice";
  EXPECT_EQ(b.manager.counters().waiting_full, 1000 - RequestQueue::kPlacesOfPort);
  b.feed(numbered(like, 1000), 77);
  b.asked = 0;
  next(b);
  EXPECT_EQ(b.asked, RequestQueue::kPlacesOfPort + 1) << "another port has a place";
}

/// A port that gives its attempts up for others at once causes no more work than one that waits.
TEST_F(CmManager, P16_RequestsGivenUpAtOnceAskNoMoreThanOthers) {
  b.admits = says(What::kWait);
  connect();
  const auto req = wire::cm_message<wire::CmReq>(a.sent.front().mad);
  for (std::uint32_t i = 0; i < 5000; ++i) {
    b.feed(wire::make_cm_mad(100 + i, req), a.lid);
    EXPECT_EQ(b.manager.waiting(), 1U);
    now += 200us;
  }
  EXPECT_GE(b.asked, 50U);
  EXPECT_LE(b.asked, 101U);
}

TEST_F(CmManager, C16_WhatIsNotBelievedGetsNoAnswer) {
  b.admits = says(What::kDrop);
  connect();
  const wire::CmMad req = pass(a, b);
  EXPECT_EQ(b.manager.counters().not_admitted, 1U);
  // Not in two seconds.
  b.admits = says(What::kWait);
  b.feed(req, a.lid);
  while (b.manager.waiting() > 0) next(b);
  EXPECT_EQ(now, TimePoint{12s});
  EXPECT_EQ(b.manager.counters().waited_too_long, 1U);
  EXPECT_FALSE(b.manager.next_deadline());
  EXPECT_TRUE(b.told.empty());
  EXPECT_TRUE(b.sent.empty());
  EXPECT_EQ(b.manager.size(), 0U);
}

TEST_F(CmManager, C16_AnAttemptThatItsPeerGivesUpWaitsNoMore) {
  b.admits = says(What::kWait);
  connect();
  pass(a, b);
  ASSERT_TRUE(a.manager.disconnect(a.handle, now));
  EXPECT_EQ(rej_of(a.sent.front()).why(), RejReason::kTimeout);
  const Sent rej = a.sent.front();
  b.feed(rej.mad, 77);
  EXPECT_EQ(b.manager.waiting(), 1U) << "another port";
  pass(a, b);
  EXPECT_EQ(b.manager.waiting(), 0U);
}

TEST_F(CmManager, C16_RequestsThatWaitEndWithTheirService) {
  for (const bool shutdown : {false, true}) {
    b.admits = says(What::kWait);
    connect();
    pass(a, b);
    ASSERT_EQ(b.manager.waiting(), 1U);
    if (shutdown)
      b.manager.shutdown(now);
    else
      b.manager.detach(b, now);
    run_out(b);
    EXPECT_EQ(b.manager.waiting(), 0U);
    EXPECT_TRUE(b.told.empty());
    ASSERT_TRUE(shutdown || b.manager.listen(kService, b, said_by(0x49)));
    a.manager.detach(a, now);
    run_out(a);
    a.sent.clear();
    b.sent.clear();
  }
}

/// A peer may ask for fifteen repetitions of ten seconds each.
TEST_F(CmManager, C16_APeerThatAnswersNoDreqHoldsItsQueuePairForSeconds) {
  connect();
  auto req = wire::cm_message<wire::CmReq>(a.sent.front().mad);
  req.set_local_timeout(31);
  req.set_max_cm_retries(15);
  req.primary.set_ack_timeout(31);
  b.feed(wire::make_cm_mad(5, req), a.lid);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  b.manager.on_traffic(b.handle, now);
  ASSERT_EQ(b.state(), State::kEstablished);
  const TimePoint begin = now;
  ASSERT_TRUE(b.manager.disconnect(b.handle, now));
  while (b.manager.find(b.handle)->state == State::kDreqSent) next(b);
  EXPECT_LE(now, begin + 8s);
  EXPECT_EQ(b.manager.find(b.handle)->state, State::kTimeWait);
  EXPECT_EQ(b.manager.counters().dreqs_unanswered, 1U);
  run_out(b);
  // The time-wait of a peer that may still send.
  EXPECT_LE(now, begin + 8s + (2 * time_of(19) + 2 * time_of(15)) * 9 / 8);
  EXPECT_EQ(b.manager.size(), 0U);
}

TEST_F(CmManager, C16_DisconnectsThatWaitAreBounded) {
  ManagerConfig config;
  config.max_ending = 4;
  End c{1, now, config};
  ASSERT_TRUE(c.manager.listen(kService, c, {}));
  connect();
  for (std::uint32_t i = 0; i < 20; ++i) {
    c.feed(numbered(a.sent.front().mad, i), a.lid);
    ASSERT_TRUE(c.manager.accept(c.handle, answer(), now));
    c.manager.on_traffic(c.handle, now);
    ASSERT_TRUE(c.manager.disconnect(c.handle, now));
    EXPECT_LE(c.manager.connections().size(Crowd::kEnding), 4U);
  }
  EXPECT_EQ(c.manager.counters().dreqs_unanswered, 16U);
  run_out(c);
  EXPECT_EQ(c.manager.size(), 0U);
  EXPECT_EQ(c.manager.limiter().connections({.lid = a.lid, .gid = {}}), 0U);
}

/// The connections that ended in each way no longer count for their port.
TEST_F(CmManager, P16_EndedConnectionsLeaveTheirPortRoom) {
  const PortName port{.lid = a.lid, .gid = {}};
  connect();
  const wire::CmMad like = a.sent.front().mad;
  const auto ask = [&](std::uint32_t number) {
    b.feed(numbered(like, number), a.lid);
    EXPECT_EQ(b.manager.limiter().connections(port), 1U) << number;
  };
  ask(1);
  ASSERT_TRUE(b.manager.reject(b.handle, RejReason::kConsumer, now));
  ask(2);
  ASSERT_TRUE(b.manager.drop(b.handle, now));
  ask(3);
  ASSERT_TRUE(b.manager.accept(b.handle, answer(), now));
  b.manager.on_traffic(b.handle, now);
  ASSERT_TRUE(b.manager.disconnect(b.handle, now));
  ask(4);
  b.manager.set_port(
      {.gid = wire::Gid::of(wire::kDefaultGidPrefix, kGuid[1] + 1), .lid = 4, .lmc = 1});
  const PortName without_path_bits{.lid = kLid[0] / 2, .gid = {}};
  EXPECT_EQ(b.manager.limiter().connections(without_path_bits), 1U);
  run_out(b);
  EXPECT_EQ(b.manager.limiter().connections(without_path_bits), 0U);
}

/// Each queue pair costs a millisecond, so that a node that made one for every request would do
/// nothing else. `ports`: from so many ports, to all of which the SA knows paths.
void flood(std::uint64_t seed, std::uint16_t ports) {
  std::mt19937_64 random{seed};
  TimePoint now{10s};
  End a{0, now};
  End b{1, now};
  ASSERT_TRUE(b.manager.listen(kService, b, said_by(0x49)));
  b.admits = [&a](const fabric::MadAddress& from) {
    return Admission{.what = What::kAccept, .known = from.lid == a.lid};
  };
  auto params = ConnectParams{};
  params.to = {.lid = b.lid};
  params.service_id = kService;
  params.qpn = 0x408;
  params.primary.remote_lid.set(b.lid);
  params.primary.remote_gid = wire::Gid::of(wire::kDefaultGidPrefix, kGuid[1] + 1);
  params.primary.set_subnet_local(true);
  ASSERT_TRUE(a.manager.connect(params, a, now));
  const wire::CmMad like = a.sent.front().mad;

  AcceptParams reply;
  reply.qpn = 0x507;
  Duration work{};
  const auto accept_all = [&] {
    for (const Handle handle : std::exchange(b.requests, {})) {
      static_cast<void>(b.manager.accept(handle, reply, now));
      work += 1ms;
    }
  };
  const TimePoint begin = now;
  const TimePoint asks = now + 3s + std::chrono::milliseconds(random() % 1000);
  std::uint32_t number = 0;
  std::optional<TimePoint> answered;
  while (now < begin + 6s) {
    now += 200us;
    // 5,000 a second; the honest peer repeats its request ten times a second.
    const auto from = static_cast<std::uint16_t>(100 + random() % ports);
    b.feed(numbered(like, ++number), from);
    if (now >= asks && !answered && number % 500 == 0) b.feed(like, a.lid);
    if (const auto due = b.manager.next_deadline(); due && *due <= now) b.manager.tick(now);
    accept_all();
    for (const Sent& sent : std::exchange(b.sent, {}))
      if (sent.to.lid == a.lid && sent.mad.attr() == CmAttr::kRep && !answered) answered = now;
    ASSERT_LE(b.manager.half_open(), 512U);
    ASSERT_LE(b.manager.waiting(), RequestQueue::kPlaces);
  }
  ASSERT_TRUE(answered);
  EXPECT_LE(*answered, asks + 1s);
  const bool one = ports == 1;
  EXPECT_LE(work, one ? 256ms + 6 * 50ms + 10ms : 512ms + 6 * 500ms + 10ms);
  EXPECT_GT(b.manager.counters().waiting_full, 10'000U);
  EXPECT_LE(b.manager.limiter().connections({.lid = 100, .gid = {}}), 256U);
}

TEST(CmManagerFlood, P16_AStrangersRequestsDelayNoPeer) {
  test::for_seeds(5, [](std::uint64_t seed) { flood(seed, 1); });
}

TEST(CmManagerFlood, P16_TenThousandStrangersDelayNoNeighbour) {
  test::for_seeds(5, [](std::uint64_t seed) { flood(seed, 10'000); });
}

}  // namespace
}  // namespace ipoib::cm
