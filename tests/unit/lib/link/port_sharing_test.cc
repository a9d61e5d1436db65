// SPDX-License-Identifier: BSD-3-Clause
// A link beside another user of its port. The SA counts the port once, so that a leave of either
// ends the membership of both.
#include "lib/link/ipoib/port_sharing.h"

#include <gtest/gtest.h>

#include <chrono>

#include "lib/sa/queries.h"
#include "lib/wire/icmpv6.h"
#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

constexpr auto* kUsed = "239.1.2.3";
constexpr auto* kAllHosts = "255.255.255.255";
constexpr unsigned kJoined = wire::join_state::kFullMember;

class PortSharing : public ::testing::Test {
 protected:
  void bring_up(PortUser user) {
    f.reports = false;  // The report of a deleted group would bring the link back as well.
    auto& n = f.add_node("10.0.0.1/24");
    n.actions->other_user = user;
    n.start();
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
    f.run_for(5s);
  }
  SimNode& node() { return *f.nodes.at(0); }
  unsigned joined(const char* group) { return f.join_state(group, node()); }
  void set_user(PortUser user) {
    node().actions->other_user = user;
    node().link->on_port_user(f.now);
  }
  /// The other user leaves a group at the SA.
  void other_leaves(const char* group) {
    const auto* g = f.group(group);
    ASSERT_NE(g, nullptr);
    node().client->submit(
        sa::leave_group(g->record.mgid, node().actions->attr.gid(), wire::kDefaultPkey,
                        wire::join_state::kFullMember),
        [](const sa::Outcome&, TimePoint) {}, f.now);
  }
  void join_and_leave() {
    ASSERT_TRUE(node().link->join_group(ip(kUsed), f.now));
    f.run_for(100ms);
    ASSERT_EQ(joined(kUsed), kJoined);
    ASSERT_TRUE(node().link->leave_group(ip(kUsed), f.now));
    f.run_for(100ms);
  }
  void stop() {
    node().link->stop(f.now);
    f.run_for(3s);
    EXPECT_EQ(node().link->state(), State::kStopped);
    EXPECT_TRUE(node().nothing_left());
  }
  std::uint64_t own_id(const std::string& name) {
    LinkConfig config;
    config.name = name;
    return interface_id_beside(config, node().actions->attr.guid);
  }
  wire::IpAddr of_guid() { return wire::link_local(wire::interface_id(node().actions->attr.guid)); }

  SimFabric f{1};
};

TEST_F(PortSharing, U33_LeavesNoGroupThatAnotherUserMayHaveJoined) {
  bring_up(PortUser::kActive);
  join_and_leave();
  EXPECT_EQ(joined(kUsed), kJoined);
  EXPECT_EQ(node().link->counters().group_leaves_withheld, 1U);
  stop();
  for (const auto* group : {kAllHosts, "224.0.0.1", "ff02::1", kUsed})
    EXPECT_EQ(joined(group), kJoined) << group;
}

// Packets to ever new groups would otherwise take all MLIDs of the fabric.
TEST_F(PortSharing, P16_FewGroupsThatPacketsCreatedStay) {
  f.config.group.send_only = SendOnly::kFullMember;
  f.config.group.send_idle = 1s;
  bring_up(PortUser::kActive);
  const auto before = f.members();
  for (std::uint32_t i = 0; i < 600; ++i) {
    node().send_ip(wire::IpAddr::v4(0xef03'0000 + i));
    f.run_for(10ms);
  }
  f.run_for(10s);
  EXPECT_EQ(f.members() - before, 256U);
  EXPECT_EQ(node().link->counters().group_leaves_withheld, 256U);
  stop();
}

TEST_F(PortSharing, U33_UserThatComesLaterIsSpared) {
  bring_up(PortUser::kNone);
  set_user(PortUser::kActive);
  f.run_for(100ms);
  stop();
  for (const auto* group : {kAllHosts, "224.0.0.1", "ff02::1"})
    EXPECT_EQ(joined(group), kJoined) << group;
}

TEST_F(PortSharing, U33_LeavesItsGroupsBesideAnIdleUser) {
  bring_up(PortUser::kIdle);
  join_and_leave();
  EXPECT_EQ(joined(kUsed), 0U);
  stop();
  EXPECT_EQ(f.members(), 0U);
}

TEST_F(PortSharing, U33_UnseenUserIsConfigured) {
  f.config.shared_port = SharedPort::kYes;
  bring_up(PortUser::kNone);
  stop();
  EXPECT_EQ(joined(kAllHosts), kJoined);
}

TEST_F(PortSharing, U33_KeyNoIgnoresTheUser) {
  f.config.shared_port = SharedPort::kNo;
  bring_up(PortUser::kActive);
  EXPECT_EQ(node().local6(), of_guid());
  stop();
  EXPECT_EQ(f.members(), 0U);
}

// The request of the other user reaches the SA later than the news of it reaches the link.
TEST_F(PortSharing, U33_IsAMemberAgainAfterTheOtherUserHasLeft) {
  bring_up(PortUser::kActive);
  set_user(PortUser::kNone);
  f.run_for(900ms);
  for (const auto* group : {kAllHosts, "224.0.0.1", "ff02::1"}) other_leaves(group);
  f.run_for(50ms);
  ASSERT_EQ(joined("224.0.0.1"), 0U);
  f.run_for(1300ms);
  for (const auto* group : {kAllHosts, "224.0.0.1", "ff02::1"})
    EXPECT_EQ(joined(group), kJoined) << group;
  EXPECT_EQ(node().link->state(), State::kUp);
  // The port is no longer shared.
  stop();
  EXPECT_EQ(f.members(), 0U);
}

TEST_F(PortSharing, U33_GroupThatTheOtherUserLeavesIsJoinedAgain) {
  bring_up(PortUser::kActive);
  for (const auto* group : {kAllHosts, "224.0.0.1"}) other_leaves(group);
  f.run_for(50ms);
  ASSERT_EQ(joined("224.0.0.1"), 0U);
  f.run_for(6s);
  EXPECT_EQ(joined("224.0.0.1"), kJoined);
  EXPECT_EQ(joined(kAllHosts), kJoined);
}

TEST_F(PortSharing, U33_UserThatFlapsCausesOneJoinInASecond) {
  bring_up(PortUser::kNone);
  const auto mads = node().mads;
  const std::size_t groups = node().link->groups(f.now).size() + 1;
  for (int i = 0; i < 10'000; ++i) {
    set_user(i % 2 == 0 ? PortUser::kActive : PortUser::kIdle);
    f.run_for(1ms);
  }
  f.run_for(10s);
  EXPECT_LE(node().mads - mads, 20 * groups);
}

TEST_F(PortSharing, U18_HasAnotherLinkLocalAddressThanTheOtherUser) {
  bring_up(PortUser::kIdle);
  EXPECT_EQ(node().local6(), wire::link_local(own_id(node().link->name())));
  EXPECT_NE(node().local6(), of_guid());
  // Neighbours know the address: it stays while the link runs.
  set_user(PortUser::kNone);
  f.run_for(5s);
  EXPECT_NE(node().local6(), of_guid());
  EXPECT_NE(own_id("ib0"), own_id("ib1"));
}

TEST_F(PortSharing, U18_GivesItsLinkLocalAddressUpToALaterUser) {
  bring_up(PortUser::kNone);
  ASSERT_EQ(node().local6(), of_guid());
  set_user(PortUser::kActive);
  EXPECT_FALSE(node().owns(of_guid()));
  f.run_for(5s);
  EXPECT_EQ(node().local6(), wire::link_local(own_id(node().link->name())));
}

}  // namespace
}  // namespace ipoib::link
