// SPDX-License-Identifier: BSD-3-Clause
// Bring-up, membership and shutdown of one link against a scripted SA.
#include "lib/link/ipoib/ipoib_link.h"

#include <gtest/gtest.h>

#include <chrono>

#include "lib/wire/iba.h"
#include "tests/unit/lib/link/link_fixture.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

TEST(IpoibLink, U08_JoinsBeforeAnythingIsSentAndTakesTheGroupsParameters) {
  LinkFixture b;
  b.sa_delay = 50ms;
  b.start();
  EXPECT_EQ(b.link.state(), State::kJoining);
  EXPECT_FALSE(b.link.reason().empty());
  // A packet and an ARP request arrive before the link is up, and cause no packet on the wire.
  b.want(ip("10.0.0.2"));
  b.hear_request(b.add_host(0xb, 0x50, 3), "10.0.0.2");
  b.run_for(40ms);
  EXPECT_TRUE(b.actions.frames.empty());
  EXPECT_EQ(b.sink.drops[Drop::kLinkDown], 1U);

  b.run_for(20ms);
  ASSERT_EQ(b.link.state(), State::kUp);
  EXPECT_EQ(b.link.reason(), "");
  EXPECT_EQ(b.link.mtu(), 2044);
  const auto& p = b.link.parameters();
  EXPECT_EQ(p.qkey, 0x8001'0b1bU);
  EXPECT_EQ(p.mtu_code, 4);
  EXPECT_EQ(p.rate, 3);
  EXPECT_EQ(p.sl, 5);
  EXPECT_EQ(p.tclass, 7);
  EXPECT_EQ(p.flow_label, 0x12345U);
  EXPECT_EQ(p.hop_limit, 9);
  EXPECT_EQ(b.actions.qkey, 0x8001'0b1bU);
  EXPECT_EQ(b.actions.attached.count({b.sa.group.mgid, 0xc000}), 1U);

  // Every own address is announced, through a handle with a GRH that has the group's values.
  ASSERT_EQ(b.actions.frames.size(), 1U);
  const auto& f = b.actions.frames[0];
  EXPECT_EQ(f.to.dlid, 0xc000);
  EXPECT_TRUE(f.to.global);
  EXPECT_EQ(f.to.dgid, b.sa.group.mgid);
  EXPECT_EQ(f.to.sl, 5);
  EXPECT_EQ(f.to.rate, 3);
  EXPECT_EQ(f.to.hop_limit, 9);
  EXPECT_EQ(f.to.tclass, 7);
  EXPECT_EQ(f.to.flow_label, 0x12345U);
  const auto arp = f.arp();
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->sender_ip, arp->target_ip);
  EXPECT_EQ(arp->sender_ip, ip("10.0.0.1").v4_host());
}

TEST(IpoibLink, U05_JoinCarriesFullMembershipPkeyInMgidAndRecord) {
  LinkFixture b{LinkFixture::config_with([](LinkConfig& c) { c.pkey = 0x0003; })};
  b.actions.attr.pkeys = {0xffff, 0x8003};
  b.start();
  ASSERT_EQ(b.sa.joins.size(), 1U);
  EXPECT_EQ(b.sa.joins[0].hdr.comp_mask.host(), 0x10083U);
  const auto r = *wire::read<wire::McMemberRecord>(b.sa.joins[0].data);
  EXPECT_EQ(r.pkey.host(), 0x8003);
  EXPECT_EQ(r.mgid, wire::Gid::of(0xff12'401b'8003'0000, 0xffff'ffff));
  EXPECT_EQ(r.port_gid, b.actions.attr.gid());
  EXPECT_EQ(r.join(), wire::join_state::kFullMember);
}

TEST(IpoibLink, U01_U04_ScopeOfTheBroadcastGidIsTheConfiguredOne) {
  for (const unsigned scope : {2U, 5U, 8U, 14U}) {
    LinkFixture b{LinkFixture::config_with(
        [&](LinkConfig& c) { c.scope = static_cast<std::uint8_t>(scope); })};
    b.start();
    ASSERT_EQ(b.sa.joins.size(), 1U);
    const auto r = *wire::read<wire::McMemberRecord>(b.sa.joins[0].data);
    EXPECT_EQ(r.mgid,
              wire::Gid::of(0xff10'401b'ffff'0000 | std::uint64_t{scope} << 48, 0xffff'ffff));
  }
}

TEST(IpoibLink, U03_BroadcastAddressesMapToTheBroadcastGroup) {
  LinkFixture b;
  b.bring_up();
  for (const auto* addr : {"255.255.255.255", "10.0.0.255"}) {
    const auto packet = b.want(ip(addr));
    ASSERT_TRUE(b.sink.valid(ip(addr))) << addr;
    const auto* n = b.sink.find(ip(addr));
    EXPECT_EQ(n->qpn, wire::kMulticastQpn);
    EXPECT_EQ(b.actions.ahs.at(n->ah).dgid, b.sa.group.mgid);
    EXPECT_EQ(b.sink.released.back(), packet);
  }
  EXPECT_TRUE(b.sa.path_queries.empty());
}

TEST(IpoibLink, U09_MtuBeyondThePortKeepsTheLinkDownSayingWhy) {
  LinkFixture b;
  b.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 5);
  b.start();
  b.run_for(100ms);
  EXPECT_EQ(b.link.state(), State::kJoining);
  EXPECT_EQ(b.link.mtu(), 0);
  for (const char* mtu : {"4096", "2048"})
    EXPECT_NE(b.link.reason().find(mtu), std::string::npos) << b.link.reason();
  EXPECT_TRUE(b.actions.frames.empty());
  // The link keeps trying, and comes up when the group fits.
  b.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 2);
  b.run_for(3s);
  EXPECT_EQ(b.link.state(), State::kUp);
  EXPECT_EQ(b.link.mtu(), 508);
}

TEST(IpoibLink, U09_PkeyNotInThePortsTableIsNotEvenAskedFor) {
  LinkFixture b{LinkFixture::config_with([](LinkConfig& c) { c.pkey = 0x8001; })};
  b.actions.attr.pkeys = {0xffff, 0x0001};
  b.sa.group.mgid = wire::broadcast_mgid(0x8001, 2);
  b.start();
  b.run_for(1min);
  EXPECT_EQ(b.link.state(), State::kWaiting);
  EXPECT_NE(b.link.reason().find("0x8001"), std::string::npos) << b.link.reason();
  EXPECT_NE(b.link.reason().find("limited"), std::string::npos) << b.link.reason();
  b.actions.attr.pkeys = {0xffff};
  b.run_for(1min);
  EXPECT_NE(b.link.reason().find("0x8001"), std::string::npos) << b.link.reason();
  EXPECT_NE(b.link.reason().find("0xffff"), std::string::npos) << b.link.reason();
  EXPECT_TRUE(b.sa.joins.empty());

  b.actions.attr.pkeys = {0xffff, 0x8001};
  b.on_port_event(fabric::PortEvent::kPkeyChange, 100ms);
  EXPECT_EQ(b.link.state(), State::kUp);
}

TEST(IpoibLink, U09_PortThatIsNotActiveIsWaitedFor) {
  LinkFixture b;
  b.actions.attr.state = fabric::PortState::kInit;
  b.start();
  b.run_for(1min);
  EXPECT_EQ(b.link.state(), State::kWaiting);
  EXPECT_TRUE(b.sa.joins.empty());
  b.actions.attr.state = fabric::PortState::kActive;
  b.on_port_event(fabric::PortEvent::kPortActive, 10ms);
  EXPECT_EQ(b.link.state(), State::kUp);
}

TEST(IpoibLink, U06_UncontrolledQkeyWorks) {
  LinkFixture b;
  b.sa.group.qkey = wire::Be32{0x0b1b};
  b.bring_up();
  EXPECT_EQ(b.actions.qkey, 0x0b1bU);
}

TEST(IpoibLink, U10_AbsentGroupIsWaitedForWithBackOffNotCreated) {
  LinkFixture b;
  b.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaInsufficientComponents);
  b.start();
  const auto begin = b.now;
  std::vector<TimePoint> times;
  while (b.now < begin + 5min) {
    const auto before = b.sa.joins.size();
    b.run_for(100ms);
    for (auto i = before; i < b.sa.joins.size(); ++i) times.push_back(b.now);
  }
  EXPECT_EQ(b.link.state(), State::kJoining);
  EXPECT_NE(b.link.reason().find("0x0600"), std::string::npos) << b.link.reason();
  for (const auto& mad : b.sa.joins) EXPECT_EQ(mad.hdr.comp_mask.host(), 0x10083U);
  // The pauses are 1, 2, 4, 8 and then 16 s, each with a jitter of a fifth.
  ASSERT_GT(times.size(), 8U);
  EXPECT_LT(times.size(), 40U);
  EXPECT_LE(times[0] - begin, 1300ms);
  for (std::size_t i = 6; i < times.size(); ++i) {
    EXPECT_GE(times[i] - times[i - 1], 12700ms);
    EXPECT_LE(times[i] - times[i - 1], 19400ms);
  }
  b.sa.join_status = 0;
  b.run_for(20s);
  EXPECT_EQ(b.link.state(), State::kUp);
  EXPECT_GT(b.link.counters().joins_failed, 8U);
}

TEST(IpoibLink, U08_AnswersThatMakeNoSenseKeepTheLinkDown) {
  const auto good = ScriptedSa{}.group;
  struct Case {
    const char* name;
    std::function<void(wire::McMemberRecord&)> spoil;
  };
  const Case cases[] = {
      {"unicast MLID", [](auto& r) { r.mlid.set(0x0005); }},
      {"permissive MLID", [](auto& r) { r.mlid.set(0xffff); }},
      {"MTU code 0", [](auto& r) { r.mtu = 0x80; }},
      {"MTU code 6", [](auto& r) { r.mtu = 0x86; }},
      {"foreign MGID", [](auto& r) { r.mgid.bytes[15] = std::byte{1}; }},
  };
  for (const auto& c : cases) {
    LinkFixture b;
    b.sa.group = good;
    c.spoil(b.sa.group);
    b.start();
    b.run_for(30s);
    EXPECT_NE(b.link.state(), State::kUp) << c.name;
    EXPECT_FALSE(b.link.reason().empty()) << c.name;
    EXPECT_TRUE(b.actions.attached.empty()) << c.name;
    EXPECT_TRUE(b.actions.frames.empty()) << c.name;
    EXPECT_GE(b.sa.joins.size(), 3U) << c.name;
  }
}

TEST(IpoibLink, SilentSaThatComesBackBringsTheLinkUpWithinTheBackOffBound) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    LinkFixture b{LinkFixture::default_config(), seed};
    b.sa.silent = true;
    b.start();
    b.run_for(10min + std::chrono::seconds(seed));
    ASSERT_EQ(b.link.state(), State::kJoining);
    b.sa.silent = false;
    b.run_for(16s * 12 / 10 + 10ms);
    EXPECT_EQ(b.link.state(), State::kUp) << "seed " << seed;
  }
}

TEST(IpoibLink, MembershipIsConfirmedAndSilenceDoesNotEndIt) {
  LinkFixture b;
  b.bring_up_with_peer();
  ASSERT_TRUE(b.sink.valid(ip("10.0.0.2")));
  b.run_for(5min);
  EXPECT_GE(b.sa.joins.size(), 5U);
  EXPECT_LE(b.sa.joins.size(), 8U);
  b.sa.silent = true;
  b.run_for(5min);
  EXPECT_EQ(b.link.state(), State::kUp);
}

TEST(IpoibLink, GroupLostByTheSaIsJoinedAgainWhileNeighboursWork) {
  LinkFixture b;
  b.bring_up_with_peer();
  b.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaInsufficientComponents);
  b.on_port_event(fabric::PortEvent::kClientReregister, 1s);
  EXPECT_EQ(b.link.state(), State::kJoining);
  EXPECT_TRUE(b.sink.valid(ip("10.0.0.2")));
  b.want(ip("10.0.0.2"));
  EXPECT_TRUE(b.sink.open.empty());

  // The new group differs in all attributes; the link adopts them.
  b.sa.join_status = 0;
  b.sa.group.mlid.set(0xc123);
  b.sa.group.qkey.set(0x8000'0001);
  b.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 3);
  b.run_for(20s);
  EXPECT_EQ(b.link.state(), State::kUp);
  EXPECT_EQ(b.actions.qkey, 0x8000'0001U);
  EXPECT_EQ(b.actions.attached.count({b.sa.group.mgid, 0xc000}), 0U);
  EXPECT_EQ(b.actions.attached.count({b.sa.group.mgid, 0xc123}), 1U);
  EXPECT_EQ(b.link.mtu(), 1020);
  EXPECT_EQ(b.sink.find(ip("10.0.0.2"))->mtu, 1020);
  EXPECT_TRUE(b.sink.valid(ip("10.0.0.2")));
  EXPECT_EQ(b.actions.frames.back().to.dlid, 0xc123);
}

// The MTU can be set at any time, up to the group's.
TEST(IpoibLink, MtuIsSetUpToThatOfTheGroup) {
  LinkFixture b{LinkFixture::config_with([](LinkConfig& c) { c.ip6.enabled = true; })};
  EXPECT_EQ(b.link.set_mtu(67, b.now).error().what,
            "invalid MTU 67 of ib0, allowed: 68-2044, limited by its port");
  b.bring_up_with_peer();
  b.run_for(1s);
  ASSERT_EQ(b.sink.find(ip("10.0.0.2"))->mtu, 2044);
  EXPECT_TRUE(b.link.set_mtu(1500, b.now));
  EXPECT_EQ(b.link.mtu(), 1500);
  EXPECT_EQ(b.link.mtu6(), 1500);
  EXPECT_EQ(b.sink.find(ip("10.0.0.2"))->mtu, 1500);
  EXPECT_EQ(b.link.set_mtu(2045, b.now).error().what,
            "invalid MTU 2045 of ib0, allowed: 68-2044, limited by its broadcast group");
  EXPECT_EQ(b.link.mtu(), 1500);

  // The MTU is too small for IPv6; IPv6 returns with a larger one.
  EXPECT_TRUE(b.link.set_mtu(600, b.now));
  EXPECT_EQ(b.link.mtu6(), 0);
  EXPECT_TRUE(b.link.set_mtu(2044, b.now));
  EXPECT_EQ(b.link.mtu6(), 2044);
  EXPECT_EQ(b.sink.find(ip("10.0.0.2"))->mtu, 2044);

  // The setting also applies to the next group.
  EXPECT_TRUE(b.link.set_mtu(1200, b.now));
  b.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 3);
  b.on_port_event(fabric::PortEvent::kClientReregister, 20s);
  EXPECT_EQ(b.link.mtu(), 1020);
  b.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 4);
  b.on_port_event(fabric::PortEvent::kClientReregister, 20s);
  EXPECT_EQ(b.link.mtu(), 1200);
}

TEST(IpoibLink, StopGivesEverythingBackAndLeavesTheGroup) {
  LinkFixture b;
  b.bring_up();
  const auto hw = b.add_host(0xb, 0x50, 3);
  b.want(ip("10.0.0.2"));
  b.hear_reply(hw, "10.0.0.2");
  b.want(ip("10.0.0.3"));  // remains unresolved
  ASSERT_TRUE(b.link.add_static(ip("10.0.0.9"), wire::to_string(hw), 7, 1, b.now));
  ASSERT_TRUE(b.link.use_gateway(ip("10.0.0.4"), b.now));
  b.want(ip("255.255.255.255"));
  b.run_for(100ms);
  b.link.stop(b.now);
  EXPECT_EQ(b.link.state(), State::kStopping);
  EXPECT_EQ(b.sink.drops[Drop::kLinkDown], 1U);
  EXPECT_EQ(b.sink.indexes.size(), 1U);  // the gateway stays until its route is removed
  EXPECT_EQ(b.sink.find(ip("10.0.0.4"))->state, table::NeighbourState::kIncomplete);
  b.link.forget_gateway(ip("10.0.0.4"));
  b.run_for(10ms);
  EXPECT_EQ(b.link.state(), State::kStopped);
  ASSERT_EQ(b.sa.leaves.size(), 1U);
  EXPECT_EQ(b.sa.leaves[0].hdr.comp_mask.host(), 0x10083U);
  b.expect_nothing_left();
  EXPECT_FALSE(b.link.next_deadline());
  // The link can start again.
  b.bring_up();
}

TEST(IpoibLink, StopDoesNotWaitForASilentSa) {
  LinkFixture b;
  b.bring_up();
  b.sa.silent = true;
  b.link.stop(b.now);
  b.run_for(1900ms);
  EXPECT_EQ(b.link.state(), State::kStopping);
  b.run_for(101ms);
  EXPECT_EQ(b.link.state(), State::kStopped);
  EXPECT_EQ(b.client.outstanding(), 0U);
}

TEST(IpoibLink, StopBeforeAnyJoinNeedsNoSa) {
  LinkFixture b;
  b.actions.attr.state = fabric::PortState::kDown;
  b.start();
  b.link.stop(b.now);
  EXPECT_EQ(b.link.state(), State::kStopped);
  EXPECT_TRUE(b.sa.leaves.empty());
}

TEST(IpoibLink, StopWhileTheJoinIsUnansweredLeavesAllTheSame) {
  LinkFixture b;
  b.sa_delay = 1s;
  b.start();
  b.link.stop(b.now);
  b.run_for(3s);
  EXPECT_EQ(b.link.state(), State::kStopped);
  EXPECT_GE(b.sa.leaves.size(), 1U);
  b.expect_nothing_left();
}

TEST(IpoibLink, U07_M02_ScopeIsSearchedFromLinkLocalUpward) {
  LinkFixture b{LinkFixture::config_with([](LinkConfig& c) { c.scope = kScopeAuto; })};
  b.sa.only_scope = 8;
  b.sa.group.mgid = wire::broadcast_mgid(wire::kDefaultPkey, 8);
  b.start();
  b.run_for(50ms);
  EXPECT_EQ(b.link.state(), State::kUp);
  EXPECT_EQ(b.link.parameters().broadcast_mgid, b.sa.group.mgid);
  std::vector<unsigned> scopes;
  for (const auto& mad : b.sa.joins)
    scopes.push_back(wire::read<wire::McMemberRecord>(mad.data)->mgid.prefix() >> 48 & 0x0f);
  EXPECT_EQ(scopes, (std::vector<unsigned>{2, 5, 8}));
}

TEST(IpoibLink, U06_U10_AbsentBroadcastGroupIsCreatedWhereConfigured) {
  LinkFixture b{
      LinkFixture::config_with([](LinkConfig& c) { c.create_broadcast = BroadcastAttributes{}; })};
  b.sa.only_creation = true;
  b.start();
  b.run_for(50ms);
  EXPECT_EQ(b.link.state(), State::kUp);
  ASSERT_EQ(b.sa.joins.size(), 2U);
  EXPECT_EQ(b.sa.joins[0].hdr.comp_mask.host(), 0x10083U);
  EXPECT_EQ(b.sa.joins[1].hdr.comp_mask.host(), wire::McMemberRecord::kCreateMask);
  const auto r = *wire::read<wire::McMemberRecord>(b.sa.joins[1].data);
  EXPECT_NE(r.qkey.host() & 0x8000'0000U, 0U);  // a controlled Q_Key
}

TEST(IpoibLink, M07_GroupThatThePortCannotCarryIsNotCreated) {
  LinkFixture b{LinkFixture::config_with([](LinkConfig& c) {
    c.create_broadcast = BroadcastAttributes{};
    c.create_broadcast->mtu = 5;
  })};
  b.sa.only_creation = true;
  b.start();
  b.run_for(1min);
  EXPECT_NE(b.link.state(), State::kUp);
  for (const auto& mad : b.sa.joins) EXPECT_EQ(mad.hdr.comp_mask.host(), 0x10083U);
}

TEST(IpoibLink, M01_AllNodesGroupMayBeTheLinksGroup) {
  LinkFixture b{LinkFixture::config_with([](LinkConfig& c) { c.all_nodes = AllNodes::kInstead; })};
  b.start();
  b.run_for(50ms);
  EXPECT_TRUE(b.sa.joins.empty());
  ASSERT_EQ(b.link.state(), State::kUp) << b.link.reason();
  EXPECT_EQ(b.link.parameters().broadcast_mgid,
            wire::mgid_of(ip("ff02::1"), wire::kDefaultPkey, 2));
}

TEST(IpoibLink, PkeyThatGoesTakesTheLinkDownAndBringsItBack) {
  LinkFixture b;
  b.bring_up();
  const auto hw = b.add_host(0xb, 0x50, 3);
  ASSERT_TRUE(b.link.add_static(ip("10.0.0.9"), wire::to_string(hw), 7, 1, b.now));
  ASSERT_TRUE(b.sink.valid(ip("10.0.0.9")));
  b.actions.attr.pkeys = {0x8001};
  b.link.on_port_event(fabric::PortEvent::kPkeyChange, b.now);
  EXPECT_EQ(b.link.state(), State::kWaiting);
  EXPECT_FALSE(b.sink.valid(ip("10.0.0.9")));
  EXPECT_TRUE(b.actions.attached.empty());
  EXPECT_TRUE(b.actions.ahs.empty());
  b.actions.attr.pkeys = {0xffff};
  b.on_port_event(fabric::PortEvent::kPkeyChange, 200ms);
  EXPECT_EQ(b.link.state(), State::kUp);
  EXPECT_TRUE(b.sink.valid(ip("10.0.0.9")));
}

TEST(IpoibLink, U24_RarpWaitsWhileTheLinkIsWithdrawn) {
  LinkFixture b{LinkFixture::config_with([](LinkConfig& c) {
    c.addresses.clear();
    c.rarp.ask = true;
  })};
  b.bring_up();
  EXPECT_EQ(b.link.counters().rarp.asked, 1U);
  b.actions.attr.pkeys = {0x8001};
  b.on_port_event(fabric::PortEvent::kPkeyChange, 5s);
  EXPECT_EQ(b.link.counters().rarp.asked, 1U);
  EXPECT_EQ(b.link.counters().arp_unsent, 0U);
  b.actions.attr.pkeys = {0xffff};
  b.on_port_event(fabric::PortEvent::kPkeyChange, 5min);
  EXPECT_EQ(b.link.counters().rarp.asked, 1U + 6U);
  EXPECT_EQ(b.link.counters().arp_unsent, 0U);
}

}  // namespace
}  // namespace ipoib::link
