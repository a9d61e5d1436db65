// The command line as a person has it: keys into a pseudo-terminal, and what appears there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "app/cli_terminal.h"
#include "tests/unit/app/fake_node.h"

namespace ipoib::app {
namespace {

struct PtyTest : testing::Test {
  PtyTest() {
    fill(node);
    master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    EXPECT_TRUE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    auto made = Terminal::create(cli, node.events(), slave, slave, [this] { ++ends; });
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
  void turn() { node.events().wait(Duration{0}); }
  /// What appears until nothing more does; the ends of lines as "\n".
  std::string screen() {
    std::string text;
    for (int quiet = 0; quiet < 3;) {
      turn();
      std::array<char, 4096> bytes;
      const auto n = read(master, bytes.data(), bytes.size());
      quiet = n > 0 ? 0 : quiet + 1;
      if (n > 0) text.append(bytes.data(), static_cast<std::size_t>(n));
    }
    std::erase(text, '\r');
    return text;
  }
  std::string type(std::string_view text) {
    keys(text);
    return screen();
  }

  void add_neighbours(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      link::NeighbourInfo n;
      n.addr = wire::IpAddr::v4(0x0b00'0001 + i);
      n.iface = "ib0";
      node.neighbours_.push_back(n);
    }
  }

  FakeNode node;
  Cli cli{node};
  int master = -1, slave = -1;
  int ends = 0;
  std::unique_ptr<Terminal> terminal;
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(PtyTest, TabCompletesAndListsWhatMayFollow) {
  EXPECT_TRUE(has(type("sh\t"), "show "));
  EXPECT_TRUE(has(type("neig\t"), "neigh "));
  const auto choices = type("\t\t");
  for (const char* word : {"ib0", "eth0", "json"}) EXPECT_TRUE(has(choices, word)) << choices;
  EXPECT_TRUE(has(type("ib\t"), "ib0 "));
  EXPECT_TRUE(has(type("\n"), "10.0.0.2"));
}

TEST_F(PtyTest, QuestionMarkHelps) {
  const auto text = type("link ?");
  EXPECT_TRUE(has(text, "up")) << text;
  EXPECT_TRUE(has(text, "down")) << text;
  EXPECT_TRUE(has(text, "ipoib> link ")) << text;
  EXPECT_TRUE(node.requests_.empty());
  const auto value = type("down ib0\nroute del ?");
  EXPECT_TRUE(has(value, "PREFIX (IP prefix without host bits)")) << value;
  EXPECT_EQ(node.requests_, std::vector<std::string>{"ib0 down"});
}

TEST_F(PtyTest, ArrowsRecallAndEditLines) {
  type("start\n");
  type("route del 10.9.0.0/16\n");
  node.requests_.clear();
  node.set_forwarding(false);
  EXPECT_TRUE(has(type("\x1b[A"), "route del 10.9.0.0/16"));
  EXPECT_TRUE(has(type("\x1b[A\n"), "forwarding is on"));
  EXPECT_TRUE(node.requests_.empty());
  type(
      "route del 10.9.0.0/1\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x7f"
      "8\x05"
      "6\n");
  EXPECT_EQ(node.requests_, std::vector<std::string>{"route del 10.8.0.0/16"});
}

TEST_F(PtyTest, CtrlCForgetsTheLine) {
  type("quit");
  EXPECT_TRUE(type("\x03").ends_with("ipoib> "));
  EXPECT_TRUE(has(type("start\n"), "forwarding is on"));
  EXPECT_FALSE(node.stopped());
  EXPECT_EQ(ends, 0);
}

// librte_cmdline keeps the front of such a line: that is not what was typed.
TEST_F(PtyTest, LongLinesAreRefused) {
  const std::string fits = "route del 10.9.0.0/16" + std::string(490, ' ');
  EXPECT_FALSE(has(type(fits + "\n"), "error"));
  EXPECT_EQ(node.requests_.size(), 1U);
  for (const std::size_t more : {1U, 2U, 50U, 3000U}) {
    const auto text = type("route del 10.9.0.0/16" + std::string(490 + more, ' ') + "\n");
    EXPECT_TRUE(has(text, "error: a line of more than 511 octets")) << more << text;
  }
  EXPECT_EQ(node.requests_.size(), 1U);
}

TEST_F(PtyTest, WideInputIsLeftOutAloud) {
  const auto text = type("sta\xc3\xa9rt\n");
  EXPECT_TRUE(has(text, "\a")) << text;
  EXPECT_TRUE(node.forwarding());
}

TEST_F(PtyTest, LongListsComeWhole) {
  add_neighbours(3000);
  const auto text = type("show neigh\n");
  EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 3002);
  EXPECT_TRUE(has(text, "\n11.0.11.184  "));
  EXPECT_TRUE(text.ends_with("ipoib> ")) << text.substr(text.size() - 100);
  EXPECT_TRUE(has(type("start\n"), "forwarding is on"));
}

// A terminal that is not read from holds up nobody; what is typed meanwhile waits its turn.
TEST_F(PtyTest, TerminalThatIsNotRead) {
  add_neighbours(3000);
  keys("show neigh\nstart\n");
  for (int i = 0; i < 1000; ++i) turn();
  keys("stop\n");
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_TRUE(node.requests_.empty());
  EXPECT_FALSE(node.forwarding());
  const auto text = screen();
  EXPECT_TRUE(has(text, "\n11.0.11.184  "));
  const auto on = text.find("forwarding is on"), off = text.find("forwarding is off");
  EXPECT_LT(on, off);
  EXPECT_NE(off, std::string::npos);
}

TEST_F(PtyTest, CtrlCEndsALongList) {
  add_neighbours(3000);
  keys("show neigh\n");
  for (int i = 0; i < 10; ++i) turn();
  keys("start\n\x03");
  const auto text = screen();
  EXPECT_TRUE(has(text, "^C")) << text.substr(0, 1000);
  EXPECT_TRUE(text.ends_with("ipoib> "));
  EXPECT_FALSE(has(text, "11.0.11.184"));
  EXPECT_FALSE(node.forwarding()) << "typed before Ctrl-C";
  EXPECT_TRUE(has(type("start\n"), "forwarding is on"));
}

TEST_F(PtyTest, CtrlDEnds) {
  type("\x04");
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace ipoib::app
