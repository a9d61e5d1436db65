// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/service.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

using namespace std::chrono_literals;
using Loops = std::vector<std::uint64_t>;

/// The service manager's end: a datagram socket, whose name is in the environment while the object
/// exists.
class Manager {
 public:
  /// `name`: a path, or "@" and an abstract name.
  explicit Manager(const std::string& name) : name_{name} {
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un addr{};
    addr.sun_family = AF_UNIX;
    name.copy(addr.sun_path, sizeof addr.sun_path - 1);
    if (name[0] == '@') addr.sun_path[0] = '\0';
    const auto len = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&addr), len), 0) << std::strerror(errno);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(fd_);
    if (name_[0] != '@') unlink(name_.c_str());
  }

  /// Returns the received messages one by one, or nothing.
  std::vector<std::string> heard() {
    std::vector<std::string> messages;
    std::array<char, 4096> text;
    for (ssize_t n; (n = recv(fd_, text.data(), text.size(), MSG_DONTWAIT)) >= 0;)
      messages.emplace_back(text.data(), static_cast<std::size_t>(n));
    return messages;
  }

 private:
  std::string name_;
  int fd_;
};

std::string abstract_name() {
  return "@ipoib-service-test-" + std::to_string(getpid());
}

mgmt::LinkInfo link(std::string name, std::string state, std::string reason = "") {
  mgmt::LinkInfo row;
  row.name = std::move(name);
  row.state = std::move(state);
  row.reason = std::move(reason);
  return row;
}

/// Runs the node's event loop until `what` holds.
bool eventually(FakeNode& node, const std::function<bool()>& what) {
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (!what()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    node.loop.events().wait(1ms);
  }
  return true;
}

TEST(Watchdog, IsFedTwiceInTheTimeItWaitsWhileWorkersLoop) {
  Watchdog watchdog;
  Loops loops{1, 1};
  unsigned fed = 0;
  for (unsigned check = 0; check < 10 * Watchdog::kChecks; ++check) {
    for (auto& n : loops) n += 7;
    fed += watchdog.due(loops) ? 1 : 0;
  }
  EXPECT_EQ(fed, 10U * 2);
}

TEST(Watchdog, IsNotFedWhileOneWorkerHangs) {
  Watchdog watchdog;
  Loops loops{1, 1, 1};
  EXPECT_FALSE(watchdog.due(loops));
  EXPECT_TRUE(watchdog.due(loops));
  for (unsigned check = 0; check < 100; ++check) {
    ++loops[0];
    ++loops[2];
    EXPECT_FALSE(watchdog.due(loops)) << check;
  }
  // The worker was only slow: the watchdog is fed at once, and afterwards at its usual interval.
  ++loops[1];
  EXPECT_TRUE(watchdog.due(loops));
  for (auto& n : loops) ++n;
  EXPECT_FALSE(watchdog.due(loops));
  EXPECT_TRUE(watchdog.due(loops));
}

TEST(Watchdog, IsNotFedBeforeEveryWorkerHasBegun) {
  Watchdog watchdog;
  for (unsigned check = 0; check < 10; ++check) EXPECT_FALSE(watchdog.due({check, 0}));
  EXPECT_TRUE(watchdog.due({10, 1}));
}

TEST(ServiceStatus, CountsWhatIsUpAndNamesWhatIsNot) {
  FakeNode node;
  node.rows.forward.forwarding = true;
  EXPECT_EQ(service_status(node.view), "0 of 0 links up, 0 of 0 ports up");
  node.rows.links = {link("ib0", "up"), link("ib1", "joining", "no answer\nREADY=1")};
  mgmt::EthernetPortInfo port;
  port.name = "eth0";
  port.state = "down";
  node.rows.ports = {port};
  // A reason with a line break must not create another field.
  EXPECT_EQ(service_status(node.view),
            "1 of 2 links up, 0 of 1 ports up; ib1 joining: no answer READY=1; eth0 down");
  node.rows.forward.forwarding = false;
  node.rows.links = {link("ib0", "down"), link("ib1", "down"), link("ib2", "down"),
                     link("ib3", "up")};
  EXPECT_EQ(service_status(node.view),
            "1 of 4 links up, 0 of 1 ports up, forwarding stopped; ib0 down; ib1 down; ib2 down; "
            "and 1 more");
}

TEST(Service, NobodyIsToldWithoutAServiceManager) {
  FakeNode node;
  unsetenv("NOTIFY_SOCKET");
  const auto service = Service::create(node.faces);
  ASSERT_TRUE(service);
  EXPECT_EQ(*service, nullptr);
  notify_service_manager("nobody hears this");
}

TEST(Service, TellsReadyStatusAndStop) {
  const std::string path = testing::TempDir() + "ipoib-notify-" + std::to_string(getpid());
  for (const std::string& name : {path, abstract_name()}) {
    Manager manager{name};
    FakeNode node;
    node.rows.forward.forwarding = true;
    node.rows.links = {link("ib0", "joining")};
    const auto service = Service::create(node.faces);
    ASSERT_TRUE(service && *service);
    EXPECT_EQ(
        manager.heard(),
        std::vector<std::string>{"READY=1\nSTATUS=0 of 1 links up, 0 of 0 ports up; ib0 joining"});

    node.rows.links[0].state = "up";
    std::vector<std::string> heard;
    EXPECT_TRUE(eventually(node, [&] { return !(heard = manager.heard()).empty(); }));
    EXPECT_EQ(heard, std::vector<std::string>{"STATUS=1 of 1 links up, 0 of 0 ports up"});

    // The status describes the current activity, independently of the links.
    node.loop.announce_stop();
    node.rows.links[0].state = "stopped";
    EXPECT_EQ(manager.heard(),
              std::vector<std::string>{"STOPPING=1\nSTATUS=leaving every multicast group"});
  }
}

TEST(Service, FeedsTheWatchdogOnlyWhileWorkersLoop) {
  Manager manager{abstract_name()};
  setenv("WATCHDOG_USEC", "20000", 1);
  FakeNode node;
  node.rows.worker_loops = {1, 1};
  const auto service = Service::create(node.faces);
  ASSERT_TRUE(service && *service);
  const auto fed = [&] {
    const auto heard = manager.heard();
    return std::find(heard.begin(), heard.end(), "WATCHDOG=1") != heard.end();
  };
  for (unsigned i = 0; i < 3; ++i) {
    for (auto& n : node.rows.worker_loops) ++n;
    EXPECT_TRUE(eventually(node, fed)) << i;
  }
  // Worker 1 hangs: the node queries the loops repeatedly, and does not feed the watchdog.
  ++node.rows.worker_loops[0];
  node.rows.loops_asked = 0;
  EXPECT_TRUE(eventually(node, [&] { return node.rows.loops_asked >= 20; }));
  EXPECT_FALSE(fed());
  ++node.rows.worker_loops[1];
  EXPECT_TRUE(eventually(node, fed));
}

TEST(Service, RefusesAWatchdogTimeThatIsNone) {
  Manager manager{abstract_name()};
  setenv("WATCHDOG_USEC", "soon", 1);
  FakeNode node;
  const auto service = Service::create(node.faces);
  ASSERT_FALSE(service);
  EXPECT_NE(service.error().what.find("WATCHDOG_USEC"), std::string::npos);
}

}  // namespace
}  // namespace ipoib::app
