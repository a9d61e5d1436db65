// SPDX-License-Identifier: BSD-3-Clause
// The command line for programs: a Unix stream socket. A client may send any number of lines; the
// answer to each is its output and the prompt "ipoib> ". There is no echo. The server does not wait
// for a client that does not read: it executes no more commands of this client, and drops it when
// one answer is too large to keep.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "app/cli/cli.h"
#include "lib/mgmt/node/event_loop.h"

namespace ipoib::app {

/// Input and output of one client, independent of file descriptors.
class Session {
 public:
  using Clock = std::chrono::steady_clock;

  Session(Cli& cli, Sender sender) : cli_{cli}, sender_{std::move(sender)}, out_{kPrompt} {}

  /// Takes octets from the client, in pieces of any size.
  void receive(std::string_view bytes);
  /// The client sends no more. An unterminated last line is executed too.
  void end_of_input();
  /// Executes received lines until kEnough octets of answers are unread, or until shortly after
  /// `until`.
  void work(Clock::time_point until = Clock::time_point::max());

  /// Returns the octets to send. The caller reports the sent ones with consume().
  [[nodiscard]] std::string_view pending() const { return std::string_view{out_}.substr(sent_); }
  void consume(std::size_t n);

  /// An answer is incomplete, or lines wait for execution.
  [[nodiscard]] bool has_work() const { return answer_.has_value() || !lines_.empty(); }
  [[nodiscard]] bool wants_input() const { return !ended_ && !has_work(); }
  /// All input is executed and all output is sent.
  [[nodiscard]] bool finished() const { return ended_ && !has_work() && pending().empty(); }
  /// More than kMaxPending octets wait: the caller must drop the client.
  [[nodiscard]] bool overflowed() const { return pending().size() > kMaxPending; }

  static constexpr std::size_t kMaxLine = 4096;
  static constexpr std::size_t kEnough = 64 * 1024;  ///< Octets of unread answers that stop work().
  static constexpr std::size_t kMaxPending = 64U << 20;

 private:
  void begin_answer();

  Cli& cli_;
  Sender sender_;
  std::deque<std::string> lines_;
  std::optional<Output> answer_;  ///< The answer in progress.
  std::string partial_;           ///< The incomplete input line, up to kMaxLine + 1 octets.
  std::string out_;
  std::size_t sent_ = 0;  ///< Octets at the front of out_ that are sent.
  bool ended_ = false;
};

/// Rights of the clients of a socket.
enum class CliAccess : std::uint8_t { kFull, kReadOnly };

class CliServer {
 public:
  /// Takes over the path from a process that is gone. Errors: kExists if another process answers
  /// there. Only the owner and the group of the socket may connect; the group is that of the
  /// process, or of the folder if that has the set-group-ID bit.
  static Result<std::unique_ptr<CliServer>> create(Cli& cli, mgmt::EventLoop& events,
                                                   const std::string& path, CliAccess access);
  ~CliServer();
  CliServer(const CliServer&) = delete;
  CliServer& operator=(const CliServer&) = delete;

  static constexpr std::size_t kMaxClients = 32;
  /// Time for one client per turn; then other clients and the node have theirs.
  static constexpr std::chrono::milliseconds kSlice{1};

 private:
  CliServer(Cli& cli, mgmt::EventLoop& events, std::string path, CliAccess access, int fd)
      : cli_{cli}, events_{events}, path_{std::move(path)}, access_{access}, fd_{fd} {}

  void accept_clients();
  void serve(int fd, std::uint32_t events);
  void refuse(int fd);
  /// Frees slots at the limit: otherwise a client that hung up counts until its event is handled.
  void drop_departed();
  void drop(int fd);

  Cli& cli_;
  mgmt::EventLoop& events_;
  std::string path_;
  CliAccess access_;
  int fd_;
  std::map<int, Session> clients_;
  bool refusing_ = false;  ///< The refusal is already logged.
};

}  // namespace ipoib::app
