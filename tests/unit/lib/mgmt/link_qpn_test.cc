// SPDX-License-Identifier: BSD-3-Clause
// The queue pair number of a link (`qpn`).
#include <rte_cycles.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/mgmt/stepped_node.h"
#include "tests/support/forwarding_hca.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/shared_port_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

constexpr std::uint32_t kQpn = 0x4711;

/// Records the numbers that its user wants. If it chooses by itself, no queue pair gets the wanted one.
class NumberingHca final : public test::ForwardingHca {
 public:
  using Wanted = std::vector<std::optional<std::uint32_t>>;

  NumberingHca(std::unique_ptr<fabric::Hca> inner, Wanted& wanted, bool chooses)
      : ForwardingHca{std::move(inner)}, wanted_{wanted}, chooses_{chooses} {}

  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig& config) override {
    wanted_.push_back(config.qpn);
    fabric::UdQueueConfig given = config;
    if (chooses_) given.qpn.reset();
    return inner().create_ud_queue(given);
  }

 private:
  Wanted& wanted_;
  bool chooses_;
};

class LinkQpnTest : public NodeFixture {
 protected:
  NodeConfig config_with_qpn() {
    NodeConfig c = config();
    c.ports.clear();
    c.links[0].qpn = kQpn;
    return c;
  }
  /// Starts the node, and returns its log until its links are up. Throws if there is no node.
  std::string start(const NodeConfig& c) {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    wanted.clear();
    const std::string log = logged([&] {
      auto made = SteppedNode::create(
          c,
          [this](const HcaConfig& hca, const HcaResources& r) {
            auto soft = make_timed_soft(hca, r);
            if (!soft) return soft;
            return Result<std::unique_ptr<fabric::Hca>>{
                std::make_unique<NumberingHca>(std::move(*soft), wanted, device_chooses)};
          },
          &ipoib::test::read_sim_tsc);
      ASSERT_TRUE(made) << made.error().what;
      node = std::move(*made);
      node->start();
      pass(*node, 2s);
      for (const LinkInfo& l : node->faces().view.links()) EXPECT_EQ(l.state, "up");
    });
    if (node == nullptr) throw std::runtime_error{"the node cannot be created"};
    return log;
  }
  void stop() {
    leave(*node);
    node.reset();
  }
  [[nodiscard]] std::uint32_t qpn(std::size_t i = 0) const {
    return node->faces().view.links()[i].qpn;
  }

  bool device_chooses = false;
  std::unique_ptr<SteppedNode> node;
  NumberingHca::Wanted wanted;
};

TEST_F(LinkQpnTest, U39_IsThatOfTheConfiguration) {
  const std::string log = start(config_with_qpn());
  EXPECT_EQ(wanted, NumberingHca::Wanted{kQpn});
  EXPECT_EQ(qpn(), kQpn);
  EXPECT_EQ(log.find("QPN"), std::string::npos) << log;
  stop();
}

/// The numbers of a software HCA begin with the wanted one, which is kept for its link.
TEST_F(LinkQpnTest, U39_IsKeptFromLinksThatComeFirst) {
  NodeConfig c = config_with_qpn();
  c.hcas[0].first_qpn = kQpn;
  c.hcas[0].pkeys = {0xffff, 0x8001};
  c.links.push_back(c.links[0]);
  c.links[0].name = "ib1";
  c.links[0].pkey = 0x8001;
  c.links[0].addresses = {*wire::parse_prefix("10.0.1.1/24")};
  c.links[0].qpn.reset();
  c.links[0].create_broadcast = true;
  const std::string log = start(c);
  EXPECT_NE(qpn(0), kQpn);
  EXPECT_EQ(qpn(1), kQpn);
  EXPECT_EQ(log.find("QPN"), std::string::npos) << log;
  stop();
}

TEST_F(LinkQpnTest, U39_AnotherOneOfTheDeviceIsLoggedEachTimeThatTheLinkComesUp) {
  device_chooses = true;
  const std::string log = start(config_with_qpn());
  EXPECT_EQ(wanted, NumberingHca::Wanted{kQpn});
  ASSERT_NE(qpn(), kQpn);
  const std::string warning =
      fmt::format("link ib0: the device gave QPN {:#x} instead of {:#x}", qpn(), kQpn);
  EXPECT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning, log.find(warning) + 1), std::string::npos) << log;
  ASSERT_TRUE(node->faces().control.set_interface_up("ib0", false));
  pass(*node, 3s);
  const std::string again = logged([&] {
    ASSERT_TRUE(node->faces().control.set_interface_up("ib0", true));
    pass(*node, 2s);
  });
  EXPECT_NE(again.find(warning), std::string::npos) << again;
  stop();
}

TEST_F(LinkQpnTest, U39_AnyIsFineForALinkWithoutOne) {
  NodeConfig c = config();
  c.ports.clear();
  const std::string log = start(c);
  EXPECT_EQ(wanted, NumberingHca::Wanted{std::nullopt});
  EXPECT_EQ(log.find("QPN"), std::string::npos) << log;
  stop();
}

/// A link of two workers, on a cable with a queue for each of them.
struct LinkQpnOfWorkersTest : SharedPortFixture {
  /// `readers`: the workers that read the cable. The first owns the link.
  void start(const std::vector<unsigned>& readers) {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    c.hcas[0].wire = wide.name;
    c.hcas[0].first_qpn = kQpn;
    c.links[0].qpn = kQpn;
    c.worker.assign["soft0"] = readers;
    begin(c, make_timed_soft, &ipoib::test::read_sim_tsc);
    for (int i = 0; i < 500; ++i) {
      ipoib::test::sim_tsc += rte_get_tsc_hz() / 1000;
      pass();
    }
    ASSERT_EQ(link().state, "up");
  }
  [[nodiscard]] LinkInfo link() const { return node->faces.view.links()[0]; }
  [[nodiscard]] const LinkQueues& queues() const { return node->parts->links[0]->queues(); }
  /// A host sends a packet to the QPN. Returns the number that the link has received.
  std::uint64_t receive(std::uint32_t qpn) {
    give(wide.in[0], cable_frame(link(), qpn, 9));
    pass();
    pass();
    return link().traffic.rx_packets;
  }

  TwoQueues wide;
};

TEST_F(LinkQpnOfWorkersTest, U39_IsThatOfTheFirstQueuePairOnly) {
  start({0});
  ASSERT_EQ(queues().ud.size(), 2U);
  EXPECT_EQ(queues().ud[0]->qpn(), kQpn);
  EXPECT_EQ(link().qpn, kQpn);
  const std::uint32_t second = queues().ud[1]->qpn();
  EXPECT_NE(second, kQpn);
  EXPECT_NE(second, 0U);
  const std::uint64_t before = link().traffic.rx_packets;
  EXPECT_EQ(receive(kQpn), before + 1) << "a host with a static entry";
  EXPECT_EQ(receive(second), before + 2);
  EXPECT_EQ(receive(kQpn + 0x1000), before + 2) << "no queue pair has this number";
}

TEST_F(LinkQpnOfWorkersTest, U39_IsThatOfTheOwnerWhicheverWorkerThatIs) {
  start({1, 0});
  ASSERT_EQ(queues().ud.size(), 2U);
  EXPECT_EQ(queues().workers[0], 1U);
  EXPECT_EQ(queues().ud[0]->qpn(), kQpn);
  EXPECT_NE(queues().ud[1]->qpn(), kQpn);
  EXPECT_EQ(link().qpn, kQpn);
}

}  // namespace
}  // namespace ipoib::mgmt
