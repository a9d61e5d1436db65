// SPDX-License-Identifier: BSD-3-Clause
// Assignment of interfaces to workers, and of mbufs to NUMA nodes, on machines that the test
// invents.
#include "lib/mgmt/worker/placement.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

namespace ipoib::mgmt {
namespace {

/// Mbufs in the rings and caches of a single worker.
constexpr unsigned kWorker = 8192 + 2 * kMbufCache;
constexpr unsigned kManagement = 4096;

NodeConfig ports(unsigned n, unsigned workers) {
  NodeConfig c;
  c.worker.count = workers;
  for (unsigned i = 0; i < n; ++i) {
    PortConfig& port = c.ports.emplace_back();
    port.name = "eth" + std::to_string(i);
  }
  return c;
}

unsigned sum(const std::vector<PoolPlan>& pools) {
  return std::accumulate(pools.begin(), pools.end(), 0U,
                         [](unsigned n, const PoolPlan& p) { return n + p.mbufs; });
}

TEST(Placement, OneNodeHasOnePool) {
  const auto pools = plan_pools(ports(2, 1), {{0}, 0});
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].socket, 0);
  EXPECT_EQ(pools[0].mbufs, 2U * 1024 + kWorker + kManagement);
}

TEST(Placement, BuffersAreOnTheNodeOfTheWorkerThatPolls) {
  NodeConfig c = ports(3, 2);
  c.worker.assign["eth0"] = {1};  // eth1 is the next worker 1's, eth2 worker 0's
  const auto pools = plan_pools(c, {{1, 0}, 1});
  const unsigned rings = handoff_depth(2);
  ASSERT_EQ(pools.size(), 2U);
  EXPECT_EQ(pools[0].socket, 1);
  EXPECT_EQ(pools[0].mbufs, 1 * 512 + 3 * 512 + kWorker + rings + kManagement);
  EXPECT_EQ(pools[1].socket, 0);
  EXPECT_EQ(pools[1].mbufs, 2 * 512 + 3 * 512 + kWorker + rings);
}

TEST(Placement, ManagementSharesWhereNoWorkerIsBesideIt) {
  const auto pools = plan_pools(ports(1, 1), {{1}, 0});
  ASSERT_EQ(pools.size(), 1U) << "no pool where nobody polls";
  EXPECT_EQ(pools[0].socket, 1);
  EXPECT_EQ(pools[0].mbufs, 1024 + kWorker + kManagement);
}

/// Each packet that may wait between two workers has an mbuf of its own; otherwise a worker that
/// hangs would starve the others.
TEST(Placement, RingsBetweenWorkersAreCounted) {
  for (unsigned workers = 1; workers <= 32; ++workers) {
    const Topology topology{std::vector<int>(workers, 0), 0};
    const unsigned depth = handoff_depth(workers);
    const unsigned cable = cable_ring_depth(workers);
    for (const unsigned size : {depth, cable}) EXPECT_EQ(size & (size - 1), 0U) << "a ring's size";
    EXPECT_GE(cable, 256U);
    EXPECT_LE(cable, 1024U);
    EXPECT_GE(depth, 512U);
    EXPECT_EQ(sum(plan_pools(ports(2, workers), topology)),
              2U * 512 + workers * (2 * 512 + kWorker + (workers - 1) * depth) + kManagement);
    if (workers <= 17) {
      EXPECT_LE((workers - 1) * depth, 8192U);
      EXPECT_LE((workers - 1) * cable, 4096U);
    }
  }
}

TEST(Placement, HcasCountByDriverAndMode) {
  NodeConfig c;
  for (const auto& [name, driver] :
       {std::pair{"soft0", HcaDriver::kSoft}, std::pair{"mlx0", HcaDriver::kVerbs}}) {
    HcaConfig& hca = c.hcas.emplace_back();
    hca.name = name;
    hca.driver = driver;
    for (int i = 0; i < 2; ++i) c.links.emplace_back().hca = name;
  }
  const unsigned idle = kWorker + kManagement;
  EXPECT_EQ(sum(plan_pools(c, {{0}, 0})), idle + 3 * 1024) << "a cable, two queue pairs";
  EXPECT_EQ(plan_pools(c, {{0}, 0})[0].shares, 0U) << "no frame shares the buffer of a message";
  c.links[0].mode = c.links[1].mode = LinkMode::kConnected;
  EXPECT_EQ(sum(plan_pools(c, {{0}, 0})), idle + 3 * 1024 + kMessagesUnderWay) << "an hca's, once";
  c.worker.assign["soft0"] = {1};
  c.worker.count = 2;
  const auto pools = plan_pools(c, {{0, 1}, 0});
  EXPECT_EQ(pools[0].shares, 0U);
  EXPECT_EQ(pools[1].shares, 2 * (2 * c.txd + 512)) << "both workers have connections";
  for (const std::size_t i : {0U, 1U}) c.links[i].queue_pairs = 1;
  const auto of_owner = plan_pools(c, {{0, 1}, 0});
  EXPECT_EQ(of_owner[1].shares, 2 * c.txd + 512);
  EXPECT_EQ(pools[1].mbufs, of_owner[1].mbufs);
  for (const std::size_t i : {0U, 1U}) c.links[i].queue_pairs = 0;
  c.worker.count = 8;
  EXPECT_EQ(messages_under_way(c, c.hcas[0]), 8 * kMessagesOfWorker);
  c.worker.count = 2;
  EXPECT_EQ(messages_under_way(c, c.hcas[0]), kMessagesUnderWay);
  for (LinkConfigEntry& l : c.links) l.hca = "mlx0";
  EXPECT_EQ(plan_pools(c, {{0, 1}, 0})[1].shares, 0U) << "a real hca sends messages";
}

TEST(Placement, EachWorkerHasMbufsToSendOnHcas) {
  for (const auto& [driver, received, rings] :
       {std::tuple{HcaDriver::kSoft, 1U, cable_ring_depth(2)}, {HcaDriver::kVerbs, 2U, 0U}}) {
    NodeConfig c;
    c.worker.count = 2;
    c.rxd = 64;
    c.txd = 32;
    c.worker.assign["x"] = {1};
    HcaConfig& hca = c.hcas.emplace_back();
    hca.name = "x";
    hca.driver = driver;
    c.links.emplace_back().hca = "x";
    const auto pools = plan_pools(c, {{0, 1}, 0});
    const unsigned each = kWorker + handoff_depth(2) + 32;
    ASSERT_EQ(pools.size(), 2U);
    EXPECT_EQ(pools[0].mbufs, each + kManagement);
    EXPECT_EQ(pools[1].mbufs, each + received * 64 + rings) << "all receive buffers are its own";
  }
}

TEST(Placement, P14_EachReaderOfACableHasMbufsForItsQueueAndItsRings) {
  NodeConfig c;
  c.worker.count = 3;
  c.rxd = 64;
  c.txd = 32;
  c.worker.assign["x"] = {2, 0};
  c.hcas.emplace_back().name = "x";
  c.links.emplace_back().hca = "x";
  const unsigned each = kWorker + 2 * handoff_depth(3) + 32;
  const unsigned reader = 64 + 2 * cable_ring_depth(3);
  const auto pools = plan_pools(c, {{0, 1, 2}, 1});
  ASSERT_EQ(pools.size(), 3U);
  EXPECT_EQ(pools[0].mbufs, each + reader);
  EXPECT_EQ(pools[1].mbufs, each + kManagement);
  EXPECT_EQ(pools[2].mbufs, each + reader);
}

TEST(Placement, QueuePairsThatLinksDoNotHaveNeedNoBuffers) {
  NodeConfig c;
  c.worker.count = 4;
  c.rxd = 64;
  c.txd = 32;
  HcaConfig& hca = c.hcas.emplace_back();
  hca.name = "mlx0";
  hca.driver = HcaDriver::kVerbs;
  LinkConfigEntry& link = c.links.emplace_back();
  link.hca = "mlx0";
  const Topology topology{{0, 0, 0, 0}, 0};
  const unsigned all = sum(plan_pools(c, topology));
  for (const unsigned limit : {1U, 3U, 4U, 9U}) {
    link.queue_pairs = limit;
    EXPECT_EQ(all - sum(plan_pools(c, topology)), 96 * (4 - std::min(limit, 4U))) << limit;
  }
  link.queue_pairs = 0;
  link.dialect = LinkDialect::kIbarp2001;
  EXPECT_EQ(all - sum(plan_pools(c, topology)), 96U * 3);
}

TEST(Placement, AGivenNumberIsShared) {
  NodeConfig c = ports(2, 3);
  for (const unsigned total : {4096U, 30'001U, 1'000'000U}) {
    c.total_num_mbufs = total;
    const auto pools = plan_pools(c, {{0, 1, 1}, 0});
    ASSERT_EQ(pools.size(), 2U);
    EXPECT_EQ(sum(pools), total);
    EXPECT_GT(pools[0].mbufs, total / 4);
    EXPECT_GT(pools[1].mbufs, total / 2) << "two workers there";
  }
}

TEST(Placement, AssignmentsComeFirst) {
  NodeConfig c = ports(0, 3);
  c.worker.assign["x"] = {2, 0};
  EXPECT_EQ(receivers_of(c, "x", 1), (std::vector{2U, 0U}));
  for (unsigned i = 0; i < 7; ++i) EXPECT_EQ(receivers_of(c, "y", i), std::vector{i % 3});
}

TEST(Placement, P14_DevicesWithoutAnAssignmentGoToTheFreestOnTheirNode) {
  const Topology two_nodes{{0, 1, 1, 0, 1}, 0};
  std::vector<unsigned> devices(5);
  std::vector<unsigned> order;
  for (const int socket : {0, 1, 0, 1, 1, 0, -1}) {
    order.push_back(receivers_for(two_nodes, socket, 1, devices).front());
    ++devices[order.back()];
  }
  EXPECT_EQ(order, (std::vector{0U, 1U, 3U, 2U, 4U, 0U, 1U}));
  EXPECT_EQ(receivers_for(two_nodes, 1, 2, {0, 3, 1, 0, 2}), (std::vector{2U, 4U}));
  EXPECT_EQ(receivers_for(two_nodes, 1, 16, {0, 3, 1, 0, 2}), (std::vector{2U, 4U, 1U}));
  EXPECT_EQ(receivers_for(two_nodes, 2, 9, {1, 0, 0, 0, 0}), (std::vector{1U, 2U, 3U, 4U, 0U}))
      << "no worker is there";
}

TEST(Placement, EachReceiverOfAPortHasMbufsForItsQueues) {
  NodeConfig c = ports(1, 3);
  c.rxd = 256;
  c.txd = 128;
  const auto mbufs = [&c](std::vector<unsigned> receivers) {
    c.worker.assign["eth0"] = std::move(receivers);
    std::vector<unsigned> all;
    for (const PoolPlan& p : plan_pools(c, {{0, 1, 2}, 3})) all.push_back(p.mbufs);
    return all;
  };
  const unsigned each = kWorker + 2 * handoff_depth(3) + 128;
  EXPECT_EQ(mbufs({2}), (std::vector{each + kManagement, each, each + 256}));
  EXPECT_EQ(mbufs({2, 1}), (std::vector{each + kManagement, each + 256, each + 256}));
}

/// Queues as "rx rx/tx" of each worker.
std::vector<std::string> shared(const std::vector<unsigned>& receivers, unsigned workers,
                                std::uint16_t rx, std::uint16_t tx) {
  std::vector<std::string> rows;
  for (const fwd::InterfaceQueues& q : share_queues(receivers, workers, rx, tx))
    rows.push_back(
        fmt::format("{}/{}", fmt::join(q.eth_rx, " "), q.eth_tx ? std::to_string(*q.eth_tx) : "-"));
  return rows;
}

TEST(Placement, QueuesAreSharedWithReceiversFirst) {
  using Rows = std::vector<std::string>;
  EXPECT_EQ(shared({0}, 1, 1, 1), (Rows{"0/0"}));
  EXPECT_EQ(shared({1}, 3, 1, 3), (Rows{"/1", "0/0", "/2"}));
  EXPECT_EQ(shared({2, 0}, 3, 2, 3), (Rows{"1/1", "/2", "0/0"}));
  EXPECT_EQ(shared({2, 0}, 3, 2, 2), (Rows{"1/1", "/-", "0/0"})) << "worker 1 hands over";
  EXPECT_EQ(shared({2, 0}, 3, 2, 1), (Rows{"1/-", "/-", "0/0"}));
  EXPECT_EQ(shared({1, 0}, 2, 5, 1), (Rows{"1 3/-", "0 2 4/0"})) << "more queues than receivers";
  EXPECT_EQ(shared({0}, 1, 1, 4), (Rows{"0/0"})) << "more transmit queues than workers";
}

}  // namespace
}  // namespace ipoib::mgmt
