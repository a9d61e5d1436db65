// SPDX-License-Identifier: BSD-3-Clause
// Alternate paths of RC queue pairs of the verbs driver.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/link_of_queue.h"
#include "tests/unit/drivers/verbs/verbs_connected_fixture.h"

namespace ipoib::verbs {
namespace {

using fabric::QueueError;
using fabric::QueueEvent;
using fabric::QueueState;
using fabric::Transport;
using namespace std::chrono_literals;

/// The ports have two LIDs each. Paths between the second ones are the alternate paths.
class VerbsAlternateTest : public VerbsConnectedTest {
 protected:
  void prepare(fake_verbs::Device& device, bool first) override {
    device.attr.orig_attr.device_cap_flags |= IBV_DEVICE_AUTO_PATH_MIG;
    device.ports[0].attr.lid = first ? 0x10 : 0x20;
    device.ports[0].attr.lmc = 1;
  }
  static Status load(const End& end, std::uint16_t dlid) {
    fabric::AlternatePath alternate;
    alternate.path.dlid = dlid;
    alternate.path.src_path_bits = dlid & 1;
    return end.node->hca->load_alternate(*end.queue, alternate);
  }
  /// `dlid`: that of the path which the queue uses now.
  void expect_migrated(const End& end, std::uint16_t dlid) {
    const auto heard = news(end);
    ASSERT_EQ(heard.size(), 1U);
    EXPECT_EQ(heard[0].kind, QueueEvent::Kind::kMigrated);
    EXPECT_EQ(heard[0].qpn, end.queue->qpn());
    EXPECT_EQ(heard[0].path.dlid, dlid);
  }
  /// The retries on the path in use are exhausted.
  void expect_failover(std::uint16_t broken) {
    fabric_.cut(broken);
    EXPECT_EQ(send(a_, {700}), 1);
    fabric_.time_passes(3);
    EXPECT_EQ(take(receive(b_)), expected({700}));
    expect_migrated(a_, broken ^ 1);
    expect_migrated(b_, broken ^ 0x31);
    expect_talk();
    EXPECT_EQ(info(a_).state, QueueState::kReadyToSend);
  }
};

TEST_P(VerbsAlternateTest, C15_QueuesMigrateTogetherAndTakeAnotherAlternate) {
  ASSERT_TRUE(load(a_, 0x21));
  ASSERT_TRUE(load(b_, 0x11));
  expect_talk();  // It arms the device.
  expect_failover(0x20);
  // The next alternate is the first path, which works again.
  fabric_.cut(0x20, false);
  ASSERT_TRUE(load(a_, 0x21));
  ASSERT_TRUE(load(a_, 0x20));  // Replaces the one before.
  ASSERT_TRUE(load(b_, 0x10));
  expect_talk();
  expect_failover(0x21);
}

// The completions of messages that were posted before the migration come after it, and are no proof for
// a link that the peer has followed. It seeks the next path at that of a later message.
TEST_P(VerbsAlternateTest, C15_OnlyAMessageOnTheNewPathLetsALinkSeekTheNextOne) {
  link::LinkOfQueue link{[this] { return info(a_); }};
  ASSERT_TRUE(load(a_, 0x21));
  ASSERT_TRUE(load(b_, 0x11));
  expect_talk();
  fabric_.cut(0x20);
  EXPECT_EQ(send(a_, {700, 60, 61}), 3);
  fabric_.time_passes(3);
  expect_migrated(a_, 0x21);
  EXPECT_EQ(info(a_).counters.tx_messages, info(a_).counters.tx_done + 3) << "not polled yet";
  link.migrated();
  EXPECT_EQ(link.paths_of_peer(110ms), 1U);
  EXPECT_TRUE(receive(a_).empty());
  EXPECT_EQ(link.paths_of_peer(110ms), 1U) << "late ACKs";
  EXPECT_EQ(send(a_, {62}), 1);
  EXPECT_EQ(link.paths_of_peer(110ms), 1U) << "not acknowledged yet";
  EXPECT_TRUE(receive(a_).empty());
  EXPECT_EQ(link.paths_of_peer(110ms), 2U);
  EXPECT_EQ(take(receive(b_)).size(), 4U);
}

// The next path is loaded while the event of the migration waits.
TEST_P(VerbsAlternateTest, C15_LoadAfterAMigrationDoesNotHideThePathInUse) {
  ASSERT_TRUE(load(a_, 0x21));
  ASSERT_TRUE(load(b_, 0x11));
  expect_talk();
  fabric_.cut(0x20);
  EXPECT_EQ(send(a_, {700}), 1);
  fabric_.time_passes(3);
  ASSERT_TRUE(load(a_, 0x20));
  ASSERT_TRUE(load(b_, 0x10));
  expect_migrated(a_, 0x21);
  expect_migrated(b_, 0x11);
  EXPECT_EQ(take(receive(b_)), expected({700}));
  fabric_.cut(0x20, false);
  expect_talk();
  expect_failover(0x21);
}

TEST_P(VerbsAlternateTest, U22_AnAlternateWithoutItsRateEndsTheQueueOnAFasterPort) {
  const auto load_with_rate = [this] {
    fabric::AlternatePath alternate;
    alternate.path.dlid = 0x21;
    alternate.path.rate = kRate40Gbps;
    alternate.path.src_path_bits = 1;
    ASSERT_TRUE(a_.node->hca->load_alternate(*a_.queue, alternate));
  };
  load_with_rate();
  set_speed(*a_.node, kSpeed100Gbps);
  EXPECT_TRUE(news(a_).empty()) << "it has its rate";
  rejoin();
  set_speed(*a_.node, kSpeed10Gbps);
  load_with_rate();
  EXPECT_TRUE(news(a_).empty());
  set_speed(*a_.node, kSpeed100Gbps);
  expect_failed(a_, QueueError::kInvalidRequest);
}

TEST_P(VerbsAlternateTest, C15_AnAlternateBetweenOtherLidsThanThePeersFails) {
  fabric::AlternatePath alternate;
  alternate.path.dlid = 0x21;  // From LID 0x10, to which the peer's does not lead.
  ASSERT_TRUE(a_.node->hca->load_alternate(*a_.queue, alternate));
  ASSERT_TRUE(load(b_, 0x11));
  expect_talk();
  fabric_.cut(0x20);
  EXPECT_EQ(send(a_, {700}), 1);
  fabric_.time_passes(10);
  EXPECT_TRUE(receive(b_).empty());
  EXPECT_TRUE(receive(a_).empty());
  EXPECT_EQ(info(a_).error, QueueError::kRetryExceeded);
}

TEST_P(VerbsAlternateTest, C15_WithoutAnAlternateThePathFails) {
  fabric_.cut(0x20);
  EXPECT_EQ(send(a_, {700}), 1);
  fabric_.time_passes(3);
  EXPECT_TRUE(receive(a_).empty());
  expect_failed(a_, QueueError::kRetryExceeded);
  EXPECT_EQ(load(a_, 0x21).error().code, Errc::kRefused);
}

TEST_P(VerbsAlternateTest, C15_PathsThatCannotBeAreRefused) {
  EXPECT_EQ(load(a_, 0).error().code, Errc::kInvalidArgument);
  fabric::AlternatePath alternate;
  alternate.path.dlid = 0x21;
  alternate.ack_timeout = 32;
  EXPECT_EQ(a_.node->hca->load_alternate(*a_.queue, alternate).error().code,
            Errc::kInvalidArgument);
  expect_talk();
}

INSTANTIATE_TEST_SUITE_P(Ways, VerbsAlternateTest,
                         testing::Values(Way{Transport::kRc, true}, Way{Transport::kRc, false}),
                         name_of);

}  // namespace
}  // namespace ipoib::verbs
