// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/prometheus.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_node.h"
#include "tests/unit/app/app_eal.h"

namespace ipoib::app {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ListenAddress, WhatIsOne) {
  for (const char* good : {"127.0.0.1:9400", "0.0.0.0:0", "[::1]:9400", "[::]:65535"})
    EXPECT_TRUE(check_listen_address(good)) << good;
  for (const char* bad :
       {"", ":", "9400", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:80s", "127.0.0.1:80,90", "localhost:9400", "::1:9400", "[127.0.0.1]:9400",
        "[::1]", "[::1:9400", "[]:9400", "127.0.0.1:80 ", "127.0.0.1:+80", "256.0.0.1:80"}) {
    const auto checked = check_listen_address(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_THAT(checked.error().what, HasSubstr("ADDRESS:PORT"));
  }
}

struct PrometheusTest : testing::Test {
  void SetUp() override {
    ASSERT_TRUE(Eal::start());
    fill(node.rows);
  }
  void TearDown() override {
    node.loop.request_stop();
    if (management.joinable()) management.join();
  }
  void serve(std::chrono::milliseconds timeout = std::chrono::seconds(5),
             std::chrono::milliseconds max_age = std::chrono::seconds(1)) {
    auto created = Prometheus::create(node.faces, {"127.0.0.1:0", "test", timeout, max_age});
    ASSERT_TRUE(created) << created.error().what;
    server = std::move(*created);
  }
  void run() {
    management = std::thread{[this] { node.run(); }};
  }

  [[nodiscard]] int connect_to_server() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server->port());
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const timeval limit{20, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    EXPECT_EQ(connect(fd, generic, sizeof address), 0);
    return fd;
  }
  /// Returns the complete answer to `request`, up to the close.
  [[nodiscard]] std::string answer_to(std::string_view request) const {
    const int fd = connect_to_server();
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    std::array<char, 4096> part;
    ssize_t n = 0;
    while ((n = recv(fd, part.data(), part.size(), 0)) > 0)
      answer.append(part.data(), static_cast<std::size_t>(n));
    close(fd);
    return answer;
  }

  static constexpr std::string_view kGet = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

  FakeNode node;
  std::unique_ptr<Prometheus> server;
  std::thread management;
};

TEST_F(PrometheusTest, AnswersWithTheMetricsOfTheNode) {
  serve();
  run();
  EXPECT_NE(server->port(), 0);
  const std::string answer = answer_to(kGet);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("ipoib_interface_receive_packets_total{interface=\"ib0\"} 107\n"));
  EXPECT_THAT(answer, HasSubstr("# HELP ipoib_uptime_seconds "));
}

// Many scrapers cost the management lcore one sample.
TEST_F(PrometheusTest, ScrapesWithinTheAgeOfASampleShareIt) {
  serve(std::chrono::seconds(5), std::chrono::minutes(10));
  run();
  const std::string first = answer_to(kGet);
  EXPECT_THAT(first, HasSubstr("ipoib_multicast_routes 1\n"));
  node.loop.post([this] { node.rows.totals.multicast_routes = 7; });
  EXPECT_THAT(answer_to(kGet), HasSubstr("ipoib_multicast_routes 1\n"));
}

TEST_F(PrometheusTest, AnOldSampleIsNotUsed) {
  serve(std::chrono::seconds(5), std::chrono::milliseconds(0));
  run();
  EXPECT_THAT(answer_to(kGet), HasSubstr("ipoib_multicast_routes 1\n"));
  node.loop.post([this] { node.rows.totals.multicast_routes = 7; });
  EXPECT_THAT(answer_to(kGet), HasSubstr("ipoib_multicast_routes 7\n"));
}

TEST_F(PrometheusTest, NothingButGetOfMetrics) {
  serve();
  run();
  for (const char* request :
       {"GET /metrics/x HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "PUT /x HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nrubbish\r\n\r\n", "GET /metrics\r\n\r\n"}) {
    const std::string answer = answer_to(request);
    EXPECT_THAT(answer, testing::Not(HasSubstr(" 200 "))) << request;
    EXPECT_THAT(answer, testing::Not(HasSubstr("ipoib_"))) << request;
  }
  EXPECT_THAT(answer_to(kGet), HasSubstr("ipoib_up 1\n")) << "and it still works";
}

// The answer says that the management lcore hangs or has ended.
TEST_F(PrometheusTest, SaysWhenManagementDoesNotAnswer) {
  serve(std::chrono::milliseconds(50));
  const std::string answer = answer_to(kGet);
  EXPECT_THAT(answer, HasSubstr("ipoib_up 0\n"));
  EXPECT_THAT(answer, testing::Not(HasSubstr("ipoib_uptime")));
}

TEST_F(PrometheusTest, EndsWhileAScrapeWaits) {
  serve(std::chrono::minutes(10));  // There will be no answer.
  std::string answer;
  std::thread scraper{[&] { answer = answer_to(kGet); }};
  // The scrape waits once it has queried the node.
  for (int i = 0; i < 1000 && !node.loop.has_tasks(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(node.loop.has_tasks());
  const auto begin = std::chrono::steady_clock::now();
  server.reset();
  scraper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_THAT(answer, testing::Not(HasSubstr("ipoib_up 1\n")));
}

// Clients that send nothing occupy threads until their timeout, and nothing else.
TEST_F(PrometheusTest, ManyAtOnceBesideSilentOnes) {
  serve();
  run();
  const std::array silent{connect_to_server(), connect_to_server()};
  std::vector<std::thread> scrapers;
  std::atomic<int> good{0};
  for (int i = 0; i < 20; ++i)
    scrapers.emplace_back([&] {
      if (answer_to(kGet).find("ipoib_up 1\n") != std::string::npos) ++good;
    });
  for (auto& s : scrapers) s.join();
  EXPECT_EQ(good, 20);
  for (const int fd : silent) close(fd);
}

TEST_F(PrometheusTest, AnAddressThatIsTaken) {
  serve();
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  const auto second = Prometheus::create(node.faces, {address, "test"});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().what, HasSubstr("--prometheus " + address));
  EXPECT_THAT(second.error().what, HasSubstr("Address already in use"));
  const auto elsewhere = Prometheus::create(node.faces, {"192.0.2.1:9400", "test"});
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().what, HasSubstr("Cannot assign requested address"));
}

// Debian's HTTP server is built without IPv6, and the error says so. Other builds may support it.
TEST_F(PrometheusTest, Ip6) {
  const auto created = Prometheus::create(node.faces, {"[::1]:0", "test"});
  if (created)
    EXPECT_NE((*created)->port(), 0);
  else
    EXPECT_THAT(created.error().what,
                testing::AnyOf(HasSubstr("built without IPv6"), HasSubstr("Cannot assign")));
}

}  // namespace
}  // namespace ipoib::app
