// SPDX-License-Identifier: BSD-3-Clause
// Bounds of the groups that only packets name: places in the table, requests to the SA, held packets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "lib/link/ipoib/group_senders.h"
#include "tests/unit/lib/link/sim_groups.h"

namespace ipoib::link {
namespace {

using GroupLimits = SimGroups;

TEST_F(GroupLimits, U29_HeldPacketsAreBoundedInNumberAndAge) {
  bring_up(1);
  f.administrator_silent = true;
  for (int i = 0; i < 100; ++i) send(0, kGlobal);
  EXPECT_EQ(node(0).sink->open.size(), f.config.neighbour.max_held_per_neighbour);
  EXPECT_EQ(node(0).sink->drops[Drop::kNeighbourPending],
            100U - f.config.neighbour.max_held_per_neighbour);
  f.run_for(f.config.neighbour.max_held_age + 10ms);
  EXPECT_TRUE(node(0).sink->open.empty());
  EXPECT_EQ(node(0).sink->drops[Drop::kNeighbourHeldTooLong],
            f.config.neighbour.max_held_per_neighbour);
}

TEST_F(GroupLimits, U29_HeldPacketEndsInTimeWhateverElseIsDue) {
  bring_up(1);
  f.administrator_silent = true;
  send(0, kGlobal, f.config.neighbour.max_held_age - 1ms);
  EXPECT_EQ(node(0).sink->open.size(), 1U);
  send(0, kGlobal);
  EXPECT_EQ(node(0).sink->open.size(), 2U);
  f.run_for(1ms);
  EXPECT_EQ(node(0).sink->open.size(), 1U);
}

TEST_F(GroupLimits, ScanOfGroupsIsBounded) {
  f.config.group.max_groups = 64;
  bring_up(2);
  const auto mads = f.mads;
  const auto end = f.now + 30s;
  while (f.now < end) {
    for (std::uint32_t i = 0; i < 1000; ++i) node(0).send_ip(wire::IpAddr::v4(0xef03'0000 + i));
    f.run_for(100ms);
  }
  EXPECT_LE(node(0).link->groups(f.now).size(), 129U);
  EXPECT_LE(f.mads - mads, 30U * 128);
  EXPECT_GT(node(0).link->counters().group_refused_local, 0U);
  f.run_for(30s);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 1U);
  stop_all();
}

/// Absent groups that a scan named give their places to others.
TEST_F(GroupLimits, P16_AbsentGroupsLeaveRoomForOthers) {
  f.config.group.max_groups = 64;
  bring_up(2);
  join(1, kGlobal, 10ms);
  for (std::uint32_t i = 0; i < 120; ++i) node(0).send_ip(wire::IpAddr::v4(0xef03'0000 + i));
  f.run_for(500ms);
  for (std::uint32_t i = 120; i < 240; ++i) node(0).send_ip(wire::IpAddr::v4(0xef03'0000 + i));
  f.run_for(3s);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 128U);
  send(0, kGlobal, 100ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  EXPECT_LE(node(0).link->groups(f.now).size(), 128U);
  f.run_for(30s);
  stop_all();
}

/// All these addresses are one group of InfiniBand. Each has an entry at the workers, whose numbers
/// neighbours need, too.
TEST_F(GroupLimits, P16_AddressesOfOneMgidAreBounded) {
  f.config.group.send_idle = 60s;
  bring_up(2);
  const auto group = [](std::uint32_t n) { return ip(fmt::format("ff1e:{:x}::7", n)); };
  join(1, "ff1e:1::7", 10ms);
  const auto used = [&] { return node(0).sink->indexes.size(); };
  const auto before = used();
  send(0, "ff1e:1::7", 100ms);
  for (std::uint32_t i = 2; i < 1000; ++i) node(0).send_ip(group(i));
  f.run_for(100ms);
  EXPECT_EQ(used() - before, GroupSenders::kMaxOfGroup);
  EXPECT_GT(node(0).link->counters().group_refused_local, 900U);
  send(0, "ff1e:1::7", 100ms);
  EXPECT_EQ(heard(1, "ff1e:1::7"), 2U) << "an address that has its entry keeps it";
  // Another group of InfiniBand has a place, and addresses that are not used make room.
  send(0, kGlobal, 100ms);
  EXPECT_EQ(used() - before, GroupSenders::kMaxOfGroup + 1);
  f.run_for(4s);
  join(1, "ff1e:2000::7", 10ms);
  send(0, "ff1e:2000::7", 100ms);
  EXPECT_EQ(heard(1, "ff1e:2000::7"), 1U);
  EXPECT_EQ(used() - before, GroupSenders::kMaxOfGroup + 1);
  // All such groups together have a limit, too, but each has a place for one address.
  for (std::uint32_t i = 1; i < 50; ++i)
    for (std::uint32_t id = 10; id < 20; ++id)
      node(0).send_ip(ip(fmt::format("ff1e:{:x}::{}", i, id)));
  f.run_for(100ms);
  EXPECT_EQ(used() - before, 12 + GroupSenders::kMaxFurther);
  f.run_for(70s);
  EXPECT_EQ(used(), before);
  stop_all();
}

/// Packets to ever new groups make the SA work at a limited rate, and do not keep others waiting.
TEST_F(GroupLimits, P16_PacketsToNewGroupsAskAtALimitedRate) {
  bring_up(2);
  join(1, kGlobal, 10ms);
  const auto before = node(0).link->counters().group_queries;
  auto scan = [&, next = 0U](Duration d) mutable {
    for (const auto end = f.now + d; f.now < end; f.run_for(10ms))
      for (int i = 0; i < 100; ++i) {
        const HeldPacket packet = node(0).sink->new_packet();
        node(0).sink->sources[packet] = ip("192.0.2.1");
        node(0).link->on_neighbour_wanted(wire::IpAddr::v4(0xef03'0000 + next++), packet, f.now);
      }
  };
  scan(3s);
  EXPECT_LE(node(0).link->counters().group_queries - before, 256U + 3 * 500 + 10);
  send(0, kGlobal);
  scan(1s);
  EXPECT_EQ(heard(1, kGlobal), 1U) << "it came from another sender";
  f.run_for(30s);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 2U);
  stop_all();
}

/// The packets of 1,000 senders to ever new groups take all places except those of groups that were
/// there before.
TEST_F(GroupLimits, P16_GroupsThatWereThereBeforeHavePlacesOfTheirOwn) {
  f.config.group.send_idle = 1s;
  bring_up(2);
  join(1, kGlobal, 10ms);
  send(0, kGlobal, 5s);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  EXPECT_FALSE(row(0, kGlobal).sending);
  std::uint32_t next = 0;
  for (const auto end = f.now + 3s; f.now < end; f.run_for(10ms)) {
    for (int i = 0; i < 100; ++i) {
      const HeldPacket packet = node(0).sink->new_packet();
      node(0).sink->sources[packet] = wire::IpAddr::v4(0x0a01'0000 + next % 1000);
      node(0).link->on_neighbour_wanted(wire::IpAddr::v4(0xe600'0000 + next++), packet, f.now);
    }
    if (f.now + 2s == end) node(0).send_ip(ip(kGlobal));
  }
  EXPECT_EQ(heard(1, kGlobal), 2U);
  f.run_for(30s);
  stop_all();
}

/// With SendOnlyFullMember, each packet to a new group creates it at the SA.
TEST_F(GroupLimits, P16_PacketsToNewGroupsCreateThemAtALimitedRate) {
  f.config.group.send_only = SendOnly::kFullMember;
  f.config.group.max_groups = 512;
  bring_up(2);
  const auto before = node(0).link->counters().group_joins_sent;
  for (unsigned i = 0; i < 6000; ++i) {
    node(0).send_ip(wire::IpAddr::v4(0xef03'0000 + i));
    if (i % 10 == 9) f.run_for(10ms);
  }
  const auto joins = node(0).link->counters().group_joins_sent - before;
  EXPECT_LE(joins, 256U + 6 * 500 + 10);
  EXPECT_GE(joins, 1024U) << "the rate is used";
  EXPECT_LE(node(0).link->groups(f.now).size(), 1024U);
  f.run_for(4s);
  join(1, kGlobal, 100ms);
  send(0, kGlobal, 1s);
  EXPECT_EQ(heard(1, kGlobal), 1U) << "a group that no packet uses made room";
  f.run_for(1s);
  for (const auto& g : node(0).link->groups(f.now)) {
    if (g.state == "member") continue;
    EXPECT_GT(f.join_state(wire::to_string(g.group).c_str(), node(0)), 0) << g.state;
  }
  stop_all();
}

/// Absent groups whose packets go to all routers are asked for again and keep their room only while
/// there are such packets.
TEST_F(GroupLimits, P16_AbsentGroupsBehindRoutersLeaveRoomForOthers) {
  f.config.group.max_groups = 64;
  bring_up(2);
  join(1, "224.0.0.2", 10ms);
  join(1, kGlobal, 10ms);
  for (std::uint32_t i = 0; i < 300; ++i) {
    node(0).send_ip(wire::IpAddr::v4(0xef03'0000 + i));
    f.run_for(10ms);
  }
  EXPECT_GE(node(0).link->groups(f.now).size(), 127U);
  f.run_for(4s);
  send(0, kGlobal, 100ms);
  EXPECT_EQ(heard(1, kGlobal), 1U);
  f.run_for(30s);
  const auto before = node(0).link->counters().group_queries;
  f.run_for(60s);
  EXPECT_EQ(node(0).link->counters().group_queries, before) << "no packet asks for them";
  EXPECT_LE(node(0).link->groups(f.now).size(), 3U);
  stop_all();
}

/// Packets that go to the routers keep their group in a full table.
TEST_F(GroupLimits, P16_AGroupBehindRoutersThatIsUsedStays) {
  f.config.group.max_groups = 64;
  bring_up(2);
  join(1, "224.0.0.2", 10ms);
  send(0, kGlobal, 100ms);
  EXPECT_EQ(row(0, kGlobal).state, "all-routers");
  const auto before = node(0).link->counters().group_refused_local;
  for (std::uint32_t i = 0; i < 900; ++i) {
    node(0).send_ip(wire::IpAddr::v4(0xef03'0000 + i));
    if (i % 10 == 0) node(0).send_ip(ip(kGlobal));
    f.run_for(10ms);
  }
  EXPECT_GT(node(0).link->counters().group_refused_local, before);
  EXPECT_EQ(row(0, kGlobal).state, "all-routers");
  stop_all();
}

/// The all-routers group is absent when a packet beyond the link makes it needed, in the moment in
/// which the table is full.
TEST_F(GroupLimits, P16_TheRoutersThatAGroupDependsOnMakeNoRoom) {
  f.config.ip6.enabled = true;
  f.config.group.max_groups = 64;
  bring_up(2);
  f.run_for(5s);
  const std::vector<std::byte> packet(48, std::byte{0x60});
  node(0).send_ip(ip("ff05::2"));  // Its MGID is that of ff02::2.
  f.run_for(300ms);
  node(0).link->send_to_group(ip("ff02::abcd"), packet, f.now);
  f.run_for(100ms);
  fill_table(200, 10ms);
  f.run_for(3s);
  node(0).send_ip(ip("ff05::abcd"));
  node(0).send_ip(wire::IpAddr::v4(0xef04'0000));
  f.run_for(660s);
  const auto queries = node(0).link->counters().group_queries;
  f.run_for(100s);
  EXPECT_EQ(node(0).link->counters().group_queries, queries);
  join(1, "ff02::2", 12s);
  for (unsigned i = 0; i < 3; ++i) send(0, "ff05::77", 15s);
  EXPECT_EQ(heard(1, "ff05::77"), 3U);
  stop_all();
}

/// A multicast router learns of a group while packets to absent ones fill the table.
TEST_F(GroupLimits, U34_AbsentGroupsLeaveRoomForCreatedOnes) {
  f.config.group.max_groups = 64;
  f.config.group.multicast_router = true;
  bring_up(2);
  fill_table(300, 5ms);
  f.run_for(4s);
  join(1, kGlobal, 1s);
  EXPECT_TRUE(row(0, kGlobal).routed);
  stop_all();
}

/// A scan of IPv6 hosts asks for each host in its own solicited-node group.
TEST_F(GroupLimits, U30_OwnPacketsToAbsentGroupsKeepNoRoomForLong) {
  f.config.group.max_groups = 64;
  bring_up(2);
  join(1, "ff02::1:ff00:1", 10ms);
  const std::vector<std::byte> packet(48, std::byte{0x60});
  for (unsigned i = 0; i < 200; ++i)
    node(0).link->send_to_group(ip("ff02::1:ff01:" + std::to_string(i)), packet, f.now);
  f.run_for(1s);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 128U);
  EXPECT_EQ(node(0).link->counters().group_frames_unsent, 200U);
  f.run_for(12s);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 1U);
  node(0).link->send_to_group(ip("ff02::1:ff00:1"), packet, f.now);
  f.run_for(10ms);
  EXPECT_EQ(node(0).link->counters().group_frames_unsent, 200U);
  EXPECT_EQ(f.join_state("ff02::1:ff00:1", node(0)), kSendOnly);
  stop_all();
}

TEST_F(GroupLimits, OwnPacketsWaitForTheirGroupBounded) {
  bring_up(2);
  join(1, "ff02::1:ff00:1", 10ms);
  std::vector<std::byte> packet(48, std::byte{0x60});
  node(0).link->send_to_group(ip("ff02::1:ff00:1"), packet, f.now);
  std::size_t sent = 0;
  node(0).actions->on_send = [&](const SentFrame& frame) {
    ++sent;
    EXPECT_EQ(frame.qpn, wire::kMulticastQpn);
    EXPECT_EQ(frame.to.dgid, f.group("ff02::1:ff00:1")->record.mgid);
    EXPECT_EQ(frame.bytes.size(), 52U);
    EXPECT_EQ(frame.bytes[0], std::byte{0x86});
    EXPECT_EQ(frame.bytes[1], std::byte{0xdd});
  };
  f.run_for(10ms);
  EXPECT_EQ(sent, 1U);
  node(0).link->send_to_group(ip("ff02::1:ff00:1"), packet, f.now);
  EXPECT_EQ(sent, 2U);
  for (int i = 0; i < 20; ++i) node(0).link->send_to_group(ip("ff02::77"), packet, f.now);
  f.run_for(50ms);
  EXPECT_EQ(node(0).link->counters().group_frames_unsent, 20U);
  EXPECT_EQ(sent, 2U);
}

}  // namespace
}  // namespace ipoib::link
