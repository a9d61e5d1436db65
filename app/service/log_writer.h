// SPDX-License-Identifier: BSD-3-Clause
// Writes log lines in a thread of its own: a disk, a pipe or a journal that takes no more must stop
// neither the management lcore nor another thread that logs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace ipoib::app {

/// The destination of the lines. Used by one thread at a time.
class LogOutput {
 public:
  virtual ~LogOutput() = default;
  /// `priority` is one of syslog(3), 0 to 7. `text` is a line, several, or a piece of one.
  /// `patience`: longest wait for the destination; negative: any time. False: it took not all.
  virtual bool write(unsigned priority, std::string_view text,
                     std::chrono::milliseconds patience) = 0;
  /// Adds lines that did not arrive to a counter. Any thread. Those of the log: log_lines_lost().
  virtual void count_lost(std::uint64_t lines);
  /// The line that stands for lines which are missing.
  [[nodiscard]] virtual std::string loss(std::uint64_t lines) const;
};

/// Before start(), and after an end() that was in time, lines are written at once, in the thread
/// that logs. In between they wait in a queue. Lines that do not fit are lost: one line in the log
/// says how many, where they are missing or, for those before start(), when the thread begins.
/// LogOutput::count_lost() counts them, and each text of which the destination did not take all. Any
/// thread.
class LogWriter {
 public:
  /// Octets of lines that wait. As many again may be in the hands of the thread.
  static constexpr std::size_t kRoom = std::size_t{128} * 1024;
  /// Longest wait for the destination of a line that is written at once. The lines after one that
  /// was lost do not wait, until one is written again.
  static constexpr std::chrono::milliseconds kPatience{1000};

  explicit LogWriter(std::unique_ptr<LogOutput> output);
  /// Does not wait: call end() before.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Call it once, after rte_eal_init(). `thread`: its name; `purpose`: what it does, for the error
  /// (run_on_control_thread()). Errors: kNoResources.
  Status start(const char* thread = "ipoib-log", const char* purpose = "writes the log");
  void put(unsigned priority, std::string_view text);
  /// True if a text put next is not lost at once. Shape: one thread puts.
  [[nodiscard]] bool has_room(std::string_view text) const;
  /// Waits until the lines put so far are written. False: they are not.
  [[nodiscard]] bool wait(std::chrono::milliseconds at_most);
  /// wait() for many calls in a row: after one that returned false, the next ones return false at
  /// once, until the thread has written something.
  [[nodiscard]] bool wait_unless_stuck(std::chrono::milliseconds at_most);
  /// Lets the thread write what waits, and ends it. False: the destination takes no more. All
  /// further lines are lost then.
  [[nodiscard]] bool end(std::chrono::milliseconds at_most);

  /// True if every line put so far is written. A signal handler may call it.
  [[nodiscard]] bool settled() const noexcept;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;  ///< Shared with the thread, which may outlive this object.
};

}  // namespace ipoib::app
