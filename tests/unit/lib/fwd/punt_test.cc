// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/punt.h"

#include <rte_cycles.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lib/fwd/ip4_header.h"
#include "lib/wire/arp.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

constexpr std::string_view kOwn = "192.168.1.1";

/// The stage without a worker's loop; the test supplies the time.
class PuntTest : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
    own_addresses.add(wire::IpAddr::v4(addr(kOwn)));
    auto table = table::NeighbourTable::create(64, 1, -1);
    ASSERT_TRUE(table) << table.error().what;
    neighbours_ = std::move(*table);
    auto deliveries = table::DeliveryTable::create(64, 1);
    ASSERT_TRUE(deliveries) << deliveries.error().what;
    deliveries_ = std::move(*deliveries);
    configs[0].punt.interval_us = 1000;
    configs[0].punt.neighbour_per_key = 3;
    configs[0].punt.neighbour_senders = configs[0].punt.neighbour_link_senders = 1;
    // One interface may have half of each.
    configs[0].punt.neighbour = 16;
    configs[0].punt.icmp_error = 4;
    configs[0].punt.arp = 8;
    configs[0].punt.local = 10;
    configs[0].punt.membership = 12;
    configs[0].punt.nd = 6;
    make();
  }
  void make() {
    trace_.emplace(configs[0]);
    tx_.emplace(configs[0], tx_counters_, *trace_);
    answers_.emplace(configs[0], *deliveries_, *tx_, answered_);
    punt_.emplace(configs[0], *neighbours_, *answers_, punts_, *trace_);
    punt_->begin_loop(now_);
  }
  /// Makes limits that no test reaches, of all kinds.
  void without_limits() {
    PuntLimits& l = configs[0].punt;
    l.interval_us = 1000;
    for (auto* limit : {&l.neighbour_per_key, &l.neighbour, &l.icmp_error, &l.too_big,
                        &l.known_per_key, &l.known_per_source, &l.known_arp, &l.known_nd,
                        &l.stranger_per_source, &l.arp, &l.nd, &l.local, &l.membership})
      *limit = 100'000;
    make();
  }
  void add_neighbour(table::NeighbourIndex index, std::string_view address,
                     table::InterfaceId iface = kEth0) {
    table::Neighbour n;
    n.addr = *wire::parse_ip(address);
    n.iface = iface;
    n.state = table::NeighbourState::kIncomplete;
    n.asked = true;
    neighbours_->set(index, n);
  }
  /// This node has asked for a neighbour, which has answered from that MAC address.
  void know_at(std::uint8_t from, std::string_view address) {
    table::Neighbour n;
    n.addr = *wire::parse_ip(address);
    n.iface = kEth0;
    n.state = table::NeighbourState::kValid;
    n.mode = table::NeighbourMode::kEthernet;
    n.mac = mac(from);
    n.asked = true;
    neighbours_->set(1, n);
  }
  /// A record as it is behind the Ethernet header of a frame from that MAC address.
  rte_mbuf* arp(std::string_view sender, std::string_view target, std::uint8_t from = 0x10,
                wire::ArpOp op = wire::ArpOp::kReply) {
    const auto record = wire::build_arp({op, mac(from), addr(sender), mac(0xa0), addr(target)});
    rte_mbuf* const m = mbuf(ethernet(mac(0xa0), mac(from), 0x0806, record));
    rte_pktmbuf_adj(m, RTE_ETHER_HDR_LEN);
    return m;
  }
  void nd(std::string_view speaker, std::uint8_t from = 0x10) {
    rte_mbuf* const m = mbuf(ethernet(mac(0xa0), mac(from), 0x86dd, Ip6{}.bytes()));
    rte_pktmbuf_adj(m, RTE_ETHER_HDR_LEN);
    punt_->nd(in_, m, false, *wire::parse_ip(speaker));
  }
  void wanted(std::string_view address, table::InterfaceId iface = kIb0) {
    punt_->neighbour_wanted(in_, mbuf(Ip4{}.bytes()), iface, wire::IpAddr::v4(addr(address)));
  }
  /// A packet of that source in a frame of that MAC address, for host `to` of ib0.
  void want_from(std::string_view source, std::uint8_t from, std::uint32_t to,
                 fabric::Onward onward = fabric::Onward::kByRoute) {
    rte_mbuf* const m = mbuf(ethernet(mac(0xa0), mac(from), 0x0800, Ip4{.src = source}.bytes()));
    rte_pktmbuf_adj(m, RTE_ETHER_HDR_LEN);
    punt_->neighbour_wanted(in_, m, kIb0, wire::IpAddr::v4(0x0a00'0000 + to), onward);
  }
  void next_interval() { punt_->begin_loop(now_ += rte_get_tsc_hz() / 1000); }
  std::uint64_t lost(Drop reason) { return counters_.drops.get(reason); }

  InterfaceCounters counters_;
  Ingress in_{kEth0, counters_};
  Counter punts_, answered_;
  std::vector<InterfaceCounters> tx_counters_ = std::vector<InterfaceCounters>(5);
  std::uint64_t now_ = 1'000'000;
  std::unique_ptr<table::NeighbourTable> neighbours_;
  std::unique_ptr<table::DeliveryTable> deliveries_;
  std::optional<Tracer> trace_;
  std::optional<Tx> tx_;
  std::optional<NeighbourAnswers> answers_;
  std::optional<Punt> punt_;
};

TEST_F(PuntTest, P07_OneNeighbourGetsItsShareOfAnInterval) {
  for (int i = 0; i < 5; ++i) wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 3U);
  EXPECT_EQ(lost(Drop::kNeighbourPending), 2U);
  wanted("10.0.0.3");
  wanted("10.0.0.2", kIb1);
  EXPECT_EQ(punted().size(), 2U) << "others, and the same address on another link, have their own";
  // The end of the interval renews the budget, and no moment before it does.
  punt_->begin_loop(now_ + rte_get_tsc_hz() / 1000 - 1);
  wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 0U);
  next_interval();
  wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 1U);
  EXPECT_EQ(lost(Drop::kNeighbourPending), 3U);
  EXPECT_EQ(punts_.get(), 6U);
}

TEST_F(PuntTest, P07_AllNeighboursTogetherAreLimited) {
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    punt_->neighbour_wanted(in_, mbuf(Ip4{}.bytes()), kIb0, wire::IpAddr::v4(0x0a00'0000 + i));
  }
  EXPECT_EQ(punted().size(), 6U) << "strangers leave a quarter";
  EXPECT_EQ(lost(Drop::kPuntRateLimited), 100'000U - 6);
  next_interval();
  wanted("10.0.0.2");
  EXPECT_EQ(punted().size(), 1U);
}

TEST_F(PuntTest, P07_KindsHaveLimitsOfTheirOwn) {
  for (int i = 0; i < 10; ++i) {
    punt_->arp(in_, arp("192.168.1.9", kOwn));
    punt_->local(in_, mbuf(Ip4{}.bytes()));
    punt_->membership(in_, mbuf(Ip4{}.bytes()), true);
    nd("fe80::9");
    punt_->icmp_error(in_, mbuf(Ip4{}.bytes()), Drop::kIpNoRoute,
                      wire::unreachable4(wire::IcmpUnreachable::kNet));
  }
  std::map<msg::Up::Kind, int> kinds;
  for (const Punted& p : punted()) ++kinds[p.message.kind];
  EXPECT_EQ(kinds[msg::Up::Kind::kArp], 4);
  EXPECT_EQ(kinds[msg::Up::Kind::kLocal], 5);
  EXPECT_EQ(kinds[msg::Up::Kind::kMembership], 6);
  EXPECT_EQ(kinds[msg::Up::Kind::kNd], 3);
  EXPECT_EQ(kinds[msg::Up::Kind::kIcmpError], 2);
  EXPECT_EQ(lost(Drop::kPuntRateLimited), 6U + 5U + 4U + 7U);
  EXPECT_EQ(lost(Drop::kIpNoRoute), 10U) << "counted once each, whether the error went up or not";
}

TEST_F(PuntTest, P07_FullRingNeverBlocks) {
  without_limits();
  add_neighbour(1, "192.168.1.2");
  const unsigned room = rte_ring_free_count(up[0]);
  for (unsigned i = 0; i < room; ++i) punt_->arp(in_, arp("192.168.1.2", kOwn));
  EXPECT_EQ(lost(Drop::kPuntRingFull), 0U);
  punt_->arp(in_, arp("192.168.1.2", kOwn));
  punt_->local(in_, mbuf(Ip4{}.bytes()));
  wanted("10.0.0.2");
  EXPECT_EQ(lost(Drop::kPuntRingFull), 3U);
  punt_->icmp_error(in_, mbuf(Ip4{}.bytes()), Drop::kIpTtlExceeded, wire::kTtlExceeded);
  EXPECT_EQ(lost(Drop::kPuntRingFull), 3U);
  EXPECT_EQ(lost(Drop::kIpTtlExceeded), 1U) << "its own reason, and no other";
  EXPECT_EQ(punts_.get(), room);
}

/// Packets arrive faster than management handles them. Pings leave half of the ring to hosts that
/// join groups or are new, and these leave a quarter to neighbours.
TEST_F(PuntTest, P07_PingsAndStrangersLeaveRoomInTheRing) {
  without_limits();
  add_neighbour(1, "192.168.1.2");
  add_neighbour(2, "fe80::2");
  const unsigned room = rte_ring_free_count(up[0]);
  for (unsigned i = 0; i < room; ++i) punt_->local(in_, mbuf(Ip4{}.bytes()));
  EXPECT_NEAR(rte_ring_free_count(up[0]), room / 2, 1);
  for (unsigned i = 0; i < room; ++i) {
    punt_->arp(in_, arp("192.168.1.9", kOwn));
    punt_->membership(in_, mbuf(Ip4{}.bytes()), true);
    nd("fe80::9");
    wanted("10.0.0.2");
  }
  EXPECT_NEAR(rte_ring_free_count(up[0]), room / 4, 1);
  const auto refused = lost(Drop::kPuntRingFull);
  punt_->arp(in_, arp("192.168.1.2", kOwn));
  nd("fe80::2");
  EXPECT_EQ(lost(Drop::kPuntRingFull), refused);
}

/// A host with any number of addresses floods an interface with ARP and ND. Neighbours there, and
/// hosts that this node asks for, are still heard (RFC 6583 §7).
TEST_F(PuntTest, P07_FloodOfStrangersLeavesNeighboursAlone) {
  add_neighbour(1, "192.168.1.2");
  add_neighbour(2, "fe80::2");
  for (unsigned i = 0; i < 1'000; ++i) {
    const auto from = static_cast<std::uint8_t>(i);
    punt_->arp(in_, arp(fmt::format("192.168.3.{}", i % 250), kOwn, from));
    nd(fmt::format("fe80::9:{:x}", i), from);
  }
  EXPECT_EQ(punted().size(), 4U + 3U);
  const auto refused = lost(Drop::kPuntRateLimited);
  punt_->arp(in_, arp("192.168.1.2", kOwn));
  nd("fe80::2");
  EXPECT_EQ(lost(Drop::kPuntRateLimited), refused);
  EXPECT_EQ(punted().size(), 2U);
  // An address of a neighbour on another interface makes no neighbour of its sender.
  add_neighbour(3, "192.168.3.1", kIb0);
  punt_->arp(in_, arp("192.168.3.1", kOwn));
  EXPECT_EQ(punted().size(), 0U);
}

/// A host that has only spoken itself is a stranger until this node sends to it.
TEST_F(PuntTest, P16_AHostThatNobodyAskedForIsAStranger) {
  configs[0].punt.arp = configs[0].punt.nd = 2;
  make();
  for (const char* address : {"192.168.1.2", "fe80::2"}) {
    table::Neighbour n;
    n.addr = *wire::parse_ip(address);
    n.iface = kEth0;
    n.state = table::NeighbourState::kValid;
    n.mode = table::NeighbourMode::kEthernet;
    n.mac = mac(0x10);
    neighbours_->set(n.addr.is_v4() ? 1 : 2, n);
  }
  const auto speak = [this] {
    for (int i = 0; i < 10; ++i) {
      punt_->arp(in_, arp("192.168.1.2", kOwn));
      nd("fe80::2");
    }
    return punted().size();
  };
  EXPECT_EQ(speak(), 2U);
  for (const table::NeighbourIndex i : {1U, 2U})
    table::NeighbourTable::touch(*neighbours_->at(i), 7);
  next_interval();
  EXPECT_EQ(speak(), 2U * configs[0].punt.known_per_key + 2U);
}

/// Records in the name of a neighbour do not use up the budget of the others.
TEST_F(PuntTest, P07_OneNeighbourGetsItsShareOfArpAndNd) {
  configs[0].punt.known_per_key = 5;
  configs[0].punt.known_arp = configs[0].punt.known_nd = 24;
  configs[0].punt.arp = configs[0].punt.nd = 2;
  make();
  add_neighbour(1, "192.168.1.2");
  add_neighbour(2, "192.168.1.3");
  add_neighbour(3, "fe80::2");
  for (int i = 0; i < 100; ++i) punt_->arp(in_, arp("192.168.1.2", kOwn));
  EXPECT_EQ(punted().size(), 5U + 1U) << "further ones count as those of a stranger";
  punt_->arp(in_, arp("192.168.1.3", kOwn));
  EXPECT_EQ(punted().size(), 1U);
  for (int i = 0; i < 100; ++i) nd("fe80::2", 0x11);
  EXPECT_EQ(punted().size(), 5U + 1U);
}

TEST_F(PuntTest, P16_BroadcastsOfOneSenderAndOfAllAreLimited) {
  configs[0].punt.broadcast = 10;
  configs[0].punt.broadcast_per_source = 3;
  make();
  const auto broadcast = [&](std::uint8_t from) {
    rte_mbuf* const m = mbuf(ethernet(mac(0xa0), mac(from), 0x0800, Ip4{}.bytes()));
    rte_pktmbuf_adj(m, RTE_ETHER_HDR_LEN);
    punt_->broadcast(in_, m);
  };
  for (int i = 0; i < 10; ++i) broadcast(0x10);
  EXPECT_EQ(punted().size(), 3U);
  for (int i = 0; i < 10; ++i) broadcast(0x11);
  EXPECT_EQ(punted().size(), 2U) << "one interface may have half of all";
  EXPECT_EQ(lost(Drop::kPuntRateLimited), 15U);
  punt_->local(in_, mbuf(Ip4{}.bytes()));
  EXPECT_EQ(punted().size(), 1U) << "pings have a limit of their own";
  next_interval();
  broadcast(0x10);
  EXPECT_EQ(punted().size(), 1U);
}

/// Nodes that share an address take over from those that they do not hear.
TEST_F(PuntTest, P18_PingsKeepOutNoAdvertisementsOfVrrp) {
  configs[0].punt.stranger_per_source = 2;
  make();
  const auto advert = [&](std::uint8_t from) {
    const Ip4 packet{.dst = "224.0.0.18", .protocol = wire::IpProto{112}};
    rte_mbuf* const m = mbuf(ethernet(mac(0xa0), mac(from), 0x0800, packet.bytes()));
    rte_pktmbuf_adj(m, RTE_ETHER_HDR_LEN);
    punt_->local(in_, m, true);
  };
  for (int i = 0; i < 100; ++i) punt_->local(in_, mbuf(Ip4{}.bytes()), true);
  EXPECT_EQ(punted().size(), 5U);
  for (int i = 0; i < 10; ++i) advert(0x10);
  EXPECT_EQ(punted().size(), 2U) << "one sender has its share";
  advert(0x11);
  EXPECT_EQ(punted().size(), 1U);
}

TEST_F(PuntTest, P07_OneStrangerGetsItsShareOfArpAndNd) {
  configs[0].punt.stranger_per_source = 2;
  make();
  for (unsigned i = 0; i < 100; ++i) punt_->arp(in_, arp(fmt::format("192.168.3.{}", i), kOwn, 7));
  EXPECT_EQ(punted().size(), 2U);
  punt_->arp(in_, arp("192.168.3.200", kOwn, 8));
  EXPECT_EQ(punted().size(), 1U);
  nd("fe80::7", 7);
  EXPECT_EQ(punted().size(), 0U) << "ARP and ND share it";
  next_interval();
  nd("fe80::7", 7);
  EXPECT_EQ(punted().size(), 1U);
}

/// GIDs distinguish the ports of a link layer without LIDs.
TEST_F(PuntTest, P16_OnePortIsOneStrangerOnAnIpoibLink) {
  configs[0].punt.stranger_per_source = 2;
  configs[0].punt.arp = 100;
  make();
  const Ingress link{kIb0, counters_};
  std::uint32_t host = 0;
  const auto speak = [&](std::uint16_t slid, std::uint32_t qpn, std::uint64_t guid) {
    wire::Grh grh{};
    grh.sgid = wire::Gid::of(wire::kDefaultGidPrefix, guid);
    Bytes packet;
    append(packet, grh);
    const wire::LinkAddr from{0, wire::Be24{qpn}, grh.sgid};
    const auto record =
        wire::build_arp({wire::ArpOp::kRequest, wire::HwAddr{from}, addr("192.168.4.0") + ++host,
                         wire::HwAddr{wire::LinkAddr{}}, addr(kOwn)});
    packet.resize(packet.size() + sizeof(wire::IpoibHdr));
    packet.insert(packet.end(), record.begin(), record.end());
    rte_mbuf* const m = mbuf(packet);
    rte_pktmbuf_adj(m, sizeof(wire::Grh) + sizeof(wire::IpoibHdr));
    fabric::meta_of(m).rx = {.src_qpn = qpn,
                             .slid = slid,
                             .iface = kIb0,
                             .sl = 0,
                             .grh_offset = sizeof(wire::Grh),
                             .multicast = true,
                             .transport = fabric::Transport::kUd};
    punt_->arp(link, m);
  };
  for (int i = 0; i < 10; ++i) speak(0, 7, 1);
  EXPECT_EQ(punted().size(), 2U);
  for (int i = 0; i < 10; ++i) speak(0, 7, 2);
  EXPECT_EQ(punted().size(), 2U);
  for (int i = 0; i < 10; ++i) speak(5, 7, 2);
  EXPECT_EQ(punted().size(), 2U);
  for (int i = 0; i < 10; ++i) speak(6, 7, 2);
  EXPECT_EQ(punted().size(), 2U);
}

/// The sender of a scan is one, however many addresses it tries.
TEST_F(PuntTest, P07_OneSenderGetsItsShareOfUnresolvedNeighbours) {
  configs[0].punt.neighbour_senders = 4;
  make();
  for (std::uint32_t i = 0; i < 100; ++i) want_from("192.168.1.66", 0x66, i);
  EXPECT_EQ(punted().size(), 4U);
  want_from("192.168.1.67", 0x67, 200);
  EXPECT_EQ(punted().size(), 1U);
  EXPECT_EQ(lost(Drop::kPuntRateLimited), 96U);
}

/// Packets in the name of a host use up its share, which does not count on an idle interface.
TEST_F(PuntTest, P16_TheShareOfASenderCountsOnceHalfOfThatOfTheInterfaceIsUsed) {
  configs[0].punt.neighbour_senders = 16;
  make();
  for (std::uint32_t i = 0; i < 3; ++i) want_from("192.168.1.66", 0x66, i);
  EXPECT_EQ(punted().size(), 3U);
  for (std::uint32_t i = 3; i < 100; ++i) want_from("192.168.1.66", 0x66, i);
  EXPECT_EQ(punted().size(), 1U) << "half of eight";
  want_from("192.168.1.67", 0x67, 200);
  EXPECT_EQ(punted().size(), 1U);
}

/// All names that one host sends in have a quarter of the budget together.
TEST_F(PuntTest, P16_ForgedSourcesOfOneMacAddressLeaveRoomForOthers) {
  configs[0].punt.neighbour = 64;
  configs[0].punt.neighbour_senders = 16;
  configs[0].punt.neighbour_link_senders = 4;
  make();
  for (std::uint32_t i = 0; i < 100; ++i) want_from(fmt::format("192.168.1.{}", 100 + i), 0x66, i);
  EXPECT_EQ(punted().size(), 16U);
  want_from("192.168.1.67", 0x67, 200);
  EXPECT_EQ(punted().size(), 1U);
}

/// If MAC addresses are forged, too, hosts remain that this node knows at theirs.
TEST_F(PuntTest, P16_ForgedMacAddressesLeaveAQuarterToNeighbours) {
  configs[0].punt.neighbour = 64;
  configs[0].punt.neighbour_senders = 16;
  configs[0].punt.neighbour_link_senders = 4;
  make();
  know_at(0x09, "192.168.1.9");
  for (std::uint32_t i = 0; i < 100; ++i)
    want_from(fmt::format("192.168.1.{}", 100 + i), static_cast<std::uint8_t>(0x80 + i), i);
  EXPECT_EQ(punted().size(), 24U);
  want_from("192.168.1.9", 0x66, 200);
  EXPECT_EQ(punted().size(), 0U) << "in its name";
  want_from("192.168.1.9", 0x09, 201);
  EXPECT_EQ(punted().size(), 1U);
}

/// The octets in front of a copy are those of an earlier packet in its mbuf.
TEST_F(PuntTest, U03_CopiesHaveNoLinkSender) {
  know_at(0x09, "192.168.1.9");
  std::vector<std::uint32_t> senders;
  for (const std::uint8_t before : {std::uint8_t{0x09}, std::uint8_t{0x66}}) {
    for (const auto onward : {fabric::Onward::kOnInterface, fabric::Onward::kByRoute}) {
      want_from("192.168.1.9", before, static_cast<std::uint32_t>(senders.size()), onward);
      const Punted wanted = only_punted("");
      EXPECT_EQ(wanted.held.neighbour, onward == fabric::Onward::kByRoute && before == 0x09);
      EXPECT_EQ(wanted.held.onward, onward);
      senders.push_back(wanted.held.link_sender);
    }
  }
  EXPECT_EQ(senders[0], senders[2]) << "the IP sender's";
  EXPECT_NE(senders[1], senders[3]) << "that of the frame";
}

/// A storm on one interface takes half of a budget, and one on a second interface half of the rest.
TEST_F(PuntTest, P07_StormOnOneInterfaceLeavesRoomForOthers) {
  InterfaceCounters others;
  const Ingress other{kEth1, others};
  configs[0].punt.local = 64;
  make();
  for (int i = 0; i < 100; ++i) punt_->local(in_, mbuf(Ip4{}.bytes()));
  EXPECT_EQ(punted().size(), 32U);
  for (int i = 0; i < 100; ++i) punt_->local(other, mbuf(Ip4{}.bytes()));
  EXPECT_EQ(punted().size(), 16U);
  next_interval();
  punt_->local(in_, mbuf(Ip4{}.bytes()));
  EXPECT_EQ(punted().size(), 1U);
}

TEST_F(PuntTest, P07_WorkersDivideTheLimits) {
  configs[0].punt.local = 64;
  configs[0].workers = 4;
  make();
  for (int i = 0; i < 100; ++i) punt_->local(in_, mbuf(Ip4{}.bytes()));
  EXPECT_EQ(punted().size(), 64U / 4 / 2);
  configs[0].workers = 100;
  configs[0].punt.max_parts = 8;
  make();
  for (int i = 0; i < 100; ++i) punt_->local(in_, mbuf(Ip4{}.bytes()));
  EXPECT_EQ(punted().size(), 64U / 8 / 2);
}

/// Hosts of the LAN ask for each other. Only records that ask for an own address, claim one or come
/// from a neighbour say something that this node uses.
TEST_F(PuntTest, P16_ArpAmongOtherHostsIsNotPunted) {
  add_neighbour(1, "192.168.1.2");
  using wire::ArpOp;
  punt_->arp(in_, arp("192.168.1.9", "192.168.1.8", 0x10, ArpOp::kRequest));
  punt_->arp(in_, arp("192.168.1.9", "192.168.1.9", 0x10, ArpOp::kRequest));
  EXPECT_EQ(punted().size(), 0U);
  EXPECT_EQ(lost(Drop::kArpForOthers), 2U);
  punt_->arp(in_, arp("192.168.1.9", kOwn, 0x10, ArpOp::kRequest));
  punt_->arp(in_, arp(kOwn, "192.168.1.9", 0x10, ArpOp::kRequest));
  punt_->arp(in_, arp("192.168.1.2", "192.168.1.8", 0x10, ArpOp::kRequest));
  EXPECT_EQ(punted().size(), 3U);
  for (const ArpOp op : {ArpOp::kRarpRequest, ArpOp::kRarpReply})
    punt_->arp(in_, arp("0.0.0.0", "0.0.0.0", 0x10, op));
  EXPECT_EQ(punted().size(), 2U) << "RARP";
  EXPECT_EQ(lost(Drop::kArpForOthers), 2U);
}

/// Other interfaces share the subnet, so hosts look for each other through this node.
TEST_F(PuntTest, P24_ArpAmongOtherHostsIsPuntedOnSharedSubnets) {
  entries[kEth0].proxy = true;
  without_limits();
  using wire::ArpOp;
  punt_->arp(in_, arp("192.168.1.9", "192.168.1.8", 0x10, ArpOp::kRequest));
  punt_->arp(in_, arp("192.168.1.9", "192.168.1.9", 0x10, ArpOp::kRequest));
  EXPECT_EQ(punted().size(), 2U);
  configs[0].punt.known_per_key = 8;
  make();
  for (int i = 0; i < 100; ++i)
    punt_->arp(in_, arp("192.168.1.9", fmt::format("192.168.1.{}", 10 + i), 0x10, ArpOp::kRequest));
  EXPECT_EQ(punted().size(), 4U) << "one sender asks for a few";
  EXPECT_EQ(lost(Drop::kArpForOthers), 96U);
}

/// A router whose hosts are scanned asks for many others. It still reaches this node, and a host to which
/// many addresses move at once is heard.
TEST_F(PuntTest, P16_RequestsForOthersLeaveRoomForThoseForThisNode) {
  know_at(0x22, "192.168.1.2");
  for (int i = 0; i < 1000; ++i)
    punt_->arp(in_, arp("192.168.1.2", fmt::format("192.168.1.{}", 10 + i % 100), 0x22));
  const auto heard = punted().size();
  EXPECT_GT(heard, 0U) << "it may have moved";
  EXPECT_LT(heard, configs[0].punt.known_per_key);
  EXPECT_EQ(lost(Drop::kArpForOthers), 1000U - heard);
  punt_->arp(in_, arp("192.168.1.2", kOwn, 0x22));
  EXPECT_EQ(punted().size(), 1U);
  for (table::NeighbourIndex i = 0; i < 32; ++i) {
    const std::string moved = fmt::format("192.168.1.{}", 100 + i);
    add_neighbour(2 + i, moved);
    punt_->arp(in_, arp(moved, moved, 0x22));
  }
  EXPECT_EQ(punted().size(), 32U);
}

/// Packets in the name of a neighbour, from another host, neither use up its share nor count as its.
TEST_F(PuntTest, P16_ForgedArpDoesNotSilenceItsNeighbour) {
  configs[0].punt.known_per_key = 2;
  configs[0].punt.arp = 2;
  make();
  know_at(0x22, "192.168.1.2");
  for (int i = 0; i < 100; ++i) punt_->arp(in_, arp("192.168.1.2", kOwn, 0x66));
  EXPECT_EQ(punted().size(), 1U) << "as one of a stranger: it may have moved";
  punt_->arp(in_, arp("192.168.1.2", kOwn, 0x22));
  EXPECT_EQ(punted().size(), 1U);
  // Neighbours that are asked for may answer from anywhere, and share what each sender has.
  add_neighbour(2, "192.168.1.3");
  for (int i = 0; i < 100; ++i) punt_->arp(in_, arp("192.168.1.3", kOwn, 0x66));
  EXPECT_EQ(punted().size(), 2U);
  punt_->arp(in_, arp("192.168.1.3", kOwn, 0x33));
  EXPECT_EQ(punted().size(), 1U);
}

/// A host that speaks in the names of all neighbours has one share. They may answer from anywhere
/// while they are asked for.
TEST_F(PuntTest, P16_OneSenderDoesNotUseUpTheShareOfAllNeighbours) {
  configs[0].punt.known_per_source = 3;
  configs[0].punt.known_arp = configs[0].punt.known_nd = 24;
  configs[0].punt.stranger_per_source = 1;
  make();
  for (table::NeighbourIndex i = 0; i < 32; ++i) {
    add_neighbour(2 * i, fmt::format("192.168.1.{}", 100 + i));
    add_neighbour(2 * i + 1, fmt::format("fe80::{}", 100 + i));
  }
  for (int i = 0; i < 32; ++i)
    punt_->arp(in_, arp(fmt::format("192.168.1.{}", 100 + i), kOwn, 0x66));
  EXPECT_EQ(punted().size(), 3U + 1U) << "further ones count as those of a stranger";
  for (int i = 0; i < 32; ++i) nd(fmt::format("fe80::{}", 100 + i), 0x66);
  EXPECT_EQ(punted().size(), 0U) << "ARP and ND share it";
  punt_->arp(in_, arp("192.168.1.107", kOwn, 0x33));
  nd("fe80::107", 0x33);
  EXPECT_EQ(punted().size(), 2U);
  next_interval();
  punt_->arp(in_, arp("192.168.1.100", kOwn, 0x66));
  EXPECT_EQ(punted().size(), 1U);
}

/// Path MTU discovery works while pings fill their part of the ring.
TEST_F(PuntTest, P16_PingsLeaveRoomForPathMtuDiscovery) {
  without_limits();
  const unsigned room = rte_ring_free_count(up[0]);
  for (unsigned i = 0; i < room; ++i) punt_->local(in_, mbuf(Ip4{}.bytes()));
  const auto send = [&](Drop reason, const wire::IcmpError& error) {
    const unsigned before = rte_ring_free_count(up[0]);
    for (unsigned i = 0; i < room; ++i) punt_->icmp_error(in_, mbuf(Ip6{}.bytes()), reason, error);
    return before - rte_ring_free_count(up[0]);
  };
  EXPECT_EQ(send(Drop::kIpTtlExceeded, wire::kTtlExceeded), 0U);
  EXPECT_NEAR(send(Drop::kIpTooBig, wire::packet_too_big(1500)), room / 4, 1);
}

/// Path MTU discovery works during a flood of expired packets.
TEST_F(PuntTest, P05_OtherErrorsLeaveTheBudgetOfTooBig) {
  configs[0].punt.too_big = 4;
  make();
  for (int i = 0; i < 100; ++i)
    punt_->icmp_error(in_, mbuf(Ip4{}.bytes()), Drop::kIpTtlExceeded, wire::kTtlExceeded);
  EXPECT_EQ(punted().size(), 2U);
  for (int i = 0; i < 100; ++i)
    punt_->icmp_error(in_, mbuf(Ip6{}.bytes()), Drop::kIpTooBig, wire::packet_too_big(1500));
  EXPECT_EQ(punted().size(), 2U);
}

TEST_F(PuntTest, P07_RingsOnlyWhenManagementSleeps) {
  const auto rung = [this] {
    std::uint64_t n = 0;
    return read(doorbell.eventfd, &n, sizeof(n)) == sizeof(n) ? n : 0;
  };
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "nothing went up";

  punt_->arp(in_, arp("192.168.1.9", kOwn));
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "management is awake";

  doorbell.waiting = 1;
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "nothing new since";

  punt_->arp(in_, arp("192.168.1.9", kOwn));
  punt_->arp(in_, arp("192.168.1.9", kOwn));
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 1U) << "once for both";
  EXPECT_EQ(doorbell.waiting, 0U);
  punt_->arp(in_, arp("192.168.1.9", kOwn));
  punt_->ring_doorbell();
  EXPECT_EQ(rung(), 0U) << "it has been woken already";
}

/// Many packets go to addresses without a host, beside an established flow, which loses none.
TEST_F(PuntTest, P07_StormLeavesEstablishedFlowsAlone) {
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 1));
  loop();
  links[0].room = 2'000;
  std::size_t flow = 0, gone_up = 0;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    Bytes storm = Ip4{.dst = "10.0.128.0"}.bytes();
    wire::Ipv4Hdr hdr = *wire::read<wire::Ipv4Hdr>(storm);
    hdr.dst.set(hdr.dst.host() + i);
    set_ip4_checksum(hdr, sizeof(hdr));
    std::memcpy(storm.data(), &hdr, sizeof(hdr));
    receive(kEth0, to_eth0(storm));
    if (i % 10 == 0) receive(kEth0, to_eth0(Ip4{}.bytes()));
    if (i % 20 != 19) continue;
    loop();
    flow += sent_by_link(kIb0).size();
    gone_up += punted().size();
  }
  EXPECT_EQ(flow, 2'000U);
  EXPECT_EQ(gone_up + all_drops(), 20'000U);
  EXPECT_GT(drops(kEth0, Drop::kPuntRateLimited), 10'000U);
}

}  // namespace
}  // namespace ipoib::fwd::test
