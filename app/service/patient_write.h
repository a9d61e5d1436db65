// SPDX-License-Identifier: BSD-3-Clause
// Text to a descriptor that may take no more: a pipe that is not read, or a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace ipoib::app {

/// Waits for the descriptor at most `patience` in all; negative: any time. Returns the rest, which
/// is not written.
[[nodiscard]] std::string_view write_patiently(int fd, std::string_view text,
                                               std::chrono::milliseconds patience);

/// Lines that are missing if `text` is; a part of a line counts as one.
[[nodiscard]] std::uint64_t lines_in(std::string_view text);

/// Prints without stopping the thread. Text that finds no room is lost: the next text that finds
/// room follows a line that says how many lines are missing.
class Printer {
 public:
  /// Leaves `fd` open, and blocking for its other users.
  explicit Printer(int fd);
  ~Printer();
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;
  /// `patience`: longest wait for room. After a loss it does not wait until there is some again.
  void print(std::string_view text, std::chrono::milliseconds patience);

 private:
  int fd_;
  int own_;                 ///< This pipe or terminal, opened again and non-blocking; or -1.
  std::uint64_t lost_ = 0;  ///< Lines that are missing, and that no line has named.
  bool at_begin_of_line_ = true;
};

}  // namespace ipoib::app
