// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/management_loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace ipoib::mgmt {
namespace {

using namespace std::chrono_literals;

struct ManagementLoopTest : testing::Test {
  /// True if a wait of a minute ends at once.
  bool wakes() {
    const auto begin = std::chrono::steady_clock::now();
    loop->events().wait(60s);
    return std::chrono::steady_clock::now() - begin < 30s;
  }
  std::unique_ptr<ManagementLoop> loop = std::move(*ManagementLoop::create());
};

TEST_F(ManagementLoopTest, RunsTheTasksOfAnotherThreadInOrder) {
  std::string done;
  std::thread other{[&] {
    loop->post([&] { done += 'a'; });
    loop->post([&] { done += 'b'; });
  }};
  other.join();
  EXPECT_TRUE(loop->has_tasks());
  EXPECT_TRUE(wakes());
  EXPECT_EQ(done, "");
  loop->run_tasks();
  EXPECT_EQ(done, "ab");
  EXPECT_FALSE(loop->has_tasks());
}

// A task that posts itself again must not keep the turn from ending.
TEST_F(ManagementLoopTest, TaskOfATaskRunsInTheNextTurn) {
  unsigned turns = 0;
  std::function<void()> again = [&] {
    ++turns;
    loop->post(again);
  };
  loop->post(again);
  loop->run_tasks();
  EXPECT_EQ(turns, 1U);
  EXPECT_TRUE(wakes());
  loop->run_tasks();
  EXPECT_EQ(turns, 2U);
}

TEST_F(ManagementLoopTest, StopWakesTheLoopAndIsAnnounced) {
  EXPECT_FALSE(loop->stop_requested());
  std::thread other{[&] { loop->request_stop(); }};
  EXPECT_TRUE(wakes());
  other.join();
  EXPECT_TRUE(loop->stop_requested());
  loop->announce_stop();  // Without a hook this does nothing.
  unsigned announced = 0;
  loop->on_stop([&] { ++announced; });
  loop->announce_stop();
  EXPECT_EQ(announced, 1U);
}

}  // namespace
}  // namespace ipoib::mgmt
