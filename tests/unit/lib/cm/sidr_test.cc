// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/sidr.h"

#include <gtest/gtest.h>

#include <deque>

#include "lib/cm/manager.h"

namespace ipoib::cm {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kService = 0x0100'0000'0000'1001ULL;

struct Sent {
  fabric::MadAddress to;
  wire::CmMad mad;
};

/// A manager with a record of the MADs that it sent.
struct End {
  std::deque<Sent> sent;
  TimePoint now{1s};
  Manager manager;

  explicit End(std::uint64_t seed, ManagerConfig config = {})
      : manager{
            [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> octets) {
              sent.push_back({to, wire::read<wire::CmMad>(octets).value()});
              return Status{};
            },
            config, seed} {}

  void feed(const wire::CmMad& mad, std::uint16_t from, std::uint16_t pkey = wire::kDefaultPkey) {
    fabric::ReceivedMad received;
    received.from.lid = from;
    received.from.pkey = pkey;
    std::memcpy(received.bytes.data(), &mad, sizeof(mad));
    EXPECT_TRUE(manager.on_mad(received, now));
  }
};

TEST(Sidr, AQuestionIsAnsweredWithTheQueuePair) {
  End asker{1}, server{2};
  server.manager.serve(kService, [](const wire::CmSidrReq& req, const fabric::MadAddress& from) {
    EXPECT_EQ(req.pkey.host(), 0x8001);
    EXPECT_EQ(from.lid, 7);
    EXPECT_EQ(req.private_data[0], std::byte{0xaa});
    wire::CmSidrRep rep{};
    rep.qpn.set(0x49);
    rep.qkey.set(0xb1b);
    rep.private_data[0] = std::byte{0xbb};
    return rep;
  });
  int answers = 0;
  SidrQuestion question{{.lid = 9, .pkey = 0x8001}, kService, 500ms, 3, {std::byte{0xaa}}};
  ASSERT_TRUE(asker.manager.ask_service(
      question,
      [&](const auto& outcome, TimePoint) {
        ++answers;
        ASSERT_TRUE(outcome);
        EXPECT_EQ(outcome->status, wire::SidrStatus::kValid);
        EXPECT_EQ(outcome->qpn.host(), 0x49U);
        EXPECT_EQ(outcome->qkey.host(), 0xb1bU);
        EXPECT_EQ(outcome->service_id.host(), kService);
        EXPECT_EQ(outcome->private_data[0], std::byte{0xbb});
      },
      asker.now));
  ASSERT_EQ(asker.sent.size(), 1U);
  EXPECT_EQ(asker.sent[0].to.lid, 9);
  // A repeated question gets the same answer. The second answer matches no question any more.
  server.feed(asker.sent[0].mad, 7, 0x8001);
  server.feed(asker.sent[0].mad, 7, 0x8001);
  ASSERT_EQ(server.sent.size(), 2U);
  EXPECT_EQ(server.sent[0].to.lid, 7);
  EXPECT_EQ(server.sent[0].mad.hdr.tid, asker.sent[0].mad.hdr.tid);
  EXPECT_TRUE(
      std::ranges::equal(wire::bytes_of(server.sent[0].mad), wire::bytes_of(server.sent[1].mad)));
  asker.feed(server.sent[0].mad, 9, 0x0001);  // A limited member of the partition.
  asker.feed(server.sent[1].mad, 9, 0x0001);
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(asker.manager.counters().unknown_id, 1U);
  EXPECT_EQ(asker.manager.counters().sidr_answered, 1U);
  EXPECT_EQ(server.manager.counters().sidr_served, 2U);
  EXPECT_FALSE(asker.manager.next_deadline());
}

TEST(Sidr, AServiceThatNobodyOffersIsSaidNotToBeSupported) {
  End asker{1}, server{2};
  server.manager.serve(kService, [](const auto&, const auto&) { return wire::CmSidrRep{}; });
  server.manager.end_service(kService);
  std::optional<wire::SidrStatus> status;
  ASSERT_TRUE(asker.manager.ask_service(
      {{.lid = 9}, kService}, [&](const auto& o, TimePoint) { status = o.value().status; },
      asker.now));
  server.feed(asker.sent[0].mad, 7);
  asker.feed(server.sent[0].mad, 9);
  EXPECT_EQ(status, wire::SidrStatus::kServiceNotSupported);
  EXPECT_EQ(server.manager.counters().sidr_refused, 1U);
}

// Two links of one port may serve the same service, each in its partition.
TEST(Sidr, E02_AServiceIsAnsweredByItsPartition) {
  End asker{1}, server{2};
  const auto serve = [&](std::uint16_t pkey, std::uint32_t qkey) {
    server.manager.serve(
        kService,
        [qkey](const auto&, const auto&) {
          wire::CmSidrRep rep{};
          rep.qkey.set(qkey);
          return rep;
        },
        pkey);
  };
  serve(0xffff, 1);
  serve(0x8002, 2);
  const auto qkey_in = [&](std::uint16_t pkey) {
    std::optional<std::uint32_t> qkey;
    SidrQuestion question{.to = {.lid = 9}, .service_id = kService};
    question.to.pkey = pkey;
    EXPECT_TRUE(asker.manager.ask_service(
        question,
        [&](const auto& o, TimePoint) {
          if (o->status == wire::SidrStatus::kValid) qkey = o->qkey.host();
        },
        asker.now));
    server.feed(asker.sent.back().mad, 7, pkey);
    asker.feed(server.sent.back().mad, 9, pkey);
    return qkey;
  };
  EXPECT_EQ(qkey_in(0xffff), 1U);
  EXPECT_EQ(qkey_in(0x0002), 2U) << "a limited member";
  EXPECT_EQ(qkey_in(0x8003), std::nullopt);
  serve(0, 3);  // In all other partitions.
  EXPECT_EQ(qkey_in(0x8003), 3U);
  server.manager.end_service(kService, 0x8002);
  EXPECT_EQ(qkey_in(0x8002), 3U);
}

// A member of one partition may write the P_Key of another one into its request.
TEST(Sidr, E02_ARequestThatCameInAnotherPartitionIsRefused) {
  End asker{1}, server{2};
  server.manager.serve(
      kService, [](const auto&, const auto&) { return wire::CmSidrRep{}; }, 0x8002);
  SidrQuestion question{.to = {.lid = 9}, .service_id = kService};
  question.to.pkey = 0x8002;
  ASSERT_TRUE(asker.manager.ask_service(question, {}, asker.now));
  server.feed(asker.sent[0].mad, 7, 0xffff);
  EXPECT_EQ(wire::cm_message<wire::CmSidrRep>(server.sent.back().mad).status,
            wire::SidrStatus::kServiceNotSupported);
  server.feed(asker.sent[0].mad, 7, 0x0002);
  EXPECT_EQ(wire::cm_message<wire::CmSidrRep>(server.sent.back().mad).status,
            wire::SidrStatus::kValid);
  EXPECT_EQ(server.manager.counters().sidr_refused, 1U);
}

// Any port of the fabric may send an answer with the request's number.
TEST(Sidr, E02_OnlyThePortThatWasAskedAnswers) {
  End asker{1}, server{2};
  int answers = 0;
  SidrQuestion question{.to = {.lid = 9}, .service_id = kService};
  question.to.pkey = 0x8002;
  ASSERT_TRUE(asker.manager.ask_service(
      question, [&](const auto&, TimePoint) { ++answers; }, asker.now));
  server.feed(asker.sent[0].mad, 7, 0x8002);
  const wire::CmMad good = server.sent[0].mad;
  wire::CmMad other_tid = good;
  other_tid.hdr.tid = wire::Be64{good.hdr.tid.host() + 1};
  asker.feed(good, 8, 0x8002);
  asker.feed(good, 9, 0xffff);
  asker.feed(other_tid, 9, 0x8002);
  EXPECT_EQ(answers, 0);
  EXPECT_EQ(asker.manager.counters().unexpected, 3U);
  asker.feed(good, 9, 0x8002);
  EXPECT_EQ(answers, 1);
}

TEST(Sidr, AnAnswerAboutAnotherServiceIsDropped) {
  End asker{1}, server{2};
  int answers = 0;
  ASSERT_TRUE(asker.manager.ask_service(
      {{.lid = 9}, kService}, [&](const auto&, TimePoint) { ++answers; }, asker.now));
  server.feed(asker.sent[0].mad, 7);
  auto rep = wire::cm_message<wire::CmSidrRep>(server.sent[0].mad);
  rep.service_id.set(kService + 1);
  asker.feed(wire::make_cm_mad(server.sent[0].mad.hdr.tid.host(), rep), 9);
  EXPECT_EQ(answers, 0);
  EXPECT_EQ(asker.manager.counters().unexpected, 1U);
  asker.feed(server.sent[0].mad, 9);
  EXPECT_EQ(answers, 1);
}

TEST(Sidr, EveryStatusHasAName) {
  for (std::uint8_t i = 0; i <= 5; ++i)
    EXPECT_NE(wire::to_string(wire::SidrStatus{i}), "unknown status");
  EXPECT_EQ(wire::to_string(wire::SidrStatus{6}), "unknown status");
}

TEST(Sidr, AnUnansweredQuestionIsRepeatedThenGivenUp) {
  End asker{1};
  int timed_out = 0;
  ASSERT_TRUE(asker.manager.ask_service(
      {{.lid = 9}, kService, 500ms, 2},
      [&](const auto& outcome, TimePoint now) {
        ASSERT_FALSE(outcome);
        EXPECT_EQ(outcome.error(), Errc::kTimedOut);
        EXPECT_EQ(now, TimePoint{2500ms});
        ++timed_out;
      },
      asker.now));
  while (const auto due = asker.manager.next_deadline()) asker.manager.tick(asker.now = *due);
  EXPECT_EQ(timed_out, 1);
  ASSERT_EQ(asker.sent.size(), 3U);
  EXPECT_TRUE(
      std::ranges::equal(wire::bytes_of(asker.sent[0].mad), wire::bytes_of(asker.sent[2].mad)));
  EXPECT_EQ(asker.manager.counters().repeated[wire::index_of(wire::CmAttr::kSidrReq)], 2U);
}

TEST(Sidr, QuestionsAreBoundedCancelledAndShutDown) {
  ManagerConfig config;
  config.max_sidr = 2;
  End asker{1, config};
  int told = 0;
  const auto handler = [&](const auto& outcome, TimePoint) {
    ++told;
    EXPECT_EQ(outcome.error(), Errc::kUnavailable);
  };
  const auto first = asker.manager.ask_service({{.lid = 9}, kService}, handler, asker.now);
  ASSERT_TRUE(first);
  ASSERT_TRUE(asker.manager.ask_service({{.lid = 9}, kService}, handler, asker.now));
  EXPECT_EQ(asker.manager.ask_service({{.lid = 9}, kService}, handler, asker.now).error().code,
            Errc::kNoResources);
  asker.manager.cancel_question(*first);
  asker.manager.shutdown(asker.now);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(asker.manager.ask_service({{.lid = 9}, kService}, handler, asker.now).error().code,
            Errc::kUnavailable);
}

}  // namespace
}  // namespace ipoib::cm
