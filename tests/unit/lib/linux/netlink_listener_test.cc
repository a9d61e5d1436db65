// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/netlink_listener.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "lib/linux/network_namespace.h"
#include "tests/support/logged.h"
#include "tests/support/test_namespace.h"

using namespace std::chrono_literals;

namespace ipoib::kernel {
namespace {

struct Counts : NetlinkSink {
  void on_snapshot_begin() override {}
  void on_message(const nlmsghdr& /*message*/) override { ++messages; }
  void on_snapshot_end() override {}
  void on_loss() override { ++losses; }

  unsigned messages = 0;
  unsigned losses = 0;
};

/// Enables and disables the loopback interface of the caller's namespace. Each is one message.
void change_loopback(int times) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  for (int i = 0; i < times; ++i) {
    request.ifr_flags = i % 2 == 0 ? IFF_UP : 0;
    EXPECT_EQ(ioctl(fd, SIOCSIFFLAGS, &request), 0);
  }
  close(fd);
}

/// Interfaces with their changes, and routes without.
NetlinkSubscription subscription() {
  return {{RTNLGRP_LINK},
          {{RTM_GETLINK, AF_UNSPEC, sizeof(ifinfomsg)}, {RTM_GETROUTE, AF_INET, sizeof(rtmsg)}}};
}

struct NetlinkListenerTest : ::testing::Test {
  void SetUp() override {
    if (!here.made()) GTEST_SKIP() << "this process may not make network namespaces";
    auto opened = NetlinkListener::open(subscription(), path, counts, now);
    ASSERT_TRUE(opened) << opened.error().what;
    listener = std::move(*opened);
  }
  /// Receives until there are so many complete snapshots.
  void receive_snapshots(std::uint64_t n) {
    for (int i = 0; i < 100 && listener->reader().snapshots() < n; ++i) {
      pollfd ready{listener->fd(), POLLIN, 0};
      poll(&ready, 1, 100);
      ASSERT_TRUE(listener->receive(now));
    }
    ASSERT_EQ(listener->reader().snapshots(), n);
  }
  void change(int times) {
    ASSERT_TRUE(in_network_namespace(path, [times] { change_loopback(times); }));
  }
  void set_buffer(int octets) const {
    EXPECT_EQ(setsockopt(listener->fd(), SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets), 0);
  }

  test::NetworkNamespace here;
  std::string path = here.path();
  Counts counts;
  TimePoint now{};
  std::unique_ptr<NetlinkListener> listener;
};

TEST_F(NetlinkListenerTest, HearsTheNamespaceThatItWasOpenedIn) {
  EXPECT_EQ(listener->next_deadline(), now + 10s);
  receive_snapshots(1);
  EXPECT_EQ(counts.messages, 1U) << "a new namespace has one interface";
  EXPECT_FALSE(listener->next_deadline());
  change(1);
  ASSERT_TRUE(listener->receive(now));
  EXPECT_EQ(counts.messages, 2U);
  ASSERT_TRUE(listener->receive(now)) << "it does not wait";
  EXPECT_EQ(counts.messages, 2U);
}

TEST_F(NetlinkListenerTest, OverrunIsFollowedByASnapshot) {
  receive_snapshots(1);
  set_buffer(1);
  change(100);
  ASSERT_TRUE(listener->receive(now));
  EXPECT_GE(counts.losses, 1U);
  EXPECT_EQ(listener->next_deadline(), now + 1s);
  ASSERT_TRUE(listener->receive(now + 1ms));
  EXPECT_TRUE(listener->reader().needs_snapshot()) << "once a second at most";
  now += 1s;
  ASSERT_TRUE(listener->receive(now));
  receive_snapshots(2);
}

/// The kernel knows no objects of the second type.
TEST_F(NetlinkListenerTest, RefusedListIsLoggedOnce) {
  NetlinkSubscription refused = subscription();
  refused.dumps[1].type = RTM_GETLINK + 4000;
  const std::string log = logged([&] {
    auto opened = NetlinkListener::open(refused, path, counts, now);
    ASSERT_TRUE(opened);
    for (int i = 0; i < 5; ++i, now += 1s) {
      pollfd ready{(*opened)->fd(), POLLIN, 0};
      poll(&ready, 1, 100);
      ASSERT_TRUE((*opened)->receive(now));
    }
    EXPECT_EQ((*opened)->reader().snapshots(), 0U);
  });
  const std::string line = "netlink: the kernel does not list its objects: Operation not supported";
  EXPECT_NE(log.find(line), std::string::npos) << log;
  EXPECT_EQ(log.find(line), log.rfind(line)) << log;
}

TEST_F(NetlinkListenerTest, TurnIsLimited) {
  receive_snapshots(1);
  set_buffer(200'000);
  counts = {};
  change(100);
  ASSERT_TRUE(listener->receive(now));
  EXPECT_EQ(counts.messages, 64U);
  ASSERT_TRUE(listener->receive(now));
  EXPECT_EQ(counts.messages, 100U);
  EXPECT_EQ(counts.losses, 0U);
}

/// A message takes about 1 KiB of the buffer, and the default buffer has 208 KiB.
TEST_F(NetlinkListenerTest, P17_BurstFitsIntoTheBuffer) {
  receive_snapshots(1);
  counts = {};
  change(10'000);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(listener->receive(now));
  EXPECT_EQ(counts.messages, 10'000U);
  EXPECT_EQ(counts.losses, 0U);
}

TEST_F(NetlinkListenerTest, OtherProcessesAreNotHeard) {
  receive_snapshots(1);
  counts = {};
  sockaddr_nl to{};
  socklen_t len = sizeof to;
  ASSERT_EQ(getsockname(listener->fd(), reinterpret_cast<sockaddr*>(&to), &len), 0);
  const nlmsghdr message{NLMSG_LENGTH(0), RTM_NEWLINK, 0, 0, 0};
  ASSERT_TRUE(in_network_namespace(path, [&to, &message] {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    EXPECT_EQ(
        sendto(fd, &message, sizeof message, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
        static_cast<ssize_t>(sizeof message));
    close(fd);
  }));
  ASSERT_TRUE(listener->receive(now));
  EXPECT_EQ(counts.messages, 0U);
}

TEST_F(NetlinkListenerTest, DumpWithoutAnEndIsRepeated) {
  std::array<char, 32'768> lost;
  while (recv(listener->fd(), lost.data(), lost.size(), MSG_DONTWAIT) > 0) continue;
  now += 10s - 1ms;
  ASSERT_TRUE(listener->receive(now));
  EXPECT_TRUE(listener->reader().in_snapshot());
  now += 1ms;
  ASSERT_TRUE(listener->receive(now));
  receive_snapshots(1);
}

TEST(NetworkNamespace, ErrorsNameIt) {
  bool called = false;
  const auto enter = [&called](const std::string& name) {
    const Status entered = in_network_namespace(name, [&called] { called = true; });
    return entered ? Error{} : entered.error();
  };
  const Error missing = enter("no-such-namespace");
  EXPECT_EQ(missing.code, Errc::kNotFound);
  EXPECT_EQ(missing.what,
            "network namespace /run/netns/no-such-namespace: No such file or directory");
  const Error wrong = enter("/dev/null");
  EXPECT_EQ(wrong.code, Errc::kInvalidArgument);
  EXPECT_EQ(wrong.what, "/dev/null is no network namespace");
  EXPECT_FALSE(called);
  EXPECT_TRUE(in_network_namespace("", [&called] { called = true; }));
  EXPECT_TRUE(called);
}

}  // namespace
}  // namespace ipoib::kernel
