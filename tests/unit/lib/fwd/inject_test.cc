// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/inject.h"

#include <gtest/gtest.h>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using msg::Down;

class Inject : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
  }
  void send_raw(table::InterfaceId iface, const Bytes& frame, fabric::PacketMeta::Tx to = {}) {
    Down message{};
    message.kind = Down::Kind::kSendRaw;
    message.iface = iface;
    message.mbuf = mbuf(frame);
    fabric::meta_of(message.mbuf).tx = to;
    send_down(message);
  }
};

TEST_F(Inject, RoutesPacketsWithTheirTtlAsItIs) {
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
  const Ip4 packet{.src = "10.0.0.1", .ttl = 1};
  send_routed(packet.bytes());
  loop();
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes, to_link(packet.bytes()));
  EXPECT_EQ(sent.to.ah, 7U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Inject, MessagesTakeEffectInOrder) {
  const auto neighbour = [](fabric::AhIndex ah) { return ib_neighbour(kIb0, "10.0.0.2", ah, 1); };
  Down remove{};
  remove.kind = Down::Kind::kNeighbourRemove;
  remove.index = 0;
  // Management sends held packets directly after the entry that they waited for.
  set_neighbour(0, neighbour(1));
  send_routed(Ip4{.id = 1}.bytes());
  send_routed(Ip4{.id = 2}.bytes());
  set_neighbour(0, neighbour(2));
  send_routed(Ip4{.id = 3}.bytes());
  send_down(remove);
  send_routed(Ip4{.id = 4}.bytes());
  loop();
  const auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].bytes, to_link(Ip4{.id = 1}.bytes()));
  EXPECT_EQ(sent[0].to.ah, 1U);
  EXPECT_EQ(sent[1].to.ah, 1U);
  EXPECT_EQ(sent[2].to.ah, 2U);
  EXPECT_EQ(only_punted().bytes, Ip4{.id = 4}.bytes()) << "wanted again, its TTL as it was";
}

TEST_F(Inject, LossesCountWhereThePacketCameFrom) {
  send_routed(Ip4{.dst = "172.16.0.1"}.bytes());
  send_routed(Ip4{.dst = "172.16.0.1"}.bytes(), kEth1);
  send_routed(Bytes(19), kEth1);
  send_routed({});
  loop();
  EXPECT_EQ(drops(table::kNoInterface, Drop::kIpNoRoute), 1U);
  EXPECT_EQ(drops(kEth1, Drop::kIpNoRoute), 1U);
  EXPECT_EQ(drops(kEth1, Drop::kIpRunt), 1U);
  EXPECT_EQ(drops(table::kNoInterface, Drop::kIpRunt), 1U);
  EXPECT_EQ(all_drops(), 4U);
  EXPECT_EQ(only_punted("nobody is told of what this node itself sent").message.iface, kEth1)
      << "so that the error can be sent from there";
}

/// ICMP errors about a packet that waited for its neighbour go to the sender of the packet.
TEST_F(Inject, HeldPacketsKeepWhereTheyCameFrom) {
  auto neighbour = ib_neighbour(kIb0, "10.0.0.2", 7, 1);
  neighbour.mtu = 1280;
  set_neighbour(0, neighbour);
  auto neighbour6 = ib_neighbour(kIb0, "fd00:a::2", 7, 1);
  neighbour6.mtu = 1280;
  set_neighbour(1, neighbour6);
  const Ip4 whole{.payload_len = 1400, .flags_offset = wire::Ipv4Hdr::kDontFragment};
  const Ip6 whole6{.body = Bytes(1400)};
  send_routed(whole.bytes(), kEth0);
  send_routed(whole6.bytes(), kEth0);
  loop();
  EXPECT_EQ(drops(kEth0, Drop::kIpTooBig), 2U) << "under the interface it came by";
  EXPECT_EQ(all_drops(), 2U);
  const auto told = punted();
  ASSERT_EQ(told.size(), 2U);
  for (const Punted& p : told) {
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kIcmpError);
    EXPECT_EQ(p.message.iface, kEth0);
    EXPECT_EQ(p.message.mtu, 1280);
  }
  EXPECT_EQ(std::pair(told[0].message.icmp_type, told[0].message.icmp_code),
            std::pair(std::uint8_t{3}, std::uint8_t{4}));
  EXPECT_EQ(told[0].bytes, whole.bytes());
  EXPECT_EQ(told[1].message.icmp_type, 2);
}

/// Packets to a group or a link-local address, for which no route is looked up, keep it as well.
TEST_F(Inject, HeldPacketsOfALinkKeepWhereTheyCameFrom) {
  entries[kIb0].up = false;
  for (const auto in : {table::InterfaceId{kEth1}, table::kNoInterface}) {
    for (const auto kind : {Down::Kind::kSendOnInterface, Down::Kind::kSendToRouters}) {
      Down message{};
      message.kind = kind;
      message.iface = kIb0;
      message.in = in;
      message.mbuf = mbuf(Ip4{.dst = "239.1.2.3"}.bytes());
      send_down(message);
    }
  }
  loop();
  EXPECT_EQ(drops(kEth1, Drop::kLinkDown), 2U);
  EXPECT_EQ(drops(table::kNoInterface, Drop::kLinkDown), 2U);
  EXPECT_EQ(all_drops(), 4U);
}

TEST_F(Inject, SendsRawAsItIsEvenWhenDown) {
  entries[kIb0].up = false;
  entries[kEth0].up = false;
  settings.forwarding = false;
  const Bytes arp = encapsulated(0x0806, Bytes(56));
  send_raw(kIb0, arp, {.ah = 5, .qpn = 0xffffff, .iface = kIb0, .connected = false});
  const Bytes frame = ethernet(kBroadcastMac, mac(0xa0), 0x0806, Bytes(28));
  send_raw(kEth0, frame);
  loop();
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes, arp);
  EXPECT_EQ(sent.to.ah, 5U);
  EXPECT_EQ(sent.to.qpn, 0xffffffU);
  EXPECT_EQ(sent_by_port(kEth0), Frames{frame});
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), 56U);
  EXPECT_EQ(worker().counters(kEth0).tx_bytes.get(), 28U);
}

TEST_F(Inject, BadMessagesChangeNothing) {
  const auto good = ib_neighbour(kIb0, "10.0.0.2", 7, 1);
  auto bad = good;
  bad.iface = 4;
  set_neighbour(0, bad);
  bad = good;
  bad.mode = table::NeighbourMode::kEthernet;
  set_neighbour(0, bad);
  bad.mode = table::NeighbourMode::kRc;
  set_neighbour(0, bad);
  bad = eth_neighbour(kEth0, "192.168.1.10", mac(1));
  bad.mode = table::NeighbourMode::kUd;
  set_neighbour(0, bad);
  bad = good;
  bad.state = table::NeighbourState::kFree;
  set_neighbour(0, bad);
  set_neighbour(1024, good);
  Down remove{};
  remove.kind = Down::Kind::kNeighbourRemove;
  remove.index = 0;
  send_down(remove);
  send_raw(4, Bytes(20));
  send_raw(table::kNoInterface, Bytes(20));
  loop();
  EXPECT_EQ(worker().stats().bad_messages.get(), 9U);
  EXPECT_EQ(drops(table::kNoInterface, Drop::kIbTxInvalid), 2U);
  EXPECT_EQ(all_drops(), 2U);
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(punted().size(), 1U) << "10.0.0.2 is still unknown";
}

TEST_F(Inject, MoreThanALoopTakesWaitsForTheNext) {
  set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 1));
  for (int i = 0; i < 100; ++i) send_routed(Ip4{}.bytes());
  EXPECT_EQ(worker().iterate(), 32U);
  EXPECT_EQ(sent_by_link(kIb0).size(), 31U);
  for (int i = 0; i < 3; ++i) loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 69U);
}

}  // namespace
}  // namespace ipoib::fwd::test
