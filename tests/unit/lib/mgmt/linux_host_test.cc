// SPDX-License-Identifier: BSD-3-Clause
// A whole node in virtual time beside a host of Linux: long pings, and a node that was killed.
#include "tests/unit/lib/mgmt/linux_host.h"

#include <rte_cycles.h>

#include <optional>

#include "lib/mgmt/stepped_node.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

class LinuxHostTest : public NodeFixture {
 protected:
  static void SetUpTestSuite() {
    NodeFixture::SetUpTestSuite();
    if (host_pool == nullptr)
      host_pool = rte_pktmbuf_pool_create("linux_host", 4095, 0, 0, 2560, SOCKET_ID_ANY);
  }
  void start(LinkMode mode, link::OpenPolicy open = link::OpenPolicy::kTraffic) {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    c.subnet.qkey = LinuxHost::kQkey;
    c.links[0].mode = mode;
    c.links[0].connection.open = open;
    auto node = SteppedNode::create(c, make_timed_soft, &ipoib::test::read_sim_tsc);
    ASSERT_TRUE(node) << node.error().what;
    node_ = std::move(*node);
    host_.emplace(cable.from_node, cable.to_node, host_pool, mode == LinkMode::kConnectedRc);
    node_->start();
    pass(3s);
    ASSERT_EQ(node_->faces().view.links()[0].state, "up");
  }
  void TearDown() override {
    node_->begin_to_leave();
    pass(2s);
    EXPECT_TRUE(node_->has_left());
    EXPECT_EQ(host_->wrong, 0U);
    EXPECT_EQ(host_->longest_piece > LinuxHost::kDatagramMtu, host_->is_sent_to());
    host_.reset();
  }
  /// Runs the loops of node and host every millisecond.
  void pass(Duration d) {
    for (const TimePoint end = node_->now() + d; node_->now() < end;) {
      ipoib::test::sim_tsc += rte_get_tsc_hz() / 1000;
      for (int i = 0; i < 4; ++i) {
        node_->iterate(0);
        host_->step();
      }
      node_->run_once();
      while (rte_mbuf* const m = test::next_of(ethernet.from_node)) rte_pktmbuf_free(m);
    }
  }
  /// The host pings the node, which answers, and to do so may open a connection.
  void meet() {
    for (int i = 0; i < 3; ++i) {
      host_->ping(56);
      pass(2s);
    }
    ASSERT_FALSE(host_->replies().empty());
  }
  void expect_reply(std::size_t octets, bool dont_fragment = false) {
    host_->ping(octets, dont_fragment);
    pass(100ms);
    EXPECT_EQ(host_->replies(), std::vector{octets}) << "DF " << dont_fragment;
  }
  void long_pings() {
    for (const std::size_t octets : {2017U, 4000U, 16'000U, 17'000U, 40'000U, 65'492U})
      expect_reply(octets);
  }

  static inline rte_mempool* host_pool = nullptr;
  std::unique_ptr<SteppedNode> node_;
  std::optional<LinuxHost> host_;
};

TEST_F(LinuxHostTest, P05_LongPingsAreAnsweredByDatagrams) {
  start(LinkMode::kDatagram);
  meet();
  long_pings();
  expect_reply(2016, true);
}

/// The host sends 65,520 octets in one message, and so does the node over its own connection.
TEST_F(LinuxHostTest, C06_P05_LongPingsAreAnsweredOverConnections) {
  start(LinkMode::kConnectedRc);
  meet();
  ASSERT_TRUE(host_->connected());
  ASSERT_TRUE(host_->is_sent_to());
  const std::size_t before = host_->pieces_of_replies;
  long_pings();
  EXPECT_EQ(host_->pieces_of_replies, before + 6) << "each answer is one message";
  expect_reply(65'492, true);
}

/// 17 ms, in which a worker of the node sends an ACK.
TEST_F(LinuxHostTest, C18_HostsAreInformedOfTheAckDelayOfTheSoftwareHca) {
  start(LinkMode::kConnectedRc);
  meet();
  ASSERT_TRUE(host_->connected());
  EXPECT_EQ(host_->node_ack_delay, 12);
  expect_reply(4000);
}

/// The answers are longer than a datagram, and do not forbid fragments even if the requests do.
TEST_F(LinuxHostTest, P05_C09_LongPingsAreAnsweredByANodeThatOpensNoConnection) {
  start(LinkMode::kConnectedRc, link::OpenPolicy::kAccept);
  meet();
  ASSERT_TRUE(host_->connected());
  ASSERT_FALSE(host_->is_sent_to());
  long_pings();
  expect_reply(16'000, true);
  expect_reply(65'492, true);
}

/// The node has the subnet administrator and was killed. The kernel is in its groups, as far as it
/// knows, and does not register again.
TEST_F(LinuxHostTest, U20_AHostThatDoesNotRegisterIsReachedAtOnce) {
  start(LinkMode::kDatagram);
  const wire::MacAddr own = node_->faces().view.ports()[0].mac;
  const auto request =
      fwd::test::echo_packet(wire::IpAddr::v4(kPeerIp), wire::IpAddr::v4(LinuxHost::kIp), 32);
  for (int i = 0; i < 100; ++i) {
    give(ethernet.to_node, ethernet_frame(0x0800, request, own));
    pass(10ms);
  }
  EXPECT_GT(host_->requests, 90U);
}

}  // namespace
}  // namespace ipoib::mgmt
