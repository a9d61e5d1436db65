// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <vector>

namespace ipoib::mgmt {
namespace {

struct EventLoopTest : testing::Test {
  void SetUp() override {
    loop = std::move(*EventLoop::create());
    for (int& fd : fds) fd = eventfd(0, EFD_NONBLOCK);
  }
  void TearDown() override {
    for (const int fd : fds) close(fd);
  }
  std::unique_ptr<EventLoop> loop;
  std::array<int, 2> fds{};
};

TEST_F(EventLoopTest, CallsTheHandlerOfAReadyDescriptorOnly) {
  std::vector<int> called;
  for (const int fd : fds)
    ASSERT_TRUE(loop->watch(fd, EPOLLIN, [&called, fd](std::uint32_t) { called.push_back(fd); }));
  loop->wait(Duration::zero());
  EXPECT_TRUE(called.empty());
  eventfd_write(fds[1], 1);
  loop->wait(std::chrono::seconds(10), [&called] { called.push_back(-1); });
  EXPECT_EQ(called, (std::vector{-1, fds[1]})) << "woken first";
}

TEST_F(EventLoopTest, AHandlerMayUnwatchItselfAndOthers) {
  int calls = 0;
  for (const int fd : fds) {
    ASSERT_TRUE(loop->watch(fd, EPOLLIN, [&](std::uint32_t) {
      ++calls;
      for (const int other : fds) loop->unwatch(other);
    }));
    eventfd_write(fd, 1);
  }
  loop->wait(Duration::zero());
  loop->wait(Duration::zero());
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, RefusesWhatEpollCannotWatch) {
  EXPECT_FALSE(loop->watch(-1, EPOLLIN, [](std::uint32_t) {}));
  loop->unwatch(-1);
}

}  // namespace
}  // namespace ipoib::mgmt
