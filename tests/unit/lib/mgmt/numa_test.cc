// SPDX-License-Identifier: BSD-3-Clause
// NUMA placement of a node's memory, on a simulated machine with more NUMA nodes than this one:
// memory that a worker uses is requested on the NUMA node of its lcore. The DPDK functions here
// record the requested node; they are linked before the library's own functions, which they call.
#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mempool.h>

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "lib/mgmt/node/node_assembly.h"
#include "lib/mgmt/node/node_builder.h"
#include "lib/mgmt/worker/placement.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

/// Each lcore is on its own NUMA node, which has the lcore's number.
class Machine {
 public:
  static Machine& get() {
    static Machine machine;
    return machine;
  }
  void set_up(bool on) {
    const std::lock_guard lock{mutex_};
    on_ = on;
    asked_.clear();
  }
  [[nodiscard]] bool is_on() {
    const std::lock_guard lock{mutex_};
    return on_;
  }
  void note(const char* what, int node) {
    const std::lock_guard lock{mutex_};
    if (on_ && what != nullptr) asked_[what].insert(node);
  }
  [[nodiscard]] std::set<int> nodes_of(const std::string& what) {
    const std::lock_guard lock{mutex_};
    return asked_[what];
  }

 private:
  std::mutex mutex_;
  bool on_ = false;
  std::map<std::string, std::set<int>> asked_;
};

/// Returns the library's own function.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct NumaTest : NodeFixture {
  void SetUp() override { Machine::get().set_up(true); }
  void TearDown() override { Machine::get().set_up(false); }
  static std::set<int> nodes_of(const std::string& what) { return Machine::get().nodes_of(what); }
};

TEST_F(NumaTest, WhatAWorkerUsesIsOnTheNodeOfItsLcore) {
  constexpr unsigned kWorkers = 6;
  NodeConfig c = config();
  c.worker.count = kWorkers;
  c.worker.assign = {{"eth0", {3}}, {"soft0", {4}}};
  std::vector<unsigned> lcores(kWorkers);
  std::iota(lcores.begin(), lcores.end(), 1U);
  HcaResources given;
  const auto node = Node::create(c, {0, lcores}, [&](const HcaConfig& h, const HcaResources& r) {
    given = r;
    return make_soft(h, r);
  });
  ASSERT_TRUE(node) << node.error().what;

  const std::set<int> all(lcores.begin(), lcores.end());
  for (const char* const table : {"neighbours", "neighbour_slots", "deliveries"})
    EXPECT_EQ(nodes_of(table), all) << table;
  for (unsigned i = 0; i < kWorkers; ++i) {
    const std::set own{static_cast<int>(lcores[i])};
    const auto name = [](const char* what, unsigned number) {
      return "ipoib_" + std::string{what} + std::to_string(number);
    };
    for (const char* const what : {"mbufs_", "up_", "down_"})
      EXPECT_EQ(nodes_of(name(what, i)), own) << what << i;
    for (unsigned from = 0; from < kWorkers; ++from) {
      if (from == i) continue;
      const std::string ring = name("handoff_", from) + "_" + std::to_string(i);
      EXPECT_EQ(nodes_of(ring), own) << ring;
      ASSERT_NE(rte_ring_lookup(ring.c_str()), nullptr);
      EXPECT_EQ(rte_ring_lookup(ring.c_str())->size, handoff_depth(kWorkers)) << "as was planned";
    }
  }
  EXPECT_EQ(nodes_of(ethernet.name), std::set{4}) << "what the port receives, as worker 3 does";
  EXPECT_EQ(nodes_of(cable.name), std::set{5});
  EXPECT_EQ(given.pool->socket_id, 5);
  EXPECT_EQ(given.worker_node, 5);
  for (const char* const table : {"ipoib_ipv4", "prefixes6"})
    EXPECT_EQ(nodes_of(table), std::set{1}) << table << ", which workers share: the first one's";
  EXPECT_EQ(nodes_of("ipoib_control"), std::set{0}) << "management's";
}

/// The devices are on node 0, the workers on nodes 5 and 0.
TEST_F(NumaTest, P14_DevicesGoToWorkersOnTheirNodeAndOthersAreReported) {
  NodeConfig c = config();
  c.worker.count = 2;
  std::vector<std::vector<unsigned>> workers;
  const auto log_of = [&](decltype(c.worker.assign) assign) {
    c.worker.assign = std::move(assign);
    return logged([&] {
      const auto node = build_node(
          c, {0, {5, 0}}, make_soft, []() noexcept { return std::uint64_t{rte_rdtsc()}; }, 1);
      ASSERT_TRUE(node) << node.error().what;
      workers.push_back((*node)->faces.view.ports()[0].workers);
    });
  };
  EXPECT_EQ(log_of({}).find("NUMA"), std::string::npos);
  EXPECT_EQ(workers.back(), std::vector{1U});

  RingDevice other_port{"ethernet"}, other_cable{"cable"};  // The node has closed the first ones.
  c.ports[0].device = other_port.name;
  c.hcas[0].wire = other_cable.name;
  const std::string log = log_of({{"eth0", {0}}, {"soft0", {0}}});
  EXPECT_EQ(workers.back(), std::vector{0U});
  for (const auto& [name, device] :
       {std::pair{"eth0", other_port.name}, std::pair{"soft0", other_cable.name}})
    EXPECT_NE(log.find(fmt::format("{}: {} is on NUMA node 0, worker 0 that receives from it is on "
                                   "node 5",
                                   name, device)),
              std::string::npos)
        << log;
}

/// A worker that cuts a packet takes mbufs of its own NUMA node, whichever worker sends them.
TEST_F(NumaTest, FragmentsAreOnTheNodeOfTheWorkerThatCuts) {
  RingDevice other{"other"};
  NodeConfig c = config();
  c.hcas.clear();
  c.links.clear();
  c.ports.push_back({"eth1", other.name, {*wire::parse_prefix("192.168.2.1/24")}});
  for (PortConfig& port : c.ports) port.mtu = 576;
  c.neighbours = {{"eth0", *wire::parse_ip("192.168.1.2"), "02:00:00:00:00:09"},
                  {"eth1", *wire::parse_ip("192.168.2.2"), "02:00:00:00:00:09"}};
  c.worker.count = 2;
  c.worker.assign = {{"eth0", {0}}, {"eth1", {1}}};
  const auto built = build_node(
      c, {0, {3, 5}}, make_soft, []() noexcept { return std::uint64_t{rte_rdtsc()}; }, 1);
  ASSERT_TRUE(built);
  NodeAssembly& node = **built;
  node.runner.start();
  const auto pass = [&node] {
    for (int i = 0; i < 10; ++i) {
      node.runner.run_once();
      for (WorkerHandle& w : node.parts->workers.all()) w.worker->iterate(node.parts->clock.tsc());
    }
  };
  pass();
  struct Way {
    const RingDevice& in;
    const RingDevice& out;
    const char* dst;
    std::size_t port;
    int numa_node;
  };
  for (const Way& way :
       {Way{ethernet, other, "192.168.2.2", 0, 3}, Way{other, ethernet, "192.168.1.2", 1, 5}}) {
    const auto packet =
        fwd::test::Ip4{.src = "172.16.0.1", .dst = way.dst, .payload_len = 1480}.bytes();
    give(way.in.to_node, ethernet_frame(0x0800, packet, node.faces.view.ports()[way.port].mac));
    pass();
    unsigned fragments = 0;
    while (rte_mbuf* const m = test::next_of(way.out.from_node)) {
      const bool report = *rte_pktmbuf_mtod_offset(m, const std::uint8_t*, 14 + 9) ==
                          static_cast<std::uint8_t>(wire::IpProto::kIgmp);
      if (*rte_pktmbuf_mtod_offset(m, const wire::Be16*, 12) == wire::Be16{0x0800} && !report) {
        ++fragments;
        EXPECT_EQ(m->pool->socket_id, way.numa_node) << way.dst;
      }
      rte_pktmbuf_free(m);
    }
    EXPECT_EQ(fragments, 3U) << way.dst;
  }
  node.runner.begin_to_leave();
  pass();
  EXPECT_TRUE(node.runner.has_left());
}

}  // namespace
}  // namespace ipoib::mgmt

// NOLINTBEGIN(readability-identifier-naming)
using namespace ipoib::mgmt;

extern "C" {

unsigned rte_lcore_to_socket_id(unsigned lcore) {
  if (Machine::get().is_on()) return lcore;
  return next<decltype(rte_lcore_to_socket_id)>("rte_lcore_to_socket_id")(lcore);
}

void* rte_malloc_socket(const char* type, std::size_t size, unsigned align, int socket) {
  Machine::get().note(type, socket);
  return next<decltype(rte_malloc_socket)>("rte_malloc_socket")(type, size, align, socket);
}

rte_ring* rte_ring_create(const char* name, unsigned count, int socket, unsigned flags) {
  Machine::get().note(name, socket);
  return next<decltype(rte_ring_create)>("rte_ring_create")(name, count, socket, flags);
}

rte_ring* rte_ring_create_elem(const char* name, unsigned size, unsigned count, int socket,
                               unsigned flags) {
  Machine::get().note(name, socket);
  return next<decltype(rte_ring_create_elem)>("rte_ring_create_elem")(name, size, count, socket,
                                                                      flags);
}

rte_mempool* rte_pktmbuf_pool_create(const char* name, unsigned n, unsigned cache,
                                     std::uint16_t private_size, std::uint16_t room, int socket) {
  Machine::get().note(name, socket);
  // The library refuses a NUMA node that this machine does not have.
  rte_mempool* const pool = next<decltype(rte_pktmbuf_pool_create)>("rte_pktmbuf_pool_create")(
      name, n, cache, private_size, room, Machine::get().is_on() ? SOCKET_ID_ANY : socket);
  if (pool != nullptr) pool->socket_id = socket;
  return pool;
}

void* rte_zmalloc_socket(const char* type, std::size_t size, unsigned align, int socket) {
  Machine::get().note(type, socket);
  return next<decltype(rte_zmalloc_socket)>("rte_zmalloc_socket")(type, size, align, socket);
}

int rte_eth_rx_queue_setup(std::uint16_t port, std::uint16_t queue, std::uint16_t descriptors,
                           unsigned socket, const rte_eth_rxconf* config, rte_mempool* pool) {
  std::array<char, RTE_ETH_NAME_MAX_LEN> device{};
  if (rte_eth_dev_get_name_by_port(port, device.data()) == 0)
    Machine::get().note(device.data(), pool->socket_id);
  return next<decltype(rte_eth_rx_queue_setup)>("rte_eth_rx_queue_setup")(port, queue, descriptors,
                                                                          socket, config, pool);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
