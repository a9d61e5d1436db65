// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/groups.h"

#include <gtest/gtest.h>

namespace ipoib::sa {
namespace {

using namespace wire::join_state;

const wire::Gid kA = wire::Gid::of(wire::kDefaultGidPrefix, 1);
const wire::Gid kB = wire::Gid::of(wire::kDefaultGidPrefix, 2);

wire::Gid mgid(std::uint64_t n) {
  return wire::Gid::of(0xff12'401b'ffff'0000, n);
}

wire::McMemberRecord attributes(std::uint64_t n, std::uint16_t mlid = 0) {
  wire::McMemberRecord r{};
  r.mgid = mgid(n);
  r.mlid.set(mlid);
  return r;
}

TEST(McGroupTable, MlidsAreTheLowestFreeOrTheOneWanted) {
  McGroupTable t{100, 100};
  const auto mlid = [&](std::uint64_t n, std::uint16_t wanted = 0) {
    const std::uint16_t got = t.create(attributes(n, wanted), false).record.mlid.host();
    t.join(mgid(n), kA, kFullMember);
    return got;
  };
  EXPECT_EQ(mlid(1), 0xc000);
  EXPECT_EQ(mlid(2, 0xc002), 0xc002);
  EXPECT_EQ(mlid(3), 0xc001);
  EXPECT_EQ(mlid(4), 0xc003);
  EXPECT_EQ(mlid(5, 0xc002), 0xc004) << "taken: another one";
  EXPECT_EQ(mlid(6, 0xffff), 0xc005) << "not a group's";
  EXPECT_EQ(mlid(7, 0x0005), 0xc006) << "a port's";
  t.leave(mgid(3), kA, kFullMember);
  EXPECT_EQ(mlid(8), 0xc001) << "free again";
}

TEST(McGroupTable, EveryMlidCanBeGivenAndNoMore) {
  McGroupTable t{100'000, 100'000};
  std::uint16_t last = 0;
  std::size_t n = 0;
  for (; t.room_for_group(); ++n) last = t.create(attributes(n), true).record.mlid.host();
  EXPECT_EQ(n, 0x3fffU);
  EXPECT_EQ(last, 0xfffe);
}

TEST(McGroupTable, StatesOfAPortAreCountedOneByOne) {
  McGroupTable t{10, 10};
  t.create(attributes(1), false);
  EXPECT_EQ(t.join(mgid(1), kA, kFullMember), 1);
  EXPECT_EQ(t.join(mgid(1), kA, kSendOnlyNonMember), 5);
  EXPECT_EQ(t.join(mgid(1), kA, kFullMember), 5) << "joining twice is joining once";
  EXPECT_EQ(t.leave(mgid(1), kA, kFullMember | kNonMember), 4);
  EXPECT_EQ(t.find(mgid(1)), nullptr) << "nobody left who keeps it";
}

TEST(McGroupTable, LastKeeperTakesTheGroupAndAllItsMembersAlong) {
  for (const std::uint8_t keeper : {kFullMember, kSendOnlyFullMember}) {
    McGroupTable t{10, 3};
    t.create(attributes(1), false);
    t.join(mgid(1), kA, keeper);
    t.join(mgid(1), kB, kSendOnlyNonMember);
    EXPECT_EQ(t.leave(mgid(1), kB, kFullMember), 4) << "none of that bit: nothing happens";
    t.leave(mgid(1), kA, keeper);
    EXPECT_EQ(t.find(mgid(1)), nullptr);
    EXPECT_FALSE(t.is_member_somewhere(kB));
    t.create(attributes(2), true);  // the members of group 1 do not count any more
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(t.room_for_member());
      t.join(mgid(2), wire::Gid::of(1, i), kFullMember);
    }
    EXPECT_FALSE(t.room_for_member());
  }
}

TEST(McGroupTable, ConfiguredGroupLivesWithoutMembers) {
  McGroupTable t{10, 10};
  t.create(attributes(1), true);
  t.join(mgid(1), kA, kFullMember);
  EXPECT_EQ(t.leave(mgid(1), kA, kFullMember), 0);
  ASSERT_NE(t.find(mgid(1)), nullptr);
  EXPECT_TRUE(t.find(mgid(1))->members.empty());
}

TEST(McGroupTable, PortThatIsGoneLeavesEverything) {
  McGroupTable t{10, 4};
  for (std::uint64_t n = 1; n <= 2; ++n) t.create(attributes(n), false);
  t.join(mgid(1), kA, kFullMember);
  t.join(mgid(2), kA, kFullMember);
  t.join(mgid(2), kB, kFullMember);
  EXPECT_TRUE(t.is_member_somewhere(kA));
  t.remove_port(kA);
  EXPECT_FALSE(t.is_member_somewhere(kA));
  EXPECT_EQ(t.find(mgid(1)), nullptr);
  ASSERT_NE(t.find(mgid(2)), nullptr);
  EXPECT_EQ(t.find(mgid(2))->members.size(), 1U);
}

TEST(McGroupTable, LeavingWhatIsNotThereDoesNothing) {
  McGroupTable t{10, 10};
  EXPECT_EQ(t.leave(mgid(1), kA, kFullMember), 0);
  t.create(attributes(1), true);
  EXPECT_EQ(t.leave(mgid(1), kA, kFullMember), 0);
  EXPECT_NE(t.find(mgid(1)), nullptr);
}

TEST(McGroupTable, MayBeKeptByMembersOfAnyKind) {
  McGroupTable t{100, 100, true};
  t.create(attributes(1), false);
  t.join(mgid(1), kA, kFullMember | kSendOnlyNonMember);
  t.join(mgid(1), kB, kNonMember);
  t.leave(mgid(1), kA, kFullMember);
  EXPECT_EQ(t.find(mgid(1))->members.size(), 2U);
  t.leave(mgid(1), kA, kSendOnlyNonMember);
  EXPECT_EQ(t.find(mgid(1))->members.size(), 1U);
  t.leave(mgid(1), kB, kNonMember);
  EXPECT_EQ(t.find(mgid(1)), nullptr);
}

}  // namespace
}  // namespace ipoib::sa
