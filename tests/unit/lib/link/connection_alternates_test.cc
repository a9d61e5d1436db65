// SPDX-License-Identifier: BSD-3-Clause
// Alternate paths of connections between two interfaces whose ports have two LIDs each.
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using wire::ApStatus;
using Kind = fabric::QueueEvent::Kind;

class ConnectionAlternates : public testing::Test {
 protected:
  void SetUp() override { give_lids(a, b, 1); }
  void connect() {
    a.meet(b);
    a.talk(b);
    b.meet(a);
    sim.run_for(2s);
    ASSERT_EQ(a.up().size(), 1U);
    ASSERT_EQ(b.up().size(), 1U);
  }
  /// Each connection has the next of four LIDs as its alternate path.
  void connect_by_four_lids() {
    give_lids(a, b, 2);
    connect();
    sim.run_for(2s);
  }
  static FakeConnectedQueue& queue(SimSide& side) { return side.queue(side.up().at(0).qpn); }
  /// Sends a LAP from a's port as if from the other end of the connection, for these LIDs.
  ApStatus lap(std::uint16_t from, std::uint16_t to) {
    const cm::Handle handle = a.up().at(0).handle;
    cm::AlternateParams asked;
    asked.path.local_lid.set(from);
    asked.path.remote_lid.set(to);
    asked.path.local_gid = a.address().gid;
    asked.path.remote_gid = b.address().gid;
    asked.path.set_sl(3);
    asked.path.flow_rate = wire::CmPath::pack_flow_rate(0, 6);
    asked.path.set_subnet_local(true);
    EXPECT_TRUE(a.manager->load_alternate(handle, asked, sim.now));
    sim.run_for(10ms);
    return answers().back();
  }
  /// The side's queue has changed to the path that was loaded last, or to the one `before` it.
  static void migrate(SimSide& side, TimePoint now, std::size_t before = 0) {
    const auto& loaded = queue(side).alternates;
    const fabric::AhAttr path =
        loaded.size() > before ? loaded[loaded.size() - 1 - before].path : fabric::AhAttr{};
    side.connections->on_queue_event({queue(side).qpn(), Kind::kMigrated, path}, now);
  }
  [[nodiscard]] std::vector<ApStatus> answers() const {
    std::vector<ApStatus> all;
    for (const auto& apr : sim.all_sent<wire::CmApr>()) all.push_back(apr.status);
    return all;
  }
  /// Changes each LAP on its way.
  template <class Change>
  void change_laps(Change change) {
    change_each<wire::CmLap>(sim, change);
  }

  SimConnections sim;
  SimSide& a = sim.add(rc());
  SimSide& b = sim.add(rc());
};

TEST_F(ConnectionAlternates, C15_BothEndsLoadTheSecondPathOfTheSa) {
  connect();
  ASSERT_EQ(queue(a).alternates.size(), 1U);
  ASSERT_EQ(queue(b).alternates.size(), 1U);
  EXPECT_EQ(queue(a).alternates[0].path.dlid, 0x21);
  EXPECT_EQ(queue(a).alternates[0].path.src_path_bits, 1);
  EXPECT_EQ(queue(a).alternates[0].path.sl, 3);
  EXPECT_EQ(queue(a).alternates[0].ack_timeout, 12);
  EXPECT_EQ(queue(b).alternates[0].path.dlid, 0x11);
  EXPECT_EQ(queue(b).alternates[0].path.src_path_bits, 1);
  EXPECT_EQ(queue(b).alternates[0].path.sl, 3);
  EXPECT_EQ(queue(b).alternates[0].path.rate, 6);
  EXPECT_EQ(a.connections->counters().alternates, 1U);
  EXPECT_EQ(answers(), std::vector{ApStatus::kLoaded});
}

TEST_F(ConnectionAlternates, C18_AnAlternateHasTheAckTimeoutOfItsOwnLifetime) {
  a.path_lifetime = 16;
  a.second_lifetime = 8;
  a.hca.delay = 11;
  sim.meddle = [](std::uint16_t, std::uint16_t, wire::CmMad& mad) {
    if (mad.attr() != wire::CmRep::kAttr) return true;
    auto rep = wire::cm_message<wire::CmRep>(mad);
    rep.set_target_ack_delay(1);
    mad = wire::make_cm_mad(mad.hdr.tid.host(), rep);
    return true;
  };
  connect();
  EXPECT_EQ(queue(a).send.ack_timeout, 12);
  EXPECT_EQ(queue(a).alternates.at(0).ack_timeout, 9);
  EXPECT_EQ(sim.all_sent<wire::CmLap>().at(0).ack_timeout(), 11) << "with this side's delay";
  EXPECT_EQ(queue(b).alternates.at(0).ack_timeout, 11);
}

/// With four LIDs, the path after the next one is not that in use. The peer follows by the first packet
/// that reaches it, which may be lost.
TEST_F(ConnectionAlternates, C15_NextPathWaitsUntilThePeerFollows) {
  connect_by_four_lids();
  ASSERT_EQ(queue(b).alternates.size(), 1U);
  migrate(a, sim.now);
  sim.run_for(500ms);
  EXPECT_EQ(queue(b).alternates.size(), 1U) << "it would not follow any more";
  ++queue(a).info.counters.tx_done;
  sim.run_for(110ms);
  EXPECT_EQ(queue(b).alternates.size(), 2U);
  EXPECT_EQ(queue(a).alternates.size(), 2U);
}

/// Messages posted before the migration are acknowledged in their order, before those on the new path.
TEST_F(ConnectionAlternates, C15_AnAckOfAnEarlierMessageDoesNotShowThatThePeerFollowed) {
  connect_by_four_lids();
  auto& counters = queue(a).info.counters;
  counters.tx_messages = 10;
  counters.tx_done = 7;
  migrate(a, sim.now);
  for (int i = 0; i < 3; ++i) {
    ++counters.tx_done;
    sim.run_for(110ms);
    EXPECT_EQ(queue(b).alternates.size(), 1U) << counters.tx_done;
  }
  ++counters.tx_messages;
  sim.run_for(110ms);
  EXPECT_EQ(queue(b).alternates.size(), 1U) << "not acknowledged yet";
  ++counters.tx_done;
  sim.run_for(90ms);
  EXPECT_EQ(queue(b).alternates.size(), 2U);
}

TEST_F(ConnectionAlternates, C15_AMessageOfThePeerShowsThatItFollowed) {
  connect_by_four_lids();
  migrate(a, sim.now);
  migrate(b, sim.now);
  sim.run_for(110ms);
  ++queue(a).info.counters.rx_messages;
  sim.run_for(110ms);
  EXPECT_EQ(queue(b).alternates.size(), 2U);
}

/// The worker polls a message only after the event, which the peer sent on the former path.
TEST_F(ConnectionAlternates, C15_AnEarlierMessageOfThePeerDoesNotShowThatItFollowed) {
  connect_by_four_lids();
  migrate(a, sim.now);
  ++queue(a).info.counters.rx_messages;
  sim.run_for(400ms);
  EXPECT_EQ(queue(b).alternates.size(), 1U) << "it would not follow any more";
  ++queue(a).info.counters.rx_messages;
  sim.run_for(110ms);
  EXPECT_EQ(queue(b).alternates.size(), 2U);
}

/// If there is nothing to acknowledge, the next path waits as long as the retries would take.
TEST_F(ConnectionAlternates, C15_NextPathOfASilentConnectionWaitsForTheRetries) {
  connect_by_four_lids();
  migrate(a, sim.now);
  migrate(b, sim.now);
  sim.run_for(530ms);
  EXPECT_EQ(queue(b).alternates.size(), 1U);
  sim.run_for(100ms);
  EXPECT_EQ(queue(b).alternates.size(), 2U);
}

TEST_F(ConnectionAlternates, C15_AConnectionMayEndWhileItsNextPathWaits) {
  connect();
  migrate(a, sim.now);
  ASSERT_TRUE(a.connections->close(a.up().at(0).handle, sim.now));
  const std::size_t laps = sim.all_sent<wire::CmLap>().size();
  a.second_path = nullptr;
  sim.run_for(5s);
  EXPECT_EQ(sim.all_sent<wire::CmLap>().size(), laps);
}

TEST_F(ConnectionAlternates, C15_AfterAMigrationAnotherPathIsLoaded) {
  connect();
  sim.run_for(1s);
  const auto qpn = queue(a).qpn();
  for (unsigned n = 1; n <= 3; ++n) {
    migrate(a, sim.now);
    migrate(b, sim.now);
    sim.run_for(1s);
    EXPECT_EQ(queue(a).qpn(), qpn) << "the connection stays";
    ASSERT_EQ(queue(a).alternates.size(), n + 1);
    ASSERT_EQ(queue(b).alternates.size(), n + 1);
    EXPECT_EQ(queue(a).alternates.back().path.dlid, n % 2 == 1 ? 0x20 : 0x21);
  }
  EXPECT_EQ(a.connections->counters().migrations, 3U);
  EXPECT_EQ(a.way_to(b).mode, table::NeighbourMode::kRc);
}

TEST_F(ConnectionAlternates, C15_WithoutASecondPathNothingIsAsked) {
  a.second_path = [](const fabric::AhAttr&) { return std::nullopt; };
  connect();
  EXPECT_TRUE(answers().empty());
  EXPECT_TRUE(queue(a).alternates.empty());
  // A device without alternate paths.
  a.second_path = nullptr;
  a.hca.migrates = false;
  migrate(a, sim.now);
  EXPECT_EQ(a.up().size(), 1U);
}

TEST_F(ConnectionAlternates, C15_ASecondPathIsSoughtAgain) {
  const auto second = std::exchange(a.second_path, [](const auto&) { return std::nullopt; });
  connect();
  EXPECT_TRUE(queue(a).alternates.empty());
  a.second_path = second;
  sim.run_for(100s);
  EXPECT_EQ(queue(a).alternates.size(), 1U);
  EXPECT_EQ(queue(b).alternates.size(), 1U);
}

TEST_F(ConnectionAlternates, C15_ADeviceWithoutMigrationDeclines) {
  b.hca.migrates = false;
  connect();
  EXPECT_EQ(answers(), std::vector{ApStatus::kNotSupported});
  EXPECT_TRUE(queue(a).alternates.empty());
  EXPECT_TRUE(queue(b).alternates.empty());
}

TEST_F(ConnectionAlternates, C15_PathsBetweenOtherPortsAreRefused) {
  change_laps([](wire::CmLap& lap) { lap.local_lid.set(0x30); });
  connect();
  EXPECT_EQ(answers(), std::vector{ApStatus::kLid});
  change_laps([](wire::CmLap& lap) { lap.remote_lid.set(0x30); });
  migrate(a, sim.now);
  sim.run_for(1s);
  change_laps([](wire::CmLap& lap) { lap.local_gid.bytes[15] ^= std::byte{4}; });
  migrate(a, sim.now);
  sim.run_for(1s);
  EXPECT_EQ(answers(), (std::vector{ApStatus::kLid, ApStatus::kLid, ApStatus::kGid}));
  EXPECT_TRUE(queue(a).alternates.empty());
  EXPECT_TRUE(queue(b).alternates.empty());
}

TEST_F(ConnectionAlternates, C15_AnAlternateThatCannotBeLoadedLeavesTheOneBefore) {
  connect();
  b.hca.loads = false;
  EXPECT_EQ(lap(0x11, 0x20), ApStatus::kRejected);
  migrate(b, sim.now);
  // The path in use is the one that was loaded.
  b.hca.loads = true;
  sim.run_for(2s);
  EXPECT_EQ(lap(0x11, 0x21), ApStatus::kDuplicate);
  EXPECT_EQ(lap(0x10, 0x20), ApStatus::kLoaded);
}

TEST_F(ConnectionAlternates, C15_AnAlternateThatThePeerDeclinesLeavesTheOneBefore) {
  connect();
  ASSERT_EQ(lap(0x12, 0x21), ApStatus::kLid);
  migrate(a, sim.now);
  migrate(b, sim.now);
  sim.run_for(2s);
  // Another one than the path in use, 0x21.
  ASSERT_EQ(queue(a).alternates.size(), 2U);
  EXPECT_EQ(queue(a).alternates.back().path.dlid, 0x20);
}

/// The device had changed to the first alternate before it took the second one.
TEST_F(ConnectionAlternates, C15_ThePathInUseIsTheOneOfTheEvent) {
  connect();
  sim.run_for(1s);
  ASSERT_EQ(lap(0x10, 0x21), ApStatus::kLoaded);
  migrate(b, sim.now, 1);
  sim.run_for(1s);
  EXPECT_EQ(lap(0x11, 0x21), ApStatus::kDuplicate);
  EXPECT_EQ(lap(0x10, 0x21), ApStatus::kLoaded);
  EXPECT_EQ(queue(b).alternates.size(), 3U) << "it was lost";
}

TEST_F(ConnectionAlternates, C15_APeerHasOnePathLoadedInASecond) {
  connect();
  sim.run_for(1s);
  EXPECT_EQ(lap(0x11, 0x21), ApStatus::kLoaded);
  EXPECT_EQ(queue(b).alternates.size(), 1U) << "it has this one";
  EXPECT_EQ(lap(0x10, 0x21), ApStatus::kLoaded);
  EXPECT_EQ(lap(0x11, 0x20), ApStatus::kRejected);
  EXPECT_EQ(queue(b).alternates.size(), 2U);
  sim.run_for(1s);
  EXPECT_EQ(lap(0x11, 0x20), ApStatus::kLoaded);
  EXPECT_EQ(queue(b).alternates.size(), 3U);
}

TEST_F(ConnectionAlternates, C15_AGlobalPathToAnotherPortIsRefused) {
  change_laps([](wire::CmLap& lap) {
    lap.set_subnet_local(false);
    lap.local_lid.set(0x30);
  });
  connect();
  EXPECT_EQ(answers(), std::vector{ApStatus::kLid});
  EXPECT_TRUE(queue(b).alternates.empty());
}

TEST_F(ConnectionAlternates, C15_PathsOfOtherSubnetsAreRefused) {
  change_laps([](wire::CmLap& lap) { lap.local_gid.bytes[7] ^= std::byte{1}; });
  connect();
  change_laps([](wire::CmLap& lap) { lap.remote_gid.bytes[7] ^= std::byte{1}; });
  migrate(a, sim.now);
  sim.run_for(1s);
  EXPECT_EQ(answers(), (std::vector{ApStatus::kGid, ApStatus::kGid}));
  EXPECT_TRUE(queue(b).alternates.empty());
}

TEST_F(ConnectionAlternates, C15_ARequestWithAGlobalAlternateToAnotherPortIsRejected) {
  a.second_path = nullptr;
  change_each<wire::CmReq>(sim, [](wire::CmReq& req) {
    req.alternate = req.primary;
    req.alternate.set_subnet_local(false);
    req.alternate.local_lid.set(0x30);
  });
  connect();
  EXPECT_EQ(sim.all_sent<wire::CmRep>().at(0).failover(), wire::Failover::kRejected);
  EXPECT_TRUE(queue(b).alternates.empty());
}

TEST_F(ConnectionAlternates, C15_ThePathInUseIsNoAlternate) {
  change_laps([](wire::CmLap& lap) {
    lap.local_lid.set(0x10);
    lap.remote_lid.set(0x20);
  });
  connect();
  EXPECT_EQ(answers(), std::vector{ApStatus::kDuplicate});
  EXPECT_TRUE(queue(b).alternates.empty());
}

TEST_F(ConnectionAlternates, C15_ThePathOfARequestIsNotItsAlternate) {
  a.second_path = nullptr;
  change_each<wire::CmReq>(sim, [](wire::CmReq& req) { req.alternate = req.primary; });
  connect();
  EXPECT_EQ(sim.all_sent<wire::CmRep>().at(0).failover(), wire::Failover::kRejected);
  EXPECT_TRUE(queue(b).alternates.empty());
}

TEST_F(ConnectionAlternates, C15_TheAlternateOfARequestIsLoadedWhenItIsEstablished) {
  a.second_path = nullptr;
  change_each<wire::CmReq>(sim, [](wire::CmReq& req) {
    req.alternate = req.primary;
    req.alternate.local_lid.set(0x11);
    req.alternate.set_sl(5);
  });
  connect();
  EXPECT_EQ(sim.all_sent<wire::CmRep>().at(0).failover(), wire::Failover::kAccepted);
  ASSERT_EQ(queue(b).alternates.size(), 1U);
  EXPECT_EQ(queue(b).alternates[0].path.dlid, 0x11);
  EXPECT_EQ(queue(b).alternates[0].path.sl, 5);
}

TEST_F(ConnectionAlternates, C15_TheAlternateOfARequestBetweenOtherPortsIsRejected) {
  a.second_path = nullptr;
  change_each<wire::CmReq>(sim, [](wire::CmReq& req) {
    req.alternate = req.primary;
    req.alternate.local_lid.set(0x30);
  });
  connect();
  EXPECT_EQ(sim.all_sent<wire::CmRep>().at(0).failover(), wire::Failover::kRejected);
  EXPECT_TRUE(queue(b).alternates.empty());
}

}  // namespace
}  // namespace ipoib::link
