// SPDX-License-Identifier: BSD-3-Clause
// Reactions of a link to events of its port, in virtual time: with peers on a simulated fabric, or
// alone with a scripted SA.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/support/sim_ipoib_link.h"
#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using fabric::PortEvent;

constexpr auto* kBroadcast = "255.255.255.255";
constexpr unsigned kFull = wire::join_state::kFullMember;
constexpr unsigned kSendOnly = wire::join_state::kSendOnlyNonMember;

/// Two nodes that know each other and send both ways all the time. Node 1 listens to a group to
/// which node 0 sends.
class PortEvents : public ::testing::Test {
 protected:
  static constexpr auto* kGroup = "239.1.2.3";

  PortEvents() {
    f.config.ip6.enabled = f.config.ip6.routing = false;
    f.add_node("10.0.0.1/24").start();
    f.add_node("10.0.0.2/24").start();
  }
  void SetUp() override {
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
    ASSERT_TRUE(node(1).link->join_group(ip(kGroup), f.now));
    expect_no_loss_after(2s);
  }
  SimNode& node(std::size_t i) { return *f.nodes.at(i); }
  void run_with_traffic(Duration d) {
    for (const auto end = f.now + d; f.now < end; ++rounds) {
      node(0).send_ip(node(1).address());
      node(1).send_ip(node(0).address());
      node(0).send_ip(ip(kGroup));
      f.run_for(20ms);
    }
  }
  void forget_counts() {
    rounds = 0;
    for (const auto& n : f.nodes) n->received.clear(), n->group_received.clear();
  }
  void expect_no_loss() {
    EXPECT_EQ(node(0).received[node(1).address()], rounds);
    EXPECT_EQ(node(1).received[node(0).address()], rounds);
    EXPECT_EQ(node(1).group_received[ip(kGroup)], rounds);
  }
  /// Traffic works again after a time of this length, and loses nothing from then on.
  void expect_no_loss_after(Duration recovery, Duration then = 2s) {
    run_with_traffic(recovery);
    forget_counts();
    run_with_traffic(then);
    expect_no_loss();
  }
  void expect_members() {
    for (const auto& n : f.nodes) {
      EXPECT_EQ(f.join_state(kBroadcast, *n), kFull);
      EXPECT_EQ(f.join_state("224.0.0.1", *n), kFull);
    }
    EXPECT_EQ(f.join_state(kGroup, node(1)), kFull);
    EXPECT_EQ(f.join_state(kGroup, node(0)), kSendOnly);
  }
  /// All are members, and leave nothing behind when they stop.
  void expect_members_and_orderly_end() {
    expect_members();
    for (const auto& n : f.nodes) n->link->stop(f.now);
    f.run_for(10s);
    for (const auto& n : f.nodes) {
      EXPECT_EQ(n->link->state(), State::kStopped);
      EXPECT_TRUE(n->nothing_left());
    }
    EXPECT_EQ(f.members(), 0U);
  }

  SimFabric f{3};
  std::uint64_t rounds = 0;
};

TEST_F(PortEvents, PortDownKeepsWhatIsKnownAndPortUpGoesOn) {
  auto& n = node(0);
  const auto index = n.sink->index_of(node(1).address());
  n.actions->attr.state = fabric::PortState::kDown;
  n.link->on_port_event(PortEvent::kPortDown, f.now);
  EXPECT_EQ(n.link->state(), State::kWaiting);
  EXPECT_NE(n.link->reason().find("not active"), std::string::npos) << n.link->reason();
  const auto joins = n.link->counters().joins_sent;
  f.run_for(10s);
  EXPECT_EQ(n.link->counters().joins_sent, joins);  // a join could not succeed
  EXPECT_TRUE(n.sink->valid(node(1).address()));
  EXPECT_TRUE(n.sink->valid(ip(kGroup)));

  n.actions->attr.state = fabric::PortState::kActive;
  n.link->on_port_event(PortEvent::kPortActive, f.now);
  f.run_for(100ms);
  EXPECT_EQ(n.link->state(), State::kUp);
  EXPECT_EQ(n.sink->index_of(node(1).address()), index);
  forget_counts();
  run_with_traffic(5s);
  expect_no_loss();
  expect_members_and_orderly_end();
}

TEST_F(PortEvents, LidChangeIsToldToTheSaAndNoticedByPeersAtOnce) {
  auto& n = node(1);
  const auto joins = n.link->counters().joins_sent;
  n.set_lid(77);
  n.link->on_port_event(PortEvent::kLidChange, f.now);
  f.run_for(300ms);
  EXPECT_GT(n.link->counters().joins_sent, joins);
  EXPECT_EQ(n.link->state(), State::kUp);
  expect_no_loss_after(2s);
  const auto rows = node(0).link->neighbours(f.now);
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const auto& r) { return r.lid == 77; }));
  expect_members_and_orderly_end();
}

TEST_F(PortEvents, NewSubnetManagerAndReregisterCostNoPacket) {
  for (const auto event : {PortEvent::kSmChange, PortEvent::kClientReregister}) {
    forget_counts();
    f.restart_administrator();  // the new one knows no member
    ASSERT_EQ(f.members(), 0U);
    const auto mads = f.mads;
    for (const auto& n : f.nodes) n->link->on_port_event(event, f.now);
    run_with_traffic(5s);
    expect_no_loss();
    expect_members();
    EXPECT_LE(f.mads - mads, 40U);
    // The nodes have subscribed again: they learn of a new group at once.
    const auto* late = event == PortEvent::kSmChange ? "239.3.3.3" : "239.4.4.4";
    node(0).send_ip(ip(late));
    f.run_for(50ms);
    EXPECT_FALSE(node(0).sink->valid(ip(late)));
    ASSERT_TRUE(node(1).link->join_group(ip(late), f.now));
    f.run_for(100ms);
    node(0).send_ip(ip(late));
    f.run_for(100ms);
    EXPECT_EQ(node(1).group_received[ip(late)], 1U);
  }
  expect_members_and_orderly_end();
}

TEST_F(PortEvents, GidChangeLeavesUnderTheOldNameAndIsAnnounced) {
  auto& n = node(1);
  const auto old = n.actions->attr.gid();
  n.actions->attr.guid += 0x100;
  n.link->on_port_event(PortEvent::kGidChange, f.now);
  f.run_for(3s);
  for (const auto* group : {kBroadcast, "224.0.0.1", kGroup}) {
    ASSERT_NE(f.group(group), nullptr) << group;
    EXPECT_EQ(f.group(group)->members.count(old), 0U) << group;
  }
  EXPECT_EQ(n.link->state(), State::kUp);
  // The peer knows the new link-layer address without a request.
  const auto rows = node(0).link->neighbours(f.now);
  const auto lladdr =
      wire::to_string(wire::LinkAddr{0, wire::Be24{n.actions->own_qpn}, n.actions->attr.gid()});
  EXPECT_TRUE(
      std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.lladdr == lladdr; }));
  EXPECT_TRUE(n.sink->valid(node(0).address()));
  expect_no_loss_after(2s);
  expect_members_and_orderly_end();
}

TEST_F(PortEvents, PkeyThatGoesEndsAllAndThatComesBackBringsAllBack) {
  auto& n = node(1);
  n.actions->attr.pkeys = {0x8001};
  n.link->on_port_event(PortEvent::kPkeyChange, f.now);
  EXPECT_EQ(n.link->state(), State::kWaiting);
  EXPECT_NE(n.link->reason().find("0xffff is not in the P_Key table of the port"),
            std::string::npos);
  EXPECT_TRUE(n.actions->attached.empty());
  EXPECT_TRUE(n.actions->ahs.empty());
  EXPECT_TRUE(n.sink->installed.empty());
  const auto mads = n.mads;
  f.run_for(20s);
  EXPECT_EQ(n.mads, mads);  // no request is possible
  n.actions->attr.pkeys = {0x8001, 0xffff};
  n.link->on_port_event(PortEvent::kPkeyChange, f.now);
  f.run_for(200ms);
  EXPECT_EQ(n.link->state(), State::kUp);
  expect_no_loss_after(1s, 5s);
  expect_members_and_orderly_end();
}

/// The subnet manager may order the table again at any time. The port may be a limited member, too.
TEST_F(PortEvents, U36_PkeyTableThatIsReorderedCostsNoPacket) {
  const std::vector<std::uint16_t> tables[] = {
      {0x8001, 0xffff}, {0xffff, 0x8001}, {0x7fff, 0, 0x8001, 0xffff}, {0, 0xffff, 0x7fff}};
  forget_counts();
  for (int i = 0; i < 40; ++i) {
    for (const auto& n : f.nodes) {
      n->actions->attr.pkeys = tables[f.random() % std::size(tables)];
      n->link->on_port_event(PortEvent::kPkeyChange, f.now);
      EXPECT_EQ(n->link->state(), State::kUp) << n->link->reason();
    }
    run_with_traffic(i % 2 == 0 ? 20ms : 200ms);
  }
  expect_no_loss();
  f.run_for(1s);
  expect_members_and_orderly_end();
}

TEST_F(PortEvents, SilentSubnetManagerCostsEstablishedFlowsNothing) {
  f.administrator_silent = true;
  forget_counts();
  run_with_traffic(10min);
  expect_no_loss();
  EXPECT_TRUE(f.all_up());
  f.administrator_silent = false;
  run_with_traffic(2min);
  expect_no_loss();
  expect_members_and_orderly_end();
}

// --- IPv6 addresses ---

LinkConfig with_ip6(wire::InterfaceIdRule rule) {
  auto config = SimIpoibLink::default_config();
  config.addresses.push_back(prefix("fd00::1/64"));
  config.ip6.enabled = true;
  config.ip6.interface_id = rule;
  return config;
}

std::vector<wire::IpAddr> ready(const SimIpoibLink& sim) {
  std::vector<wire::IpAddr> all;
  for (const auto& a : sim.link.addresses6())
    if (a.state == AddressState::kReady) all.push_back(a.address.addr);
  return all;
}

/// Returns the number of multicast ND frames that carry this link-layer GID.
std::size_t announcements(const SimIpoibLink& sim, const wire::Gid& gid) {
  return static_cast<std::size_t>(std::count_if(
      sim.actions.frames.begin(), sim.actions.frames.end(), [&](const SentFrame& sent) {
        constexpr std::size_t kIcmpType = 4 + 40;
        return sent.bytes.size() > kIcmpType && sent.bytes[0] == std::byte{0x86} &&
               sent.bytes[kIcmpType] == std::byte{136} && sent.broadcast() &&
               std::search(sent.bytes.begin(), sent.bytes.end(), gid.bytes.begin(),
                           gid.bytes.end()) != sent.bytes.end();
      }));
}

/// A solicitation that waits for its group is not sent. The link does not use an address before it
/// has sent one.
TEST(PortEvents6, U18_NoAddressIsTakenOnAQuestionThatNeverLeft) {
  SimIpoibLink sim{with_ip6(wire::InterfaceIdRule::kSetUniversal)};
  sim.start();
  sim.sa.silent = true;  // from after the answer that is under way
  sim.run_for(20s);
  ASSERT_EQ(sim.link.state(), State::kUp);
  EXPECT_TRUE(ready(sim).empty());
  sim.sa.silent = false;
  sim.run_for(40s);
  EXPECT_EQ(ready(sim).size(), 2U);
}

TEST(PortEvents6, U17_LidChangeStartsTheAddressOfTheLidAnew) {
  SimIpoibLink sim{with_ip6(wire::InterfaceIdRule::kLid)};
  sim.bring_up();
  sim.run_for(5s);
  const auto before = ready(sim);
  ASSERT_EQ(before.size(), 2U);
  sim.actions.attr.lid = 0x1234;
  sim.on_port_event(PortEvent::kLidChange, 200ms);
  EXPECT_TRUE(ready(sim).empty());  // duplicate address detection comes first
  sim.run_for(5s);
  const auto after = ready(sim);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_NE(after[0], before[0]);
  EXPECT_EQ(after[0], wire::link_local(wire::interface_id(sim.actions.attr.guid,
                                                          wire::InterfaceIdRule::kLid, 0x1234)));
  EXPECT_EQ(after[1], ip("fd00::1"));
}

TEST(PortEvents6, LidChangeLeavesAddressesOfTheGuidAlone) {
  SimIpoibLink sim{with_ip6(wire::InterfaceIdRule::kSetUniversal)};
  sim.bring_up();
  sim.run_for(5s);
  const auto before = ready(sim);
  sim.actions.attr.lid = 0x1234;
  sim.on_port_event(PortEvent::kLidChange, 200ms);
  EXPECT_EQ(ready(sim), before);
}

TEST(PortEvents6, GidChangeIsAnnouncedByArpAndNd) {
  SimIpoibLink sim{with_ip6(wire::InterfaceIdRule::kSetUniversal)};
  sim.bring_up_with_peer();
  sim.run_for(5s);
  ASSERT_TRUE(sim.sink.valid(ip("10.0.0.2")));
  const auto old = sim.actions.attr.gid();
  const auto before = ready(sim);
  sim.actions.frames.clear();
  sim.sa.leaves.clear();
  sim.sa.group_requests.clear();
  sim.actions.attr.gid_prefix = 0xfe80'0000'0000'0009ULL;
  sim.link.on_port_event(PortEvent::kGidChange, sim.now);
  EXPECT_TRUE(sim.sink.valid(ip("10.0.0.2")));
  sim.run_for(2s);
  const auto own = sim.actions.attr.gid();
  EXPECT_TRUE(sim.sink.valid(ip("10.0.0.2")));
  EXPECT_EQ(ready(sim), before);
  EXPECT_GE(announcements(sim, own), 2U);  // at least one for each address
  EXPECT_EQ(announcements(sim, old), 0U);
  const auto arps = std::count_if(
      sim.actions.frames.begin(), sim.actions.frames.end(), [&](const SentFrame& sent) {
        const auto arp = sent.arp();
        return arp && sent.broadcast() && arp->sender_ip == arp->target_ip &&
               arp->sender_hw.link_addr().gid == own;
      });
  EXPECT_GE(arps, 1);
  // The SA learns of the old and the new port GID, for the broadcast group and all others.
  ASSERT_EQ(sim.sa.leaves.size(), 1U);
  EXPECT_EQ(wire::read<wire::McMemberRecord>(sim.sa.leaves[0].data)->port_gid, old);
  EXPECT_EQ(wire::read<wire::McMemberRecord>(sim.sa.joins.back().data)->port_gid, own);
  std::size_t left = 0, joined = 0;
  for (const auto& mad : sim.sa.group_requests) {
    const auto r = *wire::read<wire::McMemberRecord>(mad.data);
    const bool leaves = static_cast<wire::Method>(mad.hdr.mad.method) == wire::Method::kDelete;
    EXPECT_EQ(r.port_gid, leaves ? old : own);
    left += leaves;
    joined += !leaves;
  }
  EXPECT_GE(left, 4U);  // 224.0.0.1, ff02::1, ff02::2 and solicited-node
  EXPECT_EQ(joined, left);
  sim.link.stop(sim.now);
  sim.run_for(5s);
  sim.expect_nothing_left();
}

}  // namespace
}  // namespace ipoib::link
