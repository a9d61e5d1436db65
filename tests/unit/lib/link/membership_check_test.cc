// SPDX-License-Identifier: BSD-3-Clause
// Questions to the SA if it still knows the membership of the broadcast group.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/sim_ipoib_link.h"
#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

TEST(MembershipCheck, U35_MembershipThatTheSaLostIsJoinedAgainWithinFiveSeconds) {
  SimIpoibLink sim;
  sim.bring_up();
  sim.run_for(20s);
  const auto joins = sim.sa.joins.size();
  sim.sa.members = 0;
  sim.run_for(5s);
  EXPECT_EQ(sim.link.counters().memberships_forgotten, 1U);
  EXPECT_EQ(sim.sa.joins.size(), joins + 1);
  sim.run_for(20s);
  EXPECT_EQ(sim.link.counters().memberships_forgotten, 1U) << "the SA knows it again";
  EXPECT_EQ(sim.link.state(), State::kUp);
}

TEST(MembershipCheck, U35_SaThatReturnsWithoutMemoryIsNoticedWithinFiveSeconds) {
  for (const Duration away : {1s, 17s, 60s, 300s}) {
    SimIpoibLink sim;
    sim.bring_up();
    sim.sa.silent = true;
    sim.run_for(away);
    EXPECT_EQ(sim.link.state(), State::kUp);
    sim.sa.silent = false;
    sim.sa.members = 0;
    sim.run_for(5s);
    EXPECT_EQ(sim.sa.members, 1U) << away.count();
  }
}

TEST(MembershipCheck, AsksAnSaThatWorksOnceInThreeSeconds) {
  SimIpoibLink sim;
  sim.bring_up();
  sim.run_for(300s);
  EXPECT_NEAR(static_cast<double>(sim.sa.checks.size()), 100, 5);
  const auto asked = *wire::read<wire::McMemberRecord>(sim.sa.checks[0].data);
  EXPECT_EQ(asked.mgid, sim.sa.group.mgid);
  EXPECT_EQ(asked.port_gid, sim.actions.attr.gid());
  EXPECT_EQ(sim.sa.checks[0].hdr.comp_mask.host(),
            wire::McMemberRecord::kMgid | wire::McMemberRecord::kPortGid);
  sim.link.stop(sim.now);
  sim.run_for(1s);
  const auto checks = sim.sa.checks.size();
  sim.run_for(60s);
  EXPECT_EQ(sim.sa.checks.size(), checks) << "a link that is stopped has no membership";
}

// It may show memberships to trusted requests only.
TEST(MembershipCheck, SaThatShowsNoMembershipIsAskedLessAndLess) {
  SimIpoibLink sim;
  sim.sa.hides_members = true;
  sim.bring_up();
  sim.run_for(60s);
  EXPECT_EQ(sim.link.counters().memberships_forgotten, 1U);
  sim.sa.checks.clear();
  const auto joins = sim.sa.joins.size();
  sim.run_for(600s);
  EXPECT_EQ(sim.link.counters().memberships_forgotten, 1U) << "nothing is restored in vain";
  EXPECT_LE(sim.sa.joins.size() - joins, 12U) << "the usual confirmations";
  EXPECT_LE(sim.sa.checks.size(), 13U) << "as often as the membership is confirmed";
  EXPECT_EQ(sim.link.state(), State::kUp);
  sim.sa.hides_members = false;
  sim.run_for(75s);
  sim.sa.checks.clear();
  sim.run_for(30s);
  EXPECT_GE(sim.sa.checks.size(), 8U);
}

TEST(MembershipCheck, SaThatRefusesTheQuestionTellsNothing) {
  for (const auto status : {wire::MadStatus::kBusy, wire::MadStatus::kSaRequestInvalid,
                            wire::MadStatus::kSaInsufficientComponents}) {
    SimIpoibLink sim;
    bool refuses = false;
    sim.meddle = [&](fabric::ReceivedMad& answer) {
      auto mad = *wire::read<wire::SaMad>(answer.bytes);
      if (refuses && mad.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kGetResp))
        mad.hdr.mad.status.set(static_cast<std::uint16_t>(status));
      return wire::write(std::span{answer.bytes}, 0, mad);
    };
    sim.bring_up();
    refuses = true;
    sim.run_for(20s);
    EXPECT_FALSE(sim.sa.checks.empty());
    EXPECT_EQ(sim.link.counters().memberships_forgotten, 0U);
  }
}

// Groups, subscriptions and the broadcast group of two nodes are restored without any event.
TEST(MembershipCheck, U31_U35_RestartedSaLearnsOfEverythingWithinFiveSeconds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimFabric f{seed};
    for (const auto* addr : {"10.0.0.1/24", "10.0.0.2/24"}) f.add_node(addr).start();
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
    ASSERT_TRUE(f.nodes[1]->link->join_group(ip("239.1.2.3"), f.now));
    f.run_for(10s + std::chrono::milliseconds(137 * seed));
    f.restart_administrator();
    ASSERT_EQ(f.members(), 0U);
    f.run_for(5s);
    EXPECT_EQ(f.broadcast_members(), 2U) << seed;
    EXPECT_EQ(f.join_state("239.1.2.3", *f.nodes[1]), wire::join_state::kFullMember) << seed;
    ASSERT_TRUE(f.nodes[1]->link->join_group(ip("239.4.4.4"), f.now));
    f.run_for(1s);
    f.nodes[0]->send_ip(ip("239.4.4.4"));
    f.run_for(100ms);
    f.nodes[0]->send_ip(ip("239.4.4.4"));
    f.run_for(100ms);
    EXPECT_GE(f.nodes[1]->group_received[ip("239.4.4.4")], 1U) << seed;
  }
}

}  // namespace
}  // namespace ipoib::link
