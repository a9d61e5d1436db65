// SPDX-License-Identifier: BSD-3-Clause
// The command line as a user sees it: keys enter a pseudo-terminal, and its output is checked.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>

#include "app/cli/cli_terminal.h"
#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

struct PtyTest : testing::Test {
  PtyTest() {
    fill(node.rows);
    master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    EXPECT_TRUE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    auto made = Terminal::create(
        cli, node.loop.events(), slave, slave, [this] { ++ends; },
        [this] { EXPECT_EQ(write(slave, logs.data(), logs.size()), std::ssize(logs)); });
    EXPECT_TRUE(made);
    if (made) terminal = std::move(*made);
    EXPECT_EQ(screen(), "ipoib> ");
  }
  ~PtyTest() override {
    terminal.reset();
    close(slave);
    close(master);
  }

  void keys(std::string_view text) {
    ASSERT_EQ(write(master, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void run_once() { node.loop.events().wait(Duration{0}); }
  /// Runs the node until the condition holds, for at most 20 s.
  void until(const std::function<bool()>& so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!so() && std::chrono::steady_clock::now() < end) run_once();
  }
  /// Returns the output up to the point at which all wanted strings appeared. Line ends become
  /// "\n".
  std::string screen(std::initializer_list<std::string_view> wanted = {kPrompt}) {
    std::string text;
    until([&] {
      pollfd readable{master, POLLIN, 0};
      std::array<char, 4096> bytes;
      const auto n = poll(&readable, 1, 1) > 0 ? read(master, bytes.data(), bytes.size()) : 0;
      if (n > 0) text.append(bytes.data(), static_cast<std::size_t>(n));
      std::erase(text, '\r');
      return std::all_of(wanted.begin(), wanted.end(), [&](std::string_view part) {
        return text.find(part) != std::string::npos;
      });
    });
    return text;
  }
  std::string type(std::string_view text,
                   std::initializer_list<std::string_view> wanted = {kPrompt}) {
    keys(text);
    return screen(wanted);
  }

  void add_neighbours(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      link::NeighbourInfo n;
      n.addr = wire::IpAddr::v4(0x0b00'0001 + i);
      n.iface = "ib0";
      node.rows.neighbours.push_back(n);
    }
  }

  FakeNode node;
  Cli cli{node.faces};
  int master = -1, slave = -1;
  int ends = 0;
  std::string logs;  ///< The lines that each command logs.
  std::unique_ptr<Terminal> terminal;
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(PtyTest, TabCompletesAndListsWhatMayFollow) {
  EXPECT_TRUE(has(type("sh\t", {"show "}), "show "));
  EXPECT_TRUE(has(type("neig\t", {"neigh "}), "neigh "));
  const auto choices = type("\t\t", {"ib0", "eth0", "json"});
  for (const char* word : {"ib0", "eth0", "json"}) EXPECT_TRUE(has(choices, word)) << choices;
  EXPECT_TRUE(has(type("ib\t", {"ib0 "}), "ib0 "));
  EXPECT_TRUE(has(type("\n", {"10.0.0.2"}), "10.0.0.2"));
}

/// The log is written by another thread, and shares the terminal with the output of commands.
TEST_F(PtyTest, P16_TheLogOfACommandPrecedesItsOutput) {
  logs = "a line of the log\n";
  const auto text = type("start\n", {"forwarding is on", kPrompt});
  const auto log = text.find("a line of the log"), output = text.find("forwarding is on");
  ASSERT_NE(log, std::string::npos) << text;
  ASSERT_NE(output, std::string::npos) << text;
  EXPECT_LT(log, output);
  EXPECT_GT(text.rfind(kPrompt), output);
}

TEST_F(PtyTest, QuestionMarkHelps) {
  const auto text = type("link ?", {"up", "down", "ipoib> link "});
  EXPECT_TRUE(has(text, "up")) << text;
  EXPECT_TRUE(has(text, "down")) << text;
  EXPECT_TRUE(has(text, "ipoib> link ")) << text;
  EXPECT_TRUE(node.requests.lines.empty());
  constexpr std::string_view kHint = "PREFIX (IP prefix without host bits)";
  const auto value = type("down ib0\nroute del ?", {kHint});
  EXPECT_TRUE(has(value, kHint)) << value;
  EXPECT_EQ(node.requests.lines, std::vector<std::string>{"ib0 down"});
}

TEST_F(PtyTest, ArrowsRecallAndEditLines) {
  type("start\n");
  type("route del 10.9.0.0/16\n");
  node.requests.lines.clear();
  node.rows.forward.forwarding = false;
  constexpr std::string_view kLatest = "route del 10.9.0.0/16", kAnswer = "forwarding is on";
  EXPECT_TRUE(has(type("\x1b[A", {kLatest}), kLatest));
  EXPECT_TRUE(has(type("\x1b[A\n", {kAnswer}), kAnswer));
  EXPECT_TRUE(node.requests.lines.empty());
  keys(
      "route del 10.9.0.0/1\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x7f"
      "8\x05"
      "6\n");
  until([&] { return !node.requests.lines.empty(); });
  EXPECT_EQ(node.requests.lines, std::vector<std::string>{"route del 10.8.0.0/16"});
}

TEST_F(PtyTest, CtrlCForgetsTheLine) {
  type("quit", {"quit"});
  EXPECT_TRUE(type("\x03").ends_with("ipoib> "));
  EXPECT_TRUE(has(type("start\n", {"forwarding is on"}), "forwarding is on"));
  EXPECT_FALSE(node.loop.stop_requested());
  EXPECT_EQ(ends, 0);
}

// librte_cmdline would keep only the front of such a line and run another command.
TEST_F(PtyTest, LongLinesAreRefused) {
  const std::string fits = "route del 10.9.0.0/16" + std::string(490, ' ');
  EXPECT_FALSE(has(type(fits + "\n"), "error"));
  EXPECT_EQ(node.requests.lines.size(), 1U);
  constexpr std::string_view kError = "error: line longer than 511 octets";
  for (const std::size_t more : {1U, 2U, 50U, 3000U}) {
    const auto text =
        type("route del 10.9.0.0/16" + std::string(490 + more, ' ') + "\n", {kError, kPrompt});
    EXPECT_TRUE(has(text, kError)) << more << text;
  }
  EXPECT_EQ(node.requests.lines.size(), 1U);
}

TEST_F(PtyTest, WideInputIsLeftOutAloud) {
  const auto text = type("sta\xc3\xa9rt\n", {"\a", "forwarding is on"});
  EXPECT_TRUE(has(text, "\a")) << text;
  EXPECT_TRUE(node.rows.forward.forwarding);
}

TEST_F(PtyTest, LongListsComeWhole) {
  add_neighbours(3000);
  const auto text = type("show neigh\n");
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 3002);
  EXPECT_TRUE(has(text, "\n11.0.11.184  "));
  EXPECT_TRUE(text.ends_with("ipoib> "));
  EXPECT_TRUE(has(type("start\n", {"forwarding is on"}), "forwarding is on"));
}

// A terminal that is not read blocks nothing else. Its input waits meanwhile.
TEST_F(PtyTest, TerminalThatIsNotRead) {
  add_neighbours(3000);
  keys("show neigh\nstart\n");
  for (int i = 0; i < 1000; ++i) run_once();
  keys("stop\n");
  for (int i = 0; i < 100; ++i) run_once();
  EXPECT_TRUE(node.requests.lines.empty());
  EXPECT_FALSE(node.rows.forward.forwarding);
  const auto text = screen({"forwarding is on", "forwarding is off"});
  EXPECT_TRUE(has(text, "\n11.0.11.184  "));
  const auto on = text.find("forwarding is on"), off = text.find("forwarding is off");
  EXPECT_LT(on, off);
  EXPECT_NE(off, std::string::npos);
}

TEST_F(PtyTest, CtrlCEndsALongList) {
  add_neighbours(3000);
  type("show neigh\n", {"11.0.0.1 "});
  keys("start\n\x03");
  const auto text = screen();
  EXPECT_TRUE(has(text, "^C")) << text.substr(0, 1000);
  EXPECT_TRUE(text.ends_with("ipoib> "));
  EXPECT_FALSE(has(text, "11.0.11.184"));
  EXPECT_FALSE(node.rows.forward.forwarding) << "typed before Ctrl-C";
  EXPECT_TRUE(has(type("start\n", {"forwarding is on"}), "forwarding is on"));
}

TEST_F(PtyTest, CtrlDEnds) {
  keys("\x04");
  until([&] { return ends != 0; });
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace ipoib::app
