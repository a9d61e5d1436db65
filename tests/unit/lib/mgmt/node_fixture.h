// SPDX-License-Identifier: BSD-3-Clause
// A whole node on ring ethdevs. Its worker runs on an lcore, its management loop on this thread,
// and another thread acts as the hosts outside.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lib/mgmt/management_loop.h"
#include "lib/mgmt/node.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_totals.h"
#include "lib/mgmt/node_view.h"
#include "lib/mgmt/test_traffic.h"
#include "lib/wire/iba.h"
#include "tests/support/packets.h"
#include "tests/support/ring_device.h"
#include "tests/support/soft_hcas.h"

namespace ipoib::mgmt {

using namespace std::chrono_literals;

inline constexpr wire::MacAddr kPeerMac{std::byte{2}, {}, {}, {}, {}, std::byte{9}};
inline constexpr std::uint32_t kPortIp = 0xc0a8'0101, kPeerIp = 0xc0a8'0102;

using test::RingDevice;

struct NodeFixture : testing::Test {
  /// Closes the devices that no node has closed, because EAL has room for 32.
  ~NodeFixture() override {
    for (const RingDevice* device : {&cable, &ethernet}) {
      std::uint16_t port = 0;
      if (rte_eth_dev_get_port_by_name(device->name.c_str(), &port) == 0)
        static_cast<void>(rte_eth_dev_close(port));
    }
  }
  NodeConfig config() {
    NodeConfig c;
    HcaConfig hca;
    hca.name = "soft0";
    hca.wire = cable.name;
    hca.guid = 0x0002'c903'000a'0b01;
    hca.lid = hca.sm_lid = 1;
    hca.subnet_administrator = true;
    c.hcas = {hca};
    c.links = {{"ib0", "soft0", 0xffff, 2, {*wire::parse_prefix("10.0.0.1/24")}}};
    c.ports = {{"eth0", ethernet.name, {*wire::parse_prefix("192.168.1.1/24")}, 1500}};
    c.worker.idle = IdlePolicy::kSleep;
    c.total_num_mbufs = 4096;
    c.neighbour.max_entries = 1024;
    c.auto_start = true;
    return c;
  }

  using Outside = std::function<void(const NodeFaces&)>;
  /// Runs a node on this thread and `outside` on another one; stops the node when `outside`
  /// returns. Null: there is no node, and the test has failed.
  static std::unique_ptr<Node> run_node(const NodeConfig& c, const HcaFactory& make_hca,
                                        const Outside& outside) {
    auto node = Node::create(c, {0, {1}}, make_hca);
    if (!node) {
      ADD_FAILURE() << node.error().what;
      return nullptr;
    }
    std::thread hosts{[&] {
      outside((*node)->faces());
      (*node)->faces().loop.request_stop();
    }};
    (*node)->run();
    hosts.join();
    return std::move(*node);
  }
  /// Runs a node that announces its departure to the fabric.
  static void run(const NodeConfig& c, const Outside& outside) {
    const auto node = run_node(c, make_soft, outside);
    ASSERT_TRUE(node);
    for (const LinkInfo& l : node->faces().view.links()) EXPECT_EQ(l.state, "stopped");
    for (const SaInfo& sa : node->faces().view.subnet_administration())
      for (const auto& g : sa.groups) EXPECT_TRUE(g.members.empty());
  }

  /// Returns the answer to a question that the management lcore evaluates.
  template <class T>
  static T ask(const NodeFaces& node, std::function<T(const NodeFaces&)> question) {
    std::promise<T> answer;
    node.loop.post([&] { answer.set_value(question(node)); });
    return answer.get_future().get();
  }
  static bool eventually(const std::function<bool()>& what) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!what()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  /// Returns -1 if there is no such name.
  static std::int64_t xstat(const NodeFaces& node, std::string_view of, std::string_view name) {
    const auto rows =
        ask<std::vector<Xstat>>(node, [of](const NodeFaces& n) { return n.stats.xstats(of); });
    for (const Xstat& x : rows)
      if (x.name == name) return static_cast<std::int64_t>(x.value);
    return -1;
  }
  static bool link_is_up(const NodeFaces& node) {
    return ask<bool>(node, [](const NodeFaces& n) { return n.view.links()[0].state == "up"; });
  }

  void give(rte_ring* ring, std::span<const std::byte> octets) {
    ASSERT_EQ(rte_ring_enqueue(ring, test::mbuf_of(outside_pool, octets)), 0);
  }
  /// Returns the next frame of the EtherType; discards others, and IGMP, which a node sends at times
  /// of its own.
  std::vector<std::byte> take(rte_ring* ring, std::uint16_t ether_type) {
    const auto is_igmp = [](std::span<const std::byte> octets) {
      const auto ip = wire::read<wire::Ipv4Hdr>(octets, 14);
      return wire::read<wire::Be16>(octets, 12)->host() == 0x0800 && ip &&
             ip->protocol == static_cast<std::uint8_t>(wire::IpProto::kIgmp);
    };
    std::vector<std::byte> frame;
    EXPECT_TRUE(eventually([&] {
      rte_mbuf* const m = test::next_of(ring);
      if (m == nullptr) return false;
      frame = test::take(m);
      return wire::read<wire::Be16>(frame, 12)->host() == ether_type && !is_igmp(frame);
    }));
    return frame;
  }

  static void SetUpTestSuite() {
    if (outside_pool != nullptr) return;  // an earlier suite has created it
    outside_pool = rte_pktmbuf_pool_create("outside", 1023, 0, 0, 2176, SOCKET_ID_ANY);
  }
  static inline rte_mempool* outside_pool = nullptr;
  RingDevice cable{"cable"};
  RingDevice ethernet{"ethernet"};
};

inline std::vector<std::byte> ethernet_frame(std::uint16_t ether_type,
                                             std::span<const std::byte> payload,
                                             const wire::MacAddr& to) {
  return fwd::test::ethernet(to, kPeerMac, ether_type, {payload.begin(), payload.end()});
}

inline std::vector<std::byte> echo_request() {
  return fwd::test::echo_packet(wire::IpAddr::v4(kPeerIp), wire::IpAddr::v4(kPortIp), 32);
}

}  // namespace ipoib::mgmt
