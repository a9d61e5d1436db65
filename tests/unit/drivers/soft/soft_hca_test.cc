// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/soft_hca.h"

#include <rte_eal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>

#include "tests/support/retirement_period.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

class SoftHcaControl : public SoftFixture {};

TEST_F(SoftHcaControl, CableTooSmallIsRefusedWithBothNumbers) {
  ASSERT_EQ(rte_eal_hotplug_add("vdev", "net_memif0",
                                "role=server,id=0,socket=ipoib-soft-test,socket-abstract=yes"),
            0);
  SoftHcaConfig small = config(0);
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_memif0", &small.port_id), 0);
  const rte_eth_conf usual{};
  ASSERT_EQ(rte_eth_dev_configure(small.port_id, 1, 1, &usual), 0);
  const auto refused = SoftHca::create(small);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().what,
      "soft0: net_memif0 supports an MTU of 2034, but 2128 is required for an IB MTU of 2048");
  small.attr.mtu = 3;  // 1024 octets
  EXPECT_TRUE(SoftHca::create(small));
  EXPECT_EQ(rte_eal_hotplug_remove("vdev", "net_memif0"), 0);
}

TEST_F(SoftHcaControl, AttributesThatCannotBeAreRefused) {
  const auto refused = [](const SoftHcaConfig& wrong) {
    const auto hca = SoftHca::create(wrong);
    return hca ? Errc::kExists : hca.error().code;
  };
  for (const std::uint16_t lid : std::array<std::uint16_t, 3>{0, 0xc000, 0xffff}) {
    SoftHcaConfig wrong = config(0);
    wrong.attr.lid = lid;
    EXPECT_EQ(refused(wrong), Errc::kInvalidArgument) << lid;
  }
  for (const std::uint32_t qpn : {0U, 1U, 0xff'ffffU, 0x100'0000U}) {
    SoftHcaConfig wrong = config(0);
    wrong.first_qpn = qpn;
    EXPECT_EQ(refused(wrong), Errc::kInvalidArgument) << qpn;
  }
  SoftHcaConfig lmc = config(0), mtu = config(0), pkey = config(0), port = config(0),
                pool = config(0);
  lmc.attr.lid = 6;
  lmc.attr.lmc = 2;
  mtu.attr.mtu = 6;
  pkey.attr.pkeys = {0xffff, 0x8000};
  port.port_id = RTE_MAX_ETHPORTS - 1;
  pool.pool = nullptr;
  EXPECT_EQ(refused(lmc), Errc::kInvalidArgument);
  EXPECT_EQ(refused(mtu), Errc::kInvalidArgument);
  EXPECT_EQ(refused(pkey), Errc::kInvalidArgument);
  EXPECT_EQ(refused(port), Errc::kNotFound);
  EXPECT_EQ(refused(pool), Errc::kInvalidArgument);
}

TEST_F(SoftHcaControl, CableServesOneHcaAtATime) {
  {
    const Node first = make_node(0);
    const auto second = SoftHca::create(config(0));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::kExists);
  }
  EXPECT_TRUE(SoftHca::create(config(0)));
}

TEST_F(SoftHcaControl, QpnsSkipTheReservedOnesAndThoseInUse) {
  SoftHcaConfig high = config(0);
  high.first_qpn = 0xff'fffe;
  const auto hca = SoftHca::create(high).value();
  fabric::UdQueue* first = hca->create_ud_queue({}).value();
  EXPECT_EQ(first->qpn(), 0xff'fffeU);
  EXPECT_EQ((*hca->create_ud_queue({}))->qpn(), 2U);
  SoftHcaConfig random = config(1);
  random.first_qpn.reset();
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 8; ++i)
    seen.insert((*SoftHca::create(random).value()->create_ud_queue({}))->qpn());
  EXPECT_GT(seen.size(), 6U) << "a restarted node has other numbers";
  for (const std::uint32_t qpn : seen) EXPECT_TRUE(qpn >= 2 && qpn < 0xff'ffff);
}

/// Neither the order of links nor the number of their queue pairs changes it.
TEST_F(SoftHcaControl, U39_QpnOfALinkIsTheSameAfterEachStart) {
  SoftHcaConfig kept = config(0);
  kept.first_qpn = 0x47;
  kept.kept_qpns = {0x48, 0x4a};
  for (const unsigned before : {0U, 1U, 5U}) {
    const auto hca = SoftHca::create(kept).value();
    for (unsigned i = 0; i < before; ++i) {
      const auto qpn = (*hca->create_ud_queue({}))->qpn();
      EXPECT_TRUE(qpn != 0x48 && qpn != 0x4a) << qpn;
    }
    EXPECT_EQ((*hca->create_ud_queue({.qpn = 0x48}))->qpn(), 0x48U) << before;
    EXPECT_EQ((*hca->create_ud_queue({.qpn = 0x4a}))->qpn(), 0x4aU) << before;
  }
}

TEST_F(SoftHcaControl, U39_QpnThatIsInUseOrReservedIsRefused) {
  const Node node = make_node(0);
  fabric::UdQueue* const first = node.hca->create_ud_queue({.qpn = 0x300}).value();
  const auto second = node.hca->create_ud_queue({.qpn = 0x300});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kExists);
  for (const std::uint32_t qpn : {0U, 1U, 0xff'ffffU})
    EXPECT_EQ(node.hca->create_ud_queue({.qpn = qpn}).error().code, Errc::kInvalidArgument) << qpn;
  node.hca->destroy_ud_queue(*first);
  EXPECT_TRUE(node.hca->create_ud_queue({.qpn = 0x300}));
}

TEST_F(SoftHcaControl, QueueUsesThePortsOwnPkey) {
  SoftHcaConfig limited = config(0);
  limited.attr.pkeys = {0xffff, 0x0001};
  const auto hca = SoftHca::create(limited).value();
  EXPECT_EQ(hca->create_ud_queue({.pkey = 0x8002}).error().code, Errc::kInvalidArgument);
  auto* queue = static_cast<SoftUdQueue*>(hca->create_ud_queue({.pkey = 0x8001}).value());
  EXPECT_EQ(queue->pkey(), 0x0001);
}

TEST_F(SoftHcaControl, U14_HandlesThatNoPacketCanFollowAreRefused) {
  const Node node = make_node(0);
  const wire::Gid unicast = wire::Gid::of(wire::kDefaultGidPrefix, kGuid[1]);
  const fabric::AhAttr kWrong[] = {
      {.dlid = 0, .dgid = {}},
      {.dlid = 0xffff, .dgid = {}},
      {.dlid = 5, .sl = 16, .dgid = {}},
      {.dlid = kMlid, .dgid = {}},                             // Multicast without GRH
      {.dlid = kMlid, .global = true, .dgid = unicast},        // Unicast GID on an MLID
      {.dlid = 5, .global = true, .dgid = broadcast_mgid()}};  // MGID on a LID
  for (const fabric::AhAttr& wrong : kWrong) {
    const auto ah = node.hca->create_ah(wrong);
    ASSERT_FALSE(ah);
    EXPECT_EQ(ah.error().code, Errc::kInvalidArgument);
  }
}

TEST_F(SoftHcaControl, AllHandlesCanBeUsedAndUsedAgain) {
  const Node node = make_node(0);
  fabric::AhAttr attr;
  attr.dlid = 9;
  std::vector<bool> seen(AhTable::kCapacity);
  for (std::uint32_t i = 0; i < AhTable::kCapacity; ++i) seen.at(*node.hca->create_ah(attr)) = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), AhTable::kCapacity);
  EXPECT_EQ(node.hca->create_ah(attr).error().code, Errc::kNoResources);
  node.hca->destroy_ah(1234);
  node.hca->destroy_ah(1234);  // No effect the second time.
  node.hca->destroy_ah(fabric::kNoAh);
  EXPECT_EQ(node.hca->create_ah(attr), 1234U);
  EXPECT_FALSE(node.hca->create_ah(attr));
}

TEST_F(SoftHcaControl, HandleServesThePacketsThatNameItAndOnlyThenAnother) {
  test::RetirementPeriod period;
  SoftHcaConfig retiring = config(0);
  retiring.retirement = &period;
  const Node node = make_node(retiring);
  const auto first = ah_to(node, 9);
  node.hca->destroy_ah(first);
  EXPECT_NE(ah_to(node, 9), first);
  rte_mbuf* m = packet(counting(8), first, 5);
  ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbTxInvalid), 0U);
  EXPECT_EQ(on_cable(1).size(), 1U);
  ++period.now;
  EXPECT_EQ(ah_to(node, 9), first);
}

/// An RCU variable with one worker, which the test plays.
class WithWorker : public SoftFixture {
 protected:
  void SetUp() override {
    SoftFixture::SetUp();
    qsbr_.resize(rte_rcu_qsbr_get_memsize(1) + RTE_CACHE_LINE_SIZE);
    void* at = qsbr_.data();
    std::size_t space = qsbr_.size();
    variable_ = static_cast<rte_rcu_qsbr*>(
        std::align(RTE_CACHE_LINE_SIZE, rte_rcu_qsbr_get_memsize(1), at, space));
    ASSERT_EQ(rte_rcu_qsbr_init(variable_, 1), 0);
    ASSERT_EQ(rte_rcu_qsbr_thread_register(variable_, 0), 0);
    rte_rcu_qsbr_thread_online(variable_, 0);
  }
  Node make_guarded(int side) {
    SoftHcaConfig guarded = config(side);
    guarded.qsbr = variable_;
    return make_node(guarded);
  }
  std::vector<std::byte> qsbr_;
  rte_rcu_qsbr* variable_ = nullptr;
};

TEST_F(WithWorker, ControlCallsWhileAWorkerRuns) {
  const Node node = make_guarded(0);
  const Node peer = make_node(1);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> received{0};
  const auto group = group_ah(peer, broadcast_mgid(), kMlid);
  ASSERT_TRUE(node.hca->attach(*node.queue, broadcast_mgid(), kMlid));
  std::thread worker{[&] {
    while (!stop.load(std::memory_order_relaxed)) {
      rte_mbuf* sent = packet(counting(40), group, wire::kMulticastQpn);
      if (peer.queue->tx_burst(&sent, 1) == 0) rte_pktmbuf_free(sent);
      node.poll();
      rte_mbuf* pkts[8];
      const auto nb_rx = node.queue->rx_burst(pkts, 8);
      rte_pktmbuf_free_bulk(pkts, nb_rx);
      received += nb_rx;
      rte_rcu_qsbr_quiescent(variable_, 0);
    }
    rte_rcu_qsbr_thread_offline(variable_, 0);
  }};
  for (int round = 0; round < 20; ++round) {
    fabric::UdQueue* extra = node.hca->create_ud_queue({}).value();
    ASSERT_TRUE(node.hca->set_qkey(*extra, kQkey));
    ASSERT_TRUE(node.hca->attach(*extra, broadcast_mgid(), kMlid));
    node.hca->destroy_ah(ah_to(node, 9));
    const auto at_attach = received.load();
    while (received.load() < at_attach + 3) std::this_thread::yield();
    node.hca->destroy_ud_queue(*extra);  // Queued packets are unread.
  }
  stop = true;
  worker.join();
  EXPECT_GT(node.hca->drops().get(Drop::kIbQpn), 0U) << "staged packets were given up, and counted";
}

TEST_F(SoftHcaControl, DestroyedQueueCountsItsWaitingPackets) {
  const Node from = make_node(0);
  const Node to = make_node(1);
  rte_mbuf* m = packet(counting(8), ah_to(from, kLid[1]), to.queue->qpn());
  ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
  to.poll();
  to.hca->destroy_ud_queue(*to.queue);
  EXPECT_EQ(to.hca->drops().get(Drop::kIbQpn), 1U);
  EXPECT_EQ(mbufs_in_use(), 0U);
  m = packet(counting(8), ah_to(from, kLid[1]), 0x49);
  ASSERT_EQ(from.queue->tx_burst(&m, 1), 1);
  to.poll();
  EXPECT_EQ(to.hca->drops().get(Drop::kIbQpn), 2U);
}

TEST_F(SoftHcaControl, AttachAndDetachSayWhatIsWrong) {
  const Node node = make_node(0);
  const wire::Gid group = broadcast_mgid();
  EXPECT_EQ(node.hca->attach(*node.queue, group, 5).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(node.hca->attach(*node.queue, wire::Gid{}, kMlid).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(node.hca->detach(*node.queue, group, kMlid).error().code, Errc::kNotFound);
  EXPECT_TRUE(node.hca->attach(*node.queue, group, kMlid));
  EXPECT_EQ(node.hca->attach(*node.queue, group, kMlid).error().code, Errc::kExists);
  EXPECT_TRUE(node.hca->detach(*node.queue, group, kMlid));
  put_on_cable(0, vector_frame("ud-arp-request"));
  node.poll();
  EXPECT_EQ(node.hca->drops().get(Drop::kIbLid), 1U) << "detached, the MLID is not ours any more";
}

TEST_F(SoftHcaControl, ThousandsOfGroupsAreEachFound) {
  const Node node = make_node(0);
  constexpr unsigned kGroups = 600;
  const auto mgid = [](unsigned i) {
    wire::Gid gid = broadcast_mgid();
    gid.bytes[12] = static_cast<std::byte>(i >> 8);
    gid.bytes[15] = static_cast<std::byte>(i);
    return gid;
  };
  const auto mlid = [](unsigned i) { return static_cast<std::uint16_t>(0xc000 + i % 50); };
  for (unsigned i = 0; i < kGroups; ++i)
    ASSERT_TRUE(node.hca->attach(*node.queue, mgid(i), mlid(i)));
  const Node peer = make_node(1);
  std::size_t received = 0;
  for (unsigned i = 0; i <= kGroups; ++i) {
    rte_mbuf* m = packet(counting(8), group_ah(peer, mgid(i), mlid(i)), wire::kMulticastQpn);
    ASSERT_EQ(peer.queue->tx_burst(&m, 1), 1);
    node.poll();
    for (rte_mbuf* got : node.receive()) {
      rte_pktmbuf_free(got);
      ++received;
    }
  }
  EXPECT_EQ(received, kGroups);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbMgid), 1U);
}

TEST_F(SoftHcaControl, LmcGivesAPortSeveralLids) {
  SoftHcaConfig with_lmc = config(0);
  with_lmc.attr.lid = 8;
  with_lmc.attr.lmc = 2;
  const Node node = make_node(with_lmc);
  const Node peer = make_node(1);
  for (const std::uint16_t lid : std::array<std::uint16_t, 4>{7, 8, 11, 12}) {
    rte_mbuf* m = packet(counting(8), ah_to(peer, lid), node.queue->qpn());
    ASSERT_EQ(peer.queue->tx_burst(&m, 1), 1);
    node.poll();
    const auto pkts = node.receive();
    EXPECT_EQ(pkts.size(), lid >= 8 && lid < 12 ? 1U : 0U) << lid;
    for (rte_mbuf* got : pkts) rte_pktmbuf_free(got);
  }
}

TEST_F(SoftHcaControl, PacketsToTheOwnLidStayInside) {
  const Node node = make_node(0);
  fabric::UdQueue* other = node.hca->create_ud_queue({}).value();
  ASSERT_TRUE(node.hca->set_qkey(*other, kQkey));
  rte_mbuf* pkts[] = {packet(counting(30), ah_to(node, kLid[0]), other->qpn()),
                      packet(counting(31), ah_to(node, kLid[0]), 0x77)};
  ASSERT_EQ(node.queue->tx_burst(pkts, 2), 2);
  EXPECT_TRUE(on_cable(1).empty());
  const auto received = node.receive(other);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(bytes_of(received[0]), counting(30));
  EXPECT_EQ(fabric::meta_of(received[0]).rx.src_qpn, node.queue->qpn());
  EXPECT_EQ(fabric::meta_of(received[0]).rx.slid, kLid[0]);
  rte_pktmbuf_free(received[0]);
  EXPECT_EQ(node.hca->drops().get(Drop::kIbQpn), 1U) << "the checks are those of the wire";
}

TEST_F(SoftHcaControl, GroupPacketsReachTheOtherQueuesOfTheSendingPort) {
  const Node node = make_node(0);
  fabric::UdQueue* other = node.hca->create_ud_queue({}).value();
  ASSERT_TRUE(node.hca->set_qkey(*other, kQkey));
  const auto group = group_ah(node, broadcast_mgid(), kMlid);
  ASSERT_TRUE(node.hca->attach(*node.queue, broadcast_mgid(), kMlid));
  for (const bool attached : {false, true}) {
    if (attached) {
      ASSERT_TRUE(node.hca->attach(*other, broadcast_mgid(), kMlid));
    }
    rte_mbuf* m = packet(counting(30), group, wire::kMulticastQpn);
    ASSERT_EQ(node.queue->tx_burst(&m, 1), 1);
    EXPECT_EQ(on_cable(1).size(), 1U);
    EXPECT_TRUE(node.receive().empty()) << "the sender does not hear itself";
    const auto heard = node.receive(other);
    ASSERT_EQ(heard.size(), attached ? 1U : 0U);
    for (rte_mbuf* got : heard) {
      EXPECT_EQ(bytes_of(got), counting(30));
      rte_pktmbuf_free(got);
    }
  }
}

/// Two links in one partition hear each other, links of different partitions do not, although both
/// have attached the group.
TEST_F(SoftHcaControl, U36_GroupPacketsStayInThePartitionOfTheirQueue) {
  SoftHcaConfig two = config(0);
  two.attr.pkeys = {0xffff, 0x8001};
  const Node node = make_node(two);
  const auto group = group_ah(node, broadcast_mgid(), kMlid);
  ASSERT_TRUE(node.hca->attach(*node.queue, broadcast_mgid(), kMlid));
  const auto link = [&](std::uint16_t pkey) {
    fabric::UdQueueConfig of_link;
    of_link.pkey = pkey;
    fabric::UdQueue* queue = node.hca->create_ud_queue(of_link).value();
    EXPECT_TRUE(node.hca->set_qkey(*queue, kQkey));
    EXPECT_TRUE(node.hca->attach(*queue, broadcast_mgid(), kMlid));
    return queue;
  };
  const auto heard = [&](fabric::UdQueue* from, fabric::UdQueue* by) {
    rte_mbuf* m = packet(counting(30), group, wire::kMulticastQpn);
    EXPECT_EQ(from->tx_burst(&m, 1), 1);
    EXPECT_EQ(on_cable(1).size(), 1U);
    return test::free_all(node.receive(by));
  };
  fabric::UdQueue* const other = link(0x8001);
  EXPECT_EQ(heard(node.queue, other), 0U);
  EXPECT_EQ(heard(other, node.queue), 0U);
  fabric::UdQueue* const same = link(0x7fff);  // as a limited member would name it
  EXPECT_EQ(heard(node.queue, same), 1U);
  EXPECT_EQ(heard(same, node.queue), 1U);
  EXPECT_EQ(heard(node.queue, other), 0U);
  EXPECT_EQ(test::free_all(node.receive(same)), 1U) << "the packet that the other did not hear";
  node.hca->destroy_ud_queue(*same);
  EXPECT_EQ(heard(node.queue, other), 0U);
  EXPECT_EQ(node.all_drops(), 0U);
}

}  // namespace
}  // namespace ipoib::soft
