// SPDX-License-Identifier: BSD-3-Clause
// The command line for programs: a Unix stream socket, any number of lines a client, each answered
// by what it prints and the prompt "ipoib> ". No echo. A client that does not read is not waited
// for: it gets no more commands executed, and is dropped when one answer is too large to keep.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli.h"

namespace ipoib::app {

/// One client's octets, in and out; knows nothing of descriptors.
class Session {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Session(Cli& cli) : cli_{cli}, out_{kPrompt} {}

  /// Octets from the client, in any pieces.
  void receive(std::string_view bytes);
  /// The client will send no more; a last line without its end counts.
  void end_of_input();
  /// Executes lines received, as far as the client reads the answers, and not much longer than
  /// `until`.
  void work(Clock::time_point until = Clock::time_point::max());

  /// What is to be sent; consume() what was.
  [[nodiscard]] std::string_view pending() const { return std::string_view{out_}.substr(sent_); }
  void consume(std::size_t n);

  /// An answer is not complete, or lines wait to be executed.
  [[nodiscard]] bool has_work() const { return answer_.has_value() || !lines_.empty(); }
  [[nodiscard]] bool wants_input() const { return !ended_ && !has_work(); }
  /// Nothing more will come in or go out.
  [[nodiscard]] bool finished() const { return ended_ && !has_work() && pending().empty(); }
  /// Holds more than may be kept: drop the client.
  [[nodiscard]] bool overflowed() const { return pending().size() > kMaxPending; }

  static constexpr std::size_t kMaxLine = 4096;
  static constexpr std::size_t kEnough = 64 * 1024;  ///< Unread answers that stop execution.
  static constexpr std::size_t kMaxPending = 64U << 20;

 private:
  void begin_answer();

  Cli& cli_;
  std::deque<std::string> lines_;
  std::optional<Output> answer_;  ///< The one under way.
  std::string partial_;           ///< The line being received, up to one octet more than allowed.
  std::string out_;
  std::size_t sent_ = 0;  ///< Front of out_ that is gone.
  bool ended_ = false;
};

class CliServer {
 public:
  /// Takes over the path from a process that is gone; refuses it (kExists) while another one
  /// answers there. Only the owner and its group may connect.
  static Result<std::unique_ptr<CliServer>> create(Cli& cli, mgmt::EventLoop& events,
                                                   const std::string& path);
  ~CliServer();
  CliServer(const CliServer&) = delete;
  CliServer& operator=(const CliServer&) = delete;

  static constexpr std::size_t kMaxClients = 32;
  /// Of one client's work at a time; others, and the node, have their turn then.
  static constexpr std::chrono::milliseconds kSlice{1};

 private:
  CliServer(Cli& cli, mgmt::EventLoop& events, std::string path, int fd)
      : cli_{cli}, events_{events}, path_{std::move(path)}, fd_{fd} {}

  void accept_clients();
  void serve(int fd, std::uint32_t events);
  void refuse(int fd);
  /// Makes room at the limit: a client that hung up counts until its event is handled otherwise.
  void drop_departed();
  void drop(int fd);

  Cli& cli_;
  mgmt::EventLoop& events_;
  std::string path_;
  int fd_;
  std::map<int, Session> clients_;
  bool refusing_ = false;  ///< Said so already.
};

}  // namespace ipoib::app
