// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/telemetry.h"

#include <rte_eal.h>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/support/fake_node.h"
#include "tests/unit/app/app_eal.h"

namespace ipoib::app {
namespace {

TEST(TelemetryAnswer, EveryEndpoint) {
  FakeNode node;
  fill(node.rows);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/links", ""), Json::array({"ib0"}));
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/link", "ib0").at("qkey"), 0x8001'0b1bU);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/link", "ib7"), nullptr);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/link", ""), nullptr);
  const auto neighbours = telemetry_answer(node.faces, "/ipoib/neighbours", "ib0");
  EXPECT_EQ(neighbours.at("total"), 1);
  EXPECT_EQ(neighbours.at("entries").at("0").at("address"), "10.0.0.2");
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/neighbours", "eth0").at("total"), 0);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/neighbours", "").at("total"), 1);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/neighbours", "nix"), nullptr);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/groups", "ib0").at("entries").at("0").at("mlid"),
            0xc003);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/groups", "eth0").at("total"), 0);
  EXPECT_TRUE(telemetry_answer(node.faces, "/ipoib/groups", "ib7").is_null());
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/queriers", "ib0").at("total"), 2);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/queriers", "").at("entries").at("0").at("querier"),
            "10.0.0.1");
  EXPECT_TRUE(telemetry_answer(node.faces, "/ipoib/queriers", "ib7").is_null());
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/routes", "").at("entries").size(), 4U);
  const Json filters = telemetry_answer(node.faces, "/ipoib/filters", "1");
  EXPECT_EQ(filters.at("total"), 2);
  EXPECT_EQ(filters.at("entries").at("1").at("state"), "pending");
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/workers", "").at(0).at("lcore"), 1);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/hcas", "").at("soft0").at("lid"), 1);
  const Json sa = telemetry_answer(node.faces, "/ipoib/sa", "").at("soft0");
  EXPECT_EQ(sa.at("mads").at("undeliverable"), 1);
  EXPECT_FALSE(sa.contains("groups")) << "there may be more than telemetry can carry";
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/drops", ""),
            (Json{{"ib0", {{"ip_no_route", 5}}}, {"soft0", {{"ib_pkey", 12}}}}));
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/ports", ""), Json::array({"eth0"}));
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/port", "eth0").at("driver"), "net_tap");
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/port", "ib0"), nullptr);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/xstats", "ib0"),
            (Json{{"rx_good_packets", 7}, {"rx_drop_ip_no_route", 5}}));
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/xstats", "ib7"), nullptr);
  const auto connections = telemetry_answer(node.faces, "/ipoib/connections", "ib0");
  EXPECT_EQ(connections.at("entries").at("0").at("id"), 0x8000'0007U);
  EXPECT_EQ(connections.at("entries").at("0").at("tx_packets"), 12);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/connections", "eth0").at("total"), 0);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/connections", "ib7"), nullptr);
  EXPECT_EQ(
      telemetry_answer(node.faces, "/ipoib/multicast_routes", "").at("entries").at("0").at("in"),
      "eth0");
  EXPECT_EQ(
      telemetry_answer(node.faces, "/ipoib/sa_groups", "soft0").at("entries").at("0").at("mlid"),
      0xc000);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/sa_ports", "soft0").at("total"), 1);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/sa_ports", "soft9"), nullptr);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/forward", "").at("mode"), "route");
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/forward_stats", "").at("ports").at(0).at("name"),
            "eth0");
  node.rows.management.slow_turns = 4;
  node.rows.management.log_lines_lost = 2;
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/management", "").at("log_lines_lost"), 2);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/management", "").at("slow_turns"), 4);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/latency", "").at("p99_ns"), 0);
  node.rows.capture.lost = 3;
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/capture", "").at("lost"), 3);
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/bogus", ""), nullptr);
}

// Sections of the configuration are available by name, and repeated ones in pieces.
TEST(TelemetryAnswer, Configuration) {
  FakeNode node;
  const Json names = telemetry_answer(node.faces, "/ipoib/config", "");
  EXPECT_NE(std::find(names.begin(), names.end(), "worker"), names.end());
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/config", "link").at("ib0").at("hca"), "soft0");
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/config", "worker").at("forward-mode"), "route");
  EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/config", "nix"), nullptr);
}

// Long lists come in pieces of a size that telemetry can carry, and are complete.
TEST(TelemetryAnswer, LongListsComeInPieces) {
  FakeNode node;
  fill(node.rows);
  const auto one = node.rows.neighbours[0];
  node.rows.neighbours.assign(1000, one);
  std::size_t first = 0, nb_pieces = 0;
  while (first < 1000) {
    const auto piece =
        telemetry_answer(node.faces, "/ipoib/neighbours", fmt::format("ib0,{}", first));
    EXPECT_EQ(piece.at("total"), 1000);
    EXPECT_EQ(piece.at("first"), first);
    ASSERT_FALSE(piece.at("entries").empty());
    EXPECT_LT(piece.dump().size(), 14'000U);
    EXPECT_TRUE(piece.at("entries").contains(std::to_string(first)));
    first += piece.at("entries").size();
    ASSERT_LT(++nb_pieces, 100U);
  }
  for (const char* odd : {"ib0,1000", "ib0,99999999999999999999", "ib0,-1", "ib0,x", "ib0,,"})
    EXPECT_EQ(telemetry_answer(node.faces, "/ipoib/neighbours", odd).at("total"), 1000) << odd;
}

TEST(RunOnManagement, GivesUpWhenNobodyAnswers) {
  FakeNode node;  // This node does not run.
  const auto run = run_on_management(node.loop, std::chrono::milliseconds(1));
  EXPECT_EQ(run([] { return Json{1}; }), nullptr);
}

// A collector's view, over DPDK's own socket.
class TelemetrySocket : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Eal::start());
    fill(node.rows);
    telemetry =
        *Telemetry::create(node.faces, run_on_management(node.loop, std::chrono::seconds(5)));
    management = std::thread{[this] { node.run(); }};
  }
  void TearDown() override {
    node.loop.request_stop();
    management.join();
  }

  static std::string ask(const std::string& command) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = std::string{rte_eal_get_runtime_dir()} + "/dpdk_telemetry.v2";
    std::memcpy(address.sun_path, path.c_str(), std::min(path.size() + 1, sizeof address.sun_path));
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    EXPECT_EQ(connect(fd, generic, sizeof address), 0);
    std::vector<char> bytes(1 << 16);
    recv(fd, bytes.data(), bytes.size(), 0);  // Greeting
    send(fd, command.data(), command.size(), 0);
    const auto n = recv(fd, bytes.data(), bytes.size(), 0);
    close(fd);
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  }

  FakeNode node;
  std::unique_ptr<Telemetry> telemetry;
  std::thread management;
};

TEST_F(TelemetrySocket, AnswersAreTheSameJson) {
  EXPECT_EQ(ask("/ipoib/links"), R"({"/ipoib/links":["ib0"]})");
  const Json link = Json::parse(ask("/ipoib/link,ib0")).at("/ipoib/link");
  EXPECT_EQ(link, telemetry_answer(node.faces, "/ipoib/link", "ib0"));
  EXPECT_EQ(Json::parse(ask("/ipoib/neighbours,ib0")).at("/ipoib/neighbours"),
            telemetry_answer(node.faces, "/ipoib/neighbours", "ib0"));
  EXPECT_EQ(Json::parse(ask("/ipoib/routes")).at("/ipoib/routes"),
            telemetry_answer(node.faces, "/ipoib/routes", ""));
  EXPECT_EQ(Json::parse(ask("/ipoib/workers")).at("/ipoib/workers").at("0"),
            telemetry_answer(node.faces, "/ipoib/workers", "").at(0));
  EXPECT_EQ(Json::parse(ask("/ipoib/drops")).at("/ipoib/drops"),
            telemetry_answer(node.faces, "/ipoib/drops", ""));
  EXPECT_EQ(Json::parse(ask("/ipoib/xstats,ib0")).at("/ipoib/xstats"),
            telemetry_answer(node.faces, "/ipoib/xstats", "ib0"));
}

TEST_F(TelemetrySocket, WholePiecesArrive) {
  node.rows.neighbours.assign(1000, node.rows.neighbours[0]);
  const auto piece = Json::parse(ask("/ipoib/neighbours,ib0,500")).at("/ipoib/neighbours");
  EXPECT_EQ(piece, telemetry_answer(node.faces, "/ipoib/neighbours", "ib0,500"));
}

TEST_F(TelemetrySocket, ObjectsThatAreNotThereAreNull) {
  EXPECT_EQ(ask("/ipoib/link,ib7"), R"({"/ipoib/link":null})");
  EXPECT_EQ(ask("/ipoib/link"), R"({"/ipoib/link":null})");
}

// Telemetry carries only whole numbers.
TEST_F(TelemetrySocket, FractionsAreRounded) {
  node.rows.workers[0].busy_cycles = 1996;
  node.rows.workers[0].rx_packets = 10;
  const Json stats = Json::parse(ask("/ipoib/forward_stats")).at("/ipoib/forward_stats");
  EXPECT_EQ(stats.at("lcores").at("0").at("cycles_per_packet"), 200);
  EXPECT_EQ(stats.at("ports").at("1").at("RX_total"), 0);
}

TEST_F(TelemetrySocket, NamesThatTelemetryDoesNotAllow) {
  node.rows.drops = {{Drop::kIbPkey, "soft-0", 1}};
  EXPECT_EQ(ask("/ipoib/drops"), R"({"/ipoib/drops":{"soft_0":{"ib_pkey":1}}})");
}

TEST_F(TelemetrySocket, OneNodeAtATimeAndNoneAfterIt) {
  EXPECT_FALSE(
      Telemetry::create(node.faces, run_on_management(node.loop, std::chrono::seconds(1))));
  telemetry.reset();
  EXPECT_EQ(ask("/ipoib/links"), R"({"/ipoib/links":null})");
  telemetry = *Telemetry::create(node.faces, run_on_management(node.loop, std::chrono::seconds(5)));
  EXPECT_EQ(ask("/ipoib/links"), R"({"/ipoib/links":["ib0"]})");
}

}  // namespace
}  // namespace ipoib::app
