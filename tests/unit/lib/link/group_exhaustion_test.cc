// SPDX-License-Identifier: BSD-3-Clause
// No room for a group: at the SA (MLIDs, members), in the device (attachments), or in the link's table.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "lib/sa/sa_mad.h"
#include "lib/wire/iba.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

/// A link whose SA has no room for members of groups beside the broadcast group.
class GroupExhaustion : public ::testing::Test {
 protected:
  static constexpr auto* kWanted = "239.1.2.3";

  void bring_up(const std::function<void(LinkConfig&)>& change = [](LinkConfig&) {}) {
    sim.emplace(SimIpoibLink::config_with(change));
    sim->meddle = [this](fabric::ReceivedMad& answer) {
      auto mad = *wire::read<wire::SaMad>(answer.bytes);
      auto record = *wire::read<wire::McMemberRecord>(mad.data);
      const bool answers = mad.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kGetResp);
      const bool of_group =
          mad.hdr.mad.attr_id.host() == static_cast<std::uint16_t>(wire::Attr::kMcMemberRecord);
      if (!answers || !of_group || record.mgid == sim->sa.group.mgid) return true;
      const bool join = (mad.hdr.comp_mask.host() & wire::McMemberRecord::kJoin) != 0;
      if (join && full) mad.hdr.mad.status.set(static_cast<std::uint16_t>(refusal));
      if (!join && exists.contains(record.mgid)) {
        mad.hdr.mad.status.set(0);
        const auto mgid = record.mgid;
        record = sim->sa.group;
        record.mgid = mgid;
        record.mlid.set(0xc100);
        static_cast<void>(wire::write(std::span{mad.data}, 0, record));
      }
      return wire::write(std::span{answer.bytes}, 0, mad);
    };
    sim->bring_up();
    full = true;
  }
  void make_group(const char* group) {
    exists.insert(wire::mgid_of(ip(group), wire::kDefaultPkey, 2));
  }
  void send(const char* group, Duration then = 100ms) {
    sim->want(ip(group));
    sim->run_for(then);
  }
  [[nodiscard]] GroupInfo row(const char* group) const {
    for (auto& r : sim->link.groups(sim->now))
      if (r.group == ip(group)) return r;
    return {};
  }
  [[nodiscard]] wire::Gid way_of(const char* group) const {
    const auto* n = sim->sink.find(ip(group));
    return n != nullptr && sim->sink.valid(ip(group)) ? sim->actions.ahs.at(n->ah).dgid
                                                      : wire::Gid{};
  }

  std::optional<SimIpoibLink> sim;
  std::set<wire::Gid> exists;
  bool full = false;
  wire::MadStatus refusal = wire::MadStatus::kSaNoResources;
};

TEST_F(GroupExhaustion, U44_SaWithoutRoomIsNamed) {
  bring_up();
  const std::string log = logged([&] {
    ASSERT_TRUE(sim->link.join_group(ip(kWanted), sim->now));
    sim->run_for(100ms);
  });
  EXPECT_EQ(row(kWanted).state, "no-resources");
  EXPECT_NE(row(kWanted).reason.find("no room for the group, its MLID"), std::string::npos);
  EXPECT_NE(log.find("no room for the group, its MLID"), std::string::npos) << log;
  full = false;
  sim->run_for(20s);
  EXPECT_EQ(row(kWanted).state, "member");
  EXPECT_TRUE(row(kWanted).reason.empty());
}

TEST_F(GroupExhaustion, U44_DeviceWithoutAttachmentsIsNamed) {
  bring_up();
  full = false;
  sim->actions.max_attached = sim->actions.nb_attached;
  ASSERT_TRUE(sim->link.join_group(ip(kWanted), sim->now));
  sim->run_for(100ms);
  EXPECT_EQ(row(kWanted).state, "no-resources");
  EXPECT_EQ(row(kWanted).reason, "no room for groups");
  sim->actions.max_attached = SIZE_MAX;
  sim->run_for(20s);
  EXPECT_EQ(row(kWanted).state, "member");
}

TEST_F(GroupExhaustion, U44_PacketsToAGroupThatCannotBeJoinedGoToTheBroadcastGroup) {
  bring_up();
  make_group(kWanted);
  send(kWanted);
  EXPECT_EQ(way_of(kWanted), sim->sa.group.mgid);
  EXPECT_EQ(row(kWanted).state, "broadcast");
  full = false;
  send(kWanted, 20s);
  EXPECT_EQ(way_of(kWanted), wire::mgid_of(ip(kWanted), wire::kDefaultPkey, 2));
  EXPECT_EQ(row(kWanted).state, "send-only");
}

TEST_F(GroupExhaustion, U44_PacketsToAGroupThatCannotBeCreatedGoToTheRouters) {
  bring_up([](LinkConfig& c) { c.group.send_only = SendOnly::kFullMember; });
  full = false;
  send("224.0.0.2");  // The all-routers group exists.
  full = true;
  send(kWanted);
  EXPECT_EQ(way_of(kWanted), wire::mgid_of(ip("224.0.0.2"), wire::kDefaultPkey, 2));
  EXPECT_EQ(row(kWanted).state, "all-routers");
  full = false;
  send(kWanted, 20s);
  EXPECT_EQ(row(kWanted).state, "send-only");
}

/// Between the attempts to create them, which come at growing intervals. They are not known to be absent.
TEST_F(GroupExhaustion, P16_GroupsThatTheSaDoesNotCreateGiveWayToOthers) {
  refusal = wire::MadStatus::kSaRequestInvalid;
  bring_up([](LinkConfig& c) {
    c.group.send_only = SendOnly::kFullMember;
    c.group.max_groups = 4;
  });
  for (std::uint32_t i = 0; i < 20 && sim->link.counters().group_refused_local == 0; ++i) {
    sim->want(wire::IpAddr::v4(0xef03'0000 + i));
    sim->run_for(20ms);
  }
  send(kWanted);
  EXPECT_EQ(row(kWanted).state, "") << "packets have used all of them just now";
  for (int i = 0; i < 20 && row(kWanted).state.empty(); ++i) send(kWanted, 1s);
  EXPECT_FALSE(row(kWanted).state.empty());
}

TEST_F(GroupExhaustion, U44_TableWithoutPlacesIsNamedAtALimitedRate) {
  bring_up([](LinkConfig& c) { c.group.max_groups = 1; });
  const std::string log = logged([&] {
    for (std::uint32_t i = 0; i < 20; ++i) sim->want(wire::IpAddr::v4(0xef03'0000 + i));
  });
  const auto first = log.find("(max-groups = 1)");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("(max-groups = 1)", first + 1), std::string::npos) << log;
  EXPECT_GT(sim->link.counters().group_refused_local, 0U);
}

}  // namespace
}  // namespace ipoib::link
