// SPDX-License-Identifier: BSD-3-Clause
// Records of groups that a port cannot use, each with another invalid field: at the join, at a
// confirmation, and of a broadcast group that was deleted and exists again.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

#include "lib/sa/sa_mad.h"
#include "lib/wire/iba.h"
#include "lib/wire/notice.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using wire::McMemberRecord;

struct BadField {
  const char* name;
  void (*change)(McMemberRecord& record);
  const char* reason;

  friend void PrintTo(const BadField& field, std::ostream* out) { *out << field.name; }
};

constexpr std::uint8_t exactly(std::uint8_t code) {
  return wire::with_selector(wire::Selector::kExactly, code);
}

constexpr BadField kBadFields[] = {
    {"Mtu0", [](McMemberRecord& r) { r.mtu = exactly(0); }, "invalid MTU code 0"},
    {"Mtu6", [](McMemberRecord& r) { r.mtu = exactly(6); }, "invalid MTU code 6"},
    {"Mtu63", [](McMemberRecord& r) { r.mtu = exactly(63); }, "invalid MTU code 63"},
    {"Mtu4096", [](McMemberRecord& r) { r.mtu = exactly(5); }, "larger than the port's 2048"},
    {"Mlid0", [](McMemberRecord& r) { r.mlid.set(0); }, "invalid MLID 0x0000"},
    {"MlidUnicast", [](McMemberRecord& r) { r.mlid.set(0xbfff); }, "invalid MLID 0xbfff"},
    {"MlidPermissive", [](McMemberRecord& r) { r.mlid.set(0xffff); }, "invalid MLID 0xffff"},
    {"Rate0", [](McMemberRecord& r) { r.rate = exactly(0); }, "invalid rate code 0"},
    {"Rate1", [](McMemberRecord& r) { r.rate = exactly(1); }, "invalid rate code 1"},
    {"Rate25", [](McMemberRecord& r) { r.rate = exactly(25); }, "invalid rate code 25"},
    {"Rate63", [](McMemberRecord& r) { r.rate = exactly(63); }, "invalid rate code 63"},
    {"Partition", [](McMemberRecord& r) { r.pkey.set(0x8003); }, "different P_Key 0x8003"}};

/// Only groups beside the broadcast group, which gives the link its Q_Key.
constexpr BadField kBadQkeys[] = {
    {"Qkey", [](McMemberRecord& r) { r.qkey.set(0x8001'0b1c); }, "Q_Key 0x80010b1c"},
    {"UncontrolledQkey", [](McMemberRecord& r) { r.qkey.set(0x0b1b); }, "Q_Key 0x00000b1b"}};

class GroupRecords : public ::testing::TestWithParam<BadField> {
 protected:
  static constexpr auto* kPeer = "10.0.0.2";
  static constexpr auto* kGroup = "239.1.2.3";

  void bring_up() { peer = sim.bring_up_with_peer(); }
  void report(wire::Trap trap) {
    sim.link.on_report(wire::make_notice(trap, sim.sa.group.mgid, 1, {}), sim.now);
    sim.run_for(300ms);
  }
  void delete_group() {
    sim.sa.only_creation = true;
    sim.sa.members = 0;
    report(wire::Trap::kGroupDeleted);
    ASSERT_EQ(sim.link.state(), State::kJoining);
  }
  void expect_down() {
    EXPECT_EQ(sim.link.state(), State::kJoining);
    EXPECT_NE(sim.link.reason().find(GetParam().reason), std::string::npos) << sim.link.reason();
    EXPECT_EQ(sim.link.mtu(), 0);
    EXPECT_FALSE(sim.sink.valid(ip(kPeer)));
    EXPECT_TRUE(sim.actions.attached.empty());
    EXPECT_TRUE(sim.actions.ahs.empty());
  }
  void expect_recovery() {
    sim.sa.group = good;
    sim.run_for(20s);
    ASSERT_EQ(sim.link.state(), State::kUp) << sim.link.reason();
    EXPECT_TRUE(sim.actions.attached.contains({good.mgid, good.mlid.host()}));
    sim.resolve(kPeer, peer);
    EXPECT_TRUE(sim.sink.valid(ip(kPeer)));
    sim.link.stop(sim.now);
    sim.run_for(5s);
    sim.expect_nothing_left();
  }

  /// From now on, answers about kGroup have the bad field.
  void spoil_group() {
    sim.meddle = [this](fabric::ReceivedMad& answer) {
      auto mad = *wire::read<wire::SaMad>(answer.bytes);
      auto record = *wire::read<McMemberRecord>(mad.data);
      if (mad.hdr.mad.attr_id.host() == static_cast<std::uint16_t>(wire::Attr::kMcMemberRecord) &&
          record.mgid == mgid) {
        GetParam().change(record);
        EXPECT_TRUE(wire::write(std::span{mad.data}, 0, record));
      }
      return wire::write(std::span{answer.bytes}, 0, mad);
    };
  }
  [[nodiscard]] GroupInfo row() const {
    for (auto& r : sim.link.groups(sim.now))
      if (r.group == ip(kGroup)) return r;
    return {};
  }
  [[nodiscard]] bool attached() const {
    return std::ranges::any_of(sim.actions.attached,
                               [&](const auto& a) { return a.first.first == mgid; });
  }
  [[nodiscard]] auto requests(wire::Method method) const {
    return std::ranges::count_if(sim.sa.group_requests, [&](const wire::SaMad& mad) {
      return mad.hdr.mad.method == static_cast<std::uint8_t>(method) &&
             wire::read<McMemberRecord>(mad.data)->mgid == mgid;
    });
  }
  void expect_unused() {
    EXPECT_FALSE(attached());
    EXPECT_FALSE(sim.sink.valid(ip(kGroup)));
    EXPECT_NE(row().state, "member");
    EXPECT_EQ(row().join_state, 0U);
    EXPECT_NE(row().reason.find(GetParam().reason), std::string::npos) << row().reason;
    EXPECT_EQ(sim.link.state(), State::kUp);
  }
  void expect_group_recovery() {
    sim.meddle = nullptr;
    sim.run_for(20s);
    EXPECT_EQ(row().state, "member");
    EXPECT_TRUE(row().reason.empty()) << row().reason;
    EXPECT_TRUE(attached());
    sim.want(ip(kGroup));
    EXPECT_TRUE(sim.sink.valid(ip(kGroup)));
    sim.link.stop(sim.now);
    sim.run_for(5s);
    sim.expect_nothing_left();
  }

  SimIpoibLink sim;
  wire::LinkAddr peer;
  const McMemberRecord good = sim.sa.group;
  const wire::Gid mgid = wire::mgid_of(ip(kGroup), wire::kDefaultPkey, 2);
};

using BadBroadcast = GroupRecords;

TEST_P(BadBroadcast, U35_U43_LinkDoesNotComeUp) {
  GetParam().change(sim.sa.group);
  sim.start();
  sim.run_for(100ms);
  expect_down();
  sim.sa.group = good;
  sim.run_for(5s);
  EXPECT_EQ(sim.link.state(), State::kUp) << sim.link.reason();
}

TEST_P(BadBroadcast, U43_ReplacedGroupTakesTheLinkDownAndIsAskedForAgain) {
  bring_up();
  GetParam().change(sim.sa.group);
  const std::string log = logged([&] { report(wire::Trap::kGroupDeleted); });
  expect_down();
  EXPECT_NE(log.find(GetParam().reason), std::string::npos) << log;
  sim.run_for(1min);
  const auto before = sim.sa.joins.size();
  sim.run_for(2min);
  EXPECT_NEAR(static_cast<double>(sim.sa.joins.size() - before), 7.5, 2.5);
  expect_down();
  expect_recovery();
}

TEST_P(BadBroadcast, U43_ConfirmationTakesTheLinkDown) {
  bring_up();
  GetParam().change(sim.sa.group);
  sim.run_for(90s);
  expect_down();
  expect_recovery();
}

TEST_P(BadBroadcast, U43_GroupThatReturnsIsNotUsed) {
  bring_up();
  delete_group();
  sim.sa.only_creation = false;
  GetParam().change(sim.sa.group);
  report(wire::Trap::kGroupCreated);
  expect_down();
  expect_recovery();
}

INSTANTIATE_TEST_SUITE_P(Fields, BadBroadcast, ::testing::ValuesIn(kBadFields),
                         [](const auto& test) { return std::string{test.param.name}; });

using BadGroup = GroupRecords;

TEST_P(BadGroup, U35_IsNotUsedAndIsLeftBeforeItIsAskedForAgain) {
  bring_up();
  spoil_group();
  const std::string log = logged([&] {
    ASSERT_TRUE(sim.link.join_group(ip(kGroup), sim.now));
    sim.run_for(100ms);
  });
  expect_unused();
  EXPECT_NE(log.find(GetParam().reason), std::string::npos) << log;
  EXPECT_EQ(requests(wire::Method::kDelete), 1);
  sim.run_for(1min);
  const auto before = requests(wire::Method::kSet);
  sim.run_for(2min);
  const auto joins = static_cast<double>(requests(wire::Method::kSet) - before);
  EXPECT_NEAR(joins, 7.5, 2.5);
  EXPECT_EQ(requests(wire::Method::kSet), requests(wire::Method::kDelete));
  expect_unused();
  expect_group_recovery();
}

TEST_P(BadGroup, U35_MemberIsNoLongerOneAfterAConfirmation) {
  bring_up();
  ASSERT_TRUE(sim.link.join_group(ip(kGroup), sim.now));
  sim.want(ip(kGroup));
  sim.run_for(100ms);
  ASSERT_TRUE(attached() && sim.sink.valid(ip(kGroup)));
  spoil_group();
  sim.on_port_event(fabric::PortEvent::kClientReregister, 300ms);
  expect_unused();
  expect_group_recovery();
}

INSTANTIATE_TEST_SUITE_P(Fields, BadGroup, ::testing::ValuesIn(kBadFields),
                         [](const auto& test) { return std::string{test.param.name}; });
INSTANTIATE_TEST_SUITE_P(Qkeys, BadGroup, ::testing::ValuesIn(kBadQkeys),
                         [](const auto& test) { return std::string{test.param.name}; });

}  // namespace
}  // namespace ipoib::link
