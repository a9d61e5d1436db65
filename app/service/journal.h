// SPDX-License-Identifier: BSD-3-Clause
// Log lines for the journal of systemd, which reads the priority of a line from its beginning.
#pragma once

#include <string>
#include <string_view>

namespace ipoib::app {

/// True if `fd` is the stream to the journal that systemd gave this process (JOURNAL_STREAM in
/// systemd.exec(5)).
[[nodiscard]] bool is_journal(int fd);

/// Prefixes each line with "<N>" (sd-daemon(3)). A line may come in several pieces.
class PriorityMarker {
 public:
  /// `priority` is one of syslog(3), 0 to 7.
  [[nodiscard]] std::string mark(std::string_view piece, unsigned priority);

 private:
  bool at_begin_of_line_ = true;
};

}  // namespace ipoib::app
