// SPDX-License-Identifier: BSD-3-Clause
// The broadcast group of a link is deleted at the SA, and exists again later.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/sa/sa_mad.h"
#include "lib/wire/iba.h"
#include "lib/wire/notice.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

class BroadcastDeleted : public ::testing::Test {
 protected:
  static constexpr auto* kPeer = "10.0.0.2";
  static constexpr auto* kGroup = "239.1.2.3";
  static constexpr auto* kAbsence = "the group does not exist";

  /// The group exists again only when a port creates it.
  void remove_group() {
    sim.sa.only_creation = true;
    sim.sa.members = 0;
  }
  void create_group() { sim.sa.only_creation = false; }
  void report(wire::Trap trap, const wire::Gid& mgid) {
    sim.link.on_report(wire::make_notice(trap, mgid, 1, {}), sim.now);
  }
  void report(wire::Trap trap) { report(trap, sim.sa.group.mgid); }
  void bring_up() {
    peer = sim.bring_up_with_peer();
    ASSERT_TRUE(sim.link.join_group(ip(kGroup), sim.now));
    sim.run_for(100ms);
    ASSERT_EQ(row(kGroup).state, "member");
    sim.sa.group_requests.clear();
  }
  void lose_group() {
    bring_up();
    remove_group();
    report(wire::Trap::kGroupDeleted);
    sim.run_for(300ms);
    ASSERT_EQ(sim.link.state(), State::kJoining);
  }
  [[nodiscard]] GroupInfo row(const char* group) const {
    for (auto& r : sim.link.groups(sim.now))
      if (r.group == ip(group)) return r;
    return {};
  }
  [[nodiscard]] auto requests(wire::Method method) const {
    return std::ranges::count_if(sim.sa.group_requests, [&](const wire::SaMad& mad) {
      return mad.hdr.mad.method == static_cast<std::uint8_t>(method);
    });
  }
  void expect_down() {
    EXPECT_EQ(sim.link.state(), State::kJoining);
    EXPECT_NE(sim.link.reason().find(kAbsence), std::string::npos) << sim.link.reason();
    EXPECT_FALSE(sim.sink.valid(ip(kPeer)));
    EXPECT_TRUE(sim.actions.attached.empty());
    EXPECT_TRUE(sim.actions.ahs.empty());
  }

  SimIpoibLink sim;
  wire::LinkAddr peer;
};

TEST_F(BroadcastDeleted, U43_ReportTakesTheLinkDownAtOnceAndTheReasonIsNamed) {
  bring_up();
  remove_group();
  report(wire::Trap::kGroupDeleted);
  const std::string log = logged([&] { sim.run_for(300ms); });
  expect_down();
  EXPECT_NE(log.find(kAbsence), std::string::npos) << log;
  EXPECT_GE(requests(wire::Method::kDelete), 2) << "groups that were created like it are left";
  EXPECT_EQ(sim.link.counters().group_reports, 1U);
}

TEST_F(BroadcastDeleted, U43_LostReportIsMadeUpForWithinFiveSeconds) {
  bring_up();
  remove_group();
  sim.run_for(5s);
  expect_down();
}

/// A subnet manager that restarts may create its groups after it requested reregistration. Several
/// events may come with that.
TEST_F(BroadcastDeleted, U43_BriefDenialAfterAReregistrationKeepsNeighboursAndGroups) {
  bring_up();
  remove_group();
  sim.on_port_event(fabric::PortEvent::kSmChange, 150ms);
  sim.on_port_event(fabric::PortEvent::kClientReregister, 150ms);
  EXPECT_EQ(sim.link.state(), State::kJoining);
  EXPECT_NE(sim.link.reason().find(kAbsence), std::string::npos) << sim.link.reason();
  EXPECT_TRUE(sim.sink.valid(ip(kPeer)));
  create_group();
  sim.run_for(3s);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_TRUE(sim.sink.valid(ip(kPeer)));
  EXPECT_EQ(row(kGroup).state, "member");
  EXPECT_EQ(requests(wire::Method::kDelete), 0);
}

TEST_F(BroadcastDeleted, U43_SecondDenialAfterAReregistrationTakesTheLinkDown) {
  bring_up();
  remove_group();
  sim.on_port_event(fabric::PortEvent::kClientReregister, 2s);
  expect_down();
}

/// Each link that was up has its own grace.
TEST_F(BroadcastDeleted, U43_GraceBeginsAgainAfterEachMembership) {
  bring_up();
  for (int i = 0; i < 3; ++i) {
    remove_group();
    sim.on_port_event(fabric::PortEvent::kClientReregister, 300ms);
    ASSERT_EQ(sim.link.state(), State::kJoining);
    create_group();
    sim.run_for(3s);
    ASSERT_EQ(sim.link.state(), State::kUp);
    EXPECT_TRUE(sim.sink.valid(ip(kPeer))) << i;
  }
}

TEST_F(BroadcastDeleted, U43_WithoutReportsTheGroupIsFoundWithTheUsualBackoff) {
  lose_group();
  sim.run_for(1min);
  const auto before = sim.sa.joins.size();
  sim.run_for(2min);
  EXPECT_NEAR(static_cast<double>(sim.sa.joins.size() - before), 7.5, 2.5);
  create_group();
  sim.run_for(20s);
  EXPECT_EQ(sim.link.state(), State::kUp);
}

TEST_F(BroadcastDeleted, U43_NewGroupBringsTheLinkBackWithItsParameters) {
  lose_group();
  sim.run_for(30s);
  create_group();
  sim.sa.group.mlid.set(0xc042);
  sim.sa.group.qkey.set(0x8000'0042);
  sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 3);
  report(wire::Trap::kGroupCreated);
  sim.run_for(300ms);
  ASSERT_EQ(sim.link.state(), State::kUp) << sim.link.reason();
  EXPECT_EQ(sim.link.mtu(), 1020);
  EXPECT_EQ(sim.actions.qkey, 0x8000'0042U);
  EXPECT_TRUE(sim.actions.attached.contains({sim.sa.group.mgid, 0xc042}));
  EXPECT_EQ(row(kGroup).state, "member");
  sim.resolve(kPeer, peer);
  EXPECT_TRUE(sim.sink.valid(ip(kPeer)));
  sim.link.stop(sim.now);
  sim.run_for(5s);
  sim.expect_nothing_left();
}

TEST_F(BroadcastDeleted, U43_NewGroupBeforeTheReportOfTheDeletionIsTakenOver) {
  bring_up();
  sim.sa.members = 0;
  sim.sa.group.mlid.set(0xc042);
  report(wire::Trap::kGroupDeleted);
  sim.run_for(300ms);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_EQ(sim.sa.members, 1U);
  EXPECT_TRUE(sim.actions.attached.contains({sim.sa.group.mgid, 0xc042}));
  EXPECT_TRUE(sim.sink.valid(ip(kPeer)));
}

TEST_F(BroadcastDeleted, U43_GroupWithAnMtuBeyondThePortTakesTheLinkDown) {
  bring_up();
  sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 5);
  report(wire::Trap::kGroupDeleted);
  sim.run_for(300ms);
  EXPECT_NE(sim.link.reason().find("larger than the port's"), std::string::npos);
  EXPECT_FALSE(sim.sink.valid(ip(kPeer)));
  EXPECT_TRUE(sim.actions.attached.empty());
}

/// An administrator that restarts reports nothing to a port that has not subscribed again.
TEST_F(BroadcastDeleted, U43_LinkThatIsDownSubscribesAgainAfterAReregistration) {
  lose_group();
  unsigned subscriptions = 0;
  sim.meddle = [&](fabric::ReceivedMad& answer) {
    const auto mad = *wire::read<wire::SaMad>(answer.bytes);
    subscriptions +=
        mad.hdr.mad.attr_id.host() == static_cast<std::uint16_t>(wire::Attr::kInformInfo);
    return true;
  };
  sim.run_for(500ms);
  ASSERT_EQ(subscriptions, 0U);
  sim.on_port_event(fabric::PortEvent::kClientReregister, 500ms);
  EXPECT_EQ(sim.link.state(), State::kJoining);
  EXPECT_GE(subscriptions, 2U);
}

TEST_F(BroadcastDeleted, U43_ReportsOfOtherGroupsAskNothing) {
  bring_up();
  const auto asked = sim.sa.joins.size();
  const wire::Gid other = wire::broadcast_mgid(0x8003, 2);
  report(wire::Trap::kGroupDeleted, other);
  report(wire::Trap::kGroupCreated, other);
  report(wire::Trap::kGroupCreated);
  sim.run_for(300ms);
  EXPECT_EQ(sim.sa.joins.size(), asked);
  EXPECT_EQ(sim.link.state(), State::kUp);
}

TEST_F(BroadcastDeleted, U43_LinkThatGoesDownStopsInOrder) {
  bring_up();
  remove_group();
  report(wire::Trap::kGroupDeleted);
  while (sim.link.state() == State::kUp) sim.run_for(1ms);
  sim.link.stop(sim.now);
  sim.run_for(5s);
  EXPECT_EQ(sim.link.state(), State::kStopped);
  sim.expect_nothing_left();
}

/// The link loses its broadcast group while requests about another group are under way. Its answers
/// of one method are held back, until deliver() or for ever.
class RequestsOfLostLink : public BroadcastDeleted {
 protected:
  void hold(wire::Method response) {
    sim.meddle = [this, response](const fabric::ReceivedMad& answer) {
      const auto mad = *wire::read<wire::SaMad>(answer.bytes);
      if (mad.hdr.mad.method != static_cast<std::uint8_t>(response)) return true;
      if (wire::read<wire::McMemberRecord>(mad.data)->mgid != mgid) return true;
      held = answer;
      return false;
    };
  }
  void deliver() {
    ASSERT_TRUE(held);
    sim.meddle = nullptr;
    sim.client.on_mad(*held, sim.now);
    sim.run_for(300ms);
  }
  /// The membership of the group is just being confirmed when the link goes down.
  void lose_while_joining() {
    bring_up();
    hold(wire::Method::kGetResp);
    sim.on_port_event(fabric::PortEvent::kClientReregister, 100ms);
    ASSERT_TRUE(held);
    remove_group();
    report(wire::Trap::kGroupDeleted);
    sim.run_for(300ms);
    ASSERT_EQ(sim.link.state(), State::kJoining);
  }
  void lose_while_leaving() {
    hold(wire::Method::kDeleteResp);
    lose_group();
    ASSERT_TRUE(held);
  }
  void come_back(std::uint32_t qkey) {
    create_group();
    sim.sa.group.qkey.set(qkey);
    report(wire::Trap::kGroupCreated);
    sim.run_for(200ms);
    ASSERT_EQ(sim.link.state(), State::kUp) << sim.link.reason();
  }
  /// Requests of kGroup since the last clear() of sa.group_requests, S for a join and D for a leave.
  [[nodiscard]] std::string sequence() const {
    std::string letters;
    for (const wire::SaMad& mad : sim.sa.group_requests)
      if (wire::read<wire::McMemberRecord>(mad.data)->mgid == mgid)
        letters += mad.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kSet) ? 'S' : 'D';
    return letters;
  }
  [[nodiscard]] bool attached() const {
    return std::ranges::any_of(sim.actions.attached,
                               [&](const auto& a) { return a.first.first == mgid; });
  }
  void expect_stop_in_order() {
    sim.meddle = nullptr;
    sim.link.stop(sim.now);
    sim.run_for(5s);
    EXPECT_EQ(sim.link.state(), State::kStopped);
    sim.expect_nothing_left();
  }

  const wire::Gid mgid = wire::mgid_of(ip(kGroup), wire::kDefaultPkey, 2);
  std::optional<fabric::ReceivedMad> held;
};

TEST_F(RequestsOfLostLink, U43_GroupOfARequestUnderWayIsDetachedAtOnce) {
  lose_while_joining();
  expect_down();
  expect_stop_in_order();
}

TEST_F(RequestsOfLostLink, U43_LateMembershipIsLeft) {
  lose_while_joining();
  sim.sa.group_requests.clear();
  deliver();
  EXPECT_EQ(sequence(), "D");
  expect_down();
  EXPECT_EQ(sim.link.counters().group_leaves_failed, 0U);
  for (const GroupInfo& group : sim.link.groups(sim.now)) EXPECT_EQ(group.state, "waiting");
}

TEST_F(RequestsOfLostLink, U43_LeaveThatTheSaDoesNotAnswerIsRepeatedWithBackoff) {
  lose_while_leaving();
  sim.run_for(2min);
  // Each request is sent five times within 12 to 15 s; the pauses between requests grow to 16 s.
  const auto sent = sequence().size();
  EXPECT_GE(sent, 20U);
  EXPECT_LE(sent, 50U);
  EXPECT_GE(sim.link.counters().group_leaves_failed, 4U);
  EXPECT_EQ(sequence(), std::string(sent, 'D'));
  sim.meddle = nullptr;
  sim.run_for(30s);
  const auto left = sequence().size();
  sim.run_for(1min);
  EXPECT_EQ(sequence().size(), left) << "an answered leave is the last one";
  for (const GroupInfo& group : sim.link.groups(sim.now)) EXPECT_EQ(group.state, "waiting");
}

TEST_F(RequestsOfLostLink, U43_LinkThatIsUpAgainJoinsAfterTheLeaveIsAnswered) {
  lose_while_leaving();
  come_back(0x8000'0042);
  EXPECT_EQ(sequence(), "D");
  EXPECT_FALSE(attached());
  deliver();
  EXPECT_EQ(sequence(), "DS");
  EXPECT_TRUE(attached());
  EXPECT_EQ(row(kGroup).state, "member");
}

/// A membership of before would keep the old group alive, with its Q_Key.
TEST_F(RequestsOfLostLink, U43_LinkThatIsUpAgainRepeatsTheLeaveBeforeItJoins) {
  lose_while_leaving();
  come_back(0x8000'0042);
  sim.run_for(20s);
  EXPECT_EQ(sequence().find('S'), std::string::npos) << sequence();
  sim.meddle = nullptr;
  sim.run_for(20s);
  const std::string all = sequence();
  EXPECT_EQ(all.find('S'), all.rfind('D') + 1) << all;
  EXPECT_EQ(row(kGroup).state, "member");
  EXPECT_TRUE(attached());
}

TEST_F(RequestsOfLostLink, U43_MembershipOfBeforeIsLeftWhenTheLinkIsUpAgain) {
  lose_while_joining();
  sim.sa.group_requests.clear();
  come_back(0x8000'0042);
  EXPECT_EQ(sequence().find('D'), std::string::npos) << sequence();
  EXPECT_FALSE(attached());
  sim.sa.group_requests.clear();
  deliver();
  EXPECT_EQ(sequence(), "DS");
  EXPECT_EQ(row(kGroup).state, "member");
  EXPECT_TRUE(attached());
  expect_stop_in_order();
}

TEST_F(RequestsOfLostLink, U43_EveryMembershipEndsWithTheLinkThoughNoLeaveIsAnswered) {
  lose_while_leaving();
  sim.run_for(13s);
  sim.link.stop(sim.now);
  sim.run_for(5s);
  EXPECT_EQ(sim.link.state(), State::kStopped);
  sim.expect_nothing_left();
}

class CreatorOfDeleted : public BroadcastDeleted {
 protected:
  CreatorOfDeleted()
      : creator{SimIpoibLink::config_with(
            [](LinkConfig& c) { c.create_broadcast = BroadcastAttributes{}; })} {
    creator.bring_up();
    const auto hw = creator.add_host(0xb, 0x50, 3);
    creator.resolve(kPeer, hw);
    creator.sa.only_creation = true;
    creator.sa.members = 0;
    creator.sa.joins.clear();
  }
  void report_deletion() {
    creator.link.on_report(
        wire::make_notice(wire::Trap::kGroupDeleted, creator.sa.group.mgid, 1, {}), creator.now);
    creator.run_for(300ms);
  }
  SimIpoibLink creator;
};

TEST_F(CreatorOfDeleted, U43_NodeThatMayCreateTheGroupDoesSoAndKeepsItsNeighbours) {
  report_deletion();
  EXPECT_EQ(creator.link.state(), State::kUp);
  ASSERT_FALSE(creator.sa.joins.empty());
  EXPECT_EQ(creator.sa.joins.back().hdr.comp_mask.host(), wire::McMemberRecord::kCreateMask);
  EXPECT_TRUE(creator.sink.valid(ip(kPeer)));
}

TEST_F(CreatorOfDeleted, U43_NodeWhoseCreationIsRefusedGoesDown) {
  creator.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid);
  report_deletion();
  EXPECT_EQ(creator.link.state(), State::kJoining);
  EXPECT_FALSE(creator.link.reason().empty());
  EXPECT_FALSE(creator.sink.valid(ip(kPeer)));
  creator.sa.join_status = 0;
  creator.run_for(20s);
  EXPECT_EQ(creator.link.state(), State::kUp);
}

}  // namespace
}  // namespace ipoib::link
