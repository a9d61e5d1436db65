// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "lib/base/log_level.h"
#include "tests/support/fake_node.h"
#include "tests/support/logged.h"

namespace ipoib::app {
namespace {

struct TerminalTest : testing::Test {
  TerminalTest() {
    fill(node.rows);
    EXPECT_EQ(pipe2(in, O_NONBLOCK), 0);
    EXPECT_EQ(pipe2(out, O_NONBLOCK), 0);
  }
  ~TerminalTest() override {
    for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
  }
  Result<std::unique_ptr<Terminal>> open(int fd) {
    return Terminal::create(cli, node.loop.events(), fd, out[1], [this] { ++ends; });
  }
  /// Types the keys, runs the loop once, and returns the output without cursor movements.
  std::string type(std::string_view keys) {
    EXPECT_EQ(write(in[1], keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    node.loop.events().wait(Duration{0});
    return screen();
  }
  std::string screen() {
    std::string text;
    char bytes[65536];
    for (ssize_t n = 1; n > 0;) {
      n = read(out[0], bytes, sizeof bytes);
      if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    }
    return text;
  }

  FakeNode node;
  Cli cli{node.faces};
  int in[2]{}, out[2]{};
  int ends = 0;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(TerminalTest, ExecutesLines) {
  const auto terminal = open(in[0]);
  ASSERT_TRUE(terminal);
  EXPECT_EQ(screen(), "ipoib> ");
  auto text = type("start\n");
  EXPECT_TRUE(has(text, "forwarding is on\n")) << text;
  EXPECT_TRUE(text.ends_with("ipoib> ")) << text;
  EXPECT_TRUE(node.rows.forward.forwarding);
  set_log_level(LogArea::kApp, LogLevel::kNotice);
  const std::string log =
      logged([&] { EXPECT_TRUE(has(type("set fwd io # quick\n"), "ipoib> ")); });
  EXPECT_TRUE(has(log, "command from terminal: \"set fwd io\"")) << log;
  EXPECT_EQ(node.rows.forward.mode, mgmt::ForwardMode::kIo);
  text = type("show lnik\n");
  EXPECT_TRUE(has(text, "error: at word 2 \"lnik\": expected one of link, ")) << text;
  EXPECT_FALSE(has(text, "Command not found") || has(text, "Bad arguments")) << text;
  text = type("  \n# x\n");
  EXPECT_FALSE(has(text, "error")) << text;
}

TEST_F(TerminalTest, CompletesWordsAndNames) {
  const auto terminal = open(in[0]);
  ASSERT_TRUE(terminal);
  screen();
  EXPECT_TRUE(has(type("sho\t"), "w "));
  EXPECT_TRUE(has(type("li\t"), "nk "));
  EXPECT_TRUE(has(type("i\t"), "b0 "));
  EXPECT_TRUE(has(type("j\t"), "son "));
  EXPECT_TRUE(has(type("\n"), "\"state\":\"up\""));
  type("sta\t");
  type("\n");
  EXPECT_TRUE(node.rows.forward.forwarding);
}

TEST_F(TerminalTest, ListsChoicesOnce) {
  const auto terminal = open(in[0]);
  ASSERT_TRUE(terminal);
  screen();
  auto text = type("show \t");
  for (const char* word :
       {"link", "port", "neigh", "route", "drops", "worker", "hca", "sa", "config"})
    EXPECT_TRUE(has(text, fmt::format("\n {} [word]: ", word))) << word << text;
  EXPECT_TRUE(has(text, "neigh [word]: neighbours of all interfaces or of one")) << text;
  EXPECT_EQ(text.find("neigh [word]"), text.rfind("neigh [word]")) << text;
  type("\x03");
  text = type("\t");
  EXPECT_TRUE(has(text, "show [word]: help show")) << text;
  text = type("route del \t");
  EXPECT_TRUE(has(text, "[next]: PREFIX (IP prefix without host bits)")) << text;
  type("\x03");
  text = type("bogus \t\t");
  EXPECT_FALSE(has(text, "RETURN")) << text;
}

/// Fills the output, which blocks from then on, as that of a shell does.
void fill_output(const int (&out)[2]) {
  const std::string page(4096, 'x');
  while (write(out[1], page.data(), page.size()) > 0) {
  }
  EXPECT_EQ(fcntl(out[1], F_SETFL, 0), 0);
}

// Echo, prompt and answers wait for a terminal that takes no more; lines too, and none is lost.
TEST_F(TerminalTest, P16_OutputThatIsNotReadDoesNotStopTheNode) {
  const auto terminal = open(in[0]);
  ASSERT_TRUE(terminal);
  fill_output(out);
  EXPECT_EQ(write(in[1], "start\nstop\nstart\n", 17), 17);
  for (int i = 0; i < 3; ++i) node.loop.events().wait(Duration{0});
  EXPECT_FALSE(node.rows.forward.forwarding) << "the first key waits for its echo";
  screen();
  std::string text;
  for (int i = 0; i < 10; ++i) {
    node.loop.events().wait(Duration{0});
    text += screen();
  }
  EXPECT_TRUE(node.rows.forward.forwarding);
  EXPECT_TRUE(has(text, "forwarding is off\n")) << text;
  EXPECT_TRUE(text.ends_with("forwarding is on\nipoib> ")) << text;
}

TEST_F(TerminalTest, P16_CtrlCEndsOutputThatIsNotRead) {
  const auto terminal = open(in[0]);
  ASSERT_TRUE(terminal);
  fill_output(out);
  EXPECT_EQ(write(in[1], "stop\nstart", 10), 10);
  node.loop.events().wait(Duration{0});
  EXPECT_EQ(write(in[1], "\x03", 1), 1);
  node.loop.events().wait(Duration{0});
  screen();
  node.loop.events().wait(Duration{0});
  EXPECT_EQ(screen(), "^C\nipoib> ");
  EXPECT_TRUE(has(type("start\n"), "forwarding is on\n"));
}

// A file of commands waits in the same way, and the end comes after its last output.
TEST_F(TerminalTest, P16_AFileWaitsForOutputThatIsNotRead) {
  const std::string file = testing::TempDir() + "cli_terminal_test.wait";
  std::ofstream{file} << "start\n";
  const int fd = ::open(file.c_str(), O_RDONLY);
  std::remove(file.c_str());
  fill_output(out);
  const auto terminal = open(fd);
  ASSERT_TRUE(terminal);
  EXPECT_EQ(ends, 0);
  EXPECT_FALSE(node.rows.forward.forwarding);
  for (int i = 0; i < 5; ++i) {
    screen();
    node.loop.events().wait(Duration{0});
  }
  EXPECT_EQ(ends, 1);
  EXPECT_TRUE(node.rows.forward.forwarding);
  close(fd);
}

TEST_F(TerminalTest, RemembersLines) {
  const auto terminal = open(in[0]);
  ASSERT_TRUE(terminal);
  type("start\n");
  node.rows.forward.forwarding = false;
  type("\x1b[A\n");  // Key "up"
  EXPECT_TRUE(node.rows.forward.forwarding);
}

TEST_F(TerminalTest, GarbageDoesNoHarm) {
  const auto terminal = open(in[0]);
  ASSERT_TRUE(terminal);
  for (int i = 0; i < 256; ++i)
    if (i != 4) type(std::string(3, static_cast<char>(i)));
  for (int i = 0; i < 40; ++i) type(std::string(100, 'x'));
  type("\n");
  EXPECT_TRUE(has(type("start\n"), "forwarding is on"));
}

TEST_F(TerminalTest, EndsOnCtrlDAndAtTheEndOfInput) {
  {
    const auto terminal = open(in[0]);
    type("\x04");
    EXPECT_EQ(ends, 1);
  }
  const auto terminal = open(in[0]);
  close(in[1]);
  in[1] = dup(in[0]);
  node.loop.events().wait(Duration{0});
  EXPECT_EQ(ends, 2);
}

TEST_F(TerminalTest, FileAsInput) {
  const std::string file = testing::TempDir() + "cli_terminal_test.in";
  std::ofstream{file} << "start\nroute del 10.9.0.0/16\n";
  const int fd = ::open(file.c_str(), O_RDONLY);
  const auto terminal = open(fd);
  close(fd);
  std::remove(file.c_str());
  ASSERT_TRUE(terminal);
  EXPECT_EQ(ends, 1);
  EXPECT_TRUE(node.rows.forward.forwarding);
  EXPECT_EQ(node.requests.lines, std::vector<std::string>{"route del 10.9.0.0/16"});
}

// The terminal enters raw mode, and gets its former mode back at the end.
TEST_F(TerminalTest, RestoresTheMode) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  const int slave = ::open(ptsname(master), O_RDWR | O_NOCTTY | O_NONBLOCK);
  ASSERT_GE(slave, 0);
  const auto line_mode = [&] {
    termios mode{};
    EXPECT_EQ(tcgetattr(slave, &mode), 0);
    return (mode.c_lflag & ICANON) != 0;
  };
  EXPECT_TRUE(line_mode());
  {
    const auto terminal = open(slave);
    ASSERT_TRUE(terminal);
    EXPECT_FALSE(line_mode());
  }
  EXPECT_TRUE(line_mode());
  close(slave);
  close(master);
}

}  // namespace
}  // namespace ipoib::app
