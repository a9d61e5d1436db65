// SPDX-License-Identifier: BSD-3-Clause
// Several workers on one software HCA: each has a UD queue and a transmit queue of the cable. One or
// several of them read the cable's receive queues, and pass frames to the workers of their queue
// pairs.
#include <rte_cycles.h>

#include <array>
#include <random>
#include <vector>

#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

std::uint64_t constant_tsc() noexcept {
  return 1'000'000;
}

class SoftWorkers : public SoftFixture {
 protected:
  static constexpr unsigned kRing = SoftHcaConfig::kRingPlaces - 1;  ///< Frames that one holds.

  static SoftHcaConfig wide(std::uint16_t readers = 2) {
    SoftHcaConfig c = config(0);
    c.port_id = WideCable::get().port;
    c.rx_queues = c.workers = 2;
    c.readers = readers;
    return c;
  }
  void SetUp() override {
    SoftFixture::SetUp();
    make(wide());
  }
  void TearDown() override {
    node_.hca.reset();
    for (std::size_t q = 0; q < 2; ++q) (void)sent(q);
    SoftFixture::TearDown();
  }
  void make(const SoftHcaConfig& config) {
    node_.hca.reset();
    node_ = make_node(config);
    other_ = node_.hca->create_ud_queue({.worker = 1, .first = node_.queue}).value();
    ASSERT_TRUE(node_.hca->set_qkey(*other_, kQkey));
  }
  static std::vector<Bytes> sent(std::size_t queue) {
    return test::take_all(WideCable::get().out[queue]);
  }
  /// The frame of a packet that the peer sends. `make_ah` returns the handle.
  template <class MakeAh>
  static Bytes frame_of_peer(std::uint32_t qpn, std::size_t len, MakeAh make_ah) {
    const Node peer = make_node(1);
    rte_mbuf* m = packet(counting(len), make_ah(peer), qpn);
    EXPECT_EQ(peer.queue->tx_burst(&m, 1), 1);
    return on_cable(0).at(0);
  }
  static Bytes unicast_frame(std::uint32_t qpn, std::size_t len = 40) {
    return frame_of_peer(qpn, len, [](const Node& peer) { return ah_to(peer, kLid[0]); });
  }
  static Bytes group_frame() {
    return frame_of_peer(wire::kMulticastQpn, 40,
                         [](const Node& peer) { return group_ah(peer, broadcast_mgid(), kMlid); });
  }
  static void put(std::size_t cable_queue, std::span<const std::byte> frame) {
    ASSERT_EQ(
        rte_ring_enqueue(WideCable::get().in[cable_queue], test::mbuf_of(Cable::get().pool, frame)),
        0);
  }
  /// Puts frames of the peer to a queue pair on a receive queue of the cable.
  static void arrive_on(std::size_t cable_queue, std::uint32_t qpn, std::size_t n = 1) {
    const Bytes frame = unicast_frame(qpn);
    for (std::size_t i = 0; i < n; ++i) put(cable_queue, frame);
  }
  /// One loop of each worker, that which reads first.
  void loop() const {
    for (const unsigned worker : {0U, 1U}) node_.poll(worker);
  }
  fabric::UdQueue& add_link(unsigned worker) {
    fabric::UdQueue* const queue = node_.hca->create_ud_queue({.worker = worker}).value();
    EXPECT_TRUE(node_.hca->set_qkey(*queue, kQkey));
    return *queue;
  }
  std::size_t received(fabric::UdQueue* queue) {
    const auto pkts = node_.receive(queue);
    for (rte_mbuf* m : pkts) rte_pktmbuf_free(m);
    return pkts.size();
  }
  [[nodiscard]] std::uint64_t drops(Drop reason) const { return node_.hca->drops().get(reason); }
  static std::uint32_t source_qpn(const Bytes& frame) {
    return wire::read<UdWords>(frame, kLocalHeadLen)->src_qp();
  }

  Node node_;
  fabric::UdQueue* other_ = nullptr;  ///< Worker 1's.
};

TEST_F(SoftWorkers, P14_EachSendsByATransmitQueueOfItsOwn) {
  const fabric::AhIndex ah = ah_to(node_, kLid[1]);
  rte_mbuf* m = packet(counting(40), ah, 9);
  ASSERT_EQ(other_->tx_burst(&m, 1), 1);
  auto frames = sent(1);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(source_qpn(frames[0]), other_->qpn());
  EXPECT_TRUE(sent(0).empty());

  m = packet(counting(40), ah, 9);
  ASSERT_EQ(node_.queue->tx_burst(&m, 1), 1);
  frames = sent(0);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(source_qpn(frames[0]), node_.queue->qpn());
  EXPECT_TRUE(sent(1).empty());
}

TEST_F(SoftWorkers, P14_OneReaderPassesFramesOfEveryReceiveQueueOn) {
  make(wide(1));
  for (std::size_t cable_queue = 0; cable_queue < 2; ++cable_queue) {
    arrive_on(cable_queue, other_->qpn());
    arrive_on(cable_queue, node_.queue->qpn());
    for (int i = 0; i < 2; ++i) loop();  // it reads one receive queue at a time
    EXPECT_EQ(received(other_), 1U) << cable_queue;
    EXPECT_EQ(received(node_.queue), 1U) << cable_queue;
  }
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftWorkers, P14_EachReaderReadsReceiveQueuesOfItsOwn) {
  arrive_on(0, node_.queue->qpn());
  arrive_on(1, other_->qpn());
  node_.poll(1);
  EXPECT_EQ(received(node_.queue), 0U) << "worker 0 has not looped";
  EXPECT_EQ(received(other_), 1U);
  node_.poll(0);
  EXPECT_EQ(received(node_.queue), 1U);

  // Each passes on what it reads for the other one.
  arrive_on(0, other_->qpn(), 3);
  arrive_on(1, node_.queue->qpn(), 2);
  for (const unsigned worker : {0U, 1U, 0U}) node_.poll(worker);
  EXPECT_EQ(received(other_), 3U);
  EXPECT_EQ(received(node_.queue), 2U);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftWorkers, P14_PassedFramesStayInOrderAmongThoseOfTheReader) {
  std::vector<std::size_t> lengths[2];
  for (std::size_t i = 0; i < 200; ++i) {
    const bool other = i % 3 == 0 || i % 7 == 0;
    put(0, unicast_frame((other ? other_ : node_.queue)->qpn(), 20 + 4 * i));
    lengths[other ? 1 : 0].push_back(20 + 4 * i);
  }
  std::vector<std::size_t> got[2];
  for (int i = 0; i < 20; ++i) {
    loop();
    for (const std::size_t side : {0U, 1U})
      for (rte_mbuf* m : node_.receive(side == 1 ? other_ : node_.queue)) {
        got[side].push_back(m->pkt_len);
        rte_pktmbuf_free(m);
      }
  }
  EXPECT_EQ(got[0], lengths[0]);
  EXPECT_EQ(got[1], lengths[1]);
}

// The reader verifies the packets of its own queue pairs together, across frames for the other.
TEST_F(SoftWorkers, P14_MixedBurstsKeepTheOrderOfEachQueuePair) {
  constexpr std::size_t kLengths = 16;
  const std::array<fabric::UdQueue*, 3> queues{node_.queue, &add_link(0), other_};
  std::array<std::array<Bytes, kLengths>, 3> frames;
  for (std::size_t to = 0; to < queues.size(); ++to)
    for (std::size_t i = 0; i < kLengths; ++i)
      frames[to][i] = unicast_frame(queues[to]->qpn(), 20 + 4 * i);
  std::mt19937 random{4393};
  std::array<std::vector<std::size_t>, 3> sent, got;
  std::uint64_t bad = 0;
  for (int burst = 0; burst < 500; ++burst) {
    for (auto n = 1 + random() % 64; n-- > 0;) {
      const std::size_t to = random() % queues.size();
      const std::size_t i = random() % kLengths;
      Bytes frame = frames[to][i];
      if (random() % 8 == 0) {
        frame.back() ^= std::byte{1};
        ++bad;
      } else {
        sent[to].push_back(20 + 4 * i);
      }
      put(0, frame);
    }
    loop();
    for (std::size_t to = 0; to < queues.size(); ++to)
      for (rte_mbuf* m : node_.receive(queues[to])) {
        got[to].push_back(m->pkt_len);
        rte_pktmbuf_free(m);
      }
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(drops(Drop::kIbIcrc), bad);
  EXPECT_EQ(node_.all_drops(), bad);
}

TEST_F(SoftWorkers, P14_TheWorkerOfAQueuePairChecksItsFrames) {
  const Bytes good = unicast_frame(other_->qpn());
  const auto expect_drop = [&](Drop reason, std::size_t at) {
    Bytes bad = good;
    bad[at] ^= std::byte{1};
    const std::uint64_t before = drops(reason);
    put(0, bad);
    node_.poll(0);
    EXPECT_EQ(drops(reason), before) << at;
    node_.poll(1);
    EXPECT_EQ(drops(reason), before + 1) << at;
    EXPECT_EQ(received(other_), 0U);
  };
  expect_drop(Drop::kIbIcrc, good.size() - 1);
  expect_drop(Drop::kIbPkey, kLocalHeadLen + 3);
  expect_drop(Drop::kIbQkey, kLocalHeadLen + sizeof(wire::Bth) + 3);
  expect_drop(Drop::kIbLength, sizeof(EthHdr) + 5);
}

TEST_F(SoftWorkers, P14_FramesWithGrhGoToTheirWorkerToo) {
  put(0, frame_of_peer(other_->qpn(), 40, [this](const Node& peer) {
        fabric::AhAttr attr;
        attr.dlid = kLid[0];
        attr.global = true;
        attr.dgid = node_.hca->attr().gid();
        return peer.hca->create_ah(attr).value();
      }));
  loop();
  EXPECT_EQ(received(node_.queue), 0U);
  EXPECT_EQ(received(other_), 1U);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftWorkers, P14_MadsGoToManagementWhateverWorkerReadsThem) {
  const Node peer = make_node(1);
  ASSERT_TRUE(peer.hca->mad_port().send({.lid = kLid[0]}, fabric::MadBytes{}));
  peer.poll();
  const auto frames = on_cable(0);
  ASSERT_EQ(frames.size(), 1U);
  for (const std::size_t cable_queue : {1U, 0U}) {
    put(cable_queue, frames[0]);
    for (const unsigned worker : {1U, 0U}) node_.poll(worker);
    EXPECT_TRUE(node_.hca->mad_port().receive()) << cable_queue;
  }
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftWorkers, P14_WorkerThatTakesNothingLosesOnlyItsOwnPackets) {
  constexpr unsigned kMore = 77;
  for (unsigned left = kRing + kMore, n = 0; left != 0; left -= n) {
    n = std::min(left, 400U);
    arrive_on(0, other_->qpn(), n);
    for (int polls = 0; polls < 20; ++polls) node_.poll();
  }
  EXPECT_EQ(drops(Drop::kIbNoBuffer), kMore);
  arrive_on(0, node_.queue->qpn());
  for (int polls = 0; polls < 2; ++polls) node_.poll();
  EXPECT_EQ(received(node_.queue), 1U);

  // It takes them as fast as its link does.
  std::size_t taken = 0;
  for (unsigned i = 0; i < 2 * kRing; ++i) {
    node_.poll(1);
    rte_mbuf* m = nullptr;
    if (other_->rx_burst(&m, 1) == 0) continue;
    rte_pktmbuf_free(m);
    ++taken;
  }
  EXPECT_EQ(taken, kRing);
  EXPECT_EQ(drops(Drop::kIbNoBuffer), kMore);
}

TEST_F(SoftWorkers, P14_PacketsToTheOwnPortGoToTheWorkerOfTheirQueuePair) {
  const fabric::AhIndex ah = ah_to(node_, kLid[0]);
  const auto send = [&](std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      rte_mbuf* m = packet(counting(40), ah, node_.queue->qpn());
      ASSERT_EQ(other_->tx_burst(&m, 1), 1);
    }
  };
  send(1);
  EXPECT_EQ(received(node_.queue), 0U);
  node_.poll();
  EXPECT_EQ(received(node_.queue), 1U);
  EXPECT_TRUE(sent(1).empty());

  send(kRing + 5);
  EXPECT_EQ(drops(Drop::kIbNoBuffer), 5U) << "worker 0 does not poll";
}

TEST_F(SoftWorkers, P14_MulticastOfOneWorkerGoesToOtherLinksOfThePort) {
  const fabric::AhIndex group = group_ah(node_, broadcast_mgid(), kMlid);
  const auto send = [&] {
    rte_mbuf* m = packet(counting(40), group, wire::kMulticastQpn);
    ASSERT_EQ(other_->tx_burst(&m, 1), 1);
    EXPECT_EQ(sent(1).size(), 1U);
    loop();
  };
  ASSERT_TRUE(node_.hca->attach(*node_.queue, broadcast_mgid(), kMlid));
  send();
  EXPECT_EQ(received(node_.queue), 0U) << "it is of the same link";

  for (const unsigned worker : {0U, 1U}) {
    fabric::UdQueue& link = add_link(worker);
    ASSERT_TRUE(node_.hca->attach(link, broadcast_mgid(), kMlid));
    send();
    const auto pkts = node_.receive(&link);
    ASSERT_EQ(pkts.size(), 1U);
    EXPECT_EQ(fabric::meta_of(pkts[0]).rx.src_qpn, other_->qpn());
    rte_pktmbuf_free(pkts[0]);
    EXPECT_EQ(received(node_.queue), 0U) << "it is of the same link";
    node_.hca->destroy_ud_queue(link);
  }
  EXPECT_EQ(node_.all_drops(), 0U);
}

/// The group's packets from the cable go to the worker whose queue pair is attached, and packets of
/// the link's other queue pair do not return.
TEST_F(SoftWorkers, P14_GroupsOfOneQueuePairGoToItsWorker) {
  ASSERT_TRUE(node_.hca->attach(*other_, broadcast_mgid(), kMlid));
  put(0, group_frame());
  loop();
  EXPECT_EQ(received(node_.queue), 0U);
  EXPECT_EQ(received(other_), 1U);

  // Without and with another link in the partition, whose copy goes another way.
  fabric::UdQueue* link = nullptr;
  for (const bool two_links : {false, true}) {
    if (two_links) {
      link = &add_link(0);
      ASSERT_TRUE(node_.hca->attach(*link, broadcast_mgid(), kMlid));
    }
    rte_mbuf* m =
        packet(counting(40), group_ah(node_, broadcast_mgid(), kMlid), wire::kMulticastQpn);
    ASSERT_EQ(node_.queue->tx_burst(&m, 1), 1);
    EXPECT_EQ(sent(0).size(), 1U);
    loop();
    EXPECT_EQ(received(other_), 0U) << "it is of the same link";
  }
  EXPECT_EQ(received(link), 1U);
  EXPECT_EQ(node_.all_drops(), 0U);
}

TEST_F(SoftWorkers, P14_EachWorkerWithMembersOfAGroupGetsOnePacketForEach) {
  fabric::UdQueue& third = add_link(1);
  for (fabric::UdQueue* const member : {node_.queue, other_, &third})
    ASSERT_TRUE(node_.hca->attach(*member, broadcast_mgid(), kMlid));
  const Bytes frame = group_frame();
  for (const std::size_t cable_queue : {0U, 1U}) {
    put(cable_queue, frame);
    for (const unsigned worker : {1U, 0U, 1U}) node_.poll(worker);
    for (fabric::UdQueue* const member : {node_.queue, other_, &third}) {
      const auto pkts = node_.receive(member);
      ASSERT_EQ(pkts.size(), 1U) << cable_queue;
      EXPECT_EQ(bytes_of(pkts[0]), counting(40));
      rte_pktmbuf_free(pkts[0]);
    }
  }
  EXPECT_EQ(node_.all_drops(), 0U);

  Bytes bad = frame;
  bad.back() ^= std::byte{1};
  put(0, bad);
  loop();
  EXPECT_EQ(drops(Drop::kIbIcrc), 1U) << "no worker gets a copy";
  EXPECT_EQ(node_.all_drops(), 1U);

  // With one member, its worker checks the ICRC.
  for (fabric::UdQueue* const member : {node_.queue, &third})
    ASSERT_TRUE(node_.hca->detach(*member, broadcast_mgid(), kMlid));
  put(0, bad);
  node_.poll(0);
  EXPECT_EQ(drops(Drop::kIbIcrc), 1U);
  node_.poll(1);
  EXPECT_EQ(drops(Drop::kIbIcrc), 2U);
  EXPECT_EQ(received(other_), 0U);
}

// Management attaches the new queue pair first. Frames on their way to the old one arrive there.
TEST_F(SoftWorkers, P14_GroupThatMovesLosesNoPassedPacket) {
  fabric::UdQueue& link = add_link(1);
  for (fabric::UdQueue* const member : {other_, &link})
    ASSERT_TRUE(node_.hca->attach(*member, broadcast_mgid(), kMlid));
  put(0, group_frame());
  node_.poll(0);
  ASSERT_TRUE(node_.hca->attach(*node_.queue, broadcast_mgid(), kMlid));
  ASSERT_TRUE(node_.hca->detach(*other_, broadcast_mgid(), kMlid));
  for (int i = 0; i < 3; ++i) loop();
  EXPECT_EQ(received(other_), 1U);
  EXPECT_EQ(received(&link), 1U);
  EXPECT_EQ(received(node_.queue), 0U) << "it is of the same link";
  EXPECT_EQ(node_.all_drops(), 0U);

  // Frames of a group that is left are dropped by name, also those on their way.
  ASSERT_TRUE(node_.hca->detach(*node_.queue, broadcast_mgid(), kMlid));
  put(0, group_frame());
  node_.poll(0);
  ASSERT_TRUE(node_.hca->detach(link, broadcast_mgid(), kMlid));
  node_.poll(1);
  EXPECT_EQ(node_.all_drops(), 1U);
  EXPECT_EQ(received(&link), 0U);

  // So are those for a link that has left it while another one is a member.
  for (fabric::UdQueue* const member : {node_.queue, &link})
    ASSERT_TRUE(node_.hca->attach(*member, broadcast_mgid(), kMlid));
  put(0, group_frame());
  node_.poll(0);
  ASSERT_TRUE(node_.hca->detach(link, broadcast_mgid(), kMlid));
  node_.poll(1);
  EXPECT_EQ(received(node_.queue), 1U);
  EXPECT_EQ(received(&link), 0U);
  EXPECT_EQ(drops(Drop::kIbMgid), 1U);
  ASSERT_TRUE(node_.hca->detach(*node_.queue, broadcast_mgid(), kMlid));

  // A queue pair may be gone when a frame for it arrives.
  for (fabric::UdQueue* const member : {node_.queue, &link})
    ASSERT_TRUE(node_.hca->attach(*member, broadcast_mgid(), kMlid));
  put(0, group_frame());
  node_.poll(0);
  node_.hca->destroy_ud_queue(link);
  node_.poll(1);
  EXPECT_EQ(received(node_.queue), 1U);
  EXPECT_EQ(drops(Drop::kIbQpn), 1U);
}

TEST_F(SoftWorkers, P14_PassedFramesOfAPortThatIsDownAreDroppedByName) {
  arrive_on(0, other_->qpn());
  node_.poll(0);
  ASSERT_TRUE(node_.hca->change_port({.up = false}));
  node_.poll(1);
  EXPECT_EQ(received(other_), 0U);
  EXPECT_EQ(drops(Drop::kIbPortDown), 1U);
}

TEST_F(SoftWorkers, U22_EachQueuePairKeepsToTheRateByItself) {
  SoftHcaConfig c = wide();
  c.tsc = &constant_tsc;
  c.tsc_hz = 2'000'000'000;
  make(c);
  fabric::AhAttr slow;
  slow.dlid = kLid[1];
  slow.rate = 2;  // 2.5 Gb/s: a burst of 312,500 octets
  const fabric::AhIndex ah = node_.hca->create_ah(slow).value();
  const auto send = [&](fabric::UdQueue& queue, std::size_t cable_queue) {
    std::size_t n = 0;
    for (int i = 0; i < 200; ++i) {
      rte_mbuf* m = packet(counting(2040), ah, 9);
      EXPECT_EQ(queue.tx_burst(&m, 1), 1);
      n += sent(cable_queue).size();
    }
    return n;
  };
  const std::size_t first = send(*node_.queue, 0);
  EXPECT_LT(first, 200U);
  EXPECT_EQ(send(*other_, 1), first);
  EXPECT_EQ(drops(Drop::kIbRateLimited), 2 * (200 - first));
}

TEST_F(SoftWorkers, P14_DestroyedQueueDropsItsPacketsByName) {
  arrive_on(0, other_->qpn(), 3);
  loop();
  arrive_on(0, other_->qpn(), 2);
  node_.poll(0);
  node_.hca->destroy_ud_queue(*other_);
  EXPECT_EQ(drops(Drop::kIbQpn), 3U) << "delivered";
  node_.poll(1);
  EXPECT_EQ(drops(Drop::kIbQpn), 5U) << "on their way";
}

// TearDown() expects that no mbuf is lost.
TEST_F(SoftWorkers, P14_EndFreesAllThatWaits) {
  arrive_on(0, other_->qpn());
  node_.poll();
  rte_mbuf* m = packet(counting(40), ah_to(node_, kLid[0]), node_.queue->qpn());
  ASSERT_EQ(other_->tx_burst(&m, 1), 1);
  node_.hca.reset();
}

TEST_F(SoftWorkers, P14_QueuesThatTheCableDoesNotHaveAreRefused) {
  EXPECT_EQ(node_.hca->capabilities().max_workers, 2);
  EXPECT_EQ(node_.hca->create_ud_queue({.worker = 2}).error().what,
            "soft0: queue pair for worker 2, but 2 have some");
  SoftHcaConfig workers = wide(1), readers = wide(3), more_readers = wide(2), none = wide(0);
  workers.workers = 3;
  more_readers.workers = 1;
  for (const auto& [c, n] : {std::pair{workers, "2 receive queues of 1 workers and 3"},
                             {readers, "2 receive queues of 3 workers and 2"},
                             {more_readers, "2 receive queues of 2 workers and 1"},
                             {none, "2 receive queues of 0 workers and 2"}}) {
    const auto refused = SoftHca::create(c);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what,
              fmt::format("soft0: {} workers that send, but ethdev {} has 2 receive and 2 transmit "
                          "queues",
                          n, c.port_id));
  }
}

}  // namespace
}  // namespace ipoib::soft
