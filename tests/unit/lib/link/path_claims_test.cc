// SPDX-License-Identifier: BSD-3-Clause
// The path table and hosts that claim GIDs, as requests for connections do. Names of tests are those
// of tests/requirements.md.
#include <gtest/gtest.h>

#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

class PathClaims : public ::testing::Test {
 protected:
  PathClaims() {
    sim.bring_up();
    table.resume(std::nullopt, 2044, 0x8001'0b1b, sim.now);
  }
  ~PathClaims() override { table.clear(); }

  static wire::Gid gid(std::uint64_t guid) { return wire::Gid::of(wire::kDefaultGidPrefix, guid); }
  void run_for(Duration d) {
    for (const auto end = sim.now + d; sim.now < end;) {
      sim.run_for(1ms);
      table.tick(sim.now);
    }
  }
  /// A host claims 5,000 made-up GIDs a second.
  void flood(Duration d) {
    for (const auto end = sim.now + d; sim.now < end; run_for(1ms))
      for (int i = 0; i < 5; ++i) {
        static_cast<void>(table.is_answered(gid(0xbad0'0000 + next_++), sim.now, sim.now));
        ASSERT_LE(table.size(), PathTable::kMaxClaimed + 2);
      }
  }
  [[nodiscard]] std::size_t queries() const { return counters.path_queries; }

  SimIpoibLink sim;
  LinkCounters counters;
  std::size_t notified = 0;
  PathTable table{{.name = "ib0",
                   .pkey = wire::kDefaultPkey,
                   .negative = 3s,
                   .encapsulation = wire::Encapsulation::kTypeFirst},
                  sim.actions,
                  sim.client,
                  counters,
                  [this](const wire::IpAddr&, TimePoint) { ++notified; },
                  1};

 private:
  std::uint64_t next_ = 0;
};

/// There is one query for each claim, and its path is forgotten soon, with its address handle.
TEST_F(PathClaims, C16_AClaimIsAnsweredByTheSa) {
  const auto handles = sim.actions.ahs.size();
  sim.add_host(0xb, 0x50, 3);
  const TimePoint since = sim.now;
  EXPECT_FALSE(table.is_answered(gid(0xb), since, sim.now));
  EXPECT_FALSE(table.is_answered(gid(0xc), since, sim.now));
  run_for(10ms);
  EXPECT_TRUE(table.is_answered(gid(0xb), since, sim.now));
  EXPECT_TRUE(table.is_answered(gid(0xc), since, sim.now));
  ASSERT_TRUE(table.ready_path(gid(0xb)));
  EXPECT_EQ(table.ready_path(gid(0xb))->attr.dlid, 3);
  EXPECT_FALSE(table.ready_path(gid(0xc)));
  EXPECT_EQ(queries(), 2U);
  run_for(6s);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(sim.actions.ahs.size(), handles);
}

TEST_F(PathClaims, LifetimeOfAPathIsThatOfItsRecord) {
  const auto host = sim.add_host(0xb, 0x50, 3);
  for (const std::uint8_t code : std::initializer_list<std::uint8_t>{18, 0, 16, 31, 63}) {
    sim.sa.paths[gid(0xb)].lifetime = wire::with_selector(wire::Selector::kExactly, code);
    sim.sa.paths[gid(0xb)].dlid.set(static_cast<std::uint16_t>(code + 3));
    static_cast<void>(table.acquire(ip("10.0.0.2"), host, sim.now));
    table.refresh(host, sim.now);
    run_for(2s);
    ASSERT_TRUE(table.ready_path(gid(0xb))) << unsigned{code};
    EXPECT_EQ(table.ready_path(gid(0xb))->attr.dlid, code + 3);
    EXPECT_EQ(table.ready_path(gid(0xb))->lifetime, code);
  }
}

/// The answer to an earlier claim does not answer a later one: the host may have moved since. A path
/// is queried at most once a second.
TEST_F(PathClaims, C16_ALaterClaimIsANewQuestion) {
  const auto host = sim.add_host(0xb, 0x50, 3);
  ASSERT_EQ(table.acquire(ip("10.0.0.2"), host, sim.now), PathState::kPending);
  run_for(10ms);
  ASSERT_TRUE(table.ready_path(gid(0xb)));
  sim.sa.paths[gid(0xb)].dlid.set(44);
  run_for(100ms);
  const TimePoint since = sim.now;
  while (!table.is_answered(gid(0xb), since, sim.now) && sim.now < since + 2s) run_for(10ms);
  EXPECT_LE(sim.now - since, 1s);
  EXPECT_EQ(table.ready_path(gid(0xb))->attr.dlid, 44);
  EXPECT_EQ(queries(), 2U);
  EXPECT_EQ(notified, 2U);
}

TEST_F(PathClaims, P16_MadeUpClaimsLeaveNothing) {
  for (const bool silent : {false, true}) {
    SCOPED_TRACE(silent);
    sim.sa.silent = silent;
    const auto before = queries();
    flood(2s);
    EXPECT_LE(queries() - before, silent ? PathTable::kMaxClaimed : 256U + 2000 + 10);
    run_for(6s);
    EXPECT_EQ(table.size(), 0U);
  }
}

/// A host that has only spoken to this node waits for less than a second.
TEST_F(PathClaims, P16_MadeUpClaimsDelayNoHost) {
  flood(2s);
  const auto host = sim.add_host(0xb, 0x50, 3);
  static_cast<void>(table.acquire(ip("10.0.0.2"), host, sim.now));
  flood(900ms);
  EXPECT_TRUE(table.ready_path(gid(0xb)));
}

/// Paths in use are not ended for claims, though they began with one.
TEST_F(PathClaims, P16_ClaimsEndNoPathInUse) {
  const auto host = sim.add_host(0xb, 0x50, 3);
  const TimePoint since = sim.now;
  static_cast<void>(table.is_answered(gid(0xb), since, sim.now));
  static_cast<void>(table.is_answered(gid(0xc), since, sim.now));
  run_for(10ms);
  ASSERT_TRUE(table.is_answered(gid(0xc), since, sim.now));
  table.acquire(ip("10.0.0.2"), host, sim.now);
  table.pin(gid(0xc), {.dlid = 4, .dgid = gid(0xc)}, sim.now);
  flood(2s);
  EXPECT_TRUE(table.ready_path(gid(0xb)));
  EXPECT_TRUE(table.ready_path(gid(0xc)));
  table.unpin(gid(0xc));
}

/// A claim that finds no place is counted.
TEST_F(PathClaims, P16_ClaimsWithoutAPlaceAreCounted) {
  sim.sa.silent = true;
  for (std::uint64_t i = 0; i < PathTable::kMaxClaimed; ++i)
    EXPECT_FALSE(table.is_answered(gid(0xbad0'0000 + i), sim.now, sim.now));
  EXPECT_EQ(counters.path_claims_refused, 0U);
  EXPECT_FALSE(table.is_answered(gid(0xbad0'0000), sim.now, sim.now)) << "it has a place";
  EXPECT_EQ(counters.path_claims_refused, 0U);
  EXPECT_FALSE(table.is_answered(gid(0xb), sim.now, sim.now));
  EXPECT_EQ(counters.path_claims_refused, 1U);
}

/// Neighbours are not kept waiting by a flood of claims.
TEST_F(PathClaims, P16_ClaimsLeaveTheQueriesOfTheNodeTheirPlace) {
  sim.sa_delay = 50ms;
  for (std::uint64_t i = 0; i < 6000; ++i) {
    if (i % 10 == 0) run_for(10ms);
    static_cast<void>(table.is_answered(gid(0xbad0'0000 + i), sim.now, sim.now));
  }
  const auto host = sim.add_host(0xb, 0x50, 3);
  static_cast<void>(table.acquire(ip("10.0.0.2"), host, sim.now));
  table.asked_for(host);
  run_for(400ms);  // The client has up to 32 open questions at a time.
  EXPECT_TRUE(table.ready_path(gid(0xb)));
}

/// Claims of GIDs in use cause queries at a limited rate.
TEST_F(PathClaims, P16_ClaimsOfKnownGidsAskAtALimitedRate) {
  for (std::uint16_t n = 0; n < 500; ++n) {
    const auto host = sim.add_host(0x1000U + n, 0x50, static_cast<std::uint16_t>(100 + n));
    table.acquire(wire::IpAddr::v4(0x0a00'0100U + n), host, sim.now);
    table.asked_for(host);
  }
  run_for(5s);
  const auto before = queries();
  for (int i = 0; i < 100; ++i) {
    for (std::uint16_t n = 0; n < 500; ++n)
      static_cast<void>(table.is_answered(gid(0x1000U + n), sim.now, sim.now));
    run_for(10ms);
  }
  EXPECT_GE(queries() - before, 100U);
  EXPECT_LE(queries() - before, 64U + 101);
}

/// A path that began with a claim is that of the neighbour that uses it by then.
TEST_F(PathClaims, C16_ANeighbourKeepsThePathOfAClaim) {
  sim.sa.silent = true;
  const auto host = sim.add_host(0xb, 0x50, 3);
  EXPECT_FALSE(table.is_answered(gid(0xb), sim.now, sim.now));
  run_for(1s);
  EXPECT_EQ(table.acquire(ip("10.0.0.2"), host, sim.now), PathState::kPending);
  run_for(6s);
  EXPECT_EQ(table.size(), 1U);
  sim.sa.silent = false;
  run_for(5s);
  EXPECT_TRUE(table.ready_path(gid(0xb)));
  EXPECT_EQ(notified, 1U);
  run_for(60s);
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace ipoib::link
