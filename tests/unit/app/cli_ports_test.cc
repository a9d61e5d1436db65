// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "app/cli/cli.h"
#include "app/export/json.h"
#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

struct CliPortsTest : testing::Test {
  CliPortsTest() { fill(node.rows); }
  std::string text(const std::string& line) { return cli.execute(line); }

  FakeNode node;
  Cli cli{node.faces};
};

using Lines = std::vector<std::string>;

TEST_F(CliPortsTest, StopAndStart) {
  EXPECT_EQ(text("port stop all"), "");
  EXPECT_EQ(node.requests.lines, (Lines{"ib0 stopped", "eth0 stopped"}));
  node.requests.lines.clear();
  EXPECT_EQ(text("port start eth0"), "");
  EXPECT_EQ(node.requests.lines, Lines{"eth0 started"});
  EXPECT_EQ(text("port halt all"),
            "error: at word 2 \"halt\": expected one of stop, start, config\n");
  EXPECT_EQ(text("port stop"),
            "error: at word 3, end of line: expected one of all, IFACE (name of a link or port)\n");
}

// A port that fails does not stop the requests to the others. The error names it.
TEST_F(CliPortsTest, OneThatFails) {
  node.requests.refuse = true;
  EXPECT_EQ(text("port stop all"), "error: ib0: refused by the test\n");
  EXPECT_EQ(node.requests.lines, (Lines{"ib0 stopped", "eth0 stopped"}));
  EXPECT_EQ(text("port stop eth0"), "error: refused by the test\n");
}

TEST_F(CliPortsTest, QueuesOfLinks) {
  EXPECT_EQ(text("set link ib0 queues 3"), "");
  EXPECT_EQ(node.requests.lines, (Lines{"ib0 queues 3"}));
  for (const char* n : {"0", "128", "x", "-1", "4294967297"})
    EXPECT_EQ(text(fmt::format("set link ib0 queues {}", n)),
              fmt::format("error: at word 5 \"{}\": expected QUEUES (1-127)\n", n));
  node.requests.refuse = true;
  EXPECT_EQ(text("set link ib0 queues 1"), "error: refused by the test\n");
}

TEST_F(CliPortsTest, MtuOfLinksAndPorts) {
  EXPECT_EQ(text("set link ib0 mtu 1500"), "");
  EXPECT_EQ(text("set port eth0 mtu 9000"), "");
  EXPECT_EQ(text("port config mtu ib0 68"), "");
  EXPECT_EQ(node.requests.lines, (Lines{"ib0 mtu 1500", "eth0 mtu 9000", "ib0 mtu 68"}));
  for (const char* mtu : {"0", "67", "65521", "x", "1500x", "-1", "4294968796"})
    EXPECT_EQ(text(fmt::format("set link ib0 mtu {}", mtu)),
              fmt::format("error: at word 5 \"{}\": expected MTU (68-65520)\n", mtu));
}

// The error names the unknown port and the existing ones.
TEST_F(CliPortsTest, UnknownNames) {
  for (const char* line : {"port stop eth7", "port config mtu eth7 1500", "show port info eth7",
                           "show port xstats eth7", "clear port xstats eth7"})
    EXPECT_EQ(text(line), "error: no eth7; available: ib0, eth0\n") << line;
  EXPECT_EQ(text("set promisc ib0 on"), "error: no ib0; available: eth0\n");
  EXPECT_EQ(text("set link eth0 mtu 1500"), "error: no eth0; available: ib0\n");
  EXPECT_EQ(text("set port ib0 mtu 1500"), "error: no ib0; available: eth0\n");
  EXPECT_EQ(node.requests.lines, Lines{});
}

TEST_F(CliPortsTest, Promiscuous) {
  EXPECT_EQ(text("set promisc all on"), "");
  EXPECT_EQ(text("set promisc eth0 off"), "");
  EXPECT_EQ(node.requests.lines, (Lines{"eth0 promiscuous true", "eth0 promiscuous false"}));
}

TEST_F(CliPortsTest, InfoOfPortsAndLinks) {
  const Json all = Json::parse(text("show port info all json"));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].at("name"), "eth0");
  EXPECT_EQ(all[0].at("started"), true);
  EXPECT_EQ(all[1].at("name"), "ib0");
  const auto one = text("show port info ib0");
  EXPECT_NE(one.find("* Infos for ib0 *"), std::string::npos) << one;
  EXPECT_NE(one.find("  0x0004a7\n"), std::string::npos) << one;
  EXPECT_EQ(one.find("eth0"), std::string::npos);
  EXPECT_EQ(text("show port info"),
            "error: at word 4, end of line: expected one of all, IFACE (name of a link or port)\n");
}

TEST_F(CliPortsTest, SummaryOfPortsAndLinks) {
  EXPECT_EQ(text("show port summary all"),
            "NAME  MAC OR GID          DEVICE    DRIVER   STATE   MTU   MBPS\n"
            "eth0  02:00:00:00:00:01   net_tap0  net_tap  up     1500      0\n"
            "ib0   fe80::2:c903:a:b01  soft0     ipoib    up     2044  10000\n");
}

TEST_F(CliPortsTest, ExtendedStatistics) {
  node.rows.xstats["ib0"] = {{"rx_good_packets", 7}, {"rx_drop_ip_no_route", 5}};
  node.rows.xstats["eth0"] = {{"rx_good_packets", 9}};
  const auto both = text("show port xstats all");
  EXPECT_NE(both.find("# NIC extended statistics for ib0 #"), std::string::npos) << both;
  EXPECT_NE(both.find("\nrx_good_packets: 7\nrx_drop_ip_no_route: 5\n"), std::string::npos) << both;
  EXPECT_NE(both.find("# NIC extended statistics for eth0 #"), std::string::npos) << both;
  EXPECT_EQ(text("show port xstats eth0 json"),
            R"([{"name":"eth0","xstats":{"rx_good_packets":9}}])"
            "\n");
  EXPECT_EQ(text("clear port xstats eth0"), "");
  EXPECT_EQ(text("clear port xstats all"), "");
  EXPECT_EQ(node.requests.lines, (Lines{"clear port [eth0]", "clear port []"}));
}

// Commands of dpdk-testpmd that this program lacks: the error names the word and the alternatives.
TEST_F(CliPortsTest, TestpmdsOtherWordsAreNamed) {
  for (const auto& [line, start] : std::vector<std::pair<std::string, std::string>>{
           {"set fwd mac", "at word 3 \"mac\": expected MODE (route, io, "},
           {"set fwd macswap", "at word 3 \"macswap\": expected MODE"},
           {"set corelist 1,2", "at word 2 \"corelist\": expected one of "},
           {"set nbport 2", "at word 2 \"nbport\": expected one of "},
           {"port close 0", "at word 2 \"close\": expected one of stop, start, config"},
           {"port config all rxq 2", "at word 3 \"all\": expected mtu"},
           {"show rxq info 0 0", "at word 2 \"rxq\": expected one of link, port"},
           {"clear port stats 0", "no 0; available: ib0, eth0"},
           {"tsq", "at word 1 \"tsq\": expected one of help, start, stop"}})
    EXPECT_TRUE(text(line).starts_with("error: " + start)) << line << ": " << text(line);
  // Numbers are names like any other. No port here has this one.
  EXPECT_EQ(text("show port stats 0"), "error: no 0; available: eth0, ib0\n");
}

}  // namespace
}  // namespace ipoib::app
