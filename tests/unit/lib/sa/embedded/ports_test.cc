// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/ports.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ipoib::sa {
namespace {

using namespace std::chrono_literals;
using wire::MadStatus;

const wire::Gid kOwn = wire::Gid::of(wire::kDefaultGidPrefix, 100);
const wire::Gid kA = wire::Gid::of(wire::kDefaultGidPrefix, 1);
const wire::Gid kB = wire::Gid::of(wire::kDefaultGidPrefix, 2);

class PortTableTest : public ::testing::Test {
 protected:
  PortTableTest() { ports.add_own(kOwn, 1); }

  /// Claims a LID as the administrator does: it checks first whether the port may claim it.
  MadStatus claim(const wire::Gid& gid, std::uint16_t lid, bool idle = false) {
    const MadStatus status = ports.may_claim(gid, lid, idle, now);
    if (status == MadStatus::kOk) loser = ports.claim(gid, lid, now);
    return status;
  }
  void expect_at(const wire::Gid& gid, std::uint16_t lid) {
    ASSERT_NE(ports.find(gid), nullptr);
    EXPECT_EQ(ports.find(gid)->lid, lid);
    ASSERT_NE(ports.at(lid), nullptr);
    EXPECT_EQ(ports.at(lid)->gid, gid);
  }

  PortTable ports{4, 90s};
  TimePoint now{1000s};
  std::optional<wire::Gid> loser;
};

TEST_F(PortTableTest, GidThatMovesIsFoundAtItsNewLidOnly) {
  EXPECT_EQ(claim(kA, 5), MadStatus::kOk);
  expect_at(kA, 5);
  EXPECT_EQ(claim(kA, 6), MadStatus::kOk);
  expect_at(kA, 6);
  EXPECT_EQ(ports.at(5), nullptr);
  EXPECT_FALSE(loser);
}

TEST_F(PortTableTest, LidOfALivePortIsNotTaken) {
  claim(kA, 5);
  now += 89s;
  EXPECT_EQ(claim(kB, 5), MadStatus::kSaRequestInvalid);
  expect_at(kA, 5);
  now += 1s;
  EXPECT_EQ(claim(kB, 5), MadStatus::kOk) << "silent for long enough";
  expect_at(kB, 5);
  EXPECT_EQ(loser, kA);
  EXPECT_EQ(ports.find(kA), nullptr);
}

TEST_F(PortTableTest, LidOfAnIdlePortIsTakenAtOnce) {
  claim(kA, 5);
  EXPECT_EQ(claim(kB, 5, true), MadStatus::kOk);
  expect_at(kB, 5);
  EXPECT_EQ(loser, kA);
}

TEST_F(PortTableTest, MovingOntoALidTakesItFromItsPort) {
  claim(kA, 5);
  claim(kB, 6);
  EXPECT_EQ(claim(kB, 5), MadStatus::kSaRequestInvalid);
  EXPECT_EQ(claim(kB, 5, true), MadStatus::kOk);
  expect_at(kB, 5);
  EXPECT_EQ(ports.at(6), nullptr);
  EXPECT_EQ(ports.find(kA), nullptr);
}

TEST_F(PortTableTest, OwnPortIsNeitherMovedNorReplaced) {
  now += 1000s;
  EXPECT_EQ(claim(kOwn, 5), MadStatus::kSaRequestInvalid);
  EXPECT_EQ(claim(kA, 1, true), MadStatus::kSaRequestInvalid);
  EXPECT_EQ(claim(kOwn, 1), MadStatus::kOk);
  expect_at(kOwn, 1);
  EXPECT_TRUE(ports.find(kOwn)->own);
}

TEST_F(PortTableTest, FullTableTakesNoNewPortButLetsKnownOnesMove) {
  for (std::uint16_t i = 1; i <= 3; ++i)
    EXPECT_EQ(claim(wire::Gid::of(1, i), static_cast<std::uint16_t>(10 + i)), MadStatus::kOk);
  EXPECT_EQ(claim(kA, 5), MadStatus::kSaNoResources);
  EXPECT_FALSE(ports.hear(kA, 5, now));
  EXPECT_EQ(claim(wire::Gid::of(1, 1), 20), MadStatus::kOk);
  EXPECT_EQ(claim(kA, 20, true), MadStatus::kOk) << "one comes for one that goes";
  EXPECT_EQ(ports.all().size(), 4U);
}

TEST_F(PortTableTest, HearingTeachesNewPortsAndMovesNone) {
  EXPECT_TRUE(ports.hear(kA, 5, now));
  expect_at(kA, 5);
  EXPECT_FALSE(ports.hear(kA, 6, now)) << "may be a third party";
  EXPECT_FALSE(ports.hear(kB, 5, now));
  expect_at(kA, 5);
  EXPECT_EQ(ports.find(kB), nullptr);
  now += 60s;
  EXPECT_TRUE(ports.hear(kA, 5, now));
  EXPECT_EQ(ports.find(kA)->heard, now);
}

TEST_F(PortTableTest, PacketsAndQueriesFillHalfOfTheTable) {
  EXPECT_TRUE(ports.hear(kA, 5, now));
  expect_at(kA, 5);
  EXPECT_FALSE(ports.hear(kB, 6, now)) << "two of four ports are known";
  now += 60s;
  EXPECT_TRUE(ports.hear(kA, 5, now)) << "which is no new one";
  EXPECT_EQ(ports.find(kA)->heard, now);
  EXPECT_FALSE(ports.hear(kA, 7, now));
  EXPECT_EQ(claim(kB, 6), MadStatus::kOk);
}

TEST_F(PortTableTest, SharedPartitionPrefersTheDefault) {
  claim(kA, 5);
  claim(kB, 6);
  EXPECT_FALSE(shared_partition(*ports.find(kA), *ports.find(kB)));
  for (const std::uint16_t pkey : std::initializer_list<std::uint16_t>{0x8002, 0x8001, 0xffff})
    ports.add_partition(kA, pkey);
  ports.add_partition(kB, 0x0002);
  EXPECT_EQ(shared_partition(*ports.find(kA), *ports.find(kB)), 0x0002);
  ports.add_partition(kB, 0x7fff);
  EXPECT_EQ(shared_partition(*ports.find(kA), *ports.find(kB)), 0x7fff);
  ports.add_partition(wire::Gid::of(1, 77), 0xffff);  // unknown port: ignored
  EXPECT_EQ(ports.find(wire::Gid::of(1, 77)), nullptr);
}

}  // namespace
}  // namespace ipoib::sa
