// SPDX-License-Identifier: BSD-3-Clause
// No membership without a holder: requests to the SA when a link leaves a group, loses its
// partition or stops, and requests that the SA does not receive. The simulation found each of these
// cases.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/sim_ipoib_link.h"
#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

constexpr auto* kGroup = "239.1.2.3";

class Memberships : public ::testing::Test {
 protected:
  Memberships() { f.config.ip6.enabled = f.config.ip6.routing = false; }
  void bring_up(std::size_t n) {
    while (f.nodes.size() < n)
      f.add_node("10.0.0." + std::to_string(f.nodes.size() + 1) + "/24").start();
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
    f.run_for(100ms);
  }
  SimNode& node(std::size_t i) { return *f.nodes.at(i); }

  SimFabric f{1};
};

TEST_F(Memberships, U35_LeaveThatTheSaDidNotHearIsToldAgain) {
  bring_up(1);
  ASSERT_TRUE(node(0).link->join_group(ip(kGroup), f.now));
  f.run_for(100ms);
  ASSERT_NE(f.group(kGroup), nullptr);
  f.administrator_silent = true;
  ASSERT_TRUE(node(0).link->leave_group(ip(kGroup), f.now));
  // All attempts of one request fail, and all those of the next.
  f.run_for(60s);
  EXPECT_GE(node(0).link->counters().group_leaves_failed, 2U);
  EXPECT_LE(node(0).link->counters().group_leaves_sent, 6U);
  f.administrator_silent = false;
  f.run_for(25s);
  EXPECT_EQ(f.group(kGroup), nullptr);
  EXPECT_EQ(node(0).link->groups(f.now).size(), 1U);
}

TEST_F(Memberships, U33_WhatWasJoinedBeforeThePartitionWentIsLeftWhenItIsBack) {
  bring_up(2);
  ASSERT_TRUE(node(1).link->join_group(ip(kGroup), f.now));
  f.run_for(100ms);
  node(0).send_ip(ip(kGroup));
  f.run_for(100ms);
  ASSERT_EQ(f.join_state(kGroup, node(0)), wire::join_state::kSendOnlyNonMember);
  node(0).set_pkey(false);
  f.run_for(5s);
  node(0).set_pkey(true);
  f.run_for(25s);
  EXPECT_EQ(node(0).link->state(), State::kUp);
  // The link no longer sends to the group, so it is not a member. It is again a member of the group
  // to which it listens.
  EXPECT_EQ(f.join_state(kGroup, node(0)), 0U);
  EXPECT_EQ(f.join_state("224.0.0.1", node(0)), wire::join_state::kFullMember);
}

TEST_F(Memberships, U33_LinkWithoutItsPartitionLeavesAtItsEnd) {
  bring_up(2);
  node(0).set_pkey(false);
  f.run_for(5s);
  EXPECT_EQ(f.broadcast_members(), 2U);
  node(0).link->stop(f.now);
  f.run_for(3s);
  EXPECT_EQ(node(0).link->state(), State::kStopped);
  EXPECT_TRUE(node(0).nothing_left());
  EXPECT_EQ(f.broadcast_members(), 1U);
  EXPECT_EQ(f.join_state("224.0.0.1", node(0)), 0U);
}

TEST_F(Memberships, U33_ShutdownJoinsNothingToSendToIt) {
  f.config.ip6.enabled = true;
  bring_up(2);
  f.run_for(10s);
  const auto joins = node(0).link->counters().group_joins_sent;
  node(0).link->stop(f.now);
  f.run_for(3s);
  EXPECT_EQ(node(0).link->counters().group_joins_sent, joins);
  for (const auto* group : {"ff02::1", "224.0.0.1"}) EXPECT_EQ(f.join_state(group, node(0)), 0U);
}

TEST(SaAnswers, U20_PathOfAnotherPortIsNotBelieved) {
  SimFabric f{1};
  for (const auto* addr : {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"}) f.add_node(addr).start();
  ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
  auto& a = *f.nodes[0];
  a.send_ip(f.nodes[1]->address());
  f.run_for(100ms);
  ASSERT_TRUE(a.sink->valid(f.nodes[1]->address()));
  // The answer about the third node carries the record of the second one.
  f.faults.wrong_record = 1;
  const wire::LinkAddr hw{0, wire::Be24{f.nodes[2]->actions->own_qpn},
                          f.nodes[2]->actions->attr.gid()};
  ASSERT_TRUE(a.link->add_static(f.nodes[2]->address(), wire::to_string(hw), 0, 0, f.now));
  f.run_for(100ms);
  EXPECT_FALSE(a.sink->valid(f.nodes[2]->address()));
  EXPECT_EQ(a.link->counters().path_failures, 1U);
  f.faults.wrong_record = 0;
  f.run_for(5s);
  a.send_ip(f.nodes[2]->address());
  f.run_for(100ms);
  EXPECT_EQ(f.nodes[2]->received[a.address()], 1U);
}

/// A link that asked whether the group exists, and became its member before the answer arrived.
/// Each test gives it the SA's answer, with changes.
class OlderAnswer : public ::testing::Test {
 protected:
  void SetUp() override {
    sim.bring_up();
    sim.meddle = [this](const fabric::ReceivedMad& answer) {
      const auto status = wire::read<wire::SaMad>(answer.bytes)->hdr.mad.status.host();
      if (late || status != static_cast<std::uint16_t>(wire::MadStatus::kSaNoRecords)) return true;
      late = answer;
      return false;
    };
    sim.want(ip(kGroup));
    sim.run_for(5ms);
    ASSERT_TRUE(late);
    ASSERT_TRUE(sim.link.join_group(ip(kGroup), sim.now));
    sim.run_for(50ms);
    ASSERT_TRUE(sim.sink.valid(ip(kGroup)));
  }
  void deliver() {
    sim.client.on_mad(*late, sim.now);
    sim.run_for(50ms);
  }
  [[nodiscard]] std::uint16_t mlid() const {
    for (const auto& row : sim.link.groups(sim.now))
      if (row.group == ip(kGroup)) return row.mlid;
    return 0;
  }

  SimIpoibLink sim;
  std::optional<fabric::ReceivedMad> late;
};

TEST_F(OlderAnswer, U31_DoesNotDenyTheGroup) {
  deliver();
  EXPECT_TRUE(sim.sink.valid(ip(kGroup)));
  EXPECT_EQ(sim.link.counters().group_absent, 0U);
}

// The SA deleted the group and created it again between the query and the membership.
TEST_F(OlderAnswer, U31_DoesNotMoveTheGroup) {
  auto mad = *wire::read<wire::SaMad>(late->bytes);
  auto record = *wire::read<wire::McMemberRecord>(mad.data);
  record.mlid.set(0xc0aa);
  record.qkey = sim.sa.group.qkey;
  record.mtu = sim.sa.group.mtu;
  record.rate = sim.sa.group.rate;
  record.pkey = sim.sa.group.pkey;
  mad.hdr.mad.status.set(0);
  ASSERT_TRUE(wire::write(std::span{mad.data}, 0, record));
  ASSERT_TRUE(wire::write(std::span{late->bytes}, 0, mad));
  const auto joined = mlid();
  deliver();
  EXPECT_EQ(mlid(), joined);
  for (const auto& [index, ah] : sim.actions.ahs) EXPECT_NE(ah.dlid, 0xc0aa);
}

}  // namespace
}  // namespace ipoib::link
