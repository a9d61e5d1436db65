// SPDX-License-Identifier: BSD-3-Clause
// A link of the draft of 2001: IBARP, header fields, neighbours, groups.
#include <algorithm>

#include "lib/wire/icmpv6.h"
#include "tests/unit/lib/link/link_of_2001.h"

namespace ipoib::link {
namespace {

/// The first frame of a link that came up with these options: its announcement by IBARP.
std::vector<std::byte> announcement_of(const std::function<void(IbarpConfig&)>& change) {
  Of2001 t{ibarp_config(change)};
  t.bring_up();
  return t.actions.frames.at(0).bytes;
}

std::uint16_t number_at(std::span<const std::byte> octets, std::size_t at) {
  return wire::read<wire::Be16>(octets, at)->host();
}

TEST(IbarpLink, U03_E03_BroadcastAddressesMapToTheBroadcastGroup) {
  auto config = ibarp_config();
  config.addresses.push_back(prefix("172.16.1.1/25"));
  Of2001 t{config};
  t.bring_up();
  for (const auto* addr :
       {"255.255.255.255", "10.0.0.255", "10.255.255.255", "172.16.1.127", "172.16.255.255"}) {
    const auto packet = t.want(ip(addr));
    ASSERT_TRUE(t.sink.valid(ip(addr))) << addr;
    const auto* n = t.sink.find(ip(addr));
    EXPECT_EQ(n->qpn, wire::kMulticastQpn);
    EXPECT_EQ(t.actions.ahs.at(n->ah).dgid, t.found.mgid);
    EXPECT_EQ(t.sink.released.back(), packet);
  }
}

// The readings of the draft that can be chosen, in the octets that are sent.
TEST(IbarpLink, E03_OptionsChooseTheReading) {
  const auto plain = announcement_of({});
  ASSERT_EQ(plain.size(), 84U);
  EXPECT_EQ(number_at(plain, 2), 0x0806);
  EXPECT_EQ(number_at(plain, 4), 32);

  const auto ipv4 = announcement_of([](IbarpConfig& c) { c.arp_type = 0x0800; });
  EXPECT_EQ(number_at(ipv4, 2), 0x0800);
  EXPECT_TRUE(std::ranges::equal(std::span{ipv4}.subspan(4), std::span{plain}.subspan(4)));

  const auto hardware = announcement_of([](IbarpConfig& c) { c.arp_hardware = 0x0f01; });
  EXPECT_EQ(number_at(hardware, 4), 0x0f01);

  const auto twice = announcement_of([](IbarpConfig& c) { c.gid_word_twice = true; });
  EXPECT_EQ(twice.size(), 92U);
}

TEST(IbarpLink, E03_RepliesAreSentInTheConfiguredOrder) {
  for (const bool keeps_order : {true, false}) {
    Of2001 t{ibarp_config([&](IbarpConfig& c) { c.reply_keeps_order = keeps_order; })};
    t.bring_up();
    const auto peer = t.host(0xb, 0x50, 3, 0x1234);
    t.arp(wire::ArpOp::kRequest, peer, "10.0.0.2", wire::HwAddr::zero(wire::LinkKind::kIbarp),
          "10.0.0.1");
    t.pass(10ms);
    const auto& reply = t.actions.frames.back().bytes;
    const auto first = wire::HwAddr::read(wire::LinkKind::kIbarp, std::span{reply}.subspan(12));
    EXPECT_EQ(first, keeps_order ? wire::HwAddr{peer} : wire::HwAddr{t.own()});
  }
}

// A host that asks with ever new Q_Keys and addresses takes few address handles, and other hosts are
// answered, also one at the same port with the Q_Key of the link.
TEST(IbarpLink, E03_AHostWithEverNewQkeysTakesFewHandles) {
  Of2001 t;
  t.bring_up();
  for (std::uint32_t qkey = 1; qkey <= 3000; ++qkey) {
    t.arp(wire::ArpOp::kRequest, t.host(0xc, 0x60, 4, qkey),
          fmt::format("10.0.0.{}", 3 + qkey % 250), wire::HwAddr::zero(wire::LinkKind::kIbarp),
          "10.0.0.1");
    if (qkey % 20 == 0) t.pass(10ms);
  }
  EXPECT_LE(t.actions.ahs.size(), 20U);
  t.want(ip("10.0.0.254"));
  t.arp(wire::ArpOp::kReply, t.host(0xc, 0x61, 4, kFoundQkey), "10.0.0.254", t.own(), "10.0.0.1");
  t.pass(10ms);
  EXPECT_TRUE(t.sink.valid(ip("10.0.0.254")));
  t.actions.frames.clear();
  t.arp(wire::ArpOp::kRequest, t.host(0xb, 0x50, 3, 0x1234), "10.0.0.2",
        wire::HwAddr::zero(wire::LinkKind::kIbarp), "10.0.0.1");
  t.pass(2s);
  const auto& frames = t.actions.frames;
  EXPECT_TRUE(
      std::any_of(frames.begin(), frames.end(), [](const auto& f) { return f.qpn == 0x50; }));
}

// A stranger claims addresses with the GID of another host and ever new Q_Keys. The host has a Q_Key
// of its own.
TEST(IbarpLink, E03_ClaimsOfAPortDoNotKeepItsHostOut) {
  Of2001 t;
  t.bring_up();
  std::uint32_t claims = 0;
  const auto claim = [&](unsigned n) {
    for (unsigned i = 0; i < n; ++i, ++claims)
      t.arp(wire::ArpOp::kRequest, t.host(0xb, 0x60 + claims, 3, 1 + claims),
            fmt::format("10.0.0.{}", 100 + claims % 100),
            wire::HwAddr::zero(wire::LinkKind::kIbarp), "10.0.0.1");
    t.pass(50ms);
  };
  claim(40);
  const auto victim = t.host(0xb, 0x50, 3, 0x1234);
  t.actions.frames.clear();
  t.arp(wire::ArpOp::kRequest, victim, "10.0.0.2", wire::HwAddr::zero(wire::LinkKind::kIbarp),
        "10.0.0.1");
  t.pass(10ms);
  const auto& frames = t.actions.frames;
  EXPECT_TRUE(std::any_of(frames.begin(), frames.end(), [](const auto& f) {
    return f.qpn == 0x50;
  })) << "it is answered";
  claim(40);
  t.want(ip("10.0.0.2"));
  t.arp(wire::ArpOp::kReply, victim, "10.0.0.2", t.own(), "10.0.0.1");
  t.pass(5s);
  const auto reached = [&] {
    const auto* const entry = t.sink.find(ip("10.0.0.2"));
    return entry != nullptr && entry->state == table::NeighbourState::kValid &&
           t.actions.ahs.at(entry->ah).qkey == 0x1234U;
  };
  EXPECT_TRUE(reached());
  claim(40);
  EXPECT_TRUE(reached()) << "claims take no path that was asked for";
  EXPECT_LE(t.actions.ahs.size(), 20U);
}

TEST(IbarpLink, E03_PathsThatWereAskedForAreBounded) {
  Of2001 t;
  t.bring_up();
  const auto resolve = [&](unsigned n, std::uint32_t qkey) {
    const auto addr = fmt::format("10.0.0.{}", n);
    t.want(ip(addr));
    t.arp(wire::ArpOp::kReply, t.host(0xb, 0x60 + n, 3, qkey), addr, t.own(), "10.0.0.1");
    t.pass(10ms);
    return t.sink.valid(ip(addr));
  };
  EXPECT_TRUE(resolve(2, kFoundQkey)) << "the link's own Q_Key does not count";
  for (unsigned n = 3; n < 19; ++n) EXPECT_TRUE(resolve(n, n)) << n;
  EXPECT_FALSE(resolve(19, 19));
  EXPECT_EQ(t.link.counters().paths_refused, 1U);
  EXPECT_TRUE(resolve(20, kFoundQkey));
  EXPECT_TRUE(t.link.remove_neighbour(ip("10.0.0.3")));
  EXPECT_TRUE(resolve(21, 21)) << "another one is gone";
}

// Each neighbour is sent to with the Q_Key of its address and the fields of its path.
TEST(IbarpLink, E03_E04_NeighboursHaveTheirOwnQkey) {
  Of2001 t;
  t.bring_up();
  const auto same = t.host(0xb, 0x50, 3, kFoundQkey), other = t.host(0xc, 0x60, 4, 0x1234);
  t.want(ip("10.0.0.2"));
  t.arp(wire::ArpOp::kReply, same, "10.0.0.2", t.own(), "10.0.0.1");
  // Learned from a request to this node.
  t.arp(wire::ArpOp::kRequest, other, "10.0.0.3", wire::HwAddr::zero(wire::LinkKind::kIbarp),
        "10.0.0.1");
  t.pass(10ms);
  std::map<std::uint32_t, fabric::AhAttr> ahs;
  for (const auto& [index, n] : t.sink.installed)
    if (n.state == table::NeighbourState::kValid) ahs[n.qpn] = t.actions.ahs.at(n.ah);
  ASSERT_EQ(ahs.size(), 2U);
  EXPECT_EQ(ahs[0x50].dlid, 3);
  EXPECT_EQ(ahs[0x50].sl, 3) << "from the path";
  EXPECT_EQ(ahs[0x50].qkey, std::nullopt) << "the link's costs nothing";
  EXPECT_EQ(ahs[0x60].qkey, 0x1234U);
  EXPECT_EQ(t.sink.released.size(), 1U);
  // The reply went to the asker, with its Q_Key, and keeps the order of the request.
  const auto& reply = t.actions.frames.back();
  EXPECT_EQ(reply.qpn, 0x60U);
  EXPECT_EQ(reply.to.qkey, 0x1234U);
  const auto record = Of2001::record_of(reply);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->op, wire::ArpOp::kReply);
  EXPECT_EQ(record->sender_hw, wire::HwAddr{t.own()});
  EXPECT_EQ(record->target_hw, wire::HwAddr{other});
}

// The SA chooses the traffic class of a path; that of SIDR is the broadcast group's.
TEST(IbarpLink, E04_PathsHaveTheTrafficClassOfTheirRecord) {
  Of2001 t;
  t.bring_up();
  const auto peer = t.host(0xb, 0x50, 3, kFoundQkey);
  auto& path = t.sa.paths.at(peer.gid);
  path.tclass = 0x44;
  path.raw_flow_hop.set(0x00321 << 8 | 7);
  t.want(ip("10.0.0.2"));
  t.arp(wire::ArpOp::kReply, peer, "10.0.0.2", t.own(), "10.0.0.1");
  t.pass(10ms);
  ASSERT_EQ(t.sa.path_queries.size(), 1U);
  EXPECT_EQ(t.sa.path_queries[0].hdr.comp_mask.host() & wire::PathRecord::kTclass, 0U);
  const auto* const entry = t.sink.find(ip("10.0.0.2"));
  ASSERT_NE(entry, nullptr);
  const auto& ah = t.actions.ahs.at(entry->ah);
  EXPECT_EQ(ah.tclass, 0x44);
  EXPECT_EQ(ah.flow_label, 0x321U);
  EXPECT_EQ(ah.hop_limit, 7);
  EXPECT_EQ(ah.dgid, peer.gid);
}

TEST(IbarpLink, E03_StaticNeighboursHave32Octets) {
  Of2001 t;
  t.bring_up();
  const auto peer = t.host(0xb, 0x50, 3, 0x1234);
  const auto rfc4391 = wire::to_string(wire::LinkAddr{0, peer.qpn, peer.gid});
  const auto refused = t.link.add_static(ip("10.0.0.2"), rfc4391, 9, 1, t.now);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("of 32 octets"), std::string::npos) << refused.error().what;
  ASSERT_TRUE(t.link.add_static(ip("10.0.0.2"), wire::to_string(peer), 9, 1, t.now));
  t.pass(10ms);
  EXPECT_EQ(t.row("10.0.0.2").lladdr, wire::to_string(peer));
  EXPECT_EQ(t.row("10.0.0.2").qpn, 0x50U);
  const auto* const entry = t.sink.find(ip("10.0.0.2"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(t.actions.ahs.at(entry->ah).dlid, 9);
  EXPECT_EQ(t.actions.ahs.at(entry->ah).qkey, 0x1234U);
  EXPECT_TRUE(t.sa.path_queries.empty());
  EXPECT_TRUE(t.link.remove_neighbour(ip("10.0.0.2")));
}

// The draft can be read so that a reply keeps the sender of its request, and so that it does not.
TEST(IbarpLink, E03_RepliesInEitherOrderResolve) {
  for (const bool keeps_order : {true, false}) {
    Of2001 t;
    t.bring_up();
    const auto peer = t.host(0xb, 0x50, 3, kFoundQkey);
    t.want(ip("10.0.0.2"));
    wire::LinkFormat format = wire::LinkKind::kIbarp;
    format.reply_keeps_order = keeps_order;
    const auto reply = wire::build_arp(
        {wire::ArpOp::kReply, peer, ip("10.0.0.2").v4_host(), t.own(), ip("10.0.0.1").v4_host()},
        format);
    t.link.on_arp(reply, 3, 0x50, t.now);
    t.pass(10ms);
    EXPECT_EQ(t.sink.released.size(), 1U) << keeps_order;
  }
}

TEST(IbarpLink, E03_ForeignAndCutRecordsAreCounted) {
  Of2001 t;
  t.bring_up();
  const auto peer = t.host(0xb, 0x50, 3, kFoundQkey);
  const auto good = wire::build_arp(
      {wire::ArpOp::kRequest, peer, ip("10.0.0.2").v4_host(), peer, ip("10.0.0.1").v4_host()});
  const auto before = t.link.counters().arp_invalid;
  for (std::size_t len = 0; len < good.size(); ++len)
    t.link.on_arp(std::span{good}.first(len), 3, 0x50, t.now);
  t.receive_arp_request(t.add_host(0xc, 0x60, 4), "10.0.0.3");  // RFC 4391.
  wire::LinkFormat twice = wire::LinkKind::kIbarp;
  twice.gid_word_twice = true;
  t.link.on_arp(wire::build_arp({wire::ArpOp::kRequest, peer, ip("10.0.0.2").v4_host(), peer,
                                 ip("10.0.0.1").v4_host()},
                                twice),
                3, 0x50, t.now);
  EXPECT_EQ(t.link.counters().arp_invalid, before + good.size() + 2);
}

TEST(IbarpLink, E07_MtuIs2048OrWhatThePathCarries) {
  for (const auto& [code, mtu] : std::map<std::uint8_t, std::uint16_t>{{4, 2044}, {5, 2048}}) {
    Of2001 t;
    t.actions.attr.mtu = 5;
    t.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, code);
    t.bring_up();
    EXPECT_EQ(t.link.mtu(), mtu);
  }
}

// An MTU option of more than 2048 is ignored; where the path carries less, that is the limit.
// Source: draft-pelissier-ipoib-encaparp-00 §3.2.
TEST(IbarpLink, E07_SmallerMtuOfARouterIsTakenALargerIgnored) {
  for (const auto& [code, mtu] : std::map<std::uint8_t, std::uint16_t>{{4, 2044}, {5, 2048}}) {
    LinkConfig config = ibarp_config();
    config.ip6.enabled = true;
    config.ip6.accept_ra = true;
    Of2001 t{config};
    t.actions.attr.mtu = 5;
    t.sa.group.mtu = wire::with_selector(wire::Selector::kExactly, code);
    t.bring_up();
    t.pass(5s);
    const auto hear = [&](std::uint32_t octets) {
      wire::NdMessage m;
      m.type = wire::Icmp6Type::kRouterAdvertisement;
      m.src = ip("fe80::99");
      m.dst = wire::all_nodes();
      m.source_hw = wire::HwAddr{t.host(0xb, 0x50, 3, kFoundQkey)};
      m.lifetime_s = 60;
      m.mtu = octets;
      t.link.on_nd(wire::build_nd(m), 0, t.now);
      t.pass(2s);
      return t.link.mtu6();
    };
    for (const std::uint32_t larger : {2049U, 4092U, 0x1'0000U + 1500U})
      EXPECT_EQ(hear(larger), mtu) << larger;
    EXPECT_EQ(hear(1500), 1500);
    EXPECT_EQ(t.link.mtu(), mtu) << "IPv4 is not affected";
  }
}

// A port with another GUID has another EUI-64, which is the interface identifier.
TEST(IbarpLink, E06_AnotherGuidMakesAnotherAddress) {
  LinkConfig config = ibarp_config();
  config.ip6.enabled = true;
  Of2001 t{config};
  t.bring_up();
  t.pass(5s);
  const auto local = [&] { return wire::to_string(t.link.addresses6().at(0).address.addr); };
  EXPECT_EQ(local(), "fe80::202:c903:0:a");
  t.actions.attr.guid += 0x100;
  t.actions.frames.clear();
  t.link.on_port_event(fabric::PortEvent::kGidChange, t.now);
  t.pass_until_asked();
  t.reply_found();
  t.pass(5s);
  EXPECT_EQ(local(), "fe80::202:c903:0:10a");
  // The new address is announced, with the new EUI-64, and the old GID leaves the group.
  const auto record = Of2001::record_of(t.actions.frames.front());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->sender_hw, wire::HwAddr{t.own()});
  EXPECT_EQ(t.sa.leaves.size(), 1U);
}

// The group of IPv6 multicast is the broadcast group; no other one is joined.
TEST(IbarpLink, E06_Ipv6UsesTheEui64AndTheBroadcastGroup) {
  LinkConfig config = ibarp_config();
  config.ip6.enabled = true;
  config.ip6.interface_id = wire::InterfaceIdRule::kSetUniversal;
  Of2001 t{config};
  t.actions.attr.guid |= wire::kUniversalBit;
  t.bring_up();
  t.pass(5s);
  ASSERT_FALSE(t.link.addresses6().empty());
  EXPECT_EQ(wire::to_string(t.link.addresses6()[0].address.addr), "fe80::2:c903:0:a")
      << "the bit is inverted";
  EXPECT_TRUE(t.sa.group_requests.empty());
  std::size_t nd = 0;
  for (const auto& frame : t.actions.frames) {
    const auto header = wire::read<wire::Be32>(frame.bytes);
    if (wire::encapsulated_type(wire::Encapsulation::kTypeLast, *header) != wire::EtherType::kIpv6)
      continue;
    ++nd;
    EXPECT_EQ(frame.to.dgid, t.found.mgid);
  }
  EXPECT_GE(nd, 1U);
  const auto packet = t.want(ip("ff05::1:3"));
  t.pass(10ms);
  EXPECT_EQ(t.sink.released, std::vector<HeldPacket>{packet});
  EXPECT_EQ(t.sink.installed.rbegin()->second.qpn, wire::kMulticastQpn);
}

TEST(IbarpLink, GroupsWaitForTheLink) {
  Of2001 t;
  ASSERT_TRUE(t.link.join_group(ip("239.1.2.3"), t.now));
  const auto state = [&] { return t.link.groups(t.now).at(0).state; };
  EXPECT_EQ(state(), "waiting");
  t.bring_up();
  const auto expect_waiting = [&] {
    const auto rows = t.link.groups(t.now);
    ASSERT_FALSE(rows.empty());
    for (const auto& row : rows) {
      EXPECT_EQ(row.state, "waiting");
      EXPECT_EQ(row.mlid, 0);
    }
  };
  EXPECT_EQ(state(), "member");
  t.actions.attr.state = fabric::PortState::kDown;
  t.link.on_port_event(fabric::PortEvent::kPortDown, t.now);
  expect_waiting();
  t.actions.attr.state = fabric::PortState::kActive;
  t.link.on_port_event(fabric::PortEvent::kPortActive, t.now);
  t.reply_found();
  EXPECT_EQ(state(), "member");
  t.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid);
  t.link.on_port_event(fabric::PortEvent::kClientReregister, t.now);
  t.pass_until_asked();
  t.reply_found();
  ASSERT_EQ(t.link.state(), State::kJoining);
  expect_waiting();
  t.actions.attr.pkeys = {0x8001};
  t.link.on_port_event(fabric::PortEvent::kPkeyChange, t.now);
  expect_waiting();
}

TEST(IbarpLink, JoinsAreCountedLocally) {
  Of2001 t;
  t.bring_up();
  ASSERT_TRUE(t.link.join_group(ip("239.1.2.3"), t.now));
  ASSERT_TRUE(t.link.join_group(ip("239.1.2.3"), t.now));
  EXPECT_FALSE(t.link.join_group(ip("10.0.0.1"), t.now));
  const auto groups = t.link.groups(t.now);
  const auto row = std::find_if(groups.begin(), groups.end(),
                                [](const GroupInfo& g) { return g.group == ip("239.1.2.3"); });
  ASSERT_NE(row, groups.end());
  EXPECT_EQ(row->joins, 2U);
  EXPECT_EQ(row->mlid, 0xc000);
  EXPECT_EQ(row->state, "member");
  EXPECT_EQ(row->join_state, wire::join_state::kFullMember);
  EXPECT_TRUE(t.link.leave_group(ip("239.1.2.3"), t.now));
  EXPECT_TRUE(t.link.leave_group(ip("239.1.2.3"), t.now));
  EXPECT_FALSE(t.link.leave_group(ip("239.1.2.3"), t.now));
  EXPECT_TRUE(t.sa.group_requests.empty());
}

// The Q_Key of the link changes at a new search; paths to hosts with the old one need it now.
TEST(IbarpLink, E03_HandlesFollowTheQkeyOfTheLink) {
  Of2001 t;
  t.bring_up();
  const auto peer = t.host(0xb, 0x50, 3, kFoundQkey);
  t.want(ip("10.0.0.2"));
  t.arp(wire::ArpOp::kReply, peer, "10.0.0.2", t.own(), "10.0.0.1");
  t.pass(10ms);
  t.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid);
  t.link.on_port_event(fabric::PortEvent::kClientReregister, t.now);
  t.pass(500ms);
  t.sa.join_status = 0;
  t.found.qkey = 0x8001'0d0d;
  t.pass_until_asked();
  t.reply_found();
  ASSERT_EQ(t.link.state(), State::kUp) << t.link.reason();
  EXPECT_EQ(t.actions.qkey, 0x8001'0d0dU);
  const auto installed = std::find_if(t.sink.installed.begin(), t.sink.installed.end(),
                                      [](const auto& entry) { return entry.second.qpn == 0x50; });
  ASSERT_NE(installed, t.sink.installed.end());
  EXPECT_EQ(t.actions.ahs.at(installed->second.ah).qkey, kFoundQkey);
}

}  // namespace
}  // namespace ipoib::link
