// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/client.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "lib/sa/queries.h"

namespace ipoib::sa {
namespace {

using namespace std::chrono_literals;
using wire::MadStatus;

constexpr std::uint16_t kSmLid = 7;
const wire::Gid kMgid = wire::Gid::of(0xff12'401b'ffff'0000, 0xffff'ffff);
const wire::Gid kPort = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'00a1'b204);

struct Sent {
  fabric::MadAddress to;
  wire::SaMad mad;
};

/// A client on a wire that keeps the sent MADs. The tests make the answers by hand.
class ClientTest : public ::testing::Test {
 protected:
  ClientTest() { reset({}); }

  void reset(const ClientConfig& config) {
    sent.clear();
    outcomes.clear();
    client = std::make_unique<Client>(
        [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
          if (!wire_up) return Status{fail(Errc::kUnavailable, "wire is down")};
          sent.push_back({to, *wire::read<wire::SaMad>(mad)});
          return Status{};
        },
        config, 1);
    client->set_sm(kSmLid, 3, now);
  }

  Handler keep() {
    return [this](const Outcome& outcome, TimePoint) { outcomes.push_back(outcome); };
  }
  TransactionId ask() { return client->submit(find_group(kMgid), keep(), now); }
  TransactionId ask_table() { return client->submit(list_groups(0xffff), keep(), now); }

  /// Returns the answer of a conforming SA to the latest MAD sent.
  [[nodiscard]] wire::SaMad answer(std::uint16_t status = 0) const {
    wire::SaMad mad = sent.back().mad;
    const bool set = mad.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kSet);
    mad.hdr.mad.method = static_cast<std::uint8_t>((set ? 1 : mad.hdr.mad.method) | 0x80);
    mad.hdr.mad.status.set(status);
    return mad;
  }
  [[nodiscard]] static fabric::ReceivedMad received(const wire::SaMad& mad,
                                                    std::uint16_t lid = kSmLid) {
    fabric::ReceivedMad r{{lid, 0, 1, wire::kDefaultPkey}, {}};
    EXPECT_TRUE(wire::write(std::span{r.bytes}, 0, mad));
    return r;
  }
  bool feed(const wire::SaMad& mad, std::uint16_t lid = kSmLid) {
    return client->on_mad(received(mad, lid), now);
  }
  /// Advances the time from deadline to deadline.
  void run_until(TimePoint end) {
    while (const auto next = client->next_deadline()) {
      if (*next > end) break;
      now = std::max(now, *next);
      client->tick(now);
    }
    now = end;
  }
  [[nodiscard]] const ClientCounters& counters() const { return client->counters(); }

  TimePoint now{1s};
  bool wire_up = true;
  std::vector<Sent> sent;
  std::vector<Outcome> outcomes;
  std::unique_ptr<Client> client;
};

TEST_F(ClientTest, RequestLeavesAtOnceAsTheWireWantsIt) {
  const TransactionId id = client->submit(join_group(kMgid, kPort, 0x7fff, 1), keep(), now);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to.lid, kSmLid);
  EXPECT_EQ(sent[0].to.sl, 3);
  EXPECT_EQ(sent[0].to.qpn, 1U);
  const wire::SaHdr& hdr = sent[0].mad.hdr;
  EXPECT_EQ(hdr.mad.base_version, 1);
  EXPECT_EQ(hdr.mad.mgmt_class, 3);
  EXPECT_EQ(hdr.mad.class_version, 2);
  EXPECT_EQ(hdr.mad.method, 2);
  EXPECT_EQ(hdr.mad.attr_id.host(), 0x38);
  EXPECT_EQ(hdr.mad.tid.host(), id);
  EXPECT_EQ(hdr.comp_mask.host(), 0x10083U);
  EXPECT_EQ(hdr.rmpp_version, 0);
  EXPECT_TRUE(outcomes.empty());
}

TEST_F(ClientTest, AnswerIsHandedOverOnceAndItsCopyIsCounted) {
  ask();
  EXPECT_TRUE(feed(answer()));
  ASSERT_EQ(outcomes.size(), 1U);
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->record<wire::McMemberRecord>()->mgid, kMgid);
  EXPECT_EQ(outcomes[0]->count(), 1U);
  EXPECT_FALSE(feed(answer()));
  EXPECT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(counters().answered, 1U);
  EXPECT_EQ(counters().unmatched, 1U);
  EXPECT_FALSE(client->next_deadline());
}

TEST_F(ClientTest, UpperHalfOfTheTransactionIdIsTheTransports) {
  ask();
  wire::SaMad mad = answer();
  mad.hdr.mad.tid.set(mad.hdr.mad.tid.host() | 0xdead'beef'0000'0000);
  EXPECT_TRUE(feed(mad));
  EXPECT_EQ(outcomes.size(), 1U);
}

TEST_F(ClientTest, ForeignAnswersChangeNothingButTheCounter) {
  ask();
  struct Row {
    const char* what;
    void (*spoil)(wire::SaMad&);
    bool malformed;
  };
  const Row rows[] = {
      {"transaction", [](wire::SaMad& m) { m.hdr.mad.tid.set(m.hdr.mad.tid.host() + 1); }, false},
      {"method", [](wire::SaMad& m) { m.hdr.mad.method = 0x92; }, false},
      {"request, not an answer", [](wire::SaMad& m) { m.hdr.mad.method = 0x01; }, false},
      {"attribute", [](wire::SaMad& m) { m.hdr.mad.attr_id.set(0x35); }, false},
      {"class", [](wire::SaMad& m) { m.hdr.mad.mgmt_class = 4; }, true},
      {"class version", [](wire::SaMad& m) { m.hdr.mad.class_version = 1; }, true},
      {"base version", [](wire::SaMad& m) { m.hdr.mad.base_version = 2; }, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const ClientCounters before = counters();
    wire::SaMad mad = answer();
    row.spoil(mad);
    EXPECT_FALSE(feed(mad));
    EXPECT_EQ(counters().malformed, before.malformed + (row.malformed ? 1 : 0));
    EXPECT_EQ(counters().unmatched, before.unmatched + (row.malformed ? 0 : 1));
  }
  const std::uint64_t before = counters().unmatched;
  EXPECT_FALSE(feed(answer(), kSmLid + 1));
  EXPECT_EQ(counters().unmatched, before + 1);
  auto from_another_queue = received(answer());
  from_another_queue.from.qpn = 5;
  EXPECT_FALSE(client->on_mad(from_another_queue, now));
  EXPECT_TRUE(outcomes.empty());
  EXPECT_TRUE(feed(answer()));
}

TEST_F(ClientTest, TimeoutsDoubleWithJitterAndEnd) {
  ask();
  std::vector<TimePoint> at{now};
  while (outcomes.empty()) {
    const std::size_t before = sent.size();
    now = *client->next_deadline();
    client->tick(now);
    if (sent.size() != before) at.push_back(now);
  }
  ASSERT_EQ(at.size(), 5U);  // the first attempt and four retries
  at.push_back(now);
  const Duration nominal[] = {500ms, 1s, 2s, 4s, 4s};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_GE(at[i + 1] - at[i], nominal[i]) << i;
    EXPECT_LE(at[i + 1] - at[i], nominal[i] + nominal[i] / 4) << i;
  }
  EXPECT_NE(at[1] - at[0], Duration{500ms});
  EXPECT_EQ(outcomes[0].error().code, Errc::kTimedOut);
  EXPECT_EQ(counters().sent, 5U);
  EXPECT_EQ(counters().retried, 4U);
  EXPECT_EQ(counters().timed_out, 1U);
  for (const Sent& s : sent) EXPECT_EQ(s.mad.hdr.mad.tid, sent[0].mad.hdr.mad.tid);
}

TEST_F(ClientTest, LateAnswerToAnEarlierAttemptCounts) {
  ask();
  run_until(now + 700ms);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_TRUE(feed(answer()));
  EXPECT_FALSE(feed(answer()));
  EXPECT_EQ(outcomes.size(), 1U);
}

TEST_F(ClientTest, AnswerAfterTheEndIsUnmatched) {
  ask();
  run_until(now + 60s);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_FALSE(feed(answer()));
  EXPECT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(counters().unmatched, 1U);
}

TEST_F(ClientTest, RefusalCarriesItsStatus) {
  for (const MadStatus status : {MadStatus::kSaNoRecords, MadStatus::kSaRequestInvalid,
                                 MadStatus::kSaInsufficientComponents, MadStatus::kRedirect}) {
    ask();
    EXPECT_TRUE(feed(answer(static_cast<std::uint16_t>(status))));
    ASSERT_FALSE(outcomes.back());
    EXPECT_EQ(outcomes.back().error().code, Errc::kRefused);
    EXPECT_EQ(outcomes.back().error().status, static_cast<std::uint16_t>(status));
  }
  EXPECT_EQ(describe(outcomes.back().error()), "SA refused: redirected (0x0002)");
  EXPECT_EQ(counters().refused, 4U);
}

TEST_F(ClientTest, BusyIsAskedAgainLaterAndThenReported) {
  ask();
  EXPECT_TRUE(feed(answer(1)));
  EXPECT_TRUE(outcomes.empty());
  EXPECT_EQ(sent.size(), 1U);  // not at once, as the SA is busy
  run_until(now + 700ms);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_TRUE(feed(answer()));
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0]);

  ask();
  while (outcomes.size() == 1) {
    feed(answer(1));
    run_until(*client->next_deadline());
  }
  EXPECT_EQ(outcomes[1].error().code, Errc::kRefused);
  EXPECT_EQ(outcomes[1].error().status, 1);
  EXPECT_EQ(counters().busy, 6U);
}

TEST_F(ClientTest, NoMoreThanTheBoundAreOutstanding) {
  reset({.max_outstanding = 3, .max_waiting = 4});
  for (int i = 0; i < 10; ++i) ask();
  EXPECT_EQ(sent.size(), 3U);
  EXPECT_EQ(client->outstanding(), 3U);
  EXPECT_EQ(client->waiting(), 4U);
  EXPECT_TRUE(outcomes.empty()) << "never from submit";
  EXPECT_EQ(*client->next_deadline(), now);
  client->tick(now);
  ASSERT_EQ(outcomes.size(), 3U);
  for (const Outcome& o : outcomes) EXPECT_EQ(o.error().code, Errc::kNoResources);
  EXPECT_EQ(counters().overflowed, 3U);
  // Each answer lets the oldest waiting request out.
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_LE(client->outstanding(), 3U);
    EXPECT_EQ(sent.size(), std::min<std::size_t>(3 + i, 7));
    wire::SaMad mad = sent[i].mad;
    mad.hdr.mad.method |= 0x80;
    EXPECT_TRUE(feed(mad));
  }
  EXPECT_EQ(outcomes.size(), 10U);
}

TEST_F(ClientTest, CancelledIsNeverCalled) {
  reset({.max_outstanding = 1, .max_waiting = 1});
  const TransactionId out = ask();
  const TransactionId waits = ask();
  const TransactionId refused = ask();
  client->cancel(waits);
  client->cancel(refused);
  client->cancel(out);
  client->cancel(out);
  client->cancel(12345);
  EXPECT_FALSE(feed(answer()));
  run_until(now + 60s);
  EXPECT_TRUE(outcomes.empty());
  EXPECT_EQ(client->outstanding() + client->waiting(), 0U);
}

TEST_F(ClientTest, CancellingMakesRoomForTheNext) {
  reset({.max_outstanding = 1});
  const TransactionId first = ask();
  ask();
  client->cancel(first);
  EXPECT_EQ(*client->next_deadline(), now);
  client->tick(now);
  EXPECT_EQ(sent.size(), 2U);
}

TEST_F(ClientTest, ChangedSmIsAskedAtOnceAndTheOldOneNoMore) {
  ask();
  run_until(now + 6s);
  const std::size_t before = sent.size();
  client->set_sm(kSmLid, 3, now);  // the same SM, so nothing changes
  EXPECT_EQ(sent.size(), before);
  client->set_sm(9, 0, now);
  ASSERT_EQ(sent.size(), before + 1);
  EXPECT_EQ(sent.back().to.lid, 9);
  EXPECT_FALSE(feed(answer(), kSmLid));
  EXPECT_TRUE(feed(answer(), 9));
  EXPECT_EQ(outcomes.size(), 1U);
}

TEST_F(ClientTest, WithoutSmOrWireItEndsAsUnavailable) {
  client->set_sm(0, 0, now);
  ask();
  run_until(now + 60s);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].error().code, Errc::kUnavailable);
  EXPECT_TRUE(sent.empty());

  client->set_sm(kSmLid, 0, now);
  wire_up = false;
  ask();
  run_until(now + 60s);
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(outcomes[1].error().code, Errc::kUnavailable);
  EXPECT_EQ(counters().send_failed, 5U);
  EXPECT_EQ(counters().sent, 0U);
}

TEST_F(ClientTest, SmThatComesUpIsAskedForWhatWaited) {
  client->set_sm(0, 0, now);
  ask();
  EXPECT_TRUE(sent.empty());
  client->set_sm(kSmLid, 0, now);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(feed(answer()));
  EXPECT_TRUE(outcomes.at(0));
}

TEST_F(ClientTest, ShutdownEndsAllAndRefusesMore) {
  reset({.max_outstanding = 1});
  ask();
  ask();
  client->shutdown(now);
  EXPECT_EQ(outcomes.size(), 2U);
  ask();
  EXPECT_EQ(outcomes.size(), 2U);
  client->tick(now);
  ASSERT_EQ(outcomes.size(), 3U);
  for (const Outcome& o : outcomes) EXPECT_EQ(o.error().code, Errc::kUnavailable);
  EXPECT_EQ(sent.size(), 1U);
}

TEST_F(ClientTest, HandlerMaySubmitCancelAndFeed) {
  TransactionId other = kNoTransaction;
  client->submit(
      find_group(kMgid),
      [&](const Outcome& o, TimePoint) {
        outcomes.push_back(o);
        client->cancel(other);
        ask();
        // This answers the request just made. Its handler runs after the current one has returned.
        feed(answer());
        client->tick(now);
        EXPECT_EQ(outcomes.size(), 1U);
      },
      now);
  const wire::SaMad first = answer();
  other = ask();
  EXPECT_TRUE(feed(first));
  run_until(now + 60s);
  EXPECT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(client->outstanding(), 0U);
}

TEST_F(ClientTest, HandlerMayCancelOneWhoseHandlerIsOwed) {
  reset({.retries = 0});
  std::array<TransactionId, 2> ids{};
  int called = 0;
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = client->submit(
        find_group(kMgid),
        [&, i](const Outcome&, TimePoint) {
          ++called;
          client->cancel(ids[1 - i]);
        },
        now);
  now += 60s;
  client->tick(now);  // both have timed out
  run_until(now + 60s);
  EXPECT_EQ(called, 1);
}

TEST_F(ClientTest, HandlerMayDestroyTheClient) {
  int called = 0;
  for (int i = 0; i < 3; ++i)
    client->submit(
        find_group(kMgid),
        [&](const Outcome&, TimePoint) {
          ++called;
          client.reset();
        },
        now);
  client->shutdown(now);
  EXPECT_EQ(called, 1);
}

TEST_F(ClientTest, HandlerThatAsksAgainAtOnceDoesNotHoldTheLoop) {
  reset({.max_outstanding = 1, .max_waiting = 0});
  ask();
  int called = 0;
  Handler again = [&](const Outcome&, TimePoint) {
    ++called;
    client->submit(find_group(kMgid), again, now);
  };
  client->submit(find_group(kMgid), again, now);
  client->tick(now);
  EXPECT_EQ(called, 1);
  client->tick(now);
  EXPECT_EQ(called, 2);
  client->shutdown(now);
}

TEST_F(ClientTest, SenderMayAnswerAtOnce) {
  std::unique_ptr<Client> c;
  c = std::make_unique<Client>(
      [&](const fabric::MadAddress&, std::span<const std::byte, wire::kMadLen> bytes) {
        wire::SaMad mad = *wire::read<wire::SaMad>(bytes);
        mad.hdr.mad.method |= 0x80;
        EXPECT_TRUE(c->on_mad(received(mad), now));
        return Status{};
      },
      ClientConfig{.max_outstanding = 2}, 1);
  c->set_sm(kSmLid, 0, now);
  for (int i = 0; i < 5; ++i) c->submit(find_group(kMgid), keep(), now);
  EXPECT_TRUE(outcomes.empty()) << "never from submit";
  EXPECT_EQ(*c->next_deadline(), now);
  c->tick(now);
  EXPECT_EQ(outcomes.size(), 5U);
  EXPECT_EQ(c->outstanding(), 0U);
}

/// Returns a table answer with `n` member records and the RMPP header of a real SA.
wire::SaMad table_answer(wire::SaMad mad, std::size_t n) {
  mad.hdr.rmpp_version = 1;
  mad.hdr.rmpp_type = 1;
  mad.hdr.rmpp_rtime_flags = 7;
  mad.hdr.rmpp_segment.set(1);
  mad.hdr.rmpp_len.set(static_cast<std::uint32_t>(20 + n * 56));
  mad.hdr.attr_offset.set(7);
  mad.data.fill(std::byte{0});
  for (std::size_t i = 0; i < n; ++i) {
    wire::McMemberRecord r{};
    r.mgid = kMgid;
    r.mlid.set(static_cast<std::uint16_t>(0xc000 + i));
    EXPECT_TRUE(wire::write(std::span{mad.data}, i * 56, r));
  }
  return mad;
}

TEST_F(ClientTest, TablesComeInOneSegmentOrWithoutRmpp) {
  for (const bool rmpp : {true, false}) {
    for (std::size_t n = 0; n <= 3; ++n) {
      SCOPED_TRACE(n);
      ask_table();
      wire::SaMad mad = table_answer(answer(), n);
      // The fabric simulator leaves only a flag, without version, type and length.
      if (!rmpp) {
        mad.hdr.rmpp_version = mad.hdr.rmpp_type = 0;
        mad.hdr.rmpp_rtime_flags = 1;
        mad.hdr.rmpp_segment.set(0);
        mad.hdr.rmpp_len.set(0);
      }
      EXPECT_TRUE(feed(mad));
      ASSERT_TRUE(outcomes.back());
      EXPECT_EQ(outcomes.back()->count(), n);
      EXPECT_FALSE(outcomes.back()->record<wire::McMemberRecord>(n));
      if (n > 0) {
        EXPECT_EQ(outcomes.back()->record<wire::McMemberRecord>(n - 1)->mlid.host(),
                  0xc000 + n - 1);
      }
    }
  }
}

TEST_F(ClientTest, EmptyTableMayBeCalledNoRecords) {
  ask_table();
  EXPECT_TRUE(feed(answer(static_cast<std::uint16_t>(MadStatus::kSaNoRecords))));
  ASSERT_TRUE(outcomes.at(0));
  EXPECT_EQ(outcomes[0]->count(), 0U);
}

TEST_F(ClientTest, UnusableTablesAreFailuresNotGarbage) {
  struct Row {
    const char* what;
    void (*spoil)(wire::SaMad&);
    unsigned said;  ///< Status of the ABORT; 0 if RMPP finds no fault and sends an ACK.
  };
  const Row rows[] = {
      {"first of several too short", [](wire::SaMad& m) { m.hdr.rmpp_rtime_flags = 3; }, 119},
      {"middle with number 1", [](wire::SaMad& m) { m.hdr.rmpp_rtime_flags = 1; }, 120},
      {"segment 0", [](wire::SaMad& m) { m.hdr.rmpp_segment.set(0); }, 120},
      {"first with number 2", [](wire::SaMad& m) { m.hdr.rmpp_segment.set(2); }, 120},
      {"version", [](wire::SaMad& m) { m.hdr.rmpp_version = 2; }, 125},
      {"type", [](wire::SaMad& m) { m.hdr.rmpp_type = 5; }, 121},
      {"status", [](wire::SaMad& m) { m.hdr.rmpp_status = 1; }, 124},
      {"too short", [](wire::SaMad& m) { m.hdr.rmpp_len.set(19); }, 119},
      {"too long", [](wire::SaMad& m) { m.hdr.rmpp_len.set(221); }, 119},
      {"longest", [](wire::SaMad& m) { m.hdr.rmpp_len.set(0xffff'ffff); }, 119},
      {"no record length", [](wire::SaMad& m) { m.hdr.attr_offset.set(0); }, 0},
      {"record longer than all", [](wire::SaMad& m) { m.hdr.attr_offset.set(0xffff); }, 0},
      {"record too short", [](wire::SaMad& m) { m.hdr.attr_offset.set(6); }, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const ClientCounters before = counters();
    ask_table();
    wire::SaMad mad = table_answer(answer(), 2);
    row.spoil(mad);
    EXPECT_TRUE(feed(mad));
    ASSERT_FALSE(outcomes.back());
    EXPECT_EQ(outcomes.back().error().code, Errc::kProtocol);
    EXPECT_EQ(outcomes.back().error().rmpp_status, row.said);
    EXPECT_EQ(counters().malformed, before.malformed + 1);
    const wire::SaHdr& said = sent.back().mad.hdr;
    EXPECT_EQ(said.rmpp_type, row.said != 0 ? 4 : 2);
    EXPECT_EQ(said.rmpp_status, row.said);
    EXPECT_EQ(said.mad.method, 0x12);
    EXPECT_EQ(said.mad.tid, mad.hdr.mad.tid);
  }
}

}  // namespace
}  // namespace ipoib::sa
