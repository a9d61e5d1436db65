// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "lib/base/log_level.h"
#include "tests/support/fake_node.h"
#include "tests/support/logged.h"

namespace ipoib::app {
namespace {

struct SessionTest : testing::Test {
  SessionTest() { fill(node.rows); }
  /// Returns the pending output of the session.
  std::string take() {
    session.work();
    std::string text{session.pending()};
    session.consume(text.size());
    return text;
  }

  /// Returns the output after this input.
  std::string answer(std::string_view input) {
    session.receive(input);
    return take();
  }

  FakeNode node;
  Cli cli{node.faces};
  Session session{cli, {"a test"}};
};

TEST_F(SessionTest, PromptThenAnswersThenPrompts) {
  EXPECT_EQ(take(), "ipoib> ");
  EXPECT_EQ(answer("start\n"), "forwarding is on\nipoib> ");
  EXPECT_EQ(answer("clear stats\n# nothing\n\r\nstop\r\n"),
            "ipoib> ipoib> ipoib> forwarding is off\nipoib> ");
  EXPECT_EQ(take(), "");
}

TEST_F(SessionTest, LinesInPieces) {
  take();
  for (const char c : std::string{"start"}) {
    EXPECT_EQ(answer({&c, 1}), "");
  }
  EXPECT_EQ(answer("\nst"), "forwarding is on\nipoib> ");
  EXPECT_EQ(answer("op\n"), "forwarding is off\nipoib> ");
}

TEST_F(SessionTest, LastLineNeedsNoEnd) {
  take();
  session.receive("start");
  session.end_of_input();
  EXPECT_FALSE(session.finished());
  EXPECT_EQ(take(), "forwarding is on\nipoib> ");
  EXPECT_TRUE(session.finished());
}

// A line beyond the limit is answered with an error in its place. It is not kept, and later lines
// are read.
TEST_F(SessionTest, LongLines) {
  take();
  EXPECT_EQ(answer(std::string(Session::kMaxLine, '#') + "\n"), "ipoib> ");
  session.receive("start\n");
  for (int i = 0; i < 1000; ++i) session.receive(std::string(1000, 'x'));
  session.receive("\nstop\n");
  EXPECT_EQ(take(),
            "forwarding is on\nipoib> error: line longer than 4096 octets\nipoib> forwarding is "
            "off\nipoib> ");
}

TEST_F(SessionTest, GarbageIsAnsweredOnOneLine) {
  take();
  std::string garbage;
  for (int i = 0; i < 256; ++i)
    if (i != '\n') garbage += static_cast<char>(i);
  session.receive(garbage.substr(0, 30) + "\n" + garbage.substr(40) + "\n" + std::string(5, '\0') +
                  "\n");
  const auto text = take();
  EXPECT_TRUE(text.starts_with("error: at word 1 \"\\u0000\\u0001"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

// Unread answers stop the work, so that they do not grow without end.
TEST_F(SessionTest, ReaderThatDoesNotRead) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "help\n";
  session.receive(lines);
  session.work();
  const auto held = session.pending().size();
  EXPECT_GE(held, Session::kEnough);
  EXPECT_LT(held, 2 * Session::kEnough);
  session.work();
  EXPECT_EQ(session.pending().size(), held);
  EXPECT_TRUE(session.has_work());
  EXPECT_FALSE(session.wants_input());
  std::size_t prompts = 0;
  for (std::string text = take(); !text.empty(); text = take())
    for (auto at = text.find(kPrompt); at != std::string::npos; at = text.find(kPrompt, at + 1))
      ++prompts;
  EXPECT_EQ(prompts, 1001U);
  EXPECT_TRUE(session.wants_input());
}

void add_neighbours(FakeNode& node, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    link::NeighbourInfo n;
    n.addr = wire::IpAddr::v4(0x0b00'0001 + i);
    n.iface = "ib0";
    node.rows.neighbours.push_back(n);
  }
}

// A long list is generated only as fast as it is read. When the time slice ends, the rest is left
// for later.
TEST_F(SessionTest, LongListsAreMadeAsTheyAreRead) {
  add_neighbours(node, 3000);
  take();
  session.receive("show neigh json\nstart\n");
  session.work();
  EXPECT_GE(session.pending().size(), Session::kEnough);
  EXPECT_LT(session.pending().size(), 2 * Session::kEnough);
  EXPECT_FALSE(node.rows.forward.forwarding);
  session.consume(session.pending().size());
  session.work(Session::Clock::time_point::min());
  EXPECT_GT(session.pending().size(), 0U);
  EXPECT_LT(session.pending().size(), Session::kEnough);
  EXPECT_TRUE(session.has_work());
  std::string rest;
  for (std::string text = take(); !text.empty(); text = take()) rest += text;
  EXPECT_TRUE(rest.ends_with("}]\nipoib> forwarding is on\nipoib> "));
  EXPECT_FALSE(session.has_work());
}

TEST_F(SessionTest, PartlySentAnswersContinue) {
  session.receive("help\n");
  session.work();
  const std::string whole{session.pending()};
  std::string got;
  while (!session.pending().empty()) {
    got += session.pending().substr(0, 7);
    session.consume(std::min<std::size_t>(7, session.pending().size()));
  }
  EXPECT_EQ(got, whole);
}

// --- Over real sockets ---

struct CliServerTest : testing::Test {
  CliServerTest() { fill(node.rows); }
  ~CliServerTest() override {
    for (const int fd : clients) close(fd);
  }

  void serve(CliAccess access = CliAccess::kFull) {
    server = CliServer::create(cli, node.loop.events(), path, access);
    ASSERT_TRUE(server) << server.error().what;
  }
  /// Connects so many clients, and lets the server accept each.
  void connect_clients(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      connect_client();
      run_once();
    }
  }
  int connect_client() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    EXPECT_EQ(connect(fd, generic, sizeof address), 0) << std::strerror(errno);
    clients.push_back(fd);
    return fd;
  }
  void run_once() { node.loop.events().wait(Duration{0}); }
  /// Returns the server's output so far, followed by "<closed>" if the server closed the
  /// connection.
  std::string receive(int fd) {
    std::string text;
    for (int i = 0; i < 100; ++i) {
      run_once();
      char bytes[65536];
      const auto n = recv(fd, bytes, sizeof bytes, 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return text + "<closed>";
      if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    }
    return text;
  }
  std::string answer(int fd, std::string_view input) {
    send_text(fd, input);
    return receive(fd);
  }
  /// Returns the server's output until it sends no more.
  std::string receive_all(int fd) {
    std::string text;
    for (std::string more = receive(fd); !more.empty(); more = receive(fd)) text += more;
    return text;
  }
  static void send_text(int fd, std::string_view text) {
    ASSERT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  FakeNode node;
  Cli cli{node.faces};
  std::string path = testing::TempDir() + fmt::format("cli_server_test.{}", getpid());
  Result<std::unique_ptr<CliServer>> server = fail(Errc::kUnavailable, "not started");
  std::vector<int> clients;
};

TEST_F(CliServerTest, SeveralClientsEachItsOwnAnswers) {
  serve();
  const int a = connect_client(), b = connect_client();
  EXPECT_EQ(receive(a), "ipoib> ");
  EXPECT_EQ(receive(b), "ipoib> ");
  send_text(a, "star");
  EXPECT_EQ(answer(b, "stop\n"), "forwarding was off\nipoib> ");
  EXPECT_EQ(answer(a, "t\n"), "forwarding is on\nipoib> ");
  EXPECT_EQ(receive(b), "");
}

// On a socket for readers, commands that change something are refused and leave no trace, and the
// others are answered.
TEST_F(CliServerTest, U40_AReadOnlySocketRefusesWhatChangesTheNode) {
  serve(CliAccess::kReadOnly);
  const int a = connect_client();
  EXPECT_EQ(receive(a), "ipoib> ");
  EXPECT_EQ(answer(a, "start\n"),
            "error: \"start\": this client may only read; commands that change something need the "
            "full CLI socket\nipoib> ");
  EXPECT_FALSE(node.rows.forward.forwarding);
  for (const char* line : {"quit\n", "capture start /tmp/x\n", "set log all debug\n",
                           "clear stats\n", "route del 10.9.0.0/16\n"})
    EXPECT_THAT(answer(a, line), testing::HasSubstr("this client may only read")) << line;
  EXPECT_TRUE(node.requests.lines.empty());
  EXPECT_FALSE(node.loop.stop_requested());
  for (const char* line : {"show fwd\n", "show port stats all\n", "help start\n"})
    EXPECT_THAT(answer(a, line), testing::Not(testing::HasSubstr("error:"))) << line;
}

TEST_F(CliServerTest, U40_TheLogNamesTheProcessThatChangesSomething) {
  serve();
  const int a = connect_client();
  receive(a);
  set_log_level(LogArea::kApp, LogLevel::kNotice);
  const std::string text = logged([&] {
    answer(a, "show fwd\nbogus\nneigh flush all\n");
    answer(a, "capture start \"a\001b\"\n");
  });
  const std::string from = fmt::format("command from uid {} pid {}: ", getuid(), getpid());
  EXPECT_THAT(text, testing::HasSubstr(from + "\"neigh flush all\""));
  EXPECT_THAT(text, testing::HasSubstr(from + "\"capture start a\\u0001b\"")) << "escaped";
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("show fwd")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("bogus")));
}

TEST_F(CliServerTest, ClientThatShutsDownGetsItsAnswer) {
  serve();
  const int a = connect_client();
  send_text(a, "start\nstop");
  shutdown(a, SHUT_WR);
  EXPECT_EQ(receive(a), "ipoib> forwarding is on\nipoib> forwarding is off\nipoib> <closed>");
}

// A client that sends commands and never reads costs a bounded amount and blocks no other client.
TEST_F(CliServerTest, SlowClientHoldsUpNobody) {
  serve();
  const int slow = connect_client();
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += "help\n";
  for (int i = 0; i < 300; ++i) {
    send(slow, lines.data(), lines.size(), MSG_NOSIGNAL);
    run_once();
  }
  const int quick = connect_client();
  EXPECT_EQ(answer(quick, "start\n"), "ipoib> forwarding is on\nipoib> ");
  // All answers are there when the client finally reads.
  const std::string text = receive_all(slow);
  EXPECT_TRUE(text.ends_with("\nipoib> "));
  EXPECT_EQ(text.find("<closed>"), std::string::npos);
}

// A client that asks for a long list blocks no other client, nor does one that disconnects in the
// middle of the list.
TEST_F(CliServerTest, LongListsHoldUpNobody) {
  add_neighbours(node, 3000);
  serve();
  const int slow = connect_client(), gone = connect_client(), quick = connect_client();
  for (const int fd : {slow, gone}) send_text(fd, "show neigh\n");
  for (int i = 0; i < 100; ++i) run_once();
  close(gone);
  std::erase(clients, gone);
  EXPECT_EQ(answer(quick, "start\n"), "ipoib> forwarding is on\nipoib> ");
  const std::string text = receive_all(slow);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3002);
}

TEST_F(CliServerTest, ManyThatAskAtOnce) {
  serve();
  connect_clients(500);
  std::size_t served = 0;
  for (const int fd : clients) served += receive(fd) == "ipoib> " ? 1 : 0;
  EXPECT_EQ(served, CliServer::kMaxClients);
}

TEST_F(CliServerTest, ClientsThatVanish) {
  serve();
  for (int i = 0; i < 100; ++i) {  // Exceeds the limit of connected clients.
    const int fd = connect_client();
    run_once();
    send_text(fd, "help\nhelp\n");
    close(fd);
    clients.clear();
    run_once();
    run_once();
  }
  const int a = connect_client();
  EXPECT_EQ(receive(a), "ipoib> ");
}

TEST_F(CliServerTest, TooManyClientsAreRefused) {
  serve();
  connect_clients(CliServer::kMaxClients);
  EXPECT_EQ(receive(connect_client()), "error: the limit of 32 clients is reached\n<closed>");
  EXPECT_EQ(receive(clients[0]), "ipoib> ");
}

// Disconnected clients make room for new ones, even if the server hears of both at once.
TEST_F(CliServerTest, ClientsThatLeftTakeNoPlaces) {
  serve();
  connect_clients(CliServer::kMaxClients);
  const int newcomer = connect_client();
  for (std::size_t i = 0; i < CliServer::kMaxClients; ++i) close(clients[i]);
  clients = {newcomer};
  EXPECT_EQ(receive(newcomer), "ipoib> ");
}

TEST_F(CliServerTest, PathIsTakenOverFromADeadProcessOnly) {
  {
    const auto first = CliServer::create(cli, node.loop.events(), path, CliAccess::kFull);
    ASSERT_TRUE(first);
    struct stat st {};
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777U, 0660U);
    const auto second = CliServer::create(cli, node.loop.events(), path, CliAccess::kFull);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().what.find("another process is listening on it"), std::string::npos);
  }
  struct stat st {};
  EXPECT_NE(stat(path.c_str(), &st), 0);  // The server removed it.

  // A socket without a listener, as a killed process leaves it.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  ASSERT_EQ(bind(dead, generic, sizeof address), 0);
  close(dead);
  EXPECT_TRUE(CliServer::create(cli, node.loop.events(), path, CliAccess::kFull));

  std::ofstream{path} << "precious";
  const auto over_file = CliServer::create(cli, node.loop.events(), path, CliAccess::kFull);
  ASSERT_FALSE(over_file);
  EXPECT_NE(over_file.error().what.find("exists and is not a socket"), std::string::npos);
  unlink(path.c_str());
}

/// The mask of modes belongs to the whole process, also to the threads of captures and of the log.
TEST_F(CliServerTest, U40_FilesOfOtherThreadsKeepTheirMode) {
  const auto mask_before = umask(0022);
  std::atomic<bool> over{false};
  std::atomic<unsigned> made{0}, wrong{0};
  const std::string other = path + ".other";
  std::thread writer{[&] {
    for (; !over; ++made) {
      struct stat st {};
      const int fd = open(other.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      if (fstat(fd, &st) != 0 || (st.st_mode & 0777U) != 0644) ++wrong;
      close(fd);
      unlink(other.c_str());
    }
  }};
  for (unsigned i = 0; i < 2000 || made < 100; ++i) {
    serve();
    struct stat st {};
    EXPECT_EQ(stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777U, 0660U);
    server = fail(Errc::kUnavailable, "ended");
  }
  over = true;
  writer.join();
  umask(mask_before);
  EXPECT_EQ(wrong, 0U) << "of " << made;
}

TEST_F(CliServerTest, PathsThatCannotBe) {
  for (const std::string& bad : {std::string{}, std::string(200, 'x'), std::string{"/nix/dir/s"}})
    EXPECT_FALSE(CliServer::create(cli, node.loop.events(), bad, CliAccess::kFull)) << bad;
}

}  // namespace
}  // namespace ipoib::app
