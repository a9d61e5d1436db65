// SPDX-License-Identifier: BSD-3-Clause
// Alternate paths of RC queue pairs, between ports with two LIDs each: arming, migration by either
// end, the next path, and packets that must not migrate anything.
#include <optional>
#include <set>

#include "tests/support/link_of_queue.h"
#include "tests/unit/drivers/soft/connected_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::QueueError;
using fabric::QueueState;
using Kind = fabric::QueueEvent::Kind;
using namespace std::chrono_literals;

/// The base LIDs; the first path is between them.
constexpr std::uint16_t kBase[2] = {4, 6};

wire::Lrh lrh_of(std::span<const std::byte> frame) {
  return *wire::read<wire::Lrh>(frame, sizeof(EthHdr));
}
bool mig_req(std::span<const std::byte> frame) {
  return (bth_of(frame).flags & wire::Bth::kMigReq) != 0;
}

class PathMigration : public ConnectedFixture {
 protected:
  static fabric::AhAttr path_to(int side, unsigned bit, bool global = false) {
    fabric::AhAttr path;
    path.dlid = static_cast<std::uint16_t>(kBase[side] + bit);
    path.src_path_bits = static_cast<std::uint8_t>(bit);
    path.global = global;
    path.dgid = wire::Gid::of(wire::kDefaultGidPrefix, kPeerGuid[side]);
    return path;
  }
  void make_ports() {
    for (int side : {0, 1}) {
      SoftHcaConfig one = config(side);
      one.attr.lid = kBase[side];
      one.attr.lmc = 1;
      peers[side].hca = SoftHca::create(one).value();
    }
  }
  void start(const Connection& setup = kSetup) {
    make_ports();
    for (int side : {0, 1}) peers[side].queue = make_queue(side, setup);
    for (int side : {0, 1}) {
      fabric::ReadyToReceive attr = receive_attr(side, setup);
      attr.path = path_to(1 - side, 0, setup.global);
      fabric::ReadyToSend send = setup.send;
      send.tx_psn = setup.first_psn[side];
      ASSERT_TRUE(peers[side].hca->set_ready_to_receive(*peers[side].queue, attr));
      ASSERT_TRUE(peers[side].hca->set_ready_to_send(*peers[side].queue, send));
    }
    global_ = setup.global;
  }
  /// The queue's worker takes the path when it polls.
  Status load(int side, unsigned bit) {
    return peers[side].hca->load_alternate(
        *peers[side].queue, {.path = path_to(1 - side, bit, global_), .ack_timeout = 8});
  }
  /// Both ends load the path between their LIDs with this bit, and exchange a message.
  void arm(unsigned bit) {
    for (int side : {0, 1}) {
      ASSERT_TRUE(load(side, bit));
      peers[side].poll();
    }
    expect_talk(0);
  }
  void start_armed(const Connection& setup = kSetup) {
    start(setup);
    arm(1);
  }
  /// Sends one message from the side; the other one receives it.
  void expect_talk(int from) {
    const Bytes sent = pattern(++number_, 700);
    ASSERT_TRUE(send(from, sent));
    std::vector<Bytes> got;
    EXPECT_TRUE(run(
        [&] {
          for (Bytes& m : receive(1 - from)) got.push_back(std::move(m));
          return !got.empty() && idle(from);
        },
        kLimit));
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0], sent);
  }
  /// No message waits for an ACK.
  [[nodiscard]] bool idle(int side) const {
    const auto& c = peers[side].info().counters;
    return c.tx_done == c.tx_messages;
  }
  /// Both ends send numbered messages for some time. Each arrives once and in order.
  void exchange(unsigned steps, const std::function<void(unsigned step)>& at) {
    std::uint32_t sent[2] = {0, 0}, got[2] = {0, 0};
    const auto turn = [&] {
      for (int side : {0, 1})
        for (const Bytes& m : receive(side)) {
          ASSERT_EQ(m, numbered(got[side])) << "side " << side;
          ++got[side];
        }
    };
    for (unsigned step = 0; step < steps; ++step) {
      at(step);
      for (int side : {0, 1})
        if (step % 5 == 0 && send(side, numbered(sent[side]))) ++sent[side];
      turn();
      ASSERT_FALSE(HasFatalFailure());
      SimHcaPair::step();
    }
    EXPECT_TRUE(run(
        [&] {
          turn();
          return HasFatalFailure() || (idle(0) && idle(1));
        },
        kLimit));
    for (int side : {0, 1}) EXPECT_EQ(got[side], sent[1 - side]);
  }
  static Bytes numbered(std::uint32_t number) { return pattern(number, 4 + number * 997 % 9000); }
  /// `bit`: that of the path which the queue uses now.
  void expect_migrated(int side, unsigned bit = 1) {
    const auto event = peers[side].hca->next_queue_event();
    ASSERT_TRUE(event) << "side " << side;
    EXPECT_EQ(event->kind, Kind::kMigrated);
    EXPECT_EQ(event->qpn, peers[side].queue->qpn());
    EXPECT_EQ(event->path, path_to(1 - side, bit, global_));
    EXPECT_FALSE(peers[side].hca->next_queue_event());
    EXPECT_EQ(peers[side].info().state, QueueState::kReadyToSend);
  }
  /// Returns the next frame of the side, which sends a message.
  Bytes next_frame(int from) {
    EXPECT_TRUE(send(from, pattern(++number_, 700)));
    return cut(1 - from).at(0);
  }
  void put_and_poll(int to, const Bytes& frame) {
    put(to, frame);
    peers[to].poll();
  }
  /// Corrects the ICRC of a frame after it sets its SLID.
  static Bytes from_lid(Bytes frame, std::uint16_t slid) {
    wire::Lrh lrh = lrh_of(frame);
    lrh.slid.set(slid);
    std::memcpy(frame.data() + sizeof(EthHdr), &lrh, sizeof(lrh));
    edit(frame, [](wire::Bth&) {});
    return frame;
  }
  static Bytes with_mig_req(Bytes frame) {
    edit(frame, [](wire::Bth& bth) { bth.flags |= wire::Bth::kMigReq; });
    return frame;
  }

  static constexpr unsigned kLimit = 10'000;  // 0.1 s
  static constexpr Connection kSetup{.send = {.retry_count = 2, .ack_timeout = 8}};
  bool global_ = false;
  std::uint32_t number_ = 0;
};

TEST_F(PathMigration, C15_MigReqSaysWhichEndsHaveAnAlternatePath) {
  start();
  struct Step {
    int loads;  // The side that loads a path first; -1: none.
    bool bits[2];
  };
  // The queue of side 1 sends ACKs only. Its bit is 0 from its own load on.
  for (const Step& step :
       {Step{-1, {true, true}}, Step{1, {true, false}}, Step{0, {false, false}}}) {
    ASSERT_TRUE(step.loads < 0 || load(step.loads, 1));
    for (int side : {0, 1}) peers[side].poll();
    for (int round = 0; round < 2; ++round) {
      std::vector<Bytes> frames;
      seen = &frames;
      expect_talk(0);
      seen = nullptr;
      ASSERT_EQ(frames.size(), 2U);
      EXPECT_EQ(mig_req(frames[0]), step.bits[0]);
      EXPECT_EQ(mig_req(frames[1]), step.bits[1]);
      EXPECT_EQ(lrh_of(frames[0]).slid.host(), kBase[0]);
      EXPECT_EQ(lrh_of(frames[0]).dlid.host(), kBase[1]);
    }
  }
  for (int side : {0, 1}) {
    EXPECT_FALSE(peers[side].hca->next_queue_event());
    EXPECT_EQ(peers[side].all_drops(), 0U);
  }
}

// Whichever direction of the first path breaks, both ends go on over the other LIDs.
TEST_F(PathMigration, C15_TrafficGoesOnOverTheAlternatePath) {
  for (const bool global : {false, true})
    for (const std::set<std::uint16_t>& broken :
         {std::set<std::uint16_t>{4, 6}, std::set<std::uint16_t>{4}, std::set<std::uint16_t>{6}}) {
      SCOPED_TRACE(testing::Message() << "global " << global << ", broken " << *broken.begin()
                                      << " of " << broken.size());
      clear();
      broken_lids.clear();
      Connection setup = kSetup;
      setup.global = global;
      start_armed(setup);
      std::vector<Bytes> frames;
      exchange(3000, [&](unsigned step) {
        if (step == 1000) broken_lids = broken;
        if (step == 2900) seen = &frames;
      });
      seen = nullptr;
      for (int side : {0, 1}) {
        expect_migrated(side);
        EXPECT_EQ(peers[side].info().counters.tx_flushed, 0U);
      }
      EXPECT_FALSE(frames.empty());
      for (const Bytes& frame : frames) {
        const bool to_first = lrh_of(frame).dlid.host() == kBase[0] + 1;
        EXPECT_EQ(lrh_of(frame).dlid.host(), kBase[to_first ? 0 : 1] + 1);
        EXPECT_EQ(lrh_of(frame).slid.host(), kBase[to_first ? 1 : 0] + 1);
        EXPECT_TRUE(mig_req(frame));
      }
    }
}

// One end that sends is enough: the other one follows its packets.
TEST_F(PathMigration, C15_EndWithoutTrafficFollows) {
  for (const int sender : {0, 1}) {
    clear();
    broken_lids.clear();
    start_armed();
    broken_lids = {kBase[1 - sender]};
    expect_talk(sender);
    expect_migrated(0);
    expect_migrated(1);
    EXPECT_EQ(peers[sender].info().counters.timeouts, 3U) << "the retries, and then once more";
    EXPECT_EQ(peers[1 - sender].info().counters.timeouts, 0U);
  }
}

// The ACKs of messages that were posted before the migration come after it, and are no proof for a link
// that the peer has followed. It seeks the next path at that of a later message.
TEST_F(PathMigration, C15_OnlyAMessageOnTheNewPathLetsALinkSeekTheNextOne) {
  link::LinkOfQueue link{[this] { return peers[0].info(); }};
  start_armed();
  broken_lids = {kBase[0], kBase[1]};
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(send(0, pattern(i, 700)));
  std::optional<fabric::QueueEvent> event;
  ASSERT_TRUE(run([&] { return (event = peers[0].hca->next_queue_event()).has_value(); }, kLimit));
  ASSERT_EQ(event->kind, Kind::kMigrated);
  EXPECT_FALSE(idle(0));
  link.migrated();
  EXPECT_EQ(link.paths_of_peer(110ms), 1U);
  ASSERT_TRUE(run([&] { return idle(0); }, kLimit));
  EXPECT_EQ(link.paths_of_peer(110ms), 1U) << "late ACKs";
  ASSERT_TRUE(send(0, pattern(3, 700)));
  EXPECT_EQ(link.paths_of_peer(110ms), 1U) << "not acknowledged yet";
  ASSERT_TRUE(run([&] { return idle(0); }, kLimit));
  EXPECT_EQ(link.paths_of_peer(110ms), 2U);
  EXPECT_EQ(receive(1).size(), 4U);
}

TEST_F(PathMigration, C15_NextPathIsLoadedAndUsed) {
  start_armed();
  const std::size_t handles = peers[0].hca->address_handles();
  for (unsigned n = 0; n < 5; ++n) {
    const unsigned in_use = n % 2;
    broken_lids = {static_cast<std::uint16_t>(kBase[0] + in_use),
                   static_cast<std::uint16_t>(kBase[1] + in_use)};
    expect_talk(static_cast<int>(n / 2 % 2));
    expect_migrated(0, 1 - in_use);
    expect_migrated(1, 1 - in_use);
    // The first path works again, and is the next alternate.
    broken_lids.clear();
    arm(in_use);
    EXPECT_LE(peers[0].hca->address_handles(), handles);
  }
  EXPECT_EQ(peers[0].hca->address_handles(), handles);
  for (int side : {0, 1}) {
    peers[side].hca->destroy_connected_queue(*peers[side].queue);
    peers[side].poll();
    EXPECT_FALSE(peers[side].hca->next_queue_event());
    EXPECT_EQ(peers[side].hca->address_handles(), 0U);
  }
}

TEST_F(PathMigration, C15_PathLoadedLastIsUsed) {
  start_armed();
  for (unsigned n = 0; n < 100; ++n) ASSERT_TRUE(load(0, n % 2));
  expect_talk(1);
  EXPECT_TRUE(load(0, 1));
  expect_talk(1);
  EXPECT_EQ(peers[0].hca->address_handles(), 3U) << "in use, loaded, and the one before";
  broken_lids = {kBase[1]};
  expect_talk(0);
  expect_migrated(0);
  expect_migrated(1);
}

TEST_F(PathMigration, C15_LossOfBothPathsFailsInTime) {
  start_armed();
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(send(0, pattern(i, 3000)));
  broken_lids = {4, 5, 6, 7};
  const std::uint64_t begin = sim_tsc;
  EXPECT_TRUE(run([&] { return peers[0].info().state == QueueState::kError; }, kLimit));
  EXPECT_GE(sim_tsc - begin, 6 * wire::ack_timeout_ns(8)) << "three times on each path";
  EXPECT_LE(sim_tsc - begin, 7 * wire::ack_timeout_ns(8));
  EXPECT_EQ(peers[0].info().error, QueueError::kRetryExceeded);
  EXPECT_EQ(peers[0].info().counters.tx_flushed, 5U);
  EXPECT_EQ(peers[0].hca->next_queue_event()->kind, Kind::kMigrated);
  EXPECT_EQ(peers[0].hca->next_queue_event()->kind, Kind::kError);
  EXPECT_FALSE(peers[0].hca->next_queue_event());
  EXPECT_EQ(load(0, 0).error().code, Errc::kRefused);
}

// The peer has loaded none, so it would not follow.
TEST_F(PathMigration, C15_PathThatOneEndLoadedIsNotUsed) {
  start();
  ASSERT_TRUE(load(0, 1));
  expect_talk(0);
  broken_lids = {kBase[1]};
  ASSERT_TRUE(send(0, pattern(1, 700)));
  EXPECT_TRUE(run([&] { return peers[0].info().state == QueueState::kError; }, kLimit));
  EXPECT_EQ(peers[0].hca->next_queue_event()->kind, Kind::kError);
  EXPECT_EQ(peers[1].all_drops(), 0U);
}

TEST_F(PathMigration, C15_NaksExhaustTheRetriesToo) {
  start_armed();
  ASSERT_TRUE(send(0, pattern(1, 700)));
  ASSERT_TRUE(send(0, pattern(2, 700)));
  auto frames = cut(1);
  ASSERT_EQ(frames.size(), 2U);
  put_and_poll(1, frames[1]);
  const Bytes nak = cut(0).at(0);
  EXPECT_EQ(aeth_of(nak).syndrome, wire::Aeth::kNakSequence);
  for (unsigned n = 0; n < 3; ++n) {
    EXPECT_FALSE(peers[0].hca->next_queue_event());
    put_and_poll(0, nak);
    frames = cut(1);
    ASSERT_EQ(frames.size(), 2U);
  }
  expect_migrated(0);
  for (const Bytes& frame : frames) {
    EXPECT_TRUE(mig_req(frame));
    EXPECT_EQ(lrh_of(frame).slid.host(), kBase[0] + 1);
    put(1, frame);
  }
  peers[1].poll();
  EXPECT_EQ(receive(1).size(), 2U);
  expect_migrated(1);
}

TEST_F(PathMigration, C15_PacketsOfOtherPathsMigrateNothing) {
  start_armed();
  const Bytes good = next_frame(0);
  ASSERT_FALSE(mig_req(good));
  const Bytes moved = from_lid(with_mig_req(good), kBase[0] + 1);
  struct Case {
    const char* name;
    Bytes frame;
    Drop reason;
  };
  Bytes corrupt = moved;
  corrupt.back() ^= std::byte{1};
  Bytes partition = moved;
  edit(partition, [](wire::Bth& bth) { bth.pkey.set(0x8001); });
  for (const Case& c :
       {Case{"third LID", from_lid(with_mig_req(good), 12), Drop::kIbPath},
        Case{"path in use", with_mig_req(good), Drop::kIbPath},
        Case{"no MigReq", from_lid(good, kBase[0] + 1), Drop::kIbPath},
        Case{"third LID, no MigReq", from_lid(good, 12), Drop::kIbPath},
        Case{"ICRC", corrupt, Drop::kIbIcrc}, Case{"P_Key", partition, Drop::kIbPkey}}) {
    SCOPED_TRACE(c.name);
    const std::uint64_t before = peers[1].drops(c.reason);
    put_and_poll(1, c.frame);
    EXPECT_EQ(peers[1].drops(c.reason), before + 1);
    EXPECT_TRUE(cut(0).empty());
    EXPECT_FALSE(peers[1].hca->next_queue_event());
  }
  EXPECT_TRUE(receive(1).empty());
  put_and_poll(1, good);
  EXPECT_EQ(receive(1).size(), 1U) << "the path in use is still the first one";
  EXPECT_FALSE(mig_req(cut(0).at(0)));
  // A packet with the MigReq and the SLID of the alternate path migrates the queue.
  put_and_poll(1, moved);
  expect_migrated(1);
  EXPECT_EQ(lrh_of(cut(0).at(0)).dlid.host(), kBase[0] + 1) << "the ACK of a duplicate";
}

TEST_F(PathMigration, C15_UnarmedQueueIsNotMigratedByItsPeer) {
  start();
  const Bytes moved = from_lid(next_frame(0), kBase[0] + 1);
  ASSERT_TRUE(mig_req(moved));
  put_and_poll(1, moved);
  ASSERT_TRUE(load(1, 1));
  peers[1].poll();
  put_and_poll(1, moved);
  EXPECT_EQ(peers[1].drops(Drop::kIbPath), 2U);
  Bytes corrupt = next_frame(0);
  edit(corrupt, [](wire::Bth& bth) { bth.flags &= 0xff ^ wire::Bth::kMigReq; });
  corrupt.back() ^= std::byte{1};
  put_and_poll(1, corrupt);
  EXPECT_EQ(peers[1].drops(Drop::kIbIcrc), 1U);
  put_and_poll(1, moved);
  EXPECT_EQ(peers[1].drops(Drop::kIbPath), 3U) << "a corrupt packet arms nothing";
  EXPECT_FALSE(peers[1].hca->next_queue_event());
}

// The queue changes its path while a command to load another one is on its way to the worker.
TEST_F(PathMigration, C15_LoadThatMeetsAMigrationIsVoid) {
  start_armed();
  put(1, from_lid(with_mig_req(next_frame(0)), kBase[0] + 1));
  ASSERT_TRUE(load(1, 0));
  peers[1].poll();
  EXPECT_EQ(load(1, 0).error().code, Errc::kRefused) << "until the event is read";
  expect_migrated(1);
  const Bytes ack = cut(0).at(0);
  EXPECT_TRUE(mig_req(ack));
  EXPECT_EQ(lrh_of(ack).slid.host(), kBase[1] + 1);
  EXPECT_EQ(peers[1].hca->address_handles(), 1U);
  ASSERT_TRUE(load(1, 0));
  peers[1].poll();
  EXPECT_FALSE(mig_req(next_frame(1)));
  (void)receive(1);
}

TEST_F(PathMigration, C15_PathsThatCannotBeAreRefused) {
  start();
  const auto refused = [&](int side, const fabric::AlternatePath& alternate) {
    const Status done = peers[side].hca->load_alternate(*peers[side].queue, alternate);
    return done ? std::optional<Errc>{} : done.error().code;
  };
  fabric::AlternatePath alternate{.path = path_to(1, 1)};
  alternate.ack_timeout = 32;
  EXPECT_EQ(refused(0, alternate), Errc::kInvalidArgument);
  alternate.ack_timeout = 31;
  for (const std::uint16_t dlid : std::initializer_list<std::uint16_t>{0, 0xc001, 0xffff}) {
    alternate.path.dlid = dlid;
    EXPECT_EQ(refused(0, alternate), Errc::kInvalidArgument);
  }
  alternate.path = path_to(1, 1);
  alternate.path.src_path_bits = 2;
  EXPECT_EQ(refused(0, alternate), Errc::kInvalidArgument) << "the LMC is 1";
  alternate.path.src_path_bits = 1;
  alternate.path.sl = 16;
  EXPECT_EQ(refused(0, alternate), Errc::kInvalidArgument);
  EXPECT_EQ(peers[0].hca->address_handles(), 1U);
  peers[0].poll();
  EXPECT_TRUE(mig_req(next_frame(0)));

  fabric::ConnectedQueue* const young = make_queue(0, {});
  EXPECT_EQ(peers[0].hca->load_alternate(*young, {.path = path_to(1, 1)}).error().code,
            Errc::kRefused);
  clear();
  start({.transport = fabric::Transport::kUc});
  EXPECT_EQ(load(0, 1).error().code, Errc::kRefused);
}

// Frames are lost, repeated and reordered, and each path breaks in turn.
TEST_F(PathMigration, C15_EveryMessageArrivesOnceWhilePathsBreak) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    clear();
    broken_lids.clear();
    faults = {};
    random.seed(seed);
    Connection setup = kSetup;
    setup.send.retry_count = 7;
    start_armed(setup);
    faults = {.loss = 0.01, .repetition = 0.01, .reordering = 0.01};
    unsigned in_use = 0, migrations = 0;
    exchange(12'000, [&](unsigned step) {
      if (step % 3000 == 500)
        broken_lids = {static_cast<std::uint16_t>(kBase[0] + in_use),
                       static_cast<std::uint16_t>(kBase[1] + in_use)};
      if (step % 3000 != 2500) return;
      for (int side : {0, 1})
        while (peers[side].hca->next_queue_event()) ++migrations;
      broken_lids.clear();
      for (int side : {0, 1}) ASSERT_TRUE(load(side, in_use));
      in_use ^= 1;
    });
    EXPECT_EQ(migrations, 8U);
    for (int side : {0, 1}) EXPECT_EQ(peers[side].info().state, QueueState::kReadyToSend);
  }
}

}  // namespace
}  // namespace ipoib::soft
