// SPDX-License-Identifier: BSD-3-Clause
// Neighbours that are reached through a connection, beside those reached through UD.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tests/support/fake_connected_queues.h"
#include "tests/support/mbufs.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using table::NeighbourMode;

class ConnectedTest : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    connect(kIb0, received);
  }
  void TearDown() override {
    for (rte_mbuf* m : received.incoming) rte_pktmbuf_free(m);
    WorkerFixture::TearDown();
  }
  void start_with_neighbours() {
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(2, connected("10.0.0.2", queues[0]));
    set_neighbour(3, connected("10.0.0.3", queues[1]));
    set_neighbour(4, ib_neighbour(kIb0, "10.0.0.4", 7, 0xabcdef));
    loop();
  }
  table::Neighbour connected(std::string_view addr, FakeConnectedQueue& queue) const {
    table::Neighbour n = ib_neighbour(kIb0, addr, 7, 0xabcdef);
    n.mode = NeighbourMode::kRc;
    n.mtu = 65'520;
    n.queue = const_cast<FakeConnectedQueue*>(&queue);
    n.worker = entries[kIb0].owner;
    return n;
  }
  void arrive(const Bytes& message) {
    rte_mbuf* m = mbuf(message);
    fabric::meta_of(m).rx = {};
    fabric::meta_of(m).rx.transport = fabric::Transport::kRc;
    received.incoming.push_back(m);
  }
  /// Receives a long packet to a host of the link, in segments of 1,500 octets.
  void receive_long(std::string_view dst, std::size_t octets) {
    const Bytes frame = to_eth0(Ip4{.dst = dst, .payload_len = octets - 20}.bytes());
    std::vector<std::size_t> segments(frame.size() / 1500, 1500);
    segments.push_back(frame.size() % 1500);
    receive(kEth0, mbuf(frame, segments));
  }

  FakeReceiveQueue received;
  mutable std::array<FakeConnectedQueue, 2> queues{FakeConnectedQueue{0x101},
                                                   FakeConnectedQueue{0x102}};
};

TEST_F(ConnectedTest, PacketsOfAPeerInARowAreOneBurst) {
  start_with_neighbours();
  for (const char* dst : {"10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.3", "10.0.0.2"})
    receive(kEth0, to_eth0(Ip4{.dst = dst}.bytes()));
  loop();
  EXPECT_EQ(queues[0].bursts, (std::vector<std::uint16_t>{2, 1}));
  EXPECT_EQ(queues[1].bursts, (std::vector<std::uint16_t>{2}));
  ASSERT_EQ(queues[0].sent.size(), 3U);
  EXPECT_EQ(queues[0].sent[0], to_link(forwarded(Ip4{.dst = "10.0.0.2"})));
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U) << "who has no connection is sent to by UD";
  EXPECT_EQ(worker().counters(kIb0).tx_packets.get(), 6U);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), 6 * Ip4{}.bytes().size());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ConnectedTest, WhatAQueueTakesAndLosesIsNotCountedAsSent) {
  start_with_neighbours();
  queues[0].longest = 1000;
  for (const std::size_t payload : std::initializer_list<std::size_t>{100, 1200, 200})
    receive(kEth0, to_eth0(Ip4{.dst = "10.0.0.2", .payload_len = payload}.bytes()));
  loop();
  EXPECT_EQ(queues[0].sent.size(), 2U);
  EXPECT_EQ(worker().counters(kIb0).tx_packets.get(), 2U);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), 2 * 20U + 100 + 200);
  EXPECT_EQ(all_drops(), 0U) << "the device counts them";
}

// The MTU of the connection counts, not that of the link.
TEST_F(ConnectedTest, U15_Ipv6NeedsAConnectionWithAnMtuOf1280) {
  entries[kIb0].mtu = 1279;
  start_with_neighbours();
  table::Neighbour wide = connected("10.0.0.2", queues[0]),
                   narrow = connected("10.0.0.3", queues[1]);
  wide.addr = *wire::parse_ip("fd00:a::2");
  wide.mtu = 1600;
  narrow.addr = *wire::parse_ip("fd00:a::3");
  narrow.mtu = 1279;
  set_neighbour(12, wide);
  set_neighbour(13, narrow);
  loop();
  const auto frame = [](std::string_view dst, std::size_t body) {
    return ethernet(mac(0xa0), mac(0x10), 0x86dd, Ip6{.dst = dst, .body = Bytes(body)}.bytes());
  };
  for (const std::size_t body : {100U, 1560U, 1561U}) receive(kEth0, frame("fd00:a::2", body));
  receive(kEth0, frame("fd00:a::3", 100));
  loop();
  EXPECT_EQ(queues[0].sent.size(), 2U);
  EXPECT_EQ(only_punted().message.mtu, 1600);
  EXPECT_EQ(drops(kEth0, Drop::kIpTooBig), 1U);
  EXPECT_EQ(queues[1].sent.size(), 0U);
  EXPECT_EQ(drops(kEth0, Drop::kIp6LinkMtu), 1U);
}

// A full batch of kMaxBurst packets is sent at once, before Tx::flush().
TEST_F(ConnectedTest, ManyPacketsKeepTheirOrder) {
  start_with_neighbours();
  settings.burst = kMaxBurst;
  for (std::uint16_t id = 0; id < 3 * kMaxBurst; ++id)
    receive(kEth0, to_eth0(Ip4{.dst = "10.0.0.2", .id = id}.bytes()));
  for (int i = 0; i < 3; ++i) loop();
  ASSERT_EQ(queues[0].sent.size(), 3U * kMaxBurst);
  for (std::uint16_t id = 0; id < 3 * kMaxBurst; ++id)
    EXPECT_EQ(queues[0].sent[id], to_link(forwarded(Ip4{.dst = "10.0.0.2", .id = id})));
}

TEST_F(ConnectedTest, FullQueueIsCountedAndFreed) {
  start_with_neighbours();
  queues[0].room = 3;
  for (int i = 0; i < 10; ++i) receive(kEth0, to_eth0(Ip4{.dst = "10.0.0.2"}.bytes()));
  feed(kEth0, to_eth0(Ip4{.dst = "10.0.0.3"}.bytes()));
  EXPECT_EQ(queues[0].sent.size(), 3U);
  EXPECT_EQ(queues[1].sent.size(), 1U) << "one full queue holds up no other";
  EXPECT_EQ(drops(kIb0, Drop::kIbTxFull), 7U);
  EXPECT_EQ(all_drops(), 7U);
  EXPECT_EQ(worker().counters(kIb0).tx_packets.get(), 4U);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), 4 * Ip4{}.bytes().size());
}

TEST_F(ConnectedTest, C09_M08_TheMtuIsThatOfTheDestination) {
  start_with_neighbours();
  receive_long("10.0.0.2", 9000);
  receive_long("10.0.0.4", 9000);
  loop();
  ASSERT_EQ(queues[0].sent.size(), 1U);
  EXPECT_EQ(queues[0].sent[0].size(), 9000U + sizeof(wire::IpoibHdr));
  // Packets to the neighbour without a connection may be fragmented, and go through UD: 9,000
  // octets in fragments of at most 2,044.
  const auto fragments = sent_by_link(kIb0);
  ASSERT_EQ(fragments.size(), 5U);
  EXPECT_EQ(fragments[0].bytes.size(), 2044U + sizeof(wire::IpoibHdr));
  EXPECT_EQ(all_drops(), 0U);

  const Bytes whole =
      to_eth0(Ip4{.dst = "10.0.0.4", .payload_len = 2100, .flags_offset = 0x4000}.bytes());
  feed(kEth0, mbuf(whole, {1500, whole.size() - 1500}));
  const Punted p = only_punted();
  EXPECT_EQ(p.message.kind, msg::Up::Kind::kIcmpError);
  EXPECT_EQ(p.message.mtu, 2044);
  expect_drop(kEth0, Drop::kIpTooBig);
}

TEST_F(ConnectedTest, C10_PacketsAreTakenByEveryModeAtAnyTime) {
  start_with_neighbours();
  const Ip4 packet{.src = "10.0.0.2", .dst = "192.168.1.10"};
  arrive(to_link(packet.bytes()));
  receive(kIb0, to_link(packet.bytes()));
  arrive(encapsulated(0x0806, Bytes(28)));
  loop();
  EXPECT_EQ(sent_by_port(kEth0).size(), 2U);
  EXPECT_EQ(worker().counters(kIb0).rx_packets.get(), 3U);
  EXPECT_EQ(only_punted().message.kind, msg::Up::Kind::kArp);
  EXPECT_EQ(all_drops(), 0U);
}

// Packets that management itself sends, such as ARP and ND.
TEST_F(ConnectedTest, C10_OwnMessagesGoByUd) {
  start_with_neighbours();
  msg::Down message{};
  message.kind = msg::Down::Kind::kSendRaw;
  message.iface = kIb0;
  message.mbuf = mbuf(encapsulated(0x0806, Bytes(28)));
  fabric::meta_of(message.mbuf).tx = {.ah = 9, .qpn = 0xffffff, .iface = 0, .connected = false};
  send_down(message);
  loop();
  ASSERT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_TRUE(queues[0].sent.empty());
}

/// IPv6 and neighbour discovery arrive by the connection as by UD. Packets leave by it, and this node's
/// own neighbour discovery by UD.
TEST_F(ConnectedTest, C10_Ip6AndNeighbourDiscoveryAreTakenByEveryMode) {
  start_with_neighbours();
  set_neighbour(5, eth_neighbour(kEth0, "fd00:1::10", mac(0x10)));
  set_neighbour(6, connected("fd00:a::2", queues[0]));
  set_delivery(kIb0, "fe80::b0", true, 0);
  loop();
  const Ip6 in{.src = "fd00:a::2", .dst = "fd00:1::10"};
  arrive(encapsulated(0x86dd, in.bytes()));
  receive(kIb0, encapsulated(0x86dd, in.bytes()));
  const Ip6 out{};
  receive(kEth0, to_eth0_6(out.bytes()));
  loop();
  const Bytes frame = ethernet(mac(0x10), mac(0xa0), 0x86dd, forwarded(in));
  EXPECT_EQ(sent_by_port(kEth0), (Frames{frame, frame}));
  ASSERT_EQ(queues[0].sent.size(), 1U);
  EXPECT_TRUE(sent_by_link(kIb0).empty());

  for (const std::uint8_t type : std::initializer_list<std::uint8_t>{135, 136}) {
    const Ip6 nd{.src = "fe80::2",
                 .dst = "fe80::b0",
                 .hop_limit = 255,
                 .body = icmp6(type, 40),
                 .next_header = 58};
    arrive(encapsulated(0x86dd, nd.bytes()));
    loop();
    const Punted p = only_punted();
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kNd);
    EXPECT_EQ(p.bytes, nd.bytes());
  }
  msg::Down own{};
  own.kind = msg::Down::Kind::kSendRaw;
  own.iface = kIb0;
  own.mbuf = mbuf(encapsulated(0x86dd, Bytes(72)));
  fabric::meta_of(own.mbuf).tx = {.ah = 9, .qpn = 0xffffff, .iface = 0, .connected = false};
  send_down(own);
  loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
  EXPECT_EQ(queues[0].sent.size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

/// A link in connected mode broadcasts by UD, so that directed broadcasts have the MTU of datagrams.
TEST_F(ConnectedTest, U03_C10_DirectedBroadcastsGoByUd) {
  start_with_neighbours();
  entries[kIb0].directed_broadcast = DirectedBroadcast::kSubnet;
  set_neighbour(9, ib_neighbour(kIb0, "10.0.255.255", 3, 0xff'ffff));
  loop();
  receive_long("10.0.255.255", 2044);
  loop();
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes.size(), 2044U + sizeof(wire::IpoibHdr));
  EXPECT_EQ(sent.to.qpn, 0xff'ffffU);
  receive_long("10.0.255.255", 8000);
  loop();
  const auto fragments = sent_by_link(kIb0);
  EXPECT_EQ(fragments.size(), 4U);
  for (const auto& fragment : fragments) {
    EXPECT_LE(fragment.bytes.size(), 2044U + sizeof(wire::IpoibHdr));
    EXPECT_EQ(fragment.to.qpn, 0xff'ffffU);
  }
  EXPECT_TRUE(queues[0].sent.empty());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ConnectedTest, EntriesThatCannotBeAreRefused) {
  start();
  table::Neighbour on_ud = ib_neighbour(kIb0, "10.0.0.9", 7, 1);
  on_ud.queue = &queues[0];
  table::Neighbour none = connected("10.0.0.9", queues[0]);
  none.queue = nullptr;
  table::Neighbour elsewhere = connected("10.1.0.9", queues[0]);
  elsewhere.iface = kIb1;  // ib1 has no receive queue for connections.
  table::Neighbour ethernet = eth_neighbour(kEth0, "192.168.1.9", mac(1));
  ethernet.queue = &queues[0];
  for (const table::Neighbour& n : {on_ud, none, elsewhere, ethernet}) set_neighbour(9, n);
  loop();
  EXPECT_EQ(worker().stats().bad_messages.get(), 4U);
  EXPECT_EQ(worker().applied(), 4U) << "they are done with all the same";
}

class ConnectedHandoff : public ConnectedTest {
 protected:
  void SetUp() override {
    ConnectedTest::SetUp();
    configs.resize(2);
    for (const auto iface : {kEth0, kEth1}) entries[iface].owner = 0;
    for (const auto iface : {kIb0, kIb1}) entries[iface].owner = 1;
    start_with_neighbours();
  }
  void feed(std::size_t octets = 100) {
    receive_long("10.0.0.2", octets);
    worker(0).iterate();
  }
  void change(const table::Neighbour& n) {
    msg::Down message{};
    message.kind = msg::Down::Kind::kNeighbourSet;
    message.index = 2;
    message.neighbour = n;
    send_down(message, 1);
  }
};

TEST_F(ConnectedHandoff, TheOwnerOfTheLinkSendsByItsConnection) {
  feed();
  EXPECT_TRUE(queues[0].sent.empty()) << "not by worker 0";
  change(connected("10.0.0.2", queues[1]));
  worker(1).iterate();
  EXPECT_TRUE(queues[0].sent.empty()) << "which is gone meanwhile";
  EXPECT_EQ(queues[1].sent.size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ConnectedHandoff, WithoutItsConnectionByUd) {
  feed();
  change(ib_neighbour(kIb0, "10.0.0.2", 8, 0x77));
  worker(1).iterate();
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.to.ah, 8U);
  EXPECT_EQ(sent.to.qpn, 0x77U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ConnectedHandoff, TooLongForUdMeanwhile) {
  feed(9000);
  change(ib_neighbour(kIb0, "10.0.0.2", 8, 0x77));
  worker(1).iterate();
  EXPECT_TRUE(sent_by_link(kIb0).empty());
  expect_drop(kIb0, Drop::kIpTooBig);
}

TEST_F(ConnectedHandoff, NeighbourGoneMeanwhile) {
  feed();
  msg::Down remove{};
  remove.kind = msg::Down::Kind::kNeighbourRemove;
  remove.index = 2;
  send_down(remove, 1);
  worker(1).iterate();
  expect_drop(kIb0, Drop::kNeighbourGone);
}

// Worker 0 sends datagrams on the link by its own queue, while worker 1 has the connections.
class ConnectedHandoffOfAWorkerWithAQueue : public ConnectedTest {
 protected:
  void SetUp() override {
    ConnectedTest::SetUp();
    configs.resize(2);
    for (const auto iface : {kEth0, kEth1}) entries[iface].owner = 0;
    for (const auto iface : {kIb0, kIb1}) entries[iface].owner = 1;
    configs[0].queues = queues_of_owner(entries, 0);
    configs[0].queues[kIb0].ud = &own;
    entries[kIb0].ud_queues = both;
    start_with_neighbours();
  }
  FakeUdQueue own{FakeUdQueue::Takes::kFrames};
  std::array<fabric::UdQueue*, 2> both{&links[0], &own};
};

TEST_F(ConnectedHandoffOfAWorkerWithAQueue, P14_PacketsOfConnectionsGoToTheirWorker) {
  set_neighbour(9, ib_neighbour(kIb0, "10.0.0.9", 8, 0x77));
  loop();
  // Both are in one burst, by turns.
  for (int i = 0; i < 2; ++i) {
    receive_long("10.0.0.9", 100);
    receive_long("10.0.0.2", 100);
  }
  worker(0).iterate();
  EXPECT_EQ(own.sent.size(), 2U);
  for (rte_mbuf* m : std::exchange(own.sent, {})) rte_pktmbuf_free(m);
  EXPECT_TRUE(queues[0].sent.empty());
  EXPECT_EQ(worker(1).iterate(), 2U);
  EXPECT_EQ(queues[0].sent.size(), 2U);
  EXPECT_EQ(all_drops(), 0U);
}

// Worker 0 has the connection with 10.0.0.2, worker 1 that with 10.0.0.3. Worker 0 owns the ports.
class ConnectionsOfTwoWorkers : public ConnectedTest {
 protected:
  void SetUp() override {
    ConnectedTest::SetUp();
    configs.resize(2);
    for (const auto iface : {kEth0, kEth1, kIb0, kIb1}) entries[iface].owner = 0;
    entries[kIb0].ud_queues = both;
    for (unsigned i : {0U, 1U}) configs[i].queues = queues_of_owner(entries, i);
    configs[0].queues[kIb0].receive = &received;
    configs[1].queues[kIb0].ud = &own;
    configs[1].queues[kIb0].receive = &received_by_1;
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(2, connected("10.0.0.2", queues[0]));
    set_neighbour(3, of_worker_1());
    loop();
  }
  table::Neighbour of_worker_1() const {
    table::Neighbour n = connected("10.0.0.3", queues[1]);
    n.worker = 1;
    return n;
  }
  void TearDown() override {
    for (rte_mbuf* m : received_by_1.incoming) rte_pktmbuf_free(m);
    ConnectedTest::TearDown();
  }
  FakeUdQueue own{FakeUdQueue::Takes::kFrames};
  std::array<fabric::UdQueue*, 2> both{&links[0], &own};
  FakeReceiveQueue received_by_1;
};

TEST_F(ConnectionsOfTwoWorkers, P14_PacketsLeaveByTheWorkerOfTheirConnection) {
  // One burst, in which they take turns.
  for (int i = 0; i < 3; ++i) {
    receive_long("10.0.0.2", 3000);
    receive_long("10.0.0.3", 3000);
  }
  worker(0).iterate();
  EXPECT_EQ(queues[0].sent.size(), 3U);
  EXPECT_TRUE(queues[1].sent.empty());
  EXPECT_EQ(worker(1).iterate(), 3U);
  EXPECT_EQ(queues[1].sent.size(), 3U);
  EXPECT_EQ(worker(0).counters(kIb0).tx_packets.get(), 3U);
  EXPECT_EQ(worker(1).counters(kIb0).tx_packets.get(), 3U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ConnectionsOfTwoWorkers, P14_EachReceivesTheMessagesOfItsConnections) {
  const auto message = [this] {
    rte_mbuf* m =
        mbuf(to_link(Ip4{.src = "10.0.0.3", .dst = "10.0.0.2", .payload_len = 100}.bytes()));
    fabric::meta_of(m).rx = {};
    fabric::meta_of(m).rx.transport = fabric::Transport::kRc;
    return m;
  };
  received_by_1.incoming.push_back(message());
  worker(0).iterate();
  EXPECT_EQ(received_by_1.incoming.size(), 1U);
  EXPECT_EQ(worker(1).iterate(), 1U);
  EXPECT_TRUE(queues[0].sent.empty()) << "worker 1 hands it to worker 0";
  worker(0).iterate();
  EXPECT_EQ(queues[0].sent.size(), 1U);
  EXPECT_EQ(worker(1).counters(kIb0).rx_packets.get(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

// The connection is another worker's when the packet arrives there.
TEST_F(ConnectionsOfTwoWorkers, P14_ConnectionThatChangesItsWorkerMeanwhile) {
  receive_long("10.0.0.3", 3000);
  worker(0).iterate();
  set_neighbour(3, connected("10.0.0.3", queues[1]));
  worker(1).iterate();
  EXPECT_TRUE(queues[1].sent.empty());
  worker(0).iterate();
  EXPECT_EQ(queues[1].sent.size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(ConnectionsOfTwoWorkers, P14_ConnectionOfAnUnknownWorkerIsRefused) {
  table::Neighbour n = of_worker_1();
  n.worker = 2;
  set_neighbour(3, n);
  loop();
  for (unsigned i : {0U, 1U}) EXPECT_EQ(worker(i).stats().bad_messages.get(), 1U) << i;
}

// Management may destroy a queue after all workers have applied its replacement. A worker reports
// that only after the loop that may still have sent through the queue.
TEST_F(ConnectedHandoff, AppliedSaysWhatIsDoneWith) {
  const std::uint64_t before = worker(1).applied();
  change(ib_neighbour(kIb0, "10.0.0.2", 8, 0x77));
  EXPECT_EQ(worker(1).applied(), before);
  worker(1).iterate();
  EXPECT_EQ(worker(1).applied(), before + 1);
}

}  // namespace
}  // namespace ipoib::fwd::test
