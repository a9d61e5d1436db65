// SPDX-License-Identifier: BSD-3-Clause
// A worker spreads the packets that it receives over others: each flow goes to one of them and stays
// in order, also while the workers change.
#include "lib/fwd/spread.h"

#include <rte_cycles.h>
#include <rte_random.h>
#include <rte_ring_elem.h>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

#include "tests/support/fake_connected_queues.h"
#include "tests/support/worker_fixture.h"
#include "tests/unit/lib/fwd/traces.h"

namespace ipoib::fwd::test {
namespace {

/// Worker 0 receives everything. Worker 2 sends on eth1, worker 0 on the other interfaces.
class SpreadTest : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    rte_srand(1);  // The seeds of hashes.
    configs.resize(3);
    entries[kEth1].owner = 2;
  }
  void begin(std::uint64_t workers) {
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(1, eth_neighbour(kEth1, "192.168.2.10", mac(0x20)));
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(3, ib_neighbour(kIb0, "fd00:a::2", 7, 0xabcdef));
    worker().spread_over(workers);
    loop();
  }
  /// Runs enough loops for packets that pass two rings.
  void settle() {
    for (int i = 0; i < 4; ++i) loop();
  }
  /// A frame of a flow; its four octets for ports begin with the flow's number.
  static Bytes frame(std::uint8_t flow, std::uint16_t id = 0) {
    return to_eth0(Ip4{.dst = "192.168.2.10", .id = id, .first_payload = flow}.bytes());
  }
  /// Octets of packets from the interface that each worker has handled.
  std::vector<std::uint64_t> handled(table::InterfaceId in) {
    std::vector<std::uint64_t> octets;
    for (std::size_t i = 0; i < configs.size(); ++i)
      octets.push_back(worker(i).counters(in).rx_bytes.get());
    return octets;
  }
  /// The only worker that handles the packet.
  unsigned worker_of(table::InterfaceId in, const Bytes& packet) {
    const auto before = handled(in);
    receive(in, packet);
    settle();
    return grown(before, handled(in));
  }
  static unsigned grown(const std::vector<std::uint64_t>& before,
                        const std::vector<std::uint64_t>& after) {
    std::set<unsigned> found;
    for (unsigned i = 0; i < before.size(); ++i)
      if (after[i] != before[i]) found.insert(i);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? ~0U : *found.begin();
  }
  std::uint64_t handed_on() { return worker().stats().handed_on.get(); }
};

TEST_F(SpreadTest, P14_EachFlowGoesToOneWorker) {
  begin(0b011);
  std::map<unsigned, unsigned> flows;  // by worker
  for (std::uint8_t flow = 0; flow < 64; ++flow) {
    const unsigned first = worker_of(kEth0, frame(flow, 1));
    EXPECT_EQ(worker_of(kEth0, frame(flow, 2)), first);
    ++flows[first];
  }
  EXPECT_EQ(flows.size(), 2U);
  EXPECT_GT(flows[0], 16U);
  EXPECT_GT(flows[1], 16U);
  EXPECT_EQ(sent_by_port(kEth1).size(), 128U);
  EXPECT_EQ(handed_on(), 2 * flows[1]);
  EXPECT_EQ(worker(0).counters(kEth0).rx_packets.get(), 128U);
  EXPECT_EQ(worker(1).counters(kEth0).rx_packets.get(), 0U) << "they are counted once";
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(SpreadTest, P14_AllWorkersOfTheSpreadTakePart) {
  begin(0b111);
  std::map<unsigned, unsigned> flows;
  for (std::uint8_t flow = 0; flow < 96; ++flow) ++flows[worker_of(kEth0, frame(flow))];
  EXPECT_EQ(flows.size(), 3U);
  for (const auto& [number, n] : flows) EXPECT_GT(n, 16U) << number;
}

// Another worker has no queue of eth0 and yet handles all its packets.
TEST_F(SpreadTest, P14_TheWorkerItselfNeedNotTakePart) {
  begin(0b010);
  for (std::uint8_t flow = 0; flow < 8; ++flow) EXPECT_EQ(worker_of(kEth0, frame(flow)), 1U);
}

TEST_F(SpreadTest, P14_WorkersThatDoNotExistAreNotChosen) {
  begin(~std::uint64_t{0b111});
  EXPECT_EQ(worker_of(kEth0, frame(1)), 0U);
  worker().spread_over(~std::uint64_t{0b101});
  for (std::uint8_t flow = 0; flow < 8; ++flow) EXPECT_EQ(worker_of(kEth0, frame(flow)), 1U);
}

TEST_F(SpreadTest, P14_ASingleWorkerKeepsItsPackets) {
  entries[kEth1].owner = 0;
  configs.resize(1);
  begin(~std::uint64_t{0});
  EXPECT_EQ(worker_of(kEth0, frame(1)), 0U);
  EXPECT_EQ(handed_on(), 0U);
}

TEST_F(SpreadTest, P14_TestModesAndAStoppedNodeDoNotSpread) {
  begin(0b010);
  settings.mode = ForwardMode::kRxonly;
  EXPECT_EQ(worker_of(kEth0, frame(1)), 0U);
  settings.mode = ForwardMode::kRoute;
  EXPECT_EQ(worker_of(kEth0, frame(1)), 1U);
  settings.forwarding = false;
  EXPECT_EQ(worker_of(kEth0, frame(1)), 0U);
  expect_drop(kEth0, Drop::kForwardingStopped);
  EXPECT_EQ(handed_on(), 1U);
}

TEST_F(SpreadTest, P14_AnInterfaceThatIsDownDropsBefore) {
  begin(0b010);
  entries[kEth0].admin_down = true;
  feed(kEth0, frame(1));
  expect_drop(kEth0, Drop::kInterfaceDown);
  EXPECT_EQ(handed_on(), 0U);
}

TEST_F(SpreadTest, P14_PacketsThatFindTheRingFullAreCounted) {
  begin(0b010);
  settings.burst = 64;
  for (std::uint8_t i = 0; i < 70; ++i) receive(kEth0, frame(i));
  worker().iterate();
  worker().iterate();
  EXPECT_EQ(handed_on(), 63U);
  EXPECT_EQ(drops(kEth0, Drop::kHandoffRingFull), 7U);
  settle();
  EXPECT_EQ(sent_by_port(kEth1).size(), 63U);
  EXPECT_EQ(all_drops(), 7U);
}

TEST_F(SpreadTest, P14_OtherPacketsStay) {
  begin(0b010);
  const Bytes whole = frame(1);
  const std::vector<Bytes> frames = {
      ethernet(kBroadcastMac, mac(0x10), 0x0806, Bytes(28)),
      to_eth0_6(Ip6{.dst = "fd00:1::1", .body = icmp6(135), .next_header = 58}.bytes()),
      to_eth0_6(Ip6{.dst = "ff02::16", .body = Bytes(28), .next_header = 0}.bytes()),
      to_eth0(Ip4{.dst = "224.0.0.22", .protocol = wire::IpProto::kIgmp}.bytes()),
      ethernet(mac(0xa0), mac(0x10), 0x0801, Ip4{}.bytes()),
      to_eth0(Ip6{}.bytes()),
      to_eth0_6(Ip4{.payload_len = 60}.bytes()),
      to_eth0_6(Bytes(39, std::byte{0x60})),
      Bytes{whole.begin(), whole.begin() + 14 + 19},
      Bytes{whole.begin(), whole.begin() + 13},
      {},
  };
  for (const Bytes& packet : frames) feed(kEth0, packet);
  EXPECT_EQ(handed_on(), 0U);
  EXPECT_EQ(worker().stats().rx_packets.get(), frames.size());
  EXPECT_EQ(worker(1).stats().busy_loops.get(), 1U) << "the loop of the neighbours";
  EXPECT_EQ(punted(1).size(), 0U);
}

// Two interfaces may receive one mbuf. Its ingress is written into it.
TEST_F(SpreadTest, P14_PacketsThatAnotherOwnerReadsStay) {
  begin(0b010);
  rte_mbuf* const m = mbuf(frame(1));
  rte_mbuf_refcnt_update(m, 1);
  m->port = 77;
  receive(kEth0, m);
  settle();
  EXPECT_EQ(handed_on(), 0U);
  EXPECT_EQ(m->port, 77);
  EXPECT_EQ(sent_by_port(kEth1).size(), 1U);
  rte_pktmbuf_free(m);
}

TEST_F(SpreadTest, P14_FragmentsOfADatagramStayTogether) {
  begin(0b011);
  std::set<unsigned> workers;
  for (std::uint8_t port = 0; port < 16; ++port) {
    for (const unsigned fragment : {0x2000U, 0x2001U, 0x0002U})
      workers.insert(
          worker_of(kEth0, to_eth0(Ip4{.dst = "192.168.2.10",
                                       .flags_offset = static_cast<std::uint16_t>(fragment),
                                       .first_payload = static_cast<std::uint8_t>(port + fragment)}
                                       .bytes())));
  }
  EXPECT_EQ(workers.size(), 1U);
}

TEST_F(SpreadTest, P14_Ipv6FlowsAreSpread) {
  begin(0b011);
  std::map<unsigned, unsigned> flows;
  for (std::uint32_t label = 0; label < 64; ++label) {
    const Bytes packet = to_eth0_6(Ip6{.flow = label}.bytes());
    const unsigned first = worker_of(kEth0, packet);
    EXPECT_EQ(worker_of(kEth0, packet), first);
    ++flows[first];
  }
  EXPECT_GT(flows[0], 16U);
  EXPECT_GT(flows[1], 16U);
  EXPECT_EQ(sent_by_link(kIb0).size(), 128U);
}

TEST_F(SpreadTest, P14_PacketsOfALinkAreSpread) {
  for (const wire::Encapsulation order :
       {wire::Encapsulation::kTypeFirst, wire::Encapsulation::kTypeLast}) {
    entries[kIb0].encapsulation = order;
    if (order == wire::Encapsulation::kTypeFirst) begin(0b011);
    std::map<unsigned, unsigned> flows;
    for (std::uint8_t flow = 0; flow < 64; ++flow) {
      Bytes packet =
          to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.2.10", .first_payload = flow}.bytes());
      if (order == wire::Encapsulation::kTypeLast)
        std::rotate(packet.begin(), packet.begin() + 2, packet.begin() + 4);
      ++flows[worker_of(kIb0, packet)];
    }
    EXPECT_GT(flows[0], 16U);
    EXPECT_GT(flows[1], 16U);
    EXPECT_EQ(sent_by_port(kEth1).size(), 64U);
  }
}

// The other worker knows where a packet came from.
TEST_F(SpreadTest, P14_MetadataStaysWithThePacket) {
  begin(0b010);
  receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.0.1"}.bytes()));
  receive(kEth0, to_eth0(Ip4{.dst = "10.0.0.1"}.bytes()));
  settle();
  const auto local = punted(1);
  ASSERT_EQ(local.size(), 2U);
  std::set<table::InterfaceId> in;
  for (const Punted& p : local) {
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kLocal);
    in.insert(p.rx.iface);
    if (p.rx.iface == kIb0) {
      EXPECT_EQ(p.rx.src_qpn, 0x77U);
    }
  }
  EXPECT_EQ(in, (std::set<table::InterfaceId>{kEth0, kIb0}));
}

TEST_F(SpreadTest, P14_MessagesOfConnectionsAreSpread) {
  FakeReceiveQueue messages;
  connect(kIb0, messages);
  begin(0b010);
  rte_mbuf* const m = mbuf(to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.0.1"}.bytes()));
  fabric::meta_of(m).rx = {};
  fabric::meta_of(m).rx.transport = fabric::Transport::kRc;
  fabric::meta_of(m).queue = 0x1234;
  messages.incoming.push_back(m);
  settle();
  msg::Up message;
  ASSERT_EQ(rte_ring_sc_dequeue_elem(up[1], &message, sizeof(message)), 0);
  EXPECT_EQ(message.mbuf, m);
  EXPECT_EQ(fabric::meta_of(m).rx.iface, kIb0);
  EXPECT_EQ(fabric::meta_of(m).rx.transport, fabric::Transport::kRc);
  EXPECT_EQ(fabric::meta_of(m).queue, 0x1234U);
  rte_pktmbuf_free(m);
}

TEST_F(SpreadTest, P14_ATraceFollowsThePacketToTheOtherWorker) {
  begin(0b010);
  msg::trace::Session session{{}, 10};
  msg::Down message{};
  message.kind = msg::Down::Kind::kTrace;
  message.trace = &session;
  for (std::size_t i = 0; i < configs.size(); ++i) send_down(message, i);
  loop();
  feed(kEth0, frame(1));
  const std::string kept = std::to_string(table::kNoInterface);
  EXPECT_EQ(paths_of(session),
            (std::vector<Path>{
                {"eth_input", "handed to worker 1 for " + kept},
                {"handoff_input", "ip4_input", "route 192.168.2.10 kind 4 to 1",
                 "neighbour 192.168.2.10 on 1 state 2 ethernet 02:00:00:00:00:20",
                 "handed to worker 2 for 1"},
                {"handoff_input", "sent 1 ethernet"},
            }));
  EXPECT_EQ(session.record(1)->in, kEth0);
  EXPECT_EQ(session.record(2)->in, table::kNoInterface);
}

/// Each worker is a thread of its own in the view of the grace periods. Time stands still.
class SpreadChanges : public SpreadTest {
 protected:
  void begin_changes(std::uint64_t workers) {
    begin(workers);
    for (unsigned i = 0; i < configs.size(); ++i) {
      ASSERT_EQ(rte_rcu_qsbr_thread_register(rcu, i), 0);
      rte_rcu_qsbr_thread_online(rcu, i);
    }
    now = rte_rdtsc() + rte_get_tsc_hz();
  }
  void step(std::size_t number) { worker(number).iterate(now); }
  /// Changes the workers while a packet of the flow is in the ring to worker 1, and feeds the next
  /// one.
  void change_on_the_way(std::uint64_t workers) {
    begin_changes(0b010);
    receive(kEth0, frame(1, 1));
    step(0);
    worker().spread_over(workers);
    receive(kEth0, frame(1, 2));
  }
  std::uint64_t now = 0;
};

// Workers run at random, and the workers of the spread change at random. Each flow leaves in order.
TEST_F(SpreadChanges, P14_KeepTheOrderOfEachFlow) {
  constexpr std::uint8_t kFlows = 16;
  begin_changes(0);
  settings.burst = 8;
  std::mt19937 random{3};
  std::array<std::uint16_t, kFlows> next{};
  std::map<std::uint8_t, std::vector<std::uint16_t>> sent;
  std::size_t all = 0;
  const auto collect = [&] {
    for (const Bytes& bytes : sent_by_port(kEth1)) {
      const auto id = static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[18]) << 8 |
                                                 std::to_integer<unsigned>(bytes[19]));
      sent[std::to_integer<std::uint8_t>(bytes[34])].push_back(id);
      ++all;
    }
  };
  for (int i = 0; i < 40'000; ++i) {
    if (random() % 4 == 0) {
      const auto flow = static_cast<std::uint8_t>(random() % kFlows);
      receive(kEth0, frame(flow, next[flow]++));
    }
    if (random() % 64 == 0) worker().spread_over(random() % 8);
    step(random() % 3);
    // The sender of eth1 lags behind at times, so that packets wait in the rings to it.
    if (random() % 256 == 0)
      for (int k = 0; k < 24; ++k) step(random() % 2);
    collect();
  }
  for (int i = 0; i < 100; ++i) {
    for (const std::size_t number : {0U, 1U, 2U}) step(number);
    collect();
  }
  std::size_t fed = 0;
  for (std::uint8_t flow = 0; flow < kFlows; ++flow) {
    EXPECT_TRUE(std::is_sorted(sent[flow].begin(), sent[flow].end())) << int{flow};
    fed += next[flow];
  }
  EXPECT_EQ(all + all_drops(), fed);
  EXPECT_GT(all, fed * 9 / 10);
  EXPECT_GT(handed_on(), fed / 10);
}

// Packets that it read while another worker still has earlier ones would overtake them.
TEST_F(SpreadChanges, P14_WaitUntilEarlierPacketsHaveLeft) {
  change_on_the_way(0);
  for (int i = 0; i < 3; ++i) step(0);
  EXPECT_EQ(worker().stats().rx_packets.get(), 1U) << "the first one is in the ring to worker 1";
  step(1);
  for (int i = 0; i < 3; ++i) step(0);
  EXPECT_EQ(worker().stats().rx_packets.get(), 1U) << "it is in the ring to worker 2";
  // It goes on with its other work.
  send_on_interface(Ip4{.src = "10.0.0.1"}.bytes(), kEth0);
  step(0);
  EXPECT_EQ(worker().applied(), 5U);
  for (int i = 0; i < 3; ++i)
    for (const std::size_t number : {2U, 1U, 0U}) step(number);
  EXPECT_EQ(worker().stats().rx_packets.get(), 2U);
  settle();
  EXPECT_EQ(sent_by_port(kEth1).size(), 2U);
}

// A worker that has taken packets off its ring may still be sending them.
TEST_F(SpreadChanges, P14_WaitForTheLoopsOfAllWorkers) {
  begin_changes(0);
  worker().spread_over(0b010);
  receive(kEth0, frame(1));
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t number : {0U, 0U, 1U, 0U}) step(number);
    EXPECT_EQ(worker().stats().rx_packets.get(), 0U) << round;
    step(2);
    step(0);
  }
  EXPECT_EQ(worker().stats().rx_packets.get(), 1U);
  settle();
  EXPECT_EQ(sent_by_port(kEth1).size(), 1U);
}

TEST_F(SpreadChanges, P14_AWorkerThatHangsDelaysThisOneABit) {
  change_on_the_way(0);
  step(0);
  now += rte_get_tsc_hz() / 250;
  step(0);
  EXPECT_EQ(worker().stats().rx_packets.get(), 1U);
  now += rte_get_tsc_hz() / 500;
  step(0);
  EXPECT_EQ(worker().stats().rx_packets.get(), 2U);
  settle();
  EXPECT_EQ(sent_by_port(kEth1).size(), 2U);
}

// Management wants the former workers again before the pause is over.
TEST_F(SpreadChanges, P14_AreGivenUpIfTheFormerWorkersAreWantedAgain) {
  change_on_the_way(0b100);
  step(0);
  EXPECT_EQ(handed_on(), 1U);
  worker().spread_over(0b010);
  step(0);
  EXPECT_EQ(handed_on(), 2U);
  settle();
  EXPECT_EQ(sent_by_port(kEth1).size(), 2U);
}

}  // namespace
}  // namespace ipoib::fwd::test
