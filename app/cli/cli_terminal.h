// SPDX-License-Identifier: BSD-3-Clause
// The command line at a terminal: librte_cmdline edits, remembers and completes lines. Cli executes
// them, as for every other client.
#pragma once

#include <termios.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli/cli.h"
#include "lib/mgmt/node/event_loop.h"

struct cmdline;

namespace ipoib::app {

class Terminal {
 public:
  /// Reads `in` and writes `out`, leaves both open at the end, and prints the prompt. A terminal is
  /// set to the mode that editing needs until the object is destroyed. `on_end` is called at the
  /// end of input or on Ctrl-D; create() itself may call it if `in` is a file, which cannot be
  /// watched. `settle_log` is called before the output of a command, and returns soon: the lines
  /// that the command logged are then on the terminal, if the log goes there.
  static Result<std::unique_ptr<Terminal>> create(
      Cli& cli, mgmt::EventLoop& events, int in, int out, std::function<void()> on_end,
      std::function<void()> settle_log = [] {});
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

 private:
  /// Octets that a terminal takes without blocking once it is writable.
  static constexpr std::size_t kPrintedAtOnce = 512;

  struct Bindings;

  Terminal(Cli& cli, mgmt::EventLoop& events, int in, std::function<void()> on_end,
           std::function<void()> settle_log);
  /// Reads available input without waiting; returns false at the end of input or on Ctrl-D.
  bool feed();
  /// Passes keys to the line editor. Keys after a line whose output finds no room wait. False:
  /// Ctrl-D.
  bool type(std::string_view keys);
  void read_file();
  void execute(std::string_view line);
  /// Ends the line, and begins the next one with the prompt.
  void begin_line();
  void end_input();

  // Output is printed as fast as the terminal takes it, while the node continues. Keys wait; Ctrl-C
  // ends the output.

  /// Appends the output of the line editor, which writes to a pipe of this object.
  void take_output_of_editor();
  /// Begins to print.
  void flush();
  /// Prints at most a turn's part, and never waits. True: all is printed.
  bool print();
  /// The terminal takes text again.
  void go_on();

  Cli& cli_;
  mgmt::EventLoop& events_;
  int in_;
  int out_ = -1;
  std::size_t printed_at_once_ = kPrintedAtOnce;
  int editor_out_ = -1;  ///< Reads the output of the line editor.
  std::function<void()> on_end_;
  std::function<void()> settle_log_;
  bool watches_ = false;          ///< `in` is watched; a file is not.
  bool ended_ = false;            ///< The input has ended; output may still wait.
  bool printing_ = false;         ///< Output waits for room.
  std::optional<Output> answer_;  ///< The part not produced yet; none: all is produced.
  std::string unprinted_;
  std::string typed_ahead_;
  std::optional<termios> saved_;
  std::unique_ptr<Bindings> bindings_;
  cmdline* cmdline_ = nullptr;
};

}  // namespace ipoib::app
