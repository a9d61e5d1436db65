// SPDX-License-Identifier: BSD-3-Clause
// Tables of any size between client and administrator, with RMPP on both sides.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lib/sa/sa_mad.h"
#include "tests/unit/lib/sa/sim_sa.h"

namespace ipoib::sa::test {
namespace {

using namespace std::chrono_literals;
using wire::McMemberRecord;
using wire::RmppStatus;

/// Creates `groups` IPv4 groups besides the broadcast group.
void create_groups(SimSa& fabric, std::size_t groups) {
  for (std::size_t i = 0; i < groups; ++i)
    ASSERT_EQ(fabric.tell_sa(kLidB, create_group(ipoib_mgid(1 + i), kB, 1, like_broadcast())), 0);
}

/// Creates `groups` groups, and adds a node that asks for the list of all.
SimSa::Node& ask_for_list(SimSa& fabric, std::size_t groups, const ClientConfig& config = {}) {
  create_groups(fabric, groups);
  SimSa::Node& node = fabric.add_node(config);
  fabric.ask(node, list_groups(0xffff));
  return node;
}

void expect_all_groups(const Outcome& outcome, std::size_t groups) {
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->count(), groups + 1);
  std::set<wire::Gid> mgids;
  for (std::size_t i = 0; i < outcome->count(); ++i)
    mgids.insert(outcome->record<McMemberRecord>(i)->mgid);
  EXPECT_EQ(mgids.size(), groups + 1);
  EXPECT_EQ(mgids.count(kBroadcast), 1U);
  for (std::size_t i = 0; i < groups; ++i) EXPECT_EQ(mgids.count(ipoib_mgid(1 + i)), 1U);
}

TEST(Tables, U34_ListOfFiveThousandGroupsArrivesWhole) {
  SimSa fabric{1};
  auto& node = ask_for_list(fabric, 5000);
  fabric.run();
  ASSERT_EQ(node.outcomes.size(), 1U);
  expect_all_groups(node.outcomes[0], 5000);
  const ClientCounters& c = node.client->counters();
  EXPECT_EQ(c.segments, (5001U * 56 + 199) / 200);
  EXPECT_EQ(c.segmented, 1U);
  EXPECT_EQ(c.segments_repeated + c.segments_beyond + c.malformed + c.unmatched, 0U);
  EXPECT_EQ(fabric.sa().tables().counters().finished, 1U);
  EXPECT_EQ(fabric.sa().tables().size(), 0U);
  EXPECT_LT(fabric.now, TimePoint{1s + 3s});
}

TEST(Tables, U34_EverySizeAroundTheSegmentsArrivesWhole) {
  for (std::size_t groups = 0; groups < 30; ++groups) {
    SCOPED_TRACE(groups);
    SimSa fabric{groups};
    auto& node = ask_for_list(fabric, groups);
    fabric.run();
    ASSERT_EQ(node.outcomes.size(), 1U);
    expect_all_groups(node.outcomes[0], groups);
    EXPECT_EQ(fabric.sa().tables().size(), 0U);
  }
}

TEST(Tables, U34_ListsArriveWholeOverAWireThatLosesRepeatsAndReorders) {
  std::uint64_t asked = 0, whole = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    const std::size_t groups = random() % 400;
    SimSa fabric{seed,
                 {static_cast<unsigned>(random() % 25), static_cast<unsigned>(random() % 30),
                  1ms * static_cast<int>(1 + random() % 200)}};
    create_groups(fabric, groups);
    std::vector<SimSa::Node*> nodes;
    for (int i = 0; i < 3; ++i)
      nodes.push_back(&fabric.add_node({.window = 1 + static_cast<unsigned>(random() % 40)}));
    for (auto* node : nodes)
      for (int i = 0; i < 3; ++i) fabric.ask(*node, list_groups(0xffff));
    fabric.run();
    for (auto* node : nodes) {
      ASSERT_EQ(node->outcomes.size(), 3U);
      for (const Outcome& o : node->outcomes) {
        ++asked;
        // A request for a table may fail, but a table never arrives in part.
        if (!o) {
          EXPECT_EQ(o.error().code == Errc::kTimedOut || o.error().rmpp_status != 0, true);
          continue;
        }
        ++whole;
        expect_all_groups(o, groups);
      }
      EXPECT_EQ(node->client->counters().malformed, 0U);
    }
    EXPECT_EQ(fabric.sa().tables().size(), 0U);
    EXPECT_EQ(fabric.sa().counters().ended(), fabric.sa().counters().received);
  }
  EXPECT_GT(whole, asked * 9 / 10);
}

TEST(Tables, LostAcknowledgementOfTheEndIsGivenAgain) {
  SimSa fabric{1};
  auto& node = ask_for_list(fabric, 50);
  int lost = 0;
  fabric.lose = [&lost](const wire::SaMad& mad) {
    return mad.hdr.rmpp_segment.host() == 15 && ++lost <= 2;
  };
  fabric.run();
  expect_all_groups(node.outcomes.at(0), 50);
  EXPECT_GE(lost, 3);
  EXPECT_EQ(fabric.sa().tables().counters().finished, 1U);
  EXPECT_EQ(fabric.sa().tables().counters().given_up, 0U);
  EXPECT_GE(node.client->counters().segments_repeated, 2U);
}

TEST(Tables, U35_BusyAdministratorIsAskedAgainUntilAllListsArrived) {
  AdministratorConfig config = recorded_config();
  config.tables.max_tables_per_port = 2;
  SimSa fabric{1, {}, config};
  create_groups(fabric, 300);
  auto& node = fabric.add_node();
  for (int i = 0; i < 4; ++i) fabric.ask(node, list_groups(0xffff));
  fabric.run();
  ASSERT_EQ(node.outcomes.size(), 4U);
  for (const Outcome& o : node.outcomes) expect_all_groups(o, 300);
  EXPECT_GE(node.client->counters().busy, 2U);
  EXPECT_EQ(fabric.sa().tables().counters().no_room, node.client->counters().busy);
}

/// Faults that end a table, seen from the client.
class BrokenTable : public ::testing::Test {
 protected:
  void list(std::size_t groups, ClientConfig config = {}) {
    node = &ask_for_list(fabric, groups, config);
  }
  void expect_failure(Errc code, unsigned rmpp_status) {
    ASSERT_EQ(node->outcomes.size(), 1U);
    ASSERT_FALSE(node->outcomes[0]);
    EXPECT_EQ(node->outcomes[0].error().code, code);
    EXPECT_EQ(node->outcomes[0].error().rmpp_status, rmpp_status);
    EXPECT_EQ(node->client->outstanding(), 0U);
    EXPECT_EQ(fabric.sa().tables().size(), 0U);
  }
  SimSa fabric{1};
  SimSa::Node* node = nullptr;
};

TEST_F(BrokenTable, TooBigForTheClientIsStopped) {
  list(500, {.max_table_octets = 500U * 56});
  fabric.run();
  expect_failure(Errc::kNoResources, 1);
  EXPECT_EQ(node->client->counters().tables_given_up, 1U);
  EXPECT_EQ(fabric.sa().tables().counters().stopped, 1U);
  EXPECT_LE(node->client->counters().segments, 1U) << "the first segment says how much it is";
}

TEST_F(BrokenTable, OneThatStopsComingIsGivenUp) {
  list(200);
  int seen = 0;
  fabric.meddle = [&seen](std::uint16_t, wire::SaMad&) { return ++seen <= 3; };
  fabric.run();
  expect_failure(Errc::kTimedOut, 118);
  EXPECT_EQ(node->client->counters().tables_given_up, 1U);
  EXPECT_LT(fabric.now, TimePoint{60s});
}

TEST_F(BrokenTable, SilentReceiverIsGivenUpByTheAdministrator) {
  list(200);
  fabric.run(fabric.now + 12ms);
  node->dead = true;
  const std::uint64_t before = fabric.mads;
  fabric.run();
  EXPECT_EQ(fabric.sa().tables().size(), 0U);
  EXPECT_EQ(fabric.sa().tables().counters().given_up, 1U);
  EXPECT_LT(fabric.mads - before, 300U) << "no storm";
}

TEST_F(BrokenTable, StopAndAbortOfTheAdministratorEndItWithTheirStatus) {
  for (const auto& [type, status] :
       {std::pair{wire::RmppType::kStop, 1U}, std::pair{wire::RmppType::kAbort, 126U}}) {
    SimSa one{1};
    auto& asker = ask_for_list(one, 50);
    int seen = 0;
    one.meddle = [&, type = type, status = status](std::uint16_t, wire::SaMad& mad) {
      if (++seen != 4) return true;
      wire::Rmpp rmpp;
      rmpp.type = type;
      rmpp.status = static_cast<std::uint8_t>(status);
      wire::write_rmpp(mad.hdr, rmpp);
      return true;
    };
    one.run();
    ASSERT_EQ(asker.outcomes.size(), 1U);
    ASSERT_FALSE(asker.outcomes[0]);
    EXPECT_EQ(asker.outcomes[0].error().code, Errc::kProtocol);
    EXPECT_EQ(asker.outcomes[0].error().rmpp_status, status);
    EXPECT_EQ(asker.client->counters().tables_stopped, 1U);
    EXPECT_EQ(describe(asker.outcomes[0].error()),
              "SA table aborted: RMPP status " + std::to_string(status));
  }
}

TEST_F(BrokenTable, PayloadLengthsThatContradictEachOtherAbortIt) {
  struct Row {
    const char* what;
    std::uint32_t segment;
    void (*spoil)(wire::SaHdr&);
  };
  const Row rows[] = {
      {"first tells too little", 1, [](wire::SaHdr& h) { h.rmpp_len.set(221); }},
      {"first tells too much", 1, [](wire::SaHdr& h) { h.rmpp_len.set(h.rmpp_len.host() + 220); }},
      {"last is shorter than told", 15, [](wire::SaHdr& h) { h.rmpp_len.set(20); }},
      {"last comes early", 7,
       [](wire::SaHdr& h) {
         h.rmpp_rtime_flags = 5;
         h.rmpp_len.set(220);
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    SimSa one{1};
    auto& asker = ask_for_list(one, 50);  // 51 records: 2856 octets, 15 segments
    one.meddle = [&row](std::uint16_t, wire::SaMad& mad) {
      if (mad.hdr.rmpp_segment.host() == row.segment) row.spoil(mad.hdr);
      return true;
    };
    one.run();
    ASSERT_EQ(asker.outcomes.size(), 1U);
    ASSERT_FALSE(asker.outcomes[0]);
    EXPECT_EQ(asker.outcomes[0].error().rmpp_status, 119);
    EXPECT_EQ(asker.client->counters().malformed, 1U);
    EXPECT_EQ(one.sa().tables().size(), 0U) << "the ABORT ended it there too";
    EXPECT_EQ(one.sa().tables().counters().stopped, 1U);
  }
}

TEST(Tables, FirstSegmentNeedNotTellTheLength) {
  SimSa fabric{1};
  auto& node = ask_for_list(fabric, 50);
  fabric.meddle = [](std::uint16_t, wire::SaMad& mad) {
    if (mad.hdr.rmpp_segment.host() == 1) mad.hdr.rmpp_len.set(0);
    return true;
  };
  fabric.run();
  expect_all_groups(node.outcomes.at(0), 50);
}

/// The test sends the segments to a receiver by hand: a table of seven whole segments.
TEST(Receiver, TakesWhatItsWindowAllowsAndAcknowledgesAtItsEnd) {
  using Step = RmppReceiver::Step;
  RmppReceiver receiver{4};
  const auto take = [&receiver](std::uint32_t number) {
    wire::Rmpp rmpp;
    rmpp.segment = number;
    if (number == 1) {
      rmpp.flags |= wire::rmpp_flag::kFirst;
      rmpp.len = 7 * wire::kRmppSegmentLen;
    }
    if (number == 7) {
      rmpp.flags |= wire::rmpp_flag::kLast;
      rmpp.len = wire::kRmppSegmentLen;
    }
    return receiver.take(wire::SaMad{}, rmpp, 1U << 20);
  };
  EXPECT_EQ(take(2), Step::kBeyond) << "the first opens the window";
  EXPECT_EQ(take(1), Step::kTaken);
  EXPECT_TRUE(receiver.ack_due());
  EXPECT_EQ(receiver.window_last(), 5U);
  EXPECT_EQ(take(6), Step::kBeyond);
  EXPECT_EQ(take(3), Step::kTaken);
  EXPECT_EQ(take(3), Step::kRepeated);
  EXPECT_FALSE(receiver.ack_due()) << "there is a gap, which a time-out will fill";
  EXPECT_EQ(receiver.in_order(), 1U);
  EXPECT_EQ(take(2), Step::kTaken);
  EXPECT_EQ(receiver.in_order(), 3U);
  EXPECT_EQ(take(1), Step::kRepeated);
  EXPECT_TRUE(receiver.ack_due()) << "the sender did not hear";
  EXPECT_EQ(take(5), Step::kTaken);
  EXPECT_FALSE(receiver.ack_due());
  EXPECT_EQ(take(4), Step::kTaken);
  EXPECT_TRUE(receiver.ack_due());
  EXPECT_EQ(receiver.window_last(), 9U);
  EXPECT_EQ(take(7), Step::kTaken);
  EXPECT_EQ(take(6), Step::kDone);
  EXPECT_EQ(receiver.data().size(), 7 * wire::kSaDataLen);
}

/// The test acknowledges the administrator's segments by hand.
class SenderTest : public AdministratorFixture {
 protected:
  void SetUp() override {
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(status(create(ipoib_mgid(1 + i)), kLidB), 0);
    request = request_mad(list_groups(0xffff), 0x77);  // 21 records: 1176 octets, 6 segments
  }
  /// The administrator sends the first segment, which the client acknowledges.
  void begin(std::uint32_t window_last) {
    ASSERT_TRUE(exchange(request, kLidC));
    ack(1, window_last);
  }
  void ack(std::uint32_t segment, std::uint32_t window_last, std::uint8_t status = 0,
           wire::RmppType type = wire::RmppType::kAck) {
    wire::Rmpp rmpp;
    rmpp.type = type;
    rmpp.segment = segment;
    rmpp.len = window_last;
    rmpp.status = status;
    wire::SaMad mad = request;
    wire::write_rmpp(mad.hdr, rmpp);
    EXPECT_FALSE(exchange(mad, kLidC));
  }
  std::vector<wire::SaHdr> tick() {
    std::vector<wire::SaHdr> out;
    sa->tick(now, [&out](const fabric::MadAddress& to, auto mad) {
      EXPECT_EQ(to.lid, kLidC);
      out.push_back(*wire::read<wire::SaHdr>(mad));
      return Status{};
    });
    return out;
  }
  /// Returns the records of the whole table, whose receiver acknowledges each segment.
  std::vector<std::byte> receive() {
    std::vector<std::byte> records;
    const auto append = [&records](const wire::SaMad& segment) {
      records.insert(records.end(), segment.data.begin(), segment.data.end());
    };
    const auto first = exchange(request, kLidC);
    EXPECT_TRUE(first);
    append(first.value_or(wire::SaMad{}));
    ack(1, 6);
    sa->tick(now, [&append](const fabric::MadAddress&, auto mad) {
      append(*wire::read<wire::SaMad>(mad));
      return Status{};
    });
    EXPECT_EQ(records.size(), 6 * wire::kSaDataLen);
    ack(6, 6);
    EXPECT_EQ(sa->tables().size(), 0U);
    return records;
  }
  wire::SaMad request;
};

TEST_F(SenderTest, SendsWhatTheWindowAllowsAndNoMore) {
  const auto first = exchange(request, kLidC);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->hdr.rmpp_len.host(), 6U * 20 + 21 * 56);
  EXPECT_EQ(first->hdr.rmpp_rtime_flags & 7, 3);
  EXPECT_TRUE(tick().empty());
  ack(1, 4);
  const auto more = tick();
  ASSERT_EQ(more.size(), 3U);
  EXPECT_EQ(more[2].rmpp_segment.host(), 4U);
  EXPECT_EQ(more[2].rmpp_len.host(), 0U);
  ack(4, 0xffff'ffff);
  const auto rest = tick();
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[1].rmpp_rtime_flags & 7, 5);
  EXPECT_EQ(rest[1].rmpp_len.host(), 20U + 176);
  ack(6, 6);
  EXPECT_EQ(sa->tables().size(), 0U);
  EXPECT_FALSE(sa->next_deadline());
  ack(6, 6);
  EXPECT_EQ(sa->counters().ignored_rmpp, 1U);
}

TEST_F(SenderTest, GoesBackAfterATimeOutAndGivesUpAtLast) {
  begin(3);
  EXPECT_EQ(tick().size(), 2U);
  std::size_t resent = 0;
  std::optional<wire::SaHdr> last;
  while (const auto next = sa->next_deadline()) {
    now = std::max(now, *next);
    for (const auto& hdr : tick()) {
      last = hdr;
      ++resent;
    }
  }
  EXPECT_EQ(resent, 7U * 2 + 1) << "retries of the window, then the ABORT";
  EXPECT_EQ(last->rmpp_type, 4);
  EXPECT_EQ(last->rmpp_status, 126);
  EXPECT_EQ(last->mad.method, 0x92);
  EXPECT_EQ(sa->tables().counters().given_up, 1U);
}

TEST_F(SenderTest, LostSegmentIsSentAgainWithThoseBehindIt) {
  begin(4);
  ASSERT_EQ(tick().size(), 3U);
  now += sa->config().tables.timeout;
  const auto again = tick();
  ASSERT_EQ(again.size(), 3U);
  EXPECT_EQ(again[0].rmpp_segment.host(), 2U);
  EXPECT_EQ(again[2].rmpp_segment.host(), 4U);
  EXPECT_EQ(sa->tables().counters().resent, 3U);
}

TEST_F(SenderTest, OvertakenAcknowledgementsChangeNothing) {
  begin(4);
  ASSERT_EQ(tick().size(), 3U);
  ack(4, 6);
  ack(1, 4);  // was sent before
  ack(4, 5);  // a window does not shrink
  const auto rest = tick();
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].rmpp_segment.host(), 5U);
  EXPECT_EQ(rest[1].rmpp_segment.host(), 6U);
  EXPECT_EQ(sa->tables().counters().resent, 0U);
}

TEST_F(SenderTest, AbortOfTheReceiverEndsItWithoutAWord) {
  begin(6);
  ack(1, 0, 118, wire::RmppType::kAbort);
  EXPECT_EQ(sa->tables().size(), 0U);
  EXPECT_EQ(sa->tables().counters().stopped, 1U);
  EXPECT_TRUE(tick().empty());
  EXPECT_FALSE(sa->next_deadline());
}

TEST_F(SenderTest, NonsenseIsAbortedWithItsStatus) {
  struct Row {
    std::uint32_t segment, window;
    std::uint8_t status;
    unsigned said;
  };
  for (const Row& row : {Row{2, 9, 0, 123}, Row{1, 0, 0, 122}, Row{1, 9, 9, 124}}) {
    ASSERT_TRUE(exchange(request, kLidC));
    ack(row.segment, row.window, row.status);
    const auto said = tick();
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(said[0].rmpp_type, 4);
    EXPECT_EQ(said[0].rmpp_status, row.said);
    EXPECT_EQ(sa->tables().size(), 0U);
  }
}

TEST_F(SenderTest, RequestRepeatedGetsTheFirstSegmentAgainUntilItIsAcknowledged) {
  ASSERT_TRUE(exchange(request, kLidC));
  ASSERT_TRUE(exchange(request, kLidC));
  EXPECT_EQ(sa->tables().size(), 1U);
  ack(1, 2);
  EXPECT_FALSE(exchange(request, kLidC));
  EXPECT_EQ(sa->counters().ignored_repeated, 1U);
  ack(0, 0, 1, wire::RmppType::kStop);
  EXPECT_EQ(sa->tables().size(), 0U);
  EXPECT_EQ(sa->tables().counters().stopped, 1U);
}

TEST_F(SenderTest, TablesUnderWayAreBounded) {
  const std::size_t most = sa->config().tables.max_tables_per_port;
  for (std::size_t i = 0; i < most; ++i) {
    request.hdr.mad.tid.set(1000 + i);
    EXPECT_EQ(status_of(*exchange(request, kLidC)), 0);
  }
  request.hdr.mad.tid.set(2000);
  EXPECT_EQ(status_of(*exchange(request, kLidC)), 1) << "busy: asked again later";
  EXPECT_EQ(status_of(*exchange(request, kLidB)), 0) << "others are served";
  EXPECT_EQ(sa->tables().counters().no_room, 1U);
}

TEST_F(SenderTest, OnePortCannotHoldAllTheRoom) {
  AdministratorConfig config = recorded_config();
  config.tables.max_octets_per_port = 3 * sizeof(McMemberRecord);
  restart(config);
  EXPECT_EQ(status(list_groups(0xffff), kLidC), 0);
  EXPECT_EQ(status(create(ipoib_mgid(1)), kLidB), 0);
  EXPECT_EQ(status(list_groups(0xffff), kLidC), 0) << "one record and two";
  EXPECT_EQ(status(list_groups(0xffff), kLidC), 1);
  EXPECT_EQ(status(list_groups(0xffff), kLidB), 0);
}

TEST_F(SenderTest, P16_RecordsOfReceiversThatNeverAcknowledgeAreNotKept) {
  AdministratorConfig config = recorded_config();
  config.tables.max_octets_unheard = 2000;
  restart(config);
  SetUp();
  begin(3);  // Its records are kept, and no longer count as those of a silent receiver.
  for (std::uint16_t lid = 100; lid < 150; ++lid)
    EXPECT_EQ(status_of(*exchange(request, lid)), 0) << lid;
  EXPECT_EQ(sa->tables().octets(), 2U * 21 * 56) << "of the first and of one silent receiver";
  while (sa->tables().size() > 0) {
    now = *sa->next_deadline();
    sa->tick(now, [](const auto&, auto) { return Status{}; });
  }
  EXPECT_EQ(sa->tables().octets(), 0U);
}

TEST_F(SenderTest, P16_RecordsAreFoundAgainAtTheFirstAcknowledgement) {
  const auto kept = receive();
  EXPECT_EQ(sa->tables().counters().found_again, 0U);
  AdministratorConfig config = recorded_config();
  config.tables.max_octets_unheard = 0;
  restart(config);
  SetUp();
  ASSERT_TRUE(exchange(request, kLidC));
  EXPECT_EQ(sa->tables().octets(), 0U);
  now += sa->config().tables.timeout;
  EXPECT_EQ(tick().size(), 1U) << "the first segment, again";
  EXPECT_EQ(receive(), kept) << "the receiver sees no difference";
  EXPECT_EQ(sa->tables().counters().found_again, 1U);
}

TEST_F(SenderTest, P16_TableWhoseRecordsChangedIsAborted) {
  AdministratorConfig config = recorded_config();
  config.tables.max_octets_unheard = 0;
  restart(config);
  SetUp();
  ASSERT_TRUE(exchange(request, kLidC));
  ASSERT_EQ(status(create(ipoib_mgid(100)), kLidB), 0);
  ack(1, 10);
  const auto said = tick();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].rmpp_type, 4);
  EXPECT_EQ(said[0].rmpp_status, 1);
  EXPECT_EQ(sa->tables().counters().changed, 1U);
  EXPECT_EQ(sa->tables().size(), 0U);
}

TEST_F(SenderTest, P16_OldestSilentReceiverGivesWay) {
  AdministratorConfig config = recorded_config();
  config.tables.max_tables = 4;
  config.tables.max_octets_unheard = 2000;
  restart(config);
  SetUp();
  ASSERT_TRUE(exchange(request, kLidC));
  ack(0, 6);  // It acknowledges nothing, and opens no window.
  EXPECT_TRUE(tick().empty());
  for (std::uint16_t lid = 100; lid < 104; ++lid)
    EXPECT_EQ(status_of(*exchange(request, lid)), 0) << lid;
  EXPECT_EQ(sa->tables().counters().gave_way, 1U);
  restart(config);
  SetUp();
  begin(3);
  for (std::uint16_t lid = 100; lid < 104; ++lid)
    EXPECT_EQ(status_of(*exchange(request, lid)), 0) << lid;
  EXPECT_EQ(sa->tables().size(), 4U);
  EXPECT_EQ(sa->tables().counters().gave_way, 1U);
  EXPECT_EQ(tick().size(), 2U) << "the one that acknowledged is still served";
}

TEST_F(SenderTest, PortThatTakesNoMoreIsTriedAgain) {
  begin(6);
  int tries = 0;
  sa->tick(now, [&tries](const auto&, auto) -> Status {
    ++tries;
    return fail(Errc::kUnavailable, "full");
  });
  EXPECT_EQ(tries, 1);
  EXPECT_GT(*sa->next_deadline(), now);
  now = *sa->next_deadline();
  EXPECT_EQ(tick().size(), 5U);
}

}  // namespace
}  // namespace ipoib::sa::test
