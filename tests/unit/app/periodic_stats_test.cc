// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/periodic_stats.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

// Prints links and ports at the given interval, until the timer is destroyed.
TEST(PeriodicStats, PrintsAgainAndAgain) {
  FakeNode node;
  fill(node.rows);
  Cli cli{node.faces};
  auto events = mgmt::EventLoop::create();
  ASSERT_TRUE(events);
  std::string printed;
  unsigned times = 0;
  {
    auto timer = print_statistics(cli, **events, 1, [&](std::string_view text) {
      printed = text;
      ++times;
    });
    ASSERT_TRUE(timer);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (times < 2 && std::chrono::steady_clock::now() < limit)
      (*events)->wait(std::chrono::seconds(1));
  }
  EXPECT_EQ(times, 2U);
  for (const auto& s : node.rows.stats)
    EXPECT_NE(printed.find("# NIC statistics for " + s.name + " #"), std::string::npos) << printed;
  EXPECT_FALSE(node.rows.stats.empty());
}

}  // namespace
}  // namespace ipoib::app
