// SPDX-License-Identifier: BSD-3-Clause
// Address resolution and paths of an IPoIB link.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lib/link/ipoib/paths/path_table.h"
#include "lib/wire/iba.h"
#include "lib/wire/notice.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using table::NeighbourState;

const wire::IpAddr kPeer = ip("10.0.0.2");

/// A link that is up, and one host with a path in the SA.
class IpoibNeighbour : public ::testing::Test {
 protected:
  IpoibNeighbour() {
    b.bring_up();
    b.run_for(3s);  // until both announcements are sent
    b.actions.frames.clear();
    hw = b.add_host(0xb, 0x50, 3);
  }
  /// Makes the peer resolved and reachable.
  void resolve() {
    b.resolve("10.0.0.2", hw);
    ASSERT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kReachable);
    b.actions.frames.clear();
  }
  /// Lets time pass while a worker sends to the peer.
  void run_using(Duration d) {
    for (const auto end = b.now + d; b.now < end;) {
      if (const auto index = b.sink.index_of(kPeer)) b.sink.used[*index] = b.now;
      b.run_for(250ms);
    }
  }

  /// Receives an announcement of the peer with this source LID.
  void hear_from(std::uint16_t slid) {
    const auto addr = kPeer.v4_host();
    const auto arp = wire::build_arp({wire::ArpOp::kRequest, hw, addr, wire::LinkAddr{}, addr});
    b.link.on_arp(arp, slid, hw.qpn.host(), b.now);
  }

  /// The peer asks without a sender address, with this source LID. Returns the LID of the answer.
  std::uint16_t asked_from(std::uint16_t slid) {
    b.actions.frames.clear();
    const auto arp =
        wire::build_arp({wire::ArpOp::kRequest, hw, 0, wire::LinkAddr{}, ip("10.0.0.1").v4_host()});
    b.link.on_arp(arp, slid, hw.qpn.host(), b.now);
    b.run_for(100ms);
    return b.actions.frames.at(0).to.dlid;
  }

  SimIpoibLink b;
  wire::LinkAddr hw;
};

// Each answer keeps the path alive, although no neighbour uses it.
TEST_F(IpoibNeighbour, U20_AnswersToHostsWithoutASenderFollowTheirLid) {
  EXPECT_EQ(asked_from(3), 3);
  b.add_host(0xb, 0x50, 7);
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(asked_from(7));
    b.run_for(1s);
  }
  EXPECT_EQ(asked_from(7), 7);
  EXPECT_LE(b.sa.path_queries.size(), 3U) << "a change of the LID asks once";
}

// The SA does not answer when the host has moved.
TEST_F(IpoibNeighbour, U20_AnswersFollowTheLidAlthoughTheSaWasSilent) {
  EXPECT_EQ(asked_from(3), 3);
  b.add_host(0xb, 0x50, 7);
  b.sa.silent = true;
  for (int i = 0; i < 20; ++i) {
    static_cast<void>(asked_from(7));
    b.run_for(1s);
  }
  b.sa.silent = false;
  for (int i = 0; i < 35; ++i) {
    static_cast<void>(asked_from(7));
    b.run_for(1s);
  }
  EXPECT_EQ(asked_from(7), 7);
}

TEST_F(IpoibNeighbour, U23_RequestGoesToTheBroadcastGroup) {
  const auto packet = b.want(kPeer);
  ASSERT_EQ(b.actions.frames.size(), 1U);
  const auto& f = b.actions.frames[0];
  EXPECT_TRUE(f.broadcast());
  EXPECT_EQ(f.to.dgid, b.sa.group.mgid);
  ASSERT_EQ(f.bytes.size(), 60U);
  EXPECT_EQ(f.bytes[0], std::byte{0x08});
  EXPECT_EQ(f.bytes[1], std::byte{0x06});
  EXPECT_EQ(f.bytes[2], std::byte{0});
  EXPECT_EQ(f.bytes[3], std::byte{0});
  const auto arp = f.arp();
  ASSERT_TRUE(arp);
  EXPECT_EQ(wire::read<wire::Be16>(f.bytes, 4)->host(), wire::kArpHardwareInfiniband);
  EXPECT_EQ(f.bytes[8], std::byte{20});
  EXPECT_EQ(arp->target_ip, kPeer.v4_host());
  EXPECT_EQ(arp->target_hw, wire::HwAddr::zero(wire::LinkKind::kInfiniband));
  EXPECT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kIncomplete);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kIncomplete);
  EXPECT_EQ(b.sink.open.count(packet), 1U);
}

TEST_F(IpoibNeighbour, U19_OwnLinkLayerAddressHasZeroFlagsQpnAndPortGid) {
  b.want(kPeer);
  const auto arp = b.actions.frames.at(0).arp();
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->sender_hw.link_addr().flags, 0);
  EXPECT_EQ(arp->sender_hw.link_addr().qpn.host(), 0x48U);
  EXPECT_EQ(arp->sender_hw.link_addr().gid,
            wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'0000'000a));
}

TEST_F(IpoibNeighbour, U19_FlagsOctetOfOthersIsIgnored) {
  resolve();
  const auto installs = b.sink.installs;
  auto flagged = hw;
  flagged.flags = 0xff;
  b.receive_arp_reply(flagged, "10.0.0.2");
  b.run_for(10ms);
  EXPECT_EQ(b.sink.installs, installs);
  EXPECT_EQ(b.sa.path_queries.size(), 1U);
}

TEST_F(IpoibNeighbour, U20_PathComesFromTheSaAndIsCached) {
  const auto packet = b.want(kPeer);
  b.receive_arp_reply(hw, "10.0.0.2");
  EXPECT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kPath);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kIncomplete);
  ASSERT_EQ(b.sa.path_queries.size(), 1U);
  const auto& mad = b.sa.path_queries[0];
  EXPECT_EQ(mad.hdr.comp_mask.host(), 0x340cU);
  const auto asked = *wire::read<wire::PathRecord>(mad.data);
  EXPECT_EQ(asked.dgid, hw.gid);
  EXPECT_EQ(asked.sgid, b.actions.attr.gid());
  EXPECT_EQ(asked.pkey.host(), 0xffff);
  EXPECT_EQ(asked.tclass, 7);
  b.run_for(10ms);

  const auto* n = b.sink.find(kPeer);
  ASSERT_EQ(n->state, NeighbourState::kValid);
  EXPECT_EQ(n->mode, table::NeighbourMode::kUd);
  EXPECT_EQ(n->iface, 3);
  EXPECT_EQ(n->qpn, 0x50U);
  EXPECT_EQ(n->mtu, 2044);
  const auto& ah = b.actions.ahs.at(n->ah);
  EXPECT_EQ(ah.dlid, 3);
  EXPECT_EQ(ah.sl, 3);
  EXPECT_EQ(ah.rate, 7);
  EXPECT_FALSE(ah.global);
  EXPECT_EQ(b.sink.released, std::vector{packet});

  // A second address of the same port shares the path and the handle.
  b.want(ip("10.0.0.3"));
  b.receive_arp_reply(hw, "10.0.0.3");
  EXPECT_EQ(b.sink.find(ip("10.0.0.3"))->ah, n->ah);
  EXPECT_EQ(b.sa.path_queries.size(), 1U);
}

TEST_F(IpoibNeighbour, U20_OneQueryServesAllWhoWaitForTheSameGid) {
  for (const auto* addr : {"10.0.0.2", "10.0.0.3", "10.0.0.4"}) {
    b.want(ip(addr));
    b.receive_arp_reply(hw, addr);
    b.receive_arp_request(hw, addr);
  }
  EXPECT_EQ(b.sa.path_queries.size(), 1U);
  b.run_for(10ms);
  EXPECT_TRUE(b.sink.valid(ip("10.0.0.4")));
  EXPECT_EQ(b.sink.released.size(), 3U);
  EXPECT_EQ(b.actions.ahs.size(), 2U);
  EXPECT_EQ(b.actions.frames.size(), 6U);  // three requests and three replies
}

TEST_F(IpoibNeighbour, U20_M08_SmallerPathMtuAndRouterInBetween) {
  auto& path = b.sa.paths[hw.gid];
  path.mtu = wire::with_selector(wire::Selector::kExactly, 2);
  path.raw_flow_hop = wire::Be32{0x54321U << 8 | 64};
  path.tclass = 9;
  resolve();
  const auto* n = b.sink.find(kPeer);
  EXPECT_EQ(n->mtu, 508);
  const auto& ah = b.actions.ahs.at(n->ah);
  EXPECT_TRUE(ah.global);
  EXPECT_EQ(ah.dgid, hw.gid);
  EXPECT_EQ(ah.hop_limit, 64);
  EXPECT_EQ(ah.flow_label, 0x54321U);
  EXPECT_EQ(ah.tclass, 9);
}

TEST_F(IpoibNeighbour, M08_PathThatCarriesLessThanTheLinkIsReported) {
  const auto report = [](std::string_view text) {
    return text.find("carries packets of 1020 octets, less than the MTU 2044 of the link") !=
           std::string_view::npos;
  };
  b.sa.paths[hw.gid].mtu = wire::with_selector(wire::Selector::kExactly, 3);
  EXPECT_TRUE(report(logged([&] { resolve(); })));
  EXPECT_EQ(b.sink.find(kPeer)->mtu, 1020);
}

TEST_F(IpoibNeighbour, M08_PathsAreCheckedAgainWhenTheMtuOfTheLinkIsSetHigher) {
  b.sa.paths[hw.gid].mtu = wire::with_selector(wire::Selector::kExactly, 3);
  ASSERT_TRUE(b.link.set_mtu(1000, b.now));
  resolve();
  const auto log_of = [this](std::uint16_t mtu) {
    return logged([&] { EXPECT_TRUE(b.link.set_mtu(mtu, b.now)); });
  };
  EXPECT_EQ(log_of(1020), "");
  EXPECT_NE(log_of(2044).find("1020 octets, less than the MTU 2044"), std::string::npos);
  EXPECT_EQ(b.sink.find(kPeer)->mtu, 1020);
  b.run_for(11s);
  EXPECT_EQ(log_of(1500), "") << "it was reported with the larger MTU";
}

TEST_F(IpoibNeighbour, M08_PathsAreCheckedAgainWhenTheGroupComesBackWithALargerMtu) {
  b.actions.attr.mtu = 5;
  resolve();
  b.sa.members = 0;
  b.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 5);
  const std::string log = logged([&] {
    b.link.on_report(wire::make_notice(wire::Trap::kGroupDeleted, b.sa.group.mgid, 1, {}), b.now);
    b.run_for(300ms);
  });
  EXPECT_EQ(b.link.mtu(), 4092);
  EXPECT_NE(log.find("2044 octets, less than the MTU 4092"), std::string::npos) << log;
  EXPECT_EQ(b.sink.find(kPeer)->mtu, 2044);
}

TEST_F(IpoibNeighbour, U38_OtherSubnetIsReachedByGrhThroughTheRoutersLid) {
  // The GID of the host belongs to another IB subnet; the SA returns the LID of the router.
  const wire::Gid far = wire::Gid::of(0xfe80'0000'0000'0007ULL, 0xb);
  auto path = b.sa.paths.extract(hw.gid);
  hw.gid = path.key() = path.mapped().dgid = far;
  path.mapped().raw_flow_hop = wire::Be32{64};
  path.mapped().dlid.set(0x30);
  b.sa.paths.insert(std::move(path));
  resolve();
  const auto way = [&] { return b.actions.ahs.at(b.sink.find(kPeer)->ah); };
  EXPECT_TRUE(way().global);
  EXPECT_EQ(way().dgid, far);
  EXPECT_EQ(way().dlid, 0x30);
  EXPECT_EQ(way().hop_limit, 64);
  EXPECT_EQ(b.row("10.0.0.2").lid, 0x30);
  // The link's own messages to the host use the same path.
  b.actions.frames.clear();
  b.receive_arp_request(hw, "10.0.0.2");
  ASSERT_EQ(b.actions.frames.size(), 1U);
  EXPECT_EQ(b.actions.frames[0].to, way());
  // Another router takes over; the neighbour stays valid throughout.
  b.sa.paths[far].dlid.set(0x31);
  b.run_for(2s);
  b.link.on_port_event(fabric::PortEvent::kClientReregister, b.now);
  EXPECT_TRUE(b.sink.valid(kPeer));
  b.run_for(200ms);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(way().dlid, 0x31);
  EXPECT_TRUE(way().global);
  EXPECT_EQ(b.actions.ahs.size(), 2U);  // including the handle of the broadcast group
  // A path within the subnet needs no GRH.
  b.sa.paths[far].raw_flow_hop = wire::Be32{1};
  b.run_for(2s);
  b.on_port_event(fabric::PortEvent::kClientReregister, 200ms);
  EXPECT_FALSE(way().global);
}

TEST_F(IpoibNeighbour, U22_RateOfThePathIsThatOfTheHandleAndFollowsTheSa) {
  resolve();
  const auto rate = [&] { return b.actions.ahs.at(b.sink.find(kPeer)->ah).rate; };
  EXPECT_EQ(rate(), 7);
  EXPECT_EQ(b.row("10.0.0.2").rate, 7);
  b.sa.paths[hw.gid].rate = wire::with_selector(wire::Selector::kExactly, 2);
  b.run_for(2s);
  const auto installs = b.sink.installs;
  b.on_port_event(fabric::PortEvent::kClientReregister, 200ms);
  EXPECT_EQ(rate(), 2);
  EXPECT_EQ(b.row("10.0.0.2").rate, 2);
  EXPECT_EQ(b.sink.installs, installs + 1);
  EXPECT_EQ(b.actions.ahs.size(), 2U);
}

TEST_F(IpoibNeighbour, U41_PathLeavesFromTheLidThatTheSaNames) {
  b.actions.attr.lid = 8;
  b.actions.attr.lmc = 2;
  b.sa.paths[hw.gid].slid.set(10);
  resolve();
  const auto way = [&] { return b.actions.ahs.at(b.sink.find(kPeer)->ah); };
  EXPECT_EQ(way().src_path_bits, 2);
  EXPECT_EQ(way().dlid, 3);
  // A path whose source is another port's LID is not used; the former one stays.
  b.run_for(2s);
  b.sa.paths[hw.gid].slid.set(12);
  b.sa.paths[hw.gid].dlid.set(4);
  const auto failures = b.link.counters().path_failures;
  b.on_port_event(fabric::PortEvent::kClientReregister, 200ms);
  EXPECT_EQ(b.link.counters().path_failures, failures + 1);
  EXPECT_EQ(way().dlid, 3);
}

TEST_F(IpoibNeighbour, U41_HostHeardFromAnotherOfItsLidsHasNotMoved) {
  b.actions.attr.lmc = 2;
  b.sa.paths[hw.gid].dlid.set(20);
  resolve();
  const auto queries = b.sa.path_queries.size();
  for (std::uint16_t i = 0; i < 20; ++i) {
    hear_from(static_cast<std::uint16_t>(20 + i % 4));
    b.run_for(100ms);
  }
  EXPECT_EQ(b.sa.path_queries.size(), queries);
  hear_from(24);
  b.run_for(2s);
  EXPECT_EQ(b.sa.path_queries.size(), queries + 1);
}

TEST_F(IpoibNeighbour, U20_HostHeardFromAnotherLidIsAskedForOnce) {
  resolve();
  hear_from(3);
  b.run_for(2s);
  const auto queries = b.sa.path_queries.size();
  b.sa.paths[hw.gid].dlid.set(9);
  for (int i = 0; i < 50; ++i) {
    hear_from(9);
    b.run_for(100ms);
  }
  EXPECT_EQ(b.sa.path_queries.size(), queries + 1);
  EXPECT_EQ(b.row("10.0.0.2").lid, 9);
  // A peer whose packets arrive from alternating LIDs, forged or not, causes at most one query per
  // second.
  for (std::uint16_t i = 0; i < 100; ++i) {
    hear_from(static_cast<std::uint16_t>(20 + i % 2));
    b.run_for(100ms);
  }
  EXPECT_LE(b.sa.path_queries.size(), queries + 13);
}

// A host without IPv4 restarts at another LID and announces itself by ND.
TEST(IpoibNeighbour6, U20_AChangeOfTheLidIsHeardFromNeighbourDiscovery) {
  SimIpoibLink b{SimIpoibLink::config_with([](LinkConfig& c) { c.ip6.enabled = true; })};
  b.bring_up();
  b.run_for(5s);
  const auto hw = b.add_host(0xb, 0x50, 3);
  const auto announce = [&](std::uint16_t slid) {
    wire::NdMessage m;
    m.type = wire::Icmp6Type::kNeighbourAdvertisement;
    m.src = m.target = ip("fe80::b");
    m.dst = wire::all_nodes();
    m.override_it = true;
    m.target_hw = wire::HwAddr{hw};
    b.link.on_nd(wire::build_nd(m), slid, b.now);
  };
  b.want(ip("fe80::b"));
  announce(3);
  b.run_for(1s);
  const auto lid = [&] { return b.actions.ahs.at(b.sink.find(ip("fe80::b"))->ah).dlid; };
  ASSERT_EQ(lid(), 3);
  b.add_host(0xb, 0x50, 9);
  announce(9);
  b.run_for(2s);
  EXPECT_EQ(lid(), 9);
}

TEST_F(IpoibNeighbour, M06_GroupsOnOneMlidAreAttachedAndLeftEachForItself) {
  // This SA gives the same MLID to all groups.
  const auto one = ip("239.1.1.1"), other = ip("239.2.2.2");
  ASSERT_TRUE(b.link.join_group(one, b.now));
  ASSERT_TRUE(b.link.join_group(other, b.now));
  b.run_for(10ms);
  const auto attached = [&](const wire::IpAddr& group) {
    return b.actions.attached.count({wire::mgid_of(group, wire::kDefaultPkey, 2), 0xc100}) == 1;
  };
  EXPECT_TRUE(attached(one));
  EXPECT_TRUE(attached(other));
  b.want(one);
  b.want(other);
  b.run_for(10ms);
  const auto way = [&](const wire::IpAddr& group) {
    return b.actions.ahs.at(b.sink.find(group)->ah);
  };
  EXPECT_EQ(way(one).dlid, way(other).dlid);
  EXPECT_NE(way(one).dgid, way(other).dgid);
  ASSERT_TRUE(b.link.leave_group(one, b.now));
  b.run_for(10ms);
  EXPECT_FALSE(attached(one));
  EXPECT_TRUE(attached(other));
  EXPECT_TRUE(b.sink.valid(other));
  ASSERT_TRUE(b.link.join_group(one, b.now));
  b.run_for(10ms);
  EXPECT_TRUE(attached(one));
  EXPECT_TRUE(attached(other));
}

TEST_F(IpoibNeighbour, U23_ReplyGoesToTheRequestersQpnOverThePathOfTheSa) {
  b.receive_arp_request(hw, "10.0.0.2");  // arrives with SLID 99, not the LID of the SA's path
  EXPECT_TRUE(b.actions.frames.empty());
  b.run_for(10ms);
  ASSERT_EQ(b.actions.frames.size(), 1U);
  const auto& f = b.actions.frames[0];
  EXPECT_EQ(f.qpn, 0x50U);
  EXPECT_EQ(f.to.dlid, 3);
  const auto arp = f.arp();
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->op, wire::ArpOp::kReply);
  EXPECT_EQ(arp->sender_ip, ip("10.0.0.1").v4_host());
  EXPECT_EQ(arp->target_hw, hw);
  EXPECT_EQ(arp->target_ip, kPeer.v4_host());
  // RFC 826: this node was the target, so it learned the sender.
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kStale);
}

TEST_F(IpoibNeighbour, ProbeIsAnsweredButNotLearned) {
  b.receive_arp_request(hw, "0.0.0.0");
  b.run_for(10ms);
  ASSERT_EQ(b.actions.frames.size(), 1U);
  EXPECT_EQ(b.actions.frames[0].qpn, 0x50U);
  EXPECT_TRUE(b.link.neighbours(b.now).empty());
  b.run_for(1min);
  EXPECT_EQ(b.actions.ahs.size(), 1U);  // the path was released
}

TEST_F(IpoibNeighbour, RequestsForOthersUpdateButDoNotCreate) {
  b.receive_arp_request(hw, "10.0.0.2", "10.0.0.77");
  b.receive_arp_request(hw, "10.0.0.2", "10.0.0.2");
  EXPECT_TRUE(b.link.neighbours(b.now).empty());
  EXPECT_TRUE(b.sa.path_queries.empty());
  resolve();
  auto moved = hw;
  moved.qpn.set(0x99);
  b.receive_arp_request(moved, "10.0.0.2", "10.0.0.77");
  EXPECT_EQ(b.sink.find(kPeer)->qpn, 0x99U);
}

TEST_F(IpoibNeighbour, GratuitousArpWithNewQpnHealsAtOnceAndAsksForThePathAgain) {
  resolve();
  b.run_for(2s);
  b.sa.paths[hw.gid].dlid.set(44);
  auto restarted = hw;
  restarted.qpn.set(0x51);
  b.receive_arp_request(restarted, "10.0.0.2", "10.0.0.2");
  EXPECT_EQ(b.sink.find(kPeer)->qpn, 0x51U);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.sa.path_queries.size(), 2U);
  b.run_for(10ms);
  EXPECT_EQ(b.actions.ahs.at(b.sink.find(kPeer)->ah).dlid, 44);
  EXPECT_EQ(b.actions.ahs.size(), 2U);
}

TEST_F(IpoibNeighbour, ChangedGidWaitsForItsOwnPath) {
  resolve();
  const auto other = b.add_host(0xc, 0x60, 5);
  b.receive_arp_request(other, "10.0.0.2", "10.0.0.2");
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kIncomplete);
  const auto packet = b.want(kPeer);
  b.run_for(10ms);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.sink.find(kPeer)->qpn, 0x60U);
  EXPECT_EQ(b.actions.ahs.at(b.sink.find(kPeer)->ah).dlid, 5);
  EXPECT_EQ(b.sink.released.back(), packet);
  b.run_for(40s);
  EXPECT_EQ(b.actions.ahs.size(), 2U);  // the old path was released
}

TEST_F(IpoibNeighbour, FlappingAddressCausesNoStormOfPathQueries) {
  resolve();
  auto a = hw;
  for (unsigned i = 0; i < 10'000; ++i) {
    a.qpn.set(0x100 + i % 2);
    b.receive_arp_request(a, "10.0.0.2", "10.0.0.2");
    b.run_for(1ms);
  }
  EXPECT_LE(b.sa.path_queries.size(), 13U);
}

TEST_F(IpoibNeighbour, AbsentPathIsRememberedThenAskedForAgain) {
  const auto gone =
      wire::LinkAddr{0, wire::Be24{0x70}, wire::Gid::of(wire::kDefaultGidPrefix, 0xdead)};
  b.resolve("10.0.0.2", gone);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kFailed);
  EXPECT_EQ(b.sink.drops[Drop::kNeighbourFailed], 1U);
  EXPECT_EQ(b.sink.unreachables, 1U);
  for (int i = 0; i < 20; ++i) {
    b.receive_arp_request(gone, "10.0.0.2");
    b.run_for(100ms);
  }
  EXPECT_EQ(b.sa.path_queries.size(), 1U);
  EXPECT_GE(b.link.counters().arp_unsent, 20U);
  b.run_for(4s);
  b.add_host(0xdead, 0x70, 8);
  b.receive_arp_request(gone, "10.0.0.2");
  b.run_for(10ms);
  EXPECT_TRUE(b.sink.valid(kPeer));
}

TEST_F(IpoibNeighbour, SilentSaDoesNotEndAPathThatWorks) {
  resolve();
  b.sa.silent = true;
  auto restarted = hw;
  restarted.qpn.set(0x51);
  b.run_for(2s);
  b.receive_arp_request(restarted, "10.0.0.2", "10.0.0.2");
  for (int i = 0; i < 40; ++i) {
    b.run_for(500ms);
    b.receive_arp_reply(restarted, "10.0.0.2");
  }
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.link.counters().path_failures, 1U);
}

TEST_F(IpoibNeighbour, PathThatTheSaDeniesWorksOnUntilTheNeighbourIsSilent) {
  resolve();
  b.run_for(2s);
  b.sa.paths.clear();  // the SA restarted
  b.on_port_event(fabric::PortEvent::kSmChange, 100ms);
  EXPECT_EQ(b.sa.path_queries.size(), 2U);
  EXPECT_TRUE(b.sink.valid(kPeer));
  run_using(1min);
  EXPECT_FALSE(b.sink.valid(kPeer));
  // A peer that returns with another LID is not reached through the remembered path.
  b.add_host(0xb, 0x50, 44);
  b.want(kPeer);
  b.run_for(4s);
  b.resolve("10.0.0.2", hw);
  ASSERT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.actions.ahs.at(b.sink.find(kPeer)->ah).dlid, 44);
}

TEST_F(IpoibNeighbour, PathThatRestedIsAskedForAgainWhenUsedAgain) {
  resolve();
  ASSERT_TRUE(b.link.remove_neighbour(kPeer));
  b.run_for(5s);  // the handle still exists
  ASSERT_EQ(b.actions.ahs.size(), 2U);
  b.sa.paths[hw.gid].dlid.set(44);
  b.want(kPeer);
  b.receive_arp_reply(hw, "10.0.0.2");
  EXPECT_TRUE(b.sink.valid(kPeer));  // valid at once, with the known path
  b.run_for(10ms);
  EXPECT_EQ(b.actions.ahs.at(b.sink.find(kPeer)->ah).dlid, 44);
}

TEST_F(IpoibNeighbour, UnusablePathAnswersFail) {
  const auto good = b.sa.paths[hw.gid];
  struct Case {
    const char* name;
    std::function<void(wire::PathRecord&)> spoil;
  };
  const Case cases[] = {{"LID 0", [](auto& p) { p.dlid.set(0); }},
                        {"MTU code 0", [](auto& p) { p.mtu = 0x80; }},
                        {"MTU code 6", [](auto& p) { p.mtu = 0x86; }},
                        {"MTU code 63", [](auto& p) { p.mtu = 0xbf; }},
                        {"multicast LID", [](auto& p) { p.dlid.set(0xc001); }},
                        {"other partition", [](auto& p) { p.pkey.set(0x8002); }}};
  for (const auto& c : cases) {
    b.sa.paths[hw.gid] = good;
    c.spoil(b.sa.paths[hw.gid]);
    b.resolve("10.0.0.2", hw);
    EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kFailed) << c.name;
    EXPECT_EQ(b.actions.ahs.size(), 1U) << c.name;
    b.run_for(4s);
  }
}

TEST_F(IpoibNeighbour, NoRoomForAddressHandlesFailsTheNeighbourOnly) {
  b.actions.max_ahs = b.actions.ahs.size();
  b.resolve("10.0.0.2", hw);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kFailed);
  b.actions.max_ahs = 100;
  b.run_for(4s);
  resolve();
}

TEST_F(IpoibNeighbour, U26_UsedEntryIsProbedAloneAndConfirmed) {
  resolve();
  for (int i = 0; i < 600 && b.arp_requests_for("10.0.0.2", false) == 0; ++i) run_using(100ms);
  ASSERT_EQ(b.arp_requests_for("10.0.0.2", false), 1U);
  EXPECT_EQ(b.actions.frames.back().qpn, 0x50U);
  EXPECT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kProbe);
  EXPECT_TRUE(b.sink.valid(kPeer));
  b.receive_arp_reply(hw, "10.0.0.2");
  EXPECT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kReachable);
  EXPECT_EQ(b.arp_requests_for("10.0.0.2", true), 0U);
}

TEST_F(IpoibNeighbour, U26_SilentPeerIsProbedThenAskedForAfterItsPathThenFails) {
  resolve();
  const auto begin = b.now;
  while (b.sink.valid(kPeer) && b.now < begin + 2min) run_using(250ms);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kFailed);
  EXPECT_EQ(b.arp_requests_for("10.0.0.2", false), 3U);
  EXPECT_EQ(b.arp_requests_for("10.0.0.2", true), 3U);
  EXPECT_EQ(b.sa.path_queries.size(), 2U);
  // The sum of at most 45 s reachable, a delay, three probes and three requests.
  EXPECT_LE(b.now - begin, 53s);
}

TEST_F(IpoibNeighbour, U26_PeerRestartedSilentlyIsFoundByTheBroadcastAfterProbing) {
  resolve();
  b.run_for(2s);
  auto restarted = hw;
  restarted.qpn.set(0x51);
  b.sa.paths[hw.gid].dlid.set(44);
  const auto begin = b.now;
  std::size_t seen = 0;
  while (b.sink.find(kPeer)->qpn != 0x51 && b.now < begin + 2min) {
    run_using(100ms);
    for (; seen < b.actions.frames.size(); ++seen)  // the peer hears broadcasts and its new QPN
      if (const auto& f = b.actions.frames[seen];
          f.broadcast() && f.arp()->target_ip == kPeer.v4_host())
        b.receive_arp_reply(restarted, "10.0.0.2");
  }
  b.run_for(100ms);
  EXPECT_LE(b.now - begin, 50s);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.actions.ahs.at(b.sink.find(kPeer)->ah).dlid, 44);
}

TEST_F(IpoibNeighbour, UnusedEntryIsForgottenWithoutBeingProbed) {
  resolve();
  b.run_for(4min);
  EXPECT_EQ(b.link.neighbours(b.now).size(), 1U);
  EXPECT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kStale);
  b.run_for(62s);
  EXPECT_TRUE(b.link.neighbours(b.now).empty());
  EXPECT_TRUE(b.sink.indexes.empty());
  EXPECT_EQ(b.arp_requests_for("10.0.0.2", false), 0U);
  b.run_for(31s);
  EXPECT_EQ(b.actions.ahs.size(), 1U);
}

TEST_F(IpoibNeighbour, OwnAddressClaimedByAnotherIsCountedDefendedAndNotLearned) {
  for (int i = 0; i < 100; ++i) {
    b.receive_arp_request(hw, "10.0.0.1", "10.0.0.1");
    b.receive_arp_request(hw, "10.0.0.1", "10.0.0.5");
    b.run_for(10ms);
  }
  EXPECT_EQ(b.link.counters().address_conflicts, 200U);
  EXPECT_TRUE(b.link.neighbours(b.now).empty());
  ASSERT_EQ(b.actions.frames.size(), 1U);  // one announcement in ten seconds
  EXPECT_TRUE(b.actions.frames[0].broadcast());
}

TEST_F(IpoibNeighbour, FramesWithoutAPathAreCountedByTheirProtocol) {
  LinkCounters counters;
  PathTable paths{{"ib0"}, b.actions, b.client, counters, [](const wire::IpAddr&, TimePoint) {}, 1};
  paths.resume(0, 2044, 0, b.now);
  const auto frame_of = [](wire::EtherType type) {
    const wire::IpoibHdr hdr{wire::Be16{static_cast<std::uint16_t>(type)}, {}};
    const auto octets = wire::bytes_of(hdr);
    return std::vector<std::byte>{octets.begin(), octets.end()};
  };
  const auto gone =
      wire::LinkAddr{0, wire::Be24{0x70}, wire::Gid::of(wire::kDefaultGidPrefix, 0xdead)};
  const auto send = [&](unsigned arp, unsigned nd) {
    for (; arp != 0; --arp) paths.send(gone, frame_of(wire::EtherType::kArp), b.now);
    for (; nd != 0; --nd) paths.send(gone, frame_of(wire::EtherType::kIpv6), b.now);
  };
  send(2, 100);  // more than may wait
  EXPECT_EQ(counters.arp_unsent, 0U);
  EXPECT_GT(counters.nd_unsent, 50U);
  paths.tick(b.now);
  b.run_for(10ms);
  EXPECT_EQ(counters.arp_unsent, 2U);
  EXPECT_EQ(counters.nd_unsent, 100U);
  send(3, 5);
  EXPECT_EQ(counters.arp_unsent, 5U);
  EXPECT_EQ(counters.nd_unsent, 105U);
}

TEST_F(IpoibNeighbour, OwnReflectedArpIsIgnored) {
  const wire::LinkAddr own{0x80, wire::Be24{0x48}, b.actions.attr.gid()};
  b.receive_arp_request(own, "10.0.0.1", "10.0.0.1");
  b.receive_arp_request(own, "10.0.0.5", "10.0.0.1");
  EXPECT_EQ(b.link.counters().address_conflicts, 0U);
  EXPECT_TRUE(b.actions.frames.empty());
  EXPECT_TRUE(b.link.neighbours(b.now).empty());
}

TEST_F(IpoibNeighbour, ImplausibleSendersAreInvalid) {
  const auto before = b.link.counters().arp_invalid;
  std::uint64_t n = 0;
  for (const auto* sender :
       {"255.255.255.255", "10.0.0.255", "224.0.0.1", "127.0.0.1", "0.1.2.3", "240.0.0.1"}) {
    b.receive_arp_request(hw, sender);
    ++n;
  }
  auto bad = hw;
  for (const std::uint32_t qpn : {0U, 1U, 0xff'ffffU}) {
    bad.qpn.set(qpn);
    b.receive_arp_request(bad, "10.0.0.2");
    ++n;
  }
  bad = hw;
  bad.gid = b.sa.group.mgid;
  b.receive_arp_request(bad, "10.0.0.2");
  bad.gid = {};
  b.receive_arp_request(bad, "10.0.0.2");
  b.receive_arp(wire::ArpOp::kReply, hw, "0.0.0.0", {}, "10.0.0.1");
  n += 3;
  b.receive_arp(wire::ArpOp::kRarpReply, hw, "10.0.0.2", {},
                "10.0.0.1");  // the node did not ask for it
  b.run_for(1s);
  EXPECT_EQ(b.link.counters().rarp.invalid, 1U);
  EXPECT_EQ(b.link.counters().arp_invalid - before, n);
  EXPECT_TRUE(b.link.neighbours(b.now).empty());
  EXPECT_TRUE(b.actions.frames.empty());
  EXPECT_TRUE(b.sa.path_queries.empty());
}

TEST_F(IpoibNeighbour, StaticWithLidNeedsNoSaAndDoesNotLearn) {
  ASSERT_TRUE(b.link.add_static(kPeer, wire::to_string(hw), 77, 2, b.now));
  EXPECT_TRUE(b.sa.path_queries.empty());
  ASSERT_TRUE(b.sink.valid(kPeer));
  const auto& ah = b.actions.ahs.at(b.sink.find(kPeer)->ah);
  EXPECT_EQ(ah.dlid, 77);
  EXPECT_EQ(ah.sl, 2);
  EXPECT_EQ(b.row("10.0.0.2").phase, NeighbourPhase::kStatic);
  auto other = hw;
  other.qpn.set(0x66);
  b.receive_arp_request(other, "10.0.0.2");
  EXPECT_EQ(b.sink.find(kPeer)->qpn, 0x50U);
  b.link.flush();
  b.run_for(20min);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.arp_requests_for("10.0.0.2", false), 0U);
  ASSERT_TRUE(b.link.remove_neighbour(kPeer));
  EXPECT_FALSE(b.link.remove_neighbour(kPeer));
  b.run_for(1min);
  EXPECT_EQ(b.actions.ahs.size(), 1U);
}

TEST_F(IpoibNeighbour, StaticWithoutLidAsksTheSaAndTriesAgainWhenWanted) {
  const auto path = b.sa.paths[hw.gid];
  b.sa.paths.clear();
  ASSERT_TRUE(b.link.add_static(kPeer, wire::to_string(hw), 0, 0, b.now));
  b.run_for(10ms);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kFailed);
  b.run_for(1min);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kIncomplete);
  EXPECT_EQ(b.sa.path_queries.size(), 1U);
  b.sa.paths[hw.gid] = path;
  const auto packet = b.want(kPeer);
  b.run_for(10ms);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.sink.released.back(), packet);
  EXPECT_EQ(b.arp_requests_for("10.0.0.2", true), 0U);
}

TEST_F(IpoibNeighbour, StaticGatewayThatFailedBeforeIsRequestedWhenARouteUsesIt) {
  const auto path = b.sa.paths[hw.gid];
  b.sa.paths.clear();
  ASSERT_TRUE(b.link.add_static(kPeer, wire::to_string(hw), 0, 0, b.now));
  b.run_for(1min);
  b.sa.paths[hw.gid] = path;
  b.run_for(1min);
  EXPECT_FALSE(b.sink.valid(kPeer));
  ASSERT_TRUE(b.link.use_gateway(kPeer, b.now));
  b.run_for(10ms);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_EQ(b.arp_requests_for("10.0.0.2", true), 0U);
  b.link.forget_gateway(kPeer);
}

TEST(IpoibStatic, ConfiguredBeforeTheLinkIsUpWaitsForIt) {
  SimIpoibLink b;
  const auto hw = b.add_host(0xb, 0x50, 3);
  ASSERT_TRUE(b.link.add_static(kPeer, wire::to_string(hw), 0, 0, b.now));
  ASSERT_TRUE(
      b.link.add_static(ip("10.0.0.3"), wire::to_string(b.add_host(0xc, 9, 4)), 7, 0, b.now));
  b.run_for(1min);
  EXPECT_TRUE(b.sa.path_queries.empty());
  EXPECT_TRUE(b.actions.ahs.empty());
  b.bring_up();
  b.run_for(10ms);
  EXPECT_TRUE(b.sink.valid(kPeer));
  EXPECT_TRUE(b.sink.valid(ip("10.0.0.3")));
  EXPECT_EQ(b.sa.path_queries.size(), 1U);
}

TEST_F(IpoibNeighbour, BadStaticEntriesAreRefused) {
  const auto good = wire::to_string(hw);
  EXPECT_FALSE(b.link.add_static(kPeer, "00:11", 0, 0, b.now));
  EXPECT_FALSE(b.link.add_static(kPeer, good, 0xc000, 0, b.now));
  EXPECT_FALSE(b.link.add_static(kPeer, good, 5, 16, b.now));
  EXPECT_FALSE(b.link.add_static(ip("10.0.0.1"), good, 5, 0, b.now));
  EXPECT_FALSE(b.link.add_static(ip("224.0.0.1"), good, 5, 0, b.now));
  EXPECT_FALSE(b.link.add_static(ip("ff02::1"), good, 5, 0, b.now));
  EXPECT_FALSE(b.link.add_static(ip("::1"), good, 5, 0, b.now));
  EXPECT_TRUE(b.link.neighbours(b.now).empty());
  EXPECT_EQ(b.actions.ahs.size(), 1U);
}

TEST_F(IpoibNeighbour, GatewayStaysWhateverHappens) {
  const auto index = b.link.use_gateway(kPeer, b.now);
  ASSERT_TRUE(index);
  EXPECT_EQ(*b.link.use_gateway(kPeer, b.now), *index);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kIncomplete);
  b.run_for(10min);
  EXPECT_TRUE(b.actions.frames.empty());  // resolved only when a packet needs it
  b.want(kPeer);
  b.run_for(4s);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kFailed);
  b.run_for(4s);
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kIncomplete);
  b.resolve("10.0.0.2", hw);
  EXPECT_TRUE(b.sink.valid(kPeer));
  // An unused gateway is probed and kept.
  std::size_t probes = 0;
  for (int i = 0; i < 600; ++i) {
    b.run_for(1s);
    const auto now_sent = b.arp_requests_for("10.0.0.2", false);
    if (now_sent != probes) b.receive_arp_reply(hw, "10.0.0.2");
    probes = now_sent;
  }
  EXPECT_GE(probes, 10U);
  EXPECT_TRUE(b.sink.valid(kPeer));
  b.link.flush();
  EXPECT_EQ(b.sink.find(kPeer)->state, NeighbourState::kIncomplete);
  b.link.forget_gateway(kPeer);
  EXPECT_EQ(b.sink.indexes.count(*index), 1U);
  b.link.forget_gateway(kPeer);
  EXPECT_TRUE(b.sink.indexes.empty());
  b.link.forget_gateway(kPeer);
}

TEST_F(IpoibNeighbour, PacketsThatCanHaveNoNeighbourAreDroppedByName) {
  b.want(ip("::1"));
  b.want(ip("10.0.0.1"));
  b.want(ip("127.0.0.1"));
  EXPECT_EQ(b.sink.drops[Drop::kLocalUnsupported], 1U);
  EXPECT_EQ(b.sink.drops[Drop::kIpMartianDestination], 2U);
  EXPECT_TRUE(b.sink.indexes.empty());
}

LinkConfig with_ip6(wire::InterfaceIdRule rule = Ip6Config{}.interface_id) {
  return SimIpoibLink::config_with([rule](LinkConfig& c) {
    c.ip6.enabled = true;
    c.ip6.interface_id = rule;
  });
}

TEST(IpoibNeighbourIp6, U16_U18_LinkLocalAddressFromThePortGuid) {
  SimIpoibLink b{with_ip6()};
  b.actions.attr.guid = 0x0002'c903'00a1'b204;
  b.bring_up();
  ASSERT_EQ(b.link.addresses6().size(), 1U);
  EXPECT_EQ(b.link.addresses6()[0].address, prefix("fe80::202:c903:a1:b204/64"));
  EXPECT_EQ(b.link.mtu6(), 2044);
}

TEST(IpoibNeighbourIp6, U16_StrictRuleLeavesAModifiedGuidAlone) {
  SimIpoibLink b{with_ip6(wire::InterfaceIdRule::kModifiedEui64)};
  b.actions.attr.guid = 0x0002'c903'00a1'b204;
  b.bring_up();
  EXPECT_EQ(b.link.addresses6().at(0).address, prefix("fe80::2:c903:a1:b204/64"));
}

TEST(IpoibNeighbourIp6, U17_LinkLocalAddressFromTheLid) {
  SimIpoibLink b{with_ip6(wire::InterfaceIdRule::kLid)};
  b.actions.attr.lid = 0x1a2;
  b.bring_up();
  EXPECT_EQ(b.link.addresses6().at(0).address, prefix("fe80::1a2/64"));
}

TEST(IpoibNeighbourIp6, U15_SmallGroupCarriesIpv4Alone) {
  SimIpoibLink b{with_ip6()};
  b.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, 3);
  b.bring_up();
  EXPECT_EQ(b.link.mtu(), 1020);
  EXPECT_EQ(b.link.mtu6(), 0);
  EXPECT_EQ(b.link.reason6(), "the MTU 1020 is less than 1280 octets, the minimum of IPv6");
  b.want(ip("fe80::2"));
  EXPECT_EQ(b.sink.drops[Drop::kIp6Unsupported], 1U);
}

TEST(IpoibNeighbourIp6, WithoutIpv6ItsPacketsAreDroppedByName) {
  SimIpoibLink b;  // whose configuration has no IPv6
  b.bring_up();
  b.want(ip("fe80::1"));
  EXPECT_EQ(b.sink.drops[Drop::kIp6Unsupported], 1U);
  EXPECT_EQ(b.link.mtu6(), 0);
  EXPECT_EQ(b.link.reason6(), "not configured");
  EXPECT_TRUE(b.sink.indexes.empty());
}

}  // namespace
}  // namespace ipoib::link
