// SPDX-License-Identifier: BSD-3-Clause
// The command line at a terminal: librte_cmdline edits lines, remembers and completes them; what a
// line means is decided by Cli, as for every other client.
#pragma once

#include <termios.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli.h"

struct cmdline;

namespace ipoib::app {

class Terminal {
 public:
  /// Reads `in` and writes `out`, both left open at the end; prints the prompt. A terminal is put
  /// into the mode that editing needs until the object goes. `on_end`: end of input or Ctrl-D; may
  /// be called by create() itself, where `in` is a file and not worth watching.
  static Result<std::unique_ptr<Terminal>> create(Cli& cli, mgmt::EventLoop& events, int in,
                                                  int out, std::function<void()> on_end);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

 private:
  struct Bindings;

  Terminal(Cli& cli, mgmt::EventLoop& events, int in, std::function<void()> on_end);
  /// Feeds what can be read without waiting; false at the end of the input.
  bool feed();
  /// Keys, as far as the line they end does not take long to answer; false: Ctrl-D.
  bool type(std::string_view keys);
  void execute(std::string_view line);
  void end_input();

  // A long answer is printed as fast as the terminal takes it, while the node goes on. Keys wait;
  // Ctrl-C ends it.
  void print();
  void end_printing();

  Cli& cli_;
  mgmt::EventLoop& events_;
  int in_;
  int out_ = -1;
  std::function<void()> on_end_;
  bool waits_ = true;   ///< `in` is watched, so printing may take its time.
  bool ended_ = false;  ///< The input, while an answer is being printed.
  bool printing_ = false;
  std::optional<Output> answer_;  ///< What is left to be made of it; none: all was made.
  std::string unprinted_;
  std::string typed_ahead_;
  std::optional<termios> saved_;
  std::unique_ptr<Bindings> bindings_;
  cmdline* cmdline_ = nullptr;
};

}  // namespace ipoib::app
