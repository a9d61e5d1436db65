// SPDX-License-Identifier: BSD-3-Clause
// Bring-up, membership and shutdown of one link against a scripted SA.
#include "lib/link/ipoib/ipoib_link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "lib/wire/iba.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

std::size_t times_in(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(IpoibLink, U08_JoinsBeforeAnythingIsSentAndTakesTheGroupsParameters) {
  SimIpoibLink sim;
  sim.sa_delay = 50ms;
  sim.start();
  EXPECT_EQ(sim.link.state(), State::kJoining);
  EXPECT_FALSE(sim.link.reason().empty());
  // A packet and an ARP request arrive before the link is up, and cause no packet on the wire.
  sim.want(ip("10.0.0.2"));
  sim.receive_arp_request(sim.add_host(0xb, 0x50, 3), "10.0.0.2");
  sim.run_for(40ms);
  EXPECT_TRUE(sim.actions.frames.empty());
  EXPECT_EQ(sim.sink.drops[Drop::kLinkDown], 1U);

  sim.run_for(20ms);
  ASSERT_EQ(sim.link.state(), State::kUp);
  EXPECT_EQ(sim.link.reason(), "");
  EXPECT_EQ(sim.link.mtu(), 2044);
  const auto& p = sim.link.parameters();
  EXPECT_EQ(p.qkey, 0x8001'0b1bU);
  EXPECT_EQ(p.mtu_code, 4);
  EXPECT_EQ(p.rate, 3);
  EXPECT_EQ(p.sl, 5);
  EXPECT_EQ(p.tclass, 7);
  EXPECT_EQ(p.flow_label, 0x12345U);
  EXPECT_EQ(p.hop_limit, 9);
  EXPECT_EQ(sim.actions.qkey, 0x8001'0b1bU);
  EXPECT_EQ(sim.actions.attached.count({sim.sa.group.mgid, 0xc000}), 1U);

  // Every own address is announced, through a handle with a GRH that has the group's values.
  ASSERT_EQ(sim.actions.frames.size(), 1U);
  const auto& f = sim.actions.frames[0];
  EXPECT_EQ(f.to.dlid, 0xc000);
  EXPECT_TRUE(f.to.global);
  EXPECT_EQ(f.to.dgid, sim.sa.group.mgid);
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
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) { c.pkey = 0x0003; })};
  sim.actions.attr.pkeys = {0xffff, 0x8003};
  sim.start();
  ASSERT_EQ(sim.sa.joins.size(), 1U);
  EXPECT_EQ(sim.sa.joins[0].hdr.comp_mask.host(), 0x10083U);
  const auto r = *wire::read<wire::McMemberRecord>(sim.sa.joins[0].data);
  EXPECT_EQ(r.pkey.host(), 0x8003);
  EXPECT_EQ(r.mgid, wire::Gid::of(0xff12'401b'8003'0000, 0xffff'ffff));
  EXPECT_EQ(r.port_gid, sim.actions.attr.gid());
  EXPECT_EQ(r.join(), wire::join_state::kFullMember);
}

TEST(IpoibLink, U01_U04_ScopeOfTheBroadcastGidIsTheConfiguredOne) {
  for (const unsigned scope : {2U, 5U, 8U, 14U}) {
    SimIpoibLink sim{SimIpoibLink::config_with(
        [&](LinkConfig& c) { c.scope = static_cast<std::uint8_t>(scope); })};
    sim.start();
    ASSERT_EQ(sim.sa.joins.size(), 1U);
    const auto r = *wire::read<wire::McMemberRecord>(sim.sa.joins[0].data);
    EXPECT_EQ(r.mgid,
              wire::Gid::of(0xff10'401b'ffff'0000 | std::uint64_t{scope} << 48, 0xffff'ffff));
  }
}

TEST(IpoibLink, U03_BroadcastAddressesMapToTheBroadcastGroup) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) {
    c.addresses.push_back(prefix("10.7.0.1/16"));
    c.addresses.push_back(prefix("172.16.1.1/25"));
    c.addresses.push_back(prefix("192.168.1.1/24"));
  })};
  sim.bring_up();
  for (const auto* addr : {"255.255.255.255", "10.0.0.255", "10.7.255.255", "10.255.255.255",
                           "172.16.1.127", "172.16.255.255", "192.168.1.255"}) {
    const auto packet = sim.want(ip(addr));
    ASSERT_TRUE(sim.sink.valid(ip(addr))) << addr;
    const auto* n = sim.sink.find(ip(addr));
    EXPECT_EQ(n->qpn, wire::kMulticastQpn);
    EXPECT_EQ(sim.actions.ahs.at(n->ah).dgid, sim.sa.group.mgid);
    EXPECT_EQ(sim.sink.released.back(), packet);
  }
  EXPECT_TRUE(sim.sa.path_queries.empty());
  for (const auto* host : {"192.168.255.255", "172.255.255.255", "11.255.255.255"}) {
    sim.want(ip(host));
    EXPECT_FALSE(sim.sink.valid(ip(host))) << host << " is of no net of this link";
  }
}

// A host of an own prefix of two addresses, or of several nets, is asked for.
TEST(IpoibLink, U03_AHostOfAnOwnPrefixIsNoBroadcastAddress) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) {
    c.addresses.push_back(prefix("10.255.255.254/31"));
    c.addresses.push_back(prefix("172.20.1.1/24"));
    c.addresses.push_back(prefix("172.20.0.1/15"));
    c.addresses.push_back(prefix("192.168.1.1/24"));
    c.addresses.push_back(prefix("192.168.1.254/31"));
  })};
  sim.bring_up();
  for (const auto* host : {"10.255.255.255", "172.20.255.255", "192.168.1.255"}) {
    sim.resolve(host, sim.add_host(0xb, 0x50, 3));
    ASSERT_TRUE(sim.sink.valid(ip(host))) << host;
    EXPECT_EQ(sim.sink.find(ip(host))->qpn, 0x50U) << host;
  }
}

TEST(IpoibLink, U09_MtuBeyondThePortKeepsTheLinkDownSayingWhy) {
  SimIpoibLink sim;
  sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 5);
  const std::string reason =
      "join of " + wire::to_string(sim.sa.group.mgid) +
      " with P_Key 0xffff (SM at LID 1): the group's MTU 4096 (code 5) is larger than the port's "
      "2048 (code 4)";
  EXPECT_EQ(times_in(logged([&] {
                       sim.start();
                       sim.run_for(100ms);
                     }),
                     "ib0: " + reason + "\n"),
            1U);
  EXPECT_EQ(sim.link.state(), State::kJoining);
  EXPECT_EQ(sim.link.mtu(), 0);
  EXPECT_EQ(sim.link.reason(), reason);
  EXPECT_TRUE(sim.actions.frames.empty());
  // The link keeps trying, and comes up when the group fits.
  sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 2);
  sim.run_for(3s);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_EQ(sim.link.mtu(), 508);
}

TEST(IpoibLink, U09_PkeyNotInThePortsTableIsNotEvenAskedFor) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) { c.pkey = 0x8001; })};
  sim.actions.attr.pkeys = {0xffff, 0x0001};
  sim.sa.group.mgid = wire::broadcast_mgid(0x8001, 2);
  sim.sa.group.pkey.set(0x8001);
  const auto log_of_a_minute = [&] { return logged([&] { sim.run_for(1min); }); };
  std::string log = logged([&] { sim.start(); }) + log_of_a_minute();
  EXPECT_EQ(sim.link.state(), State::kWaiting);
  const std::string limited =
      "the port is a limited member of partition 0x8001 (P_Key 0x0001), full membership is "
      "required";
  EXPECT_EQ(sim.link.reason(), limited);
  EXPECT_EQ(times_in(log, "ib0: " + limited + "\n"), 1U) << log;
  sim.actions.attr.pkeys = {0xffff};
  log = log_of_a_minute();
  const std::string absent = "P_Key 0x8001 is not in the P_Key table of the port (0xffff)";
  EXPECT_EQ(sim.link.reason(), absent);
  EXPECT_EQ(times_in(log, "ib0: " + absent + "\n"), 1U) << log;
  EXPECT_TRUE(sim.sa.joins.empty());

  sim.actions.attr.pkeys = {0xffff, 0x8001};
  sim.on_port_event(fabric::PortEvent::kPkeyChange, 100ms);
  EXPECT_EQ(sim.link.state(), State::kUp);
}

TEST(IpoibLink, U09_PortThatIsNotActiveIsWaitedFor) {
  SimIpoibLink sim;
  sim.actions.attr.state = fabric::PortState::kInit;
  sim.start();
  sim.run_for(1min);
  EXPECT_EQ(sim.link.state(), State::kWaiting);
  EXPECT_TRUE(sim.sa.joins.empty());
  sim.actions.attr.state = fabric::PortState::kActive;
  sim.on_port_event(fabric::PortEvent::kPortActive, 10ms);
  EXPECT_EQ(sim.link.state(), State::kUp);
}

/// The SA gives all groups except the broadcast group one MLID.
TEST(IpoibLink, M06_GroupsThatShareAnMlidAreAttachedByMgid) {
  SimIpoibLink sim;
  sim.bring_up();
  const auto attached = [&sim](const char* group) {
    return sim.actions.attached.count({wire::mgid_of(ip(group), 0xffff, 2), 0xc100});
  };
  for (const char* group : {"239.1.1.1", "239.7.7.7"})
    ASSERT_TRUE(sim.link.join_group(ip(group), sim.now));
  sim.run_for(100ms);
  EXPECT_EQ(attached("239.1.1.1"), 1U);
  EXPECT_EQ(attached("239.7.7.7"), 1U);
  ASSERT_TRUE(sim.link.leave_group(ip("239.1.1.1"), sim.now));
  sim.run_for(5s);
  EXPECT_EQ(attached("239.1.1.1"), 0U);
  EXPECT_EQ(attached("239.7.7.7"), 1U);
}

TEST(IpoibLink, U06_UncontrolledQkeyWorksAndIsReportedOnce) {
  SimIpoibLink sim;
  sim.sa.group.qkey = wire::Be32{0x0b1b};
  EXPECT_EQ(logged([&] { sim.bring_up(); }).find("uncontrolled Q_Key 0x00000b1b"),
            std::string{"ipoib.link: ib0: the broadcast group has "}.size());
  EXPECT_EQ(sim.actions.qkey, 0x0b1bU);
  const std::string again =
      logged([&] { sim.on_port_event(fabric::PortEvent::kClientReregister, 20s); });
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_EQ(again.find("Q_Key"), std::string::npos) << again;
}

TEST(IpoibLink, U10_AbsentGroupIsWaitedForWithBackOffNotCreated) {
  SimIpoibLink sim;
  sim.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaInsufficientComponents);
  sim.start();
  const auto begin = sim.now;
  std::vector<TimePoint> times;
  while (sim.now < begin + 5min) {
    const auto before = sim.sa.joins.size();
    sim.run_for(100ms);
    for (auto i = before; i < sim.sa.joins.size(); ++i) times.push_back(sim.now);
  }
  EXPECT_EQ(sim.link.state(), State::kJoining);
  EXPECT_NE(sim.link.reason().find("0x0600"), std::string::npos) << sim.link.reason();
  for (const auto& mad : sim.sa.joins) EXPECT_EQ(mad.hdr.comp_mask.host(), 0x10083U);
  // The pauses are 1, 2, 4, 8 and then 16 s, each with a jitter of a fifth.
  ASSERT_GT(times.size(), 8U);
  EXPECT_LT(times.size(), 40U);
  EXPECT_LE(times[0] - begin, 1300ms);
  for (std::size_t i = 6; i < times.size(); ++i) {
    EXPECT_GE(times[i] - times[i - 1], 12700ms);
    EXPECT_LE(times[i] - times[i - 1], 19400ms);
  }
  sim.sa.join_status = 0;
  sim.run_for(20s);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_GT(sim.link.counters().joins_failed, 8U);
}

TEST(IpoibLink, U08_AnswersThatMakeNoSenseKeepTheLinkDown) {
  const auto good = FakeSa{}.group;
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
    SimIpoibLink sim;
    sim.sa.group = good;
    c.spoil(sim.sa.group);
    sim.start();
    sim.run_for(30s);
    EXPECT_NE(sim.link.state(), State::kUp) << c.name;
    EXPECT_FALSE(sim.link.reason().empty()) << c.name;
    EXPECT_TRUE(sim.actions.attached.empty()) << c.name;
    EXPECT_TRUE(sim.actions.frames.empty()) << c.name;
    EXPECT_GE(sim.sa.joins.size(), 3U) << c.name;
  }
}

TEST(IpoibLink, SilentSaThatComesBackBringsTheLinkUpWithinTheBackOffBound) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimIpoibLink sim{SimIpoibLink::default_config(), seed};
    sim.sa.silent = true;
    sim.start();
    sim.run_for(10min + std::chrono::seconds(seed));
    ASSERT_EQ(sim.link.state(), State::kJoining);
    sim.sa.silent = false;
    sim.run_for(16s * 12 / 10 + 10ms);
    EXPECT_EQ(sim.link.state(), State::kUp) << "seed " << seed;
  }
}

TEST(IpoibLink, MembershipIsConfirmedAndSilenceDoesNotEndIt) {
  SimIpoibLink sim;
  sim.bring_up_with_peer();
  ASSERT_TRUE(sim.sink.valid(ip("10.0.0.2")));
  sim.run_for(5min);
  EXPECT_GE(sim.sa.joins.size(), 5U);
  EXPECT_LE(sim.sa.joins.size(), 8U);
  sim.sa.silent = true;
  sim.run_for(5min);
  EXPECT_EQ(sim.link.state(), State::kUp);
}

TEST(IpoibLink, U43_GroupLostByTheSaTakesTheLinkDownUntilAnotherIsThere) {
  SimIpoibLink sim;
  const auto peer = sim.bring_up_with_peer();
  sim.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaInsufficientComponents);
  sim.on_port_event(fabric::PortEvent::kClientReregister, 3s);
  EXPECT_EQ(sim.link.state(), State::kJoining);
  EXPECT_FALSE(sim.sink.valid(ip("10.0.0.2")));

  // The new group differs in all attributes; the link adopts them.
  sim.sa.join_status = 0;
  sim.sa.group.mlid.set(0xc123);
  sim.sa.group.qkey.set(0x8000'0001);
  sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 3);
  sim.run_for(20s);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_EQ(sim.actions.qkey, 0x8000'0001U);
  EXPECT_EQ(sim.actions.attached.count({sim.sa.group.mgid, 0xc000}), 0U);
  EXPECT_EQ(sim.actions.attached.count({sim.sa.group.mgid, 0xc123}), 1U);
  EXPECT_EQ(sim.link.mtu(), 1020);
  EXPECT_EQ(sim.actions.frames.back().to.dlid, 0xc123);
  sim.resolve("10.0.0.2", peer);
  ASSERT_TRUE(sim.sink.valid(ip("10.0.0.2")));
  EXPECT_EQ(sim.sink.find(ip("10.0.0.2"))->mtu, 1020);
}

// The MTU can be set at any time, up to the group's.
TEST(IpoibLink, MtuIsSetUpToThatOfTheGroup) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) { c.ip6.enabled = true; })};
  EXPECT_EQ(sim.link.set_mtu(67, sim.now).error().what,
            "invalid MTU 67 of ib0, allowed: 68-2044, limited by its port");
  sim.bring_up_with_peer();
  sim.run_for(1s);
  ASSERT_EQ(sim.sink.find(ip("10.0.0.2"))->mtu, 2044);
  EXPECT_TRUE(sim.link.set_mtu(1500, sim.now));
  EXPECT_EQ(sim.link.mtu(), 1500);
  EXPECT_EQ(sim.link.mtu6(), 1500);
  EXPECT_EQ(sim.sink.find(ip("10.0.0.2"))->mtu, 1500);
  EXPECT_EQ(sim.link.set_mtu(2045, sim.now).error().what,
            "invalid MTU 2045 of ib0, allowed: 68-2044, limited by its broadcast group");
  EXPECT_EQ(sim.link.mtu(), 1500);

  // The MTU is too small for IPv6; IPv6 returns with a larger one.
  EXPECT_TRUE(sim.link.set_mtu(600, sim.now));
  EXPECT_EQ(sim.link.mtu6(), 0);
  EXPECT_TRUE(sim.link.set_mtu(2044, sim.now));
  EXPECT_EQ(sim.link.mtu6(), 2044);
  EXPECT_EQ(sim.sink.find(ip("10.0.0.2"))->mtu, 2044);

  // The setting also applies to the next group.
  EXPECT_TRUE(sim.link.set_mtu(1200, sim.now));
  sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 3);
  sim.on_port_event(fabric::PortEvent::kClientReregister, 20s);
  EXPECT_EQ(sim.link.mtu(), 1020);
  sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 4);
  sim.on_port_event(fabric::PortEvent::kClientReregister, 20s);
  EXPECT_EQ(sim.link.mtu(), 1200);
}

TEST(IpoibLink, TheMtuOfTheGroupReachesIp6WhileTheLinkIsUp) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) { c.ip6.enabled = true; })};
  sim.bring_up_with_peer();
  sim.run_for(1s);
  ASSERT_EQ(sim.link.mtu6(), 2044);
  const auto change_group = [&](std::uint8_t mtu_code) {
    sim.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, mtu_code);
    sim.on_port_event(fabric::PortEvent::kClientReregister, 20s);
    ASSERT_EQ(sim.link.state(), State::kUp);
  };
  change_group(3);
  EXPECT_EQ(sim.link.mtu(), 1020);
  EXPECT_EQ(sim.link.mtu6(), 0) << "RFC 8200 §5: IPv6 needs 1280 octets";
  change_group(4);
  EXPECT_EQ(sim.link.mtu6(), 2044);
}

TEST(IpoibLink, StopGivesEverythingBackAndLeavesTheGroup) {
  SimIpoibLink sim;
  sim.bring_up();
  const auto hw = sim.add_host(0xb, 0x50, 3);
  sim.want(ip("10.0.0.2"));
  sim.receive_arp_reply(hw, "10.0.0.2");
  sim.want(ip("10.0.0.3"));  // remains unresolved
  ASSERT_TRUE(sim.link.add_static(ip("10.0.0.9"), wire::to_string(hw), 7, 1, sim.now));
  ASSERT_TRUE(sim.link.use_gateway(ip("10.0.0.4"), sim.now));
  sim.want(ip("255.255.255.255"));
  sim.run_for(100ms);
  sim.link.stop(sim.now);
  EXPECT_EQ(sim.link.state(), State::kStopping);
  EXPECT_EQ(sim.sink.drops[Drop::kLinkDown], 1U);
  EXPECT_EQ(sim.sink.indexes.size(), 1U);  // the gateway stays until its route is removed
  EXPECT_EQ(sim.sink.find(ip("10.0.0.4"))->state, table::NeighbourState::kIncomplete);
  sim.link.forget_gateway(ip("10.0.0.4"));
  sim.run_for(10ms);
  EXPECT_EQ(sim.link.state(), State::kStopped);
  ASSERT_EQ(sim.sa.leaves.size(), 1U);
  EXPECT_EQ(sim.sa.leaves[0].hdr.comp_mask.host(), 0x10083U);
  sim.expect_nothing_left();
  EXPECT_FALSE(sim.link.next_deadline());
  // The link can start again.
  sim.bring_up();
}

TEST(IpoibLink, StopDoesNotWaitForASilentSa) {
  SimIpoibLink sim;
  sim.bring_up();
  sim.sa.silent = true;
  sim.link.stop(sim.now);
  sim.run_for(1900ms);
  EXPECT_EQ(sim.link.state(), State::kStopping);
  sim.run_for(101ms);
  EXPECT_EQ(sim.link.state(), State::kStopped);
  EXPECT_EQ(sim.client.outstanding(), 0U);
}

TEST(IpoibLink, StopBeforeAnyJoinNeedsNoSa) {
  SimIpoibLink sim;
  sim.actions.attr.state = fabric::PortState::kDown;
  sim.start();
  sim.link.stop(sim.now);
  EXPECT_EQ(sim.link.state(), State::kStopped);
  EXPECT_TRUE(sim.sa.leaves.empty());
}

TEST(IpoibLink, StopWhileTheJoinIsUnansweredLeavesAllTheSame) {
  SimIpoibLink sim;
  sim.sa_delay = 1s;
  sim.start();
  sim.link.stop(sim.now);
  sim.run_for(3s);
  EXPECT_EQ(sim.link.state(), State::kStopped);
  EXPECT_GE(sim.sa.leaves.size(), 1U);
  sim.expect_nothing_left();
}

TEST(IpoibLink, U07_M02_ScopeIsSearchedFromLinkLocalUpward) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) { c.scope = kScopeAuto; })};
  sim.sa.only_scope = 8;
  sim.sa.group.mgid = wire::broadcast_mgid(wire::kDefaultPkey, 8);
  sim.start();
  sim.run_for(50ms);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_EQ(sim.link.parameters().broadcast_mgid, sim.sa.group.mgid);
  std::vector<unsigned> scopes;
  for (const auto& mad : sim.sa.joins)
    scopes.push_back(wire::read<wire::McMemberRecord>(mad.data)->mgid.prefix() >> 48 & 0x0f);
  EXPECT_EQ(scopes, (std::vector<unsigned>{2, 5, 8}));
}

TEST(IpoibLink, U06_U10_AbsentBroadcastGroupIsCreatedWhereConfigured) {
  SimIpoibLink sim{
      SimIpoibLink::config_with([](LinkConfig& c) { c.create_broadcast = BroadcastAttributes{}; })};
  sim.sa.only_creation = true;
  sim.start();
  sim.run_for(50ms);
  EXPECT_EQ(sim.link.state(), State::kUp);
  ASSERT_EQ(sim.sa.joins.size(), 2U);
  EXPECT_EQ(sim.sa.joins[0].hdr.comp_mask.host(), 0x10083U);
  EXPECT_EQ(sim.sa.joins[1].hdr.comp_mask.host(), wire::McMemberRecord::kCreateMask);
  const auto r = *wire::read<wire::McMemberRecord>(sim.sa.joins[1].data);
  EXPECT_NE(r.qkey.host() & 0x8000'0000U, 0U);  // a controlled Q_Key
}

TEST(IpoibLink, M07_GroupThatThePortCannotCarryIsNotCreated) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) {
    c.create_broadcast = BroadcastAttributes{};
    c.create_broadcast->mtu = 5;
  })};
  sim.sa.only_creation = true;
  sim.start();
  sim.run_for(1min);
  EXPECT_NE(sim.link.state(), State::kUp);
  for (const auto& mad : sim.sa.joins) EXPECT_EQ(mad.hdr.comp_mask.host(), 0x10083U);
}

TEST(IpoibLink, M01_AllNodesGroupMayBeTheLinksGroup) {
  SimIpoibLink sim{
      SimIpoibLink::config_with([](LinkConfig& c) { c.all_nodes = AllNodes::kInstead; })};
  sim.start();
  sim.run_for(50ms);
  EXPECT_TRUE(sim.sa.joins.empty());
  ASSERT_EQ(sim.link.state(), State::kUp) << sim.link.reason();
  EXPECT_EQ(sim.link.parameters().broadcast_mgid,
            wire::mgid_of(ip("ff02::1"), wire::kDefaultPkey, 2));
}

TEST(IpoibLink, PkeyThatGoesTakesTheLinkDownAndBringsItBack) {
  SimIpoibLink sim;
  sim.bring_up();
  const auto hw = sim.add_host(0xb, 0x50, 3);
  ASSERT_TRUE(sim.link.add_static(ip("10.0.0.9"), wire::to_string(hw), 7, 1, sim.now));
  ASSERT_TRUE(sim.sink.valid(ip("10.0.0.9")));
  sim.actions.attr.pkeys = {0x8001};
  sim.link.on_port_event(fabric::PortEvent::kPkeyChange, sim.now);
  EXPECT_EQ(sim.link.state(), State::kWaiting);
  EXPECT_FALSE(sim.sink.valid(ip("10.0.0.9")));
  EXPECT_TRUE(sim.actions.attached.empty());
  EXPECT_TRUE(sim.actions.ahs.empty());
  sim.actions.attr.pkeys = {0xffff};
  sim.on_port_event(fabric::PortEvent::kPkeyChange, 200ms);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_TRUE(sim.sink.valid(ip("10.0.0.9")));
}

TEST(IpoibLink, U24_RarpWaitsWhileTheLinkIsWithdrawn) {
  SimIpoibLink sim{SimIpoibLink::config_with([](LinkConfig& c) {
    c.addresses.clear();
    c.rarp.ask = true;
  })};
  sim.bring_up();
  EXPECT_EQ(sim.link.counters().rarp.asked, 1U);
  sim.actions.attr.pkeys = {0x8001};
  sim.on_port_event(fabric::PortEvent::kPkeyChange, 5s);
  EXPECT_EQ(sim.link.counters().rarp.asked, 1U);
  EXPECT_EQ(sim.link.counters().arp_unsent, 0U);
  sim.actions.attr.pkeys = {0xffff};
  sim.on_port_event(fabric::PortEvent::kPkeyChange, 5min);
  EXPECT_EQ(sim.link.counters().rarp.asked, 1U + 6U);
  EXPECT_EQ(sim.link.counters().arp_unsent, 0U);
}

}  // namespace
}  // namespace ipoib::link
