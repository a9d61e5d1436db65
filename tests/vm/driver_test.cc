// SPDX-License-Identifier: BSD-3-Clause
// The verbs driver on two connected ports of the kernel's software device, rxe0 and rxe1. The test
// runs in the virtual machine of tests/vm, which has them.
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "drivers/verbs/verbs_hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/ipoib.h"
#include "tests/support/eal.h"
#include "tests/support/silent_mad_port.h"

namespace ipoib::verbs {
namespace {

constexpr std::uint32_t kQkey = 0x8001'0b1b;  // a controlled Q_Key
constexpr Duration kPatience = std::chrono::seconds(20);

struct Port {
  std::unique_ptr<VerbsHca> hca;
  fabric::UdQueue* ud = nullptr;
  fabric::ReceiveQueue* receive = nullptr;
  std::vector<fabric::PortEvent> events;
  std::vector<fabric::QueueEvent> queue_events;
};

class RxeTest : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = rte_pktmbuf_pool_create("mbufs", 16'383, 0, 0, 4096 + 512 + RTE_PKTMBUF_HEADROOM,
                                    SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
    for (unsigned i = 0; i < ports_.size(); ++i) open(i);
  }
  void TearDown() override {
    for (Port& port : ports_) {
      if (port.hca && port.receive != nullptr) port.hca->destroy_receive_queue(*port.receive);
      if (port.hca && port.ud != nullptr) port.hca->destroy_ud_queue(*port.ud);
      port.hca.reset();
    }
    EXPECT_EQ(rte_mempool_in_use_count(pool_), 0U) << "mbufs are lost";
    rte_mempool_free(pool_);
  }

  void open(unsigned i) {
    VerbsHcaConfig config;
    config.name = fmt::format("hca{}", i);
    config.device = fmt::format("rxe{}", i);
    config.mtu = 5;
    config.administrator = true;
    config.pool = pool_;
    config.mad_port = [](std::uint8_t /*gid_index*/) {
      return std::make_unique<test::SilentMadPort>();
    };
    auto hca = VerbsHca::create(config);
    ASSERT_TRUE(hca) << hca.error().what;
    Port& port = ports_[i];
    port.hca = std::move(*hca);
    port.ud = *port.hca->create_ud_queue({});
    ASSERT_EQ(port.hca->problem(), "");
    ASSERT_NE(port.ud->qpn(), 0U);
    ASSERT_TRUE(port.hca->set_qkey(*port.ud, kQkey));
  }

  void run_once() {
    for (Port& port : ports_) {
      while (const auto event = port.hca->next_event()) port.events.push_back(*event);
      while (const auto event = port.hca->next_queue_event()) port.queue_events.push_back(*event);
    }
  }
  [[nodiscard]] bool eventually(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < limit) {
      run_once();
      if (condition()) return true;
    }
    return false;
  }

  [[nodiscard]] rte_mbuf* packet(std::size_t octets, fabric::AhIndex ah = fabric::kNoAh,
                                 std::uint32_t qpn = 0) {
    rte_mbuf* const first = rte_pktmbuf_alloc(pool_);
    rte_mbuf* last = first;
    std::size_t left = octets;
    for (std::size_t at = 0; left != 0;) {
      const auto n = static_cast<std::uint16_t>(std::min<std::size_t>(left, 4096));
      auto* const data = reinterpret_cast<std::byte*>(rte_pktmbuf_append(last, n));
      for (std::uint16_t i = 0; i < n; ++i, ++at) data[i] = static_cast<std::byte>(at * 7);
      left -= n;
      if (last != first) {
        first->pkt_len += n;
        ++first->nb_segs;
      }
      if (left != 0) last = last->next = rte_pktmbuf_alloc(pool_);
    }
    fabric::meta_of(first).tx = {.ah = ah, .qpn = qpn, .iface = 0, .connected = false};
    return first;
  }
  static void expect_contents(const rte_mbuf* m, std::size_t octets) {
    ASSERT_EQ(m->pkt_len, octets);
    std::size_t at = 0;
    for (; m != nullptr; m = m->next)
      for (std::uint16_t i = 0; i < m->data_len; ++i, ++at)
        ASSERT_EQ(rte_pktmbuf_mtod(m, const std::byte*)[i], static_cast<std::byte>(at * 7)) << at;
  }
  /// Polls until `n` packets came or kPatience has passed. The caller frees the packets.
  template <class Queue>
  [[nodiscard]] std::vector<rte_mbuf*> receive(Queue& queue, std::size_t n) {
    std::vector<rte_mbuf*> all;
    static_cast<void>(eventually([&] {
      std::array<rte_mbuf*, 32> pkts;
      const auto got = queue.rx_burst(pkts.data(), pkts.size());
      all.insert(all.end(), pkts.begin(), pkts.begin() + got);
      for (Port& port : ports_) idle(port, queue);
      return all.size() >= n;
    }));
    return all;
  }
  /// Polls the other queues of the port. A queue polls its send completions in rx_burst().
  template <class Queue>
  void idle(Port& port, const Queue& polled) {
    rte_mbuf* m = nullptr;
    if (static_cast<const void*>(port.ud) != &polled && port.ud->rx_burst(&m, 1) != 0)
      rte_pktmbuf_free(m);
    if (port.receive != nullptr && static_cast<const void*>(port.receive) != &polled &&
        port.receive->rx_burst(&m, 1) != 0)
      rte_pktmbuf_free(m);
  }
  /// Text for failures: the drops of the ports and the states of the connections.
  [[nodiscard]] std::string told() const {
    std::string text;
    for (const Port& port : ports_) {
      text += fmt::format("{}:", port.hca->name());
      for (std::size_t i = 0; i < kDropCount; ++i)
        if (const auto n = port.hca->drops().get(static_cast<Drop>(i)); n != 0)
          text += fmt::format(" {} {}", drop_name(static_cast<Drop>(i)), n);
      text += fmt::format(" {}\n", port.hca->problem());
    }
    for (unsigned i = 0; i < 2; ++i) {
      if (connected_[i] == nullptr) continue;
      const auto info = ports_[i].hca->info(*connected_[i]);
      text += fmt::format("{}: {} ({}), {} sent, {} done\n", i, to_string(info.state),
                          to_string(info.error), info.counters.tx_messages, info.counters.tx_done);
    }
    return text;
  }
  static void free(const std::vector<rte_mbuf*>& pkts) {
    for (rte_mbuf* m : pkts) rte_pktmbuf_free(m);
  }

  [[nodiscard]] fabric::AhAttr way_to(unsigned i) const {
    fabric::AhAttr to;
    to.dlid = fabric::kElsewhereLid;
    to.global = true;
    to.hop_limit = 64;
    to.dgid = ports_[i].hca->attr().gid();
    return to;
  }
  void connect(fabric::Transport transport);

  rte_mempool* pool_ = nullptr;
  std::array<Port, 2> ports_;
  std::array<fabric::ConnectedQueue*, 2> connected_{};
};

TEST_F(RxeTest, PortIsWhatTheKernelSays) {
  for (const Port& port : ports_) {
    const fabric::PortAttr& attr = port.hca->attr();
    EXPECT_EQ(attr.state, fabric::PortState::kActive);
    EXPECT_EQ(attr.gid_prefix, wire::kDefaultGidPrefix);
    EXPECT_NE(attr.guid, 0U);
    EXPECT_EQ(attr.lid, fabric::kOwnLid);
    EXPECT_EQ(attr.mtu, 5);
    EXPECT_EQ(attr.pkeys, std::vector<std::uint16_t>{0xffff});
  }
}

TEST_F(RxeTest, DatagramsOfEverySize) {
  const auto ah = ports_[0].hca->create_ah(way_to(1));
  ASSERT_TRUE(ah) << ah.error().what;
  for (const std::size_t octets : {4U, 64U, 128U, 129U, 2048U, 4096U}) {
    std::array<rte_mbuf*, 32> burst;
    for (rte_mbuf*& m : burst) m = packet(octets, *ah, ports_[1].ud->qpn());
    ASSERT_EQ(ports_[0].ud->tx_burst(burst.data(), 32), 32);
    const auto got = receive(*ports_[1].ud, 32);
    ASSERT_EQ(got.size(), 32U) << octets << "\n" << told();
    for (const rte_mbuf* m : got) {
      expect_contents(m, octets);
      const auto& meta = fabric::meta_of(const_cast<rte_mbuf*>(m)).rx;
      EXPECT_EQ(meta.src_qpn, ports_[0].ud->qpn());
      EXPECT_EQ(meta.grh_offset, 40);
      EXPECT_FALSE(meta.multicast);
      EXPECT_EQ(std::memcmp(rte_pktmbuf_mtod(m, const char*) - 40 + 8,
                            ports_[0].hca->attr().gid().bytes.data(), 16),
                0);
    }
    free(got);
  }
  ports_[0].hca->destroy_ah(*ah);
}

TEST_F(RxeTest, MulticastReachesWhoIsAttached) {
  const wire::Gid mgid = wire::Gid::of(0xff12'401b'ffff'0000, 0x0000'0000'ffff'ffff);
  ASSERT_TRUE(ports_[1].hca->attach(*ports_[1].ud, mgid, 0xc000));
  fabric::AhAttr to;
  to.dlid = 0xc001;
  to.global = true;
  to.dgid = mgid;
  const auto ah = ports_[0].hca->create_ah(to);
  ASSERT_TRUE(ah) << ah.error().what;
  std::array<rte_mbuf*, 1> one = {packet(100, *ah, wire::kMulticastQpn)};
  ASSERT_EQ(ports_[0].ud->tx_burst(one.data(), 1), 1);
  auto got = receive(*ports_[1].ud, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_TRUE(fabric::meta_of(got[0]).rx.multicast);
  expect_contents(got[0], 100);
  free(got);

  ASSERT_TRUE(ports_[1].hca->detach(*ports_[1].ud, mgid, 0xc000));
  const auto direct = ports_[0].hca->create_ah(way_to(1));
  ASSERT_TRUE(direct);
  std::array<rte_mbuf*, 2> two = {packet(200, *ah, wire::kMulticastQpn),
                                  packet(300, *direct, ports_[1].ud->qpn())};
  ASSERT_EQ(ports_[0].ud->tx_burst(two.data(), 2), 2);
  got = receive(*ports_[1].ud, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0]->pkt_len, 300U) << "the group was left";
  free(got);
}

TEST_F(RxeTest, FailedQueuePairWorksAgain) {
  const auto ah = ports_[0].hca->create_ah(way_to(1));
  ASSERT_TRUE(ah);
  const std::uint32_t qpn = ports_[1].ud->qpn();
  // rxe puts a queue pair into the error state if it sends while its link is down.
  ASSERT_EQ(std::system("ip link set veth0 down"), 0);
  std::array<rte_mbuf*, 1> one = {packet(100, *ah, qpn)};
  ports_[0].ud->tx_burst(one.data(), 1);
  rte_mbuf* m = nullptr;
  EXPECT_TRUE(eventually([&] { return ports_[0].hca->attr().state == fabric::PortState::kDown; }));
  ASSERT_EQ(std::system("ip link set veth0 up"), 0);
  ASSERT_TRUE(eventually([&] {
    one = {packet(100, *ah, qpn)};
    ports_[0].ud->tx_burst(one.data(), 1);
    if (ports_[0].ud->rx_burst(&m, 1) != 0) rte_pktmbuf_free(m);
    return ports_[1].ud->rx_burst(&m, 1) == 1;
  }));
  expect_contents(m, 100);
  rte_pktmbuf_free(m);
  EXPECT_GT(ports_[0].hca->drops().get(Drop::kIbTxFlushed), 0U) << told();
}

void RxeTest::connect(fabric::Transport transport) {
  for (unsigned i = 0; i < 2; ++i) {
    auto receive = ports_[i].hca->create_receive_queue({.depth = 64, .max_message = 65'524});
    ASSERT_TRUE(receive) << receive.error().what;
    ports_[i].receive = *receive;
    ASSERT_EQ(ports_[i].hca->problem(), "");
    auto queue = ports_[i].hca->create_connected_queue(
        {.transport = transport, .receive_queue = *receive, .send_depth = 64});
    ASSERT_TRUE(queue) << queue.error().what;
    connected_[i] = *queue;
  }
  for (unsigned i = 0; i < 2; ++i) {
    const auto receives =
        ports_[i].hca->set_ready_to_receive(*connected_[i], {.peer_qpn = connected_[1 - i]->qpn(),
                                                             .path = way_to(1 - i),
                                                             .path_mtu = 5,
                                                             .rx_psn = 100 + i});
    ASSERT_TRUE(receives) << receives.error().what;
  }
  for (unsigned i = 0; i < 2; ++i) {
    const auto sends = ports_[i].hca->set_ready_to_send(*connected_[i], {.tx_psn = 100 + (1 - i),
                                                                         .max_message = 65'524,
                                                                         .retry_count = 3,
                                                                         .rnr_retry = 3,
                                                                         .ack_timeout = 14});
    ASSERT_TRUE(sends) << sends.error().what;
  }
}

class ConnectedRxeTest : public RxeTest, public testing::WithParamInterface<fabric::Transport> {};

TEST_P(ConnectedRxeTest, LongMessagesBothWays) {
  ASSERT_NO_FATAL_FAILURE(connect(GetParam()));
  for (const std::size_t octets : {4U, 100U, 4'097U, 5'000U, 65'524U}) {
    for (unsigned i = 0; i < 2; ++i) {
      std::array<rte_mbuf*, 8> burst;
      for (rte_mbuf*& m : burst) m = packet(octets);
      ASSERT_EQ(connected_[i]->tx_burst(burst.data(), 8), 8);
      const auto got = receive(*ports_[1 - i].receive, 8);
      ASSERT_EQ(got.size(), 8U) << octets << "\n" << told();
      for (const rte_mbuf* m : got) expect_contents(m, octets);
      EXPECT_EQ(fabric::meta_of(got[0]).queue, connected_[1 - i]->qpn());
      free(got);
    }
  }
  rte_mbuf* none = nullptr;
  EXPECT_TRUE(eventually([&] {
    ports_[0].receive->rx_burst(&none, 1);
    return ports_[0].hca->info(*connected_[0]).counters.tx_done == 40;
  }));
  EXPECT_EQ(ports_[0].hca->info(*connected_[0]).counters.rx_messages, 40U);
  for (unsigned i = 0; i < 2; ++i) ports_[i].hca->destroy_connected_queue(*connected_[i]);
}

INSTANTIATE_TEST_SUITE_P(Transports, ConnectedRxeTest,
                         testing::Values(fabric::Transport::kRc, fabric::Transport::kUc),
                         [](const auto& row) { return std::string{to_string(row.param)}; });

TEST_F(RxeTest, PeerThatIsGoneEndsTheConnection) {
  ASSERT_NO_FATAL_FAILURE(connect(fabric::Transport::kRc));
  ports_[1].hca->destroy_connected_queue(*connected_[1]);
  std::array<rte_mbuf*, 4> burst;
  for (rte_mbuf*& m : burst) m = packet(1'000);
  ASSERT_EQ(connected_[0]->tx_burst(burst.data(), 4), 4);
  rte_mbuf* none = nullptr;
  ASSERT_TRUE(eventually([&] {
    ports_[0].receive->rx_burst(&none, 1);
    return !ports_[0].queue_events.empty();
  }));
  EXPECT_EQ(ports_[0].queue_events[0].qpn, connected_[0]->qpn());
  const auto info = ports_[0].hca->info(*connected_[0]);
  EXPECT_EQ(info.state, fabric::QueueState::kError);
  EXPECT_EQ(info.error, fabric::QueueError::kRetryExceeded);
  EXPECT_TRUE(eventually([&] {
    ports_[0].receive->rx_burst(&none, 1);
    return ports_[0].hca->drops().get(Drop::kIbTxFlushed) == 4;
  }));
  ports_[0].hca->destroy_connected_queue(*connected_[0]);
}

TEST_F(RxeTest, DeviceIsGivenUpAndTakenAgain) {
  const auto ah = ports_[0].hca->create_ah(way_to(1));
  ASSERT_TRUE(ah);
  // The command waits until the driver closes the device.
  ASSERT_EQ(std::system("rdma link delete rxe1 & echo $! >/tmp/delete.pid"), 0);
  ASSERT_TRUE(eventually([&] {
    return !ports_[1].events.empty() && ports_[1].events.front() == fabric::PortEvent::kFatal;
  }));
  EXPECT_EQ(ports_[1].ud->qpn(), 0U);
  std::array<rte_mbuf*, 1> one = {packet(100, 0, 7)};
  EXPECT_EQ(ports_[1].ud->tx_burst(one.data(), 1), 1);
  EXPECT_EQ(ports_[1].hca->drops().get(Drop::kIbPortDown), 1U);
  ASSERT_TRUE(eventually(
      [] { return std::system("rdma link add rxe1 type rxe netdev veth1 2>/dev/null") == 0; }));
  ASSERT_TRUE(eventually([&] { return ports_[1].ud->qpn() != 0; }));
  EXPECT_EQ(ports_[1].events.back(), fabric::PortEvent::kPortActive);
  one = {packet(100, *ah, ports_[1].ud->qpn())};
  ASSERT_EQ(ports_[0].ud->tx_burst(one.data(), 1), 1);
  const auto got = receive(*ports_[1].ud, 1);
  ASSERT_EQ(got.size(), 1U);
  free(got);
}

}  // namespace
}  // namespace ipoib::verbs
