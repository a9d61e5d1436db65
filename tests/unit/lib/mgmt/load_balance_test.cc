// SPDX-License-Identifier: BSD-3-Clause
// A node whose workers have different loads, in virtual time: hosts move from a busy worker, one that
// hangs gets no connections, and the packets of a host that fills a worker are spread by flow.
#include <rte_random.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/log_level.h"
#include "lib/wire/arp.h"
#include "tests/support/drops.h"
#include "tests/support/logged.h"
#include "tests/support/sim_tsc.h"
#include "tests/unit/lib/mgmt/shared_port_fixture.h"

namespace ipoib::mgmt {
namespace {

/// Time passes by ticks only. Both workers have a queue pair of ib0, and hosts with the LIDs 9 to 24
/// are its neighbours.
struct LoadTest : SharedPortFixture {
  void start() {
    rte_srand(1);  // The keys of hashes.
    NodeConfig c = config();
    for (std::uint16_t lid = 9; lid < 25; ++lid)
      c.neighbours.push_back({"ib0", host(lid), address_of(lid, 0x00), lid});
    bring_up(c);
  }
  void bring_up(NodeConfig c) {
    test::sim_tsc = 77 * rte_get_tsc_hz();
    c.hcas[0].wire = wide.name;
    begin(c, make_timed_soft, &test::read_sim_tsc);
    for (int i = 0; i < 500; ++i) tick();
    ASSERT_EQ(link().state, "up");
  }
  /// `flags`: 0x80 offers RC.
  static std::string address_of(std::uint16_t lid, unsigned flags) {
    return fmt::format("{:02x}:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0c:{:02x}", flags,
                       lid);
  }
  static wire::IpAddr host(std::uint16_t lid) { return wire::IpAddr::v4(0x0a00'0000U + lid); }
  LinkInfo link() const { return node->faces.view.links()[0]; }
  void tick() {
    test::sim_tsc += rte_get_tsc_hz() / 1000;
    pass();
  }
  /// The port with that LID sends packets of an unknown type to the queue pair of worker 0, one by
  /// each queue of the cable.
  void give_packets(std::uint16_t from) {
    for (rte_ring* ring : wide.in) give(ring, cable_frame(link(), link().qpn, from));
  }
  /// A host whose packets worker 0 receives.
  std::uint16_t host_of_worker_0() const {
    std::uint16_t lid = 9;
    while (lid < 25 && queue_pair_of(lid) != 0) ++lid;
    EXPECT_LT(lid, 25);
    return lid;
  }
  unsigned queue_pair_of(std::uint16_t lid) const {
    const auto row = node->parts->links[0]->control().neighbour(host(lid), node->parts->now());
    return node->parts->links[0]->control().queue_pair_for(*wire::parse_hw_addr(row->lladdr));
  }
  /// QPNs in the ARP packets to the host that the node has sent.
  std::vector<std::uint32_t> named_to(std::uint16_t lid) {
    std::vector<std::uint32_t> qpns;
    for (rte_ring* ring : wide.out) {
      while (rte_mbuf* const m = test::next_of(ring)) {
        const auto frame = test::take(m);
        const std::span packet = std::span{frame}.subspan(sizeof(soft::EthHdr));
        if (wire::read<wire::Lrh>(packet)->dlid.host() != lid) continue;
        const auto arp =
            wire::parse_arp(wire::LinkKind::kInfiniband, packet.subspan(8 + 12 + 8 + 4));
        if (arp) qpns.push_back(arp->sender_hw.datagram_addr().qpn);
      }
    }
    return qpns;
  }

  TwoQueues wide;
};

TEST_F(LoadTest, P14_WorkerThatHangsGetsNoNewConnections) {
  NodeConfig c = config();
  c.links[0].mode = LinkMode::kConnectedRc;
  c.links[0].connection.open = link::OpenPolicy::kAlways;
  bring_up(c);
  const auto connect = [this](std::uint16_t first) {
    for (std::uint16_t lid = first; lid < first + 4; ++lid)
      EXPECT_TRUE(node->parts->links[0]->control().add_static(host(lid), address_of(lid, 0x80), lid,
                                                              0, node->parts->now()));
    std::map<unsigned, unsigned> of_worker;
    node->runner.run_once();
    for (const link::ConnectionInfo& row : node->faces.view.connections("ib0"))
      ++of_worker[row.worker];
    return of_worker;
  };
  EXPECT_EQ(connect(9), (std::map<unsigned, unsigned>{{0, 2}, {1, 2}}));
  for (int i = 0; i < 12'000; ++i) {
    test::sim_tsc += rte_get_tsc_hz() / 1000;
    node->runner.run_once();
    node->parts->workers.all()[0].worker->iterate(node->parts->clock.tsc());
  }
  // Nothing answered the first requests. They were repeated, and none by worker 1.
  auto of_worker = connect(20);
  EXPECT_GE(of_worker[0], 4U);
  EXPECT_EQ(of_worker[1], 0U);
}

// Half of the packets that keep worker 0 busy are one host's.
TEST_F(LoadTest, P14_AHostLeavesABusyWorker) {
  start();
  const std::uint16_t lid = host_of_worker_0();
  static_cast<void>(named_to(lid));
  const auto pass_period = [&](bool busy) {
    for (int i = 0; i < 5'050; ++i) {
      if (busy) {
        give_packets(lid);
        give_packets(0x77);  // No neighbour.
      }
      tick();
    }
  };
  pass_period(false);
  EXPECT_EQ(link().counters.neighbours_moved, 0U) << "nothing is received";
  pass_period(true);
  pass_period(true);
  EXPECT_EQ(link().counters.neighbours_moved, 1U);
  EXPECT_EQ(queue_pair_of(lid), 1U);
  const auto* const other = node->parts->links[0]->queues().ud[1];
  EXPECT_EQ(named_to(lid), (std::vector{other->qpn()}));
  pass_period(true);
  EXPECT_EQ(link().counters.neighbours_moved, 1U) << "it has a rest";
}

/// One host of ib0 sends 16 flows to a host of eth0, which keeps worker 0 busy.
struct HotNeighbourTest : LoadTest {
  static constexpr std::uint8_t kFlows = 16;

  void SetUp() override {
    set_log_level(LogArea::kMgmt, LogLevel::kInfo);
    start();
    ASSERT_TRUE(node->faces.control.add_neighbour(
        {"eth0", *wire::parse_ip("192.168.1.77"), "02:00:00:00:00:77"}));
    lid = host_of_worker_0();
  }
  void TearDown() override {
    LoadTest::TearDown();
    set_log_level(LogArea::kMgmt, LogLevel::kNotice);
  }
  /// Each worker can handle `n` packets in a tick, and as many arrive for each that has work.
  void pass_period(unsigned n) {
    for (int i = 0; i < 5'050; ++i) {
      const std::size_t workers = spread_over().empty() ? 1 : spread_over().size();
      for (unsigned k = 0; k < n * workers; ++k) {
        const std::uint8_t flow = next_flow++ % kFlows;
        give_flow(wide.in[flow % 2], flow, next_id[flow]++);
      }
      tick();
      for (std::size_t queue = 0; queue < 2; ++queue)
        while (rte_mbuf* const m = test::next_of(port.out[queue])) look_at(test::take(m), queue);
      for (rte_ring* ring : wide.out) test::empty(ring);
    }
  }
  /// The host sends a packet of the flow by a queue of the cable.
  void give_flow(rte_ring* ring, std::uint8_t flow, std::uint16_t id) {
    const auto packet =
        fwd::test::Ip4{.src = "10.0.0.9", .dst = "192.168.1.77", .id = id, .first_payload = flow}
            .bytes();
    give(ring, cable_frame(link(), link().qpn, lid, fwd::test::encapsulated(0x0800, packet)));
  }
  void look_at(const std::vector<std::byte>& frame, std::size_t queue) {
    const auto hdr = wire::read<wire::Ipv4Hdr>(frame, 14);
    const auto igmp = static_cast<std::uint8_t>(wire::IpProto::kIgmp);  // A report of the node.
    if (!hdr || hdr->version() != 4 || hdr->protocol == igmp) return;
    const auto flow = std::to_integer<std::size_t>(frame[14 + sizeof(*hdr)]);
    EXPECT_EQ(hdr->id.host(), next_sent.at(flow)++) << "flow " << flow;
    queues.at(flow).insert(queue);
  }
  /// The queues of eth0 by which flows have left since the last call.
  std::set<std::size_t> take_queues() {
    std::set<std::size_t> all;
    for (auto& of_flow : queues) {
      EXPECT_EQ(of_flow.size(), 1U) << "a flow has one worker";
      all.merge(of_flow);
      of_flow.clear();
    }
    return all;
  }
  std::vector<unsigned> spread_over() const { return node->faces.stats.workers()[0].spread_over; }

  std::uint16_t lid = 0;
  unsigned next_flow = 0;
  std::array<std::uint16_t, kFlows> next_id{}, next_sent{};
  std::array<std::set<std::size_t>, kFlows> queues;
};

TEST_F(HotNeighbourTest, P14_IsDividedByFlow) {
  const std::size_t own = 1;  // The workers of eth0 are 1 and 0.
  pass_period(2);
  EXPECT_EQ(take_queues(), std::set{own});
  const std::string begins = logged([&] { pass_period(2); });
  EXPECT_NE(begins.find("worker 0 spreads its packets over workers 0, 1: it is "),
            std::string::npos)
      << begins;
  for (auto& of_flow : queues) of_flow.clear();
  const std::uint64_t before = node->faces.stats.workers()[0].handed_on;
  pass_period(2);
  EXPECT_EQ(spread_over(), (std::vector{0U, 1U}));
  // A secret hash decides which flows, and so how many, are those of the other worker.
  const auto flows = std::ranges::count_if(queues, [](const auto& q) { return q.contains(0); });
  EXPECT_EQ(take_queues(), (std::set<std::size_t>{0, 1}));
  const std::uint64_t handed_on = node->faces.stats.workers()[0].handed_on - before;
  EXPECT_NEAR(static_cast<double>(handed_on), 5'050. * 4 / kFlows * static_cast<double>(flows),
              100);
  EXPECT_EQ(link().counters.neighbours_moved, 0U);

  const std::string ends = logged([&] {
    pass_period(0);
    pass_period(0);
  });
  EXPECT_NE(ends.find("worker 0 handles its packets alone again: its packets "), std::string::npos)
      << ends;
  EXPECT_TRUE(spread_over().empty());
  for (std::uint8_t flow = 0; flow < kFlows; ++flow) EXPECT_EQ(next_sent[flow], next_id[flow]);
}

// Worker 1 hangs, so that the pause before a change lasts as long as it may.
TEST_F(HotNeighbourTest, P14_PacketsWaitInTheCableDuringAPause) {
  fwd::Worker& w = *node->parts->workers.all()[0].worker;
  const auto give_flows = [this] {
    for (std::uint8_t flow = 0; flow < kFlows; ++flow) give_flow(wide.in[0], flow, 0);
  };
  const auto loop = [&w] {
    for (int i = 0; i < 10; ++i) w.iterate(test::sim_tsc);
  };
  w.spread_over(0b11);
  loop();
  give_flows();
  loop();
  ASSERT_EQ(rte_ring_count(wide.in[0]), 0U);
  ASSERT_GT(w.stats().handed_on.get(), 0U);
  w.spread_over(0);
  give_flows();
  loop();
  EXPECT_EQ(rte_ring_count(wide.in[0]), kFlows);
  test::sim_tsc += rte_get_tsc_hz() / 100;
  loop();
  EXPECT_EQ(rte_ring_count(wide.in[0]), 0U);
  for (int i = 0; i < 10; ++i) pass();
  EXPECT_EQ(test::sum_of(node->parts->hcas[0]->hca->drops()), 0U);
}

TEST_F(HotNeighbourTest, P14_StaysWithItsWorkerIfThatIsWanted) {
  node->parts->config.worker.balance = false;
  for (int i = 0; i < 4; ++i) pass_period(2);
  EXPECT_TRUE(spread_over().empty());
  EXPECT_EQ(node->faces.stats.workers()[0].handed_on, 0U);
}

}  // namespace
}  // namespace ipoib::mgmt
