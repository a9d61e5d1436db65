// SPDX-License-Identifier: BSD-3-Clause
// The longest chain of mbufs that a link's device sends, on its way from the device to the stage
// that merges TCP: two nodes with a connection, of which one has a device that takes short chains.
#include <rte_cycles.h>

#include <algorithm>
#include <utility>

#include "lib/fabric/capabilities.h"
#include "lib/mgmt/stepped_node.h"
#include "tests/support/forwarding_hca.h"
#include "tests/support/sim_tsc.h"
#include "tests/support/tcp_packets.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::read_sim_tsc;
using ipoib::test::sim_tsc;

/// A software HCA that states another number of segments.
class LimitedHca final : public test::ForwardingHca {
 public:
  LimitedHca(std::unique_ptr<fabric::Hca> real, const std::uint16_t& max_segments)
      : ForwardingHca{std::move(real)}, max_segments_{max_segments} {}

  [[nodiscard]] fabric::Capabilities capabilities() const override {
    fabric::Capabilities able = inner().capabilities();
    able.max_segments = max_segments_;
    return able;
  }

 private:
  const std::uint16_t& max_segments_;
};

struct SegmentsTest : NodeFixture {
  void SetUp() override {
    sim_tsc = 77 * rte_get_tsc_hz();
    const HcaFactory limited =
        [this](const HcaConfig& h, const HcaResources& r) -> Result<std::unique_ptr<fabric::Hca>> {
      auto soft = make_timed_soft(h, r);
      if (!soft) return soft;
      return std::make_unique<LimitedHca>(std::move(*soft), max_segments);
    };
    const std::string far = far_cable();
    for (unsigned i : {0U, 1U}) {
      NodeConfig c = config();
      c.links[0].mode = LinkMode::kConnectedRc;
      c.hcas[0].first_qpn = 0x100 * (i + 1);
      if (i == 0) {
        c.ports[0].tcp_offload = true;
      } else {
        c.ports.clear();
        c.hcas[0].wire = far;
        ++c.hcas[0].guid;
        c.hcas[0].lid = 2;
        c.hcas[0].subnet_administrator = false;
        c.links[0].addresses = {*wire::parse_prefix("10.0.0.2/24")};
      }
      auto node = SteppedNode::create(c, i == 0 ? limited : HcaFactory{make_timed_soft},
                                      &read_sim_tsc, i + 1);
      ASSERT_TRUE(node) << node.error().what;
      nodes.push_back(std::move(*node));
      nodes.back()->start();
    }
  }
  void TearDown() override {
    for (const auto& node : nodes) node->begin_to_leave();
    for (int i = 0; i < 1000; ++i) step();
    for (const auto& node : nodes) EXPECT_TRUE(node->has_left());
  }
  /// The other end of `cable`.
  std::string far_cable() {
    static int count = 0;
    return test::name_of_port(
        test::add_ring_port("far" + std::to_string(count++), cable.from_node, cable.to_node));
  }
  void step() {
    sim_tsc += rte_get_tsc_hz() / 1000;
    for (const auto& node : nodes) {
      node->iterate(0);
      node->run_once();
    }
  }
  bool soon(const std::function<bool()>& what) {
    for (int i = 0; i < 20'000 && !what(); ++i) step();
    return what();
  }
  [[nodiscard]] const NodeFaces& sender() { return nodes[0]->faces(); }
  [[nodiscard]] bool link_up(unsigned i) { return nodes[i]->faces().view.links()[0].state == "up"; }
  [[nodiscard]] bool connected() {
    const auto keys = sender().view.neighbour_keys("ib0");
    return std::any_of(keys.begin(), keys.end(), [this](const NeighbourKey& key) {
      const auto row = sender().view.neighbour(key);
      return row && row->addr == *wire::parse_ip("10.0.0.2") &&
             row->mode == table::NeighbourMode::kRc;
    });
  }
  /// Gives the sender a burst of segments that follow each other. Returns the packets that they
  /// became.
  std::uint64_t packets_of(unsigned segments) {
    const auto sent = [this] { return sender().view.links()[0].traffic.tx_packets; };
    nodes[0]->iterate(0);  // Messages of the management lcore leave before the count begins.
    const std::uint64_t before = sent();
    for (unsigned i = 0; i < segments; ++i) {
      fwd::test::Tcp tcp;
      tcp.payload = fwd::test::pattern(1460);
      tcp.seq += i * 1460;
      tcp.id = static_cast<std::uint16_t>(tcp.id + i);
      give(ethernet.to_node, ethernet_frame(0x0800, tcp.bytes(), sender().view.ports()[0].mac));
    }
    nodes[0]->iterate(0);
    return sent() - before;
  }

  void open_connection() {
    ASSERT_TRUE(soon([this] { return link_up(0) && link_up(1); }));
    // A connection is opened to a neighbour that is in use.
    ASSERT_TRUE(soon([this, steps = 0]() mutable {
      if (steps++ % 500 == 0) packets_of(1);
      return connected();
    }));
  }

  std::uint16_t max_segments = 5;
  std::vector<std::unique_ptr<SteppedNode>> nodes;
};

TEST_F(SegmentsTest, MergedTcpIsAsLongAsTheLinksDeviceSends) {
  ASSERT_NO_FATAL_FAILURE(open_connection());
  EXPECT_EQ(packets_of(12), 3U) << "5, 5 and 2 mbufs";
  for (int i = 0; i < 100; ++i) step();
  max_segments = 3;  // as of another device that takes the place of the first
  step();
  EXPECT_EQ(packets_of(12), 4U);
  for (int i = 0; i < 100; ++i) step();
  max_segments = fabric::kAnySegments;
  step();
  EXPECT_EQ(packets_of(12), 1U);
}

TEST_F(SegmentsTest, PacketLeavesInTheBufferInWhichItCame) {
  ASSERT_NO_FATAL_FAILURE(open_connection());
  EXPECT_EQ(packets_of(1), 1U);
  nodes[0]->iterate(0);
  std::vector<rte_mbuf*> frames;
  while (rte_mbuf* frame = test::next_of(cable.from_node)) frames.push_back(frame);
  EXPECT_EQ(std::ranges::count_if(
                frames, [](const rte_mbuf* m) { return m->pkt_len > 1460 && RTE_MBUF_CLONED(m); }),
            1);
  for (rte_mbuf* frame : frames) ASSERT_EQ(rte_ring_enqueue(cable.from_node, frame), 0);
  for (int i = 0; i < 100; ++i) step();
}

}  // namespace
}  // namespace ipoib::mgmt
