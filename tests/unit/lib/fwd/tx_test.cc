// SPDX-License-Identifier: BSD-3-Clause
// Transmission: tx, handoff between workers, and forward mode io.
#include "lib/fwd/tx.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "lib/fwd/modes/io_forward.h"
#include "tests/support/mbufs.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using table::kNoInterface;

class TxTest : public WorkerFixture {
 protected:
  void start_with_neighbours() {
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(1, eth_neighbour(kEth1, "192.168.2.10", mac(0x20)));
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    loop();
  }
};

TEST_F(TxTest, FullLinkIsCountedAndFreed) {
  start_with_neighbours();
  links[0].room = 3;
  for (int i = 0; i < 10; ++i) receive(kEth0, to_eth0(Ip4{}.bytes()));
  loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 3U);
  EXPECT_EQ(drops(kIb0, Drop::kIbTxFull), 7U) << "under the outgoing interface";
  EXPECT_EQ(all_drops(), 7U);
  EXPECT_EQ(worker().counters(kIb0).tx_packets.get(), 3U);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), 3 * Ip4{}.bytes().size());
}

/// Each flow keeps to one of the paths to its neighbour, and all paths have flows.
TEST_F(TxTest, U41_FlowsAreSpreadOverThePathsOfANeighbour) {
  start_with_neighbours();
  table::Neighbour n = ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef);
  n.mode = table::NeighbourMode::kUdPaths;
  n.set_handles({7, 8, 9, 0xffff});
  set_neighbour(2, n);
  loop();
  std::map<std::uint32_t, int> flows;
  for (std::uint8_t i = 0; i < 64; ++i) {
    const std::string from = "192.168.1." + std::to_string(100 + i);
    std::set<std::uint32_t> used;
    for (int again = 0; again < 3; ++again) {
      feed(kEth0, to_eth0(Ip4{.src = from}.bytes()));
      const auto sent = only_sent_by_link(kIb0);
      EXPECT_EQ(sent.to.qpn, 0xabcdefU);
      used.insert(sent.to.ah);
    }
    EXPECT_EQ(used.size(), 1U) << from;
    ++flows[*used.begin()];
  }
  for (const std::uint32_t ah : {7U, 8U, 9U, 0xffffU}) EXPECT_GT(flows[ah], 4) << ah;
  EXPECT_EQ(flows.size(), 4U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(TxTest, FullPortIsCountedAndFreed) {
  start_with_neighbours();
  std::uint64_t fed = 0;
  while (drops(kEth1, Drop::kEthTxFull) == 0 && fed < 1000) {
    feed(kEth0, to_eth0(Ip4{.dst = "192.168.2.10"}.bytes()));
    ++fed;
  }
  EXPECT_EQ(drops(kEth1, Drop::kEthTxFull), 1U);
  EXPECT_EQ(all_drops(), 1U);
  EXPECT_EQ(sent_by_port(kEth1).size(), fed - 1);
  EXPECT_EQ(worker().counters(kEth1).tx_packets.get(), fed - 1);
}

// The device has counted the lost packets, so they do not count as sent.
TEST_F(TxTest, WhatADeviceTakesAndLosesIsNotCountedAsSent) {
  start_with_neighbours();
  const auto feed_five = [&] {
    for (int i = 0; i < 5; ++i) receive(kEth0, to_eth0(Ip4{}.bytes()));
    loop();
  };
  feed_five();
  links[0].loses = true;
  links[0].room = 3;
  feed_five();
  const InterfaceCounters& ib0 = worker().counters(kIb0);
  EXPECT_EQ(ib0.tx_packets.get(), 5U);
  EXPECT_EQ(ib0.tx_bytes.get(), 5 * Ip4{}.bytes().size());
  EXPECT_EQ(drops(kIb0, Drop::kIbTxFull), 2U);
  EXPECT_EQ(all_drops(), 2U);
}

TEST_F(TxTest, StoppedDeviceIsLeftAlone) {
  start_with_neighbours();
  const auto feed_one = [&] { feed(kEth0, to_eth0(Ip4{.dst = "192.168.2.10"}.bytes())); };
  entries[kEth1].device_stopped = true;
  feed_one();
  EXPECT_EQ(drops(kEth1, Drop::kLinkDown), 1U) << "under the outgoing interface";
  entries[kEth0].device_stopped = true;
  feed_one();
  EXPECT_EQ(worker().counters(kEth0).rx_packets.get(), 1U);
  EXPECT_EQ(all_drops(), 1U);
  EXPECT_TRUE(sent_by_port(kEth1).empty());

  for (const auto port : {kEth0, kEth1}) entries[port].device_stopped = false;
  loop();
  EXPECT_EQ(sent_by_port(kEth1).size(), 1U) << "what waited in the device";
  EXPECT_EQ(all_drops(), 1U);
}

class Handoff : public TxTest {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    share_between_two_workers();
    start_with_neighbours();
  }
};

TEST_F(Handoff, P07_PacketsLeaveByTheWorkerThatOwnsTheInterface) {
  const Ip4 to_link0;
  const Ip4 to_eth1{.dst = "192.168.2.10"};
  receive(kEth0, to_eth0(to_link0.bytes()));
  receive(kEth0, to_eth0(to_eth1.bytes()));
  worker(0).iterate();
  EXPECT_TRUE(sent_by_link(kIb0).empty()) << "not by worker 0";
  EXPECT_EQ(worker(1).iterate(), 2U);
  const SentOnLink sent = only_sent_by_link(kIb0);
  EXPECT_EQ(sent.bytes, WorkerFixture::to_link(forwarded(to_link0)));
  EXPECT_EQ(sent.to.ah, 7U);
  EXPECT_EQ(sent.to.qpn, 0xabcdefU);
  EXPECT_EQ(sent_by_port(kEth1),
            Frames{ethernet(mac(0x20), mac(0xa1), 0x0800, forwarded(to_eth1))});
  EXPECT_EQ(worker(0).counters(kEth0).rx_packets.get(), 2U);
  EXPECT_EQ(worker(0).counters(kIb0).tx_packets.get(), 0U);
  EXPECT_EQ(worker(1).counters(kIb0).tx_packets.get(), 1U);
  EXPECT_EQ(worker(1).counters(kEth1).tx_packets.get(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(Handoff, P07_BothDirections) {
  receive(kIb0, WorkerFixture::to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.1.10"}.bytes()));
  worker(1).iterate();
  worker(0).iterate();
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
}

TEST_F(Handoff, P07_FullRingIsCounted) {
  // The ring has 63 places, and worker 1 does not read it.
  for (int i = 0; i < 70; ++i) receive(kEth0, to_eth0(Ip4{}.bytes()));
  for (int i = 0; i < 3; ++i) worker(0).iterate();
  EXPECT_EQ(drops(kIb0, Drop::kHandoffRingFull), 7U) << "under the outgoing interface";
  EXPECT_EQ(all_drops(), 7U);
  worker(1).iterate();
  EXPECT_EQ(sent_by_link(kIb0).size(), 63U);
}

TEST_F(Handoff, RawFramesFromManagementFindTheirWorker) {
  msg::Down message{};
  message.kind = msg::Down::Kind::kSendRaw;
  message.iface = kEth1;
  const Bytes frame = ethernet(kBroadcastMac, mac(0xa1), 0x0806, Bytes(28));
  message.mbuf = mbuf(frame);
  send_down(message, 0);
  loop();
  EXPECT_EQ(sent_by_port(kEth1), Frames{frame});
}

TEST_F(Handoff, IoModeCrossesWorkers) {
  settings.mode = ForwardMode::kIo;
  const Bytes frame = ethernet(mac(1), mac(2), 0x1234, Bytes(46));
  feed(kEth0, frame);
  EXPECT_EQ(sent_by_port(kEth1), Frames{frame});
}

/// Both workers receive from both ports. Worker 0 owns the ports.
class PortQueues : public TxTest {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    configs.resize(2);
    for (std::uint16_t i = 0; i < 2; ++i) {
      configs[i].queues = queues_of_owner(entries, i);
      for (const auto port : {kEth0, kEth1}) configs[i].queues[port] = {{i}, i, nullptr};
    }
  }
  /// A frame to a host behind eth1 arrives on a queue of eth0.
  void receive_on(unsigned queue, std::uint16_t id = 0) {
    receive_on_queue(kEth0, queue, mbuf(to_eth0(packet(id).bytes())));
  }
  static Ip4 packet(std::uint16_t id) { return {.dst = "192.168.2.10", .id = id}; }
  static Bytes sent(std::uint16_t id) {
    return ethernet(mac(0x20), mac(0xa1), 0x0800, forwarded(packet(id)));
  }
};

TEST_F(PortQueues, P14_PacketsStayOnTheWorkerThatReceivesThem) {
  start_with_neighbours();
  receive_on(1, 5);
  receive_on(1, 6);
  EXPECT_EQ(worker(0).iterate(), 0U) << "the queue is worker 1's";
  EXPECT_EQ(worker(1).iterate(), 2U);
  EXPECT_EQ(sent_by_port(kEth1, 1), (Frames{sent(5), sent(6)}));
  EXPECT_EQ(sent_by_port(kEth1, 0), Frames{});
  EXPECT_EQ(worker(1).counters(kEth0).rx_packets.get(), 2U);
  EXPECT_EQ(worker(1).counters(kEth1).tx_packets.get(), 2U);

  receive_on(0);
  EXPECT_EQ(worker(1).iterate(), 0U);
  EXPECT_EQ(worker(0).iterate(), 1U);
  EXPECT_EQ(sent_by_port(kEth1, 0), Frames{sent(0)});
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(PortQueues, P14_WorkerWithoutATransmitQueueHandsPacketsToTheOwner) {
  configs[1].queues[kEth1].eth_tx.reset();
  start_with_neighbours();
  receive_on(1);
  worker(1).iterate();
  EXPECT_EQ(sent_by_port(kEth1, 0), Frames{});
  EXPECT_EQ(worker(0).iterate(), 1U);
  EXPECT_EQ(sent_by_port(kEth1, 0), Frames{sent(0)});
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(PortQueues, P14_WorkerPollsEachOfItsQueues) {
  configs[0].queues[kEth0].eth_rx = {1, 0};
  configs[1].queues[kEth0].eth_rx.clear();
  start_with_neighbours();
  receive_on(0, 1);
  receive_on(1, 2);
  EXPECT_EQ(worker(1).iterate(), 0U);
  EXPECT_EQ(worker(0).iterate(), 2U);
  EXPECT_EQ(sent_by_port(kEth1, 0), (Frames{sent(2), sent(1)})) << "in the order of the queues";
}

TEST_F(PortQueues, P14_StoppedDeviceIsLeftAloneByAllWorkers) {
  start_with_neighbours();
  entries[kEth0].device_stopped = true;
  for (const unsigned queue : {0U, 1U}) receive_on(queue);
  loop();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(worker(i).counters(kEth0).rx_packets.get(), 0U);
  entries[kEth0].device_stopped = false;
  loop();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(worker(i).counters(kEth0).rx_packets.get(), 1U);
  for (const unsigned queue : {0U, 1U}) EXPECT_EQ(sent_by_port(kEth1, queue).size(), 1U);
}

/// Both workers have a UD queue of ib0, which worker 1 owns. Worker 0 has the ports.
class LinkQueues : public TxTest {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    share_between_two_workers();
    for (unsigned i = 0; i < 2; ++i) {
      configs[i].queues = queues_of_owner(entries, i);
      configs[i].queues[kIb0].ud = queues[i];
    }
    entries[kIb0].ud_queues = queues;
    start_with_neighbours();
  }
  FakeUdQueue second{FakeUdQueue::Takes::kFrames};
  std::array<fabric::UdQueue*, 2> queues{&second, &links[0]};
};

TEST_F(LinkQueues, P14_EachWorkerSendsByItsOwnQueue) {
  const Ip4 to_link0;
  receive(kEth0, to_eth0(to_link0.bytes()));
  worker(0).iterate();
  ASSERT_EQ(second.sent.size(), 1U);
  EXPECT_EQ(second.frames_sent, 1U) << "with the head that its own device has for the neighbour";
  EXPECT_EQ(ipoib::test::take(second.sent.front()), WorkerFixture::to_link(forwarded(to_link0)));
  second.sent.clear();
  EXPECT_EQ(worker(1).iterate(), 0U) << "nothing was handed over";
  EXPECT_EQ(worker(0).counters(kIb0).tx_packets.get(), 1U);

  receive(kEth1, ethernet(mac(0xa1), mac(0x20), 0x0800, to_link0.bytes()));
  loop();
  EXPECT_EQ(only_sent_by_link(kIb0).to.ah, 7U) << "eth1 is worker 1's";
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(LinkQueues, P14_EachWorkerReceivesFromItsOwnQueue) {
  rte_mbuf* const m =
      mbuf(WorkerFixture::to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.1.10"}.bytes()));
  fabric::meta_of(m).rx = {};
  second.incoming.push_back(m);
  EXPECT_EQ(worker(1).iterate(), 0U);
  EXPECT_EQ(worker(0).iterate(), 1U);
  EXPECT_EQ(worker(0).counters(kIb0).rx_packets.get(), 1U);
  EXPECT_EQ(sent_by_port(kEth0).size(), 1U);
}

class IoForward : public TxTest {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    settings.mode = ForwardMode::kIo;
  }
};

TEST_F(IoForward, PairsPortsInOrder) {
  std::vector<InterfaceEntry> some(6);
  for (const std::size_t link : {1U, 4U}) some[link].kind = InterfaceKind::kIpoib;
  EXPECT_EQ(io_peers(some),
            (std::vector<table::InterfaceId>{2, kNoInterface, 0, 5, kNoInterface, 3}));
  some[5].kind = InterfaceKind::kIpoib;
  EXPECT_EQ(io_peers(some), (std::vector<table::InterfaceId>{2, kNoInterface, 0, kNoInterface,
                                                             kNoInterface, kNoInterface}));
}

TEST_F(IoForward, FramesCrossUntouched) {
  start();
  const Frames frames = {ethernet(mac(0xa0), mac(1), 0x0800, Ip4{.ttl = 1}.bytes()),
                         ethernet(kBroadcastMac, mac(1), 0x0806, Bytes(28)),
                         ethernet(mac(9), mac(1), 0x8100, Bytes(200)), Bytes(5)};
  for (const Bytes& frame : frames) receive(kEth0, frame);
  receive(kEth1, frames[0]);
  loop();
  EXPECT_EQ(sent_by_port(kEth1), frames);
  EXPECT_EQ(sent_by_port(kEth0), Frames{frames[0]});
  EXPECT_EQ(worker().counters(kEth0).rx_bytes.get(), 46U + 28 + 200);
  EXPECT_TRUE(punted().empty());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(IoForward, DropsByNamedReason) {
  start();
  feed(kIb0, WorkerFixture::to_link(Ip4{}.bytes()));
  EXPECT_EQ(drops(kIb0, Drop::kNoForwardPeer), 1U);
  entries[kEth1].up = false;
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(drops(kEth0, Drop::kLinkDown), 1U);
  settings.forwarding = false;
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(drops(kEth0, Drop::kForwardingStopped), 1U);
  EXPECT_EQ(all_drops(), 3U);
}

}  // namespace
}  // namespace ipoib::fwd::test
