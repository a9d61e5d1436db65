// SPDX-License-Identifier: BSD-3-Clause
// Ports and links are stopped, started and changed while the node runs.
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

/// Returns the error of a request, or an empty text if it succeeded.
std::string outcome(const Status& done) {
  return done ? "" : done.error().what;
}

struct NodePortsTest : NodeFixture {
  static std::string request(const NodeFaces& node,
                             const std::function<Status(const NodeFaces&)>& change) {
    return ask<std::string>(node, [&](const NodeFaces& n) { return outcome(change(n)); });
  }
  static EthernetPortInfo port(const NodeFaces& node) {
    return ask<EthernetPortInfo>(node, [](const NodeFaces& n) { return n.view.ports()[0]; });
  }
  static LinkInfo link(const NodeFaces& node) {
    return ask<LinkInfo>(node, [](const NodeFaces& n) { return n.view.links()[0]; });
  }
  static std::string start(const NodeFaces& node, const char* name, bool on) {
    return request(node, [=](const NodeFaces& n) { return n.control.set_port_started(name, on); });
  }
};

// A link that is still leaving its groups comes up again after it has left them.
TEST_F(NodePortsTest, LinkDownAndUpAtOnce) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    const auto states = ask<std::vector<std::string>>(node, [](const NodeFaces& n) {
      std::vector<std::string> seen;
      for (const bool up : {false, true}) {
        seen.push_back(outcome(n.control.set_port_started("ib0", up)));
        seen.push_back(n.view.links()[0].state);
      }
      return seen;
    });
    EXPECT_EQ(states, (std::vector<std::string>{"", "stopping", "", "stopping"}));
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
  });
}

// `link down` also stops receiving: packets that still arrive are neither delivered nor answered.
TEST_F(NodePortsTest, WhatIsDownReceivesNothing) {
  run(config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return port(node).state == "up"; }));
    const auto set_up = [&](bool up) {
      return request(node,
                     [=](const NodeFaces& n) { return n.control.set_interface_up("eth0", up); });
    };
    const auto lost = [&] {
      return port(node).traffic.drops[static_cast<std::size_t>(Drop::kInterfaceDown)];
    };
    const auto frame = ethernet_frame(0x0800, echo_request(), port(node).mac);
    EXPECT_EQ(set_up(false), "");
    // This request runs in a later iteration of the management loop, so the workers already know.
    EXPECT_EQ(port(node).state, "stopped");
    give(ethernet.to_node, frame);
    EXPECT_TRUE(eventually([&] { return lost() == 1; }));
    EXPECT_EQ(port(node).traffic.rx_packets, 1U);

    EXPECT_EQ(set_up(true), "");
    EXPECT_TRUE(eventually([&] { return port(node).state == "up"; }));
    give(ethernet.to_node, frame);
    take(ethernet.from_node, 0x0806);  // the node looks up the sender to answer it
    EXPECT_EQ(lost(), 1U);
  });
}

// Workers do not use a stopped device; the packets that it had already received are counted.
TEST_F(NodePortsTest, PortStopsAndStartsItsDevice) {
  run(config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return port(node).state == "up"; }));
    const auto frame = ethernet_frame(0x9999, echo_request(), port(node).mac);
    give(ethernet.to_node, frame);
    EXPECT_TRUE(eventually([&] { return port(node).traffic.rx_packets == 1; }));

    for (int i = 0; i < 2; ++i) EXPECT_EQ(start(node, "eth0", false), "");
    EXPECT_EQ(port(node).state, "stopped");
    EXPECT_FALSE(port(node).started);
    give(ethernet.to_node, frame);
    const auto loops = [&] {
      return ask<std::uint64_t>(node, [](const NodeFaces& n) { return n.stats.worker_loops()[0]; });
    };
    const auto before = loops();
    EXPECT_TRUE(eventually([&] { return loops() > before + 10; }));
    EXPECT_EQ(port(node).traffic.rx_packets, 1U);
    EXPECT_EQ(rte_ring_count(ethernet.to_node), 1U);
    EXPECT_EQ(
        request(node, [](const NodeFaces& n) { return n.control.set_interface_up("eth0", true); }),
        "eth0 is stopped; start it with: port start eth0");

    for (int i = 0; i < 2; ++i) EXPECT_EQ(start(node, "eth0", true), "");
    EXPECT_TRUE(port(node).started);
    EXPECT_TRUE(eventually([&] { return port(node).state == "up"; }));
    EXPECT_TRUE(eventually([&] { return port(node).traffic.rx_packets == 2; }));
    EXPECT_EQ(start(node, "eth7", true), "no link or port eth7");
  });
}

// Each packet that arrives before or during a stop is forwarded or counted as lost.
TEST_F(NodePortsTest, NothingIsLostUncounted) {
  NodeConfig c = config();
  c.ports[0].addresses.clear();  // the port sends no packets of its own either
  c.ports[0].ip.ip6.enabled = false;
  run(c, [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return port(node).state == "up"; }));
    const auto frame = ethernet_frame(0x9999, echo_request(), port(node).mac);
    constexpr unsigned kRounds = 20, kFrames = 50;
    for (unsigned round = 0; round < kRounds; ++round) {
      for (unsigned i = 0; i < kFrames; ++i) give(ethernet.to_node, frame);
      EXPECT_EQ(start(node, "eth0", false), "");
      EXPECT_EQ(rte_ring_count(ethernet.to_node), 0U);
      EXPECT_EQ(start(node, "eth0", true), "");
    }
    const auto traffic = port(node).traffic;
    EXPECT_EQ(traffic.rx_packets + traffic.drops[static_cast<std::size_t>(Drop::kLinkDown)],
              kRounds * kFrames);
  });
}

TEST_F(NodePortsTest, MtuAndPromiscuousModeAreSet) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    const auto set = [&](const char* name, std::uint16_t mtu) {
      return request(node, [=](const NodeFaces& n) { return n.control.set_mtu(name, mtu); });
    };
    EXPECT_EQ(set("ib0", 1500), "");
    EXPECT_EQ(link(node).mtu, 1500);
    EXPECT_EQ(set("ib0", 4000),
              "invalid MTU 4000 of ib0, allowed: 68-2044, limited by its broadcast group");
    EXPECT_EQ(set("eth0", 4082), "");
    EXPECT_EQ(port(node).mtu, 4082);
    EXPECT_EQ(port(node).state, "up");
    EXPECT_TRUE(port(node).started);
    EXPECT_TRUE(
        set("eth0", 4083)
            .starts_with("invalid MTU 4083 of eth0, allowed: 68-4082, limited by the mbuf size"));
    EXPECT_EQ(set("eth7", 1500), "no link or port eth7");
    EXPECT_EQ(
        ask<std::uint16_t>(node, [](const NodeFaces& n) { return n.view.config().ports[0].mtu; }),
        4082);

    for (const bool on : {true, false}) {
      EXPECT_EQ(
          request(node, [on](const NodeFaces& n) { return n.control.set_promiscuous("eth0", on); }),
          "");
      EXPECT_EQ(port(node).promiscuous, on);
    }
    EXPECT_EQ(
        request(node, [](const NodeFaces& n) { return n.control.set_promiscuous("ib0", true); }),
        "no port ib0");
  });
}

TEST_F(NodePortsTest, CountersOfOneAreCleared) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    EXPECT_TRUE(eventually([&] { return xstat(node, "eth0", "tx_good_packets") > 0; }));
    const auto sent = ask<std::uint64_t>(node, [](const NodeFaces& n) {
      EXPECT_EQ(n.stats.port_stats().size(), 2U);  // starts the interval of the rates
      n.stats.clear_port_stats("ib0");
      EXPECT_EQ(n.view.links()[0].traffic.tx_packets, 0U);
      return n.view.ports()[0].traffic.tx_packets;
    });
    EXPECT_GT(sent, 0U);
  });
}

}  // namespace
}  // namespace ipoib::mgmt
