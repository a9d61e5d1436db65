// SPDX-License-Identifier: BSD-3-Clause
// Output of the management lcore, which no destination may stop: neither a pipe that is not read, nor
// a file of a disk that takes no more.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "app/service/log_writer.h"
#include "lib/base/result.h"

namespace ipoib::app {

/// Writes to a descriptor. A text that follows one of which the descriptor did not take all begins
/// with a line that says how many lines are missing.
class TextWriter {
 public:
  explicit TextWriter(int fd) : fd_{fd} {}
  /// Waits as write_patiently() does, for that line and for the text. False: it took not all.
  bool write(std::string_view text, std::chrono::milliseconds patience_of_loss,
             std::chrono::milliseconds patience);

 private:
  int fd_;
  std::uint64_t lost_ = 0;  ///< Lines that are missing and that no line has named.
  bool at_begin_of_line_ = true;
};

/// Prints without stopping the thread. Text that finds no room is lost: the next text that finds
/// room follows a line that says how many lines are missing.
///
/// A pipe or terminal takes the text that it has room for. A file does not say whether it has, nor does
/// the journal's socket, so a thread of its own writes to it, from the queue of a LogWriter.
class Printer {
 public:
  /// Leaves `fd` open, and blocking for its other users.
  explicit Printer(int fd);
  /// Prints to a destination that may block.
  explicit Printer(std::unique_ptr<LogOutput> file);
  /// Gives a file's thread LogWriter::kPatience to write the rest.
  ~Printer();
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;

  /// Call it once before print(), after rte_eal_init(). Errors: kNoResources.
  Status start();
  /// `patience`: longest wait for room, for the whole text. After a loss it does not wait until there is some again.
  void print(std::string_view text, std::chrono::milliseconds patience);
  /// Waits until all text is written, for others that write to the same destination. False: it is not.
  bool wait(std::chrono::milliseconds at_most);

 private:
  void print_to_file(std::string_view text, std::chrono::milliseconds patience);

  int pipe_ = -1;  ///< The pipe or terminal, opened again and non-blocking; or -1.
  TextWriter pipe_text_{-1};
  std::unique_ptr<LogWriter> file_;  ///< Null for a pipe or terminal.
};

}  // namespace ipoib::app
